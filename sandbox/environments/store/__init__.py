"""The store: environments and package trees, found by their keys, verified, pruned; and recent failures."""
