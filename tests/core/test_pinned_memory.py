"""Page-locked memory: of an accelerator, where there is one; else errors, and a loader's warning, as PyTorch's."""

from __future__ import annotations

import inspect

import pytest
from flambeau.core.base.device import accelerator_type

import flambeau
from flambeau.operations.declare.registry import REGISTRY

X = flambeau.ones(2, 3)
GIVEN = {
    "size": (2, 3), "stride": (3, 1), "physical_layout": (0, 1), "fill_value": 2.0, "s": 2.0, "n": 3, "start": 0, "end": 3, "steps": 3,
    "row": 3, "col": 3, "data": [1.0, 2.0], "input": X,
}  # fmt: skip


def makers():
    """Every operation that takes `pin_memory`, with the arguments that it needs."""
    for entry in REGISTRY.values():
        if not entry.places or entry.places[0].rpartition(".")[2].startswith("_"):
            continue
        try:
            parameters = inspect.signature(entry.function).parameters
        except (TypeError, ValueError):
            continue
        if "pin_memory" in parameters:
            needed = [
                p.name
                for p in parameters.values()
                if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
            ]
            method = entry.places[0].startswith("Tensor.")
            yield pytest.param(entry.function, needed or ["input", "n"][not method :], id=entry.name)


@pytest.mark.parametrize(("function", "needed"), list(makers()))
def test_everything_that_makes_tensors(function, needed):
    given = [GIVEN[name] for name in needed]
    if accelerator_type() is None:
        with pytest.raises(RuntimeError, match="pin"):
            function(*given, pin_memory=True)
        assert not function(*given, pin_memory=False).is_pinned()
    else:
        assert function(*given, pin_memory=True).is_pinned()


def test_without_elements_nothing_is_pinned():
    assert flambeau.zeros(2, device="meta", pin_memory=True).is_meta


@pytest.mark.skipif(accelerator_type() is not None, reason="there is an accelerator")
def test_without_an_accelerator():
    for pin in (
        X.pin_memory,
        X.untyped_storage().pin_memory,
        flambeau.nn.utils.rnn.pack_sequence([X]).pin_memory,
    ):
        with pytest.raises(RuntimeError, match="Cannot access accelerator device when none is available"):
            pin()
    loader = flambeau.utils.data.DataLoader([X, X], pin_memory=True)
    with pytest.warns(UserWarning, match="no accelerator is found"):
        batches = list(loader)
    assert len(batches) == 2 and not any(b.is_pinned() for b in batches)
    opened = flambeau.opencl.is_initialized()
    with pytest.raises(RuntimeError):
        X.pin_memory()
    assert flambeau.opencl.is_initialized() == opened  # which would end the use of devices in forked workers
