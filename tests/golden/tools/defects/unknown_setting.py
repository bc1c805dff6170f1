# /// script
# dependencies = []
# [tool.sandbox]
# polcy = "offline"
# ///
def f() -> None:
    """Do it."""
