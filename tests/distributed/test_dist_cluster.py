"""A driver's rounds on a cluster without Ray: placing ranks, their environment, restarts on what is left."""

from __future__ import annotations

import json
import os
import tempfile
from datetime import timedelta

import pytest

import flambeau.distributed as dist
from flambeau.distributed import _ray
from flambeau.distributed._cluster import Ended, Job, Unplaced, launch
from flambeau.distributed._launch import Plan
from flambeau.distributed.elastic.multiprocessing.errors import ChildFailedError
from flambeau.distributed.launcher.api import LaunchConfig, elastic_launch
from flambeau.distributed.run import main, parse_args, run


class Nodes:
    """A cluster whose programs end as a list says: for each round, a function of the jobs that gives each one's end.

    A round may be a pair: the nodes that there are once it runs, and such a function.
    """

    host = "127.0.0.1"

    def __init__(self, there, rounds, broken=()):
        self.there, self.rounds, self.broken = list(there), list(rounds), set(broken)
        self.begun, self.tried, self.living = [], [], 0

    def nodes(self, workers):
        return [node for node, cpus in self.there if cpus >= workers]

    def place(self, nodes):
        self.tried.append(list(nodes))
        if bad := self.broken & set(nodes):
            raise Unplaced(sorted(bad), f"no worker on {sorted(bad)}")
        self.living += len(nodes)
        return [f"{node}/{k}" for k, node in enumerate(nodes)]

    def begin(self, workers, jobs):
        self.begun.append([(worker.split("/")[0], job) for worker, job in zip(workers, jobs)])
        self.now = self.rounds.pop(0)
        if isinstance(self.now, tuple):
            there, self.now = self.now
            self.there = list(there)

    def poll(self, workers):
        return self.now([job for _, job in self.begun[-1]])

    def stop(self, workers):
        self.living -= len(workers)


def through(jobs):
    return [Ended(100 + k, 0, result=job.environment["RANK"].encode()) for k, job in enumerate(jobs)]


def running(jobs):
    return [None] * len(jobs)


def lost_last(jobs):
    told = {"message": "DistBackendError: rank died", "extraInfo": {"py_callstack": "Traceback of the other"}}
    error = json.dumps({"message": {**told, "extraInfo": {**told["extraInfo"], "timestamp": "1000"}}})
    others = [Ended(100 + k, 1, error) for k in range(len(jobs) - 1)]
    return [*others, Ended(99, -9, lost="its actor on node b is gone")]


def plan(least=1, most=2, per_node=2, **more):
    made = Plan(["train", "x"], least, most, per_node, last_call=0.2, timeout=timedelta(seconds=30))
    made.__dict__.update(interval=0.01, **more)
    return made


def test_ranks_go_node_by_node_and_know_where_they_are(tmp_path):
    nodes = Nodes([("a", 4), ("small", 1), ("b", 2), ("c", 2)], [through])
    made = plan(2, 2, run_id="mine", log_dir=str(tmp_path), role="trainer", max_restarts=3)
    assert launch(made, nodes, b"call") == {rank: str(rank).encode() for rank in range(4)}
    (begun,) = nodes.begun
    assert [node for node, _ in begun] == ["a", "a", "b", "b"]  # "small" has not room for two
    names = "RANK LOCAL_RANK GROUP_RANK ROLE_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_WORLD_SIZE ROLE_WORLD_SIZE".split()
    seen = [[int(job.environment[name]) for name in names] for _, job in begun]
    assert seen == [[r, r % 2, r // 2, r, 4, 2, 2, 4] for r in range(4)]
    for rank, (_, job) in enumerate(begun):
        told = job.environment
        assert (told["MASTER_ADDR"], told["ROLE_NAME"]) == ("127.0.0.1", "trainer") and int(
            told["MASTER_PORT"]
        )
        assert told["TORCHELASTIC_RUN_ID"] == "mine" and told["TORCHELASTIC_USE_AGENT_STORE"] == "True"
        assert (told["TORCHELASTIC_RESTART_COUNT"], told["TORCHELASTIC_MAX_RESTARTS"]) == ("0", "3")
        assert (job.command, job.call) == (["train", "x"], b"call")
        assert job.log == str(tmp_path / "mine" / "attempt_0" / str(rank))
    assert nodes.living == 0


def test_a_lost_node_restarts_the_run_on_what_is_left():
    both, left = [("a", 2), ("b", 2)], [("a", 2)]
    nodes = Nodes(both, [(left, lost_last), through])
    assert launch(plan(max_restarts=1), nodes) == {0: b"0", 1: b"1"}
    assert [[node for node, _ in begun] for begun in nodes.begun] == [["a", "a", "b", "b"], ["a", "a"]]
    again = nodes.begun[1][1][1].environment
    assert (again["WORLD_SIZE"], again["TORCHELASTIC_RESTART_COUNT"]) == ("2", "1")
    assert nodes.living == 0


def test_a_lost_worker_is_the_first_failure_though_others_wrote_theirs_before(capfd):
    nodes = Nodes([("a", 2), ("b", 2)], [lost_last, lost_last])
    with pytest.raises(ChildFailedError) as caught:
        launch(plan(max_restarts=1, role="train"), nodes)
    assert len(nodes.begun) == 2 and nodes.living == 0
    rank, failure = caught.value.get_first_failure()
    assert (rank, failure.exitcode, failure.local_rank) == (3, -9, 1)
    text = str(caught.value)
    assert "train FAILED: rank 3 (pid 99) was ended by signal SIGKILL, rank 0" in text
    assert "its actor on node b is gone" in text and text.count("Traceback of the other") == 3
    assert "restart 1 of 1" in capfd.readouterr().err


def test_a_node_that_comes_takes_part_and_is_no_failure():
    nodes = Nodes([("a", 2)], [([("a", 2), ("b", 2)], running), through])
    assert len(launch(plan(max_restarts=0), nodes)) == 4
    assert [len(begun) for begun in nodes.begun] == [2, 4] and nodes.living == 0


def test_a_node_where_no_worker_starts_is_left_out():
    nodes = Nodes([("a", 2), ("b", 2), ("c", 2)], [through], broken=["b"])
    assert len(launch(plan(1, 3), nodes)) == 4
    assert nodes.tried == [["a", "a", "b", "b", "c", "c"], ["a", "a", "c", "c"]]


def test_too_few_nodes_say_how_many_and_why():
    nodes = Nodes([("a", 2), ("b", 2), ("small", 1)], [], broken=["b"])
    made = plan(2, 2)
    made.timeout = timedelta(seconds=1)
    with pytest.raises(
        dist.DistStoreError, match=r"the cluster had 1 nodes for 2 workers each.*wants 2.*\['b'\]"
    ):
        launch(made, nodes)
    assert nodes.living == 0


def test_without_ray_the_extra_is_named(monkeypatch, capfd):
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(ImportError, match=r'pip install "flambeau\[ray\]"'):
        _ray.imported()
    with pytest.raises(ImportError, match=r'pip install "flambeau\[ray\]"'):
        elastic_launch(LaunchConfig(1, 2, 1, rdzv_backend="ray"), len)("x")
    with pytest.raises(SystemExit) as caught:
        run(parse_args(["--rdzv-backend", "ray", "--nnodes", "1:2", "train.py"]))
    assert caught.value.code == 1 and 'pip install "flambeau[ray]"' in capfd.readouterr().err


def test_the_folder_of_a_killed_worker_is_removed_by_the_next_and_one_of_a_living_stays(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    living, killed = _ray.Worker(), _ray.Worker()
    os.close(killed._lock)  # as its end does
    last = _ray.Worker()
    assert sorted(map(str, tmp_path.iterdir())) == sorted([living._folder, last._folder])
    for worker in (living, last):
        worker.stop()
    assert list(tmp_path.iterdir()) == []


def test_a_worker_runs_a_program_and_says_how_it_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    program = "import os, sys; open(os.environ['TORCHELASTIC_ERROR_FILE'], 'w').write('why'); print(os.getcwd()); sys.exit(3)"
    worker = _ray.Worker()
    job = Job(["the driver's python", "-c", program], {"RANK": "1"}, str(tmp_path / "logs"))
    worker.begin(job, "the driver's python", str(tmp_path))
    worker._process.wait(60)
    ended = worker.poll()
    assert (ended.pid, ended.code, ended.error, ended.result) == (worker.pid(), 3, "why", None)
    worker.stop()
    assert (tmp_path / "logs" / "output.log").read_text() == f"{tmp_path}\n"
    sleeping = _ray.Worker()
    sleeping.begin(Job(["sleep", "600"], {"RANK": "0"}), "", None)
    assert sleeping.poll() is None
    sleeping.stop()
    assert sleeping.poll().code == -15 and [path.name for path in tmp_path.iterdir()] == ["logs"]


@pytest.mark.parametrize("more", [["--standalone"], ["--node-rank", "0"], ["--master-addr", "127.0.0.1"]])
def test_what_does_not_go_with_ray_is_refused(more, capfd):
    with pytest.raises(SystemExit):
        main(["--rdzv-backend", "ray", *more, "train.py"])
    assert "--rdzv-backend ray: Ray says which machines there are" in capfd.readouterr().err
