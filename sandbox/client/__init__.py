"""The clients that users hold: `Sandbox`, `AsyncSandbox`, and the values that their methods return."""
