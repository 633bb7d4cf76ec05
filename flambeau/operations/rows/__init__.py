"""Reductions, scans and what is made of them."""
