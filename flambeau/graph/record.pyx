# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The recorder: what a thread's program calls, leaf by leaf, written down beside the dispatcher.

A call is written as words of eight bytes into one array that grows: the operation, its arguments before it runs, its results after.
A tensor is written as its place (serial number of the storage, dtype, offset, sizes, strides), so that recording keeps no result alive;
a tensor that the program had before is kept, for a graph may need it as a constant.  Python's objects are made of the words when the
recording is read.

Composites are not written: the leaves that they call are.  So are the leaves of backward passes and of optimisers.  What the tape copies
before a leaf overwrites it is written as a `clone` before that leaf.  In forward mode the calls that compute the tangents of a leaf's results are
written behind it: they run when it has ended.
"""
from collections import namedtuple
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memmove
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_DECREF, Py_XDECREF
from ..core.base.device cimport Device
from ..core.base.dtypes cimport dtype_of
from ..core.base.memory cimport Storage, serial_of
from ..core.base.tensor cimport MAX_DIMS, TENSOR, TensorBase, new_strided
from ..core.call.operation cimport dispatch, raw_t
from ..core.call.interceptors cimport add_interceptors, copies_slot, recorder_slot, run_profiled
from ..core.tape.forward cimport catch_up, later_slot
from ..core.tape.modes cimport FORWARD, grad_enabled
from ..operations.declare.registry import REGISTRY

cdef extern from "Python.h":
    Py_ssize_t PyVectorcall_NARGS(size_t n)
    bint PyTuple_Check(object o)
    bint PyList_Check(object o)
    bint PyDict_Check(object o)
    Py_ssize_t PyTuple_GET_SIZE(PyObject* o)
    int PyList_SetSlice(PyObject* list, Py_ssize_t low, Py_ssize_t high, PyObject* items) noexcept
    Py_ssize_t PY_SSIZE_T_MAX

Place = namedtuple("Place", "storage offset shape stride dtype device")
Place.__doc__ = """Where a tensor lies: serial number of its storage, elements from its start, sizes, strides, dtype, device."""

Call = namedtuple("Call", "operation args kwargs result")
Call.__doc__ = """A recorded call; the tensors of its arguments and results are `Place`s."""


cdef uint64_t recordings = 0

cdef uint64_t newest_recording() noexcept:
    return recordings

cdef enum:
    MOST_SPARE = 1 << 17
    FEW = 6     # dimensions of tensors for which a call has room from the start
cdef int64_t* spare = NULL    # the memory of a recording that is gone: the first touch of new pages costs more than the words
cdef int64_t spare_capacity = 0


cdef class Recording:
    """The leaves that this thread calls while it is on (`with recording:`), in their order.

    `calls()` reads them; `inputs` are the tensors that the program had before, one for each storage.  RuntimeError where this thread
    records already.

    >>> import flambeau
    >>> from flambeau.graph.record import Recording
    >>> x = flambeau.ones(2)
    >>> with Recording() as recording:
    ...     y = (x + 1).exp()
    >>> [call.operation.__name__ for call in recording.calls()]
    ['add', 'exp']
    """

    def __cinit__(self):
        global recordings
        recordings += 1
        self.number, self.objects, self.inputs, self.later = recordings, [], [], []

    def __dealloc__(self):
        global spare, spare_capacity
        if self.capacity <= MOST_SPARE and self.capacity > spare_capacity:
            self.words, spare = spare, self.words
            spare_capacity = self.capacity
        free(self.words)

    def __len__(self):
        return self.count

    def __enter__(self):
        self.slot, self.copies = recorder_slot(), copies_slot()
        self.outer = self.slot[0]
        if self.outer != NULL and not (<Recording>self.outer).wait():
            raise RuntimeError("Recording: this thread records already")
        self.slot[0] = <PyObject*>self      # borrowed: the `with` statement holds it
        add_interceptors(1)
        return self

    def __exit__(self, *exception):
        self.slot[0] = self.outer
        add_interceptors(-1)

    cdef bint wait(self) except -1:
        """Let another recording take this one's place for a while; whether that can be."""
        return False

    @property
    def end(self) -> int:
        """Where the next call will be written."""
        return self.used

    def calls(self, int64_t since=0) -> list:
        """What was recorded, as `Call`s; `since`: what was `end` then."""
        cdef int64_t at = since, positional, named, k
        cdef list result = []
        while at < self.used:
            op, names = self.objects[self.words[at]], None
            positional, named = self.words[at + 1], self.words[at + 2]
            if named:
                names = <tuple>self.objects[self.words[at + 3]]
            at += 4
            args, kwargs = [], {}
            for k in range(positional):
                args.append(self.read(&at))
            for k in range(named):
                kwargs[names[k]] = self.read(&at)
            result.append(Call(op, tuple(args), kwargs, self.read(&at)))
        return result

    cdef object call(self, PyObject* op, PyObject** args, size_t flagged, PyObject* names):
        """Run a leaf, and write it down."""
        cdef PyObject* found = NULL
        if begin_call(self, op, args, flagged, names):
            found = (<raw_t>run_profiled)(op, args, flagged, names)
        found = end_call(self, found)
        if found == NULL:
            raised()
        result = <object>found
        Py_DECREF(result)
        return result

    cdef void undo(self, int64_t used, Py_ssize_t objects) noexcept:
        """Forget what was written since; a pending error stays."""
        self.used = used
        PyList_SetSlice(<PyObject*>self.objects, objects, PY_SSIZE_T_MAX, NULL)

    # --- writing ------------------------------
    cdef int reserve(self, int64_t words) except -1:
        """Room for so many words more."""
        return 0 if self.used + words <= self.capacity else self.grow(words)

    cdef int grow(self, int64_t words) except -1:
        global spare, spare_capacity
        cdef void* larger
        if self.capacity == 0 and spare_capacity >= words:
            self.words, self.capacity = spare, spare_capacity
            spare, spare_capacity = NULL, 0
            return 0
        self.capacity = max(1024, 2 * self.capacity, self.used + words)
        larger = realloc(self.words, self.capacity * sizeof(int64_t))
        if larger == NULL:
            raise MemoryError("Recording: no memory for further calls")
        self.words = <int64_t*>larger
        return 0

    cdef int64_t refer(self, object x) except -1:
        """The number of an object, which is kept from now on."""
        self.objects.append(x)
        return len(self.objects) - 1

    cdef int write_place(self, TensorBase t, bint argument) except -1:
        self.reserve(4 + 2 * t.rank)
        return put_place(self, t, argument)

    cdef int write(self, object x, bint argument) except -1:
        """An argument or a result."""
        if (<PyObject*>x).ob_type == TENSOR or isinstance(x, TensorBase):
            return self.write_place(<TensorBase>x, argument)
        if PyList_Check(x) or (PyTuple_Check(x) and has_items(<tuple>x)):
            self.reserve(3)
            self.words[self.used] = LIST if PyList_Check(x) else TUPLE
            self.words[self.used + 1] = 0 if PyList_Check(x) else self.refer(type(x))
            self.words[self.used + 2] = len(x)
            self.used += 3
            for y in x:
                self.write(y, argument)
            return 0
        if PyDict_Check(x):
            self.reserve(2)
            self.words[self.used], self.words[self.used + 1] = DICT, len(x)
            self.used += 2
            for key, y in (<dict>x).items():
                self.reserve(1)
                self.words[self.used] = self.refer(key)
                self.used += 1
                self.write(y, argument)
            return 0
        self.reserve(2)
        self.words[self.used], self.words[self.used + 1] = OBJECT, self.refer(x)
        self.used += 2
        return 0

    cdef int write_call(self, PyObject* op, PyObject** args, Py_ssize_t positional, PyObject* names) except -1:
        """An operation and its arguments."""
        cdef Py_ssize_t named = 0 if names == NULL else len(<tuple>names), k
        cdef bint plain = (<PyObject*>self).ob_type == RECORDING     # others write places in their own way
        cdef int64_t* w
        self.reserve(4 + (positional + named) * (4 + 2 * FEW))
        w = self.words + self.used
        self.objects.append(<object>op)
        w[0], w[1], w[2], w[3] = len(self.objects) - 1, positional, named, -1 if named == 0 else self.refer(<object>names)
        self.used += 4
        for k in range(positional + named):
            if plain and args[k].ob_type == TENSOR and (<TensorBase>args[k]).rank <= FEW:
                put_place(self, <TensorBase>args[k], True)
            else:
                self.write(<object>args[k], True)
        return 0

    cdef int write_copy(self, int64_t at, TensorBase source, TensorBase copy) except -1:
        """A call that made a copy of an argument, before the call that is written at that place."""
        cdef int64_t first = self.used, length
        cdef int64_t* w
        self.reserve(4)
        self.words[self.used], self.words[self.used + 1] = self.refer(REGISTRY["clone"].function), 1
        self.words[self.used + 2], self.words[self.used + 3] = 0, -1
        self.used += 4
        self.write_place(source, True)
        self.write_place(copy, False)
        length = self.used - first
        self.reserve(length)
        w = self.words + at
        memcpy(self.words + self.used, self.words + first, length * sizeof(int64_t))
        memmove(w + length, w, (first - at) * sizeof(int64_t))
        memcpy(w, self.words + self.used, length * sizeof(int64_t))
        self.count += 1
        return 0

    # --- reading ------------------------------
    cdef object read(self, int64_t* at):
        """The item at a place, which moves behind it."""
        cdef int64_t* w = self.words + at[0]
        cdef int64_t rank, k
        if w[0] & 255 == PLACE:
            rank = w[0] >> 16
            at[0] += 4 + 2 * rank
            return Place(w[1], w[2], tuple([w[4 + k] for k in range(rank)]), tuple([w[4 + rank + k] for k in range(rank)]),
                         dtype_of(w[0] >> 8 & 255), None if w[3] < 0 else self.objects[w[3]])
        if w[0] == OBJECT:
            at[0] += 2
            return self.objects[w[1]]
        if w[0] == DICT:
            at[0] += 2
            result = {}
            for k in range(w[1]):
                key = self.objects[self.words[at[0]]]
                at[0] += 1
                result[key] = self.read(at)
            return result
        at[0] += 3
        items = [self.read(at) for k in range(w[2])]
        if w[0] == LIST:
            return items
        cls = self.objects[w[1]]
        return cls(*items) if hasattr(cls, "_fields") else cls(items)


cdef PyTypeObject* RECORDING = <PyTypeObject*>Recording


cdef bint has_items(tuple x):
    """Whether something in a tuple has to be written for itself: what is no tensor and never changes need not."""
    for y in x:
        if isinstance(y, TensorBase) or PyList_Check(y) or PyDict_Check(y) or (PyTuple_Check(y) and has_items(<tuple>y)):
            return True
    return False


cdef inline int put_place(Recording self, TensorBase t, bint argument) except -1:
    """Write a tensor where there is room for it."""
    cdef Storage storage = t.storage
    cdef int64_t* w = self.words + self.used
    cdef int d
    w[0], w[1], w[2] = PLACE | t.code << 8 | <int64_t>t.rank << 16, storage.serial if storage.serial else serial_of(storage), t.offset
    w[3] = -1 if storage.on is None else self.refer(storage.on)
    for d in range(t.rank):
        w[4 + d], w[4 + t.rank + d] = t.sizes[d], t.strides[d]
    self.used += 4 + 2 * t.rank
    if storage.met != self.number:
        storage.met = self.number
        if argument:
            self.inputs.append(t)
    return 0


cdef int renew(PyObject** args, Py_ssize_t n) except -1:
    """Let arguments that are views have the history that their bases have now: where that has tangents they are computed before the call."""
    cdef Py_ssize_t k
    for k in range(n):
        x = <object>args[k]
        if isinstance(x, TensorBase):
            (<TensorBase>x).grad_fn_now()
        elif PyList_Check(x) or PyTuple_Check(x):
            for y in x:
                if isinstance(y, TensorBase):
                    (<TensorBase>y).grad_fn_now()
    return 0


cdef int write_call(Recording recording, PyObject* op, PyObject** args, size_t flagged, PyObject* names) except -1:
    return recording.write_call(op, args, PyVectorcall_NARGS(flagged), names)


cdef int write_result(Recording recording, PyObject* result) except -1:
    cdef TensorBase t
    if result.ob_type == TENSOR and (<PyObject*>recording).ob_type == RECORDING:
        t = <TensorBase>result
        if recording.used + 4 + 2 * t.rank > recording.capacity:
            recording.grow(4 + 2 * t.rank)
        return put_place(recording, t, False)
    return recording.write(<object>result, False)


cdef int write_copy(Recording recording, int64_t at, PyObject* source, PyObject* copy) except -1:
    return recording.write_copy(at, <TensorBase>source, <TensorBase>copy)


# The same, errors left with the interpreter: what `try` saves and restores costs as much as the words.
ctypedef int (*raw_write_call_t)(Recording recording, PyObject* op, PyObject** args, size_t flagged, PyObject* names) noexcept
ctypedef int (*raw_write_result_t)(Recording recording, PyObject* result) noexcept
ctypedef int (*raw_renew_t)(PyObject** args, Py_ssize_t n) noexcept
ctypedef int (*raw_catch_up_t)(list waiting) noexcept
ctypedef int (*raw_write_copy_t)(Recording recording, int64_t at, PyObject* source, PyObject* copy) noexcept


cdef bint begin_call(Recording recording, PyObject* op, PyObject** args, size_t flagged, PyObject* names) noexcept:
    """Write a leaf and its arguments; what it calls itself is not recorded until `end_call`.  False with an error pending."""
    cdef bint forward = grad_enabled() & FORWARD
    cdef bint current = not forward or (<raw_renew_t>renew)(args, PyVectorcall_NARGS(flagged) + (
        0 if names == NULL else PyTuple_GET_SIZE(names))) == 0
    recording.begun, recording.begun_objects, recording.begun_count = recording.used, len(recording.objects), recording.count
    recording.slot[0] = NULL
    recording.copy[0] = NULL
    recording.kept, recording.copies[0] = recording.copies[0], recording.copy
    if forward:
        later_slot()[0] = <PyObject*>recording.later
    return current and (<raw_write_call_t>write_call)(recording, op, args, flagged, names) == 0


cdef PyObject* end_call(Recording recording, PyObject* result) noexcept:
    """Write the result of the leaf that has begun; one that raised (NULL) leaves nothing in the recording, and its error pending."""
    cdef PyObject* copy = recording.copy[0]
    cdef bint written = result != NULL
    cdef PyObject** later = later_slot()
    cdef bint forward = later[0] != NULL
    later[0] = NULL
    recording.copies[0] = recording.kept
    recording.slot[0] = <PyObject*>recording
    if copy != NULL:
        written = written and (<raw_write_copy_t>write_copy)(recording, recording.begun, recording.copy[1], copy) == 0
        Py_XDECREF(copy)
    if not written or (<raw_write_result_t>write_result)(recording, result) != 0:
        Py_XDECREF(result)
        recording.undo(recording.begun, recording.begun_objects)
        recording.count = recording.begun_count
        if forward:
            recording.later = []
        return NULL
    recording.count += 1
    if forward and (<raw_catch_up_t>catch_up)(recording.later) != 0:
        Py_XDECREF(result)
        return NULL
    return result


cdef int raised() except -1:
    """What the interpreter has raised goes on."""
    return -1


cdef object record(PyObject* recorder, PyObject* op, PyObject** args, size_t flagged, PyObject* names):
    """The leaf's result, with a call written.  What the leaf calls itself is not recorded; a call that raises leaves nothing."""
    return (<Recording>recorder).call(op, args, flagged, names)


cdef bint begin_leaf(PyObject* recorder, PyObject* op, PyObject** args, size_t nargs) noexcept:
    return begin_call(<Recording>recorder, op, args, nargs, NULL)


cdef PyObject* end_leaf(PyObject* recorder, PyObject* result) noexcept:
    return end_call(<Recording>recorder, result)


cdef bint rests(PyObject* recorder) except -1:
    return (<Recording>recorder).wait()


dispatch.record, dispatch.rests = record, rests
dispatch.begin_leaf, dispatch.end_leaf, dispatch.recording = begin_leaf, end_leaf, <PyObject*>Recording


def place(TensorBase t not None) -> Place:
    """Where a tensor lies."""
    return Place(serial_of(t.storage), t.offset, tuple([t.sizes[d] for d in range(t.rank)]),
                 tuple([t.strides[d] for d in range(t.rank)]), dtype_of(t.code), t.storage.on)


def stand_in(at) -> TensorBase:
    """A tensor for a place of the processor's memory whose own may be gone: it lies there for who asks, and has no elements to read."""
    cdef int64_t sizes[MAX_DIMS]
    cdef int64_t strides[MAX_DIMS]
    cdef int d, rank = <int>len(at.shape)
    for d in range(rank):
        sizes[d], strides[d] = at.shape[d], at.stride[d]
    cdef TensorBase t = new_strided(rank, sizes, strides, at.dtype.code)
    t.offset, t.storage.serial = at.offset, at.storage
    return t


def serial(TensorBase t not None) -> int:
    """The serial number of a tensor's storage, which no other storage has, then or later."""
    return serial_of(t.storage)
