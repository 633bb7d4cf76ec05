"""A model's recorded call as nodes with the modules that they are of, as TensorBoard draws graphs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ..autograd.grad_mode import no_grad
from ..core.base.callbacks import set_callback
from ..core.base.tensor import TensorBase
from ..fx import Node
from ..nn import Module
from .record import Place, Recording
from .trace import graph_of, mapped


class Drawn(NamedTuple):
    """A node: its name, with the modules that it stands in before slashes; operation; names of what it reads; shapes of its results."""

    name: str
    operation: str
    inputs: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]


class _Scopes:
    """Notes, while it is entered, in which module each call of a recording is made."""

    def __init__(self, model: Module, recording: Recording) -> None:
        self.model, self.recording = model, recording
        self.stack: list[str] = []
        self.notes: list[tuple[int, str]] = []  # from this call on, this scope
        self.hooks: list[Any] = []

    def __enter__(self) -> _Scopes:
        for name, module in self.model.named_modules():
            own = f"{type(module).__name__}[{name.rpartition('.')[2]}]" if name else type(module).__name__
            self.hooks.append(module.register_forward_pre_hook(lambda *_, own=own: self.enter(own)))
            self.hooks.append(module.register_forward_hook(lambda *_: self.leave()))
        return self

    def __exit__(self, *exception: object) -> None:
        for hook in self.hooks:
            hook.remove()

    def enter(self, name: str) -> None:
        self.stack.append(name)
        self.note()

    def leave(self) -> None:
        self.stack.pop()
        self.note()

    def note(self) -> None:
        self.notes.append((len(self.recording), "/".join(self.stack)))

    def of(self, call: int) -> str:
        """The modules that a call stands in."""
        return next((scope for begin, scope in reversed(self.notes) if begin <= call), "")


def drawn(model: Module, args: Sequence[Any]) -> list[Drawn]:
    """The leaves that a call of the model runs, its inputs, parameters and results, in an order in which each stands behind what it reads.

    >>> import flambeau as torch
    >>> from flambeau.graph.scopes import drawn
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh())
    >>> [node.name for node in drawn(model, (torch.ones(1, 2),))]
    ['input_0', 'weight/0.weight', 'weight/0.bias', 'Sequential/Linear[0]/linear', 'Sequential/Tanh[1]/tanh', 'output_0']
    """
    tensors: list[TensorBase] = []
    mapped(tuple(args), TensorBase, tensors.append)
    weights = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    with no_grad(), Recording() as recording, _Scopes(model, recording) as scopes:
        result = model(*args)
    graph = graph_of(recording, [*tensors, *weights.values()], result)
    given = [f"input_{k}" for k in range(len(tensors))] + [f"weight/{name}" for name in weights]
    return list(_nodes(graph.graph.nodes, iter(given), scopes))


def _nodes(nodes: Any, given: Iterator[str], scopes: _Scopes) -> Iterator[Drawn]:
    names: dict[Node, str] = {}
    for node in nodes:
        places: list[Place] = []
        mapped(node.meta.get("places"), Place, places.append)
        inputs = tuple(dict.fromkeys(names[n] for n in node.all_input_nodes))
        shapes = tuple(p.shape for p in places)
        if node.op == "output":
            results: list[Node] = []
            mapped(node.args[0], Node, results.append)
            for k, n in enumerate(results):
                yield Drawn(f"output_{k}", "Output", (names[n],), (n.meta["places"].shape,))
            continue
        if node.op == "placeholder":
            name = names[node] = next(given)
            if node.users:
                yield Drawn(name, "Parameter" if name.startswith("weight/") else "Input", (), shapes)
            continue
        scope = scopes.of(node.meta["call"]) if "call" in node.meta else ""
        names[node] = f"{scope}/{node.name}" if scope else node.name
        operation = (
            "Constant" if node.op == "get_attr" else getattr(node.target, "__name__", str(node.target))
        )
        yield Drawn(names[node], operation, inputs, shapes)


set_callback("drawn", drawn)
