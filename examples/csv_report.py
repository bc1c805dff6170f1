"""Sums up a table: what its columns hold, as a report that people and models can read."""

# /// script
# requires-python = ">=3.9"
# dependencies = ["pandas", "tabulate"]
# ///

import io

import pandas


def csv_report(table: str, group_by: str = "") -> str:
    """Report on a table in CSV.

    Args:
        table: The table's text, with a line of column names.
        group_by: A column whose values the numbers are summed up by.
    """
    frame = pandas.read_csv(io.StringIO(table))
    if group_by:
        return frame.groupby(group_by).sum(numeric_only=True).reset_index().to_markdown(index=False)
    return frame.describe(include="all").fillna("").reset_index(names="").to_markdown(index=False)
