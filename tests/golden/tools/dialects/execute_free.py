class AnyTool(BaseTool):
    """Takes anything."""

    def execute(self, args): ...
