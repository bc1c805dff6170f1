"""Folders on a disk: their owner, their content, their completeness, and their locks."""
