from typing import Type

from pydantic import BaseModel, Field

from sandbox import BaseTool, ToolResult


class Sum(BaseModel):
    left: int = Field(description="The first number.")
    right: int = Field(1, ge=0, description="The second number.")


class SumTool(BaseTool):
    name: str = "sum"
    description: str = "Adds two numbers."
    args_schema: Type[BaseModel] = Sum

    def execute(self, left: int, right: int = 1) -> ToolResult:
        """Add them."""
        return ToolResult(True, stdout=str(left + right))
