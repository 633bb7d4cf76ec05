# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Operations that are functions of Python or Cython, and whose their results are.

Here is decided that a result is a view of what the caller gave and of nothing else.  A function may end by giving
a fresh tensor another shape; as `_unsafe_view` in PyTorch, that is no view then: nobody else has the tensor below.
"""
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF
from ..base.parameters import signature
from ..base.tensor cimport ON_TAPE, TensorBase
from ..tape.history cimport lies_in
from ..tape.formulas import set_shown
from .errors import ascribe
from .destination import check_out, write_out
from .operation cimport Op, door, make_callable, prepare_op
from .signature cimport Signature, signature_of
from .watching cimport ask_objects, has_askable
from types import FunctionType
cimport cython

cdef extern from "Python.h":
    Py_ssize_t PyVectorcall_NARGS(size_t n)
    PyObject* vectorcall "PyObject_Vectorcall"(object callable, PyObject** args, size_t nargs, PyObject* names)


cdef class FunctionOp(Op):
    """The operation that a function computes."""

    def __cinit__(self, function, str name=None, bint owns=True, bint out=False):
        prepare_op(self, name or function.__name__, call_function)
        self.function, self.owns, self.has_out = function, owns, out
        self.loose = isinstance(function, FunctionType)
        vars(self).update(getattr(function, "__dict__", {}))
        setattr(self, "__module__", getattr(function, "__module__", None))
        setattr(self, "__doc__", function.__doc__)

    cdef int learn(self) except -1:
        self.signature = signature_of(self.function)
        if self.has_out:
            self.signature = self.signature.with_out()
        self.learned = True
        return 0

    @property
    def __signature__(self):
        """What `inspect.signature` and `help` show."""
        if not self.learned:
            self.learn()
        return Op.__signature__.__get__(self)

    @property
    def __code__(self):
        """The code of a function in Python, for who looks where an operation stands."""
        return self.function.__code__


cdef int pending() except -1:
    """Raise what the interpreter has pending."""
    return -1


cdef int blame(FunctionOp op) except -1:
    """The error that the function left, in the name of the operation, unless that is none that users call."""
    try:
        pending()
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        if op.entry is None or op.entry.places:
            ascribe(error, own_name(op))
        raise
    return 0


cdef str own_name(FunctionOp op):
    """The name that users call an operation by, without its path."""
    return getattr(op, "public_name", op.name).rpartition(".")[2]


cdef object call_function(PyObject* callable, PyObject** args, size_t flagged, PyObject* names):
    cdef FunctionOp op = <FunctionOp>callable
    cdef Signature signature
    cdef Py_ssize_t nargs = PyVectorcall_NARGS(flagged)
    cdef object found, keywords
    cdef PyObject* result
    if op.loose and has_askable(args, nargs + (0 if names == NULL else len(<tuple>names))):
        raise TypeError(f"{own_name(op)}(): an argument is of a class with __torch_function__, which is asked")
    if not op.learned:
        op.learn()
    signature = op.signature
    if signature is not None:
        if names != NULL and not signature.names_hold(<tuple>names):
            keywords = signature.spelled(op.name, <tuple>names)
            names = <PyObject*>keywords
        if signature.checks:
            signature.check_all(op.name, args, nargs, names)
    if op.has_out and names != NULL and "out" in <tuple>names:
        return call_with_out(op, args, nargs, <tuple>names)
    result = vectorcall(op.function, args, flagged, names)
    if result == NULL:
        blame(op)
    found = <object>result
    Py_DECREF(found)
    if op.owns:
        if isinstance(found, TensorBase):
            if (<TensorBase>found).base is not None:
                release(<TensorBase>found, args, flagged, names)
        elif isinstance(found, (tuple, list)):
            for t in found:
                if isinstance(t, TensorBase) and (<TensorBase>t).base is not None:
                    release(<TensorBase>t, args, flagged, names)
    return found


cdef object call_with_out(FunctionOp op, PyObject** args, Py_ssize_t nargs, tuple names):
    """The function's result in the tensor given, which shares no memory with the arguments and has the result's dtype."""
    cdef tuple given = tuple([<object>args[k] for k in range(nargs)])
    cdef dict named = {names[k]: <object>args[nargs + k] for k in range(len(names))}
    out = named.pop("out")
    check_out(own_name(op), out, (*given, *named.values()), True)
    try:
        found = op.function(*given, **named)
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        ascribe(error, own_name(op))
        raise
    return found if out is None else write_out(own_name(op), out, found, True, (*given, *named.values()))


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


shown_derivative = FunctionOp(derivative, owns=False)
shown_derivative.composite = derivative
opened_derivative = FunctionOp(derivative, "opened_derivative", owns=False)
opened_derivative.composite = derivative
set_shown(shown_derivative, opened_derivative)


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
    """A function of Python that no class binds, as PyTorch's built-in functions; modes are not shown its calls.

    An argument with `__torch_function__` that is no tensor is asked, as by an operation.
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
    cdef PyObject* found
    if has_askable(args, PyVectorcall_NARGS(flagged) + (0 if names == NULL else len(<tuple>names))):
        return ask_objects(<object>callable, args, flagged, names)
    found = vectorcall((<BuiltIn>callable).__wrapped__, args, flagged, names)
    if found == NULL:
        return door.after(callable, args, flagged, names)
    result = <object>found
    Py_DECREF(result)
    return result


make_callable(BuiltIn, BuiltIn(lambda: None))
