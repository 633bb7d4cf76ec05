"""Hooks of tensors and nodes, and gradients that results keep."""
from ..base.tensor cimport TensorBase
from .nodes cimport Node

cdef int move_retained(TensorBase t, Node node, int number) except -1
cdef object replaced(hook, grad, changed)
cdef list run_pre_hooks(Node node, list grads)
cdef list run_post_hooks(Node node, list results, list grads)
