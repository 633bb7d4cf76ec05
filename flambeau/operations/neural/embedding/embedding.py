"""Rows of a table looked up by number: embeddings and one-hot vectors."""

from __future__ import annotations

from ....core.base.callbacks import callbacks
from ....core.base.dtypes import by_name
from ....core.base.tensor import TensorBase
from ....core.make.create import arange, ones_like
from ....core.tape.contexts import unrecorded
from ....core.tape.modes import is_forward_open
from ...declare import checks
from ...declare.dtype_groups import LONG
from ...declare.host import holds
from ...declare.registry import leaf, library


@library("composite", "nn.functional.embedding")
def embedding(
    input: TensorBase,
    weight: TensorBase,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> TensorBase:
    """weight[input]: rows of `weight` (V, D) at the places `input` (integers of any shape): (*, D).

    The row `padding_idx` gets no gradient; with `scale_grad_by_freq` a row's gradient is divided by how often it occurs;
    rows longer than `max_norm` are shortened in place.  With `sparse` the gradient of `weight` is a sparse tensor of the
    rows looked up.  IndexError for a number outside the table.

    >>> import flambeau
    >>> table = flambeau.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> flambeau.nn.functional.embedding(flambeau.tensor([1, 0, 1]), table)
    tensor([[3., 4.],
            [1., 2.],
            [3., 4.]])
    """
    if input.dtype.name not in ("int32", "int64"):
        checks.dtypes("embedding", ("int32", "int64"), RuntimeError, input=input)
    if padding_idx is not None and weight.ndim:
        if not -weight.shape[0] <= padding_idx < weight.shape[0]:
            raise AssertionError("embedding(): padding_idx must be within num_embeddings")
        padding_idx %= weight.shape[0]
    if weight.ndim != 2:
        raise RuntimeError(f"embedding(): 'weight' must be 2-D, got shape {list(weight.shape)}")
    if max_norm is not None:
        shorten(weight, input, max_norm, norm_type)
    flat = input.reshape(-1)
    if sparse:
        result = embedding_rows(weight, flat, weight.shape[0], padding_idx, bool(scale_grad_by_freq))
        return result.reshape([*input.shape, weight.shape[1]])
    shared = bool(scale_grad_by_freq)
    if (padding_idx is None and not shared) or not weight.requires_grad:
        result = weight.index_select(0, flat)
    elif is_forward_open():  # tangents of all rows pass
        result = weight.index_select(0, flat)
        result.register_hook(lambda grad: _uneven(grad, flat, weight.shape[0], padding_idx, shared))
    else:
        result = embedding_unevenly(weight, flat, weight.shape[0], padding_idx, shared)
    return result.reshape([*input.shape, weight.shape[1]])


def _uneven(
    grad: TensorBase, flat: TensorBase, rows: int, padding_idx: int | None, shared: bool
) -> TensorBase:
    """What arrives of gradients of rows: none at `padding_idx`, with `shared` the share of each occurrence."""
    if padding_idx is not None:
        grad = grad.masked_fill((flat == padding_idx).unsqueeze(1), 0.0)
    if shared:
        times = flat.new_zeros([rows]).index_add(0, flat, ones_like(flat)).index_select(0, flat)
        grad = grad / times.unsqueeze(1)
    return grad


@leaf("library", inputs=("weight",), label="EmbeddingBackward")
def embedding_unevenly(
    weight: TensorBase, flat: TensorBase, rows: int, padding_idx: int | None, shared: bool
) -> TensorBase:
    """Rows of `weight`, of which it has so many, whose gradients are uneven: see `_uneven`."""
    return weight.index_select(0, flat)


@embedding_unevenly.derivative
def _uneven_rows(
    grad: TensorBase, flat: TensorBase, rows: int, padding_idx: int | None, shared: bool
) -> TensorBase:
    grad = _uneven(grad, flat, rows, padding_idx, shared)
    return grad.new_zeros([rows, grad.shape[1]]).index_add(0, flat, grad)


@leaf("library", inputs=("weight",), label="EmbeddingBackward")
def embedding_rows(
    weight: TensorBase, flat: TensorBase, rows: int, padding_idx: int | None, shared: bool
) -> TensorBase:
    """Rows of `weight`, of which it has so many, whose gradient is one sparse tensor: a row of each place but those of `padding_idx`."""
    return weight.index_select(0, flat)


@embedding_rows.derivative
def _rows_apart(
    grad: TensorBase, flat: TensorBase, rows: int, padding_idx: int | None, shared: bool
) -> TensorBase:
    sizes = (rows, grad.shape[1])
    if padding_idx is not None:
        kept = (flat != padding_idx).nonzero().reshape(-1)
        flat, grad = flat.index_select(0, kept), grad.index_select(0, kept)
    if shared:
        times = flat.new_zeros([rows]).index_add(0, flat, ones_like(flat)).index_select(0, flat)
        grad = grad / times.unsqueeze(1)
    return callbacks["sparse_coo"](flat.long().unsqueeze(0), grad, sizes)


def shorten(weight: TensorBase, input: TensorBase, max_norm: float, norm_type: float) -> None:
    """Scale the rows at `input` that are longer than `max_norm` down to it, in place; norms are p-norms."""
    from ...rows.norms import vector_norm

    if weight.is_meta:
        return
    with unrecorded():
        used = input.reshape(-1).unique().to(by_name["int64"])  # as writing rows requires
        rows = weight.index_select(0, used)
        lengths = vector_norm(rows, norm_type, 1, True)
        weight.index_copy_(0, used, rows * (max_norm / (lengths + 1e-7)).clamp(max=1.0))


@library("composite", "nn.functional.one_hot", dtypes=LONG)
def one_hot(input: TensorBase, num_classes: int = -1) -> TensorBase:
    """result[…, k] = (input = k): an int64 tensor (*, num_classes), 1 at each element's class, else 0.

    Shape:
        input: (*); result: (*, num_classes)

    Raises:
        RuntimeError: the dtype is not int64
        RuntimeError: a class number is not below `num_classes`, or negative

    >>> import flambeau
    >>> flambeau.nn.functional.one_hot(flambeau.tensor([0, 2]), num_classes=3)
    tensor([[1, 0, 0],
            [0, 0, 1]])
    """
    if input.dtype.name != "int64":
        raise RuntimeError(
            f"one_hot(): is only applicable to index tensor of type LongTensor, got {input.dtype}"
        )
    if not holds(input >= 0):
        raise RuntimeError("one_hot(): Class values must be non-negative.")
    if num_classes == -1:
        if input.numel() == 0:
            raise RuntimeError("one_hot(): Can not infer total number of classes from empty tensor.")
        num_classes = int(input.max().item()) + 1
    elif not holds(input < num_classes):
        raise RuntimeError("one_hot(): Class values must be smaller than num_classes.")
    return (input.unsqueeze(-1) == arange(num_classes, device=input.device)).to(input.dtype)
