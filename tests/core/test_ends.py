"""Ends: Ctrl-C in long operations, use while the interpreter goes away, threads that are still at work, and a second interpreter."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import flambeau


def run(program: str, *arguments: str, folder=None):
    env = dict(os.environ) if folder is None else dict(os.environ, FLAMBEAU_CACHE_DIR=str(folder))
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *arguments],
        env=env, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done


LONG = {
    "product": ("flambeau.ones(2500, 2500)", "x @ x"),
    "batch": ("flambeau.ones(200, 400, 400)", "x @ x"),
    "integers": ("flambeau.ones(1800, 1800, dtype=flambeau.int64)", "x @ x"),
    "convolution": ("flambeau.ones(8, 64, 96, 96)", "flambeau.conv2d(x, flambeau.ones(64, 64, 3, 3))"),
    "indexed": ("flambeau.ones(1, 1, 600, 600)", "flambeau.nn.functional.max_pool2d(x, 31, 1, 15)"),
    "reduction": ("flambeau.ones(1, 20_000_000).expand(16, -1)", "flambeau.logsumexp(x, 1)"),
    "sort": ("flambeau.rand(400, 20_000)", "x.sort()"),
}


@pytest.mark.parametrize("name", LONG)
def test_signals_are_looked_at_during_a_long_operation(name):
    """Each signal that is handled sends the next, so that as many are handled as are looked for: before the operation
    there are at most two lines of Python, and after it one.
    """
    given, call = LONG[name]
    said = run(f"""
        import os, signal
        import flambeau
        flambeau.set_num_threads(1)
        x = {given}
        handled = []
        def handle(number, frame):
            handled.append(number)
            signal.setitimer(signal.ITIMER_REAL, 0.001)
        signal.signal(signal.SIGALRM, handle)
        signal.setitimer(signal.ITIMER_REAL, 0.001)
        {call}
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        print(len(handled))
    """).stdout
    print(name, said)
    assert int(said) > 3


@pytest.mark.parametrize("name", ["product", "convolution", "indexed"])
def test_a_handler_that_raises_ends_the_operation(name):
    given, call = LONG[name]
    said = run(f"""
        import os, signal
        import flambeau
        flambeau.set_num_threads(2)
        x = {given}
        handled = []
        def handle(number, frame):
            handled.append(number)
            if len(handled) == 3:
                raise KeyboardInterrupt
            signal.setitimer(signal.ITIMER_REAL, 0.001)
        signal.signal(signal.SIGALRM, handle)
        signal.setitimer(signal.ITIMER_REAL, 0.001)
        try:
            {call}
        except KeyboardInterrupt:
            print("ended", (flambeau.ones(300, 300) @ flambeau.ones(300, 300)).sum().item())
    """).stdout
    assert said == "ended 27000000.0\n"


USES = """
    import atexit, builtins, os
    import flambeau
    class Used:
        def __init__(self, name):
            self.name, self.x = name, flambeau.ones(4, requires_grad=True)
        def __del__(self):
            y = (self.x.exp() * 2.5 + self.x.view(2, 2).T.reshape(4)).sum()
            self.x.grad = None
            y.backward()
            found = (self.x.view(2, 2) @ self.x.view(2, 2)).sum().item(), self.x.sort().values.sum().item()
            os.write(1, f"{self.name} {self.x.grad.sum().item():.1f} {found}\\n".encode())
    if "warm" in {when}:  # when finalisers run, Python imports nothing any more: LLVM and BLAS must be there
        flambeau.ones(2, 2) @ flambeau.ones(2, 2).exp()
    of_module, of_cycle, of_builtins, of_exit = Used("module"), Used("cycle"), Used("builtins"), Used("exit")
    of_cycle.me = of_cycle
    builtins.kept = of_builtins
    if "exit" in {when}:
        atexit.register(of_exit.__del__)
"""


@pytest.mark.parametrize("when", [["exit"], ["warm"], ["warm", "exit"]])
def test_use_while_the_interpreter_ends(when, tmp_path):
    """In atexit and in finalisers of objects of a module, of a cycle, of `builtins`; nearly all kernels are new then."""
    done = run(USES.replace("{when}", repr(when)), folder=tmp_path)
    lines = done.stdout.splitlines()
    assert {line.split()[0] for line in lines} == {"module", "cycle", "builtins", "exit"}, done
    assert {line.split(" ", 1)[1] for line in lines} == {"31.2 (8.0, 4.0)"}
    assert done.stderr == ""


def test_a_first_kernel_while_the_interpreter_ends(tmp_path):
    """In the last finalisers, of a program that has made tensors and no kernel: pointwise with a math function, rows, indexed."""
    program = """
        import builtins, os
        import flambeau
        class Used:
            def __init__(self):
                self.x = flambeau.tensor([[0.25, 0.5], [0.75, 1.0]])
            def __del__(self):
                y = self.x.erfinv()[0] + self.x.log_softmax(1).sum() + flambeau.nn.functional.max_pool1d(self.x, 2).sum()
                os.write(1, f"{y[0].item():.4f}\\n".encode())
        of_module, builtins.kept = Used(), Used()
    """
    done = run(program, folder=tmp_path)
    assert (done.stdout, done.stderr) == ("-1.0784\n" * 2, "")


def test_a_first_kernel_on_a_small_stack(tmp_path):
    """64 KiB, of which LLVM takes more: kernels of all kinds, an error, and a fork afterwards."""
    program = """
        import os, threading
        import flambeau
        from flambeau import kernels
        from flambeau.codegen import build
        from flambeau.core.base import forks, stacks
        said = []
        def refused(kernel):
            raise ValueError("refused")
        def work():
            x = flambeau.ones(40, 40, requires_grad=True)
            y = (x.erfinv().clamp(max=1.0) @ x).softmax(1) + flambeau.nn.functional.max_pool2d(x[None], 3, 1, 1)[0]
            y.sum().backward()
            said.append(round(y.sum().item(), 2))
            try:
                stacks.deep(refused, None)
            except ValueError as error:
                said.append(str(error))
            with forks.making:  # held here: the compiler's thread has it meanwhile
                said.append(kernels.pointwise(lambda x: kernels.sin(x) * 3)(flambeau.zeros(2)).sum().item())
            assert forks.making._is_owned() is False
        threading.stack_size(65536)
        t = threading.Thread(target=work); t.start(); t.join()
        threading.stack_size(0)
        child = os.fork()
        if child == 0:
            os._exit(int(kernels.pointwise(lambda x: kernels.cos(x) * 7)(flambeau.zeros(1)).item()))
        print(said, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), threading.active_count())
    """
    assert run(program, folder=tmp_path).stdout == "[1640.0, 'refused', 0.0] 7 1\n"


def test_daemon_threads_at_work_when_the_process_ends(tmp_path):
    """In kernels, in the engine, in the compiler, in the pool as its size changes."""
    program = """
        import sys, threading, time
        import flambeau
        flambeau.set_num_threads(2)
        def work():
            x, number = flambeau.ones(200, 200, requires_grad=True), 0
            while True:
                number += 1
                ((x @ x) * 1e-9).exp().sum().backward()
                flambeau.randn(100_000).sort()
                flambeau.set_num_threads(1 + number % 3)
        for _ in range(3):
            threading.Thread(target=work, daemon=True).start()
        time.sleep(float(sys.argv[1]))
    """
    for seconds in ("0.02", "0.1", "0.2", "0.3"):
        assert run(program, seconds, folder=tmp_path).stderr == ""


SECOND = """
    try:
        import _interpreters
    except ImportError:
        import _xxsubinterpreters as _interpreters
    {before}
    second = _interpreters.create()
    attempt = "try: import flambeau\\nexcept ImportError as error: print(error, flush=True)"
    _interpreters.run_string(second, attempt)
    import flambeau
    print(flambeau.ones(3).sum().item())
"""


@pytest.mark.parametrize("before", ["", "import flambeau"])
def test_a_second_interpreter_is_told(before):
    """And the first one can import flambeau still."""
    lines = run(SECOND.replace("{before}", before)).stdout.splitlines()
    assert "main interpreter of a process only, and this is a subinterpreter" in lines[0]
    assert lines[1:] == ["3.0"]


def test_a_source_folder_says_that_it_is_not_built(tmp_path):
    """Python files without their compiled modules, as in a clone whose folder is the first that Python looks at."""
    source = Path(flambeau.__file__).parent
    shutil.copytree(
        source, tmp_path / "flambeau", ignore=shutil.ignore_patterns("*.so", "*.c", "__pycache__")
    )
    done = subprocess.run(
        [sys.executable, "-c", "import flambeau"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(
        f"ImportError: flambeau has no modules compiled for this Python ({sys.implementation.cache_tag})"
    )
    assert "run from another folder" in last and "python tools/develop.py" in last
