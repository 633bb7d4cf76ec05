# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""What runs at every call of an `nn.Module`: the call itself, and finding parameters as attributes.

Parameters, buffers and submodules live in dictionaries of the instance, out of sight of Python's own
attribute lookup, which would raise and catch an AttributeError on the way to `__getattr__`.  `find` looks into the
dictionaries right after the instance and the class.

`Module` itself is an ordinary class with ordinary methods, so that it goes along with any metaclass and any other base,
and is copied and pickled as every object is; `quicken` puts the functions of this file into the slots of a class.
"""
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_DECREF
from .errors import explain_init

cdef extern from "Python.h":
    ctypedef PyObject* (*getattrofunc)(PyObject*, PyObject*) except NULL
    ctypedef object (*callfunc)(object, tuple, PyObject*)
    ctypedef int (*initproc)(PyObject*, PyObject*, PyObject*) noexcept
    ctypedef struct RawType "PyTypeObject":
        getattrofunc tp_getattro
        callfunc tp_call
        initproc tp_init
    PyObject* _PyObject_GenericGetAttrWithDict(PyObject* o, PyObject* name, PyObject* d, int suppress)
    PyObject* PyObject_GenericGetDict(PyObject* o, void* context) except NULL
    PyObject* PyDict_GetItemWithError(PyObject* d, PyObject* key)
    bint PyDict_Check(PyObject* o)
    PyObject* PyErr_Occurred()
    void Py_INCREF(PyObject* o)
    PyObject* PyObject_VectorcallMethod(object name, PyObject** args, size_t nargs, PyObject* kwnames)
    void PyErr_Fetch(PyObject** kind, PyObject** value, PyObject** trace)
    void PyErr_NormalizeException(PyObject** kind, PyObject** value, PyObject** trace)
    void PyErr_Restore(PyObject* kind, PyObject* value, PyObject* trace)
    PyObject* PyTuple_GET_ITEM(object t, Py_ssize_t i)

cdef enum: FEW = 8

cdef tuple KINDS = ("_parameters", "_buffers", "_modules")


cdef PyObject* find(PyObject* self, PyObject* name) except NULL:
    """Instance, class, then the three dictionaries; at last `__getattr__`, which raises."""
    cdef PyObject* result = _PyObject_GenericGetAttrWithDict(self, name, NULL, 1)
    cdef PyObject* own
    cdef PyObject* members
    cdef object value
    if result != NULL:
        return result
    if PyErr_Occurred() != NULL:
        return NULL  # the exception is set
    own = PyObject_GenericGetDict(self, NULL)
    for kind in KINDS:
        members = PyDict_GetItemWithError(own, <PyObject*>kind)
        if members != NULL and PyDict_Check(members):
            result = PyDict_GetItemWithError(members, name)
            if result != NULL:
                Py_INCREF(result)
                Py_DECREF(<object>own)
                return result
    Py_DECREF(<object>own)
    value = type(<object>self).__getattr__(<object>self, <object>name)
    Py_INCREF(<PyObject*>value)
    return <PyObject*>value


cdef object run(object self, tuple args, PyObject* kwargs):
    """Call a module, or what is compiled of it where a function runs whose modules are compiled one by one."""
    if inner.running:
        made = inner.call(self, args, kwargs)
        if made is not NotImplemented:
            return made
    return run_itself(self, args, kwargs)


cdef object run_itself(object self, tuple args, PyObject* kwargs):
    """Straight to `forward` while no hook is registered anywhere."""
    cdef PyObject* given[FEW + 1]
    cdef PyObject* result
    cdef Py_ssize_t k, n = len(args)
    if self._hooked or kwargs != NULL or n > FEW:
        return run_any(self, args, kwargs)
    given[0] = <PyObject*>self
    for k in range(n):
        given[k + 1] = PyTuple_GET_ITEM(args, k)
    result = PyObject_VectorcallMethod("forward", given, n + 1, NULL)
    if result == NULL:
        ascribe(self, args)
    made = <object>result
    Py_DECREF(made)  # the reference that the call returned
    return made


cdef object run_any(object self, tuple args, PyObject* kwargs):
    """The same with hooks, keyword arguments or many arguments."""
    try:
        if self._hooked:
            return self._call_with_hooks(args, {} if kwargs == NULL else <object>kwargs)
        if kwargs != NULL:
            return self.forward(*args, **<dict>kwargs)
        return self.forward(*args)
    except Exception as error:
        note(self, args, error)
        raise


cdef int ascribe(object self, tuple args) except -1:
    """Note on the exception that is set which module it came from."""
    cdef PyObject* kind = NULL
    cdef PyObject* value = NULL
    cdef PyObject* trace = NULL
    PyErr_Fetch(&kind, &value, &trace)
    PyErr_NormalizeException(&kind, &value, &trace)
    if value != NULL and isinstance(<object>value, Exception):
        note(self, args, <object>value)
    PyErr_Restore(kind, value, trace)
    return -1


cdef int note(object self, tuple args, object error) except -1:
    """Ask the module to say where an error came from; what goes wrong in that is not to hide the error."""
    try:
        self._note_failure(args, error)
    except Exception:
        return 0
    return 0


def call(self, *args, **kwargs):
    """Run the hooks and `forward`."""
    return run(self, args, <PyObject*>kwargs if kwargs else NULL)


def call_itself(self, *args, **kwargs):
    """`call`, whoever compiles modules one by one."""
    return run_itself(self, args, <PyObject*>kwargs if kwargs else NULL)


cdef initproc init_in_python = NULL     # CPython's slot for an `__init__` in Python


cdef int begin(PyObject* self, PyObject* args, PyObject* kwargs) noexcept:
    """`__init__`; a TypeError about its arguments says more than Python's."""
    if init_in_python(self, args, kwargs) == 0:
        return 0
    mend(<object>self)
    return -1


cdef int mend(object self) noexcept:
    cdef PyObject* kind = NULL
    cdef PyObject* value = NULL
    cdef PyObject* trace = NULL
    PyErr_Fetch(&kind, &value, &trace)
    PyErr_NormalizeException(&kind, &value, &trace)
    if value != NULL and isinstance(<object>value, TypeError):
        explain(<object>value, type(self))
    PyErr_Restore(kind, value, trace)
    return 0


cdef int explain(object error, type cls) noexcept:
    """Say more of a TypeError; what goes wrong in that is not to hide the error."""
    try:
        explain_init(error, cls)
    except Exception:
        return -1
    return 0


def quicken(cls, base) -> None:
    """Let instances of `cls` find their parameters and be called the short way, unless the class has attribute hooks
    or a `__call__` of its own.

    CPython sets a class's slots when the class is made and anew whenever one of their methods is assigned to it or to
    a base, so what is set here gives way to everything that is written in Python.
    """
    global init_in_python
    cdef RawType* slots = <RawType*>cls
    if init_in_python == NULL:
        init_in_python = (<RawType*>base).tp_init
    if cls.__getattr__ is base.__getattr__ and cls.__getattribute__ is object.__getattribute__:
        slots.tp_getattro = find
    if cls.__call__ is call:
        slots.tp_call = run
    if slots.tp_init == init_in_python:
        slots.tp_init = begin
