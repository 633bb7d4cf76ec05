# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Operations as objects: a name, a signature, a compiled call."""
from cpython.object cimport PyObject, PyTypeObject
from ..base.tensor cimport late
from ..base import display
from ..base.provided import provided
cimport cython

cdef extern from "Python.h":
    PyObject* PyVectorcall_Call(PyObject* callable, PyObject* args, PyObject* kwargs)
    ctypedef struct RawType "PyTypeObject":
        Py_ssize_t tp_vectorcall_offset
        unsigned long tp_flags
        void* tp_call
    unsigned long Py_TPFLAGS_HAVE_VECTORCALL
    unsigned long Py_TPFLAGS_METHOD_DESCRIPTOR
    void PyType_Modified(PyTypeObject* t)
    object PyMethod_New(object function, object instance)


@cython.binding(False)
cdef class Op:
    """What every operation has: a name, a signature, a compiled call.

    An operation is a function and, as an attribute of Tensor, a method: `__get__` binds it, and CPython skips
    even that for types flagged as method descriptors.
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
        return self.signature.told()

    # What programs with dispatch modes ask of PyTorch's operations.
    @property
    def overloadpacket(self):
        """What `ops.aten` has under the operation's name."""
        return provided["told_of_aten"](self, "overloadpacket")

    @property
    def _overloadpacket(self):
        return provided["told_of_aten"](self, "overloadpacket")

    @property
    def _schema(self):
        """The schema that the parameters make."""
        return provided["told_of_aten"](self, "schema")

    @property
    def _overloadname(self):
        return provided["told_of_aten"](self, "overload")

    @property
    def namespace(self):
        """"aten" for an operation that `ops.aten` has."""
        return provided["told_of_aten"](self, "namespace")

    @property
    def tags(self):
        """What is known of the operation beside its schema, as `Tag`s."""
        return provided["told_of_aten"](self, "tags")

    def __get__(self, instance, owner):
        return self if instance is None else PyMethod_New(self, instance)

    def __repr__(self):
        return f"<{display.NAME} operation {self.name}>"

    def __reduce__(self):
        return getattr(self, "public_name", self.name)


cdef void make_callable(type cls, Op example) noexcept:
    """Let instances be called through their `call` field."""
    cdef RawType* raw = <RawType*>cls
    raw.tp_vectorcall_offset = <char*>&example.call - <char*><void*>example
    raw.tp_call = <void*>PyVectorcall_Call
    raw.tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR
    PyType_Modified(<PyTypeObject*>cls)


cdef void prepare_op(Op op, str name, vectorcall_t run):
    op.name, op.call, op.run = name, enter, run
    setattr(op, "__module__", display.NAME)


cdef object enter(PyObject* callable, PyObject** args, size_t flagged, PyObject* names):
    """The door: where somebody watches, they are asked first."""
    if late.attended:
        return door.watch(callable, args, flagged, names)
    return (<Op>callable).run(callable, args, flagged, names)


def rename(Op op, str name) -> None:
    """What an operation is called in messages and on the tape, where its declaration had to have a name of its own."""
    op.name = op.declaration.name = name
