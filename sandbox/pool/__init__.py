"""Pooled boxes: acquire, release, open ahead, retire."""
