"""From a lock to an environment: wheels are fetched, unpacked in a box, adopted as package trees, and linked."""
