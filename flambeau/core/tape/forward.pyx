# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Forward mode.

A dual tensor's history is a DualNode: it holds the tangent, and passes gradients on to the history that the tensor would have
without it.  An operation on dual tensors is recorded as any other; from its node, `follow` then computes the tangents of the
results at once.

Levels nest: each has its own tangents, and a tensor that is dual in several is a chain of DualNodes, the innermost level's first.
While a tangent is computed, saved tensors stand for what they are in the levels around, so that tangents have tangents there.
"""
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from ..base.tensor cimport TensorBase, alias, runtime
from .modes cimport FORWARD, REVERSE, grad_enabled, set_grad, wants_grad
from .nodes cimport Node, identity_node
from .engine import run_backward
from weakref import WeakSet, ref as _ref
import threading
cimport cython

cdef extern from *:
    """
    static __thread void* flambeau_pushed = NULL;
    static __thread int flambeau_stripped = 0;
    static __thread int flambeau_depth = 0;
    static __thread PyObject* flambeau_later = NULL;
    """
    void* flambeau_pushed         # the node whose outputs' tangents this thread computes
    int flambeau_stripped         # and in which level: saved tensors have no tangents in that and those inside of it
    int flambeau_depth            # operations in this thread compute tangents in levels up to this one
    PyObject* flambeau_later      # borrowed: the list where results of the leaf that runs wait for their tangents, NULL where they do not


@cython.binding(False)
cdef class Level:
    """A block in which dual tensors exist."""

    cdef readonly int number      # 1 for the outermost of its thread
    cdef object duals             # weak references to its DualNodes, which end with it


@cython.no_gc
@cython.binding(False)
cdef class DualNode(Node):
    """What makes a tensor dual."""

    cdef object tangent       # None once its level has ended
    cdef object owner         # the tensor, weakly
    cdef Level level

    def name(self) -> str:
        target = below(self)
        return target.name() if isinstance(target, Node) else "AliasBackward0"

    cdef list run(self, list grads):
        return grads


cdef object below(DualNode d):
    """What a dual tensor's history would be without the tangent: a node, a leaf or None."""
    return None if d.edges == 0 or d.targets[0] == NULL else <object>d.targets[0]


cdef DualNode lowest(DualNode d, int level):
    """The last of a chain that is of a level or one inside of it."""
    target = below(d)
    while isinstance(target, DualNode) and (<DualNode>target).level.number >= level:
        d = <DualNode>target
        target = below(d)
    return d


cdef bint passes_on(DualNode d):
    """Whether reverse mode goes on behind a dual tensor."""
    target = below(d)
    return target is not None and (not isinstance(target, DualNode) or passes_on(<DualNode>target))


cdef DualNode dual_in(object target, int level):
    """What makes a tensor of that history dual in a level; None where it is not."""
    while isinstance(target, DualNode):
        if (<DualNode>target).level.number == level and (<DualNode>target).tangent is not None:
            return <DualNode>target
        target = below(<DualNode>target)
    return None


cdef bint in_reverse(Node node):
    """Whether a gradient that goes through this node arrives anywhere."""
    cdef int k
    for k in range(node.edges):
        if node.targets[k] != NULL:
            target = <object>node.targets[k]
            if not isinstance(target, DualNode) or passes_on(<DualNode>target):
                return True
    return False


cdef DualNode dual_node(TensorBase t, object tangent, Level level, object target, int number):
    """What makes t dual, before that history."""
    cdef DualNode d = DualNode.__new__(DualNode)
    d.tangent, d.owner, d.level = tangent, _ref(t), level
    if level.duals is not None:
        level.duals.add(d)
    if target is not None:
        d.set_edges(1)
        Py_INCREF(target)
        d.targets[0], d.numbers[0] = <PyObject*>target, number
    return d


cdef int become_dual(TensorBase t, DualNode d) except -1:
    t.fn, t.output_number, t.requires = d, 0, True
    t.fn_version = t.storage.version
    return 0


cdef int become(TensorBase t, object target, int number) except -1:
    """Give t that history.  Where it is dual, by a node of its own, which passes gradients on to the other tensor's: that is the one
    whose gradient somebody may have requested.
    """
    if isinstance(target, DualNode):
        return become_dual(t, dual_node(t, (<DualNode>target).tangent, (<DualNode>target).level, target, 0))
    t.fn, t.output_number, t.requires = target, number, target is not None
    return 0


cdef int follow(TensorBase t, Node node, int number) except -1:
    """t has just become that output of `node`, while a forward level is open somewhere."""
    cdef int modes = grad_enabled()
    if modes & FORWARD:
        if flambeau_later != NULL:
            (<list>flambeau_later).append((t, node, number, modes))
        else:
            add_tangents(t, node, number)
    elif flambeau_pushed == <void*>node and not in_reverse(node):
        t.fn, t.output_number, t.requires = None, 0, False
    return 0


cdef PyObject** later_slot() noexcept:
    """Where this thread says that tangents wait for the end of the leaf that runs."""
    return &flambeau_later


cdef int catch_up(list waiting) except -1:
    """The tangents of a leaf's results, once it is over: what computes them is then seen behind it."""
    cdef int before = grad_enabled()
    cdef list results = waiting[:]
    cdef dict done = {}
    waiting.clear()
    try:
        for t, node, number, modes in results:
            if done:
                reconnect(<Node>node, done)
            set_grad(<int>modes)
            add_tangents(<TensorBase>t, <Node>node, <int>number)
            if len(results) > 1:
                done[id(node), number] = t
    finally:
        set_grad(before)
    return 0


cdef int reconnect(Node node, dict done) except -1:
    """Let the edges of a leaf's node that lead to others of the same leaf lead to what makes their results dual now."""
    cdef int k
    cdef TensorBase t
    for k in range(node.edges):
        if node.targets[k] != NULL:
            other = done.get((<size_t>node.targets[k], node.numbers[k]))
            if other is not None:
                t = <TensorBase>other
                Py_DECREF(<object>node.targets[k])
                node.targets[k] = NULL
                node.connect(k, t)
    return 0


cdef int add_tangents(TensorBase t, Node node, int number) except -1:
    """t is an output of `node`, which was just recorded: let it be dual where an input is; where no gradient is
    wanted, it forgets the node.
    """
    cdef int k, level, modes = grad_enabled()
    cdef bint reverse = modes & REVERSE and in_reverse(node), traced
    cdef list tangents
    cdef Level home
    cdef DualNode d, last = None
    if isinstance(node, DualNode):  # the history of another tensor, taken over
        return 0
    for level in range(1, flambeau_depth + 1):
        tangents, home, traced = [None] * node.edges, None, reverse
        for k in range(node.edges):
            d = None if node.targets[k] == NULL else dual_in(<object>node.targets[k], level)
            if d is not None:
                tangents[k], home = d.tangent, d.level
                traced = traced or history(<TensorBase>d.tangent) is not None
        if home is None:
            continue
        tangent = computed_tangent(node, number, tangents, t, modes & REVERSE, level)
        tangent = tangent if traced else without_history(<TensorBase>tangent)
        if last is not None:
            last = dual_node(t, tangent, home, last, 0)
        else:
            last = dual_node(t, tangent, home, node if reverse else None, number)
    if last is not None:
        return become_dual(t, last)
    if not reverse:
        t.fn, t.output_number, t.requires = None, 0, False
    return 0


cdef object computed_tangent(Node node, int number, list tangents, TensorBase t, int reverse, int level):
    """The tangent of an output in a level, with saved tensors standing for what they are in the levels around."""
    global flambeau_pushed, flambeau_stripped, flambeau_depth
    cdef int before = grad_enabled(), stripped = flambeau_stripped, depth = flambeau_depth
    cdef void* outer = flambeau_pushed
    set_grad(reverse | (FORWARD if level > 1 else 0))
    flambeau_pushed, flambeau_stripped, flambeau_depth = <void*>node, level, level - 1
    try:
        result = node.push(number, tangents, t)
        return adjoint(node, number, tangents, t) if result is None else result
    finally:
        flambeau_pushed, flambeau_stripped, flambeau_depth = outer, stripped, depth
        set_grad(before)


cdef int pushed_level() noexcept:
    """The level whose tangents are computed in this thread now."""
    return flambeau_stripped


cdef object adjoint(Node node, int number, list tangents, TensorBase out):
    """The tangent of an output, from those of the inputs (None: zero), by the adjoint of `run`, which is linear in the gradient,
    so that it does not matter at which gradient.
    """
    cdef TensorBase g = (<object>out).new_zeros((<object>out).shape)
    cdef int modes = grad_enabled()
    cdef list grads = [None] * node.outputs, roots = [], sent = []
    cdef int k
    g.requires = True
    grads[number] = g
    set_grad(modes | REVERSE)
    try:
        result = node.run(grads)
    finally:
        set_grad(modes)
    for k in range(node.edges):
        if tangents[k] is not None and result[k] is not None and (<TensorBase>result[k]).requires:
            roots.append(result[k])
            sent.append(tangents[k])
    if roots:
        (pushed,) = run_backward(roots, sent, modes & REVERSE, modes & REVERSE, [g], False)
        if pushed is not None:
            return pushed
    return (<object>out).new_zeros((<object>out).shape)


cdef TensorBase primal_in_push(TensorBase t):
    """What a saved tensor stands for: without the tangents of the level whose tangent is computed in this thread, else itself."""
    return t if flambeau_pushed == NULL else primal_of(t, flambeau_stripped)


cdef TensorBase primal_of(TensorBase t, int level):
    """A dual tensor without its tangents in a level and those inside of it, any other as it is."""
    cdef TensorBase again
    cdef DualNode d
    fn = t.grad_fn_now()
    if not isinstance(fn, DualNode) or (<DualNode>fn).level.number < level:
        return t
    d = lowest(<DualNode>fn, level)
    target = below(d)
    again = alias(t, t.rank, t.sizes, t.strides, t.offset)
    if isinstance(target, TensorBase):
        again.fn, again.output_number, again.requires = identity_node(<TensorBase>target), 0, True
    elif target is not None:
        become(again, target, d.numbers[0])
    return again


cdef TensorBase without_history(TensorBase t):
    """The tensor with its tangents, and nothing for reverse mode."""
    cdef TensorBase again
    cdef DualNode d, last = None
    fn = t.grad_fn_now()
    if not isinstance(fn, DualNode):
        return (<object>t).detach() if t.requires else t
    chain = []
    while isinstance(fn, DualNode):
        d = <DualNode>fn
        if d.tangent is not None and not (chain and (<DualNode>chain[len(chain) - 1]).level is d.level):
            chain.append(d)
        fn = below(d)
    again = alias(t, t.rank, t.sizes, t.strides, t.offset)
    for d in reversed(chain):
        last = dual_node(again, without_history(<TensorBase>d.tangent), d.level, last, 0)
    if last is not None:
        become_dual(again, last)
    return again


cdef object history(TensorBase t):
    """What reverse mode sees: a node, True for a leaf that requires grad, None for neither."""
    fn = t.grad_fn_now()
    if isinstance(fn, DualNode):
        return fn if passes_on(<DualNode>fn) else None
    return fn if fn is not None else True if t.requires else None


runtime.history = history


# --- levels ------------------------------
_open = threading.local()     # .levels: those of this thread, the innermost last
cdef int counted = 0          # levels that are open in any thread


def open_levels() -> list:
    """The levels of this thread in which operations compute tangents now, the innermost last."""
    return getattr(_open, "levels", [])[:flambeau_depth] if grad_enabled() & FORWARD else []


def open_forward_level() -> Level:
    """Let dual tensors be made, and operations on them in this thread compute tangents."""
    global counted, flambeau_depth
    cdef Level level = Level.__new__(Level)
    if not hasattr(_open, "levels"):
        _open.levels = []
    del _open.levels[flambeau_depth:]
    _open.levels.append(level)
    level.number, level.duals = len(_open.levels), WeakSet()
    flambeau_depth = level.number
    counted += 1
    runtime.forward = True
    set_grad(grad_enabled() | FORWARD)
    return level


def close_forward_level(Level level not None) -> None:
    """Tangents of the level end; its dual tensors become what they would be without."""
    global counted, flambeau_depth
    cdef DualNode d, last
    cdef TensorBase t
    for d in list(level.duals):
        d.tangent = None
        held = d.owner()
        if held is not None and (<TensorBase>held).fn is d:
            t, last = <TensorBase>held, lowest(d, level.number)
            target = below(last)
            if not isinstance(target, TensorBase):  # a leaf's second name stays one
                become(t, target, 0 if target is None else last.numbers[0])
    level.duals = None
    _open.levels.remove(level)
    counted -= 1
    runtime.forward = counted > 0
    flambeau_depth = min(flambeau_depth, <int>len(_open.levels))
    set_grad(grad_enabled() & REVERSE | (FORWARD if flambeau_depth else 0))


def make_dual(TensorBase primal, TensorBase tangent, Level level not None) -> TensorBase:
    """A tensor over primal's elements, with its history, and with a tangent."""
    cdef TensorBase plain = primal_of(primal, level.number)
    cdef TensorBase t = alias(primal, primal.rank, primal.sizes, primal.strides, primal.offset)
    cdef DualNode d = dual_node(t, tangent, level, None, 0)
    if wants_grad(plain) and (grad_enabled() & REVERSE or isinstance(plain.fn, DualNode)):
        d.set_edges(1)
        d.connect(0, plain)
    become_dual(t, d)
    return t


def unpack_dual(TensorBase t, Level level not None) -> tuple:
    """The tensor without its tangent, and the tangent (None where it has none)."""
    cdef DualNode d = dual_in(t.grad_fn_now(), level.number)
    return primal_of(t, level.number), None if d is None else d.tangent
