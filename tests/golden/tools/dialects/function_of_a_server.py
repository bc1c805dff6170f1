from typing import Annotated

from fastmcp import Context, FastMCP
from mcp.types import ToolAnnotations
from pydantic import Field

server = FastMCP("numbers")


@server.tool(name="add_numbers", description="Add two numbers.", annotations=ToolAnnotations(readOnlyHint=True))
async def add(a: Annotated[int, Field(description="The first.", ge=0)], b: Annotated[int, "The second."], ctx: Context):
    return a + b


@server.resource("numbers://one")
def one() -> str:
    return "1"


if __name__ == "__main__":
    server.run()
