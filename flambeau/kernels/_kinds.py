"""How declarations of kernels look to type checkers: a function becomes a `Kernel`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

if TYPE_CHECKING:
    from .._tensor import Tensor

P = ParamSpec("P")
F = TypeVar("F", bound=Callable[..., Any])


class Kernel(Protocol):
    """An operation that a declaration made: of operands and numbers; one of several results gives a tuple."""

    name: str

    def __call__(self, *operands: Any, **numbers: Any) -> Tensor: ...

    def derivative(self, formula: F, /) -> F: ...


class Declares(Protocol[P]):
    """`@pointwise` and `@pointwise(…)`."""

    @overload
    def __call__(self, function: Callable[..., Any], /, *args: P.args, **kwargs: P.kwargs) -> Kernel: ...

    @overload
    def __call__(
        self, function: None = None, /, *args: P.args, **kwargs: P.kwargs
    ) -> Callable[[Callable[..., Any]], Kernel]: ...


def declares(function: Callable[Concatenate[Callable | None, P], Any]) -> Declares[P]:
    """The function itself."""
    return function  # type: ignore[return-value]
