# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""What a tensor knows of its history."""
from ..base.memory cimport Storage
from ..base.tensor cimport ON_TAPE, TensorBase, runtime
from .nodes cimport Node
from .hooks cimport move_retained
from .forward cimport follow


cdef int attach(TensorBase t, Node node, int number) except -1:
    """t is that output of the node."""
    if t.retains:
        move_retained(t, node, number)
    t.fn, t.output_number, t.requires = node, number, True
    t.fn_version = t.storage.version
    if runtime.forward:
        follow(t, node, number)
    return 0


cdef int drop_base(TensorBase t, object given) except -1:
    """Let a result that is a view of something made inside of its operation, which nobody else sees, be no view: its
    history is its own, not its base's.  `given` holds what the operation got; a view of that stays one.
    """
    if t.base is not None and not lies_in(t.storage, given):
        t.base, t.made = None, ON_TAPE
    return 0


cdef bint lies_in(Storage storage, object given):
    """Whether a tensor, or one among these, has that storage."""
    if isinstance(given, TensorBase):
        return (<TensorBase>given).storage is storage
    if isinstance(given, (tuple, list)):
        for g in given:
            if lies_in(storage, g):
                return True
    return False
