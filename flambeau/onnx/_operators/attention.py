"""Attention and turned positions."""
