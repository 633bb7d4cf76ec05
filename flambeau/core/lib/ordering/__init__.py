"""Sorting, counting, searching, running extremes."""
