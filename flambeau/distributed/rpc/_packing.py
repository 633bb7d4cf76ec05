"""Objects as a pickle and the bytes of their tensors.

The pickle holds two objects: a table (of the tensors, and what autograd says of them) and the object, in which a tensor is a place in
the table.  Functions and classes are pickled by reference, so both sides have them.  Unpickling runs what the pickle says: the workers
of a world trust each other.
"""

from __future__ import annotations

import copyreg
import functools
import io
import pickle
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..._tensor import Tensor
from ...core.base.dtypes import by_name
from ...core.base.formats import strided
from ...core.make.create import empty

REDUCERS: dict[type, Callable[[Packer, Any], tuple]] = {}  # of classes that travel in a way of their own


class Table(NamedTuple):
    """What the object is made with."""

    tensors: list[tuple]  # dtype, sizes, strides, whether it requires a gradient
    forks: list[tuple]  # references in the object
    graph: tuple[int, int | None] | None  # the context of autograd, the number of what was sent


class Packer(pickle.Pickler):
    """Packs an object for a worker of this rank.

    Raises what pickle raises; then nothing of it counts (`forks` are to be taken back).
    """

    def __init__(self, to: int) -> None:
        self._file = io.BytesIO()
        super().__init__(self._file, pickle.HIGHEST_PROTOCOL)
        self.to = to
        self.buffers: list[Tensor] = []
        self.tensors: list[tuple] = []
        self.recorded: list[Tensor] = []  # those that require a gradient
        self.forks: list[tuple] = []
        self.dispatch_table = {**copyreg.dispatch_table, Tensor: self._tensor}
        for kind, reducer in REDUCERS.items():
            self.dispatch_table[kind] = functools.partial(reducer, self)

    def pack(self, obj: Any, graph: Callable[[list[Tensor]], tuple | None]) -> bytes:
        """The pickle; `graph` says what the table holds for the tensors that require a gradient."""
        try:
            self.dump(obj)
        finally:
            self.clear_memo()  # which holds what was pickled
            del self.dispatch_table  # which holds this packer
        table = Table(self.tensors, self.forks, graph(self.recorded))
        return pickle.dumps(tuple(table), pickle.HIGHEST_PROTOCOL) + self._file.getvalue()

    def _tensor(self, tensor: Tensor) -> Any:
        if tensor.layout is not strided or tensor.device.type == "meta":
            return tensor.__reduce_ex__(pickle.HIGHEST_PROTOCOL)  # it holds tensors, or no elements
        if tensor.device.type != "cpu":
            raise RuntimeError(
                f"RPC sends CPU tensors alone, and one of these is on {tensor.device}: move it to the CPU first"
            )
        dense = tensor.detach().resolve_conj().resolve_neg()
        if not _is_dense(dense):
            dense = dense.clone()  # in the same order of dimensions
        if not _is_dense(dense):
            dense = dense.contiguous()
        flat = dense.as_strided((dense.numel(),), (1,), dense.storage_offset())
        self.buffers.append(flat.view(by_name["uint8"]))
        self.tensors.append((tensor.dtype, tuple(dense.shape), dense.stride(), tensor.requires_grad))
        if tensor.requires_grad:
            self.recorded.append(tensor)
        return _placed, (len(self.tensors) - 1,)


def _is_dense(tensor: Tensor) -> bool:
    """Whether a tensor's elements fill a piece of memory, in some order of dimensions."""
    filled = 1
    for stride, size in sorted(
        (stride, size) for stride, size in zip(tensor.stride(), tensor.shape) if size != 1
    ):
        if stride != filled:
            return tensor.numel() == 0
        filled *= size
    return True


class _Here(threading.local):
    tensors: Sequence[Tensor] = ()  # of the object that is unpickled now


_here = _Here()


def _placed(place: int) -> Tensor:
    return _here.tensors[place]


class Parcel:
    """A pickle that has arrived, opened in two steps."""

    def __init__(self, data: bytes, buffers: Sequence[Tensor]) -> None:
        self._file = io.BytesIO(data)
        self.table = Table(*pickle.load(self._file))
        self.buffers = buffers

    def open(self, graph: Callable[[list[Tensor]], list[Tensor]]) -> Any:
        """The object; `graph` returns the tensors that require a gradient with their histories."""
        if len(self.table.tensors) != len(self.buffers):
            raise ValueError(f"{len(self.buffers)} buffers for {len(self.table.tensors)} tensors")
        tensors = [_formed(buffer, entry) for buffer, entry in zip(self.buffers, self.table.tensors)]
        places = [k for k, entry in enumerate(self.table.tensors) if entry[3]]
        for k, tensor in zip(places, graph([tensors[k] for k in places])):
            tensors[k] = tensor
        before, _here.tensors = _here.tensors, tensors
        try:
            return pickle.load(self._file)
        except AttributeError as error:
            raise AttributeError(
                f"{error}. Default RPC pickler does not serialize function code. Ensure that UDFs are defined on both "
                "caller and callee modules."
            ) from error
        finally:
            _here.tensors = before


def _formed(buffer: Tensor, entry: tuple) -> Tensor:
    dtype, sizes, strides, _ = entry
    return empty(0, dtype=dtype).set_(buffer.untyped_storage(), 0, sizes, strides)
