"""Examples of operations that are declared in families: the numbers stand in the declaration, the call follows from the name."""

from __future__ import annotations


def of_numbers(place: str, example: str) -> str:
    """A doctest of a function of one tensor from "given -> result", the elements of both as they are shown."""
    given, _, result = example.partition(" -> ")
    return of_call(f"{place}(flambeau.tensor([{given}]))", f"tensor([{result}])")


def of_call(call: str, shown: str) -> str:
    """A doctest of a call in this library's namespace, as the end of a docstring."""
    return f"\n\n>>> import flambeau\n>>> flambeau.{call}\n{shown}\n"
