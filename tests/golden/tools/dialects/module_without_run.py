TOOL_NAME = "weather"


def other() -> None:
    """Do it."""
