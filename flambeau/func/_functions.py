"""`autograd.Function` inside of a mapped function: by its own rule, or with `forward` and `backward` on batched tensors."""

from __future__ import annotations

from typing import Any

from ..autograd.function import Function, FunctionCtx
from ..core.base.callbacks import set_callback
from ..core.base.tensor import TensorBase
from ._batched import Level, innermost
from ._derivatives import gathered
from ._user_rules import by_rule, inner


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
        return by_rule(level, own, args, kwargs, cls.__name__)
    if not generated:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it does not have vmap support. Please override and implement the vmap "
            "staticmethod or set generate_vmap_rule=True. For more details, please see "
            "https://pytorch.org/docs/main/notes/extending.func.html"
        )
    return _generated(level, cls, args, kwargs)


def _generated(level: Level, cls: Any, args: tuple, kwargs: dict) -> Any:
    """The function of the elements whose `forward` and `backward` are those of `cls` on batched tensors."""
    batched = [level.inside(a) is not None for a in args]
    kinds: list[bool] = []
    single: list[Any] = []

    def wrapped(values: Any, flags: list[bool]) -> list:
        return [level.tensor(v) if b and isinstance(v, TensorBase) else v for v, b in zip(values, flags)]

    class OfElements(Function):
        generate_vmap_rule = True  # its elements may be slices of a mapped function around

        @staticmethod
        def forward(ctx: Any, *elements: Any) -> Any:
            ctx.own = own = FunctionCtx()
            own.needs_input_grad = ctx.needs_input_grad
            given = wrapped(elements, batched)
            if hasattr(cls, "setup_context"):
                result = cls.forward(*given, **kwargs)
                cls.setup_context(own, tuple(given), result)
            else:
                result = cls.forward(own, *given, **kwargs)
            many = isinstance(result, (tuple, list))
            outputs = list(result) if many else [result]
            single.append(type(result) if many else None)
            kinds.extend(level.inside(x) is not None for x in outputs)
            ctx.kept = [None if t is None else level.inside(t) is not None for t in own._to_save]
            ctx.save_for_backward(*(inner(level, t) for t in own._to_save))
            if own._forward:
                ctx.ahead = [None if t is None else level.inside(t) is not None for t in own._forward]
                ctx.save_for_forward(*(inner(level, t) for t in own._forward))
            ctx.mark_dirty(*(inner(level, t) for t in own._dirty))
            ctx.mark_non_differentiable(*(inner(level, t) for t in own._constant))
            ctx.set_materialize_grads(own._materialize)
            return tuple(inner(level, x) for x in outputs)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            ctx.own._to_save = tuple(wrapped(ctx.saved_tensors, ctx.kept))
            result = cls.backward(ctx.own, *wrapped(grads, kinds))
            result = result if isinstance(result, (tuple, list)) else (result,)
            return tuple(gathered(level, g, b) for g, b in zip(result, batched))

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Any:
            saved = wrapped(ctx.saved_tensors, getattr(ctx, "ahead", ctx.kept))
            ctx.own._forward = tuple(saved)
            try:
                result = cls.jvp(ctx.own, *wrapped(tangents, batched))
            finally:
                ctx.own._forward = ()
            many = isinstance(result, (tuple, list))
            spread = [
                None if t is None else level.broadcast(t) if b else t
                for t, b in zip(result if many else [result], kinds)
            ]
            return tuple(spread)

    OfElements.__name__ = OfElements.__qualname__ = cls.__name__
    result = OfElements.apply(*(inner(level, a) for a in args))
    result = result if isinstance(result, tuple) else (result,)
    results = wrapped(result, kinds)
    kind = single[0]
    return results[0] if kind is None else results if kind is list else tuple(results)


set_callback("function of slices", apply)
