"""Modules with weights over vectors."""

from __future__ import annotations

from typing import Any

from ..._tensor import Tensor
from ...core.base.dtypes import Size
from ...core.make.create import arange, empty
from ...nn import functional as F
from ._module import Computed, Factor


class Linear(Computed):
    """x · weightᵀ + bias, with a weight of (outputSize, inputSize), for a vector or a batch of them.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> net = nn.Linear(3, 2)
    >>> net, net.forward(flambeau.ones(5, 3)).shape
    (nn.Linear(3 -> 2), flambeau.Size([5, 2]))
    """

    def __init__(self, inputSize: int, outputSize: int, bias: bool = True) -> None:
        super().__init__()
        self._has(weight=(outputSize, inputSize), bias=(outputSize,) if bias else None)
        self.reset()

    def reset(self, stdv: Factor | None = None) -> Any:
        self._draw(stdv, self.weight.shape[1])
        return self

    def compute(self, input: Any, weight: Any, bias: Any) -> Any:
        return F.linear(input, weight, bias)

    def _shown(self) -> str:
        outputs, inputs = self.weight.shape
        return f"({inputs} -> {outputs})" + ("" if self.bias is not None else " without bias")


class PartialLinear(Linear):
    """A `Linear` of which only the outputs in the partition are computed: all, until `setPartition` chooses.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> net = nn.PartialLinear(3, 5).setPartition(flambeau.tensor([1, 4]))
    >>> net.forward(flambeau.ones(2, 3)).shape
    flambeau.Size([2, 2])
    """

    _from_one = ("partition", "allcolumns")

    def __init__(self, inputsize: int, outputsize: int, bias: bool = True) -> None:
        super().__init__(inputsize, outputsize, bias)
        self.inputsize = inputsize
        self.outputsize = outputsize
        self.allcolumns = arange(outputsize)
        self.resetPartition()

    def setPartition(self, indices: Tensor) -> Any:
        """Compute the outputs with these indices alone; returns the module."""
        self.partition = indices.long()
        return self

    def resetPartition(self) -> Any:
        """Compute all outputs; returns the module."""
        self.partition = self.allcolumns
        return self

    def compute(self, input: Any, weight: Any, bias: Any) -> Any:
        chosen = weight.index_select(0, self.partition)
        return F.linear(input, chosen, None if bias is None else bias.index_select(0, self.partition))

    def _from_lua(self, attributes: dict[str, Any], version: int) -> None:
        if (
            "network" in attributes
        ):  # Lua's is a small network, whose table has the weight, and the bias is a row
            attributes = dict(attributes)
            table = attributes.pop("network").modules[0].modules[1]
            attributes.update(weight=table.weight, gradWeight=table.gradWeight)
            for name in ("bias", "gradBias"):
                if name in attributes:
                    attributes[name] = attributes[name].view(-1)
        super()._from_lua(attributes, version)
        self.partition, self.allcolumns = self.partition.long(), self.allcolumns.long()


class Bilinear(Computed):
    """x₁ᵀ · weight[k] · x₂ + bias[k], of a list of two batches of vectors.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.Bilinear(3, 4, 2).forward([flambeau.ones(5, 3), flambeau.ones(5, 4)]).shape
    flambeau.Size([5, 2])
    """

    def __init__(self, inputSize1: int, inputSize2: int, outputSize: int, bias: bool = True) -> None:
        super().__init__()
        self.gradInput = [empty(0), empty(0)]
        self._has(weight=(outputSize, inputSize1, inputSize2), bias=(outputSize,) if bias else None)
        self.reset()

    def reset(self, stdv: Factor | None = None) -> Any:
        self._draw(stdv, self.weight.shape[1])
        return self

    def compute(self, input: Any, weight: Any, bias: Any) -> Any:
        return F.bilinear(input[0], input[1], weight, bias)

    def _shown(self) -> str:
        outputs, first, second = self.weight.shape
        return f"({first}x{second} -> {outputs})" + ("" if self.bias is not None else " without bias")


class Add(Computed):
    """x + bias, the same for every sample of a batch; `scalar`: one number for all elements.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> net = nn.Add(3)
    >>> net.bias.fill_(2)
    tensor([2., 2., 2.])
    >>> net.forward(flambeau.ones(1, 3))
    tensor([[3., 3., 3.]])
    """

    _parameters = ("bias",)
    scalar = False

    def __init__(self, inputSize: Any, scalar: bool = False) -> None:
        super().__init__()
        size = (inputSize,) if isinstance(inputSize, int) else tuple(inputSize)
        if scalar and size != (1,):
            raise ValueError(f"Add: a scalar has size 1, not {inputSize}")
        self.scalar = scalar
        self._has(bias=size)
        self.reset()

    def reset(self, stdv: Factor | None = None) -> Any:
        self._draw(stdv, self.bias.shape[0])
        return self

    def compute(self, input: Any, bias: Any) -> Any:
        return input + bias if self.scalar else (input.flatten(1) + bias.flatten()).view(input.shape)


class Mul(Computed):
    """x · weight, with one number as the weight.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> net = nn.Mul()
    >>> net.weight.fill_(2)
    tensor([2.])
    >>> net.forward(flambeau.ones(2))
    tensor([2., 2.])
    """

    _parameters = ("weight",)

    def __init__(self) -> None:
        super().__init__()
        self._has(weight=(1,))
        self.reset()

    def reset(self, stdv: Factor | None = None) -> Any:
        self._draw(stdv, 1)
        return self

    def compute(self, input: Any, weight: Any) -> Any:
        return input * weight


class CMul(Computed):
    """x · weight, element by element, the same for every sample of a batch: `CMul(3)`, `CMul(3, 4)`.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.CMul(3, 4).forward(flambeau.ones(2, 3, 4)).shape
    flambeau.Size([2, 3, 4])
    """

    _parameters = ("weight",)

    def __init__(self, *args: Any) -> None:
        super().__init__()
        self.size = Size(args[0] if len(args) == 1 and not isinstance(args[0], int) else args)
        self._has(weight=self.size)
        self.reset()

    def reset(self, stdv: Factor | None = None) -> Any:
        self._draw(stdv, self.weight.numel())
        return self

    def compute(self, input: Any, weight: Any) -> Any:
        return (input.reshape(input.shape[0], -1) * weight.view(-1)).view(input.shape)


class Euclidean(Computed):
    """The Euclidean distances of vectors from the columns of the weight, (inputSize, outputSize).

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.Euclidean(3, 2).forward(flambeau.ones(5, 3)).shape
    flambeau.Size([5, 2])
    """

    _parameters = ("weight",)

    def __init__(self, inputSize: int, outputSize: int) -> None:
        super().__init__()
        self._has(weight=(inputSize, outputSize))
        self.reset()

    def reset(self, stdv: Factor | None = None) -> Any:
        self._draw(stdv, self.weight.shape[0])
        return self

    def compute(self, input: Any, weight: Any) -> Any:
        return (input.unsqueeze(-1) - weight).norm(2, -2)


class WeightedEuclidean(Computed):
    """The same with a factor for each difference, the parameter `diagCov`.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.WeightedEuclidean(3, 2).forward(flambeau.ones(5, 3)).shape
    flambeau.Size([5, 2])
    """

    _parameters = ("weight", "diagCov")

    def __init__(self, inputSize: int, outputSize: int) -> None:
        super().__init__()
        self._has(weight=(inputSize, outputSize), diagCov=(inputSize, outputSize))
        self.reset()

    def reset(self, stdv: Factor | None = None) -> Any:
        self._draw(stdv, self.weight.shape[1])
        self.diagCov.fill_(1)
        return self

    def compute(self, input: Any, weight: Any, diagCov: Any) -> Any:
        return ((input.unsqueeze(-1) - weight) * diagCov).norm(2, -2)


class Cosine(Computed):
    """The cosines of the angles between vectors and the rows of the weight, (outputSize, inputSize).

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.Cosine(3, 2).forward(flambeau.ones(5, 3)).shape
    flambeau.Size([5, 2])
    """

    _parameters = ("weight",)

    def __init__(self, inputSize: int, outputSize: int) -> None:
        super().__init__()
        self._has(weight=(outputSize, inputSize))
        self.reset()

    def reset(self, stdv: Factor | None = None) -> Any:
        self._draw(stdv, self.weight.shape[0])
        return self

    def compute(self, input: Any, weight: Any) -> Any:
        lengths = (weight.norm(2, 1) + 1e-12) * (input.norm(2, -1, keepdim=True) + 1e-12)
        return input @ weight.T / lengths


class LookupTable(Computed):
    """Rows of the weight, (nIndex, nOutput), for indices in a vector or matrix.

    Args:
        paddingValue: an index whose row gets no gradient; none by default.
        maxNorm: rows that are looked up are scaled to at most this norm first, if given.
        normType: which norm; 2 by default.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.LookupTable(4, 3).forward(flambeau.tensor([[1, 0], [1, 3]])).shape
    flambeau.Size([2, 2, 3])
    """

    _parameters = ("weight",)
    _from_one = ("paddingValue",)
    maxNorm: Any = None
    normType: Any = None
    shouldScaleGradByFreq = False

    def __init__(
        self,
        nIndex: int,
        nOutput: int,
        paddingValue: int = -1,
        maxNorm: Factor | None = None,
        normType: Factor | None = None,
    ) -> None:
        super().__init__()
        self._has(weight=(nIndex, nOutput))
        self.paddingValue = paddingValue
        self.maxNorm = maxNorm
        self.normType = normType
        self.shouldScaleGradByFreq = False
        self.reset()

    def reset(self, stdv: Factor | None = None) -> Any:
        self.weight.normal_(0, 1 if stdv is None else stdv)
        return self

    def setPadding(self, paddingValue: int) -> Any:
        """The index whose row gets no gradient; returns the module."""
        self.paddingValue = paddingValue
        return self

    def setMaxNorm(self, maxNorm: Factor | None) -> Any:
        """The norm to which rows are scaled; returns the module."""
        self.maxNorm = maxNorm
        return self

    def setNormType(self, normType: Factor | None) -> Any:
        """Which norm that is; returns the module."""
        self.normType = normType
        return self

    def scaleGradByFreq(self) -> Any:
        """Divide gradients by how often an index occurs; returns the module."""
        self.shouldScaleGradByFreq = True
        return self

    def prepare(self, input: Any) -> None:
        if input.dim() not in (1, 2):
            raise RuntimeError(f"LookupTable: input must be a vector or matrix, got {input.dim()} dimensions")
        if self.maxNorm is not None:
            rows = input.long().unique()
            kind = 2.0 if self.normType is None else self.normType
            self.weight[rows] = self.weight[rows].renorm(kind, 0, self.maxNorm)

    def compute(self, input: Any, weight: Any) -> Any:
        padding = self.paddingValue if 0 <= self.paddingValue < weight.shape[0] else None
        return F.embedding(input.long(), weight, padding, scale_grad_by_freq=self.shouldScaleGradByFreq)


class _OfTwo(Computed):
    _parameters = ()

    def __init__(self) -> None:
        super().__init__()
        self.gradInput = [empty(0), empty(0)]


class DotProduct(_OfTwo):
    """The dot products of the rows of two batches, given as a list.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.DotProduct().forward([flambeau.ones(2, 3), flambeau.ones(2, 3)])
    tensor([3., 3.])
    """

    def compute(self, input: Any) -> Any:
        return (input[0] * input[1]).sum(-1)


class CosineDistance(_OfTwo):
    """The cosines of the angles between the rows of two batches, given as a list.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.CosineDistance().forward([flambeau.ones(1, 3), flambeau.ones(1, 3)])
    tensor([1.])
    """

    def compute(self, input: Any) -> Any:
        a, b = input
        squares = ((a * a).sum(-1) + 1e-12) * ((b * b).sum(-1) + 1e-12)
        return (a * b).sum(-1) / squares.sqrt()


class PairwiseDistance(_OfTwo):
    """The distances of the rows of two batches, given as a list, in the norm `p`.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.PairwiseDistance(1).forward([flambeau.ones(1, 3), flambeau.zeros(1, 3)])
    tensor([3.])
    """

    def __init__(self, p: int) -> None:
        super().__init__()
        if p % 1 != 0:
            raise ValueError(f"PairwiseDistance: p is no whole number: {p}")
        self.norm = p

    def compute(self, input: Any) -> Any:
        return (input[0] - input[1]).norm(self.norm, -1)


class MM(_OfTwo):
    """The product of two matrices, or of two batches of them, given as a list; `transA`, `transB`: of their transposes.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.MM(transB=True).forward([flambeau.ones(2, 3), flambeau.ones(4, 3)]).shape
    flambeau.Size([2, 4])
    """

    def __init__(self, transA: bool = False, transB: bool = False) -> None:
        super().__init__()
        self.transA = transA
        self.transB = transB

    def compute(self, input: Any) -> Any:
        a, b = input
        if a.dim() != b.dim() or a.dim() not in (2, 3):
            raise RuntimeError(f"MM: two matrices or two batches of them, got {a.dim()}D and {b.dim()}D")
        return (a.mT if self.transA else a) @ (b.mT if self.transB else b)


class MV(_OfTwo):
    """The product of a matrix and a vector, or of batches of them, given as a list; `trans`: of the transposed matrix.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.MV().forward([flambeau.ones(2, 3), flambeau.ones(3)])
    tensor([3., 3.])
    """

    def __init__(self, trans: bool = False) -> None:
        super().__init__()
        self.trans = trans

    def compute(self, input: Any) -> Any:
        a, b = input
        if a.dim() != b.dim() + 1 or a.dim() not in (2, 3):
            raise RuntimeError(f"MV: a matrix and a vector or batches of them, got {a.dim()}D and {b.dim()}D")
        return ((a.mT if self.trans else a) @ b.unsqueeze(-1)).squeeze(-1)


class Copy(_OfTwo):
    """A copy in another type: `Copy(DoubleTensor, FloatTensor)` takes the first and gives the second; `dontCast`: `type()`
    leaves it so.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.Copy(flambeau.DoubleTensor, flambeau.FloatTensor).forward(flambeau.ones(1).double())
    tensor([1.])
    """

    def __init__(self, intype: Any, outtype: Any, dontCast: bool = False) -> None:
        super().__init__()
        self.dontCast = dontCast
        self.gradInput = empty(0).type(intype)
        self.output = empty(0).type(outtype)

    def compute(self, input: Any) -> Any:
        return input.to(self.output.dtype, copy=True)

    def type(self, type: Any = None, tensorCache: dict | None = None) -> Any:
        return self if type is not None and self.dontCast else super().type(type, tensorCache)
