class FilesTool(Tool):
    """A."""

    @openapi_schema({"name": "a", "description": "A.", "parameters": {"type": "object", "properties": {}}})
    def a(self): ...


class Files(Tool):
    """B."""

    @openapi_schema({"name": "b", "description": "B.", "parameters": {"type": "object", "properties": {}}})
    def b(self): ...
