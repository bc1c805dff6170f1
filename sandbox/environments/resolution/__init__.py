"""From requirements to a lock: what a tool asks for is read, uv is asked in a box, its answer is remembered."""
