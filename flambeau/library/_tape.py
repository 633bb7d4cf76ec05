"""Calls of programs' operations on the tape: by `autograd.Function`'s node, with lists of tensors laid flat."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from ..autograd.function import FunctionCtx
from ..core.base.tensor import TensorBase
from ..core.tape import _set_tracking, record_function
from ._where import where

if TYPE_CHECKING:
    from ._operators import OpOverload


def _flat(values: tuple | list, lists: frozenset[int]) -> tuple[list, list[int | None]]:
    """Arguments with lists of tensors laid flat, and the length of each list (None: no list)."""
    result: list = []
    form: list[int | None] = []
    for k, x in enumerate(values):
        if k in lists and isinstance(x, list | tuple):
            result.extend(x)
            form.append(len(x))
        else:
            result.append(x)
            form.append(None)
    return result, form


def _grouped(values: Any, form: list[int | None]) -> tuple:
    """The inverse of `_flat`."""
    rest = iter(values)
    return tuple(next(rest) if n is None else [next(rest) for _ in range(n)] for n in form)


class Taped:
    """The derivative of an operation as `autograd.Function`'s node knows it."""

    def __init__(self, op: OpOverload) -> None:
        schema = op._schema
        positional = [a for a in schema.arguments if not a.kwarg_only]
        self.op = op
        self.lists = frozenset(k for k, a in enumerate(positional) if a.type.is_tensors)
        self.result_lists = frozenset(k for k, r in enumerate(schema.returns) if r.type.is_tensors)
        self.by_name = any(a.kwarg_only for a in schema.arguments)
        self.__name__ = f"GeneratedBackwardFor_{op._namespace}_{op._opname}_{op._overloadname}"

    def record(self, args: tuple, named: dict[str, Any] | None) -> Any:
        """The results, with history."""
        flat, form = _flat(args, self.lists) if self.lists else (args, None)
        ctx = FunctionCtx()
        ctx._form = form  # type: ignore[attr-defined]
        needed = tuple([isinstance(a, TensorBase) and a.requires_grad for a in flat])
        autograd = self.op._entry.autograd
        before = _set_tracking(0)
        try:
            result = self.op._compute(args, named)
            if autograd is not None and autograd.setup is not None:
                ctx.needs_input_grad = needed if form is None else _grouped(needed, form)
                self._set_up(ctx, autograd.setup, args, named, result)
        finally:
            _set_tracking(before)
        ctx.needs_input_grad = needed
        return self._attached(ctx, tuple(flat), result)

    def _set_up(self, ctx: Any, setup: Any, args: tuple, named: dict[str, Any] | None, result: Any) -> None:
        inputs, keywords = self.op._binder.complete(args, named)
        try:
            if self.by_name:
                setup(ctx=ctx, inputs=inputs, keyword_only_inputs=keywords, output=result)
            else:
                setup(ctx=ctx, inputs=inputs, output=result)
        except Exception as error:
            error.add_note(f"in {where(setup)}, the setup_context of {self.op._qualname}")
            raise

    def _attached(self, ctx: Any, flat: tuple, result: Any) -> Any:
        """The results with the node behind them, in the form in which they came."""
        ctx._results = None
        if isinstance(result, TensorBase):
            return record_function(self, ctx, flat, (result,))[0]
        many = isinstance(result, tuple)
        outputs, form = _flat(result if many else (result,), self.result_lists)
        if self.result_lists:
            ctx._results = form
        if not any(isinstance(x, TensorBase) for x in outputs):
            return result
        made = _grouped(record_function(self, ctx, flat, tuple(outputs)), form)
        return made if many else made[0]

    def backward(self, ctx: Any, *grads: Any) -> tuple:
        """The gradients of the arguments, laid flat."""
        op = self.op
        autograd = op._entry.autograd
        if autograd is None:
            raise RuntimeError(
                f"Trying to backward through {op} but no autograd formula was registered. Please use register_autograd to add one."
            )
        flat, form = ctx.needs_input_grad, ctx._form
        if form is not None:
            ctx.needs_input_grad = _grouped(flat, form)
        try:
            result = autograd.backward(
                ctx, *(grads if ctx._results is None else _grouped(grads, ctx._results))
            )
        except Exception as error:
            error.add_note(f"in {where(autograd.backward)}, the backward of {op._qualname}")
            raise
        finally:
            ctx.needs_input_grad = flat
        result = (
            tuple(result)
            if isinstance(result, tuple | list) and not (self.lists and isinstance(result, list))
            else (result,)
        )
        return self._checked(result, [None] * len(flat) if form is None else form)

    def _checked(self, result: tuple, form: list[int | None]) -> tuple:
        """What a backward returned, laid flat; RuntimeError where it is not of the form of the arguments."""
        while len(result) > len(form) and result[-1] is None:
            result = result[:-1]
        who = f"{self.__name__}Backward"
        backward = where(self.op._entry.autograd.backward)  # type: ignore[union-attr]
        if len(result) != len(form):
            raise RuntimeError(
                f"function {self.__name__}Backward returned an incorrect number of gradients (expected {len(form)}, got {len(result)}) "
                f"({backward})"
            )
        flat: list = []
        for k, (gradient, length) in enumerate(zip(result, form, strict=True)):
            if length is None:
                flat.append(gradient)
            elif gradient is None:
                flat.extend([None] * length)
            elif not isinstance(gradient, list | tuple) or len(gradient) != length:
                raise RuntimeError(
                    f"Expected the return from backward to be of the same structure as the inputs. Got for argument {k}: "
                    f"{type(gradient).__name__} (return from backward), a list of {length} (inputs) ({backward})"
                )
            else:
                flat.extend(gradient)
        for gradient in flat:
            if gradient is not None and not isinstance(gradient, TensorBase):
                raise RuntimeError(
                    f"{who}: expected Variable or None (got {type(gradient).__name__}) ({backward})"
                )
        return tuple(flat)

    def jvp(self, ctx: Any, *tangents: Any) -> Any:
        """Refused: programs register derivatives for backward alone."""
        raise NotImplementedError(
            f"{self.op._qualname}: no derivative for forward mode AD can be registered; make the operation of an autograd.Function with "
            "a jvp instead"
        )


class Unregistered(Taped):
    """The node behind results of kernels whose operation has no derivative: it warns, and hands nothing on."""

    def attach(self, result: Any, flat: tuple) -> Any:
        """The results, from which a backward pass warns."""
        results = result if isinstance(result, tuple | list) else (result,)
        if not any(isinstance(x, TensorBase) for x in results):
            return result
        if any(isinstance(x, TensorBase) and x.requires_grad for x in results):
            for x in results:
                if isinstance(x, TensorBase) and x.requires_grad and x.grad_fn is not None:
                    x.register_hook(self._hook)
            return result
        ctx = FunctionCtx()
        ctx.needs_input_grad = tuple(isinstance(a, TensorBase) and a.requires_grad for a in flat)
        return self._attached(ctx, flat, result)

    def _hook(self, grad: Any) -> None:
        self.warn()

    def backward(self, ctx: Any, *grads: Any) -> tuple:
        self.warn()
        return (None,) * len(ctx.needs_input_grad)

    def warn(self) -> None:
        warnings.warn(
            f"{self.op._qualname}: an autograd kernel was not registered to the Autograd key(s) but we are trying to backprop through it. "
            "This may lead to silently incorrect behavior. If your operator is differentiable, please ensure you have registered an "
            "autograd kernel to the correct Autograd key (e.g. DispatchKey::Autograd) or use torch.library.register_autograd.",
            stacklevel=2,
        )
