"""Optimizers of several processes: the same steps as one process's optimizer, with states that are distributed."""

from __future__ import annotations

import numpy as np
import pytest
from worlds import world

import flambeau as torch
import flambeau.distributed as dist
from flambeau import nn
from flambeau.distributed.algorithms.join import Join
from flambeau.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from flambeau.distributed.optim import (
    PostLocalSGDOptimizer,
    ZeroRedundancyOptimizer,
    _apply_optimizer_in_backward,
    _get_in_backward_optimizers,
)

DDP = nn.parallel.DistributedDataParallel


def net(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))


def batch(step, rank, size):
    x = torch.from_numpy(np.random.default_rng(step).normal(size=(4 * size, 4)).astype("float32"))
    return x if rank is None else x[4 * rank : 4 * rank + 4]


def loss(model, x):
    return (model(x) - x.sum(1, keepdim=True)).square().mean()


def train(model, optimizer, steps, rank, size, first=0):
    for step in range(first, first + steps):
        optimizer.zero_grad()
        loss(model, batch(step, rank, size)).backward()
        optimizer.step()


def same(one, other):
    for (name, p), q in zip(one.named_parameters(), other.parameters()):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=1e-5, atol=1e-6, err_msg=name)


KINDS = [
    (torch.optim.SGD, dict(lr=0.05, momentum=0.9)),
    (torch.optim.AdamW, dict(lr=0.01, weight_decay=0.1)),
    (torch.optim.Adagrad, dict(lr=0.05)),
]


def steps(rank, size):
    for kind, options in KINDS:
        for view in (False, True):
            reference, model = net(), DDP(net())
            whole = kind(reference.parameters(), **options)
            zero = ZeroRedundancyOptimizer(
                model.parameters(), optimizer_class=kind, parameters_as_bucket_view=view, **options
            )
            scheduled = [torch.optim.lr_scheduler.StepLR(each, 2, 0.5) for each in (whole, zero)]
            for step in range(4):
                train(reference, whole, 1, None, size, step)
                train(model, zero, 1, rank, size, step)
                for scheduler in scheduled:
                    scheduler.step()
            same(model.module, reference)
            assert zero.param_groups[0]["lr"] == whole.param_groups[0]["lr"] == options["lr"] / 4
            # About a share of the elements is this process's, and no state of the others'.
            mine = sum(p.numel() for p in zero.optim.state)
            elements = sum(p.numel() for p in reference.parameters())
            assert mine <= elements / size + 64 and len(zero._param_to_rank) == 6
            assert {p for p, owner in zero._param_to_rank.items() if owner == rank} == set(zero.optim.state)
            # The state of all, collected in one, is that of one process's optimizer.
            with pytest.raises(RuntimeError, match="has not been consolidated on this rank"):
                zero.state_dict()
            zero.consolidate_state_dict(to=size - 1)
            results = [None]
            if rank == size - 1:
                results = [zero.state_dict()]
                want = whole.state_dict()
                assert results[0]["state"].keys() == want["state"].keys()
                for number, state in want["state"].items():
                    for key, value in state.items():
                        other = results[0]["state"][number][key]
                        np.testing.assert_allclose(other.numpy(), value.numpy(), rtol=1e-4, atol=1e-6)
                assert results[0]["param_groups"][0].keys() == want["param_groups"][0].keys()
            else:
                with pytest.raises(RuntimeError, match="has not been consolidated on this rank"):
                    zero.state_dict()
            # It loads here, also into another share, and the steps after it are the same.
            dist.broadcast_object_list(results, src=size - 1)
            before = set(results[0]["state"])
            again = ZeroRedundancyOptimizer(model.parameters(), kind, **{**options, "lr": 7.0})
            again.load_state_dict(results[0])
            assert set(results[0]["state"]) == before and again.param_groups[0]["lr"] == options["lr"] / 4
            train(reference, whole, 2, None, size, 9)
            train(model, again, 2, rank, size, 9)
            same(model.module, reference)
            fresh = kind(reference.parameters(), **options)
            fresh.load_state_dict(results[0])


@pytest.mark.parametrize("size", [1, 2, 3])
def test_steps_and_states_are_those_of_one_process(size):
    world(size, steps)


def groups_and_hooks(rank, size):
    model = net()
    layers = list(model.children())
    named = [(f"a.{n}", p) for n, p in layers[0].named_parameters()]
    zero = ZeroRedundancyOptimizer(named, torch.optim.Adam, lr=0.1)
    owners = zero._param_to_rank
    zero.add_param_group({"params": ((f"b.{n}", p) for n, p in layers[2].named_parameters()), "lr": 0.5})
    assert {p: zero._param_to_rank[p] for p in owners} == owners
    assert zero.param_groups[1]["lr"] == 0.5 and zero.param_groups[1]["betas"] == (0.9, 0.999)
    assert zero.param_groups[1]["param_names"] == ["b.weight", "b.bias"]
    mine = [name for group in zero.optim.param_groups for name in group["param_names"]]
    parts = [None] * size
    dist.all_gather_object(parts, mine)
    assert sorted(sum(parts, [])) == ["a.bias", "a.weight", "b.bias", "b.weight"]
    assert [len(groups) for groups in zero._partition_parameters()] == [2] * size
    seen = []
    zero.register_step_pre_hook(lambda optimizer, args, kwargs: seen.append("before"))
    zero.register_step_post_hook(lambda optimizer, args, kwargs: seen.append("after"))

    def closure():
        zero.zero_grad()
        result = loss(model, batch(0, rank, size))
        result.backward()
        seen.append("closure")
        return result

    assert zero.step(closure).item() > 0 and seen == ["before", "closure", "after"]
    before = layers[0].weight.detach().clone()
    everywhere = [torch.zeros_like(before) for _ in range(size)]
    dist.all_gather(everywhere, before)
    assert all(torch.equal(each, before) for each in everywhere)
    # Parameters that stop and begin to require gradients, in buckets.
    model = net()
    view = ZeroRedundancyOptimizer(
        model.parameters(), torch.optim.SGD, lr=0.1, parameters_as_bucket_view=True
    )
    model[0].weight.requires_grad_(False)
    frozen = model[0].weight.detach().clone()
    train(model, view, 1, rank, size)
    assert torch.equal(model[0].weight, frozen)
    model[0].weight.requires_grad_(True)
    train(model, view, 1, rank, size)
    assert not torch.equal(model[0].weight, frozen)
    # A group of parameters that leaves a process without any.
    for wrong in (layers[4].weight, [layers[4].weight], {"params": {layers[4].weight}}):
        with pytest.raises(TypeError, match="param_group must be a dict|in ordered collections"):
            zero.add_param_group(wrong)
    few = nn.Parameter(torch.ones(3))
    single = ZeroRedundancyOptimizer([few], torch.optim.SGD, lr=1.0)
    few.grad = torch.ones(3)
    single.step()
    assert few.tolist() == [0, 0, 0]
    with pytest.raises(ValueError, match="to must be a rank of a group of 2, got 2"):
        single.consolidate_state_dict(to=2)
    for wrong, error, said in (
        (few, TypeError, "should be an iterable of Tensors, but got Parameter"),
        (3, TypeError, "should be an iterable of Tensors, but got int"),
        ([], ValueError, "empty parameter list"),
        ([few, 3], TypeError, "should be an iterable of Tensors, but got int"),
        ([few, {"params": []}], TypeError, "not of both"),
        ([few, nn.Parameter(torch.ones(1, dtype=torch.float64))], TypeError, "the same dtype, but got both"),
        ([torch.ones(2, 2).to_sparse().requires_grad_()], TypeError, "only supports dense"),
    ):
        with pytest.raises(error, match=said):
            ZeroRedundancyOptimizer(wrong, torch.optim.SGD, lr=0.1)
    with pytest.raises(NotImplementedError, match="overlap_with_ddp"):
        ZeroRedundancyOptimizer([few], torch.optim.SGD, overlap_with_ddp=True)


def test_groups_hooks_and_wrong_parameters():
    world(2, groups_and_hooks)


class Gradients(dist.algorithms.join.Joinable):
    """Gives processes without inputs the gradients that steps go on with."""

    def __init__(self, model, group):
        super().__init__()
        self.model, self.group = model, group

    def join_hook(self, **kwargs):
        return GradientsHook(self.model)

    join_device = torch.device("cpu")

    @property
    def join_process_group(self):
        return self.group


class GradientsHook(dist.algorithms.join.JoinHook):
    def __init__(self, model):
        self.model = model

    def main_hook(self):
        for p in self.model.parameters():
            p.grad = torch.ones_like(p)


def joining(rank, size):
    model, reference = net(), net()
    zero = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1)
    whole = torch.optim.SGD(reference.parameters(), lr=0.1)
    counting = Gradients(model, zero.process_group)
    inputs = 3 if rank == 0 else 1
    with Join([counting, zero]):
        for _ in range(inputs):
            Join.notify_join_context(counting)
            for p in model.parameters():
                p.grad = torch.ones_like(p)
            zero.step()
    for _ in range(3):
        for p in reference.parameters():
            p.grad = torch.ones_like(p)
        whole.step()
    same(model, reference)


def test_a_process_without_inputs_steps_along():
    world(2, joining)


def local_sgd(rank, size):
    model, alone = net(), [net() for _ in range(size)]
    inner = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.5)
    optimizer = PostLocalSGDOptimizer(inner, PeriodicModelAverager(period=2, warmup_steps=1))
    others = [torch.optim.SGD(each.parameters(), lr=0.05, momentum=0.5) for each in alone]
    for step in range(6):
        train(model, optimizer, 1, rank, size, step)
        for r, (each, own) in enumerate(zip(alone, others)):
            train(each, own, 1, r, size, step)
        if step >= 1 and (step - 1) % 2 == 0:
            with torch.no_grad():
                for same_place in zip(*(each.parameters() for each in alone)):
                    mean = sum(same_place) / size
                    for p in same_place:
                        p.copy_(mean)
        same(model, alone[rank])
    state = optimizer.state_dict()
    assert state["step"] == 6 and optimizer.state is inner.state and "SGD" in repr(optimizer)
    again = PostLocalSGDOptimizer(
        torch.optim.SGD(net().parameters(), lr=0.1), PeriodicModelAverager(period=2)
    )
    again.load_state_dict(state)
    assert again.averager.step == 6 and again.param_groups[0]["lr"] == 0.05
    with pytest.warns(UserWarning, match="does not contain a step counter"):
        again.load_state_dict(inner.state_dict())
    assert again.averager.step == 0
    again.add_param_group({"params": [nn.Parameter(torch.ones(1))]})
    assert len(again.param_groups) == 2


def test_post_local_sgd_is_local_steps_and_averages():
    world(2, local_sgd)


def in_backward(rank, size):
    reference, model = net(), net()
    whole = torch.optim.SGD(reference.parameters(), lr=0.05, momentum=0.9)
    _apply_optimizer_in_backward(torch.optim.SGD, model.parameters(), {"lr": 0.05, "momentum": 0.9})
    assert len(_get_in_backward_optimizers(model)) == 6
    ddp = DDP(model, bucket_cap_mb=0.0001)
    for step in range(3):
        train(reference, whole, 1, None, size, step)
        loss(ddp, batch(step, rank, size)).backward()
        assert all(p.grad is None for p in model.parameters())
    same(model, reference)


def test_optimizers_in_backward():
    reference, model = net(), net()
    whole = torch.optim.Adam(reference.parameters(), lr=0.01)
    _apply_optimizer_in_backward(torch.optim.Adam, model.parameters(), {"lr": 0.01})
    for step in range(3):
        train(reference, whole, 1, None, 1, step)
        loss(model, batch(step, None, 1)).backward()
    same(model, reference)
    tied = nn.Parameter(torch.ones(1))  # two optimizers of one parameter, each stepped once
    for rate in (0.5, 0.25):
        _apply_optimizer_in_backward(torch.optim.SGD, [tied], {"lr": rate})
    tied.sum().backward()
    assert tied.item() == 0.25
    silent = nn.Parameter(torch.ones(1))
    _apply_optimizer_in_backward(torch.optim.SGD, [silent], {"lr": 0.5}, register_hook=False)
    silent.sum().backward()
    assert silent.item() == 1.0 and silent.grad.item() == 1.0
    world(2, in_backward)
