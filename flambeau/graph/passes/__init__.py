"""Passes over programs, before calls are grouped; each gives the program's bits."""
