"""Bundles: environments as files, for machines without a network."""
