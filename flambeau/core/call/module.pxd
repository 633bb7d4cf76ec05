"""What runs at every call of an `nn.Module`."""
from cpython.object cimport PyObject

cdef struct Inner:            # of functions whose modules are compiled one by one, which `graph/compiled` runs
    int running               # how many there are, in all threads
    object (*call)(object module, tuple args, PyObject* kwargs)    # of a module; NotImplemented where it runs as it is

cdef Inner inner
