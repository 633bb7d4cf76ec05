# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, binding=False, embedsignature=True, embedsignature.format=clinic
"""The host's caching allocator, and Storage, the bytes that tensors share, on the host or on a device.

Freed blocks wait in a free list of their size class: 64-byte steps up to 4 KiB, then four classes a doubling.
Only code that holds the GIL allocates or frees, so the lists need no lock.  Blocks of 2 MiB and more ask for
huge pages, which makes first touch several times cheaper.

A block of any size waits, so that the next result of its size meets no page for the first time, as long as all that wait take at most a
quarter of the machine's memory, and 4 GiB.  Where they would take more, those that waited go: they are of the sizes of another time.  All go
where the system has no memory to give, and where it has little: large blocks look at that when they are freed.
"""
from libc.stdlib cimport free, malloc
from libc.stdint cimport int64_t, uint64_t, uintptr_t
from posix.stdlib cimport posix_memalign
from cpython.buffer cimport PyBuffer_FillInfo
from libc.string cimport memcpy, memmove, memset
from .device cimport Device, CLASSES, ALIGNMENT, class_of, class_bytes
from .device import OutOfMemoryError
from .sizes cimport mul_overflow
from .dtypes import cpu_device
from .mapping cimport Mapping, new_shared, of_descriptor, of_file
from .callbacks import callbacks
from .dtypes import by_name
from . import display
import os
import sys
cimport cython

cdef extern from *:
    """
    #include <sys/mman.h>
    #ifdef MADV_HUGEPAGE
    #define flambeau_huge(p, n) madvise((p), (n), MADV_HUGEPAGE)
    #else
    #define flambeau_huge(p, n) 0
    #endif
    #ifdef __linux__
    #define flambeau_unused(p, n) madvise((p), (n), MADV_DONTNEED)    /* whole pages of private memory: zeros from now on */
    #else
    #define flambeau_unused(p, n) 0
    #endif
    #include <unistd.h>
    static __thread int flambeau_inference = 0;
    """
    int flambeau_unused(void* p, size_t n)
    int close(int descriptor)
    int flambeau_huge(void* p, size_t n) nogil
    int flambeau_inference         # whether this thread is in inference mode

cdef extern from "machine_memory.h":
    uint64_t flambeau_memory_of_machine()
    uint64_t flambeau_memory_available()

DEF HUGE_PAGE = 1 << 21
DEF PAGE = 1 << 16        # a multiple of every system's
DEF LOOK_FROM = 1 << 26   # bytes of a block: to look at the system's memory takes some 20 µs, to touch so many thousands
cdef size_t MOST_BYTES = class_bytes(CLASSES - 1)   # of one block

cdef struct FreeBlock:
    FreeBlock* next

cdef FreeBlock* free_lists[CLASSES]
cdef size_t cached_bytes = 0           # in free lists
cdef size_t held_bytes = 0             # in storages
cdef size_t peak_bytes = 0
cdef size_t system_calls = 0
cdef size_t machine_bytes = flambeau_memory_of_machine()
cdef size_t cache_limit = min(<size_t>4 << 30, machine_bytes // 4)   # of each process: there may be several
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
            give_back()
        if held_bytes + size > memory_limit:
            raise OutOfMemoryError(out_of_memory_message(nbytes))
        system_calls += 1
        if posix_memalign(&memory, HUGE_PAGE if size >= HUGE_PAGE else ALIGNMENT, size) != 0:
            give_back()
            if posix_memalign(&memory, ALIGNMENT, size) != 0:
                raise OutOfMemoryError(out_of_memory_message(nbytes))
        if size >= HUGE_PAGE:
            flambeau_huge(memory, size)
        head = <FreeBlock*>memory
    held_bytes += size
    if held_bytes > peak_bytes:
        peak_bytes = held_bytes
    return <char*>head


cdef size_t bytes_held() noexcept nogil:
    return held_bytes


cdef void release(char* data, int block) noexcept:
    global cached_bytes, held_bytes
    cdef size_t size = class_bytes(block)
    held_bytes -= size
    if size > cache_limit:
        free(data)
        return
    if size >= LOOK_FROM and flambeau_memory_available() < machine_bytes // 8:
        free(data)
        give_back()
        return
    if cached_bytes + size > cache_limit:
        give_back()
    (<FreeBlock*>data).next = free_lists[block]
    free_lists[block] = <FreeBlock*>data
    cached_bytes += size


cdef void give_back() noexcept:
    """Every cached block to the system."""
    global cached_bytes
    cdef FreeBlock* head
    cdef int block
    for block in range(CLASSES):
        while free_lists[block] != NULL:
            head = free_lists[block]
            free_lists[block] = head.next
            free(head)
    cached_bytes = 0


cdef int block_for(size_t nbytes) except -1:
    """The size class of so many bytes; OutOfMemoryError where there is none."""
    if nbytes > MOST_BYTES:
        raise OutOfMemoryError(out_of_memory_message(nbytes))
    return class_of(nbytes)


cdef void* scratch(int64_t n, int64_t width) except NULL:
    """Memory for n numbers of `width` bytes, for the length of a call: `free` gives it back.  OutOfMemoryError with the bytes
    where they do not fit 64 bits, the limit, or the machine.
    """
    cdef int64_t nbytes
    cdef void* memory
    if mul_overflow(n, width, &nbytes) or n < 0:
        raise OutOfMemoryError(out_of_memory_message(<object>n * width))
    check_memory(nbytes)
    memory = malloc(nbytes if nbytes else 1)
    if memory == NULL:
        give_back()
        memory = malloc(nbytes if nbytes else 1)
    if memory == NULL:
        raise OutOfMemoryError(out_of_memory_message(nbytes))
    return memory


cdef int check_memory(size_t nbytes) except -1:
    """OutOfMemoryError where the limit does not leave so many bytes."""
    if nbytes > MOST_BYTES or held_bytes + nbytes > memory_limit:
        raise OutOfMemoryError(out_of_memory_message(nbytes))
    return 0


def bytes_of_block(nbytes: int) -> int:
    """The bytes of the block that the allocator hands out for so many."""
    return class_bytes(block_for(nbytes))


def require(nbytes: int) -> None:
    """OutOfMemoryError where the limit, or any machine, has no room for so many bytes: for what others will allocate."""
    if nbytes > MOST_BYTES:
        raise OutOfMemoryError(out_of_memory_message(nbytes))
    check_memory(nbytes)


cdef str out_of_memory_message(object nbytes):
    cdef str most = f"; the limit is {memory_limit} bytes" if memory_limit < <size_t>1 << 62 else ""
    return (f"{display.NAME}: cannot allocate {nbytes} bytes on the CPU: tensors hold {held_bytes} bytes and the cache "
            f"{cached_bytes} bytes{most}")


def empty_cache() -> None:
    """Give every cached block back to the system.

    >>> import flambeau
    >>> flambeau.cpu.empty_cache()
    >>> flambeau.cpu.memory_stats()["cached_bytes"]
    0
    """
    give_back()


def memory_stats() -> dict:
    """Bytes held by tensors, their peak, bytes cached for reuse, and how often the system was called for
    memory.

    >>> import flambeau
    >>> sorted(flambeau.cpu.memory_stats())
    ['allocated_bytes', 'cached_bytes', 'peak_allocated_bytes', 'system_allocations']
    """
    return {"allocated_bytes": held_bytes, "peak_allocated_bytes": peak_bytes, "cached_bytes": cached_bytes,
            "system_allocations": system_calls}


def reset_peak_memory_stats() -> None:
    """Start measuring the peak anew.

    >>> import flambeau
    >>> flambeau.cpu.reset_peak_memory_stats()
    >>> stats = flambeau.cpu.memory_stats()
    >>> stats["peak_allocated_bytes"] >= stats["allocated_bytes"]
    True
    """
    global peak_bytes
    peak_bytes = held_bytes


def set_memory_limit(nbytes: int | None) -> None:
    """Most bytes that tensors on the CPU may hold together; None is no limit.  An allocation beyond it first gives cached
    blocks back, then raises OutOfMemoryError.

    Raises:
        ValueError: the number is negative
        TypeError: it is neither an int nor None

    >>> import flambeau
    >>> flambeau.cpu.set_memory_limit(1 << 40)
    >>> try:
    ...     flambeau.empty(1 << 41, dtype=flambeau.uint8)
    ... except flambeau.OutOfMemoryError as error:
    ...     print(str(error).rpartition("; ")[2])
    the limit is 1099511627776 bytes
    >>> flambeau.cpu.set_memory_limit(None)
    """
    global memory_limit
    if nbytes is not None and nbytes < 0:
        raise ValueError(f"set_memory_limit(): nbytes must be at least 0, got {nbytes}")
    memory_limit = <size_t>1 << 62 if nbytes is None else min(nbytes, 1 << 62)


def set_cache_limit(nbytes: int) -> None:
    """Most bytes that freed tensors leave cached; the default is 4 GiB, or a quarter of the machine's memory or of what the process's container
    may have of it.

    Raises:
        ValueError: the number is negative
        TypeError: it is no int

    >>> import flambeau
    >>> flambeau.cpu.set_cache_limit(1 << 32)
    """
    global cache_limit
    if nbytes < 0:
        raise ValueError(f"set_cache_limit(): nbytes must be at least 0, got {nbytes}")
    cache_limit = nbytes
    if cached_bytes > cache_limit:
        give_back()


cdef bint inferring() noexcept nogil:
    return flambeau_inference


def is_inference_mode_enabled() -> bool:
    """Whether this thread is in inference mode.

    >>> import flambeau
    >>> with flambeau.inference_mode():
    ...     print(flambeau.is_inference_mode_enabled())
    True
    """
    return <bint>flambeau_inference


def _set_inference(bint enabled) -> bool:
    """Enter or leave inference mode; returns what it was."""
    global flambeau_inference
    cdef bint before = flambeau_inference
    flambeau_inference = enabled
    return before


cdef uint64_t serials = 0


cdef uint64_t serial_of(Storage s) noexcept:
    """The serial number of a storage, under Python's lock."""
    global serials
    if s.serial == 0:
        serials += 1
        s.serial = serials
    return s.serial


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
    s.on, s.stream = device, device.stream()
    s.block, s.length = block, nbytes
    return s


cdef Storage storage_over(Mapping mapping):
    """A storage that is all of a mapping."""
    cdef Storage s = Storage.__new__(Storage)
    s.data, s.length, s.owner = mapping.data, mapping.length, mapping
    return s


cdef int settle(Storage s) except -1:
    return deferred.settle(s) if s.pending else 0


cdef int trade(Storage a, Storage b) except -1:
    """Each takes the other's bytes: the tensors over both see it, for they ask their storage."""
    a.data, b.data = b.data, a.data
    a.address, b.address = b.address, a.address
    a.on, b.on = b.on, a.on
    a.stream, b.stream = b.stream, a.stream
    a.length, b.length = b.length, a.length
    a.block, b.block = b.block, a.block
    a.owner, b.owner = b.owner, a.owner
    a.writable, b.writable = b.writable, a.writable
    a.exposed = b.exposed = a.exposed or b.exposed
    a.writes += 1
    b.writes += 1
    a.prepacked = b.prepacked = None
    return 0


cdef size_t bytes_wanted(object nbytes, str who) except? 18446744073709551615:
    """A size given by a user: TypeError for what is no int, RuntimeError for a negative one, OutOfMemoryError beyond 64 bits."""
    if isinstance(nbytes, bool) or not hasattr(nbytes, "__index__"):
        raise TypeError(f"{who}(): argument 'nbytes' must be int, not {type(nbytes).__name__}")
    nbytes = nbytes.__index__()
    if nbytes < 0:
        raise RuntimeError(f"{who}(): nbytes must be at least 0, got {nbytes}")
    if nbytes > MOST_BYTES:
        raise OutOfMemoryError(out_of_memory_message(nbytes))
    return nbytes


cdef int check_writes(Storage self, str who) except -1:
    if not self.writable:
        raise RuntimeError(f"{who}(): the memory of the storage written to is read-only")
    self.version += 1
    self.writes += 1
    return 0


cdef int range_of(Storage self, object key, size_t* start, size_t* stop) except -1:
    """The bytes that an index or a slice names."""
    if self.on is not None and self.on.blank:
        raise NotImplementedError("Not available for 'meta' device type")
    if isinstance(key, slice):
        first, last, step = key.indices(self.length)
        if step != 1:
            raise RuntimeError(f"Trying to slice with a step of {step}, but only a step of 1 is supported")
    elif isinstance(key, bool) or not hasattr(key, "__index__"):
        raise TypeError(f"can't index a {display.public('UntypedStorage')} with {type(key).__name__}")
    else:
        first = key.__index__()
        if not -<object>self.length <= first < self.length:
            raise IndexError(f"index {first} out of range for storage of size {self.length}")
        first %= <object>self.length
        last = first + 1
    start[0], stop[0] = first, max(first, last)
    return 0


cdef Mapping mapping_of(Storage self, str who):
    if not isinstance(self.owner, Mapping) or not (<Mapping>self.owner).shared:
        raise RuntimeError(f"{who}(): the storage is not in shared memory: call share_memory_() first")
    return <Mapping>self.owner


@cython.freelist(256)
@cython.no_gc
cdef class Storage:
    """Bytes that tensors share; `UntypedStorage` in the public namespace.

    `UntypedStorage(n)` has n bytes that are not set, `UntypedStorage([1, 2, 3])` these; `device` is where, by default the CPU.
    Supports the buffer protocol: `memoryview(storage)` is a writable view of the bytes.  An index gives a byte, a slice gives a
    storage over the same memory.

    Raises:
        TypeError: the argument is neither an int nor a sequence of ints
        RuntimeError: the number is negative, or there is no such device

    >>> import flambeau
    >>> s = flambeau.UntypedStorage([1, 2, 3, 4])
    >>> s[1:3][0] = 9
    >>> s.tolist()
    [1, 9, 3, 4]
    """

    def __cinit__(self):
        # Every new tensor comes by here: arguments, which only users give, are read in `__init__`.
        self.block = -1
        self.writable = True
        self.inference = flambeau_inference

    def __init__(self, nbytes=None, *, device=None):
        cdef int block
        if self.block >= 0 or self.owner is not None or self.on is not None or self.length:
            raise RuntimeError("UntypedStorage(): this storage has its bytes already")
        if nbytes is None:
            return
        if type(nbytes) is not int or device is not None:
            trade(self, <Storage?>callbacks["storage.of"](nbytes, device))
            return
        if nbytes < 0:
            raise RuntimeError(f"UntypedStorage(): nbytes must be at least 0, got {nbytes}")
        if nbytes > MOST_BYTES:
            raise OutOfMemoryError(out_of_memory_message(nbytes))
        block = block_for(nbytes)
        self.data = acquire(nbytes, block)
        self.block = block
        self.length = nbytes

    def __dealloc__(self):
        if self.pending:
            deferred.forget(self)
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

    def element_size(self) -> int:
        """Bytes of one element: 1."""
        return 1

    def data_ptr(self) -> int:
        """Address of the first byte."""
        self.exposed = True
        return self._address()

    def _address(self) -> int:
        """`data_ptr()` for comparisons: nobody reads or writes there."""
        return self.address if self.on is not None else <uintptr_t>self.data

    @property
    def device(self):
        """Where the bytes are."""
        return cpu_device if self.on is None else self.on.place

    def get_device(self) -> int:
        """The device's number; -1 on the CPU."""
        return -1 if self.on is None else self.on.index

    @property
    def is_cuda(self) -> bool:
        return self.on is not None and self.on.type == "cuda"

    is_sparse = False
    is_sparse_csr = False

    def untyped(self):
        return self

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        if self.on is not None:
            raise BufferError(f"the bytes of this storage are on {self.on.place}: copy them to the CPU first")
        PyBuffer_FillInfo(buffer, self, self.data, self.length, not self.writable, flags)
        expose(self)

    def __releasebuffer__(self, Py_buffer* buffer):
        self.exports -= 1

    def _read_only(self) -> memoryview:
        """The bytes for who only reads them: the storage does not count as exposed for that."""
        cdef bint before = self.exposed
        view = memoryview(self).toreadonly()
        self.exposed = before
        return view

    def _fill(self, write) -> None:
        """Let `write` set the bytes through a memoryview that ends with this call; where it has kept a part, the storage counts as
        exposed.
        """
        cdef bint before = self.exposed
        cdef int64_t exports = self.exports
        view = memoryview(self)
        write(view)
        view.release()
        self.writes += 1
        if self.exports == exports:
            self.exposed = before

    def __repr__(self):
        return f"<{display.public('UntypedStorage')} of {self.length} bytes>"

    # bytes
    def tolist(self) -> list:
        """The bytes as ints."""
        return self.cpu()._read_only().tolist()

    def __iter__(self):
        return iter(self.tolist())

    def __getitem__(self, key):
        cdef Storage part
        cdef size_t start, stop
        range_of(self, key, &start, &stop)
        if not isinstance(key, slice):
            if self.on is None:
                return <unsigned char>self.data[start]
            return callbacks["storage.elements"](self)[start].item()
        part = Storage.__new__(Storage)
        part.length = stop - start
        part.on, part.stream, part.owner, part.writable = self.on, self.stream, self, self.writable
        if self.on is None:
            part.data = self.data + start
        else:
            part.address = self.address + start
        expose(self)
        return part

    def __setitem__(self, key, value):
        cdef size_t start, stop
        range_of(self, key, &start, &stop)
        if isinstance(value, bool) or not isinstance(value, int):
            raise RuntimeError(f"can only set storage content with a int types, but got {type(value).__name__} instead")
        check_writes(self, "__setitem__")
        if self.on is None:
            memset(self.data + start, value & 255, stop - start)
        else:
            callbacks["storage.elements"](self)[start:stop].fill_(value & 255)

    def fill_(self, value):
        """Set every byte to an int's lowest eight bits; RuntimeError for what is no int."""
        if isinstance(value, bool) or not isinstance(value, int):
            raise RuntimeError(f"fill_ expects int, but got {type(value).__name__}")
        check_writes(self, "fill_")
        if self.on is None:
            memset(self.data, value & 255, self.length)
        else:
            callbacks["storage.elements"](self).fill_(value & 255)
        return self

    def copy_(self, source, non_blocking=False):
        """Copy the bytes of another storage, of any device; RuntimeError where it has not as many."""
        cdef Storage s
        if not isinstance(source, Storage):
            raise TypeError(f"copy_(): argument 'source' must be UntypedStorage, not {type(source).__name__}")
        s = <Storage>source
        if s.length != self.length:
            raise RuntimeError(f"size does not match, self was {self.length} bytes but src was {s.length} bytes")
        check_writes(self, "copy_")
        if self.on is None and s.on is None:
            memmove(self.data, s.data, self.length)
        else:
            callbacks["storage.elements"](self).copy_(callbacks["storage.elements"](s))
        return self

    def clone(self):
        """A copy of this storage, on its device, in memory of its own."""
        return new_storage_on(self.on, self.length).copy_(self)

    def __copy__(self):
        return self.clone()

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            memo[id(self)] = self.clone()
            memo[id(memo[id(self)])] = self
        return memo[id(self)]

    def new(self):
        """An empty storage on the same device."""
        return new_storage_on(self.on, 0)

    def byteswap(self, dtype) -> None:
        """Turn the order of the bytes in each element of that dtype around; in each half of a complex element."""
        cdef size_t width = dtype.itemsize // (2 if dtype.is_complex else 1), i, k
        cdef char held
        if self.on is not None:
            raise RuntimeError(f"byteswap(): the bytes of this storage are on {self.on.place}: copy them to the CPU first")
        if self.length % width:
            raise RuntimeError(f"byteswap(): the size of {self.length} bytes must be a multiple of {width}")
        check_writes(self, "byteswap")
        for i in range(0, self.length, width):
            for k in range(width // 2):
                held = self.data[i + k]
                self.data[i + k] = self.data[i + width - 1 - k]
                self.data[i + width - 1 - k] = held

    def resizable(self) -> bool:
        """Whether `resize_` works: for memory of the storage's own, which is neither shared, a file's, nor someone else's."""
        return self.block >= 0 or (self.on is not None and self.on.blank)

    def resize_(self, nbytes):
        """Another number of bytes, in place: every tensor over this storage sees it.  Bytes that are added are not set.

        Memory that a tensor may reach is never taken away: where the storage becomes shorter, tensors over it read what was
        there or, where the system took whole pages back, zeros.  RuntimeError for memory that is not resizable.
        """
        cdef size_t wanted = bytes_wanted(nbytes, "resize_"), capacity, kept
        cdef Storage larger
        if not self.resizable():
            raise RuntimeError("Trying to resize storage that is not resizable")
        capacity = class_bytes(self.block) if self.block >= 0 else MOST_BYTES
        if wanted > capacity:
            larger = new_storage_on(self.on, wanted)
            if self.on is None:
                memcpy(larger.data, self.data, self.length)
            elif self.length:
                self.on.copy_within(larger.address, self.address, self.length)
            trade(self, larger)
            if self.exports:
                self.owner = larger    # the former memory
            return self
        if self.on is None and wanted < self.length and capacity >= HUGE_PAGE:
            kept = (wanted + PAGE - 1) // PAGE * PAGE
            flambeau_unused(self.data + kept, capacity - kept)
            self.writes += 1
        self.length = wanted
        return self

    # places and kinds
    def cpu(self):
        """The bytes on the CPU: this storage where it is there already."""
        return self if self.on is None else new_storage(self.length).copy_(self)

    def to(self, *, device, non_blocking=False):
        """The bytes on a device: this storage where it is there already."""
        return callbacks["storage.elements"](self).to(device, non_blocking=non_blocking).untyped_storage()

    def cuda(self, device=None, non_blocking=False):
        """The bytes on a CUDA device."""
        return callbacks["storage.elements"](self).cuda(device, non_blocking=non_blocking).untyped_storage()

    def is_pinned(self, device=None) -> bool:
        """Whether an accelerator copies from this memory directly."""
        return callbacks["storage.elements"](self).is_pinned()

    def pin_memory(self, device=None):
        """A copy in pinned memory; TypeError for bytes that are not on the CPU."""
        if self.on is not None:
            raise TypeError(f"cannot pin '{display.public('UntypedStorage')}' on {self.on.place}: only CPU memory can be pinned")
        return callbacks["storage.elements"](self).pin_memory().untyped_storage()

    def type(self, dtype=None, non_blocking=False):
        """The name of its class; with the name of a typed class or a class, the bytes converted as by `float` …."""
        if dtype is None:
            return display.public("UntypedStorage")
        return callbacks["storage.typed"](self, dtype)

    def _to(self, dtype):
        """Each byte as an element of that dtype, in a `TypedStorage`."""
        return callbacks["storage.typed"](self, dtype)

    def double(self):
        """The bytes as elements of float64, in a `TypedStorage`."""
        return self._to(by_name["float64"])

    def float(self):
        """The bytes as elements of float32, in a `TypedStorage`."""
        return self._to(by_name["float32"])

    def half(self):
        """The bytes as elements of float16, in a `TypedStorage`."""
        return self._to(by_name["float16"])

    def bfloat16(self):
        """The bytes as elements of bfloat16, in a `TypedStorage`."""
        return self._to(by_name["bfloat16"])

    def long(self):
        """The bytes as elements of int64, in a `TypedStorage`."""
        return self._to(by_name["int64"])

    def int(self):
        """The bytes as elements of int32, in a `TypedStorage`."""
        return self._to(by_name["int32"])

    def short(self):
        """The bytes as elements of int16, in a `TypedStorage`."""
        return self._to(by_name["int16"])

    def char(self):
        """The bytes as elements of int8, in a `TypedStorage`."""
        return self._to(by_name["int8"])

    def byte(self):
        """The bytes as elements of uint8, in a `TypedStorage`."""
        return self._to(by_name["uint8"])

    def bool(self):
        """The bytes as elements of bool, in a `TypedStorage`."""
        return self._to(by_name["bool"])

    def complex_double(self):
        """The bytes as elements of complex128, in a `TypedStorage`."""
        return self._to(by_name["complex128"])

    def complex_float(self):
        """The bytes as elements of complex64, in a `TypedStorage`."""
        return self._to(by_name["complex64"])

    # memory of several processes
    def is_shared(self) -> bool:
        """Whether other processes can see this memory."""
        if self.on is not None:
            return self.on.type == "cuda"
        return isinstance(self.owner, Mapping) and (<Mapping>self.owner).shared

    def _trade(self, Storage other not None) -> None:
        """Take the other's bytes, and let it have those here."""
        trade(self, other)

    def share_memory_(self):
        """Move the bytes to shared memory, in place: every tensor over this storage sees it, other processes may.

        Nothing happens to what is shared already, or on an accelerator.  NumPy arrays, slices and memoryviews that were made before
        keep the old memory.  OutOfMemoryError with the bytes where the system has no room, RuntimeError where it has no more
        descriptors.

        >>> import flambeau
        >>> t = flambeau.ones(3)
        >>> t.untyped_storage().share_memory_().is_shared(), t.is_shared()
        (True, True)
        """
        cdef Mapping mapping
        cdef Storage made
        if self.on is not None and self.on.blank:
            raise NotImplementedError("share_memory_(): a storage on 'meta' has no bytes to share")
        if self.on is not None or self.is_shared():
            return self
        check_memory(self.length)
        mapping = new_shared(self.data if self.length else NULL, self.length, "share_memory_")
        made = storage_over(mapping)
        trade(self, made)
        if self.exports:
            mapping.former = made
        if "storage.shared" in callbacks:
            callbacks["storage.shared"](self)
        return self

    @staticmethod
    def _shared(nbytes) -> Storage:
        """A new storage of zeros in shared memory."""
        cdef size_t wanted = bytes_wanted(nbytes, "_shared")
        cdef Storage made
        check_memory(wanted)
        made = storage_over(new_shared(NULL, wanted, "_shared"))
        if "storage.shared" in callbacks:
            callbacks["storage.shared"](made)
        return made

    @staticmethod
    def _of_descriptor(int fd, nbytes) -> Storage:
        """The shared memory behind a descriptor, which belongs to the storage from now on; RuntimeError where it holds fewer bytes
        or cannot be mapped, and then the descriptor is closed.
        """
        return storage_over(of_descriptor(fd, nbytes, "_of_descriptor"))

    def _fd(self) -> int:
        """The descriptor of shared memory, which stays the storage's; RuntimeError for other memory."""
        cdef Mapping mapping = mapping_of(self, "_fd")
        if mapping.descriptor < 0:  # whoever keeps it under a name has it
            mapping.descriptor = mapping.keeper.descriptor()
        return mapping.descriptor

    def _keep(self, keeper) -> Storage:
        """Let `keeper`, which has a duplicate, answer for the descriptor: `keeper.descriptor()` gives another one."""
        cdef Mapping mapping = mapping_of(self, "_keep")
        mapping.keeper = keeper
        if mapping.descriptor >= 0:
            close(mapping.descriptor)
            mapping.descriptor = -1
        return self

    @property
    def _keeper(self):
        """Who keeps the shared memory under a name, None where nobody does."""
        return mapping_of(self, "_keeper").keeper

    @property
    def filename(self):
        """The name of the file that is mapped, None for other memory."""
        return (<Mapping>self.owner).filename if isinstance(self.owner, Mapping) else None

    @staticmethod
    def from_file(filename, shared=False, nbytes=0) -> Storage:
        """A file's bytes, mapped: read when they are first looked at.

        Args:
            filename: its path.
            shared: whether writes go to the file, which is made, or made longer, where needed; else they stay in this process.
            nbytes: how many bytes from the beginning; 0 is the whole file.

        Raises:
            RuntimeError: the file cannot be opened, or is shorter than nbytes and not `shared`.
            OutOfMemoryError: the disk has no room.

        Who makes the file shorter while it is mapped ends this process when it looks at what is gone.
        """
        return storage_over(of_file(filename, shared, nbytes, "from_file"))

    @staticmethod
    def from_buffer(buffer, byte_order=None, count=-1, offset=0, *, dtype=None) -> Storage:
        """A copy of the bytes of an object with the buffer protocol.

        Args:
            byte_order: "native", "little" or "big": that of the elements in the buffer, needed for dtypes of several bytes.
            count: how many elements of `dtype`; -1 is all from `offset`, in bytes, on.
            dtype: of the elements, by default uint8.

        Raises:
            ValueError: no such byte order, or a range that the buffer does not have.
            TypeError: `buffer` is none.

        >>> import flambeau
        >>> flambeau.UntypedStorage.from_buffer(b"\\x01\\x02", "big", dtype=flambeau.int16).tolist()
        [2, 1]
        """
        cdef Storage made
        width = 1 if dtype is None else dtype.itemsize
        if byte_order is None and width > 1:
            raise TypeError("from_buffer(): argument 'byte_order' is needed for a dtype of several bytes")
        if byte_order not in (None, "native", "little", "big"):
            raise ValueError(f"invalid byte_order '{byte_order}' (expected 'big', 'little', or 'native')")
        raw = memoryview(buffer).cast("B")
        if not 0 <= offset <= len(raw) or (count < 0 and (len(raw) - offset) % width):
            raise ValueError(f"from_buffer(): buffer size ({len(raw)}) must be a multiple of element size ({width}), and offset "
                             f"({offset}) lie in it")
        wanted = len(raw) - offset if count < 0 else count * width
        if offset + wanted > len(raw):
            raise ValueError(f"from_buffer(): buffer has only {(len(raw) - offset) // width} elements after offset {offset}, but "
                             f"specified a size of {count}")
        made = new_storage(wanted)
        made._fill(lambda bytes_of: bytes_of.__setitem__(slice(None), raw[offset:offset + wanted]))
        if width > 1 and byte_order not in ("native", sys.byteorder):
            made.byteswap(dtype)
        return made

    # PyTorch's names of these
    def _share_fd_cpu_(self) -> tuple:
        """The descriptor of the memory, which is shared first, and its bytes; the descriptor stays the storage's."""
        return self.share_memory_()._fd(), self.length

    @staticmethod
    def _new_shared_fd_cpu(fd, size) -> Storage:
        """The shared memory behind a descriptor, which is duplicated."""
        if isinstance(fd, bool) or not isinstance(fd, int) or not 0 <= fd < 1 << 31:
            raise RuntimeError(f"_new_shared_fd_cpu(): a descriptor expected, got {fd!r}")
        try:
            duplicate = os.dup(fd)
        except OSError as error:
            raise RuntimeError(f"_new_shared_fd_cpu(): could not duplicate a shared memory file descriptor: {error}") from None
        return Storage._of_descriptor(duplicate, size)

    def _share_filename_cpu_(self) -> tuple:
        """Who keeps the memory, which is shared first, the name it has there, and its bytes."""
        return callbacks["storage.by_name"]("share", self)

    @staticmethod
    def _new_shared_filename_cpu(manager, handle, size) -> Storage:
        """The shared memory that `manager` keeps under a name."""
        return callbacks["storage.by_name"]("of_name", manager, handle, size)

    @staticmethod
    def _new_using_filename_cpu(size) -> Storage:
        """A new storage of zeros in shared memory that is kept under a name."""
        made = Storage._shared(size)
        made._share_filename_cpu_()
        return made

    @staticmethod
    def _new_using_fd_cpu(size) -> Storage:
        """A new storage of zeros in shared memory."""
        return Storage._shared(size)

    @staticmethod
    def _new_shared(size, *, device="cpu") -> Storage:
        """A new storage of zeros in shared memory; on an accelerator, in its memory."""
        return Storage._shared(size) if str(device) == "cpu" else Storage(size, device=device)


def storage_from_address(address: int, nbytes: int, owner, writable: bool = True) -> Storage:
    """Storage over memory that `owner` keeps alive."""
    cdef Storage s = Storage.__new__(Storage)
    s.data = <char*><uintptr_t>address
    s.length = nbytes
    s.owner = owner
    s.writable = writable
    return s
