"""Averages of parameters, and communication hooks: against NumPy's arithmetic on what all processes have."""

from __future__ import annotations

import pickle
import re
from collections import OrderedDict

import numpy as np
import pytest
from worlds import world

import flambeau as torch
import flambeau.distributed as dist
from flambeau import nn
from flambeau.distributed.algorithms.ddp_comm_hooks import DDPCommHookType, register_ddp_comm_hook
from flambeau.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import (
    PostLocalSGDState,
    post_localSGD_hook,
)
from flambeau.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import (
    PowerSGDState,
    _orthogonalize,
    batched_powerSGD_hook,
    powerSGD_hook,
)
from flambeau.distributed.algorithms.model_averaging import utils
from flambeau.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from flambeau.distributed.algorithms.model_averaging.hierarchical_model_averager import (
    HierarchicalModelAverager,
)

DDP = nn.parallel.DistributedDataParallel


def averages(rank, size):
    a = nn.Parameter(torch.full((2, 3), float(rank)))
    b = nn.Parameter(torch.full((2,), float(rank), dtype=torch.float64))
    c, d = nn.Parameter(torch.full((2,), float(rank))), torch.full((3, 2), float(rank)).t()
    place = a.data_ptr()
    for p in (a, b):
        p.grad = torch.zeros_like(p)
    utils.average_parameters_or_parameter_groups([a, c], None)
    utils.average_parameters_or_parameter_groups([{"params": [b]}, {"params": [c]}], dist.group.WORLD)
    utils.average_parameters([d], None)
    mean = (size - 1) / 2
    assert (a == mean).all() and (b == mean).all() and (d == mean).all() and a.data_ptr() == place
    assert (c == rank).all()  # it has no gradient
    with pytest.raises(NotImplementedError, match="Parameter input of type <class 'int'>"):
        utils.average_parameters_or_parameter_groups([3], None)
    one = dist.new_group([0])
    utils.average_parameters([c], one)
    assert (c == rank).all()
    # Periods and warm-up.
    averager, seen = PeriodicModelAverager(period=3, warmup_steps=2), []
    for _ in range(9):
        a.data.fill_(float(rank))
        averager.average_parameters([a])
        seen.append(a[0, 0].item() == mean)
    assert seen == [False, False, True, False, False, True, False, False, True] and averager.step == 9
    hierarchy = HierarchicalModelAverager(OrderedDict([(2, 2), (4, 4)]), warmup_steps=1)
    seen = []
    for _ in range(9):
        a.data.fill_(float(rank))
        hierarchy.average_parameters([a])
        seen.append(a[0, 0].item())
    pair = rank // 2 * 2 + 0.5
    assert seen == [rank, rank, pair, rank, mean, rank, pair, rank, mean]
    for wrong, said in (
        (None, "must not be empty"),
        ({0: 4}, "must be a positive value"),
        ({2: 2}, "must be equal to the size of arg ``process_group`` 4"),
        ({4: 2, 2: 4}, "must grow"),
        ({2: 3, 4: 4}, "must be divisible"),
    ):
        with pytest.raises(ValueError, match=said):
            HierarchicalModelAverager(wrong)
    for arguments in (dict(period=0), dict(period=2, warmup_steps=-1)):
        with pytest.raises(ValueError, match="must be a"):
            PeriodicModelAverager(**arguments)
    with pytest.warns(UserWarning, match="When period is 1"):
        PeriodicModelAverager(period=1)


def test_averages_of_parameters():
    world(4, averages)


# --- hooks ------------------------------


def gradients(step, rank, shapes):
    rng = np.random.default_rng(100 * step + rank)
    return [rng.normal(size=shape).astype("float32") for shape in shapes]


class Given(nn.Module):
    """A module whose gradients are what is given."""

    def __init__(self, shapes):
        super().__init__()
        self.weights = nn.ParameterList([nn.Parameter(torch.zeros(shape)) for shape in shapes])

    def forward(self, wanted):
        return sum((p * torch.from_numpy(g)).sum() for p, g in zip(self.weights, wanted))


SHAPES = [(12, 10), (10,), (6, 4, 5), (12, 10), (2, 2)]


def backward(model, step, rank):
    for p in model.module.weights:
        p.grad = None
    model(gradients(step, rank, SHAPES)).backward()
    return [p.grad.numpy().copy() for p in model.module.weights]


def everyones(step, size):
    return [gradients(step, rank, SHAPES) for rank in range(size)]


def a_hook_of_pytorchs_kind(rank, size):
    """A hook as PyTorch's documentation has it: it divides, since the gradients are those of its process."""
    model, seen = DDP(Given(SHAPES)), []

    def hook(state, bucket):
        tensor = bucket.buffer()
        seen.append(tensor.clone())
        tensor.div_(size)
        return dist.all_reduce(tensor, async_op=True).get_future().then(lambda done: done.value()[0])

    model.register_comm_hook(None, hook)
    result = backward(model, 0, rank)
    for mine, want in zip(result, np_mean(0, size)):
        np.testing.assert_allclose(mine, want, rtol=1e-5, atol=1e-6)
    own = np.concatenate([g.reshape(-1) for g in reversed(gradients(0, rank, SHAPES))])
    np.testing.assert_array_equal(torch.cat(seen).numpy(), own)
    for kind in DDPCommHookType:
        model = DDP(Given(SHAPES))
        register_ddp_comm_hook(kind, model)
        result = backward(model, 0, rank)
        wants = gradients(0, rank, SHAPES) if kind.name == "NOOP" else np_mean(0, size)
        for mine, want in zip(result, wants):
            np.testing.assert_allclose(mine, want, rtol=3e-2, atol=3e-2)


def np_mean(step, size):
    return [np.mean(each, 0) for each in zip(*everyones(step, size))]


def test_hooks_average_the_gradients_of_each_process():
    world(2, a_hook_of_pytorchs_kind)


def qr_approximation(matrices, q, n):
    """One step of PowerSGD by NumPy: what replaces the average, and the next Q."""
    p, _ = np.linalg.qr(sum(m @ q for m in matrices))
    q = sum(m.T @ p for m in matrices) / n
    return p @ q.T, q


def power(rank, size, hook, by_shape):
    state = PowerSGDState(
        None,
        matrix_approximation_rank=2,
        start_powerSGD_iter=2,
        min_compression_rate=1,
        batch_tensors_with_same_shape=by_shape,
    )
    model = DDP(Given(SHAPES), bucket_cap_mb=0.001 if hook is powerSGD_hook else 25)
    model.register_comm_hook(state, hook)
    errors = [[np.zeros(shape) for shape in SHAPES] for _ in range(size)]
    bases: dict = {}
    for step in range(6):
        if step == 4:  # a state travels without its group
            fresh = pickle.loads(pickle.dumps(state))
            assert fresh.iter == 4 and fresh.process_group is dist.group.WORLD
            model.reducer.state = state = fresh
        result = backward(model, step, rank)
        given = everyones(step, size)
        if step < 2:
            for mine, want in zip(result, np_mean(step, size)):
                np.testing.assert_allclose(mine, want, rtol=1e-5, atol=1e-6)
            continue
        if hook is batched_powerSGD_hook:
            check_square(result, given, errors, bases, state, size, step)
            continue
        for k, shape in enumerate(SHAPES):
            corrected = [given[r][k] + errors[r][k] for r in range(size)]
            rows, columns = shape[0], int(np.prod(shape[1:]))
            if len(shape) > 1 and (rows + columns) * min(rows, columns, 2) < rows * columns:
                matrices = [m.reshape(rows, columns).astype("float64") for m in corrected]
                if k not in bases:  # the first Q is drawn: the result lies in the span that it gives
                    mean = sum(matrices) / size
                    mine = result[k].reshape(rows, columns)
                    assert np.linalg.matrix_rank(mine, tol=1e-4) == 2
                    p, _, _ = np.linalg.svd(mine)
                    np.testing.assert_allclose(p[:, :2] @ p[:, :2].T @ mean, mine, rtol=1e-3, atol=1e-4)
                    bases[k] = mine.T @ p[:, :2]
                    want = mine
                else:
                    q, _ = np.linalg.qr(bases[k])
                    want, bases[k] = qr_approximation(matrices, q, size)
                want = want.reshape(shape)
            else:
                want = np.mean(corrected, 0)
            np.testing.assert_allclose(result[k], want, rtol=1e-3, atol=1e-4)
            for r in range(size):
                errors[r][k] = corrected[r] - want
    ratio, before, after = state.compression_stats()
    assert ratio == before / after > 1 and before == 4 * 374
    everywhere = [None] * size
    dist.all_gather_object(everywhere, [g.tobytes() for g in result])
    assert everywhere == [everywhere[0]] * size  # the same bits on all


def check_square(result, given, errors, bases, state, size, step):
    flat = [np.concatenate([g.reshape(-1) for g in reversed(each)]).astype("float64") for each in given]
    side = int(np.ceil(np.sqrt(flat[0].size)))
    left = bases.setdefault("errors", [np.zeros(flat[0].size) for _ in range(size)])
    corrected = [f + e for f, e in zip(flat, left)]
    mine = np.concatenate([g.reshape(-1) for g in reversed(result)])
    if "q" in bases:
        squares = [np.pad(c, (0, side * side - c.size)).reshape(side, side) for c in corrected]
        q, _ = np.linalg.qr(bases["q"])
        want, _ = qr_approximation(squares, q, size)
        np.testing.assert_allclose(mine, want.reshape(-1)[: mine.size], rtol=1e-3, atol=1e-3)
    bases["q"] = state.q_memory_dict[0].numpy().reshape(side, 2).astype("float64")
    bases["errors"] = [c - mine for c in corrected]


@pytest.mark.parametrize(
    "hook, by_shape", [(powerSGD_hook, False), (powerSGD_hook, True), (batched_powerSGD_hook, False)]
)
def test_power_sgd_is_one_step_of_subspace_iteration(hook, by_shape):
    world(2, power, hook, by_shape)


def converging(rank, size):
    """Error feedback: over the steps the sum of what is applied comes to the sum of the averages."""
    state = PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2)
    model = DDP(Given(SHAPES))
    model.register_comm_hook(state, powerSGD_hook)
    for step in range(2):
        backward(model, step, rank)
    total = [np.zeros(shape) for shape in SHAPES]
    for _ in range(60):
        for sums, mine in zip(total, backward(model, 7, rank)):
            sums += mine
    for sums, want in zip(total, np_mean(7, size)):
        assert np.abs(sums / 60 - want).max() < 0.25 * np.abs(want).max() + 0.05


def test_power_sgd_with_errors_fed_back_comes_to_the_average():
    world(2, converging)


def test_matrices_that_are_zero_or_dependent():
    for epsilon in (0, 1e-8):
        x = torch.zeros(2, 4, 3)
        x[1, :, 0], x[1, :, 1] = 1.0, 1.0
        _orthogonalize(x, epsilon)
        assert x.isfinite().all() and (x[0] == 0).all()
        np.testing.assert_allclose(x[1, :, 0].numpy(), 0.5, rtol=1e-6)
    half = torch.randn(1, 9, 3).to(torch.bfloat16)
    _orthogonalize(half)
    assert (half[0].float().t() @ half[0].float() - torch.eye(3)).abs().max() < 0.05
    with pytest.raises(ValueError, match=re.escape("Expect `start_powerSGD_iter` > 1")):
        PowerSGDState(None, start_powerSGD_iter=1)


def local(rank, size):
    pair, _ = dist.new_subgroups(2)
    for subgroup, everybody in ((pair, True), (None, False)):
        state = PostLocalSGDState(
            None, subgroup, start_localSGD_iter=2, post_local_gradient_allreduce=everybody
        )
        model = DDP(Given(SHAPES), bucket_cap_mb=0.001)
        model.register_comm_hook(state, post_localSGD_hook)
        for step in range(4):
            result, given = backward(model, step, rank), everyones(step, size)
            if step < 2:
                members = range(size)
            else:
                members = dist.get_process_group_ranks(pair) if everybody else [rank]
            for k, mine in enumerate(result):
                want = np.mean([given[r][k] for r in members], 0)
                np.testing.assert_allclose(mine, want, rtol=1e-5, atol=1e-6)


def test_gradients_are_averaged_over_all_then_over_some():
    world(4, local)
