"""Products of matrices by the tensor cores of NVIDIA's processors, in float16 and bfloat16 with sums in float32.

A block of 256 threads computes a rectangle of ROWS × COLUMNS of the result.  TERMS terms of both operands at a time are a *stage* in
shared memory; there are as many stages as fit, and asynchronous copies (`cp.async`) fill the later ones while the first is multiplied.

    c = alpha · a @ b + beta · d, for each matrix of a stack; d is c itself, or a tensor of its own

How operands lie there, and how they are copied, is in `schedule_gpu_copies.py`; both kinds of matrix instructions take that layout:

- `schedule_gpu_mma.py`: `mma.sync`, operands from registers, which `ldmatrix` fills (sm_80 on);
- `schedule_gpu_wgmma.py`: `wgmma`, operands from shared memory (sm_90a).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from . import expr as ex
from . import target as tg
from .expr import Expr
from .irtext import Function, Module, Value, float_literal, i32, i64
from .lower import MEMORY, Lowering
from .schedule_gpu_copies import CHUNK, LINE, NOT_UNROLLED, PATTERN, Operand
from .schedule_gpu_gather import Gathers
from .schedule_gpu_threads import MOST_BLOCKS, Blocks, Threads
from .schedule_gpu_tile import parameters

ROWS, COLUMNS, TERMS = 128, 256, 64
THREADS = 256
AT_ONCE = THREADS * CHUNK // LINE  # lines that the block copies at once
LEFT_BYTES, RIGHT_BYTES = 2 * ROWS * TERMS, 2 * COLUMNS * TERMS
STAGE_BYTES = LEFT_BYTES + RIGHT_BYTES
GROUP = 8  # rectangles below each other that are computed before the next ones beside them: both operands stay in the cache

# How many stages fit into the shared memory that a block may have (CUDA C++ programming guide, "Technical specifications per compute
# capability": 163, 99, 99, 227 and 227 KB).
STAGES = {"sm_80": 3, "sm_86": 2, "sm_89": 2, "sm_90a": 4, "sm_100": 3}


class StagedProduct(NamedTuple):
    """A product as `schedule_gpu_products.Product`, of halves, for a processor of STAGES."""

    dtype: str
    a_turned: bool
    b_turned: bool
    adds: bool
    processor: str
    addend: str = ""
    taps: int = 0
    summed: bool = False
    after: Expr | None = None

    @property
    def name(self) -> str:
        return "convolution" if self.taps else "matmul"

    @property
    def tensors(self) -> str:
        """A letter for each of its tensors."""
        return "cabd" if self.addend else "cab"

    @property
    def params(self) -> tuple[str, ...]:
        """The dtypes of alpha and beta."""
        return ("float64", "float64")

    @property
    def stages(self) -> int:
        return STAGES[self.processor]

    def text(self) -> str:
        after = "" if self.after is None else ex.text([self.after])
        return f"tensor core product {tuple(self[:-1])} {after}"

    def blocks(self, target: str, numbers: Sequence[int]) -> Blocks:
        """How it is launched; `numbers` as in `schedule_gpu_products.NUMBERS`."""
        batch, m, n, *_ = numbers
        count = batch * -(-m // ROWS) * -(-n // COLUMNS)
        shared = self.stages * STAGE_BYTES + PATTERN
        return Blocks((min(count, MOST_BLOCKS), 1, 1), (THREADS, 1, 1), shared)


class Writer(Gathers):
    """Writes the kernel but for what multiplies: see `sums`, `multiply` and `settled`."""

    sums: list[tuple[int, int]]  # where each sum of a thread stands, beside its first one: rows, columns
    behind = 0  # stages that are still multiplied when the next one's copies are waited for

    def __init__(self, kernel: StagedProduct) -> None:
        self.kernel, self.stages = kernel, kernel.stages
        layout = str(tg.machine("nvptx", kernel.processor).target_data)
        self.module = Module(tg.TARGETS["nvptx"].triple, layout)
        self.module.globals += NOT_UNROLLED
        self.f = f = Function(self.module, "")
        self.low = Lowering(f, None)
        self.threads = Threads(f, "nvptx", (THREADS, 1, 1), shared=True)
        given = parameters(kernel)
        f.signature = self.threads.signature(given)
        self.given = {name: Value(type, f"%{name}") for name, type in given}
        self.kind = MEMORY[kernel.dtype]
        self.added = "d" if kernel.addend else "c"
        self.set_digits()
        self.write()

    # What the two kinds of matrix instructions say.
    def prepare(self) -> None:
        """What every block needs: `self.thread` and `self.memory` are known."""
        raise NotImplementedError

    def corner(self) -> tuple[Value, Value]:
        """Row and column of the thread's first sum in the rectangle."""
        raise NotImplementedError

    def multiply(self, stage: int, sums: list[Value]) -> list[Value]:
        """The sums with the terms of a stage."""
        raise NotImplementedError

    def settled(self, sums: list[Value], behind: int = 0) -> list[Value]:
        """The sums when they are there, but for those of the last stages, `behind` of them."""
        return sums

    def arrived(self) -> None:
        """The thread's own copies have arrived: before the barrier."""

    # --- the walk ------------------------------
    def write(self) -> None:
        f, threads, given = self.f, self.threads, self.given
        self.thread = threads.thread()
        self.lane = f.binary("and", self.thread, i64(31))
        self.place_lines(self.thread, threads.shared_memory())
        self.prepare()
        down = f.binary("udiv", f.add(given["m"], i64(ROWS - 1)), i64(ROWS))
        across = f.binary("udiv", f.add(given["n"], i64(COLUMNS - 1)), i64(COLUMNS))
        total = f.mul(f.mul(given["batch"], down), across)
        f.loop(threads.block(), total, threads.blocks(), [], lambda g, _: self.block(g, down, across))
        f.do("ret void")

    def rectangle(self, number: Value, down: Value, across: Value) -> tuple[Value, Value, Value]:
        """The matrix, and the row and column of rectangles there, of a number: GROUP rows at a time, column by column."""
        f = self.f
        matrix, place = f.coordinates(number, [f.mul(down, across)])
        group, inside = f.coordinates(place, [self.times(across, GROUP)])
        above = self.times(group, GROUP)
        height = self.low.select(
            self.test("slt", f.binary("sub", down, above), i64(GROUP)),
            f.binary("sub", down, above),
            i64(GROUP),
        )
        column, row = f.coordinates(inside, [height])
        return matrix, f.add(above, row), column

    def block(self, number: Value, down: Value, across: Value) -> list[Value]:
        """One rectangle of the result."""
        f, given, kernel = self.f, self.given, self.kernel

        def place(number: Value) -> tuple[Value, Value, Value]:
            matrix, row, column = self.rectangle(number, down, across)
            return matrix, self.times(row, ROWS), self.times(column, COLUMNS)

        def matrix_of(name: str, matrix: Value) -> Value:
            return f.gep(self.kind, given[name], f.mul(matrix, given[f"{name}_batch"]))

        matrix, row, column = place(number)
        a, b = (matrix_of(name, matrix) for name in "ab")
        rows = given["m"], row, given["a_row"], given["a_column"], ROWS
        # where an image lies is not said by two steps, see `gather_right`
        steps = (i64(0), i64(0)) if kernel.taps else (given["b_column"], given["b_row"])
        columns = given["n"], column, *steps, COLUMNS
        left = Operand(a, not kernel.a_turned, *rows, TERMS, 0, AT_ONCE)
        right = Operand(b, kernel.b_turned, *columns, TERMS, LEFT_BYTES, AT_ONCE)
        self.threads.barrier()  # all have read the stages of the last rectangle
        sums = self.summed(left, right)
        matrix, row, column = place(
            self.hidden(number)
        )  # found again, so that no register holds it meanwhile
        store = self.scatter if kernel.taps else self.store
        store(matrix_of("c", matrix), matrix_of(self.added, matrix), row, column, sums)
        return []

    # --- the pipeline ------------------------------
    def whole_stages(self, operands: Sequence[Operand]) -> tuple[dict[int, Value], Value]:
        """Which operands can be copied chunk by chunk, by where they lie in a stage; how many stages take whole chunks of both alone."""
        straight = {o.place: self.straight(o) for o in operands}
        smooth = self.both(*(self.both(straight[o.place], self.has_all_rows(o)) for o in operands))
        whole = self.low.select(smooth, self.f.binary("udiv", self.given["k"], i64(TERMS)), i64(0))
        return straight, whole

    def summed(self, left: Operand, right: Operand) -> list[Value]:
        """The thread's sums over all terms."""
        f, stages, taps = self.f, self.stages, self.kernel.taps
        ahead = stages - 1 - self.behind  # stages whose copies are under way
        k = self.given["k"]
        operands = (left, right)
        zero = Value("float", float_literal(0.0, "float"))
        straight, whole = self.whole_stages(operands) if not taps else ({}, i64(0))

        def exists(number: Value) -> Value:
            return self.test("slt", self.times(number, TERMS), k)

        def copy_unchecked(stage: int, sources: list[Value]) -> None:
            for o, own in zip(operands, (sources[: left.passes], sources[left.passes :])):
                self.copy_whole(o, stage * STAGE_BYTES, own)

        def copy_checked(stage: int, number: Value) -> list[Value]:
            begin, first = stage * STAGE_BYTES, self.times(number, TERMS)
            if taps:
                self.gather_left(left, begin, first, k)
                self.gather_right(right, begin, first, k)
            else:
                for o in operands:
                    self.copy_some(o, begin, first, k, straight[o.place])
            return []

        def copy(stage: int, number: Value, sources: list[Value], surely: bool = False) -> list[Value]:
            """Fill a stage with the terms of that number, if there are such, `surely` whole ones; the sources of the next."""
            if surely:
                copy_unchecked(stage, sources)
            elif taps:
                f.when(exists(number), lambda: copy_checked(stage, number))
            else:
                fast, slow, after = (f.fresh(label) for label in ("fast", "slow", "copied"))
                f.branch_if(self.test("slt", number, whole), fast, slow)
                f.start(fast)
                copy_unchecked(stage, sources)
                f.branch(after)
                f.start(slow)
                f.when(exists(number), lambda: copy_checked(stage, number))
                f.branch(after)
                f.start(after)
            f.call("void", "llvm.nvvm.cp.async.commit.group")
            steps = [LINE if o.along_terms else self.times(o.term_step, 2 * TERMS) for o in operands]
            own = sources[: left.passes], sources[left.passes :]
            return [self.bytes(s, step) for some, step in zip(own, steps) for s in some]

        def turn(stage: int, number: Value, state: list[Value], surely: bool) -> list[Value]:
            """Add the terms of a stage, and start the copies of the one that comes `ahead` later, where all have read what was there."""
            sources, sums = state[:count], state[count:]
            f.call("void", "llvm.nvvm.cp.async.wait.group", i32(ahead - 1))
            self.arrived()
            self.threads.barrier()
            sums = self.multiply(stage, sums)
            sources = copy((stage + ahead) % stages, f.add(number, i64(ahead)), sources, surely)
            return [*sources, *self.settled(sums, self.behind if surely else 0)]

        def turns(carried: list[Value]) -> list[Value]:
            number, state = carried[0], carried[1:]
            for n in range(unrolled):
                state = turn(n % stages, f.add(number, i64(n)), state, True)
            return [f.add(number, i64(unrolled)), *state]

        sources = [s for o in operands for s in self.sources(o)] if not taps else []
        count = len(sources)
        for stage in range(ahead):
            sources = copy(stage, i64(stage), sources)
        number, state = i64(0), [*sources, *[zero] * len(self.sums)]
        if not taps:
            # First, as long as there are whole stages to copy, all stages in turn without a question; then one by one.
            # Two stages are written out twice, but where that takes more registers than there are: both operands have lines of one term.
            few = stages == 2 and (left.along_terms or right.along_terms)
            unrolled = 2 * stages if few else stages
            last_whole = f.binary("sub", whole, i64(unrolled + ahead - 1))
            number, *state = f.repeat([number, *state], lambda c: self.test("slt", c[0], last_whole), turns)
            state[count:] = self.settled(state[count:])
        head, done, before = f.fresh("head"), f.fresh("done"), f.block
        leaving = [(before, state[count:])]
        f.branch_if(exists(number), head, done)
        f.start(head)
        first = Value("i64", "%" + f.fresh("i"))
        phis = [Value(v.type, "%" + f.fresh("c")) for v in state]
        lines = f.blocks[-1][1]  # the phi nodes are filled in when what they take is known
        now, here = phis, first
        for stage in range(stages):
            now = turn(stage, here, now, False)
            here = f.add(first, i64(stage + 1))
            last, more = f.block, head if stage == stages - 1 else f.fresh("more")
            leaving.append((last, now[count:]))
            f.branch_if(exists(here), more, done)
            if more != head:
                f.start(more)
        lines[:0] = [
            f"  {p.name} = phi {p.type} [ {start.name}, %{before} ], [ {then.name}, %{last} ]"
            for p, start, then in zip([first, *phis], [number, *state], [here, *now])
        ]
        f.start(done)
        return [
            f.op("float", "phi float " + ", ".join(f"[ {s[n].name}, %{label} ]" for label, s in leaving))
            for n in range(len(self.sums))
        ]

    # --- the result ------------------------------
    def store(self, c: Value, d: Value, row0: Value, column0: Value, sums: list[Value]) -> None:
        """Where the whole rectangle exists and neighbours can be written as one word, without a question for each."""
        f, given = self.f, self.given
        row, column = self.first_sum(row0, column0)
        address = f.op("i64", f"ptrtoint {c} to i64")
        bits = f.binary("or", address, self.times(given["c_row"], 2))
        smooth = self.both(
            self.test("sle", f.add(row0, i64(ROWS)), given["m"]),
            self.test("sle", f.add(column0, i64(COLUMNS)), given["n"]),
            self.test("eq", given["c_column"], i64(1)),
            self.test("eq", f.binary("and", bits, i64(3)), i64(0)),
        )
        lines: dict[int, list[tuple[int, Value]]] = {}
        for (down, across), sum in zip(self.sums, sums):
            lines.setdefault(down, []).append((across, sum))

        def begin(down: int) -> tuple[Value, Value]:
            """Where the thread's part of a line begins in c and in d."""
            return self.element("c", c, row, column, down), self.element(self.added, d, row, column, down)

        whole, edge, after = (f.fresh(label) for label in ("whole", "edge", "stored"))
        f.branch_if(smooth, whole, edge)
        f.start(whole)
        for down, line in lines.items():
            to, old = begin(down)
            for (across, first), (_, second) in zip(line[::2], line[1::2]):
                self.store_pair(self.bytes(to, 2 * across), old, across, first, second)
        f.branch(after)
        f.start(edge)
        for down, line in lines.items():
            inside = self.test("slt", f.add(row, i64(down)), given["m"])
            f.when(inside, partial(self.store_line, *begin(down), line, column))
        f.branch(after)
        f.start(after)

    def scatter(self, c: Value, d: Value, row0: Value, column0: Value, sums: list[Value]) -> None:
        """The same of a convolution, whose columns are numbers of several digits; its addend has a number a row."""
        f, given, kernel = self.f, self.given, self.kernel
        row, column = self.first_sum(row0, column0)
        columns: dict[int, list[tuple[int, Value]]] = {}
        for (down, across), sum in zip(self.sums, sums):
            columns.setdefault(across, []).append((down, sum))
        for across, own in columns.items():
            number = f.add(column, i64(across))

            def put_column(number: Value = number, own: list[tuple[int, Value]] = own) -> list[Value]:
                offset = self.offset(self.digits(number, self.column_sizes), self.c_steps)
                for down, sum in own:
                    at = f.add(row, i64(down))

                    def put(at: Value = at, sum: Value = sum) -> list[Value]:
                        place = f.gep(self.kind, c, f.add(f.mul(at, given["c_row"]), offset))
                        old = f.gep(self.kind, d, f.mul(at, given["d_row"])) if kernel.addend else place
                        value = self.scaled(sum, partial(self.loaded, old))
                        f.store(self.low.cast(value, "float32", kernel.dtype), place, 2)
                        return []

                    f.when(self.test("slt", at, given["m"]), put)
                return []

            f.when(self.test("slt", number, given["n"]), put_column)

    def first_sum(self, row0: Value, column0: Value) -> tuple[Value, Value]:
        """Row and column of the thread's first sum; alpha and beta are loaded."""
        row, column = self.corner()
        self.alpha, self.beta = (
            self.low.cast(self.given[name], "float64", "float32") for name in ("alpha", "beta")
        )
        return self.f.add(row0, row), self.f.add(column0, column)

    def element(self, name: str, start: Value, row: Value, column: Value, down: int) -> Value:
        f, (row_step, column_step) = self.f, (self.given[f"{name}_{along}"] for along in ("row", "column"))
        here = f.gep(self.kind, start, f.add(f.mul(row, row_step), f.mul(column, column_step)))
        return f.gep(self.kind, here, self.times(row_step, down))

    def scaled(self, sum: Value, old: Callable[[], Value]) -> Value:
        value, after = self.f.binary("fmul", sum, self.alpha), self.kernel.after
        if self.kernel.adds:
            value = self.f.call("float", "llvm.fma.f32", self.beta, old(), value)
        return value if after is None else self.low.values([after], {ex.input(0, "float32"): value})[0]

    def loaded(self, place: Value) -> Value:
        return self.low.cast(self.f.load(self.kind, place, 2), self.kernel.dtype, "float32")

    def old(self, begin: Value, across: int) -> Value:
        """An element of the addend's line, from its beginning."""
        place = self.f.gep(self.kind, begin, self.times(self.given[f"{self.added}_column"], across))
        return self.loaded(place)

    def store_pair(self, to: Value, old: Value, across: int, first: Value, second: Value) -> None:
        f, dtype = self.f, self.kernel.dtype
        olds: list[Value] = []
        if self.kernel.addend:
            olds = [self.old(old, across + n) for n in (0, 1)]
        elif self.kernel.adds:
            pair = f.load(f"<2 x {self.kind}>", to, 4)
            olds = [
                self.low.cast(f.op(self.kind, f"extractelement {pair}, i32 {n}"), dtype, "float32")
                for n in (0, 1)
            ]
        low, high = (self.scaled(sum, partial(olds.__getitem__, n)) for n, sum in enumerate((first, second)))
        kind, short = ("<2 x half>", "f16x2") if dtype == "float16" else ("<2 x bfloat>", "bf16x2")
        f.store(f.call(kind, f"llvm.nvvm.ff2{short}.rn", high, low), to, 4)

    def store_line(self, to: Value, old: Value, line: list[tuple[int, Value]], column: Value) -> list[Value]:
        f, given, dtype = self.f, self.given, self.kernel.dtype
        for across, sum in line:
            place = f.gep(self.kind, to, self.times(given["c_column"], across))

            def put(place: Value = place, across: int = across, sum: Value = sum) -> list[Value]:
                value = self.scaled(sum, lambda: self.old(old, across))
                f.store(self.low.cast(value, "float32", dtype), place, 2)
                return []

            f.when(self.test("slt", f.add(column, i64(across)), given["n"]), put)
        return []
