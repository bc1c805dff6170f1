"""Everything that is checked: `python3 -m tests`, see `tests/__main__.py`."""
