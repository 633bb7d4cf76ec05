"""Tensors that answer with numbers of a recorded program: what `shape`, `size` … say while a thread traces or exports."""

from __future__ import annotations

import threading
from typing import Any, Protocol

from .._tensor import Tensor
from ..core.base.dtypes import Size
from ..core.base.tensor import TensorBase
from ..nn.modules import rnn
from ..nn.modules.rnn import RNNBase
from ..operations.declare.registry import REGISTRY
from ..operations.neural.recurrent.sequences import EVEN
from .numbers import Recorder, plain


class SizeRecorder(Recorder, Protocol):
    """A recorder of sizes of tensors."""

    suspended: int

    def is_on(self) -> bool:
        """Whether what this thread does now is recorded."""

    def knows(self, t: Any) -> bool:
        """Whether a tensor's sizes follow from the inputs."""

    def trace_size(self, what: str, t: Any, dim: int | None, value: int) -> Any:
        """What a tensor answers to `size`, `stride`, `numel` and `storage_offset`."""


class Recording(threading.local):
    """What this thread records sizes for."""

    tracer: Any = None


RECORDING = Recording()


class SymSize(Size):
    """The shape of a tensor while a program is recorded."""

    def __new__(cls, items: Any = ()) -> SymSize:
        return tuple.__new__(cls, items)

    def numel(self) -> Any:
        """The product of the sizes."""
        count: Any = 1
        for n in self:
            count = n * count
        return count

    def __getitem__(self, key: Any) -> Any:
        result = tuple.__getitem__(self, key)
        return SymSize(result) if isinstance(key, slice) else result

    def __add__(self, other: Any) -> Any:
        return SymSize((*self, *other))

    def __radd__(self, other: Any) -> Any:
        return SymSize((*other, *self))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (tuple, list)) or len(self) != len(other):
            return False
        return all([a is b or bool(a == b) for a, b in zip(self, other)])

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(tuple([plain(n) for n in self if int(n) >= 0]))


# --- what a tensor says of its sizes while its thread records ------------------------------
def _tracer_of(t: Any) -> Any:
    tracer = RECORDING.tracer
    return tracer if tracer is not None and not tracer.suspended and tracer.knows(t) else None


def _shape(t: Any) -> Any:
    tracer = _tracer_of(t)
    result = TensorBase.shape.__get__(t)
    return (
        result
        if tracer is None
        else SymSize([tracer.trace_size("size", t, d, n) for d, n in enumerate(result)])
    )


def _size(t: Any, dim: Any = None) -> Any:
    if dim is None:
        return t.shape
    tracer = _tracer_of(t)
    result = TensorBase.size(t, dim)
    return result if tracer is None else tracer.trace_size("size", t, dim, result)


def _stride(t: Any, dim: Any = None) -> Any:
    tracer = _tracer_of(t)
    result: Any = TensorBase.stride(t) if dim is None else TensorBase.stride(t, dim)
    if tracer is None:
        return result
    if dim is not None:
        return tracer.trace_size("stride", t, dim, result)
    return tuple([tracer.trace_size("stride", t, d, n) for d, n in enumerate(result)])


def _numel(t: Any) -> Any:
    tracer = _tracer_of(t)
    result = TensorBase.numel(t)
    return result if tracer is None else tracer.trace_size("numel", t, None, result)


def _storage_offset(t: Any) -> Any:
    tracer = _tracer_of(t)
    result = TensorBase.storage_offset(t)
    return result if tracer is None else tracer.trace_size("storage_offset", t, None, result)


def _len(t: Any) -> int:
    if _tracer_of(t) is None or t.dim() == 0:
        return TensorBase.__len__(t)
    return int(t.shape[0])


def _nbytes(t: Any) -> Any:
    return t.numel() * t.itemsize if _tracer_of(t) is not None else TensorBase.nbytes.__get__(t)


_PATCHES = {
    "shape": property(_shape),
    "size": _size,
    "stride": _stride,
    "numel": _numel,
    "nelement": _numel,
    "storage_offset": _storage_offset,
    "__len__": _len,
    "nbytes": property(_nbytes),
}


def _recurrent_layers(module: Any, sequence: Any, layout: Any, state: Any) -> Any:
    """The layers of a recurrent module as the one call that ATen has; as ever for packed batches."""
    if RECORDING.tracer is None or layout is not EVEN:
        return _LAYERS(module, sequence, layout, state)
    op = REGISTRY["flat_" + module.mode.lower()].function
    weights = [getattr(module, name) for names in module._all_weights for name in names]
    hx = list(state) if len(state) > 1 else state[0]
    options = (module.bias, module.num_layers, module.dropout, module.training, module.bidirectional, False)
    output, *result = op(sequence, hx, weights, *options)
    return output, tuple(result)


def _recurrent_step(mode: str, x: Any, state: Any, weights: Any) -> Any:
    """A step of a recurrent cell as the one call that ATen has."""
    if RECORDING.tracer is None or not RECORDING.tracer.is_on():
        return _STEP(mode, x, state, weights)
    op = REGISTRY[f"flat_{mode.lower()}_cell"].function
    result = op(x, list(state) if len(state) > 1 else state[0], *weights[:4])
    return result if isinstance(result, tuple) else (result,)


_LAYERS, _STEP = RNNBase._layers, rnn.step_once
_lock = threading.Lock()
_recordings = 0


def watch_sizes() -> None:
    """Let tensors ask the thread's recorder; until as many `unwatch_sizes` follow."""
    global _recordings
    with _lock:
        _recordings += 1
        if _recordings == 1:
            for name, value in _PATCHES.items():
                setattr(Tensor, name, value)
            RNNBase._layers = _recurrent_layers  # type: ignore[method-assign,assignment]
            rnn.step_once = _recurrent_step


def unwatch_sizes() -> None:
    """End what `watch_sizes` began."""
    global _recordings
    with _lock:
        _recordings -= 1
        if _recordings == 0:
            for name in _PATCHES:
                delattr(Tensor, name)
            RNNBase._layers = _LAYERS  # type: ignore[method-assign]
            rnn.step_once = _STEP
