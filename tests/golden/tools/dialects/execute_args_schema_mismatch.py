from pydantic import BaseModel, Field

from sandbox import BaseTool, ToolResult


class Sum(BaseModel):
    left: int = Field(description="The first number.")
    right: int = Field(1, description="The second number.")
    third: int = Field(0, description="The third number.")


class SumTool(BaseTool):
    name = "sum"
    description = "Adds two numbers."
    args_schema = Sum

    def execute(self, left: int, right: int, base: int) -> ToolResult: ...
