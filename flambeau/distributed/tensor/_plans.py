"""Sharding choices of calls that come again: a mesh keeps what it was decided for them, so that a repeated call only computes.

A plan depends on the operation, on placements, shape, strides and dtype of each operand, on the other arguments, and on the settings that
change results.  It holds no operand and no mesh, so it keeps neither alive.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from types import EllipsisType, NoneType
from typing import Any, NamedTuple

from ...core.base.dtypes import get_default_dtype
from ...core.base.tensor import TensorBase
from ._call import Call
from ._dtensor_spec import DTensorSpec

LIMIT = 2048  # plans of one mesh; the oldest goes

_VALUES = {int, bool, str, NoneType, EllipsisType, type(get_default_dtype())}


class Key(NamedTuple):
    """What a plan depends on, the mesh that keeps it, and the operands in the order in which they stand in the call."""

    value: tuple[Any, ...]
    mesh: Any
    operands: list[Any]


def key_of(op: Any, args: tuple, kwargs: dict[str, Any], parallel_loss: bool) -> Key | None:
    """The key of a call; None where an argument is of a type that is not compared, or not all operands are on one mesh."""
    operands: list[Any] = []
    # Of a thread, as a rule notes in its call how operands lie.
    parts: list[Any] = [
        op,
        op.__dict__.get("sharding_rule") if hasattr(op, "__dict__") else getattr(op, "sharding_rule", None),
        get_default_dtype(),
        parallel_loss,
        threading.get_ident(),
    ]
    for x in args:
        if not _enter(x, parts, operands):
            return None
    for name, x in kwargs.items():
        parts.append(name)
        if not _enter(x, parts, operands) or (name == "out" and x is not None):
            return None
    mesh = operands[0]._spec.mesh if operands else None
    if mesh is None or mesh.get_coordinate() is None or any(x._spec.mesh is not mesh for x in operands):
        return None
    return Key(tuple(parts), mesh, operands)


def _enter(x: Any, parts: list[Any], operands: list[Any]) -> bool:
    """Add an argument to a key; whether it can be."""
    kind = type(x)
    if isinstance(x, TensorBase):
        spec = getattr(x, "_spec", None)
        if spec is None:
            return False
        operands.append(x)
        parts.append(spec.key)
    elif kind in _VALUES:
        parts += (kind, x)
    elif kind is float or kind is complex:
        parts += (kind, repr(x))  # -0.0 is not 0.0 here
    elif kind is slice:
        parts.append(kind)
        return all(_enter(y, parts, operands) for y in (x.start, x.stop, x.step))
    elif isinstance(x, (tuple, list)):
        parts += (kind, len(x))
        return all(_enter(y, parts, operands) for y in x)
    else:
        return False
    return True


class Plan:
    """What was decided for a call.

    outline: its results without data.
    targets: placements that operands are brought to, None for those that lie so.
    results: placements, meta and the shape of this process's piece, of each result.
    direct: whether the operation computes the pieces from the arguments as they stand.
    """

    def __init__(
        self,
        call: Call,
        outline: Any,
        operands: Sequence[DTensorSpec],
        inputs: Sequence[DTensorSpec],
        specs: Sequence[DTensorSpec],
    ) -> None:
        self.call, self.outline, self.writes = call, outline, bool(call.op.writes)
        self.targets = [
            None if a.placements == b.placements else b.placements for a, b in zip(operands, inputs)
        ]
        self.results = [(spec.placements, spec.tensor_meta, spec.local_shape) for spec in specs]
        direct = call.compute is None and call.adjust is None
        self.direct = direct and set(call.names) <= {*call.parameters.names, call.parameters.rest}

    def bound(self, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
        parameters = self.call.parameters
        bound = parameters.bind(list(args), kwargs)
        order = [n for n in (*parameters.names, parameters.rest, *parameters.named) if n in bound]
        return {name: bound[name] for name in (*order, *bound)}

    def compute(self, local: dict[str, Any], operands: Sequence[Any], specs: list[DTensorSpec]) -> Any:
        """The pieces of results."""
        call = self.call
        call.inputs = [
            x._spec if target is None else x._spec.placed(target) for x, target in zip(operands, self.targets)
        ]
        try:
            if call.adjust is not None:
                local = call.adjust(local, specs)
            return (
                call.parameters.call(call.op, local) if call.compute is None else call.compute(local, specs)
            )
        finally:
            call.inputs = []


def keep(key: Key, plan: Plan) -> None:
    """Enter a plan."""
    plans = key.mesh._sharding_plans
    while len(plans) >= LIMIT:
        plans.pop(next(iter(plans)), None)
    plans[key.value] = plan
