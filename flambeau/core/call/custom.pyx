# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Operations that programs add: functions of Python by type of device, dispatched as ours are.

Here is what runs at every call: arguments that plainly fit the schema, the choice of a kernel, what the tape and memory must be
while it runs, and what its result is held to.  The rest (`_bind`, `_recorded`, …) is Python, in the class that `flambeau.library`
derives from this one.
"""
from cpython.object cimport PyObject, PyTypeObject
from ..base.device cimport Device
from ..base.dtypes cimport device, dtype
from ..base.tensor cimport TensorBase, bump_version
from ..tape.history cimport drop_base, lies_in
from ..tape.modes cimport grad_enabled, set_grad, wants_grad
from .operation cimport COMPOSITE, Op, make_callable, prepare_op
from .signature cimport Signature
cimport cython

cdef extern from "Python.h":
    Py_ssize_t PyVectorcall_NARGS(size_t n)
    bint PyBool_Check(object o)
    bint PyFloat_Check(object o)
    bint PyList_CheckExact(object o)
    bint PyList_Check(object o)
    bint PyTuple_Check(object o)
    bint PyLong_CheckExact(object o)
    bint PyUnicode_Check(object o)
    long long PyLong_AsLongLongAndOverflow(object o, int* overflow) except? -1

cdef extern from *:
    """
    static __thread int flambeau_below = 0;       /* inside a kernel, or where a program has said so */
    """
    int flambeau_below

cdef enum:
    MOST = 64                 # parameters of one operation
    # kinds of parameters: a base, and how it stands there
    ANYTHING = 0
    A_TENSOR = 1
    AN_INT = 2
    A_FLOAT = 3
    A_BOOL = 4
    A_TEXT = 5
    A_NUMBER = 6
    A_DTYPE = 7
    A_DEVICE = 8
    BASE = 15
    LISTED = 16
    OR_NONE = 32
    ELEMENTS_OR_NONE = 64

BASES = {"Tensor": A_TENSOR, "int": AN_INT, "float": A_FLOAT, "bool": A_BOOL, "str": A_TEXT, "number": A_NUMBER, "ScalarType": A_DTYPE,
         "Device": A_DEVICE}
IS_LISTED, MAY_BE_NONE, ELEMENTS_MAY_BE_NONE = LISTED, OR_NONE, ELEMENTS_OR_NONE


cdef bint is_of_base(int base, object x) except -1:
    """Whether a value is of that kind as it stands."""
    cdef int beyond = 0
    if base == A_TENSOR:
        return isinstance(x, TensorBase)
    if base == AN_INT:
        if PyLong_CheckExact(x):
            PyLong_AsLongLongAndOverflow(x, &beyond)
        return PyLong_CheckExact(x) and not beyond
    if base == A_FLOAT:
        return PyFloat_Check(x)
    if base == A_BOOL:
        return PyBool_Check(x)
    if base == A_TEXT:
        return PyUnicode_Check(x)
    if base == A_NUMBER:
        return PyFloat_Check(x) or PyLong_CheckExact(x)
    if base == A_DTYPE:
        return isinstance(x, dtype)
    if base == A_DEVICE:
        return isinstance(x, device)
    return True


cdef bint fits(int kind, object x) except -1:
    """Whether a value needs neither conversion nor a second look; False says nothing."""
    cdef int base = kind & BASE
    if x is None:
        return kind & OR_NONE or base == ANYTHING or (base == A_TENSOR and not kind & LISTED)
    if not kind & LISTED:
        return is_of_base(base, x)
    if not PyList_CheckExact(x):
        return False
    for y in <list>x:
        if not (is_of_base(base, y) or (y is None and kind & ELEMENTS_OR_NONE)):
            return False
    return True


def fits_as_is(int kind, x) -> bool:
    """Whether a value of that kind needs neither conversion nor a second look."""
    return fits(kind, x)


cdef bint wanted(object values) except -1:
    """Whether a gradient of a tensor among these, lists of them included, is wanted."""
    for x in values:
        if isinstance(x, TensorBase):
            if wants_grad(<TensorBase>x):
                return True
        elif PyList_Check(x) or PyTuple_Check(x):
            if wanted(x):
                return True
    return False


cdef str type_among(object values, str result):
    """The type of the device that tensors among these live on: `meta` before accelerators, those before the CPU; None without one."""
    cdef str other
    for x in values:
        other = None
        if isinstance(x, TensorBase):
            on = (<TensorBase>x).storage.on
            other = "cpu" if on is None else (<Device>on).type
        elif PyList_Check(x) or PyTuple_Check(x):
            other = type_among(x, None)
        if other is not None and (result is None or result == "cpu" or other == "meta"):
            result = other
    return result


cdef class CustomOp(Op):
    """An operation of a program: kernels by type of device, behind a schema."""

    cdef int positional, required       # so many arguments may, so many must be given by position
    cdef bint tensors                   # a parameter is a tensor, or a list of them
    cdef int kinds[MOST]
    cdef tuple written                  # the names of what it writes to
    cdef tuple written_at               # and their places
    cdef int returned                   # 1: one tensor; -1: nothing; 0: anything else
    cdef public dict chosen             # type of device -> kernel, as `_choose` has found them
    cdef public object whole            # a function of other operations, which are recorded in place of this one
    cdef public object over             # what is called in its place wherever it may be recorded
    cdef public bint taped              # the tape has one node for it
    cdef public bint checks_aliases     # results share no memory with arguments or with each other: checked
    cdef public bint unverified         # no result has been compared with what the fake says

    def __cinit__(self, str name, *_, **__):
        prepare_op(self, name, call_custom)
        self.on_host = self.elsewhere = COMPOSITE
        self.chosen, self.written, self.written_at = {}, (), ()

    def _declare(self, Signature signature, tuple kinds, int positional, int required, tuple written, int returned):
        """What the schema says: the parameters, their kinds, and which are written to."""
        cdef int k
        if positional > MOST:
            raise ValueError(f"{self.name}: an operation has at most {MOST} parameters by position, got {positional}")
        self.signature = signature
        self.positional, self.required, self.returned = positional, required, returned
        self.tensors = False
        for k in range(len(kinds)):
            if k < positional:
                self.kinds[k] = kinds[k]
            self.tensors = self.tensors or kinds[k] & BASE == A_TENSOR
        self.written = tuple([key for _, key in written])
        self.written_at = tuple([at for at, _ in written])

    def _compute(self, tuple given, named, bint recorded=False):
        """The kernel's result, held to the schema; `recorded`: by the operations that the kernel is made of."""
        return compute(self, given, <dict?>named if named is not None else None, recorded)


cdef object compute(CustomOp op, tuple given, dict named, bint recorded):
    global flambeau_below
    cdef str place = None
    cdef bint before = grad_enabled()
    if op.tensors:
        place = type_among(given, None)
        if named:
            place = type_among(named.values(), place)
    if place is None:
        place = (<object>op)._place(given, named)
    kernel = op.chosen.get(place)
    if kernel is None:
        kernel = (<object>op)._choose(place)
    flambeau_below += 1
    if not recorded:
        set_grad(0)
    try:
        result = kernel(*given) if named is None else kernel(*given, **named)
    except Exception as error:
        (<object>op)._blame(error, kernel)
        raise
    finally:
        set_grad(before)
        flambeau_below -= 1
    if op.returned < 0:
        result = None
    elif op.returned == 0 or not isinstance(result, TensorBase):
        result = (<object>op)._result(result, kernel, given, named)
    if op.checks_aliases and op.returned >= 0:
        check_aliases(op, result, kernel, given, named)
    if not recorded:
        owned(result, given)
    if op.written:
        count_writes(op, given, named)
    if op.unverified:
        (<object>op)._verify(result, kernel, place, given, named)
    return result


cdef int owned(object result, tuple given) except -1:
    """Results are views of arguments or of nothing."""
    if isinstance(result, TensorBase):
        drop_base(<TensorBase>result, given)
    elif PyTuple_Check(result) or PyList_Check(result):
        for t in result:
            owned(t, given)
    return 0


cdef int check_aliases(CustomOp op, object result, object kernel, tuple given, dict named) except -1:
    """RuntimeError where a result shares memory with an argument or with another result."""
    cdef list results = []
    if isinstance(result, TensorBase) and named is None:
        if lies_in((<TensorBase>result).storage, given):
            raise (<object>op)._aliased(kernel)
        return 0
    gather(result, results)
    for t in results:
        if lies_in((<TensorBase>t).storage, given) or (named is not None and lies_in((<TensorBase>t).storage, tuple(named.values()))):
            raise (<object>op)._aliased(kernel)
    if len(results) > 1 and len({id((<TensorBase>t).storage) for t in results}) < len(results):
        raise (<object>op)._aliased(kernel)
    return 0


cdef int gather(object x, list result) except -1:
    if isinstance(x, TensorBase):
        result.append(x)
    elif PyTuple_Check(x) or PyList_Check(x):
        for y in x:
            gather(y, result)
    return 0


cdef int count_writes(CustomOp op, tuple given, dict named) except -1:
    cdef list written = []
    for at, key in zip(op.written_at, op.written):
        if at < len(given):
            gather(given[at], written)
        elif named is not None:
            gather(named.get(key), written)
    for t in written:
        bump_version(<TensorBase>t)
    return 0


cdef object call_custom(PyObject* callable, PyObject** args, size_t flagged, PyObject* names):
    cdef CustomOp op = <CustomOp>callable
    cdef Py_ssize_t n = PyVectorcall_NARGS(flagged), k
    cdef bint plain = names == NULL and op.required <= n <= op.positional
    cdef tuple given = tuple([<object>args[k] for k in range(n)])
    cdef dict named = None
    if plain:
        for k in range(n):
            if not fits(op.kinds[k], <object>args[k]):
                plain = False
                break
    if not plain:
        given, named = (<object>op)._bind(given, {} if names == NULL else {
            (<tuple>names)[k]: <object>args[n + k] for k in range(len(<tuple>names))})
    if op.over is not None and not flambeau_below:
        return op.over(*given, **(named or {}))
    if op.whole is not None:
        return op.whole(*given, **(named or {}))
    if grad_enabled() and (wanted(given) or (named is not None and wanted(named.values()))):
        return (<object>op)._recorded(given, named) if op.taped else (<object>op)._unrecorded(given, named)
    return compute(op, given, named, False)


make_callable(CustomOp, CustomOp("custom"))


def callable_class(cls) -> type:
    """A class derived from CustomOp whose instances are called as directly as those of that class.

    CPython 3.11 hands the field down to no class written in Python.
    """
    make_callable(cls, CustomOp("custom"))
    return cls


def go_below(int by) -> None:
    """Begin (1) or end (-1), in this thread, a part in which no operation's `Autograd` kernel is called."""
    global flambeau_below
    flambeau_below += by
