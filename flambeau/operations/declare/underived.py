"""Operations of real numbers whose gradients nobody computes: backward through one raises, and names it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from ...core import tape
from ...core.base.tensor import TensorBase
from ...core.tape.contexts import unrecorded


def underived(label: str) -> Callable[[Callable], Callable]:
    """A decorator: what the function makes of recorded tensors is on the tape under that label, without a derivative."""

    def declare(function: Callable) -> Callable:
        name = function.__name__

        def refuse(*arrived: Any) -> None:
            raise NotImplementedError(f"the derivative for '{name}' is not implemented")

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            given = tuple(_tensors((args, tuple(kwargs.values()))))
            if not tape.recording(*given):
                return function(*args, **kwargs)
            with unrecorded():
                found = function(*args, **kwargs)
            made = tuple(t for t in _tensors(found) if t.is_floating_point() or t.is_complex())
            if made:
                tape.record(label, refuse, given, made)
            return found

        return call

    return declare


def _tensors(value: Any) -> Iterator[TensorBase]:
    if isinstance(value, TensorBase):
        yield value
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from _tensors(part)
