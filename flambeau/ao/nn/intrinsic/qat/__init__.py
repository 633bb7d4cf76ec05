"""Fused layers that train with weights rounded as integers will hold them."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Self

from .....nn import init
from .....nn.modules import batchnorm, conv
from .....nn.modules.linear import Linear as FloatLinear
from .....nn.parameter import Parameter
from .....operations.declare.registry import published
from ... import intrinsic, qat
from ..._making import made, sizes

__all__ = [
    "ConvBn1d",
    "ConvBn2d",
    "ConvBn3d",
    "ConvBnReLU1d",
    "ConvBnReLU2d",
    "ConvBnReLU3d",
    "ConvReLU1d",
    "ConvReLU2d",
    "ConvReLU3d",
    "LinearBn1d",
    "LinearReLU",
]
_relu, _linear = (published("nn.functional")[name] for name in ("relu", "linear"))


class LinearReLU(qat.Linear):
    """`ao.nn.qat.Linear` and a ReLU.

    Shape:
        input: (…, in_features); the result is (…, out_features)

    Raises:
        AssertionError: there is no configuration

    >>> import flambeau
    >>> from flambeau.ao.nn.intrinsic.qat import LinearReLU
    >>> from flambeau.ao.quantization import default_qat_qconfig
    >>> LinearReLU(4, 2, qconfig=default_qat_qconfig)(flambeau.ones(3, 4)).shape
    flambeau.Size([3, 2])
    """

    _FLOAT_MODULE: ClassVar[tuple[type, ...]] = (intrinsic.LinearReLU,)

    def forward(self, input: Any) -> Any:
        return _relu(super().forward(input))


class _Normalised(qat._Rounding):
    """A layer whose weight is rounded as it will be with the normalisation behind it in it.

    The weight is scaled by the normalisation's, divided by the running deviation; its result is scaled back, and normalised
    (Jacob et al. 2018, section 3.2).
    """

    bn: Any
    _bn: ClassVar[type]
    _after: ClassVar[Any] = staticmethod(lambda x: x)
    freeze_bn: bool
    _version = 2

    def _add(self, features: int, eps: float, momentum: Any, freeze_bn: bool, qconfig: Any) -> None:
        self._take(qconfig)
        self.freeze_bn = freeze_bn
        self.bn = self._bn(features, eps, momentum, True, True)
        self.reset_bn_parameters()
        self.bn.training = not freeze_bn

    def reset_running_stats(self) -> None:
        """Start the running statistics anew."""
        self.bn.reset_running_stats()

    def reset_bn_parameters(self) -> None:
        """Draw the normalisation's weight and the bias anew."""
        self.bn.reset_running_stats()
        init.uniform_(self.bn.weight)
        init.zeros_(self.bn.bias)
        if self.bias is not None:
            bound = 1 / math.sqrt(max(1, self.weight[0].numel()))
            init.uniform_(self.bias, -bound, bound)

    def update_bn_stats(self) -> Self:
        """Normalise by a batch, and update the running statistics, from now on."""
        self.freeze_bn = False
        self.bn.training = True
        return self

    def freeze_bn_stats(self) -> Self:
        """Normalise by the running statistics from now on."""
        self.freeze_bn = True
        self.bn.training = False
        return self

    def _apply_weight(self, input: Any, weight: Any) -> Any:
        raise NotImplementedError

    def forward(self, input: Any) -> Any:
        factor = self.bn.weight / (self.bn.running_var + self.bn.eps).sqrt()
        weight = self.weight_fake_quant(self.weight * factor.reshape([-1] + [1] * (self.weight.ndim - 1)))
        across = [1, -1] + [1] * (self.weight.ndim - 2)
        result = self._apply_weight(input, weight) / factor.reshape(across)
        if self.bias is not None:
            result = result + self.bias.reshape(across)
        return self._after(self.bn(result))

    def train(self, mode: bool = True) -> Self:
        """Training or not; frozen statistics stay frozen."""
        self.training = mode
        if not self.freeze_bn:
            for module in self.children():
                module.train(mode)
        return self

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Self:
        """The layer of fused ones with a configuration, whose parameters it takes; AssertionError for another class."""
        if type(mod) not in cls._FLOAT_MODULE:
            names = ", ".join(kind.__name__ for kind in cls._FLOAT_MODULE)
            raise AssertionError(
                f"qat.{cls.__name__}.from_float only works for {names}, but got: {type(mod).__name__}"
            )
        if not getattr(mod, "qconfig", None):
            raise AssertionError("Input float module must have a valid qconfig")
        layer, bn = mod[0], mod[1]
        given = {name: getattr(layer, name) for name in cls._own}
        new = cls(**given, bias=layer.bias is not None, eps=bn.eps, momentum=bn.momentum, qconfig=mod.qconfig)
        new.weight, new.bias = layer.weight, layer.bias
        for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
            setattr(new.bn, name, getattr(bn, name))
        return new.train(mod.training)


class LinearBn1d(_Normalised, FloatLinear):
    """A `Linear` with a rounded weight, and a `BatchNorm1d`.

    Args:
        freeze_bn: whether the running statistics are used and kept.
        qconfig: whose `weight` makes the module that rounds; the rest as of `nn.Linear` and `nn.BatchNorm1d`.

    Shape:
        input: (N, in_features); the result is (N, out_features)

    Raises:
        AssertionError: there is no configuration

    >>> import flambeau
    >>> from flambeau.ao.nn.intrinsic.qat import LinearBn1d
    >>> from flambeau.ao.quantization import default_qat_qconfig
    >>> LinearBn1d(4, 2, qconfig=default_qat_qconfig)(flambeau.ones(3, 4)).shape
    flambeau.Size([3, 2])
    """

    _FLOAT_MODULE: ClassVar[tuple[type, ...]] = (intrinsic.LinearBn1d,)
    _own = ("in_features", "out_features")
    _bn = batchnorm.BatchNorm1d

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        eps: float = 1e-05,
        momentum: float | None = 0.1,
        freeze_bn: bool = False,
        qconfig: Any = None,
    ) -> None:
        FloatLinear.__init__(self, in_features, out_features, bias)
        self._add(out_features, eps, momentum, freeze_bn, qconfig)

    def _apply_weight(self, input: Any, weight: Any) -> Any:
        return _linear(input, weight)


class _ConvBnNd(_Normalised):
    """A convolution with a rounded weight and the normalisation behind it."""

    _own = qat.OF_CONVOLUTIONS

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool | None = None,
        padding_mode: str = "zeros",
        eps: float = 1e-05,
        momentum: float | None = 0.1,
        freeze_bn: bool = False,
        qconfig: Any = None,
    ) -> None:
        super(qat._Rounding, self).__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, False, padding_mode
        )
        if bias:
            self.bias = Parameter(self.weight.new_empty(out_channels))
        self._add(out_channels, eps, momentum, freeze_bn, qconfig)

    def _apply_weight(self, input: Any, weight: Any) -> Any:
        return self._conv_forward(input, weight, None)


def _of(name: str, d: int, bases: tuple[Any, ...], first: str, args: str, rest: str, **members: Any) -> Any:
    text = f"""{first}

    Args:{args}
        qconfig: whose `weight` makes the module that rounds; the rest as of {rest}.

    Shape:
        input and result: as of `nn.Conv{d}d`

    Raises:
        AssertionError: there is no configuration

    >>> import flambeau
    >>> from flambeau.ao.nn.intrinsic.qat import {name}
    >>> from flambeau.ao.quantization import default_qat_qconfig
    >>> {name}(2, 3, 3, qconfig=default_qat_qconfig)(flambeau.ones(2, 2, {sizes(d, 6)})).shape
    flambeau.Size([2, 3, {sizes(d, 4)}])
    """
    return made(__name__, name, bases, text, _FLOAT_MODULE=(getattr(intrinsic, name),), **members)


def _conv_bn(d: int, relu: bool) -> Any:
    """A convolution and a normalisation, with a ReLU or without."""
    name, bases = f"Conv{'BnReLU' if relu else 'Bn'}{d}d", (_ConvBnNd, getattr(conv, f"Conv{d}d"))
    last = f", a `BatchNorm{d}d` and a ReLU." if relu else f", and a `BatchNorm{d}d`."
    args = "\n        freeze_bn: whether the running statistics are used and kept."
    members: dict[str, Any] = {"_bn": getattr(batchnorm, f"BatchNorm{d}d")}
    members |= {"_after": staticmethod(_relu)} if relu else {}
    rest = f"`nn.Conv{d}d` and `nn.BatchNorm{d}d`"
    return _of(name, d, bases, f"A `Conv{d}d` with a rounded weight{last}", args, rest, **members)


def _conv_relu(d: int) -> Any:
    base = getattr(qat, f"Conv{d}d")

    def forward(self: Any, input: Any) -> Any:
        return _relu(base.forward(self, input))

    first, rest = f"`ao.nn.qat.Conv{d}d` and a ReLU.", f"`nn.Conv{d}d`"
    return _of(f"ConvReLU{d}d", d, (base,), first, "", rest, forward=forward)


ConvBn1d, ConvBn2d, ConvBn3d = (_conv_bn(d, False) for d in (1, 2, 3))
ConvBnReLU1d, ConvBnReLU2d, ConvBnReLU3d = (_conv_bn(d, True) for d in (1, 2, 3))
ConvReLU1d, ConvReLU2d, ConvReLU3d = (_conv_relu(d) for d in (1, 2, 3))
