"""Outputs: what a tool returned and printed, fitted to what its reader can take, and never cut silently.

    bytes of a stream ─ capture ─ terminal ─ marks ─┐
                                                    ├─ Ends ─ shaping ─ a form of `forms` ─ Shaped
    value, text ────────────────────────────────────┘

`capture` reads a stream of any length in bounded memory; `terminal` knows what a person would have seen of it, `marks`
which lines of its middle matter. `cuts` knows where a text may be cut, `forms` how an output of each type is fitted,
and `notices` says what was left out. `budgets` decides how much of each output is shown, `tokens` counts in what models
count in, and `memory` makes the shorter form for the history of a conversation.
"""
