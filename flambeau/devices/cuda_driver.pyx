# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""libcuda.so.1, NVIDIA's driver: its functions and its errors.

The library is opened at run time, so flambeau is built without CUDA's headers, runs where there is no driver, and a call costs the
driver's own time.  The environment's FLAMBEAU_LIBCUDA names another library with the same functions (the tests' fake one).
"""
from posix.dlfcn cimport RTLD_LOCAL, RTLD_NOW, dlopen, dlsym
import os

NAMES = (
    "cuInit", "cuDriverGetVersion", "cuGetErrorName", "cuGetErrorString", "cuDeviceGetCount", "cuDeviceGet",
    "cuDeviceGetName", "cuDeviceTotalMem_v2", "cuDeviceGetAttribute", "cuDeviceGetDefaultMemPool",
    "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent", "cuCtxSynchronize", "cuMemGetInfo_v2", "cuMemAllocAsync",
    "cuMemFree_v2", "cuMemPoolSetAttribute", "cuMemPoolTrimTo", "cuMemAllocHost_v2", "cuMemFreeHost",
    "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuMemcpyDtoDAsync_v2", "cuMemsetD8Async",
    "cuModuleLoadDataEx", "cuModuleGetFunction", "cuLaunchKernel", "cuStreamCreateWithPriority",
    "cuStreamSynchronize", "cuStreamQuery", "cuStreamWaitEvent", "cuCtxGetStreamPriorityRange",
    "cuEventCreate", "cuEventDestroy_v2", "cuEventRecord", "cuEventQuery", "cuEventSynchronize",
    "cuEventElapsedTime", "cuDeviceCanAccessPeer", "cuStreamIsCapturing", "cuStreamBeginCapture_v2", "cuStreamEndCapture",
    "cuThreadExchangeStreamCaptureMode", "cuGraphInstantiateWithFlags", "cuGraphLaunch", "cuGraphExecDestroy", "cuGraphDestroy",
    "cuGraphDebugDotPrint", "cuGraphGetNodes", "cuMemAlloc_v2", "cuFuncSetAttribute",
    "cuMemcpyPeerAsync", "cuIpcGetEventHandle", "cuIpcOpenEventHandle", "cuIpcGetMemHandle", "cuIpcOpenMemHandle_v2",
    "cuIpcCloseMemHandle",
)

cdef Driver cu
cdef bint opened = False
cdef str missing = None  # why there is no driver


cdef bint ready() noexcept:
    """Open the driver the first time; whether there is one."""
    global opened, missing
    cdef void* library
    cdef void** place = <void**>&cu
    if opened:
        return True
    if missing is not None:
        return False
    path = os.environ.get("FLAMBEAU_LIBCUDA", "libcuda.so.1")
    library = dlopen(os.fsencode(path), RTLD_NOW | RTLD_LOCAL)
    if library == NULL:
        missing = f"{path} cannot be opened"
        return False
    for k, name in enumerate(NAMES):
        place[<int>k] = dlsym(library, <bytes>name.encode())
        if place[<int>k] == NULL:
            missing = f"{path} has no {name}: the driver is too old, CUDA 12 or later is wanted"
            return False
    status = cu.init(0)
    if status:
        missing = f"cuInit failed: {spelled(status)}"
        return False
    opened = True
    return True


cdef str spelled(int status):
    """An error's name and meaning."""
    cdef const char* name = NULL
    cdef const char* text = NULL
    if cu.error_name(status, &name) or cu.error_string(status, &text) or name == NULL or text == NULL:
        return f"error {status}"
    return f"{text.decode()} ({name.decode()}, {status})"


cdef int failed(int status, str call) except -1:
    raise RuntimeError(f"CUDA error: {call}: {spelled(status)}")


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
    """The newest CUDA that the driver knows, 13000 for 13.0; 0 where there is no driver."""
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
