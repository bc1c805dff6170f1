from enum import Enum


class Names(str, Enum):
    FETCH = "fetch"


class FetchTool(BaseTool):
    """Fetches a page."""

    name = Names.FETCH

    def execute(self, args): ...
