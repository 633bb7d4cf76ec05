"""What products of matrices are made of: which register tiles, and how operands are laid out for them.

`core/lib/products/panels.pyx` walks over the tiles.  The right operand is read in panels: a few vectors of columns, term after term.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from ...core.base.callbacks import set_callback
from .. import target
from ..irtext import Function, Module, Value, i64
from . import dots, epilogues
from .epilogues import Epilogue
from .objects import compiled
from .register import Register, Writer, address, lanes, width
from .vectors import Vectors


class Shape(NamedTuple):
    """Which tiles a processor's registers hold, and how much of the operands its caches: with 32 registers, and with 16."""

    tallest: tuple[int, ...]  # rows of a tile of 0, 1, 2 … vectors
    dots: tuple[int, ...]  # columns of a tile of dot products of 0, 1, 2 … rows
    depth: int  # terms of a panel that stays in the cache while rows meet it
    deepest: int  # terms of all parts of a sum over which rows of the left operand stay in the cache
    band: int  # bytes of the left operand that stay in the cache
    far: int  # bytes between terms of a left operand from which it is turned first


MANY = Shape((0, 14, 14, 8, 6), (0, 8, 8, 8, 6, 4, 4), 1024, 1024, 3 << 18, 1 << 12)
FEW = Shape((0, 12, 6), (0, 8, 6, 4, 3), 384, 1 << 12, 3 << 17, 1 << 8)
DTYPES = {2: "bfloat16", 4: "float32", 8: "float64"}


def shape(size: int) -> tuple[int, Shape]:
    """Elements of a vector, and this processor's shape."""
    features = target.processor()[1].split(",")
    many = "+avx512f" in features or "+neon" in features
    return lanes(DTYPES[max(size, 4)]), MANY if many else FEW


def linear(size: int, scaled: bool, bias: bool, other: bool) -> Epilogue | None:
    """alpha · sum + bias + beta · other of elements of so many bytes; two bytes are summed in float32.  None: the sum itself."""
    if not (scaled or bias or other):
        return None
    return epilogues.linear(DTYPES[max(size, 4)], scaled, bias, other)


def continued(size: int, epilogue: Epilogue | None) -> Epilogue:
    """The epilogue of the last of several parts of a sum."""
    return epilogue.continued() if epilogue is not None else epilogues.added(DTYPES[max(size, 4)])


def tile(size: int, epilogue: Epilogue | None, vectors: int, rows: int, ragged: bool, lays: bool) -> int:
    """Where the function of a tile stands."""
    return address(Register(DTYPES[size], rows, vectors, (), False, epilogue, ragged, lays))


def dot(dtype: str, epilogue: Epilogue | None, columns: int, rows: int) -> int:
    """Where the function of a tile stands that reads both operands along their terms."""
    return dots.address(Register(dtype, rows, columns, (), False, epilogue))


class _Layer(Writer):
    """Lays a panel: `void(to, to_step, from, step, terms, columns)`, steps in bytes; what does not exist becomes 0.  It reads elements
    of `source`, which become those of the tile.
    """

    def __init__(self, f: Function, tile: Register, source: str):
        super().__init__(f, tile)
        self.source = Vectors(f, source, self.lanes)

    def read(self, pointer: Value, mask: Value | None = None) -> Value:
        return self.low.cast(self.source.load(pointer, mask), self.source.dtype, self.dtype)

    def argument(self, name: str, kind: str = "i64") -> Value:
        return Value(kind, "%" + name)

    def write(self) -> None:
        to, source = self.argument("to", "ptr"), self.argument("from", "ptr")
        to_step, step = self.argument("to_step"), self.argument("step")
        terms, columns = self.argument("terms"), self.argument("columns")
        if self.tile.turned:
            self.turned(to, to_step, source, step, terms, columns)
        else:
            self.copied(to, to_step, source, step, terms, columns)
        self.f.do("ret void")

    def copied(self, to, to_step, source, step, terms, columns) -> None:
        """Terms stand `step` apart, columns side by side."""
        masks: Sequence[Value | None] = self.masks(columns)

        def term(masks: Sequence[Value | None], _, at: list[Value]) -> list[Value]:
            left, right = at
            for v, mask in enumerate(masks):
                value = self.read(self.at(right, i64(v * self.source.bytes)), mask)
                self.store(value, self.at(left, i64(v * width())))
            return [self.at(left, to_step), self.at(right, step)]

        whole = i64(0)
        if (
            self.source.dtype != self.dtype
        ):  # where a processor reads halves under no mask, they are read one by one
            there = self.f.op("i1", f"icmp sge {columns}, {self.tile.vectors * self.lanes}")
            whole = self.low.select(there, terms, i64(0))
            to, source = self.f.loop(i64(0), whole, i64(1), [to, source], partial(term, [None] * len(masks)))
        self.f.loop(whole, terms, i64(1), [to, source], partial(term, masks))

    def crossed(self) -> None:
        """Of complex numbers, read as twice as many columns: below each row (re, im) one of (-im, re), so that a real product by
        both is the complex one.
        """
        masks = self.masks(self.argument("columns"))
        swapped = ", ".join(f"i32 {j ^ 1}" for j in range(self.lanes))
        signs = ", ".join(f"{self.scalar} {'1.0' if j % 2 else '-1.0'}" for j in range(self.lanes))
        below = i64(self.tile.vectors * width())

        def term(_, at: list[Value]) -> list[Value]:
            left, right = at
            for v, mask in enumerate(masks):
                place = i64(v * width())
                x = self.load(self.at(right, place), mask)
                order = f"<{self.lanes} x i32> <{swapped}>"
                y = self.f.op(self.vector, f"shufflevector {x}, {self.vector} poison, {order}")
                y = self.f.op(self.vector, f"fmul {y}, <{signs}>")
                self.store(x, self.at(left, place))
                self.store(y, self.at(self.at(left, below), place))
            return [self.at(left, self.argument("to_step")), self.at(right, self.argument("step"))]

        begin = [self.argument("to", "ptr"), self.argument("from", "ptr")]
        self.f.loop(i64(0), self.argument("terms"), i64(1), begin, term)
        self.f.do("ret void")

    def turned(self, to, to_step, source, step, terms, columns) -> None:
        """Columns stand `step` apart, terms side by side: squares are turned in registers."""
        n = self.lanes
        rest = self.f.binary("srem", terms, i64(n))
        whole = self.f.binary("sub", terms, rest)
        masks = [
            self.first(self.low.select(self.f.op("i1", f"icmp sgt {columns}, {i}"), i64(n), i64(0)))
            for i in range(n)
        ]

        def square(masks: list, _, at: list[Value]) -> list[Value]:
            left, right = at
            after = self.at(right, i64(self.source.bytes))
            block = []
            for mask in masks:
                block.append(self.read(right, mask))
                right = self.at(right, step)
            for value in self.turn(block):
                self.store(value, left)
                left = self.at(left, to_step)
            return [left, after]

        all_there = self.f.op("i1", f"icmp sge {columns}, {n}")
        done = self.low.select(all_there, whole, i64(0))  # squares without masks
        left, right = self.f.loop(i64(0), done, i64(n), [to, source], partial(square, [None] * n))
        left, right = self.f.loop(done, whole, i64(n), [left, right], partial(square, masks))
        part, block = self.first(rest), []
        for mask in masks:
            both = self.f.op(mask.type, f"and {mask}, {part.name}")
            block.append(self.read(right, both))
            right = self.at(right, step)
        for i, value in enumerate(self.turn(block)):
            exists = self.f.op("i1", f"icmp sgt {rest}, {i}")
            self.store(value, left, self.first(self.low.select(exists, i64(n), i64(0))))
            left = self.at(left, to_step)

    def zipped(self) -> None:
        """Of a right operand of bfloat16: `columns` groups of 16, in which both elements of a pair of terms stand side by side;
        groups are `to_step` apart.
        """
        half, whole = f"<{self.lanes} x i16>", f"<{2 * self.lanes} x i16>"
        picks = ", ".join(f"i32 {j // 2 + j % 2 * self.lanes}" for j in range(2 * self.lanes))
        step = self.argument("step")

        def pair(_, at: list[Value]) -> list[Value]:
            below = self.at(at[1], step)

            def group(_, inner: list[Value]) -> list[Value]:
                to, first, second = inner
                a, b = self.f.load(half, first, 2), self.f.load(half, second, 2)
                both = self.f.op(whole, f"shufflevector {a}, {b}, <{2 * self.lanes} x i32> <{picks}>")
                self.f.store(both, to, 2)
                further = i64(2 * self.lanes)
                return [
                    self.at(to, self.argument("to_step")),
                    self.at(first, further),
                    self.at(second, further),
                ]

            self.f.loop(i64(0), self.argument("columns"), i64(1), [at[0], at[1], below], group)
            return [self.at(at[0], i64(4 * self.lanes)), self.at(below, step)]

        begin = [self.argument("to", "ptr"), self.argument("from", "ptr")]
        self.f.loop(i64(0), self.argument("terms"), i64(1), begin, pair)
        self.f.do("ret void")


def _layer(tile: Register, write: Callable[[_Layer], None], source: str = "") -> int:
    def text(symbol: str) -> str:
        module = Module(target.llvm().get_default_triple())
        arguments = "ptr noalias %to, i64 %to_step, ptr noalias %from, i64 %step, i64 %terms, i64 %columns"
        write(_Layer(Function(module, f"define void @{symbol}({arguments})"), tile, source or tile.dtype))
        return str(module)

    return compiled(text)


def layer(size: int, vectors: int, turned: bool, source: str = "") -> int:
    """Where the function stands that lays panels of so many vectors (`turned`: one vector of columns at a time), of elements of
    another dtype, if `source` names one.
    """
    return _layer(Register(DTYPES[size], 0, vectors, (), turned), _Layer.write, source)


def crossed(size: int, vectors: int) -> int:
    """Where the function stands that lays panels of complex numbers."""
    return _layer(Register(DTYPES[size], 0, vectors), _Layer.crossed)


def pairs() -> int:
    """Where the function stands that lays groups of pairs of bfloat16."""
    return _layer(Register("float32", 0, 1), _Layer.zipped)


set_callback("panels.shape", shape)
set_callback("panels.linear", linear)
set_callback("panels.continued", continued)
set_callback("panels.tile", tile)
set_callback("panels.dot", dot)
set_callback("panels.layer", layer)
set_callback("panels.crossed", crossed)
set_callback("panels.pairs", pairs)
