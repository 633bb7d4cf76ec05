"""Attention, recurrent layers and bags of rows, in tiles."""
