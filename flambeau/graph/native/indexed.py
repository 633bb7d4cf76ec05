"""Calls whose elements are read at computed places (gathers, embeddings, pooling), as launches of the kernels that they make eagerly.

Such a call says nothing of its kernels.  It is run once on examples of its operands, and its launches are written down; then they alone
are run again, and must give all of what it returned.
"""

from __future__ import annotations

import ctypes
import math
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from ...codegen import build, schedule_cpu, target
from ...codegen.irtext import Function, Value
from ...core.base import forks
from ...core.base.tensor import TensorBase
from ...core.loops.indexed import observe
from ...core.make.create import as_tensor, empty_strided
from ..program import Call
from ..program import Value as Tensor
from ..record import place
from ..trace import mapped
from .errors import Ungenerated
from .parts import Parts, at, put, stack_buffer
from .products import Known


class Launch(NamedTuple):
    """A kernel, where its operands lie (which of the call's results and arguments, bytes from its beginning), and its other arguments."""

    address: int  # in this process
    text: str  # the module of the kernel
    operands: tuple[tuple[int, int], ...]
    geometry: tuple[int, ...]
    scalars: tuple[int, ...]


class IndexedStep:
    """A call by the kernels that it launches."""

    known: Known | None = None
    workspace = 0

    def __init__(self, call: Call) -> None:
        self.launches = launches_of(call)

    def emit(self, parts: Parts, f: Function, data: Sequence[Value], memory: Value, fault: Value) -> None:
        """`data`: results, then arguments."""
        for launch in self.launches:
            places = stack_buffer(f, "ptr", len(launch.operands) + 1)
            for k, (which, offset) in enumerate(launch.operands):
                put(f, places, k, at(f, data[which], offset))
            put(f, places, len(launch.operands), fault)
            scalars = parts.numbers(launch.scalars) if launch.scalars else Value("ptr", "null")
            f.call("void", parts.text_of_kernel(launch.text), places, parts.numbers(launch.geometry), scalars)


def launches_of(call: Call) -> list[Launch]:
    """What the call launches; Ungenerated where that is not all that it does."""
    examples: dict[Tensor, TensorBase] = {v: _example(v) for v in call.arguments()}
    args, kwargs = mapped((call.args, call.kwargs), Tensor, examples.__getitem__)
    results: list[TensorBase] = []
    with _observed() as seen:
        mapped(call.operation(*args, **kwargs), TensorBase, results.append)
    if not seen or len(results) != len(call.results):
        raise Ungenerated("it is computed by no generated loop")
    for t, v in zip(results, call.results):
        if t.stride() != v.place.stride or place(t).offset:
            raise Ungenerated(f"its result is laid out otherwise than {list(v.place.stride)}")
    tensors = [*results, *(examples[v] for v in call.arguments())]
    launches = [_launch(one, tensors) for one in seen]
    again = [_example(v) for v in call.results]
    for one in launches:
        _run(one, [*again, *tensors[len(results) :]])
    if any(_bytes(a) != _bytes(b) for a, b in zip(again, results)):
        raise Ungenerated("it is computed by more than generated loops")
    return launches


@contextmanager
def _observed() -> Iterator[list[Seen]]:
    """The launches of this thread."""
    seen: list[Seen] = []
    own = threading.get_ident()

    def note(kernel: Any, *launch: Any) -> None:
        if threading.get_ident() == own:
            text = str(schedule_cpu.module_for(kernel, target.llvm().get_default_triple()))
            seen.append(Seen(build.address(kernel), text, *launch))

    with forks.making:  # another thread that observes waits
        observe(note)
        try:
            yield seen
        finally:
            observe(None)


def _example(value: Tensor) -> TensorBase:
    """A tensor of a value's geometry; 0 where it may be an index."""
    made: Any = empty_strided(value.shape, value.place.stride, dtype=value.dtype, device="cpu")
    if value.dtype.is_floating_point:
        numbers = np.random.default_rng(value.number).normal(size=value.shape)
        return made.copy_(as_tensor(numbers))
    return made.zero_()


class Seen(NamedTuple):
    """A launch as the observer gets it; the text is written at once, since the leaves of a kernel's expressions are forgotten when
    another one is made.
    """

    address: int
    text: str
    operands: tuple[TensorBase, ...]
    outputs: int
    axes: tuple[int, ...]
    serial: int
    scalars: list[Any]


def _launch(seen: Seen, tensors: Sequence[TensorBase]) -> Launch:
    address, text, operands, _, axes, serial, scalars = seen
    where = {place(t).storage: k for k, t in enumerate(tensors)}
    result: list[tuple[int, int]] = []
    parallel = axes[: len(axes) - serial]
    geometry = [0, math.prod(parallel[:-1]), 0, parallel[-1] if parallel else 1, *axes]
    for t in operands:
        own = place(t)
        if own.storage not in where:
            raise Ungenerated("its loops read or write memory in between")
        result.append((where[own.storage], own.offset * own.dtype.itemsize))
        geometry += [*own.shape, *own.stride]
    words = [
        struct.unpack("<q", struct.pack("<d", s))[0] if isinstance(s, float) else int(s) for s in scalars
    ]
    return Launch(address, text, tuple(result), tuple(geometry), tuple(words))


def _run(launch: Launch, tensors: Sequence[TensorBase]) -> None:
    """The launch on tensors, in this process."""
    fault = ctypes.c_int64(0)
    places = [tensors[which].data_ptr() + offset for which, offset in launch.operands]
    data = (ctypes.c_void_p * (len(places) + 1))(*places, ctypes.addressof(fault))
    geometry = (ctypes.c_int64 * len(launch.geometry))(*launch.geometry)
    scalars = (ctypes.c_int64 * max(len(launch.scalars), 1))(*launch.scalars)
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(launch.address)
    call(data, geometry, scalars)
    if fault.value:
        raise Ungenerated("its indices depend on more than its arguments")


def _bytes(t: Any) -> bytes:
    """The elements of a tensor in the order of rows."""
    own = t.contiguous()
    return ctypes.string_at(own.data_ptr(), own.numel() * own.itemsize)
