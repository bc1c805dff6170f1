TOOL_NAME = "weather"
TOOL_DESCRIPTION = "Tells " + "the weather."
TOOL_PARAMETERS = {"city": {"type": "string", "description": "Which city.", "required": True}}


async def run(city: str):
    return city
