@tool_metadata(display_name=" ", description="")
class FilesTool(Tool):
    """Reads files."""

    @method_metadata(display_name="", description="  ")
    def a(self) -> None: ...
