from pydantic import BaseModel

from sandbox import BaseTool


class FetchArgs(BaseModel):
    """What to fetch."""

    url: str
    """Where."""
    tries: int = 3
    """How often."""


class FetchTool(BaseTool):
    description = "Fetches a page."

    async def execute(self, args: FetchArgs): ...
