"""Random programs: views, broadcasts, fills, copies, writes (also through views, and to arguments), reductions, dtypes, products; planned
and called, on other numbers than recorded.

With `--device` tensors are on an accelerator.  With `--bits` plans are fused with `eager_numerics`, over larger shapes too, and have to
give the bits of eager calls.

python random_programs.py [--programs N] [--seed N] [--unfused | --bits | --lazy] [--device opencl]
"""

from __future__ import annotations

import argparse
import math
from typing import Any

import numpy as np

import flambeau
from flambeau.graph.lower import plan
from flambeau.graph.options import Options
from flambeau.graph.program import Program
from flambeau.graph.trace import record

SHAPES = [(4, 6), (6,), (4, 1), (1, 6), (), (3, 4, 6), (4, 4), (0, 6)]
MOST = 1 << 20  # elements of a result
LARGER = [(3, 700), (700,), (40, 33), (33,), (40, 1), (2, 3, 40, 33), (), (5, 257, 9), (3, 34000), (600, 500)]


class Body:
    """A program, drawn once: the same steps on whatever tensors it is called with."""

    def __init__(self, seed: int, shapes: Any = SHAPES, device: str = "cpu") -> None:
        self.device = device
        self.random = np.random.default_rng(seed)
        self.shapes = [shapes[k] for k in self.random.integers(0, len(shapes), self.random.integers(1, 4))]
        self.draws = [self.random.integers(0, 1 << 30, 4) for _ in range(self.random.integers(2, 14))]

    def inputs(self, seed: int, coarse: bool = False) -> list[Any]:
        """Tensors to call it with; `coarse`: of few numbers, so that many are equal, and zeros of both signs."""
        random = np.random.default_rng(seed)
        drawn = [random.uniform(-2, 2, s) for s in self.shapes]
        made = [flambeau.tensor(np.round(x * 4) / 4 if coarse else x).float() for x in drawn]
        return [t.to(self.device) for t in made]

    def __call__(self, *tensors: Any) -> Any:
        values = list(tensors)
        for what, a, b, c in self.draws:
            x, y = values[a % len(values)], values[b % len(values)]
            values.append(self.step(int(what), x, y, int(c)))
        return tuple(values[len(tensors) :])

    def step(self, what: int, x: Any, y: Any, c: int) -> Any:
        choice = what % 18
        dim = c % x.ndim if x.ndim else 0
        x, y = (
            t.float() if not t.is_floating_point() and choice not in (0, 14, 15, 16) else t for t in (x, y)
        )
        if choice <= 2:
            try:
                whole = flambeau.broadcast_shapes(x.shape, y.shape)
            except RuntimeError:
                whole = None
            if whole is None or math.prod(whole) > MOST:
                y = y.sum()
            return (x + y, x * y, flambeau.maximum(x.float(), y.float()), flambeau.where(x > y, x, y))[c % 4]
        if choice == 3:
            return (x.sin(), x.tanh(), x.abs(), x * 0.5 - 1, (x > 0), x.sigmoid())[c % 6]
        if choice == 4:
            return x.sum(dim, keepdim=c % 2 == 0) if x.ndim else x.sum()
        if choice == 5:
            return x.mean() if x.numel() else x.sum()
        if choice == 6:
            return x.softmax(dim) if x.ndim else x.exp().clamp(max=4)
        if choice == 7:
            return x.mT if x.ndim > 1 else x.reshape(-1, 1)
        if choice == 8:
            return x[..., c % 2 :: 2] if x.ndim else x.expand(2)
        if choice == 9:
            return (x.half().float(), x.double(), x.int().float(), x.bfloat16())[c % 4].float()
        if choice == 10:
            z = x * 1
            (z[0] if z.ndim and z.shape[0] else z).mul_(2).add_(0.25)
            return z
        if choice == 11:
            return self.filled(x, c)
        if choice == 12:
            return (x.clone(), x.mT.contiguous() if x.ndim > 1 else x.clone(), x.reshape(-1))[c % 3]
        if choice == 13:
            return (
                x.logsumexp(dim) if x.ndim else x,
                (x.var(dim) if x.shape[dim] > 1 else x) if x.ndim else x,
            )[c % 2]
        if choice <= 16:
            return self.written(x, y, c)
        if x.ndim < 2 or not x.is_floating_point() or x.numel() * x.shape[-2] > MOST * max(x.shape[-1], 1):
            return x.unsqueeze(0)
        return x @ x.mT

    def filled(self, x: Any, c: int) -> Any:
        made = (
            lambda: flambeau.full_like(x, c % 7 - 2.5),
            lambda: x + flambeau.zeros(x.shape, device=self.device),
            lambda: x.new_ones(()).expand(x.shape) * x,
            lambda: x * (x[:1] * 2 - 1 if x.ndim else x > 0),
            lambda: flambeau.where(~(x.new_ones(x.shape[-1:]) > 0), x, -x) if x.ndim else x,
            lambda: flambeau.full((), 2.0, dtype=flambeau.int64, device=self.device),
            lambda: flambeau.ones_like(x).half(),
        )
        return made[c % len(made)]()

    def written(self, x: Any, y: Any, c: int) -> Any:
        """`x`, or a view of it, written to; itself where its elements share memory."""
        if any(n != 1 and s == 0 for n, s in zip(x.shape, x.stride())) or not x.is_floating_point():
            return x
        target = (x, x, x[..., ::2] if x.ndim else x, x.mT if x.ndim > 1 else x, x[1:] if x.ndim else x)[
            c % 5
        ]
        try:
            y = y.broadcast_to(target.shape)
        except RuntimeError:
            y = (y.float().mean() if y.numel() else y.float().sum()).expand(target.shape)
        try:
            self.write(target, y, c)
        except RuntimeError:  # what is written and what is read share memory
            target.neg_()
        return target if c % 2 else x + 0.5

    def write(self, target: Any, y: Any, c: int) -> None:
        kind = c // 5 % 7
        if kind == 0:
            target.mul_(0.5)
        elif kind == 1:
            target.add_(y.float())
        elif kind == 2:
            target.copy_(y)
        elif kind == 3:
            target.fill_(c % 3)
        elif kind == 4:
            flambeau.tanh(target, out=target)
        elif kind == 5:
            target.sub_(target.mean() if target.numel() else 0)
        else:
            flambeau.add(y.float(), 1, out=target)


def alike(a: Any, b: Any, exact: bool) -> bool:
    """The bits, where all NaN are one; the numbers where folds of fused kernels may add in another order."""
    a, b = a.cpu().double().numpy(), b.cpu().double().numpy()
    if not exact:
        return np.allclose(a, b, rtol=1e-4, atol=1e-4, equal_nan=True)
    return np.array_equal(a, b, equal_nan=True) and not (np.signbit(a) != np.signbit(b))[a == a].any()


def difference(
    seed: int, fused: bool, bits: bool = False, shapes: Any = SHAPES, device: str = "cpu"
) -> str | None:
    """What is wrong with one program's plan; None for nothing."""
    body = Body(seed, shapes, device)
    program = Program(record(body, *body.inputs(seed))[0])
    runner = plan(program, fused, options=Options(eager_numerics=bits))
    exact = bits or not fused
    for k in (1, 2):
        given = body.inputs(seed + k, coarse=bits and k == 2)
        kept = [t.clone() for t in given]
        found, expected = runner(*given), body(*kept)
        for place, (a, b) in enumerate(zip(found, expected, strict=True)):
            if (a.dtype, a.shape, a.stride()) != (b.dtype, b.shape, b.stride()):
                return f"seed {seed}, result {place}: {a.dtype} {a.shape} {a.stride()}, not {b.dtype} {b.shape} {b.stride()}\n{program}"
            if not alike(a, b, exact):
                return (
                    f"seed {seed}, result {place}: off by {(a.double() - b.double()).abs().max()}\n{program}"
                )
        for place, (a, b) in enumerate(zip(given, kept, strict=True)):
            if not alike(a, b, exact):
                return f"seed {seed}: argument {place} holds other numbers\n{program}"
    return None


def lazy_difference(seed: int) -> str | None:
    """What is wrong where a program's calls wait; None for nothing.  It is run thrice: call by call, planned, and as planned."""
    body = Body(seed)
    for k in (0, 1, 2):
        given = body.inputs(seed + k)
        kept = [t.clone() for t in given]
        expected = body(*kept)
        with flambeau.lazy():
            found = body(*given)
            if (seed + k) % 3 == 0:  # somebody looks between
                found[seed % len(found)].tolist()
                found = (*found, *body(*given))
                expected = (*expected, *body(*kept))
        for place, (a, b) in enumerate(zip((*found, *given), (*expected, *kept), strict=True)):
            if (a.dtype, a.shape, a.stride()) != (b.dtype, b.shape, b.stride()):
                return f"seed {seed}, result {place}: {a.dtype} {a.shape} {a.stride()}, not {b.dtype} {b.shape} {b.stride()}"
            if not alike(a, b, exact=False):
                return f"seed {seed}, run {k}, result {place}: off by {(a.double() - b.double()).abs().max()}"
    return None


def main() -> None:
    """Try programs; print those that differ."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--unfused", action="store_true")
    parser.add_argument("--bits", action="store_true")
    parser.add_argument("--lazy", action="store_true")
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    wrong = 0
    for seed in range(given.seed, given.seed + given.programs):
        try:
            shapes = LARGER if given.bits and seed % 2 else SHAPES
            found = (
                lazy_difference(seed)
                if given.lazy
                else difference(seed, not given.unfused, given.bits, shapes, given.device)
            )
        except Exception as error:
            found = f"seed {seed}: {type(error).__name__}: {error}"
        if found is not None:
            wrong += 1
            print(found)
    print(f"{given.programs} programs, {wrong} wrong")


if __name__ == "__main__":
    main()
