@tool_metadata(weight="ten", is_core=1, colour="red")
class FilesTool(Tool):
    """A."""

    @method_metadata()
    def a(self) -> None:
        """A."""
