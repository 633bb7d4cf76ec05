# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Nodes: recorded operations, and how chains of them are freed.

A tensor points to the node that made it, a node to the nodes (or leaf tensors) of its inputs.  Nothing points the other way, so
there are no cycles.  Chains of any length are freed without recursion.
"""
from libc.stdlib cimport free, calloc, realloc
from libc.stdint cimport uint64_t
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_INCREF, Py_DECREF
from ..base.profiling cimport profiling
from ..base.tensor cimport TensorBase, exchange
from ..base.tensor import set_public_node
import os
cimport cython

cdef extern from "Python.h":
    ctypedef struct RawType "PyTypeObject":
        unsigned long tp_flags
    unsigned long Py_TPFLAGS_HEAPTYPE
    void Py_SET_TYPE(object o, PyTypeObject* cls)


# --- freeing without recursion ------------------------------
# A node that dies does not drop its references at once: they join this list, and the outermost call works it
# off.
cdef PyObject** doomed = NULL
cdef Py_ssize_t doomed_count = 0, doomed_capacity = 0
cdef bint draining = False


cdef void decref_deferred(PyObject* p) noexcept:
    """Drop a reference that may be the head of a long chain."""
    global doomed, doomed_count, doomed_capacity
    cdef PyObject** larger
    if p == NULL:
        return
    if doomed_count == doomed_capacity:
        larger = <PyObject**>realloc(doomed, (doomed_capacity * 2 + 64) * sizeof(PyObject*))
        if larger == NULL:
            Py_DECREF(<object>p)
            return
        doomed, doomed_capacity = larger, doomed_capacity * 2 + 64
    doomed[doomed_count] = p
    doomed_count += 1


cdef void drain() noexcept:
    global draining, doomed_count
    if draining:
        return
    draining = True
    while doomed_count:
        doomed_count -= 1
        Py_DECREF(<object>doomed[doomed_count])
    draining = False


def forget_draining() -> None:
    """In the child of a fork: a thread that is not here may have been at work on the list."""
    global draining
    draining = False


os.register_at_fork(after_in_child=forget_draining)


# --- nodes ------------------------------
cdef object saved_tensor = None       # makes what `_raw_saved_…` gives, of a node and a place


def set_saved_tensor(make) -> None:
    """The class that stands for a saved tensor before it is unpacked."""
    global saved_tensor
    saved_tensor = make


cdef uint64_t ages = 0
profiling.ages = &ages
cdef object place_recorder = None     # anomaly mode: called with each node that is made


cdef void record_places(recorder) noexcept:
    global place_recorder
    place_recorder = recorder


cdef uint64_t next_age() noexcept:
    global ages
    ages += 1
    return ages


@cython.no_gc
@cython.binding(False)
cdef class Node:
    """One recorded operation.

    Raises nothing.

    >>> import flambeau
    >>> node = flambeau.ones(2, requires_grad=True).exp().grad_fn
    >>> isinstance(node, flambeau.autograd.graph.Node), node.name(), len(node.next_functions)
    (True, 'ExpBackward0', 1)
    """

    def __cinit__(self):
        self.sequence = next_age()
        self.outputs = 1
        self.targets = self.inline_targets
        self.numbers = self.inline_numbers
        if place_recorder is not None:
            place_recorder(self)

    def __dealloc__(self):
        cdef int k
        for k in range(self.edges):  # what a subclass keeps is dropped by its own __dealloc__, which ran before this one
            decref_deferred(self.targets[k])
        if self.targets != self.inline_targets:
            free(self.targets)
            free(self.numbers)
        drain()

    cdef int set_edges(self, int n) except -1:
        if n > INLINE_EDGES:
            self.targets = <PyObject**>calloc(n, sizeof(PyObject*))
            self.numbers = <int*>calloc(n, sizeof(int))
            if self.targets == NULL or self.numbers == NULL:
                raise MemoryError
        self.edges = n
        return 0

    cdef int connect(self, int k, TensorBase t) except -1:
        """Input k's gradient goes to where t comes from."""
        cdef object target = t.grad_fn_now()
        if target is None:
            if not t.requires:
                return 0
            target = t
            self.numbers[k] = 0
        else:
            self.numbers[k] = t.output_number
            if (<Node>target).sequence > self.sequence:  # a view's node, made anew just now
                self.sequence = next_age()
        Py_INCREF(target)
        self.targets[k] = <PyObject*>target
        return 0

    cdef list run(self, list grads):
        """Gradients of the inputs from those of the outputs; either may hold None."""
        raise RuntimeError(f"{self.name()} has no derivative")

    cdef object push(self, int number, list tangents, TensorBase out):
        """The tangent of an output, from those of the inputs (None: zero); None where it is the adjoint of `run`."""
        return None

    cdef void drop(self):
        """Let saved tensors go."""

    # What programs see of what is saved
    cdef dict saved_places(self):
        """By PyTorch's names of what the derivative reads: a number that tells `saved_value` where it is, NOT_SAVED of a tensor that this
        node did not need.
        """
        return {}

    cdef object saved_value(self, str name, int place):
        return None

    cdef void* saved_slot(self, int place):
        """Where a saved tensor stands; NULL for anything else."""
        return NULL

    def __getattr__(self, str key):
        raw = key.startswith("_raw_saved_")
        if raw or key.startswith("_saved_"):
            name = key[11 if raw else 7:]
            place = self.saved_places().get(name)
            if raw and place is not None and (place == NOT_SAVED or self.saved_slot(place) != NULL):
                return saved_tensor(self, place)
            if not raw and place is not None:
                return None if place == NOT_SAVED else self.saved_value(name, place)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{key}'")

    def __dir__(self):
        cdef list result = list(object.__dir__(self))
        for name, place in self.saved_places().items():
            result.append(f"_saved_{name}")
            if place == NOT_SAVED or self.saved_slot(place) != NULL:
                result.append(f"_raw_saved_{name}")
        return result

    def name(self) -> str:
        return type(self).__name__

    def __repr__(self):
        return f"<{self.name()} object at {hex(id(self))}>"

    @property
    def next_functions(self):
        """For each input, the node that made it and which of its outputs it is; (None, 0) where no gradient
        flows.
        """
        cdef int k
        result = []
        for k in range(self.edges):
            if self.targets[k] == NULL:
                result.append((None, 0))
            else:
                target = <object>self.targets[k]
                result.append((AccumulateGrad(target) if isinstance(target, TensorBase) else public_node(target), self.numbers[k]))
        return tuple(result)

    @property
    def metadata(self) -> dict:
        if self.information is None:
            self.information = {}
        return self.information

    def register_hook(self, hook):
        """`hook(grad_inputs, grad_outputs)` runs after this node; what it returns replaces grad_inputs."""
        if self.post_hooks is None:
            self.post_hooks = []
        return HookHandle(self.post_hooks, hook)

    def register_prehook(self, hook):
        """`hook(grad_outputs)` runs before this node; what it returns replaces grad_outputs."""
        if self.pre_hooks is None:
            self.pre_hooks = []
        return HookHandle(self.pre_hooks, (-1, hook))

    def _sequence_nr(self) -> int:
        return self.sequence


class HookHandle:
    """Removes its hook on `remove()`, or at the end of a `with` block."""

    __slots__ = ("hooks", "hook")

    def __init__(self, hooks, hook):
        self.hooks, self.hook = hooks, hook
        hooks.append(hook)

    def remove(self):
        hooks, self.hooks = self.hooks, ()
        for k, result in enumerate(hooks):
            if result is self.hook:
                del hooks[k]
                return

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.remove()


# --- the classes of nodes that programs see ------------------------------
cdef dict classes = {}      # by the class that computes and by name


def public_node(node):
    """The node, of a class that is called as PyTorch's: made when a program is first given a node of that name.

    Who computes never asks, so nodes are of the compiled classes until somebody looks.
    """
    cdef object cls = type(node)
    if not isinstance(node, Node) or (<RawType*>cls).tp_flags & Py_TPFLAGS_HEAPTYPE:
        return node
    name = node.name()
    result = classes.get((cls, name))
    if result is None:
        result = classes[cls, name] = type(name, (cls,), {"__slots__": (), "__module__": "builtins", "__doc__": cls.__doc__})
    Py_INCREF(result)        # an instance owns its class, where that is none of C
    Py_SET_TYPE(node, <PyTypeObject*>result)
    return node


set_public_node(public_node)


cdef tuple leaf_hooks(TensorBase t):
    """A leaf's lists of hooks: on the gradient, after it was added to `.grad`, and those of its AccumulateGrad."""
    if t.hooks is None:
        t.hooks = ([], [], [])
    return t.hooks


class AccumulateGrad(Node):
    """Stands for a leaf in `next_functions`: where its gradient is added to `variable.grad`."""

    def __init__(self, variable):
        self.variable = variable

    def name(self) -> str:
        return "torch::autograd::AccumulateGrad"

    def __eq__(self, other):
        return isinstance(other, AccumulateGrad) and other.variable is self.variable

    def __hash__(self):
        return hash(self.variable)

    def register_prehook(self, hook):
        """`hook((grad,))` runs before the gradient is added; a tuple it returns replaces the gradient."""
        def changed(grad):
            result = hook((grad,))
            return result[0] if isinstance(result, tuple) else result

        return HookHandle(leaf_hooks(<TensorBase>self.variable)[0], changed)

    def register_hook(self, hook):
        """`hook((), (grad,))` runs after the gradient was added."""
        return HookHandle(leaf_hooks(<TensorBase>self.variable)[2], hook)


@cython.binding(False)
cdef class IdentityNode(Node):
    """A second name of a leaf: gradients go on as they are."""

    def name(self) -> str:
        return "AliasBackward0"

    cdef list run(self, list grads):
        return grads


cdef IdentityNode identity_node(TensorBase leaf):
    cdef IdentityNode node = IdentityNode.__new__(IdentityNode)
    node.set_edges(1)
    node.connect(0, leaf)
    return node


# --- tensors that are exchanged ------------------------------
def swap(TensorBase a, TensorBase b) -> None:
    """Exchange what two tensors are.  A graph holds tensors by identity, so nodes recorded before refuse both from now on."""
    exchange(a, b)
    a.swapped = b.swapped = next_age()


cdef object swapped_error(str what):
    """The error for a graph that was recorded before `swap_tensors`, and what of it needs the tensor as it was."""
    return RuntimeError(f"{what} that was exchanged by swap_tensors after the graph was recorded. Swap tensors, or convert modules under "
                        "torch.__future__.set_swap_module_params_on_conversion(True), before the forward pass or after the backward pass, "
                        "not between them.")


cdef int check_swapped(TensorBase view) except -1:
    """RuntimeError where a view's base has been exchanged: the view shares no memory with what the base is now."""
    if view.base.swapped and view.base.storage is not view.storage:
        raise swapped_error("this is a view of a tensor")
    return 0
