from langchain_core.tools import tool
from pydantic import BaseModel, Field


class Search(BaseModel):
    query: str = Field(description="What to look for.", min_length=1)
    limit: int = Field(default=10, description="How many at most.")


@tool("search", args_schema=Search, return_direct=True)
def find(query: str, limit: int = 10) -> str:
    """Search the web."""
    return query
