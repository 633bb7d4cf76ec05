"""Seeing and changing operations from outside: modes, and classes of tensors with `__torch_function__`.

As `torch.overrides` names them.  A `TorchFunctionMode` sees what a program calls, a class with `__torch_function__` what
is called with its instances; `utils._python_dispatch.TorchDispatchMode` sees backward passes, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any

from ._tensor import Tensor
from .core.call.interceptors import Mode, disable_overrides, dispatch_function, modes_on, overrides_disabled
from .core.call.interceptors import _disabled_torch_function_impl as _disabled
from .core.call.operation import Form, Op
from .operations.declare.registry import REGISTRY, published

__all__ = [
    "BaseTorchFunctionMode",
    "Mode",
    "TorchFunctionMode",
    "get_default_nowrap_functions",
    "get_ignored_functions",
    "get_overridable_functions",
    "get_testing_overrides",
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "resolve_name",
    "wrap_torch_function",
]


class TorchFunctionMode(Mode):
    """A mode whose `__torch_function__` answers the operations that the program calls, tensors or none among the arguments.

    >>> import flambeau
    >>> from flambeau.overrides import TorchFunctionMode
    >>> class Doubled(TorchFunctionMode):
    ...     def __torch_function__(self, func, types, args=(), kwargs=None):
    ...         found = func(*args, **(kwargs or {}))
    ...         return found * 2 if func is flambeau.add else found
    >>> with Doubled():
    ...     flambeau.add(flambeau.ones(2), 1)
    tensor([4., 4.])
    """

    upper = True

    def __torch_function__(
        self, func: Callable, types: Sequence, args: tuple = (), kwargs: Any = None
    ) -> Any:
        raise NotImplementedError(f"{type(self).__name__} is a TorchFunctionMode without __torch_function__")

    def handle(self, operation: Op, types: tuple, args: tuple, kwargs: dict) -> Any:
        """Hand the call to `__torch_function__`."""
        return self.__torch_function__(operation, types, args, kwargs)

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> TorchFunctionMode:
        """A new mode; enter it with `with`."""
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """The mode that passes every call on.

    >>> import flambeau
    >>> with flambeau.overrides.BaseTorchFunctionMode():
    ...     print(flambeau.ones(2) + 1)
    tensor([2., 2.])
    """

    def __torch_function__(
        self, func: Callable, types: Sequence, args: tuple = (), kwargs: Any = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


class _DisableTorchFunctionSubclass:
    """Within it, overrides of tensor classes are not called in this thread."""

    def __enter__(self) -> None:
        disable_overrides(1)

    def __exit__(self, *exception: Any) -> None:
        disable_overrides(-1)


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether a call with these arguments is to be handed to `handle_torch_function`: one of their classes, or a mode, intercepts it.

    Raises:
        TypeError: the argument cannot be iterated over

    >>> import flambeau
    >>> flambeau.overrides.has_torch_function([flambeau.zeros(1), 2])
    False
    """
    if modes_on(True):
        return True
    if overrides_disabled():
        return False
    for x in relevant_args:
        protocol = getattr(type(x), "__torch_function__", None)
        if type(x) is not Tensor and protocol is not None and protocol is not _disabled:
            return True
    return False


def has_torch_function_unary(x: Any) -> bool:
    """`has_torch_function` of one argument.

    Raises nothing.

    >>> import flambeau
    >>> flambeau.overrides.has_torch_function_unary(flambeau.zeros(1))
    False
    """
    return has_torch_function((x,))


def has_torch_function_variadic(*args: Any) -> bool:
    """`has_torch_function` of the arguments.

    Raises nothing.

    >>> import flambeau
    >>> flambeau.overrides.has_torch_function_variadic(flambeau.zeros(1), 2)
    False
    """
    return has_torch_function(args)


def handle_torch_function(
    public_api: Callable, relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """The answer of modes and classes to `public_api(*args, **kwargs)`, for functions made of operations.

    TypeError where nobody has an answer.

    >>> import flambeau
    >>> from flambeau.overrides import handle_torch_function
    >>> class Loud(flambeau.Tensor):
    ...     @classmethod
    ...     def __torch_function__(cls, func, types, args=(), kwargs=None):
    ...         return "asked"
    >>> x = flambeau.ones(2).as_subclass(Loud)
    >>> handle_torch_function(lambda x: x, (x,), x)
    'asked'
    """
    return dispatch_function(public_api, relevant_args, args, kwargs)


def wrap_torch_function(dispatcher: Callable) -> Callable[[Callable], Callable]:
    """Give a function the protocol: `dispatcher(*args, **kwargs)` returns its relevant arguments.

    Raises:
        TypeError: `dispatcher` cannot be called, as soon as the function is

    >>> from flambeau.overrides import wrap_torch_function
    >>> @wrap_torch_function(lambda x: (x,))
    ... def doubled(x):
    ...     return x * 2
    >>> doubled(3)
    6
    """

    def inner(function: Callable) -> Callable:
        @wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return wrapped

    return inner


def is_tensor_like(inp: Any) -> bool:
    """Whether it is a Tensor, or of a class with `__torch_function__`.

    Raises nothing.

    >>> import flambeau
    >>> flambeau.overrides.is_tensor_like(flambeau.zeros(1)), flambeau.overrides.is_tensor_like([0.0])
    (True, False)
    """
    return type(inp) is Tensor or hasattr(inp, "__torch_function__")


def is_tensor_method_or_property(func: Callable) -> bool:
    """Whether a function that `__torch_function__` was given is a method of Tensor, or public as one only.

    Raises nothing.

    >>> import flambeau
    >>> flambeau.overrides.is_tensor_method_or_property(flambeau.Tensor.add)
    True
    """
    if isinstance(func, Form):
        return func.place.startswith("Tensor.")
    entry = getattr(func, "entry", None)
    places = entry.places if entry is not None and entry.function is func else ()
    return bool(places) and all(p.startswith("Tensor.") for p in places)


def resolve_name(f: Callable) -> str | None:
    """The dotted name under which an operation is public, None for what is none.

    Raises nothing.

    >>> import flambeau
    >>> flambeau.overrides.resolve_name(flambeau.exp)
    'flambeau.exp'
    """
    if isinstance(f, Form):
        return f"{__name__.partition('.')[0]}.{f.place}"
    if (entry := getattr(f, "entry", None)) is None or not entry.places:
        return None
    return f"{__name__.partition('.')[0]}.{entry.places[0]}" + ("_" if f is entry.in_place else "")


def get_overridable_functions() -> dict[str, list[Callable]]:
    """All operations that modes and classes see, by the dotted prefix under which they are public.

    >>> import flambeau
    >>> any("linalg" in prefix for prefix in flambeau.overrides.get_overridable_functions())
    True
    """
    prefixes = {p.rpartition(".")[0] for entry in REGISTRY.values() for p in entry.places}
    return {p: [f for f in published(p and p + ".").values() if isinstance(f, Op)] for p in sorted(prefixes)}


def get_testing_overrides() -> dict[Callable, Callable]:
    """A stand-in for each operation that modes and classes see: of its signature, answering -1.

    >>> import inspect
    >>> import flambeau
    >>> stand_in = get_testing_overrides()[flambeau.nn.functional.linear]
    >>> list(inspect.signature(stand_in).parameters), stand_in(1, 2)
    (['input', 'weight', 'bias'], -1)
    """
    result: dict[Callable, Callable] = {}
    for functions in get_overridable_functions().values():
        for function in functions:
            result[function] = _standing_in(function)
    return result


def _standing_in(function: Callable) -> Callable:
    import inspect

    signature = inspect.signature(function)

    def stand_in(*args: Any, **kwargs: Any) -> int:
        signature.bind(*args, **kwargs)
        return -1

    stand_in.__signature__ = signature  # type: ignore[attr-defined]
    stand_in.__name__ = function.__name__
    return stand_in


def get_ignored_functions() -> set[Callable]:
    """What is public beside the operations and is not shown: answers about the generator and errors.

    >>> import flambeau
    >>> flambeau.exp in flambeau.overrides.get_ignored_functions()
    False
    """
    return {e.function for e in REGISTRY.values() if not isinstance(e.function, Op)}


def get_default_nowrap_functions() -> set[Callable]:
    """Operations whose results the default `__torch_function__` leaves as they are: none.

    >>> import flambeau
    >>> flambeau.overrides.get_default_nowrap_functions()
    set()
    """
    return set()
