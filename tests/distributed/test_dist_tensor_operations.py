"""Every operation with a sharding rule on distributed tensors, with random placements, and its gradients, against whole tensors."""

from __future__ import annotations

import sys
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest
from worlds import world

import flambeau
from flambeau.distributed.device_mesh import init_device_mesh
from flambeau.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

sys.path.insert(0, str(Path(__file__).parent.parent / "operations"))

from samples import ALL, Operands, result, tensors_in


class Distributed(Operands):
    """Operands that lie in random ways, the same on all processes."""

    def __init__(self, mesh, rng, grad):
        super().__init__(grad=grad)
        self.mesh, self.rng = mesh, rng

    def make(self, name):
        plain = Operands(grad=False).make(name)
        if not isinstance(plain, flambeau.Tensor):
            return plain
        fits = [Replicate(), *map(Shard, range(plain.dim()))]
        placements = [fits[self.rng.integers(len(fits))] for _ in range(self.mesh.ndim)]
        result = distribute_tensor(plain, self.mesh, placements, src_data_rank=None)
        if self.grad and (plain.is_floating_point() or plain.is_complex()):
            self.leaves.append(result.requires_grad_())
            result = result.mul(1)
        return result


def _whole(x):
    return x.full_tensor() if isinstance(x, DTensor) else x


def _same(one, other):
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if one.is_floating_point() or one.is_complex():
        rough = 1e-9 if one.element_size() > 4 else 1e-5 if one.element_size() > 2 else 2e-2
        one, other = (x if x.is_complex() else x.double() for x in (one, other))
        return bool(flambeau.allclose(one, other, rtol=rough, atol=rough, equal_nan=True))
    return bool(flambeau.equal(one, other))


def _outcome(entry, text, mesh, rng, grad):
    """What is wrong with a call on distributed tensors, "" for nothing, or "refused: …"."""
    flambeau.manual_seed(7)
    plain = Operands(grad=grad)
    try:
        expected = tensors_in(result(entry, text, plain))
        expected_operands = {
            n: x.detach().clone() for n, x in plain.items() if isinstance(x, flambeau.Tensor)
        }
    except Exception as error:
        return f"skipped: {error!r}"
    flambeau.manual_seed(7)
    given = Distributed(mesh, rng, grad)
    try:
        actual = tensors_in(result(entry, text, given))
    except NotImplementedError as error:
        return f"refused: {error}"
    except RuntimeError as error:
        if any(said in str(error) for said in ("placement change", "keeps its shape", "mixed torch.Tensor")):
            return f"refused: {error}"
        raise
    if len(actual) != len(expected):
        return f"{len(actual)} results, {len(expected)} expected"
    for one, other in zip(actual, expected):
        if isinstance(one, DTensor) and not _same(_whole(one.detach()), other.detach()):
            return f"values differ: {one.placements} {_whole(one.detach())} {other}"
    for name, x in expected_operands.items():
        if isinstance(given.get(name), DTensor) and not _same(_whole(given[name].detach()), x):
            return f"the operand {name} differs"
    if not grad:
        return "" if any(isinstance(x, DTensor) for x in actual) or not actual else "plain"
    if not any(x.requires_grad for x in expected) or not all(isinstance(x, DTensor) for x in actual):
        return "" if actual else "plain"

    def loss(results):
        parts = [(x.real if x.is_complex() else x).double().pow(2).sum() for x in results if x.requires_grad]
        return sum(parts[1:], parts[0])

    try:
        loss(expected).backward()
    except Exception as error:
        return f"skipped: {error!r}"
    try:
        total = loss(actual)
        (total.full_tensor() if isinstance(total, DTensor) else total).backward()
    except NotImplementedError as error:
        return f"refused backward: {error}"
    for one, other in zip(given.leaves, [plain.leaves[k] for k in range(len(plain.leaves))]):
        if (one.grad is None) != (other.grad is None):
            return f"a gradient is {one.grad}, expected {other.grad}"
        if one.grad is not None and not _same(_whole(one.grad), other.grad):
            return f"gradients differ: {one.grad.placements} {_whole(one.grad)} {other.grad}"
    return ""


def _all(rank, size, shape, calls):
    """What is wrong, by call: on every process the same calls in the same order."""
    warnings.simplefilter("ignore")
    mesh, result = init_device_mesh("cpu", shape), {}
    for k in calls:
        entry, text = ALL[k]
        rng = np.random.default_rng(zlib.crc32(f"{entry.name} {text} {shape}".encode()))
        try:
            result[k] = _outcome(entry, text, mesh, rng, True)
        except Exception as error:
            result[k] = f"raised: {error!r}"
    return result


# Operations that have a rule: how many calls of samples.py run at the least, so that a rule that is lost shows.
LEAST = 0.6


@pytest.mark.parametrize(("size", "shape", "every"), [(2, (2,), 3), (4, (2, 2), 12)])
def test_operations_are_those_on_whole_tensors(size, shape, every):
    calls = [
        k for k, (entry, text) in enumerate(ALL) if zlib.crc32(f"{entry.name} {text}".encode()) % every == 0
    ]
    for rank, outcomes in enumerate(world(size, _all, shape, calls, seconds=30)):
        wrong = {
            (ALL[k][0].name, ALL[k][1]): said
            for k, said in outcomes.items()
            if said and not said.startswith(("refused", "skipped", "plain"))
        }
        assert not wrong, (rank, wrong)
        ran = sum(not said for said in outcomes.values())
        assert ran > LEAST * len(calls), (ran, len(calls))


def _uneven(rank, size):
    """Dimensions smaller than the mesh, and none at all."""
    mesh = init_device_mesh("cpu", (size,))
    for shape in ((1, 3), (3, 1), (5, 2), (0, 4)):
        x = flambeau.arange(float(np.prod(shape))).reshape(shape) + 1
        w = flambeau.arange(shape[1] * 2.0).reshape(2, shape[1])
        for dim in (0, 1):
            plain = x.clone().requires_grad_()
            d = distribute_tensor(x, mesh, [Shard(dim)]).requires_grad_()
            weight = distribute_tensor(w, mesh, [Replicate()])
            for f in (
                lambda t, m: (t @ m.T).exp(),
                lambda t, m: t.softmax(1),
                lambda t, m: t.sum(0) * t.mean(1, True),
                lambda t, m: flambeau.nn.functional.layer_norm(t, t.shape[1:]),
                lambda t, m: flambeau.cat([t, t * 2], 1).t(),
                lambda t, m: t.amax(1) if t.shape[1] else t,
            ):
                one, other = f(plain, w), f(d, weight)
                assert _same(_whole(other.detach()), one.detach()), (shape, dim, other)
                plain.grad = d.grad = None
                (one**2).sum().backward()
                (other**2).sum().backward()
                assert _same(_whole(d.grad), plain.grad), (shape, dim)
    return True


def _written(rank, size):
    """In-place forms, `out=`, items, and what they refuse."""
    mesh = init_device_mesh("cpu", (size,))
    x = flambeau.arange(12.0).reshape(4, 3)
    d, r = distribute_tensor(x, mesh, [Shard(0)]), distribute_tensor(x, mesh, [Replicate()])
    piece = d.to_local()
    d.add_(r).mul_(2)
    assert (
        d.placements == (Shard(0),)
        and d.to_local().data_ptr() == piece.data_ptr()
        and _same(d.full_tensor(), x * 4)
    )
    d[:, 1] = 7.0
    d.t()[0].zero_()
    expected = x * 4
    expected[:, 1], expected[:, 0] = 7.0, 0.0
    assert _same(d.full_tensor(), expected)
    out = distribute_tensor(flambeau.zeros(4, 3), mesh, [Shard(1)])
    assert flambeau.add(r, r, out=out) is out and _same(out.full_tensor(), 2 * x)
    partial = DTensor.from_local(x, mesh, [Partial()])
    assert (partial + partial).placements == (partial * 2).placements == (Partial(),)
    assert partial.exp().placements == (Replicate(),) and (partial * r).placements == (Partial(),)
    for wrong in (
        lambda: r.add_(distribute_tensor(flambeau.ones(2, 4, 3), mesh, [Replicate()])),
        lambda: d.__setitem__(0, 1.0),
        lambda: partial.exp_(),
        lambda: flambeau.add(r, r, out=distribute_tensor(flambeau.zeros(2), mesh, [Replicate()])),
    ):
        with pytest.raises(RuntimeError):
            wrong()
    assert d[1:, :2].full_tensor().tolist() == expected[1:, :2].tolist()
    rows = distribute_tensor(flambeau.tensor([2, 0]), mesh, [Replicate()])
    columns = distribute_tensor(x, mesh, [Shard(1)])
    assert columns[rows].placements == (Shard(1),) and _same(columns[rows].full_tensor(), x[[2, 0]])
    assert (
        d.sum().item() == expected.sum().item()
        and bool((d >= 0).all())
        and d.max().item() == expected.max().item()
    )
    # the numbers of one process
    for run in (
        lambda t: flambeau.nn.functional.dropout(t, 0.5),
        flambeau.rand_like,
        lambda t: t.clone().normal_(),
    ):
        flambeau.manual_seed(1)
        one = run(x)
        flambeau.manual_seed(1)
        assert _same(run(columns).full_tensor(), one)
    # an embedding whose words are cut
    words = distribute_tensor(x, mesh, [Shard(0)])
    actual = flambeau.nn.functional.embedding(
        distribute_tensor(flambeau.tensor([[3, 1]]), mesh, [Replicate()]), words
    )
    assert actual.placements == (Partial(),) and _same(actual.full_tensor(), x[[3, 1]].unsqueeze(0))
    with pytest.raises(IndexError):
        flambeau.nn.functional.embedding(distribute_tensor(flambeau.tensor([4]), mesh, [Replicate()]), words)
    return True


@pytest.mark.parametrize("size", [2, 4])
def test_uneven_pieces_and_writes(size):
    assert all(world(size, _both))


def _both(rank, size):
    return _uneven(rank, size) and _written(rank, size)
