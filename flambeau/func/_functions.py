"""`autograd.Function` inside of a mapped function: by its own rule, or with `forward` and `backward` on batched tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..autograd.function import Function, FunctionCtx
from ..core.base.provided import provide
from ..core.base.tensor import TensorBase
from ._batched import Level, innermost
from ._derivatives import gathered


class VmapInfo(NamedTuple):
    """What a rule is told: how many slices there are, and what random operations do."""

    batch_size: int
    randomness: str


def apply(cls: Any, args: tuple, kwargs: dict) -> Any:
    """`cls.apply(*args)` with batched tensors among the arguments."""
    level = innermost(args)
    assert level is not None
    generated, own = getattr(cls, "generate_vmap_rule", False), getattr(cls, "vmap", None)
    if not hasattr(cls, "setup_context") and not generated and own is None:
        raise RuntimeError(
            "In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, ...), it must override the "
            "setup_context staticmethod. For more details, please see "
            "https://pytorch.org/docs/main/notes/extending.func.html"
        )
    if generated and own is not None:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it has both generate_vmap_rule=True and an overridden vmap staticmethod. "
            "Please set generate_vmap_rule=False or delete the overridden vmap staticmethod to avoid ambiguity. For more details, "
            "please see https://pytorch.org/docs/main/notes/extending.func.html"
        )
    if own is not None:
        return by_rule(level, own, args, cls.__name__)
    if not generated:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it does not have vmap support. Please override and implement the vmap "
            "staticmethod or set generate_vmap_rule=True. For more details, please see "
            "https://pytorch.org/docs/main/notes/extending.func.html"
        )
    return _generated(level, cls, args, kwargs)


def by_rule(level: Level, own: Callable, args: tuple, name: str) -> Any:
    """A rule of a user: `rule(info, in_dims, *args)` returns results and where their dimension of slices is."""
    flat = [level.inside(a) for a in args]
    in_dims = tuple(_dims(level, a) for a in args)
    given = [_inner(level, a) if e is None else e for a, e in zip(args, flat)]
    answer = own(VmapInfo(level.size, level.randomness), in_dims, *given)
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise RuntimeError(
            f"Expected the vmap staticmethod of {name} to return two values, (outputs, out_dims), got {type(answer).__name__}"
        )
    return _rewrapped(level, *answer, name)


def _dims(level: Level, x: Any) -> Any:
    if isinstance(x, (tuple, list)):
        return type(x)(_dims(level, y) for y in x)
    return None if level.inside(x) is None else 0


def _inner(level: Level, x: Any) -> Any:
    if isinstance(x, (tuple, list)):
        return type(x)(_inner(level, y) for y in x)
    found = level.inside(x)
    return x if found is None else found


def _rewrapped(level: Level, found: Any, dims: Any, name: str) -> Any:
    if isinstance(found, (tuple, list)):
        if not isinstance(dims, (tuple, list)):
            dims = [dims] * len(found)
        if len(dims) != len(found):
            raise RuntimeError(
                f"The vmap staticmethod of {name} returned {len(found)} outputs and {len(dims)} out_dims; they must match"
            )
        parts = [_rewrapped(level, f, d, name) for f, d in zip(found, dims)]
        return type(found)(*parts) if hasattr(found, "_fields") else type(found)(parts)
    if not isinstance(found, TensorBase) or dims is None:
        return found
    if found.shape[dims] != level.size:
        raise RuntimeError(
            f"The vmap staticmethod of {name} returned a tensor of shape {list(found.shape)} with out_dim {dims}, whose size is not "
            f"that of the batch, {level.size}"
        )
    return level.tensor(found if dims == 0 else found.movedim(dims, 0))


def _generated(level: Level, cls: Any, args: tuple, kwargs: dict) -> Any:
    """The function of the elements whose `forward` and `backward` are those of `cls` on batched tensors."""
    batched = [level.inside(a) is not None for a in args]
    kinds: list[bool] = []
    single: list[Any] = []

    def wrapped(values: Any, flags: list[bool]) -> list:
        return [level.tensor(v) if b and isinstance(v, TensorBase) else v for v, b in zip(values, flags)]

    class OfElements(Function):
        @staticmethod
        def forward(ctx: Any, *elements: Any) -> Any:
            ctx.inner = inner = FunctionCtx()
            inner.needs_input_grad = ctx.needs_input_grad
            given = wrapped(elements, batched)
            if hasattr(cls, "setup_context"):
                found = cls.forward(*given, **kwargs)
                cls.setup_context(inner, tuple(given), found)
            else:
                found = cls.forward(inner, *given, **kwargs)
            many = isinstance(found, (tuple, list))
            outputs = list(found) if many else [found]
            single.append(type(found) if many else None)
            kinds.extend(level.inside(x) is not None for x in outputs)
            ctx.kept = [None if t is None else level.inside(t) is not None for t in inner._to_save]
            ctx.save_for_backward(*(_inner(level, t) for t in inner._to_save))
            if inner._forward:
                ctx.ahead = [None if t is None else level.inside(t) is not None for t in inner._forward]
                ctx.save_for_forward(*(_inner(level, t) for t in inner._forward))
            ctx.mark_dirty(*(_inner(level, t) for t in inner._dirty))
            ctx.mark_non_differentiable(*(_inner(level, t) for t in inner._constant))
            ctx.set_materialize_grads(inner._materialize)
            return tuple(_inner(level, x) for x in outputs)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            ctx.inner._to_save = tuple(wrapped(ctx.saved_tensors, ctx.kept))
            found = cls.backward(ctx.inner, *wrapped(grads, kinds))
            found = found if isinstance(found, (tuple, list)) else (found,)
            return tuple(gathered(level, g, b) for g, b in zip(found, batched))

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Any:
            saved = wrapped(ctx.saved_tensors, getattr(ctx, "ahead", ctx.kept))
            ctx.inner._forward = tuple(saved)
            found = cls.jvp(ctx.inner, *wrapped(tangents, batched))
            many = isinstance(found, (tuple, list))
            spread = [
                None if t is None else level.spread(t) if b else t
                for t, b in zip(found if many else [found], kinds)
            ]
            return tuple(spread)

    OfElements.__name__ = OfElements.__qualname__ = cls.__name__
    found = OfElements.apply(*(_inner(level, a) for a in args))
    found = found if isinstance(found, tuple) else (found,)
    results = wrapped(found, kinds)
    kind = single[0]
    return results[0] if kind is None else results if kind is list else tuple(results)


provide("function of slices", apply)
