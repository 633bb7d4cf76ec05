# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""A compiled region on the tape: its forward plan, and one node whose backward runs the other plan.

What the two plans are, and what the node saves, is decided by `partition.py`.
"""
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free
from cpython.object cimport PyObject
from ..core.base.device cimport Device
from ..core.base.tensor cimport MAX_DIMS, TENSOR, TensorBase, alias, new_strided_on
from ..core.tape.functions import FunctionNode
from ..core.tape.history cimport attach
from ..core.tape.modes cimport REVERSE, grad_enabled, set_grad, wants_grad
from ..core.tape.nodes cimport IdentityNode, Node, drain
from ..core.tape.saved cimport Slot, clear_slot, save_tensor, unpack_tensor
from ..core.tape.engine import run_backward
from .runner cimport Runner
cimport cython

cdef extern from "Python.h":
    PyObject** PySequence_Fast_ITEMS(object o)
    Py_ssize_t Py_REFCNT(PyObject* o)


cdef str FREED = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already been freed). Saved "
    "intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify retain_graph=True if you need to "
    "backward through the graph a second time.")


cdef class Cotangent:
    """The geometry in which the backward plan takes the gradient of a result."""

    cdef int rank, code
    cdef int64_t sizes[MAX_DIMS]
    cdef int64_t strides[MAX_DIMS]
    cdef Device on                # None for the host

    def __cinit__(self, place):
        cdef int d
        self.rank, self.code, self.on = <int>len(place.shape), place.dtype.code, place.device
        for d in range(self.rank):
            self.sizes[d], self.strides[d] = place.shape[d], place.stride[d]

    cdef bint fits(self, TensorBase t) noexcept:
        cdef int d
        if t.rank != self.rank or t.code != self.code or t.storage.on is not self.on:
            return False
        for d in range(self.rank):
            if t.sizes[d] != self.sizes[d] or (t.strides[d] != self.strides[d] and t.sizes[d] != 1):
                return False
        return True

    cdef object made_to_fit(self, object grad):
        """The gradient in this geometry: copied where it has another, zeros where none arrived."""
        cdef TensorBase t
        if grad is not None and self.fits(<TensorBase>grad):
            return grad
        t = new_strided_on(self.on, self.rank, self.sizes, self.strides, self.code)
        if grad is not None:
            (<object>t).copy_(grad)
        else:
            (<object>t).zero_()
        return t


@cython.binding(False)
cdef class RegionNode(Node):
    """A call of a compiled region."""

    cdef Region region
    cdef int slots
    cdef Slot* slot
    cdef list inputs          # for a pass that Python runs; None for one that is not held

    def name(self) -> str:
        return "CompiledFunctionBackward"

    cdef list run(self, list grads):
        cdef list given = []
        cdef int k
        cdef bint donates, defined = True
        cdef tuple partial = None
        cdef TensorBase t
        cdef Region region = self.region
        if region is None:
            raise RuntimeError(FREED)
        if grad_enabled() & REVERSE:
            return region.differentiated(self, grads)
        for k in range(self.outputs):
            grad = grads[k]
            if grad is None:
                defined = False
            elif (<PyObject*>grad).ob_type != TENSOR and grad._is_batched:
                return region.differentiated(self, grads)
        if not defined:
            partial = region.without(grads)
        for k in range(self.outputs):
            if partial is None or grads[k] is not None:
                given.append((<Cotangent>region.cotangents[k]).made_to_fit(grads[k]))
        donates = partial is None and self.task is not None and not self.task.retain
        for k in range(self.slots):
            t = unpack_tensor(&self.slot[k], self)
            given.append(t)
            if donates and region.keep[k].donated:    # held by the slot, the list, and `t`
                donates = Py_REFCNT(<PyObject*>t) == 3 and Py_REFCNT(<PyObject*>t.storage) == 1
        t = None
        if partial is not None:
            result = (<Runner>partial[0]).call(PySequence_Fast_ITEMS(given), len(given))
            return [None if k < 0 else (<tuple>result)[k] for k in <tuple>partial[1]]
        if donates:
            self.drop()       # whatever happens from here on, the values are gone
            drain()
            result = region.backward.consume(given)
        else:
            if not isinstance(region.keeping, Runner):
                region.keeping = region.keeping()
            result = (<Runner>region.keeping).call(PySequence_Fast_ITEMS(given), len(given))
        return [None if k < 0 else (<tuple>result)[k] for k in region.gradients]

    cdef void drop(self):
        cdef int k
        for k in range(self.slots):
            clear_slot(&self.slot[k])
        self.inputs = None

    def __dealloc__(self):
        cdef int k
        for k in range(self.slots):
            clear_slot(&self.slot[k])
        free(self.slot)
        self.slots = 0


cdef enum:                    # what a saved value is, as `partition.Saved` says
    INPUT
    RESULT
    EXTRA


cdef class Region:
    """A function of tensors that is compiled whole, with its derivative: `region(*inputs)` gives the results as a tuple.

    Called where operations are recorded, it puts one node on the tape.  Its inputs have to be as they were when it was captured:
    TypeError for another geometry; that the same ones require gradients is for guards to see.  A second derivative is Python's: the
    node calls the captured operations one by one, and RuntimeError says where that cannot be done.

    Made by `partition.region_of`.
    """

    def __init__(self, Runner forward not None, Runner backward not None, keeping, undefined, graph, str why, tuple wanted, tuple results,
                 tuple views, tuple differentiable, saves, tuple gradients, cotangents, int inputs):
        cdef int k
        self.forward, self.backward, self.keeping, self.graph, self.why = forward, backward, keeping, graph, why
        self.undefined, self.defined = undefined, {}
        self.wanted, self.results, self.views, self.differentiable = wanted, results, views, differentiable
        self.gradients, self.inputs = gradients, inputs
        self.cotangents = [Cotangent(place) for place in cotangents]
        self.plain = len(set(results)) == len(results) and min(results) >= 0
        self.viewing = any([v is not None for v in views])
        self.edges, self.kept = <int>len(wanted), <int>len(saves)
        self.edge, self.keep = <int*>calloc(self.edges + 1, sizeof(int)), <Keep*>calloc(self.kept + 1, sizeof(Keep))
        if self.edge == NULL or self.keep == NULL:
            raise MemoryError
        for k in range(self.edges):
            self.edge[k] = wanted[k]
        for k, (what, which, donated) in enumerate(saves):
            self.keep[k].what, self.keep[k].which, self.keep[k].donated = what, which, donated
            self.keep[k].output = differentiable.index(which) if what == RESULT and which in differentiable else -1

    def __dealloc__(self):
        free(self.edge)
        free(self.keep)

    def __call__(self, *tensors):
        return self.call(PySequence_Fast_ITEMS(tensors), len(tensors))

    @property
    def saves(self) -> list:
        """What a call saves for backward: ("input" | "result" | "extra", number)."""
        cdef int k
        return [(("input", "result", "extra")[self.keep[k].what], self.keep[k].which) for k in range(self.kept)]

    cdef tuple call(self, PyObject** tensors, Py_ssize_t n):
        return self.finish(<tuple>self.forward.call(tensors, n), tensors)

    cdef tuple run(self, PyObject** tensors):
        return self.finish(<tuple>self.forward.run(tensors), tensors)

    cdef tuple finish(self, tuple result, PyObject** tensors):
        """The results, with what the plan gave and their history."""
        cdef list results = []
        cdef TensorBase t
        cdef int k
        cdef set met
        if self.plain:
            for k in self.results:
                t = <TensorBase>result[k]
                t.base = None
                results.append(t)
        else:
            met = set()
            for k in self.results:
                if k < 0:
                    results.append(<object>tensors[-1 - k])
                    continue
                t = <TensorBase>result[k]
                if id(t) in met:                 # results that share memory are tensors of their own
                    t = alias(t, t.rank, t.sizes, t.strides, t.offset)
                met.add(id(t))
                t.base = None
                results.append(t)
        if grad_enabled() & REVERSE:
            for k in range(self.edges):
                if wants_grad(<TensorBase>tensors[self.edge[k]]):
                    self.record(tensors, result, results)
                    break
        if self.viewing:
            for k in range(<int>len(self.views)):
                if self.views[k] is not None:
                    sizes, strides, offset = self.views[k]
                    results[k] = results[k].as_strided(sizes, strides, results[k].storage_offset() + offset)
        return tuple(results)

    cdef int record(self, PyObject** tensors, tuple result, list results) except -1:
        """The node of this call, which is the history of the results."""
        cdef RegionNode node = RegionNode.__new__(RegionNode)
        cdef TensorBase t
        cdef Keep* keep
        cdef int k
        node.region = self
        node.outputs = <int>len(self.differentiable)
        node.set_edges(self.edges)
        for k in range(self.edges):
            t = <TensorBase>tensors[self.edge[k]]
            if wants_grad(t):
                node.connect(k, t)
        node.slot = <Slot*>calloc(self.kept + 1, sizeof(Slot))
        if node.slot == NULL:
            raise MemoryError
        if self.graph is not None:
            node.inputs = []
            for k in range(self.inputs):
                t = <TensorBase>tensors[k]
                node.inputs.append(t if t.fn is None else None)
        for k in range(self.kept):
            keep = &self.keep[k]
            if keep.what == INPUT:
                t = <TensorBase>tensors[keep.which]
                if self.graph is not None:
                    node.inputs[keep.which] = t
            elif keep.what == RESULT:
                t = <TensorBase>results[keep.which]
            else:
                t = <TensorBase>result[keep.which]
            save_tensor(&node.slot[k], t, keep.output)
            node.slots += 1
        for k in range(node.outputs):
            attach(<TensorBase>results[<int>self.differentiable[k]], node, k)
        return 0

    cdef tuple without(self, list grads):
        """The plan of a backward pass where some gradients are None, and which of its results are whose; None where zeros stand for them."""
        cdef tuple missing = tuple([k for k in range(len(grads)) if grads[k] is None])
        if missing not in self.defined:
            self.defined[missing] = self.undefined(missing)
        return self.defined[missing]

    cdef list differentiated(self, Node owner, list grads):
        """The gradients with a history of their own: from the captured operations, called one by one."""
        cdef RegionNode node = <RegionNode>owner
        cdef list given, roots = [], arrived = []
        cdef int k, before
        cdef TensorBase t, again
        cdef IdentityNode passed
        if self.graph is None:
            raise RuntimeError(f"{node.name()}: a compiled function cannot be differentiated twice here: {self.why}. Call it without "
                               "compile.")
        if node.inputs is None:
            raise RuntimeError(FREED)
        given = list(node.inputs)
        for k in range(<int>len(given)):
            if given[k] is None:
                raise RuntimeError(f"{node.name()}: a compiled function cannot be differentiated twice here: its derivative does not "
                                   f"need argument {k}, which was not saved. Call it without compile.")
        before = grad_enabled()
        for k in range(self.kept):              # what was written to since is refused
            if self.keep[k].what == INPUT:
                unpack_tensor(&node.slot[k], node)
        set_grad(before | REVERSE)
        try:
            for k in self.wanted:               # names of their own, so that hooks on the inputs run in the outer pass alone
                t = <TensorBase>given[k]
                again = alias(t, t.rank, t.sizes, t.strides, t.offset)
                passed = IdentityNode.__new__(IdentityNode)
                passed.set_edges(1)
                passed.connect(0, t)
                attach(again, passed, 0)
                given[k] = again
            result = self.graph(*given)
            for number, k in enumerate(self.differentiable):
                if grads[number] is not None:
                    roots.append(result[k])
                    arrived.append(grads[number])
            return run_backward(roots, arrived, True, bool(before & REVERSE), [given[k] for k in self.wanted], False)
        finally:
            set_grad(before)


cdef class Spent:
    """A plan that runs a backward pass itself: its results on the tape are those whose history that pass has freed."""

    cdef readonly object plan           # a Runner, or what replays one
    cdef readonly tuple results         # their numbers

    def __init__(self, plan not None, tuple results):
        self.plan, self.results = plan, results

    @property
    def unused(self) -> list:
        return self.plan.unused

    def __call__(self, *tensors):
        cdef tuple made = self.plan(*tensors)
        cdef RegionNode node = RegionNode.__new__(RegionNode)
        cdef int k
        node.outputs = <int>len(self.results)
        node.set_edges(0)
        for k in range(node.outputs):
            attach(<TensorBase>made[<int>self.results[k]], node, k)
        return made


# --- recording a backward pass ------------------------------
cdef class WithoutHooks:
    """While it is entered, backward passes up to these tensors do not run the hooks on them."""

    cdef list tensors, leaves, nodes

    def __init__(self, tensors):
        self.tensors = list(tensors)

    def __enter__(self):
        cdef TensorBase t
        self.leaves, self.nodes = [], []
        for x in self.tensors:
            t = <TensorBase>x
            fn = t.grad_fn_now()
            if fn is None:
                self.leaves.append((t, t.hooks))
                t.hooks = None
            else:
                self.nodes.append((fn, (<Node>fn).pre_hooks))
                (<Node>fn).pre_hooks = None

    def __exit__(self, *exception):
        for t, hooks in reversed(self.leaves):
            (<TensorBase>t).hooks = hooks
        for node, hooks in reversed(self.nodes):
            (<Node>node).pre_hooks = hooks


def obstacle(outputs, inputs, before=()):
    """Why the history of `outputs` back to `inputs` cannot become one node, in words; None where it can.

    `before`: other tensors that were there before.  A leaf that is none of these was made by the calls themselves: where they do not return
    it nobody can ask for its gradient.
    """
    cdef set known = set()
    cdef set lasting = {id(x) for x in (*before, *outputs)}
    cdef list front = []
    cdef Node node
    cdef TensorBase t
    cdef int k
    for x in inputs:
        t = <TensorBase?>x
        if wants_grad(t):
            fn = t.grad_fn_now()
            known.add(id(t) if fn is None else id(fn))
    for x in outputs:
        t = <TensorBase?>x
        if wants_grad(t):
            fn = t.grad_fn_now()
            front.append(t if fn is None else fn)
    while front:
        result = front.pop()
        if id(result) in known:
            continue
        known.add(id(result))
        if not isinstance(result, Node):
            if id(result) in lasting:
                return "a gradient goes to a tensor that is no input"
            if (<TensorBase>result).hooks is not None:
                return "a hook is on a tensor that is made inside"
            continue
        node = <Node>result
        if isinstance(node, FunctionNode):
            return f"the derivative of {node.name()} is Python's"
        if node.pre_hooks or node.post_hooks:
            return "a hook is on a tensor that is made inside"
        for k in range(node.edges):
            if node.targets[k] != NULL:
                front.append(<object>node.targets[k])
    return None


def node_of(TensorBase t not None):
    """The node of the tape that a tensor is a result of; None for a leaf."""
    return t.grad_fn_now()


def history(roots, inputs):
    """What a backward pass from `roots` runs through: the nodes, the leaves, and why a recording of it would not be all that it does.

    `inputs` were there before the recording.
    """
    cdef set known = set()
    cdef list front = [], nodes = [], leaves = []
    cdef set outside = {id((<TensorBase?>t).grad_fn_now()) for t in inputs if (<TensorBase>t).grad_fn_now() is not None}
    cdef str why = None
    cdef Node node
    cdef int k
    for x in roots:
        fn = (<TensorBase?>x).grad_fn_now()
        front.append(x if fn is None else fn)
    while front:
        result = front.pop()
        if id(result) in known:
            continue
        known.add(id(result))
        if not isinstance(result, Node):
            if (<TensorBase>result).hooks is not None:
                why = "a hook is on a tensor that a backward pass within it leads to"
            leaves.append(result)
            continue
        node = <Node>result
        if id(node) in outside:
            why = "a backward pass within it leads to what ran before the call"
        elif isinstance(node, FunctionNode):
            why = f"the derivative of {node.name()} is Python's"
        elif node.pre_hooks or node.post_hooks:
            why = "a hook is on a tensor that is made inside"
        nodes.append(node)
        for k in range(node.edges):
            if node.targets[k] != NULL:
                front.append(<object>node.targets[k])
    return nodes, leaves, why
