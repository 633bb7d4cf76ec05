"""Depthwise convolutions of planes whose columns lie side by side: lanes run along a row of pixels.

A function walks down a strip of some vectors of columns, one row of the input at a time.  It reads each shifted vector of a
row once and adds it to all output rows that the row takes part in: their sums stay in registers and move on by one when a row is
finished (`Gather`).  The input's gradient at stride 1 is the same with turned weights; at larger strides a row of the gradient is added
to the rows and columns that it came from, and columns are interleaved at the store (`Scatter`).  The weight's gradient keeps one sum a
tap, and the last rows of the gradient in registers (`Inner`).

Of groups of a few channels and filters, some filters are summed at once over all channels of a row (`Groups`).

Planes of halves are `stored` as they are: vectors are converted as they are read, and rounded once as they are written.

Rows outside the image are never read, columns outside are masked: `edges` says for which loads of a strip, so that the strips in
the middle of a row have no masks at all.  The order of each sum depends on the shape alone.
"""

from __future__ import annotations

from typing import NamedTuple

from .. import target
from ..irtext import Function, Module, Value, i64
from ..lower import ITEMSIZE
from .register import lanes, width
from .vectors import Vectors

# Places in the struct of arguments (core/lib/convolution/strips.pyx), in words of eight bytes; steps are bytes.
_X, _X_PLANE, _X_ROW, _OUT, _OUT_PLANE, _OUT_ROW, _W, _W_PLANE, _W_TAP, _BIAS, _BIAS_PLANE = range(11)
_PLANES, _STRIPS, _FIRST, _BEFORE, _COLUMNS, _OUT_COLUMNS, _ROWS, _OUT_ROWS, _ABOVE = range(11, 20)
_WHOLE_FROM, _WHOLE_TO, _STEPS, _IMAGES, _X_IMAGE, _OUT_IMAGE = range(20, 26)
_CHANNELS, _X_CHANNEL, _OUT_FILTER, _W_FILTER, _W_CHANNEL, _BIAS_STEP = range(26, 32)


class Gather(NamedTuple):
    """out[y, x] = bias + sum over (r, q) of w[r, q] · x[y·stride - above + r, x·stride - before + q·apart].

    A strip is `vectors` wide.  `edges`: for each vector, whether its loads are masked, tap column by tap column; `ends`: whether its
    store is.  `adds`: to what stands in out.
    """

    dtype: str
    kernel: tuple[int, int]
    stride: tuple[int, int]
    apart: int
    vectors: int
    edges: tuple[tuple[bool, ...], ...]
    ends: tuple[bool, ...]
    adds: bool = False
    stored: str = ""

    def text(self, symbol: str) -> str:
        return _text(symbol, lambda f: _Gather(f, self).write())


class Groups(NamedTuple):
    """As `Gather`, for `filters` filters at once, each a sum over several channels; `turned`: taps are read from the last to the first."""

    dtype: str
    kernel: tuple[int, int]
    stride: tuple[int, int]
    apart: int
    filters: int
    turned: bool
    vectors: int
    edges: tuple[tuple[bool, ...], ...]
    ends: tuple[bool, ...]
    stored: str = ""

    def text(self, symbol: str) -> str:
        return _text(symbol, lambda f: _Groups(f, self).write())


class Inner(NamedTuple):
    """w[r, q] += sum over images, y, x of g[y, x] · x[y·stride - above + r, x·stride - before + q·apart], g being `out`."""

    dtype: str
    kernel: tuple[int, int]
    stride: tuple[int, int]
    apart: int
    vectors: int
    edges: tuple[tuple[bool, ...], ...]
    ends: tuple[bool, ...]
    stored: str = ""

    def text(self, symbol: str) -> str:
        return _text(symbol, lambda f: _Inner(f, self).write())


class Scatter(NamedTuple):
    """out[y·stride - above + r, x·stride - before + q] += w[r, q] · g[y, x], g being `x`; a strip is so many vectors of x wide.

    `edges`: for each vector, whether loads at each shift are masked; `ends`: whether stores are.
    """

    dtype: str
    kernel: tuple[int, int]
    stride: tuple[int, int]
    vectors: int
    edges: tuple[tuple[bool, ...], ...]
    ends: tuple[bool, ...]
    adds: bool = False
    stored: str = ""

    def text(self, symbol: str) -> str:
        return _text(symbol, lambda f: _Scatter(f, self).write())


def _text(symbol: str, write) -> str:
    module = Module(target.llvm().get_default_triple())
    f = Function(module, f"define void @{symbol}(ptr noalias %t)")
    write(f)
    f.do("ret void")
    return str(module)


class _Writer(Vectors):
    """Arguments, masks, and the walk down the rows."""

    def __init__(self, f: Function, kind):
        super().__init__(f, kind.dtype, lanes(kind.dtype))
        self.kind = kind
        self.stored = kind.stored or kind.dtype
        self.step = ITEMSIZE[self.stored]  # bytes of an element of a plane, and of a vector of them
        self.wide = self.lanes * self.step
        self.words = Vectors(f, "int16", self.lanes)  # what halves are in memory
        self.taps = [(r, q) for r in range(kind.kernel[0]) for q in range(kind.kernel[1])]

    def word(self, k: int, kind: str = "i64") -> Value:
        return self.f.load(kind, self.f.gep("i64", Value("ptr", "%t"), i64(k)), 8)

    def pixels(self, pointer: Value, mask: Value | None = None) -> Value:
        """A vector of a plane."""
        if not self.kind.stored:
            return self.load(pointer, mask)
        bits = self.words.load(pointer, mask)
        if self.stored == "float16":
            bits = self.f.op(self.low.type("float16"), f"bitcast {bits} to {self.low.type('float16')}")
        return self.low.cast(bits, self.stored, self.dtype)

    def put_pixels(self, value: Value, pointer: Value, mask: Value | None = None) -> None:
        if not self.kind.stored:
            self.store(value, pointer, mask)
            return
        bits = self.low.cast(value, self.dtype, self.stored)
        if self.stored == "float16":
            bits = self.f.op(self.words.vector, f"bitcast {bits} to {self.words.vector}")
        self.words.store(bits, pointer, mask)

    def put_at(self, value: Value, pointer: Value, mask: Value | None) -> None:
        """Store what is finished."""
        if self.kind.adds:
            value = self.add(value, self.pixels(pointer, mask))
        self.put_pixels(value, pointer, mask)

    def product(self, a: Value, b: Value, c: Value) -> Value:
        """a · b + c, rounded once."""
        return self.f.call(self.vector, f"llvm.fma.{self.spelled}", a, b, c)

    def inside(self, column: Value, columns: Value) -> Value:
        """A mask of the lanes for which 0 <= column + lane < columns."""
        own = self.f.binary("add", self.low.splat(column), self.low.iota(64))
        return self.f.op(f"<{self.lanes} x i1>", f"icmp ult {own}, {self.low.splat(columns).name}")

    def within(self, k: Value, count: Value) -> Value:
        return self.f.op("i1", f"icmp ult {k}, {count.name}")

    def weights(self, plane: Value) -> list[Value]:
        w, tap = self.at(self.word(_W, "ptr"), self.f.mul(plane, self.word(_W_PLANE))), self.word(_W_TAP)
        return [
            self.low.splat(self.f.load(self.scalar, self.at(w, self.f.mul(tap, i64(t))), self.size))
            for t in range(len(self.taps))
        ]

    def walk(self, slots: list[Value], step) -> list[Value]:
        """step(k, slots, guarded) down all rows: those in the middle, whose rows all exist, are not checked."""

        def guarded(k: Value, slots: list[Value]) -> list[Value]:
            return step(k, slots, True)

        def free(k: Value, slots: list[Value]) -> list[Value]:
            return step(k, slots, False)

        begin, end = self.word(_WHOLE_FROM), self.word(_WHOLE_TO)
        slots = self.f.loop(i64(0), begin, i64(1), slots, guarded)
        slots = self.f.loop(begin, end, i64(1), slots, free)
        return self.f.loop(end, self.word(_STEPS), i64(1), slots, guarded)


class _Strided(_Writer):
    """Shifted vectors of an input row, of which every `stride`-th column is taken."""

    def __init__(self, f: Function, kind):
        super().__init__(f, kind)
        self.down, self.along = kind.stride
        self.ages = -(-kind.kernel[0] // self.down)  # output rows that an input row takes part in
        self.phases = min(self.down, kind.kernel[0])

    def tables(self) -> None:
        """Where the strip's first column begins, and the masks of a strip at an edge."""
        f, kind = self.f, self.kind
        self.before, self.columns = self.word(_BEFORE), self.word(_COLUMNS)
        first = f.binary("sub", f.mul(self.word(_FIRST), i64(self.along)), self.before)
        self.begin = first
        self.masks: dict[tuple[int, int, int], Value] = {}
        for v in range(kind.vectors):
            for q in range(kind.kernel[1]):
                for part in range(self.along):
                    key = (v, self.start(q), part)
                    if kind.edges[v][q]:
                        column = f.add(first, i64(self.shift(*key)))
                        self.masks.setdefault(key, self.inside(column, self.columns))
        self.ends = [
            self.inside(f.add(self.word(_FIRST), i64(v * self.lanes)), self.word(_OUT_COLUMNS))
            if kind.ends[v]
            else None
            for v in range(kind.vectors)
        ]

    def start(self, q: int) -> int:
        """Where reading begins for a tap column: at a multiple of the stride, so that two taps share a read."""
        return q * self.kind.apart // self.along * self.along

    def shift(self, v: int, start: int, part: int) -> int:
        return v * self.lanes * self.along + start + part * self.lanes

    def row(self, pointer: Value) -> dict[tuple[int, int], Value]:
        """For each (vector, tap column) what is read from a row; the pointer is at the strip's first column."""
        read: dict[tuple[int, int, int], Value] = {}
        result = {}
        for v in range(self.kind.vectors):
            for q in range(self.kind.kernel[1]):
                parts = []
                for part in range(self.along):
                    key = (v, self.start(q), part)
                    if key not in read:
                        place = self.at(pointer, i64(self.shift(*key) * self.step))
                        read[key] = self.pixels(place, self.masks.get(key))
                    parts.append(read[key])
                odd = q * self.kind.apart - self.start(q)
                result[v, q] = (
                    parts[0]
                    if self.along == 1
                    else self.picked(parts[0], parts[1], [odd + self.along * j for j in range(self.lanes)])
                )
        return result

    def rows(self, k: Value, source: Value, guarded: bool, state: list[Value], use) -> list[Value]:
        """use(phase, where it begins, state) for each input row that is new at step k and exists."""
        f = self.f
        for phase in range(self.phases):
            z = f.binary("sub", f.add(f.mul(k, i64(self.down)), i64(phase)), self.word(_ABOVE))

            def body(z=z, phase=phase, state=state) -> list[Value]:
                return use(phase, self.at(source, f.mul(z, self.word(_X_ROW))), state)

            state = f.when(self.within(z, self.word(_ROWS)), body, state) if guarded else body()
        return state


class _Gather(_Strided):
    def write(self) -> None:
        f, kind = self.f, self.kind
        self.tables()

        def plane(c: Value, _) -> list[Value]:
            source = self.at(self.word(_X, "ptr"), f.mul(c, self.word(_X_PLANE)))
            source = self.at(source, f.mul(self.begin, i64(self.step)))
            target = self.at(self.word(_OUT, "ptr"), f.mul(c, self.word(_OUT_PLANE)))
            target = self.at(target, f.mul(self.word(_FIRST), i64(self.step)))
            weights = self.weights(c)
            at_bias = self.at(self.word(_BIAS, "ptr"), f.mul(c, self.word(_BIAS_PLANE)))
            bias = self.low.splat(f.load(self.scalar, at_bias, self.size))

            def strip(i: Value, _) -> list[Value]:
                wide = f.mul(i, i64(kind.vectors * self.wide))
                self.strip(
                    self.at(source, f.mul(wide, i64(self.along))), self.at(target, wide), weights, bias
                )
                return []

            f.loop(i64(0), self.word(_STRIPS), i64(1), [], strip)
            return []

        f.loop(i64(0), self.word(_PLANES), i64(1), [], plane)

    def strip(self, source: Value, to: Value, weights: list[Value], bias: Value) -> None:
        f, kind, n = self.f, self.kind, self.kind.vectors

        def use(phase: int, row: Value, sums: list[Value]) -> list[Value]:
            read, sums = self.row(row), list(sums)
            for q in range(kind.kernel[1]):
                for age in range(self.ages):
                    r = phase + self.down * age
                    if r < kind.kernel[0]:
                        for v in range(n):
                            k = age * n + v
                            sums[k] = self.product(read[v, q], weights[r * kind.kernel[1] + q], sums[k])
            return sums

        def step(k: Value, sums: list[Value], guarded: bool) -> list[Value]:
            sums = self.rows(k, source, guarded, sums, use)
            y = f.binary("sub", k, i64(self.ages - 1))

            def put() -> list[Value]:
                row = self.at(to, f.mul(y, self.word(_OUT_ROW)))
                for v, total in enumerate(sums[-n:]):
                    self.put_at(total, self.at(row, i64(v * self.wide)), self.ends[v])
                return []

            if guarded:
                f.when(self.within(y, self.word(_OUT_ROWS)), put)
            else:
                put()
            return [*[bias] * n, *sums[:-n]]

        self.walk([bias] * (n * self.ages), step)


class _Groups(_Strided):
    """Sums are kept for each filter, each output row that an input row takes part in, each vector."""

    def write(self) -> None:
        f, kind = self.f, self.kind
        self.tables()

        def plane(c: Value, _) -> list[Value]:
            source = self.at(self.word(_X, "ptr"), f.mul(c, self.word(_X_PLANE)))
            source = self.at(source, f.mul(self.begin, i64(self.step)))
            to = self.at(self.word(_OUT, "ptr"), f.mul(c, self.word(_OUT_PLANE)))
            to = self.at(to, f.mul(self.word(_FIRST), i64(self.step)))
            own = self.at(self.word(_W, "ptr"), f.mul(c, self.word(_W_PLANE)))
            biases = self.at(self.word(_BIAS, "ptr"), f.mul(c, self.word(_BIAS_PLANE)))

            def strip(i: Value, _) -> list[Value]:
                wide = f.mul(i, i64(kind.vectors * self.wide))
                self.strip(self.at(source, f.mul(wide, i64(self.along))), self.at(to, wide), own, biases)
                return []

            f.loop(i64(0), self.word(_STRIPS), i64(1), [], strip)
            return []

        f.loop(i64(0), self.word(_PLANES), i64(1), [], plane)

    def strip(self, source: Value, to: Value, weight: Value, biases: Value) -> None:
        f, kind, n = self.f, self.kind, self.kind.vectors
        high, wide = kind.kernel
        a_filter = self.ages * n

        def start(filter: int) -> list[Value]:
            place = self.at(biases, f.mul(self.word(_BIAS_STEP), i64(filter)))
            return [self.low.splat(f.load(self.scalar, place, self.size))] * n

        def use(phase: int, row: Value, sums: list[Value]) -> list[Value]:
            def channel(c: Value, sums: list[Value]) -> list[Value]:
                read, sums = self.row(self.at(row, f.mul(c, self.word(_X_CHANNEL)))), list(sums)
                own = self.at(weight, f.mul(c, self.word(_W_CHANNEL)))
                filters = [self.at(own, f.mul(self.word(_W_FILTER), i64(k))) for k in range(kind.filters)]
                for q in range(wide):
                    for k, place in enumerate(filters):
                        for age in range(self.ages):
                            r = phase + self.down * age
                            if r >= high:
                                continue
                            t = (-1 if kind.turned else 1) * (r * wide + q)
                            w = self.low.splat(
                                f.load(self.scalar, self.at(place, i64(t * self.size)), self.size)
                            )
                            for v in range(n):
                                at = k * a_filter + age * n + v
                                sums[at] = self.product(read[v, q], w, sums[at])
                return sums

            return f.loop(i64(0), self.word(_CHANNELS), i64(1), sums, channel)

        def step(k: Value, sums: list[Value], guarded: bool) -> list[Value]:
            sums = self.rows(k, source, guarded, sums, use)
            y = f.binary("sub", k, i64(self.ages - 1))

            def put() -> list[Value]:
                row = self.at(to, f.mul(y, self.word(_OUT_ROW)))
                for o in range(kind.filters):
                    place = self.at(row, f.mul(self.word(_OUT_FILTER), i64(o)))
                    for v, total in enumerate(sums[(o + 1) * a_filter - n : (o + 1) * a_filter]):
                        self.put_pixels(total, self.at(place, i64(v * self.wide)), self.ends[v])
                return []

            if guarded:
                f.when(self.within(y, self.word(_OUT_ROWS)), put)
            else:
                put()
            moved: list[Value] = []
            for o in range(kind.filters):
                moved += [*start(o), *sums[o * a_filter : (o + 1) * a_filter - n]]
            return moved

        self.walk([total for o in range(kind.filters) for total in start(o) * self.ages], step)


class _Inner(_Strided):
    def write(self) -> None:
        f, kind = self.f, self.kind
        self.tables()
        taps = len(self.taps)
        buffer = f.op("ptr", f"alloca [{taps} x {self.vector}], align {width()}")
        spots = [f.gep(self.vector, buffer, i64(t)) for t in range(taps)]

        def plane(c: Value, _) -> list[Value]:
            for spot in spots:
                f.store(self.zero, spot, width())

            def image(i: Value, _) -> list[Value]:
                source = self.at(self.word(_X, "ptr"), f.mul(c, self.word(_X_PLANE)))
                source = self.at(source, f.mul(i, self.word(_X_IMAGE)))
                source = self.at(source, f.mul(self.begin, i64(self.step)))
                grad = self.at(self.word(_OUT, "ptr"), f.mul(c, self.word(_OUT_PLANE)))
                grad = self.at(grad, f.mul(i, self.word(_OUT_IMAGE)))
                grad = self.at(grad, f.mul(self.word(_FIRST), i64(self.step)))

                def strip(i: Value, _) -> list[Value]:
                    wide = f.mul(i, i64(kind.vectors * self.wide))
                    self.strip(self.at(source, f.mul(wide, i64(self.along))), self.at(grad, wide), spots)
                    return []

                f.loop(i64(0), self.word(_STRIPS), i64(1), [], strip)
                return []

            f.loop(i64(0), self.word(_IMAGES), i64(1), [], image)
            w = self.at(self.word(_W, "ptr"), f.mul(c, self.word(_W_PLANE)))
            for t, spot in enumerate(spots):
                to = self.at(w, i64(t * self.size))
                total = self.total(f.load(self.vector, spot, width()))
                f.store(f.binary("fadd", f.load(self.scalar, to, self.size), total), to, self.size)
            return []

        f.loop(i64(0), self.word(_PLANES), i64(1), [], plane)

    def strip(self, source: Value, grad: Value, spots: list[Value]) -> None:
        """A strip's sums, added to those of the strips before it: none grows over more than one plane."""
        f, kind, n = self.f, self.kind, self.kind.vectors
        taps, kept = len(self.taps), n * (self.ages - 1)

        def step(k: Value, state: list[Value], guarded: bool) -> list[Value]:
            sums, older = state[: taps * n], state[taps * n :]

            def read() -> list[Value]:
                row = self.at(grad, f.mul(k, self.word(_OUT_ROW)))
                return [self.pixels(self.at(row, i64(v * self.wide)), self.ends[v]) for v in range(n)]

            new = f.when(self.within(k, self.word(_OUT_ROWS)), read, [self.zero] * n) if guarded else read()
            rows = [*new, *older]

            def use(phase: int, row: Value, sums: list[Value]) -> list[Value]:
                x, sums = self.row(row), list(sums)
                for q in range(kind.kernel[1]):
                    for age in range(self.ages):
                        r = phase + self.down * age
                        if r < kind.kernel[0]:
                            for v in range(n):
                                t = (r * kind.kernel[1] + q) * n + v
                                sums[t] = self.product(x[v, q], rows[age * n + v], sums[t])
                return sums

            sums = self.rows(k, source, guarded, sums, use)
            return [*sums, *rows[:kept]]

        sums = self.walk([self.zero] * (taps * n + kept), step)
        for t, spot in enumerate(spots):
            total = sums[t * n]
            for v in range(1, n):
                total = f.binary("fadd", total, sums[t * n + v])
            f.store(f.binary("fadd", f.load(self.vector, spot, width()), total), spot, width())

    def total(self, v: Value) -> Value:
        """The sum of the lanes, by halves."""
        n = self.lanes
        while n > 1:
            halves = []
            for part in range(2):
                picks = ", ".join(f"i32 {k}" for k in range(part * n // 2, (part + 1) * n // 2))
                spelled = f"<{n // 2} x {self.scalar}>"
                halves.append(
                    self.f.op(spelled, f"shufflevector {v}, {v.type} poison, <{n // 2} x i32> <{picks}>")
                )
            v, n = self.f.binary("fadd", *halves), n // 2
        return self.f.op(self.scalar, f"extractelement {v}, i32 0")


class _Scatter(_Writer):
    def write(self) -> None:
        f, kind = self.f, self.kind
        self.down, self.along = kind.stride
        self.shifts = -(-kind.kernel[1] // self.along)  # columns of g that an output column is made of
        self.pending = max(kind.kernel[0], self.down)
        before, columns, first = self.word(_BEFORE), self.word(_COLUMNS), self.word(_FIRST)
        self.begin = f.binary("sub", f.mul(first, i64(self.along)), before)  # of the output
        self.masks = {
            (v, m): self.inside(f.add(first, i64(v * self.lanes - m)), columns)
            for v in range(kind.vectors)
            for m in range(self.shifts)
            if kind.edges[v][m]
        }
        self.ends = {
            (v, part): self.inside(
                f.add(self.begin, i64((v * self.along + part) * self.lanes)), self.word(_OUT_COLUMNS)
            )
            for v in range(kind.vectors)
            for part in range(self.along)
            if kind.ends[v]
        }

        def plane(c: Value, _) -> list[Value]:
            source = self.at(self.word(_X, "ptr"), f.mul(c, self.word(_X_PLANE)))
            source = self.at(source, f.mul(first, i64(self.step)))
            to = self.at(self.word(_OUT, "ptr"), f.mul(c, self.word(_OUT_PLANE)))
            to = self.at(to, f.mul(self.begin, i64(self.step)))
            weights = self.weights(c)

            def strip(i: Value, _) -> list[Value]:
                wide = f.mul(i, i64(kind.vectors * self.wide))
                self.strip(self.at(source, wide), self.at(to, f.mul(wide, i64(self.along))), weights)
                return []

            f.loop(i64(0), self.word(_STRIPS), i64(1), [], strip)
            return []

        f.loop(i64(0), self.word(_PLANES), i64(1), [], plane)

    def strip(self, source: Value, to: Value, weights: list[Value]) -> None:
        """Sums are kept for each pending row, each column modulo the stride, each vector."""
        f, kind, n, along = self.f, self.kind, self.kind.vectors, self.along
        a_row = along * n

        def step(k: Value, sums: list[Value], guarded: bool) -> list[Value]:
            def body() -> list[Value]:
                row, new = self.at(source, f.mul(k, self.word(_X_ROW))), list(sums)
                for m in range(self.shifts):
                    for v in range(n):
                        place = self.at(row, i64((v * self.lanes - m) * self.step))
                        g = self.pixels(place, self.masks.get((v, m)))
                        for r in range(kind.kernel[0]):
                            for phase in range(along):
                                q = phase + along * m
                                if q < kind.kernel[1]:
                                    s = r * a_row + phase * n + v
                                    new[s] = self.product(g, weights[r * kind.kernel[1] + q], new[s])
                return new

            sums = f.when(self.within(k, self.word(_ROWS)), body, sums) if guarded else body()
            z = f.binary("sub", f.mul(k, i64(self.down)), self.word(_ABOVE))
            for r in range(self.down):
                here = f.add(z, i64(r))

                def put(r: int = r, here: Value = here) -> list[Value]:
                    self.put(self.at(to, f.mul(here, self.word(_OUT_ROW))), sums[r * a_row : (r + 1) * a_row])
                    return []

                if guarded:
                    f.when(self.within(here, self.word(_OUT_ROWS)), put)
                else:
                    put()
            return [*sums[self.down * a_row :], *[self.zero] * (self.down * a_row)]

        self.walk([self.zero] * (self.pending * a_row), step)

    def put(self, row: Value, sums: list[Value]) -> None:
        """Store a finished row, its columns taken in turn from the sums of each phase."""
        n = self.kind.vectors
        for v in range(n):
            for part in range(self.along):
                value = sums[v]
                if self.along == 2:
                    low = part * self.lanes // 2
                    value = self.picked(
                        sums[v], sums[n + v], [low + j // 2 + j % 2 * self.lanes for j in range(self.lanes)]
                    )
                place = self.at(row, i64((v * self.along + part) * self.wide))
                self.put_at(value, place, self.ends.get((v, part)))
