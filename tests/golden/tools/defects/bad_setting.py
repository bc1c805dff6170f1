@tool(return_char_limit="many")
def f() -> None:
    """Do it."""
