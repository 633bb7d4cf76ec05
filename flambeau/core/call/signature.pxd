"""The parameters of operations: names, spellings, kinds."""
from cpython.object cimport PyObject

cdef enum: MAX_BOUND = 32         # parameters of one operation

cdef enum:                        # kinds of arguments; a parameter takes any of several, 0 for anything
    TENSOR = 1
    NOTHING = 2                   # None
    NUMBER = 4                    # of Python or NumPy, complex ones included
    INT = 8                       # or what has an index; not a bool
    BOOL = 16
    REAL = 32                     # a number that is not complex, or a tensor of one element
    INTS = 64                     # a sequence of ints
    TENSORS = 128                 # a sequence
    TEXT = 256
    DTYPE = 512

cdef class Signature:
    cdef readonly tuple names
    cdef readonly dict defaults   # what is shown of them
    cdef public tuple old         # orders of before, which are still taken: tuples of names
    cdef object whole             # inspect.Signature, where a function has one
    cdef int total
    cdef int positional           # so many may be given by position
    cdef int required             # so many must be given
    cdef bint open                # takes more than its names: *args, **kwargs
    cdef bint checks              # a parameter has a kind
    cdef int kinds[MAX_BOUND]
    cdef dict spellings           # names as given -> as declared
    cdef int place(self, str who, object key) except -1
    cdef int arrange(self, str who, PyObject** args, Py_ssize_t nargs, PyObject* names, PyObject** bound) except -1
    cdef int bind(self, str who, PyObject** args, Py_ssize_t nargs, PyObject* names, PyObject** bound) except -1
    cdef bint names_hold(self, tuple names)
    cdef int check_all(self, str who, PyObject** args, Py_ssize_t nargs, PyObject* names) except -1
    cdef object spelled(self, str who, tuple names)
    cdef int check(self, str who, int k, object value) except -1

cdef Signature signature_of(object function)
cdef object mistaken(str who, str name, int place, int kinds, object value)   # an error to raise
