"""Repeated calls on distributed tensors: rules are read once, and what is kept of a call keeps no tensor and no mesh alive."""

from __future__ import annotations

import gc
import weakref

import pytest

import flambeau
import flambeau.distributed as dist
from flambeau.distributed.tensor import (
    Partial,
    Replicate,
    Shard,
    _dispatch,
    _plans,
    distribute_tensor,
    init_device_mesh,
)


@pytest.fixture
def mesh():
    dist.init_process_group("fake", rank=0, world_size=2)
    yield init_device_mesh("cpu", (2,))
    dist.destroy_process_group()


@pytest.fixture
def runs(monkeypatch):
    result = []
    choice = _dispatch._Run._choice

    def counted(self, k):
        result.append(self.op.__name__)
        return choice(self, k)

    monkeypatch.setattr(_dispatch._Run, "_choice", counted)
    return result


def _place(mesh, *shape, placement):
    return distribute_tensor(flambeau.rand(*shape), mesh, [placement])


def _step(x, w):
    out = flambeau.nn.functional.linear(x, w) * 2 + x[:, :4]
    out.t().exp().sum().backward()
    return out


def test_second_call_reads_no_rule(mesh, runs):
    x, w = _place(mesh, 6, 8, placement=Shard(0)), _place(mesh, 4, 8, placement=Replicate())
    w.requires_grad_()
    first = _step(x, w)
    assert runs
    w.grad = None
    runs.clear()
    second = _step(x, w)
    assert runs == []
    assert second.placements == first.placements
    assert flambeau.equal(second.to_local(), first.to_local())


@pytest.mark.parametrize(
    "one, other",
    [
        (lambda x: x + 1, lambda x: x + 1.0),
        (lambda x: x + True, lambda x: x + 1),
        (lambda x: x.copysign(0.0), lambda x: x.copysign(-0.0)),
        (lambda x: x.sum(0), lambda x: x.sum(1)),
        (lambda x: x[:2], lambda x: x[2:]),
        (lambda x: x.add_(1), lambda x: x.add_(2)),
    ],
)
def test_other_arguments_have_other_plans(mesh, one, other):
    plain = flambeau.arange(12).reshape(4, 3) + 1
    for call in (one, other, one, other):
        got = call(distribute_tensor(plain.clone(), mesh, [Replicate()])).full_tensor()
        expected = call(plain.clone())
        assert got.dtype == expected.dtype
        assert flambeau.equal(got, expected)


def test_placements_and_default_dtype_are_in_the_key(mesh):
    x = distribute_tensor(flambeau.arange(8), mesh, [Shard(0)])
    assert (x / 2).dtype == flambeau.float32
    flambeau.set_default_dtype(flambeau.float64)
    try:
        assert (x / 2).dtype == flambeau.float64
    finally:
        flambeau.set_default_dtype(flambeau.float32)
    assert x.sum().placements == (Partial(),)
    assert distribute_tensor(flambeau.arange(8), mesh, [Replicate()]).sum().placements == (Replicate(),)


def test_refusals_are_not_kept(mesh):
    to_be_added = _place(mesh, 4, placement=Shard(0)).sum()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="placement change"):
            to_be_added.exp_()


def test_plans_are_bounded(mesh, monkeypatch):
    monkeypatch.setattr(_plans, "LIMIT", 5)
    x = _place(mesh, 4, placement=Shard(0))
    for n in range(20):
        x + n
    assert len(mesh._sharding_plans) == 5


def test_nothing_is_kept_alive():
    dist.init_process_group("fake", rank=0, world_size=2)
    gc.collect()
    gc.disable()
    try:
        mesh = init_device_mesh("cpu", (2,))
        x = _place(mesh, 4, 4, placement=Shard(0))
        for _ in range(2):
            y = (x + 1).t().sum()
        dead = [weakref.ref(t) for t in (x, x._local_tensor, y)]
        del x, y
        assert [ref() for ref in dead] == [None] * 3
    finally:
        gc.enable()
        dist.destroy_process_group()
    gone = weakref.ref(mesh)
    del mesh
    gc.collect()
    assert gone() is None
