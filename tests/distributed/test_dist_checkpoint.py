"""Sharded checkpoints: PyTorch's files on any number of processes, ours on others, failures on one rank, saves in a thread, kills."""

from __future__ import annotations

import io
import os
import shutil
import signal
import threading
import time
import warnings
from dataclasses import replace
from pathlib import Path

import chunked
import numpy as np
import pytest
import sharded
from worlds import Ended, results, started, world

import flambeau as torch
import flambeau.distributed as dist
import flambeau.distributed.checkpoint as dcp
from flambeau.distributed.checkpoint import format_utils, planner
from flambeau.distributed.checkpoint._nested_dict import flatten_state_dict, set_element
from flambeau.distributed.checkpoint.state_dict_loader import _load_state_dict_from_keys

FOLDER = Path(__file__).resolve().parents[1] / "data" / "torch" / "dcp"
pytestmark = pytest.mark.filterwarnings(
    "ignore:torch.distributed is unavailable", "ignore:Detected an existing"
)


# --- PyTorch's files ------------------------------


def loads_of_torch(rank, size):
    for name in ("of_1", "of_2", "of_4", "mesh_4"):
        state = chunked.state(rank, size, False)
        dcp.load(state, checkpoint_id=FOLDER / name)
        chunked.compare(state, rank, size)
    for name in ("sharded_2", "former_2"):
        state = {
            key: value
            for key, value in chunked.state(rank, size, False)["model"].items()
            if key in sharded.cut()
        }
        state["epoch"] = 0
        dcp.load(state, checkpoint_id=FOLDER / name)
        chunked.compare_cut(state, rank, size)
        assert state["epoch"] == 7
    state = {
        key: value for key, value in chunked.state(rank, size, False)["model"].items() if key in sharded.cut()
    }
    dcp.load(state, storage_reader=dcp.HuggingFaceStorageReader(str(FOLDER / "hf_2")))
    chunked.compare_cut(state, rank, size)
    if size == 2:
        state = {"mine": torch.zeros(2), "rank": -1}
        dcp.load(state, checkpoint_id=FOLDER / "alone_2")
        assert state["mine"].tolist() == [rank, rank] and state["rank"] == rank


@pytest.mark.parametrize("size", [1, 2, 3])
def test_checkpoints_of_pytorch_load_on_any_number_of_processes(size):
    world(size, loads_of_torch)


def test_metadata_of_pytorch_says_how_tensors_were_cut():
    for name in ("of_4", "sharded_2", "former_2"):
        size = int(name[-1])
        metadata = dcp.FileSystemReader(FOLDER / name).read_metadata()
        prefix = "model." if name == "of_4" else ""
        for key, (array, dim) in sharded.cut().items():
            result = metadata.state_dict_metadata[prefix + key]
            want = {tuple(map(tuple, sharded.chunk(array.shape, dim, rank, size))) for rank in range(size)}
            assert {(tuple(c.offsets), tuple(c.sizes)) for c in result.chunks} == want
            assert (
                str(result.properties.dtype).endswith(str(array.dtype)) and tuple(result.size) == array.shape
            )


def test_modules_that_pytorch_called_otherwise_before(tmp_path):
    """PyTorch 1.13 had the package under another name, Python 3.13 has `pathlib` in parts."""
    shutil.copytree(FOLDER / "of_1", tmp_path / "all")
    content = (tmp_path / "all" / ".metadata").read_bytes()
    for old, new in (
        ("torch.distributed.checkpoint.metadata", "torch.distributed._shard.checkpoint.metadata"),
        ("torch.distributed.checkpoint.filesystem", "torch.distributed._shard.checkpoint.filesystem"),
        ("pathlib", "pathlib._local"),
    ):
        assert chr(len(old)).encode() + old.encode() in content
        content = content.replace(
            chr(len(old)).encode() + old.encode(), chr(len(new)).encode() + new.encode()
        )
    (tmp_path / "all" / ".metadata").write_bytes(content)
    state = chunked.state(0, 1, False)
    dcp.load(state, checkpoint_id=tmp_path / "all")
    chunked.compare(state, 0, 1)


# --- ours ------------------------------


def saves_and_loads(rank, size, folder):
    groups = [dist.new_group(range(n)) for n in range(1, size + 1)]
    for n, group in enumerate(groups, 1):
        if rank < n:
            writer = dcp.FileSystemWriter(f"{folder}/{n}", thread_count=n, single_file_per_rank=n != 2)
            metadata = dcp.save(chunked.state(rank, n, True), storage_writer=writer, process_group=group)
            assert len(metadata.state_dict_metadata["model.cube"].chunks) == n
        dist.barrier()
        for m, other in enumerate(groups, 1):
            if rank < m:
                state = chunked.state(rank, m, False)
                dcp.load(state, checkpoint_id=f"{folder}/{n}", process_group=other)
                chunked.compare(state, rank, m)
    # What is the same on all ranks is written once, and not all by one rank.
    replicated = {f"t{k}": torch.full((100,), float(k)) for k in range(6)} | {"epoch": 3}
    dcp.save(replicated, checkpoint_id=f"{folder}/replicated")
    dcp.save(
        replicated,
        checkpoint_id=f"{folder}/lowest",
        planner=dcp.DefaultSavePlanner(dedup_save_to_lowest_rank=True),
    )
    for name, files in (("replicated", size), ("lowest", 1)):
        places = dcp.FileSystemReader(f"{folder}/{name}").read_metadata().storage_data
        assert len(places) == 7 and len({place.relative_path for place in places.values()}) == files


def test_any_number_of_processes_reads_what_another_number_wrote(tmp_path):
    world(3, saves_and_loads, str(tmp_path))


def trains(rank, size, folder):
    torch.manual_seed(rank)
    net, other = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2, device="meta")
    torch.nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
    net(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    dcp.save({"net": net, "optimizer": optimizer, "scheduler": scheduler}, checkpoint_id=folder)
    fresh = torch.nn.Linear(3, 2)
    again = torch.optim.Adam(fresh.parameters(), lr=0.5)
    fresh(torch.ones(1, 3)).sum().backward()
    again.step()
    state = {"net": fresh, "optimizer": again, "scheduler": torch.optim.lr_scheduler.StepLR(again, 7)}
    dcp.load(state, checkpoint_id=folder)
    assert state["net"] is fresh and torch.equal(fresh.weight, net.weight)
    assert again.param_groups[0]["lr"] == 0.1 and state["scheduler"].step_size == 2
    for key, value in optimizer.state[net.weight].items():
        assert torch.equal(again.state[fresh.weight][key], value)
    state = {"net": other.state_dict()}
    dcp.load(state, checkpoint_id=folder)  # tensors of device "meta" get memory
    assert torch.equal(state["net"]["weight"], net.weight)


def test_modules_optimizers_and_schedulers_are_stateful(tmp_path):
    world(2, trains, str(tmp_path))


def test_dtypes_and_values(tmp_path):
    """Every dtype of files, views, and conversions that keep the values."""
    kinds = "float16 bfloat16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool complex64 complex128 float8_e4m3fn"
    state = {kind: torch.arange(4).to(getattr(torch, kind)) for kind in kinds.split()}
    state["view"], state["one"] = torch.arange(100.0)[10:20:3], torch.tensor(5.0)
    state["transposed"], state["parameter"] = (
        torch.arange(6.0).view(2, 3).t(),
        torch.nn.Parameter(torch.ones(2)),
    )
    state["deep"] = {
        "list": [{"x": torch.ones(1)}, torch.zeros(2)],
        3: torch.ones(3),
        "empty": [],
        "plain": [1, 2],
    }
    dcp.save(state, checkpoint_id=tmp_path)
    assert os.path.getsize(tmp_path / "__0_0.distcp") < 60_000  # of `view` not all that it looks at
    result = _load_state_dict_from_keys(checkpoint_id=tmp_path)
    for key in state:
        if key != "deep":
            assert torch.equal(result[key], state[key]) and result[key].dtype is state[key].dtype, key
    assert result["deep"].keys() == {"list", "3", "empty", "plain"}
    assert result["deep"]["list"][0]["x"].tolist() == [1.0] and result["deep"]["plain"] == [1, 2]
    assert list(_load_state_dict_from_keys("deep.list", checkpoint_id=tmp_path)["deep"]) == ["list"]
    wide = {"float32": torch.zeros(4, dtype=torch.float64), "int8": torch.zeros(4)}
    dcp.load(wide, checkpoint_id=tmp_path)
    assert wide["float32"].tolist() == wide["int8"].tolist() == [0, 1, 2, 3]
    nested = {"deep": {3: torch.zeros(3), "plain": []}}
    dcp.load(nested, checkpoint_id=tmp_path)
    assert nested["deep"][3].tolist() == [1, 1, 1] and nested["deep"].keys() == {3, "plain"}
    for key, dtype in (("float32", torch.int32), ("complex64", torch.float32), ("int8", torch.bool)):
        with pytest.raises(dcp.CheckpointException, match=f"dtype mismatch.*for {key}"):
            dcp.load({key: torch.zeros(4, dtype=dtype)}, checkpoint_id=tmp_path)


def test_what_is_no_tensor_with_data_is_refused_by_name(tmp_path):
    for value, said in (
        (torch.ones(2, 2).to_sparse(), "'x' is of layout .*sparse_coo: only dense tensors are saved"),
        (torch.empty(2, device="meta"), "'x' is on device 'meta', without data"),
        (threading.Lock(), "cannot pickle"),
    ):
        with pytest.raises(dcp.CheckpointException, match=said):
            dcp.save({"x": value}, checkpoint_id=tmp_path / "none")
    assert not os.path.exists(tmp_path / "none" / ".metadata")
    with pytest.raises(RuntimeError, match="`checkpoint_id` must be specified"):
        dcp.save({})
    with pytest.raises(RuntimeError, match="Cannot detect which StorageReader or StorageWriter.*s3://x"):
        dcp.save({}, checkpoint_id="s3://x")
    with pytest.raises(dcp.CheckpointException, match="duplicated flatten key a.b"):
        dcp.save({"a": {"b": 1}, "a.b": 2}, checkpoint_id=tmp_path)


# --- failures ------------------------------


class Unsendable(Exception):
    """Whose pickle cannot be read back."""

    def __init__(self, one, two):
        super().__init__(f"{one} {two}")


class Failing(dcp.FileSystemWriter):
    def __init__(self, path, step, error):
        super().__init__(path)
        self.step, self.error = step, error

    def _raise(self, step):
        if self.step == step:
            raise self.error

    def prepare_local_plan(self, plan):
        self._raise("plan")
        return super().prepare_local_plan(plan)

    def prepare_global_plan(self, plans):
        self._raise("global plan")
        return super().prepare_global_plan(plans)

    def write_data(self, plan, planner):
        self._raise("write")
        return super().write_data(plan, planner)

    def finish(self, metadata, results):
        self._raise("finish")
        super().finish(metadata, results)


def failing(rank, size, folder):
    state = chunked.state(rank, size, True)
    dcp.save(state, checkpoint_id=folder)
    # One rank fails in a step of a save: every rank raises, and the checkpoint is still the one before.
    for step, where in (("plan", 1), ("write", 1), ("global plan", 0), ("finish", 0)):
        error = OSError(28, "no space left") if step != "write" else Unsendable("one", "two")
        writer = Failing(folder, step if rank == where else "", error)
        with pytest.raises(dcp.CheckpointException, match="no space left|Unsendable: one two") as caught:
            dcp.save({"other": 1}, storage_writer=writer)
        assert list(caught.value.failures) == [where]
        fresh = chunked.state(rank, size, False)
        dcp.load(fresh, checkpoint_id=folder)
        chunked.compare(fresh, rank, size)
    # One rank has something else than the others.
    for mine, said in (
        ({"x": torch.ones(2 + rank)}, "ranks save different things as 'x'"),
        (
            {"x": torch.ones(2, dtype=torch.float64 if rank else torch.float32)},
            "ranks save different things as 'x'",
        ),
        ({"x": chunked.Chunked(torch.ones(2), [rank], (4,))}, "key:x has overlapping chunks"),
        ({"x": chunked.Chunked(torch.ones(2), [3 * rank], (4,))}, "key:x has out of bounds chunk"),
        ({"x": chunked.Chunked(torch.ones(2), [2 * rank], (8,))}, "key:x invalid fill"),
    ):
        with pytest.raises(dcp.CheckpointException, match=said):
            dcp.save(mine, checkpoint_id=folder)
    # Loads that do not match on one rank.
    ones = torch.ones(5 + rank)
    for wanted, said in (
        ({"model": {"bias": ones}}, r"RANK 1(.|\n)*Size mismatch between saved .*for model.bias"),
        (
            {"model": {"bias": torch.ones(5), **({"more": ones} if rank else {})}},
            "Missing key in checkpoint state_dict: model.more",
        ),
        ({"model": {"bias": 3 if rank else torch.ones(5)}}, "Invalid checkpoint metadata for model.bias"),
        (
            {"model": {"counts": torch.ones(2, 3, dtype=torch.int8 if rank else torch.int64).bool()}},
            "dtype mismatch",
        ),
    ):
        with pytest.raises(dcp.CheckpointException, match=said):
            dcp.load(wanted, checkpoint_id=folder)
    dist.barrier()
    # A file that one of the ranks needs is missing, or cut short.
    name = dcp.FileSystemReader(folder).read_metadata().storage_data
    place = next(place for index, place in name.items() if index.fqn == "model.rows" and index.offset[0])
    lost = place.relative_path
    content = Path(folder, lost).read_bytes()
    dist.barrier()
    for remaining, said in (
        (None, "No such file"),
        (place.offset + 9, "the file has .* bytes"),
        (0, "the file has 0 bytes"),
    ):
        if rank == 0:
            os.unlink(Path(folder, lost)) if remaining is None else Path(folder, lost).write_bytes(
                content[:remaining]
            )
        dist.barrier()
        with pytest.raises(dcp.CheckpointException, match=said):
            dcp.load(
                {"model": {"rows": chunked.state(rank, size, False)["model"]["rows"]}}, checkpoint_id=folder
            )
        dist.barrier()
    with pytest.raises(dcp.CheckpointException, match="there is no checkpoint"):
        dcp.load({"x": 1}, checkpoint_id=f"{folder}/nowhere")
    with pytest.raises(ValueError, match="coordinator_rank must be a rank of 2, got 5"):
        dcp.state_dict_saver._save_state_dict({}, dcp.FileSystemWriter(folder), coordinator_rank=5)
    actual = torch.ones(1)
    dist.all_reduce(actual)  # the group is as good as before
    assert actual.item() == size


def test_one_ranks_failure_is_raised_on_all(tmp_path):
    world(2, failing, str(tmp_path))


def test_a_tensor_that_is_not_all_there_is_named(tmp_path):
    state = {"x": chunked.Chunked(torch.ones(2), [0], (4,))}
    dcp.save(state, checkpoint_id=tmp_path, no_dist=True)
    with pytest.raises(dcp.CheckpointException, match="of 'x' the checkpoint has 2 of 4 elements"):
        dcp.load({"x": torch.zeros(4)}, checkpoint_id=tmp_path)
    with pytest.raises(dcp.CheckpointException, match="of 'x' the checkpoint has 2 of 4 elements"):
        format_utils.dcp_to_torch_save(tmp_path, tmp_path / "x.pt")
    again = {"x": chunked.Chunked(torch.zeros(1), [1], (4,))}
    dcp.load(again, checkpoint_id=tmp_path)
    assert again["x"].local.tolist() == [1.0]


# --- kills ------------------------------


def test_a_kill_between_any_two_steps_leaves_a_whole_checkpoint(tmp_path):
    """A child that is ended before its k-th operation on files, for each k: the folder has one of the two states."""
    seen = set()
    for k in range(100):
        folder = tmp_path / str(k)
        dcp.save({"x": torch.zeros(1000), "step": 0}, checkpoint_id=folder)
        child = os.fork()
        if child == 0:
            warnings.simplefilter("ignore")
            _end_before(k)
            dcp.save({"x": torch.ones(1000), "step": 1}, checkpoint_id=folder)
            os._exit(3)
        _, status = os.waitpid(child, 0)
        state = {"x": torch.full((1000,), 9.0), "step": 9}
        dcp.load(state, checkpoint_id=folder)
        assert (state["x"] == state["step"]).all() and state["step"] in (0, 1)
        seen.add(state["step"])
        dcp.save({"x": torch.ones(1000), "step": 2}, checkpoint_id=folder)
        assert len(os.listdir(folder)) == 2  # what the child has left is gone
        if os.waitstatus_to_exitcode(status) == 3:
            break
    else:
        raise AssertionError("the child never comes to its end")
    assert seen == {0, 1} and k >= 8


def _end_before(k):
    """Let this process end by SIGKILL before its k-th operation on files."""
    count = 0

    def counting(function):
        def called(*args, **kwargs):
            nonlocal count
            if count == k:
                os.kill(os.getpid(), signal.SIGKILL)
            count += 1
            return function(*args, **kwargs)

        return called

    for name in ("open", "write", "fsync", "replace", "rename", "unlink", "makedirs"):
        setattr(os, name, counting(getattr(os, name)))
    io_open = io.open

    def opened(*args, **kwargs):
        return io_open(*args, **kwargs)

    import builtins

    builtins.open = counting(opened)


def saves_forever(rank, size, folder):
    warnings.simplefilter("ignore")
    for step in range(1, 10_000):
        x = chunked.cut(np.full((64, 32), step, dtype="float32"), 0, rank, size)
        dcp.save({"x": x, "step": step}, checkpoint_id=folder)


@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_rank_leaves_a_whole_checkpoint(victim, tmp_path):
    for delay in (0.05, 0.12):
        folder = tmp_path / str(delay)
        with started(2, saves_forever, str(folder)) as (processes, pipes):
            while not (folder / ".metadata").exists():
                time.sleep(0.01)
            time.sleep(delay)
            processes[victim].kill()
            with pytest.raises(AssertionError, match=f"DistBackendError.*rank {victim} died"):
                result = results(processes, pipes)
                assert any(not isinstance(each, Ended) for each in result), result
        state = {"x": torch.zeros(64, 32), "step": 0}
        dcp.load(state, checkpoint_id=folder)
        assert state["step"] >= 1 and (state["x"] == state["step"]).all()


def test_saves_into_one_folder_leave_one_checkpoint(tmp_path):
    for step in range(3):
        dcp.save({"x": torch.full((2,), float(step))}, checkpoint_id=tmp_path)
        assert sorted(os.listdir(tmp_path)) == [".metadata", f"__0_{step}.distcp"]
    with pytest.raises(dcp.CheckpointException, match="Checkpoint already exists"):
        dcp.save({"x": torch.ones(2)}, storage_writer=dcp.FileSystemWriter(tmp_path, overwrite=False))
    with pytest.warns(UserWarning, match="overwriting since self.overwrite=True"):
        dcp.save({"x": torch.ones(2)}, checkpoint_id=tmp_path)


# --- in a thread ------------------------------


class Slow(dcp.FileSystemWriter):
    """Writes when it is told to."""

    def __init__(self, path, may_write):
        super().__init__(path)
        self.may_write = may_write

    def write_data(self, plan, planner):
        assert self.may_write.wait(60)
        return super().write_data(plan, planner)


def asynchronous(rank, size, folder):
    x, may_write = torch.full((3,), 1.0), threading.Event()
    count = torch.tensor([0])
    futures = [dcp.async_save({"x": x, "count": count}, storage_writer=Slow(f"{folder}/1", may_write))]
    futures.append(dcp.async_save({"x": x}, checkpoint_id=f"{folder}/2"))
    x.fill_(2.0)
    for _ in range(20):  # the program's own collectives do not meet those of the saves
        count += 1
        dist.all_reduce(x)
    assert not futures[0].done() and not os.path.exists(f"{folder}/1/.metadata")
    futures.append(dcp.async_save({"x": x * 0 + 3}, checkpoint_id=f"{folder}/3"))
    may_write.set()
    assert all("x" in future.result(60).state_dict_metadata for future in futures)
    for name, value in (("1", 1.0), ("2", 1.0), ("3", 3.0)):
        state = {"x": torch.zeros(3)}
        dcp.load(state, checkpoint_id=f"{folder}/{name}")
        assert state["x"].tolist() == [value] * 3
    state = {"count": torch.tensor([7])}
    dcp.load(state, checkpoint_id=f"{folder}/1")
    assert state["count"].item() == 0
    # A failure, in the copy or in the save, is in the futures of all ranks.
    for bad, where in (({"x": _Uncopyable()}, 1), ({"x": torch.ones(2 + rank)}, 0)):
        mine = bad if rank == where or where == 0 else {"x": 1}
        future = dcp.async_save(mine, checkpoint_id=f"{folder}/bad")
        with pytest.raises(dcp.CheckpointException, match="cannot be copied|different things"):
            future.result(60)
        assert list(future.exception().failures) == [where]
    group = dist.new_group([1])
    if rank == 1:
        dcp.async_save({"x": x}, checkpoint_id=f"{folder}/one", process_group=group).result(60)
    dist.barrier()
    dcp.async_save(
        {"x": torch.ones(1)}, checkpoint_id=f"{folder}/last"
    )  # the end of the process waits for it


class _Uncopyable:
    def __deepcopy__(self, memo):
        raise ValueError("cannot be copied")


def test_async_save_goes_on_beside_the_program(tmp_path):
    world(2, asynchronous, str(tmp_path))
    state = {"x": torch.zeros(1)}
    dcp.load(state, checkpoint_id=tmp_path / "last")
    assert state["x"].item() == 1.0


def test_stagers(tmp_path):
    from flambeau.distributed.checkpoint.staging import BlockingAsyncStager, DefaultStager, StagingOptions

    x = torch.ones(2)
    stager = DefaultStager(StagingOptions(False, True, True, False))
    response = dcp.async_save({"x": x}, checkpoint_id=tmp_path / "a", async_stager=stager)
    if not isinstance(response, dcp.state_dict_saver.AsyncSaveResponse):  # the copy was there already
        assert response.result(60)
    else:
        assert response.staging_completion.result(60) is None and response.upload_completion.result(60)
    stager.close()
    with pytest.raises(AssertionError, match="need an accelerator"):
        DefaultStager()
    caching = BlockingAsyncStager(cache_staged_state_dict=True, type_check=True)
    first = caching.stage({"x": x, "l": [x, (1, {"y": x})], "b": io.BytesIO(b"12")})
    x.zero_()
    assert first["x"].tolist() == [1, 1] and first["l"][1][1]["y"].tolist() == [1, 1]
    place = first["x"].data_ptr()
    second = caching.stage({"x": x, "l": [x, (1, {"y": x})], "b": io.BytesIO(b"12")})
    assert (
        second["x"].data_ptr() == place and second["x"].tolist() == [0, 0] and second["b"].getvalue() == b"12"
    )
    with pytest.raises(AssertionError, match="is not like its last copy"):
        caching.stage({"x": torch.ones(3)})
    with pytest.raises(NotImplementedError, match="AsyncCheckpointerType.THREAD"):
        dcp.async_save(
            {},
            checkpoint_id=tmp_path,
            async_checkpointer_type=dcp.state_dict_saver.AsyncCheckpointerType.PROCESS,
        )


def test_async_save_after_a_fork(tmp_path):
    dcp.async_save({"x": 1}, checkpoint_id=tmp_path / "parent").result(60)
    child = os.fork()
    if child == 0:
        dcp.async_save({"x": 2}, checkpoint_id=tmp_path / "child").result(60)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    state = {"x": 0}
    dcp.load(state, checkpoint_id=tmp_path / "child")
    assert state["x"] == 2


# --- planners, formats ------------------------------


class Halved(dcp.DefaultSavePlanner):
    """PyTorch's example of a planner that changes what is written."""

    def create_local_plan(self):
        plan = super().create_local_plan()
        for item in plan.items:
            if item.tensor_data is not None:
                item.tensor_data.properties.dtype = torch.float16
        return plan

    def resolve_data(self, write_item):
        result = super().resolve_data(write_item)
        return result if write_item.type is planner.WriteItemType.BYTE_IO else result.to(torch.float16)


class Extra(dcp.DefaultSavePlanner):
    """PyTorch's example of one that saves data of its own."""

    def create_local_plan(self):
        return replace(super().create_local_plan(), planner_data="of this rank")

    def create_global_plan(self, all_plans):
        self.flatten_state_dict = False
        plans, metadata = super().create_global_plan(all_plans)
        return plans, replace(metadata, planner_data=[plan.planner_data for plan in plans])


class Renaming(dcp.DefaultLoadPlanner):
    def set_up_planner(self, state_dict, metadata=None, is_coordinator=False):
        self.original_state_dict = state_dict
        renamed = {f"foo_{key}": value for key, value in state_dict.items()}
        self.state_dict, self.mappings = flatten_state_dict(renamed)
        self.metadata, self.is_coordinator = metadata, is_coordinator


def test_planners_of_ones_own(tmp_path):
    state = {"x": torch.ones(3) / 3, "step": 1}
    dcp.save(state, checkpoint_id=tmp_path / "half", planner=Halved())
    result = _load_state_dict_from_keys(checkpoint_id=tmp_path / "half")
    assert result["x"].dtype is torch.float16 and result["step"] == 1
    dcp.save(state, checkpoint_id=tmp_path / "extra", planner=Extra())
    assert dcp.FileSystemReader(tmp_path / "extra").read_metadata().planner_data == ["of this rank"]
    dcp.save({"foo_x": torch.ones(3)}, checkpoint_id=tmp_path / "renamed")
    loaded = {"x": torch.zeros(3)}
    dcp.load(loaded, checkpoint_id=tmp_path / "renamed", planner=Renaming())
    assert loaded["x"].tolist() == [1, 1, 1]
    partial = {"x": torch.zeros(3), "new": torch.full((2,), 7.0)}
    dcp.load(
        partial, checkpoint_id=tmp_path / "extra", planner=dcp.DefaultLoadPlanner(allow_partial_load=True)
    )
    assert partial["new"].tolist() == [7, 7] and torch.equal(partial["x"], state["x"])
    flat = {"step": 0}
    dcp.load(flat, checkpoint_id=tmp_path / "extra", planner=dcp.DefaultLoadPlanner(flatten_state_dict=False))
    assert flat == {"step": 1}


def caching(rank, size, folder):
    saving = dcp.DefaultSavePlanner(enable_plan_caching=True)
    sent = []
    create = saving.create_local_plan
    saving.create_local_plan = lambda: sent.append(create()) or sent[-1]
    for step, n in enumerate([4, 4, 4 + rank, 5, 5, 6, 6]):
        try:
            dcp.save(
                {"x": torch.full((n,), float(step)), "step": step},
                checkpoint_id=f"{folder}/{step}",
                planner=saving,
            )
            assert step != 2  # where the ranks' sizes differ
        except dcp.CheckpointException:
            assert step == 2
            continue
        state = {"x": torch.zeros(n), "step": 0}
        dcp.load(state, checkpoint_id=f"{folder}/{step}")
        assert (state["x"] == step).all() and state["step"] == step
    return [plan.usable for plan in sent]


def test_plans_that_do_not_change_are_not_sent_again(tmp_path):
    result = world(2, caching, str(tmp_path))
    assert result == [
        [True, False, False, True, False, True, False],
        [True, False, True, True, False, True, False],
    ]


def test_names_of_checkpoints_of_before_pytorch_2_4(tmp_path):
    state = {"optim": {"groups": {"lr": 0.1, "eps": 1e-8}, "x": {"y": torch.ones(2)}}}
    flat, _ = flatten_state_dict(state, before_2_4=True)
    assert set(flat) == {"optim.groups", "optim.x.y"}
    dcp.save(flat, checkpoint_id=tmp_path)
    fresh = {"optim": {"groups": {"lr": 0.0, "eps": 0.0}, "x": {"y": torch.zeros(2)}}}
    dcp.load(fresh, checkpoint_id=tmp_path)
    assert fresh["optim"]["groups"] == {"lr": 0.1, "eps": 1e-8} and fresh["optim"]["x"]["y"].tolist() == [
        1,
        1,
    ]


def test_paths_of_names():
    root: dict = {}
    set_element(root, ("a", 2, "b"), 1)
    assert root == {"a": [None, None, {"b": 1}]}
    for path in ((), "ab", (1.5,), ("a", "x"), ("a", -1), ("a", 1 << 40), ("a", 2, "b", "c")):
        with pytest.raises(ValueError, match="set_element"):
            set_element(root, path, 1)


def without_collectives(rank, size, folder):
    state = {"x": torch.full((2,), float(rank)), "rank": rank}
    dcp.save(state, checkpoint_id=folder, use_collectives=False)
    dist.barrier()
    assert sorted(os.listdir(folder)) == sorted(
        f"__{r}{end}" for r in range(2) for end in (".metadata", "_0.distcp")
    )
    results = {"x": torch.zeros(2), "rank": -1}
    dcp.load(results, checkpoint_id=folder)
    assert results["x"].tolist() == [rank, rank] and results["rank"] == rank


def test_ranks_that_save_by_themselves(tmp_path):
    world(2, without_collectives, str(tmp_path))


def former_names(rank, size, folder):
    with pytest.warns(FutureWarning, match="`save_state_dict` is deprecated"):
        dcp.save_state_dict(chunked.state(rank, size, True), dcp.FileSystemWriter(folder))
    state = chunked.state(rank, size, False)
    with pytest.warns(FutureWarning, match="`load_state_dict` is deprecated"):
        dcp.load_state_dict(state, dcp.FileSystemReader(folder))
    chunked.compare(state, rank, size)
    with pytest.warns(UserWarning, match="argument order of save has been changed"):
        dcp.save({"x": rank}, dcp.FileSystemWriter(f"{folder}/position"))
    # A file of `save`, read by one rank for all.
    path = f"{folder}/whole.pt"
    if rank == 0:
        torch.save({"net": {"x": torch.arange(6.0)}, "y": torch.ones(2, 2)}, path)
    dist.barrier()

    def read(state):
        reader, made = format_utils.BroadcastingTorchSaveReader(), format_utils.DynamicMetaLoadPlanner()
        dcp.load(state, storage_reader=reader, planner=made, checkpoint_id=path)
        return state

    result = read({"net": {"x": torch.zeros(6)}, "y": torch.zeros(2, 2)})
    assert result["net"]["x"].tolist() == list(range(6)) and result["y"].sum() == 4
    for state, said in (
        ({"net": {"x": torch.zeros(6 + rank)}}, "the ranks load different names or sizes"),
        ({"net": {"x": torch.zeros(7)}}, "'net.x' has shape"),
        ({"z": torch.zeros(1)}, "has no tensor 'z'"),
        ({"net": {"x": 1}}, "'net.x' is no tensor"),
    ):
        with pytest.raises(dcp.CheckpointException, match=said):
            read(state)


def test_former_names_and_files_of_save(tmp_path):
    world(2, former_names, str(tmp_path))


def test_conversions(tmp_path):
    for name in ("of_2", "mesh_4"):
        format_utils.main(["dcp_to_torch", str(FOLDER / name), str(tmp_path / "all.pt")])
        result = torch.load(tmp_path / "all.pt")
        for key, (array, _) in sharded.cut().items():
            np.testing.assert_array_equal(result["model"][key].numpy(), array)
        assert result["meta"] == sharded.OBJECTS and result["optim"]["param_groups"] == sharded.GROUPS
    format_utils.main(["torch_to_dcp", str(tmp_path / "all.pt"), str(tmp_path / "dcp")])
    state = chunked.state(0, 1, False)
    dcp.load(state, checkpoint_id=tmp_path / "dcp")
    chunked.compare(state, 0, 1)


def safetensors(rank, size, folder):
    from flambeau.utils.safetensors import load_file

    model = chunked.state(rank, size, True)["model"]
    model = {key: value for key, value in model.items() if key in sharded.cut() or key == "bias"}
    files = {key: 1 + (key == "cube") for key in model}
    writer = dcp.HuggingFaceStorageWriter(folder, files, save_distributed=True, enable_consolidation=True)
    dcp.save(model, storage_writer=writer)
    dist.barrier()
    names = [f"model-0000{k}-of-00002.safetensors" for k in (1, 2)]
    assert sorted(os.listdir(folder)) == [*names, "model.safetensors.index.json", "sharded"]
    results = {**load_file(f"{folder}/{names[0]}"), **load_file(f"{folder}/{names[1]}")}
    for key, (array, _) in sharded.cut().items():
        np.testing.assert_array_equal(results[key].numpy(), array, err_msg=key)
    for place in (folder, f"{folder}/sharded"):
        fresh = {
            key: value for key, value in chunked.state(rank, size, False)["model"].items() if key in model
        }
        dcp.load(fresh, storage_reader=dcp.HuggingFaceStorageReader(place))
        chunked.compare_cut(fresh, rank, size)
    for state, said in (({"x": 1}, "'x' is an object"), ({"y": torch.ones(1)}, "has no file for 'y'")):
        with pytest.raises(dcp.CheckpointException, match=said):
            dcp.save(state, storage_writer=dcp.HuggingFaceStorageWriter(f"{folder}/no", {"x": 1}))
    dist.barrier()
    if rank == 0:
        shutil.rmtree(f"{folder}/sharded")
    dist.barrier()
    with pytest.raises(dcp.CheckpointException, match="No such file|no file of safetensors"):
        dcp.load({"bias": torch.zeros(5)}, storage_reader=dcp.HuggingFaceStorageReader(f"{folder}/sharded"))


def test_safetensors_of_several_processes(tmp_path):
    world(2, safetensors, str(tmp_path))


# --- DTensors ------------------------------


def distributed(mesh, placements, fill=True):
    """The tensors of `sharded.cut` over a mesh, placed so; "own" is `Shard` of the dimension there, "other" of the next."""
    from flambeau.distributed.tensor import Shard, distribute_tensor

    results = {}
    for name, (array, dim) in sharded.cut().items():
        here = [
            Shard(dim if p == "own" else (dim + 1) % array.ndim) if isinstance(p, str) else p
            for p in placements
        ]
        results[name] = distribute_tensor(chunked.tensor(array, fill), mesh, here)
    return results


def compare_distributed(state):
    for name, (array, _) in sharded.cut().items():
        np.testing.assert_array_equal(state[name].full_tensor().numpy(), array, err_msg=name)


def resharding(rank, size, folder):
    from flambeau.distributed.tensor import DTensor, Partial, Replicate, init_device_mesh

    line, square = init_device_mesh("cpu", (4,)), init_device_mesh("cpu", (2, 2))
    layouts = [
        (line, ["own"]),
        (line, ["other"]),
        (line, [Replicate()]),
        (square, ["own", "own"]),
        (square, ["own", "other"]),
        (square, [Replicate(), "own"]),
        (square, ["other", Replicate()]),
    ]
    for k, (mesh, placements) in enumerate(layouts):
        state = {"model": distributed(mesh, placements)}
        if k % 2:
            dcp.async_save(state, checkpoint_id=f"{folder}/{k}").result(60)
        else:
            dcp.save(state, checkpoint_id=f"{folder}/{k}")
        for other_mesh, other in layouts:
            fresh = {"model": distributed(other_mesh, other, fill=False)}
            pieces = {name: value.to_local().data_ptr() for name, value in fresh["model"].items()}
            dcp.load(fresh, checkpoint_id=f"{folder}/{k}")
            compare_distributed(fresh["model"])
            assert pieces == {name: value.to_local().data_ptr() for name, value in fresh["model"].items()}
    # Plain tensors and DTensors, either way; parameters; those of PyTorch's checkpoints; memory for "meta".
    whole = {"model": {name: chunked.tensor(array, False) for name, (array, _) in sharded.cut().items()}}
    dcp.load(whole, checkpoint_id=f"{folder}/4")
    assert all(
        np.array_equal(whole["model"][name].numpy(), array) for name, (array, _) in sharded.cut().items()
    )
    dcp.save(whole, checkpoint_id=f"{folder}/whole")
    for source in (f"{folder}/whole", FOLDER / "of_2", FOLDER / "mesh_4"):
        fresh = {"model": distributed(square, ["own", "other"], fill=False)}
        dcp.load(fresh, checkpoint_id=source)
        compare_distributed(fresh["model"])
    rows = sharded.cut()["rows"][0]
    piece = distributed(line, ["own"])["rows"]
    for value in (torch.nn.Parameter(piece), piece.requires_grad_(True)):
        dcp.save({"rows": value}, checkpoint_id=f"{folder}/parameter")
        dcp.load({"rows": value}, checkpoint_id=f"{folder}/parameter")
        np.testing.assert_array_equal(value.detach().full_tensor().numpy(), rows)
    local = torch.empty(piece.to_local().shape, device="meta")
    empty = {"rows": DTensor.from_local(local, line, piece.placements, shape=(7, 3), stride=(3, 1))}
    dcp.load(empty, checkpoint_id=f"{folder}/parameter")
    np.testing.assert_array_equal(empty["rows"].full_tensor().numpy(), rows)
    # A mesh of some of the ranks; a sum that is not added up.
    from flambeau.distributed.device_mesh import DeviceMesh
    from flambeau.distributed.tensor import Shard, distribute_tensor

    part = DeviceMesh("cpu", [0, 1])
    dcp.save({"x": distribute_tensor(torch.arange(6.0), part, [Shard(0)])}, checkpoint_id=f"{folder}/part")
    results = {"x": distribute_tensor(torch.zeros(6), DeviceMesh("cpu", [3, 1, 2]), [Shard(0)])}
    dcp.load(results, checkpoint_id=f"{folder}/part")
    if rank > 0:
        at = [3, 1, 2].index(rank)
        assert results["x"].to_local().tolist() == [2 * at, 2 * at + 1]
    with pytest.raises(dcp.CheckpointException, match="'x' is a sum that is still to be added up"):
        dcp.save(
            {"x": DTensor.from_local(torch.ones(2), line, [Partial()])}, checkpoint_id=f"{folder}/partial"
        )
    with pytest.raises(dcp.CheckpointException, match="Size mismatch between saved"):
        dcp.load({"x": distribute_tensor(torch.zeros(7), line, [Shard(0)])}, checkpoint_id=f"{folder}/part")


def test_dtensors_load_with_other_placements_and_meshes(tmp_path):
    world(4, resharding, str(tmp_path))
