"""Boxes that are containers of a Docker daemon, or of what speaks its protocol."""
