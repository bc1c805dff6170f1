TOOLS = [
    {"name": "add", "description": "Adds.", "parameters": {}, "handler": lambda: 1},
    {"name": "add", "description": "Adds.", "parameters": {}, "handler": lambda: 2},
]
