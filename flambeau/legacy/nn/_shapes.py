"""Modules that move elements, or fold a dimension."""

from __future__ import annotations

from math import prod
from typing import Any

from ...core.base.dtypes import Size
from ...core.places.join import cat
from ._module import Computed, Factor


class _Moving(Computed):
    _parameters = ()


def _size(args: tuple[Any, ...]) -> Size:
    return Size(args[0] if len(args) == 1 and not isinstance(args[0], int) else args)


class View(_Moving):
    """The elements with these sizes, of which one may be -1.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.View(-1, 2).forward(flambeau.ones(2, 3)).shape
    flambeau.Size([3, 2])
    """

    numInputDims: int | None = None

    def __init__(self, *args: Any) -> None:
        super().__init__()
        self.resetSize(*args)

    def resetSize(self, *args: Any) -> Any:
        """Set other sizes; returns the module."""
        self.size = _size(args)
        self.numElements = prod(n for n in self.size if n >= 0)
        return self

    def compute(self, input: Any) -> Any:
        if self._of_sample(input):
            return input.contiguous().view(input.shape[0], *self.size)
        return input.contiguous().view(self.size)

    def _of_sample(self, input: Any) -> bool:
        """Whether the sizes are of one sample of a batch, as in files of Lua that say how many dimensions it has."""
        return self.numInputDims is not None and input.dim() > self.numInputDims

    def _from_lua(self, attributes: dict[str, Any], version: int) -> None:
        super()._from_lua(attributes, version)
        self.size = Size(_numbers(self.size))

    def _shown(self) -> str:
        return f"({', '.join(map(str, self.size))})"


class Reshape(_Moving):
    """The elements of each sample of a batch with these sizes.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.Reshape(2, 3).forward(flambeau.ones(5, 6)).shape
    flambeau.Size([5, 2, 3])
    """

    batchMode: bool | None = True  # None: as Lua has it, where the input tells whether it is a batch

    def __init__(self, *args: Any) -> None:
        super().__init__()
        self.size = _size(args)
        self.nelement = prod(self.size)

    def compute(self, input: Any) -> Any:
        is_unbatched = self.batchMode is False
        if self.batchMode is None:
            is_unbatched = input.numel() == self.nelement and input.shape[0] != 1
        return input.contiguous().view(self.size if is_unbatched else (input.shape[0], *self.size))

    def _to_lua(self) -> dict[str, Any]:
        made = super()._to_lua() | {"batchsize": Size((1, *self.size))}
        return made if self.batchMode is None else made | {"batchMode": self.batchMode}

    def _from_lua(self, attributes: dict[str, Any], version: int) -> None:
        super()._from_lua(attributes, version)
        self.batchMode = attributes.get("batchMode")
        self.size = Size(_numbers(self.size))

    def _shown(self) -> str:
        return f"({'x'.join(map(str, self.size))})"


def _numbers(size: Any) -> list[int]:
    return [int(n) for n in (size.tolist() if hasattr(size, "tolist") else size)]


class Contiguous(_Moving):
    """The input with its elements in order.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.Contiguous().forward(flambeau.ones(2, 3).T).is_contiguous()
    True
    """

    def compute(self, input: Any) -> Any:
        return input.contiguous()


class Squeeze(_Moving):
    """Without the dimensions of size 1, or without the dimension `dim` if its size is 1.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.Squeeze().forward(flambeau.ones(2, 1, 3)).shape
    flambeau.Size([2, 3])
    """

    _from_one = ("dim",)
    dim: int | None = None

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def compute(self, input: Any) -> Any:
        return input.squeeze() if self.dim is None else input.squeeze(self.dim)


class Unsqueeze(_Moving):
    """With a dimension of size 1 more, at `dim`.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.Unsqueeze(1).forward(flambeau.ones(2, 3)).shape
    flambeau.Size([2, 1, 3])
    """

    _from_one = ("dim",)
    _in_lua = {"dim": "pos"}

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def compute(self, input: Any) -> Any:
        return input.unsqueeze(self.dim)

    def _shown(self) -> str:
        return f"({self.dim})"


class Transpose(_Moving):
    """With dimensions exchanged, pair by pair: `Transpose((1, 2), (1, 3))`.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.Transpose((0, 1)).forward(flambeau.ones(2, 3)).shape
    flambeau.Size([3, 2])
    """

    _from_one = ("permutations",)

    def __init__(self, *args: tuple[int, int]) -> None:
        super().__init__()
        self.permutations = args

    def compute(self, input: Any) -> Any:
        for a, b in self.permutations:
            input = input.transpose(a, b)
        return input.contiguous()

    def _shown(self) -> str:
        return f"({', '.join(str(tuple(p)) for p in self.permutations)})"


class Replicate(_Moving):
    """`nf` times the input, along a new dimension `dim`.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.Replicate(2, 1).forward(flambeau.ones(3, 4)).shape
    flambeau.Size([3, 2, 4])
    """

    _from_one = ("dim",)

    def __init__(self, nf: int, dim: int = 0) -> None:
        super().__init__()
        if dim < 0:
            raise ValueError(f"Replicate: dim is negative: {dim}")
        self.nfeatures = nf
        self.dim = dim

    def compute(self, input: Any) -> Any:
        if self.dim >= max(input.dim(), 1):
            raise ValueError(f"Replicate: dim {self.dim} of an input of {input.dim()} dimensions")
        size = list(input.shape)
        size.insert(self.dim, self.nfeatures)
        return input.unsqueeze(self.dim).expand(size)


class Narrow(_Moving):
    """`length` slices along `dimension`, from `offset`; a negative length ends so many before the end, -1 at it.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.Narrow(0, 1, 2).forward(flambeau.tensor([1.0, 2.0, 3.0]))
    tensor([2., 3.])
    """

    _from_one = ("dimension", "index")

    def __init__(self, dimension: int, offset: int, length: int = 1) -> None:
        super().__init__()
        self.dimension = dimension
        self.index = offset
        self.length = length

    def compute(self, input: Any) -> Any:
        length = self.length
        if length < 0:
            length = input.shape[self.dimension] - self.index + length + 1
        return input.narrow(self.dimension, self.index, length)


class Select(_Moving):
    """The slice with an index along `dimension`.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.Select(0, 1).forward(flambeau.tensor([[1.0], [2.0]]))
    tensor([2.])
    """

    _from_one = ("dimension", "index")

    def __init__(self, dimension: int, index: int) -> None:
        super().__init__()
        self.dimension = dimension
        self.index = index

    def compute(self, input: Any) -> Any:
        return input.select(self.dimension, self.index)


class Index(_Moving):
    """The slices of the first of a list of two along `dimension`, whose indices are the second.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.Index(0).forward([flambeau.tensor([10.0, 20.0]), flambeau.tensor([0, 1, 1])])
    tensor([10., 20., 20.])
    """

    _from_one = ("dimension",)

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self.dimension = dimension

    def compute(self, input: Any) -> Any:
        return input[0].index_select(self.dimension, input[1])


class MaskedSelect(_Moving):
    """The elements of the first of a list of two where the second, a mask, is not 0.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.MaskedSelect().forward([flambeau.tensor([10.0, 20.0]), flambeau.tensor([0, 1])])
    tensor([20.])
    """

    def compute(self, input: Any) -> Any:
        return input[0].masked_select(input[1] != 0)


class Padding(_Moving):
    """With |pad| slices of `value` more along `dim`: before the input for a negative `pad`, behind it for a positive one, or
    `index` slices further inside. Inputs of more than `nInputDim` dimensions are batches.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.Padding(0, -2, 1).forward(flambeau.ones(2))
    tensor([0., 0., 1., 1.])
    >>> nn.Padding(0, 1, 1, index=1).forward(flambeau.ones(2))
    tensor([1., 0., 1.])
    """

    _from_one = ("dim", "index")
    nInputDim: int | None = None

    def __init__(self, dim: int, pad: int, nInputDim: int, value: Factor = 0, index: int = 0) -> None:
        super().__init__()
        self.value = value
        self.index = index
        self.dim = dim
        self.pad = pad
        self.nInputDim = nInputDim

    def compute(self, input: Any) -> Any:
        dim = self.dim + (self.nInputDim is not None and input.dim() != self.nInputDim)
        size = list(input.shape)
        at = size[dim] - self.index if self.pad > 0 else self.index
        size[dim] = abs(self.pad)
        before, after = input.narrow(dim, 0, at), input.narrow(dim, at, input.shape[dim] - at)
        return cat([before, input.new_full(size, self.value), after], dim)


class _Folding(_Moving):
    _from_one = ("dimension",)
    nInputDims: int | None = None

    def __init__(self, dimension: int = 0) -> None:
        super().__init__()
        self.dimension = dimension

    def _dim(self, input: Any) -> int:
        batch = self.nInputDims is not None and input.dim() == self.nInputDims + 1
        return self.dimension + batch if self.dimension >= 0 else self.dimension


class Max(_Folding):
    """The greatest elements along a dimension.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.Max(1).forward(flambeau.tensor([[1.0, 3.0, 2.0]]))
    tensor([3.])
    """

    def compute(self, input: Any) -> Any:
        return input.max(self._dim(input)).values


class Min(_Folding):
    """The least elements along a dimension.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.Min(1).forward(flambeau.tensor([[1.0, 3.0, 2.0]]))
    tensor([1.])
    """

    def compute(self, input: Any) -> Any:
        return input.min(self._dim(input)).values


class Mean(_Folding):
    """The means along a dimension.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.Mean(1).forward(flambeau.tensor([[1.0, 3.0, 2.0]]))
    tensor([2.])
    """

    def compute(self, input: Any) -> Any:
        return input.mean(self._dim(input))


class Sum(_Folding):
    """The sums along a dimension; `sizeAverage`: the means.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.Sum(1).forward(flambeau.tensor([[1.0, 3.0, 2.0]]))
    tensor([6.])
    """

    sizeAverage = False

    def __init__(self, dimension: int = 0, sizeAverage: bool = False) -> None:
        super().__init__(dimension)
        self.sizeAverage = sizeAverage

    def compute(self, input: Any) -> Any:
        dim = self._dim(input)
        return input.mean(dim) if self.sizeAverage else input.sum(dim)
