"""Backward in two halves: together they give what one backward does, nothing is computed twice, and hooks run once."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import flambeau as torch
from flambeau.core.tape import free_saved, run_node
from flambeau.distributed.pipelining import _actions, _orders
from flambeau.distributed.pipelining._backward import backward_input
from flambeau.nn import functional as F
from flambeau.utils._python_dispatch import TorchDispatchMode
from flambeau.utils.checkpoint import checkpoint


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * w * 2

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g * w * 2, (g * x * 2).sum(0)


def plain(p, x, z):
    return F.linear(F.linear(x, p["a"], p["s"]).tanh(), p["b"]) + z


def shared(p, x, z):
    return F.linear(F.linear(x, p["a"]).sin(), p["a"], p["s"]) * z


def of_parameters(p, x, z):
    """Weights that are computed from parameters, and a result that does not depend on the inputs."""
    weight = p["a"] / p["a"].norm() + p["b"]
    return F.linear(x, weight).relu() + F.linear(z, weight.t()), (p["s"] * 3).sum()


def several(p, x, z):
    one, two = F.linear(x, p["a"]).chunk(2, 1)
    joined = torch.cat([two * p["s"][:2], one], 1)
    return joined, F.layer_norm(joined + z, (4,), p["s"], p["s"])


def own(p, x, z):
    return Doubled.apply(Doubled.apply(x, p["s"]).cos(), p["s"]) + F.linear(z, p["b"])


def again(p, x, z):
    return checkpoint(lambda y: F.linear(F.linear(y, p["a"]).exp(), p["b"]), x, use_reentrant=False) + z


def in_place(p, x, z):
    y = F.linear(x, p["a"])
    y.mul_(p["s"]).add_(z)
    return F.linear(y.sigmoid(), p["b"])


def attention(p, x, z):
    q = F.linear(x, p["a"]).view(1, 3, 1, 4).transpose(1, 2)
    return F.scaled_dot_product_attention(q, q * p["s"], q).transpose(1, 2).reshape(3, 4) + z


def unused(p, x, z):
    return F.linear(z, p["a"])


CASES = (plain, shared, of_parameters, several, own, again, in_place, attention, unused)


def made():
    torch.manual_seed(0)
    p = {"a": torch.randn(4, 4), "b": torch.randn(4, 4), "s": torch.rand(4) + 0.5}
    return {n: t.requires_grad_() for n, t in p.items()}, *(torch.randn(3, 4).requires_grad_() for _ in "xz")


def halves(case):
    p, x, z = made()
    outputs = case(p, x, z)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    grads = [torch.linspace(-1, 1, o.numel()).view(o.shape) for o in outputs]
    return p, x, z, outputs, grads


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.__name__)
def test_halves_are_the_whole(case):
    p, x, z, outputs, grads = halves(case)
    torch.autograd.backward(outputs, grads)
    q, u, v, outputs, grads = halves(case)
    seen = []
    for name, t in q.items():
        t.register_hook(lambda g, name=name: seen.append(name))
        t.register_post_accumulate_grad_hook(lambda t, name=name: seen.append(f"{name} is there"))
    result, later = backward_input(outputs, grads, [u, v])
    assert all(t.grad is None for t in q.values()) and not seen and u.grad is None
    for g, whole in zip(result, (x.grad, z.grad)):
        assert (g is None) == (whole is None)
        if g is not None:
            np.testing.assert_array_equal(g.numpy(), whole.numpy())
    later()
    assert len(seen) == len(set(seen)), "a parameter's hook ran twice"
    for name, t in p.items():
        assert (t.grad is None) == (q[name].grad is None)
        if t.grad is not None:
            np.testing.assert_allclose(
                q[name].grad.numpy(), t.grad.numpy(), rtol=1e-6, atol=1e-6, err_msg=name
            )
            assert {name, f"{name} is there"} <= set(seen)


class Products(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += "product" in str(func)
        return func(*args, **(kwargs or {}))


def test_no_product_is_computed_twice_or_early():
    p, x, z, outputs, grads = halves(plain)
    with Products() as whole:
        torch.autograd.backward(outputs, grads)
    p, x, z, outputs, grads = halves(plain)
    with Products() as first:
        _, later = backward_input(outputs, grads, [x, z])
    with Products() as second:
        later()
    assert (first.count, second.count, whole.count) == (2, 2, 4)


def test_a_pass_for_some_inputs_computes_nothing_else():
    p, x, z, outputs, grads = halves(plain)
    for inputs, expected in (([x], 2), ([p["b"]], 1), ([z], 0), ([p["a"]], 2), ([x, p["a"], p["b"]], 4)):
        with Products() as products:
            torch.autograd.grad(outputs, inputs, grads, retain_graph=True)
        assert products.count == expected
    for hidden in outputs[0].grad_fn.next_functions:  # edges are all there again
        assert hidden[0] is not None
    torch.autograd.backward(outputs, grads)
    assert all(t.grad is not None for t in (x, z, *p.values()))


def test_a_pass_inside_of_a_pass_sees_all_edges():
    x, w = torch.ones(2, requires_grad=True), torch.full((2,), 3.0, requires_grad=True)
    y, result = x * w, []

    def inner(grad_inputs, grad_outputs):  # runs while the edge to `w` is hidden
        handle.remove()
        result.extend(torch.autograd.grad(y, w, torch.ones(2), retain_graph=True))

    handle = y.grad_fn.register_hook(inner)
    (gx,) = torch.autograd.grad(y, x, torch.ones(2), retain_graph=True)
    assert gx.tolist() == [3.0, 3.0] and result[0].tolist() == [1.0, 1.0]
    y.sum().backward()
    assert w.grad.tolist() == [1.0, 1.0]


def test_hooks_of_other_leaves_do_not_run():
    x, w = torch.ones(2, requires_grad=True), torch.full((2,), 3.0, requires_grad=True)
    w.register_hook(lambda g: pytest.fail("a pass for x alone calls a hook of w"))
    y = x * 1
    y.mul_(w)
    assert torch.autograd.grad((y * w).sum(), x)[0].tolist() == [9.0, 9.0]


def test_one_node_alone():
    x, w = torch.full((2, 2), 2.0, requires_grad=True), torch.eye(2).requires_grad_()
    y = x @ w
    node = y.grad_fn
    left, right = run_node(node, [torch.ones(2, 2)], [1])
    assert left is None and right.tolist() == [[4.0, 4.0], [4.0, 4.0]] and not right.requires_grad
    free_saved(node)
    with pytest.raises(RuntimeError, match="freed|second time"):
        run_node(node, [torch.ones(2, 2)], [1])
    with pytest.raises(RuntimeError, match="freed|second time"):
        y.sum().backward()


def test_the_first_half_frees_what_the_second_does_not_read():
    x, w = torch.randn(4, 4).requires_grad_(), torch.randn(4, 4).requires_grad_()
    hidden = F.linear(x, w)
    out = hidden.sin()
    ref = weakref.ref(hidden)
    del hidden
    assert ref() is not None  # what the sine saved
    _, later = backward_input([out], [torch.ones(4, 4)], [x])
    gc.collect()
    assert ref() is None
    later()
    assert w.grad is not None


# --- lists of actions ------------------------------
def orders(ranks: int, microbatches: int):
    yield "GPipe", 1, _orders.gpipe(ranks, microbatches)
    yield "1F1B", 1, _orders.one_forward_one_backward(ranks, microbatches)
    size = microbatches // max(1, microbatches // ranks)
    for local in (1, 2, 3):
        yield "BFS", local, _orders.looped_bfs(ranks, local, microbatches)
        if microbatches % size == 0:
            yield "interleaved", local, _orders.interleaved(ranks, local, microbatches, size)
            yield "zero", local, _orders.zero_bubble(ranks, local, microbatches, size)
    yield "zbv", 2, _orders.zbv(ranks, microbatches)
    if microbatches >= 2 * ranks:
        yield "dual", 2, _orders.dual_pipe_v(ranks, microbatches)


def chain(stages: int) -> dict[int, list[int]]:
    return {s: [s - 1] if s else [] for s in range(stages)}


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 7])
def test_every_order_is_whole_and_ends(ranks):
    for n in (1, 2, 3, 4, 8, 14, 16):
        for name, local, order in orders(ranks, n):
            stages = ranks * local
            where = _actions.validate(order, ranks, stages, n)
            timeline = _actions.simulate(order, chain(stages))
            assert timeline.busy == 3 * n * stages and 0 <= timeline.bubble < 1, name
            plan = _actions.with_messages(order, where, chain(stages))
            sent = [
                a
                for actions in plan.values()
                for a in actions
                if a.computation_type in (_actions.SEND_F, _actions.SEND_B)
            ]
            crossing = sum(where[s] != where[s + 1] for s in range(stages - 1))
            assert len(sent) == len(set(sent)) == 2 * n * crossing, name
            late = _actions.with_messages(order, where, chain(stages), defer=True)
            for early, actions in zip(
                plan.values(), late.values()
            ):  # each receive right before what reads it
                assert sorted(map(str, early)) == sorted(map(str, actions))
                for k, a in enumerate(actions):
                    if a.computation_type is _actions.RECV_B:
                        assert actions[k + 1][::2] == a[::2] and str(actions[k + 1].computation_type) in "BI"
            read = _actions._Action.from_str
            assert [read(str(a)) for a in order[0]] == order[0]


def test_bubbles_are_those_of_the_papers():
    ranks, n = 4, 8
    results = {
        (name, local): _actions.simulate(o, chain(ranks * local)).bubble
        for name, local, o in orders(ranks, n)
    }
    for local in (1, 2, 3):  # Narayanan et al. 2021, section 2.2
        assert results["interleaved", local] == pytest.approx((ranks - 1) / (local * n + ranks - 1))
        assert results["BFS", local] == pytest.approx((ranks - 1) / (local * n + ranks - 1))
    assert results["GPipe", 1] == results["1F1B", 1] == pytest.approx((ranks - 1) / (n + ranks - 1))
    # Qi et al. 2023, table 2: ZB-H1 waits for (P - 1)(T_F + T_B - T_W), a third of 1F1B's; ZB-V for nothing in its steady state.
    assert results["zero", 1] == pytest.approx((ranks - 1) / (3 * n + ranks - 1))
    assert results["zbv", 2] < results["zero", 1]


def test_wrong_orders_are_refused_by_the_action():
    read = _actions._Action.from_str
    good = ["0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1"]

    def order(*lines):
        return {r: [read(t) for t in line.split()] for r, line in enumerate(lines)}

    assert _actions.validate(order(*good), 2, 2, 2) == {0: 0, 1: 1}
    for lines, text in (
        (("0F0 0B0 0B1", good[1]), "0B1 comes without 0F1 before it"),
        (("0F0 0F1 0B0 0B0", good[1]), "Rank 0, step 3: 0B0 comes a second time"),
        (("0F0 0F1 0B0", good[1]), "0B1 is missing"),
        (("0F0 0F1 0I0 0B1", good[1]), "0W0 is missing"),
        (("0F0 0F1 0I0 0B0", good[1]), "0B0 comes a second time"),
        (("0F0 0F1 0W0 0B1", good[1]), "0W0 comes without 0I0"),
        (("0F0 0F1 0B0 0B1 1F0", good[1]), "stage 1 is on rank 0, too"),
        (("0F0 0F1 0B0 0B1 2F0", good[1]), "2F0 is outside of 2 stages and 2 microbatches"),
        (("0F0 0SEND_F0 0F1 0B0 0B1", good[1]), "0SEND_F0 is no computation"),
        ((good[0],), "a schedule for 2 ranks has lists for ranks"),
    ):
        with pytest.raises(AssertionError, match=text):
            _actions.validate(order(*lines), 2, 2, 2)
    # Rank 0 wants the gradient of microbatch 1 first, rank 1 the other one and does not go on before it has forwarded it.
    with pytest.raises(
        RuntimeError,
        match="deadlocks: rank 0 at action 1, 0B0, waits for 1B0; rank 1 at action 0, 1F1, waits for 0F1",
    ):
        _actions.simulate(order("0F0 0B0 0F1 0B1", "1F1 1B1 1F0 1B0"), chain(2))
    for text in ("F0", "0X0", "0F", "x"):
        with pytest.raises(RuntimeError, match="Invalid action string"):
            read(text)


def test_a_table_of_an_order():
    order = _orders.one_forward_one_backward(2, 2)
    assert _actions.format_order(order, chain(2)).splitlines() == [
        "      Rank 0  Rank 1",
        "   0: 0F0",
        "   1: 0F1     1F0",
        "   2:         1B0",
        "   3:",
        "   4: 0B0     1F1",
        "   5:         1B1",
        "   6:",
        "   7: 0B1",
        "   8:",
    ]


# --- microbatches ------------------------------
def test_arguments_are_split_and_results_joined():
    from flambeau.distributed.pipelining.microbatch import (
        TensorChunkSpec,
        _CustomReducer,
        _Replicate,
        merge_chunks,
        split_args_kwargs_into_chunks,
    )

    x, mask = torch.arange(10).view(5, 2), torch.arange(6).view(2, 3)
    args, kwargs = split_args_kwargs_into_chunks(
        (x, [x, 3]), {"mask": mask}, 2, None, TensorChunkSpec.from_dict({"mask": 1})
    )
    assert [a[0].shape[0] for a in args] == [3, 2] and [a[1][1] for a in args] == [3, 3]
    assert [k["mask"].shape for k in kwargs] == [(2, 2), (2, 1)]
    assert args[0][0].data_ptr() == x.data_ptr()  # views
    args, kwargs = split_args_kwargs_into_chunks((x,), {"mask": mask}, 8)
    assert len(args) == len(kwargs) == 2  # as many as the smallest has rows
    args, _ = split_args_kwargs_into_chunks((x, x), {}, 2, (TensorChunkSpec(0), _Replicate()))
    assert args[1][1] is x
    assert split_args_kwargs_into_chunks((), None, 3) == ([()] * 3, [{}] * 3)
    with pytest.raises(ValueError, match="Unsupported chunk spec"):
        split_args_kwargs_into_chunks((1,), {}, 2, (TensorChunkSpec(0),))
    with pytest.raises(AssertionError, match="chunk specs for"):
        split_args_kwargs_into_chunks((x, x), {}, 2, (TensorChunkSpec(0),))
    chunks = [{"y": x[:1], "n": 1, "loss": 2.0}, {"y": x[1:], "n": 1, "loss": 3.0}]
    spec = {"y": TensorChunkSpec(0), "n": None, "loss": _CustomReducer(0.0, lambda a, b: a + b)}
    merged = merge_chunks(chunks, spec)
    assert merged["y"].tolist() == x.tolist() and merged["n"] == 1 and merged["loss"] == 5.0
    chunks[1]["n"] = 2
    with pytest.raises(AssertionError, match="Expected 1 from every microbatch"):
        merge_chunks(chunks, spec)
    with pytest.raises(ValueError, match="did not match chunk spec"):
        merge_chunks([x, x], [TensorChunkSpec(0)] * 2)
    leaf = torch.ones(4, requires_grad=True)
    ((one,), (two,)), _ = split_args_kwargs_into_chunks((leaf,), None, 2)
    (one.sum() + 2 * two.sum()).backward()
    assert leaf.grad.tolist() == [1, 1, 2, 2] and two.grad.tolist() == [2, 2]


def test_masks_of_blocks_are_split_with_their_batch():
    from flambeau.distributed.pipelining.microbatch import split_args_kwargs_into_chunks
    from flambeau.nn.attention.flex_attention import create_block_mask

    mask = create_block_mask(lambda b, h, q, k: q >= k + b, 4, None, 32, 32, device="cpu", BLOCK_SIZE=16)
    _, kwargs = split_args_kwargs_into_chunks((), {"mask": mask}, 2)
    q, k = torch.arange(32)[:, None], torch.arange(32)
    for begin, part in zip((0, 2), kwargs):
        assert part["mask"].shape[0] == 2
        for b in range(2):
            inner = part["mask"].mask_mod(torch.tensor(b), torch.tensor(0), q, k)
            assert torch.equal(inner, q >= k + b + begin)
