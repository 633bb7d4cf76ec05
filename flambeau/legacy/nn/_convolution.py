"""Convolutions over sequences ("temporal"), planes ("spatial") and volumes ("volumetric").

Spatial inputs are (planes, height, width), volumetric ones (planes, time, height, width), temporal ones (frames, frame size);
all of them may have a batch in front.
"""

from __future__ import annotations

from typing import Any

from ..._tensor import Tensor
from ...core.make.create import arange, empty
from ...core.make.random import randperm
from ...core.places.join import cat
from ...nn import functional as F
from ._module import Computed, Factor


class _Convolution(Computed):
    """What has kernels: sizes, steps and paddings along the axes in `_axes`, which are those of a weight's last dimensions."""

    _axes: tuple[str, ...] = ("H", "W")

    def _of(self, what: str) -> list[int]:
        return [getattr(self, what + axis) for axis in self._axes]

    def reset(self, stdv: Factor | None = None) -> Any:
        fan = self.nInputPlane
        for n in self._of("k"):
            fan *= n
        self._draw(stdv, fan)
        return self

    def _kernels(self, nInputPlane: int, nOutputPlane: int, turned: bool = False) -> None:
        """The parameters, from the first on; `turned` for those whose weight begins with the inputs."""
        self.nInputPlane = nInputPlane
        self.nOutputPlane = nOutputPlane
        planes = (nInputPlane, nOutputPlane) if turned else (nOutputPlane, nInputPlane)
        self._has(weight=(*planes, *self._of("k")), bias=(nOutputPlane,))
        self.reset()

    def _from_lua(self, attributes: dict[str, Any], version: int) -> None:
        super()._from_lua(attributes, version)
        for name in ("weight", "gradWeight"):  # some files have them as matrices
            x = getattr(self, name)
            if isinstance(x, Tensor) and x.dim() == 2 and x.numel():
                setattr(self, name, x.view(x.shape[0], -1, *self._of("k")))

    def _shown(self) -> str:
        order = [a for a in ("T", "W", "H") if a in self._axes]
        parts = ["x".join(str(getattr(self, f"k{a}")) for a in order)]
        steps, pads = [getattr(self, f"d{a}") for a in order], [getattr(self, f"pad{a}") for a in order]
        if set(steps) != {1} or set(pads) != {0}:
            parts += map(str, steps)
        if set(pads) != {0}:
            parts += map(str, pads)
        missing = "" if self.bias is not None else " without bias"
        return f"({self.nInputPlane} -> {self.nOutputPlane}, {', '.join(parts)}){missing}"


class SpatialConvolution(_Convolution):
    """A convolution over planes, with kernels kH × kW, steps dH, dW and zeros around, with a weight of (nOutputPlane,
    nInputPlane, kH, kW).

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> net = nn.SpatialConvolution(3, 4, 5, 5, 2, 2, 1)
    >>> net, net.forward(flambeau.ones(2, 3, 7, 7)).shape
    (nn.SpatialConvolution(3 -> 4, 5x5, 2, 2, 1, 1), flambeau.Size([2, 4, 3, 3]))
    """

    padW = padH = 0
    dilationW = dilationH = 1

    def __init__(
        self,
        nInputPlane: int,
        nOutputPlane: int,
        kW: int,
        kH: int,
        dW: int = 1,
        dH: int = 1,
        padW: int = 0,
        padH: int | None = None,
    ) -> None:
        super().__init__()
        self.kW, self.kH = kW, kH
        self.dW, self.dH = dW, dH
        self.padW, self.padH = padW, padW if padH is None else padH
        self._kernels(nInputPlane, nOutputPlane)

    def compute(self, input: Any, weight: Any, bias: Any) -> Any:
        return F.conv2d(input, weight, bias, self._of("d"), self._of("pad"), self._of("dilation"))


class SpatialDilatedConvolution(SpatialConvolution):
    """The same with kernels whose elements lie `dilationH` and `dilationW` apart.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.SpatialDilatedConvolution(3, 4, 3, 3, dilationH=2).forward(flambeau.ones(2, 3, 7, 7)).shape
    flambeau.Size([2, 4, 3, 3])
    """

    def __init__(
        self,
        nInputPlane: int,
        nOutputPlane: int,
        kW: int,
        kH: int,
        dW: int = 1,
        dH: int = 1,
        padW: int = 0,
        padH: int | None = None,
        dilationH: int = 1,
        dilationW: int | None = None,
    ) -> None:
        super().__init__(nInputPlane, nOutputPlane, kW, kH, dW, dH, padW, padH)
        self.dilationH = dilationH
        self.dilationW = dilationH if dilationW is None else dilationW


def _sizes_of(input: Any) -> tuple[Any, Any]:
    """The tensor, and that whose size the output is to have, if a list of two is given."""
    return (input[0], input[1]) if isinstance(input, (list, tuple)) else (input, None)


class _FullConvolution(_Convolution):
    def _more(self, target: Any) -> list[int]:
        """What is added to the output's sizes; with a target, what it lacks."""
        if target is None:
            return self._of("adj")
        sizes = target.shape[-len(self._axes) :]
        geometry = zip(sizes, self._of("k"), self._of("d"), self._of("pad"))
        return [(n + 2 * pad - k) % step for n, k, step, pad in geometry]


class SpatialFullConvolution(_FullConvolution):
    """The transposed convolution (that whose gradient is a convolution), with a weight of (nInputPlane, nOutputPlane, kH, kW);
    `adjW` and `adjH` are added to the output's sizes. Given a list of two tensors, it takes the first and gives the second's
    size.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.SpatialFullConvolution(3, 4, 2, 2, 2, 2).forward(flambeau.ones(2, 3, 5, 5)).shape
    flambeau.Size([2, 4, 10, 10])
    """

    adjW = adjH = 0

    def __init__(
        self,
        nInputPlane: int,
        nOutputPlane: int,
        kW: int,
        kH: int,
        dW: int = 1,
        dH: int = 1,
        padW: int = 0,
        padH: int | None = None,
        adjW: int = 0,
        adjH: int = 0,
    ) -> None:
        super().__init__()
        self.kW, self.kH = kW, kH
        self.dW, self.dH = dW, dH
        self.padW, self.padH = padW, padW if padH is None else padH
        self.adjW, self.adjH = adjW, adjH
        if adjW >= dW or adjH >= dH:
            raise ValueError(
                f"SpatialFullConvolution: adjW {adjW} and adjH {adjH} are to be less than dW {dW} and dH {dH}"
            )
        self._kernels(nInputPlane, nOutputPlane, turned=True)

    def compute(self, input: Any, weight: Any, bias: Any) -> Any:
        x, target = _sizes_of(input)
        return F.conv_transpose2d(x, weight, bias, self._of("d"), self._of("pad"), self._more(target))


class VolumetricConvolution(_Convolution):
    """A convolution over volumes, with kernels kT × kH × kW.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.VolumetricConvolution(3, 4, 2, 2, 2).forward(flambeau.ones(1, 3, 3, 3, 3)).shape
    flambeau.Size([1, 4, 2, 2, 2])
    """

    _axes = ("T", "H", "W")
    padT = padW = padH = 0

    def __init__(
        self,
        nInputPlane: int,
        nOutputPlane: int,
        kT: int,
        kW: int,
        kH: int,
        dT: int = 1,
        dW: int = 1,
        dH: int = 1,
        padT: int = 0,
        padW: int | None = None,
        padH: int | None = None,
    ) -> None:
        super().__init__()
        self.kT, self.kW, self.kH = kT, kW, kH
        self.dT, self.dW, self.dH = dT, dW, dH
        self.padT, self.padW, self.padH = padT, padT if padW is None else padW, padT if padH is None else padH
        self._kernels(nInputPlane, nOutputPlane)

    def compute(self, input: Any, weight: Any, bias: Any) -> Any:
        return F.conv3d(input, weight, bias, self._of("d"), self._of("pad"))


class VolumetricFullConvolution(_FullConvolution):
    """The transposed convolution over volumes.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.VolumetricFullConvolution(3, 4, 2, 2, 2, 2, 2, 2).forward(flambeau.ones(1, 3, 2, 2, 2)).shape
    flambeau.Size([1, 4, 4, 4, 4])
    """

    _axes = ("T", "H", "W")
    adjT = adjW = adjH = 0

    def __init__(
        self,
        nInputPlane: int,
        nOutputPlane: int,
        kT: int,
        kW: int,
        kH: int,
        dT: int = 1,
        dW: int = 1,
        dH: int = 1,
        padT: int = 0,
        padW: int = 0,
        padH: int = 0,
        adjT: int = 0,
        adjW: int = 0,
        adjH: int = 0,
    ) -> None:
        super().__init__()
        self.kT, self.kW, self.kH = kT, kW, kH
        self.dT, self.dW, self.dH = dT, dW, dH
        self.padT, self.padW, self.padH = padT, padW, padH
        self.adjT, self.adjW, self.adjH = adjT, adjW, adjH
        if adjT >= dT or adjW >= dW or adjH >= dH:
            raise ValueError(
                "VolumetricFullConvolution: adjT, adjW and adjH are to be less than dT, dW and dH"
            )
        self._kernels(nInputPlane, nOutputPlane, turned=True)

    def compute(self, input: Any, weight: Any, bias: Any) -> Any:
        x, target = _sizes_of(input)
        return F.conv_transpose3d(x, weight, bias, self._of("d"), self._of("pad"), self._more(target))


class SpatialConvolutionLocal(_Convolution):
    """A convolution with kernels of its own at each place: planes of iH × iW, a weight of (oH, oW, nOutputPlane, nInputPlane,
    kH, kW), a bias of (nOutputPlane, oH, oW).

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.SpatialConvolutionLocal(3, 4, 5, 5, 2, 2).forward(flambeau.ones(2, 3, 5, 5)).shape
    flambeau.Size([2, 4, 4, 4])
    """

    padW = padH = 0

    def __init__(
        self,
        nInputPlane: int,
        nOutputPlane: int,
        iW: int,
        iH: int,
        kW: int,
        kH: int,
        dW: int = 1,
        dH: int = 1,
        padW: int = 0,
        padH: int | None = None,
    ) -> None:
        super().__init__()
        self.nInputPlane, self.nOutputPlane = nInputPlane, nOutputPlane
        self.iW, self.iH = iW, iH
        self.kW, self.kH = kW, kH
        self.dW, self.dH = dW, dH
        self.padW, self.padH = padW, padW if padH is None else padH
        self.oW = (2 * self.padW + iW - kW) // dW + 1
        self.oH = (2 * self.padH + iH - kH) // dH + 1
        if self.oW < 1 or self.oH < 1:
            raise ValueError(
                f"SpatialConvolutionLocal: kernels of {kH}x{kW} do not fit into planes of {iH}x{iW}"
            )
        self._has(
            weight=(self.oH, self.oW, nOutputPlane, nInputPlane, kH, kW),
            bias=(nOutputPlane, self.oH, self.oW),
        )
        self.reset()

    def compute(self, input: Any, weight: Any, bias: Any) -> Any:
        if tuple(input.shape[-3:]) != (self.nInputPlane, self.iH, self.iW) or input.dim() not in (3, 4):
            raise RuntimeError(
                f"SpatialConvolutionLocal: expected ({self.nInputPlane}x{self.iH}x{self.iW}), alone or in a batch, got "
                f"{tuple(input.shape)}"
            )
        batch = input if input.dim() == 4 else input.unsqueeze(0)
        columns = F.unfold(batch, self._of("k"), padding=self._of("pad"), stride=self._of("d"))
        kernels = weight.reshape(self.oH * self.oW, self.nOutputPlane, -1)
        result = (kernels @ columns.permute(2, 1, 0)).permute(
            2, 1, 0
        )  # (places, outputs, batch) to (batch, outputs, places)
        made = result.reshape(-1, *bias.shape) + bias
        return made if input.dim() == 4 else made.squeeze(0)

    def _from_lua(self, attributes: dict[str, Any], version: int) -> None:
        Computed._from_lua(self, attributes, version)


class maps:
    """Tables of connections for `SpatialConvolutionMap`, with a row (input plane, output plane) for each.

    >>> from flambeau.legacy import nn
    >>> nn.SpatialConvolutionMap.maps.full(2, 1)
    tensor([[0., 0.],
            [1., 0.]])
    """

    @staticmethod
    def full(nin: int, nout: int) -> Tensor:
        """Every output plane with every input plane."""
        k = arange(nin * nout)
        return _table(k % nin, k // nin)

    @staticmethod
    def oneToOne(nfeat: int) -> Tensor:
        """Every plane with its own."""
        return _table(arange(nfeat), arange(nfeat))

    @staticmethod
    def random(nin: int, nout: int, nto: int) -> Tensor:
        """Every output plane with `nto` input planes, drawn so that all are used before one is used again."""
        if not 1 <= nto <= nin:
            raise ValueError(f"{nto} of {nin} input planes")
        chunks = nin // nto
        drawn: list[Tensor] = []
        while len(drawn) < nout:
            drawn += list(randperm(nin)[: chunks * nto].view(chunks, nto))
        return _table(cat(drawn[:nout]), arange(nout).repeat_interleave(nto))


def _table(inputs: Tensor, outputs: Tensor) -> Tensor:
    made = empty(inputs.numel(), 2)
    made[:, 0], made[:, 1] = inputs, outputs
    return made


class SpatialConvolutionMap(_Convolution):
    """A convolution in which input and output planes are connected as a table says (see `maps`), with a kernel for each
    connection: a weight of (connections, kH, kW).

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> net = nn.SpatialConvolutionMap(nn.SpatialConvolutionMap.maps.oneToOne(3), 2, 2)
    >>> net.forward(flambeau.ones(3, 5, 5)).shape
    flambeau.Size([3, 4, 4])
    """

    maps = maps
    _from_one = ("connTable",)
    padW = padH = 0

    def __init__(self, conMatrix: Tensor, kW: int, kH: int, dW: int = 1, dH: int = 1) -> None:
        super().__init__()
        self.kW, self.kH = kW, kH
        self.dW, self.dH = dW, dH
        self.connTable = conMatrix
        self.nInputPlane = int(conMatrix[:, 0].max()) + 1
        self.nOutputPlane = int(conMatrix[:, 1].max()) + 1
        self._has(weight=(conMatrix.shape[0], kH, kW), bias=(self.nOutputPlane,))
        self.reset()

    def reset(self, stdv: Factor | None = None) -> Any:
        if stdv is not None:
            self._draw(stdv, 1)
            return self
        outputs = self.connTable[:, 1].long()
        bounds = (outputs.bincount(minlength=self.nOutputPlane) * (self.kW * self.kH)).clamp(min=1) ** -0.5
        self.weight.uniform_(-1, 1).mul_(bounds[outputs].view(-1, 1, 1))
        self.bias.uniform_(-1, 1).mul_(bounds)
        return self

    def _dense(self, weight: Any, *planes: int) -> Any:
        """The kernels at their places among those that are 0, (planes of column `planes[0]`, planes of `planes[1]`, kH, kW)."""
        count = (self.nInputPlane, self.nOutputPlane)
        places = tuple(self.connTable[:, p].long() for p in planes)
        dense = weight.new_zeros(*(count[p] for p in planes), self.kH, self.kW)
        return dense.index_put(places, weight, accumulate=True)

    def compute(self, input: Any, weight: Any, bias: Any) -> Any:
        return F.conv2d(input, self._dense(weight, 1, 0), bias, self._of("d"))

    def _from_lua(self, attributes: dict[str, Any], version: int) -> None:
        Computed._from_lua(self, attributes, version)


class SpatialFullConvolutionMap(SpatialConvolutionMap):
    """The transposed convolution with such a table.

    Shape:
        input: (batch, planes, height, width), or without a batch; the result: (batch, output planes,
            height, width)

    Raises:
        TypeError: the table is no tensor

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> net = nn.SpatialFullConvolutionMap(nn.SpatialConvolutionMap.maps.oneToOne(3), 2, 2)
    >>> net.forward(flambeau.ones(3, 5, 5)).shape
    flambeau.Size([3, 6, 6])
    """

    def compute(self, input: Any, weight: Any, bias: Any) -> Any:
        return F.conv_transpose2d(input, self._dense(weight, 0, 1), bias, self._of("d"))


class TemporalConvolution(Computed):
    """A convolution over frames, (frames, inputFrameSize) or a batch of such, with windows of kW frames and steps of dW; the
    weight is (outputFrameSize, kW · inputFrameSize).

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.TemporalConvolution(4, 5, 3).forward(flambeau.ones(2, 10, 4)).shape
    flambeau.Size([2, 8, 5])
    """

    def __init__(self, inputFrameSize: int, outputFrameSize: int, kW: int, dW: int = 1) -> None:
        super().__init__()
        self.inputFrameSize, self.outputFrameSize = inputFrameSize, outputFrameSize
        self.kW, self.dW = kW, dW
        self._has(weight=(outputFrameSize, inputFrameSize * kW), bias=(outputFrameSize,))
        self.reset()

    def reset(self, stdv: Factor | None = None) -> Any:
        self._draw(stdv, self.kW * self.inputFrameSize)
        return self

    def compute(self, input: Any, weight: Any, bias: Any) -> Any:
        kernels = weight.view(-1, self.kW, self.inputFrameSize).mT
        return F.conv1d(input.mT, kernels, bias, self.dW).mT.contiguous()


class TemporalSubSampling(Computed):
    """Sums of windows of kW frames, in steps of dW, each element times its weight plus its bias.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.TemporalSubSampling(4, 3).forward(flambeau.ones(10, 4)).shape
    flambeau.Size([8, 4])
    """

    def __init__(self, inputFrameSize: int, kW: int, dW: int = 1) -> None:
        super().__init__()
        self.inputFrameSize = inputFrameSize
        self.kW, self.dW = kW, dW
        self._has(weight=(inputFrameSize,), bias=(inputFrameSize,))
        self.reset()

    def reset(self, stdv: Factor | None = None) -> Any:
        self._draw(stdv, self.kW)
        return self

    def compute(self, input: Any, weight: Any, bias: Any) -> Any:
        return input.unfold(-2, self.kW, self.dW).sum(-1) * weight + bias
