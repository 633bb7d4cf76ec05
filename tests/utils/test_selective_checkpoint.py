"""Selective checkpointing: what is kept does not run again, gradients and random numbers are those without a checkpoint."""

from __future__ import annotations

import contextlib
import functools
import gc
import itertools
import weakref

import pytest

import flambeau
from flambeau import nn
from flambeau.nn import functional as F
from flambeau.utils import checkpoint as module
from flambeau.utils._python_dispatch import TorchDispatchMode
from flambeau.utils.checkpoint import (
    SAC_IGNORED_OPS,
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

ATEN = flambeau.ops.aten
POLICIES = list(CheckpointPolicy)


class Calls(TorchDispatchMode):
    """The operations that run."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.__name__)
        return func(*args, **(kwargs or {}))


def leaves(*sizes):
    flambeau.manual_seed(3)
    return [flambeau.randn(size, dtype=flambeau.float64).requires_grad_() for size in sizes]


def products(x, w, b):
    y = F.linear(x @ w, w, b).tanh()
    return flambeau.mm(y, w).sigmoid() * y.exp()


def normed(x, w, b):
    y = F.layer_norm(x @ w, (4,), b, b)
    return F.softmax(y, -1).log() + F.gelu(y) * y.var(0)


def attended(x, w, b):
    q = (x @ w).view(2, 3, 2, 2).transpose(1, 2)
    return F.scaled_dot_product_attention(q, q, q.exp()).reshape(6, 4) * F.silu(x) + b


def random(x, w, b):
    y = F.dropout(x @ w, 0.5)
    z = F.dropout(y + flambeau.rand(6, 4, dtype=x.dtype), 0.3) * flambeau.bernoulli(
        flambeau.full((6, 4), 0.5, dtype=x.dtype)
    )
    return (z * flambeau.randn(6, 4, dtype=x.dtype)).sin() * F.dropout(w, 0.5).sum() + b


def written(x, w, b):
    y = (x @ w).exp()
    z = y.clone()
    z.mul_(2).add_(b)
    z[0] = x[1] * 3
    return (z @ w).clone().relu_() + z.view(-1)[:4] + y.t().reshape(6, 4)


def several(x, w, b):
    values, places = (x @ w).sort(dim=0)
    q, r = flambeau.linalg.qr(values)
    first, second = (q @ r).split(2, dim=1)
    return first.square() @ second.t().tanh() + values.max(dim=1)[0] + b.sum()


def convolved(x, w, b):
    image = x.view(1, 1, 6, 4)
    y = F.conv2d(image, w.view(1, 1, 4, 4), padding=2)
    return F.max_pool2d(F.batch_norm(y, None, None, training=True), 2).exp() + b.sum()


WRITTEN_TO = [ATEN.clone.default]  # results that `written` changes
FUNCTIONS = (products, normed, attended, random, written, several, convolved)


def gradients(function, given, **options):
    flambeau.manual_seed(7)
    result = function(*given) if not options else checkpoint(function, *given, use_reentrant=False, **options)
    after_forward = flambeau.rand(2).tolist()
    grads = flambeau.autograd.grad(result.square().sum(), given)
    return [result.tolist(), after_forward, *(g.tolist() for g in grads), flambeau.rand(2).tolist()]


def selecting(policy, **options):
    return functools.partial(create_selective_checkpoint_contexts, policy, **options)


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("early_stop", [True, False])
def test_gradients_are_those_without_a_checkpoint(function, policy, early_stop):
    given = leaves((6, 4), (4, 4), (4,))
    wanted = gradients(function, given)
    recompute = CheckpointPolicy.PREFER_RECOMPUTE
    told = lambda ctx, op, *args, **kwargs: recompute if op in WRITTEN_TO else policy
    options = {"context_fn": selecting(told), "early_stop": early_stop}
    assert gradients(function, given, **options) == wanted


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("seed", range(6))
def test_any_choice_of_operations(function, seed):
    """Each call is kept or not at random: what is kept feeds what runs again."""
    import random as chance

    rng, told = chance.Random(seed), {}
    policy = lambda ctx, op, *args, **kwargs: told.setdefault(
        len(told), op not in WRITTEN_TO and rng.random() < 0.5
    )
    given = leaves((6, 4), (4, 4), (4,))
    assert gradients(function, given, context_fn=selecting(policy)) == gradients(function, given)
    assert len(set(told.values())) == 2


@pytest.mark.parametrize("policy", [CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE, True])
def test_what_is_kept_does_not_run_again(policy):
    given = leaves((6, 4), (4, 4), (4,))
    out = checkpoint(
        products, *given, use_reentrant=False, context_fn=selecting(lambda ctx, op, *args, **kwargs: policy)
    )
    with Calls() as calls:
        flambeau.autograd.grad(out.sum(), given)
    again = {"matmul", "linear", "sigmoid", "tanh", "exp"} & set(calls.names)
    assert not again, calls.names
    out = checkpoint(products, *given, use_reentrant=False)
    with Calls() as calls:
        flambeau.autograd.grad(out.sum(), given)
    assert {"matmul", "linear", "tanh", "mm"} <= set(calls.names)


def test_a_list_keeps_what_it_names():
    given = leaves((6, 4), (4, 4), (4,))
    ran = {}
    for ops in (
        [],
        [ATEN.mm.default],
        [ATEN.addmm.default],
        [ATEN.mm.default, ATEN.addmm.default, ATEN.tanh.default],
    ):
        first, second = create_selective_checkpoint_contexts(list(ops))
        seen = Calls()

        @contextlib.contextmanager
        def around(seen=seen, second=second):
            with seen, second:
                yield

        pair = functools.partial(lambda *both: both, first, around())
        out = checkpoint(products, *given, use_reentrant=False, context_fn=pair, early_stop=False)
        flambeau.autograd.grad(out.sum(), given)
        ran[len(ops), *(op.__name__ for op in ops)] = seen.names
    everything, mm_saved, addmm_saved, all_saved = ran.values()
    assert {"matmul", "mm", "linear", "tanh", "sigmoid"} <= set(everything)
    assert not {"matmul", "mm"} & set(mm_saved) and {"linear", "tanh", "sigmoid"} <= set(mm_saved)
    assert {"matmul", "mm", "tanh"} <= set(addmm_saved) and "linear" not in addmm_saved
    assert not {"matmul", "mm", "linear", "tanh"} & set(all_saved) and "sigmoid" in all_saved


def test_what_a_policy_is_given():
    seen = []

    def policy(ctx, op, *args, **kwargs):
        seen.append((op, [tuple(a.shape) for a in args if isinstance(a, flambeau.Tensor)], kwargs, ctx))
        return CheckpointPolicy.PREFER_RECOMPUTE

    x, w, b = leaves((6, 4), (4, 4), (4,))

    def function(x, w, b):
        y = F.linear(F.linear(x @ w, w), w, b)
        return (x[None] @ w[None]).sum(dim=0) + y @ b[:, None] + w @ b + b @ b

    checkpoint(function, x, w, b, use_reentrant=False, context_fn=selecting(policy)).sum().backward()
    ops = [op for op, *_ in seen]
    for op in (ATEN.mm.default, ATEN.addmm.default, ATEN.bmm.default, ATEN.mv.default, ATEN.dot.default):
        assert op in ops
    (shapes,) = [shapes for op, shapes, *_ in seen if op == ATEN.addmm.default]
    assert shapes == [(4,), (6, 4), (4, 4)]
    assert all(not ctx.is_recompute for *_, ctx in seen)
    assert tuple(seen[0][3].op_output.shape) == (6, 4) and len(seen) == len(ops)
    before = len(seen)
    x.grad = None
    assert len(seen) == before  # it is not asked in backward


def test_layers_with_a_policy_that_counts():
    """As training frameworks have it: every second product is kept."""
    counts = itertools.count()
    policy = lambda ctx, op, *args, **kwargs: op == ATEN.addmm.default and next(counts) % 2 == 0
    net = nn.Sequential(
        nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2)
    )
    x = flambeau.randn(5, 4)
    results = []
    for options in ({}, {"use_reentrant": False, "context_fn": selecting(policy)}):
        net.zero_grad()
        flambeau.manual_seed(1)
        (net(x) if not options else checkpoint(net, x, **options)).sum().backward()
        results.append([p.grad.tolist() for p in net.parameters()])
    assert results[0] == results[1]


def test_in_mixed_precision_and_nested():
    x, w, b = leaves((6, 4), (4, 4), (4,))
    x, w, b = [t.detach().float().requires_grad_() for t in (x, w, b)]
    contexts = selecting([ATEN.mm.default])
    inner = lambda x, w, b: checkpoint(products, x, w, b, use_reentrant=False, context_fn=contexts) * (x @ w)
    for outer in (inner, lambda *given: checkpoint(inner, *given, use_reentrant=False, context_fn=contexts)):
        with flambeau.autocast("cpu", dtype=flambeau.bfloat16):
            wanted = flambeau.autograd.grad((products(x, w, b) * (x @ w)).float().sum(), (x, w, b))
            actual = flambeau.autograd.grad(outer(x, w, b).float().sum(), (x, w, b))
        assert all(flambeau.equal(p, q) for p, q in zip(wanted, actual))


def test_only_once():
    given = leaves((6, 4), (4, 4), (4,))
    out = checkpoint(products, *given, use_reentrant=False, context_fn=selecting([ATEN.mm.default]))
    flambeau.autograd.grad(out.sum(), given, retain_graph=True)
    with pytest.raises(RuntimeError, match="Trying to backward an extra time"):
        flambeau.autograd.grad(out.sum(), given)


def test_several_passes_of_one_group():
    """Over parts that do not overlap: the region is computed again once."""
    count = []

    def function(x, w, b):
        count.append(1)
        return (x @ w).exp(), (x @ b).sin()

    given = leaves((6, 4), (4, 4), (4,))
    wanted = flambeau.autograd.grad(sum(y.sum() for y in function(*given)), given)
    for grouped in (True, False):
        count.clear()
        first, second = checkpoint(function, *given, use_reentrant=False, early_stop=False)
        results = []
        with module.GraphExecGroup() if grouped else flambeau.enable_grad():
            for y in (first, second):
                results.append(
                    flambeau.autograd.grad(y.sum(), given, retain_graph=True, materialize_grads=True)
                )
        assert len(count) == (2 if grouped else 3)
        assert all(flambeau.allclose(a, p + q) for a, p, q in zip(wanted, *results))
    with module.GraphExecGroup(), pytest.raises(RuntimeError, match="cannot be nested"):
        module.GraphExecGroup().__enter__()


def test_a_result_that_was_written_to():
    def function(x, w, b):
        y = x @ w
        y.mul_(2)
        return y.sin()

    given = leaves((6, 4), (4, 4), (4,))
    ops = [ATEN.mm.default]
    out = checkpoint(function, *given, use_reentrant=False, context_fn=selecting(ops))
    with pytest.raises(RuntimeError, match="cached during selective activation checkpoint has been mutated"):
        out.sum().backward()


def test_another_computation_is_noticed():
    calls = []

    def function(x):
        calls.append(1)
        return x.exp() * x.sin() if len(calls) == 1 else x.cos() * x.sin()

    x = leaves((3,))[0]
    out = checkpoint(function, x, use_reentrant=False, context_fn=selecting([ATEN.exp.default]))
    with pytest.raises(RuntimeError, match="cos.* encountered during backward but not found in storage"):
        out.sum().backward()
    calls.clear()
    function_of_two = lambda x: x.exp() if calls.append(1) or len(calls) == 1 else x.exp().exp().exp()
    out = checkpoint(
        function_of_two, x, use_reentrant=False, context_fn=selecting([ATEN.exp.default]), early_stop=False
    )
    with pytest.raises(RuntimeError, match="invocation index 1 encountered during backward"):
        out.sum().backward()


def test_what_is_no_policy():
    for wrong in ([ATEN.mm], ["mm"], [flambeau.nn.Linear]):
        with pytest.raises(ValueError, match="Expected op in `op_list` to be an OpOverload but got"):
            create_selective_checkpoint_contexts(wrong)
    with pytest.raises(ValueError, match="ops.aten.mm.default"):
        create_selective_checkpoint_contexts([ATEN.mm])
    for wrong in (None, 3, (ATEN.mm.default,)):
        with pytest.raises(TypeError, match="either a function or a list of ops"):
            create_selective_checkpoint_contexts(wrong)
    with pytest.raises(ValueError, match="only supported when use_reentrant=False"):
        checkpoint(flambeau.exp, leaves(2)[0], use_reentrant=True, context_fn=selecting([]))


def test_operations_that_are_not_counted():
    seen = []
    policy = lambda ctx, op, *args, **kwargs: seen.append(op) or CheckpointPolicy.MUST_SAVE
    x = leaves((3,))[0]
    checkpoint(
        lambda x: x.exp().detach() * x, x, use_reentrant=False, context_fn=selecting(policy)
    ).sum().backward()
    assert (
        ATEN.detach.default in SAC_IGNORED_OPS
        and ATEN.detach.default not in seen
        and ATEN.exp.default in seen
    )


def test_operations_of_programs():
    from flambeau.library import custom_op

    ran = []

    @custom_op("selective::double", mutates_args=())
    def double(x: flambeau.Tensor) -> flambeau.Tensor:
        ran.append(1)
        return x * 2

    double.register_autograd(lambda ctx, grad: grad * 2)
    x = leaves((3,))[0]
    op = flambeau.ops.selective.double.default
    for ops, times in (([op], 1), ([], 2)):
        ran.clear()
        out = checkpoint(
            lambda x: double(x).sin().exp(),
            x,
            use_reentrant=False,
            context_fn=selecting(ops),
            early_stop=False,
        )
        (result,) = flambeau.autograd.grad(out.sum(), x)
        assert len(ran) == times
        assert flambeau.allclose(result, 2 * (2 * x).cos() * (2 * x).sin().exp())


def test_nothing_is_held_afterwards():
    """The region, its arguments and what was kept go without the collector of cycles."""
    gc.collect()
    gc.disable()
    try:
        x, w, b = leaves((6, 4), (4, 4), (4,))
        given = x * 1
        here = weakref.ref(given)
        out = checkpoint(products, given, w, b, use_reentrant=False, context_fn=selecting([ATEN.mm.default]))
        out.sum().backward()
        del given, out
        assert here() is None
    finally:
        gc.enable()


def test_in_inference_nothing_is_kept():
    x, w, b = leaves((6, 4), (4, 4), (4,))
    policy = lambda ctx, op, *args, **kwargs: True
    with flambeau.no_grad():
        result = checkpoint(products, x, w, b, use_reentrant=False, context_fn=selecting(policy))
    assert not result.requires_grad and flambeau.equal(result, products(x, w, b).detach())


# --- the other names ------------------------------
def test_a_mismatch_lists_the_operations():
    calls = []

    def function(x):
        calls.append(1)
        return x.exp() * x.sin() if len(calls) == 1 else x[:2].cos() * x[1:]

    x = leaves((3,))[0]
    for debug, inside in ((True, None), (False, True), (True, False)):
        calls.clear()
        out = checkpoint(function, x, use_reentrant=False, debug=debug)
        if inside is not None:
            calls.clear()
            with module.set_checkpoint_debug_enabled(inside):
                out = checkpoint(function, x, use_reentrant=False, debug=debug)
        with pytest.raises(module.CheckpointError) as caught:
            out.sum().backward()
        told = str(caught.value)
        assert ("Operations of the forward computation:" in told) == (debug if inside is None else inside)
        assert ("sin([3])" in told and "cos([2])" in told) == (debug if inside is None else inside)


def test_device_states_and_types():
    assert module.get_device_states(flambeau.ones(2), [flambeau.ones(2, device="meta"), 3]) == ([], [])
    module.set_device_states([], [])
    module.set_device_states([0], [None], device_type="meta")
    before = module.DefaultDeviceType.get_device_type()
    module.DefaultDeviceType.set_device_type("meta")
    try:
        assert module.DefaultDeviceType.get_device_type() == "meta"
        module.set_device_states([0], [None])
    finally:
        module.DefaultDeviceType.set_device_type(before)


def test_helpers_of_the_reentrant_way():
    x = leaves((3,))[0]
    result = module.detach_variable((x * 2, x.detach(), 5))
    assert [getattr(y, "requires_grad", y) for y in result] == [True, False, 5] and result[0].is_leaf
    with pytest.raises(RuntimeError, match="Only tuple of tensors is supported"):
        module.detach_variable([x])
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        module.check_backward_validity((x.detach(), 3))
    module.check_backward_validity((x, 3))
