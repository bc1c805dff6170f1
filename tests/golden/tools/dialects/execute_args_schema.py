from pydantic import BaseModel, Field

from sandbox import BaseTool, OutputType


class Args(BaseModel):
    url: str = Field(description="Where.")


class FetchTool(BaseTool):
    name = "fetch"
    description = "Fetches a page."
    args_schema = Args
    output_semantic_type = OutputType.FILE_CONTENT

    def execute(self, args): ...
