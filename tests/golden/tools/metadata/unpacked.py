COMMON = {"icon": "file", "weight": 20}


@tool_metadata(**COMMON, color="red")
class FilesTool(Tool):
    """Reads files."""

    @method_metadata(**common())
    def a(self) -> None: ...
