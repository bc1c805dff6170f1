TOOL_NAME = "weather"
TOOL_DESCRIPTION = "Tells the weather."
TOOL_PARAMETERS = {"type": "object", "properties": {"city": {"type": "string", "description": "Which city."}}}


async def run(town, days=1): ...
