"""LAPACK, and many small matrices."""
