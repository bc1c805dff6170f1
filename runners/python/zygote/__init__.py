"""The process that forks one child per call, and the template that imports packages ahead."""
