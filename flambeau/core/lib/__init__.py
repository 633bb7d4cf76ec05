"""BLAS, products, convolutions and sorting on the host."""
