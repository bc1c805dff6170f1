"""Syntax: from bytes of an untrusted source to a syntax tree, its names and its literal values, in bounded time."""
