"""Pipes of data, which PyTorch deprecated: what libraries look for before they take another way."""
