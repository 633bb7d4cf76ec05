"""Random arguments: arrays with hard shapes and values, and tensors that hold them in every kind of layout."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

import flambeau

SIZES = (0, 1, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33)
FLOATS = ("float32", "float64", "float32", "float64", "float16", "bfloat16")
INTEGERS = ("int64", "int32", "int16", "int8", "uint8")
COMPLEX = ("complex64", "complex128")
SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 1e-40, 3e38, -3e38, 0.5, 1e4)


class Given:
    """A tensor, the array of its values, and all of the memory around it as it was before the call."""

    def __init__(self, tensor: Any, array: np.ndarray, whole: Any) -> None:
        self.tensor, self.array, self.whole = tensor, array, whole
        self.before = bytes(memoryview(whole.untyped_storage()))

    def __repr__(self) -> str:
        strides = list(self.tensor.stride())
        return f"<{self.tensor.dtype} {list(self.tensor.shape)} strides {strides}>"

    def unchanged(self) -> bool:
        return bytes(memoryview(self.whole.untyped_storage())) == self.before


class Draw:
    """A stream of random arguments; the same seed gives the same ones."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.rng = np.random.default_rng(seed)

    # --- plain values ------------------------------
    def chance(self, p: float) -> bool:
        return self.random.random() < p

    def one_of(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def int(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def float(self, low: float = -2.0, high: float = 2.0) -> float:
        return self.random.uniform(low, high)

    def size(self, least: int = 0) -> int:
        return self.random.choice([s for s in SIZES if s >= least])

    def shape(self, low: int = 0, high: int = 4, least: int = 0) -> tuple[int, ...]:
        """A shape of `low` to `high` dimensions with at most some thousand elements."""
        while True:
            found = tuple(self.size(least) for _ in range(self.int(low, high)))
            if np.prod(found, dtype=object) <= 4000:
                return found

    def broadcastable(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """A shape that broadcasts with `shape`."""
        found = tuple(1 if self.chance(0.25) else n for n in shape)
        return found[self.int(0, len(found)) :] if self.chance(0.3) else found

    def dim(self, rank: int) -> int:
        rank = max(rank, 1)
        return self.int(-rank, rank - 1)

    def dims(self, rank: int) -> tuple[int, ...]:
        """Different dimensions, at least one; counted from either end."""
        chosen = self.random.sample(range(rank), self.int(1, rank)) if rank else []
        return tuple(d - rank if self.chance(0.3) else d for d in chosen)

    # --- tensors ------------------------------
    def array(self, shape: tuple[int, ...], dtype: str, low: float = -3.0, high: float = 3.0) -> np.ndarray:
        if dtype == "bool":
            return self.rng.random(shape) < 0.5
        if dtype in INTEGERS or dtype.startswith("uint"):
            return self.rng.integers(
                int(max(low, 0)) if dtype.startswith("uint") else int(low), int(high) + 1, shape
            ).astype(dtype)
        if dtype in COMPLEX:
            return (self.rng.uniform(low, high, shape) + 1j * self.rng.uniform(low, high, shape)).astype(
                dtype
            )
        values = np.asarray(self.rng.uniform(low, high, shape))
        return values.astype("float32" if dtype == "bfloat16" else dtype)

    def hold(self, array: np.ndarray, dtype: str) -> Given:
        """A tensor of those values: contiguous, transposed, with steps, inside of a larger block, or expanded."""
        shape, kind = array.shape, getattr(flambeau, dtype)
        plain = flambeau.from_numpy(np.ascontiguousarray(array).reshape(shape)).to(kind)
        way = self.random.choice(("plain", "plain", "permuted", "stepped", "inside", "expanded"))
        if way == "permuted" and len(shape) > 1:
            order = self.random.sample(range(len(shape)), len(shape))
            back = [order.index(d) for d in range(len(shape))]
            whole = plain.permute(order).contiguous()
            view = whole.permute(back)
        elif way == "stepped" and shape:
            steps = [self.int(1, 3) for _ in shape]
            whole = flambeau.zeros([n * s for n, s in zip(shape, steps)], dtype=kind)
            view = whole[tuple(slice(None, None, s) for s in steps)]
            view.copy_(plain)
        elif way == "inside":
            first = self.int(1, 9)
            whole = flambeau.zeros(plain.numel() + first + 5, dtype=kind)
            view = whole[first : first + plain.numel()].view(shape)
            view.copy_(plain)
        elif way == "expanded" and shape and shape[-1] > 1:
            d = self.int(0, len(shape) - 1)
            whole = plain.narrow(d, 0, min(1, shape[d])).contiguous()
            view = whole.expand(shape) if shape[d] else whole
        else:
            whole = view = plain.clone()
        values = view.to(flambeau.float32).numpy() if dtype == "bfloat16" else view.numpy()
        return Given(view, values.copy(), whole)

    def tensor(
        self,
        shape: tuple[int, ...],
        dtype: str = "float64",
        low: float = -3.0,
        high: float = 3.0,
        special: float = 0.0,
    ) -> Given:
        """A tensor of uniform numbers; with `special` as the chance, some of them NaN, infinities, zeros …"""
        array = self.array(shape, dtype, low, high)
        if special and array.size and array.dtype.kind in "fc" and self.chance(special):
            with np.errstate(all="ignore"):
                chosen = self.rng.random(shape) < 0.3
                array = np.where(chosen, self.rng.choice(SPECIAL, shape), array).astype(array.dtype)
        return self.hold(array, dtype)

    def floats(self, *limits: int, least: int = 0) -> Given:
        """A tensor of floating-point numbers of some shape; `limits` on the number of dimensions."""
        return self.tensor(self.shape(*limits, least=least), self.one_of(*FLOATS))

    def numbers(self, *limits: int, least: int = 0) -> Given:
        """A tensor of numbers of any dtype but bool."""
        return self.tensor(self.shape(*limits, least=least), self.one_of(*FLOATS, *INTEGERS, *COMPLEX))

    def index(self, shape: tuple[int, ...], size: int, negative: bool = False) -> Given:
        """Positions below `size`."""
        low = -size if negative else 0
        return self.hold(self.rng.integers(low, max(size, low + 1), shape), "int64")
