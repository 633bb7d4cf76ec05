"""A fork while other threads compile, import, compute: the child has all that it needs, and never waits for a thread
that is not there.  Children that hang are ended by their own alarm, after a time that no child needs.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

import pytest

FORKS = """
import io, os, signal, sys, threading
import flambeau
from flambeau.codegen import build, expr as ex, kernels as kn

SECONDS = 30  # a child needs a fraction of one

def new_kernel(number):
    operand = kn.Operand("float32", kn.CONTIGUOUS)
    body = ex.input(0, "float32") * ex.const(1.0 + number, "float32")
    build.address(kn.Pointwise(f"kernel_{os.getpid()}_{number}", (body,), (kn.CONTIGUOUS,), (operand,), ()))

def child(work):
    pid = os.fork()
    if pid == 0:
        signal.alarm(SECONDS)
        try:
            work()
        except BaseException as error:
            os.write(2, f"{error!r}\\n".encode())
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

def keep_busy(*works):
    stop, failed = threading.Event(), []
    def again(work):
        number = 0
        while not stop.wait(0.003):  # which leaves time for the others
            number += 1
            try:
                work(number)
            except BaseException as error:
                failed.append(error)
                return
    threads = [threading.Thread(target=again, args=(work,)) for work in works]
    [thread.start() for thread in threads]
    return stop, threads, failed
"""


def run(program: str, folder, **more) -> str:
    env = dict(os.environ, FLAMBEAU_CACHE_DIR=str(folder), FLAMBEAU_NUM_THREADS="2", **more)
    done = subprocess.run(
        [sys.executable, "-c", FORKS + textwrap.dedent(program)],
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_children_of_a_busy_process(tmp_path):
    """Threads compile, differentiate, draw, save and load data while the main thread forks."""
    program = """
        from flambeau.utils.data import DataLoader, TensorDataset

        def differentiate(number):
            x = flambeau.ones(60, 60, requires_grad=True)
            ((x @ x).exp() * 1e-30).sum().backward()

        def draw(number):
            flambeau.randn(50_000).sort()

        def load_data(number):
            for (batch,) in DataLoader(TensorDataset(flambeau.arange(12.0)), batch_size=3, shuffle=True):
                batch.sum()

        def save(number):
            file = io.BytesIO()
            flambeau.save({"x": flambeau.ones(5)}, file)
            file.seek(0)
            flambeau.load(file)

        def work():
            new_kernel(0)
            x = flambeau.ones(300, 300, requires_grad=True)
            (x @ x).sum().backward()
            assert x.grad[0, 0].item() == 600.0, x.grad
            flambeau.randn(100_000).sort()
            save(0)
            load_data(0)

        stop, threads, failed = keep_busy(new_kernel, new_kernel, differentiate, draw, load_data, save)
        codes = [child(work) for _ in range(50)]
        stop.set()
        [thread.join() for thread in threads]
        print(codes == [0] * 50, failed, codes)
    """
    assert run(program, tmp_path).startswith("True []")


@pytest.mark.parametrize(
    "first",
    [
        "flambeau.ones(3).exp()",  # llvmlite
        "flambeau.ones(3).numpy()",  # NumPy
        "flambeau.linalg.svd(flambeau.ones(3, 3))",  # SciPy
        "flambeau.special.i0e(flambeau.ones(3))",
        "flambeau.save(flambeau.ones(3), io.BytesIO())",  # json, zipfile
        "flambeau.ones(3, 3) @ flambeau.ones(3, 3)",  # BLAS
    ],
)
def test_children_born_during_a_first_call(tmp_path, first):
    """What the call imports, opens and compiles is half there in another thread."""
    program = f"""
        import time
        codes = []
        def work():
            {first}
        thread = threading.Thread(target=work)
        thread.start()
        while not codes or thread.is_alive() and len(codes) < 12:
            codes.append(child(work))
            time.sleep(0.002)
        thread.join()
        print(set(codes))
    """
    assert run(program, tmp_path).strip() == "{0}"


def test_a_fork_waits_for_a_thread_that_has_not_locked_its_module_yet(tmp_path):
    """Such a thread waits for the import lock, and does not get it from one that takes it again at once."""
    program = """
        import time
        from importlib import _bootstrap
        begun, ended = threading.Event(), []

        def slowly():
            lock = _bootstrap._get_module_lock("flambeau.slow")
            begun.set()
            time.sleep(0.2)
            with _bootstrap._ModuleLockManager("flambeau.slow"):
                time.sleep(0.2)
                ended.append(True)

        thread = threading.Thread(target=slowly)
        thread.start()
        begun.wait()

        def work():
            assert ended
            with _bootstrap._ModuleLockManager("flambeau.slow"):
                return

        print(child(work))
        thread.join()
    """
    assert run(program, tmp_path).strip() == "0"


def test_a_fork_inside_an_import_that_another_thread_waits_for(tmp_path):
    program = """
        import time
        from importlib import _bootstrap
        begun = threading.Event()

        def other():
            with _bootstrap._ModuleLockManager("flambeau.others"):
                begun.set()
                with _bootstrap._ModuleLockManager("flambeau.mine"):
                    return

        with _bootstrap._ModuleLockManager("flambeau.mine"):
            thread = threading.Thread(target=other)
            thread.start()
            begun.wait()
            time.sleep(0.1)  # until it waits
            print(child(lambda: None))
        thread.join()
    """
    assert run(program, tmp_path).strip() == "0"


def test_a_child_born_in_another_threads_backward_pass(tmp_path):
    program = """
        inside, go_on = threading.Event(), threading.Event()
        x = flambeau.ones(3, requires_grad=True)
        def stay(grad):
            inside.set()
            go_on.wait()
        def passes():
            y = x * 2
            y.register_hook(stay)
            y.sum().backward()
        def work():
            (x * 3).sum().backward()
            assert x.grad.tolist() == [3.0] * 3
        thread = threading.Thread(target=passes)
        thread.start()
        inside.wait()
        print(child(work))
        go_on.set()
        thread.join()
        print(x.grad.tolist())
    """
    assert run(program, tmp_path).split("\n")[:2] == ["0", "[2.0, 2.0, 2.0]"]


def test_a_fork_from_a_hook_of_a_backward_pass(tmp_path):
    program = """
        x = flambeau.ones(3, requires_grad=True)
        y = x * 2
        codes = []
        def work():
            z = flambeau.ones(2, requires_grad=True)
            (z * 5).sum().backward()
            assert z.grad.tolist() == [5.0] * 2
        y.register_hook(lambda grad: codes.append(child(flambeau.enable_grad()(work))))
        y.sum().backward()
        print(codes, x.grad.tolist())
    """
    assert run(program, tmp_path).strip() == "[0] [2.0, 2.0, 2.0]"


def test_an_interrupt_while_a_fork_waits(tmp_path, interruptible):
    """Ctrl-C reaches a fork that waits for another thread's kernel; the next fork is as good as ever."""
    program = """
        from flambeau.core.base import forks
        taken, go_on = threading.Event(), threading.Event()
        def holds():
            with forks.making:
                taken.set()
                go_on.wait()
        thread = threading.Thread(target=holds)
        thread.start()
        taken.wait()
        sys.unraisablehook = lambda seen: (print(seen.exc_type.__name__), go_on.set())
        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        def work():
            new_kernel(1)
        print(child(work))
        go_on.set()
        thread.join()
        print(child(work))
    """
    assert run(program, tmp_path).split() == ["KeyboardInterrupt", "0", "0"]


def test_signal_of_a_hanging_child_is_what_the_tests_look_for():
    """The alarm of a child ends it: a hang is seen as a status below 0."""
    program = FORKS.replace("SECONDS = 30", "SECONDS = 1") + "print(child(threading.Event().wait))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == str(-signal.SIGALRM)
