"""Rooms that only answer questions: the answers are true, and every other name says that it is absent and why."""

from __future__ import annotations

import copy
import importlib
import pickle
import warnings

import numpy as np
import pytest

import flambeau as torch
from flambeau._compat import absent as _absent

ASKED = [
    ("distributed.is_available", True),
    ("distributed.is_initialized", False),
    ("distributed.is_nccl_available", False),
    ("distributed.is_ucc_available", False),
    ("distributed.is_gloo_available", True),
    ("distributed.is_mpi_available", True),
    ("jit.is_scripting", False),
    ("jit.is_tracing", False),
    ("onnx.is_in_onnx_export", False),
    ("_dynamo.is_compiling", False),
    ("_dynamo.is_dynamo_supported", True),
    ("compiler.is_compiling", False),
    ("compiler.is_exporting", False),
    ("_C._get_tracing_state", None),
]


def reach(dotted):
    found = torch
    for part in dotted.split("."):
        found = getattr(found, part)
    return found


@pytest.mark.parametrize("name, answer", ASKED)
def test_what_programs_ask_first_has_its_answer(name, answer):
    assert reach(name)() is answer


@pytest.mark.parametrize("room", ["ao", "classes", "distributed", "export", "jit", "_C", "_dynamo"])
def test_what_is_absent_says_so_by_name_and_why(room):
    module = reach(room)
    assert not hasattr(module, "nowhere")
    with pytest.raises(AttributeError) as caught:
        getattr(module, "nowhere")  # noqa: B009
    said = str(caught.value)
    assert f"flambeau.{room}.nowhere is not here: {_absent.why(room)}" in said and "docs/coverage.md" in said


@pytest.mark.parametrize(
    "name",
    ["_C.Graph"],
)
def test_classes_without_instances(name):
    kind = reach(name)
    assert not isinstance(torch.nn.Linear(1, 1), kind) and kind.__name__ == name.rpartition(".")[2]
    derived = type("Mine", (kind,), {})
    for made in (kind, derived):
        with pytest.raises(NotImplementedError, match=f"flambeau.{name} is not here: "):
            made()
    assert pickle.loads(pickle.dumps(kind)) is kind


def test_without_a_group_its_functions_refuse():
    for name in ("get_rank", "all_reduce", "barrier", "get_world_size"):
        with pytest.raises(ValueError, match="Default process group has not been initialized"):
            getattr(torch.distributed, name)(*[torch.ones(1)] * (name == "all_reduce"))
    with pytest.raises(ValueError, match="Default process group"):
        torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))
    assert torch.distributed.group.WORLD is None


def test_scripts_and_their_marks():
    @torch.jit.script
    def double(x: torch.Tensor) -> torch.Tensor:
        return 2 * x

    class Net(torch.nn.Module):
        size: torch.jit.Final[int] = 3

        def forward(self, x):
            return double(x) * self.size

        @torch.jit.export
        def other(self):
            return 1

        @torch.jit.unused
        def unused(self):
            return 2

        @torch.jit.ignore(drop=True)
        def dropped(self):
            return 3

        @torch.jit.ignore
        def ignored(self):
            return 4

    net = Net()
    scripted = torch.jit.script(net)
    assert scripted(torch.ones(1)).item() == 6 and scripted.other() == 1 and double(torch.ones(1)).item() == 2
    assert (net.other(), net.unused(), net.dropped(), net.ignored()) == (1, 2, 3, 4)
    for wrong in (lambda: torch.jit.script(3), lambda: torch.jit.script([1])):
        with pytest.raises(TypeError, match="jit.script"):
            wrong()
    with pytest.raises(RuntimeError, match="must be a bool or a function"):
        torch.jit.ignore("x")


@pytest.mark.parametrize(
    "value, kind, fits",
    [
        (1, int, True),
        ([1, 2], list[int], True),
        ([1, None], list[int], False),
        ([1, None], list[int | None], True),
        ([], list[int], True),
        ({"a": [1]}, dict[str, list[int]], True),
        ({"a": [1.0]}, dict[str, list[int]], False),
        ((1, 2, 3), tuple[int, ...], True),
        ((1, "b"), tuple[int, str], True),
        ((1,), tuple[int, str], False),
        (2.0, (int, str), False),
        (None, None, True),
    ],
)
def test_types_with_parameters(value, kind, fits):
    assert torch.jit.isinstance(value, kind) is fits


def test_compiled_modules_are_modules_around_others():
    inner = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Dropout())
    inner.eval()
    outer = torch.compile(inner, backend="eager")
    x = torch.randn(4, 3)
    assert (
        torch.equal(outer(x), inner(x))
        and not outer.training
        and isinstance(outer, torch._dynamo.OptimizedModule)
    )
    assert outer._orig_mod[0] is inner[0]
    assert list(outer.state_dict()) == ["_orig_mod." + k for k in inner.state_dict()]
    assert [p is q for p, q in zip(outer.parameters(), inner.parameters())] == [True, True]
    outer.train()
    assert inner.training and inner[1].training
    again = pickle.loads(pickle.dumps(outer))
    np.testing.assert_array_equal(again.eval()(x).detach().numpy(), outer.eval()(x).detach().numpy())
    with pytest.raises(AttributeError, match="nowhere"):
        getattr(outer, "nowhere")  # noqa: B009


def test_a_module_compiled_in_its_place():
    """`Module.compile` leaves the module what it is: the same class, parameters and numbers, of derived classes too."""

    class Net(torch.nn.Sequential):
        pass

    net = Net(torch.nn.Linear(3, 2), torch.nn.Tanh())
    x = torch.randn(4, 3)
    wanted = net(x)
    assert net.compile() is None and type(net) is Net
    for _ in range(3):
        assert torch.equal(net(x), wanted)
    assert list(net.state_dict()) == ["0.weight", "0.bias"] and net._compiled_call_impl.entries[0].hits == 2
    seen = []
    handle = net.register_forward_hook(lambda module, args, result: seen.append(1))
    net(x), handle.remove(), net(x)
    assert seen == [1] and net._compiled_call_impl is not None
    net[0].compile()
    for layer, again in ((net, copy.deepcopy(net)), (net[0], pickle.loads(pickle.dumps(net[0])))):
        assert torch.equal(again(x), layer(x)) and again._compiled_call_impl is None
    with pytest.raises(RuntimeError, match="Unrecognized mode=fast"):
        net.compile(mode="fast")
    with pytest.raises(ValueError, match="Invalid backend: 'xyz'"):
        net.compile(backend="xyz")
    with pytest.raises(TypeError, match="unexpected keyword argument 'fast'"):
        net.compile(fast=True)


def test_settings_for_a_block():
    config = torch._dynamo.config
    for patched in (
        config.patch("recompile_limit", 1),
        config.patch({"recompile_limit": 1}),
        config.patch(recompile_limit=1, fail_on_recompile_limit_hit=True),
    ):
        with patched:
            assert config.recompile_limit == 1
            f = torch.compile(lambda x, s: x + len(s), fullgraph=True)
            f(torch.ones(1), "a")
            with pytest.raises(torch._dynamo.exc.FailOnRecompileLimitHit):
                f(torch.ones(1), "ab")
        assert config.recompile_limit == 64

    @config.patch(error_on_recompile=True)
    def again():
        f = torch.compile(lambda x, s: x + len(s))
        f(torch.ones(1), "a")
        f(torch.ones(1), "ab")

    for _ in range(2):
        with pytest.raises(torch._dynamo.exc.RecompileError):
            again()
    with pytest.raises(ZeroDivisionError), config.patch(error_on_recompile=True):
        raise ZeroDivisionError
    assert config.error_on_recompile is False
    for wrong in ({"no_such_setting": 1}, {"patch": 1}):
        with pytest.raises(AttributeError, match="there is no setting"), config.patch(wrong):
            pass


def test_compile_refuses_as_pytorch_does():
    f = len
    assert torch.compile(f, disable=True) is f
    with pytest.raises(RuntimeError, match="Unrecognized mode=fast"):
        torch.compile(f, mode="fast")
    with pytest.raises(RuntimeError, match="Either mode or options"):
        torch.compile(f, mode="default", options={})
    with pytest.raises(ValueError, match="Invalid backend: 'xyz'"):
        torch.compile(f, backend="xyz")
    with pytest.raises(torch._dynamo.exc.InvalidBackend):
        torch.compile(f, backend="xyz")
    with pytest.raises(RuntimeError, match="expected a function or a Module"):
        torch.compile(3, backend="eager")


def test_layers_of_dispatch_leave_autocast_out():
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)
    a = torch.ones(2, 2)
    with torch.autocast("cpu"):
        assert (a @ a).dtype == torch.bfloat16
        guard = torch._C._ExcludeDispatchKeyGuard(keys)
        with pytest.raises(KeyError), guard:
            assert (a @ a).dtype == torch.float32
            raise KeyError
        assert (a @ a).dtype == torch.bfloat16
    other = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastXPU)
    assert (keys | other).has(torch._C.DispatchKey.AutocastXPU) and not ((keys | other) - other).has(
        torch._C.DispatchKey.AutocastXPU
    )
    assert not (keys & other).has(torch._C.DispatchKey.AutocastCPU)


def test_shapes_as_tensors():
    x = torch.zeros(2, 0, 5)
    shape = torch.onnx.operators.shape_as_tensor(x)
    assert shape.dtype == torch.int64 and shape.tolist() == [2, 0, 5]
    assert torch.onnx.operators.reshape_from_tensor_shape(x, torch.tensor([0, 3])).shape == (0, 3)


def test_marks_and_settings_are_taken():
    x = torch.ones(2)
    for mark in ("mark_static_address", "mark_static", "mark_dynamic"):
        assert getattr(torch._dynamo, mark)(x, 0) is None
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch._C._log_api_usage_once("test")


@pytest.mark.parametrize(
    "version, other, order",
    [
        ("2.13.0", "2.4", 1),
        ("2.13.0", "2.13", 0),
        ("2.13.0", (2, 14), -1),
        ("2.13.0", "2.13.0.dev1", 1),
        ("1.10.0a", (1, 10), -1),
    ],
)
def test_versions_compare_as_versions(version, other, order):
    v = torch.torch_version.TorchVersion(version)
    assert (v > other, v == other, v < other) == (order > 0, order == 0, order < 0)
    assert (v >= other, v != other, v <= other) == (order >= 0, order != 0, order <= 0)
    assert isinstance(v, str) and v == version and hash(v) == hash(version)


def test_what_is_no_version_compares_as_text():
    v = torch.torch_version.TorchVersion("2.13.0")
    assert v != "parrot" and v < "parrot"


def test_marks_of_quantisation_are_the_identity():
    x = torch.randn(3, requires_grad=True)
    quant, dequant = torch.ao.quantization.QuantStub(), torch.ao.quantization.DeQuantStub(qconfig="kept")
    assert quant(x) is x and dequant(x) is x and dequant.qconfig == "kept" and not hasattr(quant, "qconfig")


def test_forms_for_onnx_are_kept_by_name():
    with pytest.raises(ValueError, match="domain::name"):
        torch.onnx.register_custom_op_symbolic("name", len, 11)
    torch.onnx.register_custom_op_symbolic("mine::name", len, 11)
    torch.onnx.unregister_custom_op_symbolic("mine::name", 11)
    with pytest.raises(KeyError):
        torch.onnx.unregister_custom_op_symbolic("mine::name", 11)
    with pytest.raises(ValueError, match="unknown description 'q'"):
        importlib.import_module("flambeau.onnx.symbolic_helper").parse_args("q")
