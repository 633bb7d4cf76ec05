"""Numbers that may be others at the next call: what is computed of them, and where they are looked at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..sources import Computed, Equals, Object, Source, is_item
from .code import NULL
from .policy import Policy
from .reads import Reads, varies

NUMERIC = (float, int, bool)


class Numbers:
    """The part of the interpreter for numbers that `Reads.numbers` knows."""

    policy: Policy
    reads: Reads

    def with_numbers(
        self, function: Callable[..., Any], args: tuple, kwargs: dict[str, Any] | None = None
    ) -> Any:
        """What a function in C, which reads nothing but its arguments, gives where numbers that may vary are among them; NULL where it is
        still to be called, as with any others.

        Of numbers alone the result is a number that may vary, or, where it is a bool, guarded.  Operations on tensors may take them
        as they are.  All others are guarded.
        """
        reads = self.reads
        if not reads.active or not (reads.numbers or reads.variable):
            return NULL
        given = (*args, *kwargs.values()) if kwargs else args
        among = [x for x in given if reads.number_source(x) is not None]
        if among and not kwargs and len(args) <= 2 and all(type(x) in NUMERIC for x in args):
            if any(is_item(self.operand(x)) for x in among):
                return self.with_items(function, args)
            made = function(*args)
            source = Computed(function, tuple(map(self.operand, args)))
            if varies(made):
                return reads.number(made, source)
            if type(made) is bool:
                reads.guard(Equals(source, made))
                return made
        elif among and all(reads.number_source(x) is not None or reads._plain(x) for x in given):
            made, taken = self.policy.call_with_numbers(function, args, kwargs or {}, among)
            if not taken:
                reads.fix(given)
            return made
        reads.fix(given)
        return NULL

    def with_items(self, function: Callable[..., Any], args: tuple) -> Any:
        """What a function gives of numbers, one of which is found within a run: a float is a number that is found there, too, where the
        others are always these; whatever else it is, the program has looked at them.
        """
        sources = tuple(map(self.operand, args))
        exact = self.policy.is_exact(function, args) and all(
            is_item(s) or isinstance(s, Object) for s in sources
        )
        if not exact:
            self.reads.fix(args)
        try:
            made = function(*args)
        except Exception:  # at other numbers it might give something
            self.reads.fix(args)
            raise
        if exact and type(made) is float and self.reads.active:
            return self.reads.number(made, Computed(function, sources))
        self.reads.fix(args)
        return made

    def operand(self, x: float) -> Source:
        """Where a number is found at the next call."""
        return self.reads.number_source(x) or Object(x)
