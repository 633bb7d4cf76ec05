"""Programs with their models compiled: `python clients/run.py --compile`.

While a case runs, the outermost module that the program calls is compiled in its place (`Module.compile`) before its first call.  A call
that is captured whole and leaves nothing in objects of Python is taken back (parameters, buffers, arguments and random numbers are as
they were before it) and made again, by its plan: what the program gets, and goes backward through, is what the plan computes.  A model is a
module with parameters; losses and other modules without are compiled too, and counted apart.
"""

import contextlib
import random
import re
import threading
from collections import Counter

import numpy as np

WHOLE, REFUSED = "whole", "refused"


class Calls:
    """What became of the calls of modules."""

    def __init__(self):
        self.outcomes = Counter()  # (of a model, outcome)
        self.reasons = Counter()  # why calls of models were refused
        self.replayed = 0  # captured calls that were made again by their plan
        self.missed = Counter()  # why a plan was not right for the very call that it was captured from
        self.models = []  # of each, whether all of its calls were captured whole

    def note(self, module, why):
        of_model = any(True for _ in module.parameters())
        self.outcomes[of_model, WHOLE if why is None else REFUSED] += 1
        if of_model:
            number = vars(module._compiled_call_impl).setdefault("number", len(self.models))
            if number == len(self.models):
                self.models.append(True)
            self.models[number] &= why is None
            if why is not None:
                self.reasons[general(why)] += 1

    def digest(self):
        return {
            "models": len(self.models),
            "models_whole": sum(self.models),
            "calls": self.outcomes[True, WHOLE] + self.outcomes[True, REFUSED],
            "calls_whole": self.outcomes[True, WHOLE],
            "others": self.outcomes[False, WHOLE] + self.outcomes[False, REFUSED],
            "others_whole": self.outcomes[False, WHOLE],
            "replayed": self.replayed,
            "missed": dict(self.missed.most_common()),
            "reasons": dict(self.reasons.most_common()),
        }


def general(why):
    """A reason without what is particular to one program: folders, addresses, shapes."""
    text = re.sub(r"\S*/(?:site-packages|flambeau|clients|lib)/", "", str(why))
    return re.sub(r"0x[0-9a-f]+", "0x", text)[:200]


def install():
    """Compile what programs call from now on; the counts, which grow."""
    from flambeau.fx import GraphModule
    from flambeau.graph import capture
    from flambeau.nn import Module

    calls, inner = Calls(), threading.local()
    call = Module.__call__

    def outermost(module, *args, **kwargs):
        if getattr(inner, "yes", False) or isinstance(module, GraphModule):  # derivatives of plans are such modules
            return call(module, *args, **kwargs)
        inner.yes = True
        try:
            return made(calls, module, args, kwargs, lambda: call(module, *args, **kwargs))
        finally:
            inner.yes = False

    Module.__call__ = outermost
    capture.call_module = outermost  # the interpreter of bytecode takes it for the call in whose place it stands
    return calls


def made(calls, module, args, kwargs, call):
    """The result of a module's call, which is compiled."""
    if module._compiled_call_impl is None:
        module.compile()
    compiled = module._compiled_call_impl
    back = before(module, args, kwargs)
    captures, python = compiled.captures, compiled.calls_of_python
    result = call()
    why = refusal(compiled, captures, python)
    calls.note(module, why)
    if why is None and compiled.captures > captures and not compiled.entries[0].writes:
        captures, python = compiled.captures, compiled.calls_of_python
        del result
        back()
        result = call()
        if compiled.captures == captures and compiled.calls_of_python == python:
            calls.replayed += 1
        else:
            calls.missed[general(failing(compiled, args, kwargs))] += 1
    return result


def refusal(compiled, captures, python):
    """Why the last call was not captured whole; None where it was."""
    if compiled.captures > captures:
        entry = compiled.entries[0]
        return entry.why if entry.launch is None else None
    if compiled.calls_of_python == python:
        return None
    whys = [entry.why for entry in compiled.entries if entry.launch is None]
    if whys:
        return whys[0]
    return "more captures than the limit" if compiled.entries else "a state of the thread without captures"


def failing(compiled, args, kwargs):
    entry = compiled.entries[min(1, len(compiled.entries) - 1)]
    return entry.guards.explain(args, kwargs) or "the state of the thread"


def before(module, args, kwargs):
    """What takes back what a call does to tensors and to random numbers."""
    import torch

    tensors = {id(t): t for t in (*module.parameters(), *module.buffers(), *tensors_in((args, kwargs)))}
    kept = [(t, t.detach().clone()) for t in tensors.values() if not t.is_meta]
    numbers, python, numpy = torch.get_rng_state(), random.getstate(), np.random.get_state()

    def back():
        with torch.no_grad():
            for tensor, old in kept:
                if not torch.equal(tensor.detach(), old):
                    tensor.detach().copy_(old)
        torch.set_rng_state(numbers)
        random.setstate(python)
        np.random.set_state(numpy)

    return back


def tensors_in(value, depth=0):
    if hasattr(value, "detach") and hasattr(value, "is_meta"):
        yield value
    elif depth < 4:
        with contextlib.suppress(Exception):  # an object of a class that only looks like a container
            items = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
            for item in items:
                yield from tensors_in(item, depth + 1)
