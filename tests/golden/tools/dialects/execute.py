from sandbox import BaseTool, ToolResult


class FetchTool(BaseTool):
    """Fetches pages."""

    name = "fetch"
    description = "Fetches a page."
    parameters = {
        "type": "object",
        "properties": {"url": {"type": "string", "description": "Where."}},
        "required": ["url"],
    }

    def execute(self, args: dict) -> ToolResult: ...
