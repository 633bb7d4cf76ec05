"""What a program that runs checks of its inputs: their structure, and the shapes, dtypes and numbers that it was exported for."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .._tensor import Tensor
from ..core.base import display
from ..utils._pytree import TreeSpec, tree_flatten, tree_is_leaf
from ._values import is_tensor

CONSTANTS = (int, float, str, bool, type(None))


class Violation(Exception):
    """A check that does not hold: as a guard on a named input, and in words."""

    def __init__(self, guard: str, path: str) -> None:
        super().__init__(guard, path)
        self.guard, self.path = guard, path


class _Sizes(dict[str, int]):
    """The numbers of symbols, and the sizes that could not be looked at before more of them were known."""

    def __init__(self) -> None:
        self.later: list[tuple[Callable[[int, _Sizes], None], int]] = []


class Guards:
    """The checks of the inputs of one program: `values` is what is known of each leaf, in the order of the leaves.

    Symbols get the sizes of the first input that has them; other sizes follow from these.
    """

    def __init__(self, paths: Sequence[str], values: Sequence[Any], ranges: Mapping[str, Any]) -> None:
        self.checks: list[Callable[[Any, _Sizes], None]] = []
        self.ranges = ranges
        for path, value in zip(paths, values):
            if is_tensor(value):
                self.checks.append(self._tensor(path, value))
            elif isinstance(value, CONSTANTS):
                self.checks.append(_constant(path, value))
            else:
                self.checks.append(self._number(path, value))

    def check(self, leaves: Sequence[Any]) -> dict[str, int]:
        """The numbers of the symbols; Violation where a leaf is not what the program was exported for."""
        if len(leaves) != len(self.checks):
            raise Violation(
                f"{len(self.checks)} inputs",
                f"Unexpected number of inputs (expected {len(self.checks)}, got {len(leaves)})",
            )
        sizes = _Sizes()
        for check, leaf in zip(self.checks, leaves):
            check(leaf, sizes)
        for follows, result in sizes.later:  # of symbols that came with later inputs
            follows(result, sizes)
        return sizes

    def _tensor(self, path: str, value: Any) -> Callable[[Any, _Sizes], None]:
        rank, dtype = len(value.shape), value.dtype
        dims = [
            self._size(f"{path}.size()[{k}]", f"{path}.shape[{k}]", size)
            for k, size in enumerate(value.shape)
        ]

        def check(leaf: Any, sizes: _Sizes) -> None:
            if not isinstance(leaf, Tensor):
                raise Violation(
                    f"isinstance({path}, Tensor)",
                    f"Expected input at {path} to be a tensor, but got {type(leaf).__name__}",
                )
            shape = leaf.shape
            if len(shape) != rank:
                raise Violation(
                    f"{path}.dim() == {rank}",
                    f"Unexpected number of dimensions in input at {path}.shape (expected {list(value.shape)}, got {list(shape)})",
                )
            if leaf.dtype is not dtype:
                raise Violation(
                    f"{path}.dtype == {dtype}",
                    f"Expected input at {path} to have dtype {dtype}, but got {leaf.dtype}",
                )
            for dim, size in zip(dims, shape):
                dim(size, sizes)

        return check

    def _number(self, path: str, value: Any) -> Callable[[Any, _Sizes], None]:
        inner = self._size(path, path, value)

        def check(leaf: Any, sizes: _Sizes) -> None:
            if not isinstance(leaf, int):
                raise Violation(
                    f"isinstance({path}, int)",
                    f"Expected input at {path} to be an int, but got {type(leaf).__name__}",
                )
            inner(leaf, sizes)

        return check

    def _size(self, guard: str, path: str, size: Any) -> Callable[[int, _Sizes], None]:
        """The check of one size: a number, a symbol, or an expression of symbols."""
        if isinstance(size, int):

            def equal(result: int, sizes: _Sizes) -> None:
                if result != size:
                    raise Violation(
                        f"{guard} == {size}",
                        f"Expected input at {path} to be equal to {size}, but got {result}",
                    )

            return equal

        def follows(result: int, sizes: _Sizes) -> None:
            unknown = [name for name in size.symbols() if name not in sizes]
            if len(unknown) == 1:
                solution = _solved(size, unknown[0], sizes, result)
                if solution is None:
                    raise Violation(
                        f"{guard} == {size}",
                        f"Expected input at {path} to be of the form {size}, where {unknown[0]} is an integer, but got {result}",
                    )
                self._check_range(guard, path, str(size), unknown[0], solution, result)
                sizes[unknown[0]] = solution
            elif unknown and (follows, result) not in sizes.later:
                sizes.later.append((follows, result))
            elif not unknown and (wanted := _number_of(size, sizes)) != result:
                raise Violation(
                    f"{guard} == {size}",
                    f"Expected input at {path} to be equal to {wanted}, but got {result}",
                )

        return follows

    def _check_range(self, guard: str, path: str, size: str, symbol: str, number: int, result: int) -> None:
        limits = self.ranges.get(symbol)
        if limits is None:
            return
        low, high = limits
        # PyTorch's programs take a size of 0 or 1 where the least size is 2, which it puts for "not 0 or 1"
        for holds, sign, word, bound in (
            (low <= 2 or number >= low, ">=", ">=", low),
            (number <= high, "<=", "<=", high),
        ):
            if not holds:
                shown = guard if size == symbol else f"{symbol} (of {guard} == {size})"
                raise Violation(
                    f"{shown} {sign} {bound}",
                    f"Expected input at {path} to be {word} {bound}"
                    + (f" in {symbol} of {size}" if size != symbol else "")
                    + f", but got {result}",
                )


def _number_of(size: Any, sizes: Mapping[str, int]) -> int | None:
    """The number of an expression; None where it has none, as for a division by 0."""
    try:
        return size.value(sizes)
    except ArithmeticError:
        return None


def _constant(path: str, value: Any) -> Callable[[Any, _Sizes], None]:
    unordered = isinstance(value, float) and math.isnan(value)

    def check(leaf: Any, sizes: _Sizes) -> None:
        same = type(leaf) is type(value) and (leaf == value or (unordered and math.isnan(leaf)))
        if not same:
            raise Violation(
                f"{path} == {value!r}",
                f"Expected input at {path} to be equal to {value}, but got {_brief(leaf)}",
            )

    return check


def _brief(leaf: Any) -> str:
    return repr(leaf) if isinstance(leaf, CONSTANTS) else type(leaf).__name__


def _solved(size: Any, symbol: str, sizes: Mapping[str, int], wanted: int) -> int | None:
    """The number of a symbol with which an expression that is linear in it is `wanted`; None where there is none."""
    if str(size) == symbol:
        return wanted
    try:
        at_0, at_1 = (size.value({**sizes, symbol: n}) for n in (0, 1))
        step = at_1 - at_0
        if step == 0 or (wanted - at_0) % step:
            return None
        result = (wanted - at_0) // step
        return result if size.value({**sizes, symbol: result}) == wanted else None
    except ArithmeticError:
        return None


# --- structure ------------------------------
def in_order(kwargs: dict[str, Any], in_spec: TreeSpec) -> dict[str, Any]:
    """Keyword arguments in the order in which the program was exported; ValueError where they have other names."""
    if in_spec.type is not tuple or in_spec.num_children != 2 or in_spec.child(1).type is not dict:
        raise ValueError(f"an exported program takes a tuple and a dictionary, its structure is {in_spec}")
    wanted = in_spec.child(1).context
    if len(wanted) != len(kwargs) or any(name not in kwargs for name in wanted):
        raise ValueError(
            f"Ran into a kwarg keyword mismatch: Got the following keywords {list(kwargs)} but expected {wanted}"
        )
    return {name: kwargs[name] for name in wanted}


def is_flat(in_spec: TreeSpec) -> bool:
    """Whether no argument of a call is a container."""
    return all(child.is_leaf() for part in in_spec.children() for child in part.children())


def leaves_of(args: tuple, kwargs: dict[str, Any], in_spec: TreeSpec) -> list[Any]:
    """The leaves of a call's arguments; ValueError where their structure is not that of the exported call."""
    call = (args, in_order(kwargs, in_spec))
    leaves, spec = tree_flatten(call)
    if spec != in_spec:
        try:  # dictionaries in another order of their keys, and subclasses that hold the same
            leaves = in_spec.flatten_up_to(call)
            if not all(map(tree_is_leaf, leaves)):
                raise ValueError
        except ValueError:
            raise ValueError(
                f"Trying to flatten user inputs with exported input tree spec: \n{in_spec}\nbut actually got inputs with tree spec "
                f"of: \n{spec}.\nPlease check that the inputs have the same number and type of args and kwargs as the ones you used "
                f"when tracing ({display.NAME}.export)."
            ) from None
    return leaves
