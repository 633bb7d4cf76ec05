"""The caching allocator and Storage, the bytes that tensors share."""
from libc.stdint cimport int64_t, uint64_t
from .device cimport Device

cdef class Storage:
    cdef char* data           # NULL for memory of a device
    cdef uint64_t address     # on the device
    cdef Device on            # None: the host
    cdef uint64_t stream      # of the device, where the memory was acquired
    cdef size_t length        # what was requested
    cdef int block            # size class of an own block, -1 for memory that someone else owns
    cdef uint64_t version     # counts writes, so that the tape sees a saved tensor being changed
    cdef uint64_t writes      # counts them all, those through `.data` too: what was made of the bytes holds while it stands
    cdef object __weakref__
    cdef object owner         # keeps foreign memory alive (a NumPy array, a buffer, a Mapping); on a device, other streams that use it
    cdef int64_t exports      # who holds the address without this object's knowledge: open buffers, and arrays, slices, capsules for good
    cdef bint writable
    cdef uint64_t serial      # tells it from all others, for a recorder; 0 until requested
    cdef uint64_t met         # the number of the recording that has met it last
    cdef int64_t met_as       # and the storage's number there
    cdef bint pending         # its bytes are not computed yet: `owner` computes them
    cdef bint inference       # made in inference mode: never saved by the tape, its writes not counted
    cdef bint exposed         # its address was given away: from then on it may be written to without `writes` being raised
    cdef object prepacked     # layouts of its bytes (`prepacked.pyx`), None where there are none

cdef inline bint is_counted(Storage s) noexcept:
    """Whether `writes` tells of all writes: memory of the storage's own whose address nobody else knows."""
    return s.block >= 0 and s.data != NULL and not s.exposed and not s.pending

cdef inline void expose(Storage s) noexcept:
    """Someone gets the address, and keeps it: an array, a capsule, an open buffer."""
    s.exports += 1
    s.exposed = True

cdef bint inferring() noexcept nogil
cdef size_t bytes_held() noexcept nogil      # in storages, on the host
cdef uint64_t serial_of(Storage s) noexcept
cdef Storage new_storage(size_t nbytes)
cdef void* scratch(int64_t n, int64_t width) except NULL    # for the length of a call
cdef int check_memory(size_t nbytes) except -1
cdef str out_of_memory_message(object nbytes)
cdef Storage new_storage_on(Device device, size_t nbytes)
cdef int trade(Storage a, Storage b) except -1   # each takes the other's bytes

cdef struct Deferred:         # who computes pending storages, which `graph/segment` supplies
    int (*settle)(Storage s) except -1           # computes one
    void (*forget)(Storage s) noexcept           # nobody wants it any more

cdef Deferred deferred
cdef int settle(Storage s) except -1             # have its bytes computed, where they are pending
