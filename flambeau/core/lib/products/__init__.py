"""Products of matrices: BLAS, our own tiles, and what both share."""
