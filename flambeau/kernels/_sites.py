"""Gradients of kernels that read computed places: what an element was read for is added where it was read."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..codegen import differentiate
from ..codegen import expr as ex
from ..codegen import indexed as ix
from ..codegen.expr import Expr
from ..core.base.dtypes import by_name
from ..core.base.tensor import TensorBase
from ..core.call.copies import to_dtype
from ..core.make.create import zeros
from ..core.tape.contexts import unrecorded
from ..operations.declare.indexed import At, Indexed, Operand
from ..operations.declare.pointwise import compute_dtype


class Sites:
    """For each place in a body where an element of an operand is read, a kernel that adds its gradient there."""

    def __init__(
        self,
        trace: Callable,
        name: str,
        operands: Sequence[str],
        numbers: Sequence[str],
        static: frozenset[str],
    ):
        self.trace, self.name, self.operands, self.static = trace, name, tuple(operands), static
        self.numbers = tuple(numbers)
        self.kernels: dict[tuple[int, int, int], Indexed] = {}
        self.cache: dict[Any, list[list[bool]]] = {}

    def gradients(
        self, grads: Sequence[TensorBase], tensors: Sequence[TensorBase], numbers: Mapping[str, Any]
    ) -> list[TensorBase | None]:
        """The gradient of each floating-point operand, without history."""
        axes = tuple(grads[0].shape)
        result: list[TensorBase | None] = []
        with unrecorded():
            smooth = [g for g in grads if g.is_floating_point()]
            for n, (x, sites) in enumerate(zip(tensors, self.sites(len(axes), tensors, numbers, len(grads)))):
                if not x.is_floating_point():
                    result.append(None)
                    continue
                total = zeros(x.shape, dtype=by_name[compute_dtype(x.dtype.name)], device=x.device)
                for k, apart in enumerate(sites):
                    kernel = self.kernel(n, k, len(smooth))
                    kernel.into(total, axes, *smooth, *tensors, serial=0 if apart else len(axes), **numbers)
                result.append(to_dtype(total, x.dtype))
        return result

    def sites(
        self, axes: int, tensors: Sequence[TensorBase], numbers: Mapping[str, Any], results: int
    ) -> list[list[bool]]:
        """For each operand, whether each of its sites reads another element at every place."""
        fixed = tuple((n, v) for n, v in numbers.items() if n in self.static)
        key = axes, tuple((t.ndim, t.dtype) for t in tensors), fixed
        if key not in self.cache:
            at = At(ix.coordinates(axes, "int64"))
            at.integer = "int64"
            arrays = [Operand(k, t.dtype.name, t.ndim, "int64") for k, t in enumerate(tensors)]
            scalars = {
                n: v if n in self.static else ex.param(k, "int64" if isinstance(v, int) else "float64")
                for k, (n, v) in enumerate(numbers.items())
            }
            result = self.trace(at, *arrays, **scalars)
            grads = [ex.input(k, r.dtype) for k, r in enumerate(result)]
            loads = _loads(result)
            differentiate.gradients(result, grads, loads)  # TypeError where there is no rule
            self.cache[key] = [
                [_is_injective(e, axes) for e in loads if e.value == k] for k in range(len(tensors))
            ]
        return self.cache[key]

    def kernel(self, operand: int, site: int, results: int) -> Indexed:
        """The kernel that adds what reaches the elements read at a site of an operand."""
        key = operand, site, results
        if key not in self.kernels:
            self.kernels[key] = Indexed(_Adding(self, *key), sorted(self.static), (), (None,), 8, True)
        return self.kernels[key]


class _Adding:
    """The body of such a kernel."""

    def __init__(self, sites: Sites, operand: int, site: int, results: int):
        self.sites, self.operand, self.site, self.results = sites, operand, site, results
        self.__name__, self.__doc__ = f"{sites.name}_backward", "What reaches an operand."
        kind = inspect.Parameter
        names = ("at", "out", *(f"grad{k}" for k in range(results)), *sites.operands)
        parameters = [kind(n, kind.POSITIONAL_OR_KEYWORD) for n in names]
        parameters += [kind(n, kind.KEYWORD_ONLY) for n in sites.numbers]
        self.__signature__ = inspect.Signature(parameters)

    def __call__(self, at: At, out: Operand, *tensors: Operand, **numbers: Any) -> ix.Store:
        grads, operands = tensors[: self.results], tensors[self.results :]
        results = [r for r in self.sites.trace(at, *operands, **numbers) if ex.is_float(r.dtype)]
        loads = _loads(results)
        here = [e for e in loads if e.value == operands[self.operand].number][self.site]
        arriving = [ex.cast(g.load(tuple(at)), r.dtype) for g, r in zip(grads, results)]
        reached = differentiate.gradients(results, arriving, loads)[loads.index_of(here)]
        *places, valid = here.args
        value = ex.const(0.0, out.dtype) if reached is None else ex.cast(reached, out.dtype)
        if not _always(valid):
            value = ex.where(valid, value, ex.like(value, 0.0))
            places = [ex.where(valid, i, ex.like(i, 0)) for i in places]
        return out.store(places, value, "add")


class _Loads(list):
    """Expressions, found by identity."""

    def index_of(self, e: Expr) -> int:
        return next(k for k, x in enumerate(self) if x is e)


def _loads(results: Sequence[Expr]) -> _Loads:
    return _Loads(e for e in ex.walk(results) if e.op == "load" and ex.is_float(e.dtype))


def _always(valid: Expr) -> bool:
    return valid.op == "const" and bool(valid.value)


def _is_injective(load: Expr, axes: int) -> bool:
    """Whether different places of the result read different elements: each coordinate is there, moved by what is the same for all.

    Places outside of the operand add nothing to its first element, and so meet there.
    """
    *places, valid = load.args
    return _always(valid) and {_moved(i) for i in places} >= set(range(axes))


def _moved(i: Expr) -> int | None:
    """The axis whose coordinate this is, but for a distance that is the same everywhere."""
    if i.op == "coordinate":
        return i.value
    if i.op in ("cast", "checked"):
        return _moved(i.args[0])
    if i.op in ("add", "sub"):
        first, second = i.args
        if _is_fixed(second):
            return _moved(first)
        return _moved(second) if i.op == "add" and _is_fixed(first) else None
    return None


def _is_fixed(i: Expr) -> bool:
    return all(e.op not in ("coordinate", "load", "turn", "loop") for e in ex.walk([i]))
