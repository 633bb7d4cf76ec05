"""How processes come together: by environment, address, file, store, mpiexec and launcher; and what is said where they do not."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest
from worlds import results, started, world

import flambeau as torch
import flambeau.distributed as dist
from flambeau import multiprocessing as mp
from flambeau.distributed import DistBackendError, _mpiexec, run

MPIEXEC = Path(sys.executable).parent / "mpiexec"
LAUNCHER = [sys.executable, "-m", "flambeau.distributed.run"]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as result:
        return result.getsockname()[1]


def met(rank, size, how, port, path):
    if how == "env":
        os.environ.update(
            RANK=str(rank), WORLD_SIZE=str(size), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)
        )
        dist.init_process_group()
        assert dist.get_backend() == "mpi"
    elif how == "tcp":
        dist.init_process_group("mpi", init_method=f"tcp://localhost:{port}", rank=rank, world_size=size)
    elif how == "tcp in the address":
        dist.init_process_group("gloo", init_method=f"tcp://localhost:{port}?rank={rank}&world_size={size}")
        assert dist.get_backend() == "gloo"
    elif how == "file":
        dist.init_process_group(
            "cpu:gloo,cuda:nccl", init_method=f"file://{path}", rank=rank, world_size=size
        )
    else:
        store = dist.TCPStore("127.0.0.1", port, size, rank == 0)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
    x = torch.full((2,), float(rank))
    dist.all_reduce(x)
    return dist.get_rank(), dist.get_world_size(), x.tolist(), "PMI_RANK" in os.environ


@pytest.mark.parametrize("how", ["env", "tcp", "tcp in the address", "file", "store"])
def test_ways_to_meet(how, tmp_path):
    result = world(2, met, how, free_port(), str(tmp_path / "store"), form=False)
    assert result == [(rank, 2, [1.0, 1.0], False) for rank in range(2)]


def again(rank, size, path):
    for k in range(3):
        dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=size)
        x = torch.ones(1)
        dist.all_reduce(x)
        assert x.item() == size and dist.is_initialized()
        with pytest.raises(ValueError, match="trying to initialize the default process group twice!"):
            dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=size)
        group = dist.group.WORLD
        dist.destroy_process_group()
        assert not dist.is_initialized() and dist.group.WORLD is None
        with pytest.raises(ValueError, match="Default process group has not been initialized"):
            dist.all_reduce(x)
        with pytest.raises(ValueError, match="Invalid process group specified"):
            dist.get_rank(group) if k == 0 else dist.all_reduce(x, group=group)
    with pytest.raises(RuntimeError, match="a process has one such world in its life"):
        dist.init_process_group("gloo", init_method=f"file://{path}", rank=0, world_size=1)
    assert not dist.is_initialized()


def test_the_same_processes_form_a_group_anew(tmp_path):
    world(2, again, str(tmp_path / "store"), form=False)


def one_is_missing(rank, size, path):
    start = time.monotonic()
    with pytest.raises(DistBackendError, match="rank 2 did not come"):
        dist.init_process_group(
            "gloo", init_method=f"file://{path}", rank=rank, world_size=3, timeout=timedelta(seconds=3)
        )
    assert not dist.is_initialized() and time.monotonic() - start < 60


def test_a_process_that_does_not_come_is_named(tmp_path):
    world(2, one_is_missing, str(tmp_path / "store"), form=False)


def spawned(rank, size, port, path):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=size)
    results = [None] * size
    dist.all_gather_object(results, rank)
    Path(path, str(rank)).write_text(str(results))
    dist.destroy_process_group()


def test_processes_of_spawn(tmp_path):
    mp.spawn(spawned, args=(2, free_port(), str(tmp_path)), nprocs=2)
    assert [(tmp_path / str(rank)).read_text() for rank in range(2)] == ["[0, 1]"] * 2


def wrong_environment(rank, size):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        os.environ.pop(name, None)
    told = dict(RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="1")
    for name in told:
        os.environ.update(told)
        del os.environ[name]
        with pytest.raises(
            ValueError, match=f"using env:// rendezvous: environment variable {name} expected, but not set"
        ):
            dist.init_process_group("gloo")
    os.environ.update(told, RANK="first")
    with pytest.raises(ValueError, match="environment variable RANK is no number: 'first'"):
        dist.init_process_group("gloo")
    for url, said in (
        ("tcp://127.0.0.1", "port number missing"),
        ("tcp://127.0.0.1:5", "rank parameter missing"),
        ("tcp://127.0.0.1:5?rank=0", "world size parameter missing"),
        ("file://", "path missing"),
        ("file:///tmp/x", "rank parameter missing"),
    ):
        with pytest.raises(ValueError, match=said):
            dist.init_process_group("gloo", init_method=url)
    with pytest.raises(RuntimeError, match="No rendezvous handler for nowhere://"):
        dist.init_process_group("gloo", init_method="nowhere://x", rank=0, world_size=1)
    with pytest.raises(ValueError, match="Invalid rank 3, rank should be in the interval"):
        dist.init_process_group("gloo", init_method="tcp://127.0.0.1:5", rank=3, world_size=2)
    with pytest.raises(AssertionError, match="Cannot specify both init_method and store"):
        dist.init_process_group("gloo", init_method="env://", store=dist.HashStore(), rank=0, world_size=1)
    with pytest.raises(AssertionError, match="world_size must be positive"):
        dist.init_process_group("gloo", store=dist.HashStore())
    with pytest.raises(TypeError, match="Expected timeout argument to be of type datetime.timedelta"):
        dist.init_process_group("gloo", timeout=5)
    with pytest.raises(ValueError, match="Invalid backend: 'pigeon'"):
        dist.init_process_group("pigeon")
    with pytest.raises(RuntimeError, match="doesn't have NCCL built in"):
        dist.init_process_group("nccl")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(dist.DistNetworkError, match="in use"):
            dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=0, world_size=1)
    assert not dist.is_initialized()


def test_what_is_not_told_is_asked_for_by_name():
    world(1, wrong_environment, form=False)


def test_without_mpi_it_says_what_to_install():
    code = """
import importlib.abc, sys
class Gone(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] == "mpi4py": raise ModuleNotFoundError(f"No module named {name!r}")
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *a: None if name == "mpi4py" else found(name, *a)
sys.meta_path.insert(0, Gone())
import flambeau.distributed as dist
print(dist.is_available(), dist.is_mpi_available(), dist.is_gloo_available())
try:
    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:0", rank=0, world_size=1)
except RuntimeError as error:
    print(error)
dist.init_process_group("fake", rank=0, world_size=2)
print(dist.get_world_size())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    first, said, last = done.stdout.splitlines()
    assert first == "False False False" and last == "2", done.stderr
    assert "Distributed package doesn't have MPI built in" in said and 'pip install "flambeau[mpi]"' in said


PROGRAM = """
import os, sys
import flambeau as torch, flambeau.distributed as dist
if "early" in sys.argv and os.environ["RANK"] == "1": sys.exit(7)
dist.init_process_group("gloo")
if os.environ.get("TORCHELASTIC_RESTART_COUNT") == "0" and "once" in sys.argv and dist.get_rank() == 1: os.kill(os.getpid(), 9)
x = torch.ones(1); dist.all_reduce(x)
told = [os.environ[name] for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")]
sys.stdout.write(" ".join([*told, str(int(x.item())), *sys.argv[1:]]) + "\\n"); sys.stdout.flush()
dist.barrier()
if "finish" in sys.argv: dist.destroy_process_group()
"""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return str(path)


def ran(command, *, code=0, env=None, **options):
    env = {
        **_mpiexec.environment(os.environ if env is None else env),
        "PYTHONUNBUFFERED": "",
    }  # lines of several processes stay whole
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=200, env=env, **options
    )
    assert done.returncode == code, done.stderr
    return done


@pytest.mark.parametrize("end", ["finish", "just end"])
def test_under_mpiexec(program, end):
    done = ran([MPIEXEC, "-n", "3", sys.executable, program, end])
    assert sorted(done.stdout.splitlines()) == [f"{rank} {rank} 3 3 3 {end}" for rank in range(3)]


def test_under_the_launcher(program, tmp_path):
    done = ran([*LAUNCHER, "--standalone", "--nproc-per-node=2", program, "--lr", "1"])
    assert sorted(done.stdout.splitlines()) == [f"{rank} {rank} 2 2 2 --lr 1" for rank in range(2)]
    ran([*LAUNCHER, "--nproc_per_node", "2", "--rdzv-id", "job", "--log-dir", tmp_path / "log", program])
    assert (tmp_path / "log/job/attempt_0/1/output.log").read_text() == "1 1 2 2 2\n"


def test_the_launcher_names_who_failed_and_starts_anew(program):
    done = ran([*LAUNCHER, "--nproc-per-node", "2", "--max-restarts", "1", program, "once"])
    assert sorted(done.stdout.splitlines()) == ["0 0 2 2 2 once", "1 1 2 2 2 once"]
    assert "was ended by signal SIGKILL" in done.stderr and "torchrun: restart 1 of 1" in done.stderr
    done = ran([*LAUNCHER, "--nproc-per-node", "2", program, "early"], code=7)
    assert "rank 1 (pid" in done.stderr and "ended with exit code 7; the others are ended" in done.stderr


PAGE = Path(__file__).resolve().parents[2] / "docs" / "distributed.md"


def test_programs_of_the_page(tmp_path):
    train, program, *_ = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "train.py").write_text(train)
    (tmp_path / "program.py").write_text(program.replace("29500", str(free_port())))
    done = ran([*LAUNCHER, "--standalone", "--nproc-per-node", "4", tmp_path / "train.py"])
    assert done.stdout.splitlines() == [f"epoch {k} on 4 processes" for k in range(3)]
    done = ran([sys.executable, tmp_path / "program.py"])
    said, tensors = re.subn(r"tensor\(\[6\., 6\.\]\)", "", done.stdout)  # lines of several processes may mix
    assert tensors == 4 and sorted(re.findall(r"\d", said)) == ["0", "1", "2", "3"]


PACKAGE = Path(torch.__file__).parent


def test_programs_of_pytorch_run_under_its_launchers_name(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(
        "import torch, torch.distributed as dist\n"
        "from torch.nn.parallel import DistributedDataParallel as DDP\n"
        "dist.init_process_group('gloo')\n"
        "net = DDP(torch.nn.Linear(2, 1, bias=False))\n"
        "net(torch.full((1, 2), float(dist.get_rank()))).sum().backward()\n"
        "import sys; sys.stdout.write(f'{torch.__name__} {net.module.weight.grad.tolist()} {dist.DistBackendError}\\n')\n"
    )
    paths = [PACKAGE / "_compat" / "_shim", PACKAGE.parent, os.environ.get("PYTHONPATH", "")]
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2", path]
    done = ran(command, env=dict(os.environ, PYTHONPATH=os.pathsep.join(map(str, paths))))
    assert done.stdout.splitlines() == ["torch [[0.5, 0.5]] <class 'torch.distributed.DistBackendError'>"] * 2


def test_two_launchers_make_one_world(program):
    port = free_port()
    command = [
        *LAUNCHER,
        "--nnodes",
        "2",
        "--nproc-per-node",
        "1",
        "--rdzv-backend",
        "c10d",
        "--rdzv-endpoint",
        f"127.0.0.1:{port}",
        program,
    ]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        said = sorted(each.communicate(timeout=200)[0] for each in both)
    finally:
        for each in both:
            each.kill()
    assert said == ["0 0 2 1 2\n", "1 0 2 1 2\n"]


def test_processes_end_with_their_launcher(program, tmp_path):
    path = tmp_path / "sleep.py"
    path.write_text(
        "import os, sys, time\nopen(sys.argv[1] + os.environ['RANK'], 'w').write(str(os.getpid()))\ntime.sleep(1000)\n"
    )
    launcher = subprocess.Popen([*LAUNCHER, "--nproc-per-node", "2", str(path), str(tmp_path / "pid")])
    pids = [tmp_path / f"pid{rank}" for rank in range(2)]
    try:
        end = time.monotonic() + 100
        while not all(p.exists() and p.read_text() for p in pids):
            assert time.monotonic() < end
            time.sleep(0.05)
    finally:
        launcher.kill()
        launcher.wait()
    for pid in (int(p.read_text()) for p in pids):
        while (
            Path(f"/proc/{pid}").exists()
            and "Z" not in Path(f"/proc/{pid}/stat").read_text().split(") ")[1][:1]
        ):
            assert time.monotonic() < end
            time.sleep(0.05)


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["--nproc-per-node", "gpu"], "a number, `auto` or `cpu`, not 'gpu'"),
        (["--nproc-per-node", "0"], "at least 1, not 0"),
        (["--nnodes", "1:4", "--node-rank", "0", "--master-port", "1"], "none has a fixed --node-rank"),
        (["--nnodes", "4:1"], "1 <= LEAST <= MOST, not '4:1'"),
        (["--nnodes", "two"], "a number, or LEAST:MOST, not 'two'"),
        (["--nnodes", "2", "--standalone"], "--standalone is for one machine"),
        (
            ["--nnodes", "2", "--node-rank", "2", "--master-port", "1"],
            "this is machine 2, and --nnodes says 2",
        ),
        (["--nnodes", "2"], "several machines need --rdzv-endpoint HOST:PORT"),
    ],
)
def test_arguments_that_do_not_go_together(arguments, said, capsys):
    with pytest.raises(SystemExit) as caught:
        run.main([*arguments, "train.py"])
    assert caught.value.code == 2 and said in capsys.readouterr().err


def test_a_stranger_at_the_process_manager_changes_nothing():
    from flambeau.distributed._pmi import Server

    server = Server("127.0.0.1", ["a", "a"])
    host, port = server.address.split(":")
    for nonsense in (
        b"\x00\xff" * 100,
        b"cmd=watch rank=x\n",
        b"cmd=put\n",
        b"cmd=get key=none\n",
        b"x" * 100000 + b"\n",
        b"cmd=fly\n",
    ):
        with socket.create_connection((host, int(port)), 10) as connection:
            connection.sendall(nonsense)
            with contextlib.suppress(OSError):  # it has hung up
                connection.shutdown(socket.SHUT_WR)
            connection.settimeout(10)
            try:
                answer = connection.recv(100)
            except ConnectionResetError:
                answer = b""
            assert answer in (b"", b"cmd=get_result rc=-1 msg=key_not_found\n")
    with socket.create_connection((host, int(port)), 10) as connection:
        connection.sendall(
            b"cmd=initack pmiid=1\ncmd=put kvsname=k key=a value=b=c\ncmd=get kvsname=k key=a\n"
        )
        lines = [line.strip() for _, line in zip(range(6), connection.makefile())]
    assert lines[:2] == ["cmd=initack rc=0", "cmd=set size=2"]
    assert lines[4:] == ["cmd=put_result rc=0", "cmd=get_result rc=0 value=b=c"]
    server.close()


def listening(rank, size):
    """Addresses at which this process listens."""
    results = set()
    inodes = {
        os.readlink(f"/proc/self/fd/{fd}")
        for fd in os.listdir("/proc/self/fd")
        if os.path.exists(f"/proc/self/fd/{fd}")
    }
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
                results.add(fields[1].partition(":")[0])
    dist.barrier()
    return results


def test_nothing_listens_on_other_interfaces():
    loopback = "0100007F"
    assert set.union(*world(2, listening)) <= {loopback}


def test_signals_still_interrupt_a_call(interruptible):
    with started(2, interrupted) as (processes, pipes):
        assert pipes[0].poll(60) and pipes[0].recv() == (True, "interrupted")
        results(processes[1:], pipes[1:])


def interrupted(rank, size):
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if rank == 1:
        time.sleep(1.5)
        return None
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    signal.alarm(1)
    try:
        dist.all_reduce(torch.ones(1))
    except KeyboardInterrupt:
        return "interrupted"
    return "not interrupted"
