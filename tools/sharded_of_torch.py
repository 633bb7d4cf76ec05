"""Checkpoints of several processes, and whether PyTorch and flambeau read each other's.

    python tools/sharded_of_torch.py           # writes tests/data/torch/dcp with PyTorch, then checks both directions
    python tools/sharded_of_torch.py --check   # checks only; --write writes only

Needs PyTorch (2.13 wrote what is kept).  The tests read the kept folders without it.  `of_N` are checkpoints of N processes, with DTensors;
`mesh_4` one of a mesh of 2 x 2; `sharded_2` one with PyTorch's old ShardedTensor, `former_2` the same with the names that files of
PyTorch 2.2 have; `alone_2` has metadata for each rank; `hf_2` are safetensors.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "distributed")]
FOLDER = ROOT / "tests" / "data" / "torch" / "dcp"

import numpy as np  # noqa: E402
import sharded  # noqa: E402

os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")


def run(size: int, function: Callable, *args: Any) -> None:
    """`function(rank, size, *args)` in processes of its own; the error of one that fails."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        jobs = [
            context.Process(target=_job, args=(function, rank, size, f"{folder}/store", args))
            for rank in range(size)
        ]
        for job in jobs:
            job.start()
        for job in jobs:
            job.join()
        if any(job.exitcode for job in jobs):
            raise SystemExit(f"{function.__name__} failed")


def _job(function: Callable, rank: int, size: int, store: str, args: tuple) -> None:
    warnings.simplefilter("ignore")
    try:
        function(rank, size, store, *args)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


# --- PyTorch ------------------------------


def torch_group(rank: int, size: int, store: str) -> Any:
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=size)
    return dist


def torch_state(size: int, fill: bool, mesh_shape: tuple[int, ...] | None = None) -> dict[str, Any]:
    """The content as PyTorch's tensors, or zeros to load into."""
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    def made(array: np.ndarray) -> Any:
        tensor = torch.from_numpy(array.copy())
        return tensor if fill else torch.zeros_like(tensor)

    mesh = init_device_mesh("cpu", mesh_shape or (size,))
    model = {name: made(array) for name, array in sharded.whole().items()}
    for name, (array, dim) in sharded.cut().items():
        if mesh_shape is None:
            placements = [Shard(dim)]
        else:
            placements = (
                [Shard(dim), Shard((dim + 1) % array.ndim)] if name != "few" else [Replicate(), Shard(dim)]
            )
        model[name] = distribute_tensor(made(array), mesh, placements)
    groups = [{"lr": g["lr"] if fill else 0.0, "betas": g["betas"] if fill else []} for g in sharded.GROUPS]
    optim = {"state": {"bias": {"step": made(np.array(3.0, dtype="float32"))}}, "param_groups": groups}
    objects = dict(sharded.OBJECTS) if fill else dict.fromkeys(sharded.OBJECTS)
    return {"model": model, "optim": optim, "meta": objects}


def torch_compare(state: dict[str, Any]) -> None:
    from torch.distributed.tensor import DTensor

    arrays = {**sharded.whole(), **{name: array for name, (array, _) in sharded.cut().items()}}
    for name, array in arrays.items():
        tensor = state["model"][name]
        tensor = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
        np.testing.assert_array_equal(tensor.numpy(), array, err_msg=name)
    assert state["meta"] == sharded.OBJECTS and state["optim"]["param_groups"] == sharded.GROUPS
    assert state["optim"]["state"]["bias"]["step"] == 3.0


def torch_saves(rank: int, size: int, store: str, folder: str, mesh: tuple[int, ...] | None) -> None:
    dist = torch_group(rank, size, store)
    import torch.distributed.checkpoint as dcp

    dcp.save(torch_state(size, True, mesh), checkpoint_id=folder)
    dist.barrier()


def torch_saves_alone(rank: int, size: int, store: str, folder: str) -> None:
    dist = torch_group(rank, size, store)
    import torch
    import torch.distributed.checkpoint as dcp

    state = {"mine": torch.full((2,), float(rank)), "rank": rank}
    dcp.save(state, checkpoint_id=folder, use_collectives=False)
    dist.barrier()


def torch_saves_sharded_tensors(rank: int, size: int, store: str, folder: str, former: bool) -> None:
    dist = torch_group(rank, size, store)
    import torch
    import torch.distributed.checkpoint as dcp
    from torch.distributed._shard.sharded_tensor import Shard, init_from_local_shards
    from torch.distributed._shard.sharded_tensor import metadata as old
    from torch.distributed.checkpoint import metadata

    state: dict[str, Any] = {"epoch": 7}
    for name, (array, dim) in sharded.cut().items():
        offsets, sizes = sharded.chunk(array.shape, dim, rank, size)
        box = tuple(slice(b, b + n) for b, n in zip(offsets, sizes))
        shard = Shard.from_tensor_and_offsets(torch.from_numpy(array[box].copy()), offsets, rank)
        state[name] = init_from_local_shards([shard], *array.shape)
    if former:  # where PyTorch until 2.2 had the properties of tensors
        metadata.TensorProperties.__module__ = metadata._MEM_FORMAT_ENCODING.__module__ = old.__name__
        metadata._MEM_FORMAT_ENCODING.__qualname__ = "MEM_FORMAT_ENCODING"
        old.TensorProperties, old.MEM_FORMAT_ENCODING = (
            metadata.TensorProperties,
            metadata._MEM_FORMAT_ENCODING,
        )
    dcp.save(state, checkpoint_id=folder)
    dist.barrier()


def torch_saves_safetensors(rank: int, size: int, store: str, folder: str) -> None:
    dist = torch_group(rank, size, store)
    import torch.distributed.checkpoint as dcp

    model = torch_state(size, True)["model"]
    state = {name: model[name] for name in sharded.cut()}
    dcp.save(state, storage_writer=dcp.HuggingFaceStorageWriter(folder, save_distributed=True))
    dist.barrier()


def torch_loads(rank: int, size: int, store: str, folder: str) -> None:
    dist = torch_group(rank, size, store)
    import torch.distributed.checkpoint as dcp

    state = torch_state(size, False)
    dcp.load(state, checkpoint_id=folder)
    torch_compare(state)
    dist.barrier()


def torch_loads_safetensors(rank: int, size: int, store: str, folder: str) -> None:
    dist = torch_group(rank, size, store)
    import torch.distributed.checkpoint as dcp

    model = torch_state(size, False)["model"]
    state = {name: model[name] for name in sharded.cut()}
    dcp.load(state, storage_reader=dcp.HuggingFaceStorageReader(folder))
    for name, (array, _) in sharded.cut().items():
        np.testing.assert_array_equal(state[name].full_tensor().numpy(), array, err_msg=name)
    dist.barrier()


# --- flambeau ------------------------------


def our_group(rank: int, size: int, store: str) -> Any:
    import flambeau.distributed as dist

    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=size)
    return dist


def our_dtensors() -> dict[str, Any]:
    """What is cut, over a mesh of 2 x 2."""
    import flambeau
    from flambeau.distributed.device_mesh import init_device_mesh
    from flambeau.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh, tensors = init_device_mesh("cpu", (2, 2)), {}
    for name, (array, dim) in sharded.cut().items():
        second = Replicate() if name == "few" else Shard((dim + 1) % array.ndim)
        tensors[name] = distribute_tensor(flambeau.from_numpy(array.copy()), mesh, [Shard(dim), second])
    return tensors


def we_save(rank: int, size: int, store: str, folder: str, how: str) -> None:
    dist = our_group(rank, size, store)
    import chunked

    import flambeau.distributed.checkpoint as dcp

    state = chunked.state(rank, size, True)
    if how == "async":
        dcp.async_save(state, checkpoint_id=folder).result()
    elif how == "mesh":
        state["model"] |= our_dtensors()
        dcp.save(state, checkpoint_id=folder)
    elif how == "safetensors":
        cut = {name: state["model"][name] for name in sharded.cut()}
        dcp.save(cut, storage_writer=dcp.HuggingFaceStorageWriter(folder, save_distributed=True))
    else:
        writer = dcp.FileSystemWriter(folder, thread_count=2 if how == "threads" else 1)
        dcp.save(state, storage_writer=writer)
    dist.barrier()


def we_load(rank: int, size: int, store: str, folder: str) -> None:
    dist = our_group(rank, size, store)
    import chunked

    import flambeau.distributed.checkpoint as dcp

    state = chunked.state(rank, size, False)
    dcp.load(state, checkpoint_id=folder)
    chunked.compare(state, rank, size)
    dist.barrier()


# --- both ------------------------------


def write() -> None:
    """Write all folders.  Paths are relative, since the metadata have them."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    os.chdir(FOLDER)
    for size in (1, 2, 4):
        run(size, torch_saves, f"of_{size}", None)
    run(4, torch_saves, "mesh_4", (2, 2))
    run(2, torch_saves_sharded_tensors, "sharded_2", False)
    run(2, torch_saves_sharded_tensors, "former_2", True)
    run(2, torch_saves_alone, "alone_2")
    run(2, torch_saves_safetensors, "hf_2")


def check() -> None:
    for name in ("of_1", "of_2", "of_4", "mesh_4"):
        for size in (1, 2, 3):
            run(size, we_load, str(FOLDER / name))
            print(f"PyTorch's {name} loads here on {size}")
    for size in (1, 2, 4):
        for how in ("plain", "threads", "async"):
            with tempfile.TemporaryDirectory() as folder:
                run(size, we_save, folder, how)
                for other in (1, 2, 3):
                    run(other, torch_loads, folder)
            print(f"ours of {size} ({how}) loads in PyTorch on 1, 2 and 3")
    with tempfile.TemporaryDirectory() as folder:
        run(4, we_save, folder, "mesh")
        run(2, torch_loads, folder)
    print("our DTensors of a mesh of 2 x 2 load in PyTorch on 2")
    with tempfile.TemporaryDirectory() as folder:
        run(2, we_save, folder, "safetensors")
        run(3, torch_loads_safetensors, folder)
    print("our safetensors of 2 load in PyTorch on 3")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--write", action="store_true", help="write only")
    arguments = parser.parse_args()
    if not arguments.check:
        write()
    if not arguments.write:
        check()
