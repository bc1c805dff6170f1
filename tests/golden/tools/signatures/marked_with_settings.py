from sandbox import OutputType, tool


@tool(output_type=OutputType.TABLE, return_char_limit=4000, enable_parallel_execution=True)
def f() -> None:
    """Do it."""
