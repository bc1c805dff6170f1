def sb_shell_tool() -> None:
    """Runs a shell.

    For real.
    """
