# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The weight's gradient of dense convolutions by the register tile."""
