"""Distributed tensors: meshes, placements, and the ways between them, with gradients; against the whole tensor."""

from __future__ import annotations

import copy
import io
import itertools
import pickle

import numpy as np
import pytest
from worlds import world

import flambeau
import flambeau.distributed as dist
from flambeau.distributed.device_mesh import DeviceMesh, init_device_mesh
from flambeau.distributed.tensor import (
    DTensor,
    Partial,
    Replicate,
    Shard,
    distribute_module,
    distribute_tensor,
    empty,
    full,
    ones,
    rand,
    randn,
    zeros,
)
from flambeau.distributed.tensor._utils import compute_local_shape_and_global_offset
from flambeau.distributed.tensor.placement_types import _StridedShard

R = Replicate()
SHAPES = [(5, 3), (8, 4), (1, 2), (0, 3), (7,)]


@pytest.fixture
def fake():
    """One process that plays rank 5 of 8."""
    dist.init_process_group("fake", rank=5, world_size=8)
    yield
    dist.destroy_process_group()


# --- meshes ---------------------------------------------------------------------------------------------------------------------------
def test_slices_of_a_mesh(fake):
    mesh = init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("pp", "dp", "tp"))
    assert mesh.shape == (2, 2, 2) and mesh.ndim == 3 and mesh.size() == 8 and mesh.size(1) == 2
    assert (
        mesh.get_coordinate() == (1, 0, 1) and mesh.get_local_rank("pp") == 1 and mesh.get_local_rank(1) == 0
    )
    assert mesh["tp"].mesh.tolist() == [4, 5] and mesh["pp"].mesh.tolist() == [1, 5]
    assert mesh["dp", "tp"].mesh.tolist() == [[4, 5], [6, 7]]
    assert mesh["dp", "tp"]["dp"] == mesh["dp"] and hash(mesh["dp"]) == hash(mesh["dp", "tp"]["dp"])
    assert mesh["pp", "dp", "tp"] is mesh and mesh != mesh["tp"]
    assert mesh["dp", "tp"].get_group("tp") is mesh.get_group(2) is mesh["tp"].get_group()
    assert dist.get_process_group_ranks(mesh.get_group("dp")) == [5, 7]
    assert [g.size() for g in mesh.get_all_groups()] == [2, 2, 2]
    flat = mesh["pp", "dp"]._flatten()
    assert flat.mesh.tolist() == [1, 3, 5, 7] and flat.mesh_dim_names == ("pp_dp",)
    assert (
        mesh["pp_dp"] is flat and mesh["pp", "dp"]._flatten() is flat and mesh.get_group("pp_dp").size() == 4
    )
    assert flat.get_coordinate() == (2,)
    assert [m.mesh.tolist() for m in mesh._get_all_submeshes("dp")] == [[0, 2], [1, 3], [4, 6], [5, 7]]
    assert repr(mesh["dp"]) == "DeviceMesh((dp=2), 'cpu', stride=(2,))"
    for bad, error in ((("tp", "dp"), KeyError), ("x", KeyError), (("pp_dp", "dp"), RuntimeError)):
        with pytest.raises(error):
            mesh[bad]
    with pytest.raises(RuntimeError, match="mesh_dim"):
        mesh.get_group()
    again = pickle.loads(pickle.dumps(mesh["dp", "tp"]))
    assert again == mesh["dp", "tp"] and again.get_group("tp") is mesh.get_group("tp")
    assert copy.deepcopy(mesh) is mesh


def test_meshes_that_cannot_be(fake):
    with pytest.raises(RuntimeError, match="world size 8"):
        init_device_mesh("cpu", (3, 3))
    with pytest.raises(RuntimeError, match="same length"):
        init_device_mesh("cpu", (2, 4), mesh_dim_names=("a",))
    with pytest.raises(RuntimeError, match="unique"):
        init_device_mesh("cpu", (2, 4), mesh_dim_names=("a", "a"))
    with pytest.raises(RuntimeError, match="index"):
        init_device_mesh("cuda:0", (8,))
    with pytest.raises(ValueError, match="twice"):
        DeviceMesh("cpu", [0, 0])
    with pytest.raises(RuntimeError, match="slice"):
        init_device_mesh("cpu", (2, 4))["dp"]
    with pytest.raises(ValueError, match="Invalid mesh"):
        DeviceMesh.from_group(dist.new_group([4, 5]), "cpu", [5, 4])
    with pytest.raises(TypeError):
        DeviceMesh("cpu")


def test_a_process_outside_of_the_mesh(fake):
    mesh = DeviceMesh("cpu", [0, 1, 2])
    assert mesh.get_coordinate() is None
    x = distribute_tensor(flambeau.ones(4, 2), mesh, [Shard(0)])
    assert x.shape == (4, 2) and x.to_local().numel() == 0
    assert (x * 2).sum().to_local().numel() == 0


# --- placements -----------------------------------------------------------------------------------------------------------------------
def test_placements():
    assert Shard(1) == Shard(1) != Shard(0) and hash(Shard(1)) == hash(Shard(1)) and Shard(0) != Replicate()
    assert Partial("avg") != Partial() and repr(Partial("avg")) == "Partial(avg)" and str(Shard(2)) == "S(2)"
    for placement in (Shard(1), R, Partial("max"), _StridedShard(0, split_factor=2)):
        assert pickle.loads(pickle.dumps(placement)) == placement == copy.deepcopy(placement)
    for wrong, error in (("a", TypeError), (1.5, TypeError), (True, TypeError)):
        with pytest.raises(error):
            Shard(wrong)
    with pytest.raises(ValueError, match="reduce_op"):
        Partial("median")


@pytest.mark.parametrize("size", [0, 1, 5, 8, 2**62 + 1])
@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_pieces_are_those_of_chunk(size, n):
    results = [Shard.local_shard_size_and_offset(size, n, rank) for rank in range(n)]
    if size < 100:
        parts = [len(p) for p in np.arange(size).reshape(-1).tolist() and flambeau.arange(size).chunk(n)]
        assert [s for s, _ in results][: len(parts)] == parts and sum(s for s, _ in results) == size
    assert all(begin == min(sum(s for s, _ in results[:k]), size) for k, (_, begin) in enumerate(results))


def test_pieces_on_two_dimensions_of_a_mesh(fake):
    mesh = init_device_mesh("cpu", (2, 4))
    of = compute_local_shape_and_global_offset
    assert of((10, 3), mesh, [Shard(0), Shard(0)]) == ((2, 3), (7, 0))
    assert of((10, 9), mesh, [Shard(0), Shard(1)]) == ((5, 3), (5, 3))
    assert of((16,), mesh, [_StridedShard(0, split_factor=4), Shard(0)]) == ((2,), (6,))
    with pytest.raises(ValueError, match="split_factor"):
        of((16,), mesh, [_StridedShard(0, split_factor=3), Shard(0)])


def test_refused_before_anything_is_sent(fake):
    mesh = init_device_mesh("cpu", (8,))
    x = flambeau.ones(4, 2)
    for placements, error in (
        ([], ValueError),
        ([Shard(2)], IndexError),
        ([0], TypeError),
        ([Partial()], ValueError),
    ):
        with pytest.raises(error):
            distribute_tensor(x, mesh, placements)
    d = distribute_tensor(x, mesh, [Shard(-1)])
    assert d.placements == (Shard(1),)
    with pytest.raises(RuntimeError, match="placements is needed"):
        d.redistribute()
    with pytest.raises(RuntimeError, match="internal use only"):
        d.redistribute(placements=[Partial()])
    with pytest.raises(RuntimeError, match="only accepts"):
        DTensor.from_local(d, mesh)
    with pytest.raises(RuntimeError, match="both shape and stride"):
        DTensor.from_local(x, mesh, shape=(4, 2))
    with pytest.raises(RuntimeError, match="leaf"):
        distribute_tensor(x.requires_grad_() * 2, mesh)
    with pytest.raises(RuntimeError, match="mixed torch.Tensor and DTensor"):
        d + flambeau.ones(4, 2)
    with pytest.raises(NotImplementedError, match=r"cholesky.*no sharding rule"):
        flambeau.linalg.cholesky(distribute_tensor(flambeau.eye(2), mesh))
    with pytest.raises(RuntimeError, match="No device mesh"):
        distribute_tensor(flambeau.ones(2))
    with mesh:
        assert distribute_tensor(flambeau.ones(8), placements=[Shard(0)]).to_local().shape == (1,)


# --- between placements -----------------------------------------------------------------------------------------------------------------
def _meshes(size):
    yield init_device_mesh("cpu", (size,)), [[R], [Shard(0)], [Shard(1)]]
    if size == 4:
        each = [R, Shard(0), Shard(1)]
        strided = [_StridedShard(0, split_factor=2), Shard(0)]
        yield init_device_mesh("cpu", (2, 2)), [*map(list, itertools.product(each, each)), strided]


def _walks(rank, size):
    """Every placement to every other one, forward and back."""
    checked = 0
    for mesh, all_placements in _meshes(size):
        for shape in SHAPES:
            x = flambeau.arange(float(np.prod(shape))).reshape(shape) + 1
            fits = [p for p in all_placements if all(getattr(q, "dim", 0) < len(shape) for q in p)]
            for there, here in itertools.product(fits, fits):
                leaf = x.clone().requires_grad_()
                d = distribute_tensor(leaf.detach(), mesh, there).requires_grad_()
                moved = d.redistribute(placements=here)
                assert moved.placements == tuple(here) and moved.shape == shape
                sizes, begins = compute_local_shape_and_global_offset(shape, mesh, here)
                piece = x[tuple(slice(b, b + s) for b, s in zip(begins, sizes))]
                assert flambeau.equal(moved.to_local(), piece), (shape, there, here)
                assert flambeau.equal(moved.full_tensor(), x), (shape, there, here)
                (moved * moved).sum().full_tensor().backward()
                assert d.grad.placements == tuple(there), (there, here, d.grad.placements)
                assert flambeau.equal(d.grad.full_tensor(), 2 * x), (shape, there, here)
                checked += 1
    return checked


@pytest.mark.parametrize("size", [2, 4])
def test_every_placement_to_every_other(size):
    assert min(world(size, _walks)) > 30


def _reduced(rank, size):
    mesh = init_device_mesh("cpu", (size,))
    mine = flambeau.arange(10.0).reshape(5, 2) * (rank + 1)
    every = np.stack([np.arange(10.0).reshape(5, 2) * (k + 1) for k in range(size)])
    how = {
        "sum": every.sum(0),
        "avg": every.mean(0),
        "max": every.max(0),
        "min": every.min(0),
        "product": every.prod(0),
    }
    for name, expected in how.items():
        for target in ([R], [Shard(0)], [Shard(1)]):
            d = DTensor.from_local(mine, mesh, [Partial(name)])
            assert d.shape == (5, 2)
            np.testing.assert_allclose(
                d.redistribute(placements=target).full_tensor().numpy(), expected, rtol=1e-6
            )
    # of floats that are not numbers, the greatest is none, too
    bad = flambeau.tensor([float("nan") if rank == 0 else 1.0, 2.0])
    assert flambeau.isnan(DTensor.from_local(bad, mesh, [Partial("max")]).full_tensor()).tolist() == [
        True,
        False,
    ]
    # gradients: a summand's is that of the sum
    leaf = mine.clone().requires_grad_()
    d = DTensor.from_local(leaf, mesh, [Partial()])
    (d.redistribute(placements=[Shard(0)]) ** 2).sum().full_tensor().backward()
    np.testing.assert_allclose(leaf.grad.numpy(), 2 * how["sum"], rtol=1e-6)
    # pieces that are used on their own
    whole = flambeau.arange(6.0, requires_grad=True)
    d = distribute_tensor(whole.detach(), mesh, [R]).requires_grad_()
    (d.to_local(grad_placements=[Partial()]) * (rank + 1)).sum().backward()
    assert d.grad.placements == (Partial(),)
    assert d.grad.full_tensor().tolist() == [size * (size + 1) / 2] * 6
    # uneven pieces, with the shape of the whole; and what run_check compares
    n = 3 if rank == 0 else 2
    uneven = (
        DTensor.from_local(
            flambeau.full((n, 2), float(rank)), mesh, [Shard(0)], shape=(2 * size + 1, 2), stride=(2, 1)
        )
        if size == 2
        else None
    )
    if uneven is not None:
        assert uneven.full_tensor().tolist() == [[0, 0]] * 3 + [[1, 1]] * 2
    same = DTensor.from_local(flambeau.full((2,), float(rank)), mesh, [R], run_check=True)
    assert same.to_local().tolist() == [0, 0]
    with pytest.raises(RuntimeError, match="other pieces"):
        DTensor.from_local(flambeau.ones(rank + 1), mesh, [R], run_check=True)
    return True


@pytest.mark.parametrize("size", [2, 4])
def test_what_is_still_to_be_reduced(size):
    assert all(world(size, _reduced))


def _made(rank, size):
    mesh = init_device_mesh("cpu", (size,))
    whole = flambeau.arange(14.0).reshape(7, 2) + (0 if rank == 0 else 100)
    assert flambeau.equal(
        distribute_tensor(whole, mesh, [Shard(0)]).full_tensor(), flambeau.arange(14.0).reshape(7, 2)
    )
    own = distribute_tensor(whole, mesh, [R], src_data_rank=None)
    assert flambeau.equal(own.to_local(), whole)
    for make, expected in ((zeros, 0.0), (ones, 1.0)):
        made = make(7, 2, device_mesh=mesh, placements=[Shard(0)])
        assert made.dtype == flambeau.float32 and made.full_tensor().tolist() == [[expected] * 2] * 7
    assert full((3,), 7, device_mesh=mesh, placements=[Shard(0)]).full_tensor().tolist() == [7, 7, 7]
    assert empty((3, 2), device_mesh=mesh, placements=[Shard(0)], requires_grad=True).requires_grad
    for make, name in ((rand, "rand"), (randn, "randn")):
        flambeau.manual_seed(3)
        actual = make(5, 4, device_mesh=mesh, placements=[Shard(1)]).full_tensor()
        flambeau.manual_seed(3)
        assert flambeau.equal(actual, getattr(flambeau, name)(5, 4))
    net = distribute_module(flambeau.nn.Linear(3, 2), mesh)
    assert all(isinstance(p, DTensor) and isinstance(p, flambeau.nn.Parameter) for p in net.parameters())
    # copies and files
    d = distribute_tensor(flambeau.arange(5.0), mesh, [Shard(0)])
    file = io.BytesIO()
    flambeau.save({"d": d}, file)
    file.seek(0)
    again = flambeau.load(file, weights_only=False)["d"]
    for other in (again, copy.deepcopy(d), pickle.loads(pickle.dumps(d))):
        assert type(other) is DTensor and other.placements == (Shard(0),) and other.device_mesh == mesh
        assert flambeau.equal(other.full_tensor(), flambeau.arange(5.0))
        assert other.to_local().data_ptr() != d.to_local().data_ptr() or not d.to_local().numel()
    return True


def test_made_anew():
    assert all(world(4, _made))
