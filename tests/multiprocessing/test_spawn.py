"""Several processes of one function, and what is told of those that fail."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

import flambeau as torch
from flambeau import multiprocessing as mp
from flambeau.multiprocessing.spawn import SpawnContext


def write(index, shared, step):
    shared[index] = index + step


def test_each_process_has_its_number():
    shared = torch.zeros(3).share_memory_()
    assert mp.spawn(write, (shared, 10), nprocs=2) is None
    assert shared.tolist() == [10, 11, 0]
    context = mp.start_processes(write, (shared, 20), nprocs=2, join=False, start_method="fork")
    assert len(context.pids()) == 2
    while not context.join(timeout=60):
        continue
    assert shared.tolist() == [20, 21, 0] and context.join()


def fail(index, how):
    if index == 0:
        time.sleep(60)
    if how == "raise":
        raise ValueError("this went wrong")
    if how == "signal":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "interrupt":
        raise KeyboardInterrupt
    sys.exit(how)


@pytest.mark.parametrize(
    "how, error, told",
    [
        ("raise", mp.ProcessRaisedException, "ValueError: this went wrong"),
        ("signal", mp.ProcessExitedException, "process 1 terminated with signal SIGKILL"),
        (7, mp.ProcessExitedException, "process 1 terminated with exit code 7"),
    ],
)
def test_failures_are_told_and_the_others_end(how, error, told):
    context = mp.start_processes(fail, (how,), nprocs=2, join=False, start_method="fork")
    with pytest.raises(error, match=told) as caught:
        while not context.join():
            continue
    assert caught.value.error_index == 1 and caught.value.error_pid == context.pids()[1]
    assert not any(p.is_alive() for p in context.processes)
    if error is mp.ProcessRaisedException:
        assert "in fail" in str(caught.value)
    else:
        assert (caught.value.exit_code, caught.value.signal_name) == (
            (-9, "SIGKILL") if how == "signal" else (7, None)
        )
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value) and vars(again) == vars(caught.value)
    assert not list(Path(tempfile.gettempdir()).glob(f"{Path(context.error_files[1]).name}*"))


def deaf(index):
    if index == 1:
        raise ValueError("first")
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(60)


def test_those_that_do_not_hear_are_killed():
    context = mp.start_processes(deaf, nprocs=2, join=False, start_method="fork")
    with pytest.raises(mp.ProcessRaisedException, match="first"):
        while not context.join(grace_period=0.1):
            continue
    assert context.processes[0].exitcode in (-signal.SIGKILL, -signal.SIGTERM)


def test_what_is_wrong_is_refused():
    with pytest.raises(ValueError):
        mp.start_processes(write, nprocs=1, start_method="nothing")
    with pytest.warns(FutureWarning, match="start_method=spawn"):
        mp.spawn(write, nprocs=0, start_method="fork")
    with pytest.warns(UserWarning, match="ProcessContext"):
        SpawnContext([], [])


ORPHANS = """
import os, signal, sys, time
import flambeau.multiprocessing as mp
if sys.argv[1] == "ignored":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
def sleep(index):
    print(os.getpid(), flush=True)
    time.sleep(600)
mp.start_processes(sleep, nprocs=1, join=False, start_method="fork")
sys.stdin.readline()
os._exit(0)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell a process of its parent's end")
@pytest.mark.parametrize("interrupts", ["ignored", "heard"])
def test_those_whose_parent_has_ended_end(interrupts, interruptible):
    """In the background, where a shell has interrupts ignored, too."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    parent = subprocess.Popen([sys.executable, "-c", ORPHANS, interrupts], **pipes)
    pid = int(parent.stdout.readline())
    try:
        parent.communicate("\n", timeout=60)  # to the end of the child, too, who holds the pipe
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert parent.returncode == 0
