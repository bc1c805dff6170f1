from sandbox import tool


@tool(name="search_web", description="Search.")
def f(query: str) -> None:
    """Do it.

    Args:
        query: What for.
    """


def g(): ...
