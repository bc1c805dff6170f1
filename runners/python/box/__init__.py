"""Code that all processes of a box share: channel, frames, pipes, isolation, verification, and the warden."""
