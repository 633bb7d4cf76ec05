"""Rows of tables: one at a time, and bags of them."""
