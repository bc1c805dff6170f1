def größe() -> None:
    """Do it."""
