"""Convolution kernels for a CPU core: register tiles over shifted reads of a grid.

An image is laid out as a grid: rows with their padding, one flat array a channel.  Then a convolution is

    out[o, p] = sum over r of weight[o, r] * grid[offset[r] + p]

for the flat places p, where r runs over channels and taps: stride, dilation, padding and the number of dimensions are all
in the table of offsets, and lanes run along p whatever the width of a row.  The places between the rows' ends are
computed too, and not stored.  The gradient of the input is the same sum with other offsets; that of the weight is

    gradient[r, o] = sum over p of grid[offset[r] + p] * grad[p, o]

with lanes along the output channels, or, where there are few, along p.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from . import target
from .irtext import Function, Module, Value, i64
from .lower import ITEMSIZE, REGISTER, Lowering
from .schedule_cpu_frame import SIGNATURE

GROUP = 72  # terms that a sum adds up one after another before it starts anew
AHEAD = 24  # terms before its use that a line of the grid is requested
PREFETCHING = 4  # output channels a tile from which a line is used often enough to be requested


class Shape(NamedTuple):
    """What registers there are: their bytes, and for a number of output channels how many vectors a tile is wide."""

    bytes: int
    tiles: tuple[tuple[int, int], ...]
    accumulators: int


def registers() -> Shape:
    """The tiles that fit this processor's registers."""
    features = target.processor()[1]
    if "+avx512f" in features:
        return Shape(64, ((8, 3), (4, 6), (2, 8), (1, 8)), 24)
    if "+avx2" in features:
        return Shape(32, ((4, 3), (2, 5), (1, 6)), 12)
    return Shape(16, ((8, 3), (4, 6), (2, 8), (1, 8)), 24)


class Products(NamedTuple):
    """`channels` output channels by `vectors` vectors of places; `deep`: of sums of more than AHEAD terms.

    Data: out, grid, weight (r, channels), bias (channels), offsets, and the table of stores: for each vector its first
    entry; for each entry, a mask of lanes and where lane 0 goes.
    Geometry: how many r, first and last vector, how many places, the step from channel to channel of out.
    """

    dtype: str
    channels: int
    vectors: int
    lanes: int
    deep: bool

    def text(self) -> str:
        return f"products {tuple(self)}"

    def module(self, triple: str) -> Module:
        return _module(triple, lambda f: _products(Tile(f, self.dtype, self.lanes), self))


class Correlations(NamedTuple):
    """The weight's gradient for `rows` of r by `vectors` vectors of output channels.

    Data: gradient (r, channels), grid, grad (places, channels), offsets.
    Geometry: images, rows of places, places a row, steps of the grid from image to image and row to row, of grad from image
    to image, of the gradient from r to r, channels of grad.
    """

    dtype: str
    rows: int
    vectors: int
    lanes: int

    def text(self) -> str:
        return f"correlations {tuple(self)}"

    def module(self, triple: str) -> Module:
        return _module(triple, lambda f: _correlations(Tile(f, self.dtype, self.lanes), self))


class Inners(NamedTuple):
    """The weight's gradient for one output channel and `rows` of r, with lanes along the places of a row.

    Data: gradient (r), grid, grad (places), offsets.  Geometry: as for `Correlations`, where a channel is one place.
    """

    dtype: str
    rows: int
    lanes: int

    def text(self) -> str:
        return f"inners {tuple(self)}"

    def module(self, triple: str) -> Module:
        return _module(triple, lambda f: _inners(Tile(f, self.dtype, self.lanes), self))


def _module(triple: str, write: Callable[[Function], None]) -> Module:
    module = Module(triple)
    f = Function(module, "define " + SIGNATURE)
    write(f)
    f.do("ret void")
    return module


class Tile:
    """Instructions on vectors of one dtype."""

    def __init__(self, f: Function, dtype: str, lanes: int):
        self.f, self.lanes, self.low = f, lanes, Lowering(f, lanes)
        self.scalar, self.size = REGISTER[dtype], ITEMSIZE[dtype]
        self.vector = f"<{lanes} x {self.scalar}>"
        self.spelled = f"v{lanes}{'f32' if dtype == 'float32' else 'f64'}"

    def data(self, k: int) -> Value:
        return self.f.load("ptr", self.f.gep("ptr", Value("ptr", "%data"), i64(k)), 8)

    def geometry(self, k: int) -> Value:
        return self.f.load("i64", self.f.gep("i64", Value("ptr", "%geometry"), i64(k)), 8)

    def entry(self, table: Value, k: Value) -> Value:
        return self.f.load("i64", self.f.gep("i64", table, k), 8)

    def at(self, pointer: Value, offset: Value) -> Value:
        return self.f.gep(self.scalar, pointer, offset)

    def load(self, pointer: Value, mask: Value | None = None) -> Value:
        if mask is None:
            return self.f.load(self.vector, pointer, self.size)
        name, place = f"llvm.masked.load.{self.spelled}.p0", Value(f"ptr align {self.size}", pointer.name)
        return self.f.call(self.vector, name, place, mask, self.zero())

    def store(self, value: Value, pointer: Value, mask: Value | None) -> None:
        if mask is None:
            self.f.store(value, pointer, self.size)
            return
        name, place = f"llvm.masked.store.{self.spelled}.p0", Value(f"ptr align {self.size}", pointer.name)
        self.f.call("void", name, value, place, mask)

    def prefetch(self, pointer: Value, vectors: int) -> None:
        """Ask for vectors that are read soon: channels of a grid lie pages apart, so the processor does not guess the next.
        (Measured on Zen 5: 8 images of 64 channels, 56 by 56, take 10.6 in place of 12.2 ms.)
        """
        read, kept, data = Value("i32", "0"), Value("i32", "3"), Value("i32", "1")
        for byte in range(0, vectors * self.lanes * self.size, 64):
            self.f.call("void", "llvm.prefetch.p0", self.f.gep("i8", pointer, i64(byte)), read, kept, data)

    def zero(self) -> Value:
        return Value(self.vector, "zeroinitializer")

    def everywhere(self, pointer: Value) -> Value:
        return self.low.splat(self.f.load(self.scalar, pointer, self.size))

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        return self.f.call(self.vector, f"llvm.fma.{self.spelled}", a, b, c)

    def first(self, count: Value) -> Value:
        """A mask of the first `count` (i64) lanes."""
        left = self.f.op("i32", f"trunc {count} to i32")
        return self.f.op(f"<{self.lanes} x i1>", f"icmp ugt {self.low.splat(left)}, {self.low.iota(32).name}")

    def total(self, v: Value) -> Value:
        """The sum of the lanes, by halves."""
        n = self.lanes
        while n > 1:
            halves = []
            for part in range(2):
                picks = ", ".join(f"i32 {k}" for k in range(part * n // 2, (part + 1) * n // 2))
                kind = f"<{n // 2} x {self.scalar}>"
                halves.append(
                    self.f.op(kind, f"shufflevector {v}, {v.type} poison, <{n // 2} x i32> <{picks}>")
                )
            v, n = self.f.binary("fadd", *halves), n // 2
        return self.f.op(self.scalar, f"extractelement {v}, i32 0")


def _products(t: Tile, k: Products) -> None:
    f = t.f
    out, grid, weight, bias, offsets, firsts, masks, places = (t.data(n) for n in range(8))
    depth, begin, end, count, step = (t.geometry(n) for n in range(5))
    last = f.add(depth, i64(-(GROUP // 6)))  # no group begins from here on: the one before takes what is left

    def tile(v: Value, n: int, masked: bool) -> list[Value]:
        p = f.mul(v, i64(t.lanes))
        mask = t.first(f.binary("sub", count, p)) if masked else None
        source = t.at(grid, p)
        start = [b for o in range(k.channels) for b in [t.everywhere(t.at(bias, i64(o)))] * n]

        def term(r: Value, sums: list[Value]) -> list[Value]:
            here, own = t.at(source, t.entry(offsets, r)), t.at(weight, f.mul(r, i64(k.channels)))
            x = [t.load(t.at(here, i64(j * t.lanes)), mask) for j in range(n)]
            if k.deep and k.channels >= PREFETCHING and not masked:
                later = f.add(r, i64(AHEAD))
                later = t.low.select(f.op("i1", f"icmp slt {later}, {depth.name}"), later, r)
                t.prefetch(t.at(source, t.entry(offsets, later)), n)
            new = []
            for o in range(k.channels):
                w = t.everywhere(t.at(own, i64(o)))
                new += [t.fma(w, x[j], sums[o * n + j]) for j in range(n)]
            return new

        def group(r: Value, sums: list[Value]) -> list[Value]:
            """So many terms, after others: the error grows with the roots of their number and of the groups'."""
            end = f.add(r, i64(GROUP))
            end = t.low.select(f.op("i1", f"icmp slt {end}, {last.name}"), end, depth)
            return f.loop(r, end, i64(1), sums, term)

        def add(r: Value, sums: list[Value]) -> list[Value]:
            return [f.binary("fadd", a, b) for a, b in zip(sums, group(r, [t.zero() for _ in sums]))]

        if k.deep:
            sums = f.loop(i64(GROUP), last, i64(GROUP), group(i64(0), start), add)
        else:
            sums = f.loop(i64(0), depth, i64(1), start, term)
        for j in range(n):
            here = f.add(v, i64(j))

            def write(s: Value, _, j: int = j) -> list[Value]:
                bits = f.op(f"i{t.lanes}", f"trunc {t.entry(masks, s)} to i{t.lanes}")
                lanes = f.op(f"<{t.lanes} x i1>", f"bitcast {bits} to <{t.lanes} x i1>")
                to = t.at(out, t.entry(places, s))

                def put(mask: Value | None) -> list[Value]:
                    for o in range(k.channels):
                        t.store(sums[o * n + j], t.at(to, f.mul(step, i64(o))), mask)
                    return []

                if t.lanes * t.size == 64:
                    return put(lanes)
                # Without AVX-512 a masked store takes AMD's processors as long as a dozen others.
                whole = f.op("i1", f"icmp eq {bits}, -1")
                f.when(whole, lambda: put(None), [])
                f.when(f.op("i1", f"xor {whole}, true"), lambda: put(lanes), [])
                return []

            f.loop(t.entry(firsts, here), t.entry(firsts, f.add(here, i64(1))), i64(1), [], write)
        return []

    whole = f.binary("sdiv", count, i64(t.lanes))
    whole = t.low.select(Value("i1", f.op("i1", f"icmp slt {whole}, {end.name}").name), whole, end)
    tiles = f.binary("sdiv", f.binary("sub", whole, begin), i64(k.vectors))
    middle = f.add(begin, f.mul(tiles, i64(k.vectors)))
    f.loop(begin, middle, i64(k.vectors), [], lambda v, _: tile(v, k.vectors, False))
    f.loop(middle, end, i64(1), [], lambda v, _: tile(v, 1, True))


def _correlations(t: Tile, k: Correlations) -> None:
    f = t.f
    gradient, grid, grad, offsets = (t.data(n) for n in range(4))
    images, rows, width, image_step, row_step, grad_image, step, channels = (t.geometry(n) for n in range(8))
    sources = [t.at(grid, t.entry(offsets, i64(r))) for r in range(k.rows)]
    spots = [
        t.at(t.at(gradient, f.mul(step, i64(r))), i64(v * t.lanes))
        for r in range(k.rows)
        for v in range(k.vectors)
    ]

    def image(n: Value, sums: list[Value]) -> list[Value]:
        moved, line = f.mul(n, image_step), t.at(grad, f.mul(n, grad_image))

        def row(y: Value, sums: list[Value]) -> list[Value]:
            begin = f.add(moved, f.mul(y, row_step))
            own = t.at(line, f.mul(f.mul(y, width), channels))

            def term(x: Value, sums: list[Value]) -> list[Value]:
                here, at = t.at(own, f.mul(x, channels)), f.add(begin, x)
                g = [t.load(t.at(here, i64(v * t.lanes))) for v in range(k.vectors)]
                new = []
                for r in range(k.rows):
                    a = t.everywhere(t.at(sources[r], at))
                    new += [t.fma(a, g[v], sums[r * k.vectors + v]) for v in range(k.vectors)]
                return new

            return f.loop(i64(0), width, i64(1), sums, term)

        return f.loop(i64(0), rows, i64(1), sums, row)

    sums = f.loop(i64(0), images, i64(1), [t.zero() for _ in spots], image)
    for spot, total in zip(spots, sums):
        f.store(f.binary("fadd", t.load(spot), total), spot, t.size)


def _inners(t: Tile, k: Inners) -> None:
    f = t.f
    gradient, grid, grad, offsets = (t.data(n) for n in range(4))
    images, rows, width, image_step, row_step, grad_image, step, _ = (t.geometry(n) for n in range(8))
    sources = [t.at(grid, t.entry(offsets, i64(r))) for r in range(k.rows)]
    whole = f.binary("and", width, i64(-t.lanes))
    rest = t.first(f.binary("sub", width, whole))
    more = f.op("i1", f"icmp slt {whole}, {width.name}")

    def image(n: Value, sums: list[Value]) -> list[Value]:
        moved, line = f.mul(n, image_step), t.at(grad, f.mul(n, grad_image))

        def row(y: Value, sums: list[Value]) -> list[Value]:
            begin, own = f.add(moved, f.mul(y, row_step)), t.at(line, f.mul(y, width))

            def term(x: Value, sums: list[Value], mask: Value | None = None) -> list[Value]:
                g, at = t.load(t.at(own, x), mask), f.add(begin, x)
                return [t.fma(t.load(t.at(source, at), mask), g, s) for source, s in zip(sources, sums)]

            sums = f.loop(i64(0), whole, i64(t.lanes), sums, term)
            return f.when(more, lambda: term(whole, sums, rest), sums)

        return f.loop(i64(0), rows, i64(1), sums, row)

    sums = f.loop(i64(0), images, i64(1), [t.zero() for _ in range(k.rows)], image)
    for r, total in enumerate(sums):
        spot = t.at(gradient, f.mul(step, i64(r)))
        f.store(f.binary("fadd", f.load(t.scalar, spot, t.size), t.total(total)), spot, t.size)
