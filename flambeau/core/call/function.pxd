"""Operations that are functions of Python or Cython."""
from cpython.object cimport PyObject
from .operation cimport Op

cdef class FunctionOp(Op):
    cdef readonly object function
    cdef bint has_signature         # its signature is known: read when first needed, for an import asks for none
    cdef bint owns                  # its results are views of its arguments at most
    cdef bint has_out               # takes `out=`, which the function itself does not know
    cdef public bint loose          # takes objects as they come, as functions of Python do
    cdef int infer_signature(self) except -1

cdef void without_elements(bint now) noexcept     # the next call computes shapes and dtypes alone: its results are on "meta"
cdef object call_function(PyObject* callable, PyObject** args, size_t flagged, PyObject* names)
cdef str public_name_of(FunctionOp op)
