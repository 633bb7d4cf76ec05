"""What a traceback shows: the program's lines and the library's public functions, not the functions behind them."""

from __future__ import annotations

import os
import pdb
import re
import traceback
from pathlib import Path

import pytest

import flambeau
from flambeau import nn

PACKAGE = os.path.dirname(flambeau.__file__) + os.sep
HERE = __file__


@pytest.fixture(autouse=True)
def _shortened(monkeypatch):
    monkeypatch.delenv("FLAMBEAU_TRACEBACK", raising=False)


def names(error: BaseException) -> list[str]:
    """The functions of a traceback, the caller's first."""
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)]


def raised(function, *args, **kwargs) -> Exception:
    """The error of a call; the frame of this function is its first."""
    try:
        function(*args, **kwargs)
    except Exception as error:
        return error
    raise AssertionError("no error")


CALLS = {
    "an operator": lambda: flambeau.ones(2, 3) @ flambeau.ones(4, 5),
    "an operation in Python": lambda: nn.functional.conv2d(
        flambeau.ones(1, 4, 8, 8), flambeau.ones(3, 3, 3, 3)
    ),
    "an operation that calls others": lambda: nn.functional.embedding(
        flambeau.tensor([5]), flambeau.ones(3, 4)
    ),
    "a kernel's dtypes": lambda: flambeau.zeros(3, dtype=flambeau.int64).mean(),
    "a key": lambda: flambeau.ones(3, 4)[1, 2, 3],
    "a method": lambda: flambeau.ones(2).item(),
    "truth": lambda: bool(flambeau.ones(2)),
    "backward": lambda: flambeau.ones(2, requires_grad=True).backward(),
    "a device": lambda: flambeau.device("gpu"),
    "a keyword": lambda: flambeau.ones(3).sum(dims=0),
}


@pytest.mark.parametrize("what", CALLS)
def test_a_call_shows_the_line_that_made_it(what):
    assert names(raised(CALLS[what])) == ["raised", "<lambda>"]


def test_a_module_shows_its_forward():
    assert names(raised(nn.Linear(3, 4), flambeau.ones(2, 5))) == ["raised", "forward"]


def test_everything_stays_where_it_is_wanted(monkeypatch):
    monkeypatch.setenv("FLAMBEAU_TRACEBACK", "1")
    whole = names(raised(CALLS["an operation in Python"]))
    assert whole[-1] == "_checked" and any("call_function" in name for name in whole)
    for off in ("", "0"):
        monkeypatch.setenv("FLAMBEAU_TRACEBACK", off)
        assert len(names(raised(CALLS["an operation in Python"]))) == 2


def ours() -> None:
    """A program's function, which an operation that it calls fails in."""
    flambeau.ones(2) + flambeau.ones(3)


def test_hooks_of_modules_stay():
    layer = nn.Linear(2, 2)
    layer.register_forward_hook(lambda *_: ours())
    found = names(raised(layer, flambeau.ones(2)))
    assert found[0] == "raised" and found[-2:] == ["<lambda>", "ours"]


def test_forward_of_a_program_stays():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(3, 3), nn.Linear(4, 4))

        def forward(self, x):
            return self.inner(x)

    error = raised(Net(), flambeau.ones(2, 3))
    assert names(error) == ["raised", "forward", "forward", "forward"]
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    assert files[:2] == [HERE, HERE] and all(name.startswith(PACKAGE + "nn") for name in files[2:])


def test_functions_in_backward_stay():
    class Fails(flambeau.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            ours()

    x = flambeau.ones(2, requires_grad=True)
    assert names(raised(Fails.apply(x).sum().backward))[-2:] == ["backward", "ours"]
    y = flambeau.ones(2, requires_grad=True)
    y.register_hook(lambda grad: ours())
    assert names(raised((y * 2).sum().backward))[-2:] == ["<lambda>", "ours"]


def test_answers_of_classes_and_modes_stay():
    class Asked(flambeau.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            ours()

    assert names(raised(flambeau.exp, flambeau.ones(2).as_subclass(Asked)))[-2:] == [
        "__torch_function__",
        "ours",
    ]

    class Watches(flambeau.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            ours()

    def watched():
        with Watches():
            flambeau.exp(flambeau.ones(2))

    assert names(raised(watched))[-2:] == ["__torch_function__", "ours"]


def test_functions_handed_in_stay():
    assert names(raised(flambeau.ones(2).apply_, lambda x: ours()))[-2:] == ["<lambda>", "ours"]
    assert names(raised(flambeau.vmap(lambda x: ours()), flambeau.ones(2)))[-2:] == ["<lambda>", "ours"]


def test_objects_asked_for_numbers_stay():
    class Odd:
        def __index__(self):
            ours()

    assert names(raised(flambeau.ones, Odd()))[-2:] == ["__index__", "ours"]


def test_generators_stay():
    def sizes():
        yield flambeau.ones(2)
        ours()

    assert names(raised(lambda: [x + 1 for x in sizes()]))[-2:] == ["sizes", "ours"]
    assert names(raised(flambeau.optim.SGD, sizes(), lr=0.1))[-2:] == ["sizes", "ours"]


def test_chains_keep_what_a_program_raised():
    def chained():
        try:
            ours()
        except RuntimeError as error:
            raise KeyError("k") from error

    layer = nn.ReLU()
    layer.register_forward_pre_hook(lambda *_: chained())
    error = raised(layer, flambeau.ones(2))
    assert names(error)[-2:] == ["<lambda>", "chained"] and names(error.__cause__) == ["chained", "ours"]

    def while_handling():
        try:
            {}["missing"]
        except KeyError:
            flambeau.ones(2, 3) @ flambeau.ones(2)

    error = raised(while_handling)
    assert names(error) == ["raised", "while_handling"] and names(error.__context__) == ["while_handling"]


def test_an_error_raised_again_keeps_the_first_lines():
    def again():
        try:
            ours()
        except RuntimeError as error:
            raise error.with_traceback(None) from None

    assert names(raised(again)) == ["raised", "again"]
    layer = nn.ReLU()
    layer.register_forward_pre_hook(lambda *_: again())
    assert names(raised(layer, flambeau.ones(2)))[-2:] == ["<lambda>", "again"]


def test_operations_under_a_device_or_a_mode_raise():
    assert "add()" in str(raised(flambeau.device("cpu")(flambeau.add), 1))

    class Passing(flambeau.overrides.Mode):
        def handle(self, operation, types, args, kwargs):
            return operation(*args, **kwargs)

    def composite():
        with Passing():
            flambeau.einsum("ij,jk", flambeau.ones(2, 3), flambeau.ones(4, 5))

    def leaf():
        with Passing():
            flambeau.ones(2, 3) + flambeau.ones(4)

    assert names(raised(composite)) == ["raised", "composite"]
    assert names(raised(leaf)) == ["raised", "leaf", "handle"]


def test_a_debugger_stops_at_the_programs_line():
    error = raised(ours)
    debugger = pdb.Pdb()
    debugger.reset()
    stack, at = debugger.get_stack(None, error.__traceback__)
    assert stack[at][0].f_code is ours.__code__


def test_compiled_code_has_no_with():
    """Cython hands `__exit__` the traceback, and does not expect that there is none."""
    root = Path(PACKAGE)
    files = list(root.rglob("*.pyx"))
    assert files
    found = [
        f"{file.relative_to(root)}: {line.strip()}"
        for file in files
        for line in file.read_text().splitlines()
        if re.match(r"\s+with (?!nogil|gil)\S.*:$", line) and not re.search(r"\bnogil\b", line)
    ]
    assert not found


def test_errors_of_files_show_what_a_program_raised_and_not_how_files_are_read(tmp_path):
    path = tmp_path / "x.pt"
    flambeau.save({"x": flambeau.ones(2)}, path)
    error = raised(flambeau.load, path, map_location=lambda storage, place: ours())
    assert names(error.__cause__)[-2:] == ["<lambda>", "ours"]
    path.write_bytes(b"not a file of tensors")
    error = raised(flambeau.load, path)
    assert error.__cause__ is None and error.__suppress_context__


def test_errors_of_datasets_and_of_collating_show_the_programs_lines():
    class Fails(flambeau.utils.data.Dataset):
        def __len__(self):
            return 2

        def __getitem__(self, k):
            ours()

    assert names(raised(lambda: list(flambeau.utils.data.DataLoader(Fails()))))[-3:] == [
        "<lambda>",
        "__getitem__",
        "ours",
    ]
    unequal = [flambeau.ones(2), flambeau.ones(3)]
    assert names(raised(lambda: list(flambeau.utils.data.DataLoader(unequal, batch_size=2)))) == [
        "raised",
        "<lambda>",
    ]
