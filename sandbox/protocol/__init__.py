"""The protocol between the engine and a box: frames, messages, and the session with a runner."""
