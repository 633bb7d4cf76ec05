"""Batch normalisation: the plain layers, those that learn their size, and the one over several processes."""

from __future__ import annotations

from typing import Any

from ..._tensor import Tensor
from ...core.base.callbacks import callbacks, callbacks_in
from ...core.base.dtypes import by_name
from ...core.make.literal import tensor
from ..parameter import UninitializedBuffer, UninitializedParameter, is_lazy
from .lazy import LazyModuleMixin
from .module import Module
from .normalization import BatchNorm1d, BatchNorm2d, BatchNorm3d, _BatchNorm, _NormBase

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
    "SyncBatchNorm",
]

callbacks_in("flambeau.distributed._batch_norm", "processes of a layer", "normalised over processes")


class _LazyNormBase(LazyModuleMixin, _NormBase):
    """What the lazy normalisations of channels share."""

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, False, bias=False)
        self.affine = affine
        self.track_running_stats = track_running_stats
        if affine:
            self.weight = UninitializedParameter(device=device, dtype=dtype)
            if bias:
                self.bias = UninitializedParameter(device=device, dtype=dtype)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(device=device, dtype=dtype)
            self.running_var = UninitializedBuffer(device=device, dtype=dtype)
            self.num_batches_tracked = tensor(0, device=device, dtype=by_name["int64"])

    def reset_parameters(self) -> None:
        """Set the weight to 1 and the bias to 0, and reset the running statistics, if there are any yet."""
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:  # type: ignore[override]
        """Take `num_features` from the input, and set parameters and statistics if they were not loaded."""
        self._check_input_dim(input)
        if self.has_uninitialized_params():
            self.num_features = input.shape[self._channel_dim(input)]
            waiting: Any
            for waiting in (*self._parameters.values(), *self._buffers.values()):
                if is_lazy(waiting):
                    waiting.materialize(self.num_features)
            self.reset_parameters()
        elif self.num_features == 0:
            loaded = self.weight if self.affine else self.running_mean
            self.num_features = input.shape[self._channel_dim(input)] if loaded is None else len(loaded)


class LazyBatchNorm1d(_LazyNormBase, BatchNorm1d):
    """A `BatchNorm1d` that takes `num_features` from its first input.

    Raises:
        ValueError: the first input is neither (N, C) nor (N, C, L).

    >>> import flambeau
    >>> layer = flambeau.nn.LazyBatchNorm1d()
    >>> layer(flambeau.ones(2, 3)).shape == (2, 3), layer
    (True, BatchNorm1d(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True))
    """

    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(_LazyNormBase, BatchNorm2d):
    """A `BatchNorm2d` that takes `num_features` from its first input.

    Raises:
        ValueError: the first input is not (N, C, H, W).

    >>> import flambeau
    >>> layer = flambeau.nn.LazyBatchNorm2d()
    >>> layer(flambeau.ones(2, 3, 4, 4)).shape == (2, 3, 4, 4), layer.num_features
    (True, 3)
    """

    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(_LazyNormBase, BatchNorm3d):
    """A `BatchNorm3d` that takes `num_features` from its first input.

    Raises:
        ValueError: the first input is not (N, C, D, H, W).

    >>> import flambeau
    >>> layer = flambeau.nn.LazyBatchNorm3d()
    >>> layer(flambeau.ones(2, 3, 4, 4, 4)).shape == (2, 3, 4, 4, 4), layer.num_features
    (True, 3)
    """

    cls_to_become = BatchNorm3d


class SyncBatchNorm(_BatchNorm):
    """Batch normalisation of (N, C, ...) over the batches of all processes; in one process, that of `BatchNorm1d`.

    In training after `distributed.init_process_group`, mean and variance are those of all processes' inputs, and gradients pass to them.

    Args:
        process_group: the processes whose batches are joined, by default all.

    The other arguments are those of `BatchNorm1d`.

    Raises:
        ValueError: a `process_group` without groups, or an input of fewer than 2 dimensions, or without channels.

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.SyncBatchNorm(2, eps=1e-12, affine=False)(flambeau.tensor([[1.0, 5.0], [3.0, 9.0]]))
    tensor([[-1., -1.],
            [ 1.,  1.]])
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, ...) normalised over the batches of all processes."""
        if not self.training or callbacks["processes of a layer"](self.process_group) == 1:
            return super().forward(input)
        self._check_input_dim(input)
        return callbacks["normalised over processes"](self, input)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")
        if input.size(1) == 0:
            raise ValueError("SyncBatchNorm number of input channels should be non-zero")

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """`module` with every BatchNorm in it replaced by a SyncBatchNorm over the same parameters and buffers.

        Returns:
            The same module, changed in place; a new one where it is a BatchNorm itself.

        Raises nothing.

        >>> from flambeau import nn
        >>> nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.BatchNorm2d(3)))[0]
        SyncBatchNorm(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
        """
        converted = module
        if isinstance(module, _BatchNorm):
            converted = SyncBatchNorm(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
                bias=module.bias is not None,
            )
            converted._parameters.update(module._parameters)
            converted._buffers.update(module._buffers)
            converted.training = module.training
        for name, child in module.named_children():
            converted._modules[name] = cls.convert_sync_batchnorm(child, process_group)
        return converted
