# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Forward mode.

A dual tensor's history is a DualNode: it holds the tangent, and passes gradients on to the history that the tensor would have
without it.  An operation on dual tensors is recorded as any other; from its node, `follow` then computes the tangents of the
results at once.
"""
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from ..base.tensor cimport TensorBase, alias, late
from .modes cimport FORWARD, REVERSE, grad_enabled, set_grad, wants_grad
from .nodes cimport Node, passed_on
from .engine import run_backward
from weakref import WeakSet, ref as _ref
cimport cython

cdef extern from *:
    """
    static __thread void* flambeau_pushed = NULL;
    """
    void* flambeau_pushed         # the node whose outputs' tangents this thread computes


@cython.no_gc
@cython.binding(False)
cdef class DualNode(Node):
    """What makes a tensor dual."""

    cdef object tangent
    cdef object owner         # the tensor, weakly

    def name(self) -> str:
        target = None if self.edges == 0 or self.targets[0] == NULL else <object>self.targets[0]
        return target.name() if isinstance(target, Node) else "AliasBackward0"

    cdef list run(self, list grads):
        return grads


cdef bint passes_on(DualNode d):
    """Whether reverse mode goes on behind a dual tensor."""
    return d.edges > 0 and d.targets[0] != NULL


cdef bint in_reverse(Node node):
    """Whether a gradient that goes through this node arrives anywhere."""
    cdef int k
    for k in range(node.edges):
        if node.targets[k] != NULL:
            target = <object>node.targets[k]
            if not isinstance(target, DualNode) or passes_on(<DualNode>target):
                return True
    return False


cdef object duals = None       # weak references to the DualNodes of the open level, which end with it


cdef DualNode dual_node(TensorBase t, object tangent):
    cdef DualNode d = DualNode.__new__(DualNode)
    d.tangent, d.owner = tangent, _ref(t)
    duals.add(d)
    return d


cdef int become_dual(TensorBase t, DualNode d) except -1:
    t.fn, t.output_number, t.requires = d, 0, True
    t.fn_version = t.storage.version
    return 0


cdef int follow(TensorBase t, Node node, int number) except -1:
    """t has just become that output of `node`, while a forward level is open somewhere."""
    if grad_enabled() & FORWARD:
        add_tangent(t, node, number)
    elif flambeau_pushed == <void*>node and not in_reverse(node):
        t.fn, t.output_number, t.requires = None, 0, False
    return 0


cdef int add_tangent(TensorBase t, Node node, int number) except -1:
    """t is an output of `node`, which was just recorded: let it be dual where an input is; where no gradient is
    wanted, it forgets the node.
    """
    cdef int k, modes = grad_enabled()
    cdef bint reverse = modes & REVERSE and in_reverse(node), some = False, traced = reverse
    cdef list tangents
    cdef DualNode d
    if isinstance(node, DualNode):  # the history of another tensor, taken over
        return 0
    tangents = [None] * node.edges
    for k in range(node.edges):
        if node.targets[k] != NULL and isinstance(<object>node.targets[k], DualNode):
            tangents[k] = (<DualNode>node.targets[k]).tangent
            if tangents[k] is not None:
                some = True
                traced = traced or (<TensorBase>tangents[k]).requires
    if not some:
        if not reverse:
            t.fn, t.output_number, t.requires = None, 0, False
        return 0
    tangent = computed_tangent(node, number, tangents, t, modes & REVERSE)
    d = dual_node(t, tangent if traced else tangent.detach())
    if reverse:
        d.set_edges(1)
        Py_INCREF(node)
        d.targets[0], d.numbers[0] = <PyObject*>node, number
    return become_dual(t, d)


cdef object computed_tangent(Node node, int number, list tangents, TensorBase t, int modes):
    """The tangent of an output, with saved tensors standing for their primals."""
    global flambeau_pushed
    cdef int before = grad_enabled()
    cdef void* outer = flambeau_pushed
    set_grad(modes)
    flambeau_pushed = <void*>node
    try:
        found = node.push(number, tangents, t)
        return adjoint(node, number, tangents, t) if found is None else found
    finally:
        flambeau_pushed = outer
        set_grad(before)


cdef object adjoint(Node node, int number, list tangents, TensorBase out):
    """The tangent of an output, from those of the inputs (None: zero), by the adjoint of `run`, which is linear in the gradient,
    so that it does not matter at which gradient.
    """
    cdef TensorBase g = (<object>out).new_zeros((<object>out).shape)
    cdef bint modes = grad_enabled()
    cdef list grads = [None] * node.outputs, roots = [], sent = []
    cdef int k
    g.requires = True
    grads[number] = g
    set_grad(REVERSE)
    try:
        found = node.run(grads)
    finally:
        set_grad(modes)
    for k in range(node.edges):
        if tangents[k] is not None and found[k] is not None and (<TensorBase>found[k]).requires:
            roots.append(found[k])
            sent.append(tangents[k])
    if roots:
        (pushed,) = run_backward(roots, sent, modes & REVERSE, modes & REVERSE, [g], False)
        if pushed is not None:
            return pushed
    return (<object>out).new_zeros((<object>out).shape)


cdef TensorBase primal_in_push(TensorBase t):
    """What a saved tensor stands for: its primal while a tangent is computed in this thread, else itself."""
    return t if flambeau_pushed == NULL else primal_of(t)


cdef TensorBase primal_of(TensorBase t):
    """A dual tensor without its tangent, any other as it is."""
    cdef TensorBase again
    cdef DualNode d
    fn = t.grad_fn_now()
    if not isinstance(fn, DualNode):
        return t
    d = <DualNode>fn
    again = alias(t, t.rank, t.sizes, t.strides, t.offset)
    if passes_on(d):
        target = <object>d.targets[0]
        if isinstance(target, Node):
            again.fn, again.output_number, again.requires = target, d.numbers[0], True
        else:
            again.fn, again.output_number, again.requires = passed_on(<TensorBase>target), 0, True
    return again


cdef object history(TensorBase t):
    """What reverse mode sees: a node, True for a leaf that requires grad, None for neither."""
    fn = t.grad_fn_now()
    if isinstance(fn, DualNode):
        return fn if passes_on(<DualNode>fn) else None
    return fn if fn is not None else True if t.requires else None


late.history = history


def open_forward_level() -> None:
    """Let dual tensors be made, and operations on them in this thread compute tangents."""
    global duals
    if duals is not None:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    duals = WeakSet()
    late.forward = True
    set_grad(grad_enabled() | FORWARD)


def close_forward_level() -> None:
    """Tangents end; dual tensors become what they would be without."""
    global duals
    cdef DualNode d
    cdef TensorBase t
    for d in list(duals):
        d.tangent = None
        held = d.owner()
        if held is not None and (<TensorBase>held).fn is d:
            t = <TensorBase>held
            if passes_on(d):
                target = <object>d.targets[0]
                if isinstance(target, Node):
                    t.fn, t.output_number = target, d.numbers[0]
            else:
                t.fn, t.output_number, t.requires = None, 0, False
    duals = None
    late.forward = False
    set_grad(grad_enabled() & REVERSE)


def make_dual(TensorBase primal, TensorBase tangent) -> TensorBase:
    """A tensor over primal's elements, with its history, and with a tangent."""
    cdef TensorBase plain = primal_of(primal)
    cdef TensorBase t = alias(primal, primal.rank, primal.sizes, primal.strides, primal.offset)
    cdef DualNode d = dual_node(t, tangent)
    if grad_enabled() & REVERSE and wants_grad(plain):
        d.set_edges(1)
        d.connect(0, plain)
    become_dual(t, d)
    return t


def unpack_dual(TensorBase t) -> tuple:
    """The tensor without its tangent, and the tangent (None where it has none)."""
    fn = t.grad_fn_now()
    return primal_of(t), ((<DualNode>fn).tangent if isinstance(fn, DualNode) else None)
