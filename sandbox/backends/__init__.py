"""Backends: one folder for each way of opening a box, their common base on top."""
