"""The seam between the library and an accelerator: the class Device, and the sizes of blocks of memory."""
from libc.stdint cimport int64_t, uint64_t
from .dtypes cimport device

cdef enum:
    SMALL = 64                # size classes of 64 bytes each, up to 4 KiB; then four classes a doubling
    CLASSES = 256
    ALIGNMENT = 64
    MAX_ARGUMENTS = 320

cdef struct Grid:             # of one launch: x, y, z
    int64_t blocks[3]
    int threads[3]
    size_t shared             # bytes of memory that a block shares, besides what the kernel declares

cdef struct Arguments:        # of one launch, in the order of the kernel's parameters
    int count
    uint64_t values[MAX_ARGUMENTS]      # each in the first bytes of its place
    unsigned char sizes[MAX_ARGUMENTS]  # bytes of a number; 0 says that the value is an address on the device

cdef struct Product:          # c = alpha * a @ b + beta * c, `batch` times; strides are in elements
    int code                  # dtype of all three
    int64_t batch, m, n, k
    uint64_t a, b, c          # addresses of the first elements
    int64_t a_row, a_column, a_batch
    int64_t b_row, b_column, b_batch
    int64_t c_row, c_column, c_batch
    double alpha, beta

cdef class Limits:            # the largest grid of a device; no limit where nothing is set
    cdef readonly tuple blocks      # x, y, z
    cdef readonly tuple threads     # x, y, z
    cdef readonly object block      # threads of a block in all
    cdef readonly object shared     # bytes that a block may share

cdef class Device:
    cdef readonly str type          # "cuda", "opencl" …
    cdef readonly int index
    cdef readonly str target        # what the compiler makes images for: a key of codegen.target.TARGETS
    cdef readonly str processor     # which of the target's processors: "sm_90a" …; "" where there is one for all
    cdef readonly str fingerprint   # device and driver: images in the disk cache are kept apart by it
    cdef readonly device place      # what `tensor.device` answers
    cdef readonly int processors    # how many blocks of threads run side by side
    cdef readonly bint blank        # holds no data: nothing is allocated, copied or launched ("meta")
    cdef readonly Limits limits     # of one launch
    cdef int slot                   # where a thread keeps its current stream of the device
    cdef dict cached                # stream -> a list for each size class of the addresses of free blocks
    cdef size_t cached_bytes
    cdef size_t held_bytes
    cdef size_t peak_bytes
    cdef size_t driver_calls
    cdef size_t held_blocks         # how many blocks tensors hold, the most there have been, and all that were ever handed out
    cdef size_t peak_blocks
    cdef size_t taken_blocks
    cdef size_t taken_bytes
    cdef size_t retries             # how often the cache was given back because the driver had no more, and how often
    cdef size_t refusals            # that did not help
    cdef uint64_t fault             # an int64 on the device that kernels set where an index is out of bounds; 0 before it is needed
    cdef str suspect                # the first operation since the last check that may have set it
    # what a device supplies
    cdef uint64_t allocate(self, size_t nbytes) except? 0
    cdef int free(self, uint64_t address) except -1
    cdef void* allocate_host(self, size_t nbytes) except NULL
    cdef int free_host(self, void* memory) except -1
    cdef int copy_in(self, uint64_t to, const void* source, size_t nbytes, bint wait) except -1
    cdef int copy_out(self, void* to, uint64_t source, size_t nbytes, bint wait) except -1
    cdef int copy_within(self, uint64_t to, uint64_t source, size_t nbytes) except -1
    cdef int fill(self, uint64_t to, unsigned char value, size_t nbytes) except -1
    cdef uint64_t load(self, bytes image, str name) except 0
    cdef bytes native(self)
    cdef int launch(self, uint64_t kernel, const Grid* grid, Arguments* arguments) except -1
    cdef int check_grid(self, const Grid* grid) except -1
    cdef bint product(self, Product* p) except -1
    cdef int finish(self) except -1
    cdef uint64_t new_event(self, bint timing) except 0
    cdef int free_event(self, uint64_t event) except -1
    cdef int record_event(self, uint64_t event) except -1
    cdef int wait_event(self, uint64_t event) except -1
    cdef int finish_event(self, uint64_t event) except -1
    cdef bint event_done(self, uint64_t event) except -1
    cdef double elapsed(self, uint64_t start, uint64_t end) except? -1
    cpdef dict properties(self)
    # streams; 0 is the default one
    cdef uint64_t stream(self) noexcept
    cdef void choose_stream(self, uint64_t stream) noexcept
    cpdef bint capturing(self) except -1
    # the cache of blocks, the same for all devices
    cdef uint64_t acquire(self, size_t nbytes, int block) except 0
    cdef int release(self, uint64_t address, int block, uint64_t stream, object uses) except -1
    cdef void hold(self, size_t size) noexcept
    cdef void let_go(self, size_t size) noexcept
    cdef uint64_t fault_place(self, str name) except 0
    cdef int check_fault(self) except -1

cdef int check_fork() except -1
cdef bint is_forked() noexcept
cpdef Device find_device(str type, object index)
cdef Device device_for(object value, str who)
cdef Device the_blank         # "meta"
cdef int placing              # in how many threads tensors are made elsewhere than on the host
cdef Device default_place()   # where this thread makes tensors without another device: None for the host


cdef extern from *:
    int __builtin_clzll(unsigned long long x) nogil


cdef inline int class_of(size_t nbytes) noexcept nogil:
    cdef int power
    if nbytes <= SMALL * ALIGNMENT:
        return <int>((nbytes + ALIGNMENT - 1) // ALIGNMENT)
    # four steps between two powers of two: at most a fifth of a block is unused
    power = 63 - __builtin_clzll(nbytes - 1)
    return SMALL + 1 + (power - 12) * 4 + <int>(((nbytes - 1) >> (power - 2)) & 3)


cdef inline size_t class_bytes(int block) noexcept nogil:
    cdef int power, quarter
    if block <= SMALL:
        return <size_t>(block if block > 0 else 1) * ALIGNMENT
    power = 12 + (block - SMALL - 1) // 4
    quarter = (block - SMALL - 1) % 4
    return (<size_t>(5 + quarter)) << (power - 2)
