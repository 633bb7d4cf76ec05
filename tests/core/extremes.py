"""Calls with sizes near the ends of 64 bits, in a child process of limited memory: `python extremes.py` is that child.

It reads calls as lines of JSON, and answers each with a line: how the call ended.  An outcome that begins with "bad" is a fault: an
error of a class that PyTorch has not, a tensor that reaches out of its storage, a result that differs from that of the same call
with a number that is merely larger than everything in it.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Iterator

MEMORY = 3 << 30  # bytes of address space that a child may take beyond what the library itself does
# What people may see.  OverflowError is PyTorch's for a number as an operand, and for nothing else.
ALLOWED = (
    RuntimeError,
    ValueError,
    TypeError,
    IndexError,
    NotImplementedError,
    BufferError,
    KeyError,
    AssertionError,
)


# --- the child ------------------------------
def serve() -> None:
    import resource
    import warnings

    import flambeau

    warnings.simplefilter("ignore")
    flambeau.set_num_threads(1)
    with open("/proc/self/statm") as f:
        used = int(f.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin:
        print(json.dumps(judged(flambeau, *json.loads(line))), flush=True)


def judged(library, call: str, large: str | None) -> str:
    found, error = outcome(library, call)
    if error is not None:
        return error
    fault = next(filter(None, map(out_of_storage, tensors(found))), None)
    if fault is not None:
        return f"bad: {fault}"
    if large is not None:
        other, error = outcome(library, large)
        if error is not None:
            return f"bad: a result, where {large} is an error: {error}"
        for a, b in zip(tensors(found), tensors(other)):
            if a.shape == b.shape and not same(a, b):
                return f"bad: differs from {large}: {a.tolist()} {b.tolist()}"
    return "result"


def outcome(library, call: str):
    """What the call returns, or how it failed."""
    try:
        library.manual_seed(0)
        return eval(call, names(library)), None
    except MemoryError as e:
        return None, f"bad: MemoryError: {e}"
    except Exception as e:
        known = (isinstance(e, ALLOWED) and str(e)) or "that does not fit 64 bits met a tensor" in str(e)
        return None, f"{'error' if known else 'bad'}: {type(e).__name__}: {str(e)[:200]}"


def names(t) -> dict:
    return {
        "t": t,
        "F": t.nn.functional,
        "v": t.arange(1.0, 5.0),
        "m": t.arange(1.0, 7.0).reshape(2, 3),
        "s": t.eye(3) + 1.0,
        "l": t.arange(10.0).reshape(1, 2, 5),
        "im": t.arange(32.0).reshape(1, 2, 4, 4),
        "vol": t.arange(54.0).reshape(1, 2, 3, 3, 3),
        "z": t.ones(3, dtype=t.complex64),
        "i": t.tensor([0, 1, 1]),
        "giant": lambda n, *rest, **how: t.ones(1, **how).expand(n, *rest),
    }


def tensors(found) -> Iterator:
    if hasattr(found, "untyped_storage"):
        yield found
    elif isinstance(found, (tuple, list)):
        for x in found[:20]:
            yield from tensors(x)


def out_of_storage(x) -> str | None:
    """How a tensor's numbers contradict each other; its corners are read."""
    count = 1
    for n in x.shape:
        count *= n
    if min(x.shape, default=1) < 0 or x.numel() != count:
        return f"numel() is {x.numel()} for shape {list(x.shape)}"
    if count == 0:
        return None
    last = x.storage_offset() + sum((n - 1) * s for n, s in zip(x.shape, x.stride()))
    if x.storage_offset() < 0 or (last + 1) * x.element_size() > x.untyped_storage().nbytes():
        return f"shape {list(x.shape)} with strides {x.stride()} reaches to {last} of {x.untyped_storage().nbytes()} bytes"
    for corner in ((0,) * x.ndim, (-1,) * x.ndim):
        x[corner].item()
    return None


def same(a, b) -> bool:
    if a.numel() > 10_000:
        return True
    return str(a.tolist()) == str(b.tolist())


# --- the parent ------------------------------
class Child:
    """A child process; a new one after each that died."""

    def __init__(self, timeout: float):
        self.timeout = timeout
        self.process: subprocess.Popen | None = None

    def ask(self, call: str, large: str | None = None) -> str:
        if self.process is None:
            environment = dict(os.environ, OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1", OMP_NUM_THREADS="1")
            self.process = subprocess.Popen(
                [sys.executable, __file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
                text=True,
            )
        child = self.process
        try:
            child.stdin.write(json.dumps([call, large]) + "\n")
            child.stdin.flush()
        except BrokenPipeError:
            return self.end("bad: the child is gone")
        with selectors.DefaultSelector() as ready:
            ready.register(child.stdout, selectors.EVENT_READ)
            if not ready.select(self.timeout):
                return self.end("bad: hangs")
        line = child.stdout.readline()
        return json.loads(line) if line else self.end("bad: crash")

    def end(self, why: str = "") -> str:
        """Stop the child; `why` with the signal that it died of."""
        if self.process is None:
            return why
        child, self.process = self.process, None
        child.stdin.close()
        if why == "bad: hangs":
            child.kill()
        status = child.wait(30)
        child.stdout.close()
        if status < 0 and why == "bad: crash":
            return f"{why} ({signal.Signals(-status).name})"
        return why


if __name__ == "__main__":
    serve()
