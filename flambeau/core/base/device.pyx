# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, binding=False, embedsignature=True, embedsignature.format=clinic
"""The seam between the library and an accelerator.

A device is a thin table of what its driver does: memory, copies, kernels, events.  All that is above it
(which kernel, which operands, the tape) is the same for all of them.  Addresses are plain numbers, so a
tensor is an address and an offset, and a view is a matter of the host alone.

All work is queued on the thread's current stream of the device and runs in that order; nothing but `finish`,
`finish_event` and copies that wait blocks the host.  An error of the driver is raised as a
RuntimeError that names the call and the driver's code.
"""
from libc.stdint cimport int64_t, uint64_t
from cpython.object cimport PyObject
from .dtypes cimport device
from .dtypes import cpu_device
from . import dtypes as _dtypes, display
from importlib import import_module
import os
import threading


class OutOfMemoryError(RuntimeError):
    """An allocation was refused by the system; the message has the bytes requested and held."""


cdef extern from *:
    """
    #define FLAMBEAU_SLOTS 256
    static __thread uint64_t flambeau_streams[FLAMBEAU_SLOTS];  /* this thread's current stream of each open device */
    """
    uint64_t* flambeau_streams
    enum:
        FLAMBEAU_SLOTS

NO_LIMIT = 1 << 62


cdef class Limits:
    """The largest grid that a device takes: blocks and threads along x, y and z, threads of a block in all, bytes it shares."""

    def __init__(self, tuple blocks=(NO_LIMIT,) * 3, tuple threads=(NO_LIMIT,) * 3, block=NO_LIMIT, shared=NO_LIMIT):
        self.blocks, self.threads, self.block, self.shared = blocks, threads, block, shared


cdef class Device:
    """One accelerator.  Those who make one set `type`, `index`, `target`, `processor`, `fingerprint`, `limits` and `processors`, and
    override every method up to `properties`; `native` and `product` only where they have something to offer.
    """

    def __cinit__(self, str type, int index, *rest):
        self.type, self.index = type, index
        self.place = device(type, index)
        self.cached = {}
        self.processors = 1
        self.processor, self.limits = "", Limits()

    # memory
    cdef uint64_t allocate(self, size_t nbytes) except? 0:
        """The address of new memory, at least 64-byte aligned, for work that is queued from now on; 0 where
        the driver has none left, which is no exception: the cache is emptied and the question repeated.
        """
        raise NotImplementedError(f"{self.type}: allocate")

    cdef int free(self, uint64_t address) except -1:
        """Give memory back once the work that is queued now has finished (on any stream)."""
        raise NotImplementedError(f"{self.type}: free")

    cdef void* allocate_host(self, size_t nbytes) except NULL:
        """Pinned memory of the host: copies from and to it run beside the host's work."""
        raise NotImplementedError(f"{self.type}: allocate_host")

    cdef int free_host(self, void* memory) except -1:
        raise NotImplementedError(f"{self.type}: free_host")

    cdef int copy_in(self, uint64_t to, const void* source, size_t nbytes, bint wait) except -1:
        """Host to device.  Without `wait` the source must be pinned, and stay as it is until the stream gets
        there; with it, or from pageable memory, the source can be used again on return.
        """
        raise NotImplementedError(f"{self.type}: copy_in")

    cdef int copy_out(self, void* to, uint64_t source, size_t nbytes, bint wait) except -1:
        """Device to host, after the work that is queued; with `wait` it has happened on return."""
        raise NotImplementedError(f"{self.type}: copy_out")

    cdef int copy_within(self, uint64_t to, uint64_t source, size_t nbytes) except -1:
        """Device to device; the two do not overlap."""
        raise NotImplementedError(f"{self.type}: copy_within")

    cdef int fill(self, uint64_t to, unsigned char value, size_t nbytes) except -1:
        """Set every byte."""
        raise NotImplementedError(f"{self.type}: fill")

    # kernels
    cdef uint64_t load(self, bytes image, str name) except 0:
        """A handle of the kernel `name` in an image of `target` (PTX text, SPIR-V …), kept for good.  The
        driver's log is part of the error's message.
        """
        raise NotImplementedError(f"{self.type}: load")

    cdef bytes native(self):
        """What the driver has made of the image that was loaded last, in a form that `load` takes as well and
        that is ready sooner; None where there is no such form, or the driver keeps its own.
        """
        return None

    cdef int launch(self, uint64_t kernel, const Grid* grid, Arguments* arguments) except -1:
        """Queue the blocks of a grid, after `check_grid`.  The arguments are copied before it returns.  Memory that a block
        shares besides what the kernel declares is, for SPIR-V, one more argument, the last.
        """
        raise NotImplementedError(f"{self.type}: launch")

    cdef int check_grid(self, const Grid* grid) except -1:
        """ValueError for a grid that is empty, or larger than the device takes: it is never cut."""
        cdef int k
        cdef int64_t threads = 1
        for k in range(3):
            threads *= grid.threads[k]
            if not (0 < grid.blocks[k] <= self.limits.blocks[k] and 0 < grid.threads[k] <= self.limits.threads[k]):
                raise ValueError(f"launch on {self.place}: {grid.blocks[k]} blocks of {grid.threads[k]} threads along {'xyz'[k]}; "
                                 f"1 to {self.limits.blocks[k]} blocks of 1 to {self.limits.threads[k]} threads expected")
        if threads > self.limits.block:
            raise ValueError(f"launch on {self.place}: blocks of {threads} threads; at most {self.limits.block} expected")
        if grid.shared > self.limits.shared:
            raise ValueError(f"launch on {self.place}: a block shares {grid.shared} bytes; at most {self.limits.shared} expected")
        return 0

    cdef bint product(self, Product* p) except -1:
        """Queue a product of matrices on the device's own library; False where it has none for this one.  Without a place for the
        result (`p.c` is 0) nothing is queued: whether there is a library."""
        return False

    # order
    cdef int finish(self) except -1:
        """Wait until all that is queued has run; raises what a kernel has reported."""
        raise NotImplementedError(f"{self.type}: finish")

    cdef uint64_t new_event(self, bint timing) except 0:
        """A handle of a mark in a stream; `timing` where `elapsed` will be read."""
        raise NotImplementedError(f"{self.type}: new_event")

    cdef int free_event(self, uint64_t event) except -1:
        raise NotImplementedError(f"{self.type}: free_event")

    cdef int record_event(self, uint64_t event) except -1:
        """Put the mark behind what the current stream holds now."""
        raise NotImplementedError(f"{self.type}: record_event")

    cdef int wait_event(self, uint64_t event) except -1:
        """Let the current stream go on only when the mark has been reached; the host does not wait."""
        raise NotImplementedError(f"{self.type}: wait_event")

    cdef int finish_event(self, uint64_t event) except -1:
        """Wait on the host until the mark has been reached; at once for one never recorded."""
        raise NotImplementedError(f"{self.type}: finish_event")

    cdef bint event_done(self, uint64_t event) except -1:
        """Whether the mark has been reached; True for one never recorded."""
        raise NotImplementedError(f"{self.type}: event_done")

    cdef double elapsed(self, uint64_t start, uint64_t end) except? -1:
        """Milliseconds from one mark to the other, both reached."""
        raise NotImplementedError(f"{self.type}: elapsed")

    cpdef dict properties(self):
        """`name`, `total_memory` (bytes), `multi_processor_count`, and what else the driver tells."""
        raise NotImplementedError(f"{self.type}: properties")

    # streams
    cdef uint64_t stream(self) noexcept:
        """Where this thread's work is queued now; 0 is the default stream."""
        return flambeau_streams[self.slot]

    cdef void choose_stream(self, uint64_t stream) noexcept:
        """Let this thread's work go there from now on."""
        flambeau_streams[self.slot] = stream

    cpdef bint capturing(self) except -1:
        """Whether the current stream writes down its work instead of running it."""
        return False

    def copy_from(self, Device other, uint64_t to, uint64_t source, size_t nbytes) -> bool:
        """Queue a copy from the memory of another device, behind what is queued on both; False where that goes by way of the host."""
        return False

    # the cache of blocks
    cdef uint64_t acquire(self, size_t nbytes, int block) except 0:
        """A block of that size class for work on the current stream: one that was freed on this stream, else
        a new one; under pressure the cache is given back first.  OutOfMemoryError when that does not help.
        """
        cdef size_t size = class_bytes(block)
        cdef uint64_t address
        cdef list lists, free_blocks
        check_fork()
        lists = self.cached.get(self.stream())
        if lists is not None:
            free_blocks = <list>lists[block]
            if free_blocks:
                address = free_blocks.pop()
                self.cached_bytes -= size
                self.hold(size)
                return address
        self.driver_calls += 1
        address = self.allocate(size)
        if address == 0:
            self.retries += 1
            self.empty_cache()
            address = self.allocate(size)
        if address == 0:
            self.refusals += 1
            raise self.out_of_memory(nbytes)
        self.hold(size)
        return address

    cdef int release(self, uint64_t address, int block, uint64_t stream, object uses) except -1:
        """Keep a block for the next tensor of its size on `stream`, where it was acquired: work that is
        queued there runs before the next owner's.  `uses` names other streams that have worked on the block
        (None: no others); a device with several streams overrides this to let the block wait for them.
        """
        cdef list lists = self.cached.get(stream)
        if lists is None:
            lists = self.cached[stream] = [[] for _ in range(CLASSES)]
        (<list>lists[block]).append(address)
        self.cached_bytes += class_bytes(block)
        self.let_go(class_bytes(block))
        return 0

    def out_of_memory(self, size_t nbytes) -> OutOfMemoryError:
        """The error for memory that the driver does not give: what was wanted, and who holds what."""
        return OutOfMemoryError(f"{display.NAME}: cannot allocate {nbytes} bytes on {self.place}: tensors hold {self.held_bytes} bytes "
                                f"and the cache {self.cached_bytes} bytes")

    cdef void hold(self, size_t size) noexcept:
        self.held_bytes += size
        self.held_blocks += 1
        self.taken_bytes += size
        self.taken_blocks += 1
        if self.held_bytes > self.peak_bytes:
            self.peak_bytes = self.held_bytes
        if self.held_blocks > self.peak_blocks:
            self.peak_blocks = self.held_blocks

    cdef void let_go(self, size_t size) noexcept:
        self.held_bytes -= size
        self.held_blocks -= 1

    def empty_cache(self) -> None:
        """Give every cached block back to the driver."""
        check_fork()
        for lists in self.cached.values():
            for free_blocks in lists:
                while free_blocks:
                    self.free(<uint64_t>free_blocks.pop())
        self.cached_bytes = 0

    def several_streams(self) -> bool:
        """Whether work of other streams than the one a block was acquired on may be queued on it; `release` waits for it."""
        return False

    def memory_stats(self) -> dict:
        """Bytes held by tensors, their peak, bytes cached for reuse, and how often the driver allocated memory; the same of
        blocks, all that was handed out, how often the cache was given back under pressure, and how often in vain.
        """
        return {"allocated_bytes": self.held_bytes, "peak_allocated_bytes": self.peak_bytes,
                "cached_bytes": self.cached_bytes, "system_allocations": self.driver_calls,
                "blocks": self.held_blocks, "peak_blocks": self.peak_blocks, "all_blocks": self.taken_blocks,
                "all_bytes": self.taken_bytes, "retries": self.retries, "refusals": self.refusals}

    def reset_peak_memory_stats(self) -> None:
        """Start measuring the peak anew."""
        self.peak_bytes = self.held_bytes
        self.peak_blocks = self.held_blocks

    def reset_accumulated_memory_stats(self) -> None:
        """Count anew what is handed out, and how often the driver allocates memory."""
        self.driver_calls = self.retries = self.refusals = 0
        self.taken_blocks, self.taken_bytes = self.held_blocks, self.held_bytes

    def synchronize(self) -> None:
        """Wait until all that is queued on the device has run."""
        check_fork()
        self.finish()
        self.check_fault()

    cdef uint64_t fault_place(self, str name) except 0:
        """Where a kernel of the operation `name` reports an index out of bounds (None: it meets none)."""
        if self.fault == 0:
            self.fault = self.acquire(8, 1)
            self.fill(self.fault, 0, 8)
        if self.suspect is None:
            self.suspect = name
        return self.fault

    cdef int check_fault(self) except -1:
        """IndexError where a kernel since the last check has met an index out of bounds; such an element is neither
        read nor written.  Called where the host waits for the device anyway.
        """
        cdef int64_t met = 0
        cdef str name = self.suspect
        if name is None:
            return 0
        self.suspect = None
        self.copy_out(&met, self.fault, 8, True)
        if met:
            self.fill(self.fault, 0, 8)
            raise IndexError(f"an index was out of bounds on {self.place}: in {name}() or in an operation after it, since the host "
                             "last waited for the device")
        return 0

    def __repr__(self):
        return f"<{display.NAME} device {self.place}>"

    def __reduce__(self):
        return (find_device, (self.type, self.index))


# --- tensors without data ------------------------------
cdef class Blank(Device):
    """The device "meta": its tensors have a shape, a dtype, strides and a history, and no elements.  Storages know how many
    bytes they would have.  Whoever would launch a kernel asks for `blank` first and does nothing; what needs elements
    raises NotImplementedError.
    """

    def __cinit__(self, str type, int index):
        self.blank, self.place, self.index = True, device(type), -1  # as `Tensor.get_device` counts
        self.target = self.fingerprint = type

    cdef int copy_in(self, uint64_t to, const void* source, size_t nbytes, bint wait) except -1:
        return 0

    cdef int copy_out(self, void* to, uint64_t source, size_t nbytes, bint wait) except -1:
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")

    cdef int copy_within(self, uint64_t to, uint64_t source, size_t nbytes) except -1:
        return 0

    cdef int fill(self, uint64_t to, unsigned char value, size_t nbytes) except -1:
        return 0

    cdef bint product(self, Product* p) except -1:
        return True

    cdef int finish(self) except -1:
        return 0

    cpdef dict properties(self):
        return {"name": self.type, "total_memory": 0, "multi_processor_count": 0}


cdef Device the_blank = Blank("meta", 0)


# --- which there are ------------------------------
cdef dict makers = {}          # type -> function of an index that makes the Device, or raises RuntimeError
cdef dict counters = {}        # type -> function that says how many there are, 0 without a driver
cdef dict separate = {}        # type -> function that says how many of these are accelerators
cdef dict drivers = {}         # type -> the module that registers it, imported when a device of that type is first looked for
cdef dict opened = {}          # (type, index) -> Device
cdef object current = threading.local()  # type -> index of the one that a device without an index means in this thread
cdef bint forked = False


def register(str type, count, make, accelerators=None) -> None:
    """Make a type of device known: `count()` says how many there are (fast, 0 without a driver, no error),
    `make(index)` opens one, and raises RuntimeError where it cannot.  `accelerators()` says how many of them, which come first, are
    not the host's processor itself: by default all.
    """
    makers[type], counters[type], separate[type] = make, count, accelerators or count


def register_driver(str type, str module) -> None:
    """Say which module registers a type of device."""
    drivers[type] = module


cdef bint is_known(str type) except -1:
    """Whether a type of device is registered, by its driver's module if need be."""
    if type not in makers and type in drivers:
        import_module(drivers[type])
    return type in makers


def device_count(str type) -> int:
    """How many devices of that type there are; 0 for a type that nobody registered."""
    return counters[type]() if is_known(type) else 0


def current_device(str type) -> int:
    """The index that a device without one means."""
    return getattr(current, type, 0)


def set_device(str type, int index) -> None:
    """Choose what a device without an index means; RuntimeError where there is none of that number."""
    setattr(current, type, find_device(type, index).index)


def is_opened(str type) -> bool:
    """Whether a device of that type is in use in this process."""
    return any([key[0] == type for key in opened])


def open_devices(str type) -> list[Device]:
    """Those of that type that are in use in this process."""
    return [result for key, result in opened.items() if key[0] == type]


def devices_in_use():
    """All that are in use in this process."""
    return opened.values()


cpdef Device find_device(str type, object index):
    """The open device, opened now if it is the first time.  RuntimeError where there is none, and in a
    process that was forked after a device was opened.
    """
    cdef int number = getattr(current, type, 0) if index is None else index
    if type == "meta":  # has no driver, which a fork could lose
        return the_blank
    check_fork()
    result = opened.get((type, number))
    if result is None:
        if not is_known(type):
            raise absent(type)
        if len(opened) + 1 == FLAMBEAU_SLOTS:
            raise RuntimeError(f"{type}:{number}: at most {FLAMBEAU_SLOTS - 1} devices can be in use")
        result = makers[type](number)
        (<Device>result).slot = <int>len(opened) + 1
        opened[(type, number)] = result
    return <Device>result


def absent(str type) -> Exception:
    """The error for a type of device that nothing here drives, of PyTorch's class."""
    kind = AssertionError if type in ("xpu", "mtia") else NotImplementedError
    return kind(f"device '{type}' is not available: this build of {display.NAME} has no support for it")


cdef Device device_for(object value, str who):
    """What an argument `device=` means: None for the host."""
    cdef device place
    if value is None or value is cpu_device:
        return None
    if isinstance(value, Device):
        return <Device>value
    if isinstance(value, int) and not isinstance(value, bool):
        place = device(first_type(), value)
    else:
        place = <device>value if isinstance(value, device) else device(value)
    if place.type == "cpu":
        return None
    try:
        return find_device(place.type, place.index)
    except (RuntimeError, AssertionError) as e:
        raise type(e)(f"{who}(): {e}") from None


def accelerator_type():
    """The first type of which there is an accelerator, a device that is not the host's processor itself; None where there is none."""
    for type in {**drivers, **makers}:
        if is_known(type) and separate[type]():
            return type
    return None


cdef str first_type():
    """The type of device that a bare number means: the first of which there is one."""
    for type in {**drivers, **makers}:
        if device_count(type):
            return type
    raise RuntimeError("device(): there is no accelerator, so a number is no device")


def _accelerator() -> str:
    return first_type()


_dtypes.accelerator = _accelerator


# --- where tensors are made ------------------------------
cdef extern from *:
    """
    static __thread void* flambeau_place = 0;
    """
    PyObject* flambeau_place     # this thread's default Device, borrowed: open devices live as long as the process

cdef int placing = 0
cdef object chosen = threading.local()   # `places`: the devices of this thread's contexts, the innermost last; `fixed`: the one set


cdef Device default_place():
    return None if flambeau_place == NULL else <Device>flambeau_place


cdef int place_here(device place) except -1:
    """Make tensors there from now on, in this thread."""
    global placing, flambeau_place
    cdef Device result = None if place is None else device_for(place, "device")
    placing += (result is not None) - (flambeau_place != NULL)
    flambeau_place = NULL if result is None else <PyObject*>result
    return 0


def get_default_device() -> device:
    """Where this thread makes tensors without a device argument: that of the innermost `with device(…)`, else that of
    `set_default_device`, else the CPU.

    >>> import flambeau
    >>> with flambeau.device("meta"):
    ...     flambeau.get_default_device()
    device(type='meta')
    >>> flambeau.get_default_device()
    device(type='cpu')
    """
    places = getattr(chosen, "places", None)
    result = places[len(places) - 1] if places else getattr(chosen, "fixed", None)
    return cpu_device if result is None else result


def set_default_device(device) -> None:
    """Choose where this thread makes tensors without a device argument: a device, its name, or None for the CPU.  A `with
    device(…)` around the call goes before it.

    RuntimeError for a device that there is not.

    >>> import flambeau
    >>> flambeau.set_default_device("meta")
    >>> flambeau.zeros(2, 3).device
    device(type='meta')
    >>> flambeau.set_default_device(None)
    """
    cdef object place = None if device is None else as_device(device, "set_default_device")
    if not getattr(chosen, "places", None):
        place_here(place)
    chosen.fixed = place


cdef object as_device(object value, str who):
    """A device, its name or number; RuntimeError where there is none of that kind."""
    cdef Device result = device_for(value, who)
    return cpu_device if result is None else result.place


def _enter(place) -> None:
    place_here(place)
    if not hasattr(chosen, "places"):
        chosen.places = []
    chosen.places.append(place)


def _leave() -> None:
    chosen.places.pop()
    place_here(get_default_device())


_dtypes.enter_device, _dtypes.leave_device = _enter, _leave


cdef int check_fork() except -1:
    if forked:
        who = "CUDA" if is_opened("cuda") else "an accelerator"
        raise RuntimeError(f"Cannot re-initialize {who} in forked subprocess. To use {who} with multiprocessing, you must use the "
                           "'spawn' start method")
    return 0


cdef bint is_forked() noexcept:
    return forked


def _after_fork() -> None:
    global forked
    forked = len(opened) > 0


os.register_at_fork(after_in_child=_after_fork)
