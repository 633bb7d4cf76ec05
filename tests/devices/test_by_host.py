"""Nothing goes by the host in silence: what the CPU computes for an accelerator says why, warns once, and can be an error."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from accelerator import DEVICE, TYPE, driver

import flambeau
from flambeau.accelerator import CpuFallbackWarning, set_cpu_fallback
from flambeau.operations.declare import fallbacks
from flambeau.operations.declare.registry import REGISTRY

sys.path.insert(0, str(Path(__file__).parent.parent / "operations"))
from samples import ALL, Operands, run  # noqa: E402

MOST = 12  # operations that are left to the host
NUMBER = 16  # bytes of one number, a complex one included: what the host may look at to decide


@pytest.fixture(autouse=True)
def first_calls(monkeypatch):
    """As if nothing had warned yet; the answer stays what it was."""
    monkeypatch.setattr(fallbacks, "_warned", set())
    before = set_cpu_fallback("warn")
    yield
    set_cpu_fallback(before)


class Moved(Operands):
    """The same operands on the device."""

    def floats(self, name):
        return super().floats(name).to(DEVICE)

    def make(self, name):
        return super().make(name).to(DEVICE)


def gradients(results, leaves):
    wanted = [t for t in results if t.requires_grad]
    if wanted:
        real = [flambeau.view_as_real(t) if t.is_complex() else t for t in wanted]
        flambeau.autograd.grad(sum(t.double().square().sum() for t in real), leaves, allow_unused=True)


def test_few_operations_are_left_to_the_host():
    left = [e for e in REGISTRY.values() if e.by_host is not None]
    assert 0 < len(left) <= MOST
    for entry in left:
        assert entry.by_host in entry.function.__doc__


@pytest.mark.skipif(TYPE != "opencl", reason="OpenCL's seam counts what leaves the device")
@pytest.mark.parametrize("recorded", [False, True], ids=["values", "gradients"])
def test_no_copy_to_the_host_in_silence(recorded):
    """Over the registry's sample calls: more than numbers leaves the device only where a warning says so."""
    device, silent, warned = driver(), [], set()
    for entry, text in ALL:
        operands = Moved(grad=recorded)
        with flambeau.set_grad_enabled(recorded):
            try:
                there = Operands(grad=recorded)
                gradients(run(entry, text, there), there.leaves)
            except RuntimeError:
                continue  # refuses leaves that require gradients, or has no derivative
            copies, nbytes = device.copies_out, device.bytes_out
            fallbacks._warned.clear()
            with warnings.catch_warnings(record=True):
                results = run(entry, text, operands)
                if recorded:
                    gradients(results, operands.leaves)
            said = bool(fallbacks._warned)
            warned |= fallbacks._warned
        copies, nbytes = device.copies_out - copies, device.bytes_out - nbytes
        if nbytes > NUMBER * copies and not said:
            silent.append(f"{entry.name}({text}): {nbytes} bytes in {copies} copies")
    assert not silent, "\n".join(silent)
    assert "linalg_eig" in warned


def test_the_first_call_warns():
    x = flambeau.eye(2, device=DEVICE)
    with pytest.warns(CpuFallbackWarning, match=r"linalg_eig\(\): the CPU computes it for tensors on"):
        flambeau.linalg.eigvals(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        flambeau.linalg.eigvals(x)
        flambeau.linalg.eigvals(x.cpu())
    with pytest.warns(CpuFallbackWarning, match="linalg.ldl_factor_ex"):  # each operation by itself
        flambeau.linalg.ldl_factor_ex(x)


def test_an_error_in_place_of_the_warning():
    x = flambeau.eye(2, device=DEVICE)
    assert set_cpu_fallback("error") == "warn"
    device = driver()
    before = getattr(device, "copies_out", None)
    with pytest.raises(NotImplementedError, match="which is switched off: LAPACK"):
        flambeau.linalg.eigvals(x)
    assert getattr(device, "copies_out", None) == before
    assert flambeau.linalg.eigvals(x.cpu()).shape == (2,)
    set_cpu_fallback("allow")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        flambeau.linalg.eigvals(x)
    with pytest.raises(ValueError, match="answer must be one of warn, allow, error, got 'no'"):
        set_cpu_fallback("no")
    assert set_cpu_fallback("warn") == "allow"


def test_the_environment_chooses():
    program = f"import flambeau; flambeau.linalg.eigvals(flambeau.eye(2, device='{TYPE}'))"
    environment = os.environ | {"FLAMBEAU_CPU_FALLBACK": "error"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.returncode == 1 and "NotImplementedError" in done.stderr and "switched off" in done.stderr


def test_what_goes_by_the_host_writes_where_it_was_told():
    x = flambeau.tensor([1.0, 5.0], device=DEVICE)
    with pytest.warns(CpuFallbackWarning):
        assert x.map_(flambeau.tensor([3.0, 2.0], device=DEVICE), max) is x
    assert x.device == DEVICE and x.tolist() == [3.0, 5.0]
