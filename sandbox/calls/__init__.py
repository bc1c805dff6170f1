"""The parts of one call: what the box is told, how it is watched, what its end means, and what protected the host."""
