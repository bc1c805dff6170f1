"""How the engine and a box talk: frames, messages, and the conversation they make up."""
