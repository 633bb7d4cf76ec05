"""Processes that are started anew: on fewer machines from the last checkpoint, by the command line and from Python."""

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
from flambeau.distributed._rendezvous import free_port
from flambeau.distributed.elastic import metrics
from flambeau.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure, record
from flambeau.distributed.launcher.api import LaunchConfig, elastic_launch

LAUNCHER = [sys.executable, "-m", "flambeau.distributed.run"]
MPICH = dist.is_mpi_available() and library().is_mpich
ONLY_MPICH = pytest.mark.skipif(
    not MPICH, reason="Open MPI's mpiexec starts processes of several machines itself"
)

# A counter in place of weights: it grows by the number of processes in each step, and is kept after every step.
TRAIN = """
import os, sys, time
import flambeau as torch, flambeau.distributed as dist
from flambeau.distributed.elastic.multiprocessing.errors import record

@record
def main():
    path, steps = sys.argv[1], int(sys.argv[2])
    dist.init_process_group()
    step, total = torch.load(path) if os.path.exists(path) else (0, 0.0)
    print(f"from {step} on {dist.get_world_size()}", flush=True)
    while step < steps:
        x = torch.ones(1)
        dist.all_reduce(x)
        step, total = step + 1, total + x.item()
        if dist.get_rank() == 0:
            torch.save((step, total), path)
        dist.barrier()
        time.sleep(0.02)
        if dist.get_world_size() == 1 and step > 100 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            raise RuntimeError("nobody came")
    print(f"done {step} {total}", flush=True)
    dist.destroy_process_group()

main()
"""


def launched(arguments, program, path, steps):
    command = [*LAUNCHER, *arguments, str(program), str(path), str(steps)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@ONLY_MPICH
def test_the_run_goes_on_from_the_checkpoint_on_the_machine_that_is_left(tmp_path):
    program, path = tmp_path / "train.py", tmp_path / "kept.pt"
    program.write_text(TRAIN)
    arguments = ["--nnodes", "1:2", "--nproc-per-node", "1", "--rdzv-backend", "c10d", "--max-restarts", "2"]
    arguments += ["--rdzv-endpoint", f"127.0.0.1:{free_port()}", "--rdzv-conf", "last_call_timeout=4"]
    first = launched(arguments, program, path, 60)
    time.sleep(1.0)  # this one serves the store
    second = launched(arguments, program, path, 60)
    try:
        end = time.monotonic() + 100
        while not path.exists():  # the first step on two machines is kept
            assert time.monotonic() < end and first.poll() is None
            time.sleep(0.02)
        time.sleep(0.2)
        second.kill()
        said, errors = first.communicate(timeout=100)
    finally:
        for each in (first, second):
            each.kill()
            each.wait()
    lines = said.splitlines()
    assert first.returncode == 0, errors
    assert lines[0] == "from 0 on 2" and lines[1].endswith(" on 1") and len(lines) == 3
    resumed = int(lines[1].split()[1])
    assert 0 < resumed < 60 and "restart 1 of 2" in errors
    assert lines[2] == f"done 60 {2.0 * resumed + (60 - resumed)}"  # no step is lost, and none counts twice


@ONLY_MPICH
def test_a_machine_that_comes_later_takes_part(tmp_path):
    program, path = tmp_path / "train.py", tmp_path / "kept.pt"
    program.write_text(TRAIN.replace("step > 100", "step > 10_000"))
    arguments = ["--nnodes", "1:2", "--nproc-per-node", "1", "--rdzv-backend", "c10d"]
    arguments += ["--rdzv-endpoint", f"127.0.0.1:{free_port()}", "--rdzv-conf", "last_call_timeout=2"]
    first = launched(arguments, program, path, 120)
    try:
        end = time.monotonic() + 100
        while not path.exists():
            assert time.monotonic() < end and first.poll() is None
            time.sleep(0.02)
        second = launched(arguments, program, path, 120)
        said, errors = second.communicate(timeout=100)
        lines = first.communicate(timeout=100)[0].splitlines()
    finally:
        first.kill()
        first.wait()
    assert second.returncode == first.returncode == 0, errors
    resumed = int(lines[1].split()[1])
    assert lines[0] == "from 0 on 1" and lines[1].endswith(" on 2")
    assert lines[2] == f"done 120 {resumed + 2.0 * (120 - resumed)}" and lines[2] in said


def own_rank(base):
    dist.init_process_group()
    x = torch.full((1,), float(base + dist.get_rank()))
    dist.all_reduce(x)
    return x.item(), os.environ["TORCHELASTIC_RESTART_COUNT"]


def fails_once(path):
    dist.init_process_group()
    if dist.get_rank() == 1 and not os.path.exists(path):
        open(path, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    dist.barrier()
    return dist.get_rank()


def always_fails():
    if os.environ["RANK"] == "1":
        raise KeyError("mine")
    time.sleep(60)


def test_a_function_in_several_processes(tmp_path):
    config = LaunchConfig(1, 1, 2, max_restarts=0)
    assert elastic_launch(config, own_rank)(10) == {0: (21.0, "0"), 1: (21.0, "0")}
    assert elastic_launch(LaunchConfig(1, 1, 2, max_restarts=1), fails_once)(str(tmp_path / "once")) == {
        0: 0,
        1: 1,
    }


@ONLY_MPICH
def test_a_function_that_fails_in_one_process():
    with pytest.raises(ChildFailedError) as caught:
        elastic_launch(LaunchConfig(1, 1, 2, role="mine", max_restarts=0), always_fails)()
    rank, failure = caught.value.get_first_failure()
    assert rank == 1 and failure.exitcode == 1 and list(caught.value.failures) == [1]
    assert failure.message["message"] == "KeyError: 'mine'" and "in always_fails" in str(caught.value)
    assert str(caught.value).startswith("mine FAILED: rank 1 (pid ")


def test_a_program_by_its_name():
    assert elastic_launch(LaunchConfig(1, 1, 2), "true")() == {}
    with pytest.raises(ChildFailedError, match="ended with exit code"):
        elastic_launch(LaunchConfig(1, 1, 2, max_restarts=0), "false")()


@pytest.mark.parametrize(
    "given, said",
    [
        (dict(min_nodes=2, max_nodes=1, nproc_per_node=1), "1 <= min_nodes <= max_nodes, not 2, 1"),
        (dict(min_nodes=1, max_nodes=1, nproc_per_node=0), "at least one process"),
        (dict(min_nodes=1, max_nodes=2, nproc_per_node=1), "several machines need rdzv_endpoint"),
        (dict(min_nodes=1, max_nodes=1, nproc_per_node=1, rdzv_backend="etcd"), "not 'etcd'"),
    ],
)
def test_configurations_that_do_not_go_together(given, said):
    with pytest.raises(ValueError, match=said):
        LaunchConfig(**given)


def test_what_a_process_has_written_of_its_error(tmp_path, monkeypatch):
    path = tmp_path / "error.json"
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(path))

    @record
    def main(x):
        return 1 // x

    assert main(1) == 1 and not path.exists()
    with pytest.raises(ZeroDivisionError):
        main(0)
    failure = ProcessFailure(0, 12, 1, str(path))
    assert failure.message["message"].startswith("ZeroDivisionError") and "1 // x" in failure.text()
    assert abs(failure.timestamp - time.time()) < 100
    path.write_text('{"message": 3')
    torn = ProcessFailure(0, 12, -11, str(path))
    assert torn.message == "Signal 11 (SIGSEGV) received by PID 12" and torn.error_file == "<N/A>"


def test_metrics_go_to_their_groups_handler():
    seen = []

    class Handler(metrics.MetricHandler):
        def emit(self, metric_data):
            seen.append((metric_data.group_name, metric_data.name, metric_data.value))

    metrics.configure(Handler(), "here")

    @metrics.prof(group="here")
    def step(x):
        return 1 // x

    assert step(1) == 1
    with pytest.raises(ZeroDivisionError):
        step(0)
    metrics.put_metric("loss", 0.5, "here")
    metrics.put_metric("loss", 0.5, "elsewhere")
    names = [name.rpartition("step.")[2] for _, name, _ in seen]
    assert names == ["success", "duration.ms", "failure", "duration.ms", "loss"] and seen[-1] == (
        "here",
        "loss",
        0.5,
    )
