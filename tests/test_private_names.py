"""Names that libraries take from modules that PyTorch does not call public: what they do."""

from __future__ import annotations

import collections
import pickle
import sys
import types

import pytest

import flambeau
from flambeau.autograd import profiler
from flambeau.optim import optimizer
from flambeau.utils import _pytree


@pytest.mark.parametrize(
    "name, error",
    [
        ("_check", RuntimeError),
        ("_check_index", IndexError),
        ("_check_value", ValueError),
        ("_check_type", TypeError),
        ("_check_not_implemented", NotImplementedError),
    ],
)
def test_checks_raise_their_class(name, error):
    check = getattr(flambeau, name)
    check(True, lambda: pytest.fail("asked for its message"))
    with pytest.raises(error, match="no such thing"):
        check(False, lambda: "no such thing")
    with pytest.raises(error, match="Expected cond to be True"):
        check(False)
    with pytest.raises(TypeError, match="cond must be a bool, but got a Tensor.*_check_tensor_all"):
        check(flambeau.tensor(True))
    with pytest.raises(TypeError, match="cond must be a bool, but got <class 'int'>"):
        check(1)
    with pytest.raises(TypeError, match="message must be a callable"):
        check(False, "text")


def test_checks_of_tensors():
    flambeau._check_tensor_all(flambeau.tensor([True, True]))
    flambeau._check_tensor_all(flambeau.empty(0, dtype=flambeau.bool))
    with pytest.raises(RuntimeError, match="some"):
        flambeau._check_tensor_all(flambeau.tensor([True, False]), lambda: "some")
    with pytest.raises(KeyError):
        flambeau._check_tensor_all_with(KeyError, flambeau.tensor([False]))
    with pytest.raises(TypeError, match="must be a tensor"):
        flambeau._check_tensor_all(True)
    with pytest.raises(TypeError, match="dtype flambeau.bool"):
        flambeau._check_tensor_all(flambeau.ones(2))
    with pytest.raises(AssertionError, match="subclass of Exception"):
        flambeau._check_with(UserWarning, False, None)


def test_sizes_are_checked_with_a_warning():
    with pytest.warns(FutureWarning, match="_check_is_size"):
        flambeau._check_is_size(3, max=3)
    with pytest.warns(FutureWarning), pytest.raises(RuntimeError):
        flambeau._check_is_size(-1)
    with pytest.warns(FutureWarning), pytest.raises(RuntimeError):
        flambeau._check_is_size(4, max=3)


def test_assertions():
    flambeau._assert(flambeau.tensor([1]), "no")
    with pytest.raises(AssertionError, match="why"):
        flambeau._assert(0, "why")
    with pytest.raises(RuntimeError, match="more than one value is ambiguous"):
        flambeau._assert(flambeau.ones(2), "why")
    flambeau._assert_async(flambeau.tensor([2.0]))
    with pytest.raises(RuntimeError, match="but got zero"):
        flambeau._assert_async(flambeau.tensor(0))
    with pytest.raises(RuntimeError, match="mine"):
        flambeau._assert_async(flambeau.tensor(False), "mine")
    with pytest.raises(RuntimeError, match="no values is ambiguous"):
        flambeau._assert_async(flambeau.empty(0))

    class Traced:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func, args

    seen = Traced()
    assert flambeau._assert(seen, "text") == (flambeau._assert, (seen, "text"))


def test_kinds_of_nodes():
    kinds = _pytree.SUPPORTED_NODES
    named = types.SimpleNamespace()
    for tree in ([1, 2], (1, 2), {"a": 1}, collections.namedtuple("Point", "x y")(1, 2)):
        node = kinds[_pytree._get_node_type(tree)]
        children, context = node.flatten_fn(tree)
        assert node.unflatten_fn(children, context) == tree
        pairs, again = node.flatten_with_keys_fn(tree)
        assert [child for _, child in pairs] == children and again == context
        assert all(key.get(tree) is child for key, child in pairs)
    assert _pytree._get_node_type(3) is int and int not in kinds and type(named) not in kinds

    class Mine(dict):
        pass

    count = len(kinds)
    _pytree.register_pytree_node(
        Mine,
        _pytree._dict_flatten,
        lambda values, context: Mine(_pytree._dict_unflatten(values, context)),
        flatten_with_keys_fn=_pytree._dict_flatten_with_keys,
    )
    try:
        assert Mine in kinds and len(kinds) == count + 1 and Mine in list(kinds)
        paths, _ = _pytree.tree_flatten_with_path(Mine(a=1, b=[2]))
        assert [(_pytree.keystr(path), leaf) for path, leaf in paths] == [("['a']", 1), ("['b'][0]", 2)]
        assert type(_pytree.tree_map(str, Mine(a=1))) is Mine
    finally:
        _pytree._deregister_pytree_node(Mine)
    spec = _pytree.TreeSpec(list, None, [_pytree.LeafSpec(), _pytree.LeafSpec()])
    assert _pytree.tree_unflatten([1, 2], spec) == [1, 2]


class Stepping(flambeau.optim.Optimizer):
    """An optimiser as other libraries write them."""

    def __init__(self, params, differentiable=False):
        super().__init__(params, dict(differentiable=differentiable))

    @optimizer._use_grad_for_differentiable
    def step(self, closure=None):
        """Notes whether gradients are recorded."""
        self.recorded = flambeau.is_grad_enabled()
        return closure


@pytest.mark.parametrize("differentiable", [False, True])
def test_steps_of_others_record_only_where_they_say(differentiable):
    mine = Stepping([flambeau.ones(2, requires_grad=True)], differentiable)
    assert mine.step("given") == "given" and mine.recorded is differentiable and flambeau.is_grad_enabled()
    assert mine.step.__name__ == "step"


def test_what_optimisers_of_others_ask():
    half, full = flambeau.ones(2, dtype=flambeau.float16), flambeau.ones(2)
    assert optimizer._default_to_fused_or_foreach([full, None], False) == (False, False)
    assert optimizer._default_to_fused_or_foreach([full, half], False, use_fused=True) == (True, False)
    assert optimizer._default_to_fused_or_foreach([full], True, use_fused=True) == (False, False)
    assert optimizer._default_to_fused_or_foreach([full.long()], False, use_fused=True) == (False, False)
    assert optimizer._get_value(flambeau.tensor([3.0])) == 3.0 and optimizer._get_value(2) == 2
    assert optimizer._get_scalar_dtype() is flambeau.float32
    groups = flambeau.optim.Optimizer._group_tensors_by_device_and_dtype([[full, half], [None, half]], True)
    assert [(key[1], indices) for key, (_, indices) in groups.items()] == [
        (flambeau.float32, [0]),
        (flambeau.float16, [1]),
    ]
    assert groups[full.device, flambeau.float32][0] == [[full], [None]]
    with pytest.raises(RuntimeError, match="fused=True.*flambeau.int64 and cpu"):
        optimizer._device_dtype_check_for_fused(full.long())
    parameters, states = [flambeau.ones(2, dtype=flambeau.complex64), full], [flambeau.ones(2) * 1j, full]
    optimizer._view_as_real(parameters, states)
    assert [t.shape for t in (*parameters, *states)] == [(2, 2), (2,), (2, 2), (2,)]


def test_flat_tensors():
    parts = [flambeau.randn(2, 3), flambeau.randn(4), flambeau.randn(())]
    flat = flambeau._utils._flatten_dense_tensors(parts)
    again = flambeau._utils._unflatten_dense_tensors(flat, parts)
    assert all(flambeau.equal(a, b) for a, b in zip(parts, again, strict=True))
    again[1].zero_()
    assert not flat[6:10].any()
    mixed = [parts[0], parts[1].double(), parts[1], parts[2].double()]
    groups = list(flambeau._utils._take_tensors(mixed, 24))
    assert sorted(len(group) for group in groups) == [1, 1, 1, 1]
    together = [t for group in flambeau._utils._take_tensors(mixed, 1000) for t in group]
    assert all(a is b for a, b in zip(flambeau._utils._reorder_tensors_as(together, mixed), mixed))


def test_indices_of_devices():
    index = flambeau._utils._get_device_index
    assert index("cuda:3") == 3 and index(2) == 2 and index(flambeau.device("cpu"), allow_cpu=True) == -1
    with pytest.raises(ValueError, match="non cpu device"):
        index("cpu")
    with pytest.raises(ValueError, match="specified index"):
        index("cuda")


def test_how_files_make_tensors_is_found_where_libraries_look():
    made = flambeau._utils._rebuild_tensor_v2(flambeau.arange(6.0).storage(), 1, (2,), (2,), False, {})
    assert made.tolist() == [1.0, 3.0]
    assert flambeau._utils._rebuild_parameter(made, True, {}).requires_grad
    assert flambeau._tensor._rebuild_from_type_v2.__name__ == "_rebuild_from_type_v2"


def test_gradients_of_softmax_by_hand():
    x = flambeau.randn(3, 4, dtype=flambeau.float64, requires_grad=True)
    g = flambeau.randn(3, 4, dtype=flambeau.float64)
    for function, backward in (
        (flambeau.softmax, flambeau._softmax_backward_data),
        (flambeau.log_softmax, flambeau._log_softmax_backward_data),
    ):
        y = function(x, 1)
        (wanted,) = flambeau.autograd.grad(y, x, g)
        assert flambeau.allclose(backward(g, y.detach(), 1, flambeau.float64), wanted)
        assert backward(g, y.detach(), 1, flambeau.float32).dtype is flambeau.float32


def test_ranges_for_nvidias_profilers(monkeypatch):
    calls = []
    for name in ("mark", "range_push", "range_pop"):
        monkeypatch.setattr(flambeau.cuda.nvtx, name, lambda *a, name=name: calls.append((name, *a)))
    with profiler.emit_nvtx(record_shapes=True) as emitting:
        flambeau.ones(2).exp()
        with pytest.raises(RuntimeError, match="not reentrant"), emitting:
            pass
    flambeau.ones(2)
    assert calls[1:] == [
        ("range_push", "ones, sizes = []"),
        ("range_pop",),
        ("range_push", "exp, sizes = [[2]]"),
        ("range_pop",),
    ]
    with profiler.emit_nvtx(enabled=False) as nothing:
        assert nothing is None


def test_a_profiler_is_ended_from_outside():
    with profiler.profile():
        assert flambeau.autograd._profiler_enabled()
        flambeau.autograd._disable_profiler()
        assert not flambeau.autograd._profiler_enabled()
    flambeau.autograd._disable_profiler()


def test_other_packages_names(monkeypatch):
    assert flambeau.hub.urlparse("https://a/b").netloc == "a"
    bar = types.SimpleNamespace(tqdm=object())
    monkeypatch.setitem(sys.modules, "tqdm", bar)
    assert flambeau.hub.tqdm is bar.tqdm
    monkeypatch.setitem(sys.modules, "tqdm", None)
    with pytest.raises(AttributeError, match="tqdm is installed"):
        _ = flambeau.hub.tqdm
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = flambeau.hub.nothing


def test_small_ones(monkeypatch):
    assert flambeau._C._nn._parse_to("cpu", flambeau.float16)[:2] == (
        flambeau.device("cpu"),
        flambeau.float16,
    )
    assert flambeau.ByteStorage._from_buffer(b"ab").tolist() == [97, 98]
    assert flambeau.nn.modules.module._EXTRA_STATE_KEY_SUFFIX == "_extra_state"
    monkeypatch.setenv("TORCH_HOME", "/data/torch")
    assert flambeau.hub._get_torch_home() == "/data/torch"
    assert flambeau.profiler.profiler._default_schedule_fn(7) is flambeau.profiler.ProfilerAction.RECORD
    assert pickle.loads(pickle.dumps(flambeau._check)) is flambeau._check


class Parts(flambeau.Tensor):
    """A class of tensors that says how it is taken apart."""

    def __tensor_flatten__(self):
        return [], None

    @staticmethod
    def __tensor_unflatten__(parts, context, size, stride):
        return None


def test_classes_that_can_be_taken_apart():
    from flambeau.utils._python_dispatch import is_traceable_wrapper_subclass

    assert is_traceable_wrapper_subclass(flambeau.ones(2).as_subclass(Parts))
    assert not is_traceable_wrapper_subclass(flambeau.ones(2)) and not is_traceable_wrapper_subclass(3)


def test_states_of_one_process():
    from flambeau.distributed.checkpoint import state_dict

    full, empty = flambeau.nn.Linear(2, 3), flambeau.nn.Linear(2, 3, device="meta")
    assert not state_dict.set_model_state_dict(empty, full.state_dict()).missing_keys
    assert flambeau.equal(empty.weight, full.weight) and empty.weight.device.type == "cpu"
    full.bias.requires_grad_(False)
    asked = state_dict.StateDictOptions(ignore_frozen_params=True, cpu_offload=True)
    assert list(state_dict.get_model_state_dict(full, options=asked)) == ["weight"]
    with pytest.raises(RuntimeError, match="Missing key"):
        state_dict.set_model_state_dict(full, {"weight": full.weight})
    loose = state_dict.StateDictOptions(strict=False)
    told = state_dict.set_model_state_dict(full, {"weight": full.weight, "other": 1}, options=loose)
    assert told.missing_keys == ["bias"] and told.unexpected_keys == ["other"]
    net = flambeau.nn.Sequential(full, empty)
    assert list(state_dict.get_model_state_dict(net, submodules={empty})) == ["1.weight", "1.bias"]


def test_no_dataset_is_a_pipe():
    from flambeau.utils.data.datapipes.iter import combinatorics

    assert not isinstance(
        flambeau.utils.data.TensorDataset(flambeau.ones(1)), combinatorics.ShufflerIterDataPipe
    )
    with pytest.raises(NotImplementedError, match=r"DataLoader\(shuffle=True\)"):
        combinatorics.ShufflerIterDataPipe([1])


def test_limits_of_pythons_numbers():
    assert flambeau.finfo(float) == flambeau.finfo(flambeau.float64) and flambeau.finfo(float).eps == 2.0**-52
    assert flambeau.finfo(complex).dtype == "float64" and flambeau.iinfo(int).max == 2**63 - 1
    for limits, kind in (
        (flambeau.finfo, int),
        (flambeau.iinfo, float),
        (flambeau.iinfo, bool),
        (flambeau.finfo, str),
    ):
        with pytest.raises(TypeError):
            limits(kind)


def test_whether_a_transform_runs():
    active = flambeau._C._are_functorch_transforms_active
    seen = []

    def f(x):
        seen.append(active())
        return (x * x).sum()

    x, func = flambeau.ones(3), flambeau.func
    for run in (
        lambda: func.grad(f)(x),
        lambda: func.vjp(f, x),
        lambda: func.jvp(f, (x,), (x,)),
        lambda: func.jacrev(f)(x),
        lambda: func.jacfwd(f)(x),
        lambda: func.hessian(f)(x),
        lambda: flambeau.vmap(f)(flambeau.ones(2, 3)),
    ):
        seen.clear()
        assert not active()
        run()
        assert seen and all(seen)
        assert not active()
    seen.clear()
    f(x)
    assert seen == [False]
    with pytest.raises(ZeroDivisionError):
        func.grad(lambda x: 1 // 0)(x)
    assert not active()


def test_a_tensor_has_a_number_of_its_own():
    x, y = flambeau.ones(2), flambeau.ones(2)
    assert x._cdata == x._cdata != y._cdata
    assert flambeau.nn.Parameter(x)._cdata != x._cdata
