"""Start a program in several processes that form one world: what `torchrun` does.

    python -m flambeau.distributed.run --nproc-per-node 4 train.py ...

Each process finds RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, GROUP_RANK, MASTER_ADDR and MASTER_PORT in its environment, and
`init_process_group()` needs no more.  The launcher keeps the store at which they meet.  When one fails the others are ended, and
all are started anew as often as --max-restarts says.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from datetime import timedelta
from types import FrameType
from typing import Any

from ._stores import DistError, TCPStore

__all__ = ["get_args_parser", "main", "parse_args", "run"]
_PR_SET_PDEATHSIG = 1
_BETWEEN = 0.05  # seconds between looks at the processes
_PATIENCE = 15.0  # seconds between SIGTERM and SIGKILL
_RUN_PATH = "import runpy, sys; del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')"
_MEETING = timedelta(minutes=15)


def get_args_parser() -> argparse.ArgumentParser:
    """The arguments.

    Raises nothing.

    >>> from flambeau.distributed.run import get_args_parser
    >>> get_args_parser().parse_args(["--nproc_per_node", "2", "train.py", "--lr", "1"]).training_script_args
    ['--lr', '1']
    """
    parser = argparse.ArgumentParser(prog="torchrun", description="Start a program in several processes.")

    def option(name: str, *others: str, **what: Any) -> None:
        both = dict.fromkeys([f"--{name}", f"--{name.replace('-', '_')}"])
        parser.add_argument(*others, *both, dest=name.replace("-", "_"), **what)

    option("nnodes", default="1", help="how many machines")
    option(
        "nproc-per-node",
        default="1",
        help="processes of a machine: a number, or `auto` or `cpu` for one a core",
    )
    option(
        "node-rank",
        type=int,
        default=None,
        help="which of the machines this is, from 0; else by who comes first",
    )
    option("master-addr", default=None, help="the first machine's address (127.0.0.1)")
    option("master-port", type=int, default=None, help="a port there (a free one, on one machine)")
    option("standalone", action="store_true", help="one machine, any free port")
    option("rdzv-backend", default="static", help="`c10d` or `static`")
    option(
        "rdzv-endpoint",
        default="",
        help="the first machine as HOST:PORT, in place of --master-addr and --master-port",
    )
    option("rdzv-id", default=None, help="the name of this run")
    option(
        "rdzv-conf",
        default="",
        help="`timeout=SECONDS` to wait for other machines, and `rank=` for --node-rank",
    )
    option(
        "max-restarts",
        type=int,
        default=0,
        help="how often all processes are started anew after a failure; one machine only",
    )
    option("monitor-interval", type=float, default=_BETWEEN, help="seconds between looks at the processes")
    option("role", default="default", help="ROLE_NAME in the processes")
    option(
        "log-dir", default=None, help="a folder for what the processes print, a file each, instead of here"
    )
    option("module", "-m", action="store_true", help="the program is a module")
    option("no-python", action="store_true", help="the program is not Python's")
    option("run-path", action="store_true", help="run the program inside of Python's runpy")
    parser.add_argument("training_script", help="the program")
    parser.add_argument("training_script_args", nargs=argparse.REMAINDER, help="its arguments")
    return parser


def parse_args(args: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the arguments; those of the program stay as they are.  SystemExit for arguments that it does not know (no ValueError).

    >>> from flambeau.distributed.run import parse_args
    >>> parse_args(["--standalone", "--nproc-per-node=4", "train.py"]).nproc_per_node
    '4'
    """
    return get_args_parser().parse_args(args)


def _per_node(text: str) -> int:
    if text in ("auto", "cpu"):
        return os.cpu_count() or 1
    try:
        count = int(text)
    except ValueError:
        raise ValueError(f"--nproc-per-node: a number, `auto` or `cpu`, not {text!r}") from None
    if count < 1:
        raise ValueError(f"--nproc-per-node: at least 1, not {count}")
    return count


def _nodes(text: str) -> int:
    least, _, most = text.partition(":")
    if most not in ("", least):
        raise ValueError(f"--nnodes {text}: the number of machines does not change here; give one number")
    return int(least)


class _Failure(Exception):
    """Processes have failed: which, and the exit code of the first."""

    def __init__(self, failed: dict[int, tuple[int, int]]) -> None:
        told = []
        for rank, (pid, code) in failed.items():
            if code < 0:
                name = signal.Signals(-code).name if -code in signal.valid_signals() else str(-code)
                what = f"was ended by signal {name}"
            else:
                what = f"ended with exit code {code}"
            told.append(f"rank {rank} (pid {pid}) {what}")
        super().__init__(", ".join(told))
        self.code = next(iter(failed.values()))[1]


def run(args: argparse.Namespace) -> None:
    """Start the processes, and wait for all of them.

    Raises:
        ValueError: arguments that do not go together
        SystemExit: a process failed, with its exit code (1 after a signal)

    >>> from flambeau.distributed.run import parse_args, run
    >>> run(parse_args(["--standalone", "--no-python", "true"]))
    """
    nodes, per_node = _nodes(args.nnodes), _per_node(args.nproc_per_node)
    if nodes > 1 and args.standalone:
        raise ValueError("--standalone is for one machine, and --nnodes says more")
    if nodes > 1 and args.max_restarts:
        raise ValueError(
            "--max-restarts: processes of several machines are not started anew; restart the run from its checkpoint"
        )
    for attempt in range(args.max_restarts + 1):
        store, host, node = _meeting_place(args, nodes)
        try:
            _attempt(args, nodes, node, per_node, store, host, attempt)
            return
        except _Failure as failure:
            print(f"torchrun: {failure}; the others are ended", file=sys.stderr, flush=True)
            if attempt == args.max_restarts:
                raise SystemExit(failure.code if failure.code > 0 else 1) from None
            print(f"torchrun: restart {attempt + 1} of {args.max_restarts}", file=sys.stderr, flush=True)
        finally:
            del store


def _meeting_place(args: argparse.Namespace, nodes: int) -> tuple[TCPStore, str, int]:
    """The store of the run, the address at which it is, and which of the machines this is."""
    conf = dict(pair.split("=", 1) for pair in args.rdzv_conf.split(",") if "=" in pair)
    timeout = timedelta(seconds=float(conf["timeout"])) if "timeout" in conf else _MEETING
    host, _, port = args.rdzv_endpoint.rpartition(":")
    if args.rdzv_endpoint and not host:
        host, port = args.rdzv_endpoint, ""
    host = host or args.master_addr or "127.0.0.1"
    number = int(port) if port else (args.master_port or 0)
    if args.standalone:
        host, number = "127.0.0.1", 0
    node = int(conf["rank"]) if args.node_rank is None and "rank" in conf else args.node_rank
    if nodes == 1:
        return TCPStore(host, number, is_master=True, timeout=timeout), host, 0
    if number == 0:
        raise ValueError(
            "several machines need --rdzv-endpoint HOST:PORT, or --master-addr and --master-port"
        )
    if node is None and args.rdzv_backend == "static":
        raise ValueError("several machines need --node-rank, or --rdzv-backend c10d")
    store = _shared_store(host, number, node, timeout)
    if node is None:
        node = store.add("run/nodes", 1) - 1
    if node >= nodes:
        raise ValueError(f"this is machine {node}, and --nnodes says {nodes}")
    return store, host, node


def _shared_store(host: str, port: int, node: int | None, timeout: timedelta) -> TCPStore:
    """The store of several machines; the one that has the address serves it, unless another process there does."""
    if node == 0 or (node is None and _is_here(host)):
        try:
            return TCPStore(host, port, is_master=True, timeout=timeout)
        except OSError:
            if node == 0:
                raise
    return TCPStore(host, port, timeout=timeout)


def _is_here(host: str) -> bool:
    try:
        with socket.create_server((host, 0)):
            return True
    except OSError:
        return False


def _attempt(
    args: argparse.Namespace, nodes: int, node: int, per_node: int, store: TCPStore, host: str, attempt: int
) -> None:
    run_id = args.rdzv_id or uuid.uuid4().hex[:12]
    size = nodes * per_node
    common = dict(
        WORLD_SIZE=size,
        LOCAL_WORLD_SIZE=per_node,
        GROUP_RANK=node,
        GROUP_WORLD_SIZE=nodes,
        ROLE_NAME=args.role,
        ROLE_WORLD_SIZE=size,
        MASTER_ADDR=host,
        MASTER_PORT=store.port,
        TORCHELASTIC_RESTART_COUNT=attempt,
        TORCHELASTIC_MAX_RESTARTS=args.max_restarts,
        TORCHELASTIC_RUN_ID=run_id,
        TORCHELASTIC_USE_AGENT_STORE="True",
    )
    inherited = {
        k: v for k, v in os.environ.items() if not k.startswith(("PMI_", "OMPI_COMM_WORLD_", "MPI_LOCAL"))
    }
    if per_node > 1:
        inherited.setdefault("OMP_NUM_THREADS", "1")
    processes: list[subprocess.Popen] = []
    stopped: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        stopped.append(number)

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        for local in range(per_node):
            rank = node * per_node + local
            told = dict(common, RANK=rank, LOCAL_RANK=local, ROLE_RANK=rank)
            processes.append(
                _started(args, {**inherited, **{k: str(v) for k, v in told.items()}}, run_id, attempt)
            )
        running = True
        while running and not stopped:
            codes = [process.poll() for process in processes]
            if any(codes):
                found = enumerate(zip(processes, codes), node * per_node)
                raise _Failure({rank: (process.pid, code) for rank, (process, code) in found if code})
            running = None in codes
            time.sleep(args.monitor_interval if running else 0)
        if nodes > 1 and not stopped:
            _wait_for_nodes(store, nodes, node)
    finally:
        _end(processes)
        for number, handler in before.items():
            signal.signal(number, handler)
    if stopped:
        raise SystemExit(128 + stopped[0])


def _wait_for_nodes(store: TCPStore, nodes: int, node: int) -> None:
    """The machine with the store stays until all are through."""
    try:
        store.add("run/done", 1)
        while node == 0 and int(store.get("run/done")) < nodes:
            time.sleep(_BETWEEN)
    except DistError as error:
        print(f"torchrun: the first machine ended before this one: {error}", file=sys.stderr)


def _started(
    args: argparse.Namespace, environment: dict[str, str], run_id: str, attempt: int
) -> subprocess.Popen:
    command = [] if args.no_python else [sys.executable, "-u"]
    if args.run_path:
        command += ["-c", _RUN_PATH]
    elif args.module:
        command += ["-m"]
    command += [args.training_script, *args.training_script_args]
    output = None
    if args.log_dir is not None:
        folder = os.path.join(args.log_dir, run_id, f"attempt_{attempt}", environment["RANK"])
        os.makedirs(folder, exist_ok=True)
        output = open(os.path.join(folder, "output.log"), "wb")  # the process's own from now on
    try:
        return subprocess.Popen(
            command, env=environment, stdout=output, stderr=output, preexec_fn=_die_with_parent
        )
    finally:
        if output is not None:
            output.close()


def _die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _end(processes: list[subprocess.Popen]) -> None:
    """No process outlives the run."""
    for process in processes:
        if process.poll() is None:
            process.terminate()
    end = time.monotonic() + _PATIENCE
    for process in processes:
        try:
            process.wait(max(end - time.monotonic(), 0.01))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def main(args: Sequence[str] | None = None) -> None:
    """The command `torchrun`.

    Raises:
        SystemExit: a process failed, or the arguments do not go together (the ValueError of `run`)

    >>> from flambeau.distributed.run import main
    >>> main(["--standalone", "--no-python", "true"])
    """
    given = parse_args(args)
    try:
        run(given)
    except ValueError as error:
        get_args_parser().error(str(error))


if __name__ == "__main__":
    main()
