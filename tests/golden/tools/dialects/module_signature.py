TOOL_NAME = "weather"


async def run(city: str, ctx=None) -> None:
    """Tells the weather.

    Args:
        city: Which city.
    """
