WEIGHT = 10 * 2
TITLE = "All " + "files"


@tool_metadata(TITLE, weight=WEIGHT)
class FilesTool(Tool):
    """   """

    @method_metadata
    def a(self) -> None:
        """A."""
