class DocsTool(BaseTool):
    """Searches the docs.

    It knows all of them.

    ⚠️ **IMPORTANT:** Ask first.

    **When to use**:
    - often
    - always

    **Key Differences:** faster

    Examples:
        docs("x")
    """

    def execute(self, args: dict):
        """Run.

        **Args:**
            query: What for.
        """
