# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""What the profiler notes while it is on.

One entry for everything that begins and ends: operations as they are dispatched, nodes in a backward pass, named spans.
An entry is a few numbers in one array that grows; Python's objects are made of them when the recording is over.  Entries
are made in the order in which they begin, under the GIL, so that of one thread those inside another follow it.

While nothing is profiled nothing here runs: dispatch reads `runtime.observers`, which counts interceptors and profilers, and so costs
what it costs without a profiler.
"""
from libc.stdlib cimport free, realloc
from libc.stdint cimport int64_t, uint64_t, uintptr_t
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_DECREF
from .device cimport Device
from .dtypes cimport dtype_of
from .memory cimport bytes_held
from .tensor cimport TensorBase, runtime
from .device import devices_in_use
import os
import threading
cimport cython

cdef extern from *:
    """
    #include <time.h>
    #include <unistd.h>
    static __thread int flambeau_thread = 0;      /* this thread's number among those that have recorded */
    static int64_t flambeau_now(void) {
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
    }
    """
    int flambeau_thread
    int64_t flambeau_now() noexcept nogil

cdef extern from "Python.h":
    ctypedef struct PyThreadState
    ctypedef struct PyFrameObject
    ctypedef struct PyCodeObject
    PyThreadState* PyThreadState_Get()
    PyFrameObject* PyThreadState_GetFrame(PyThreadState* state)
    PyFrameObject* PyFrame_GetBack(PyFrameObject* frame)
    PyCodeObject* PyFrame_GetCode(PyFrameObject* frame)
    int PyFrame_GetLineNumber(PyFrameObject* frame)
    bint PyTuple_Check(object o)
    bint PyList_Check(object o)
    bint PyBool_Check(object o)
    bint PyLong_Check(object o)
    bint PyFloat_Check(object o)
    bint PyUnicode_Check(object o)

cdef struct Entry:
    PyObject* what            # owned: an operation, or a name
    PyObject* arguments       # owned: the arguments of an operation, as `note_call` says; NULL where that is not wanted
    PyObject* stack           # owned: pairs of code and line, the innermost first; NULL where that is not wanted
    int64_t begun, ended      # nanoseconds of CLOCK_MONOTONIC; `ended` is 0 while it runs
    int64_t held, left        # bytes that tensors on the host held, before and after
    int64_t device_held, device_left  # the same on other devices
    uint64_t made, sequence   # how many nodes had been made before and after; a node's own number is its `sequence`
    int thread, kind

cdef Entry* entries = NULL
cdef Py_ssize_t count = 0, capacity = 0
cdef int64_t session_number = 1            # the number of the recording, so that an entry of an earlier one is not ended in this
cdef bint session = False                  # somebody has started a recording and not stopped it
cdef int threads_seen = 0
cdef dict thread_names = {}                # number of a thread -> its name and the system's number
cdef list work = []                        # on devices: (device, name, first mark, last mark, the host's time, thread)
cdef dict references = {}                  # device -> (mark, the host's time)
cdef int64_t device_bytes = 0

cdef int64_t PLACES = <int64_t>1 << 40     # entries of one recording: `begin` gives sitting * PLACES + place


cdef int number_thread() except -1:
    """Give this thread a number."""
    global threads_seen, flambeau_thread
    threads_seen += 1
    flambeau_thread = threads_seen
    thread_names[threads_seen] = (threading.current_thread().name, threading.get_native_id())
    return 0


cdef int64_t on_devices():
    """Bytes that tensors hold on accelerators."""
    cdef int64_t result = 0
    for device in devices_in_use():
        result += (<Device>device).held_bytes
    return result


cdef int grow() except -1:
    global entries, capacity
    cdef Entry* larger = <Entry*>realloc(entries, (capacity * 2 + 1024) * sizeof(Entry))
    if larger == NULL:
        raise MemoryError
    entries, capacity = larger, capacity * 2 + 1024
    return 0


cdef int64_t begin(object what, int kind):
    """Note that something begins; what to give `end`."""
    global count
    cdef Entry* e
    if count == capacity:
        grow()
    if flambeau_thread == 0:
        number_thread()
    e = &entries[count]
    count += 1
    Py_INCREF(what)
    e.what, e.arguments, e.stack = <PyObject*>what, NULL, NULL
    e.ended, e.thread, e.kind = 0, flambeau_thread, kind
    e.made = e.sequence = profiling.ages[0]
    e.held = e.left = e.device_held = e.device_left = 0
    if profiling.memory:
        e.held = e.left = bytes_held()
        e.device_held = e.device_left = on_devices()
    e.begun = flambeau_now()
    return session_number * PLACES + count - 1


cdef inline Entry* entry_of(int64_t number) noexcept:
    """NULL for one of an earlier recording."""
    return &entries[number % PLACES] if number // PLACES == session_number and number % PLACES < count else NULL


cdef void end(int64_t entry) noexcept:
    """Note that it has ended."""
    cdef Entry* e = entry_of(entry)
    if e == NULL:
        return
    e.ended = flambeau_now()
    if e.kind != NODE and e.kind != EVALUATION:
        e.sequence = profiling.ages[0]
    if profiling.memory:
        e.left = bytes_held()
        e.device_left = on_devices()


cdef void number(int64_t entry, uint64_t sequence) noexcept:
    """Say which node it is about."""
    cdef Entry* e = entry_of(entry)
    if e != NULL:
        e.sequence = sequence


# --- arguments of operations ------------------------------
cdef object described(object x):
    """Of a tensor its shape and dtype; numbers, flags and texts as they are, lists of these likewise; nothing of all else."""
    cdef TensorBase t
    if isinstance(x, TensorBase):
        t = <TensorBase>x
        return (t.shape, dtype_of(t.code))
    if x is None or PyLong_Check(x) or PyFloat_Check(x) or PyUnicode_Check(x):
        return x
    if PyTuple_Check(x) or PyList_Check(x):
        return [described(y) for y in x]
    return NotImplemented


cdef object frames():
    """Where this thread is: pairs of code and line, the innermost first."""
    cdef PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get())
    cdef PyFrameObject* outer
    cdef PyObject* code
    cdef list result = []
    while frame != NULL:
        code = <PyObject*>PyFrame_GetCode(frame)
        result.append((<object>code, PyFrame_GetLineNumber(frame)))
        Py_DECREF(<object>code)
        outer = PyFrame_GetBack(frame)
        Py_DECREF(<object><PyObject*>frame)
        frame = outer
    return result


cdef int note_call(int64_t entry, PyObject** args, Py_ssize_t given, Py_ssize_t positional, PyObject* names) except -1:
    """Note an operation's arguments, and where it was called, as far as that is wanted; the time of it counts for no entry."""
    cdef Entry* e
    cdef object arguments = None, stack = None
    if profiling.shapes:
        arguments = ([described(<object>args[k]) for k in range(given)], positional, None if names == NULL else <object>names)
    if profiling.stacks:
        stack = frames()
    e = entry_of(entry)
    if e == NULL:
        return 0
    if arguments is not None:
        Py_INCREF(arguments)
        e.arguments = <PyObject*>arguments
    if stack is not None:
        Py_INCREF(stack)
        e.stack = <PyObject*>stack
    e.begun = flambeau_now()
    return 0


# --- work on devices ------------------------------
cdef uint64_t mark(Device device) except? 0:
    """A mark behind what the device has been given; before the first of a recording one with the host's time."""
    cdef uint64_t made
    if device not in references:
        references[device] = None
        device.finish()
        made = device.new_event(True)
        device.record_event(made)
        references[device] = (made, flambeau_now())
    made = device.new_event(True)
    device.record_event(made)
    return made


cdef int note_work(Device device, object name, uint64_t first, uint64_t last) except -1:
    """Note what a device does between two marks."""
    work.append((device, name, first, last, flambeau_now(), flambeau_thread))
    return 0


cdef list work_done():
    """(device, name, begun, ended, when the host gave it, thread) of all that was noted; waits for the devices."""
    cdef list result = []
    cdef Device device
    cdef int64_t start
    for device, reference in references.items():
        device.finish()
    for device, name, first, last, given, thread in work:
        origin, host = references[device]
        start = <int64_t>host + <int64_t>(1e6 * device.elapsed(origin, first))
        result.append((device.place, name, start, start + <int64_t>(1e6 * device.elapsed(first, last)), given, thread))
    return result


cdef int forget_work() except -1:
    cdef Device device
    for device, name, first, last, given, thread in work:
        device.free_event(first)
        device.free_event(last)
    for device, reference in references.items():
        device.free_event(reference[0])
    work.clear()
    references.clear()
    return 0


# --- a recording ------------------------------
cdef void drop_entries() noexcept:
    """Drop the entries."""
    global entries, count, capacity, session_number
    cdef Entry* old = entries
    cdef Py_ssize_t k, n = count
    entries, count, capacity = NULL, 0, 0
    session_number += 1
    for k in range(n):
        Py_DECREF(<object>old[k].what)
        if old[k].arguments != NULL:
            Py_DECREF(<object>old[k].arguments)
        if old[k].stack != NULL:
            Py_DECREF(<object>old[k].stack)
    free(old)


cdef void switch(bint on) noexcept:
    if on != profiling.on:
        profiling.on = on
        runtime.observers += 1 if on else -1


def start(bint shapes=False, bint stacks=False, bint memory=False, bint devices=False) -> None:
    """Record from now on.  RuntimeError while another recording is on."""
    global session
    if session:
        raise RuntimeError("Profiler is already enabled on this thread: a recording is on, and there can be only one at a time")
    profiling.shapes, profiling.stacks, profiling.memory, profiling.devices = shapes, stacks, memory, devices
    session = True
    switch(True)


def pause() -> None:
    """Make no entries until `resume`; those that are open end when they end."""
    switch(False)


def resume() -> None:
    """Go on after `pause`."""
    if session:
        switch(True)


def record_devices(bint on) -> None:
    """Measure kernels on devices from now on, or no more."""
    profiling.devices = on


def clear() -> None:
    """Drop what was recorded so far, and go on."""
    drop_entries()
    forget_work()


def is_profiling() -> bool:
    """Whether entries are made now."""
    return profiling.on


def is_started() -> bool:
    """Whether a recording is on, paused or not."""
    return session


def now() -> int:
    """Nanoseconds of the clock of entries."""
    return flambeau_now()


def stop() -> tuple:
    """End the recording: (entries, work on devices, threads, the time of the end).

    An entry is (what, kind, begun, ended, thread, held, left, away, away left, made, sequence, given, stack); one that has not ended
    has 0 there.  Work is (device, name, begun, ended, when the host gave it, thread).  Threads map a number to a name and the system's number.
    """
    global session
    cdef Py_ssize_t k
    cdef Entry* e
    cdef list result = []
    if not session:
        raise RuntimeError("Can't disable profiler when it's not running")
    switch(False)
    session = False
    cdef int64_t last = flambeau_now()
    for k in range(count):
        e = &entries[k]
        result.append((<object>e.what, e.kind, e.begun, e.ended, e.thread, e.held, e.left, e.device_held, e.device_left, e.made, e.sequence,
                      None if e.arguments == NULL else <object>e.arguments, None if e.stack == NULL else <object>e.stack))
    try:
        done = work_done()
    finally:
        clear()
    return result, done, dict(thread_names), last


def begin_span(str name not None, bint module=False, given=None) -> int:
    """Note that what has this name begins, where somebody records; what to give `end_span`, -1 where nobody does."""
    cdef int64_t entry
    cdef Entry* e
    if not profiling.on:
        return -1
    entry = begin(name, MODULE if module else SPAN)
    if given is not None and profiling.shapes:
        arguments = ([described(x) for x in given], len(given), None)
        e = entry_of(entry)
        Py_INCREF(arguments)
        e.arguments = <PyObject*>arguments
    if profiling.stacks:
        stack = frames()
        e = entry_of(entry)
        Py_INCREF(stack)
        e.stack = <PyObject*>stack
    return entry


def end_span(int64_t entry) -> None:
    """Note that it has ended; nothing for an entry of a recording that is over."""
    if entry >= 0:
        end(entry)


def _after_fork() -> None:
    """Nothing is profiled in a child: the profiler is its parent's."""
    global session
    switch(False)
    if session:
        session = False
        work.clear()          # the marks are the parent's
        references.clear()
        drop_entries()


os.register_at_fork(after_in_child=_after_fork)
