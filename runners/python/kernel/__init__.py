"""Isolation by the kernel: one small module for each facility, each with its contract in the docstring.

Imported as `kernel.<name>` while the runner's own directory is on `sys.path`. Nothing here reaches for more than `os`,
`sys`, `ctypes` and `struct`, because every import is paid for at the start of every box.
"""
