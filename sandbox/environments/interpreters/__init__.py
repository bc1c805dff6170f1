"""This host's interpreters: where they are, what they say of themselves, which one a tool gets, its skeleton."""
