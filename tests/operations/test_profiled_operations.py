"""Every public operation, called while a profiler is on: an event with its name, and the same answer."""

from __future__ import annotations

import sys
import warnings

from flambeau.core.call.interceptors import has_interceptors
from flambeau.core.call.operation import Op
from samples import ALL, Operands, run, tensors_in

import flambeau
from flambeau.autograd._profiler_events import operation_name
from flambeau.core.base import profiling
from flambeau.profiler import profile

FIRST = {entry.name: (entry, text) for entry, text in reversed(ALL) if isinstance(entry.function, Op)}


def same(a, b) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if not a.is_floating_point() and not a.is_complex():
        return flambeau.equal(a, b)
    return bool((a.isclose(b, rtol=0, atol=0, equal_nan=True)).all())


def test_every_operation_has_an_event_and_the_same_answer():
    plain, profiled = {}, {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for results in (plain, profiled):
            prof = profile(record_shapes=True) if results is profiled else None
            flambeau.manual_seed(0)
            if prof is not None:
                prof.start()
            try:
                for name, (entry, text) in FIRST.items():
                    results[name] = tensors_in(run(entry, text, Operands()))
            finally:
                if prof is not None:
                    prof.stop()
    told = {event.name for event in prof.events()}
    silent = [
        name
        for name, (entry, text) in FIRST.items()
        if not {operation_name(entry.function), operation_name(entry.in_place or entry.function)} & told
    ]
    assert not silent, silent
    other = [
        name
        for name in FIRST
        if len(plain[name]) != len(profiled[name])
        or not all(
            same(a, b)
            for a, b in zip(plain[name], profiled[name])
            if a.device.type == "cpu" and not a.is_sparse
        )
    ]
    assert not other, other


def calls_of_python(function) -> int:
    """How many functions in Python a call runs; the least of a few, for finalisers of other objects may come in between."""
    return min(_calls_of_python(function) for _ in range(3))


def _calls_of_python(function) -> int:
    count = 0

    def note(frame, event, argument):
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


def test_recording_runs_no_python_for_an_operation_and_changes_nothing_that_runs():
    layer = flambeau.nn.Linear(4, 3)
    x, optimiser = flambeau.ones(5, 4), flambeau.optim.Adam(layer.parameters())

    def programs():
        yield lambda: x + x
        yield lambda: flambeau.nn.functional.linear(x, layer.weight, layer.bias)
        yield lambda: layer(x).relu().sum().backward()
        yield lambda: x[1:]

    for _ in range(2):
        layer(x).relu().sum().backward()
        optimiser.step()
    watched = has_interceptors()
    for program in programs():
        program()
        off = calls_of_python(program)
        profiling.start()
        try:
            program()  # signatures are read when first asked for
            assert has_interceptors() == watched  # fused steps and kernels stay as they are
            assert calls_of_python(program) == off
        finally:
            profiling.stop()
        assert calls_of_python(program) == off
