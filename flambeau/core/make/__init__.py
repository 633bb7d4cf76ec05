"""Tensors from numbers, arrays and random bits."""
