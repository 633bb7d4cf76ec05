"""Looking at the tape: nodes and edges, hooks on saved tensors, hooks on several tensors at once."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from ..core import tape as _tape
from ..core.base.tensor import TensorBase
from ..core.tape import AccumulateGrad, Node

__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]


class _Edge(NamedTuple):
    node: Node
    output_nr: int


class GradientEdge(_Edge):
    """Where a tensor's gradient goes: a node and which of its outputs.

    `autograd.grad` and `autograd.backward` take edges in the place of tensors.
    """

    made_of: tuple[Any, Any, Any] | None = None  # the tensor's shape, dtype and device, where it is known


def get_gradient_edge(tensor: TensorBase) -> GradientEdge:
    """The edge of a tensor; RuntimeError where it does not require grad.

    Shape:
        tensor: any

    >>> import flambeau
    >>> x = flambeau.tensor([1.0], requires_grad=True)
    >>> edge = flambeau.autograd.graph.get_gradient_edge(x * 2)
    >>> type(edge.node).__name__
    'MulBackward0'
    """
    if not tensor.requires_grad:
        raise RuntimeError(
            "It is not possible to get the gradient edge for a Tensor that does not require gradients."
        )
    node = tensor.grad_fn
    edge = GradientEdge(AccumulateGrad(tensor) if node is None else node, tensor.output_nr)
    edge.made_of = tensor.shape, tensor.dtype, tensor.device
    return edge


def increment_version(tensor: TensorBase | Sequence[TensorBase]) -> None:
    """Say that a tensor (or several) was written to in a way that the tape did not see.

    Shape:
        tensor: any

    Raises:
        TypeError: an argument is no tensor

    >>> import flambeau
    >>> x = flambeau.tensor([1.0])
    >>> flambeau.autograd.graph.increment_version(x)
    >>> x._version
    1
    """
    for t in (tensor,) if isinstance(tensor, TensorBase) else tensor:
        _tape.count_write(t)


class saved_tensors_hooks:
    """Inside, a tensor that the tape saves goes through `pack_hook`, and comes back through `unpack_hook`.

    `pack_hook(tensor)` may return anything; `unpack_hook` gets that and returns a tensor with the same
    elements. The innermost pair of hooks acts alone. RuntimeError from `pack_hook`s that write to their
    argument, TypeError from `unpack_hook`s that return no tensor.

    >>> import flambeau
    >>> x = flambeau.tensor([1., 2.], requires_grad=True)
    >>> with flambeau.autograd.graph.saved_tensors_hooks(lambda t: t.tolist(), flambeau.tensor):
    ...     y = x * x
    >>> y.sum().backward()
    >>> x.grad
    tensor([2., 4.])
    """

    def __init__(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self) -> None:
        _tape.push_saved_hooks(self.pack_hook, self.unpack_hook)

    def __exit__(self, *exception: object) -> None:
        _tape.pop_saved_hooks()


class save_on_cpu(saved_tensors_hooks):
    """Inside, saved tensors wait for backward in the host's memory; `pin_memory` only concerns devices.

    Raises nothing.

    >>> import flambeau
    >>> x = flambeau.tensor([3.0], requires_grad=True)
    >>> with flambeau.autograd.graph.save_on_cpu():
    ...     y = x * x
    >>> y.backward()
    >>> x.grad
    tensor([6.])
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        def pack(tensor: TensorBase) -> Any:
            return tensor.device, tensor.to("cpu") if tensor.device.type != "cpu" else tensor.clone()

        super().__init__(pack, lambda held: held[1].to(held[0]))


@contextlib.contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Inside, to ask for saved tensors' hooks raises RuntimeError with this message.

    >>> import flambeau
    >>> from flambeau.autograd import graph
    >>> with graph.disable_saved_tensors_hooks("no hooks here"):
    ...     try:
    ...         with graph.saved_tensors_hooks(abs, abs):
    ...             None
    ...     except RuntimeError as error:
    ...         print(error)
    no hooks here
    """
    before = _tape.refuse_saved_hooks(error_message)
    try:
        yield
    finally:
        _tape.refuse_saved_hooks(before)


class _Copies(saved_tensors_hooks):
    """Saved tensors are copies, so that writing to the originals does not matter."""

    def __init__(self) -> None:
        super().__init__(lambda tensor: tensor.clone(), lambda tensor: tensor)


@contextlib.contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[None]:
    """Inside, tensors that the tape has saved may be overwritten: it saves copies, at once.

    PyTorch copies at the first write instead, which takes less memory where few of them are overwritten.

    >>> import flambeau
    >>> x = flambeau.ones(2, requires_grad=True)
    >>> with flambeau.autograd.graph.allow_mutation_on_saved_tensors():
    ...     y = x.exp()
    ...     z = y.sin()
    ...     z = z + y.zero_()
    ...     z.sum().backward()
    """
    with _Copies():
        yield


class _Handles:
    """Several handles as one."""

    def __init__(self, handles: Sequence[Any]) -> None:
        self.handles = tuple(handles)

    def remove(self) -> None:
        """Remove every hook."""
        for handle in self.handles:
            handle.remove()

    def __enter__(self) -> _Handles:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


def register_multi_grad_hook(
    tensors: Sequence[TensorBase], fn: Callable[[Any], None], *, mode: str = "all"
) -> _Handles:
    """Call `fn` once in a backward pass that reaches several tensors.

    With `mode="all"`, `fn(grads)` runs when the last of the gradients that this pass computes is there; None
    stands for tensors that it does not reach. With `mode="any"`, `fn(grad)` runs at the first of them.

    Shape:
        tensors: any

    Raises:
        ValueError: `mode` is neither "all" nor "any"

    >>> import flambeau
    >>> x, y = flambeau.ones(1, requires_grad=True), flambeau.ones(1, requires_grad=True)
    >>> handle = flambeau.autograd.graph.register_multi_grad_hook([x, y], print)
    >>> (x * 2 + y * 3).backward()
    [tensor([2.]), tensor([3.])]
    """
    if mode not in ("all", "any"):
        raise ValueError(f"register_multi_grad_hook(): mode must be 'all' or 'any', got {mode!r}")
    # Passes run one after another, whatever the threads: what hooks of one pass share needs no lock.
    if mode == "any":
        last: list[Any] = [None]

        def first(grad: Any) -> Any:
            task = _tape.current_pass()
            if last[0] == task:
                return
            last[0] = task
            fn(grad)

        return _Handles([t.register_hook(first) for t in tensors])

    edges = [get_gradient_edge(t) for t in tensors]
    state: dict[str, Any] = {"task": None, "left": 0, "grads": []}

    def gather(place: int, grad: Any) -> Any:
        task = _tape.current_pass()
        if state["task"] != task:
            state.update(task=task, left=sum(map(_tape.will_reach, edges)), grads=[None] * len(edges))
        state["grads"][place] = grad
        state["left"] -= 1
        if state["left"]:
            return
        grads = state["grads"]
        state.update(task=None, grads=[])
        fn(grads)

    return _Handles([t.register_hook(functools.partial(gather, k)) for k, t in enumerate(tensors)])
