"""What users hold: `Sandbox`, `AsyncSandbox` and what their methods return."""
