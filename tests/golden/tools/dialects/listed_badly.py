TOOLS = [{"name": "add"}, {"name": NAME, "handler": f}, 3]
