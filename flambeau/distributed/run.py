"""Start a program in several processes that form one world: what `torchrun` does.

    python -m flambeau.distributed.run --nproc-per-node 4 train.py ...

Each process finds RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, GROUP_RANK, MASTER_ADDR and MASTER_PORT in its environment, and
`init_process_group()` needs no more.  The launcher keeps the store at which they meet.  When one fails the others are ended, and
all are started anew as often as --max-restarts says; with --nnodes LEAST:MOST on the machines that are there then.  With
--rdzv-backend ray it is called once, and starts the processes on the nodes of a Ray cluster.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from ._launch import BETWEEN, LAST_CALL, MEETING, Plan, launch
from ._stores import DistError
from .elastic.multiprocessing.errors import ChildFailedError

__all__ = ["get_args_parser", "main", "parse_args", "run"]
_RUN_PATH = "import runpy, sys; del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')"


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

    option("nnodes", default="1", help="how many machines: a number, or LEAST:MOST where they come and go")
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
    option("rdzv-backend", default="static", help="`c10d`, `static`, or `ray` for the nodes of a Ray cluster")
    option(
        "rdzv-endpoint",
        default="",
        help="the first machine as HOST:PORT, in place of --master-addr and --master-port; with Ray its address (else the cluster that "
        "Ray finds)",
    )
    option("rdzv-id", default=None, help="the name of this run")
    option(
        "rdzv-conf",
        default="",
        help="`timeout=SECONDS` to wait for machines, `last_call_timeout=` for more when there are enough, `rank=` for --node-rank",
    )
    option(
        "max-restarts",
        type=int,
        default=0,
        help="how often all processes are started anew after a failure",
    )
    option("monitor-interval", type=float, default=BETWEEN, help="seconds between looks at the processes")
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


def _nodes(text: str) -> tuple[int, int]:
    """How many machines at least, and at most."""
    least, _, most = text.partition(":")
    try:
        result = int(least), int(most or least)
    except ValueError:
        raise ValueError(f"--nnodes: a number, or LEAST:MOST, not {text!r}") from None
    if not 1 <= result[0] <= result[1]:
        raise ValueError(f"--nnodes: 1 <= LEAST <= MOST, not {text!r}")
    return result


def run(args: argparse.Namespace) -> None:
    """Start the processes, and wait for all of them.

    Raises:
        ValueError: arguments that do not go together
        RuntimeError: --rdzv-backend ray under Open MPI
        SystemExit: Ray is not there, or a process failed, with its exit code (1 after a signal)

    >>> from flambeau.distributed.run import parse_args, run
    >>> run(parse_args(["--standalone", "--no-python", "true"]))
    """
    try:
        plan = _plan(args)
        if args.rdzv_backend == "ray":
            from ._ray import launch_on_ray  # it imports Ray

            launch_on_ray(plan, args.rdzv_endpoint)
        else:
            launch(plan)
    except ChildFailedError as failure:
        _, first = failure.get_first_failure()
        if first.error_file_data["message"]:
            print(failure.format_msg(), file=sys.stderr, flush=True)
        raise SystemExit(first.exitcode if first.exitcode > 0 else 1) from None
    except (DistError, ImportError, ConnectionError) as error:
        print(f"torchrun: {error}", file=sys.stderr, flush=True)
        raise SystemExit(1) from None


def _plan(args: argparse.Namespace) -> Plan:
    """What the arguments say."""
    (least, most), per_node = _nodes(args.nnodes), _per_node(args.nproc_per_node)
    on_ray = args.rdzv_backend == "ray"
    if on_ray and (args.standalone or args.node_rank is not None or args.master_addr is not None):
        raise ValueError(
            "--rdzv-backend ray: Ray says which machines there are; --standalone, --node-rank and --master-addr do not go with it"
        )
    if most > 1 and args.standalone:
        raise ValueError("--standalone is for one machine, and --nnodes says more")
    conf = dict(pair.split("=", 1) for pair in args.rdzv_conf.split(",") if "=" in pair)
    host, _, port = ("" if on_ray else args.rdzv_endpoint).rpartition(":")
    if not on_ray and args.rdzv_endpoint and not host:
        host, port = args.rdzv_endpoint, ""
    number = int(port) if port else (args.master_port or 0)
    if most > 1 and number == 0 and not on_ray:
        raise ValueError(
            "several machines need --rdzv-endpoint HOST:PORT, or --master-addr and --master-port"
        )
    node = int(conf["rank"]) if args.node_rank is None and "rank" in conf else args.node_rank
    if most > 1 and node is None and args.rdzv_backend == "static":
        raise ValueError("several machines need --node-rank, or --rdzv-backend c10d")
    if least != most and node is not None:
        raise ValueError(f"--nnodes {args.nnodes}: where machines come and go none has a fixed --node-rank")
    if node is not None and not 0 <= node < most:
        raise ValueError(f"this is machine {node}, and --nnodes says {most}")
    plan = Plan(
        _command(args),
        least,
        most,
        per_node,
        node if most > 1 else None,
        "127.0.0.1" if args.standalone else host or args.master_addr or "127.0.0.1",
        0 if args.standalone else number,
        timedelta(seconds=float(conf["timeout"])) if "timeout" in conf else MEETING,
        float(conf.get("last_call_timeout", LAST_CALL)),
        args.max_restarts,
        args.monitor_interval,
        args.role,
    )
    plan.run_id, plan.log_dir = args.rdzv_id or plan.run_id, args.log_dir
    return plan


def _command(args: argparse.Namespace) -> list[str]:
    command = [] if args.no_python else [sys.executable, "-u"]
    if args.run_path:
        command += ["-c", _RUN_PATH]
    elif args.module:
        command += ["-m"]
    return [*command, args.training_script, *args.training_script_args]


def main(args: Sequence[str] | None = None) -> None:
    """The command `torchrun`.

    Raises:
        SystemExit: a process failed, or the arguments do not go together (the ValueError of `run`)

    >>> from flambeau.distributed.run import main
    >>> main(["--standalone", "--no-python", "true"])
    """
    options = parse_args(args)
    try:
        run(options)
    except ValueError as error:
        get_args_parser().error(str(error))


if __name__ == "__main__":
    main()
