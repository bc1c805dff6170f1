class Described(BaseTool):
    """Base text."""


class DocsTool(Described):
    description = "Searches."

    def execute(self, args: dict): ...
