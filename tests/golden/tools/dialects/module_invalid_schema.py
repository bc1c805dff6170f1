TOOL_NAME = "weather"
TOOL_DESCRIPTION = "Tells the weather."
TOOL_PARAMETERS = {"type": "object", "properties": {"city": {"type": "text", "description": "Which city."}}}


async def run(**kwargs): ...
