"""What every process of a box shares: the channel, frames, pipes, isolation, limits, and the warden."""
