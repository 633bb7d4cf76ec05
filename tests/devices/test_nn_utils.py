"""nn.utils and packed sequences on a device: the same values as on the CPU, indices where the data are."""

from __future__ import annotations

import copy
import os

import pytest

import flambeau
from flambeau import nn
from flambeau.nn.utils import clip_grad_norm_, clip_grad_value_, parametrizations, prune, rnn, spectral_norm

TYPE = os.environ.get("FLAMBEAU_TEST_DEVICE", "opencl")
if not getattr(flambeau, TYPE).is_available():
    pytest.skip(f"no {TYPE} device", allow_module_level=True)

DEVICE = flambeau.device(TYPE, 0)


def close(actual, wanted):
    assert actual.device == DEVICE
    return flambeau.allclose(actual.cpu(), wanted, atol=1e-5)


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_packed_sequences(kind):
    flambeau.manual_seed(0)
    module = getattr(nn, kind)(3, 4, num_layers=2, bidirectional=True)
    there = copy.deepcopy(module).to(DEVICE)
    parts = [flambeau.rand(n, 3) for n in (2, 4, 1)]
    packed = rnn.pack_sequence(parts, enforce_sorted=False)
    moved = rnn.pack_sequence([part.to(DEVICE) for part in parts], enforce_sorted=False)
    assert close(moved.data, packed.data) and close(moved.unsorted_indices, packed.unsorted_indices)
    assert moved.batch_sizes.is_cpu and packed.to(DEVICE).sorted_indices.device == DEVICE
    wanted, actual = module(packed)[0], there(moved)[0]
    wanted.data.sum().backward()
    actual.data.sum().backward()
    assert close(actual.data, wanted.data)
    assert all(close(a.grad, b.grad) for a, b in zip(there.parameters(), module.parameters(), strict=True))
    padded, lengths = rnn.pad_packed_sequence(actual)
    assert close(padded, rnn.pad_packed_sequence(wanted)[0]) and lengths.is_cpu
    assert all(close(a, b) for a, b in zip(rnn.unpack_sequence(moved), parts, strict=True))
    with pytest.raises(RuntimeError, match=f"1D CPU int64 tensor, but got 1D {TYPE}"):
        rnn.pack_padded_sequence(padded, lengths.to(DEVICE), enforce_sorted=False)


MADE = {
    "weight_norm": parametrizations.weight_norm,
    "spectral_norm": parametrizations.spectral_norm,
    "orthogonal": parametrizations.orthogonal,
    "old spectral_norm": spectral_norm,
    "pruned": lambda layer: prune.l1_unstructured(layer, "weight", 0.5),
    "channels pruned": lambda layer: prune.ln_structured(layer, "weight", 1, 2, 0),
    "drawn channels pruned": lambda layer: prune.random_structured(layer, "weight", 1, 0),
}


@pytest.mark.parametrize("name", MADE)
def test_weights_that_are_computed(name):
    layer = MADE[name](nn.Linear(3, 4, device=DEVICE))
    assert all(t.device == DEVICE for t in layer.state_dict().values())
    here = MADE[name](nn.Linear(3, 4))
    here.load_state_dict({key: value.cpu() for key, value in layer.state_dict().items()})
    for module, place in ((here, "cpu"), (layer, DEVICE)):
        module(flambeau.ones(2, 3, device=place)).sum().backward()
    assert close(layer.weight.detach(), here.weight.detach())
    assert all(close(a.grad, b.grad) for a, b in zip(layer.parameters(), here.parameters(), strict=True))


def test_gradients_on_several_devices_are_clipped_together():
    parameters = [flambeau.ones(3, device=place, requires_grad=True) for place in ("cpu", DEVICE)]
    for parameter in parameters:
        parameter.grad = flambeau.ones(3, device=parameter.device)
    assert abs(float(clip_grad_norm_(parameters, 1.0)) - 6**0.5) < 1e-5
    assert close(parameters[1].grad, flambeau.full((3,), 6**-0.5))
    assert parameters[0].grad.equal(parameters[1].grad.cpu())
    clip_grad_value_(parameters, 0.1)
    assert close(parameters[1].grad, flambeau.full((3,), 0.1))
