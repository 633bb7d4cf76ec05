"""Normalisation layers: over the batch, over instances, over groups of channels, over the last dimensions."""

from __future__ import annotations

import warnings
from typing import Any

from ..._symbols.numbers import sym_float
from ..._tensor import Tensor
from ...core.base.callbacks import set_callback
from ...core.base.dtypes import by_name
from ...core.make.create import empty, ones, zeros
from ...core.make.literal import tensor
from .. import functional as F
from .. import init
from ..parameter import Parameter
from .module import Module

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "CrossMapLRN2d",
    "GroupNorm",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LayerNorm",
    "LocalResponseNorm",
    "RMSNorm",
]


def _register_affine(module: Module, shape: Any, weight: bool, bias: bool, device: Any, dtype: Any) -> None:
    """Register `weight` and `bias` of that shape, or None where they are not wanted."""
    for name, wanted in (("weight", weight), ("bias", bias)):
        value = Parameter(empty(shape, device=device, dtype=dtype)) if wanted else None
        module.register_parameter(name, value)


def _reset_affine(module: Any) -> None:
    if module.weight is not None:
        init.ones_(module.weight)
    if module.bias is not None:
        init.zeros_(module.bias)


class _NormBase(Module):
    """A normalisation per channel, the second dimension, that may keep running statistics."""

    _version = 2  # since it counts the batches
    _dims: tuple[int, ...]

    def __init__(
        self,
        num_features: int,
        eps: float,
        momentum: float | None,
        affine: bool,
        track_running_stats: bool,
        device: Any,
        dtype: Any,
        bias: bool,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        _register_affine(self, num_features, affine, affine and bias, device, dtype)
        tracked: tuple[Tensor | None, ...] = (None, None, None)
        if track_running_stats:
            tracked = (
                zeros(num_features, device=device, dtype=dtype),
                ones(num_features, device=device, dtype=dtype),
                tensor(0, device=device, dtype=by_name["int64"]),
            )
        for name, buffer in zip(("running_mean", "running_var", "num_batches_tracked"), tracked, strict=True):
            self.register_buffer(name, buffer)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Set the running mean to 0, the running variance to 1, and forget how many batches there were."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Set the weight to 1 and the bias to 0, and reset the running statistics."""
        self.reset_running_stats()
        _reset_affine(self)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() not in self._dims:
            wanted = " or ".join([f"{dim}D" for dim in self._dims])
            raise ValueError(f"expected {wanted} input (got {input.dim()}D input)")

    def _channel_dim(self, input: Tensor) -> int:
        return 1

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        if (local_metadata.get("version") or 1) < 2 and self.track_running_stats:
            state_dict.setdefault(prefix + "num_batches_tracked", self.num_batches_tracked)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_NormBase):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        training = self.training
        mean, var = self.running_mean, self.running_var
        factor = 0.0 if self.momentum is None else self.momentum
        if training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:  # the plain mean of all batches so far
                factor = 1.0 / sym_float(self.num_batches_tracked.item())
        use_batch = training or (mean is None and var is None)
        if training and not self.track_running_stats:
            return F.batch_norm(input, None, None, self.weight, self.bias, True, factor, self.eps)
        return F.batch_norm(input, mean, var, self.weight, self.bias, use_batch, factor, self.eps)


def _forget_running(module: Any) -> None:
    """Let a batch normalisation use the batch's moments and keep none; other modules are left as they are."""
    if isinstance(module, _BatchNorm):
        if module.running_mean is not None:
            module.running_mean = module.running_var = module.num_batches_tracked = None
        module.track_running_stats = False


set_callback("without running statistics", _forget_running)


class BatchNorm1d(_BatchNorm):
    """Batch normalisation of (N, C) or (N, C, L) (Ioffe and Szegedy, 2015).

    (x - mean) / sqrt(var + eps) · weight + bias, channel by channel. In training mode mean and (biased)
    variance are those of the batch, and the running ones move towards them, with the unbiased variance:
    `running = (1 - momentum) · running + momentum · batch`. In eval mode the running ones are used.

    Args:
        num_features: the number of channels C.
        eps: added to the variance.
        momentum: the weight of a new batch; None for the plain mean of all of them.
        affine: whether there are `weight` and `bias`, of shape (C,).
        track_running_stats: whether there are running statistics; without, those of the batch are always
            used.
        bias: whether there is a `bias`, if `affine`.

    Raises:
        ValueError: the input has another number of dimensions.

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.BatchNorm1d(2, eps=1e-12, affine=False)(flambeau.tensor([[1.0, 5.0], [3.0, 9.0]]))
    tensor([[-1., -1.],
            [ 1.,  1.]])
    """

    _dims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalisation of (N, C, H, W); see `BatchNorm1d`.

    Shape:
        input: (N, C, H, W); the result has the same

    Raises:
        ValueError: there are not four dimensions

    >>> import flambeau
    >>> x = flambeau.tensor([1.0, 3.0]).reshape(2, 1, 1, 1)
    >>> flambeau.nn.BatchNorm2d(1, affine=False)(x).flatten()
    tensor([-1.0000,  1.0000])
    """

    _dims = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch normalisation of (N, C, D, H, W); see `BatchNorm1d`.

    Shape:
        input: (N, C, D, H, W); the result has the same

    Raises:
        ValueError: there are not five dimensions

    >>> import flambeau
    >>> x = flambeau.tensor([1.0, 3.0]).reshape(2, 1, 1, 1, 1)
    >>> flambeau.nn.BatchNorm3d(1, affine=False)(x).flatten()
    tensor([-1.0000,  1.0000])
    """

    _dims = (5,)


class _InstanceNorm(_NormBase):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)

    def _channel_dim(self, input: Tensor) -> int:
        return 0 if input.dim() == self._dims[0] else 1

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        channel_dim = self._channel_dim(input)
        unbatched = channel_dim == 0
        channels = input.size(channel_dim)
        if channels != self.num_features:
            if self.affine:
                raise ValueError(
                    f"expected input's size at dim={channel_dim} to match num_features "
                    f"({self.num_features}), but got: {channels}."
                )
            warnings.warn(
                f"input's size at dim={channel_dim} does not match num_features. You can silence this "
                "warning by not passing in num_features, which is not used because affine=False",
                stacklevel=2,
            )
        output = F.instance_norm(
            input.unsqueeze(0) if unbatched else input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            self.momentum if self.momentum is not None else 0.0,
            self.eps,
        )
        return output.squeeze(0) if unbatched else output


class InstanceNorm1d(_InstanceNorm):
    """Instance normalisation of (N, C, L) or (C, L): each channel of each sample by itself (Ulyanov et al.,
    2016).

    The arguments are those of `BatchNorm1d`, but by default there are no weights and no running statistics.

    Raises:
        ValueError: the input has another number of dimensions, or, with `affine`, of channels.

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.InstanceNorm1d(1, eps=0.0)(flambeau.tensor([[[1.0, 3.0]]]))
    tensor([[[-1.,  1.]]])
    """

    _dims = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Instance normalisation of (N, C, H, W) or (C, H, W); see `InstanceNorm1d`.

    Shape:
        input: (N, C, H, W) or (C, H, W); the result has the same

    Raises:
        ValueError: there are neither three nor four dimensions

    >>> import flambeau
    >>> flambeau.nn.InstanceNorm2d(1)(flambeau.tensor([[[[1.0, 3.0]]]]))
    tensor([[[[-1.0000,  1.0000]]]])
    """

    _dims = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Instance normalisation of (N, C, D, H, W) or (C, D, H, W); see `InstanceNorm1d`.

    Shape:
        input: (N, C, D, H, W) or (C, D, H, W); the result has the same

    Raises:
        ValueError: there are neither four nor five dimensions

    >>> import flambeau
    >>> flambeau.nn.InstanceNorm3d(1)(flambeau.tensor([[[[[1.0, 3.0]]]]]))
    tensor([[[[[-1.0000,  1.0000]]]]])
    """

    _dims = (4, 5)


def _shape(normalized_shape: int | list[int] | tuple[int, ...]) -> tuple[int, ...]:
    return (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)


class LayerNorm(Module):
    """(x - mean) / sqrt(var + eps) · weight + bias, over the last dimensions (Ba et al., 2016).

    Args:
        normalized_shape: the sizes of those dimensions; one int for the last only.
        eps: added to the (biased) variance.
        elementwise_affine: whether there are `weight` and `bias`, of shape `normalized_shape`.
        bias: whether there is a `bias`, if `elementwise_affine`.

    Raises:
        RuntimeError: the last dimensions are not `normalized_shape`

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.LayerNorm(2, eps=0.0, elementwise_affine=False)(flambeau.tensor([[1.0, 3.0]]))
    tensor([[-1.,  1.]])
    """

    def __init__(
        self,
        normalized_shape: int | list[int] | tuple[int, ...],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        _register_affine(
            self, self.normalized_shape, elementwise_affine, elementwise_affine and bias, device, dtype
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to 1 and the bias to 0."""
        _reset_affine(self)

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """x / sqrt(mean(x²) + eps) · weight, over the last dimensions (Zhang and Sennrich, 2019).

    Args:
        normalized_shape: the sizes of those dimensions; one int for the last only.
        eps: None for the machine epsilon of the input's dtype.
        elementwise_affine: whether there is a `weight`, of shape `normalized_shape`.

    Raises:
        RuntimeError: the last dimensions are not `normalized_shape`

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.RMSNorm(2, eps=0.0, elementwise_affine=False)(flambeau.tensor([[3.0, -3.0]]))
    tensor([[ 1., -1.]])
    """

    def __init__(
        self,
        normalized_shape: int | list[int] | tuple[int, ...],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        if elementwise_affine:
            self.weight = Parameter(empty(self.normalized_shape, device=device, dtype=dtype))
        else:
            self.register_parameter("weight", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to 1."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(Module):
    """Normalisation of (N, C, ...) over groups of channels of each sample (Wu and He, 2018).

    Args:
        num_groups: the number of groups, a divisor of
        num_channels: the number of channels C.
        eps: added to the (biased) variance.
        affine: whether there are `weight` and `bias`, of shape (C,).
        bias: whether there is a `bias`, if `affine`.

    Raises:
        ValueError: the channels cannot be grouped evenly.

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.GroupNorm(1, 2, eps=0.0, affine=False)(flambeau.tensor([[1.0, 3.0]]))
    tensor([[-1.,  1.]])
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups != 0:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        _register_affine(self, num_channels, affine, affine and bias, device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to 1 and the bias to 0."""
        _reset_affine(self)

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class LocalResponseNorm(Module):
    """x / (k + alpha · mean of x² over `size` neighbouring channels)^beta, of (N, C, ...) (Krizhevsky et al.,
    2012).

    Shape:
        input: (N, C, *); the result has the same

    Raises:
        ValueError: there are fewer than three dimensions

    >>> import flambeau
    >>> flambeau.nn.LocalResponseNorm(size=2, alpha=2.0, beta=1.0)(flambeau.ones(1, 2, 1))
    tensor([[[0.5000],
             [0.3333]]])
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(LocalResponseNorm):
    """`LocalResponseNorm` of (N, C, H, W) alone, under its older name.

    Raises:
        ValueError: the input has another number of dimensions.

    >>> import flambeau
    >>> flambeau.nn.CrossMapLRN2d(1, alpha=1.0, beta=1.0, k=1.0)(flambeau.ones(1, 1, 1, 1)).item() == 0.5
    True
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__(size, alpha, beta, k)

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.dim()}D instead.")
        return super().forward(input)
