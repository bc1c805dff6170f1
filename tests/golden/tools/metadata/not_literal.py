@tool_metadata(display_name=NAME, weight=10)
class FilesTool(Tool):
    """A."""

    @method_metadata(description=text())
    def a(self) -> None:
        """A."""
