"""Products and decompositions of matrices."""
