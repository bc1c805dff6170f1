import pandas as pd


def f(a: pd.DataFrame, b: "pd.Series") -> None:
    """Do it.

    Args:
        a: The a.
        b: The b.
    """
