"""The name shown is one constant, and formats and layouts are values of one class each."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import pytest

import flambeau
from flambeau.core.base import display

FORMATS = (
    flambeau.contiguous_format,
    flambeau.preserve_format,
    flambeau.channels_last,
    flambeau.channels_last_3d,
)
PROGRAM = """
import sys, types

shown = types.ModuleType("flambeau.core.base.display")
shown.NAME, shown.public = "torch", lambda what: "torch." + what
sys.modules[shown.__name__] = shown
import flambeau

x = flambeau.ones(2, 3)
print(x.dtype, x.shape, x.layout, flambeau.channels_last, x.type(), x.double())
print(flambeau.softmax.__module__, flambeau.nn.functional.gelu.__module__, flambeau.zeros.__module__, repr(flambeau.exp))
print(flambeau.cat.__module__, type(x.max(0)).__module__, flambeau.Tensor.__module__)
for wrong in (lambda: flambeau.ones(2, dtype=3), lambda: flambeau.ones(2, layout=3), lambda: x.clone(memory_format=1)):
    try:
        wrong()
    except TypeError as error:
        print(error)
for mistaken in (lambda: flambeau.finfo(3), lambda: flambeau.randperm(2, generator=3)):
    try:
        mistaken()
    except TypeError as error:
        print(error)
print(flambeau.Generator(), x.untyped_storage())
"""


def test_one_constant_changes_every_name_that_is_shown():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "flambeau" not in done.stdout, done.stdout
    assert (
        "torch.float32 torch.Size([2, 3]) torch.strided torch.channels_last torch.FloatTensor" in done.stdout
    )
    assert done.stdout.count("must be torch.") == 5


def test_the_name_is_read_when_it_is_shown(monkeypatch):
    monkeypatch.setattr(display, "NAME", "torch")
    assert [str(flambeau.int64), str(flambeau.channels_last), repr(flambeau.Size([2]))] == [
        "torch.int64",
        "torch.channels_last",
        "torch.Size([2])",
    ]


@pytest.mark.parametrize("value", [*FORMATS, flambeau.strided], ids=str)
def test_formats_and_layouts_are_single_objects(value):
    assert copy.copy(value) is copy.deepcopy(value) is pickle.loads(pickle.dumps(value)) is value
    assert isinstance(value, flambeau.layout if value is flambeau.strided else flambeau.memory_format)


class Alike:
    """Something that only looks like a memory format."""

    def __repr__(self) -> str:
        return "flambeau.channels_last"


Alike.__name__ = "memory_format"


def test_what_only_looks_like_a_format_is_none():
    x = flambeau.zeros(2, 3, 4, 5)
    calls = (
        lambda: x.clone(memory_format=Alike()),
        lambda: x.contiguous(memory_format=Alike()),
        lambda: x.is_contiguous(memory_format=Alike()),
        lambda: flambeau.empty_like(x, memory_format=Alike()),
        lambda: flambeau.zeros(2, layout=Alike()),
    )
    for call in calls:
        with pytest.raises(TypeError, match="must be flambeau.(memory_format|layout), not memory_format"):
            call()
