"""Flatten and Unflatten."""

from __future__ import annotations

from ..._tensor import Tensor
from .module import Module

__all__ = ["Flatten", "Unflatten"]


class Flatten(Module):
    """Merge the dimensions `start_dim` to `end_dim`, both included, into one.

    Raises:
        IndexError: a dimension is out of range

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.Flatten()(flambeau.zeros(2, 3, 4)).shape == (2, 12)
    True
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Split the dimension `dim` into several of the sizes `unflattened_size`, one of which may be -1.

    Raises:
        TypeError: `unflattened_size` is not a tuple or list of ints.

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.Unflatten(1, (3, 4))(flambeau.zeros(2, 12)).shape == (2, 3, 4)
    True
    """

    def __init__(self, dim: int, unflattened_size: tuple[int, ...]) -> None:
        super().__init__()
        if not isinstance(unflattened_size, (tuple, list)):
            raise TypeError(
                f"unflattened_size must be a tuple of ints, but found type {type(unflattened_size).__name__}"
            )
        for i, size in enumerate(unflattened_size):
            if not isinstance(size, int):
                raise TypeError(
                    "unflattened_size must be tuple of ints, "
                    f"but found element of type {type(size).__name__} at pos {i}"
                )
        self.dim = dim
        self.unflattened_size = unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
