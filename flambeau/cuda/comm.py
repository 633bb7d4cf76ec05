"""Tensors copied to, cut over, joined from and added up from several NVIDIA devices; nothing here is recorded on the tape."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from typing import Any

from ..core.base import device as _devices
from ..core.base.dtypes import device as _device
from ..core.base.tensor import TensorBase
from ..core.places.join import cat
from ..core.tape.contexts import unrecorded
from ._find import index_of
from .streams import Stream, StreamContext

__all__ = ["broadcast", "broadcast_coalesced", "gather", "reduce_add", "reduce_add_coalesced", "scatter"]


def _place(where: Any) -> _device:
    index = index_of(where)
    return _device("cuda", _devices.current_device("cuda") if index is None else index)


def broadcast(
    tensor: TensorBase, devices: Iterable[Any] | None = None, *, out: Sequence[TensorBase] | None = None
) -> tuple[TensorBase, ...]:
    """Copies of a tensor on several devices, or in the tensors `out`; on its own device the tensor itself.

    Shape:
        tensor: any; the results have the same

    Raises:
        RuntimeError: not exactly one of `devices` and `out` is given, or there is no such device
        ValueError: a device is of another type

    >>> import flambeau
    >>> if flambeau.cuda.is_available():
    ...     assert flambeau.cuda.comm.broadcast(flambeau.ones(2), [0])[0].device.type == "cuda"
    """
    if (devices is None) == (out is None):
        raise RuntimeError(
            f"Exactly one of 'devices' and 'out' must be specified, but got devices={devices} and out={out}"
        )
    with unrecorded():
        if out is not None:
            return tuple(o.copy_(tensor) for o in out)
        return tuple(tensor.to(where) for where in [_place(d) for d in devices or ()])


def broadcast_coalesced(
    tensors: Sequence[TensorBase], devices: Iterable[Any], buffer_size: int = 10 << 20
) -> list[list[TensorBase]]:
    """For each device copies of all tensors.  Copies wait for nothing, so that none are joined: `buffer_size` is taken for PyTorch's sake.

    Shape:
        tensors: any; the results have the same

    Raises:
        RuntimeError: there is no such device
        ValueError: a device is of another type

    >>> import flambeau
    >>> if flambeau.cuda.is_available():
    ...     assert len(flambeau.cuda.comm.broadcast_coalesced([flambeau.ones(2)], [0])[0]) == 1
    """
    copies = [broadcast(tensor, list_of) for list_of in [list(devices)] for tensor in tensors]
    return [list(column) for column in zip(*copies, strict=True)]


def reduce_add(inputs: Sequence[TensorBase], destination: Any = None) -> TensorBase:
    """The sum of tensors of several devices, on `destination` (by default the current device), which holds one of them.

    Shape:
        inputs: all alike; the result is like them

    Raises:
        AssertionError: one of them is on the CPU
        ValueError: their shapes differ
        RuntimeError: none of them is on the destination

    >>> import flambeau
    >>> if flambeau.cuda.is_available():
    ...     x = flambeau.ones(2, device="cuda")
    ...     assert flambeau.cuda.comm.reduce_add([x, x]).tolist() == [2.0, 2.0]
    """
    where = _place(destination)
    root = None
    for k, x in enumerate(inputs):
        if x.device.type == "cpu":
            raise AssertionError(f"reduce_add expects all inputs to be on GPUs, but input {k} is on CPU")
        if x.device == where:
            root = k
        if x.shape != inputs[0].shape:
            got, expected = ("x".join(map(str, shape)) for shape in (x.shape, inputs[0].shape))
            raise ValueError(f"input {k} has invalid size: got {got}, but expected {expected}")
    if root is None:
        raise RuntimeError("reduce_add expects destination to be on the same GPU with one of the tensors")
    if len(inputs) == 1:
        return inputs[0]
    with unrecorded():
        first, *others = (x.to(where) for x in [inputs[root], *inputs[:root], *inputs[root + 1 :]])
        result = first + others[0]
        for x in others[1:]:
            result = result + x if result.is_sparse else result.add_(x)
        return result


def reduce_add_coalesced(
    inputs: Sequence[Sequence[TensorBase]], destination: Any = None, buffer_size: int = 10 << 20
) -> tuple[TensorBase, ...]:
    """Sums of the tensors at the same place of several sequences, one of each device, as `reduce_add`; for `buffer_size` see
    `broadcast_coalesced`.

    Shape:
        inputs: tensors at one place all alike; the result at that place is like them

    Raises:
        ValueError: shapes or lengths differ
        RuntimeError: none of the tensors at a place is on the destination

    >>> import flambeau
    >>> if flambeau.cuda.is_available():
    ...     x = flambeau.ones(2, device="cuda")
    ...     assert flambeau.cuda.comm.reduce_add_coalesced([[x], [x]])[0].tolist() == [2.0, 2.0]
    """
    return tuple(reduce_add(column, destination) for column in zip(*inputs, strict=True))


def scatter(
    tensor: TensorBase,
    devices: Iterable[Any] | None = None,
    chunk_sizes: Sequence[int] | None = None,
    dim: int = 0,
    streams: Sequence[Stream | None] | None = None,
    *,
    out: Sequence[TensorBase] | None = None,
) -> tuple[TensorBase, ...]:
    """A tensor cut along `dim`, a part for each device, in equal parts or of `chunk_sizes`, or as the tensors `out` are; each is copied on
    the stream of `streams` at its place, where there is one.

    Shape:
        tensor: (*, N, *), N along `dim`; the results have parts of N there

    Raises:
        RuntimeError: `devices` or `chunk_sizes` is given with `out`, neither is given, or the sizes do not make up the tensor's
        ValueError: a device is of another type, or there is another number of streams or sizes than of devices

    >>> import flambeau
    >>> if flambeau.cuda.is_available():
    ...     assert flambeau.cuda.comm.scatter(flambeau.ones(3), [0])[0].shape == (3,)
    """
    if out is None:
        if devices is None:
            raise RuntimeError("scatter(): either 'devices' or 'out' must be specified")
        places = [_place(d) for d in devices]
        sizes = chunk_sizes
    else:
        for name, value in (("devices", devices), ("chunk_sizes", chunk_sizes)):
            if value is not None:
                raise RuntimeError(
                    f"'{name}' must not be specified when 'out' is specified, but got {name}={value}"
                )
        places, sizes = [o.device for o in out], [o.shape[dim] for o in out]
    for name, several in (("chunk_sizes", sizes), ("streams", streams)):
        if several is not None and len(several) != len(places):
            raise ValueError(
                f"scatter(): {len(places)} {name} expected, one for each device, got {len(several)}"
            )
    with unrecorded():
        if sizes is None:
            parts = tensor.chunk(len(places), dim)
        else:
            if sum(sizes) != tensor.shape[dim]:
                raise RuntimeError(
                    f"scatter(): sizes {list(sizes)} must add up to {tensor.shape[dim]}, the tensor's size along dimension {dim}"
                )
            parts = tensor.split(list(sizes), dim)
        made = []
        for k, (part, where) in enumerate(zip(parts, places, strict=False)):
            stream = None if streams is None else streams[k]
            with nullcontext() if stream is None else StreamContext(stream):
                made.append(part.to(where) if out is None else out[k].copy_(part))
        return tuple(made)


def gather(
    tensors: Sequence[TensorBase], dim: int = 0, destination: Any = None, *, out: TensorBase | None = None
) -> TensorBase:
    """The tensors of several devices joined along `dim`: on `destination` (a device, also the CPU; by default the current one), or in
    the tensor `out`.

    Shape:
        tensors: (*, N, *), alike but for the N along `dim`; the result has their sum there

    Raises:
        RuntimeError: `destination` is given with `out`, or the shapes do not fit

    >>> import flambeau
    >>> flambeau.cuda.comm.gather([flambeau.ones(1), flambeau.zeros(1)], destination="cpu")
    tensor([1., 0.])
    """
    if out is not None:
        if destination is not None:
            raise RuntimeError(
                f"'destination' must not be specified when 'out' is specified, but got destination={destination}"
            )
        where = out.device
    elif destination == -1:
        warnings.warn(
            'Using -1 to represent CPU tensor is deprecated. Please use a device object or string instead, e.g., "cpu".',
            FutureWarning,
            stacklevel=2,
        )
        where = _device("cpu")
    else:
        named = isinstance(destination, (str, _device)) and _device(destination).type == "cpu"  # type: ignore[call-overload]
        where = _device("cpu") if named else _place(destination)
    with unrecorded():
        joined = cat([x.to(where) for x in tensors], dim)
        if out is None:
            return joined
        if out.shape != joined.shape:
            raise RuntimeError(
                f"gather(): out must be of shape {tuple(joined.shape)}, got {tuple(out.shape)}"
            )
        return out.copy_(joined)
