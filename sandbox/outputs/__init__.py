"""Outputs: what a tool returned and printed, fitted to what its reader can take, and never cut silently.

Three steps, each on its own page::

    bytes of a stream ─ capture ──┐
                                  ├─ Ends ─ shaping (one function per output type, on cuts) ─ Shaped
    value, text ──────────────────┘

`capture` reads a stream of any length in bounded memory, `cuts` knows where a text may be cut, `shaping` decides how
much of which end is shown and says what was left out.
"""
