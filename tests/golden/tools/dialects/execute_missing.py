class Lint(BaseTool):
    name = "lint"

    def run(self, args): ...
