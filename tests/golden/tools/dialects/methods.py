from sandbox import Tool, method_metadata, openapi_schema, tool_metadata


@tool_metadata(
    display_name="Files & Folders",
    description="Work with files.",
    icon="FolderOpen",
    color="bg-blue-100",
    is_core=True,
    weight=10,
    visible=True,
)
class SandboxFilesTool(Tool):
    """Not this."""

    @method_metadata(display_name="Create", description="Makes one.", is_core=True)
    @openapi_schema(
        {
            "type": "function",
            "function": {
                "name": "create_file",
                "description": "Create a file.",
                "parameters": {
                    "type": "object",
                    "properties": {"path": {"type": "string", "description": "Where."}},
                    "required": ["path"],
                },
            },
        }
    )
    async def create_file(self, path: str): ...

    @openapi_schema({"type": "function", "function": {"name": "read", "description": "Read a file."}})
    def str_replace(self, path: str) -> None:
        """Other words.

        Args:
            path: Where.
        """

    @method_metadata(visible=False)
    def delete_file(self) -> None:
        """Delete."""

    @openapi_schema({"name": "hidden", "description": "Hidden."})
    def _hidden(self): ...

    def helping(self): ...
