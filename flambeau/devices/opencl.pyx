# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""OpenCL devices: Intel's graphics processors, and any other whose driver takes SPIR-V and hands out addresses
(the extension cl_intel_unified_shared_memory).

The library is opened at run time and called directly: a launch costs the driver's own time, where pyopencl's
objects would add 4 µs, and an installation without OpenCL needs nothing.  Its name is
FLAMBEAU_OPENCL_LIBRARY, else libOpenCL.so.1, else the one that pip's intel-opencl-rt brings along.
FLAMBEAU_OPENCL_OPTIONS are options for the driver's compiler, as `-cl-opt-disable`; images made with them are kept apart.

One in-order queue a device: work runs in the order of the calls.
"""
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, intptr_t, uintptr_t
from libc.stdlib cimport malloc, free as release_memory
from libc.string cimport memcpy
cimport cython
from ..core.base.device cimport Device, Arguments, Grid, check_fork, device_for
from ..core.base.device import Limits, register
import os
import sys

cdef extern from "dlfcn.h" nogil:
    void* dlopen(const char* name, int flags)
    void* dlsym(void* library, const char* name)
    int RTLD_NOW
    int RTLD_LOCAL

ctypedef void* handle_t
ctypedef int32_t status_t

cdef bytes SPIRV = b"\x03\x02\x23\x07"    # the first bytes of a module

cdef enum:                          # from the OpenCL headers
    MOST_PLATFORMS = 16
    MOST_DEVICES = 64
    DEVICE_TYPE_GPU = 1 << 2
    DEVICE_TYPE = 0x1000
    MAX_COMPUTE_UNITS = 0x1002
    MAX_WORK_GROUP_SIZE = 0x1004
    LOCAL_MEM_SIZE = 0x1023
    GLOBAL_MEM_SIZE = 0x101F
    DEVICE_NAME = 0x102B
    DEVICE_VENDOR = 0x102C
    DRIVER_VERSION = 0x102D
    DEVICE_VERSION = 0x102F
    DEVICE_EXTENSIONS = 0x1030
    NATIVE_VECTOR_WIDTH_FLOAT = 0x103A
    IL_VERSION = 0x105B
    QUEUE_PROPERTIES = 0x1093
    PROFILING_ENABLE = 2
    BUILD_LOG = 0x1183
    PROGRAM_BINARY_SIZES = 0x1165
    PROGRAM_BINARIES = 0x1166
    EVENT_STATUS = 0x11D3
    COMPLETE = 0
    PROFILING_END = 0x1283
    EXECUTABLE_STATUS_ERROR = -14
    NO_ALLOCATION = -4              # CL_MEM_OBJECT_ALLOCATION_FAILURE
    NO_RESOURCES = -5
    NO_HOST_MEMORY = -6
    TOO_LARGE = -61                 # CL_INVALID_BUFFER_SIZE

cdef struct Calls:                  # the functions of the library, under their names without "cl"
    status_t (*GetPlatformIDs)(uint32_t, handle_t*, uint32_t*) noexcept nogil
    status_t (*GetDeviceIDs)(handle_t, uint64_t, uint32_t, handle_t*, uint32_t*) noexcept nogil
    status_t (*GetDeviceInfo)(handle_t, uint32_t, size_t, void*, size_t*) noexcept nogil
    handle_t (*CreateContext)(const intptr_t*, uint32_t, const handle_t*, void*, void*, status_t*) noexcept nogil
    handle_t (*CreateCommandQueueWithProperties)(handle_t, handle_t, const uint64_t*, status_t*) noexcept nogil
    handle_t (*CreateProgramWithIL)(handle_t, const void*, size_t, status_t*) noexcept nogil
    handle_t (*CreateProgramWithBinary)(handle_t, uint32_t, const handle_t*, const size_t*, const unsigned char**, status_t*,
                                        status_t*) noexcept nogil
    status_t (*BuildProgram)(handle_t, uint32_t, const handle_t*, const char*, void*, void*) noexcept nogil
    status_t (*GetProgramBuildInfo)(handle_t, handle_t, uint32_t, size_t, void*, size_t*) noexcept nogil
    status_t (*GetProgramInfo)(handle_t, uint32_t, size_t, void*, size_t*) noexcept nogil
    handle_t (*CreateKernel)(handle_t, const char*, status_t*) noexcept nogil
    status_t (*SetKernelArg)(handle_t, uint32_t, size_t, const void*) noexcept nogil
    status_t (*EnqueueNDRangeKernel)(handle_t, handle_t, uint32_t, const size_t*, const size_t*, const size_t*, uint32_t,
                                     const handle_t*, handle_t*) noexcept nogil
    status_t (*Finish)(handle_t) noexcept nogil
    status_t (*Flush)(handle_t) noexcept nogil
    status_t (*WaitForEvents)(uint32_t, const handle_t*) noexcept nogil
    status_t (*ReleaseEvent)(handle_t) noexcept nogil
    status_t (*ReleaseProgram)(handle_t) noexcept nogil
    status_t (*GetEventInfo)(handle_t, uint32_t, size_t, void*, size_t*) noexcept nogil
    status_t (*GetEventProfilingInfo)(handle_t, uint32_t, size_t, void*, size_t*) noexcept nogil
    status_t (*EnqueueMarkerWithWaitList)(handle_t, uint32_t, const handle_t*, handle_t*) noexcept nogil
    status_t (*EnqueueBarrierWithWaitList)(handle_t, uint32_t, const handle_t*, handle_t*) noexcept nogil
    void* (*GetExtensionFunctionAddressForPlatform)(handle_t, const char*) noexcept nogil

cdef struct Addresses:              # of the extension; these differ from platform to platform
    void* (*DeviceMemAlloc)(handle_t, handle_t, const uint64_t*, size_t, uint32_t, status_t*) noexcept nogil
    void* (*HostMemAlloc)(handle_t, const uint64_t*, size_t, uint32_t, status_t*) noexcept nogil
    status_t (*MemBlockingFree)(handle_t, void*) noexcept nogil
    status_t (*SetKernelArgMemPointer)(handle_t, uint32_t, const void*) noexcept nogil
    status_t (*EnqueueMemcpy)(handle_t, uint32_t, void*, const void*, size_t, uint32_t, const handle_t*, handle_t*) noexcept nogil
    status_t (*EnqueueMemFill)(handle_t, void*, const void*, size_t, size_t, uint32_t, const handle_t*, handle_t*) noexcept nogil

cdef Calls cl
cdef int graphics_processors = 0             # how many of them are
cdef list usable_devices = None              # (platform, device) as numbers, once looked for


# --- the library ------------------------------
def _wheel_file(name: str):
    """A file of pip's intel-opencl-rt, None where that is not installed."""
    path = os.path.join(sys.prefix, "lib", name)
    return path if os.path.exists(path) else None


cdef void* opened(str name):
    cdef bytes path = os.fsencode(name)
    return dlopen(path, RTLD_NOW | RTLD_LOCAL)


cdef void* open_library():
    """The loader of drivers, NULL where there is none."""
    cdef void* library = NULL
    driver = _wheel_file("libintelocl.so")
    if driver is not None and "OCL_ICD_VENDORS" not in os.environ:
        # the wheel registers its driver under a path of the machine where it was packed
        drivers = os.environ.get("OCL_ICD_FILENAMES")
        os.environ["OCL_ICD_FILENAMES"] = driver if not drivers else f"{drivers}:{driver}"
    path = os.environ.get("FLAMBEAU_OPENCL_LIBRARY")
    library = opened(path if path else "libOpenCL.so.1")
    if library == NULL and driver is not None and not path:
        # the wheel's own loader finds the libraries it needs only when its driver has brought them in
        opened(driver)
        library = opened(os.path.join(sys.prefix, "lib", "libOpenCL.so.1"))
    return library


cdef bint resolve(void* library) noexcept:
    """Fill the table of functions; whether all are there."""
    cdef void** place = <void**>&cl
    cdef const char* names[23]
    cdef int k
    names[0], names[1], names[2], names[3] = "clGetPlatformIDs", "clGetDeviceIDs", "clGetDeviceInfo", "clCreateContext"
    names[4], names[5] = "clCreateCommandQueueWithProperties", "clCreateProgramWithIL"
    names[6], names[7], names[8] = "clCreateProgramWithBinary", "clBuildProgram", "clGetProgramBuildInfo"
    names[9], names[10], names[11] = "clGetProgramInfo", "clCreateKernel", "clSetKernelArg"
    names[12], names[13], names[14] = "clEnqueueNDRangeKernel", "clFinish", "clFlush"
    names[15], names[16], names[17] = "clWaitForEvents", "clReleaseEvent", "clReleaseProgram"
    names[18], names[19] = "clGetEventInfo", "clGetEventProfilingInfo"
    names[20], names[21] = "clEnqueueMarkerWithWaitList", "clEnqueueBarrierWithWaitList"
    names[22] = "clGetExtensionFunctionAddressForPlatform"
    for k in range(23):
        place[k] = dlsym(library, names[k])
        if place[k] == NULL:
            return False
    return True


cdef str text_of(handle_t device, uint32_t what):
    """A string that the driver tells about a device."""
    cdef size_t n = 0
    if cl.GetDeviceInfo(device, what, 0, NULL, &n) != 0 or n == 0:
        return ""
    cdef bytes buffer = bytes(n)
    cl.GetDeviceInfo(device, what, n, <char*>buffer, NULL)
    return buffer.rstrip(b"\0").decode("utf-8", "replace").strip()


cdef uint64_t number_of(handle_t device, uint32_t what) noexcept:
    cdef uint64_t value = 0
    cl.GetDeviceInfo(device, what, 8, &value, NULL)
    return value


cdef list look_for_devices():
    """Those that can be used, graphics processors first."""
    global usable_devices, graphics_processors
    cdef handle_t platforms[MOST_PLATFORMS]
    cdef handle_t devices[MOST_DEVICES]
    cdef uint32_t n = 0, m = 0, i, k
    cdef void* library
    if usable_devices is not None:
        return usable_devices
    library = open_library()
    usable = []
    if library != NULL and resolve(library) and cl.GetPlatformIDs(MOST_PLATFORMS, platforms, &n) == 0:
        for i in range(min(n, <uint32_t>MOST_PLATFORMS)):
            m = 0
            if cl.GetDeviceIDs(platforms[i], <uint64_t>0xFFFFFFFF, MOST_DEVICES, devices, &m) != 0:
                continue
            for k in range(min(m, <uint32_t>MOST_DEVICES)):
                if "SPIR-V" in text_of(devices[k], IL_VERSION) and (
                        "cl_intel_unified_shared_memory" in text_of(devices[k], DEVICE_EXTENSIONS)):
                    graphics = bool(number_of(devices[k], DEVICE_TYPE) & DEVICE_TYPE_GPU)
                    usable.append((not graphics, <uintptr_t>platforms[i], <uintptr_t>devices[k]))
    usable.sort(key=lambda one: one[0])
    graphics_processors = sum([not one[0] for one in usable])
    usable_devices = [one[1:] for one in usable]
    return usable_devices


def count() -> int:
    """How many OpenCL devices can be used; 0 without a driver."""
    return len(look_for_devices())


def count_accelerators() -> int:
    """How many of them are graphics processors."""
    look_for_devices()
    return graphics_processors


# --- a device ------------------------------
cdef int check(status_t status, str call) except -1:
    if status != 0:
        raise RuntimeError(f"OpenCL error: {call} failed with code {status}")
    return 0


@cython.binding(False)
cdef class OpenCL(Device):
    cdef handle_t id, context, queue
    cdef bytes binary               # of what `load` has built last
    cdef bytes options              # of every build
    cdef readonly uint64_t copies_out, bytes_out  # from the device to the host, since it was opened
    cdef Addresses usm

    def __cinit__(self, str type, int index):
        cdef status_t status = 0
        cdef uint64_t wanted[3]
        cdef handle_t platform
        cdef list devices = look_for_devices()
        if not 0 <= index < len(devices):
            raise RuntimeError(
                f"device 'opencl:{index}' is not available: {len(devices)} OpenCL devices that take SPIR-V and have "
                "cl_intel_unified_shared_memory were found" + (
                    "" if devices else "; `pip install intel-opencl-rt intel-cmplr-lib-rt` makes the CPU one"))
        platform, self.id = <handle_t><uintptr_t>devices[index][0], <handle_t><uintptr_t>devices[index][1]
        self.context = cl.CreateContext(NULL, 1, &self.id, NULL, NULL, &status)
        check(status, "clCreateContext")
        wanted[0], wanted[1], wanted[2] = QUEUE_PROPERTIES, PROFILING_ENABLE, 0
        self.queue = cl.CreateCommandQueueWithProperties(self.context, self.id, wanted, &status)
        check(status, "clCreateCommandQueueWithProperties")
        self.usm.DeviceMemAlloc = <void* (*)(handle_t, handle_t, const uint64_t*, size_t, uint32_t, status_t*) noexcept nogil>(
            extension(platform, "clDeviceMemAllocINTEL"))
        self.usm.HostMemAlloc = <void* (*)(handle_t, const uint64_t*, size_t, uint32_t, status_t*) noexcept nogil>(
            extension(platform, "clHostMemAllocINTEL"))
        self.usm.MemBlockingFree = <status_t (*)(handle_t, void*) noexcept nogil>extension(platform, "clMemBlockingFreeINTEL")
        self.usm.SetKernelArgMemPointer = <status_t (*)(handle_t, uint32_t, const void*) noexcept nogil>(
            extension(platform, "clSetKernelArgMemPointerINTEL"))
        self.usm.EnqueueMemcpy = <status_t (*)(handle_t, uint32_t, void*, const void*, size_t, uint32_t, const handle_t*,
                                               handle_t*) noexcept nogil>extension(platform, "clEnqueueMemcpyINTEL")
        self.usm.EnqueueMemFill = <status_t (*)(handle_t, void*, const void*, size_t, size_t, uint32_t, const handle_t*,
                                                handle_t*) noexcept nogil>extension(platform, "clEnqueueMemFillINTEL")
        self.target = "spirv"
        more = os.environ.get("FLAMBEAU_OPENCL_OPTIONS", "").strip()
        # quotients and roots with the same bits as on the CPU
        self.options = f"-cl-fp32-correctly-rounded-divide-sqrt {more}".strip().encode()
        self.fingerprint = "|".join([text_of(self.id, what) for what in (DEVICE_NAME, DEVICE_VERSION, DRIVER_VERSION)] + [more])
        self.processors = <int>number_of(self.id, MAX_COMPUTE_UNITS)
        most = number_of(self.id, MAX_WORK_GROUP_SIZE)
        # drivers count blocks in 32 bits
        self.limits = Limits(((1 << 32) - 1,) * 3, (most,) * 3, most, number_of(self.id, LOCAL_MEM_SIZE))

    # memory
    cdef uint64_t allocate(self, size_t nbytes) except? 0:
        cdef status_t status = 0
        cdef void* made = self.usm.DeviceMemAlloc(self.context, self.id, NULL, nbytes, 64, &status)
        if status in (NO_ALLOCATION, NO_RESOURCES, NO_HOST_MEMORY, TOO_LARGE):
            return 0
        check(status, "clDeviceMemAllocINTEL")
        return <uintptr_t>made

    cdef int free(self, uint64_t address) except -1:
        return check(self.usm.MemBlockingFree(self.context, <void*><uintptr_t>address), "clMemBlockingFreeINTEL")

    cdef void* allocate_host(self, size_t nbytes) except NULL:
        cdef status_t status = 0
        cdef void* made = self.usm.HostMemAlloc(self.context, NULL, nbytes, 64, &status)
        check(status, "clHostMemAllocINTEL")
        return made

    cdef int free_host(self, void* memory) except -1:
        return check(self.usm.MemBlockingFree(self.context, memory), "clMemBlockingFreeINTEL")

    cdef int copy(self, void* to, const void* source, size_t nbytes, bint wait) except -1:
        cdef status_t status
        check_fork()
        with nogil:
            status = self.usm.EnqueueMemcpy(self.queue, wait, to, source, nbytes, 0, NULL, NULL)
        return check(status, "clEnqueueMemcpyINTEL")

    cdef int copy_in(self, uint64_t to, const void* source, size_t nbytes, bint wait) except -1:
        return self.copy(<void*><uintptr_t>to, source, nbytes, wait)

    cdef int copy_out(self, void* to, uint64_t source, size_t nbytes, bint wait) except -1:
        self.copies_out += 1
        self.bytes_out += nbytes
        return self.copy(to, <void*><uintptr_t>source, nbytes, wait)

    cdef int copy_within(self, uint64_t to, uint64_t source, size_t nbytes) except -1:
        return self.copy(<void*><uintptr_t>to, <void*><uintptr_t>source, nbytes, False)

    cdef int fill(self, uint64_t to, unsigned char value, size_t nbytes) except -1:
        check_fork()
        return check(self.usm.EnqueueMemFill(self.queue, <void*><uintptr_t>to, &value, 1, nbytes, 0, NULL, NULL),
                     "clEnqueueMemFillINTEL")

    # kernels
    cdef uint64_t load(self, bytes image, str name) except 0:
        cdef status_t status = 0
        cdef handle_t program, kernel
        check_fork()
        program = self.built(image)
        self.binary = self.binary_of(program)
        if self.binary is not None and image[:4] == SPIRV:  # a compiler's program holds megabytes for as long as its kernels live
            cl.ReleaseProgram(program)
            program = self.built(self.binary)
        kernel = cl.CreateKernel(program, name.encode(), &status)
        check(status, "clCreateKernel")
        return <uintptr_t>kernel

    cdef handle_t built(self, bytes image) except NULL:
        """The program of SPIR-V, or of a binary that `native` has returned."""
        cdef status_t status = 0, loaded = 0
        cdef const unsigned char* start = image
        cdef size_t length = len(image)
        cdef handle_t program
        cdef const char* options = self.options
        if image[:4] == SPIRV:
            program = cl.CreateProgramWithIL(self.context, start, length, &status)
            check(status, "clCreateProgramWithIL")
        else:
            program = cl.CreateProgramWithBinary(self.context, 1, &self.id, &length, &start, &loaded, &status)
            check(status if status else loaded, "clCreateProgramWithBinary")
        with nogil:
            status = cl.BuildProgram(program, 1, &self.id, options, NULL, NULL)
        if status != 0:
            raise RuntimeError(f"OpenCL error: clBuildProgram with options {self.options.decode()!r} failed with code {status}: "
                               f"{self.build_log(program)}")
        return program

    cdef str build_log(self, handle_t program):
        cdef size_t n = 0
        if cl.GetProgramBuildInfo(program, self.id, BUILD_LOG, 0, NULL, &n) != 0 or n == 0:
            return ""
        cdef bytes buffer = bytes(n)
        cl.GetProgramBuildInfo(program, self.id, BUILD_LOG, n, <char*>buffer, NULL)
        return buffer.rstrip(b"\0").decode("utf-8", "replace")

    cdef bytes binary_of(self, handle_t program):
        cdef size_t n = 0
        cdef bytes buffer
        cdef char* place
        if cl.GetProgramInfo(program, PROGRAM_BINARY_SIZES, sizeof(size_t), &n, NULL) != 0 or n == 0:
            return None
        buffer = bytes(n)
        place = buffer
        if cl.GetProgramInfo(program, PROGRAM_BINARIES, sizeof(char*), &place, NULL) != 0:
            return None
        return buffer

    cdef bytes native(self):
        return self.binary

    cdef int launch(self, uint64_t kernel, const Grid* grid, Arguments* arguments) except -1:
        cdef handle_t function = <handle_t><uintptr_t>kernel
        cdef size_t total[3]
        cdef size_t block[3]
        cdef uint32_t dims = 1 if grid.blocks[1] == grid.blocks[2] == grid.threads[1] == grid.threads[2] == 1 else 3
        cdef status_t status = 0
        cdef int k
        check_fork()
        for k in range(arguments.count):
            if arguments.sizes[k]:
                status |= cl.SetKernelArg(function, k, arguments.sizes[k], &arguments.values[k])
            else:
                status |= self.usm.SetKernelArgMemPointer(function, k, <void*><uintptr_t>arguments.values[k])
        if grid.shared:
            status |= cl.SetKernelArg(function, arguments.count, grid.shared, NULL)
        check(status, "clSetKernelArg")
        for k in range(3):
            total[k], block[k] = <size_t>grid.blocks[k] * grid.threads[k], grid.threads[k]
        return check(cl.EnqueueNDRangeKernel(self.queue, function, dims, NULL, total, block, 0, NULL, NULL),
                     "clEnqueueNDRangeKernel")

    # order
    cdef int finish(self) except -1:
        cdef status_t status
        check_fork()
        with nogil:
            status = cl.Finish(self.queue)
        return check(status, "clFinish")

    cdef uint64_t new_event(self, bint timing) except 0:
        """A place for the driver's event, which a record makes anew."""
        cdef handle_t* place = <handle_t*>malloc(sizeof(handle_t))
        if place == NULL:
            raise MemoryError
        place[0] = NULL
        return <uintptr_t>place

    cdef int free_event(self, uint64_t event) except -1:
        cdef handle_t* place = <handle_t*><uintptr_t>event
        if place[0] != NULL:
            cl.ReleaseEvent(place[0])
        release_memory(place)
        return 0

    cdef int record_event(self, uint64_t event) except -1:
        cdef handle_t* place = <handle_t*><uintptr_t>event
        check_fork()
        if place[0] != NULL:
            cl.ReleaseEvent(place[0])
            place[0] = NULL
        check(cl.EnqueueMarkerWithWaitList(self.queue, 0, NULL, place), "clEnqueueMarkerWithWaitList")
        return check(cl.Flush(self.queue), "clFlush")

    cdef int wait_event(self, uint64_t event) except -1:
        cdef handle_t* place = <handle_t*><uintptr_t>event
        check_fork()
        if place[0] == NULL:
            return 0
        return check(cl.EnqueueBarrierWithWaitList(self.queue, 1, place, NULL), "clEnqueueBarrierWithWaitList")

    cdef int finish_event(self, uint64_t event) except -1:
        cdef handle_t* place = <handle_t*><uintptr_t>event
        cdef status_t status = 0
        check_fork()
        if place[0] != NULL:
            with nogil:
                status = cl.WaitForEvents(1, place)
        return check(status, "clWaitForEvents")

    cdef bint event_done(self, uint64_t event) except -1:
        cdef handle_t* place = <handle_t*><uintptr_t>event
        cdef int32_t now = COMPLETE
        check_fork()
        if place[0] != NULL:
            check(cl.GetEventInfo(place[0], EVENT_STATUS, 4, &now, NULL), "clGetEventInfo")
        return now <= COMPLETE

    cdef double elapsed(self, uint64_t start, uint64_t end) except? -1:
        cdef handle_t* first = <handle_t*><uintptr_t>start
        cdef handle_t* last = <handle_t*><uintptr_t>end
        cdef uint64_t begun = 0, ended = 0
        if first[0] == NULL or last[0] == NULL:
            raise RuntimeError("elapsed_time(): both events must be recorded before calculating elapsed time")
        check(cl.GetEventProfilingInfo(first[0], PROFILING_END, 8, &begun, NULL), "clGetEventProfilingInfo")
        check(cl.GetEventProfilingInfo(last[0], PROFILING_END, 8, &ended, NULL), "clGetEventProfilingInfo")
        return (<int64_t>(ended - begun)) * 1e-6

    cpdef dict properties(self):
        return {
            "name": text_of(self.id, DEVICE_NAME), "vendor": text_of(self.id, DEVICE_VENDOR),
            "version": text_of(self.id, DEVICE_VERSION), "driver_version": text_of(self.id, DRIVER_VERSION),
            "total_memory": number_of(self.id, GLOBAL_MEM_SIZE), "multi_processor_count": self.processors,
            "max_threads_per_block": number_of(self.id, MAX_WORK_GROUP_SIZE),
            "native_vector_width_float": number_of(self.id, NATIVE_VECTOR_WIDTH_FLOAT),
            "is_graphics_processor": bool(number_of(self.id, DEVICE_TYPE) & DEVICE_TYPE_GPU),
        }


cdef void* extension(handle_t platform, const char* name) except NULL:
    cdef void* function = cl.GetExtensionFunctionAddressForPlatform(platform, name)
    if function == NULL:
        raise RuntimeError(f"OpenCL error: the driver lacks {name.decode()}")
    return function


def make(index: int) -> Device:
    return OpenCL("opencl", index)


register("opencl", count, make, count_accelerators)


@cython.binding(False)
cdef class Event:
    """A mark in the queue of an OpenCL device, with the time when it was reached.

    Raises:
        RuntimeError: it is recorded, and there is no such device; `elapsed_time` of one that was not recorded or reached

    >>> import flambeau
    >>> flambeau.opencl.Event().query()
    True
    """

    cdef OpenCL on
    cdef uint64_t number

    def __init__(self, enable_timing: bool = False):
        """All events are timed; the argument is there for programs that ask for it."""

    def __dealloc__(self):
        if self.on is not None:
            self.on.free_event(self.number)

    def record(self, device=None) -> None:
        """Put it behind what is queued on a device, the current one by default."""
        cdef Device wanted = device_for("opencl" if device is None else device, "record")
        if not isinstance(wanted, OpenCL):
            raise ValueError(f"record(): an opencl device expected, got {device!r}")
        if self.on is not wanted:
            if self.on is not None:
                self.on.free_event(self.number)
                self.on = None
            self.number = wanted.new_event(True)
            self.on = <OpenCL>wanted
        self.on.record_event(self.number)

    def wait(self) -> None:
        """Let what is queued on its device from now on wait for it."""
        if self.on is not None:
            self.on.wait_event(self.number)

    def query(self) -> bool:
        """Whether it has been reached; True for one that was never recorded."""
        return self.on is None or self.on.event_done(self.number)

    def synchronize(self) -> None:
        """Wait on the host until it has been reached."""
        if self.on is not None:
            self.on.finish_event(self.number)

    def elapsed_time(self, Event end_event not None) -> float:
        """Milliseconds from this event to the other; RuntimeError unless both were recorded and reached."""
        if self.on is None or end_event.on is None:
            raise RuntimeError("elapsed_time(): both events must be recorded before calculating elapsed time")
        if not self.query() or not end_event.query():
            raise RuntimeError("elapsed_time(): both events must be completed before calculating elapsed time")
        return self.on.elapsed(self.number, end_event.number)
