"""A graph of ONNX while it is written: nodes over named values, and constants.

Operations' forms (`operations/declare/onnx.py`) call a `Writer`: `g.Relu(x)`, `g.Reshape(x, [2, 3])`, `g.op("Softmax", x, axis=-1)`.
A number among the inputs is a constant of the dtype of the first value beside it, a list of ints one of int64.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .errors import UnsupportedOperatorError

# The numbers of ONNX's TensorProto.DataType.
DATA_TYPES = {
    "float32": 1,
    "uint8": 2,
    "int8": 3,
    "uint16": 4,
    "int16": 5,
    "int32": 6,
    "int64": 7,
    "bool": 9,
    "float16": 10,
    "float64": 11,
    "uint32": 12,
    "uint64": 13,
    "bfloat16": 16,
}
# Complex numbers are pairs, real and imaginary part, in one more dimension of two elements; ONNX's runtimes have no dtype for them.
PAIRS = {"complex64": "float32", "complex128": "float64"}
FLOATS = frozenset(("float16", "bfloat16", "float32", "float64"))
_BOOLEAN = frozenset(
    "Equal Less LessOrEqual Greater GreaterOrEqual Not And Or Xor IsNaN IsInf".split()
)  # operators of ONNX whose results are bools
_INTEGERS = frozenset("Shape Size ArgMax ArgMin NonZero".split())


class Value:
    """A value of the graph: its name, its dtype by our name, and its sizes where they are known."""

    __slots__ = ("dtype", "name", "shape")

    def __init__(self, name: str, dtype: str, shape: tuple[int, ...] | None = None) -> None:
        self.name, self.dtype, self.shape = name, dtype, shape

    @property
    def rank(self) -> int:
        assert self.shape is not None
        return len(self.shape)

    @property
    def floating(self) -> bool:
        return self.dtype in FLOATS

    @property
    def is_complex(self) -> bool:
        """Whether its elements are pairs, in one more dimension than its sizes say."""
        return self.dtype in PAIRS

    def of(self, shape: Sequence[int]) -> Value:
        """The value with its sizes said."""
        return Value(self.name, self.dtype, tuple(shape))

    def __repr__(self) -> str:
        return f"{self.name}: {self.dtype}{'' if self.shape is None else list(self.shape)}"


class Node:
    """An operator on values, by their names ("" for one that is left out); those of branches and loops have bodies, by attribute."""

    __slots__ = ("attributes", "bodies", "inputs", "kind", "outputs")

    def __init__(
        self,
        kind: str,
        inputs: list[str],
        outputs: list[str],
        attributes: dict[str, Any],
        bodies: dict[str, Body] | None = None,
    ) -> None:
        self.kind, self.inputs, self.outputs, self.attributes = kind, inputs, outputs, attributes
        self.bodies: dict[str, Body] = bodies or {}

    def reads(self) -> list[str]:
        """The values that it reads, those in its bodies included."""
        return [*self.inputs, *(n for body in self.bodies.values() for n in body.reads())]

    def rename(self, names: dict[str, str]) -> None:
        """Read others in the place of some values."""
        self.inputs = [names.get(n, n) for n in self.inputs]
        for body in self.bodies.values():
            for node in body.nodes:
                node.rename(names)

    def spelled(self) -> str:
        """Kind, inputs and attributes as text: what makes two nodes compute the same."""
        inner = "".join(f"{name}={body.spelled()}" for name, body in self.bodies.items())
        return f"{self.kind}{self.inputs}{sorted(self.attributes.items())}{len(self.outputs)}{inner}"


class Body:
    """A graph within a node: its nodes over its inputs; it reads values outside of it, too."""

    def __init__(self, nodes: list[Node], inputs: list[Value], outputs: list[Value]) -> None:
        self.nodes, self.inputs, self.outputs = nodes, inputs, outputs

    def reads(self) -> list[str]:
        """The values outside of it that it reads."""
        own = {v.name for v in self.inputs} | {n for node in self.nodes for n in node.outputs}
        read = [n for node in self.nodes for n in node.reads()] + [v.name for v in self.outputs]
        return [n for n in read if n not in own]

    def spelled(self) -> str:
        return f"{[v.name for v in self.outputs]}{[(n.spelled(), n.outputs) for n in self.nodes]}"


def _not_expressed(g: Writer, function: Callable[..., Any], values: Sequence[Value]) -> Value:
    raise RuntimeError("Writer: nothing writes expressions")


class Writer:
    """Nodes and constants in the order in which they are written; `opset` is the version of ONNX's operators.

    `varying`: sizes may be others where the model runs, so that what follows from sizes is written as ints that `_sizes.unified` finds.
    `results`: what the operation gives that is written now, as values without names.
    """

    def __init__(self, opset: int, varying: bool = False) -> None:
        self.opset, self.varying = opset, varying
        self.nodes: list[Node] = []
        self.constants: dict[str, np.ndarray] = {}
        self.dtypes: dict[str, str] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.results: list[Value] = []
        self.notes: dict[str, tuple[Any, ...]] = {}  # by value: what forms say to forms that read it
        self.names = 0
        self.expressed: Callable[..., Value] = _not_expressed  # `_bodies.express`, where that is there

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if not name[0].isupper():
            raise AttributeError(name)
        return functools.partial(self.op, name)

    def name(self, hint: str) -> str:
        self.names += 1
        return f"{hint.lower().replace('::', '_')}_{self.names}"

    def op(
        self,
        kind: str,
        *inputs: Any,
        outputs: int = 1,
        dtype: str | None = None,
        shape: Sequence[int] | None = None,
        **attributes: Any,
    ) -> Any:
        """The results of an operator: one value, or a tuple of several; `dtype` where it is not that of the first input."""
        first = [x for x in inputs if isinstance(x, Value)]
        like = first[1] if kind == "Where" and len(first) > 1 else first[0] if first else None
        input_names = ["" if x is None else self.value(x, like).name for x in inputs]
        while input_names and not input_names[-1]:  # left out at the end
            input_names.pop()
        names = [self.name(kind) for _ in range(outputs)]
        if dtype is None:
            if kind in _BOOLEAN:
                dtype = "bool"
            elif kind in _INTEGERS:
                dtype = "int64"
            else:
                dtype = "int64" if like is None else like.dtype
        self.nodes.append(
            Node(kind, input_names, names, {k: v for k, v in attributes.items() if v is not None})
        )
        for n in names:
            self.dtypes[n] = dtype
        made = [Value(n, dtype, None if shape is None else tuple(shape)) for n in names]
        return made[0] if outputs == 1 else tuple(made)

    def value(self, x: Any, like: Value | None = None) -> Value:
        """What stands for an input of a node."""
        if isinstance(x, Value):
            return x
        if isinstance(x, (list, tuple)):
            return self.ints(x)
        if isinstance(x, np.ndarray):
            return self.constant(x, str(x.dtype))
        return self.number(x, "int64" if like is None else like.dtype)

    def ints(self, sizes: Sequence[int]) -> Value:
        """A line of int64."""
        return self.constant(np.array([int(n) for n in sizes], np.int64), "int64")

    def number(self, x: Any, dtype: str) -> Value:
        """A number without dimensions."""
        if dtype == "bfloat16":
            return self.cast(self.number(x, "float32"), dtype)
        if dtype not in FLOATS and dtype != "bool":
            info = np.iinfo(dtype)
            x = (int(x) - info.min) % (info.max - info.min + 1) + info.min
        with np.errstate(over="ignore"):
            return self.constant(np.array(x, dtype), dtype)

    def constant(self, array: np.ndarray, dtype: str, name: str | None = None) -> Value:
        """An array; of bfloat16 and others that NumPy has not, its bits as uint16 or uint8."""
        name = self.name("constant") if name is None else name
        self.constants[name] = array
        self.dtypes[name] = dtype
        return Value(name, dtype, array.shape)

    # --- what many forms need ------------------------------
    def cast(self, x: Value, dtype: str) -> Value:
        """The value in another dtype, as C converts."""
        if x.dtype == dtype:
            return x
        if dtype in PAIRS:
            return self.paired(x, dtype)
        if x.dtype in PAIRS:
            return self.cast(self.part(x, 0), dtype)
        if dtype not in DATA_TYPES:
            raise UnsupportedOperatorError(f"a conversion to {dtype}")
        return self.op("Cast", x, to=DATA_TYPES[dtype], dtype=dtype, shape=x.shape)

    def paired(self, x: Value, dtype: str) -> Value:
        """A value as complex numbers."""
        part = PAIRS[dtype]
        if x.dtype in PAIRS:
            wide = self.op("Cast", x, to=DATA_TYPES[part], dtype=part)
            return Value(wide.name, dtype, x.shape)
        real = self.cast(x, part)
        return self.pair(real, self.op("Expand", self.number(0, part), self.Shape(real), dtype=part), x.shape)

    def pair(self, real: Value, imaginary: Value, shape: Sequence[int] | None) -> Value:
        """Complex numbers of their parts, which have the same sizes."""
        parts = [self.op("Unsqueeze", v, [-1]) for v in (real, imaginary)]
        made = self.op("Concat", *parts, axis=-1)
        dtype = next(name for name, part in PAIRS.items() if part == real.dtype)
        return Value(made.name, dtype, None if shape is None else tuple(shape))

    def part(self, z: Value, which: int) -> Value:
        """The real (0) or imaginary (1) parts of complex numbers."""
        floats = self.as_floats(z)
        return self.op("Gather", floats, self.number(which, "int64"), axis=-1, shape=z.shape)

    def as_floats(self, z: Value) -> Value:
        """Complex numbers as the floats that they are pairs of."""
        return Value(z.name, PAIRS[z.dtype], None if z.shape is None else (*z.shape, 2))

    def as_complex(self, x: Value, dtype: str) -> Value:
        """Floats whose last dimension holds pairs, as complex numbers."""
        return Value(x.name, dtype, None if x.shape is None else x.shape[:-1])

    def where(self, condition: Value, a: Any, b: Any) -> Value:
        """`a` where the condition holds, else `b`; of bools, by logic."""
        like = next(x for x in (a, b) if isinstance(x, Value))
        a, b = self.value(a, like), self.value(b, like)
        if like.dtype == "bool":
            return self.Or(self.And(condition, a), self.And(self.Not(condition), b))
        return self.Where(condition, a, b)

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        if x.shape == tuple(shape):
            return x
        options: dict[str, Any] = {"allowzero": 1} if 0 in shape else {}
        return self.op("Reshape", x, list(shape), shape=shape, **options)

    def flat(self, x: Value) -> Value:
        """The elements in a row."""
        count = math.prod(x.shape or ())
        if x.shape == (count,):
            return x
        return self.op("Reshape", x, [-1 if count else 0], shape=(count,), allowzero=None if count else 1)

    def places(self, x: Value) -> Value:
        """The number of each element, counted in the order of the dimensions."""
        if not self.varying:
            return self.constant(np.arange(math.prod(x.shape or ())).reshape(x.shape or ()), "int64")
        line = self.op("Range", self.number(0, "int64"), self.Size(x), self.number(1, "int64"))
        return self.op("Reshape", line, self.Shape(x), shape=x.shape)

    def transpose(self, x: Value, perm: Sequence[int]) -> Value:
        if list(perm) == list(range(len(perm))):
            return x
        shape = None if x.shape is None else [x.shape[d] for d in perm]
        return self.op("Transpose", x, perm=list(perm), shape=shape)

    def expand(self, x: Value, shape: Sequence[int]) -> Value:
        if x.shape == tuple(shape):
            return x
        return self.op("Expand", x, list(shape), shape=shape)

    def slice(self, x: Value, dim: int, start: int, end: int, step: int = 1) -> Value:
        """Elements from `start` to before `end` along a dimension."""
        return self.op("Slice", x, [start], [end], [dim], [step])

    def squeeze(self, x: Value, dims: Sequence[int]) -> Value:
        return self.op("Squeeze", x, list(dims)) if dims else x

    def unsqueeze(self, x: Value, dims: Sequence[int]) -> Value:
        return self.op("Unsqueeze", x, list(dims)) if dims else x

    def range(self, size: int) -> Value:
        """0, 1 … size - 1."""
        if not self.varying:
            return self.constant(np.arange(size), "int64")
        return self.op(
            "Range", self.number(0, "int64"), self.squeeze(self.ints([size]), [0]), 1, shape=(size,)
        )

    def size(self, n: int, dtype: str) -> Value:
        """A size, as a number of that dtype."""
        if not self.varying:
            return self.number(n, dtype)
        return self.cast(self.squeeze(self.ints([n]), [0]), dtype)

    def reduce(self, kind: str, x: Value, dims: Sequence[int], keepdim: bool = False) -> Value:
        """A reduction of ONNX ("ReduceSum" …) along dimensions."""
        if not dims:
            return x
        return self.op(kind, x, list(dims), keepdims=int(keepdim))

    def wider(self, x: Value) -> Value:
        """Integers below 32 bits, and bools, as int32, in which operators of ONNX are there; others as they are."""
        return self.cast(x, "int32") if x.dtype in ("int8", "uint8", "int16", "uint16", "bool") else x

    def scatter(self, x: Value, at: Any, source: Value, reduction: str | None = None) -> Value:
        """`x` with the elements of `source` at those places of its elements in a row."""
        places = self.flat(at) if isinstance(at, Value) else at.reshape(-1).astype(np.int64)
        inputs = self.flat(x), places, self.flat(source)
        result = self.op("ScatterElements", *inputs, axis=0, reduction=reduction)
        return self.reshape(result, x.shape or ())

    def loop(
        self, count: Any, states: Sequence[Value], turn: Callable[[Value, Sequence[Value]], Sequence[Value]]
    ) -> list[Value]:
        """`states` after `count` turns of `turn(number, states)`, which gives the next ones, of the same dtypes and sizes."""
        outside, self.nodes = self.nodes, []
        number, going = Value(self.name("turn"), "int64", ()), Value(self.name("going"), "bool", ())
        before = [Value(self.name("state"), s.dtype, s.shape) for s in states]
        after = [self.op("Identity", v) for v in turn(number, before)]
        still = self.op("Identity", going)
        body = Body(self.nodes, [number, going, *before], [still, *after])
        self.nodes = outside
        names = [self.name("Loop") for _ in states]
        for n, v in zip(names, states):
            self.dtypes[n] = v.dtype
        inputs = [self.value(count).name, "", *[v.name for v in states]]
        self.nodes.append(Node("Loop", inputs, names, {}, {"body": body}))
        return [Value(n, v.dtype, v.shape) for n, v in zip(names, states)]

    def express(self, function: Callable[..., Any], *values: Value) -> Value:
        """A function of expressions (`codegen.expr`) of values, element by element."""
        return self.expressed(self, function, values)

    def varies(self, x: Value) -> bool:
        """Whether a value depends on inputs of the graph, and not on constants alone."""
        makers = {n: node for node in self.nodes for n in node.outputs}
        waiting, seen = [x.name], set()
        while waiting:
            name = waiting.pop()
            if name in seen or name in self.constants or not name:
                continue
            seen.add(name)
            if name not in makers:
                return True
            waiting += makers[name].reads()
        return False

    def absent(self) -> list[Value]:
        """Values for the results that no node makes: an error where one is read (`Model.check_defined`)."""
        return [Value(self.name("absent"), r.dtype, r.shape) for r in self.results]

    def maker(self, x: Value) -> Node | None:
        """The node that makes a value."""
        return next((n for n in reversed(self.nodes) if x.name in n.outputs), None)

    def unsupported(self, what: str) -> UnsupportedOperatorError:
        """An error that says why a form is not written."""
        return UnsupportedOperatorError(what)
