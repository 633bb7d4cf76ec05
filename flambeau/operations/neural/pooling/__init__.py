"""Pooling, and pooling turned round."""
