"""What the functions that make tensors share."""
from libc.stdint cimport int64_t
from cpython.object cimport PyObject
from ..base.device cimport Device
from ..call.operation cimport Op
from ..base.tensor cimport TensorBase

cdef enum:                    # memory formats
    NO_FORMAT = 0
    CONTIGUOUS_FORMAT = 1
    PRESERVE = 2
    CHANNELS_LAST = 3
    CHANNELS_LAST_3D = 4

cdef struct Options:
    int code                  # the dtype requested, -1 for none
    bint requires
    int format
    PyObject* out             # borrowed; NULL for none
    bint pinned               # in page-locked memory
    bint placed               # whether a device was requested
    PyObject* device          # borrowed Device; NULL for the host

ctypedef object (*maker_t)(Op op, PyObject** args, Py_ssize_t nargs, PyObject* names)

cdef class Factory(Op):
    """A function (or method) that makes a tensor."""
    cdef maker_t make
    cdef int own                    # so many of its parameters come before the options that all share

cdef Factory factory(str name, maker_t make, tuple names, int required, str doc)
cdef int bind(Factory op, PyObject** args, Py_ssize_t nargs, PyObject* names, PyObject** bound,
              Options* o) except -1
cdef int read_option(str who, object key, object value, Options* o) except -1
cdef int resolve(Options* o, int code) noexcept
cdef int check_requires(Options* o, int code, str who) except -1
cdef object finish(TensorBase t, Options* o, str who)
cdef int read_sizes(str who, PyObject** args, Py_ssize_t nargs, int64_t* sizes) except -1
cdef int no_options(Options* o) except -1
cdef int bind_sizes(Factory op, PyObject** args, Py_ssize_t nargs, PyObject* names, Options* o,
                    int64_t* sizes) except -1
cdef int64_t size_at(str who, object given, Py_ssize_t k, str argument=*) except -1
cdef int read_tuple(str who, object given, int64_t* sizes) except -1
cdef int read_strides(str who, object given, int rank, const int64_t* sizes, int64_t* strides) except -1
cdef Device where(Options* o, TensorBase model)
cdef TensorBase unfilled(Options* o, int rank, const int64_t* sizes, int code)
cdef TensorBase laid_out(str who, Device device, int rank, const int64_t* sizes, int code, int format)
cdef TensorBase like(str who, Device device, TensorBase model, int code, int format)
