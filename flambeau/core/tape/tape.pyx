# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The tape: nodes, saved tensors, the engine.

A tensor points to the node that made it, a node to the nodes (or leaf tensors) of its inputs.  Nothing points
the other way, so there are no cycles: a node that needs its own output keeps an alias of it without history.
Chains of any length are freed without recursion, and the engine walks them with a queue ordered by age.
"""
from libc.stdlib cimport malloc, free, calloc, realloc
from libc.stdint cimport uint64_t, int64_t
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_DECREF, Py_XDECREF
from ..base.memory cimport Storage
from ..base.dtypes cimport dtype_of, CATEGORY, size_from
from ..base.tensor cimport (
    IN_FUNCTION, ON_TAPE, UNRECORDED, TensorBase, alias, late, same_shape, new_tensor_on, OP_ADD, OP_IADD, operator_for, wrote,
)
from weakref import WeakSet, ref as _ref
import os
import threading
cimport cython

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(object o)
    int PyErr_CheckSignals() except -1

cdef extern from *:
    """
    static __thread int flambeau_grad_enabled = 1;
    static __thread int flambeau_packing = 0;
    static __thread void* flambeau_pushed = NULL;
    """
    int flambeau_grad_enabled
    int flambeau_packing          # whether saved tensors go through hooks in this thread
    void* flambeau_pushed         # the node whose outputs' tangents this thread computes


cdef bint grad_enabled() noexcept nogil:
    return flambeau_grad_enabled


cdef void set_grad(bint enabled) noexcept nogil:
    global flambeau_grad_enabled
    flambeau_grad_enabled = enabled


def is_grad_enabled() -> bool:
    """Whether operations are recorded in this thread."""
    return grad_enabled() & REVERSE


def _set_grad_enabled(bint enabled) -> bool:
    """Set the mode of this thread; returns what it was.  Forward mode stays as it is."""
    cdef bint before = grad_enabled()
    set_grad((REVERSE if enabled else 0) | (before & FORWARD))
    return before & REVERSE


def _set_recording(int modes) -> int:
    """Set both modes of this thread; returns what they were."""
    cdef int before = grad_enabled()
    set_grad(modes)
    return before


cdef bint wants_grad(TensorBase t):
    """Whether an operation on t is recorded (in grad mode)."""
    if t.requires:
        return True
    if t.base is not None and t.fn_version != t.storage.version and not t.silent:
        t.grad_fn_now()
    return t.requires


# --- freeing without recursion ------------------------------
# A node that dies does not drop its references at once: they join this list, and the outermost call works it
# off.
cdef PyObject** doomed = NULL
cdef Py_ssize_t doomed_count = 0, doomed_room = 0
cdef bint draining = False


cdef void give_up(PyObject* p):
    """Drop a reference that may be the head of a long chain."""
    global doomed, doomed_count, doomed_room
    cdef PyObject** larger
    if p == NULL:
        return
    if doomed_count == doomed_room:
        larger = <PyObject**>realloc(doomed, (doomed_room * 2 + 64) * sizeof(PyObject*))
        if larger == NULL:
            Py_DECREF(<object>p)
            return
        doomed, doomed_room = larger, doomed_room * 2 + 64
    doomed[doomed_count] = p
    doomed_count += 1


cdef void drain():
    global draining, doomed_count
    if draining:
        return
    draining = True
    while doomed_count:
        doomed_count -= 1
        Py_DECREF(<object>doomed[doomed_count])
    draining = False


# --- saved tensors ------------------------------
cdef int keep(Slot* slot, TensorBase t, int output, TensorBase written=None) except -1:
    """Remember t for backward; `output` is -1 for an input of the node, else the number of the output it is.

    An input that lies in the storage of `written`, which the operation has overwritten, is no longer what the
    derivative reads: it is remembered at the version before, so that `kept` refuses it.
    """
    cdef object held = t
    if t.storage.inference:
        raise RuntimeError("Inference tensors cannot be saved for backward. To work around you can make a clone to get a normal "
                           "tensor and use it in autograd.")
    if flambeau_packing:
        held = packed(t, output)
    elif output >= 0:  # without its history: node -> output -> node would be a cycle
        held = alias(t, t.rank, t.sizes, t.strides, t.offset)
    Py_INCREF(held)
    slot.tensor = <PyObject*>held
    slot.version = t.storage.version
    if written is not None and output < 0 and t.storage is written.storage and not written.silent:
        slot.version -= 1
    slot.output = output
    return 0


cdef void before_write(TensorBase written) noexcept:
    """Let the histories of inputs be those from before the write; `after_write` ends that."""
    if not written.silent:
        written.storage.version -= 1


cdef void after_write(TensorBase written) noexcept:
    if not written.silent:
        written.storage.version += 1


cdef TensorBase kept(Slot* slot, Node node):
    """The tensor again; RuntimeError when it has been written to since, or was freed."""
    cdef TensorBase t, again
    if slot.tensor == NULL:
        raise RuntimeError(
            "Trying to backward through the graph a second time (or directly access saved tensors after they have already "
            "been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). "
            "Specify retain_graph=True if you need to backward through the graph a second time or if you need to access "
            "saved tensors after calling backward.")
    if isinstance(<object>slot.tensor, Packed):
        return unpacked(<Packed>slot.tensor, slot.output, node)
    t = <TensorBase>slot.tensor
    if t.storage.version != slot.version and not t.silent:
        raise RuntimeError(
            "one of the variables needed for gradient computation has been modified by an inplace operation: "
            f"[{dtype_of(t.code)} {list(t.shape)}], which is "
            f"{'output ' + str(slot.output) if slot.output >= 0 else 'an input'} of {node.name()}, is at version "
            f"{t.storage.version}; expected version {slot.version} instead. Hint: clone() the tensor before changing it.")
    if slot.output >= 0 and grad_enabled() and CATEGORY[t.code] >= 2:
        again = alias(t, t.rank, t.sizes, t.strides, t.offset)
        attach(again, node, slot.output)
        return again
    if flambeau_pushed != NULL and t.requires:
        return primal_of(t)
    return t


cdef void clear_slot(Slot* slot):
    give_up(slot.tensor)
    slot.tensor = NULL


# --- hooks on saved tensors ------------------------------
@cython.final
@cython.binding(False)
cdef class Packed:
    """What a pack hook made of a saved tensor, and where that tensor stood on the tape."""

    cdef object content, unpack
    cdef object source        # the node, or the leaf, that a gradient of the tensor goes to; None without one
    cdef int number


_saving = threading.local()  # .hooks: pairs (pack, unpack), the innermost last; .refused: why there may be none


def push_saved_hooks(pack, unpack) -> None:
    """Let tensors saved in this thread go through these hooks, until `pop_saved_hooks`."""
    global flambeau_packing
    if getattr(_saving, "refused", None) is not None:
        raise RuntimeError(_saving.refused)
    if not hasattr(_saving, "hooks"):
        _saving.hooks = []
    _saving.hooks.append((pack, unpack))
    flambeau_packing = True


def pop_saved_hooks() -> None:
    """End what the last `push_saved_hooks` began."""
    global flambeau_packing
    _saving.hooks.pop()
    flambeau_packing = len(_saving.hooks) > 0


def refuse_saved_hooks(message):
    """Let `push_saved_hooks` raise this message (None allows hooks again); returns what stood before."""
    before = getattr(_saving, "refused", None)
    if message is not None and flambeau_packing:
        raise RuntimeError(message)
    _saving.refused = message
    return before


cdef Packed packed(TensorBase t, int output):
    """t through the innermost pack hook, which sees it without history and may not write to it."""
    global flambeau_packing
    cdef Packed p = Packed.__new__(Packed)
    cdef TensorBase shown = alias(t, t.rank, t.sizes, t.strides, t.offset)
    cdef bint before = grad_enabled()
    cdef uint64_t version = t.storage.version
    if output < 0 and wants_grad(t):
        p.source, p.number = t.grad_fn_now(), t.output_number
        if p.source is None:
            p.source = t
    pack, p.unpack = _saving.hooks[len(_saving.hooks) - 1]
    set_grad(False)
    flambeau_packing = False
    try:
        p.content = pack(shown)
    finally:
        set_grad(before)
        flambeau_packing = True
    if t.storage.version != version:
        raise RuntimeError("A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook can "
                           "not be modified by in-place operations as this can lead to unexpected side-effects.")
    return p


cdef TensorBase unpacked(Packed p, int output, Node node):
    """The saved tensor from its unpack hook, at its old place on the tape where that matters."""
    cdef TensorBase t, again
    found = p.unpack(p.content)
    if not isinstance(found, TensorBase):
        raise TypeError("Output of saved tensor unpack_hook expected to be a Tensor but got result of type "
                        f"{type(found).__name__}")
    t = <TensorBase>found
    again = alias(t, t.rank, t.sizes, t.strides, t.offset)
    if not grad_enabled() or CATEGORY[again.code] < 2:
        return again
    if output >= 0:
        attach(again, node, output)
    elif isinstance(p.source, Node):
        again.fn, again.output_number, again.requires = p.source, p.number, True
    elif p.source is not None:
        again.fn, again.output_number, again.requires = passed_on(<TensorBase>p.source), 0, True
    return again


cdef PassNode passed_on(TensorBase leaf):
    cdef PassNode node = PassNode.__new__(PassNode)
    node.set_edges(1)
    node.connect(0, leaf)
    return node


# --- nodes ------------------------------
cdef uint64_t ages = 0
cdef bint watching = False       # anomaly mode: nodes remember where they were recorded


cdef uint64_t next_age() noexcept:
    global ages
    ages += 1
    return ages


@cython.no_gc
@cython.binding(False)
cdef class Node:
    """One recorded operation."""

    def __cinit__(self):
        self.sequence = next_age()
        self.outputs = 1
        self.targets = self.inline_targets
        self.numbers = self.inline_numbers
        if watching:
            remember_place(self)

    def __dealloc__(self):
        cdef int k
        for k in range(self.edges):  # what a subclass keeps is dropped by its own __dealloc__, which ran before this one
            give_up(self.targets[k])
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

    cdef void connect(self, int k, TensorBase t):
        """Input k's gradient goes to where t comes from."""
        cdef object target = t.grad_fn_now()
        if target is None:
            if not t.requires:
                return
            target = t
            self.numbers[k] = 0
        else:
            self.numbers[k] = t.output_number
            if (<Node>target).sequence > self.sequence:  # a view's node, made anew just now
                self.sequence = next_age()
        Py_INCREF(target)
        self.targets[k] = <PyObject*>target

    cdef list run(self, list grads):
        """Gradients of the inputs from those of the outputs; either may hold None."""
        raise RuntimeError(f"{self.name()} has no derivative")

    cdef object push(self, int number, list tangents, TensorBase out):
        """The tangent of an output, from those of the inputs (None: zero): the adjoint of `run`, which is linear
        in the gradient, so that it does not matter at which gradient.
        """
        cdef TensorBase g = (<object>out).new_zeros((<object>out).shape)
        cdef bint modes = grad_enabled()
        cdef list grads = [None] * self.outputs, roots = [], sent = []
        cdef int k
        g.requires = True
        grads[number] = g
        set_grad(REVERSE)
        try:
            found = self.run(grads)
        finally:
            set_grad(modes)
        for k in range(self.edges):
            if tangents[k] is not None and found[k] is not None and (<TensorBase>found[k]).requires:
                roots.append(found[k])
                sent.append(tangents[k])
        if roots:
            (pushed,) = run_backward(roots, sent, modes & REVERSE, modes & REVERSE, [g], False)
            if pushed is not None:
                return pushed
        return (<object>out).new_zeros((<object>out).shape)

    cdef void drop(self):
        """Let saved tensors go."""

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
        found = []
        for k in range(self.edges):
            if self.targets[k] == NULL:
                found.append((None, 0))
            else:
                target = <object>self.targets[k]
                found.append((AccumulateGrad(target) if isinstance(target, TensorBase) else target, self.numbers[k]))
        return tuple(found)

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
        for k, found in enumerate(hooks):
            if found is self.hook:
                del hooks[k]
                return

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.remove()


class AccumulateGrad(Node):
    """Stands for a leaf in `next_functions`: where its gradient is added to `variable.grad`."""

    def __init__(self, variable):
        self.variable = variable

    def name(self) -> str:
        return "AccumulateGrad"

    def __eq__(self, other):
        return isinstance(other, AccumulateGrad) and other.variable is self.variable

    def __hash__(self):
        return hash(self.variable)

    def register_prehook(self, hook):
        """`hook((grad,))` runs before the gradient is added; a tuple it returns replaces the gradient."""
        def changed(grad):
            found = hook((grad,))
            return found[0] if isinstance(found, tuple) else found

        return register_hook(self.variable, changed)

    def register_hook(self, hook):
        """`hook((), (grad,))` runs after the gradient was added."""
        return HookHandle(leaf_hooks(<TensorBase>self.variable)[2], hook)


@cython.binding(False)
cdef class PassNode(Node):
    """A second name of a leaf: gradients go on as they are."""

    def name(self) -> str:
        return "AliasBackward0"

    cdef list run(self, list grads):
        return grads


@cython.binding(False)
cdef class FormulaNode(Node):
    """An operation whose derivative is a Python function over operations: `formula(grads, *saved, *extra)`.
    """

    def name(self) -> str:
        return self.label

    cdef list run(self, list grads):
        cdef list arguments
        cdef int k
        arguments = [grads[0] if self.outputs == 1 else tuple(grads)]
        for k in range(self.slots):
            arguments.append(kept(&self.slot[k], self))
        arguments.extend(self.extra)
        found = self.formula(*arguments)
        return list(found) if isinstance(found, (tuple, list)) else [found]

    cdef void drop(self):
        cdef int k
        for k in range(self.slots):
            clear_slot(&self.slot[k])

    def __dealloc__(self):
        cdef int k
        for k in range(self.slots):
            clear_slot(&self.slot[k])
        free(self.slot)
        self.slots = 0


def record(str label, formula, tuple inputs, outputs, tuple saved=(), tuple extra=(), written=None) -> None:
    """Put an operation on the tape.

    `formula(grad, *saved, *extra)` returns a gradient (or None) for each of `inputs`; with several outputs,
    `grad` is a tuple.  `saved` are tensors (inputs or outputs); `extra` is anything else.  `written` is the
    input that an in-place operation overwrote, which then gets the new history.
    """
    cdef FormulaNode node = FormulaNode.__new__(FormulaNode)
    cdef int k, number
    cdef TensorBase t
    node.label, node.formula, node.extra = label, formula, extra
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    node.outputs = len(outputs)
    node.set_edges(len(inputs))
    if written is not None:
        before_write(<TensorBase?>written)
    try:
        for k in range(node.edges):
            if inputs[k] is not None:
                node.connect(k, <TensorBase?>inputs[k])
    finally:
        if written is not None:
            after_write(<TensorBase>written)
    if saved:
        node.slot = <Slot*>calloc(len(saved), sizeof(Slot))
        if node.slot == NULL:
            raise MemoryError
        node.slots = len(saved)
        for k in range(node.slots):
            t = <TensorBase?>saved[k]
            number = -1
            for j, out in enumerate(outputs):
                if out is t:
                    number = j
            keep(&node.slot[k], t, number, <TensorBase>written)
    for k in range(node.outputs):
        if outputs[k] is written and written is not None:
            rebase(<TensorBase>written, node, k)
        elif outputs[k] is not None:
            own(<TensorBase?>outputs[k], inputs)
            if CATEGORY[(<TensorBase>outputs[k]).code] >= 2:
                attach(<TensorBase>outputs[k], node, k)


cdef int own(TensorBase t, object given) except -1:
    """Let a result that is a view of something made inside of its operation, which nobody else sees, be no view: its
    history is its own, not its base's.  `given` holds what the operation got; a view of that stays one.
    """
    if t.base is not None and not lies_in(t.storage, given):
        t.base, t.made = None, ON_TAPE
    return 0


cdef bint lies_in(Storage storage, object given):
    """Whether a tensor, or one among these, has that storage."""
    if isinstance(given, TensorBase):
        return (<TensorBase>given).storage is storage
    if isinstance(given, (tuple, list)):
        for g in given:
            if lies_in(storage, g):
                return True
    return False


def recording(*tensors) -> bool:
    """Whether an operation on these is to be recorded."""
    if not grad_enabled():
        return False
    for t in tensors:
        if t is not None and isinstance(t, TensorBase) and wants_grad(<TensorBase>t):
            return True
    return False


cdef int attach(TensorBase t, Node node, int number) except -1:
    """t is that output of the node."""
    if t.retains:
        move_retained(t, node, number)
    t.fn, t.output_number, t.requires = node, number, True
    t.fn_version = t.storage.version
    if flambeau_grad_enabled & FORWARD:
        add_tangent(t, node, number)
    elif flambeau_pushed == <void*>node and not in_reverse(node):
        t.fn, t.output_number, t.requires = None, 0, False
    return 0


# --- forward mode ------------------------------
# A dual tensor's history is a DualNode: it holds the tangent, and passes gradients on to the history that the tensor
# would have without it.  An operation on dual tensors is recorded as any other; from its node `attach` then computes the
# tangents of the results at once.
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
    """node.push, with saved tensors standing for their primals."""
    global flambeau_pushed
    cdef int before = grad_enabled()
    cdef void* outer = flambeau_pushed
    set_grad(modes)
    flambeau_pushed = <void*>node
    try:
        return node.push(number, tangents, t)
    finally:
        flambeau_pushed = outer
        set_grad(before)


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


def is_forward_open() -> bool:
    """Whether operations in this thread compute tangents."""
    return (grad_enabled() & FORWARD) != 0


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


# --- writing in place ------------------------------
cdef int check_in_place(TensorBase t, str who) except -1:
    """RuntimeError where writing to t would lose a leaf's value; called where operations are recorded."""
    if not grad_enabled() & REVERSE:
        return 0
    if wants_grad(t) and t.grad_fn_now() is None:
        raise RuntimeError(f"{who}(): a leaf Variable that requires grad is being used in an in-place operation.")
    if t.base is None or t.silent:
        return 0
    if t.made == UNRECORDED and t.base.requires and CATEGORY[t.code] >= 2:
        raise RuntimeError(f"{who}(): A view was created in no_grad mode and is being modified inplace with grad mode enabled. "
                           + AMBIGUOUS)
    if t.made == IN_FUNCTION and t.requires:
        raise RuntimeError(
            f"{who}(): Output {t.output_number} of {t.fn.name()} is a view and is being modified inplace. This view was created "
            "inside a custom Function (or because an input was returned as-is) and the autograd logic to handle view+inplace would "
            "override the custom backward associated with the custom Function, leading to incorrect gradients. This behavior is "
            "forbidden. You can fix this by cloning the output of the custom Function.")
    if t.base.requires and t.base.fn is None:
        raise RuntimeError(f"{who}(): a view of a leaf Variable that requires grad is being used in an in-place operation.")
    return 0


AMBIGUOUS = (
    "Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both the view and "
    "the inplace either both inside the no_grad block (if you don't want the inplace to be tracked) or both outside (if you want "
    "the inplace to be tracked).")


cdef int check_refresh(TensorBase t) except -1:
    """RuntimeError where the elements of a view were written to since it was made, and its history cannot tell of that."""
    if t.made == UNRECORDED:
        raise RuntimeError("A view was created in no_grad mode and its base or another view of its base has been modified inplace "
                           "with grad mode enabled. " + AMBIGUOUS)
    if t.made == IN_FUNCTION:
        raise RuntimeError(f"Output {t.output_number} of {t.fn.name()} is a view and its base or another view of its base has been "
                           "modified inplace. This view was created inside a custom Function (or because an input was returned "
                           "as-is) and the autograd logic to handle view+inplace would override the custom backward associated "
                           "with the custom Function, leading to incorrect gradients. This behavior is forbidden. You can fix this "
                           "by cloning the output of the custom Function.")
    return 0


def _check_in_place(TensorBase t, str who):
    if grad_enabled():
        check_in_place(t, who)


cdef int rebase(TensorBase t, Node node, int number) except -1:
    """t was overwritten by `node`: give it, and the tensor it is a view of, their new history."""
    cdef TensorBase base = t.base
    cdef PatchNode patch
    if base is None or t.silent:
        return attach(t, node, number)
    patch = PatchNode.__new__(PatchNode)
    patch.inner, patch.number = node, number
    patch.base_sizes, patch.base_strides = size_from(base.rank, base.sizes), tuple(size_from(base.rank, base.strides))
    patch.sizes, patch.strides = size_from(t.rank, t.sizes), tuple(size_from(t.rank, t.strides))
    patch.offset = (t.offset * t.width - base.offset * base.width) // t.width
    patch.code, patch.base_code = t.code, base.code
    patch.own = -1
    # the first edge is the base's own history, the others are the inner node's except the one to the old view
    cdef int k, n = node.edges
    patch.set_edges(n + 1)
    patch.connect(0, base)
    for k in range(n):
        if node.targets[k] != NULL:
            target = <object>node.targets[k]
            if patch.own < 0 and comes_from(target, node.numbers[k], t):
                patch.own = k
                continue
            Py_INCREF(target)
            patch.targets[k + 1] = <PyObject*>target
            patch.numbers[k + 1] = node.numbers[k]
    attach(base, patch, 0)
    t.fn_version = t.storage.version - 1  # stale: asked for, it becomes a view of the new base
    t.requires, t.made = True, ON_TAPE
    return 0


cdef bint comes_from(object target, int number, TensorBase t):
    return target is t.fn and number == t.output_number


@cython.binding(False)
cdef class PatchNode(Node):
    """History of a tensor after a part of it was overwritten: outside the part the gradient passes, inside it
    goes through the node that wrote.
    """

    cdef Node inner
    cdef int number, own, code, base_code
    cdef object base_sizes, base_strides, sizes, strides
    cdef int64_t offset

    def name(self) -> str:
        return "CopySlices"

    cdef list run(self, list grads):
        cdef TensorBase grad = <TensorBase>grads[0]
        cdef list inner
        if grad is None:
            return [None] * self.edges
        whole = grad.new_empty_strided(self.base_sizes, self.base_strides)
        whole.copy_(grad)
        part = part_of(whole, self.code, self.sizes, self.strides, self.offset)
        wanted = [None] * self.inner.outputs
        wanted[self.number] = part.clone()
        inner = self.inner.run(wanted)
        own = inner[self.own] if self.own >= 0 else None
        if own is None:
            part.zero_()
        else:
            part.copy_(own)
        found = [whole]
        for k in range(len(inner)):
            found.append(None if k == self.own else inner[k])
        return found

    cdef void drop(self):
        if self.inner is not None and self.inner.task is not self.task:  # else this pass runs it by itself, later
            self.inner.drop()


cdef object view_as_real = None, view_as_complex = None


def set_complex_views(as_real, as_complex) -> None:
    """The views of complex numbers as pairs of real ones, and back."""
    global view_as_real, view_as_complex
    view_as_real, view_as_complex = as_real, as_complex


cdef TensorBase part_of(object whole, int code, object sizes, object strides, int64_t offset):
    """The view of a tensor's storage with that geometry, which counts in elements of dtype `code`: `whole`'s own, or the complex
    or real one that belongs to it.
    """
    cdef int own = (<TensorBase?>whole).code
    if code == own:
        return whole.as_strided(sizes, strides, offset)
    if CATEGORY[own] == 3:
        return view_as_real(whole).as_strided(sizes, strides, offset)
    return view_as_complex(whole.as_strided((*sizes, 2), (*[2 * s for s in strides], 1), 2 * offset))


# --- the engine ------------------------------
cdef object engine_lock = threading.RLock()


cdef struct Heap:
    PyObject** items          # borrowed: the task's list of visited nodes owns them
    Py_ssize_t count
    Py_ssize_t room


cdef int push(Heap* h, Node node) except -1:
    """Ready nodes, the youngest first."""
    cdef Py_ssize_t i, up
    cdef PyObject** larger
    if h.count == h.room:
        larger = <PyObject**>realloc(h.items, (h.room * 2 + 64) * sizeof(PyObject*))
        if larger == NULL:
            raise MemoryError
        h.items, h.room = larger, h.room * 2 + 64
    i = h.count
    h.count += 1
    while i > 0:
        up = (i - 1) // 2
        if (<Node>h.items[up]).sequence >= node.sequence:
            break
        h.items[i] = h.items[up]
        i = up
    h.items[i] = <PyObject*>node
    return 0


cdef Node pop(Heap* h):
    cdef Node top = <Node>h.items[0], last
    cdef Py_ssize_t i = 0, down
    h.count -= 1
    if h.count == 0:
        return top
    last = <Node>h.items[h.count]
    while True:
        down = 2 * i + 1
        if down >= h.count:
            break
        if down + 1 < h.count and (<Node>h.items[down + 1]).sequence > (<Node>h.items[down]).sequence:
            down += 1
        if (<Node>h.items[down]).sequence <= last.sequence:
            break
        h.items[i] = h.items[down]
        i = down
    h.items[i] = <PyObject*>last
    return top


@cython.binding(False)
cdef class Task:
    """One backward pass."""

    cdef uint64_t number
    cdef list visited
    cdef list overlaid        # scratch of an outer pass that this one met: (node, task, waiting, needed, arrived)
    cdef dict leaves          # leaves with hooks, or asked for: leaf -> [edges still to come, gradient so far]
    cdef dict captures        # node -> [(number of the output, place in `found`)]
    cdef list found
    cdef bint accumulate      # add to leaves' .grad
    cdef bint selective       # only the leaves and nodes asked for
    cdef bint create_graph
    cdef bint retain

    cdef int meet(self, Node node) except -1:
        """First sight of a node in this pass."""
        if node.task is not None:
            if self.overlaid is None:
                self.overlaid = []
            self.overlaid.append((node, node.task, node.waiting, node.needed, node.arrived))
        node.task = self
        node.waiting = 0
        node.needed = False
        node.arrived = None
        self.visited.append(node)
        return 0

    cdef int explore(self, list roots) except -1:
        """Count the edges that will deliver a gradient to each node."""
        cdef Node node, target
        cdef Py_ssize_t position = 0
        cdef int k
        for root in roots:
            if isinstance(root, Node) and (<Node>root).task is not self:
                self.meet(<Node>root)
        while position < len(self.visited):
            node = <Node>self.visited[position]
            position += 1
            for k in range(node.edges):
                if node.targets[k] == NULL:
                    continue
                if isinstance(<object>node.targets[k], Node):
                    target = <Node>node.targets[k]
                    if target.task is not self:
                        self.meet(target)
                    target.waiting += 1
                else:
                    self.expect(<TensorBase>node.targets[k])
        return 0

    cdef int expect(self, TensorBase leaf) except -1:
        if leaf.hooks is not None or self.selective:
            if self.leaves is None:
                self.leaves = {}
            entry = self.leaves.get(leaf)
            if entry is None:
                self.leaves[leaf] = [1, None]
            else:
                entry[0] += 1
        return 0

    cdef int mark_needed(self, set wanted_leaves) except -1:
        """Which nodes lead to something asked for: the oldest first, so that targets are marked before their
        users.
        """
        cdef Node node
        cdef int k
        for node in sorted(self.visited, key=_age):
            node.needed = node in self.captures
            for k in range(node.edges):
                if node.targets[k] == NULL:
                    continue
                target = <object>node.targets[k]
                if (<Node>target).needed if isinstance(target, Node) else id(target) in wanted_leaves:
                    node.needed = True
        return 0

    cdef int deliver(self, Heap* ready, object target, int number, object grad) except -1:
        """Hand a gradient (or None) to where it goes."""
        cdef Node node
        if not isinstance(target, Node):
            return self.deliver_leaf(<TensorBase>target, grad)
        node = <Node>target
        if grad is not None:
            if node.arrived is None:
                node.arrived = [None] * node.outputs
            before = node.arrived[number]
            if before is None:
                node.arrived[number] = grad
            else:
                node.arrived[number] = late.binary(operator_for(OP_ADD), before, grad)
        node.waiting -= 1
        if node.waiting == 0:
            push(ready, node)
        return 0

    cdef int deliver_leaf(self, TensorBase leaf, object grad) except -1:
        if leaf.hooks is None and not self.selective:
            if grad is not None:
                # one reference is the caller's list, one its local, one the argument here
                accumulate(leaf, <TensorBase>grad, self.create_graph)
            return 0
        entry = self.leaves[leaf]
        if grad is not None:
            entry[1] = grad if entry[1] is None else late.binary(operator_for(OP_ADD), entry[1], grad)
        entry[0] -= 1
        if entry[0] == 0 and entry[1] is not None:
            grad, entry[1] = entry[1], None
            self.finish_leaf(leaf, grad)
        return 0

    cdef int finish_leaf(self, TensorBase leaf, object grad) except -1:
        """A leaf's whole gradient has arrived: hooks, then the caller's list or `.grad`."""
        if leaf.hooks is not None:
            for hook in list(leaf.hooks[0]):
                changed = hook(grad)
                if changed is not None:
                    grad = changed
        places = self.captures.get(leaf) if self.captures is not None else None
        if places is not None and not self.accumulate:
            for _, place in places:
                self.found[place] = grad
        elif self.accumulate and (not self.selective or places is not None):
            accumulate(leaf, <TensorBase>grad, self.create_graph)
            if leaf.hooks is not None:
                for hook in list(leaf.hooks[2]):
                    hook((), (grad,))
                for hook in list(leaf.hooks[1]):
                    hook(leaf)
        return 0

    cdef int execute(self, Heap* ready, Node node) except -1:
        cdef list grads = node.arrived, results
        cdef int k, n
        cdef object grad
        node.arrived = None
        if grads is not None and node.pre_hooks is not None:
            grads = before_node(node, grads)
        if self.captures is not None and node in self.captures and grads is not None:
            for number, place in self.captures[node]:
                if not self.accumulate:
                    self.found[place] = grads[number]
        if grads is None or (self.selective and not node.needed):
            results = None
        else:
            results = watched(node, grads) if watching else node.run(grads)
            if node.post_hooks is not None:
                results = after_node(node, results, grads)
            grads = None
            if len(results) < node.edges:
                raise RuntimeError(f"{node.name()} returned {len(results)} gradients for its {node.edges} inputs")
        if not self.retain and results is not None:
            node.drop()
            node.released = True
        for k in range(node.edges):
            if node.targets[k] != NULL:
                grad = None
                if results is not None:
                    grad = results[k]
                    results[k] = None
                self.deliver(ready, <object>node.targets[k], node.numbers[k], grad)
        return 0

    cdef int clean(self) except -1:
        cdef Node node
        for node in self.visited:
            node.task = None
            node.arrived = None
        if self.overlaid is not None:
            for node, task, waiting, needed, arrived in reversed(self.overlaid):
                node.task, node.waiting, node.needed, node.arrived = task, waiting, needed, arrived
        return 0


def _age(Node node):
    return node.sequence


def _is_retained(pair):
    return isinstance(pair[1], Retained)


cdef list before_node(Node node, list grads):
    """Hooks of tensors and of the node itself, on the gradients that arrived; what `retain_grad` keeps is what they leave."""
    for number, hook in sorted(node.pre_hooks, key=_is_retained):
        if number >= 0:
            if grads[number] is not None:
                changed = hook(grads[number])
                if changed is not None:
                    grads[number] = changed
        else:
            changed = hook(tuple(grads))
            if changed is not None:
                grads = list(changed) if isinstance(changed, (tuple, list)) else [changed]
    return grads


cdef list after_node(Node node, list results, list grads):
    for hook in list(node.post_hooks):
        changed = hook(tuple(results), tuple(grads))
        if changed is not None:
            results = list(changed) if isinstance(changed, (tuple, list)) else [changed]
    return results


# --- anomaly mode ------------------------------
cdef bint watching_nan = False
cdef object place_recorder = None, error_reporter = None
_running = threading.local()  # .node: whose derivative is being computed in this thread


def set_watching(bint enabled, bint check_nan=True) -> tuple:
    """Let nodes remember where they were recorded and backward look at what they return; returns the mode before."""
    global watching, watching_nan
    before = watching, watching_nan
    watching, watching_nan = enabled, check_nan
    return before


def set_watchers(recorder, reporter) -> None:
    """`recorder(node, parent)` sees each node made in anomaly mode, `reporter(node, error)` each that fails."""
    global place_recorder, error_reporter
    place_recorder, error_reporter = recorder, reporter


def is_watching(check_nan: bool = False) -> bool:
    """Whether anomaly mode is on (and, with `check_nan`, looks for NaN)."""
    return watching and (watching_nan or not check_nan)


cdef int remember_place(Node node) except -1:
    place_recorder(node, getattr(_running, "node", None))
    return 0


cdef list watched(Node node, list grads):
    """node.run, under watch."""
    cdef int k
    outer = getattr(_running, "node", None)
    _running.node = node
    try:
        results = node.run(grads)
        if watching_nan:
            for k in range(len(results)):
                if results[k] is not None and has_nan(<TensorBase>results[k]):
                    raise RuntimeError(f"Function '{node.name()}' returned nan values in its {k}th output.")
        return results
    except Exception as error:
        error_reporter(node, error)
        raise
    finally:
        _running.node = outer


cdef bint has_nan(TensorBase t):
    cdef bint before = grad_enabled()
    set_grad(False)
    try:
        return bool((t != t).any())
    finally:
        set_grad(before)


cdef TensorBase fitted(TensorBase grad, object sizes, str who):
    """A gradient in the shape that is due after a change of geometry: its elements in that shape, else `summed`."""
    if [n for n in grad.shape if n != 1] == [n for n in sizes if n != 1]:
        return (<object>grad).reshape(sizes)
    return summed(grad, sizes, who, 0)


cdef TensorBase summed(TensorBase grad, object sizes, str who, int place):
    """A gradient in the shape that is due: summed over what that was broadcast to; RuntimeError where it was not."""
    given, wanted = tuple(grad.shape), tuple(sizes)
    ahead = (1,) * (len(given) - len(wanted)) + wanted
    if len(ahead) != len(given) or not all([a == b or a == 1 for a, b in zip(ahead, given)]):
        raise RuntimeError(f"Function {who} returned an invalid gradient at index {place} - got {list(given)} but expected shape "
                           f"compatible with {list(wanted)}")
    return grad if given == wanted else (<object>grad).sum_to_size(wanted)


cdef int accumulate(TensorBase leaf, TensorBase grad, bint create_graph) except -1:
    """leaf.grad += grad, taking over the gradient's memory where nobody else has it."""
    cdef TensorBase mine
    if not same_shape(leaf, grad):
        return accumulate(leaf, fitted(grad, leaf.shape, "AccumulateGrad"), create_graph)
    if leaf.grad_ is None:
        if create_graph:
            leaf.grad_ = grad
        elif Py_REFCNT(grad) <= 3 and Py_REFCNT(grad.storage) == 1 and grad.contiguous and grad.code == leaf.code \
                and grad.fn is None and not grad.requires:
            leaf.grad_ = grad
        else:
            leaf.grad_ = (grad if grad.code == leaf.code else grad.to(dtype_of(leaf.code))).detach().clone()
    elif create_graph:
        leaf.grad_ = late.binary(operator_for(OP_ADD), leaf.grad_, grad)
    else:
        mine = <TensorBase>leaf.grad_
        late.binary(operator_for(OP_IADD), mine, grad)
    return 0


def tensor_backward(TensorBase self, gradient=None, retain_graph=None, create_graph=False, inputs=None) -> None:
    """Add this tensor's gradients to the `.grad` of the leaves it depends on; see `autograd.backward`."""
    cdef TensorBase one
    if gradient is None and inputs is None and not create_graph and self.count == 1 and wants_grad(self):
        one = new_tensor_on(self.storage.on, self.rank, self.sizes, self.code)
        (<object>one).fill_(1)
        run_backward([self], [one], bool(retain_graph), False)
    else:
        backward_from(self, gradient, retain_graph, create_graph, inputs)


cdef object backward_from = None


def set_backward(function) -> None:
    """What `Tensor.backward` does with more than a scalar, or with arguments."""
    global backward_from
    backward_from = function


cdef tuple target_of(given):
    """The node, or the leaf, that a tensor or a GradientEdge stands for, and which output of it."""
    if isinstance(given, TensorBase):
        target = (<TensorBase>given).grad_fn_now()
        return (given, 0) if target is None else (target, (<TensorBase>given).output_number)
    node, number = given
    return (node.variable, 0) if isinstance(node, AccumulateGrad) else (node, number)


cdef uint64_t passes = 0
cdef Task current = None       # the pass that the engine works on; guarded by engine_lock


def forget_other_threads() -> None:
    """In the child of a fork: passes of threads that are not here have ended in the middle."""
    global engine_lock, current, draining
    if not engine_lock._is_owned():
        engine_lock, current = threading.RLock(), None
    draining = False


os.register_at_fork(after_in_child=forget_other_threads)


def run_backward(list roots, list grads, bint retain, bint create_graph, list inputs=None, bint accumulate=True):
    """Send `grads` back from `roots` (tensors, or edges: pairs of a node and the number of its output).

    With `inputs` (likewise), only what leads to them is computed, and their gradients are returned (None where
    nothing arrived) or, with `accumulate`, added to their `.grad`.
    """
    global current, passes
    cdef Task task = Task.__new__(Task), outer
    cdef Heap ready
    cdef Node node
    cdef bint before = grad_enabled()
    ready.items, ready.count, ready.room = NULL, 0, 0
    passes += 1
    task.number = passes
    task.visited = []
    task.accumulate, task.create_graph, task.retain = accumulate, create_graph, retain
    task.selective = inputs is not None
    cdef set wanted_leaves = None
    if inputs is not None:
        wanted_leaves, task.captures = set(), {}
        task.found = [None] * len(inputs)
        for place, given in enumerate(inputs):
            target, number = target_of(given)
            if not isinstance(target, Node):
                wanted_leaves.add(id(target))
            elif accumulate:
                raise RuntimeError("backward(): one of the inputs is not a leaf; use autograd.grad for its gradient")
            task.captures.setdefault(target, []).append((number, place))
    engine_lock.acquire()
    outer, current = current, task
    try:
        set_grad((REVERSE if create_graph else 0) | (before & FORWARD))
        starts = [target_of(r) for r in roots]
        task.explore([target for target, _ in starts])
        for target, _ in starts:
            if isinstance(target, Node):
                (<Node>target).waiting += 1
            else:
                task.expect(<TensorBase>target)
        if inputs is not None:
            task.mark_needed(wanted_leaves)
        for k in range(len(starts)):
            target, number = starts[k]
            grad = grads[k]
            grads[k] = None
            task.deliver(&ready, target, number, grad)
        grad = None
        while ready.count:
            PyErr_CheckSignals()
            node = pop(&ready)
            task.execute(&ready, node)
    finally:
        current = outer
        task.clean()
        set_grad(before)
        free(ready.items)
        engine_lock.release()
    return task.found


def depends_beyond(outputs, inputs) -> bool:
    """Whether gradients of `outputs` (tensors) go anywhere but to `inputs` and what those come from."""
    cdef set known = set()
    cdef list front = []
    cdef Node node
    cdef int k
    for t in inputs:
        known.add(id(target_of(t)[0]))
    for t in outputs:
        if (<TensorBase?>t).requires:
            front.append(target_of(t)[0])
    while front:
        found = front.pop()
        if id(found) in known:
            continue
        known.add(id(found))
        if not isinstance(found, Node):
            return True
        node = <Node>found
        for k in range(node.edges):
            if node.targets[k] != NULL:
                front.append(<object>node.targets[k])
    return False


def count_write(TensorBase t) -> None:
    """Count a write to t that no operation made."""
    wrote(t)


def current_pass():
    """The number of the backward pass that is running, None outside of one."""
    return None if current is None else current.number


def will_reach(given) -> bool:
    """Whether the running pass computes the gradient of a tensor or an edge (of a leaf: one with hooks)."""
    if current is None:
        return False
    target, _ = target_of(given)
    if isinstance(target, Node):
        return (<Node>target).task is current and (not current.selective or (<Node>target).needed)
    return current.leaves is not None and target in current.leaves and (
        not current.selective or target in current.captures)


# --- hooks of tensors ------------------------------
cdef tuple leaf_hooks(TensorBase t):
    """A leaf's lists of hooks: on the gradient, after it was added to `.grad`, and those of its AccumulateGrad."""
    if t.hooks is None:
        t.hooks = ([], [], [])
    return t.hooks


def register_hook(TensorBase t, hook):
    """`hook(grad)` runs when t's gradient is computed; what it returns, if anything, replaces the gradient.
    """
    if not wants_grad(t):
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    cdef object fn = t.grad_fn_now()
    cdef Node node
    if fn is None:
        return HookHandle(leaf_hooks(t)[0], hook)
    node = <Node>fn
    if node.pre_hooks is None:
        node.pre_hooks = []
    return HookHandle(node.pre_hooks, (t.output_number, hook))


def register_post_accumulate_grad_hook(TensorBase t, hook):
    """`hook(leaf)` runs after a gradient was added to leaf.grad."""
    if t.grad_fn_now() is not None or not t.requires:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    return HookHandle(leaf_hooks(t)[1], hook)


def retain_grad(TensorBase t) -> None:
    """Let a result keep its gradient in `.grad`, as leaves do."""
    if not wants_grad(t):
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    cdef object fn = t.grad_fn_now()
    if fn is None or t.retains:
        return
    t.retains = True
    retain_at(t, <Node>fn, t.output_number, Retained(_ref(t)))


@cython.final
@cython.binding(False)
cdef class Retained:
    """The hook that lets a result keep its gradient.  It belongs to the tensor, and goes with it from history to history."""

    cdef object owner         # weakly

    def __init__(self, owner):
        self.owner = owner

    def __call__(self, grad):
        cdef TensorBase t = <TensorBase>self.owner()
        if t is not None:  # others may hold the gradient, too
            t.grad_ = grad.clone() if t.grad_ is None else late.binary(operator_for(OP_ADD), t.grad_, grad)


cdef int retain_at(TensorBase t, Node node, int number, Retained hook) except -1:
    if node.pre_hooks is None:
        node.pre_hooks = []
    node.pre_hooks.append((number, hook))
    return 0


cdef int move_retained(TensorBase t, Node node, int number) except -1:
    """t has a new history: its `.grad` is to be that of its new value."""
    cdef Node old = <Node?>t.fn
    for pair in old.pre_hooks:
        if _is_retained(pair) and (<Retained>pair[1]).owner() is t:
            old.pre_hooks.remove(pair)
            return retain_at(t, node, number, <Retained>pair[1])
    return 0


# --- autograd.Function ------------------------------
@cython.binding(False)
cdef class FunctionNode(Node):
    """A call of a user's `autograd.Function`."""

    cdef object function, context
    cdef list places          # of the tensors among the arguments
    cdef list sizes           # theirs
    cdef list shapes          # of the outputs, dtypes and devices: for zeros where no gradient arrived
    cdef int slots
    cdef Slot* slot
    cdef list absent          # which saved entries were None
    cdef object pushed        # the outputs' tangents, while the call is being recorded
    cdef list zeros           # for each tensor among the arguments, zeros like it: made only in forward mode

    def name(self) -> str:
        return self.function.__name__ + "Backward"

    cdef object push(self, int number, list tangents, TensorBase out):
        cdef int k
        context = self.context
        if self.pushed is None:
            given = [None] * len(context.needs_input_grad)
            for k in range(self.edges):
                given[self.places[k]] = tangents[k]
                if tangents[k] is None and context._materialize:
                    given[self.places[k]] = self.zeros[k]
            found = self.function.jvp(context, *given)
            self.pushed = found if isinstance(found, (tuple, list)) else (found,)
        if len(self.pushed) != self.outputs:
            raise RuntimeError(f"{self.name()}: jvp returned {len(self.pushed)} tangents for {self.outputs} outputs")
        found = self.pushed[number]
        return (<object>out).new_zeros((<object>out).shape) if found is None else found

    @property
    def saved_tensors(self):
        """What `save_for_backward` kept."""
        return self.saved()

    def __getattr__(self, key):
        return getattr(self.context, key)

    def saved(self) -> tuple:
        cdef int k, position = 0
        found = []
        for k in range(len(self.absent)):
            if self.absent[k]:
                found.append(None)
            else:
                found.append(kept(&self.slot[position], self))
                position += 1
        return tuple(found)

    cdef list run(self, list grads):
        cdef int k
        if self.context._materialize:
            for k in range(len(grads)):
                if grads[k] is None and self.shapes[k] is not None:
                    from ..make.create import zeros

                    grads[k] = zeros(self.shapes[k][0], dtype=self.shapes[k][1], device=self.shapes[k][2])
        self.context._node = self
        try:
            found = self.function.backward(self.context, *grads)
        finally:
            self.context._node = None  # node -> context -> node would be a cycle
        found = list(found) if isinstance(found, (tuple, list)) else [found]
        arguments = self.context.needs_input_grad
        if len(found) > len(arguments) and all([g is None for g in found[len(arguments):]]):
            found = found[:len(arguments)]
        if len(found) != len(arguments):
            raise RuntimeError(f"function {self.name()} returned an incorrect number of gradients (expected {len(arguments)}, got "
                               f"{len(found)})")
        return [found[k] if not isinstance(found[k], TensorBase) else summed(<TensorBase>found[k], sizes, self.name(), k)
                for k, sizes in zip(self.places, self.sizes)]

    cdef void drop(self):
        cdef int k
        for k in range(self.slots):
            clear_slot(&self.slot[k])

    def __dealloc__(self):
        cdef int k
        for k in range(self.slots):
            clear_slot(&self.slot[k])
        free(self.slot)
        self.slots = 0


def record_function(function, context, tuple arguments, tuple outputs) -> tuple:
    """Put a call of an `autograd.Function` on the tape; returns the outputs, with history."""
    cdef FunctionNode node = FunctionNode.__new__(FunctionNode)
    cdef int k, number, position = 0
    cdef TensorBase t
    cdef list made = []
    node.function, node.context = function, context
    node.places = [k for k in range(len(arguments)) if isinstance(arguments[k], TensorBase)]
    node.sizes = [arguments[k].shape for k in node.places]
    node.outputs = len(outputs)
    node.shapes = []
    node.set_edges(len(node.places))
    for k in range(node.edges):
        t = <TensorBase>arguments[node.places[k]]
        if wants_grad(t):
            node.connect(k, t)
    dirty = {id(d) for d in context._dirty}
    constant = {id(c) for c in context._constant}
    given = {id(a) for a in arguments}
    for k in range(node.outputs):
        out = outputs[k]
        if not isinstance(out, TensorBase):
            made.append(out)
            node.shapes.append(None)
            continue
        t = <TensorBase>out
        if id(out) in given and id(out) not in dirty:  # an input returned as it is: a view with history of its own
            t = alias(t, t.rank, t.sizes, t.strides, t.offset)
            t.base = (<TensorBase>out).base if (<TensorBase>out).base is not None else <TensorBase>out
        if t.base is not None and id(out) not in dirty:
            t.made = IN_FUNCTION
        node.shapes.append((size_from(t.rank, t.sizes), dtype_of(t.code), (<object>t).device))
        made.append(t)
    saved = context._to_save
    node.absent = [s is None for s in saved]
    node.slot = <Slot*>calloc(len(saved) + 1, sizeof(Slot))
    for s in saved:
        if s is None:
            continue
        number = -1
        for k in range(node.outputs):
            if outputs[k] is s and id(s) not in given:
                number = k
        keep(&node.slot[node.slots], <TensorBase>s, number)
        node.slots += 1
    context._to_save = ()
    if grad_enabled() & FORWARD:
        node.zeros = [arguments[k].new_zeros(arguments[k].shape) for k in node.places]
    for k in range(node.outputs):
        if isinstance(made[k], TensorBase) and id(outputs[k]) not in constant and CATEGORY[(<TensorBase>made[k]).code] >= 2:
            if id(outputs[k]) in dirty:
                rebase(<TensorBase>made[k], node, k)
            else:
                own(<TensorBase>made[k], arguments)
                attach(<TensorBase>made[k], node, k)
    node.pushed = node.zeros = None
    context._forward = ()
    return tuple(made)
