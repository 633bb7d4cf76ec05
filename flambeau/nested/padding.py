"""From nested tensors to padded ones, to those without gaps, and back."""

from __future__ import annotations

import math
from typing import Any

from ..core.base.tensor import TensorBase
from .jagged import NestedTensor, jagged
from .raggedness import Raggedness


def packed(x: NestedTensor) -> NestedTensor:
    """The same sequences without gaps between them; itself where there are none.

    >>> import flambeau
    >>> from flambeau.nested.padding import packed
    >>> x = flambeau.nested.narrow(flambeau.arange(6).reshape(2, 3), 1, 1, 2, layout=flambeau.jagged)
    >>> packed(x).values()
    tensor([1, 2, 4, 5])
    """
    r, dim = x.ragged, x._ragged_idx - 1
    if not r.gaps(x._elements.shape[dim]):
        return x
    return jagged(x._elements.index_select(dim, r.places()), r.packed(), dim + 1)


def rows(x: NestedTensor) -> TensorBase:
    """The elements with all sequences one after another in dimension 0: (rows, …).

    >>> import flambeau
    >>> from flambeau.nested.padding import rows
    >>> x = flambeau.nested.nested_tensor([flambeau.ones(2, 1), flambeau.ones(2, 3)], layout=flambeau.jagged)
    >>> rows(x).shape
    flambeau.Size([4, 2])
    """
    values = packed(x)._elements
    return values if x._ragged_idx == 1 else values.movedim(x._ragged_idx - 1, 0)


def padded(x: NestedTensor, padding: Any, output_size: Any = None, least: int = 0) -> TensorBase:
    """A dense tensor with `padding` behind the end of each sequence, at least `least` long.

    RuntimeError for an `output_size` into which the sequences do not fit.

    >>> import flambeau
    >>> from flambeau.nested.padding import padded
    >>> padded(flambeau.nested.nested_tensor([[1., 2.], [3.]], layout=flambeau.jagged), 0.0)
    tensor([[1., 2.],
            [3., 0.]])
    """
    r, dim, length = x.ragged, x._ragged_idx, max(x.ragged.longest, least)
    sizes = None
    if output_size is not None:
        sizes = _checked(x, tuple(output_size), length)
        length = sizes[dim]
    result = rows(x)
    rest = tuple(result.shape[1:])
    flat = result.new_full((r.batch * length, *rest), padding)
    if r.rows:
        flat.index_copy_(0, r.padded_places(length), result)
    output = flat.reshape(r.batch, length, *rest)
    output = output if dim == 1 else output.movedim(1, dim)
    if sizes is not None and tuple(output.shape) != sizes:
        bigger = output.new_full(sizes, padding)
        places = tuple(slice(0, n) for n in output.shape)
        bigger[places] = output
        return bigger
    return output


def _checked(x: NestedTensor, wanted: tuple, length: int) -> tuple:
    """The sizes of the padded tensor, symbols and -1 replaced."""
    sizes = x._elements.shape
    least = (x.ragged.batch, *sizes[: x._ragged_idx - 1], length, *sizes[x._ragged_idx :])
    if len(wanted) != len(least):
        raise RuntimeError(
            f"to_padded_tensor(): output_size must have {len(least)} sizes, as the nested tensor has, got {list(wanted)}"
        )
    result = tuple(n if isinstance(w, type(x.ragged.size)) or w == -1 else w for w, n in zip(wanted, least))
    if any(w < n for w, n in zip(result, least)) or result[0] != least[0]:
        raise RuntimeError(
            "to_padded_tensor(): Value in output_size is less than NestedTensor padded size. Truncation is not supported. "
            f"The sequences need {list(least)}, got {list(wanted)}"
        )
    return result


def unpadded(x: TensorBase, r: Raggedness, dim: int) -> NestedTensor:
    """The sequences of a padded tensor, whose dimension `dim` is the ragged one.

    >>> import flambeau
    >>> from flambeau.nested.padding import unpadded
    >>> from flambeau.nested.raggedness import raggedness
    >>> unpadded(flambeau.ones(2, 3), raggedness(flambeau.tensor([0, 1, 3]), None, None), 1).values()
    tensor([1., 1., 1.])
    """
    x = x if dim == 1 else x.movedim(dim, 1)
    length, rest = x.shape[1], tuple(x.shape[2:])
    flat = x.reshape(math.prod(x.shape[:2]), *rest)
    result = flat.index_select(0, r.padded_places(length))
    return jagged(result if dim == 1 else result.movedim(0, dim - 1), r.packed(), dim)
