"""All checks of the project: `python3 -m tests`, see `tests/__main__.py`."""
