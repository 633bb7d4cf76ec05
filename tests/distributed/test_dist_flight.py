"""The flight recorder: what is kept of calls, how it is written down, and what a call that does not end says of other processes."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from worlds import started, world

import flambeau as torch
import flambeau.distributed as dist
from flambeau.distributed import DistBackendError
from flambeau.distributed.distributed_c10d import _dump_fr_trace, _dump_fr_trace_json

HERE = Path(__file__).name


@pytest.fixture
def alone():
    dist.init_process_group("fake", rank=1, world_size=2)
    yield
    dist.destroy_process_group()


def test_the_ring_has_the_layout_of_pytorch(alone):
    x, outputs = torch.ones(2, 3), [torch.zeros(4, dtype=torch.int64) for _ in range(2)]
    before = time.time_ns()
    dist.all_reduce(x)
    dist.all_gather(outputs, torch.ones(4, dtype=torch.int64))
    dist.send(torch.ones(1, dtype=torch.bfloat16), dst=0)
    dump = pickle.loads(_dump_fr_trace())
    assert set(dump) == {"version", "pg_config", "pg_status", "comm_lib_version", "entries"}
    assert dump["pg_config"]["0"] == {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}
    reduced, gathered, sent = dump["entries"][-3:]
    assert [e["profiling_name"] for e in dump["entries"][-3:]] == [
        "gloo:all_reduce",
        "gloo:all_gather",
        "gloo:send 1->0",
    ]
    assert reduced["input_sizes"] == reduced["output_sizes"] == [[2, 3]]
    assert reduced["input_dtypes"] == ["Float"] and sent["input_dtypes"] == ["BFloat16"]
    assert gathered["input_sizes"] == [[4]] and gathered["output_sizes"] == [[4], [4]]
    assert gathered["input_dtypes"] == ["Long"]
    assert (reduced["collective_seq_id"], gathered["collective_seq_id"], sent["p2p_seq_id"]) == (1, 2, 1)
    assert [e["is_p2p"] for e in (reduced, sent)] == [False, True]
    for entry in (reduced, gathered, sent):
        assert (
            entry["state"] == "completed"
            and entry["retired"]
            and entry["process_group"] == ("0", "default_pg")
        )
        times = [entry[f"time_{k}_ns"] for k in ("created", "discovered_started", "discovered_completed")]
        assert before <= times[0] <= times[1] <= times[2] <= time.time_ns()
        frame = entry["frames"][0]
        assert frame["name"] == "test_the_ring_has_the_layout_of_pytorch" and frame["filename"] == __file__
    lines = Path(__file__).read_text().splitlines()
    assert "dist.all_gather(outputs" in lines[gathered["frames"][0]["line"] - 1]
    status = dump["pg_status"]["0"]
    assert set(status.values()) == {2}
    text = json.loads(_dump_fr_trace_json(onlyActive=True))
    assert text["entries"] == [] and "frames" not in json.loads(_dump_fr_trace_json())["entries"][-1]


def test_the_ring_keeps_no_tensor_and_no_more_than_it_is_to(alone):
    import weakref

    from flambeau.distributed import _flight

    recorder = _flight.Recorder(3)
    x = torch.ones(5)
    gone = weakref.ref(x)
    group = _flight.Group("0", "", 0, (0,), "fake")
    for number in range(10):
        recorder.note(group, "all_reduce", number, False, [x], [x], (), 1.0)
    dist.all_reduce(x)
    del x
    assert gone() is None and [call.number for call in recorder.calls] == [7, 8, 9]
    assert recorder.find("0", 8) is recorder.calls[1] and recorder.find("0", 2) is None


def test_a_wrong_size_of_the_ring_is_named():
    program = "import flambeau.distributed"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "TORCH_FR_BUFFER_SIZE": "many"},
        capture_output=True,
        text=True,
    )
    assert (
        done.returncode == 1
        and "TORCH_FR_BUFFER_SIZE: the number of calls that are kept, not 'many'" in done.stderr
    )


def load_a_batch(until):
    while not os.path.exists(until):
        time.sleep(0.01)


def absent(rank, size, folder):
    os.environ["TORCH_FR_DUMP_ON_TIMEOUT"] = "1"
    os.environ["TORCH_FR_DUMP_TEMP_FILE"] = f"{folder}/trace_"
    x = torch.ones(8)
    dist.all_reduce(x)
    if rank == 1:
        load_a_batch(f"{folder}/end")  # in place of the call of the others
        return None
    try:
        if rank == 2:
            dist.barrier()
        else:
            dist.all_reduce(x)
    except DistBackendError as error:
        return str(error)
    finally:
        time.sleep(2.0)  # the others ask where this rank is
        Path(f"{folder}/end").touch()


def test_a_timeout_says_who_has_not_joined_and_where_they_are(tmp_path):
    first, _, third = world(3, absent, str(tmp_path), seconds=1.0)
    assert (
        "all_reduce on rank 0: timed out after 1000ms: not all ranks of ranks [0, 1, 2] have joined collective 2"
        in first
    )
    assert f"all_reduce(flambeau.float32[8], SUM) at {HERE}:" in first
    for said in (first, third):
        assert f"rank 1 is at {HERE}:" in said and "in load_a_batch()" in said
        assert f"after its collective 1, all_reduce(flambeau.float32[8], SUM) at {HERE}:" in said
    assert f"rank 2 calls barrier() at {HERE}:" in first and "instead" in first
    assert "rank 0 calls all_reduce(flambeau.float32[8], SUM)" in third
    # What they have written, read by the reader.
    from flambeau.distributed import flight_recorder

    assert sorted(p.name for p in tmp_path.iterdir()) == ["end", "trace_0", "trace_2"]
    (tmp_path / "end").unlink()
    dumps = flight_recorder.read(str(tmp_path / "trace_"))
    assert sorted(dumps) == [0, 2]
    said = flight_recorder.first_disagreement(dumps)
    assert "collective 2 of group 0 (default_pg)" in said
    assert (
        f"rank 0: all_reduce [8] Float at {HERE}:" in said
        and f"rank 2: all_reduce_barrier at {HERE}:" in said
    )
    assert "rank 1: no dump" in said
    printed = subprocess.run(
        [sys.executable, "-m", "flambeau.distributed.flight_recorder", str(tmp_path / "trace_")],
        capture_output=True,
        text=True,
    )
    assert printed.returncode == 1 and printed.stdout.strip() == said


def frozen(rank, size):
    dist.barrier()
    if rank == 0:  # also the rank that serves the start
        os.kill(os.getpid(), signal.SIGSTOP)
    try:
        dist.all_reduce(torch.ones(1))
    except DistBackendError as error:
        return str(error)


def test_a_stopped_process_does_not_answer():
    with started(3, frozen, seconds=1.0) as (processes, pipes):
        for rank in (1, 2):
            assert pipes[rank].poll(30)
            fine, said = pipes[rank].recv()
            assert fine and "rank 0 does not answer: it is stopped, or cannot be reached" in said
            assert f"rank {3 - rank}" not in said.split("joined")[1].split(": ", 1)[1]


def lonely(rank, size):
    if rank == 1:
        time.sleep(2.5)
        return None
    with pytest.raises(DistBackendError) as caught:
        dist.recv(torch.ones(3), src=1)
    return str(caught.value)


def test_a_message_that_does_not_come_names_its_sender():
    said, _ = world(2, lonely, seconds=1.0)
    assert (
        f"recv(flambeau.float32[3]) at {HERE}:" in said
        and f"has no counterpart: rank 1 is at {HERE}:" in said
    )
    assert "in lonely()" in said


def nan_on_one(rank, size):
    x = torch.tensor([1.0, float("nan") if rank == 1 else 2.0])
    dist.all_reduce(torch.ones(1))
    try:
        dist.all_reduce(x)
    except DistBackendError as error:
        return str(error)


def test_a_nan_is_named_before_it_is_sent(monkeypatch):
    from flambeau.distributed import _debug

    monkeypatch.setenv("TORCH_NCCL_NAN_CHECK", "1")
    monkeypatch.setattr(_debug, "_checked", None)  # it is read once in a process
    with started(2, nan_on_one) as (processes, pipes):
        fine, said = pipes[1].recv()
        assert not fine and "all_reduce on rank 1: NaN found in input tensor of shape [2]" in said
        fine, said = pipes[0].recv()
        assert fine and "rank 1 has ended by an error: RuntimeError: all_reduce on rank 1: NaN found" in said


def test_dumps_that_agree_have_nothing_to_say(tmp_path):
    from flambeau.distributed import flight_recorder

    for rank, result in enumerate(world(2, agreeing)):
        (tmp_path / f"trace_{rank}").write_bytes(result)
    dumps = flight_recorder.read(str(tmp_path / "trace_"))
    assert flight_recorder.first_disagreement(dumps) is None


def agreeing(rank, size):
    for _ in range(3):
        dist.all_reduce(torch.ones(2))
    return _dump_fr_trace()


def test_a_file_that_is_no_dump_is_refused(tmp_path):
    from flambeau.distributed import flight_recorder

    (tmp_path / "trace_0").write_bytes(pickle.dumps(os.system))
    with pytest.raises(pickle.UnpicklingError, match="posix.system|os.system|nt.system"):
        flight_recorder.read(str(tmp_path / "trace_"))
    (tmp_path / "trace_0").write_bytes(pickle.dumps([1]))
    with pytest.raises(ValueError, match="trace_0: no dump"):
        flight_recorder.read(str(tmp_path / "trace_"))
    with pytest.raises(FileNotFoundError):
        flight_recorder.read(str(tmp_path / "other_"))
