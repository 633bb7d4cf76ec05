"""Functions of scores and masks, written in Python, as expressions that kernels are made of.

A function is called once, with 0-dim tensors that hold an expression in place of a number.  A mode sees every operation that it
calls with them: a pointwise one gives the expression that its declaration gives, a composite gives its parts, a tensor
indexed by places becomes an element to read.  Everything else is refused by name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from ..._tensor import Tensor
from ...codegen import expr as ex
from ...codegen.expr import Expr
from ...core.base.dtypes import DEVICE_TYPES, by_name
from ...core.base.dtypes import device as device_of
from ...core.base.tensor import TensorBase
from ...core.call.interceptors import Mode, _disabled_torch_function_impl
from ...core.call.operands import common_dtype
from ...core.call.operation import behind
from ...core.make.create import empty
from ...operations.declare.pointwise import CODES, Pointwise, compute_dtype
from ...operations.neural.attention.programs import PLACES, Program, element, symbol

_FIRST, _SECOND = ("input", "self", "x", "x1", "a"), ("other", "x2")  # spellings of operands


class Traced(Tensor):
    """A 0-dim tensor whose number is known when the kernel runs."""

    __torch_function__ = _disabled_torch_function_impl  # a mode sees it, nobody else asks

    expr: Expr
    tracer: Tracer

    device: Any = property(lambda self: self.tracer.place)  # where the kernel runs
    is_meta: Any = property(lambda self: False)

    def __bool__(self) -> bool:
        raise self.tracer.unknown("bool()", "use torch.where and &, |, ~ in place of if, and, or, not")

    def __int__(self) -> int:
        raise self.tracer.unknown("int()", "keep it a tensor")

    def __float__(self) -> float:
        raise self.tracer.unknown("float()", "keep it a tensor")

    def __index__(self) -> int:
        raise self.tracer.unknown("an index of a list or a range()", "capture a tensor and index that")

    def __iter__(self):
        raise self.tracer.unknown("iteration", "it is a 0-dim tensor")


class Part(Tensor):
    """A captured tensor with places for its first dimensions: the next ones are still to come."""

    __torch_function__ = _disabled_torch_function_impl

    whole: TensorBase
    at: tuple[Expr, ...]
    tracer: Tracer


class Tracer(Mode):
    """What a function does with traced tensors, while it is on."""

    upper = True

    def __init__(self, name: str, place: Any):
        self.name, self.place = name, place
        self.captures: list[TensorBase] = []

    def check_own(self, x: Traced | Part) -> None:
        """RuntimeError for what another trace has left behind."""
        if x.tracer is not self:
            raise RuntimeError(
                f"{self.name}: a traced value of another call ({x.tracer.name}) is used, which means something only while its own "
                "function is traced"
            )

    # --- values ---
    def value(self, expr: Expr, dtype: str) -> Traced:
        """A traced tensor of that dtype; half types are float32 in expressions."""
        made = empty((), dtype=by_name[dtype], device="meta").as_subclass(Traced)
        made.expr, made.tracer = ex.cast(expr, compute_dtype(dtype)), self
        return made

    def captured(self, tensor: TensorBase, at: Sequence[Expr] = ()) -> Traced:
        """An element of a tensor that the function found around it."""
        number = next((k for k, c in enumerate(self.captures) if c is tensor), len(self.captures))
        if number == len(self.captures):
            if tensor.is_complex():
                raise self.refused("a complex tensor")
            self.captures.append(tensor)
        return self.value(element(number, at, tensor.dtype.name), tensor.dtype.name)

    def operand(self, x: Any, name: str) -> Traced | Any:
        """An argument of a pointwise operation."""
        if isinstance(x, Traced):
            return x
        if isinstance(x, TensorBase):
            if x.ndim or isinstance(x, Part):
                raise self.refused(name, f"with a tensor of shape {tuple(x.shape)}: index it by places first")
            return self.captured(x)
        return x

    def refused(self, what: str, how: str = "") -> RuntimeError:
        return RuntimeError(
            f"{self.name}: {what}{' ' + how if how else ''} cannot be part of an attention kernel"
        )

    def unknown(self, what: str, instead: str) -> RuntimeError:
        return RuntimeError(
            f"{self.name}: {what} of a score or of a place, whose value is not known while the function is traced: {instead}"
        )

    # --- calls ---
    def handle(self, operation: Any, types: tuple, args: tuple, kwargs: dict) -> Any:
        operation = behind(operation)
        name = getattr(operation, "__name__", str(operation))
        given = [*args, *kwargs.values()]
        flat = [y for x in given for y in (x if isinstance(x, (tuple, list)) else (x,))]
        traced = [x for x in flat if isinstance(x, (Traced, Part))]
        if not traced:
            return self.untraced(operation, args, kwargs, flat)
        for x in traced:
            self.check_own(x)
        if name == "__getitem__":
            return self.indexed(*args)
        entry = getattr(operation, "entry", None)
        kind = "" if entry is None else entry.kind
        if entry is not None and operation is entry.in_place:
            return self.written(entry.function, name, args, kwargs)
        declared = getattr(operation, "declaration", None)
        if isinstance(declared, Pointwise):
            return self.pointwise(name, declared, args, kwargs)
        if kind == "creation" and operation.like:
            return self.filled(operation, name, args, kwargs)
        if name == "item":
            raise self.unknown("item()", "keep it a tensor")
        if name == "detach" or kind in ("copy", "conversion"):
            return self.converted(operation, name, args, kwargs)
        result = self.decompose(operation, args, kwargs)
        if result is NotImplemented:
            raise self.refused(f"the operation {name}")
        return result

    def untraced(self, operation: Any, args: tuple, kwargs: dict, flat: list) -> Any:
        """A call without traced arguments is run; a number that it makes of numbers alone is a constant."""
        result = operation(*args, **kwargs)
        alone = not any(isinstance(x, TensorBase) for x in flat)
        if alone and isinstance(result, TensorBase) and result.ndim == 0 and not result.requires_grad:
            if not result.is_meta and not result.is_complex():
                kind = result.dtype.name
                return self.value(ex.const(result.item(), compute_dtype(kind)), kind)
        return result

    def written(self, plain: Callable, name: str, args: tuple, kwargs: dict) -> Traced:
        """A write in place: the tensor holds another expression from then on."""
        target = args[0] if args else None
        if not isinstance(target, Traced):
            raise self.refused(f"the write of {name} to a captured tensor")
        with self:
            result = plain(*args, **kwargs)
        target.expr = ex.cast(result.expr, target.expr.dtype)
        return target

    def pointwise(self, name: str, declared: Pointwise, args: tuple, kwargs: dict) -> Any:
        """The expression that a declaration makes of its operands."""
        names = (*declared.operands, *declared.params)
        bound = dict(zip(names, args))
        for key, x in kwargs.items():
            if key not in names:
                spelled = (
                    names[0] if key in _FIRST else names[1] if key in _SECOND and len(names) > 1 else None
                )
                if spelled is None or key == "out":
                    raise self.refused(f"the argument '{key}' of {name}")
                key = spelled
            bound[key] = x
        operands = [self.operand(bound[n], name) for n in declared.operands]
        typed = [x for n, x in zip(declared.operands, operands) if n not in declared.raw]
        code = CODES[common_dtype(typed or operands).name]
        inputs = [(CODES[x.dtype.name], 0) if isinstance(x, Traced) else (code, 3) for x in operands]
        if declared.alike or declared.refused:
            declared.check_operands(inputs)
        common = declared.common(code)
        given = []
        for x, seen in zip(operands, declared.operand_dtypes(inputs, common)):
            given.append(ex.cast(x.expr, seen) if isinstance(x, Traced) else ex.const(x, seen))
        if declared.rounded:
            given = [ex.cast(ex.cast(x, common), x.dtype) for x in given]
        working = compute_dtype(common)
        params = []
        if declared.params:
            known = inspect.signature(declared.op).parameters  # type: ignore[arg-type]
            values = [bound[n] if n in bound else known[n].default for n in declared.params]
            params = [ex.const(float(x), "float64") for x in values]
        results = declared.trace(given, [ex.cast(p, ex.part(working)) for p in params])
        if any(ex.is_complex(r.dtype) for r in results):
            raise self.refused(f"the complex result of {name}")
        made = []
        for k, r in enumerate(results):
            kept = declared.keeps[k] if declared.keeps else None
            if kept is not None and isinstance(operands[kept], Traced):
                memory = operands[kept].dtype.name
            else:
                memory = common if r.dtype == working else r.dtype
            made.append(self.value(ex.cast(r, memory), memory))
        return made[0] if len(made) == 1 else tuple(made)

    def filled(self, operation: Any, name: str, args: tuple, kwargs: dict) -> Any:
        """A constant of a traced tensor's dtype, or of the one requested."""
        wanted = {k: v for k, v in kwargs.items() if k not in ("device", "pin_memory", "requires_grad")}
        numbers = [x for x in (*args[1:], *wanted.values()) if isinstance(x, TensorBase)]
        twin = empty((), dtype=args[0].dtype, device="meta" if numbers else "cpu")
        made = operation(twin, *args[1:], **wanted)
        if made.ndim:
            raise self.refused(f"the tensor of shape {tuple(made.shape)} that {name} makes")
        kind = made.dtype.name
        if numbers:  # what it is filled with
            return self.value(self.operand(numbers[0], name).expr, kind)
        return self.value(ex.const(made.item(), compute_dtype(kind)), kind)

    def converted(self, operation: Any, name: str, args: tuple, kwargs: dict) -> Any:
        """The same number, perhaps as another dtype."""
        first = args[0]
        if not isinstance(first, Traced):
            if name != "type_as":
                raise self.refused(
                    f"the operation {name}", "of a captured tensor with a place as its argument"
                )
            return first.to(args[1].dtype)
        if name == "detach":
            return self.value(ex.make("constant", (first.expr,), first.expr.dtype), first.dtype.name)
        if name in DEVICE_TYPES:
            raise self.refused(f"the move {name}()")
        twin = empty((), dtype=first.dtype, device="meta")

        def like(x: Any) -> Any:
            return empty((), dtype=x.dtype, device="meta") if isinstance(x, TensorBase) else x

        rest = [like(x) for x in args[1:]]
        wanted = {k: like(v) for k, v in kwargs.items() if k != "device"}
        rest = [x for x in rest if not isinstance(x, (str, device_of)) or x == "meta"]
        result = operation(twin, *rest, **wanted) if rest or wanted or name not in ("to",) else twin
        if not isinstance(result, TensorBase):
            raise self.refused(f"the operation {name}")
        kind = result.dtype.name
        if ex.is_complex(kind):
            raise self.refused(f"the complex result of {name}")
        return self.value(ex.cast(ex.cast(first.expr, first.dtype.name), kind), kind)

    def indexed(self, tensor: TensorBase, index: Any) -> Any:
        """An element of a captured tensor, or the part that one is taken of later."""
        places = index if isinstance(index, tuple) else (index,)
        if isinstance(tensor, Traced):
            if all(p is Ellipsis for p in places):
                return tensor
            raise IndexError(f"{self.name}: too many indices for a tensor of dimension 0")
        whole, at = (tensor.whole, list(tensor.at)) if isinstance(tensor, Part) else (tensor, [])
        missing = whole.ndim - len(at) - sum(p is not Ellipsis for p in places)
        if missing < 0:
            raise IndexError(
                f"{self.name}: too many indices for a captured tensor of dimension {whole.ndim}: {len(at) + len(places)}"
            )
        for p in places:
            d = len(at)
            if p is Ellipsis:
                if missing:
                    raise self.refused("indexing with ... that stands for dimensions")
            elif isinstance(p, TensorBase):
                p = self.operand(p, "indexing")
                if ex.is_float(p.expr.dtype) or p.expr.dtype == "bool":
                    raise IndexError(
                        f"{self.name}: tensors used as indices must be of an integer type here, got {p.dtype}"
                    )
                at.append(p.expr)
            elif isinstance(p, int) and not isinstance(p, bool):
                size = whole.shape[d]
                if not -size <= p < size:
                    raise IndexError(
                        f"{self.name}: index {p} is out of bounds for dimension {d} with size {size}"
                    )
                at.append(ex.const(p % size, "int64"))
            else:
                raise self.refused(f"indexing with {type(p).__name__}")
        if len(at) == whole.ndim:
            return self.captured(whole, at)
        made = empty(whole.shape[len(at) :], dtype=whole.dtype, device="meta").as_subclass(Part)
        made.whole, made.at, made.tracer = whole, tuple(at), self
        return made


# --- programs ------------------------------
def traced(
    score_mod: Callable | None, mask_mod: Callable | None, working: str, index: str, place: Any
) -> Program:
    """The program of two functions, `score_mod(score, b, h, q_idx, kv_idx)` and `mask_mod(b, h, q_idx, kv_idx)`.

    `working`: the dtype of scores; `index`: of places.  RuntimeError, or TypeError, for what cannot be traced.
    """
    captures: list[TensorBase] = []
    score = mask = None
    if score_mod is not None:
        result = _called("score_mod", score_mod, working, index, place, captures)
        if result.expr is not symbol("score", working):
            score = ex.cast(result.expr, working)
    if mask_mod is not None:
        result = _called("mask_mod", mask_mod, None, index, place, captures)
        mask = ex.cast(result.expr, "bool")
        mask = None if mask.op == "const" and mask.value else mask
    here = (c.to(place) if c.ndim == 0 and c.device != place else c for c in captures)
    return Program(score, mask, tuple(here))


def _called(
    name: str, function: Callable, working: str | None, index: str, place: Any, captures: list[TensorBase]
) -> Traced:
    tracer = Tracer(name, place)
    tracer.captures = captures
    given = [] if working is None else [tracer.value(symbol("score", working), working)]
    given += [tracer.value(symbol(n, index), index) for n in PLACES]
    with tracer:
        result = function(*given)
    if isinstance(result, (bool, int, float)):
        kind = "bool" if isinstance(result, bool) else "float32" if isinstance(result, float) else "int64"
        return tracer.value(ex.const(result, kind), kind)
    if isinstance(result, TensorBase) and not isinstance(result, Traced) and result.ndim == 0:
        return tracer.captured(result)
    if not isinstance(result, Traced):
        got = (
            f"a tensor of shape {tuple(result.shape)}"
            if isinstance(result, TensorBase)
            else type(result).__name__
        )
        raise RuntimeError(f"{name} returned {got}: expected a 0-dim tensor")
    tracer.check_own(result)
    if working is None and result.dtype.name != "bool":
        raise RuntimeError(f"{name} returned {result.dtype}: expected a tensor of dtype bool")
    return result
