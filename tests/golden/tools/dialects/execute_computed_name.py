class AnyTool(BaseTool):
    """Takes anything."""

    name = f"any_{1}"

    def execute(self, args): ...
