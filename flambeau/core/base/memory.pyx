# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, binding=False, embedsignature=True, embedsignature.format=clinic
"""The host's caching allocator, and Storage, the bytes that tensors share, on the host or on a device.

Freed blocks wait in a free list of their size class: 64-byte steps up to 4 KiB, then four classes a doubling.
Only code that holds the GIL allocates or frees, so the lists need no lock.  Blocks of 2 MiB and more ask for
huge pages, which makes first touch several times cheaper.
"""
from libc.stdlib cimport free, malloc
from libc.stdint cimport int64_t, uint64_t, uintptr_t
from posix.stdlib cimport posix_memalign
from cpython.buffer cimport PyBuffer_FillInfo
from .device cimport Device, CLASSES, ALIGNMENT, class_of, class_bytes
from .device import OutOfMemoryError
from .sizes cimport mul_overflow
from .dtypes import cpu_device
from . import display
cimport cython

cdef extern from *:
    """
    #include <sys/mman.h>
    #ifdef MADV_HUGEPAGE
    #define flambeau_huge(p, n) madvise((p), (n), MADV_HUGEPAGE)
    #else
    #define flambeau_huge(p, n) 0
    #endif
    static __thread int flambeau_inference = 0;
    """
    int flambeau_huge(void* p, size_t n) nogil
    int flambeau_inference         # whether this thread is in inference mode

DEF HUGE_PAGE = 1 << 21
cdef size_t MOST_BYTES = class_bytes(CLASSES - 1)   # of one block

cdef struct FreeBlock:
    FreeBlock* next

cdef FreeBlock* free_lists[CLASSES]
cdef size_t cached_bytes = 0           # in free lists
cdef size_t held_bytes = 0             # in storages
cdef size_t peak_bytes = 0
cdef size_t system_calls = 0
cdef size_t cache_limit = <size_t>4 << 30
cdef size_t memory_limit = <size_t>1 << 62


cdef char* acquire(size_t nbytes, int block) except NULL:
    """A block of that class: a cached one, else a new one; under pressure the cache is given back first."""
    global cached_bytes, held_bytes, peak_bytes, system_calls
    cdef FreeBlock* head = free_lists[block]
    cdef size_t size = class_bytes(block)
    cdef void* memory = NULL
    if head != NULL:
        free_lists[block] = head.next
        cached_bytes -= size
    else:
        if held_bytes + cached_bytes + size > memory_limit:
            empty_cache()
        if held_bytes + size > memory_limit:
            raise OutOfMemoryError(refusal(nbytes))
        system_calls += 1
        if posix_memalign(&memory, HUGE_PAGE if size >= HUGE_PAGE else ALIGNMENT, size) != 0:
            empty_cache()
            if posix_memalign(&memory, ALIGNMENT, size) != 0:
                raise OutOfMemoryError(refusal(nbytes))
        if size >= HUGE_PAGE:
            flambeau_huge(memory, size)
        head = <FreeBlock*>memory
    held_bytes += size
    if held_bytes > peak_bytes:
        peak_bytes = held_bytes
    return <char*>head


cdef void release(char* data, int block) noexcept:
    global cached_bytes, held_bytes
    cdef size_t size = class_bytes(block)
    held_bytes -= size
    if cached_bytes + size > cache_limit:
        free(data)
        return
    (<FreeBlock*>data).next = free_lists[block]
    free_lists[block] = <FreeBlock*>data
    cached_bytes += size


cdef int block_for(size_t nbytes) except -1:
    """The size class of so many bytes; OutOfMemoryError where there is none."""
    if nbytes > MOST_BYTES:
        raise OutOfMemoryError(refusal(nbytes))
    return class_of(nbytes)


cdef void* scratch(int64_t n, int64_t width) except NULL:
    """Memory for n numbers of `width` bytes, for the length of a call: `free` gives it back.  OutOfMemoryError with the bytes
    where they do not fit 64 bits, the limit, or the machine.
    """
    cdef int64_t nbytes
    cdef void* memory
    if mul_overflow(n, width, &nbytes) or n < 0:
        raise OutOfMemoryError(refusal(<object>n * width))
    check_room(nbytes)
    memory = malloc(nbytes if nbytes else 1)
    if memory == NULL:
        empty_cache()
        memory = malloc(nbytes if nbytes else 1)
    if memory == NULL:
        raise OutOfMemoryError(refusal(nbytes))
    return memory


cdef int check_room(size_t nbytes) except -1:
    """OutOfMemoryError where the limit does not leave so many bytes."""
    if nbytes > MOST_BYTES or held_bytes + nbytes > memory_limit:
        raise OutOfMemoryError(refusal(nbytes))
    return 0


def require(nbytes: int) -> None:
    """OutOfMemoryError where the limit, or any machine, has no room for so many bytes: for what others will allocate."""
    if nbytes > MOST_BYTES:
        raise OutOfMemoryError(refusal(nbytes))
    check_room(nbytes)


cdef str refusal(object nbytes):
    cdef str most = f"; the limit is {memory_limit} bytes" if memory_limit < <size_t>1 << 62 else ""
    return (f"{display.NAME}: cannot allocate {nbytes} bytes on the CPU: tensors hold {held_bytes} bytes and the cache "
            f"{cached_bytes} bytes{most}")


def empty_cache() -> None:
    """Give every cached block back to the system."""
    global cached_bytes
    cdef FreeBlock* head
    cdef int block
    for block in range(CLASSES):
        while free_lists[block] != NULL:
            head = free_lists[block]
            free_lists[block] = head.next
            free(head)
    cached_bytes = 0


def memory_stats() -> dict:
    """Bytes held by tensors, their peak, bytes cached for reuse, and how often the system was asked for
    memory.
    """
    return {"allocated_bytes": held_bytes, "peak_allocated_bytes": peak_bytes, "cached_bytes": cached_bytes,
            "system_allocations": system_calls}


def reset_peak_memory_stats() -> None:
    """Start measuring the peak anew."""
    global peak_bytes
    peak_bytes = held_bytes


def set_memory_limit(nbytes: int | None) -> None:
    """Most bytes that tensors on the CPU may hold together; None is no limit.  An allocation beyond it first gives cached
    blocks back, then raises OutOfMemoryError.
    """
    global memory_limit
    if nbytes is not None and nbytes < 0:
        raise ValueError(f"set_memory_limit(): nbytes must be at least 0, got {nbytes}")
    memory_limit = <size_t>1 << 62 if nbytes is None else min(nbytes, 1 << 62)


def set_cache_limit(nbytes: int) -> None:
    """Most bytes that freed tensors leave cached; the default is 4 GiB."""
    global cache_limit
    if nbytes < 0:
        raise ValueError(f"set_cache_limit(): nbytes must be at least 0, got {nbytes}")
    cache_limit = nbytes
    if cached_bytes > cache_limit:
        empty_cache()


cdef bint inferring() noexcept nogil:
    return flambeau_inference


def is_inference_mode_enabled() -> bool:
    """Whether this thread is in inference mode."""
    return flambeau_inference


def _set_inference(bint enabled) -> bool:
    """Enter or leave inference mode; returns what it was."""
    global flambeau_inference
    cdef bint before = flambeau_inference
    flambeau_inference = enabled
    return before


cdef Storage new_storage(size_t nbytes):
    cdef Storage s = Storage.__new__(Storage)
    cdef int block = block_for(nbytes)
    s.data = acquire(nbytes, block)
    s.block = block
    s.length = nbytes
    return s


cdef Storage new_storage_on(Device device, size_t nbytes):
    """Memory of a device, or of the host where `device` is None."""
    cdef Storage s
    cdef int block
    if device is None:
        return new_storage(nbytes)
    s = Storage.__new__(Storage)
    if device.blank:
        s.on, s.length = device, nbytes
        return s
    if nbytes > MOST_BYTES:
        raise OutOfMemoryError(f"{display.NAME}: cannot allocate {nbytes} bytes on {device.place}")
    block = class_of(nbytes)
    s.address = device.acquire(nbytes, block)
    s.on, s.stream = device, device.stream
    s.block, s.length = block, nbytes
    return s


@cython.freelist(256)
@cython.no_gc
cdef class Storage:
    """Bytes that tensors share; `UntypedStorage` in the public namespace.

    Supports the buffer protocol: `memoryview(storage)` is a writable view of the bytes.
    """

    def __cinit__(self, nbytes=None):
        cdef int block
        self.block = -1
        self.writable = True
        self.inference = flambeau_inference
        if nbytes is not None:
            if nbytes < 0:
                raise RuntimeError(f"UntypedStorage(): nbytes must be at least 0, got {nbytes}")
            if nbytes > MOST_BYTES:
                raise OutOfMemoryError(refusal(nbytes))
            block = block_for(nbytes)
            self.data = acquire(nbytes, block)
            self.block = block
            self.length = nbytes

    def __dealloc__(self):
        if self.block >= 0:
            if self.data != NULL:
                release(self.data, self.block)
            elif self.address:
                self.on.release(self.address, self.block, self.stream, self.owner)

    def nbytes(self) -> int:
        return self.length

    def size(self) -> int:
        return self.length

    def __len__(self):
        return self.length

    def data_ptr(self) -> int:
        return self.address if self.on is not None else <uintptr_t>self.data

    @property
    def device(self):
        """Where the bytes are."""
        return cpu_device if self.on is None else self.on.place

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        if self.on is not None:
            raise BufferError(f"the bytes of this storage are on {self.on.place}: copy them to the CPU first")
        PyBuffer_FillInfo(buffer, self, self.data, self.length, not self.writable, flags)

    def __repr__(self):
        return f"<{display.public('UntypedStorage')} of {self.length} bytes>"


def storage_from_address(address: int, nbytes: int, owner, writable: bool = True) -> Storage:
    """Storage over memory that `owner` keeps alive."""
    cdef Storage s = Storage.__new__(Storage)
    s.data = <char*><uintptr_t>address
    s.length = nbytes
    s.owner = owner
    s.writable = writable
    return s
