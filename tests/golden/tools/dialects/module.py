TOOL_NAME = "weather"
TOOL_DESCRIPTION = "Tells the weather."
TOOL_PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string", "description": "Which city."}},
    "required": ["city"],
}


async def run(ctx, **kwargs):
    return kwargs["city"]
