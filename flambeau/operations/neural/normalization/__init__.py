"""Normalisation over batches, layers, groups and rows."""
