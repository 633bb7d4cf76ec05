"""Instance normalisation: the plain layers, and those that learn their size."""

from __future__ import annotations

from .batchnorm import _LazyNormBase
from .normalization import InstanceNorm1d, InstanceNorm2d, InstanceNorm3d, _InstanceNorm  # noqa: F401

__all__ = [
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
]


class LazyInstanceNorm1d(_LazyNormBase, InstanceNorm1d):
    """An `InstanceNorm1d` that takes `num_features` from its first input.

    As in PyTorch, there are weights and running statistics unless `affine` and `track_running_stats` say otherwise.

    Raises:
        ValueError: the first input is neither (N, C, L) nor (C, L).

    >>> import flambeau
    >>> layer = flambeau.nn.LazyInstanceNorm1d()
    >>> layer(flambeau.ones(3, 4)).shape == (3, 4), layer.num_features
    (True, 3)
    """

    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyNormBase, InstanceNorm2d):
    """An `InstanceNorm2d` that takes `num_features` from its first input; see `LazyInstanceNorm1d`.

    Raises:
        ValueError: the first input is neither (N, C, H, W) nor (C, H, W).

    >>> import flambeau
    >>> layer = flambeau.nn.LazyInstanceNorm2d()
    >>> layer(flambeau.ones(2, 3, 4, 4)).shape == (2, 3, 4, 4), layer.running_mean
    (True, tensor([0.1000, 0.1000, 0.1000]))
    """

    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyNormBase, InstanceNorm3d):
    """An `InstanceNorm3d` that takes `num_features` from its first input; see `LazyInstanceNorm1d`.

    Raises:
        ValueError: the first input is neither (N, C, D, H, W) nor (C, D, H, W).

    >>> import flambeau
    >>> layer = flambeau.nn.LazyInstanceNorm3d()
    >>> layer(flambeau.ones(2, 3, 4, 4, 4)).shape == (2, 3, 4, 4, 4), layer.running_mean
    (True, tensor([0.1000, 0.1000, 0.1000]))
    """

    cls_to_become = InstanceNorm3d
