"""Runs on a Ray cluster of two nodes, which are two raylets of this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from worlds import library

import flambeau as torch
import flambeau.distributed as dist
from flambeau.distributed.elastic.multiprocessing.errors import ChildFailedError, record
from flambeau.distributed.launcher.api import LaunchConfig, elastic_launch

ray = pytest.importorskip("ray", reason='pip install "flambeau[ray]"')
if not (dist.is_mpi_available() and library().is_mpich):
    pytest.skip("workers of Ray are a world of MPICH", allow_module_level=True)

PATIENCE = 150.0  # seconds until a run counts as hung
STEPS = 60

# A counter in place of weights: it grows by the number of processes in each step, and is kept after every step.
TRAIN = """
import os, sys, time
import flambeau as torch, flambeau.distributed as dist

folder, steps = sys.argv[1], int(sys.argv[2])
path, gate = folder + "/kept.pt", folder + "/gate"
dist.init_process_group()
rank, size = dist.get_rank(), dist.get_world_size()
step, total = torch.load(path) if os.path.exists(path) else (0, 0.0)
with open(folder + "/log", "a") as file:
    print(os.environ["TORCHELASTIC_RESTART_COUNT"], rank, size, step, os.getpid(), os.getppid(), file=file)
while step < steps:
    x = torch.ones(1)
    dist.all_reduce(x)
    step, total = step + 1, total + x.item()
    if rank == 0:
        torch.save((step, total), path + ".part")
        os.replace(path + ".part", path)
    dist.barrier()
    time.sleep(0.02 if os.path.exists(gate) else 0.2)
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def cluster():
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    try:
        made.added = made.add_node(num_cpus=2)
        yield made
    finally:
        ray.shutdown()
        made.shutdown()


def rows(path):
    if not path.exists():
        return []
    return [tuple(map(int, line.split())) for line in path.read_text().splitlines()]


def wait(actual, process, what):
    end = time.monotonic() + PATIENCE
    while not (result := actual()):
        assert process.poll() is None, (what, process.communicate())
        assert time.monotonic() < end, what
        time.sleep(0.05)
    return result


def gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] == "Z"


def all_gone(pids):
    end = time.monotonic() + 30
    while not all(map(gone, pids)):
        assert time.monotonic() < end, [pid for pid in pids if not gone(pid)]
        time.sleep(0.05)


def place(base):
    dist.init_process_group()
    x = torch.full((1,), float(base + dist.get_rank()))
    dist.all_reduce(x)
    names = ("LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR")
    result = x.item(), *(os.environ[name] for name in names)
    dist.destroy_process_group()
    return result


@record
def fails():
    dist.init_process_group()
    if dist.get_rank() == 1:
        raise KeyError("mine")
    dist.barrier()


def test_a_function_on_two_nodes_and_one_that_fails(cluster):
    config = LaunchConfig(2, 2, 1, rdzv_backend="ray", rdzv_endpoint=cluster.address, max_restarts=0)
    host = ray.util.get_node_ip_address()
    assert elastic_launch(config, place)(10) == {
        0: (21.0, "0", "1", "0", host),
        1: (21.0, "0", "1", "1", host),
    }
    assert not ray.is_initialized()
    with pytest.raises(ChildFailedError) as caught:
        elastic_launch(config, fails)()
    assert caught.value.failures[1].exitcode == 1
    assert "Traceback" in str(caught.value) and "KeyError: 'mine'" in str(caught.value)


def test_a_lost_worker_and_then_a_lost_node_cost_one_step_each_at_most(cluster, tmp_path):
    program, log, saved = tmp_path / "train.py", tmp_path / "log", tmp_path / "kept.pt"
    program.write_text(TRAIN)
    command = [sys.executable, "-m", "flambeau.distributed.run", "--nnodes", "1:2", "--max-restarts", "2"]
    command += ["--rdzv-backend", "ray", "--rdzv-endpoint", cluster.address]
    command += ["--rdzv-conf", "last_call_timeout=2", str(program), str(tmp_path), str(STEPS)]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def of(number, size):
        results = [row for row in rows(log) if row[0] == number]
        return results if len(results) == size and saved.exists() else None

    try:
        first = wait(lambda: of(0, 2), run, "the first round")
        wait(lambda: torch.load(saved)[0] > 3, run, "three steps")
        (worker,) = [row[5] for row in first if row[1] == 1]
        before = torch.load(saved)[0]
        os.kill(worker, signal.SIGKILL)
        second = wait(lambda: of(1, 2), run, "the second round")
        assert {row[2] for row in second} == {2} and before <= second[0][3] < STEPS
        wait(lambda: torch.load(saved)[0] > second[0][3] + 1, run, "a step of the second round")
        cluster.remove_node(cluster.added, allow_graceful=False)
        third = wait(lambda: of(2, 1), run, "the third round")
        (tmp_path / "gate").touch()
        _, errors = run.communicate(timeout=PATIENCE)
    finally:
        run.kill()
        run.wait()
    assert run.returncode == 0, errors
    assert "rank 1 (pid " in errors and "restart 1 of 2" in errors and "restart 2 of 2" in errors
    resumed = third[0][3]
    assert torch.load(saved) == (
        STEPS,
        2.0 * resumed + (STEPS - resumed),
    )  # no step is lost, none counts twice
    all_gone(row[k] for row in rows(log) for k in (4, 5))


def test_no_process_outlives_a_killed_driver(cluster, tmp_path):
    program, log, saved = tmp_path / "train.py", tmp_path / "log", tmp_path / "kept.pt"
    program.write_text(TRAIN)
    command = [sys.executable, "-m", "flambeau.distributed.run", "--nproc-per-node", "2"]
    command += [
        "--rdzv-backend",
        "ray",
        "--rdzv-endpoint",
        cluster.address,
        str(program),
        str(tmp_path),
        "9999",
    ]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        wait(lambda: len(rows(log)) == 2 and saved.exists(), run, "two processes")
    finally:
        run.kill()
        run.communicate()
    assert {row[2] for row in rows(log)} == {2}
    all_gone(row[k] for row in rows(log) for k in (4, 5))
