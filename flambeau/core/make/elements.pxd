"""Python numbers as elements of a tensor, and filling tensors with one."""
from libc.stdint cimport int64_t
from ..base.tensor cimport TensorBase

cdef struct Value:            # a Python number
    int category              # 0 bool, 1 int, 2 float, 3 complex
    int wide                  # an int beyond 64 bits: 1; 2 where uint64 holds it, whose bits `whole` has
    int64_t whole
    double real
    double imag

cdef int read_value(object x, Value* v) except -1
cdef int read_number(object x, Value* v) except -1
cdef void load(const char* p, int code, Value* v) noexcept nogil
cdef void store(char* p, int code, const Value* v) noexcept nogil
cdef int check_fits(const Value* v, int code, str who) except -1
cdef int code_of(const Value* v) noexcept nogil
cdef int fill_with(TensorBase t, const Value* v) except -1
