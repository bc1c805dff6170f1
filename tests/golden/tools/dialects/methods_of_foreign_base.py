from agentpress.tool import openapi_schema
from sandbox_base import SandboxToolsBase


class MessageTool(SandboxToolsBase):
    @openapi_schema(
        {"name": "ask", "description": "Ask.", "parameters": {"type": "object", "properties": {}, "required": []}}
    )
    async def ask(self): ...
