"""Artifacts: bytes that are kept for the caller, because they are files, or too much to show.

    bytes from a box ─ arriving ─┐
    what was not shown ──────────┼─ Keeping ─ store ─ the folder of one tenant
                                 ┘                      │
    show, grep, save, list ───────────────── reading ───┘  search (in a process of its own)

`kinds` tells by their content what bytes are. Nothing here opens a path that a tool made, or unpacks anything.
"""
