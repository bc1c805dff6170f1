import os


class FilesTool(Tool):
    def read(self, path: str): ...
