# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Hooks of tensors and nodes, and gradients that results keep."""
from ..base.tensor cimport TensorBase, runtime, OP_ADD, operator_for
from .modes cimport wants_grad
from .nodes cimport Node, leaf_hooks
from .nodes import HookHandle
from weakref import ref as _ref
cimport cython


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
            t.grad_ = grad.clone() if t.grad_ is None else runtime.binary(operator_for(OP_ADD), t.grad_, grad)


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


def _is_retained(pair):
    return isinstance(pair[1], Retained)


cdef object replaced(hook, grad, changed):
    """The gradient that a tensor's hook has put in the place of another; it is one of the same shape and dtype."""
    cdef str name
    if not isinstance(changed, TensorBase):
        raise TypeError(f"expected Variable, but hook returned '{type(changed).__name__}'")
    if changed.dtype is not grad.dtype or changed.shape != grad.shape:
        name = getattr(hook, "__name__", type(hook).__name__)
        if changed.dtype is not grad.dtype:
            raise RuntimeError(f"hook '{name}' has changed the type of value (was {grad.type()} got {changed.type()})")
        raise RuntimeError(f"hook '{name}' has changed the size of value: was {list(grad.shape)}, got {list(changed.shape)}")
    return changed


cdef list run_pre_hooks(Node node, list grads):
    """Hooks of tensors and of the node itself, on the gradients that arrived; what `retain_grad` keeps is what they leave."""
    for number, hook in sorted(node.pre_hooks, key=_is_retained):
        if number >= 0:
            if grads[number] is not None:
                changed = hook(grads[number])
                if changed is not None:
                    grads[number] = replaced(hook, grads[number], changed)
        else:
            changed = hook(tuple(grads))
            if changed is not None:
                grads = list(changed) if isinstance(changed, (tuple, list)) else [changed]
    return grads


cdef list run_post_hooks(Node node, list results, list grads):
    for hook in list(node.post_hooks):
        changed = hook(tuple(results), tuple(grads))
        if changed is not None:
            results = list(changed) if isinstance(changed, (tuple, list)) else [changed]
    return results
