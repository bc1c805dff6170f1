TOOL_NAME = make_name()


async def run() -> None:
    """Do it."""
