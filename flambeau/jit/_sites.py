"""Calls of operations in code: which overload takes a call follows from the classes of its arguments, and is found once for each.

What is found is kept as a call whose arguments are in order: literals are converted when it is made, variables are put in their places.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from .._tensor import Tensor
from ..library._calls import Overload, Prepared, Unfit, choice, overloads
from ..library._own import OWN, own_call, run_own
from ._host import HOST, TENSORS, TEXTS

Frame = list[Any]
Expression = Callable[[Frame], Any]
NOTHING: dict[str, Any] = {}


class Site:
    """A call of an operation in code."""

    __slots__ = ("cache", "candidates", "host", "name", "space", "tensors", "texts")

    def __init__(self, space: str, name: str) -> None:
        self.space, self.name = space, name
        is_aten = space == "aten"
        self.host = HOST.get(name) if is_aten else None
        self.tensors = TENSORS.get(name) if is_aten else None
        self.texts = TEXTS.get(name) if is_aten else None
        self.candidates: tuple[Overload, ...] = () if space == OWN else overloads(space, name)
        self.cache: dict[Any, Prepared] = {}

    def exists(self) -> bool:
        """Whether there is anything of that name."""
        own = self.space == OWN and own_call(self.name) is not None
        return bool(own or self.candidates or self.host or self.tensors or self.texts)

    def __call__(self, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if self.space == OWN:
            return run_own(self.name, args, kwargs)
        first = args[0] if args else None
        if self.tensors is not None and isinstance(first, Tensor):
            return self.tensors(*args, **kwargs)
        if self.texts is not None and type(first) is str:
            return self.texts(*args, **kwargs)
        if self.host is not None and not _has_tensors(args):
            return self.host(*args, **kwargs)
        return self.dispatch(args, kwargs)

    def dispatch(self, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """The result of the overload that takes the arguments."""
        out = kwargs.get("out")
        if out is not None:
            kwargs = {k: v for k, v in kwargs.items() if k != "out"}
        key = _key_of(args, kwargs)
        prepared = self.cache.get(key)
        if prepared is not None and out is None:
            return prepared(args, kwargs)
        try:
            overload, values, loosely = choice(self.candidates, args, kwargs)
        except Unfit:
            if self.host is not None and not (self.candidates and isinstance(args[0], Tensor)):
                return self.host(*args, **kwargs)
            raise RuntimeError(self.unfit(args, kwargs)) from None
        if out is None:
            result = overload.prepared(args, kwargs, loosely)
            if result is not None:
                self.cache[key] = result
        return overload.call(values, out)

    def unfit(self, args: list[Any], kwargs: dict[str, Any]) -> str:
        """What is wrong with arguments that no overload takes."""
        types = ", ".join(
            [type(a).__name__ for a in args] + [f"{k}={type(v).__name__}" for k, v in kwargs.items()]
        )
        schemas = "\n".join(f"  {o.schema}" for o in self.candidates)
        return f"{self.space}::{self.name} takes no ({types}); there are:\n{schemas}"

    def caller(self, args: Sequence[Expression], kwargs: dict[str, Expression]) -> Expression:
        """The call as a function of a frame."""
        varying = [k for k, a in enumerate(args) if not isinstance(a, Literal)]
        if not varying or not all(isinstance(e, Literal) for e in kwargs.values()):
            return lambda frame: self([a(frame) for a in args], {n: e(frame) for n, e in kwargs.items()})
        take = _taker([args[k] for k in varying])
        ready: dict[Any, Callable[..., Any]] = {}

        def run(frame: Frame) -> Any:
            call_args = take(frame)
            kinds = tuple(map(type, call_args))
            function = ready.get(kinds)
            if function is not None:
                return function(*call_args)
            values = iter(call_args)
            all_args = [a(frame) if isinstance(a, Literal) else next(values) for a in args]
            named = {n: e(frame) for n, e in kwargs.items()}
            result = self(all_args, named)
            settles = (
                self.space == "aten" and list not in kinds
            )  # what programs add may keep a list, and change it
            prepared = self.cache.get(_key_of(all_args, named)) if settles else None
            if prepared is not None:
                ready[kinds] = prepared.settled(all_args, named, varying)
            return result

        return run


class Literal:
    """An expression whose value stands in the code."""

    __slots__ = ("make",)

    def __init__(self, make: Expression) -> None:
        self.make = make

    def __call__(self, frame: Frame) -> Any:
        return self.make(frame)  # lists anew, as the program may append to them


class Variable:
    """The value of a variable, which has a place in the frame."""

    __slots__ = ("slot",)

    def __init__(self, slot: int) -> None:
        self.slot = slot

    def __call__(self, frame: Frame) -> Any:
        return frame[self.slot]


def _taker(expressions: Sequence[Expression]) -> Callable[[Frame], Sequence[Any]]:
    """What gives the values of all the expressions."""
    if expressions and all(isinstance(e, Variable) for e in expressions):
        slots = [e.slot for e in expressions if isinstance(e, Variable)]
        if len(slots) > 1:
            return itemgetter(*slots)
        (slot,) = slots
        return lambda frame: (frame[slot],)
    return lambda frame: [e(frame) for e in expressions]


def _key_of(args: list[Any], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    if kwargs:
        return (*map(_class_of, args), *((k, _class_of(v)) for k, v in kwargs.items()))
    return tuple(map(_class_of, args))


def _class_of(x: Any) -> Any:
    """The class of an argument; of a list with that of its first item."""
    return (list, type(x[0])) if type(x) is list and x else type(x)


def _has_tensors(args: list[Any]) -> bool:
    for a in args:
        if isinstance(a, Tensor) or (isinstance(a, list) and a and isinstance(a[0], Tensor)):
            return True
    return False
