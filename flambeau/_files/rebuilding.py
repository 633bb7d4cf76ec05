"""The functions by which files say how tensors are made of storages.  PyTorch's files name them `torch._utils._rebuild_…`.

Everything is checked here, whoever calls: a file's numbers are never trusted.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import Any

from .._tensor import Tensor
from ..core.base import display, formats
from ..core.base.dtypes import by_name, dtype
from ..core.base.memory import Storage
from ..core.make.create import empty, empty_strided
from ..core.places.join import cat, stack
from ..nn.parameter import Buffer, Parameter
from ..sparse import sparse_compressed_tensor, sparse_coo_tensor
from ..storage import TypedStorage
from .errors import INT64, Damaged, count, require, short

_MAX_DIMS = 64
NO_HOOKS: OrderedDict = OrderedDict()


def typed(storage: Storage, kind: dtype) -> TypedStorage:
    """A storage as elements of a dtype."""
    return TypedStorage(wrap_storage=storage, dtype=kind, _internal=True)


def check_geometry(
    offset: Any, size: Any, stride: Any, itemsize: int, nbytes: int
) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """The place, sizes and strides of a tensor (in elements), if it lies within a storage of so many bytes."""
    require(
        type(size) in (tuple, list) or isinstance(size, tuple),
        f"a tensor's sizes are a {type(size).__name__}",
    )
    require(type(stride) in (tuple, list), f"a tensor's strides are a {type(stride).__name__}")
    offset = count(offset, "a tensor's offset")
    size, stride = [count(n, "a size") for n in size], [count(n, "a stride") for n in stride]
    require(
        len(size) == len(stride) <= _MAX_DIMS, f"a tensor has {len(size)} sizes and {len(stride)} strides"
    )
    require(math.prod(max(n, 1) for n in size) < INT64, "a tensor has more elements than can be counted")
    last = offset + sum((n - 1) * step for n, step in zip(size, stride)) if 0 not in size else offset - 1
    require(
        (last + 1) * itemsize <= nbytes,
        f"a tensor reaches to byte {(last + 1) * itemsize} of a storage of {nbytes} bytes",
    )
    return offset, tuple(size), tuple(stride)


def placed(storage: Any, kind: Any, offset: Any, size: Any, stride: Any) -> Tensor:
    """A tensor of a storage, once it is found to lie within it."""
    untyped = getattr(storage, "_untyped_storage", storage)
    require(isinstance(untyped, Storage), f"a tensor is made of a {type(storage).__name__}, not of a storage")
    require(isinstance(kind, dtype), f"a tensor's dtype is {short(kind)}")
    geometry = check_geometry(offset, size, stride, kind.itemsize, untyped.nbytes())
    if untyped.device.type == "meta":
        return empty_strided(*geometry[1:], dtype=kind, device="meta")
    return empty(0, dtype=kind, device=untyped.device).set_(untyped, *geometry)


def _finished(tensor: Tensor, requires_grad: Any, metadata: Any) -> Tensor:
    if metadata is not None:
        require(type(metadata) is dict, f"a tensor's metadata is a {type(metadata).__name__}")
        for bit in sorted(metadata, key=str):
            require(bit in ("conj", "neg"), f"a tensor has the unknown mark {short(bit)}")
            if metadata[bit] is True:  # a view that computes when it is read: here a copy
                require(
                    tensor.numel() * tensor.dtype.itemsize <= tensor.untyped_storage().nbytes(),
                    "a tensor larger than its storage is marked as conjugate",
                )
                tensor = tensor.conj().clone() if bit == "conj" else -tensor
    return _trained(tensor, requires_grad)


def _trained(tensor: Tensor, requires_grad: Any) -> Tensor:
    require(type(requires_grad) is bool, f"requires_grad is {short(requires_grad)}")
    if requires_grad:
        kind = tensor.dtype
        require(kind.is_floating_point or kind.is_complex, f"a tensor of {kind} requires a gradient")
        tensor.requires_grad_()
    return tensor


def _rebuild_tensor(storage, storage_offset, size, stride):
    return placed(storage, getattr(storage, "dtype", by_name["uint8"]), storage_offset, size, stride)


def _rebuild_tensor_v2(storage, storage_offset, size, stride, requires_grad, backward_hooks, metadata=None):
    tensor = _rebuild_tensor(storage, storage_offset, size, stride)
    return _finished(tensor, requires_grad, metadata)


def _rebuild_tensor_v3(
    storage, storage_offset, size, stride, requires_grad, backward_hooks, dtype, metadata=None
):
    return _finished(placed(storage, dtype, storage_offset, size, stride), requires_grad, metadata)


def _rebuild_parameter(data, requires_grad, backward_hooks):
    require(isinstance(data, Tensor), f"a parameter is made of a {type(data).__name__}")
    kind = data.dtype
    fits = kind.is_floating_point or kind.is_complex or requires_grad is False
    require(
        type(requires_grad) is bool and fits,
        f"a parameter of {kind} with requires_grad {short(requires_grad)}",
    )
    return Parameter(data, requires_grad)


def _rebuild_parameter_with_state(data, requires_grad, backward_hooks, state):
    return set_state(_rebuild_parameter(data, requires_grad, backward_hooks), state)


def _rebuild_meta_tensor_no_storage(dtype, size, stride, requires_grad):
    require(type(dtype) is type(by_name["uint8"]), f"a tensor's dtype is {short(dtype)}")
    _, size, stride = check_geometry(0, size, stride, dtype.itemsize, INT64)
    return _trained(empty_strided(size, stride, dtype=dtype, device="meta"), requires_grad)


def _rebuild_sparse_tensor(layout, data):
    known = isinstance(layout, formats.layout) and layout is not formats.strided
    require(known, f"a sparse tensor of layout {short(layout)}")
    compressed = layout is not formats.sparse_coo
    require(
        type(data) is tuple and len(data) in ((4,) if compressed else (3, 4)),
        "a sparse tensor is not made of indices, values and size",
    )
    coalesced = False
    if compressed:
        *parts, size = data
    else:
        *parts, size, coalesced = (*data, False)[:4]
    for part in parts:
        require(type(part) is Tensor, f"a sparse tensor is made of a {type(part).__name__}")
    require(isinstance(size, (list, tuple)), f"a sparse tensor's size is {short(size)}")
    size = tuple(count(n, "a size") for n in size)
    if compressed:
        return sparse_compressed_tensor(*parts, size, layout=layout, check_invariants=True)
    return sparse_coo_tensor(*parts, size, is_coalesced=coalesced is True, check_invariants=True)


def _rebuild_qtensor(storage, storage_offset, size, stride, quantizer_params, requires_grad, backward_hooks):
    from ..ao._quantized_functions import rebuilt

    kind = getattr(storage, "dtype", None)
    require(
        isinstance(kind, dtype) and kind.name in QUANTISED,
        f"a quantised tensor's storage is one of {short(kind)}",
    )
    untyped = getattr(storage, "_untyped_storage", storage)
    require(isinstance(untyped, Storage), f"a quantised tensor is made of a {type(storage).__name__}")
    if kind.name == "quint4x2":  # two a byte
        packed = placed(storage, by_name["uint8"], 0, (untyped.nbytes(),), (1,))
        geometry = check_geometry(storage_offset, size, stride, 1, 2 * untyped.nbytes())
        codes = stack([packed & 15, packed >> 4], 1).reshape(-1).as_strided(*geometry[1:], geometry[0])
    else:
        codes = placed(storage, by_name[QUANTISED[kind.name]], storage_offset, size, stride)
    require(type(quantizer_params) is tuple and quantizer_params, "a quantised tensor's scales are no tuple")
    require(requires_grad is False, "a quantised tensor requires a gradient")
    scheme, *meaning = quantizer_params
    wanted = {formats.qscheme.per_tensor_affine: 2, formats.qscheme.per_channel_affine: 3}
    wanted[formats.qscheme.per_channel_affine_float_qparams] = 3
    known = isinstance(scheme, formats.qscheme) and wanted.get(scheme) == len(meaning)
    require(known, f"a quantised tensor's scheme is {short(scheme)} with {len(meaning)} numbers")
    if len(meaning) == 2:
        require(
            type(meaning[0]) is float and type(meaning[1]) is int, "a quantised tensor's scale is no number"
        )
    else:
        _dense(meaning[0], "scales"), _dense(meaning[1], "zero points")
        require(type(meaning[2]) is int, f"a quantised tensor's axis is {short(meaning[2])}")
    try:
        return rebuilt(codes, kind, *meaning)
    except (RuntimeError, IndexError) as error:
        raise Damaged(f"a quantised tensor's parts do not fit: {error}") from error


QUANTISED = {"qint8": "int8", "quint8": "uint8", "qint32": "int32", "quint4x2": "uint8"}


class JaggedClass:
    """What the class of nested tensors is in files, which read it as an argument alone: the class itself comes with the first."""


class _DimRange:
    """What PyTorch's compiler notes on the parts of nested tensors: it is read, and not used."""

    def __setstate__(self, state: Any) -> None:
        """Keep nothing."""


def _dense(x: Any, what: str) -> Any:
    require(
        isinstance(x, Tensor) and not x._is_wrapper and x.layout is formats.strided,
        f"the {what} of a nested, masked or quantised tensor: {short(x)}",
    )
    return x


def _rebuild_masked_tensor(data, mask):
    """Ours alone: PyTorch writes masked tensors without their elements."""
    from ..masked.maskedtensor import rebuilt

    try:
        return rebuilt(_dense(data, "elements"), _dense(mask, "mask"))
    except (TypeError, ValueError) as error:
        raise Damaged(f"a masked tensor's parts do not fit: {error}") from error


def _rebuild_njt(constructor_kwargs):
    from ..nested.answers import rebuilt

    require(isinstance(constructor_kwargs, dict), "a nested tensor is not made of a dict of its parts")
    given = constructor_kwargs.get
    values, offsets = _dense(given("values"), "values"), _dense(given("offsets"), "offsets")
    lengths = None if given("lengths") is None else _dense(given("lengths"), "lengths")
    dim = count(given("_ragged_idx", 1), "a ragged dimension")
    try:
        made = rebuilt(values.detach(), offsets, lengths, dim)
    except ValueError as error:
        raise Damaged(f"a nested tensor's parts do not fit: {error}") from error
    return _trained(made, given("requires_grad", False))


def _rebuild_nested_tensor(buffer, sizes, strides, storage_offsets):
    from ..nested.strided import rebuilt

    sizes, strides = _dense(sizes, "sizes").tolist(), _dense(strides, "strides").tolist()
    offsets = _dense(storage_offsets, "offsets").tolist()
    nested = isinstance(sizes, list) and all(isinstance(s, list) for s in sizes)
    require(nested and len(sizes) == len(strides) == len(offsets), "a nested tensor's sizes are of no parts")
    dims = storage_offsets.new_empty(0).ndim if not sizes else len(sizes[0])
    parts = [_dense(buffer, "elements").as_strided(*_part(buffer, *g)) for g in zip(sizes, strides, offsets)]
    flat = [p.reshape(-1) for p in parts]
    whole = (
        buffer
        if all(p.is_contiguous() for p in parts) and sum(p.numel() for p in flat) == buffer.numel()
        else cat(flat)
    )
    try:
        return rebuilt(whole, sizes, dims + 1)
    except ValueError as error:
        raise Damaged(f"a nested tensor's parts do not fit: {error}") from error


def _part(buffer: Any, size: Any, stride: Any, offset: Any) -> tuple:
    offset, size, stride = check_geometry(offset, size, stride, 1, buffer.numel())
    return size, stride, buffer.storage_offset() + offset


def _rebuild_device_tensor_from_cpu_tensor(data, dtype, device, requires_grad):
    """A tensor of a device whose storages are not written: it stays on the CPU, where its data is."""
    require(
        isinstance(data, Tensor) and data.dtype == dtype,
        "a device's tensor is not made of a tensor of its dtype",
    )
    return _trained(data.detach(), requires_grad)


def _rebuild_from_type_v2(func, new_type, args, state):
    require(func in REBUILD, "a tensor is not made by one of the functions for that")
    if func is _rebuild_njt:  # its state says nothing more
        require(new_type is JaggedClass, f"a nested tensor is of class {short(new_type)}")
        return func(*args)
    require(
        isinstance(new_type, type) and issubclass(new_type, Tensor), f"a tensor is of class {short(new_type)}"
    )
    tensor = func(*args)
    if new_type is Tensor and isinstance(state, dict) and state.get("_is_buffer") is True:
        return Buffer(tensor, persistent=state.get("persistent", True) is True)
    if type(tensor) is not new_type:
        tensor = tensor.as_subclass(new_type)
    own = getattr(new_type, "__setstate__", None)
    if own is not getattr(Tensor, "__setstate__", None):  # which Cython gives every class, to refuse
        own(tensor, state)
        return tensor
    return set_state(tensor, state)


def _rebuild_from_type(func, type, args, dict):
    return _rebuild_from_type_v2(func, type, args, dict)


REBUILD = frozenset(
    (
        _rebuild_tensor,
        _rebuild_tensor_v2,
        _rebuild_tensor_v3,
        _rebuild_parameter,
        _rebuild_parameter_with_state,
        _rebuild_meta_tensor_no_storage,
        _rebuild_sparse_tensor,
        _rebuild_qtensor,
        _rebuild_device_tensor_from_cpu_tensor,
        _rebuild_njt,
    )
)


def set_state(tensor: Any, given: Any) -> Any:
    """Give a tensor its attributes: a dict, or a pair of it and of what slots hold."""
    own, slots = given, None
    if type(given) is tuple:
        require(len(given) == 2, f"a tensor's state is a tuple of {len(given)}")
        own, slots = given
    for attributes in (own, slots):
        require(attributes is None or isinstance(attributes, dict), "a tensor's state is no dict")
    for name, value in (own or {}).items():
        inherited = type(name) is not str or name.startswith("__") or hasattr(Tensor, name)
        require(not inherited, f"a tensor's state sets {short(name)}")
        tensor.__dict__[name] = value
    for name, value in (slots or {}).items():
        named = type(name) is str and not name.startswith("__") and not hasattr(Tensor, name)
        require(named, f"a tensor's state sets {short(name)}")
        setattr(tensor, name, value)
    return tensor


def set_legacy_state(tensor: Any, state: Any) -> None:
    """What the first releases of PyTorch wrote behind a tensor, a parameter or a variable."""
    require(type(state) is tuple and len(state) in (3, 4, 5), "a tensor's state is of no known kind")
    if len(state) == 4:
        tensor.data = _rebuild_tensor(*state)
        return
    if len(state) == 5:
        require(isinstance(state[0], Tensor), "a variable holds no tensor")
        tensor.data, state = state[0], (state[3], state[4], state[2])
    _trained(tensor, state[0])


def _get_layout(name):
    result = _LAYOUTS.get(name.rpartition(".")[2]) if type(name) is str else None
    if result is None:
        raise Damaged(f"the file holds the layout {short(name)}, which {display.NAME} does not have")
    return result


_LAYOUTS = {layout.name: layout for layout in formats.layout}
