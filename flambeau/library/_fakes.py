"""Results without data: the function that a program has registered for them, and whether kernels keep to it."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

from ..core.base.tensor import TensorBase
from ..core.make.create import empty_strided
from ._where import where

_current = threading.local()  # .context: what `get_ctx` answers


def get_ctx() -> Any:
    """Inside a fake implementation: what makes sizes that only the data tells (`new_dynamic_size`); None elsewhere.

    On tensors without data nothing can be made for such a size, and to ask is a RuntimeError.

    >>> import flambeau
    >>> flambeau.library.get_ctx() is None
    True
    """
    context = getattr(_current, "context", None)
    return context() if callable(context) else context


@contextmanager
def _context(context: Any) -> Any:
    before = getattr(_current, "context", None)
    _current.context = context
    try:
        yield
    finally:
        _current.context = before


def on_meta(name: str, fake: Callable, source: str) -> Callable:
    """The fake implementation as the kernel for tensors without data."""

    def refuse() -> Any:
        raise RuntimeError(
            f"{name} ({source}): You're trying to run this operator with meta Tensors (as opposed to FakeTensors), but this operator may "
            "return an output Tensor with data-dependent shape. Meta Tensors don't support operators with outputs that have "
            "data-dependent shapes. If your operator does not return an output with data-dependent shape, make sure the FakeTensor "
            "and/or meta kernel does not call torch.library.get_ctx()."
        )

    @functools.wraps(fake)
    def run(*args: Any, **kwargs: Any) -> Any:
        with _context(refuse):
            return fake(*args, **kwargs)

    return run


class FakeImplCtx:
    """Makes the sizes that depend on data, while a fake implementation is compared with a kernel: stand-ins."""

    def __init__(self, first: int) -> None:
        self._next = first
        self.requested = False

    def new_dynamic_size(self, *, min: int = 0, max: int | None = None) -> int:
        """A size that depends on data: a number that stands for it."""
        if min < 0:
            raise ValueError(
                f"ctx.new_dynamic_size(min={min}, ...): expected min to be greater than or equal to 0: this API can only create "
                "non-negative sizes."
            )
        self.requested = True
        self._next += 1
        return self._next

    def create_unbacked_symint(self, *, min: int = 2, max: int | None = None) -> int:
        """The older name of `new_dynamic_size`."""
        return self.new_dynamic_size(min=min, max=max)


def _without_data(x: Any) -> Any:
    if isinstance(x, TensorBase):
        if x.is_meta:
            return x
        made = empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta")
        return made.requires_grad_() if x.requires_grad else made
    return [_without_data(y) for y in x] if isinstance(x, list | tuple) else x


def predicted(fake: Callable, args: tuple, named: dict[str, Any] | None) -> tuple[Any, Any]:
    """What the fake implementation says of the results, twice: sizes that depend on data differ between the two."""
    answers = []
    for first in (1_000_003, 2_000_003):
        context = FakeImplCtx(first)
        with _context(context):
            arguments = tuple(map(_without_data, args))
            answers.append(fake(*arguments, **{n: _without_data(x) for n, x in (named or {}).items()}))
        if not context.requested:
            return answers[0], answers[0]
    return answers[0], answers[1]


def _places(args: tuple, named: dict[str, Any] | None) -> set[Any]:
    result: set[Any] = set()
    for x in (*args, *(named or {}).values()):
        for y in x if isinstance(x, list | tuple) else (x,):
            if isinstance(y, TensorBase):
                result.add(y.device)
    return result


def difference(result: Any, declared: tuple[Any, Any], places: set[Any], strides: bool = False) -> str | None:
    """In what a result is not as declared; None where it is.  `places`: the devices of the arguments."""
    said, again = declared
    if isinstance(result, list | tuple):
        if not isinstance(said, list | tuple) or len(said) != len(result):
            count = len(said) if isinstance(said, list | tuple) else 1
            return f"it returned {len(result)} results, and the fake implementation says {count}"
        for k, (x, *pair) in enumerate(zip(result, said, again, strict=True)):
            if (wrong := difference(x, (pair[0], pair[1]), places, strides)) is not None:
                return f"result {k}: {wrong}"
        return None
    if not isinstance(result, TensorBase) or not isinstance(said, TensorBase):
        if isinstance(result, TensorBase) != isinstance(said, TensorBase):
            return f"it returned a {type(result).__name__}, and the fake implementation says {type(said).__name__}"
        return None
    wanted = [None if a != b else a for a, b in zip(said.shape, again.shape)]
    if len(wanted) != result.ndim or any(w not in (None, s) for w, s in zip(wanted, result.shape)):
        shown = [("?" if w is None else w) for w in wanted]
        return f"its shape is {list(result.shape)}, and the fake implementation says [{', '.join(map(str, shown))}]"
    if result.dtype != said.dtype:
        return f"its dtype is {result.dtype}, and the fake implementation says {said.dtype}"
    if not said.is_meta and result.device != said.device:
        return f"it is on {result.device}, and the fake implementation says {said.device}"
    if said.is_meta and len(places) == 1 and result.device not in places:
        return f"it is on {result.device}, and the arguments are on {next(iter(places))}"
    if strides and None not in wanted and result.numel() > 1 and _strides(result) != _strides(said):
        return f"its strides are {result.stride()}, and the fake implementation says {said.stride()}"
    return None


def _strides(t: TensorBase) -> list[int]:
    return [step for step, size in zip(t.stride(), t.shape) if size > 1]


def check_result(
    name: str,
    kernel: Callable,
    fake: Callable,
    declared: tuple[Any, Any],
    result: Any,
    args: tuple,
    named: dict[str, Any] | None,
    strides: bool = False,
) -> None:
    """RuntimeError where a kernel's result is not what the fake implementation declares, with the names and files of both."""
    wrong = difference(result, declared, _places(args, named), strides)
    if wrong is not None:
        raise RuntimeError(
            f"{name}: the result of {where(kernel)} is not as promised: {wrong} ({where(fake)})"
        )
