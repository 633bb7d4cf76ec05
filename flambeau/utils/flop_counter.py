"""Floating-point operations of a program, counted as it runs, as `torch.utils.flop_counter`.

Counted are products, convolutions and attention, forward and backward; a product with a sum counts as two.  Counts stand under
the names that PyTorch gives them: `aten.mm`, `aten.addmm`, `aten.bmm`, `aten.baddbmm`, `aten.convolution`,
`aten.convolution_backward` and `aten._scaled_dot_product_flash_attention`, whichever of our operations computed them.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from .._tensor import Tensor
from ..operations.declare.flops import (  # noqa: F401  formulas that PyTorch has here
    Shape,
    conv_flop_count,
    counted,
    sdpa_backward_flop_count,
    sdpa_flop_count,
)
from ._python_dispatch import TorchDispatchMode
from ._pytree import tree_map
from .module_tracker import ModuleTracker

__all__ = ["FlopCounterMode", "register_flop_formula"]


# --- formulas of shapes --------------------------------------------------------
def mm_flop(a_shape: Shape, b_shape: Shape, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """Of a (m, k) by a (k, n) matrix."""
    return 2 * a_shape[0] * a_shape[1] * b_shape[1]


def addmm_flop(
    self_shape: Shape, a_shape: Shape, b_shape: Shape, out_shape: Any = None, **kwargs: Any
) -> int:
    """The same with an addend, which is not counted."""
    return mm_flop(a_shape, b_shape)


def bmm_flop(a_shape: Shape, b_shape: Shape, out_shape: Any = None, **kwargs: Any) -> int:
    """Of stacks of matrices."""
    return a_shape[0] * mm_flop(a_shape[1:], b_shape[1:])


def baddbmm_flop(
    self_shape: Shape, a_shape: Shape, b_shape: Shape, out_shape: Any = None, **kwargs: Any
) -> int:
    """The same with an addend, which is not counted."""
    return bmm_flop(a_shape, b_shape)


flop_registry: dict[Any, Callable[..., int]] = {}  # what `register_flop_formula` was given


def register_flop_formula(targets: Any, get_raw: bool = False) -> Callable[[Callable], Callable]:
    """Count an operation, or several, by a formula: `formula(*shapes, out_shape=…)`, other arguments as they are.

    With `get_raw` the formula gets the arguments themselves, and the result as `out_val`.  ValueError for what is no operation.

    >>> import flambeau
    >>> from flambeau.utils.flop_counter import FlopCounterMode, flop_registry, register_flop_formula
    >>> @register_flop_formula(flambeau.exp)
    ... def exp_flop(shape, out_shape=None, **kwargs):
    ...     return 10 * shape[0]
    >>> with FlopCounterMode(display=False) as counter:
    ...     y = flambeau.ones(3).exp()
    >>> counter.get_total_flops()
    30
    >>> del flop_registry[flambeau.exp]
    """

    def enter(formula: Callable) -> Callable:
        for target in targets if isinstance(targets, (list, tuple)) else [targets]:
            if not callable(target):
                raise ValueError(
                    f"register_flop_formula(targets): expected each target to be an operation, got {target!r}"
                )
            flop_registry[target] = _of_arguments(formula, get_raw)
        return formula

    return enter


def _shape(x: Any) -> Any:
    return tuple(x.shape) if isinstance(x, Tensor) else x


def _of_arguments(formula: Callable, raw: bool) -> Callable[..., int]:
    """A formula of arguments from one of shapes."""
    if raw:
        return formula

    def counted(*args: Any, out_val: Any = None, **kwargs: Any) -> int:
        shapes, named, out = tree_map(_shape, (args, kwargs, out_val))
        return formula(*shapes, out_shape=out, **named)

    return counted


# --- the counter -----------------------------------------------------------------
class FlopCounterMode:
    """Counts in its block, and tells at its end where `display` is on: a table of modules down to `depth`.

    `custom_mapping` gives formulas for more operations, as `register_flop_formula` does for all counters.  Backward passes in the
    block are counted, too.

    Raises:
        TypeError: an argument that it does not know is given

    >>> import flambeau
    >>> from flambeau.utils.flop_counter import FlopCounterMode
    >>> layer = flambeau.nn.Linear(8, 4)
    >>> with FlopCounterMode(display=False) as counter:
    ...     layer(flambeau.ones(2, 8)).sum().backward()
    >>> counter.get_total_flops(), counter.get_flop_counts()["Linear"]
    (256, {'aten.addmm': 128, 'aten.mm': 128})
    """

    def __init__(
        self, mods: Any = None, depth: int | None = 2, display: bool = True, custom_mapping: Any = None
    ) -> None:
        if mods is not None:
            warnings.warn("mods argument is not needed anymore, you can stop passing it", stacklevel=2)
        self.depth, self.display = depth, display
        self.flop_counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        self.custom_mapping = {
            op: _of_arguments(formula, getattr(formula, "_get_raw", False))
            for op, formula in (custom_mapping or {}).items()
        }
        self.mod_tracker = ModuleTracker()
        self._mode: _Counting | None = None

    def get_total_flops(self) -> int:
        """How many there were."""
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[str, int]]:
        """By module, "Global" for all, and by operation."""
        return {module: dict(counts) for module, counts in self.flop_counts.items()}

    def _add(self, name: str, count: int) -> None:
        if count:
            for module in self.mod_tracker.parents:
                self.flop_counts[module][name] += count

    def get_table(self, depth: int | None = None) -> str:
        """A table of modules, as deep as `depth` (by default the counter's own), with the operations of each."""
        depth = self.depth if depth is None else depth
        total = self.get_total_flops()
        power = max(0, min(len(SUFFIXES) - 1, (len(str(total)) - 2) // 3))

        def row(label: str, count: int) -> tuple[str, str, str]:
            share = "0%" if total == 0 else f"{count / total:.2%}"
            return label, f"{count / 1000**power:.3f}{SUFFIXES[power]}", share

        def rows_of(module: str, indent: int) -> list[tuple[str, str, str]]:
            counts = self.flop_counts[module]
            return [row(" " * indent + module, sum(counts.values()))] + [
                row(" " * indent + f" - {name}", count) for name, count in counts.items()
            ]

        shown = [
            m for m in sorted(self.flop_counts) if m != "Global" and (depth is None or m.count(".") < depth)
        ]
        is_covered = any(sum(self.flop_counts[m].values()) >= total for m in shown)
        rows: list[tuple[str, str, str]] = []
        if self.flop_counts.get("Global") and not is_covered:
            rows += rows_of("Global", 0)
        for module in shown:
            rows += rows_of(module, module.count(".") + (1 if rows and rows[0][0] == "Global" else 0))
        return _table(("Module", "FLOP", "% Total"), rows or [("Global", "0", "0%")])

    def __enter__(self) -> FlopCounterMode:
        if self._mode is not None:
            raise RuntimeError("FlopCounterMode: the counter is on already")
        self.flop_counts.clear()
        self.mod_tracker.__enter__()
        self._mode = _Counting(self)
        self._mode.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        mode, self._mode = self._mode, None
        assert mode is not None
        mode.__exit__(*exception)
        mode.counter = None
        self.mod_tracker.__exit__(*exception)
        if self.display:
            print(self.get_table())


SUFFIXES = ("", "K", "M", "B", "T")


def _table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    rows = list(rows)
    widths = [max(len(head) + 2, *(len(row[k]) for row in rows)) for k, head in enumerate(header)]

    def line(cells: tuple[str, ...]) -> str:
        return "  ".join(
            f"{c:<{w}}" if k == 0 else f"{c:>{w}}" for k, (c, w) in enumerate(zip(cells, widths))
        ).rstrip()

    return "\n".join([line(header), "  ".join("-" * w for w in widths), *map(line, rows)])


class _Counting(TorchDispatchMode):
    """The mode of a counter."""

    def __init__(self, counter: FlopCounterMode) -> None:
        self.counter: FlopCounterMode | None = counter

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        kwargs, counter = kwargs or {}, self.counter
        assert counter is not None
        own = counter.custom_mapping.get(func) or flop_registry.get(func)
        if own is not None:
            out = func(*args, **kwargs)
            counter._add(f"aten.{func.__name__}", own(*args, **kwargs, out_val=out))
            return out
        if getattr(func, "flops", None) is not None and func.composite is None:
            out = func(*args, **kwargs)  # first, as it refuses shapes that do not fit
            count = counted(func, *tree_map(_shape, (args, kwargs)))
            if count is not None and count.name is not None:
                counter._add(count.name, count.flops)
            return out
        out = self.decompose(func, args, kwargs)
        return func(*args, **kwargs) if out is NotImplemented else out
