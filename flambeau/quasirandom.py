"""Points that fill a cube evenly: Sobol' sequences, by SciPy."""

from __future__ import annotations

import warnings
from typing import Any

from ._tensor import Tensor
from .core.base.dtypes import dtype as _dtype
from .core.base.dtypes import get_default_dtype
from .core.make.bridge import from_numpy
from .core.make.create import arange
from .core.make.random import Generator
from .operations.random.random import randint

__all__ = ["SobolEngine"]


class SobolEngine:
    """A Sobol' sequence (Sobol' 1967) in up to 21201 dimensions, with the direction numbers of Joe and Kuo (2008).

    With `scramble` the digits are permuted at random (Owen 1998, by the linear matrices of Matoušek 1998), by bits of a generator
    with `seed`, or of the default one. The points are PyTorch's; scrambled ones where generators draw PyTorch's stream
    (`backends.random`).

    Args:
        dimension: how many coordinates a point has, 1 to 21201; ValueError for others.
        scramble: whether the sequence is scrambled.
        seed: an int for the scrambling.

    >>> import flambeau
    >>> flambeau.quasirandom.SobolEngine(dimension=2).draw(3)
    tensor([[0.0000, 0.0000],
            [0.5000, 0.5000],
            [0.7500, 0.2500]])
    """

    MAXBIT = 30
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not 1 <= dimension <= self.MAXDIM:
            raise ValueError(
                f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}], got {dimension}"
            )
        from scipy.stats import qmc

        self.dimension, self.scramble, self.seed = dimension, scramble, seed
        self.num_generated = 0
        self._points = qmc.Sobol(dimension, scramble=False, bits=self.MAXBIT)
        if scramble:
            generator = None if seed is None else Generator().manual_seed(seed)
            ranks = arange(self.MAXBIT)
            shift = randint(2, (dimension, self.MAXBIT), generator=generator)
            lower = randint(2, (dimension, self.MAXBIT, self.MAXBIT), generator=generator).tril(-1)
            self._shift = (shift << ranks).sum(1).numpy()
            # what bit k of a coordinate contributes: column MAXBIT - 1 - k of a matrix with a diagonal of ones
            columns = (lower << ranks.flip(0).unsqueeze(1)).sum(1) + (1 << ranks.flip(0))
            self._columns = columns.flip(1).numpy()

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: _dtype | None = None) -> Tensor:
        """The next `n` points, (n, dimension), in [0, 1), of the default dtype or `dtype`, or written to `out`.

        ValueError for a negative number, and beyond the 2³⁰ points of the sequence.

        >>> engine = SobolEngine(1)
        >>> engine.draw(2).tolist(), engine.draw(2).tolist()
        ([[0.0], [0.5]], [[0.75], [0.25]])
        """
        self._advance(n)
        with warnings.catch_warnings():  # n need not be a power of 2, as in PyTorch
            warnings.simplefilter("ignore", UserWarning)
            points = from_numpy(
                self._scrambled(self._points.random(n)) if self.scramble else self._points.random(n)
            )
        points = points.to(get_default_dtype() if dtype is None else dtype)
        return points if out is None else out.resize_(points.shape).copy_(points)

    def _scrambled(self, points: Any) -> Any:
        """Points whose digits are multiplied by the matrices, modulo 2, and shifted."""
        digits = (points * 2.0**self.MAXBIT).astype("int64")
        result = self._shift ^ (digits & 0)
        for k in range(self.MAXBIT):
            result ^= (digits >> k & 1) * self._columns[:, k]
        return result * 2.0**-self.MAXBIT

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: _dtype | None = None) -> Tensor:
        """The next 2^m points; ValueError unless all points so far are then a power of 2, which balances them.

        >>> SobolEngine(3).draw_base2(4).mean(0)
        tensor([0.4688, 0.4688, 0.4688])
        """
        total = self.num_generated + 2**m
        if total & (total - 1):
            raise ValueError(
                f"draw_base2(): the balance of Sobol' points requires that their number is a power of 2, but {self.num_generated} "
                f"were drawn before, and 2**{m} more make {total}; draw() takes any number"
            )
        return self.draw(2**m, out, dtype)

    def reset(self) -> SobolEngine:
        """Begin again with the first point.

        >>> engine = SobolEngine(2)
        >>> engine.draw(3).equal(engine.reset().draw(3))
        True
        """
        self._points.reset()
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Leave out the next `n` points.

        >>> SobolEngine(1).fast_forward(2).draw().tolist()
        [[0.75]]
        """
        self._advance(n)
        self._points.fast_forward(n)
        return self

    def _advance(self, n: int) -> None:
        if n < 0 or self.num_generated + n > 2**self.MAXBIT:
            raise ValueError(
                f"SobolEngine: expected at least 0 and in all at most 2**{self.MAXBIT} points, got {n} after {self.num_generated}"
            )
        self.num_generated += n

    def __repr__(self) -> str:
        parts: list[Any] = [f"dimension={self.dimension}"]
        parts += ["scramble=True"] if self.scramble else []
        parts += [] if self.seed is None else [f"seed={self.seed}"]
        return f"{type(self).__name__}({', '.join(parts)})"
