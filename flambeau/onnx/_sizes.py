"""One model for many sizes: the same program written for several, and its ints as what they are of the sizes.

A recording knows sizes as numbers.  So the model is recorded for some sizes, each dimension that may vary once alone and then all
together; the graphs must be equal but for ints.  An int that differs is a size of an input or of a value within the graph, a product
or a sum of such, in all recordings; else the export is refused.  What holds for the recorded sizes is taken to hold for others.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..core.base.tensor import TensorBase
from ._dims import Axes
from ._model import Model
from ._writer import DATA_TYPES, Node
from .errors import OnnxExporterError

At = Callable[[Mapping[str, int]], Model]


def unified(at: At, axes: Axes, tensors: Sequence[TensorBase], names: Sequence[str]) -> Model:
    """The model that `at` writes for given sizes, with the sizes as names."""
    assignments, models = _recorded(at, axes, axes.own(tensors))
    result = models[0]
    for model, changed in zip(models[1:], assignments[1:]):
        _check_same(result, model, assignments[0], changed)
    _Sizes(result, models, assignments, axes, names).replace()
    for k, (value, sizes) in enumerate(result.inputs):
        labels = {d: label for label, places in axes.dims.items() for j, d in places if j == k}
        result.inputs[k] = value, [labels.get(d, n) for d, n in enumerate(sizes)]
    result.outputs = [
        (value, _named(k, [m.outputs[k][1] for m in models], assignments))
        for k, (value, _) in enumerate(result.outputs)
    ]
    return result


def _recorded(at: At, axes: Axes, own: dict[str, int]) -> tuple[list[dict[str, int]], list[Model]]:
    """Sizes, and the models that are written for them: one to begin with, two others of each size alone, and all changed."""
    begin = {name: _allowed(axes, name, max(n, 2) + (n < 2) + k) for k, (name, n) in enumerate(own.items())}
    begin = begin if len(set(begin.values())) == len(begin) else dict(own)
    assignments: list[dict[str, int]] = []
    models: list[Model] = []

    def attempt(sizes: dict[str, int]) -> Exception | None:
        try:
            models.append(at(sizes))
        except OnnxExporterError:
            raise
        except Exception as error:  # the model's own, of whatever class
            return error
        assignments.append(sizes)
        return None

    if attempt(begin) is not None:
        begin = {name: n for name, n in own.items()}
        error = attempt(begin)
        if error is not None:
            raise error
    for name in own:
        changed, failed = 0, None
        for n in _others(begin[name], axes, name):
            failed = attempt({**begin, name: n}) or failed
            changed = sum(a[name] != begin[name] for a in assignments)
            if changed == 2:
                break
        if changed == 0:
            raise OnnxExporterError(
                f"onnx.export(): the model does not run with another size '{name}' than {begin[name]}: {failed}"
            ) from failed
    joint = {
        name: next((a[name] for a in assignments if a[name] != begin[name]), begin[name]) for name in own
    }
    attempt({name: n for name, n in joint.items()})
    return assignments, models


def _allowed(axes: Axes, name: str, n: int) -> int:
    least, most = axes.bounds.get(name, (1, None))
    return max(least, n if most is None else min(n, most))


def _others(n: int, axes: Axes, name: str) -> Iterator[int]:
    """Sizes to try: near ones, then multiples, for models that want those."""
    least, most = axes.bounds.get(name, (1, None))
    tried = {n}
    for other in (n + 3, n + 8, 2 * n, 3 * n, n + 1, n + 2, n + 4, 4 * n, n - 1):
        if other not in tried and other >= max(least, 2) and (most is None or other <= most):
            tried.add(other)
            yield other


def _check_same(a: Model, b: Model, of_a: Mapping[str, int], of_b: Mapping[str, int]) -> None:
    """OnnxExporterError where two graphs differ in more than ints."""
    changed = [f"'{name}' is {n} and {of_b[name]}" for name, n in of_a.items() if of_b[name] != n]
    why = ""
    if len(a.nodes) != len(b.nodes):
        why = f"{len(a.nodes)} nodes and {len(b.nodes)}"
    for x, y in zip(a.nodes, b.nodes):
        if why:
            break
        if x.kind != y.kind or x.inputs != y.inputs or (x.bodies and x.spelled() != y.spelled()):
            why = f"{x.kind} in the one, {y.kind} in the other"
        elif repr(x.attributes) != repr(y.attributes):
            why = f"{x.kind} with {x.attributes} and with {y.attributes}"
    if not why and list(a.constants) != list(b.constants):
        why = "other constants"
    if why:
        raise OnnxExporterError(
            f"onnx.export(): the graph is another one where {' and '.join(changed)} ({why}): such a size cannot vary"
        )


def _named(k: int, shapes: Sequence[Sequence[int]], assignments: Sequence[Mapping[str, int]]) -> list[Any]:
    """The sizes of an output: numbers, names of sizes of inputs, or names of their own."""
    names: list[Any] = []
    for d, sizes in enumerate(zip(*shapes)):
        if len(set(sizes)) == 1:
            names.append(sizes[0])
            continue
        same = [s for s in assignments[0] if all(a[s] == n for a, n in zip(assignments, sizes))]
        names.append(same[0] if same else f"output_{k}_dim_{d}")
    return names


class _Sizes:
    """Replaces constants that differ between the models by what computes them."""

    def __init__(
        self,
        model: Model,
        models: Sequence[Model],
        assignments: Sequence[Mapping[str, int]],
        axes: Axes,
        names: Sequence[str],
    ) -> None:
        self.model, self.models, self.names = model, models, names
        self.sizes = {s: tuple(a[s] for a in assignments) for s in assignments[0]}
        self.places = {s: axes.dims[s][0] for s in self.sizes}
        self.made: dict[Any, str] = {}
        self.count = 0
        self.head: list[Node] = []  # what is computed of the inputs' sizes
        self.behind: dict[str, list[Node]] = {}  # by value: what is computed of its own sizes

    def replace(self) -> None:
        """Go over the nodes, and put what computes a constant before the first that reads it."""
        differing = {
            name
            for name in self.model.constants
            if name not in self.model.weights
            and any(not _equal(m.constants[name], self.model.constants[name]) for m in self.models)
        }
        self.makers = self._within()
        nodes: list[Node] = []
        for node in self.model.nodes:
            for position, name in enumerate(node.inputs):
                if name in differing:
                    reshapes = node.kind == "Reshape" and position == 1
                    node.inputs[position] = self.computed(name, reshapes, node, nodes)
            if node.bodies:
                within = [n for body in node.bodies.values() for n in body.reads() if n in differing]
                node.rename({n: self.computed(n, False, node, nodes) for n in within})
            nodes.append(node)
            self.seen.update(node.outputs)
        self.model.nodes = [*self.head, *nodes]

    def _within(self) -> dict[tuple[int, ...], list[tuple[str, int]]]:
        """By sizes in the models: the values within the graph, and their dimensions, that have them."""
        steps: dict[tuple[int, ...], list[tuple[str, int]]] = {}
        self.seen: set[str] = set()
        for name, shape in self.model.shapes.items():
            others = [m.shapes.get(name) for m in self.models]
            if any(o is None or len(o) != len(shape) for o in others):
                continue
            for d in range(len(shape)):
                steps.setdefault(tuple(o[d] for o in others), []).append((name, d))  # type: ignore[index]
        return steps

    def computed(self, name: str, reshapes: bool, node: Node, nodes: list[Node]) -> str:
        """The name of what computes a constant."""
        arrays = [m.constants[name] for m in self.models]
        dtype = self.model.dtypes[name]
        if len({a.shape for a in arrays}) > 1 or arrays[0].ndim > 1:
            raise OnnxExporterError(
                f"onnx.export(): {node.kind} reads a table that is as large as a size that varies {[a.shape for a in arrays]}"
            )
        if dtype != "int64":
            return self.number(name, arrays, dtype, nodes)
        columns = [tuple(int(a.reshape(-1)[k]) for a in arrays) for k in range(arrays[0].size)]
        if reshapes:
            parts = self.reshaped(columns, nodes)
        else:
            parts = [self.part(c, node, nodes) for c in columns]
        key = ("concat", *parts)
        if key not in self.made:
            self.made[key] = self.add(nodes, "Concat", parts, axis=0)
        return self.made[key]

    def reshaped(self, columns: list[tuple[int, ...]], nodes: list[Node]) -> list[str]:
        """The sizes of a new shape; one that is not known follows from the others."""
        varying = [k for k, c in enumerate(columns) if len(set(c)) > 1]
        exact = {k: self.lookup(columns[k], nodes) for k in varying}
        unknown = [k for k in varying if exact[k] is None]
        if len(unknown) > 1:
            self.refuse(columns[unknown[0]], "Reshape")
        rest = unknown or varying[:1] if 0 not in [c[0] for c in columns] else unknown
        return [
            self.line([-1]) if k in rest else exact.get(k) or self.line([c[0]]) for k, c in enumerate(columns)
        ]

    def part(self, column: tuple[int, ...], node: Node, nodes: list[Node]) -> str:
        if len(set(column)) == 1:
            return self.line([column[0]])
        name = self.lookup(column, nodes)
        if name is None:
            self.refuse(column, node.kind)
        return name  # type: ignore[return-value]

    def refuse(self, column: tuple[int, ...], kind: str) -> None:
        said = ", ".join(f"{s} = {v}" for s, v in self.sizes.items())
        raise OnnxExporterError(
            f"onnx.export(): {kind} takes the ints {column} for the sizes {said}: these are no size in the graph, nor a sum or product "
            "of sizes. Such a size cannot vary"
        )

    # --- ints ------------------------------
    def lookup(self, column: tuple[int, ...], nodes: list[Node]) -> str | None:
        """A line of one int64 that is that in all recordings."""
        for s, values in self.sizes.items():
            if values == column:
                return self.size(s)
        for s, values in self.sizes.items():
            if (with_other := self._with(s, values, column)) is not None:
                return with_other
        for name, d in self.makers.get(column, ()):
            if name in self.seen:
                return self.of_value(name, d, nodes)
        return self._of_several(column)

    def _with(self, s: str, values: tuple[int, ...], column: tuple[int, ...]) -> str | None:
        """a · size + b."""
        pairs = [(v, c) for v, c in zip(values, column)]
        (v0, c0), other = pairs[0], next(((v, c) for v, c in pairs if v != pairs[0][0]), None)
        if other is None or (other[1] - c0) % (other[0] - v0):
            return None
        a = (other[1] - c0) // (other[0] - v0)
        b = c0 - a * v0
        if a == 0 or any(a * v + b != c for v, c in pairs):
            return None
        return self._plus(self._times(self.size(s), a), b)

    def _of_several(self, column: tuple[int, ...]) -> str | None:
        """c · product of sizes, or the sum of two and a number."""
        for count in (2, 3):
            for chosen in itertools.combinations(self.sizes, count):
                products = [math.prod(v) for v in zip(*(self.sizes[s] for s in chosen))]
                if all(c % p == 0 for c, p in zip(column, products)):
                    factors = {c // p for c, p in zip(column, products)}
                    if len(factors) == 1:
                        product = self.size(chosen[0])
                        for s in chosen[1:]:
                            product = self.of_inputs("Mul", [product, self.size(s)])
                        return self._times(product, factors.pop())
        for a, b in itertools.combinations(self.sizes, 2):
            rest = {c - x - y for c, x, y in zip(column, self.sizes[a], self.sizes[b])}
            if len(rest) == 1:
                return self._plus(self.of_inputs("Add", [self.size(a), self.size(b)]), rest.pop())
        return None

    def _times(self, x: str, factor: int) -> str:
        return x if factor == 1 else self.of_inputs("Mul", [x, self.line([factor])])

    def _plus(self, x: str, number: int) -> str:
        return x if number == 0 else self.of_inputs("Add", [x, self.line([number])])

    def size(self, s: str) -> str:
        """A size of an input, as a line of one int64."""
        k, d = self.places[s]
        return self.of_inputs("Gather", [self.of_inputs("Shape", [self.names[k]]), self.line([d])])

    def of_inputs(self, kind: str, inputs: list[str]) -> str:
        key = (kind, *inputs)
        if key not in self.made:
            self.made[key] = self.add(self.head, kind, inputs)
        return self.made[key]

    def of_value(self, name: str, d: int, nodes: list[Node]) -> str:
        """A size of a value within the graph."""
        shape = self.made.get(("Shape", name)) or self.add(nodes, "Shape", [name])
        self.made["Shape", name] = shape
        key = ("Gather", shape, d)
        if key not in self.made:
            self.made[key] = self.add(nodes, "Gather", [shape, self.line([d])])
        return self.made[key]

    # --- numbers of other dtypes ------------------------------
    def number(self, name: str, arrays: Sequence[np.ndarray], dtype: str, nodes: list[Node]) -> str:
        """A float that is a multiple of a size, or of its inverse."""
        values = [float(a.reshape(-1)[0]) for a in arrays]
        for s, sizes in self.sizes.items():
            for kind, shares in (
                ("Mul", [v / n for v, n in zip(values, sizes)]),
                ("Div", [v * n for v, n in zip(values, sizes)]),
            ):
                if arrays[0].ndim == 0 and np.allclose(shares, shares[0], rtol=1e-6, atol=0):
                    factor = self.keep(np.array(shares[0], arrays[0].dtype), dtype)
                    size = self.of_inputs("Squeeze", [self.size(s), self.line([0])])
                    cast = self.add(self.head, "Cast", [size], to=DATA_TYPES[dtype])
                    return self.add(self.head, kind, [factor, cast])
        raise OnnxExporterError(
            f"onnx.export(): the numbers {values} follow from the sizes {self.sizes} in a way that is not known: such a size cannot vary"
        )

    # --- nodes ------------------------------
    def add(self, nodes: list[Node], kind: str, inputs: Sequence[str], **attributes: Any) -> str:
        self.count += 1
        name = f"dim_{self.count}"
        nodes.append(Node(kind, list(inputs), [name], attributes))
        return name

    def line(self, numbers: list[int]) -> str:
        key = ("line", *numbers)
        if key not in self.made:
            self.made[key] = self.keep(np.array(numbers, np.int64), "int64")
        return self.made[key]

    def keep(self, array: np.ndarray, dtype: str) -> str:
        self.count += 1
        name = f"dim_{self.count}"
        self.model.constants[name], self.model.dtypes[name] = array, dtype
        return name


def _equal(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
