"""Operations that are functions of whole tensors: how they are called, and their derivatives as formulas over tensors."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..core import tape
from ..core.base.labels import backward_name
from ..core.base.tensor import TensorBase
from ..core.call.function import FunctionOp
from ..core.make.create import zeros
from ._bodies import place_of


def called(
    name: str, results: int, parameters: str, handed: str, run: Callable, **names_in_scope: Any
) -> Any:
    """The operation `def name(parameters): return run(handed)`; `names_in_scope` are values that the parameters name as defaults.

    One of one result takes `out=`, a tensor apart.
    """
    space: dict[str, Any] = {"_run_kernel": run, **names_in_scope}  # a name that no parameter has
    exec(f"def {name}({parameters}):\n    return _run_kernel({handed})", space)
    return FunctionOp(space[name], name, out=results == 1)


def numbers_of(names: Sequence[str], defaults: Sequence[Any]) -> tuple[str, dict[str, Any]]:
    """How parameters after `*` are spelled, the last of which have defaults, and what the spelling names."""
    first = len(names) - len(defaults)
    namespace = {f"_default_of_{n}": d for n, d in zip(names[first:], defaults)}
    return ", ".join([*names[:first], *(f"{n}=_default_of_{n}" for n in names[first:])]), namespace


def mapped_rows(operands: Sequence[str]) -> Callable:
    """How `vmap` maps an operation along rows: one call on all slices, its dimensions counted behind theirs."""

    def rule(level: Any, op: Any, args: list, kwargs: dict, running: Any) -> Any:
        from ..func._rules import looped, mapped, parameters, shifted
        from ..func._rules import with_rank as with_slices

        declared = parameters(op)
        bound = declared.bind(args, kwargs)
        if bound.get("out") is not None:
            return looped(level, op, args, kwargs, running)
        rank = max(bound[n].ndim for n in operands)
        most = max(rank, 1)
        bound.update({n: with_slices(level, bound[n], most) for n in operands})
        dim = bound.get("dim")
        bound["dim"] = tuple(range(1, most + 1)) if dim is None or dim == () else shifted(dim, rank)
        result = declared.call(op, bound)
        return level.wrapped(result if rank else mapped(result, lambda t: t.squeeze(1) if t.ndim > 1 else t))

    return rule


class Derivative:
    """The gradients of an operation as a function of tensors, which names what it reads."""

    def __init__(self, who: str, name: str, operands: Sequence[str], numbers: Sequence[str], results: int):
        self.who, self.name, self.operands, self.numbers = who, name, tuple(operands), tuple(numbers)
        self.results = results
        self.formula: Callable | None = None
        self.automatic: Callable | None = (
            None  # the gradients of (grads, operands, numbers) where nobody declared others
        )
        self.wanted: tuple[str, ...] = ()

    def declare(self, formula: Callable) -> Callable:
        """Declare the gradients: a function of `grad` (or `grads`), operands, `out` (or `outs`) and numbers, by name, that returns
        a tensor or None for each operand.
        """
        allowed = ("grad", "grads", "out", "outs", *self.operands, *self.numbers)
        for p in inspect.signature(formula).parameters.values():
            if p.name not in allowed or p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
                raise TypeError(
                    f"{self.who}: the derivative takes '{p.name}'; it may name {', '.join(allowed)}"
                )
        check_shadows(self.who, self.operands, inspect.signature(formula).parameters)
        self.wanted = tuple(inspect.signature(formula).parameters)
        self.formula = formula
        return formula

    def record(
        self, tensors: Sequence[TensorBase], outs: tuple[TensorBase, ...], numbers: Mapping[str, Any]
    ) -> None:
        """Put a call on the tape, where it is to be there, keeping what the formula names."""
        if not tape.tracked(*tensors):
            return
        operands = dict(zip(self.operands, tensors))
        wanted = self.operands if self.formula is None and self.automatic is not None else self.wanted
        saved_names = [n for n in wanted if n in operands]
        saved = [operands[n] for n in saved_names]
        if "out" in self.wanted or "outs" in self.wanted:
            saved += outs
        shapes = tuple((t.shape, t.dtype, t.device) for t in tensors)
        made = tuple((t.shape, t.dtype, t.device) for t in outs)

        def formula(arrived: Any, *saved_tensors: TensorBase) -> Any:
            return self.gradients(arrived, saved_names, saved_tensors, numbers, shapes, made)

        tape.record(
            backward_name(self.name),
            formula,
            tuple(tensors),
            outs if len(outs) > 1 else outs[0],
            tuple(saved),
        )

    def gradients(
        self, arrived: Any, saved_names: list, saved: tuple, numbers: Mapping, shapes: tuple, made: tuple
    ) -> list:
        if self.formula is None and self.automatic is None:
            raise RuntimeError(
                f"{self.who} has no derivative: declare one with @{self.name}.derivative, or call it under no_grad"
            )
        arrived = arrived if isinstance(arrived, tuple) else (arrived,)
        grads = tuple(
            zeros(shape, dtype=dtype, device=device) if g is None else g
            for g, (shape, dtype, device) in zip(arrived, made)
        )
        if self.formula is None:
            return self.automatic(grads, saved, numbers)  # type: ignore[misc]
        outs = saved[len(saved_names) :]
        values = {**dict(zip(saved_names, saved)), **numbers, "grad": grads[0], "grads": grads}
        if outs:
            values.update(out=outs[0], outs=outs)
        result = self.formula(**{n: values[n] for n in self.wanted})
        result = list(result) if isinstance(result, (tuple, list)) else [result]
        where = f"{self.who}: its derivative ({':'.join(map(str, place_of(self.formula)))})"
        if len(result) != len(shapes):
            raise RuntimeError(
                f"{where} must return {len(shapes)} gradients, one (or None) for each operand, and returned {len(result)}"
            )
        for operand, g, (shape, dtype, device) in zip(self.operands, result, shapes):
            if g is not None:
                check_made(f"{where} for '{operand}'", g, shape, dtype, device)
        return result


def check_shadows(who: str, operands: Sequence[str], names: Iterable[str]) -> None:
    """TypeError where a derivative names what could be an operand or what arrives at, or came out of, the operation."""
    for n in names:
        if n in operands and n in ("grad", "grads", "out", "outs"):
            raise TypeError(
                f"{who}: the derivative takes '{n}', which is an operand's name, too: rename the operand"
            )


def check_made(where: str, result: Any, shape: Any, dtype: Any, device: Any) -> None:
    """RuntimeError where something is not a tensor of that shape, dtype and device."""
    if not isinstance(result, TensorBase):
        raise RuntimeError(f"{where} must return tensors, and returned a {type(result).__name__}")
    for what, wanted, got in (
        ("shape", tuple(shape), tuple(result.shape)),
        ("dtype", dtype, result.dtype),
        ("device", device, result.device),
    ):
        if wanted != got:
            raise RuntimeError(
                f"{where} must return a tensor of {what} {wanted}, and returned one of {what} {got}"
            )
