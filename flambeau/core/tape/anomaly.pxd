"""Anomaly mode."""
from .nodes cimport Node

cdef bint anomaly_enabled
cdef list checked(Node node, list grads)
