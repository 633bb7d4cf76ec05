# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""A compiled function: which of its captures a call is like, and what runs then.

A call looks at the state of the thread, then at the guards of the entries, the most recently used first.  An entry has a launch, which
makes the new tensors of the inputs, and how the result is built of them; one without a launch stands for a call that was not captured
whole, and Python runs, the modules that it calls each compiled by itself.  Where no entry fits the call is captured, which runs it once.  Where nothing may be captured (under a mode, inside
of another recording or of vmap, in forward mode, where tensors are made without elements) Python runs.
"""
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int64_t
from ..core.base.device cimport Device, default_place, placing
from ..core.base.dtypes cimport F64, I64, default_code
from ..core.base.memory cimport inferring
from ..core.base.tensor cimport TensorBase, new_tensor, pointer, runtime
from ..core.call.casting import lower_codes
from ..core.call.interceptors cimport overrides_off, recorder_slot
from ..core.call.interceptors import no_interceptors
from ..core.call.module cimport inner
from ..core.tape.anomaly cimport anomaly_enabled
from ..core.tape.modes cimport FORWARD, autocast_on, casting, grad_enabled, set_casting
from .guards cimport Guards
from .runner cimport Runner
from . import sources
from collections import OrderedDict
cimport cython

cdef extern from "alloca.h" nogil:
    void* alloca(size_t n)

cdef extern from "Python.h":
    int PyErr_ExceptionMatches(object kind)
    void PyErr_Clear()
    Py_ssize_t PyVectorcall_NARGS(size_t n)
    object PyObject_Vectorcall(object callable, PyObject** args, size_t flagged, PyObject* names)
    PyObject* PyVectorcall_Call(PyObject* callable, PyObject* args, PyObject* kwargs)
    object PyMethod_New(object function, object instance)
    bint PyFloat_CheckExact(object o)
    double PyFloat_AS_DOUBLE(object o)
    ctypedef struct RawType "PyTypeObject":
        Py_ssize_t tp_vectorcall_offset
        unsigned long tp_flags
        void* tp_call
    unsigned long Py_TPFLAGS_HAVE_VECTORCALL
    unsigned long Py_TPFLAGS_METHOD_DESCRIPTOR
    void PyType_Modified(PyTypeObject* t)
    size_t PY_VECTORCALL_ARGUMENTS_OFFSET

ctypedef object (*vectorcall_t)(PyObject* callable, PyObject** args, size_t flagged, PyObject* names)

cdef extern from *:
    """
    static __thread int flambeau_capturing = 0;    /* captures that run in this thread */
    static __thread int flambeau_compile_off = 0;  /* compiled functions run as Python in this thread */
    static __thread PyObject* flambeau_inner = NULL;   /* borrowed: the backend that compiles the modules that this thread calls */
    """
    int flambeau_capturing
    int flambeau_compile_off
    PyObject* flambeau_inner

cdef enum:
    UNCAPTURED = -1           # a state of the thread in which nothing is captured

cdef enum:
    WRONG_GUESSES = 3         # of an entry at values that its call looks at, before Python runs

cdef enum:                    # how a result is built
    OUTPUT                    # the launch's tensor `number`
    FOUND                     # the value in slot `number`, which was there before the call
    VIEW                      # of input `number`: `value` has shape, strides and elements from the input's first
    CONSTANT                  # the value itself
    TUPLE                     # of class `value`
    LIST
    DICT                      # items are keys and values in turn
    SET
    INSTANCE
    NUMBER                    # what the launch's tensor `number` holds, as a number of Python's

cdef tuple KINDS = ("output", "found", "view", "constant", "tuple", "list", "dict", "set", "instance", "number")


@cython.final
cdef class Build:
    """How a result, or what is in it, is made of the tensors of a run; `again` numbers what stands at several places of the result."""

    cdef readonly int kind
    cdef readonly int number
    cdef readonly object value
    cdef readonly tuple items
    cdef readonly dict state           # what is in the object's `__dict__`
    cdef public int again

    def __init__(self, str kind, int number=0, value=None, items=(), state=None):
        self.kind = KINDS.index(kind)
        self.number, self.value, self.items, self.state, self.again = number, value, tuple(items), state, -1

    cdef object of(self, PyObject** inputs, PyObject** values, tuple made, dict known):
        cdef TensorBase t
        if self.kind == OUTPUT:
            return made[self.number]
        if self.kind == FOUND:
            return <object>values[self.number]
        if self.kind == CONSTANT:
            return self.value
        if self.kind == NUMBER:
            return made[self.number].item()
        if self.kind == VIEW:
            t = <TensorBase>inputs[self.number]
            shape, strides, offset = self.value
            return (<object>t).as_strided(shape, strides, t.offset + offset)
        if self.again >= 0 and self.again in known:
            return known[self.again]
        cdef list items = [(<Build>item).of(inputs, values, made, known) for item in self.items]
        if self.kind == TUPLE:
            result = tuple(items) if self.value is tuple else tuple.__new__(self.value, items)
        elif self.kind == LIST:
            result = items
            if self.value is not list:
                result = list.__new__(self.value)
                list.extend(result, items)
        elif self.kind == DICT:
            basic = OrderedDict if issubclass(self.value, OrderedDict) else dict
            result = basic.__new__(self.value)
            for k in range(0, len(items), 2):
                basic.__setitem__(result, items[k], items[k + 1])
        elif self.kind == SET:
            result = self.value(items)
        else:
            result = object.__new__(self.value)
        if self.state is not None:
            result.__dict__.update({name: (<Build>item).of(inputs, values, made, known) for name, item in self.state.items()})
        if self.again >= 0:
            known[self.again] = result
        return result


@cython.final
cdef class Write:
    """What a call leaves in an object that was there before it, the one in slot `number`: an item, at the key or behind the last (append),
    an attribute, or a cell's contents.
    """

    cdef readonly str kind
    cdef readonly int number
    cdef readonly object key
    cdef readonly Build build

    def __init__(self, str kind, int number, key, Build build not None):
        self.kind, self.number, self.key, self.build = kind, number, key, build

    cdef int put(self, object of, object value) except -1:
        if self.kind == "item":
            of[self.key] = value
        elif self.kind == "append":
            (<list>of).append(value)
        elif self.kind == "attribute":
            setattr(of, self.key, value)
        else:
            of.cell_contents = value
        return 0


@cython.final
cdef class Entry:
    """One capture of a function: what must hold, what runs, and what is made of it; without a launch, why not."""

    cdef readonly Guards guards
    cdef int64_t state
    cdef readonly object launch        # called with the inputs; returns a tuple of tensors
    cdef Runner runner                 # the launch, where it is one
    cdef readonly Build build
    cdef readonly tuple writes         # what is left in objects that were there before
    cdef readonly tuple early          # gradients that the call clears first: which of the writes, which input
    cdef readonly tuple looks          # at tensors of the run, and the bools that it has to find there
    cdef readonly object why           # a refusal
    cdef readonly int64_t hits
    cdef readonly int64_t misses       # runs that found another value

    def __init__(self, Guards guards not None, launch, build, why=None, tuple writes=(), tuple early=(), tuple looks=()):
        self.guards, self.launch, self.build, self.why, self.writes = guards, launch, build, why, writes
        self.early, self.looks = early, looks
        if type(launch) is Runner:
            self.runner = launch

    cdef object run(self, PyObject** found, PyObject** values):
        cdef unsigned int before = casting()
        cdef int k, n = self.guards.inputs, tensors = n - self.guards.number_count
        cdef list numbers = None
        cdef PyObject* result
        cdef Write write
        cdef list objects = [<object>values[write.number] for write in self.writes] if self.writes else None
        self.hits += 1
        for number, k in self.early:       # nothing reads them: their memory is free while the plan runs
            of = objects[number]
            if k >= 0:
                found[k] = <PyObject*>NOTHING
            (<TensorBase>of).grad_ = None
        if tensors < n:
            numbers = [number_tensor(<object>values[<int>slot]) for slot in self.guards.number_slots]
            for k in range(tensors, n):
                found[k] = <PyObject*>numbers[k - tensors]
        for k in range(n):        # other threads may drop what a module held
            Py_INCREF(<object>found[k])
        result = (<raw_launched_t>launched)(self, found, n)
        set_casting(before)
        for k in range(n):
            Py_DECREF(<object>found[k])
        if result == NULL:
            if not self.looks or not PyErr_ExceptionMatches(Exception):
                raised()
            PyErr_Clear()
            self.misses += 1     # what a wrong guess led to; Python says what is really wrong
            return OTHERWISE
        made = <object>result
        Py_DECREF(made)
        if self.looks and not self.finds(found, values, <tuple>made):
            return OTHERWISE
        if self.writes:
            return self.written(found, values, <tuple>made, objects)
        if self.build.kind == OUTPUT:
            return (<tuple>made)[self.build.number]
        return self.build.of(found, values, <tuple>made, {} if self.build.items else None)


    cdef bint finds(self, PyObject** tensors, PyObject** values, tuple made) except -1:
        """Whether the tensors that the captured call has looked at are as it found them."""
        cdef Build build
        for build, value, _ in self.looks:
            if bool(build.of(tensors, values, made, {})) is not value:
                self.misses += 1
                return False
        return True

    cdef void give_up(self) noexcept:
        """Guess no more: the calls that this entry is right for run as Python."""
        self.why, self.launch, self.runner = self.looks[0][2], None, None

    cdef object written(self, PyObject** tensors, PyObject** values, tuple made, list objects):
        """The result, with what the call leaves elsewhere: all is made before anything is put where it belongs."""
        cdef dict known = {}
        cdef Write write
        result = self.build.of(tensors, values, made, known)
        cdef list left = [write.build.of(tensors, values, made, known) for write in self.writes]
        for write, of, value in zip(self.writes, objects, left):
            write.put(of, value)
        return result


ctypedef PyObject* (*raw_launched_t)(Entry entry, PyObject** found, int n) noexcept


cdef object launched(Entry entry, PyObject** tensors, int n):
    """The tensors that the launch makes."""
    if entry.runner is not None:
        return entry.runner.run(tensors)
    set_casting(0)    # the operands of what was recorded are cast already
    return PyObject_Vectorcall(entry.launch, tensors, n, NULL)


cdef int raised() except -1:
    """What the interpreter has raised goes on."""
    return -1


cdef object OTHERWISE = object()       # the result of a run that found other values than the captured call
cdef int64_t no_elements = 0
cdef TensorBase NOTHING = new_tensor(1, &no_elements, F64)     # in the place of a tensor that no plan reads


cdef TensorBase number_tensor(object x):
    """A number as a tensor without dimensions, float64 or int64."""
    cdef int64_t sizes = 0
    cdef TensorBase t
    if PyFloat_CheckExact(x):
        t = new_tensor(0, &sizes, F64)
        (<double*>pointer(t))[0] = PyFloat_AS_DOUBLE(x)
    else:
        t = new_tensor(0, &sizes, I64)
        (<int64_t*>pointer(t))[0] = x
    return t


cdef int64_t state_of_thread() except? -1:
    """What a capture depends on beside its guards, as one number; UNCAPTURED where Python has to run."""
    cdef int grad = grad_enabled()
    cdef int64_t state, codes
    cdef Device place
    cdef unsigned int types
    if (grad & FORWARD or anomaly_enabled or flambeau_compile_off or recorder_slot()[0] != NULL or overrides_off()):
        return UNCAPTURED
    state = grad | (inferring() << 2) | (default_code() << 3)
    if placing:
        place = default_place()
        if place is not None and place.blank:
            return UNCAPTURED
        state |= <int64_t>(0 if place is None else place.slot) << 52
    if runtime.interceptors:
        if not no_interceptors([]):
            return UNCAPTURED
        types = autocast_on() | casting()
        if types:                     # of devices, at most 12
            codes = lower_codes(types)
            if codes < 0:
                return UNCAPTURED
            state |= (<int64_t>autocast_on() << 8) | (<int64_t>casting() << 20) | (codes << 32)
    return state


@cython.binding(False)
cdef class Compiled:
    """A function that runs as captured wherever a capture is right for the call, and as Python otherwise.

    `make_entry(compiled, capture)` makes an `Entry` of a capture, `capture(function, args, kwargs)` captures; `limit` bounds the entries.

    >>> import flambeau as torch
    >>> double = torch.compile(lambda x: x * 2)
    >>> double(torch.ones(2))
    tensor([2., 2.])
    """

    cdef vectorcall_t call
    cdef readonly object function      # what is compiled
    cdef readonly object itself        # what runs it as Python: the function, or the call of a module that is not compiled for itself
    cdef readonly object backend       # who compiles, and with which options; see `compiler.py`
    cdef list list_of_entries          # the most recently used first; replaced, never changed
    cdef readonly int64_t captures     # calls that were captured, or tried to
    cdef readonly int64_t calls_of_python
    cdef dict misses                   # source of a number -> how often another value was met
    cdef public bint as_python         # from now on
    cdef public bint closed            # nothing more is captured
    cdef dict __dict__
    cdef object __weakref__

    def __cinit__(self, *args, **kwargs):
        self.call = <vectorcall_t>call_compiled
        self.list_of_entries, self.misses = [], {}

    def __init__(self, function, backend, itself=None):
        self.function, self.backend = function, backend
        self.itself = function if itself is None else itself

    @property
    def entries(self) -> tuple:
        """The captures, the most recently used first."""
        return tuple(self.list_of_entries)

    def forget(self) -> None:
        """Drop all captures."""
        self.list_of_entries, self.misses, self.as_python, self.captures, self.closed = [], {}, False, 0, False

    def __get__(self, instance, owner):
        return self if instance is None else PyMethod_New(self, instance)

    def __repr__(self):
        return f"<compiled {self.function!r}>"

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        return self.backend.pickled(self)

    cdef object miss(self, int64_t state, PyObject** args, size_t flagged, PyObject* names):
        """A call that no entry fits: captured, unless a bound is reached."""
        cdef Py_ssize_t nargs = PyVectorcall_NARGS(flagged), k
        cdef Py_ssize_t named = 0 if names == NULL else len(<tuple>names)
        if self.closed:
            return None
        positional = tuple([<object>args[k] for k in range(nargs)])
        keywords = {(<tuple>names)[k]: <object>args[nargs + k] for k in range(named)}
        reasons = self.note_misses(state, positional, keywords)
        if not self.backend.may_capture(self, reasons):
            return None
        self.captures += 1
        return self.captured(state, positional, keywords, reasons)

    cdef object captured(self, int64_t state, tuple positional, dict keywords, list reasons):
        global flambeau_capturing
        cdef unsigned int before = casting()
        cdef Entry entry
        flambeau_capturing += 1
        try:
            capture = self.backend.capture(self, positional, keywords)
        finally:
            flambeau_capturing -= 1
        entry = self.backend.entry(self, capture, reasons)
        if entry is not None:
            entry.state = state
            self.list_of_entries = [entry, *self.list_of_entries]
        return (capture.result,)

    cdef list note_misses(self, int64_t state, tuple positional, dict keywords):
        """Why each entry does not fit, the most recently used first: (guard or None, words)."""
        cdef Entry entry
        cdef list reasons = []
        for entry in self.list_of_entries:
            if entry.state != state:
                reasons.append((None, "the state of the thread (grad mode, autocast, default dtype or device) is another"))
                continue
            guard, words = entry.guards.first_failing(positional, keywords)
            if words is None and entry.looks:
                words = "a value that it looks at is another"
            reasons.append((guard, words))
        guard = reasons[0][0] if reasons else None
        if type(guard) is sources.Length or type(guard) is sources.Equals and type(guard.value) in (int, float):
            source = guard.source
            self.misses[source] = self.misses.get(source, 0) + 1
        return reasons

    def varying(self) -> frozenset:
        """Sources of numbers that were another than the last capture had."""
        return frozenset(self.misses)

    def misses_of(self, source) -> int:
        """How often another number, or a list of another length, was met there than the last capture had."""
        return self.misses.get(source, 0)

    cdef int put_first(self, Entry entry) except -1:
        """Let the next call try this entry first."""
        if self.list_of_entries and self.list_of_entries[0] is not entry:
            self.list_of_entries = [entry, *[other for other in self.list_of_entries if other is not entry]]
        return 0

    cdef object python(self, PyObject** args, size_t flagged, PyObject* names):
        self.calls_of_python += 1
        return PyObject_Vectorcall(self.itself, args, flagged, names)

    cdef object refused(self, PyObject** args, size_t flagged, PyObject* names):
        """Run as Python what was not captured whole; the modules that it calls are compiled, each by itself."""
        cdef PyObject* before = flambeau_inner
        global flambeau_inner
        flambeau_inner = <PyObject*>self.backend
        inner.running += 1
        try:
            return self.python(args, flagged, names)
        finally:
            inner.running -= 1
            flambeau_inner = before


cdef object call_compiled(PyObject* callable, PyObject** args, size_t flagged, PyObject* names):
    cdef Compiled self = <Compiled>callable
    cdef int64_t state = state_of_thread()
    cdef Entry entry
    cdef Py_ssize_t k, n
    cdef PyObject** values
    cdef PyObject** found
    cdef int slots = 1, inputs = 1
    cdef list entries = self.list_of_entries
    flagged &= ~PY_VECTORCALL_ARGUMENTS_OFFSET
    if state == UNCAPTURED:
        return self.python(args, flagged, names)
    if self.as_python:
        return self.refused(args, flagged, names)
    n = len(entries)
    for k in range(n):
        entry = <Entry>entries[k]
        slots, inputs = max(slots, entry.guards.slots), max(inputs, entry.guards.inputs)
    values, found = <PyObject**>alloca(slots * sizeof(PyObject*)), <PyObject**>alloca(inputs * sizeof(PyObject*))
    for k in range(n):
        entry = <Entry>entries[k]
        if entry.state != state:
            continue
        if entry.guards.run(args, PyVectorcall_NARGS(flagged), names, values, found) >= 0:
            if entry.guards.attributes:
                entry.guards.release(values)
            continue
        if entry.launch is None:
            if entry.guards.attributes:
                entry.guards.release(values)
            self.put_first(entry)
            return self.refused(args, flagged, names)
        if not entry.guards.attributes:
            result = entry.run(found, values)
        else:
            try:
                result = entry.run(found, values)
            finally:
                entry.guards.release(values)
        if result is OTHERWISE:
            if entry.misses >= WRONG_GUESSES and not self.backend.fullgraph:
                entry.give_up()
            continue
        if k:
            self.put_first(entry)
        return result
    result = self.miss(state, args, flagged, names)
    return self.python(args, flagged, names) if result is None else (<tuple>result)[0]


cdef void make_callable(Compiled example) noexcept:
    """Let instances be called through their `call` field, and bound by classes as functions are."""
    cdef RawType* raw = <RawType*>Compiled
    raw.tp_vectorcall_offset = <char*>&example.call - <char*><void*>example
    raw.tp_call = <void*>PyVectorcall_Call
    raw.tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR
    PyType_Modified(<PyTypeObject*>Compiled)


make_callable(Compiled.__new__(Compiled))


cdef object call_inner(object module, tuple args, PyObject* kwargs):
    """A module that a refused function calls: what is compiled of it, where there is anything to gain."""
    global flambeau_inner
    cdef PyObject* before = flambeau_inner
    if before == NULL:
        return NotImplemented
    compiled = (<object>before).inner(module)
    if compiled is None:
        return NotImplemented
    flambeau_inner = NULL
    try:
        return compiled(*args) if kwargs == NULL else compiled(*args, **<dict><object>kwargs)
    finally:
        flambeau_inner = before


inner.call = call_inner


def is_capturing() -> bool:
    """Whether a call is being captured in this thread."""
    return flambeau_capturing != 0


def is_silent(TensorBase t not None) -> bool:
    """Whether writes to a tensor do not count as changes of its storage (`.data`)."""
    return t.silent


def switch_off(int by) -> None:
    """Let compiled functions run as Python in this thread (1), and compiled again (-1)."""
    global flambeau_compile_off
    flambeau_compile_off += by
