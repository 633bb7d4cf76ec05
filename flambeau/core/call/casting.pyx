# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Autocast: which dtype an operation computes in, by one number on the operation for the CPU and one for accelerators.

`cast` is a step of dispatch, between modes of the upper and of the lower level.  It makes the operands that an operation's
rule asks for and goes on; what the operation calls itself is not cast again, unless its rule says so (COMPOSITE).  Forms in place and
with `out=` have no rule.  Which operation has which rule its declaration says (`autocast=`).  The rules are those of PyTorch's lists
('Autocast Op Reference'; what they do to each call of `tests/operations/samples.py` stands in `tests/data/autocast.tsv`); an operation
without one computes in the dtypes that it is given, and so does what it is made of, unless its rule is "composite".

What is on belongs to the thread: the types of devices, the lower dtype of each, how deep `with` blocks are nested, and
the copies of parameters that are cached until the outermost of them ends.
"""
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint64_t, uintptr_t
from ..base.device cimport Device
from ..base.memory cimport is_counted
from ..base.dtypes cimport BF16, F16, F32, F64, CATEGORY, NO_CODE, as_dtype, dtype, dtype_of
from ..base.tensor cimport TensorBase, runtime
from ..tape.modes cimport FORWARD, REVERSE, autocast_on, casting, grad_enabled, set_autocast_on, set_casting
from .copies import to_dtype
from .function import FunctionOp
from .operation cimport BANNED, BY_ARGUMENTS, BY_DEVICE, COMPOSITE, FALLTHROUGH, FLOAT32, FLOAT32_UNLESS_DTYPE, LOWER, PROMOTE, Op, dispatch
from .pointwise cimport copied
from .interceptors cimport lower_on, recorder_slot
import threading
cimport cython

cdef extern from "Python.h":
    Py_ssize_t PyVectorcall_NARGS(size_t n)
    bint PyTuple_CheckExact(object o)
    bint PyList_CheckExact(object o)

cdef enum:
    KINDS = 16                # types of devices
    STACK_ARGS = 32           # arguments that are cast without memory of their own

cdef extern from *:
    """
    static __thread unsigned char flambeau_lower_types[16];   /* code + 1; 0 is the type's own */
    static __thread int flambeau_nesting = 0;
    static __thread int flambeau_cache_off = 0;               /* casts of parameters are not cached */
    static __thread PyObject* flambeau_cast_cache = NULL;     /* they are in this CastCache, which `threads` owns */
    """
    unsigned char flambeau_lower_types[16]
    int flambeau_nesting
    int flambeau_cache_off
    PyObject* flambeau_cast_cache

# The types that autocast knows, the lower dtype of each; `meta` stands for no device of a program's, tests read rules off it.
cdef dict NUMBERS = {}
cdef int[KINDS] DEFAULT_LOWER
for _type, _code in dict(cpu=BF16, cuda=F16, xpu=F16, mps=F16, mtia=F16, maia=BF16, hpu=BF16, ipu=F16, xla=BF16, privateuseone=F16,
                         opencl=F16, meta=F16).items():
    DEFAULT_LOWER[len(NUMBERS)] = _code
    NUMBERS[_type] = len(NUMBERS)

RULES = {"fallthrough": FALLTHROUGH, "composite": COMPOSITE, "lower": LOWER, "float32": FLOAT32, "float32 unless dtype": FLOAT32_UNLESS_DTYPE,
         "promote": PROMOTE, "banned": BANNED, "by arguments": BY_ARGUMENTS, "by device": BY_DEVICE}

cdef object threads = threading.local()       # .counted, .casts: objects that end with the thread
cdef object dispatched_cast = FunctionOp(to_dtype, "to", owns=False)


cdef class InterceptorCount:
    """Autocast is on in a thread: operations are intercepted for as long as this lives, which is no longer than the thread."""

    def __cinit__(self):
        runtime.interceptors += 1
        runtime.observers += 1

    def __dealloc__(self):
        runtime.interceptors -= 1
        runtime.observers -= 1


@cython.final
@cython.no_gc
cdef class CachedCast:
    """A parameter's cast.  The parameter with it: its address is its own while it lives."""

    cdef TensorBase source, made
    cdef uint64_t version


@cython.final
@cython.no_gc
cdef class CastCache:
    """The casts that a thread has cached; when it ends, nothing points here any more."""

    cdef dict entries

    def __cinit__(self):
        global flambeau_cast_cache
        self.entries, flambeau_cast_cache = {}, <PyObject*>self

    def __dealloc__(self):
        global flambeau_cast_cache
        if flambeau_cast_cache == <PyObject*>self:
            flambeau_cast_cache = NULL


# --- the state of a thread ------------------------------
def known(str device_type) -> bool:
    """Whether autocast knows that type of device."""
    return device_type in NUMBERS


def is_on(str device_type) -> bool:
    """Whether autocast is on for a type of device."""
    return (autocast_on() >> <int>NUMBERS[device_type]) & 1 != 0


def is_anywhere_on() -> bool:
    """Whether autocast is on for any type of device."""
    return autocast_on() != 0


def set_on(str device_type, bint enabled) -> None:
    """Switch autocast on or off for a type of device."""
    cdef unsigned int bit = 1 << <int>NUMBERS[device_type]
    cdef unsigned int before = autocast_on()
    cdef unsigned int now = before | bit if enabled else before & ~bit
    set_autocast_on(now)
    set_casting(casting() | bit if enabled else casting() & ~bit)
    if (before != 0) != (now != 0):
        threads.counted = InterceptorCount() if now else None


cdef int lower_code(int number) noexcept:
    return DEFAULT_LOWER[number] if flambeau_lower_types[number] == 0 else flambeau_lower_types[number] - 1


def lower_type(str device_type) -> dtype:
    """The dtype that operations compute in where they may."""
    return dtype_of(lower_code(NUMBERS[device_type]))


def lower_codes(unsigned int types) -> int:
    """The lower dtypes of types of devices, given as bits, as one number of 20 bits; -1 for more than four types."""
    cdef int64_t result = 0
    cdef int k, count = 0
    for k in range(KINDS):
        if types >> k & 1:
            result = result << 5 | lower_code(k)
            count += 1
    return result if count <= 4 else -1


def set_lower_type(str device_type, dtype lower not None) -> None:
    """Set that dtype."""
    flambeau_lower_types[<int>NUMBERS[device_type]] = <unsigned char>(as_dtype(lower, "set_autocast_dtype").code + 1)


def is_cache_enabled() -> bool:
    """Whether casts of parameters are cached."""
    return flambeau_cache_off == 0


def set_cache_enabled(bint enabled) -> None:
    """Cache casts of parameters, or not."""
    global flambeau_cache_off
    flambeau_cache_off = not enabled


def clear_cache() -> None:
    """Drop the casts in the cache."""
    threads.casts = None


def add_nesting(int by) -> int:
    """Blocks that are open, after `by` more."""
    global flambeau_nesting
    flambeau_nesting += by
    return flambeau_nesting


def state(str device_type) -> tuple:
    """What a block has to put back: on, cast now, the lower dtype, whether casts are cached."""
    cdef int number = NUMBERS[device_type]
    return (autocast_on() >> number) & 1, (casting() >> number) & 1, flambeau_lower_types[number], flambeau_cache_off


def put_back(str device_type, tuple before) -> None:
    """The state as it was."""
    global flambeau_cache_off
    cdef int number = NUMBERS[device_type]
    cdef unsigned int bit = 1 << number
    set_on(device_type, before[0])
    set_casting(casting() | bit if before[1] else casting() & ~bit)
    flambeau_lower_types[number], flambeau_cache_off = before[2], before[3]


# --- casts ------------------------------
cdef int number_of(TensorBase t):
    """The type of a tensor's device, -1 where autocast does not know it."""
    if t.storage.on is None:
        return 0
    result = NUMBERS.get((<Device>t.storage.on).type)
    return -1 if result is None else <int>result


cdef str type_numbered(int number):
    """The type of devices that has that number."""
    return list(NUMBERS)[number]


cdef TensorBase converted(TensorBase t, int code):
    if lower_on() or recorder_slot()[0] != NULL:
        return <TensorBase>dispatched_cast(t, dtype_of(code))
    return copied(t, code, False)


def half_of(TensorBase t not None):
    """In float16, as `prepacked` keeps it."""
    return copied(t, F16, False)


def brain_of(TensorBase t not None):
    """In bfloat16."""
    return copied(t, BF16, False)


cdef object prepack = None    # of a module that is imported for the first of these casts


cdef object cached_cast(TensorBase t, int code):
    """The cast that the parameter's storage keeps; None at its first use."""
    global prepack
    if prepack is None:
        from ..base.prepacked import prepack
    return prepack(t, ("cast", code), half_of if code == F16 else brain_of)


cdef TensorBase cast_of(TensorBase t, int code, int number):
    """A floating tensor of that type of device in another dtype; float64 stays.  Casts of parameters to the lower dtype are cached,
    for each mode of the tape, until the parameter is written to; those that no gradient is wanted of stay with the parameter's storage as
    prepacked weights do, and what is laid out of them with them.
    """
    cdef int64_t key
    if t.code == code or CATEGORY[t.code] != 2 or t.code == F64 or number_of(t) != number:
        return t
    if t.code != F32 or not t.requires or t.fn is not None or t.base is not None or flambeau_cache_off or code != lower_code(number) or (
            grad_enabled() & FORWARD):
        return converted(t, code)
    if flambeau_cast_cache == NULL:
        threads.casts = CastCache()
    key = <int64_t><uintptr_t><PyObject*>t << 5 | code << 1 | (grad_enabled() & REVERSE)
    entry = (<CastCache>flambeau_cast_cache).entries.get(key)
    if entry is not None and (<CachedCast>entry).version == t.storage.version:
        return (<CachedCast>entry).made
    if number == 0 and not grad_enabled() & REVERSE and not lower_on() and recorder_slot()[0] == NULL:
        entry = cached_cast(t, code)
        if entry is not None and (<TensorBase>entry).storage.writes == 0 and is_counted((<TensorBase>entry).storage):
            return <TensorBase>entry
    entry = CachedCast.__new__(CachedCast)
    (<CachedCast>entry).source, (<CachedCast>entry).version, (<CachedCast>entry).made = t, t.storage.version, converted(t, code)
    (<CastCache>flambeau_cast_cache).entries[key] = entry
    return (<CachedCast>entry).made


cdef object cast_all(object x, int code, int number):
    """Tensors, and tensors in lists and tuples."""
    cdef list result
    if isinstance(x, TensorBase):
        return cast_of(<TensorBase>x, code, number)
    if not (PyTuple_CheckExact(x) or PyList_CheckExact(x)):
        return x
    result = [cast_all(y, code, number) for y in x]
    return tuple(result) if PyTuple_CheckExact(x) else result


cdef int first_number(object x, unsigned int on) except -2:
    """The first type of device among tensors where autocast is on."""
    cdef int number
    if isinstance(x, TensorBase):
        number = number_of(<TensorBase>x)
        return number if number >= 0 and (on >> number) & 1 else -1
    if PyTuple_CheckExact(x) or PyList_CheckExact(x):
        for y in x:
            number = first_number(y, on)
            if number >= 0:
                return number
    return -1


cdef int widest(Op op, object x, int code, int number) except -1:
    """The wider of a dtype and those of tensors."""
    cdef int other
    if isinstance(x, TensorBase):
        other = (<TensorBase>x).code
        if CATEGORY[other] != 2 or other == F64 or number_of(<TensorBase>x) != number or other == code:
            return code
        if F32 != code and F32 != other:
            raise RuntimeError(f"{op.name}(): Unexpected floating ScalarType in autocast: {dtype_of(other)} where {dtype_of(code)} is the "
                               "lower one")
        return F32
    if PyTuple_CheckExact(x) or PyList_CheckExact(x):
        for y in x:
            code = widest(op, y, code, number)
    return code


# --- behind dispatch ------------------------------
cdef bint has_dtype_argument(PyObject** args, Py_ssize_t given, PyObject* names):
    """Whether a result's dtype is given."""
    cdef Py_ssize_t k
    for k in range(given):
        if isinstance(<object>args[k], dtype):
            return True
    return False


cdef bint has_out(PyObject** args, Py_ssize_t nargs, PyObject* names):
    cdef Py_ssize_t k
    if names == NULL:
        return False
    for k in range(len(<tuple>names)):
        if (<tuple>names)[k] == "out":
            return <object>args[nargs + k] is not None
    return False


cdef object cast(PyObject* callable, PyObject** args, size_t flagged, PyObject* names):
    """Cast the operands as the operation's rule says, and go on."""
    cdef Op op = <Op>callable
    cdef unsigned int on = casting()
    cdef Py_ssize_t nargs = PyVectorcall_NARGS(flagged), k
    cdef Py_ssize_t given = nargs + (0 if names == NULL else len(<tuple>names))
    cdef int number = -1, rule = FALLTHROUGH, code
    if op.on_host or op.elsewhere:
        for k in range(given):
            number = first_number(<object>args[k], on)
            if number >= 0:
                rule = op.elsewhere if number else op.on_host
                break
        else:
            rule = COMPOSITE if op.on_host == COMPOSITE or op.elsewhere == COMPOSITE else FALLTHROUGH
    if rule == BY_ARGUMENTS:
        rule = RULES[(<object>choices[op.name])(number == 0, *positional(args, nargs), **by_name(args, nargs, names))]
    if rule == BY_DEVICE:
        chosen = op.casts.get(type_numbered(number))
        rule = COMPOSITE if chosen is None else BY_DEVICE
    if rule == COMPOSITE:
        return dispatch.from_lower(callable, args, flagged, names)
    if rule == BY_DEVICE and not isinstance(chosen, dtype):
        return chosen(*positional(args, nargs), **by_name(args, nargs, names))
    set_casting(0)
    try:
        if rule == FALLTHROUGH or has_out(args, nargs, names) or (rule == FLOAT32_UNLESS_DTYPE and has_dtype_argument(args, given, names)):
            return dispatch.from_lower(callable, args, flagged, names)
        if rule == BANNED:
            raise RuntimeError(refusals[op.name])
        code = as_dtype(chosen, op.name).code if rule == BY_DEVICE else lower_code(number) if rule == LOWER or rule == PROMOTE else F32
        if rule == PROMOTE:
            for k in range(given):
                code = widest(op, <object>args[k], code, number)
        return with_casts(callable, args, nargs, given, names, code, number)
    finally:
        set_casting(on)


cdef object with_casts(PyObject* callable, PyObject** args, Py_ssize_t nargs, Py_ssize_t given, PyObject* names, int code, int number):
    cdef PyObject* stack_args[STACK_ARGS]
    cdef list held = []           # what `stack_args` points to
    cdef Py_ssize_t k
    if given > STACK_ARGS:
        result = [cast_all(<object>args[k], code, number) for k in range(given)]
        keywords = {} if names == NULL else dict(zip(<object>names, result[nargs:]))
        return (<object>callable)(*result[:nargs], **keywords)
    for k in range(given):
        x = cast_all(<object>args[k], code, number)
        if <PyObject*>x != args[k]:
            held.append(x)
        stack_args[k] = <PyObject*>x
    return dispatch.from_lower(callable, stack_args, nargs, names)


cdef list positional(PyObject** args, Py_ssize_t nargs):
    cdef Py_ssize_t k
    return [<object>args[k] for k in range(nargs)]


cdef dict by_name(PyObject** args, Py_ssize_t nargs, PyObject* names):
    cdef Py_ssize_t k
    return {} if names == NULL else {(<tuple>names)[k]: <object>args[nargs + k] for k in range(len(<tuple>names))}


cdef dict choices = {}
cdef dict refusals = {}


def declare(Op op, rules) -> None:
    """What autocast does with an operation: a rule, or one for the CPU and one for accelerators.

    A rule is a key of RULES, or a function `choice(on_host, *args, **kwargs)` that returns the one of a call.
    """
    given = rules if isinstance(rules, tuple) else (rules, rules)
    for rule in given:
        if callable(rule):
            choices[op.name] = rule
    op.on_host, op.elsewhere = [BY_ARGUMENTS if callable(rule) else RULES[rule] for rule in given]


def refuse(Op op, str why) -> None:
    """The error of a program that calls the operation under autocast."""
    refusals[op.name] = why


dispatch.cast = cast


# --- for those who compute again, or elsewhere ------------------------------
def thread_state() -> tuple:
    """What this thread has switched on, to be switched on again later or in another thread."""
    return autocast_on(), casting(), tuple([flambeau_lower_types[k] for k in range(KINDS)]), flambeau_cache_off


def set_thread_state(tuple given) -> None:
    """The state that `thread_state` gave."""
    global flambeau_cache_off
    cdef unsigned int before = autocast_on(), now = given[0]
    cdef int k
    set_autocast_on(now)
    set_casting(given[1])
    for k in range(KINDS):
        flambeau_lower_types[k] = (<tuple>given[2])[k]
    flambeau_cache_off = given[3]
    if (before != 0) != (now != 0):
        threads.counted = InterceptorCount() if now else None
