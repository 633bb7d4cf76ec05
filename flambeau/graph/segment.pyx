# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Calls that wait: a thread that is lazy writes leaves down in place of running them, until one of their results is looked at.

A call is run for its shapes alone, as on "meta", and entered on the tape; its results are tensors whose storages are pending.  Who reads
the bytes of one (`pointer`, `data_address`) has its segment run: all calls since the last time.  A segment that was seen before runs as a
plan, found by its words; one that is new runs call by call.

What may not wait runs at once, after what it depends on: operations whose results depend on values, that draw random numbers, on other
devices than the host, and whatever fails for shapes alone.
"""
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcmp
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.object cimport PyObject
from _thread import RLock
from types import FunctionType
from ..core.base.device cimport the_blank
from ..core.base.dtypes cimport F64, ITEMSIZE, default_code, dtype, set_default_code
from ..core.base.memory cimport Storage, deferred, trade
from ..core.base.memory import _set_inference
from ..core.base.tensor cimport TensorBase, alias, new_tensor, pointer, runtime
from ..core.call.function cimport FunctionOp, without_elements
from ..core.call.interceptors cimport add_interceptors, copies_slot, enter_interceptors, leave_interceptors, recorder_slot, run_profiled
from ..core.call.leaf import LeafOp
from ..core.call.operation cimport Op
from ..core.call.pointwise import InPlaceOp, PointwiseOp
from ..core.loops.rows import RowOp
from ..core.make.elements import FillOp
from ..core.lib.products.products import ProductOp
from ..core.places.join import JoinOp
from ..core.tape.modes cimport casting, grad_enabled, set_casting, set_grad, wants_grad
from ..core.tape.saved cimport packing
from .record cimport PLACE, Recording, newest_recording
from .record import Place
from .runner cimport Runner

cdef extern from "Python.h":
    Py_ssize_t PyVectorcall_NARGS(size_t n)
    PyObject** PySequence_Fast_ITEMS(object o)
    void PyErr_Fetch(PyObject** type, PyObject** value, PyObject** traceback) noexcept
    void PyErr_NormalizeException(PyObject** type, PyObject** value, PyObject** traceback) noexcept
    void PyErr_Restore(PyObject* type, PyObject* value, PyObject* traceback) noexcept
    bint PyFloat_CheckExact(object o)
    bint PyTuple_CheckExact(object o)
    bint PyList_CheckExact(object o)
    double PyFloat_AS_DOUBLE(object o)
    object PyFloat_FromDouble(double x)
    Py_ssize_t PyTuple_GET_SIZE(object o)

cdef enum:                    # how an operation waits
    UNKNOWN
    NOW                       # it does not
    ASKS                      # it does not, and has what it reads computed itself
    ON_META                    # compiled code: its operands' storages are on "meta" meanwhile
    ON_META_VIEW               # the same for views of what is pending, which are no calls
    ON_META_FILL               # the same for fills, where something that waits is filled
    META_ARGUMENTS                  # a function of Python: called with tensors on "meta" in the place of its arguments
    META_ARGUMENTS_OFF_TAPE         # the same, where nothing is recorded

cdef enum:                    # what a segment is
    OPEN
    RUNNING
    DONE
    FAILED

cdef enum:
    MOST_STORAGES = 32        # of one call
    MOST_CALLS = 4096         # of one segment
    MOST_ENTRIES = 512        # segments that are kept
    MOST_ALIKE = 8            # segments that differ in numbers alone, in places where no plan reads them

cdef object GIVEN_UP = object()

cdef struct Met:              # a storage of a segment
    PyObject* storage         # borrowed, where it is pending here: NULL once nobody has it
    int64_t base              # of what was there before: bytes from its start to the first tensor that was met
    int64_t input             # the number of that tensor, -1 for what a call makes


ctypedef int (*raw_compute_t)(object segment, list waiting) noexcept


cdef int raised() except -1:
    """What the interpreter has raised goes on."""
    return -1


cdef str what_is_raised():
    """The pending error in words; it stays."""
    cdef PyObject *cls
    cdef PyObject *value
    cdef PyObject *traceback
    PyErr_Fetch(&cls, &value, &traceback)
    PyErr_NormalizeException(&cls, &value, &traceback)
    words = f"{(<object>cls).__name__}: {<object>value}"
    PyErr_Restore(cls, value, traceback)
    return words


cdef class Segment(Recording):
    """Calls that wait, over storages numbered as they were met; a place counts its elements from the first tensor met there."""

    cdef Lazy lazy                # whose open segment this is; None once it is closed
    cdef Met* met
    cdef int64_t storages, met_capacity
    cdef object lock
    cdef readonly str error       # why its results will never be there
    cdef int state, default
    cdef bint alone               # no other was open when this was
    cdef bint writes              # to what was there before
    cdef readonly list live       # the numbers of the storages that somebody waits for

    def __cinit__(self):
        global open_segments
        self.lock, self.default, self.alone = RLock(), default_code(), open_segments == 0
        open_segments += 1

    def __dealloc__(self):
        free(self.met)

    # --- writing ------------------------------
    cdef bint find(self, Storage s) noexcept:
        """Whether this storage was met here, and by another recording since."""
        cdef PyObject** inputs = PySequence_Fast_ITEMS(self.inputs)
        cdef int64_t k
        if self.alone and newest_recording() == self.number:
            return False
        for k in range(self.storages):
            if self.met[k].input >= 0 and (<TensorBase>inputs[self.met[k].input]).storage is s:
                s.met, s.met_as = self.number, k
                return True
        return False

    cdef int enter(self, Storage s) except -1:
        """The next number, for a storage."""
        cdef void* larger
        if self.storages == self.met_capacity:
            larger = realloc(self.met, max(<int64_t>64, 2 * self.met_capacity) * sizeof(Met))
            if larger == NULL:
                raise MemoryError
            self.met, self.met_capacity = <Met*>larger, max(<int64_t>64, 2 * self.met_capacity)
        s.met, s.met_as = self.number, self.storages
        self.storages += 1
        return 0

    cdef int write_place(self, TensorBase t, bint argument) except -1:
        cdef Storage s = t.storage
        cdef int64_t* w
        cdef int64_t offset
        cdef int d
        if s.met != self.number and not self.find(s):
            self.enter(s)
            self.met[s.met_as].storage, self.met[s.met_as].input = NULL, len(self.inputs)
            self.met[s.met_as].base = t.offset * t.width
            self.inputs.append(alias(t, t.rank, t.sizes, t.strides, t.offset))
        offset = t.offset * t.width - self.met[s.met_as].base
        if offset % t.width:
            raise ValueError("a view that begins between two elements")
        self.reserve(4 + 2 * t.rank)
        w = self.words + self.used
        w[0], w[1], w[2], w[3] = PLACE | t.code << 8 | <int64_t>t.rank << 16, s.met_as, offset // t.width, -1
        for d in range(t.rank):
            w[4 + d], w[4 + t.rank + d] = t.sizes[d], t.strides[d]
        self.used += 4 + 2 * t.rank
        return 0

    cdef int make(self, TensorBase t) except -1:
        """Let a tensor on "meta" be a result that is pending here."""
        cdef Storage s = t.storage
        self.enter(s)
        self.met[s.met_as].storage, self.met[s.met_as].base, self.met[s.met_as].input = <PyObject*>s, 0, -1
        s.on, s.owner, s.pending = None, self, True
        return 0

    cdef int borrow(self, Storage s) except -1:
        """Let who reads a storage that was there before wait for what is written to it here: its bytes are another's meanwhile."""
        cdef Storage other
        if self.met[s.met_as].input < 0 or s.pending:
            return 0
        other = Storage.__new__(Storage)
        trade(s, other)
        other.inference = s.inference
        (<TensorBase>self.inputs[self.met[s.met_as].input]).storage = other
        self.met[s.met_as].storage = <PyObject*>s
        s.length, s.owner, s.pending, self.writes = other.length, self, True, True
        return 0

    cdef int give_back(self) except -1:
        """Give storages the bytes that were borrowed."""
        cdef int64_t k
        cdef Storage s
        if self.writes:
            for k in range(self.storages):
                if self.met[k].input >= 0 and self.met[k].storage != NULL:
                    s = <Storage>self.met[k].storage
                    trade(s, (<TensorBase>self.inputs[self.met[k].input]).storage)
                    s.pending = False
                    self.met[k].storage = NULL
        return 0

    # --- running ------------------------------
    cdef int settle(self) except -1:
        """Run, unless that was done; RuntimeError where it went wrong before."""
        global open_segments
        if self.lazy is not None:
            self.lazy.segment, self.lazy = None, None
            open_segments -= 1
        self.lock.acquire()               # without `with`, which wants the tracebacks that compiled code has none of
        try:
            if self.state == RUNNING:
                raise RuntimeError("lazy(): what is being computed is read by its own computation")
            if self.state == FAILED:
                raise RuntimeError(f"lazy(): this tensor was never computed: {self.error}")
            if self.state == OPEN:
                self.run()
        finally:
            self.lock.release()
        return 0

    cdef int run(self) except -1:
        cdef list waiting = []
        cdef int64_t k
        cdef int left[3]
        cdef PyObject* recording
        cdef PyObject** slot = recorder_slot()
        cdef bint grad = grad_enabled()
        cdef unsigned int casts = casting()
        cdef int default = default_code()
        self.live = []
        for k in range(self.storages):
            if self.met[k].storage != NULL and self.met[k].input < 0:
                self.live.append(k)
                waiting.append(<object>self.met[k].storage)
        self.state = RUNNING
        recording, slot[0] = slot[0], NULL
        leave_interceptors(left)
        set_grad(False)
        set_casting(0)
        set_default_code(self.default)
        inference = _set_inference(True)   # inference tensors may be written to; where calls were made, that was checked
        if not waiting and not self.writes:
            self.state = DONE
        elif (<raw_compute_t>compute)(self, waiting) == 0:
            self.state = DONE
        else:
            self.state, self.error = FAILED, what_is_raised()
        _set_inference(inference)
        set_default_code(default)
        set_casting(casts)
        set_grad(grad)
        enter_interceptors(left)
        slot[0] = recording
        self.give_back()
        self.inputs, self.objects = [], []
        return 0 if self.state == DONE else raised()

    def first_places(self) -> list:
        """Where the tensors that were there before lie."""
        cdef TensorBase t
        cdef int64_t k
        cdef list result = []
        for k in range(self.storages):
            if self.met[k].input >= 0:
                t = <TensorBase>self.inputs[self.met[k].input]
                result.append(Place(k, 0, tuple(t.shape), t.stride(), t.dtype, None))
        return result

    def tensor_at(self, at, TensorBase first not None) -> TensorBase:
        """The tensor at a place of the storage in which `first` lies: the first tensor that was met there."""
        cdef TensorBase t
        cdef int64_t sizes[64]
        cdef int64_t strides[64]
        cdef int64_t skipped = 0 if self.met[at.storage].input < 0 else self.met[at.storage].base
        cdef int d, rank = <int>len(at.shape)
        for d in range(rank):
            sizes[d], strides[d] = at.shape[d], at.stride[d]
        t = alias(first, rank, sizes, strides, at.offset + skipped // at.dtype.itemsize)
        t.code, t.width = (<dtype>at.dtype).code, ITEMSIZE[(<dtype>at.dtype).code]
        return t


cdef int compute(Segment segment, list waiting) except -1:
    """All calls; what they leave in the storages."""
    cdef Py_ssize_t k
    cdef Storage s
    cdef TensorBase t
    cdef Entry entry = entry_for(segment)
    made = entry.launch(segment)
    for k in range(len(waiting)):
        s, t = <Storage>waiting[k], <TensorBase>made[k]
        if t.offset or t.storage.length != s.length:
            raise RuntimeError(f"lazy(): {s.length} bytes were expected, got {t.storage.length}")
        trade(s, t.storage)
        s.pending = t.storage.pending = False
    return 0


def is_waiting(TensorBase t not None) -> bool:
    """Whether a tensor's elements are not computed yet."""
    return t.storage.pending


cdef int64_t open_segments = 0


cdef int settle_storage(Storage s) except -1:
    """What `settle` of the memory's layer does."""
    cdef Segment segment = <Segment>s.owner     # which the storage lets go of meanwhile
    segment.settle()
    return 0


cdef void forget_storage(Storage s) noexcept:
    (<Segment>s.owner).met[s.met_as].storage = NULL


deferred.settle, deferred.forget = settle_storage, forget_storage


# --- what was seen before ------------------------------
cdef class Entry:
    """A segment that was seen: its words and objects, which of these may be other numbers, and its plan."""

    cdef bytes words
    cdef list objects, live
    cdef int default
    cdef readonly list varying    # numbers of objects
    cdef bytearray varies         # by object
    cdef object runner            # None: call by call
    cdef bint planned

    cdef object launch(self, Segment segment):
        """The tensors that somebody waits for."""
        cdef list given
        cdef TensorBase number
        if self.runner is None:
            return call_each(segment)
        given = segment.inputs
        if self.varying:
            given = list(given)
            for k in self.varying:
                number = new_tensor(0, NULL, F64)
                (<double*>pointer(number))[0] = PyFloat_AS_DOUBLE(segment.objects[k])
                given.append(number)
        return (<Runner>self.runner).call(PySequence_Fast_ITEMS(given), len(given))

    cdef list differences(self, Segment segment):
        """The numbers of the floats that are others there; None where anything else is."""
        cdef list result = []
        cdef PyObject** own = PySequence_Fast_ITEMS(self.objects)
        cdef PyObject** other = PySequence_Fast_ITEMS(segment.objects)
        cdef char* varies = self.varies
        cdef Py_ssize_t k
        if segment.used * 8 != len(self.words) or memcmp(PyBytes_AS_STRING(self.words), segment.words, segment.used * 8):
            return None
        if len(segment.objects) != len(self.objects) or self.live != segment.live or self.default != segment.default:
            return None
        for k in range(len(self.objects)):
            if own[k] == other[k] or (varies[k] and PyFloat_CheckExact(<object>other[k])):
                continue
            if PyFloat_CheckExact(<object>own[k]) and PyFloat_CheckExact(<object>other[k]):
                if not same_bits(PyFloat_AS_DOUBLE(<object>own[k]), PyFloat_AS_DOUBLE(<object>other[k])):
                    result.append(k)
            elif not same(<object>own[k], <object>other[k]):
                return None
        return result


cdef inline bint same_bits(double a, double b) noexcept:
    return memcmp(&a, &b, sizeof(double)) == 0


cdef frozenset PLAIN = frozenset([int, bool, str, bytes, complex, type(None)])


cdef bint same(object a, object b) except -1:
    """Whether two arguments mean the same to every operation."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if type(a) in PLAIN:
        return a == b and (type(a) is not complex or repr(a) == repr(b))
    if PyFloat_CheckExact(a):
        return same_bits(PyFloat_AS_DOUBLE(a), PyFloat_AS_DOUBLE(b))
    if isinstance(a, tuple):
        return len(a) == len(b) and all([same(x, y) for x, y in zip(a, b)])
    if isinstance(a, slice):
        return same((a.start, a.stop, a.step), (b.start, b.stop, b.step))
    return False


cdef dict seen = {}           # by hash: entries, the most recent last
cdef int64_t entries = 0
cdef object make_plan = None, call_each = None


def set_planners(plan, each) -> None:
    """What plans a segment, with the numbers of the floats that vary, and what runs one call by call."""
    global make_plan, call_each
    make_plan, call_each = plan, each


def forget() -> None:
    """Forget all segments."""
    global entries
    seen.clear()
    entries = 0


def segments_seen() -> int:
    return entries


cdef uint64_t hash_of(Segment segment) noexcept:
    """Of the words: four sums at once, each mixed as SplitMix64 does (Steele, Lea and Flood, OOPSLA 2014)."""
    cdef uint64_t h[4]
    cdef int64_t k = 0, n = segment.used
    cdef int lane
    for lane in range(4):
        h[lane] = <uint64_t>lane + 1
    while k + 4 <= n:
        for lane in range(4):
            h[lane] = (h[lane] ^ <uint64_t>segment.words[k + lane]) * <uint64_t>0xBF58476D1CE4E5B9
            h[lane] ^= h[lane] >> 27
        k += 4
    while k < n:
        h[0] = (h[0] ^ <uint64_t>segment.words[k]) * <uint64_t>0x94D049BB133111EB
        h[0] ^= h[0] >> 31
        k += 1
    return h[0] ^ h[1] * 3 ^ h[2] * 5 ^ h[3] * 7


cdef Entry entry_for(Segment segment):
    """The entry that a segment is like; planned where it is seen for the second time."""
    global entries
    cdef uint64_t key = hash_of(segment)
    cdef list known = seen.get(key), others = None
    cdef Entry entry, near = None
    cdef list differing
    if known is None:
        if entries >= MOST_ENTRIES:
            forget()
        known = seen[key] = []
    for entry in reversed(known):
        differing = entry.differences(segment)
        if differing is None:
            continue
        if not differing:
            if not entry.planned:
                plan(entry, segment, entry.varying)
            return entry
        if near is None:
            near, others = entry, differing
    entry = Entry.__new__(Entry)
    entry.words = PyBytes_FromStringAndSize(<char*>segment.words, segment.used * 8)
    entry.objects, entry.live, entry.default = segment.objects, segment.live, segment.default
    entry.varying, entry.varies = [], bytearray(len(segment.objects))
    if near is not None:
        if plan(entry, segment, sorted({*near.varying, *others})):
            known.remove(near)
            entries -= 1
        elif len(known) > MOST_ALIKE:
            return entry                   # which is not kept, and runs call by call
    known.append(entry)
    entries += 1
    return entry


cdef bint plan(Entry entry, Segment segment, list varying) except -1:
    """Plan a segment for any of these floats; whether they may vary."""
    cdef list fresh, before = segment.objects
    entry.planned = True
    if varying:
        fresh = list(before)
        for k in varying:                  # each an object of its own, so that it differs from others
            fresh[k] = PyFloat_FromDouble(PyFloat_AS_DOUBLE(before[k]) + 0.0 if before[k] else 0.0)
        segment.objects = fresh
    try:
        runner = make_plan(segment, [segment.objects[k] for k in varying])
    finally:
        segment.objects = before
    if runner is NotImplemented:           # a float that no plan reads at each call
        entry.planned = False
        return False
    entry.runner = runner
    entry.varying = varying
    for k in varying:
        entry.varies[k] = 1
    return True


# --- the thread's side ------------------------------
cdef struct Look:             # what is among the arguments of a call
    bint tensors, pending, met, elsewhere, tracked
    bint unable               # to give shapes without elements
    int storages
    PyObject* seen[MOST_STORAGES]


cdef class Lazy(Recording):
    """What stands where a thread says that it records, while its calls wait."""

    cdef Segment segment          # the open one

    cdef bint wait(self) except -1:
        self.flush()
        return True

    def start(self) -> bool:
        """From now on calls of this thread wait; whether that is so only since now."""
        self.slot, self.copies = recorder_slot(), copies_slot()
        if self.slot[0] != NULL:
            return False
        self.slot[0] = <PyObject*>self     # borrowed: who starts holds it until it stops
        add_interceptors(1)
        return True

    def stop(self) -> None:
        """No more; what waits runs."""
        self.slot[0] = NULL
        add_interceptors(-1)
        self.flush()

    cpdef int flush(self) except -1:
        """Run what waits."""
        cdef Segment segment = self.segment
        if segment is not None:
            segment.settle()
        return 0

    cdef object call(self, PyObject* callable, PyObject** args, size_t flagged, PyObject* names):
        self.slot[0] = NULL
        try:
            return self.waiting_or_run(<Op>callable, args, flagged, names)
        finally:
            self.slot[0] = <PyObject*>self

    cdef object waiting_or_run(self, Op op, PyObject** args, size_t flagged, PyObject* names):
        cdef Py_ssize_t n = PyVectorcall_NARGS(flagged) + (0 if names == NULL else PyTuple_GET_SIZE(<object>names))
        cdef Look look
        cdef int how = op.deferral
        if how == UNKNOWN:
            how = op.deferral = way_of(op)
        if how == ASKS:
            return run_profiled(<PyObject*>op, args, flagged, names)
        look.tensors = look.pending = look.met = look.elsewhere = look.tracked = look.unable = False
        look.storages = 0
        self.look_at(&look, args, n)
        if look.pending:
            self.settle_others(&look)
        if (how == ON_META_VIEW and not look.pending) or (how == ON_META_FILL and not (look.pending or look.met)):
            return run_profiled(<PyObject*>op, args, flagged, names)
        if how != NOW and self.may_wait(op, how, &look, names):
            if self.segment is not None and (self.segment.count >= MOST_CALLS or self.segment.default != default_code()):
                self.flush()
            result = self.defer(op, how, &look, args, flagged, names)
            if result is not GIVEN_UP:
                return result
        if look.pending or look.met or look.storages > MOST_STORAGES:
            self.flush()
        result = run_profiled(<PyObject*>op, args, flagged, names)
        if look.unable:
            op.deferral = NOW
        return result

    cdef int look_at(self, Look* look, PyObject** items, Py_ssize_t n) except -1:
        cdef Py_ssize_t k
        cdef TensorBase t
        cdef Storage s
        cdef int i
        for k in range(n):
            x = <object>items[k]
            if isinstance(x, TensorBase):
                t = <TensorBase>x
                s = t.storage
                look.tensors = True
                look.pending |= s.pending
                look.met |= self.segment is not None and s.met == self.segment.number
                look.elsewhere |= s.on is not None
                look.tracked |= wants_grad(t)
                for i in range(min(look.storages, MOST_STORAGES)):
                    if look.seen[i] == <PyObject*>s:
                        break
                else:
                    if look.storages < MOST_STORAGES:
                        look.seen[look.storages] = <PyObject*>s
                    look.storages += 1
            elif PyList_CheckExact(x) or PyTuple_CheckExact(x):
                self.look_at(look, PySequence_Fast_ITEMS(x), len(x))
            elif isinstance(x, (list, tuple, dict)):
                look.elsewhere = True      # whatever is in it
        return 0

    cdef int settle_others(self, Look* look) except -1:
        """Have what other segments owe to these storages computed: one that is pending is met by its own segment alone."""
        cdef int k
        cdef Storage s
        look.pending = False
        for k in range(min(look.storages, MOST_STORAGES)):
            s = <Storage>look.seen[k]
            if s.pending and s.owner is not self.segment:
                settle_storage(s)
            look.pending |= s.pending
        return 0

    cdef bint may_wait(self, Op op, int how, Look* look, PyObject* names) except -1:
        cdef bint tracked = look.tracked and grad_enabled()
        if not look.tensors or look.elsewhere or look.storages > MOST_STORAGES or runtime.forward:
            return False
        if names != NULL and "out" in <tuple><object>names:
            return False
        if op.writes and (tracked or how not in (ON_META, ON_META_FILL)):
            return False
        return not tracked or (how != META_ARGUMENTS_OFF_TAPE and not packing())

    cdef object defer(self, Op op, int how, Look* look, PyObject** args, size_t flagged, PyObject* names):
        """The results of a call that waits; GIVEN_UP where it cannot."""
        cdef Segment segment
        cdef int64_t before
        cdef Py_ssize_t objects
        try:
            result = call_on_meta(op, look, args, flagged, names) if how <= ON_META_FILL else call_with_meta_arguments(op, args, flagged, names)
        except NotImplementedError:
            look.unable = True
            return GIVEN_UP
        except Exception:              # which the call itself will raise
            return GIVEN_UP
        if isinstance(result, TensorBase):
            results = (result,)
        elif isinstance(result, (tuple, list)):
            results = result
        else:
            return result if how == ON_META_VIEW else GIVEN_UP
        new = new_among(results)
        if new == OTHER:
            return GIVEN_UP
        if new == NONE_NEW and not op.writes:
            return result if how == ON_META_VIEW or all_given(results, args, flagged, names) else GIVEN_UP
        segment = self.segment
        if segment is None:
            segment = self.segment = Segment.__new__(Segment)
            segment.lazy = self
        before, objects = segment.used, len(segment.objects)
        try:
            segment.write_call(<PyObject*>op, args, PyVectorcall_NARGS(flagged), names)
            for t in results:
                if (<TensorBase>t).storage.on is not None:
                    segment.make(<TensorBase>t)
            segment.write(result, False)
        except Exception:              # no memory, or a view that begins between two elements
            segment.undo(before, objects)
            return GIVEN_UP
        segment.count += 1
        if op.writes:
            segment.borrow((<TensorBase>results[0]).storage)
        return result


cdef object call_on_meta(Op op, Look* look, PyObject** args, size_t flagged, PyObject* names):
    """The results of compiled code whose operands have no elements while it runs."""
    cdef int k
    cdef bint pending[MOST_STORAGES]
    try:
        for k in range(look.storages):
            pending[k] = (<Storage>look.seen[k]).pending
            (<Storage>look.seen[k]).on, (<Storage>look.seen[k]).pending = the_blank, False
        return run_profiled(<PyObject*>op, args, flagged, names)
    finally:
        for k in range(look.storages):
            (<Storage>look.seen[k]).on, (<Storage>look.seen[k]).pending = None, pending[k]


cdef object call_with_meta_arguments(Op op, PyObject** args, size_t flagged, PyObject* names):
    without_elements(True)
    try:
        return run_profiled(<PyObject*>op, args, flagged, names)
    finally:
        without_elements(False)


cdef enum:
    NONE_NEW
    SOME_NEW
    OTHER

cdef int new_among(object results) except -1:
    """Whether there are new tensors among the results, each with a storage of its own that it fills; OTHER for anything else."""
    cdef TensorBase t
    cdef list storages = []
    cdef int result = NONE_NEW
    for x in results:
        if not isinstance(x, TensorBase):
            return OTHER
        t = <TensorBase>x
        if t.storage.on is None:
            continue
        result = SOME_NEW
        if t.storage.on is not the_blank or t.offset or <int64_t>t.storage.length != t.count * t.width or t.storage in storages:
            return OTHER
        storages.append(t.storage)
    return result


cdef bint all_given(object results, PyObject** args, size_t flagged, PyObject* names) except -1:
    """Whether each result is one of the arguments."""
    cdef Py_ssize_t n = PyVectorcall_NARGS(flagged) + (0 if names == NULL else PyTuple_GET_SIZE(<object>names)), k
    for x in results:
        for k in range(n):
            if <PyObject*>x == args[k]:
                break
        else:
            return False
    return True


cdef frozenset FUNCTIONS = frozenset(["library", "shape", "scan", "reduction"])   # kinds whose results have shapes without elements
cdef tuple COMPILED = (PointwiseOp, InPlaceOp, RowOp, JoinOp, ProductOp)


cdef int way_of(Op op) except -1:
    """How an operation waits, by its class and the kind of its declaration."""
    kind = getattr(op.entry, "kind", None)
    if kind == "question":
        return ASKS
    if isinstance(op, FillOp):
        return ON_META_FILL
    if isinstance(op, COMPILED):
        return ON_META
    if kind == "view":
        return NOW if op.writes else ON_META_VIEW
    if isinstance(op, FunctionOp):
        if kind in ("copy", "conversion"):
            return META_ARGUMENTS_OFF_TAPE if isinstance((<FunctionOp>op).function, FunctionType) else ON_META
        if kind in FUNCTIONS:
            return META_ARGUMENTS if isinstance(op, LeafOp) else META_ARGUMENTS_OFF_TAPE
    return NOW
