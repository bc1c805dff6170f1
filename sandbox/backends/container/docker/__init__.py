"""The Docker daemon: its address, its settings, its errors, and streams to its containers."""
