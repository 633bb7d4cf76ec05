"""Graphs: recorded at the dispatcher, optimised, run."""
