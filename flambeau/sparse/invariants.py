"""What must hold of the parts of a sparse tensor, looked at once, when it is made."""

from __future__ import annotations

import contextlib
from typing import Any

from ..core.base.tensor import TensorBase
from ..core.lib.sparse import sparse_rows
from ..operations.on_device import places as places_there
from .patterns import COLUMN_LAYOUTS

_checking: bool | None = None  # None: only what memory is read by


class check_sparse_tensor_invariants(contextlib.ContextDecorator):  # noqa: N801  PyTorch's name
    """Whether all invariants of sparse tensors are checked when one is made: a context, a decorator, and switches for good.

    Where nothing was said, indices are only compared with the size, unlike in PyTorch (one pass over them); their order, and
    whether they are distinct, is checked where this is enabled.  Where it is disabled nothing is; in either case no operation
    reads outside of a tensor's memory.  The argument `check_invariants` of the constructors goes before it.

    Raises:
        RuntimeError: it is enabled, and a tensor is made whose indices break a rule

    >>> import flambeau
    >>> with flambeau.sparse.check_sparse_tensor_invariants(False):
    ...     x = flambeau.sparse_coo_tensor([[5]], [1.0], (2,))
    >>> flambeau.sparse_coo_tensor([[5]], [1.0], (2,))
    Traceback (most recent call last):
    RuntimeError: sparse_coo_tensor(): size is inconsistent with indices: for dim 0, size is 2 but found index 5
    """

    def __init__(self, enable: bool = True):
        self.state = enable
        self._before: list[bool | None] = []

    @staticmethod
    def is_enabled() -> bool:
        """Whether all invariants are checked."""
        return bool(_checking)

    @staticmethod
    def enable() -> None:
        """Check all invariants from now on."""
        _set(True)

    @staticmethod
    def disable() -> None:
        """Take parts as they are from now on."""
        _set(False)

    def __enter__(self) -> None:
        self._before.append(_checking)
        _set(self.state)

    def __exit__(self, *exception: Any) -> None:
        _set(self._before.pop())


def _set(to: bool | None) -> None:
    global _checking
    _checking = to


def wanted(check_invariants: bool | None) -> tuple[bool, bool]:
    """Whether to compare the indices of a new tensor with its size, and whether to check their order.

    >>> from flambeau.sparse.invariants import wanted
    >>> wanted(None), wanted(False), wanted(True)
    ((True, False), (False, False), (True, True))
    """
    said = _checking if check_invariants is None else bool(check_invariants)
    return said is not False, said is True


def checked(indices: TensorBase, values: TensorBase, size: Any, look: bool = True) -> tuple[int, ...]:
    """The size of a sparse tensor in coordinates of these parts; RuntimeError where they do not fit.

    `size` None is the smallest that holds all indices.  Whether indices are within it is seen where `look` is true.

    >>> import flambeau
    >>> from flambeau.sparse.invariants import checked
    >>> checked(flambeau.tensor([[0, 2], [1, 0]]), flambeau.ones(2, 5), None)
    (3, 2, 5)
    >>> checked(flambeau.tensor([[0, 2]]), flambeau.ones(2), (2,))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    RuntimeError: sparse_coo_tensor(): size is inconsistent with indices: ...
    """
    who = "sparse_coo_tensor"
    if indices.ndim != 2:
        raise RuntimeError(
            f"{who}(): indices must be sparse_dim x nnz, a matrix, but got the shape {list(indices.shape)}"
        )
    sparse_dim, nnz = indices.shape
    if values.ndim < 1 or values.shape[0] != nnz:
        raise RuntimeError(
            f"{who}(): indices and values must have same nnz, but got nnz from indices: {nnz}, nnz from values: "
            f"{values.shape[0] if values.ndim else 'none (a number)'}"
        )
    has_values = nnz > 0 and not indices.is_meta and (look or size is None)
    least = indices.amin(1).tolist() if has_values else [0] * sparse_dim
    most = indices.amax(1).tolist() if has_values else [-1] * sparse_dim
    if min(least, default=0) < 0:
        raise RuntimeError(f"{who}(): found negative index {min(least)} for dim {least.index(min(least))}")
    if size is None:
        return (*(m + 1 for m in most), *values.shape[1:])
    size = sizes(who, size)
    if len(size) != sparse_dim + values.ndim - 1:
        raise RuntimeError(
            f"{who}(): number of dimensions must be sparse_dim ({sparse_dim}) + dense_dim ({values.ndim - 1}), "
            f"but got {len(size)}"
        )
    for dim, (length, m) in enumerate(zip(size, most)):
        if m >= length:
            raise RuntimeError(
                f"{who}(): size is inconsistent with indices: for dim {dim}, size is {length} but found index {m}"
            )
    if size[sparse_dim:] != tuple(values.shape[1:]):
        raise RuntimeError(
            f"{who}(): values has incorrect size, expected {[nnz, *size[sparse_dim:]]}, got {list(values.shape)}"
        )
    return size


def sizes(who: str, size: Any) -> tuple[int, ...]:
    """Sizes as a tuple; TypeError for what are none, RuntimeError for negative ones and those that 64 bits do not count.

    >>> from flambeau.sparse.invariants import sizes
    >>> sizes("f", [2, 3])
    (2, 3)
    """
    result = []
    for n in size:
        if not hasattr(n, "__index__"):
            raise TypeError(
                f"{who}(): argument 'size' must be tuple of ints, but found {type(n).__name__} in it"
            )
        result.append(n.__index__())
    if min(result, default=0) < 0:
        raise RuntimeError(f"{who}(): size must be non-negative numbers, got {result}")
    count = 1
    for n in result:
        count *= max(n, 1)
    if count >= 1 << 63 or max(result, default=0) >= 1 << 63:
        raise RuntimeError(f"{who}(): a tensor of size {result} has more elements than 64 bits count")
    return tuple(result)


def checked_compressed(
    who: str,
    layout: Any,
    starts: TensorBase,
    places: TensorBase,
    values: TensorBase,
    size: tuple[int, ...],
    block: tuple[int, ...],
    look: bool,
    strictly: bool,
) -> None:
    """RuntimeError where these parts are not those of a tensor of this size, with PyTorch's rule and the number that breaks it.

    Shapes and dtypes are always compared; `look` goes over the indices, and `strictly` also over their
    order.

    >>> import flambeau
    >>> flambeau.sparse_csr_tensor([0, 1, 1], [2], [1.0], (2, 2))
    Traceback (most recent call last):
    RuntimeError: sparse_csr_tensor(): `0 <= col_indices < ncols` is not satisfied: row 0 has 2, ncols is 2
    """
    columns = layout in COLUMN_LAYOUTS
    first, second = ("ccol_indices", "row_indices") if columns else ("crow_indices", "col_indices")
    lines, others = ("ncols", "nrows") if columns else ("nrows", "ncols")

    def need(fits: bool, message: str) -> None:
        if not fits:
            raise RuntimeError(f"{who}(): {message}")

    need(
        starts.dtype == places.dtype and starts.dtype.name in ("int32", "int64"),
        f"{first} and {second} must have the same dtype, int32 or int64, but got {starts.dtype} and {places.dtype}, "
        "respectively",
    )
    need(
        starts.ndim == places.ndim and starts.ndim > 0,
        f"{first} and {second} dimensionalities must be equal and at least 1 but got {starts.ndim} and "
        f"{places.ndim}, respectively",
    )
    n = starts.ndim - 1
    dense = values.ndim - n - 1 - 2 * len(block and (1,))
    need(
        dense >= 0,
        f"values must have dimensionality > {n + 2 * bool(block)} (batches and blocks), got {values.ndim}",
    )
    need(
        len(size) == n + 2 + dense,
        f"tensor dimensionality must be sum of batch, base, and dense dimensionalities (={n} + 2 + {dense}) but got "
        f"{len(size)}",
    )
    batch = size[:n]
    need(
        tuple(starts.shape[:n]) == tuple(places.shape[:n]) == tuple(values.shape[:n]) == batch,
        f"all batch dimensions of {first} (={list(starts.shape[:n])}), {second} (={list(places.shape[:n])}), values "
        f"(={list(values.shape[:n])}), and tensor dimensions (={list(batch)}) must be equal to one another",
    )
    listed = values.shape[n]
    need(
        places.shape[-1] == listed,
        f"{second}.shape[-1] must be equal to nnz (={listed}) as defined by values.shape[{n}], but got {places.shape[-1]}",
    )
    after = n + 1 + 2 * bool(block)
    need(
        tuple(values.shape[after:]) == size[n + 2 :],
        f"values have dense dimensions {list(values.shape[after:])}, but the tensor's are {list(size[n + 2 :])}",
    )
    grid = list(size[n : n + 2])
    for d, length in enumerate(block):
        need(length > 0, f"blocksize[{d}] must be positive, got {length} as defined by values shape")
        need(
            grid[d] % length == 0,
            f"tensor shape[{n + d}] (={grid[d]}) must be divisible with blocksize[{d}] (={length}) as defined by values shape",
        )
        grid[d] //= length
    line, other = grid[::-1] if columns else grid
    need(
        starts.shape[-1] == line + 1,
        f"{first}.shape[-1] must be equal to the number of {'columns' if columns else 'rows'} + 1 (={line + 1}), but got "
        f"{starts.shape[-1]}",
    )
    if not look or starts.is_meta:
        return
    starts, places = starts.contiguous(), places.contiguous()
    if not starts.is_cpu and places_there.keeps_rules(starts, places, other, strictly):
        return
    # which rule is broken, and where, the host finds out
    rule, at, row, result = sparse_rows.broken_rule(starts.cpu(), places.cpu(), line, other, strictly)
    place = f"{'column' if columns else 'row'} {row}" + (f" of batch {at}" if n else "")
    if rule:
        broken = {
            "first": f"`{first}[..., 0] == 0` is not satisfied: it is {result}",
            "last": f"`{first}[..., -1] == nnz` is not satisfied: it is {result}, nnz is {listed}",
            "step": f"`0 <= {first}[..., 1:] - {first}[..., :-1] <= {others}` is not satisfied: {place} has {result} "
            f"elements, {others} is {other}",
            "place": f"`0 <= {second} < {others}` is not satisfied: {place} has {result}, {others} is {other}",
            "sequence": f"`{second}[..., {first}[..., i - 1]:{first}[..., i]] for all i = 1, ..., {lines} are sorted and "
            f"distinct along the last dimension values` is not satisfied: they are not in {place}",
        }
        raise RuntimeError(f"{who}(): {broken[rule]}")
