"""Modules of tables: lists of tensors in, or lists of them out."""

from __future__ import annotations

from functools import reduce
from operator import add, mul
from typing import Any, ClassVar

from ...core.places.join import cat, stack
from ._module import Computed
from ._recording import each, tensors


class _OfTable(Computed):
    _parameters = ()
    _lists: ClassVar[tuple[str, ...]] = ("gradInput",)


class CAddTable(_OfTable):
    """The sum of the tensors of a list; `inplace`: written over the first.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.CAddTable().forward([flambeau.tensor([1.0]), flambeau.tensor([2.0])])
    tensor([3.])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def compute(self, input: Any) -> Any:
        return reduce(add, input)

    def _over(self, input: Any) -> Any:
        """A sum's gradients read none of its terms."""
        self.output = input[0]
        for x in input[1:]:
            self.output.add_(x)
        return self.output

    def updateGradInput(self, input: Any, gradOutput: Any) -> Any:
        self.gradInput = [gradOutput for _ in input]
        return self.gradInput


class CSubTable(_OfTable):
    """The difference of the two tensors of a list.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.CSubTable().forward([flambeau.tensor([1.0]), flambeau.tensor([2.0])])
    tensor([-1.])
    """

    def compute(self, input: Any) -> Any:
        first, second = input
        return first - second


class CMulTable(_OfTable):
    """The product, element by element, of the tensors of a list.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.CMulTable().forward([flambeau.tensor([3.0]), flambeau.tensor([2.0])])
    tensor([6.])
    """

    def compute(self, input: Any) -> Any:
        return reduce(mul, input)


class CDivTable(_OfTable):
    """The quotient of the two tensors of a list.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.CDivTable().forward([flambeau.tensor([3.0]), flambeau.tensor([2.0])])
    tensor([1.5000])
    """

    def compute(self, input: Any) -> Any:
        first, second = input
        return first / second


class CMaxTable(_OfTable):
    """The greatest, element by element, of the tensors of a list.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.CMaxTable().forward([flambeau.tensor([3.0]), flambeau.tensor([2.0])])
    tensor([3.])
    """

    def compute(self, input: Any) -> Any:
        return stack(list(input)).max(0).values


class CMinTable(_OfTable):
    """The least, element by element, of the tensors of a list.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.CMinTable().forward([flambeau.tensor([3.0]), flambeau.tensor([2.0])])
    tensor([2.])
    """

    def compute(self, input: Any) -> Any:
        return stack(list(input)).min(0).values


class JoinTable(_OfTable):
    """The tensors of a list, joined along a dimension.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.JoinTable(0).forward([flambeau.tensor([3.0]), flambeau.tensor([2.0])])
    tensor([3., 2.])
    """

    _from_one = ("dimension",)
    nInputDims: int | None = None

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self.dimension = dimension

    def compute(self, input: Any) -> Any:
        batch = self.nInputDims is not None and input[0].dim() == self.nInputDims + 1
        return cat(list(input), self.dimension + (batch and self.dimension >= 0))


class SplitTable(_OfTable):
    """The list of the slices of a tensor along a dimension.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.SplitTable(0).forward(flambeau.tensor([[1.0], [2.0]]))
    [tensor([1.]), tensor([2.])]
    """

    _from_one = ("dimension",)
    _lists = ("output",)
    nInputDims: int | None = None

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self.dimension = dimension

    def compute(self, input: Any) -> Any:
        batch = self.nInputDims is not None and input.dim() == self.nInputDims + 1
        return list(input.unbind(self.dimension + (batch and self.dimension >= 0)))


class SelectTable(_OfTable):
    """The element of a list at an index.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.SelectTable(-1).forward([flambeau.tensor([3.0]), flambeau.tensor([2.0])])
    tensor([2.])
    """

    _from_one = ("index",)

    def __init__(self, index: int) -> None:
        super().__init__()
        self.index = index

    def compute(self, input: Any) -> Any:
        return input[self.index]

    def _shown(self) -> str:
        return f"({self.index})"


class NarrowTable(_OfTable):
    """`length` elements of a list, from `offset`.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.NarrowTable(1, 2).forward([flambeau.tensor([3.0]), flambeau.tensor([2.0]), flambeau.tensor([1.0])])
    [tensor([2.]), tensor([1.])]
    """

    _from_one = ("offset",)
    _lists = ("gradInput", "output")

    def __init__(self, offset: int, length: int = 1) -> None:
        super().__init__()
        self.offset = offset
        self.length = length

    def compute(self, input: Any) -> Any:
        return list(input[self.offset : self.offset + self.length])


class FlattenTable(_OfTable):
    """All tensors of nested lists, in one list.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> nn.FlattenTable().forward([flambeau.tensor([3.0]), [flambeau.tensor([2.0])]])
    [tensor([3.]), tensor([2.])]
    """

    _lists = ("gradInput", "output")

    def compute(self, input: Any) -> Any:
        return tensors(input)

    def updateGradInput(self, input: Any, gradOutput: Any) -> Any:
        rest = iter(gradOutput)
        self.gradInput = each(lambda x: next(rest), input)
        return self.gradInput


class MixtureTable(_OfTable):
    """The sum of what experts say, weighted by a gater: of the list `[gates, experts]`, with gates of (batch, n) and experts
    as a list of n tensors, or as one tensor that has them along `dim`.

    >>> import flambeau
    >>> from flambeau.legacy import nn
    >>> gates = flambeau.tensor([[0.25, 0.75]])
    >>> nn.MixtureTable().forward([gates, [flambeau.ones(1, 2), flambeau.zeros(1, 2)]])
    tensor([[0.2500, 0.2500]])
    """

    _from_one = ("dim",)

    def __init__(self, dim: int = 1) -> None:
        super().__init__()
        self.dim = dim

    def compute(self, input: Any) -> Any:
        gates, experts = input
        together = stack(experts, self.dim) if isinstance(experts, (list, tuple)) else experts
        if gates.shape[-1] != together.shape[self.dim]:
            raise RuntimeError(
                f"MixtureTable: {gates.shape[-1]} gates for {together.shape[self.dim]} experts"
            )
        size = [1] * together.dim()
        size[self.dim] = gates.shape[-1]
        if gates.dim() > 1:
            size[0] = gates.shape[0]
        return (gates.view(size) * together).sum(self.dim)
