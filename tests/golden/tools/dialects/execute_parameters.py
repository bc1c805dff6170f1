import kit


class Base(kit.tools.BaseTool):
    @property
    def name(self):
        return "fetch"


class FetchTool(Base):
    """Fetches a page."""

    def execute(self, url: str, ctx=None) -> None:
        """Fetch.

        Args:
            url: Where.
        """
