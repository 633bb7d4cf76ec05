"""Attention: its backends, in tiles and in blocks."""
