# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Kernels by their keys, for the host and for other devices."""
from libc.stdlib cimport calloc
from libc.stdint cimport uint64_t
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from ..base.device cimport Device
from ..base.tensor cimport TensorBase


cdef Kernel* insert(Table* table, uint64_t key0, uint64_t key1, kernel_t run, tuple codes) except NULL:
    """Open addressing, at most half full."""
    cdef Kernel* old = table.entries
    cdef int i, k, capacity = table.capacity
    if (table.used + 1) * 2 > capacity:
        table.entries = <Kernel*>calloc(max(capacity * 2, 8), sizeof(Kernel))
        if table.entries == NULL:
            table.entries = old
            raise MemoryError
        table.capacity = max(capacity * 2, 8)
        for k in range(capacity):
            if old[k].run != NULL:
                i = mixed(old[k].key0, old[k].key1) & (table.capacity - 1)
                while table.entries[i].run != NULL:
                    i = (i + 1) & (table.capacity - 1)
                table.entries[i] = old[k]
        # the old entries stay: a thread without the GIL may be reading one
    i = mixed(key0, key1) & (table.capacity - 1)
    while table.entries[i].run != NULL:
        i = (i + 1) & (table.capacity - 1)
    table.entries[i].key0, table.entries[i].key1 = key0, key1
    for k in range(len(codes)):
        table.entries[i].codes[k] = codes[k]
    table.entries[i].run = run
    table.used += 1
    return &table.entries[i]


# --- other devices than the host ------------------------------
cdef class Family:
    """A kernel for all devices and in all forms; see `launch.pyx`."""

    def __cinit__(self, kernel):
        self.kernel, self.loaded = kernel, {}
        self.checks = hasattr(kernel, "checks") and kernel.checks()
        self.narrow = [d in ("float32", "float16", "bfloat16") for d in kernel.params]  # not read by indexed kernels


cdef Kernel* insert_family(Table* table, uint64_t key0, uint64_t key1, object kernel, tuple codes) except NULL:
    """Enter a kernel that is compiled when a device has to run it."""
    family = Family(kernel)
    Py_INCREF(family)         # tables live as long as the process
    return insert(table, key0, key1, <kernel_t><void*>family, codes)


cdef Device one_device(str who, PyObject** tensors, int n):
    """Where all those tensors are (some may be NULL): None for the host; RuntimeError where they are apart."""
    cdef TensorBase t
    cdef Device device = None
    cdef int k
    cdef bint first = True
    for k in range(n):
        if tensors[k] != NULL:
            t = <TensorBase>tensors[k]
            if first:
                device, first = t.storage.on, False
            elif t.storage.on is not device:
                raise apart(who, [(<TensorBase>tensors[i]).device for i in range(n) if tensors[i] != NULL])
    return device


cdef object apart(str who, list places):
    """The error for tensors on several devices; other devices are named before the CPU."""
    names = sorted({str(p) for p in places}, key=lambda name: (name == "cpu", name))
    return RuntimeError(f"{who}(): Expected all tensors to be on the same device, but found at least two devices, {names[0]} and "
                        f"{names[1]}!")
