"""Gradients through calls of other processes: they are one process's gradients."""

from __future__ import annotations

import functools
import gc
import random
import threading

import pytest
from test_dist_rpc import same, until, worker
from worlds import world

import flambeau as torch
from flambeau import nn
from flambeau.autograd import Function
from flambeau.core.tape import StagedPass
from flambeau.distributed import autograd, rpc
from flambeau.distributed.nn import RemoteModule
from flambeau.distributed.optim import DistributedOptimizer


# functions that are called -------------------------------------------------------------------------------------------------
def product(x, y):
    return x * y


def there_and_back(x, hops):
    """The third power of x, and again at the other workers."""
    if hops == 0:
        return x
    to = (rpc.get_worker_info().id + 1) % 3
    return rpc.rpc_sync(to, there_and_back, (x * x * x / x.detach().abs().sum() ** 2, hops - 1))


def there_and_back_alone(x, hops):
    for _ in range(hops):
        x = x * x * x / x.detach().abs().sum() ** 2
    return x


def two(x):
    return x * 2, {"three": [x * 3, torch.ones(2)]}, x.detach()


def through(rref, x):
    return rref.to_here() * x


def in_place(x):
    y = x * 2
    y.mul_(3)
    y[0] = 0
    return y


def changed(x):
    x.mul_(2)  # what arrives may be written to
    return x


class NoGradient(Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return None


class Fails(Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        raise ValueError("no derivative today")


def without_gradient(x):
    return NoGradient.apply(x)


def failing(x):
    return Fails.apply(x)


leaves = {}


def keep(key, size):
    leaves[key] = torch.linspace(0.5, 1.5, size).requires_grad_()
    return rpc.RRef(leaves[key])


def gradient_of(key, context_id):
    return autograd.get_gradients(context_id).get(leaves[key])


def contexts():
    gc.collect()
    return len(rpc._get_current_rpc_agent().contexts)


def loss_of(rref):
    return (rref.local_value() ** 2).sum()


def nodes(context_id):
    context = autograd._retrieve_context(context_id)
    return [node.name() for node in context._recv_functions().values()], len(context._send_functions())


# gradients -------------------------------------------------------------------------------------------------------------------
def check(make, make_alone, *leaves, retain=False):
    """The gradients of the sum of what `make` returns are those of `make_alone`."""
    expected = torch.autograd.grad(make_alone(*leaves).sum(), leaves, allow_unused=True)
    with autograd.context() as context_id:
        loss = make(*leaves).sum()
        autograd.backward(context_id, [loss])
        actual = autograd.get_gradients(context_id)
    for leaf, grad in zip(leaves, expected):
        assert leaf.grad is None
        assert (leaf in actual) == (grad is not None)
        if grad is not None:
            torch.testing.assert_close(actual[leaf], grad)


@worker
def gradients(rank, size):
    if rank:
        return
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = torch.tensor([0.5, -1.0, 2.0], requires_grad=True)
    for to in ("w0", "w1"):
        check(lambda a, b, to=to: rpc.rpc_sync(to, product, (a, b)), product, x, y)
        check(lambda a, b, to=to: rpc.rpc_sync(to, torch.mul, (a, b)) * a, lambda a, b: a * b * a, x, y)
        check(lambda a, b, to=to: rpc.rpc_async(to, product, (a * 2, b)).wait(), lambda a, b: a * 2 * b, x, y)
        check(lambda a, b, to=to: rpc.remote(to, product, (a, a)).to_here() + b, lambda a, b: a * a + b, x, y)
        check(lambda a, to=to: rpc.rpc_sync(to, in_place, (a,)), in_place, x)
        check(lambda a, to=to: rpc.rpc_sync(to, changed, (a * 1,)), lambda a: a * 2, x)
    for hops in (1, 2, 3, 7):
        check(
            lambda a, hops=hops: there_and_back(a, hops),
            lambda a, hops=hops: there_and_back_alone(a, hops),
            x,
        )

    # nested results; some of them, and some arguments, are not used; a gradient that does not come
    def first(a, b):
        result, rest, constant = rpc.rpc_sync("w1", two, (a * b,))
        rpc.rpc_sync("w1", product, (a, b))
        rpc.rpc_sync("w2", there_and_back, (rpc.rpc_sync("w1", product, (a, b)), 4))
        assert not constant.requires_grad and not rest["three"][1].requires_grad
        return result

    check(first, lambda a, b: a * b * 2, x, y)
    check(
        lambda a, b: first(a, b) + there_and_back(a, 5),
        lambda a, b: a * b * 2 + there_and_back_alone(a, 5),
        x,
        y,
    )
    check(
        lambda a, b: rpc.rpc_sync("w1", without_gradient, (there_and_back(a, 4),)) + b,
        lambda a, b: b + 0,
        x,
        y,
    )
    # a reference to a value of a third worker; one value for many
    their = rpc.remote("w2", keep, ("third", 3)).to_here()
    with autograd.context() as context_id:
        loss = (
            rpc.rpc_sync("w1", through, (their, x))
            + their.to_here() * 2
            + rpc.rpc_sync("w2", through, (their, x))
        )
        autograd.backward(context_id, [loss.sum()])
        third = torch.linspace(0.5, 1.5, 3)
        torch.testing.assert_close(autograd.get_gradients(context_id)[x], third * 2)
        torch.testing.assert_close(rpc.rpc_sync("w2", gradient_of, ("third", context_id)), x.detach() * 2 + 2)
    # several roots; the sum of several passes; a retained graph
    with autograd.context() as context_id:
        a, b = rpc.rpc_sync("w1", product, (x, y)), rpc.rpc_sync("w2", product, (x, x))
        autograd.backward(context_id, [a.sum(), b.sum()], retain_graph=True)
        torch.testing.assert_close(autograd.get_gradients(context_id)[x], y.detach() + 2 * x.detach())
        autograd.backward(context_id, [b.sum()], retain_graph=True)
        torch.testing.assert_close(autograd.get_gradients(context_id)[x], y.detach() + 4 * x.detach())
        c = rpc.rpc_sync("w1", product, (b, b))  # the graph goes on
        autograd.backward(context_id, [c.sum()])
        torch.testing.assert_close(
            autograd.get_gradients(context_id)[x], y.detach() + 4 * x.detach() + 4 * x.detach() ** 3
        )
        with pytest.raises(RuntimeError, match="(?i)backward through the graph a second time|freed"):
            autograd.backward(context_id, [b.sum()])
    # hooks run once, on whole gradients
    seen = []
    z = x * 1
    handles = [x.register_hook(lambda grad: seen.append(grad) or grad * 10), z.register_hook(seen.append)]
    with autograd.context() as context_id:
        loss = rpc.rpc_sync("w1", torch.sum, (z,)) + rpc.rpc_sync("w2", torch.sum, (z,)) + x.sum()
        autograd.backward(context_id, [loss])
        assert autograd.get_gradients(context_id)[x].tolist() == [30, 30, 30]
    assert [grad.tolist() for grad in seen] == [[2, 2, 2], [3, 3, 3]]
    for handle in handles:
        handle.remove()
    # all gradients are their own
    with autograd.context() as context_id:
        autograd.backward(context_id, [rpc.rpc_sync("w1", torch.add, (x, y)).sum()])
        result = autograd.get_gradients(context_id)
        result[x].zero_()
        assert result[y].tolist() == [1, 1, 1]
    # what PyTorch does with parameters: operations keep them on the tape, functions get copies
    weight = nn.Parameter(torch.ones(3))
    check(lambda w: rpc.rpc_sync("w1", product, (w * 1, w * 2)), lambda w: w * w * 2, weight)


@worker
def errors(rank, size):
    if rank:
        return
    x = torch.ones(2, requires_grad=True)
    with autograd.context() as context_id:
        with pytest.raises(RuntimeError, match="Already have an autograd context id"):
            autograd.context().__enter__()
        y = rpc.rpc_sync("w1", product, (x, x))
        received, sent = nodes(context_id)
        assert received == ["RecvRpcBackward"] and sent == 1 and y.grad_fn.name() == "RecvRpcBackward"
        assert rpc.rpc_sync("w1", nodes, (context_id,)) == (["RecvRpcBackward"], 1)
        assert autograd._current_context()._context_id() == context_id
        for roots, message in [
            ([], "No tensors provided"),
            ([y], "all roots need to be scalar"),
            ([torch.ones(1)], "requires_grad not set on root"),
        ]:
            with pytest.raises(RuntimeError, match=message):
                autograd.backward(context_id, roots)
        with pytest.raises(TypeError, match="roots must be tensors, got int"):
            autograd.backward(context_id, [1])
        with pytest.raises(
            RuntimeError, match="the graph goes on in another process: call distributed.autograd"
        ):
            y.sum().backward()
        with pytest.raises(RuntimeError, match="appears to not have been used in the graph"):
            torch.autograd.grad(y.sum(), x)
        z = rpc.rpc_sync("w1", failing, (rpc.rpc_sync("w2", product, (x, x)),))
        with pytest.raises(ValueError, match="(?s)On WorkerInfo.id=1, name=w1.*no derivative today"):
            autograd.backward(context_id, [z.sum()])
    with pytest.raises(RuntimeError, match=f"Could not find autograd context with id: {context_id}"):
        autograd.get_gradients(context_id)
    with pytest.raises(RuntimeError, match="Could not find autograd context"):
        autograd.backward(context_id, [x.sum()])
    with pytest.raises(RuntimeError, match="doesn't have a valid autograd context"):
        autograd._current_context()
    # the backward of references
    local = rpc.RRef((x * 3).sum())
    local.backward()
    assert x.grad.tolist() == [3, 3]
    x.grad = None
    theirs = rpc.remote("w1", keep, ("mine", 2)).to_here()
    with pytest.raises(RuntimeError, match="User RRefs require 'dist_autograd_ctx_id' to be specified"):
        theirs.backward()
    with autograd.context() as context_id:
        loss = rpc.remote("w1", loss_of, (theirs,))
        loss.backward(context_id)
        torch.testing.assert_close(
            rpc.rpc_sync("w1", gradient_of, ("mine", context_id)), torch.tensor([1.0, 3.0])
        )
        mine = rpc.RRef(rpc.rpc_sync("w1", product, (x, x)).sum())
        mine.backward(context_id)
        assert autograd.get_gradients(context_id)[x].tolist() == [2, 2]
    # contexts of several threads at once
    results = {}

    def alone(k):
        with autograd.context() as context_id:
            autograd.backward(context_id, [(there_and_back(x * k, 6) * k).sum()])
            results[k] = autograd.get_gradients(context_id)[x]

    threads = [threading.Thread(target=alone, args=(k,)) for k in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k in range(1, 7):
        (expected,) = torch.autograd.grad((there_and_back_alone(x * k, 6) * k).sum(), x)
        torch.testing.assert_close(results[k], expected)
    # nothing of a context is left
    until(lambda: [rpc.rpc_sync(k, contexts) for k in range(size)] == [0] * size)
    living = [node for node in gc.get_objects() if type(node).__name__ == "RecvRpcBackward"]
    assert len(living) <= 3  # y, z and what they come from


# random graphs ---------------------------------------------------------------------------------------------------------------
OPERATIONS = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "tanh": lambda a, b: a.tanh() + b.detach(),
    "mix": lambda a, b: (a.unsqueeze(1) * b.unsqueeze(0)).softmax(1).sum(0),
    "constant": lambda a, b: torch.ones_like(a),
}


def operate(kind, a, b, via=None):
    if via is not None:
        return rpc.rpc_sync(via, operate, (kind, a, b))
    a, b = (v.to_here() if isinstance(v, rpc.RRef) else v for v in (a, b))
    return OPERATIONS[kind](a, b)


def program(seed):
    """Steps of a program: an operation, the places of its operands, where it runs and by which way."""
    rng = random.Random(seed)
    steps = []
    for k in range(rng.randrange(3, 14)):
        pair = rng.randrange(k + 4), rng.randrange(k + 4)
        via = rng.choice([None, None, 0, 1, 2])
        steps.append((rng.choice(list(OPERATIONS)), *pair, rng.randrange(3), rng.choice("sar"), via))
    used = rng.sample(range(len(steps) + 4), 3)
    return steps, used


def run_program(seed, leaves):
    """By calls; `leaves` are two tensors of this process and references to two of others."""
    steps, used = program(seed)
    values = list(leaves)
    for kind, i, j, to, way, via in steps:
        args = (kind, values[i], values[j], via)
        if way == "r":
            values.append(rpc.remote(to, operate, args))
        else:
            values.append(
                rpc.rpc_sync(to, operate, args) if way == "s" else rpc.rpc_async(to, operate, args).wait()
            )
    values = [values[k] for k in used]
    return sum((v.to_here() if isinstance(v, rpc.RRef) else v).sum() for v in values)


def run_alone(seed, leaves):
    steps, used = program(seed)
    values = list(leaves)
    for kind, i, j, *_ in steps:
        values.append(OPERATIONS[kind](values[i], values[j]))
    return sum(values[k].sum() for k in used)


@worker
def graphs(rank, size, seeds):
    """All workers run programs at once."""
    keys = [f"{rank} {k}" for k in range(2)]
    theirs = [rpc.rpc_sync((rank + 1 + k) % size, keep, (key, 3)) for k, key in enumerate(keys)]
    mine = [torch.linspace(-1.0, 1.0, 3).mul(k + 1).requires_grad_() for k in range(2)]
    alone = [*mine, *(torch.linspace(0.5, 1.5, 3).requires_grad_() for _ in theirs)]
    for seed in range(rank, seeds, size):
        expected = run_alone(seed, alone)
        if not expected.requires_grad:
            continue
        expected = torch.autograd.grad(expected, alone, allow_unused=True)
        with autograd.context() as context_id:
            loss = run_program(seed, (*mine, *theirs))
            autograd.backward(context_id, [loss])
            gradients = autograd.get_gradients(context_id)
            results = [gradients.get(leaf) for leaf in mine]
            results += [
                rpc.rpc_sync((rank + 1 + k) % size, gradient_of, (key, context_id))
                for k, key in enumerate(keys)
            ]
        for k, (one, other) in enumerate(zip(results, expected, strict=True)):
            assert (one is None) == (other is None), (seed, k, one, other)
            if one is not None:
                torch.testing.assert_close(one, other, msg=f"seed {seed}, leaf {k}: {one} {other}")


# training --------------------------------------------------------------------------------------------------------------------
def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))


def parameters_of(rref):
    return [rpc.RRef(p) for p in rref.local_value().parameters()]


def state(rref):
    return [p.detach().clone() for p in rref.local_value().parameters()], [
        p.grad is None for p in rref.local_value().parameters()
    ]


def batch(k):
    torch.manual_seed(k)
    return torch.randn(5, 4), torch.randint(0, 2, (5,))


OPTIMIZERS = [
    (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    (torch.optim.Adam, {"lr": 0.01}),
    (torch.optim.AdamW, {"lr": 0.01, "weight_decay": 0.1}),
    (torch.optim.Adagrad, {"lr": 0.1}),
    (torch.optim.RMSprop, {"lr": 0.01}),
]


@worker
def training(rank, size):
    if rank:
        return
    for kind, options in OPTIMIZERS:
        alone, head_alone = net(), nn.Linear(2, 2)
        head = rpc.rpc_sync("w0", same, (head_alone,))  # a copy
        reference = kind([*alone.parameters(), *head_alone.parameters()], **options)
        body = RemoteModule("w1", net)
        optimizer = DistributedOptimizer(
            kind, [*body.remote_parameters(), *(rpc.RRef(p) for p in head.parameters())], **options
        )
        for k in range(4):
            x, y = batch(k)
            reference.zero_grad()
            nn.functional.cross_entropy(head_alone(alone(x)), y).backward()
            reference.step()
            with autograd.context() as context_id:
                loss = nn.functional.cross_entropy(head(body(x)), y)
                autograd.backward(context_id, [loss])
                optimizer.step(context_id)
        result, without = rpc.rpc_sync("w1", state, (body.get_module_rref(),))
        assert all(without) and all(p.grad is None for p in head.parameters())
        for one, other in zip([*result, *head.parameters()], [*alone.parameters(), *head_alone.parameters()]):
            torch.testing.assert_close(one, other)
    with pytest.raises(RuntimeError, match="Could not find autograd context"):
        optimizer.step(context_id)
    with pytest.raises(ValueError, match="Invalid learning rate"):
        DistributedOptimizer(torch.optim.SGD, body.remote_parameters(), lr=-1.0)


@pytest.mark.parametrize("fn", [gradients, errors, training])
def test_gradients(fn, tmp_path):
    world(3, fn, tmp_path / "store", form=False)


def test_random_graphs(tmp_path):
    world(3, graphs, tmp_path / "store", 60, form=False)


def test_random_graphs_with_few_threads(tmp_path):
    few = functools.partial(graphs, options={"num_worker_threads": 1})
    world(3, few, tmp_path / "store", 30, form=False)


def test_without_a_world():
    with pytest.raises(RuntimeError, match="Need to initialize distributed autograd"):
        autograd.context().__enter__()
    for call in (lambda: autograd.backward(0, []), lambda: autograd.get_gradients(0)):
        with pytest.raises(RuntimeError, match="RPC has not been initialized"):
            call()


# passes in stages --------------------------------------------------------------------------------------------------------------
def test_a_pass_in_stages_leaves_others_alone():
    """Its nodes belong to other passes while it waits."""
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x.exp()
    a, b = y * 2, (y * 3).sum()
    result, others = [], []
    staged = StagedPass([[a], [b, a]], True, lambda leaf, grad: result.append((leaf, grad)))
    other = StagedPass([[a], [b]], True, lambda leaf, grad: others.append(grad))
    staged.deliver(0, [torch.ones(2)])
    other.deliver(1, [torch.tensor(1.0)])
    assert not result and not others and staged.waiting == other.waiting == 1
    (between,) = torch.autograd.grad(a.sum() + b, x, retain_graph=True)
    with pytest.raises(RuntimeError, match="group 0 have arrived before"):
        staged.deliver(0, [torch.ones(2)])
    staged.deliver(1, [torch.tensor(1.0), torch.ones(2)])
    other.deliver(0, [torch.ones(2)])
    ((leaf, grad),) = result
    assert leaf is x and x.grad is None
    torch.testing.assert_close(grad, x.detach().exp() * 7)
    torch.testing.assert_close(others[0], x.detach().exp() * 5)
    torch.testing.assert_close(between, others[0])
    # nodes that no gradient reaches are told of; a pass that has failed stays so
    nothing = []
    staged = StagedPass([[a], [b]], False, lambda target, grad: nothing.append(grad))
    staged.deliver(0, [None])
    staged.deliver(1, [None])
    assert len(nothing) == 4 and not any(grad is not None for grad in nothing)
    staged = StagedPass([[Fails.apply(x)], [a]], False, lambda target, grad: None)
    with pytest.raises(ValueError, match="no derivative today"):
        staged.deliver(0, [torch.ones(2)])
    with pytest.raises(RuntimeError, match="the pass has failed"):
        staged.deliver(1, [torch.ones(2)])
