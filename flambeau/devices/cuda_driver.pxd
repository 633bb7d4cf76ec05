"""What is called of a driver: NVIDIA's libcuda.so.1, or AMD's libamdhip64.so, whose functions are the same under other names."""
from libc.stdint cimport uint64_t

cdef enum:  # from cuda.h; hip_runtime_api.h has the same numbers, except those of attributes
    OUT_OF_MEMORY = 2
    NOT_READY = 600
    JIT_ERROR_LOG = 5
    JIT_ERROR_LOG_BYTES = 6
    STREAM_NON_BLOCKING = 1
    EVENT_DISABLE_TIMING = 2
    EVENT_INTERPROCESS = 4
    IPC_LAZY_PEER_ACCESS = 1
    POOL_RELEASE_THRESHOLD = 4
    CAPTURE_RELAXED = 2
    MAX_DYNAMIC_SHARED = 8     # of CUfunction_attribute
    DEFAULT_SHARED = 48 << 10  # bytes that every kernel may share on NVIDIA's cards

cdef struct IpcHandle:  # of memory or of an event, for other processes
    char reserved[64]

cdef struct Driver:  # in the order of NAMES; handles are void*, and all return 0 or an error's number
    int (*init)(unsigned int) noexcept nogil
    int (*version)(int*) noexcept nogil
    int (*error_name)(int, const char**) noexcept nogil
    int (*error_string)(int, const char**) noexcept nogil
    int (*device_count)(int*) noexcept nogil
    int (*device_get)(int*, int) noexcept nogil
    int (*device_name)(char*, int, int) noexcept nogil
    int (*device_memory)(size_t*, int) noexcept nogil
    int (*device_attribute)(int*, int, int) noexcept nogil
    int (*device_pool)(void**, int) noexcept nogil
    int (*retain_context)(void**, int) noexcept nogil
    int (*set_context)(void*) noexcept nogil
    int (*finish)() noexcept nogil
    int (*memory_info)(size_t*, size_t*) noexcept nogil
    int (*allocate)(uint64_t*, size_t, void*) noexcept nogil
    int (*free)(uint64_t) noexcept nogil
    int (*set_pool)(void*, int, void*) noexcept nogil
    int (*trim_pool)(void*, size_t) noexcept nogil
    int (*allocate_host)(void**, size_t, unsigned int) noexcept nogil
    int (*free_host)(void*) noexcept nogil
    int (*copy_in)(uint64_t, const void*, size_t, void*) noexcept nogil
    int (*copy_out)(void*, uint64_t, size_t, void*) noexcept nogil
    int (*copy_within)(uint64_t, uint64_t, size_t, void*) noexcept nogil
    int (*fill)(uint64_t, unsigned char, size_t, void*) noexcept nogil
    int (*load)(void**, const void*, unsigned int, const int*, void**) noexcept nogil
    int (*function)(void**, void*, const char*) noexcept nogil
    int (*launch)(void*, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
                  unsigned int, void*, void**, void**) noexcept nogil
    int (*new_stream)(void**, unsigned int, int) noexcept nogil
    int (*finish_stream)(void*) noexcept nogil
    int (*query_stream)(void*) noexcept nogil
    int (*wait)(void*, void*, unsigned int) noexcept nogil
    int (*priorities)(int*, int*) noexcept nogil
    int (*new_event)(void**, unsigned int) noexcept nogil
    int (*free_event)(void*) noexcept nogil
    int (*record)(void*, void*) noexcept nogil
    int (*query_event)(void*) noexcept nogil
    int (*finish_event)(void*) noexcept nogil
    int (*elapsed)(float*, void*, void*) noexcept nogil
    int (*can_access)(int*, int, int) noexcept nogil
    int (*capturing)(void*, int*) noexcept nogil
    int (*begin_capture)(void*, int) noexcept nogil
    int (*end_capture)(void*, void**) noexcept nogil
    int (*exchange_mode)(int*) noexcept nogil
    int (*instantiate)(void**, void*, unsigned long long) noexcept nogil
    int (*launch_graph)(void*, void*) noexcept nogil
    int (*free_executable)(void*) noexcept nogil
    int (*free_graph)(void*) noexcept nogil
    int (*print_graph)(void*, const char*, unsigned int) noexcept nogil
    int (*graph_nodes)(void*, void**, size_t*) noexcept nogil
    int (*allocate_now)(uint64_t*, size_t) noexcept nogil
    int (*set_function)(void*, int, int) noexcept nogil
    int (*copy_peer)(uint64_t, void*, uint64_t, void*, size_t, void*) noexcept nogil
    int (*event_handle)(IpcHandle*, void*) noexcept nogil
    int (*open_event)(void**, IpcHandle) noexcept nogil
    int (*memory_handle)(IpcHandle*, uint64_t) noexcept nogil
    int (*open_memory)(uint64_t*, IpcHandle, unsigned int) noexcept nogil
    int (*close_memory)(uint64_t) noexcept nogil
    int (*describe)(char*, int) noexcept nogil                                       # HIP's alone, as the next two
    int (*set_device)(int) noexcept nogil
    int (*copy_between)(uint64_t, int, uint64_t, int, size_t, void*) noexcept nogil

cdef Driver cu                # filled by `ready`
cdef bint hip                 # whether it is AMD's
cdef size_t default_shared    # bytes that a block may share without `set_function`
cdef bint ready() noexcept
cdef tuple open_table(list paths, names, void** table)
cdef bint open_library(list paths, names, void** table, str wanted) except -1
cdef str why_missing()
cdef str spelled(int status)
cdef str processor_of(int device)
cdef str named(str call)
cdef int failed(int status, str call) except -1


cdef inline int check(int status, str call) except -1:
    return failed(status, call) if status else 0
