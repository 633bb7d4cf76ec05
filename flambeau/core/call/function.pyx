# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Operations that are functions of Python or Cython, and whose their results are.

Here is decided that a result is a view of what the caller gave and of nothing else.  A function may end by giving
a fresh tensor another shape; as `_unsafe_view` in PyTorch, that is no view then: nobody else has the tensor below.
"""
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF
from ..base.parameters import signature
from ..base.device cimport the_blank
from ..base.memory cimport Storage, new_storage_on
from ..base.tensor cimport ON_TAPE, TensorBase, alias
from ..tape.history cimport lies_in
from ..tape.formulas import set_derivative_ops
from .errors import ascribe
from .destination import check_out, set_decomposition
from .operation cimport Op, dispatch, make_callable, prepare_op
from .signature cimport Signature, signature_of
from .interceptors cimport call_object_overrides, has_override_object
from types import FunctionType
cimport cython

cdef extern from "Python.h":
    Py_ssize_t PyVectorcall_NARGS(size_t n)
    PyObject* vectorcall "PyObject_Vectorcall"(object callable, PyObject** args, size_t nargs, PyObject* names)


cdef extern from *:
    """
    static __thread int flambeau_shapes_alone = 0;     /* of the next function that this thread calls */
    """
    int flambeau_shapes_alone


cdef void without_elements(bint now) noexcept:
    global flambeau_shapes_alone
    flambeau_shapes_alone = now


cdef class FunctionOp(Op):
    """The operation that a function computes."""

    def __cinit__(self, function, str name=None, bint owns=True, bint out=False):
        prepare_op(self, name or function.__name__, call_function)
        self.function, self.owns, self.has_out = function, owns, out
        self.loose = isinstance(function, FunctionType)
        vars(self).update(getattr(function, "__dict__", {}))
        setattr(self, "__module__", getattr(function, "__module__", None))
        setattr(self, "__doc__", function.__doc__)

    cdef int infer_signature(self) except -1:
        self.signature = signature_of(self.function)
        if self.has_out:
            self.signature = self.signature.with_out()
        self.has_signature = True
        return 0

    @property
    def __signature__(self):
        """What `inspect.signature` and `help` show."""
        if not self.has_signature:
            self.infer_signature()
        return Op.__signature__.__get__(self)

    @property
    def __code__(self):
        """The code of a function in Python, for who looks where an operation stands."""
        return self.function.__code__


cdef int pending() except -1:
    """Raise what the interpreter has pending."""
    return -1


cdef int attribute_error(FunctionOp op) except -1:
    """The error that the function left, in the name of the operation, unless that is none that users call."""
    try:
        pending()
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        if op.entry is None or op.entry.places:
            ascribe(error, public_name_of(op))
        raise
    return 0


cdef str public_name_of(FunctionOp op):
    """The name that users call an operation by, without its path."""
    return getattr(op, "public_name", op.name).rpartition(".")[2]


cdef object call_function(PyObject* callable, PyObject** args, size_t flagged, PyObject* names):
    cdef FunctionOp op = <FunctionOp>callable
    cdef Signature signature
    cdef Py_ssize_t nargs = PyVectorcall_NARGS(flagged)
    cdef object value, keywords
    cdef PyObject* result
    if op.loose and has_override_object(args, nargs + (0 if names == NULL else len(<tuple>names))):
        raise TypeError(f"{public_name_of(op)}(): an argument is of a class with __torch_function__, which is called")
    if not op.has_signature:
        op.infer_signature()
    signature = op.signature
    if signature is not None:
        if names != NULL and not signature.names_hold(<tuple>names):
            keywords = signature.spelled(op.name, <tuple>names)
            names = <PyObject*>keywords
        if signature.checks:
            signature.check_all(op.name, args, nargs, names)
    if op.has_out and names != NULL and "out" in <tuple>names:
        return call_with_out(op, args, nargs, <tuple>names)
    if flambeau_shapes_alone:
        return call_on_meta(op, args, flagged, names)
    result = vectorcall(op.function, args, flagged, names)
    if result == NULL:
        attribute_error(op)
    value = <object>result
    Py_DECREF(value)
    if op.owns:
        if isinstance(value, TensorBase):
            if (<TensorBase>value).base is not None:
                release(<TensorBase>value, args, flagged, names)
        elif isinstance(value, (tuple, list)):
            for t in value:
                if isinstance(t, TensorBase) and (<TensorBase>t).base is not None:
                    release(<TensorBase>t, args, flagged, names)
    return value


cdef object call_on_meta(FunctionOp op, PyObject** args, size_t flagged, PyObject* names):
    """The function's result for tensors on "meta" that are like the arguments; an argument that it returns is returned itself."""
    global flambeau_shapes_alone
    cdef Py_ssize_t nargs = PyVectorcall_NARGS(flagged), n = nargs + (0 if names == NULL else len(<tuple>names)), k
    cdef dict blanks = {}, storages = {}
    cdef list given
    cdef dict named = {}
    flambeau_shapes_alone = 0
    given = [on_meta(<object>args[k], blanks, storages) for k in range(n)]
    for k in range(nargs, n):
        named[(<tuple>names)[k - nargs]] = given[k]
    return off_meta(op.function(*given[:nargs], **named), {id(blank): t for t, blank in blanks.values()})


cdef object on_meta(object x, dict blanks, dict storages):
    """`x` with tensors that have no elements in the place of its tensors; those that share a storage still do."""
    cdef TensorBase t, blank
    cdef Storage s
    if isinstance(x, TensorBase):
        t = <TensorBase>x
        if id(t) not in blanks:
            blank = alias(t, t.rank, t.sizes, t.strides, t.offset)
            s = storages.get(id(t.storage))
            if s is None:
                s = storages[id(t.storage)] = new_storage_on(the_blank, t.storage.length)
            blank.storage = s
            blanks[id(t)] = (t, blank)
        return (<tuple>blanks[id(t)])[1]
    if type(x) is list:
        return [on_meta(y, blanks, storages) for y in <list>x]
    if type(x) is tuple:
        return tuple([on_meta(y, blanks, storages) for y in <tuple>x])
    return x


cdef object off_meta(object x, dict originals):
    """A result in which tensors that were given are those that they stand for."""
    if isinstance(x, TensorBase):
        return originals.get(id(x), x)
    if isinstance(x, tuple):
        items = [off_meta(y, originals) for y in x]
        return type(x)(*items) if hasattr(x, "_fields") else tuple(items)
    return [off_meta(y, originals) for y in x] if type(x) is list else x


cdef object call_with_out(FunctionOp op, PyObject** args, Py_ssize_t nargs, tuple names):
    """The function's result in the tensor given, which shares no memory with the arguments and has the result's dtype."""
    cdef tuple given = tuple([<object>args[k] for k in range(nargs)])
    cdef dict named = {names[k]: <object>args[nargs + k] for k in range(len(names))}
    out = named.pop("out")
    check_out(public_name_of(op), out, (*given, *named.values()), True)
    try:
        result = op.function(*given, **named)
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        ascribe(error, public_name_of(op))
        raise
    return result if out is None else set_decomposition(public_name_of(op), out, result, True, (*given, *named.values()))


cdef int release(TensorBase t, PyObject** args, size_t flagged, PyObject* names) except -1:
    cdef Py_ssize_t k, given = PyVectorcall_NARGS(flagged)
    if names != NULL:
        given += len(<tuple>names)
    for k in range(given):
        if lies_in(t.storage, <object>args[k]):
            return 0
    t.base, t.made = None, ON_TAPE
    return 0


make_callable(FunctionOp, FunctionOp(lambda: None))


def derivative(label, formula, *arguments):
    """The gradients of an operation's inputs: `formula` of the gradients of its results, what it keeps, and constants."""
    return formula(*arguments)


derivative_op = FunctionOp(derivative, owns=False)
derivative_op.composite = derivative
decomposed_derivative = FunctionOp(derivative, "decomposed_derivative", owns=False)
decomposed_derivative.composite = derivative
set_derivative_ops(derivative_op, decomposed_derivative)


def on_host(tuple args not None, dict kwargs not None) -> bool:
    """Whether no tensor among the arguments, nor in their lists and tuples, is on a device."""
    for x in args:
        if isinstance(x, TensorBase):
            if (<TensorBase>x).storage.on is not None:
                return False
        elif isinstance(x, (tuple, list)) and not on_host(tuple(x), {}):
            return False
    return not kwargs or on_host(tuple(kwargs.values()), {})


@cython.binding(False)
cdef class BuiltIn(Op):
    """A function of Python that no class binds, as PyTorch's built-in functions; modes do not see its calls.

    An argument with `__torch_function__` that is no tensor is called, as by an operation.
    """

    cdef readonly object __wrapped__

    def __cinit__(self, function):
        prepare_op(self, function.__name__, call_built_in)
        self.call, self.__wrapped__ = call_built_in, function
        vars(self).update(vars(function))
        setattr(self, "__module__", function.__module__)
        setattr(self, "__doc__", function.__doc__)

    @property
    def __signature__(self):
        """What `inspect.signature` and `help` show."""
        return signature(self.__wrapped__)

    @property
    def old_orders(self):
        return vars(self).get("orders", ())


cdef object call_built_in(PyObject* callable, PyObject** args, size_t flagged, PyObject* names):
    cdef PyObject* raw
    if has_override_object(args, PyVectorcall_NARGS(flagged) + (0 if names == NULL else len(<tuple>names))):
        return call_object_overrides(<object>callable, args, flagged, names)
    raw = vectorcall((<BuiltIn>callable).__wrapped__, args, flagged, names)
    if raw == NULL:
        return dispatch.on_error(callable, args, flagged, names)
    result = <object>raw
    Py_DECREF(result)
    return result


make_callable(BuiltIn, BuiltIn(lambda: None))
