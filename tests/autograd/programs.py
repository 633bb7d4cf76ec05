"""Random programs over tensors, and a slow interpreter of them in NumPy that knows PyTorch's rules.

A program makes leaves, computes, takes views, writes in place through them, switches recording off and on, detaches, hangs
hooks on results and keeps their gradients.  The interpreter shares nothing with the tape.  It carries derivatives forward:
each element is a polynomial a + b·e + c·d + f·e·d (and one term more for each result whose gradient is kept), where e and d
are steps of all leaves in two random directions.  Views are NumPy's views of the elements and of their derivatives alike, so
a write through any of them is seen by all; what is not recorded has no derivatives.  `b` is then the gradient of the loss
along the first direction, `f` the second derivative along both.

The interpreter also follows the versions of what PyTorch saves for backward, and knows which statements PyTorch refuses.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

FIRST, SECOND, BOTH = 1, 2, 3  # terms of a polynomial; 0 is the value, from 4 on those of kept gradients
KEPT = 4
TERMS = 12


class Refused(Exception):
    """PyTorch raises here."""


@dataclass(eq=False)
class Storage:
    """Memory: counts the writes to it."""

    version: int = 0


@dataclass(eq=False)
class Step:
    """A recorded operation: what it depends on, and what it saved, as (storage, version)."""

    inputs: list[Step]
    saved: list[tuple[Storage, int]]


@dataclass(eq=False)
class Root:
    """A tensor that is no view: the one history that all its views share."""

    storage: Storage
    step: Step | None = None
    requires: bool = False
    leaf: bool = False
    kept: int = 0  # the term of its kept gradient
    factor: float = 1.0  # by which a hook on its newest history scales gradients
    reread: bool = False  # its derivative reads the result
    rowwise: bool = True  # PyTorch, too, puts its elements in row-major order
    seed: np.ndarray | None = None


@dataclass(eq=False)
class Var:
    """A tensor: its values, its derivatives (TERMS arrays, the first unused), and the tensor it is a view of."""

    value: np.ndarray
    terms: np.ndarray
    root: Root
    unrecorded: bool = False
    version: int = 0  # of the storage, where it is an unrecorded view
    whole: bool = False  # it is no view

    @property
    def requires(self) -> bool:
        return self.root.requires and not self.unrecorded


@dataclass
class Program:
    """Source lines, and what the interpreter found on the way."""

    seed: int
    lines: list[str] = field(default_factory=list)
    refused: list[bool] = field(default_factory=list)  # whether PyTorch raises there
    variables: dict[str, Var] = field(default_factory=dict)
    leaves: dict[str, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)  # the two directions
    kept: list[str] = field(default_factory=list)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    loss: Var | None = None
    stale: bool = False  # something that the derivative of the loss reads was written to

    def source(self) -> str:
        """A script that makes the same tensors and the loss."""
        head = ["import flambeau as torch", "float64 = torch.float64"]
        for name, array in self.constants.items():
            dtype = "" if array.dtype == bool else ", dtype=float64"
            head.append(f"{name} = torch.tensor({array.tolist()}{dtype})")
        body = [
            f"try: {line}\nexcept RuntimeError as e: print(e)" if refused else line
            for line, refused in zip(self.lines, self.refused)
        ]
        return "\n".join([f"# program {self.seed}", *head, *body])


# --- polynomials ------------------------------
def _reduced(terms: np.ndarray, shape: tuple) -> np.ndarray:
    return np.broadcast_to(terms, (TERMS, *shape))


def chain(x: Var, value: np.ndarray, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """f(x) from its value and derivatives."""
    terms = first * x.terms
    terms[BOTH] += second * x.terms[FIRST] * x.terms[SECOND]
    return value, terms


def product(a: Var, b: Var) -> tuple[np.ndarray, np.ndarray]:
    value = a.value * b.value
    terms = _reduced(_aligned(a, value.ndim), value.shape) * b.value + a.value * _reduced(
        _aligned(b, value.ndim), value.shape
    )
    p, q = _aligned(a, value.ndim), _aligned(b, value.ndim)
    terms[BOTH] += p[FIRST] * q[SECOND] + p[SECOND] * q[FIRST]
    return value, terms


def _aligned(x: Var, rank: int) -> np.ndarray:
    """Terms with as many dimensions as a result that x is broadcast to."""
    return x.terms.reshape(TERMS, *(1,) * (rank - x.value.ndim), *x.value.shape)


def linear(a: Var, b: Var, factor: float) -> tuple[np.ndarray, np.ndarray]:
    """a + factor · b."""
    value = a.value + factor * b.value
    rank = value.ndim
    return value, _reduced(_aligned(a, rank), value.shape) + factor * _aligned(b, rank)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


UNARY: dict[str, tuple[str, Callable]] = {
    # what is saved, and the value with two derivatives
    "sin": ("input", lambda x: (np.sin(x), np.cos(x), -np.sin(x))),
    "cos": ("input", lambda x: (np.cos(x), -np.sin(x), -np.cos(x))),
    "tanh": ("output", lambda x: (np.tanh(x), 1 - np.tanh(x) ** 2, -2 * np.tanh(x) * (1 - np.tanh(x) ** 2))),
    "sigmoid": (
        "output",
        lambda x: (
            _sigmoid(x),
            _sigmoid(x) * (1 - _sigmoid(x)),
            _sigmoid(x) * (1 - _sigmoid(x)) * (1 - 2 * _sigmoid(x)),
        ),
    ),
    "exp": ("output", lambda x: (np.exp(x), np.exp(x), np.exp(x))),
    "neg": ("", lambda x: (-x, -np.ones_like(x), np.zeros_like(x))),
    "square": ("input", lambda x: (x * x, 2 * x, 2 * np.ones_like(x))),
    "atan": ("input", lambda x: (np.arctan(x), 1 / (1 + x * x), -2 * x / (1 + x * x) ** 2)),
    "relu": ("output", lambda x: (np.maximum(x, 0), (x > 0) * 1.0, np.zeros_like(x))),
    "abs": ("input", lambda x: (np.abs(x), np.sign(x), np.zeros_like(x))),
}


class Writer:
    """Writes a random program and interprets it line by line."""

    def __init__(self, seed: int, shift: tuple[float, float] = (0.0, 0.0)) -> None:
        self.shift = shift  # of all leaves along the two directions
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.program = Program(seed)
        self.variables = self.program.variables
        self.tracked = True
        self.kept = KEPT

    # --- the interpreter ------------------------------
    def new(self, value, terms, inputs: list[Var], saved: list[Var], result_saved: bool = False) -> Var:
        """The result of an operation; recorded where recording is on and an input has a history."""
        value = np.array(value, dtype=float, order="C")
        root = Root(Storage())
        made = Var(value, np.zeros((TERMS, *value.shape)), root, whole=True)
        root.rowwise = all(x.value.flags.c_contiguous and x.root.rowwise for x in inputs)
        taking = [x for x in inputs if x.requires] if self.tracked else []
        if taking:
            made.terms = np.array(_reduced(terms, value.shape), order="C")
            root.requires = True
            root.step = Step(
                [x.root.step for x in taking if x.root.step],
                [(x.root.storage, x.root.storage.version) for x in saved],
            )
            if result_saved:
                root.step.saved.append((root.storage, 0))
                root.reread = True
        return made

    def read(self, *operands: Var) -> None:
        """Refuse views that were made unrecorded and whose elements were written to since."""
        for x in operands:
            if self.tracked and x.unrecorded and x.root.requires and x.version != x.root.storage.version:
                raise Refused

    def write(self, x: Var, value, terms, inputs: list[Var], saved: list[Var], result_saved=False) -> None:
        """Overwrite x; `terms` are of the new elements."""
        root = x.root
        taking = [y for y in [x, *inputs] if y.requires] if self.tracked else []
        if self.tracked:
            if x.unrecorded and root.requires:
                raise Refused
            if root.leaf and root.requires:
                raise Refused
        if any(s == 0 and n > 1 for s, n in zip(x.value.strides, x.value.shape)):
            raise Refused
        before = [(y.root.storage, y.root.storage.version) for y in saved]
        x.value[...] = value
        root.storage.version += 1
        if taking:
            x.terms[...] = _reduced(terms, x.value.shape)
            if result_saved:
                before.append((root.storage, root.storage.version))
            steps = [y.root.step for y in taking if y.root.step]
            root.step = Step(steps + ([root.step] if root.step else []), before)
            root.requires, root.leaf = True, False
            self.keep_again(root)

    def keep_again(self, root: Root) -> None:
        """A kept gradient belongs to the newest elements."""
        root.factor = 1.0
        if root.kept:
            for x in self.variables.values():
                if x.root is root and x.whole:
                    self.plant(x)

    def plant(self, x: Var) -> None:
        """A term of its own, by which the loss shows the gradient of x."""
        if self.kept == TERMS:
            x.root.kept = 0
            return
        x.root.kept, self.kept = self.kept, self.kept + 1
        x.root.seed = self.numbers.normal(size=x.value.shape)
        x.terms[x.root.kept] = x.root.seed * x.root.factor

    # --- lines ------------------------------
    def line(self, text: str, refused: bool = False) -> None:
        self.program.lines.append(f"with torch.no_grad(): {text}" if not self.tracked else text)
        self.program.refused.append(refused)

    def name(self) -> str:
        return f"x{len(self.variables)}"

    def pick(self, wanted: Callable[[Var], bool] = lambda x: True) -> tuple[str, Var] | None:
        """A variable, the newer the likelier."""
        found = [(n, x) for n, x in self.variables.items() if wanted(x)]
        if not found:
            return None
        return found[min(int(len(found) * self.random.random() ** 0.6), len(found) - 1)]

    def leaf(self) -> None:
        shape = self.random.choice([(2, 3), (3,), (6,), (3, 2), (2, 2), (2, 3)])
        value = self.numbers.uniform(-1.2, 1.2, shape).round(3)
        name, requires = self.name(), self.random.random() < 0.8
        x = Var(value, np.zeros((TERMS, *shape)), Root(Storage(), requires=requires, leaf=True), whole=True)
        if requires:
            self.follow(name, x)
        self.variables[name] = x
        before, self.tracked = self.tracked, True
        self.line(f"{name} = torch.tensor({x.value.tolist()}, dtype=float64, requires_grad={requires})")
        self.tracked = before

    def follow(self, name: str, x: Var) -> None:
        """x is a leaf of which gradients are asked for."""
        x.terms[FIRST], x.terms[SECOND] = self.numbers.normal(size=(2, *x.value.shape))
        self.program.leaves[name] = (x.terms[FIRST].copy(), x.terms[SECOND].copy())
        x.value += self.shift[0] * x.terms[FIRST] + self.shift[1] * x.terms[SECOND]

    def ask(self) -> None:
        """`requires_grad_` of the newest tensor, where it has no history and is no view: nothing was made of it yet."""
        n, x = list(self.variables.items())[-1]
        if x.root.requires or not self.alone(x):
            return
        self.line(f"{n}.requires_grad_()")
        x.root.requires = x.root.leaf = True
        self.follow(n, x)

    def alone(self, x: Var) -> bool:
        return sum(y.root.storage is x.root.storage for y in self.variables.values()) == 1

    def result(self, text: str, make: Callable[[], Var], fresh: bool = True) -> Var | None:
        """`name = text`, unless PyTorch refuses it."""
        name = self.name()
        try:
            made = make()
        except Refused:
            self.line(f"{name} = {text}", True)
            return None
        self.variables[name] = made
        self.line(f"{name} = {text}")
        if fresh and self.tracked and made.requires:
            if (
                self.random.random() < 0.1 and not made.root.reread
            ):  # else the hook scales second derivatives, too
                factor = self.random.choice([0.5, 2.0, -1.0])
                self.line(f"{name}.register_hook(lambda g: g * {factor})")
                made.terms *= factor
                made.root.factor = factor
            if self.random.random() < 0.15 and self.kept < TERMS:
                self.plant(made)
                self.program.kept.append(name)
                self.line(f"{name}.retain_grad()")
        return made

    def unary(self) -> None:
        n, x = self.pick()
        which = self.random.choice(list(UNARY))
        saved, f = UNARY[which]

        def make() -> Var:
            self.read(x)
            return self.new(*chain(x, *f(x.value)), [x], [x] if saved == "input" else [], saved == "output")

        self.result(f"{n}.{which}()", make)

    def partner(self, x: Var, within: bool = False) -> tuple[str, Var] | None:
        """A tensor that broadcasts with x (to x's shape)."""

        def fits(y: Var) -> bool:
            try:
                shape = np.broadcast_shapes(x.value.shape, y.value.shape)
            except ValueError:
                return False
            return shape == x.value.shape or not within

        return self.pick(fits)

    def binary(self) -> None:
        n, a = self.pick()
        m, b = self.partner(a)
        which = self.random.choice("+-**")

        def make() -> Var:
            self.read(a, b)
            if which == "*":
                saved = ([b] if a.requires else []) + ([a] if b.requires else [])
                return self.new(*product(a, b), [a, b], saved)
            return self.new(*linear(a, b, 1.0 if which == "+" else -1.0), [a, b], [])

        self.result(f"{n} {which} {m}", make)

    def divide(self) -> None:
        """Division by something that is not near zero."""
        n, a = self.pick()
        m, b = self.partner(a)

        def make() -> Var:
            self.read(a, b)
            value, terms = chain(b, 1 / (b.value**2 + 1), *self.derivatives(b.value))
            return self.new(*product(a, Var(value, terms, b.root)), [a, b], [a, b] if b.requires else [])

        self.result(f"{n} / ({m} * {m} + 1)", make)

    @staticmethod
    def derivatives(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of 1 / (x² + 1)."""
        return -2 * x / (x * x + 1) ** 2, (6 * x * x - 2) / (x * x + 1) ** 3

    def reduce(self) -> None:
        n, x = self.pick(lambda x: x.value.ndim > 0)
        d = self.random.randrange(x.value.ndim)
        which = self.random.choice(["sum", "mean", "cumsum", "logsumexp", "prod"])

        def make() -> Var:
            self.read(x)
            v, t, axis = x.value, x.terms, d + 1
            if which == "sum":
                return self.new(v.sum(d), t.sum(axis), [x], [])
            if which == "mean":
                return self.new(v.mean(d), t.mean(axis), [x], [])
            if which == "cumsum":
                return self.new(v.cumsum(d), t.cumsum(axis), [x], [])
            if which == "prod":
                parts = [Var(v.take(k, d), t.take(k, axis), x.root) for k in range(v.shape[d])]
                total = parts[0]
                for part in parts[1:]:
                    total = Var(*product(total, part), x.root)
                return self.new(total.value, total.terms, [x], [x], True)
            weights = np.exp(v) / np.exp(v).sum(d, keepdims=True)
            terms = (weights * t).sum(axis)
            terms[BOTH] += (weights * t[FIRST] * t[SECOND]).sum(d) - terms[FIRST] * terms[SECOND]
            return self.new(np.log(np.exp(v).sum(d)), terms, [x], [x], True)

        self.result(f"{n}.{which}({d})", make)

    def view(self) -> None:
        """The same elements seen in another way."""
        found = self.pick(lambda x: x.value.ndim > 0)
        if found is None:
            return
        n, x = found
        shape, rank = x.value.shape, x.value.ndim
        d = self.random.randrange(rank)
        size = shape[d]
        ways: list[tuple[str, Callable]] = []
        if size > 0:
            k = self.random.randrange(size)
            at = (slice(None),) * d
            ways += [
                (f"{n}.select({d}, {k})", lambda a, s: a[(slice(None),) * s + (*at, k, ...)]),
                (f"{n}.unbind({d})[{k}]", lambda a, s: a[(slice(None),) * s + (*at, k, ...)]),
                (
                    f"{n}.narrow({d}, {k}, {size - k})",
                    lambda a, s: a[(slice(None),) * s + (*at, slice(k, None))],
                ),
                (f"{n}[{':, ' * d}::2]", lambda a, s: a[(slice(None),) * s + (*at, slice(None, None, 2))]),
            ]
        ways.append((f"{n}.unsqueeze({d})", lambda a, s: np.expand_dims(a, d + s)))
        if rank >= 2:
            ways += [
                (f"{n}.transpose(0, {rank - 1})", lambda a, s: np.swapaxes(a, s, rank - 1 + s)),
                (f"{n}.diagonal(0, 0, 1)", lambda a, s: _diagonal(a, s)),
                (f"{n}.movedim(0, -1)", lambda a, s: np.moveaxis(a, s, -1)),
            ]
        if x.value.flags.c_contiguous and x.root.rowwise:
            ways += [(f"{n}.view(-1)", lambda a, s: _reshaped(a, s, (-1,)))] * 2
            if size and x.value.size == 6:
                ways.append((f"{n}.view(3, 2)", lambda a, s: _reshaped(a, s, (3, 2))))
                ways.append((f"{n}.as_strided((2, 2), (3, 1), {n}.storage_offset() + 1)", _strided))
        if size == 1 or rank < 3:
            ways.append((f"{n}.expand(2, {', '.join(map(str, shape))})", lambda a, s: _expanded(a, s)))
        text, way = self.random.choice(ways)

        def make() -> Var:
            self.read(x)
            unrecorded = x.unrecorded or not self.tracked
            terms = way(x.terms, 1) if not unrecorded else np.zeros((TERMS, *way(x.value, 0).shape))
            return Var(way(x.value, 0), terms, x.root, unrecorded, x.root.storage.version)

        self.result(text, make, fresh=False)

    def join(self) -> None:
        """Results of two tensors, or of a part, that save nothing but numbers."""
        n, a = self.pick(lambda x: x.value.ndim > 0)
        which = self.random.choice(["cat", "index", "where", "matmul"])
        if which == "index":
            rows = [self.random.randrange(a.value.shape[0]) for _ in range(3)] if a.value.shape[0] else []

            def make() -> Var:
                self.read(a)
                return self.new(a.value[rows], a.terms[:, rows], [a], [])

            if rows:
                self.result(f"{n}[torch.tensor({rows})]", make)
            return
        inner = a.value.shape[-1:]
        other = self.pick(
            lambda y: (
                y.value.shape[:1] == inner and a.value.ndim == y.value.ndim == 2
                if which == "matmul"
                else y.value.shape == a.value.shape
            )
        )
        if other is None:
            return
        m, b = other
        mask = self.numbers.random(a.value.shape) < 0.5

        def combine() -> Var:
            self.read(a, b)
            if which == "cat":
                return self.new(
                    np.concatenate([a.value, b.value]), np.concatenate([a.terms, b.terms], 1), [a, b], []
                )
            if which == "where":
                return self.new(
                    np.where(mask, a.value, b.value), np.where(mask, a.terms, b.terms), [a, b], []
                )
            terms = a.terms @ b.value + a.value @ b.terms
            terms[BOTH] += a.terms[FIRST] @ b.terms[SECOND] + a.terms[SECOND] @ b.terms[FIRST]
            made = self.new(
                a.value @ b.value, terms, [a, b], ([b] if a.requires else []) + ([a] if b.requires else [])
            )
            made.root.rowwise = True
            return made

        text = {
            "cat": f"torch.cat([{n}, {m}])",
            "where": f"torch.where(torch.tensor({mask.tolist()}), {n}, {m})",
            "matmul": f"{n} @ {m}",
        }[which]
        self.result(text, combine)

    def reshape_in_place(self) -> None:
        """Another geometry for a tensor itself."""
        found = self.pick(
            lambda x: x.value.ndim > 0 and not (x.root.leaf and x.root.requires) and not x.root.kept
        )
        if found is None or (found[1].unrecorded and found[1].root.requires):
            return
        n, x = found
        rank, squeezable = x.value.ndim, x.value.shape[0] == 1
        ways: list[tuple[str, Callable]] = [(f"{n}.unsqueeze_(0)", lambda a, s: np.expand_dims(a, s))]
        if squeezable and rank > 1:
            ways.append((f"{n}.squeeze_(0)", lambda a, s: np.squeeze(a, s)))
        if rank > 1 and self.tracked:
            ways.append((f"{n}.transpose_(0, {rank - 1})", lambda a, s: np.swapaxes(a, s, rank - 1 + s)))
        text, way = self.random.choice(ways)

        def perform() -> None:
            self.read(x)
            x.value, x.terms = way(x.value, 0), way(x.terms, 1)
            x.root.storage.version += 1
            if self.tracked and x.requires and x.root.step:
                x.root.step = Step([x.root.step], [])
                x.root.factor = 1.0

        self.overwrite(text, perform)

    def detach(self) -> None:
        n, x = self.pick()
        root = Root(x.root.storage)
        self.result(f"{n}.detach()", lambda: Var(x.value, np.zeros_like(x.terms), root), fresh=False)

    # --- writes ------------------------------
    def apart(self, x: Var, y: Var) -> bool:
        """Whether y may be an operand of a write to x: it is elsewhere, or lies exactly under it.  (What PyTorch refuses and we
        do right, a recorded write through an unrecorded view of a tensor without history, is left out.)
        """
        if self.tracked and x.unrecorded and not x.root.requires and y.requires:
            return False
        if x.root.storage is not y.root.storage or not np.shares_memory(x.value, y.value):
            return True
        a, b = x.value.__array_interface__, y.value.__array_interface__
        return (
            a["data"][0] == b["data"][0]
            and x.value.shape == y.value.shape
            and x.value.strides == y.value.strides
        )

    def written(self) -> tuple[str, Var] | None:
        """What to write to: rarely what PyTorch refuses."""
        allowed = self.random.random() < 0.06 or not self.tracked
        return self.pick(lambda x: allowed or not (x.root.leaf and x.root.requires))

    def overwrite(self, text: str, perform: Callable[[], None]) -> None:
        try:
            perform()
        except Refused:
            self.line(text, True)
            return
        self.line(text)

    def write_unary(self) -> None:
        found = self.written()
        if found is None:
            return
        n, x = found
        which = self.random.choice(list(UNARY))
        saved, f = UNARY[which]

        def perform() -> None:
            self.read(x)
            self.write(x, *chain(x, *f(x.value)), [], [], saved == "output")

        self.overwrite(f"{n}.{which}_()", perform)

    def write_binary(self) -> None:
        found = self.written()
        if found is None:
            return
        n, x = found
        m, y = self.partner(x, within=True)
        if not self.apart(x, y):
            return
        which = self.random.choice(["add_", "sub_", "mul_", "mul_", "copy_", "set", "lerp_", "addcmul_"])
        if which == "copy_" and y is x:
            return

        def perform() -> None:
            self.read(x, y)
            if which in ("add_", "sub_"):
                self.write(x, *linear(x, y, 1.0 if which == "add_" else -1.0), [y], [])
            elif which == "mul_":
                saved = [y] if x.requires else []
                self.write(x, *product(x, y), [y], saved)
            elif which == "lerp_":
                value, terms = linear(x, y, 0.25 / 0.75)
                self.write(x, 0.75 * value, 0.75 * terms, [y], [])
            elif which == "addcmul_":
                value, terms = product(y, y)
                total = Var(value, terms, y.root)
                self.write(x, *linear(x, total, 1.0), [y], [y] if y.requires else [])
            else:
                value, terms = y.value.copy(), _aligned(y, x.value.ndim).copy()
                self.write(x, value, terms, [y], [])

        text = {
            "set": f"{n}[...] = {m}",
            "lerp_": f"{n}.lerp_({m}, 0.25)",
            "addcmul_": f"{n}.addcmul_({m}, {m})",
        }.get(which, f"{n}.{which}({m})")
        self.overwrite(text, perform)

    def write_number(self) -> None:
        found = self.written()
        if found is None:
            return
        n, x = found
        number = self.random.choice([0.5, -0.25, 2.0])
        which = self.random.choice(["fill_", "zero_", "mul_", "set", "masked", "clamp_", "index"])
        shape = x.value.shape
        if which in ("fill_", "zero_") and _repeated(x):
            return
        if which == "index" and (not shape or shape[0] < 2 or _repeated(x)):
            return
        mask = self.numbers.random(shape) < 0.5

        def perform() -> None:
            self.read(x)
            if which == "mul_":
                self.write(x, x.value * number, x.terms * number, [], [])
            elif which == "masked":
                self.write(x, np.where(mask, number, x.value), np.where(mask, 0, x.terms), [], [])
            elif which == "clamp_":
                inside = (x.value >= -0.5) & (x.value <= 0.5)
                self.write(x, x.value.clip(-0.5, 0.5), np.where(inside, x.terms, 0), [], [])
            elif which == "index":
                value, terms = x.value.copy(), x.terms.copy()
                value[[1, 0]], terms[:, [1, 0]] = number, 0
                self.write(x, value, terms, [], [])
            else:
                self.write(
                    x, np.full(shape, 0.0 if which == "zero_" else number), np.zeros_like(x.terms), [], []
                )

        text = {
            "fill_": f"{n}.fill_({number})",
            "zero_": f"{n}.zero_()",
            "mul_": f"{n}.mul_({number})",
            "set": f"{n}[...] = {number}",
            "masked": f"{n}.masked_fill_(torch.tensor({mask.tolist()}), {number})",
            "clamp_": f"{n}.clamp_(-0.5, 0.5)",
            "index": f"{n}[[1, 0]] = {number}",
        }[which]
        self.overwrite(text, perform)

    def write_rows(self) -> None:
        """Rows of a tensor by those of another, through an index."""
        found = self.written()
        if found is None or found[1].value.ndim == 0 or found[1].value.shape[0] < 2:
            return
        n, x = found
        if _repeated(x):
            return
        shape = (2, *x.value.shape[1:])
        other = self.pick(lambda y: y.value.shape == shape and y.root.storage is not x.root.storage)
        if other is None or not self.apart(x, other[1]):
            return
        m, y = other
        rows = [self.random.randrange(x.value.shape[0]) for _ in range(2)]
        which = self.random.choice(["index_add_", "index_copy_", "put"])
        if which != "index_add_":
            rows = [1, 0]

        def perform() -> None:
            self.read(x, y)
            value, terms = x.value.copy(), x.terms.copy()
            for k, row in enumerate(rows):
                if which == "index_add_":
                    value[row] += y.value[k]
                    terms[:, row] += y.terms[:, k]
                else:
                    value[row], terms[:, row] = y.value[k], y.terms[:, k]
            self.write(x, value, terms, [y], [y] if y.requires and which != "put" else [])

        index = f"torch.tensor({rows})"
        text = f"{n}[{index}] = {m}" if which == "put" else f"{n}.{which}(0, {index}, {m})"
        self.overwrite(text, perform)

    # --- the whole ------------------------------
    def run(self, length: int) -> Program:
        makers = [
            (self.unary, 4), (self.binary, 5), (self.divide, 1), (self.reduce, 2), (self.view, 7), (self.detach, 1),
            (self.write_unary, 4), (self.write_binary, 6), (self.write_number, 3), (self.write_rows, 2), (self.leaf, 1),
            (self.join, 3), (self.reshape_in_place, 1), (self.ask, 1),
        ]  # fmt: skip
        self.leaf()
        self.leaf()
        for _ in range(length):
            self.tracked = self.random.random() > 0.12
            self.random.choices([m for m, _ in makers], [w for _, w in makers])[0]()
        self.tracked = True
        self.finish()
        return self.program

    def finish(self) -> None:
        """The loss: weighted sums of some tensors with a history."""
        found = [(n, x) for n, x in self.variables.items() if x.requires]
        chosen = self.random.sample(found, min(3, len(found)))
        parts, total, steps = [], np.zeros(TERMS), []
        for n, x in chosen:
            name = f"w{len(self.program.constants)}"
            weights = self.numbers.normal(size=x.value.shape).round(3)
            self.program.constants[name] = weights
            parts.append(f"({n} * {name}).sum()")
            total[1:] += (x.terms * weights).reshape(TERMS, -1).sum(1)[1:]
            total[0] += (x.value * weights).sum()
            if x.root.step:
                steps.append(x.root.step)
        self.program.lines.append("loss = " + (" + ".join(parts) or "None"))
        self.program.refused.append(False)
        self.program.loss = Var(np.array(total[0]), total, Root(Storage()))
        seen: set[int] = set()
        while steps:
            step = steps.pop()
            if id(step) in seen:
                continue
            seen.add(id(step))
            self.program.stale |= any(storage.version != version for storage, version in step.saved)
            steps.extend(step.inputs)


def _repeated(x: Var) -> bool:
    return any(s == 0 and n > 1 for s, n in zip(x.value.strides, x.value.shape))


def _diagonal(a: np.ndarray, s: int) -> np.ndarray:
    """The diagonal of dimensions 0 and 1, last; writable, which NumPy's own is not."""
    n = min(a.shape[s : s + 2])
    strides = a.strides[:s] + a.strides[s + 2 :] + (a.strides[s] + a.strides[s + 1],)
    return np.lib.stride_tricks.as_strided(a, a.shape[:s] + a.shape[s + 2 :] + (n,), strides)


def _reshaped(a: np.ndarray, s: int, shape: tuple) -> np.ndarray:
    """A view with that shape, of a part of a larger array where s is 1."""
    made = a.view()
    made.shape = (*a.shape[:s], *shape) if -1 not in shape else (*a.shape[:s], int(np.prod(a.shape[s:])))
    return made


def _strided(a: np.ndarray, s: int) -> np.ndarray:
    """Two elements of each three, from the second element on, of six in a row."""
    flat = _reshaped(a, s, (6,))[(slice(None),) * s + (slice(1, None),)]
    step = flat.strides[-1]
    return np.lib.stride_tricks.as_strided(flat, (*a.shape[:s], 2, 2), (*a.strides[:s], 3 * step, step))


def _expanded(a: np.ndarray, s: int) -> np.ndarray:
    """A new first dimension of size 2 that repeats the rest."""
    return np.lib.stride_tricks.as_strided(
        a, (*a.shape[:s], 2, *a.shape[s:]), (*a.strides[:s], 0, *a.strides[s:])
    )


def generate(seed: int, shift: tuple[float, float] = (0.0, 0.0)) -> Program:
    """The program of that number; with a shift of its leaves along the two directions."""
    return Writer(seed, shift).run(random.Random(seed).randint(4, 16))


# --- running a program ------------------------------
def differences(program: Program, torch) -> str | None:
    """What `torch` (a module with PyTorch's interface) makes of a program, where that is not what the interpreter says."""
    with np.errstate(all="ignore"):
        if not all(np.abs(x.terms).max(initial=0) < 1e6 for x in program.variables.values()):
            return None  # derivatives so large that they are compared badly
    space = {"torch": torch, "float64": torch.float64}
    for name, array in program.constants.items():
        space[name] = torch.tensor(
            array.tolist(), **({} if array.dtype == bool else {"dtype": torch.float64})
        )
    for line, refused in zip(program.lines, program.refused):
        try:
            exec(line, space)
        except RuntimeError as error:
            if not refused:
                return f"{line}: {error}"
        else:
            if refused:
                return f"{line}: PyTorch refuses this"
    for name, x in program.variables.items():
        if not _close(space[name].detach().numpy(), x.value):
            return f"{name} is {space[name].tolist()}, should be {x.value.tolist()}"
    loss = space["loss"]
    if loss is None:
        return None
    if not loss.requires_grad:
        return "the loss has no history"
    try:
        return _gradients(program, torch, space, loss)
    except RuntimeError as error:
        if program.stale and "modified by an inplace operation" in str(error):
            return None
        return f"backward: {error}"


def _gradients(program: Program, torch, space: dict, loss) -> str | None:
    leaves = [space[name] for name in program.leaves]
    first = [torch.tensor(u.tolist(), dtype=torch.float64) for u, _ in program.leaves.values()]
    second = [torch.tensor(v.tolist(), dtype=torch.float64) for _, v in program.leaves.values()]
    terms = program.loss.terms
    found = torch.autograd.grad(loss, leaves, create_graph=True, allow_unused=True)
    for leaf, g in zip(leaves, found):
        if g is not None and g.shape != leaf.shape:
            return f"a gradient has shape {tuple(g.shape)}, its leaf {tuple(leaf.shape)}"
    slope = sum(
        [(g * u).sum() for g, u in zip(found, first) if g is not None], torch.zeros((), dtype=torch.float64)
    )
    if not _close(slope.item(), terms[FIRST]):
        return f"the first derivative is {slope.item()}, should be {terms[FIRST]}"
    bent = torch.zeros((), dtype=torch.float64)
    if slope.requires_grad:
        curves = torch.autograd.grad(slope, leaves, retain_graph=True, allow_unused=True)
        bent = sum([(h * v).sum() for h, v in zip(curves, second) if h is not None], bent)
    if not _close(bent.item(), terms[BOTH]):
        return f"the second derivative is {bent.item()}, should be {terms[BOTH]}"
    held = [None if g is None else g.detach().clone() for g in found]
    for name in program.kept:
        space[name].grad = None
    loss.backward(retain_graph=True)
    kept = {name: space[name].grad for name in program.kept}
    for name in program.kept:
        root = program.variables[name].root
        grad = kept[name]
        slope = (
            0.0
            if grad is None
            else (grad * torch.tensor(root.seed.tolist(), dtype=torch.float64)).sum().item()
        )
        if root.kept and not _close(slope, terms[root.kept]):
            return (
                f"the gradient kept by {name} is {grad}, its derivative {slope} should be {terms[root.kept]}"
            )
    before = {name: None if g is None else g.clone() for name, g in kept.items()}
    loss.backward()
    for name, leaf, g, h in zip(program.leaves, leaves, found, held):
        if g is None:
            if leaf.grad is not None and bool((leaf.grad != 0).any()):
                return f"{name}.grad is {leaf.grad}, grad() returned None"
        elif leaf.grad is None:
            return f"{name}.grad is None, grad() returned {h}"
        elif not _close(leaf.grad.numpy(), 2 * h.numpy()) or not _close(g.detach().numpy(), h.numpy()):
            return f"{name}.grad is {leaf.grad} after two passes; grad() returned {h}, which is now {g}"
    for name, g in before.items():
        if g is not None and not _close(space[name].grad.numpy(), 2 * g.numpy()):
            return f"{name}.grad is {space[name].grad} after two passes, {g} after one"
    return None


def _close(a, b) -> bool:
    return np.shape(a) == np.shape(b) and np.allclose(a, b, rtol=1e-7, atol=1e-8, equal_nan=True)
