# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Operations that are functions of Python or Cython, and whose their results are.

Here is decided that a result is a view of what the caller gave and of nothing else.  A function may end by giving
a fresh tensor another shape; as `_unsafe_view` in PyTorch, that is no view then: nobody else has the tensor below.
"""
from cpython.object cimport PyObject
from ..base.tensor cimport ON_TAPE, TensorBase
from ..tape.history cimport lies_in
from .operation cimport Op, make_callable, prepare_op
from .signature cimport Signature, signature_of

cdef extern from "Python.h":
    Py_ssize_t PyVectorcall_NARGS(size_t n)
    object PyObject_Vectorcall(object callable, PyObject** args, size_t nargs, PyObject* names)


cdef class FunctionOp(Op):
    """The operation that a function computes."""

    cdef readonly object function
    cdef bint owns                  # its results are views of its arguments at most

    def __cinit__(self, function, str name=None, bint owns=True):
        prepare_op(self, name or function.__name__, call_function)
        self.function, self.owns = function, owns
        self.signature = signature_of(function)
        vars(self).update(getattr(function, "__dict__", {}))
        setattr(self, "__module__", getattr(function, "__module__", None))
        setattr(self, "__doc__", function.__doc__)

    @property
    def __code__(self):
        """The code of a function in Python, for who looks where an operation stands."""
        return self.function.__code__


cdef object call_function(PyObject* callable, PyObject** args, size_t flagged, PyObject* names):
    cdef FunctionOp op = <FunctionOp>callable
    cdef Signature signature = op.signature
    cdef Py_ssize_t nargs = PyVectorcall_NARGS(flagged)
    cdef object found, keywords
    if signature is not None:
        if names != NULL and not signature.names_hold(<tuple>names):
            keywords = signature.spelled(op.name, <tuple>names)
            names = <PyObject*>keywords
        if signature.checks:
            signature.check_all(op.name, args, nargs, names)
    found = PyObject_Vectorcall(op.function, args, flagged, names)
    if op.owns:
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


make_callable(FunctionOp, FunctionOp(lambda: None))
