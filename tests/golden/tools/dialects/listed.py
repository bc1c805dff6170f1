def _add(a: int, b: int): ...


def negate(args): ...


TOOLS = [
    {
        "name": "add",
        "description": "Adds.",
        "parameters": {
            "type": "object",
            "properties": {
                "a": {"type": "integer", "description": "The a."},
                "b": {"type": "integer", "description": "The b."},
            },
            "required": ["a", "b"],
        },
        "handler": _add,
    },
    {
        "name": "negate",
        "description": "Negates.",
        "parameters": {"a": {"type": "integer", "description": "The a.", "required": True}},
        "handler": negate,
    },
    dict(name="odd", description="Odd?", parameters={}, handler=lambda: 1),
]
