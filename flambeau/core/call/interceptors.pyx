# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Interceptors of operations: modes, and classes of tensors that override them.

A thread has a stack of modes.  An operation that is called goes to the innermost of them; while that one handles it, the
modes outside of it are the stack, so that what it calls goes on to them.  After the last mode the operation runs, and what
it calls itself is not intercepted.

Modes stand on two levels.  Those of the upper one see the calls that a program makes, before the classes of its arguments
do; those of the lower one come last, and see leaves (a composite runs, and the operations that it calls come to them), those of
backward passes, too.  Autocast (`casting`) stands between: modes and classes see operands as the program gives them, the lower level
sees them cast.
"""
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int64_t
from ..base.callbacks import set_callback
from ..base.profiling cimport OPERATION, begin, end, note_call, profiling
from ..base.tensor cimport TensorBase, runtime
from ..tape.engine import current_pass
from ..tape.modes cimport casting
from .operation cimport Form, Op, dispatch, raw_record_t, raw_t, vectorcall_t
from .signature import in_order
import threading
import weakref

cdef extern from "Python.h":
    Py_ssize_t PyVectorcall_NARGS(size_t n)
    bint PyTuple_Check(object o)
    bint PyList_Check(object o)
    bint PyTuple_CheckExact(object o)
    bint PyList_CheckExact(object o)
    unsigned long Py_TPFLAGS_HEAPTYPE
    ctypedef struct RawType "PyTypeObject":
        unsigned long tp_flags

cdef extern from *:
    """
    typedef struct {                /* one, so that its address is looked up once a call */
        int upper, lower;           /* how many modes are on this thread's stack, on each level */
        int overrides_off;          /* overrides of classes are disabled */
        PyObject* without;          /* borrowed: the function that runs without them */
        PyObject* recording;        /* borrowed: what leaves are written into */
        PyObject** kept;            /* where the leaf that is recorded leaves a copy of what it overwrites, and that argument, borrowed */
    } ThreadState;
    static __thread ThreadState flambeau_thread = {0, 0, 0, NULL, NULL, NULL};
    """
    ctypedef struct ThreadState:
        int upper, lower, overrides_off
        PyObject* without
        PyObject* recording
        PyObject** kept
    ThreadState flambeau_thread

cdef PyTypeObject* FORM = <PyTypeObject*>Form
cdef object threads = threading.local()           # .upper, .lower: the modes, the outermost first
cdef int override_classes = 0                     # how many classes of tensors override operations
cdef int wrappers = 0                             # how many classes have `__torch_dispatch__`


cdef void add_interceptors(int by) noexcept:
    """So many more interceptors."""
    runtime.interceptors += by
    runtime.observers += by


# --- the stack ------------------------------
cdef list stack_of(bint upper):
    return <list>getattr(threads, "upper" if upper else "lower", None) or []


cdef int set_stack(bint upper, list modes) except -1:
    if upper:
        threads.upper, flambeau_thread.upper = modes, <int>len(modes)
    else:
        threads.lower, flambeau_thread.lower = modes, <int>len(modes)
    return 0


cdef bint lower_on() noexcept:
    return flambeau_thread.lower != 0


def push_mode(mode, bint upper) -> None:
    """Put a mode on this thread's stack."""
    set_stack(upper, stack_of(upper) + [mode])
    add_interceptors(1)


def pop_mode(bint upper):
    """Take the innermost mode off this thread's stack."""
    modes = stack_of(upper)
    if not modes:
        raise RuntimeError("no mode is on")
    set_stack(upper, modes[:len(modes) - 1])
    add_interceptors(-1)
    return modes[len(modes) - 1]


def has_interceptors() -> bool:
    """Whether there is an interceptor, in whatever thread."""
    return runtime.interceptors != 0


def has_recorder() -> bool:
    """Whether the leaves that this thread calls are written into a recording."""
    return flambeau_thread.recording != NULL and not dispatch.rests(flambeau_thread.recording)


def modes_on(bint upper) -> list:
    """The modes that see what is called now, the outermost first."""
    return list(stack_of(upper))


cdef object call_mode(bint upper, object op, tuple args, dict named):
    """The result of the innermost mode, for which those outside of it are the stack."""
    cdef list modes = stack_of(upper)
    set_stack(upper, modes[:len(modes) - 1])
    try:
        result = modes[len(modes) - 1].handle(op, types_of(args, named), args, named)
    finally:
        set_stack(upper, modes)
    if result is NotImplemented:
        raise TypeError(f"{op.__name__}(): the mode {type(modes[len(modes) - 1]).__name__} has no answer (NotImplemented)")
    return result


# --- classes ------------------------------
def _disabled_torch_function_impl(func, types, args=(), kwargs=None):
    """The `__torch_function__` of classes that do not override: the operation on their instances as plain tensors."""
    return without_overrides(func, args, kwargs)


def add_override_class(cls) -> None:
    """Let a class of tensors override operations from now on, for as long as it lives."""
    global override_classes
    override_classes += 1
    add_interceptors(1)
    weakref.finalize(cls, remove_override_class).atexit = False


def remove_override_class() -> None:
    """One such class less."""
    global override_classes
    override_classes -= 1
    add_interceptors(-1)


cdef bint has_override(object cls):
    """Whether instances of that class override operations."""
    protocol = getattr(cls, "__torch_function__", None)
    return protocol is not None and protocol is not _disabled_torch_function_impl


def attend_objects(int by) -> None:
    """So many more objects, which are no tensors, are called before an operation looks at its arguments; else they are after its error."""
    global override_classes
    override_classes += by
    add_interceptors(by)


def overrides_calls(cls) -> bool:
    """Whether instances of that class override operations."""
    return has_override(cls)


cdef object plain_tensor = None     # the class that never overrides


def set_plain_class(cls) -> None:
    """The Tensor class itself."""
    global plain_tensor
    plain_tensor = cls


cdef int append_overloaded(object x, list result) except -1:
    """Add `x` to the arguments that override, one for each class, subclasses before the classes they are of."""
    cdef object cls = type(x)
    cdef Py_ssize_t k
    if cls is plain_tensor or not has_override(cls):
        return 0
    for k in range(len(result)):
        if type(result[k]) is cls:
            return 0
        if issubclass(cls, type(result[k])):
            result.insert(k, x)
            return 0
    result.append(x)
    return 0


cdef list overloaded_args(tuple args, dict named):
    """The arguments whose classes override, in the order in which they are called."""
    cdef list result = []
    for x in args:
        append_overloaded(x, result)
        if PyTuple_Check(x) or PyList_Check(x):
            for y in x:
                append_overloaded(y, result)
    if named:
        for x in named.values():
            append_overloaded(x, result)
            if PyTuple_Check(x) or PyList_Check(x):
                for y in x:
                    append_overloaded(y, result)
    return result


cdef bint is_foreign(object x):
    return isinstance(x, TensorBase) and type(x) is not plain_tensor and has_override(type(x))


cdef bint has_overloaded(PyObject** args, Py_ssize_t n):
    """Whether an argument is of a class that overrides: a quick look before tuples are made."""
    cdef Py_ssize_t k
    cdef object x
    for k in range(n):
        x = <object>args[k]
        if isinstance(x, TensorBase):
            if type(x) is not plain_tensor and has_override(type(x)):
                return True
        elif PyTuple_Check(x) or PyList_Check(x):
            for y in x:
                if is_foreign(y) or may_override(<PyObject*>y) and has_override(type(y)):
                    return True
        elif may_override(args[k]) and has_override(type(x)):
            return True
    return False


cdef inline bint may_override(PyObject* x) noexcept:
    """Whether it may be of a class that a program has written; those of this library, of C and of Python are static, or tensors."""
    return (<RawType*>x.ob_type).tp_flags & Py_TPFLAGS_HEAPTYPE != 0 and not isinstance(<object>x, TensorBase)


cdef bint has_override_object(PyObject** args, Py_ssize_t n):
    """Whether an argument that is no tensor, or an element of a list of them, overrides operations."""
    cdef Py_ssize_t k
    if flambeau_thread.overrides_off:
        return False
    for k in range(n):
        if may_override(args[k]):
            if has_override(type(<object>args[k])):
                return True
        elif PyTuple_CheckExact(<object>args[k]) or PyList_CheckExact(<object>args[k]):
            for y in <object>args[k]:
                if may_override(<PyObject*>y) and has_override(type(y)):
                    return True
    return False


cdef object operator_of_object(object op, object a, object b):
    """What an operator makes of an operand that is neither tensor nor number: what its class returns, or NotImplemented."""
    cdef PyObject* operand = <PyObject*>b
    if not has_override_object(&operand, 1):
        return NotImplemented
    return op(a, b) if not isinstance(op, Op) or (<Op>op).method is None else (<Op>op).method(a, b)


def no_interceptors(list lists) -> bool:
    """Whether no mode or recording is on in this thread, and no tensor in these lists is a wrapper or of a class that overrides."""
    cdef object plain = plain_tensor
    cdef bint overriding = override_classes and not flambeau_thread.overrides_off
    cdef bint wrapping = wrappers and wrappers_enabled()
    if flambeau_thread.upper or flambeau_thread.lower or flambeau_thread.recording != NULL:
        return False
    if not overriding and not wrapping:
        return True
    for column in lists:
        for x in <list>column:
            if type(x) is not plain:
                if (overriding and is_foreign(x)) or (wrapping and holds_wrappers(x)):
                    return False
                plain = type(x)   # nor are others of this class
    return True


cdef tuple types_of(tuple args, dict named):
    return tuple([type(x) for x in overloaded_args(args, named)])


cdef object call_overrides(object op, list who, tuple args, dict named):
    """The first result of the arguments' overrides."""
    types = tuple([type(x) for x in who])
    for x in who:
        result = type(x).__torch_function__(op, types, args, named)
        if result is not NotImplemented:
            return result
    raise TypeError(f"no implementation found for '{op.__name__}' on types that implement __torch_function__: {list(types)}")


def dispatch_function(function, relevant, args, named):
    """What modes and the classes of the relevant arguments make of `function(*args, **named)`, which is no operation."""
    if flambeau_thread.upper:
        return call_mode(True, function, tuple(args), dict(named))
    return call_overrides(function, overloaded_args(tuple(relevant), {}), tuple(args), dict(named))


cdef object without_overrides(object op, object args, object named):
    """The operation's result, overrides of classes disabled.

    NotImplemented for a function that calls `__torch_function__` again all the same: it is another library's, whose overrides nothing
    here disables.
    """
    cdef PyObject* outer = flambeau_thread.without
    if flambeau_thread.overrides_off and outer == <PyObject*>op:
        return NotImplemented
    flambeau_thread.overrides_off += 1
    flambeau_thread.without = <PyObject*>op
    try:
        return op(*args, **(named or {}))
    finally:
        flambeau_thread.overrides_off -= 1
        flambeau_thread.without = outer


def disable_overrides(int by) -> None:
    """Disable overrides of classes in this thread (1), and enable them again (-1)."""
    flambeau_thread.overrides_off += by


cdef bint overrides_off() noexcept:
    return flambeau_thread.overrides_off != 0


def overrides_disabled() -> bool:
    """Whether overrides of classes are disabled in this thread."""
    return flambeau_thread.overrides_off != 0


cdef object converted(object result, object cls):
    """Tensors of a result as that class."""
    if isinstance(result, TensorBase):
        return result if isinstance(result, cls) else result.as_subclass(cls)
    if isinstance(result, tuple):
        if hasattr(result, "_fields"):
            return type(result)(*[converted(x, cls) for x in result])
        return type(result)([converted(x, cls) for x in result]) if type(result) is tuple else result
    if type(result) is list:
        return [converted(x, cls) for x in result]
    return result


def torch_function(cls, func, types, args=(), kwargs=None):
    """The operation on plain tensors, its results as tensors of this class; NotImplemented where other classes take part."""
    for other in types:
        if not issubclass(cls, other):
            return NotImplemented
    return converted(without_overrides(func, args, kwargs), cls)


def data_as_its_class(TensorBase t, TensorBase data):
    """`t.data`, which without overrides is `data`, as t's class answers it; those that stand for other tensors never do."""
    cdef object cls = type(t)
    if flambeau_thread.overrides_off or not has_override(cls) or getattr(cls, "_overrides_while_alive", False):
        return data
    if getattr(cls.__torch_function__, "__func__", None) is torch_function:
        return data.as_subclass(cls)
    return call_overrides(TensorBase.data.__get__, [t], (t,), {})


set_callback("data as its class", data_as_its_class)


# --- dispatch while there are observers ------------------------------
cdef object run_with_entry(Op op, PyObject** args, size_t flagged, PyObject* names):
    """The operation's result, with an entry for the profiler.  An override in its place is not noted, for nothing ran."""
    cdef Py_ssize_t nargs = PyVectorcall_NARGS(flagged)
    cdef int64_t entry = begin(op, OPERATION)
    if profiling.shapes or profiling.stacks:
        note_call(entry, args, nargs + (0 if names == NULL else len(<tuple>names)), nargs, names)
    try:
        return op.run(<PyObject*>op, args, flagged, names)
    finally:
        end(entry)


cdef int pending() except -1:
    """Raise what the interpreter has pending."""
    return -1


cdef object dispatch_error(PyObject* callable, PyObject** args, size_t flagged, PyObject* names):
    """What comes of a call that has raised an error.

    An argument that is no tensor, and overrides operations, does so now: where there is none, calls pay nothing.  So are parameters in an
    order of before put right.
    """
    cdef Op op = <Op>callable
    cdef Py_ssize_t nargs = PyVectorcall_NARGS(flagged), k
    cdef Py_ssize_t given = nargs + (0 if names == NULL else len(<tuple>names))
    cdef bint has_object
    try:
        pending()
    except Exception as error:
        has_object = has_override_object(args, given)
        if not has_object and not (isinstance(error, TypeError) and op.old_orders):
            raise
        all_args = tuple([<object>args[k] for k in range(nargs)])
        named = {} if names == NULL else {(<tuple>names)[k]: <object>args[nargs + k] for k in range(given - nargs)}
        result = None
        if not has_object:
            result = in_order(op.__name__, op.old_orders, all_args, named, isinstance(op, Form) and (<Form>op).place.startswith("Tensor."))
            if result is None:
                raise
    if has_object:
        return call_overrides(op, overloaded_args(all_args, named), all_args, named)
    return op(*result[0], **result[1])


cdef object call_object_overrides(object function, PyObject** args, size_t flagged, PyObject* names):
    """What arguments that override make of a call of any function."""
    cdef Py_ssize_t nargs = PyVectorcall_NARGS(flagged), k
    all_args = tuple([<object>args[k] for k in range(nargs)])
    named = {} if names == NULL else {(<tuple>names)[k]: <object>args[nargs + k] for k in range(len(<tuple>names))}
    return call_overrides(function, overloaded_args(all_args, named), all_args, named)


def in_current_order(op, tuple args, dict named):
    """Arguments of a call as parameters stand today, which may be in an order of before."""
    result = None
    if len(args) > 1 and op.old_orders:
        result = in_order(op.__name__, op.old_orders, args, named)
        if result is None:
            result = in_order(op.__name__, op.old_orders, args, named, True)
    return (args, named) if result is None else result


cdef object dispatch_autocast(Op op, PyObject** args, size_t flagged, PyObject* names):
    """Autocast and lower modes; then the operation runs."""
    cdef PyObject* callable = <PyObject*>op
    cdef PyObject* raw
    if type(op) is Form:
        callable = <PyObject*>(<Form>op).op
    if casting():
        raw = (<raw_t>dispatch.cast)(callable, args, flagged, names)
    else:
        raw = (<raw_t>dispatch_lower)(callable, args, flagged, names)
    if raw == NULL:
        return dispatch_error(<PyObject*>op, args, flagged, names)
    result = <object>raw
    Py_DECREF(result)
    return result


cdef PyObject* only_recording() noexcept:
    """This thread's recording, where no mode, class or cast sees its calls; else NULL."""
    cdef ThreadState* state = &flambeau_thread
    if state.recording == NULL or state.upper | state.lower | override_classes | wrappers or casting():
        return NULL
    return state.recording


cdef inline bint is_leaf(Op op) noexcept:
    return op.composite is None or op.name == "derivative"


cdef PyObject* record_leaf(PyObject* recording, PyObject* callable, PyObject** args, size_t flagged, PyObject* names) noexcept:
    """An operation that the `only_recording` sees: a leaf is written; of a composite, what it calls."""
    if is_leaf(<Op>callable):
        return (<raw_record_t>dispatch.record)(recording, callable, args, flagged, names)
    return (<raw_t>run_profiled)(callable, args, flagged, names)


cdef PyObject* dispatch_upper(PyObject* callable, PyObject** args, size_t flagged, PyObject* names) noexcept:
    cdef PyObject* recording = only_recording()
    cdef PyObject* result
    if recording == NULL:
        return (<raw_t>dispatch_levels)(callable, args, flagged, names)
    result = record_leaf(recording, <PyObject*>(<Form>callable).op if callable.ob_type == FORM else callable, args, flagged, names)
    return result if result != NULL else (<raw_t>dispatch_error)(callable, args, flagged, names)


cdef object dispatch_levels(PyObject* callable, PyObject** args, size_t flagged, PyObject* names):
    """Upper modes, classes, lower modes, in this order; then the operation runs."""
    cdef Op op = <Op>callable
    cdef Py_ssize_t nargs = PyVectorcall_NARGS(flagged), k
    cdef Py_ssize_t given = nargs + (0 if names == NULL else len(<tuple>names))
    cdef bint above = flambeau_thread.upper and current_pass() is None
    cdef bint classes = override_classes and not flambeau_thread.overrides_off and has_overloaded(args, given)
    if not (above or classes):
        return dispatch_autocast(op, args, flagged, names)
    all_args = tuple([<object>args[k] for k in range(nargs)])
    named = {} if names == NULL else {(<tuple>names)[k]: <object>args[nargs + k] for k in range(given - nargs)}
    if above:
        return call_mode(True, op, all_args, named)
    return call_overrides(op, overloaded_args(all_args, named), all_args, named)


cdef object wrapper_dispatch = None, holds_wrappers = None, wrappers_enabled = None  # see `wrapping`


def set_wrapper_dispatch(answer, question, now) -> None:
    """What runs an operation on wrappers, and which arguments hold one."""
    global wrapper_dispatch, holds_wrappers, wrappers_enabled
    wrapper_dispatch, holds_wrappers, wrappers_enabled = answer, question, now


def add_wrapper_class(cls) -> None:
    """Hand operations on instances of that class to its `__torch_dispatch__` from now on, for as long as it lives."""
    global wrappers
    wrappers += 1
    add_interceptors(1)
    weakref.finalize(cls, remove_wrapper_class).atexit = False


def remove_wrapper_class() -> None:
    """One such class less."""
    global wrappers
    wrappers -= 1
    add_interceptors(-1)


cdef bint holds_wrapper(PyObject** args, Py_ssize_t n):
    cdef Py_ssize_t k
    for k in range(n):
        if (isinstance(<object>args[k], TensorBase) or PyTuple_Check(<object>args[k]) or PyList_Check(<object>args[k])) and holds_wrappers(
                <object>args[k]):
            return True
    return False


cdef PyObject** recorder_slot() noexcept:
    return &flambeau_thread.recording


cdef PyObject*** copies_slot() noexcept:
    return &flambeau_thread.kept


cdef void note_copy(TensorBase source, TensorBase copy) noexcept:
    """The tape has kept a copy of what the leaf that runs overwrites, one of its arguments."""
    cdef PyObject** kept = flambeau_thread.kept
    if kept != NULL and kept[0] == NULL:
        Py_INCREF(copy)
        kept[0], kept[1] = <PyObject*>copy, <PyObject*>source


cdef void leave_interceptors(int* left) noexcept:
    cdef ThreadState* state = &flambeau_thread
    left[0], left[1], left[2] = state.upper, state.lower, state.overrides_off
    state.upper, state.lower, state.overrides_off = 0, 0, 1


cdef void enter_interceptors(const int* left) noexcept:
    cdef ThreadState* state = &flambeau_thread
    state.upper, state.lower, state.overrides_off = left[0], left[1], left[2]


cdef object run_profiled(PyObject* callable, PyObject** args, size_t flagged, PyObject* names):
    """The operation's result, with an entry for the profiler where that is on."""
    if profiling.on:
        return run_with_entry(<Op>callable, args, flagged, names)
    return (<Op>callable).run(callable, args, flagged, names)


cdef object dispatch_lower(PyObject* callable, PyObject** args, size_t flagged, PyObject* names):
    """Lower modes; then the operation runs."""
    cdef Py_ssize_t nargs = PyVectorcall_NARGS(flagged), k
    if not flambeau_thread.lower:
        if wrappers and wrappers_enabled() and holds_wrapper(args, nargs + (0 if names == NULL else len(<tuple>names))):
            return wrapper_dispatch(<object>callable, tuple([<object>args[k] for k in range(nargs)]), {} if names == NULL else {
                (<tuple>names)[k]: <object>args[nargs + k] for k in range(len(<tuple>names))})
        if flambeau_thread.recording != NULL and is_leaf(<Op>callable):
            return dispatch.record(flambeau_thread.recording, callable, args, flagged, names)
        return run_profiled(callable, args, flagged, names)
    if not is_leaf(<Op>callable):      # what it calls comes here in its turn
        return (<Op>callable).run(callable, args, flagged, names)
    all_args = tuple([<object>args[k] for k in range(nargs)])
    named = {} if names == NULL else {(<tuple>names)[k]: <object>args[nargs + k] for k in range(len(<tuple>names))}
    return call_mode(False, <object>callable, all_args, named)


dispatch.from_upper, dispatch.from_lower, dispatch.on_error = <vectorcall_t>dispatch_upper, dispatch_lower, dispatch_error


# --- for classes in Python ------------------------------
class Mode:
    """Sees the operations that this thread calls while it is on (`with mode:`), from the innermost mode outwards.

    A class of modes defines `handle`.  What `handle` calls goes to the modes outside of this one.

    >>> from flambeau.overrides import Mode
    >>> import flambeau
    >>> class Counts(Mode):
    ...     calls = 0
    ...     def handle(self, operation, types, args, kwargs):
    ...         self.calls += 1
    ...         return operation(*args, **kwargs)
    >>> with Counts() as mode:
    ...     x = flambeau.ones(2).exp().sum()
    >>> mode.calls
    3
    """

    upper = False    # whether it sees operations before the classes of their arguments do, and nothing of backward passes

    def handle(self, operation, types, args, kwargs):
        """The result of `operation(*args, **kwargs)`; `types` are the classes of tensors among the arguments that override it, too.

        >>> from flambeau.overrides import Mode
        >>> import flambeau
        >>> class Names(Mode):
        ...     def handle(self, operation, types, args, kwargs):
        ...         print(operation.__name__)
        ...         return operation(*args, **kwargs)
        >>> with Names():
        ...     x = flambeau.ones(2) + 1
        ones
        add
        """
        raise NotImplementedError(f"{type(self).__name__} is a mode without `handle`")

    def decompose(self, operation, args, kwargs):
        """Run the operations that a composite is made of, each of which comes to this mode; NotImplemented for an operation of one
        piece.
        """
        parts = getattr((<Form>operation).op if type(operation) is Form else operation, "composite", None)
        if parts is None:
            return NotImplemented
        self.__enter__()
        try:
            return parts(*args, **kwargs)
        finally:
            self.__exit__(None, None, None)

    def __enter__(self):
        push_mode(self, type(self).upper)
        return self

    def __exit__(self, *exception):
        pop_mode(type(self).upper)
