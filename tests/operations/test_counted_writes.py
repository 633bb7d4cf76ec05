"""Every write raises a storage's counter of writes, through whatever tensor; who gives an address away ends its trust.

What is laid out of a weight once (`core/base/prepacked.pyx`) stands on that, so it is looked for and not listed: over every form that
writes, every `out=`, and all that tensors and storages have to say.
"""

from __future__ import annotations

import copy
import ctypes
import gc
import io
import warnings

import numpy as np
import pytest
from samples import ALL, Operands, run
from test_memory_in_place import GEOMETRY, calls_of, of_integers, square, written_over
from test_memory_in_place import operands as others

import flambeau
from flambeau import nn
from flambeau.core.base import prepacked

WAYS = {
    "itself": lambda x: x,
    "data": lambda x: x.data,
    "detached": lambda x: x.detach(),
    "view": lambda x: x.view_as(x),
    "alias": lambda x: x.new_empty(0).set_(x.untyped_storage(), 0, x.shape, x.stride()),
    "data of a view": lambda x: x.t().data.t(),
}
WRITERS = sorted({name for name, _ in written_over()} - GEOMETRY)


def count(t: flambeau.Tensor) -> int | None:
    """The counter of a tensor's storage, None where that is not trusted."""
    return prepacked.writes_of(t)


def bits(t: flambeau.Tensor) -> bytes:
    """The bytes of all of a tensor's storage."""
    return bytes(t.untyped_storage()._read_only())


# --- the counter ------------------------------
@pytest.mark.parametrize("name", WRITERS)
def test_every_form_in_place_raises_the_counter(name):
    whole, changed = of_integers(name), 0
    forms = [f for n, f in written_over() if n == name]
    with flambeau.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for form in forms:
            for text in calls_of(name, form):
                for way, through in WAYS.items():
                    given, x = others(whole), square(whole)
                    x = 2 * x if whole else 4 * x - 1.6  # of both signs
                    written, before, held = through(x), count(x), bits(x)
                    assert before is not None
                    eval(f"form(x, {text})" if text else "form(x)", {"form": form, "x": written, **given})
                    if bits(x) != held:
                        changed += 1
                        # before it, as it may fail half-way, and after it; SciPy sees the memory of some
                        raised = count(x) is None or count(x) >= before + 2
                        assert raised, f"{name}({text}) through {way}"
    assert changed or not any(calls_of(name, f) for f in forms) or name in UNCHANGING


UNCHANGING = frozenset(("conj_physical", "nan_to_num_"))  # real numbers, and finite ones


def test_every_result_that_is_given_raises_the_counter():
    """`out=`, of every sample call that takes it; operands that a call writes to count, too."""
    written = tried = 0
    wrong = []
    for entry, text in ALL:
        with flambeau.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            first = Operands()
            results = run(entry, text, first)
            given = Operands()
            for key in first:
                given[key] = given.make(key)
            tensors = {k: t for k, t in given.items() if isinstance(t, flambeau.Tensor)}
            for k in tensors:
                given[k] = tensors[k] = tensors[k].clone()  # NumPy made the samples
            before = {k: (count(t), bits(t)) for k, t in tensors.items()}
            run(entry, text, given)
            for k, (number, held) in before.items():
                if bits(tensors[k]) != held:
                    written += 1
                    if not (count(tensors[k]) is None or count(tensors[k]) > number):
                        wrong.append(f"{entry.name}({text}) writes to {k}")
            outs = [flambeau.full_like(r, 3) for r in results if isinstance(r, flambeau.Tensor)]
            if not outs or any(o.numel() == 0 or type(o) is not flambeau.Tensor for o in outs):
                continue
            for through in (WAYS["itself"], WAYS["data"]):
                room = [o.clone() for o in outs]
                counted, held = [count(o) for o in room], [bits(o) for o in room]
                out = tuple(map(through, room)) if len(room) > 1 else through(room[0])
                more = Operands()
                more["out__"] = out
                try:
                    run(entry, f"{text}, out=out__", more)
                except (TypeError, RuntimeError, NotImplementedError, ValueError):
                    continue
                tried += 1
                for o, number, raw in zip(room, counted, held):
                    if bits(o) != raw and not (count(o) is None or count(o) > number):
                        wrong.append(f"{entry.name}({text}, out=)")
    assert not wrong, "\n".join(wrong)
    assert tried > 300


# --- who learns the address ------------------------------
def leaks(x, begin: int, end: int, depth: int = 3) -> bool:
    """Whether an object tells of an address in that range, as a number, an array, a buffer or a capsule."""
    if isinstance(x, (bool, flambeau.Tensor, type(None), str, bytes)):
        return False
    if isinstance(x, int):
        return begin <= x < end
    if isinstance(x, np.ndarray):
        return begin <= x.__array_interface__["data"][0] < end
    if type(x).__name__ == "PyCapsule":
        return True
    if isinstance(x, memoryview):
        return not x.readonly and leaks(np.asarray(x), begin, end)
    if isinstance(x, (tuple, list)):
        return depth > 0 and any(leaks(e, begin, end, depth - 1) for e in x)
    if isinstance(x, dict):
        return depth > 0 and any(leaks(e, begin, end, depth - 1) for e in x.values())
    return False


OPEN = {"_address", "_read_only"}  # for comparisons; read by nobody who writes


def test_who_gives_the_address_away_ends_the_trust():
    """Every attribute and method without arguments of tensors and storages, and every function of a tensor that is public."""
    told = set()
    functions = [n for n in dir(flambeau) if callable(getattr(flambeau, n, None)) and n[0] != "_"]
    functions = [n for n in functions if not isinstance(getattr(flambeau, n), type) and "thread" not in n]
    names = [("tensor", n) for n in dir(flambeau.Tensor)] + [
        ("storage", n) for n in dir(flambeau.UntypedStorage)
    ]
    for where, name in [*names, *(("function", n) for n in functions)]:
        if name in OPEN or name in (
            "__class__",
            "__del__",
            "__init__",
            "__new__",
            "__subclasshook__",
            "__pyx_vtable__",
        ):
            continue
        t = flambeau.arange(8.0)
        begin = t._address()
        assert count(t) is not None
        with warnings.catch_warnings(), flambeau.no_grad():
            warnings.simplefilter("ignore")
            try:
                if where == "function":
                    found = getattr(flambeau, name)(t) if name in HARMLESS(name) else None
                else:
                    found = getattr(t if where == "tensor" else t.untyped_storage(), name)
                    found = found() if callable(found) else found
            except Exception:  # it takes arguments, or other tensors
                continue
        if leaks(found, begin, begin + 32):
            told.add(f"{where}.{name}")
            assert count(t) is None, f"{where}.{name} gives the address away"
    assert {
        "tensor.data_ptr",
        "tensor.numpy",
        "tensor.__dlpack__",
        "tensor.__array__",
        "storage.data_ptr",
    } <= told


def HARMLESS(name: str) -> set[str]:
    """Functions that make something of a tensor: none that sets what holds for the process, or waits."""
    return {name} if name.startswith(("to_", "as", "from", "detach", "view", "utils", "resolve")) else set()


EXPOSED = {
    "numpy": lambda t: t.numpy(),
    "asarray": lambda t: np.asarray(t),
    "memoryview": lambda t: memoryview(t),
    "memoryview of the storage": lambda t: memoryview(t.untyped_storage()),
    "slice of the storage": lambda t: t.untyped_storage()[4:8],
    "dlpack": lambda t: t.__dlpack__(),
    "from_dlpack": lambda t: np.from_dlpack(t),
    "data_ptr": lambda t: t.data_ptr(),
    "shared": lambda t: t.share_memory_(),
    "frombuffer": lambda t: np.frombuffer(t.untyped_storage(), dtype=np.float32),
    "ctypes": lambda t: (ctypes.c_char * 16).from_buffer(t.untyped_storage()),
    "typed storage": lambda t: t.storage().data_ptr(),
}


@pytest.mark.parametrize("name", EXPOSED)
def test_trust_ends_for_good(name):
    t = flambeau.arange(4.0)
    view, held = t[1:], t.untyped_storage()
    assert count(t) is not None
    found = EXPOSED[name](t)
    assert count(t) is None and count(view) is None
    del found
    gc.collect()
    assert count(t) is None
    assert count(flambeau.empty(0).set_(held)) is None
    assert count(t.clone()) is not None and count(copy.deepcopy(t)) is not None


def test_memory_of_others_is_never_trusted(tmp_path):
    array = np.ones(4, dtype=np.float32)
    (tmp_path / "f").write_bytes(array.tobytes())
    foreign = [
        flambeau.from_numpy(array),
        flambeau.as_tensor(array),
        flambeau.from_dlpack(array),
        flambeau.frombuffer(bytearray(16), dtype=flambeau.float32),
        flambeau.from_file(str(tmp_path / "f"), size=4),
        flambeau.from_file(str(tmp_path / "f"), shared=True, size=4),
    ]
    assert [count(t) for t in foreign] == [None] * len(foreign)
    assert count(flambeau.tensor(array)) is not None


def test_what_is_read_and_saved_stays_trusted():
    t = nn.Linear(2, 2).weight
    file = io.BytesIO()
    flambeau.save({"w": t}, file)
    file.seek(0)
    loaded = flambeau.load(file)["w"]
    assert count(t) is not None and count(loaded) is not None
    assert copy.deepcopy(t).equal(t) and t.tolist() == loaded.tolist() and count(t) is not None
