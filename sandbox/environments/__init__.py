"""The environment that a tool runs in: an interpreter and what is installed for it, known by a key."""

from sandbox.environments.bare import bare_environment
from sandbox.environments.model import Environment

__all__ = ["Environment", "bare_environment"]
