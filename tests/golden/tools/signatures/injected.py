async def f(a: int, agent_state, agent_id: str, ctx=None, *, client=None) -> None:
    """Do it.

    Args:
        a: The a.
        agent_state: Not for models.
    """
