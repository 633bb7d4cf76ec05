"""An interpreter of the PTX that kernels of blocks become: threads, shared memory, barriers, asynchronous copies, matrix instructions.

Every warp runs by itself, in an order that a generator draws, until it comes to a barrier.  What the PTX ISA leaves open is made as
bad as it may be: shared memory is NaN at first; the target of a copy is NaN from the copy on until a thread has waited for it; `wgmma`
reads its operands when it is issued or when it is waited for, as drawn; its sums are there only then.  Errors: addresses outside of what
was allocated, shared memory that wgmma reads without `fence.proxy.async` after it was written, warps that never meet.

The layouts are those of the PTX ISA: "Matrix fragments for mma.m16n8k16 with floating point type", "ldmatrix", "Register fragments and
shared memory matrix layouts" of wgmma, "matrix descriptor format".
"""

from __future__ import annotations

import re
import struct

import numpy as np

WIDTH = {"8": "u1", "16": "<u2", "32": "<u4", "64": "<u8", "128": None}
BASE = 1 << 32  # of global memory
WARP = 32
MEETING = {"bar", "shfl", "ldmatrix", "mma", "wgmma"}  # what all threads of a warp execute together
NAN = 0xFF  # two of these are a NaN in float16 and bfloat16


def bfloat16(bits):
    return (bits.astype("<u4") << 16).view("<f4")


def rounded(values, kind):
    """float32 → bits of float16 or bfloat16, ties to even."""
    if kind == "f16":
        with np.errstate(over="ignore"):
            return values.astype("<f2").view("<u2")
    bits = values.view("<u4").astype("u8")
    result = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2")
    return np.where(np.isnan(values), 0x7FFF, result).astype("<u2")


def halves(words, kind):
    """The two numbers of each 32-bit word, in float32."""
    bits = np.ascontiguousarray(words.astype("<u4")).view("<u2").reshape(*words.shape, 2)
    return bits.view("<f2").astype("f4") if kind == "f16" else bfloat16(bits)


class Program:
    """The instructions of the one kernel in a text: guard, name and operands each; where labels stand."""

    def __init__(self, text: str):
        self.parameters = re.findall(r"\.param \.(\w+)[^\n]*? (\w+)[,\n]", text[: text.index("{\n")])
        self.code, self.labels = [], {}
        self.shared, self.shared_bytes = {}, 0  # where the kernel's own arrays begin, and their bytes
        for align, name, count in re.findall(r"\.shared \.align (\d+) \.b8 (\w+)\[(\d+)\]", text):
            begin = -(-self.shared_bytes // int(align)) * int(align)
            self.shared[name], self.shared_bytes = begin, begin + int(count)
        body = re.sub(r"//[^\n]*", "", text[text.index("{\n") + 2 : text.rindex("}")])
        body = re.sub(r"\{(?=\s*(\.reg|wgmma))|(?<=;)\s*\}", " ", body)  # blocks of assembly in the text
        for piece in re.split(r";|(?<=:)\s", body):
            piece = " ".join(piece.split())
            if piece.endswith(":"):
                self.labels[piece[:-1]] = len(self.code)
            elif piece and not piece.startswith("."):
                guard, name, rest = re.match(r"(@!?%\w+)? ?([\w.:]+) ?(.*)", piece).groups()
                operands = re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s]+", rest)
                self.code.append((guard, name.split("."), operands))


class Machine:
    """Runs a program on arrays: `place` gives an array an address, `run` changes it in place."""

    def __init__(self, text: str, seed: int = 0):
        self.program, self.random = Program(text), np.random.default_rng(seed)
        self.memory, self.known, self.arrays = np.zeros(0, "u1"), np.zeros(0, bool), []
        self.counts: dict[str, int] = {}  # instructions of warps
        self.threads: dict[str, int] = {}  # the same, of threads

    def place(self, array: np.ndarray, offset: int = 0) -> int:
        """An address at 256 bytes, and `offset` more, with a gap behind it."""
        begin = len(self.memory) + offset
        data = array.reshape(-1).view("u1")
        size = -(-(offset + len(data) + 64) // 256) * 256
        memory, known = np.zeros(size, "u1"), np.zeros(size, bool)
        memory[offset : offset + len(data)], known[offset : offset + len(data)] = data, True
        self.memory, self.known = np.concatenate([self.memory, memory]), np.concatenate([self.known, known])
        self.arrays.append((begin, data))
        return BASE + begin

    def run(self, blocks: int, threads: int, shared: int, *arguments: int | float) -> None:
        assert len(arguments) == len(self.program.parameters)
        self.given = {
            name: struct.unpack("<Q", struct.pack("<d" if kind == "f64" else "<q", a))[0]
            for (kind, name), a in zip(self.program.parameters, arguments)
        }
        for block in self.random.permutation(blocks):
            Block(self, int(block), blocks, threads, shared).run()
        for begin, data in self.arrays:
            data[:] = self.memory[begin : begin + len(data)]


class Block:
    def __init__(self, machine: Machine, number: int, blocks: int, threads: int, shared: int):
        self.m, self.p = machine, machine.program
        self.special = {"%ctaid.x": number, "%nctaid.x": blocks, "%ntid.x": threads}
        # 16 bytes on, so that code which relies on more than the declared alignment fails
        self.base = 16
        self.own = self.base + -(-shared // 16) * 16
        self.shared = np.full(self.own + self.p.shared_bytes, NAN, "u1")
        self.unfenced = np.full(len(self.shared), -1, "i4")  # the thread whose writes wgmma may not see yet
        self.warps = [Warp(self, w) for w in range(threads // WARP)]

    def run(self) -> None:
        while True:
            ready = [w for w in self.warps if not w.waits and not w.ended]
            if ready:
                ready[self.m.random.integers(len(ready))].go(int(self.m.random.integers(1, 200)))
                continue
            if all(w.ended for w in self.warps):
                return
            assert not any(w.ended for w in self.warps), "some warps wait where others have ended"
            for w in self.warps:
                w.waits = False


class Warp:
    def __init__(self, block: Block, number: int):
        self.b, self.m, self.number = block, block.m, number
        self.thread = number * WARP + np.arange(WARP)
        self.registers: dict[str, np.ndarray] = {}
        self.at = np.zeros(WARP, "i8")
        self.alive = np.ones(WARP, bool)
        self.waits = self.ended = False
        self.copies: list = []  # groups of asynchronous copies, the last one open
        self.products: list = []  # the same of wgmma
        self.copies.append([])
        self.products.append([])

    def go(self, steps: int) -> None:
        code = self.b.p.code
        while steps and not self.waits:
            steps -= 1
            if not self.alive.any():
                self.ended = True
                return
            place = self.next_place()
            on = self.alive & (self.at == place)
            guard, name, operands = code[place]
            self.at[on] += 1
            self.here = on
            if guard:
                p = self.read(guard.strip("@!")).astype(bool)
                on = on & (~p if guard[1] == "!" else p)
            self.on = on
            key = ".".join(name)
            self.m.counts[key] = self.m.counts.get(key, 0) + 1
            self.m.threads[key] = self.m.threads.get(key, 0) + int(on.sum())
            getattr(self, "do_" + name[0])(name[1:], *operands)

    def next_place(self) -> int:
        """The earliest instruction that a thread is at; where threads meet, they wait for those that are elsewhere."""
        at = self.at[self.alive]
        first = int(at.min())
        if first == at.max():
            return first
        code = self.b.p.code
        alone = [p for p in np.unique(at) if code[p][1][0] not in MEETING and "group" not in code[p][1][-1]]
        return int(alone[0]) if alone else first

    # --- operands ------------------------------
    def read(self, operand: str) -> np.ndarray:
        """64 bits of each thread."""
        if operand in self.registers:
            return self.registers[operand]
        if operand == "%tid.x":
            return self.thread.astype("<u8")
        if operand in self.b.special:
            return np.full(WARP, self.b.special[operand], "<u8")
        if operand == "shared":
            return np.full(WARP, self.b.base, "<u8")
        if operand in self.b.p.shared:
            return np.full(WARP, self.b.own + self.b.p.shared[operand], "<u8")
        if operand[:2] in ("0f", "0d"):
            return np.full(WARP, int(operand[2:], 16), "<u8")
        assert not operand.startswith("%"), f"{operand} is read before it is written"
        return np.full(WARP, int(operand, 0) & (1 << 64) - 1, "<u8")

    def signed(self, operand: str, bits: int) -> np.ndarray:
        return self.read(operand).astype(f"<u{bits // 8}").view(f"<i{bits // 8}").astype("<i8")

    def floats(self, operand: str, bits: int = 32) -> np.ndarray:
        return self.read(operand).astype(f"<u{bits // 8}").view(f"<f{bits // 8}")

    def write(self, operand: str, values: np.ndarray, bits: int = 64, on: np.ndarray | None = None) -> None:
        values = values.astype("<u8") if bits == 64 else values.astype("<u8") & ((1 << bits) - 1)
        old = self.registers.get(operand, np.zeros(WARP, "<u8"))
        self.registers[operand] = np.where(self.on if on is None else on, values, old)

    def write_floats(
        self, operand: str, values: np.ndarray, on: np.ndarray | None = None, bits: int = 32
    ) -> None:
        size = bits // 8
        self.write(operand, np.ascontiguousarray(values, f"<f{size}").view(f"<u{size}"), bits, on)

    @staticmethod
    def list(operand: str) -> list[str]:
        return operand.strip("{}").replace(" ", "").split(",")

    def address(self, operand: str) -> np.ndarray:
        base, _, offset = operand.strip("[]").replace(" ", "").partition("+")
        return self.read(base) + np.uint64(int(offset or 0) & (1 << 64) - 1)

    def places(self, space: str, address: np.ndarray, size: int, aligned: int = 0) -> np.ndarray:
        """Indices of the bytes in the memory, (threads, size), of addresses that exist."""
        assert (address % np.uint64(aligned or size) == 0).all(), "an address is not aligned"
        first = address.astype("i8") - (BASE if space == "global" else 0)
        inside = (first >= (0 if space == "global" else self.b.base)).all()
        limit = len(self.m.memory if space == "global" else self.b.shared)
        assert inside and (first + size <= limit).all(), f"outside of {space} memory"
        result = first[:, None] + np.arange(size)
        assert space != "global" or self.m.known[result].all(), "outside of all arrays"
        return result

    def memory(self, space: str) -> np.ndarray:
        return self.m.memory if space == "global" else self.b.shared

    # --- numbers ------------------------------
    def do_mov(self, name, to, source):
        if source.startswith("{"):
            parts = [self.read(s) for s in self.list(source)]
            size = 64 // len(parts) if name[-1] == "b64" else 32 // len(parts)
            return self.write(to, sum(p << np.uint64(size * n) for n, p in enumerate(parts)))
        if to.startswith("{"):
            parts, bits = self.list(to), int(name[-1][1:])
            size = bits // len(parts)
            for n, part in enumerate(parts):
                if part != "_":
                    self.write(part, self.read(source) >> np.uint64(size * n), size)
            return None
        return self.write(to, self.read(source))

    def do_ld(self, name, to, source):
        if name[0] == "param":
            return self.write(to, np.full(WARP, self.m.given[source.strip("[]")], "<u8"))
        space, size = name[0], int(name[-1][1:]) // 8
        to = self.list(to)
        address = self.address(source)[self.on]
        places = self.places(space, address, size * len(to), size)
        data = self.memory(space)[places]
        for n, register in enumerate(to):
            values = np.zeros(WARP, "<u8")
            part = np.ascontiguousarray(data[:, n * size : n * size + size])
            values[self.on] = part.view(WIDTH[str(8 * size)]).reshape(-1)
            self.write(register, values)
            if name[-1][0] == "s":  # with the sign in all further bits of the register
                self.write(register, self.signed(register, 8 * size))
        return None

    def do_st(self, name, to, source):
        space, size, source = name[0], int(name[-1][1:]) // 8, self.list(source)
        places = self.places(space, self.address(to)[self.on], size * len(source), size * len(source))
        data = [self.read(s)[self.on].astype(WIDTH[str(8 * size)])[:, None].view("u1") for s in source]
        self.memory(space)[places] = np.concatenate(data, 1)
        if space == "shared":
            self.b.unfenced[places] = self.thread[self.on][:, None]

    def arithmetic(self, name, to, a, b, how):
        bits = int(name[-1][1:])
        if name[-1][0] == "f":
            with np.errstate(all="ignore"):
                return self.write_floats(to, how(self.floats(a, bits), self.floats(b, bits)), bits=bits)
        with np.errstate(all="ignore"):
            return self.write(to, how(self.signed(a, bits), self.signed(b, bits)), bits)

    def do_add(self, name, to, a, b):
        self.arithmetic(name, to, a, b, np.add)

    def do_sub(self, name, to, a, b):
        self.arithmetic(name, to, a, b, np.subtract)

    def do_min(self, name, to, a, b):
        self.arithmetic(name, to, a, b, np.minimum)

    def do_max(self, name, to, a, b):
        # of floats NumPy's is max.NaN; max itself passes over a NaN
        self.arithmetic(name, to, a, b, np.fmax if name[0] == "f32" else np.maximum)

    def do_neg(self, name, to, a):
        if name == ["f32"]:
            return self.write_floats(to, -self.floats(a))
        bits = int(name[-1][1:])
        return self.write(to, -self.signed(a, bits), bits)

    def do_rcp(self, name, to, a):
        with np.errstate(all="ignore"):
            self.write_floats(to, np.float32(1) / self.floats(a))

    def do_ex2(self, name, to, a):
        assert name == ["approx", "ftz", "f32"]
        with np.errstate(all="ignore"):
            self.write_floats(to, self.approximate(np.exp2(self.floats(a).astype("f8"))))

    def do_lg2(self, name, to, a):
        assert name == ["approx", "ftz", "f32"]
        with np.errstate(all="ignore"):
            self.write_floats(to, self.approximate(np.log2(self.floats(a).astype("f8"))))

    def approximate(self, values):
        """As wrong as the ISA allows: 2⁻²² of the value."""
        off = self.m.random.uniform(-1, 1, values.shape) * 2.0**-22
        return np.where(np.abs(values) < 2.0**-126, 0.0 * values, values * (1 + off)).astype("f4")

    def do_mul(self, name, to, a, b):
        if name[0] == "wide":
            return self.write(to, self.integers(name, a) * self.integers(name, b))
        return self.arithmetic(name, to, a, b, np.multiply)

    def integers(self, name, operand):
        bits = int(name[-1][1:])
        return (
            self.signed(operand, bits)
            if name[-1][0] == "s"
            else self.read(operand) & np.uint64((1 << bits) - 1)
        )

    def do_mad(self, name, to, a, b, c):
        bits = int(name[-1][1:])
        wide = 64 if name[0] == "wide" else bits
        self.write(to, self.integers(name, a) * self.integers(name, b) + self.signed(c, wide), wide)

    def do_fma(self, name, to, a, b, c):
        a, b, c = (self.floats(x).astype("f8") for x in (a, b, c))
        with np.errstate(all="ignore"):
            self.write_floats(to, a * b + c)

    def do_abs(self, name, to, a):
        self.write(to, self.read(a) & np.uint64((1 << int(name[-1][1:]) - 1) - 1))

    def do_sqrt(self, name, to, a):
        with np.errstate(all="ignore"):
            self.write_floats(to, np.sqrt(self.floats(a)))

    def do_div(self, name, to, a, b):
        if name[-1][0] == "f":
            return self.arithmetic(name, to, a, b, np.divide)
        divisor = self.read(b)
        assert divisor[self.on].all(), "a division by zero"
        return self.write(to, self.read(a) // np.maximum(divisor, np.uint64(1)))

    def do_rem(self, name, to, a, b):
        self.write(to, self.read(a) % np.maximum(self.read(b), np.uint64(1)))

    def do_shl(self, name, to, a, b):
        self.write(to, self.read(a) << self.read(b), int(name[-1][1:]))

    def do_shr(self, name, to, a, b):
        bits = int(name[-1][1:])
        if name[-1][0] == "s":
            return self.write(to, self.signed(a, bits) >> self.read(b).astype("i8"), bits)
        return self.write(to, self.read(a) >> self.read(b))

    def do_bfe(self, name, to, a, b, c):
        self.write(to, self.read(a) >> self.read(b) & (np.uint64(1) << self.read(c)) - np.uint64(1))

    def do_and(self, name, to, a, b):
        self.write(to, self.read(a) & self.read(b))

    def do_or(self, name, to, a, b):
        self.write(to, self.read(a) | self.read(b))

    def do_xor(self, name, to, a, b):
        self.write(to, self.read(a) ^ self.read(b))

    def do_not(self, name, to, a):
        self.write(to, self.read(a) ^ np.uint64(1) if name[0] == "pred" else ~self.read(a))

    def do_selp(self, name, to, a, b, p):
        self.write(to, np.where(self.read(p).astype(bool), self.read(a), self.read(b)))

    def do_shfl(self, name, to, a, lane, bound, members):
        assert name[0] == "sync" and name[2] == "b32" and self.on.all() and bound == "31"
        assert (self.read(members).astype("<u4") == 0xFFFFFFFF).all()
        lanes = self.read(lane).astype("i8")
        self.write(to, self.read(a)[lanes if name[1] == "idx" else np.arange(WARP) ^ lanes])

    def do_setp(self, name, to, a, b):
        bits = int(name[-1][1:])
        if name[-1][0] == "f":
            a, b = self.floats(a, bits), self.floats(b, bits)
            apart = np.isnan(a) | np.isnan(b)
            if name[0] in ("nan", "num"):
                return self.write(to, apart == (name[0] == "nan"))
            how = {
                "lt": np.less,
                "le": np.less_equal,
                "gt": np.greater,
                "ge": np.greater_equal,
                "eq": np.equal,
            }
            plain = name[0] in ("lt", "le", "gt", "ge", "eq", "ne", "neu")  # and "u": or one is NaN
            found = how.get(name[0] if plain else name[0][:-1], np.not_equal)(a, b)
            return self.write(to, found & ~apart if name[0] == "ne" else found if plain else found | apart)
        if name[-1][0] == "u":
            a, b = (self.read(x) & np.uint64((1 << bits) - 1) for x in (a, b))
        else:
            a, b = self.signed(a, bits), self.signed(b, bits)
        how = {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal}
        return self.write(to, how.get(name[0], np.not_equal)(a, b))

    def do_cvt(self, name, to, a, b=None):
        target, source = name[-2:]
        if target in ("f16x2", "bf16x2"):
            high, low = (rounded(self.floats(x), target[:-2]).astype("<u8") for x in (a, b))
            return self.write(to, high << np.uint64(16) | low)
        if target == "f64" and source == "f32":
            return self.write_floats(to, self.floats(a), bits=64)
        if target in ("f32", "f64") and source[0] in "su":
            return self.write_floats(to, self.integers([source], a), bits=int(target[1:]))
        if source == "f32":
            return self.write(to, rounded(self.floats(a), target))
        if source == "f16":
            return self.write_floats(to, self.read(a).astype("<u2").view("<f2").astype("<f4"))
        if source == "f64":
            return self.write_floats(to, self.read(a).view("<f8").astype("<f4"))
        values = self.integers([source], a)
        if target[0] == "s":
            return self.write(to, values.astype("<i8").astype(f"<i{int(target[1:]) // 8}").astype("<i8"))
        return self.write(to, values, int(target[1:]))

    # --- where threads go ------------------------------
    def do_bra(self, name, label):
        self.at[self.on] = self.b.p.labels[label]

    def do_ret(self, name):
        self.alive &= ~self.on

    def do_bar(self, name, *numbers):
        assert self.on.all(), "a part of a warp comes to a barrier"
        self.waits = True

    def do_fence(self, name):
        assert name == ["proxy", "async", "shared::cta"]
        self.b.unfenced[np.isin(self.b.unfenced, self.thread[self.on])] = -1

    # --- asynchronous copies ------------------------------
    def do_cp(self, name, *operands):
        if name[1] == "commit_group":
            assert self.on.all()
            return self.copies.append([])
        if name[1] == "wait_group":
            assert self.on.all()
            while len(self.copies) - 1 > int(operands[0]):
                for places, data, threads in self.copies.pop(0):
                    self.b.shared[places] = data
                    self.b.unfenced[places] = threads
            return None
        to, source, size, *read = operands
        assert size == "16" and name[1:] == ["cg", "shared", "global"]
        if not self.on.any():
            return None
        count = self.read(read[0])[self.on].astype("i8") if read else np.full(self.on.sum(), 16)
        places = self.places("shared", self.address(to)[self.on], 16)
        address = self.address(source)[self.on]
        assert (address % np.uint64(16) == 0).all(), "a copy of 16 bytes from an address that is no multiple"
        data = np.zeros((len(places), 16), "u1")
        for n, (begin, length) in enumerate(zip(address, count)):
            if length:
                one = np.array([begin], "<u8")
                data[n, :length] = self.m.memory[self.places("global", one, int(length), 1)[0]]
        self.b.shared[places] = NAN
        return self.copies[-1].append((places, data, self.thread[self.on][:, None]))

    # --- matrix instructions ------------------------------
    def do_ldmatrix(self, name, to, source):
        assert self.on.all()
        lines = self.b.shared[self.places("shared", self.address(source), 16)].view("<u2").reshape(4, 8, 8)
        if "trans" in name:
            lines = lines.transpose(0, 2, 1)
        words = np.ascontiguousarray(lines).view("<u4").reshape(4, WARP)  # thread t: row t/4, pair t%4
        for register, four in zip(self.list(to), words):
            self.write(register, four)

    def fragment(self, operand, kind):
        """The 16 × 16 elements of a left operand in registers."""
        left, t = np.zeros((16, 16), "f4"), np.arange(WARP)
        for n, register in enumerate(self.list(operand)):
            two = halves(self.read(register), kind)
            for e in range(2):
                left[t // 4 + 8 * (n % 2), t % 4 * 2 + e + 8 * (n // 2)] = two[:, e]
        return left

    def do_mma(self, name, d, a, b, c):
        assert name[:4] == ["sync", "aligned", "m16n8k16", "row"] and self.on.all()
        kind = name[6]
        t = np.arange(WARP)
        group, pair = t // 4, t % 4 * 2
        left, right, sums = self.fragment(a, kind), np.zeros((16, 8), "f4"), np.zeros((16, 8), "f4")
        for n, register in enumerate(self.list(b)):
            two = halves(self.read(register), kind)
            for e in range(2):
                right[pair + e + 8 * n, group] = two[:, e]
        for n, register in enumerate(self.list(c)):
            sums[group + 8 * (n // 2), pair + n % 2] = self.floats(register)
        with np.errstate(all="ignore"):
            sums = sums + left @ right
        for n, register in enumerate(self.list(d)):
            self.write_floats(register, sums[group + 8 * (n // 2), pair + n % 2])

    def do_wgmma(self, name, *operands):
        assert self.on.all()
        if name[0] == "fence":
            return None
        if name[0] == "commit_group":
            return self.products.append([])
        if name[0] == "wait_group":
            while len(self.products) - 1 > int(operands[0]):
                for product in self.products.pop(0):
                    product()
            return None
        d, left, right, scale, one, other, *turned = operands
        from_registers = left.startswith("{")
        assert (one, other) == ("1", "1") and len(turned) == 2 - from_registers
        columns, kind = int(re.match(r"m64n(\d+)k16", name[3])[1]), name[5]
        first = self.number % 4 * 16
        adds = self.read(scale).astype(bool)
        assert adds.all() or not adds.any()
        left_at = None if from_registers else int(self.read(left)[0])
        right_at = int(self.read(right)[0])

        def operands_now():
            if from_registers:
                a = self.fragment(left, kind)
            else:
                a = self.described(left_at, 64, turned[0] == "1", kind)[first : first + 16]
            return a, self.described(right_at, columns, turned[-1] == "1", kind)

        early = operands_now() if self.m.random.integers(2) else None
        registers = np.array(self.list(d))

        def finish():
            a, b = early or operands_now()
            with np.errstate(all="ignore"):
                added = a @ b.T
            t = np.arange(WARP)
            for n, register in enumerate(registers):
                row, column = t // 4 + 8 * (n // 2 % 2), n // 4 * 8 + t % 4 * 2 + n % 2
                old = self.floats(register) if adds.all() else np.float32(0)
                self.write_floats(register, old + added[row, column], np.ones(WARP, bool))

        return self.products[-1].append(finish)

    def described(self, descriptor: int, rows: int, turned: bool, kind: str) -> np.ndarray:
        """The matrix of rows × 16 terms that a descriptor says, with the swizzle of 128 bytes."""
        begin, leading, stride = ((descriptor >> n & 0x3FFF) << 4 for n in (0, 16, 32))
        assert descriptor >> 62 == 1 and descriptor >> 49 & 7 == 0, (
            "not the swizzle of 128 bytes, or a base offset"
        )
        row, term = np.meshgrid(np.arange(rows), np.arange(16), indexing="ij")
        if turned:  # 64 rows by 8 terms, each term a line
            offset = row // 64 * leading + term // 8 * stride + term % 8 * 128 + row % 64 * 2
        else:  # 8 rows, each a line
            offset = row // 8 * stride + row % 8 * 128 + term * 2
        address = begin + offset
        address ^= (address >> 7 & 7) << 4
        assert (address >= self.b.base).all() and (address + 2 <= len(self.b.shared)).all()
        places = address[..., None] + np.arange(2)
        assert (self.b.unfenced[places] == -1).all(), "wgmma reads what no fence.proxy.async has followed"
        bits = self.b.shared[places].view("<u2")[..., 0]
        return bits.view("<f2").astype("f4") if kind == "f16" else bfloat16(bits)
