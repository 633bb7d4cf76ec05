# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Operations written in Python: a function whose results belong to the caller.

Here is decided that a result is a view of what the caller gave and of nothing else.  A function may end by giving
a fresh tensor another shape; as `_unsafe_view` in PyTorch, that is no view then: nobody else has the tensor below.
"""
from cpython.object cimport PyObject
from .dispatch cimport Op, make_callable, prepare_op
from .errors import ascribe
from ..tape.tape cimport lies_in
from ..base.tensor cimport ON_TAPE, TensorBase

cdef extern from "Python.h":
    Py_ssize_t PyVectorcall_NARGS(size_t n)
    object PyObject_Vectorcall(object callable, PyObject** args, size_t nargs, PyObject* names)


cdef class ComposedOp(Op):
    """The operation that a Python function computes from other operations."""

    cdef object function

    def __cinit__(self, function):
        prepare_op(self, function.__name__, call_composed)
        self.function = function
        vars(self).update(vars(function))
        setattr(self, "__module__", function.__module__)
        setattr(self, "__doc__", function.__doc__)
        setattr(self, "__wrapped__", function)  # where `inspect` finds the signature


cdef str own_name(ComposedOp op):
    """The name that users call an operation by, without its path."""
    return getattr(op, "public_name", op.name).rpartition(".")[2]


cdef object call_composed(PyObject* callable, PyObject** args, size_t flagged, PyObject* names):
    cdef object found
    try:
        found = PyObject_Vectorcall((<ComposedOp>callable).function, args, flagged, names)
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        ascribe(error, own_name(<ComposedOp>callable))
        raise
    if isinstance(found, TensorBase):
        if (<TensorBase>found).base is not None:
            release(<TensorBase>found, args, flagged, names)
    elif isinstance(found, (tuple, list)):
        for t in found:
            if isinstance(t, TensorBase) and (<TensorBase>t).base is not None:
                release(<TensorBase>t, args, flagged, names)
    return found


cdef int release(TensorBase t, PyObject** args, size_t flagged, PyObject* names) except -1:
    cdef Py_ssize_t k, given = PyVectorcall_NARGS(flagged)
    if names != NULL:
        given += len(<tuple>names)
    for k in range(given):
        if lies_in(t.storage, <object>args[k]):
            return 0
    t.base, t.made = None, ON_TAPE
    return 0


make_callable(ComposedOp, ComposedOp(lambda: None))
