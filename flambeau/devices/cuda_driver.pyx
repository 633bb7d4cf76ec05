# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The driver: NVIDIA's libcuda.so.1, else AMD's libamdhip64.so.  Its functions and its errors, and how vendors' libraries are opened.

Functions of HIP are those of CUDA's driver under other names, so that devices, memory, events and graphs are written once, on a table of
functions that is filled from the library which is there.  As in PyTorch, an AMD device is of the type "cuda".

The library is opened at run time, so flambeau is built without CUDA's headers or ROCm's, runs where there is no driver, and a call costs
the driver's own time.  The environment's FLAMBEAU_LIBCUDA names a library with CUDA's functions, FLAMBEAU_LIBHIP one with HIP's (the
tests' fake ones); where either is set, no other library is opened.
"""
from libc.stdint cimport uint64_t, uintptr_t
from posix.dlfcn cimport RTLD_LOCAL, RTLD_NOW, dlopen, dlsym
import os

NAMES = (  # in the order of Driver's fields: CUDA's, HIP's; None where the table has a function of ours, or where there is nothing to call
    ("cuInit", "hipInit"),
    ("cuDriverGetVersion", "hipDriverGetVersion"),
    ("cuGetErrorName", "hipDrvGetErrorName"),
    ("cuGetErrorString", "hipDrvGetErrorString"),
    ("cuDeviceGetCount", "hipGetDeviceCount"),
    ("cuDeviceGet", "hipDeviceGet"),
    ("cuDeviceGetName", "hipDeviceGetName"),
    ("cuDeviceTotalMem_v2", "hipDeviceTotalMem"),
    ("cuDeviceGetAttribute", "hipDeviceGetAttribute"),
    ("cuDeviceGetDefaultMemPool", "hipDeviceGetDefaultMemPool"),
    ("cuDevicePrimaryCtxRetain", None),
    ("cuCtxSetCurrent", None),
    ("cuCtxSynchronize", "hipDeviceSynchronize"),
    ("cuMemGetInfo_v2", "hipMemGetInfo"),
    ("cuMemAllocAsync", "hipMallocAsync"),
    ("cuMemFree_v2", "hipFree"),
    ("cuMemPoolSetAttribute", "hipMemPoolSetAttribute"),
    ("cuMemPoolTrimTo", "hipMemPoolTrimTo"),
    ("cuMemHostAlloc", "hipHostMalloc"),
    ("cuMemFreeHost", "hipHostFree"),
    ("cuMemcpyHtoDAsync_v2", "hipMemcpyHtoDAsync"),
    ("cuMemcpyDtoHAsync_v2", "hipMemcpyDtoHAsync"),
    ("cuMemcpyDtoDAsync_v2", "hipMemcpyDtoDAsync"),
    ("cuMemsetD8Async", "hipMemsetD8Async"),
    ("cuModuleLoadDataEx", "hipModuleLoadDataEx"),
    ("cuModuleGetFunction", "hipModuleGetFunction"),
    ("cuLaunchKernel", "hipModuleLaunchKernel"),
    ("cuStreamCreateWithPriority", "hipStreamCreateWithPriority"),
    ("cuStreamSynchronize", "hipStreamSynchronize"),
    ("cuStreamQuery", "hipStreamQuery"),
    ("cuStreamWaitEvent", "hipStreamWaitEvent"),
    ("cuCtxGetStreamPriorityRange", "hipDeviceGetStreamPriorityRange"),
    ("cuEventCreate", "hipEventCreateWithFlags"),
    ("cuEventDestroy_v2", "hipEventDestroy"),
    ("cuEventRecord", "hipEventRecord"),
    ("cuEventQuery", "hipEventQuery"),
    ("cuEventSynchronize", "hipEventSynchronize"),
    ("cuEventElapsedTime", "hipEventElapsedTime"),
    ("cuDeviceCanAccessPeer", "hipDeviceCanAccessPeer"),
    ("cuStreamIsCapturing", "hipStreamIsCapturing"),
    ("cuStreamBeginCapture_v2", "hipStreamBeginCapture"),
    ("cuStreamEndCapture", "hipStreamEndCapture"),
    ("cuThreadExchangeStreamCaptureMode", "hipThreadExchangeStreamCaptureMode"),
    ("cuGraphInstantiateWithFlags", "hipGraphInstantiateWithFlags"),
    ("cuGraphLaunch", "hipGraphLaunch"),
    ("cuGraphExecDestroy", "hipGraphExecDestroy"),
    ("cuGraphDestroy", "hipGraphDestroy"),
    ("cuGraphDebugDotPrint", "hipGraphDebugDotPrint"),
    ("cuGraphGetNodes", "hipGraphGetNodes"),
    ("cuMemAlloc_v2", "hipMalloc"),
    ("cuFuncSetAttribute", None),
    ("cuMemcpyPeerAsync", None),
    ("cuIpcGetEventHandle", "hipIpcGetEventHandle"),
    ("cuIpcOpenEventHandle", "hipIpcOpenEventHandle"),
    ("cuIpcGetMemHandle", "hipIpcGetMemHandle"),
    ("cuIpcOpenMemHandle_v2", "hipIpcOpenMemHandle"),
    ("cuIpcCloseMemHandle", "hipIpcCloseMemHandle"),
    (None, "hipGetDevicePropertiesR0600"),
    (None, "hipSetDevice"),
    (None, "hipMemcpyPeerAsync"),
)

# What `properties` tells of a device, and its number in cuda.h and in hip_runtime_api.h.  AMD's cards have no memory that a block
# may share besides what all may.
ATTRIBUTES = {
    "shared_memory_per_block": (8, 74),
    "warp_size": (10, 87),
    "regs_per_multiprocessor": (82, 72),
    "clock_rate": (13, 5),
    "multi_processor_count": (16, 63),
    "is_integrated": (18, 16),
    "memory_clock_rate": (36, 60),
    "memory_bus_width": (37, 59),
    "L2_cache_size": (38, 19),
    "max_threads_per_multi_processor": (39, 57),
    "major": (75, 23),
    "minor": (76, 61),
    "shared_memory_per_multiprocessor": (81, 10002),
    "shared_memory_per_block_optin": (97, 74),
}
LIMITS = {
    "memory_pools": (115, 88),
    "threads": (1, 56),
    "block x": (2, 26),
    "block y": (3, 27),
    "block z": (4, 28),
    "grid x": (5, 29),
    "grid y": (6, 30),
    "grid z": (7, 31),
}
cdef enum:
    ARCHITECTURE = 1160  # where hipDeviceProp_tR0600 has gcnArchName, of 256 bytes

cdef Driver cu
cdef bint hip = False
cdef size_t default_shared = DEFAULT_SHARED
cdef bint opened = False
cdef str missing = None  # why there is no driver
cdef str opened_path = None


# --- libraries that are opened at run time ------------------------------
def library_files(variable: str, names: list[str], amd: bool = False) -> list[str]:
    """Where a library may be, best first: only where the environment's `variable` says, if it does; else the linker's path, under each of
    these names, and then the folders of NVIDIA's wheels, or of ROCm.
    """
    path = os.environ.get(variable)
    if path is not None:
        return [path]
    if amd:
        folder = os.path.join(os.environ.get("ROCM_PATH", "/opt/rocm"), "lib")
        return names + [os.path.join(folder, name) for name in names]
    import glob
    import importlib.util

    spec = importlib.util.find_spec("nvidia")
    folders = spec.submodule_search_locations or () if spec is not None else ()
    return names + [path for name in names for folder in folders
                    for path in sorted(glob.glob(os.path.join(glob.escape(folder), "*", "lib", name)), reverse=True)]


cdef tuple open_table(list paths, names, void** table):
    """Open the first library that can be, and fill a table with its functions of these names, NULL for None: its path, None where there
    is no library, and the first name that it lacks, None where it has all.
    """
    cdef void* library = NULL
    cdef int k = 0
    for path in paths:
        library = dlopen(os.fsencode(path), RTLD_NOW | RTLD_LOCAL)
        if library != NULL:
            break
    if library == NULL:
        return None, None
    for name in names:
        table[k] = NULL if name is None else dlsym(library, <bytes>name.encode())
        if table[k] == NULL and name is not None:
            return path, name
        k += 1
    return path, None


cdef bint open_library(list paths, names, void** table, str wanted) except -1:
    """Whether one of these libraries is there; a table has its functions then.  RuntimeError for one that lacks any: `wanted` has them."""
    path, lacking = open_table(paths, names, table)
    if lacking is not None:
        raise RuntimeError(f"{path} has no {lacking}: {wanted} is wanted")
    return path is not None


def load_typed(path: str, signatures: dict[str, list], wanted: str, error: type[Exception] = RuntimeError):
    """A library whose functions are called through ctypes, with arguments of these types.  OSError where it cannot be opened, `error` where
    it lacks a function: `wanted` has all.
    """
    import ctypes

    loaded = ctypes.CDLL(path)
    for name, types in signatures.items():
        if not hasattr(loaded, name):
            raise error(f"{path} has no {name}: {wanted} is wanted")
        getattr(loaded, name).argtypes = types
    return loaded


def hip_candidates() -> list[str]:
    """Where AMD's library may be, best first."""
    return library_files("FLAMBEAU_LIBHIP", ["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so"], amd=True)


# A context of HIP is a device's number, and 1: no context is 0.
cdef int retain_hip(void** context, int device) noexcept nogil:
    context[0] = <void*><uintptr_t>(device + 1)
    return 0


cdef int set_hip(void* context) noexcept nogil:
    return cu.set_device(<int><uintptr_t>context - 1)


cdef int copy_peer_hip(uint64_t to, void* there, uint64_t source, void* here, size_t nbytes, void* stream) noexcept nogil:
    return cu.copy_between(to, <int><uintptr_t>there - 1, source, <int><uintptr_t>here - 1, nbytes, stream)


cdef bint open_from(list paths, bint amd):
    """Whether one of these libraries is a driver that starts; `missing` says why not."""
    global opened, missing, hip, opened_path, default_shared
    path, lacking = open_table(paths, [names[amd] for names in NAMES], <void**>&cu)
    if path is None:
        missing = f"{paths[0]} cannot be opened"
        return False
    if lacking is not None:
        missing = f"{path} has no {lacking}: the driver is too old, {'ROCm 6' if amd else 'CUDA 12'} or later is wanted"
        return False
    if amd:
        cu.retain_context, cu.set_context, cu.copy_peer = retain_hip, set_hip, copy_peer_hip
    status = cu.init(0)
    if status:
        missing = f"{NAMES[0][amd]} failed: {spelled(status)}"
        return False
    opened, hip, opened_path = True, amd, path
    if amd:
        default_shared = <size_t>-1
    return True


cdef bint ready() noexcept:
    """Open the driver the first time; whether there is one."""
    global missing
    if opened:
        return True
    if missing is not None:
        return False
    cuda_path, hip_path = os.environ.get("FLAMBEAU_LIBCUDA"), os.environ.get("FLAMBEAU_LIBHIP")
    if cuda_path is None and hip_path is not None:
        return open_from([hip_path], True)
    if open_from([cuda_path or "libcuda.so.1"], False):
        return True
    if cuda_path is not None:
        return False
    why = missing
    if open_from(hip_candidates(), True):
        return True
    missing = f"{why}; {missing}"
    return False


cdef str spelled(int status):
    """An error's name and meaning."""
    cdef const char* name = NULL
    cdef const char* text = NULL
    if cu.error_name(status, &name) or cu.error_string(status, &text) or name == NULL or text == NULL:
        return f"error {status}"
    return f"{text.decode()} ({name.decode()}, {status})"


cdef int failed(int status, str call) except -1:
    """RuntimeError for a function that the caller knows by CUDA's name; what follows the name says what it was called for."""
    raise RuntimeError(f"{speaks()} error: {named(call)}: {spelled(status)}")


cdef str named(str call):
    """The name of the driver that is open for a function of CUDA's, with what follows it."""
    function, space, rest = call.partition(" ")
    if hip:
        hip_names = {(ours or "").partition("_")[0]: theirs for ours, theirs in NAMES}
        hip_names |= {"cuCtxSetCurrent": "hipSetDevice", "cuMemcpyPeerAsync": "hipMemcpyPeerAsync"}
        function = hip_names[function]
    return function + space + rest


cdef str processor_of(int device):
    """What AMD calls the processor of a device, with its modes: "gfx90a:sramecc+:xnack-"."""
    cdef char properties[4096]  # as of ROCm 7 it takes 1472
    properties[ARCHITECTURE] = 0
    check(cu.describe(properties, device), "hipGetDevicePropertiesR0600")
    properties[ARCHITECTURE + 255] = 0
    return (<bytes>(properties + ARCHITECTURE)).decode("utf-8", "replace")


def speaks() -> str:
    """What the driver that is open speaks: "CUDA" or "HIP"; "CUDA" where none is."""
    return "HIP" if hip else "CUDA"


def is_hip() -> bool:
    """Whether the driver is AMD's; opens it."""
    return ready() and hip


def library_path() -> str:
    """The library of the driver that is open."""
    return opened_path


cdef str why_missing():
    """What was amiss when the driver was to be opened; None where it was opened."""
    return missing


def count() -> int:
    """How many devices the driver has; 0 where there is no driver."""
    cdef int n = 0
    if not ready() or cu.device_count(&n):
        return 0
    return n


def driver_version() -> int:
    """The newest CUDA that the driver knows, 13000 for 13.0, or the version of HIP, 60342131 for 6.3.42131; 0 where there is no driver."""
    cdef int version = 0
    if not ready() or cu.version(&version):
        return 0
    return version


def meaning(int status) -> str:
    """What the driver says of an error's number; "error 5" without a driver."""
    cdef const char* text = NULL
    if not ready() or cu.error_string(status, &text) or text == NULL:
        return f"error {status}"
    return text.decode()
