"""Modules that gather windows, enlarge planes, or put something around them.

Spatial inputs are (planes, height, width), volumetric ones (planes, time, height, width), temporal ones (frames, frame size);
all of them may have a batch in front.
"""

from __future__ import annotations

from typing import Any, ClassVar

from ...nn import functional as F
from ._container import Sequential
from ._module import Computed, Factor
from ._pointwise import MulConstant, Power, Sqrt, Square


class _Pooling(Computed):
    _parameters: ClassVar[tuple[str, ...]] = ()
    _axes: tuple[str, ...] = ("H", "W")
    ceil_mode = False

    def _of(self, what: str) -> list[int]:
        return [getattr(self, what + axis) for axis in self._axes]

    def ceil(self) -> Any:
        """Windows may reach beyond the end; returns the module."""
        self.ceil_mode = True
        return self

    def floor(self) -> Any:
        """Windows end inside, as from the start; returns the module."""
        self.ceil_mode = False
        return self

    def _shown(self) -> str:
        order = [a for a in ("T", "W", "H") if a in self._axes]
        kernel, *more = (
            [getattr(self, what + a) for a in order]
            for what in ("k", "d", "pad")
            if hasattr(self, what + "W")
        )
        rest = [str(n) for numbers in more[: 1 + (set(more[-1]) != {0})] for n in numbers]
        return f"({', '.join(['x'.join(map(str, kernel)), *rest])})"


class SpatialMaxPooling(_Pooling):
    """The greatest elements of windows kH × kW, in steps of dH and dW (by default the windows' sizes).

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.SpatialMaxPooling(2, 2).forward(flambeau.arange(4.0).view(1, 2, 2))
    tensor([[[3.]]])
    """

    padW = padH = 0

    def __init__(
        self, kW: int, kH: int, dW: int | None = None, dH: int | None = None, padW: int = 0, padH: int = 0
    ) -> None:
        super().__init__()
        self.kW, self.kH = kW, kH
        self.dW, self.dH = dW or kW, dH or kH
        self.padW, self.padH = padW, padH

    indices: Any = None  # where the elements lie in their planes
    iheight = iwidth = 0

    def _pooled(self, input: Any) -> Any:
        return F.max_pool2d(input, self._of("k"), self._of("d"), self._of("pad"), 1, self.ceil_mode, True)

    def compute(self, input: Any) -> Any:
        self.iheight, self.iwidth = input.shape[-2:]
        result, self.indices = self._pooled(input)
        return result

    def clearState(self) -> Any:
        self.indices = None
        return super().clearState()


class SpatialAdaptiveMaxPooling(SpatialMaxPooling):
    """The greatest elements of windows that divide a plane into h × w.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.SpatialAdaptiveMaxPooling(2, 1).forward(flambeau.arange(4.0).view(1, 1, 4))
    tensor([[[1., 3.]]])
    """

    _in_lua = {"w": "W", "h": "H"}

    def __init__(self, w: int, h: int) -> None:
        Computed.__init__(self)
        self.w, self.h = w, h

    def _pooled(self, input: Any) -> Any:
        return F.adaptive_max_pool2d(input, (self.h, self.w), return_indices=True)

    def _shown(self) -> str:
        return f"({self.w}x{self.h})"


class SpatialFractionalMaxPooling(_Pooling):
    """The greatest elements of windows at random places (Graham 2014): outW × outH of them, or, for numbers below 1, the
    input's sizes times them.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.SpatialFractionalMaxPooling(2, 2, 0.5, 0.5).forward(flambeau.rand(1, 3, 6, 6)).shape
    flambeau.Size([1, 3, 3, 3])
    """

    outW: Any = None
    outH: Any = None
    ratioW: Any = None
    ratioH: Any = None
    randomSamples: Any = None
    indices: Any = None

    def __init__(self, poolSizeW: int, poolSizeH: int, arg1: Factor, arg2: Factor) -> None:
        super().__init__()
        if poolSizeW < 2 or poolSizeH < 2:
            raise ValueError(
                f"SpatialFractionalMaxPooling: windows of at least 2x2, not {poolSizeW}x{poolSizeH}"
            )
        self.poolSizeW, self.poolSizeH = poolSizeW, poolSizeH
        self.newRandomPool = False
        if arg1 >= 1 and arg2 >= 1:
            self.outW, self.outH = arg1, arg2
        elif 0 < arg1 < 1 and 0 < arg2 < 1:
            self.ratioW, self.ratioH = arg1, arg2
        else:
            raise ValueError(f"SpatialFractionalMaxPooling: two sizes or two ratios, not {arg1} and {arg2}")

    def fixPoolingRegions(self, val: bool = True) -> Any:
        """Let the windows stay where they are; returns the module."""
        self.newRandomPool = val
        return self

    def prepare(self, input: Any) -> None:
        if input.dim() != 4:
            raise RuntimeError(f"SpatialFractionalMaxPooling: 4D tensor expected, got {input.dim()}D")
        fits = self.randomSamples is not None and self.randomSamples.shape[:2] == input.shape[:2]
        if not (self.newRandomPool and fits):
            self.randomSamples = input.new_empty(*input.shape[:2], 2).uniform_()

    def compute(self, input: Any) -> Any:
        size = (self.outH, self.outW)
        if self.outW is None:
            size = (int(input.shape[2] * self.ratioH), int(input.shape[3] * self.ratioW))
        result, self.indices = F.fractional_max_pool2d(
            input,
            (self.poolSizeH, self.poolSizeW),
            size,
            return_indices=True,
            _random_samples=self.randomSamples.to(input.dtype),
        )
        return result

    def clearState(self) -> Any:
        self.indices = self.randomSamples = None
        return super().clearState()

    def _shown(self) -> str:
        w, h = self.outW or self.ratioW, self.outH or self.ratioH
        return f"({w}x{h}, {self.poolSizeW}, {self.poolSizeH})"


class SpatialMaxUnpooling(Computed):
    """The way back from a `SpatialMaxPooling`: the elements where it found its own, zeros elsewhere.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> pool = nn.SpatialMaxPooling(2, 2)
    >>> net = nn.Sequential().add(pool).add(nn.SpatialMaxUnpooling(pool))
    >>> net.forward(flambeau.arange(4.0).view(1, 2, 2))
    tensor([[[0., 0.],
             [0., 3.]]])
    """

    _parameters = ()
    _of_class: Any = SpatialMaxPooling

    def __init__(self, poolingModule: Any) -> None:
        super().__init__()
        if not isinstance(poolingModule, self._of_class):
            raise TypeError(f"{type(self).__name__}: {poolingModule!r} is no {self._of_class.__name__}")
        if poolingModule._of("k") != poolingModule._of("d"):
            raise ValueError(f"{type(self).__name__}: the windows of {poolingModule!r} overlap")
        self.pooling = poolingModule

    def compute(self, input: Any) -> Any:
        p = self.pooling
        return F.max_unpool2d(input, p.indices, p._of("k"), p._of("d"), p._of("pad"), (p.iheight, p.iwidth))

    def _shown(self) -> str:
        return f" associated to {self.pooling!r}"


class SpatialAveragePooling(_Pooling):
    """The means of windows kH × kW, in steps of dH and dW.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.SpatialAveragePooling(2, 2).forward(flambeau.arange(4.0).view(1, 2, 2))
    tensor([[[1.5000]]])
    """

    padW = padH = 0
    count_include_pad = True
    divide = True  # False: sums, as in files of before there was this

    def __init__(self, kW: int, kH: int, dW: int = 1, dH: int = 1, padW: int = 0, padH: int = 0) -> None:
        super().__init__()
        self.kW, self.kH = kW, kH
        self.dW, self.dH = dW, dH
        self.padW, self.padH = padW, padH
        self.ceil_mode, self.count_include_pad, self.divide = False, True, True

    def _from_lua(self, attributes: dict[str, Any], version: int) -> None:
        super()._from_lua({"divide": False, **attributes}, version)

    def setCountIncludePad(self) -> Any:
        """Count the zeros around, as from the start; returns the module."""
        self.count_include_pad = True
        return self

    def setCountExcludePad(self) -> Any:
        """Do not count the zeros around; returns the module."""
        self.count_include_pad = False
        return self

    def compute(self, input: Any) -> Any:
        result = F.avg_pool2d(
            input, self._of("k"), self._of("d"), self._of("pad"), self.ceil_mode, self.count_include_pad
        )
        return result if self.divide else result * (self.kW * self.kH)


class SpatialLPPooling(Sequential):
    """The norms `pnorm` of windows kH × kW, in steps of dH and dW (by default the windows' sizes).

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.SpatialLPPooling(1, 2, 2, 1).forward(flambeau.tensor([[[3.0, 4.0]]]))
    tensor([[[5.]]])
    """

    def __init__(
        self, nInputPlane: int, pnorm: Factor, kW: int, kH: int, dW: int | None = None, dH: int | None = None
    ) -> None:
        super().__init__()
        self.kW, self.kH = kW, kH
        self.dW, self.dH = dW or kW, dH or kH
        self.add(Square() if pnorm == 2 else Power(pnorm))
        self.add(SpatialAveragePooling(kW, kH, self.dW, self.dH))
        self.add(MulConstant(kW * kH))
        self.add(Sqrt() if pnorm == 2 else Power(1 / pnorm))


class SpatialSubSampling(_Pooling):
    """The sums of windows kH × kW, in steps of dH and dW, each plane times its weight plus its bias.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.SpatialSubSampling(3, 2, 2).forward(flambeau.ones(3, 5, 5)).shape
    flambeau.Size([3, 4, 4])
    """

    _parameters = ("weight", "bias")

    def __init__(self, nInputPlane: int, kW: int, kH: int, dW: int = 1, dH: int = 1) -> None:
        super().__init__()
        self.nInputPlane = nInputPlane
        self.kW, self.kH = kW, kH
        self.dW, self.dH = dW, dH
        self._has(weight=(nInputPlane,), bias=(nInputPlane,))
        self.reset()

    def reset(self, stdv: Factor | None = None) -> Any:
        self._draw(stdv, self.kW * self.kH)
        return self

    def compute(self, input: Any, weight: Any, bias: Any) -> Any:
        sums = F.avg_pool2d(input, self._of("k"), self._of("d")) * (self.kW * self.kH)
        return sums * weight.view(-1, 1, 1) + bias.view(-1, 1, 1)

    def _shown(self) -> str:
        return f"({self.nInputPlane}, {self.kW}x{self.kH}, {self.dW}, {self.dH})"


class TemporalMaxPooling(Computed):
    """The greatest elements of windows of kW frames, in steps of dW (by default the window's size).

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.TemporalMaxPooling(2).forward(flambeau.tensor([[1.0, 5.0], [2.0, 4.0]]))
    tensor([[2., 5.]])
    """

    _parameters = ()

    def __init__(self, kW: int, dW: int | None = None) -> None:
        super().__init__()
        self.kW, self.dW = kW, dW or kW

    def compute(self, input: Any) -> Any:
        return F.max_pool1d(input.mT, self.kW, self.dW).mT.contiguous()


class VolumetricMaxPooling(SpatialMaxPooling):
    """The greatest elements of windows kT × kH × kW, in steps of dT, dH and dW (by default the windows' sizes).

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.VolumetricMaxPooling(2, 2, 2).forward(flambeau.arange(8.0).view(1, 2, 2, 2)).item()
    7.0
    """

    _axes = ("T", "H", "W")
    padT = 0
    itime = 0

    def __init__(
        self,
        kT: int,
        kW: int,
        kH: int,
        dT: int | None = None,
        dW: int | None = None,
        dH: int | None = None,
        padT: int = 0,
        padW: int = 0,
        padH: int = 0,
    ) -> None:
        Computed.__init__(self)
        self.kT, self.kW, self.kH = kT, kW, kH
        self.dT, self.dW, self.dH = dT or kT, dW or kW, dH or kH
        self.padT, self.padW, self.padH = padT, padW, padH

    def _pooled(self, input: Any) -> Any:
        self.itime = input.shape[-3]
        return F.max_pool3d(input, self._of("k"), self._of("d"), self._of("pad"), 1, self.ceil_mode, True)


class VolumetricMaxUnpooling(SpatialMaxUnpooling):
    """The way back from a `VolumetricMaxPooling`.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> pool = nn.VolumetricMaxPooling(2, 2, 2)
    >>> net = nn.Sequential().add(pool).add(nn.VolumetricMaxUnpooling(pool))
    >>> net.forward(flambeau.arange(8.0).view(1, 1, 2, 2, 2)).sum()
    tensor(7.)
    """

    _of_class = VolumetricMaxPooling

    def compute(self, input: Any) -> Any:
        p = self.pooling
        return F.max_unpool3d(
            input, p.indices, p._of("k"), p._of("d"), p._of("pad"), (p.itime, p.iheight, p.iwidth)
        )


class VolumetricAveragePooling(_Pooling):
    """The means of windows kT × kH × kW, in steps of dT, dH and dW (by default the windows' sizes).

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.VolumetricAveragePooling(2, 2, 2).forward(flambeau.arange(8.0).view(1, 2, 2, 2)).item()
    3.5
    """

    _axes = ("T", "H", "W")
    padT = padW = padH = 0
    count_include_pad = True

    def __init__(
        self,
        kT: int,
        kW: int,
        kH: int,
        dT: int | None = None,
        dW: int | None = None,
        dH: int | None = None,
        padT: int = 0,
        padW: int = 0,
        padH: int = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kT, self.kW, self.kH = kT, kW, kH
        self.dT, self.dW, self.dH = dT or kT, dW or kW, dH or kH
        self.padT, self.padW, self.padH = padT, padW, padH
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def compute(self, input: Any) -> Any:
        return F.avg_pool3d(
            input, self._of("k"), self._of("d"), self._of("pad"), self.ceil_mode, self.count_include_pad
        )


class SpatialUpSamplingNearest(Computed):
    """Each element `scale` × `scale` times.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.SpatialUpSamplingNearest(2).forward(flambeau.ones(1, 1, 2, 2)).shape
    flambeau.Size([1, 1, 4, 4])
    """

    _parameters = ()

    def __init__(self, scale: int) -> None:
        super().__init__()
        if scale != int(scale) or scale < 1:
            raise ValueError(f"SpatialUpSamplingNearest: scale is no whole number of at least 1: {scale}")
        self.scale_factor = int(scale)

    def compute(self, input: Any) -> Any:
        return input.repeat_interleave(self.scale_factor, -1).repeat_interleave(self.scale_factor, -2)


class _Around(Computed):
    _parameters = ()
    _mode = "constant"

    def __init__(
        self, pad_l: int, pad_r: int | None = None, pad_t: int | None = None, pad_b: int | None = None
    ) -> None:
        super().__init__()
        self.pad_l = pad_l
        self.pad_r = pad_l if pad_r is None else pad_r
        self.pad_t = pad_l if pad_t is None else pad_t
        self.pad_b = pad_l if pad_b is None else pad_b

    def compute(self, input: Any) -> Any:
        if input.dim() not in (3, 4):
            raise RuntimeError(f"{type(self).__name__}: 3D or 4D tensor expected, got {input.dim()}D")
        return F.pad(input, (self.pad_l, self.pad_r, self.pad_t, self.pad_b), self._mode)

    def _shown(self) -> str:
        return f"({self.pad_l}, {self.pad_r}, {self.pad_t}, {self.pad_b})"


class SpatialZeroPadding(_Around):
    """Planes with zeros around: left, right, above, below; negative numbers cut.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.SpatialZeroPadding(1, 0, 0, -1).forward(flambeau.ones(1, 2, 2))
    tensor([[[0., 1., 1.]]])
    """


class SpatialReflectionPadding(_Around):
    """Planes with their reflection around.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.SpatialReflectionPadding(1, 0, 0, 0).forward(flambeau.arange(3.0).view(1, 1, 3))
    tensor([[[1., 0., 1., 2.]]])
    """

    _mode = "reflect"


class SpatialReplicationPadding(_Around):
    """Planes with the elements at their edges repeated around.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.SpatialReplicationPadding(1, 0, 0, 0).forward(flambeau.arange(3.0).view(1, 1, 3))
    tensor([[[0., 0., 1., 2.]]])
    """

    _mode = "replicate"


class VolumetricReplicationPadding(Computed):
    """Volumes with the elements at their faces repeated around: left, right, above, below, before, behind.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.VolumetricReplicationPadding(1, 0, 0, 0, 0, 2).forward(flambeau.ones(1, 1, 1, 1, 1)).shape
    flambeau.Size([1, 1, 3, 1, 2])
    """

    _parameters = ()

    def __init__(
        self,
        pleft: int,
        pright: int | None = None,
        ptop: int | None = None,
        pbottom: int | None = None,
        pfront: int | None = None,
        pback: int | None = None,
    ) -> None:
        super().__init__()
        self.pleft = pleft
        self.pright = pleft if pright is None else pright
        self.ptop = pleft if ptop is None else ptop
        self.pbottom = pleft if pbottom is None else pbottom
        self.pfront = pleft if pfront is None else pfront
        self.pback = pleft if pback is None else pback

    def _pads(self) -> tuple[int, ...]:
        return (self.pleft, self.pright, self.ptop, self.pbottom, self.pfront, self.pback)

    def compute(self, input: Any) -> Any:
        return F.pad(input, self._pads(), "replicate")

    def _shown(self) -> str:
        return str(self._pads())
