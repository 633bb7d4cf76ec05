"""How Open MPI's mpiexec is called: it alone makes processes a world of Open MPI.

MPICH needs none of this, for its processes form a world by themselves (see `_pmi`).
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence

# Between mpiexec and each program: names what programs expect, and writes the program's exit code down, for mpiexec's own says little.
_BETWEEN = """\
import ctypes, os, signal, subprocess, sys
def follow():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # ends with its parent
follow()
local = os.environ["OMPI_COMM_WORLD_RANK"]
rank = str(int(os.environ["FLAMBEAU_FIRST_RANK"]) + int(local))
os.environ.update(RANK=rank, LOCAL_RANK=local, ROLE_RANK=rank)
codes = os.environ.pop("FLAMBEAU_EXIT_CODES")
os.environ["TORCHELASTIC_ERROR_FILE"] = os.path.join(codes, local + ".json")
log = os.environ.get("FLAMBEAU_LOGS")
output = None
if log:
    os.makedirs(os.path.join(log, rank), exist_ok=True)
    output = open(os.path.join(log, rank, "output.log"), "wb")
program = subprocess.Popen(sys.argv[1:], preexec_fn=follow, stdout=output, stderr=output)
signal.signal(signal.SIGTERM, lambda number, frame: program.send_signal(number))
code = program.wait()
with open(os.path.join(codes, local + ".part"), "w") as file:
    file.write(f"{program.pid} {code}")
os.rename(os.path.join(codes, local + ".part"), os.path.join(codes, local + ".code"))
os._exit(code if code >= 0 else 128 - code)
"""


def mpiexec() -> str:
    """The mpiexec beside this Python, else that on the path.  RuntimeError where there is none."""
    beside = os.path.join(os.path.dirname(sys.executable), "mpiexec")
    result = beside if os.access(beside, os.X_OK) else shutil.which("mpiexec")
    if result is None:
        raise RuntimeError("there is no mpiexec: Open MPI's processes need one")
    return result


def command(size: int, program: Sequence[str]) -> list[str]:
    """Run a program in `size` processes of this machine, which live on when one dies."""
    return [mpiexec(), "--with-ft", "ulfm", "-n", str(size), *program]


def named(program: Sequence[str]) -> list[str]:
    """A program that finds RANK, LOCAL_RANK and ROLE_RANK in its environment, and whose exit code is written down."""
    return [sys.executable, "-S", "-c", _BETWEEN, *program]


def exit_codes(folder: str) -> dict[int, tuple[int, int]]:
    """Of the programs that have ended, by their number on this machine: the process's number and its exit code."""
    result = {}
    for name in os.listdir(folder):
        if name.endswith(".code"):
            with open(os.path.join(folder, name)) as file:
                pid, code = map(int, file.read().split())
            result[int(name.removesuffix(".code"))] = pid, code
    return result


def environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """What mpiexec needs to start more processes than there are cores, as root where one is root, and without slow transports."""
    settings = {
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
        "OMPI_MCA_pml": "ob1",
        "OMPI_MCA_btl": "self,sm,tcp",
        "OMPI_MCA_mpi_yield_when_idle": "1",
    }
    if os.geteuid() == 0:
        settings.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    return {**settings, **inherited}
