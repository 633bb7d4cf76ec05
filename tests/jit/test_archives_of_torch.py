"""Archives that PyTorch's `jit.save` wrote (`tools/archives_of_torch.py`): the values that PyTorch computes, and every way back."""

from __future__ import annotations

import copy
import io
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flambeau
from flambeau import jit

FOLDER = Path(__file__).resolve().parents[1] / "data" / "torch" / "jit"
ARCHIVES = sorted(FOLDER.glob("*.pt"))
HALF = ("half_traced", "bfloat16_traced")


def given(shape: Any, arrays: Any, numbers: Any) -> Any:
    """Inputs as the archive describes them."""
    if shape == "tensor":
        return flambeau.from_numpy(arrays[f"in{next(numbers)}"].copy())
    if isinstance(shape, dict):
        return {k: given(v, arrays, numbers) for k, v in shape.items()}
    return [given(v, arrays, numbers) for v in shape] if isinstance(shape, list) else shape


def leaves(value: Any, tensors: list[Any]) -> Any:
    """A result as JSON has it, and its tensors."""
    if isinstance(value, flambeau.Tensor):
        tensors.append(value)
        return "tensor"
    if isinstance(value, dict):
        return {k: leaves(v, tensors) for k, v in value.items()}
    return [leaves(v, tensors) for v in value] if isinstance(value, (list, tuple)) else value


class Expected:
    """A program, its inputs, and what PyTorch made of them."""

    def __init__(self, path: Path) -> None:
        extra: dict[str, Any] = {"expected.npz": b""}
        self.program = jit.load(str(path), _extra_files=extra)
        with np.load(io.BytesIO(extra["expected.npz"])) as result:
            self.arrays = dict(result)
        self.tolerance = 2e-2 if path.stem in HALF else 1e-4

    def inputs(self) -> list[Any]:
        return given(json.loads(str(self.arrays["given"])), self.arrays, itertools.count())

    def check(self, program: Any) -> list[Any]:
        """Compare a program's results; returns its tensors."""
        tensors: list[Any] = []
        rest = leaves(program(*self.inputs()), tensors)
        assert rest == json.loads(str(self.arrays["rest"]))
        for k, t in enumerate(tensors):
            wanted = self.arrays[f"out{k}"]
            assert t.numpy(force=True).dtype == wanted.dtype
            np.testing.assert_allclose(t.numpy(force=True), wanted, rtol=self.tolerance, atol=1e-5)
        return tensors


def test_there_are_enough():
    assert len(ARCHIVES) >= 20
    assert {p.stem.rpartition("_")[2] for p in ARCHIVES} == {"traced", "scripted"}


@pytest.fixture(params=ARCHIVES, ids=lambda p: p.stem)
def expected(request):
    return Expected(request.param)


def test_values_and_gradients(expected):
    tensors = expected.check(expected.program)
    parameters = [p for p in expected.program.parameters() if p.requires_grad]
    wanted = {k: v for k, v in expected.arrays.items() if k.startswith("grad")}
    if wanted:
        grads = flambeau.autograd.grad(tensors[0].sum(), parameters, allow_unused=True)
        assert {f"grad{k}" for k, g in enumerate(grads) if g is not None} == set(wanted)
        for k, g in enumerate(grads):
            if g is not None:
                np.testing.assert_allclose(
                    g.float().numpy(), wanted[f"grad{k}"], rtol=expected.tolerance * 10, atol=1e-3
                )


def test_saved_again(expected):
    state = {k: v.clone() for k, v in expected.program.state_dict().items()}
    again = jit.load(io.BytesIO(expected.program.save_to_buffer()))
    assert list(again.state_dict()) == list(state)
    assert all(flambeau.equal(v, state[k]) for k, v in again.state_dict().items())
    expected.check(again)


def test_copied_and_moved(expected):
    twin = copy.deepcopy(expected.program)
    expected.check(twin.to("cpu"))
    assert [id(p) for p in twin.parameters()] != [id(p) for p in expected.program.parameters()] or not list(
        twin.parameters()
    )
    assert twin.train(False) is twin and not any(m.training for m in twin.modules())


def test_a_second_call_gives_the_same_bits():
    known = Expected(FOLDER / "lstm_scripted.pt")
    first, second = known.check(known.program), known.check(known.program)
    assert all(flambeau.equal(a, b) for a, b in zip(first, second))


def test_shared_parameters_stay_shared():
    net = Expected(FOLDER / "shared_traced.pt").program
    assert net.encode.weight is net.decode.weight and len(list(net.parameters())) == 2
    again = jit.load(io.BytesIO(net.save_to_buffer()))
    assert again.encode.weight is again.decode.weight


def test_state_that_a_program_changes():
    net = Expected(FOLDER / "counting_scripted.pt").program
    before = net.total
    net(flambeau.ones(3, 2))
    assert net.total == before + 1 and net.steps.item() == 1
    assert net.sizes == [1, 2, 3] and net.names == {"one": 1, "two": 2}
    net.total = 7.0
    assert jit.load(io.BytesIO(net.save_to_buffer())).total == 7.0


def test_methods_constants_and_code():
    net = Expected(FOLDER / "nested_scripted.pt").program
    x = flambeau.ones(1, 2)
    assert flambeau.equal(net.a.twice(x), net.a(net.a(x)))
    assert net.a.k == 1 and net.a.original_name == "Inner"
    assert "def twice(self" in net.a.twice.code and "torch.mul(x, weight)" in net.a.code


def test_optional_inputs():
    net = Expected(FOLDER / "options_scripted.pt").program
    x = flambeau.ones(2, 2)
    assert net(x).sum().item() == 8 and net(x, scale=3.0).sum().item() == 12
    assert net(x, x > 2, None).sum().item() == 8
    with pytest.raises(RuntimeError, match="missing value for argument 'x'"):
        net()
    with pytest.raises(RuntimeError, match="Unknown keyword argument 'wrong'"):
        net(x, wrong=1)
    with pytest.raises(RuntimeError, match=r"at most 3 argument\(s\) but received 4"):
        net(x, None, None, None)


def test_exceptions_of_a_program():
    net = Expected(FOLDER / "raising_scripted.pt").program
    with pytest.raises(jit.Error, match="ValueError: n must not be negative, got -1") as raised:
        net(flambeau.ones(2, 2), -1)
    assert any("code/__torch__" in note and ", in forward" in note for note in raised.value.__notes__)
    with pytest.raises(jit.Error, match="AssertionError: two dimensions"):
        net(flambeau.ones(2), 1)
    assert flambeau.equal(net(flambeau.ones(2, 2), 2), flambeau.full((2, 2), 2.0))


def test_errors_of_operations_keep_their_class_and_say_where():
    net = Expected(FOLDER / "mlp_scripted.pt").program
    with pytest.raises(RuntimeError) as raised:
        net(flambeau.ones(2, 5))
    assert any("modules/linear" in note for note in raised.value.__notes__)


def test_other_sizes_and_training():
    net = Expected(FOLDER / "conv_scripted.pt").program.train()
    before = net.norm.running_mean.clone()
    out = net(flambeau.randn(3, 1, 6, 6))
    assert out.shape == (3, 3) and not flambeau.equal(before, net.norm.running_mean)
    optimizer = flambeau.optim.SGD(net.parameters(), lr=0.1)
    first = net(flambeau.ones(2, 1, 4, 4)).sum()
    first.backward()
    weight = net.conv.weight.clone()
    optimizer.step()
    assert not flambeau.equal(weight, net.conv.weight)


def test_hooks_run():
    net = Expected(FOLDER / "mlp_traced.pt").program
    seen = []
    handle = net.register_forward_hook(lambda module, inputs, output: seen.append(output.shape))
    net(flambeau.ones(4, 3))
    handle.remove()
    net(flambeau.ones(4, 3))
    assert seen == [(4, 2)]


def test_load_names_what_jit_load_reads():
    with pytest.raises(RuntimeError, match="TorchScript archive.*jit.load reads"):
        flambeau.load(str(FOLDER / "mlp_traced.pt"))
    file = io.BytesIO()
    flambeau.save({"a": 1}, file)
    file.seek(0)
    with pytest.raises(RuntimeError, match="no constants.pkl"):
        jit.load(file)


def test_files(tmp_path):
    net = Expected(FOLDER / "mlp_traced.pt").program
    path = tmp_path / "net.pt"
    net.save(path, _extra_files={"note.txt": "hello", "raw": b"\xff\x00"})
    results = {"note.txt": "", "raw": "", "absent": "as before"}
    again = jit.load(path, map_location="cpu", _extra_files=results)
    assert results == {"note.txt": "hello", "raw": b"\xff\x00", "absent": "as before"}
    assert again.original_name == "Mlp"
    with pytest.raises(ValueError, match="does not exist"):
        jit.load(tmp_path / "none.pt")
    with pytest.raises(ValueError, match="is a directory"):
        jit.load(tmp_path)
    meta = jit.load(path, map_location="meta")
    assert {p.device.type for p in meta.parameters()} == {"meta"}
