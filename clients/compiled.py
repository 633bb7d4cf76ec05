"""Programs with their models compiled: `python clients/run.py --compile`.

While a case runs, the outermost module that the program calls is compiled in its place (`Module.compile`) before its first call.  A call
that is captured whole is taken back (parameters, buffers, arguments, random numbers, and what it left in objects of Python are as they
were before it) and made again, by its plan: what the program gets, and goes backward through, is what the plan computes.  A model is a
module with parameters; losses and other modules without are compiled too, and counted apart.
"""

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
        self.refused = Counter()  # (class of a model, reason)
        self.replayed = 0  # captured calls that were made again by their plan
        self.missed = Counter()  # why a plan was not right for the very call that it was captured from
        self.written = []  # what takes back the last call's writes to objects of Python
        self.models = []  # of each, whether all of its calls were captured whole

    def note(self, module, why):
        of_model = any(True for _ in members(module, "_parameters"))
        self.outcomes[of_model, WHOLE if why is None else REFUSED] += 1
        if of_model:
            number = vars(module._compiled_call_impl).setdefault("number", len(self.models))
            if number == len(self.models):
                self.models.append(True)
            self.models[number] &= why is None
            if why is not None:
                self.reasons[general(why)] += 1
                self.refused[type(module).__name__, general(why)] += 1
                if self.refused[type(module).__name__, general(why)] == 1:
                    print(f"    {type(module).__name__} is not captured whole: {general(why)}", flush=True)

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
    from flambeau.core.tape.engine import current_pass

    from flambeau.fx import GraphModule
    from flambeau.graph import capture
    from flambeau.graph.interpreter.reads import Reads
    from flambeau.nn import Module

    calls, inner = Calls(), threading.local()
    call, write = Module.__call__, Reads.write

    def noted(reads, place, value):
        calls.written.append(taker_back(reads, place))
        write(reads, place, value)

    def outermost(module, *args, **kwargs):
        again = current_pass() is not None or isinstance(
            module, GraphModule
        )  # a derivative calls it, and no program
        if getattr(inner, "yes", False) or again:
            return call(module, *args, **kwargs)
        inner.yes = True
        try:
            return made(calls, module, args, kwargs, lambda: call(module, *args, **kwargs))
        finally:
            inner.yes = False

    Reads.write = noted
    Module.__call__ = outermost
    capture.call_module = (
        outermost  # the interpreter of bytecode takes it for the call in whose place it stands
    )
    return calls


def made(calls, module, args, kwargs, call):
    """The result of a module's call, which is compiled."""
    from flambeau.nn import Module

    if module._compiled_call_impl is None:
        Module.compile(module)  # a class may have a `compile` of its own
    compiled = module._compiled_call_impl
    back = before(module, args, kwargs)
    calls.written.clear()
    captures, python = compiled.captures, compiled.calls_of_python
    result = call()
    why = refusal(compiled, captures, python)
    calls.note(module, why)
    if why is None and compiled.captures > captures:
        captures, python = compiled.captures, compiled.calls_of_python
        del result
        for take_back in reversed(calls.written):
            take_back()
        back()
        result = call()
        if compiled.captures == captures and compiled.calls_of_python == python:
            calls.replayed += 1
        else:
            calls.missed[general(failing(compiled, args, kwargs))] += 1
    return result


def taker_back(reads, place):
    """What undoes a write, which is yet to come, to an object that was there before the call."""
    of = object_at(reads, place.of)
    if type(place).__name__ == "End":
        return of.pop
    if type(place).__name__ == "Attribute":
        if not hasattr(of, place.name):
            return lambda: delattr(of, place.name)
        old = getattr(of, place.name)
        return lambda: setattr(of, place.name, old)
    if type(place).__name__ == "Contents":
        old = of.cell_contents
        return lambda: setattr(of, "cell_contents", old)
    if isinstance(of, dict) and place.key not in of:
        return lambda: of.pop(place.key)
    old = of[place.key]
    return lambda: of.__setitem__(place.key, old)


def object_at(reads, source):
    if type(source).__name__ == "Object":
        return source.value
    if type(source).__name__ == "Namespace":
        return vars(object_at(reads, source.of))
    return next(value for value, candidate in reads.known.values() if candidate == source)


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

    own = [t for kind in ("_parameters", "_buffers") for t in members(module, kind)]
    tensors = {id(t): t for t in (*own, *tensors_in((args, kwargs)))}
    there = [t for t in tensors.values() if not t.is_meta and not torch.nn.parameter.is_lazy(t)]
    copies = [(t, t.detach().clone()) for t in there]
    numbers, python, numpy = torch.get_rng_state(), random.getstate(), np.random.get_state()

    def back():
        with torch.no_grad():
            for tensor, old in copies:
                if not torch.equal(tensor.detach(), old):
                    tensor.detach().copy_(old)
        torch.set_rng_state(numbers)
        random.setstate(python)
        np.random.set_state(numpy)

    return back


def members(module, kind):
    """Parameters or buffers, without what a class does when it is asked for them."""
    from flambeau.nn import Module

    for part in Module.modules(module):
        yield from (t for t in vars(part)[kind].values() if t is not None)


def tensors_in(value, depth=0):
    """The tensors in containers and in objects, such as a cache of keys and values."""
    if hasattr(value, "detach") and hasattr(value, "is_meta"):
        yield value
    elif depth < 6 and not isinstance(value, type):
        parts = [*value.values()] if type(value) is dict else [*value] if type(value) in (list, tuple) else []
        for part in (*parts, *getattr(value, "__dict__", {}).values()):
            yield from tensors_in(part, depth + 1)
