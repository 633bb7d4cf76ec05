"""Derivatives inside of a mapped function: those of the elements of all slices."""

from __future__ import annotations

from typing import Any

from ..autograd import forward_ad
from ..autograd.gradients import grad
from ..core import tape
from ..core.base.callbacks import set_callback
from ..core.base.tensor import TensorBase
from ._batched import Level, broadcast_over, innermost, running_levels
from ._rules import operation


def _of_all_slices(x: TensorBase) -> TensorBase:
    """A tensor inside of the functions that run now, its elements apart for each slice."""
    return broadcast_over(x, running_levels())


def gradients(
    outputs: list,
    inputs: list,
    seeds: list | None,
    *,
    retain_graph: bool | None,
    create_graph: bool,
    allow_unused: bool | None,
    materialize_grads: bool,
) -> tuple:
    """`autograd.grad` where some tensors are batched.

    Elements of inputs that are apart for each slice get their gradients from all outputs at once, for slices do not depend on
    each other.  Others, which the slices share, are queried one slice after the other.
    """
    given = [None] * len(outputs) if seeds is None else seeds
    level = innermost([*outputs, *inputs, *given])
    assert level is not None
    options: dict[str, Any] = {
        "create_graph": create_graph,
        "allow_unused": True if materialize_grads else allow_unused,
    }
    retain = create_graph if retain_graph is None else retain_graph
    own = [k for k, x in enumerate(inputs) if level.inside(x) is not None]
    shared = [k for k, x in enumerate(inputs) if level.inside(x) is None]
    result: list[Any] = [None] * len(inputs)
    roots = [level.broadcast(o) for o in outputs]
    sent = [_seed(level, o, s) for o, s in zip(outputs, given)]
    plain = not own and not any(getattr(x, "_is_batched", False) for x in (*outputs, *inputs))
    if plain and shared:
        result = _of_all_seeds(level, outputs, inputs, given, retain, create_graph)
        if not materialize_grads and not allow_unused and any(g is None for g in result):
            grad(outputs, inputs, [s[0] for s in sent], retain_graph=True, **options)  # raises
    elif shared:
        columns = []
        for k in range(level.size):
            last = k == level.size - 1 and not own
            columns.append(
                grad(
                    [o if level.inside(o) is None else r[k] for o, r in zip(outputs, roots)],
                    [inputs[i] for i in shared],
                    [s[k] for s in sent],
                    retain_graph=retain or not last,
                    **options,
                )
            )
        for i, column in zip(shared, zip(*columns)):
            result[i] = None if column[0] is None else level.tensor(operation("stack")(list(column)))
    if own:
        answers = grad(roots, [level.inside(inputs[i]) for i in own], sent, retain_graph=retain, **options)
        for i, g in zip(own, answers):
            result[i] = None if g is None else level.tensor(g)
    if materialize_grads:
        result = [x.new_zeros(x.shape) if g is None else g for g, x in zip(result, inputs)]
    return tuple(result)


def _of_all_seeds(
    level: Level, outputs: list, inputs: list, seeds: list, retain: bool, create_graph: bool
) -> list:
    """One backward pass with batched gradients, through what was recorded outside of the mapped function."""
    kept = [k for k, o in enumerate(outputs) if o.requires_grad]
    roots = [outputs[k] for k in kept]
    sent: list[Any] = [level.tensor(_seed(level, outputs[k], seeds[k])) for k in kept]
    sent = [s if s.dtype == o.dtype else s.to(o.dtype) for s, o in zip(sent, roots)]
    result = tape.run_backward(
        roots, sent if create_graph else [s.detach() for s in sent], retain, create_graph, inputs, False
    )
    return [None if g is None else level.tensor(level.broadcast(g)) for g in result]


def _seed(level: Level, output: Any, seed: Any) -> TensorBase:
    """The gradients of an output to send back, for all slices."""
    if seed is None:
        if output.numel() != 1:
            raise RuntimeError(
                f"grad(): grad can be implicitly created only for scalar outputs, got shape {tuple(output.shape)}"
            )
        elements = level.broadcast(output)
        return elements.new_ones(elements.shape)
    if tuple(seed.shape) != tuple(output.shape):
        raise RuntimeError(
            f"Mismatch in shape: grad_output has a shape of {tuple(seed.shape)} and output has a shape of {tuple(output.shape)}."
        )
    return level.broadcast(seed)


def _make_dual(primal: Any, tangent: Any, of: Any) -> TensorBase:
    level = innermost((primal, tangent))
    assert level is not None
    return level.tensor(forward_ad.dual(level.broadcast(primal), level.broadcast(tangent), of))


def _unpack_dual(x: Any, of: Any) -> tuple:
    primal, tangent = forward_ad.parts(x._elements, of)
    return x._with(primal), None if tangent is None else x._with(tangent)


def record(
    label: str, formula: Any, inputs: tuple, outputs: Any, saved: tuple, extra: tuple, written: Any
) -> None:
    """`tape.record` where some tensors are batched: a node of their elements, whose formula runs on batched tensors."""
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    level = innermost([*inputs, *outputs, *saved])
    assert level is not None
    many = len(outputs) > 1  # the node holds neither its results nor what holds them
    ours = [[level.inside(t) is not None for t in column] for column in (inputs, outputs, saved)]

    def inner(tensors: tuple) -> tuple:
        return tuple(t if (e := level.inside(t)) is None else e for t in tensors)

    def outer(tensors: Any, batched: list[bool]) -> list:
        return [level.tensor(t) if b and t is not None else t for t, b in zip(tensors, batched)]

    def of_elements(grads: Any, *kept: Any) -> list:
        given = outer(grads if many else (grads,), ours[1])
        result = formula(tuple(given) if many else given[0], *outer(kept, ours[2]), *extra)
        result = result if isinstance(result, (tuple, list)) else [result]
        return [gathered(level, g, b) for g, b in zip(result, ours[0])]

    tape.record(
        label,
        of_elements,
        inner(inputs),
        inner(outputs) if many else inner(outputs)[0],
        inner(saved),
        (),  # `extra` may hold batched tensors, and a backward pass shows what it calls with
        None if written is None else inner((written,))[0],
    )


def gathered(level: Level, grad: Any, batched: bool) -> Any:
    """The gradient of an input's elements: of all slices, or, for an input that they share, summed over them."""
    if grad is None:
        return None
    if batched:
        return level.broadcast(grad)
    inside = level.inside(grad)
    return grad * level.size if inside is None else inside.sum(0)


set_callback("record of slices", record)
set_callback("tensor of all slices", _of_all_slices)
set_callback("gradients of slices", gradients)
set_callback("dual tensor of slices", _make_dual)
set_callback("parts of a dual tensor of slices", _unpack_dual)
