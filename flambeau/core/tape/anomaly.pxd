"""Anomaly mode."""
from .nodes cimport Node

cdef bint watching
cdef list watched(Node node, list grads)
