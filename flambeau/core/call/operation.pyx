# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Operations as objects: a name, a signature, a compiled call."""
from cpython.object cimport PyObject, PyTypeObject
from ..base.tensor cimport runtime
from ..base import display
from ..base.callbacks import callbacks
cimport cython

cdef extern from "Python.h":
    PyObject* PyVectorcall_Call(PyObject* callable, PyObject* args, PyObject* kwargs)
    ctypedef struct RawType "PyTypeObject":
        Py_ssize_t tp_vectorcall_offset
        unsigned long tp_flags
        void* tp_call
        PyObject* tp_dict
    unsigned long Py_TPFLAGS_HAVE_VECTORCALL
    unsigned long Py_TPFLAGS_HEAPTYPE
    unsigned long Py_TPFLAGS_METHOD_DESCRIPTOR
    void PyType_Modified(PyTypeObject* t)
    object PyMethod_New(object function, object instance)


class Document:
    """`__doc__` of operations: what the declaration says with what follows from it, put together where it is read."""

    def __init__(self, text):
        self.text = text      # the class's own

    def __get__(self, op, owner=None):
        if op is None:
            return self.text
        return callbacks["document"](op) if "document" in callbacks else vars(op).get("__doc__")

    def __set__(self, op, text):
        vars(op)["__doc__"] = text


@cython.binding(False)
cdef class Op:
    """What every operation has: a name, a signature, a compiled call.

    As PyTorch's built-in functions, it is no method of a class that holds it; a `Form` is.
    """

    @property
    def __name__(self):
        return self.name

    @property
    def __qualname__(self):
        return self.name

    @property
    def __signature__(self):
        """What `inspect.signature` and `help` show."""
        if self.signature is None:
            raise AttributeError(f"the parameters of {self.name} are not known")
        return self.signature.to_python()

    @property
    def old_orders(self):
        """Orders of parameters, by name, that PyTorch still takes with a warning."""
        return () if self.signature is None else self.signature.old

    # What programs with dispatch modes ask of PyTorch's operations.
    @property
    def overloadpacket(self):
        """What `ops.aten` has under the operation's name."""
        return callbacks["aten_property"](self, "overloadpacket")

    @property
    def _overloadpacket(self):
        return callbacks["aten_property"](self, "overloadpacket")

    @property
    def _schema(self):
        """The schema that the parameters make."""
        return callbacks["aten_property"](self, "schema")

    @property
    def _overloadname(self):
        return callbacks["aten_property"](self, "overload")

    @property
    def namespace(self):
        """"aten" for an operation that `ops.aten` has."""
        return callbacks["aten_property"](self, "namespace")

    @property
    def tags(self):
        """What is known of the operation beside its schema, as `Tag`s."""
        return callbacks["aten_property"](self, "tags")

    def __repr__(self):
        return f"<{display.NAME} operation {self.name}>"

    def __reduce__(self):
        form = getattr(self, "form", None)       # where it is public only as that
        return getattr(self, "public_name", self.name) if form is None else (behind, (form,))


cdef frozenset OF_FUNCTIONS = frozenset(("__code__", "__defaults__", "__kwdefaults__", "__globals__", "__closure__", "__annotations__",
                                         "__builtins__", "__type_params__"))


@cython.binding(False)
cdef class Form(Op):
    """An operation under a public name that a class binds: a method of Tensor, or what is a function of Python in PyTorch.

    Upper modes and classes of tensors are given the form that was called, as in PyTorch; everybody behind them the operation.  As there, it
    equals itself alone.  CPython binds types flagged as method descriptors without a bound method.
    """

    def __cinit__(self, Op op, str place):
        cdef str home, last
        home, _, last = place.rpartition(".")
        prepare_op(self, op.name, run_form)
        self.call = <vectorcall_t>dispatch_form
        self.op, self.place, self.signature, self.declaration = op, place, op.signature, op.declaration
        setattr(self, "__module__", display.NAME if home in ("", "Tensor") else display.public(home))
        setattr(self, "public_name", place if home == "Tensor" else last)

    def __getattr__(self, name):
        if name in OF_FUNCTIONS:      # what decorators and `inspect` read of a function of Python
            return getattr(callbacks["function of a form"](self), name)
        return getattr(self.op, name)

    def __get__(self, instance, owner):
        return self if instance is None else PyMethod_New(self, instance)

    def __reduce__(self):
        return self.public_name

    @property
    def __name__(self):
        return self.op.name

    @property
    def __qualname__(self):
        return self.public_name

    @property
    def old_orders(self):
        return self.op.old_orders

    @property
    def __signature__(self):
        """What `inspect.signature` and `help` show."""
        return self.op.__signature__


def behind(op):
    """The operation of which this is a form; anything else as it is."""
    return (<Form>op).op if isinstance(op, Form) else op


cdef void make_callable(type cls, Op example) noexcept:
    """Let instances be called through their `call` field."""
    cdef RawType* raw = <RawType*>cls
    raw.tp_vectorcall_offset = <char*>&example.call - <char*><void*>example
    raw.tp_call = <void*>PyVectorcall_Call
    raw.tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL
    if cls is Form:
        raw.tp_flags |= Py_TPFLAGS_METHOD_DESCRIPTOR
    if not raw.tp_flags & Py_TPFLAGS_HEAPTYPE:    # each class has an entry of its own, which hides that of the class below
        (<dict>raw.tp_dict)["__doc__"] = Document(cls.__doc__)
    PyType_Modified(<PyTypeObject*>cls)


cdef void prepare_op(Op op, str name, vectorcall_t run):
    op.name, op.call, op.run = name, <vectorcall_t>dispatch_call, run
    setattr(op, "__module__", display.NAME)


cdef PyObject* dispatch_call(PyObject* callable, PyObject** args, size_t flagged, PyObject* names) noexcept:
    """The entry point of a call: interceptors first, where there are any."""
    cdef PyObject* result
    if runtime.observers:
        return (<raw_t>dispatch.from_upper)(callable, args, flagged, names)
    result = (<raw_t>(<Op>callable).run)(callable, args, flagged, names)
    return result if result != NULL else (<raw_t>dispatch.on_error)(callable, args, flagged, names)


cdef PyObject* dispatch_form(PyObject* callable, PyObject** args, size_t flagged, PyObject* names) noexcept:
    cdef PyObject* op = <PyObject*>(<Form>callable).op
    cdef PyObject* result
    if runtime.observers:
        return (<raw_t>dispatch.from_upper)(callable, args, flagged, names)
    result = (<raw_t>(<Op>op).run)(op, args, flagged, names)
    return result if result != NULL else (<raw_t>dispatch.on_error)(callable, args, flagged, names)


cdef object run_form(PyObject* callable, PyObject** args, size_t flagged, PyObject* names):
    cdef PyObject* op = <PyObject*>(<Form>callable).op
    return (<Op>op).run(op, args, flagged, names)


make_callable(Form, Form.__new__(Form, Op.__new__(Op), ""))


def rename(Op op, str name) -> None:
    """What an operation is called in messages and on the tape, where its declaration had to have a name of its own."""
    op.name = op.declaration.name = name
