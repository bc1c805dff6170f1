"""How the engine and a box talk: frames, messages, and the session they make up."""
