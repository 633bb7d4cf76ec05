"""The line that stands where tqdm is not installed."""

import io
import sys

import pytest

from flambeau.utils import _progress
from flambeau.utils._progress import Line, progress


class Terminal(io.StringIO):
    def isatty(self):
        return True

    def shown(self):
        """What stands on it: a carriage return goes back to the line's begin."""
        line, lines = "", []
        for text in self.getvalue().split("\n"):
            line = ""
            for part in text.split("\r"):
                line = part + line[len(part) :]
            lines.append(line.rstrip())
        return lines


@pytest.fixture
def clock(monkeypatch):
    """Time that passes when a test says so."""
    now = [100.0]
    monkeypatch.setattr(_progress.time, "monotonic", lambda: now[0])
    return now


def test_a_terminal_has_one_line(clock):
    screen = Terminal()
    with Line(total=10, desc="work", file=screen) as line:
        assert screen.shown() == ["work:   0% 0/10 [0 s]"]
        for n in range(4):
            clock[0] += 1
            line.set_postfix_str("a long text behind" if n == 0 else "loss 2", refresh=False)
            line.update(2)
        assert screen.shown() == ["work:  80% 8/10 [4 s, 1 s left], loss 2"]
        line.set_postfix_str("loss 1")
        assert screen.shown() == ["work:  80% 8/10 [4 s, 1 s left], loss 1"]
    line.close()
    assert screen.shown() == ["work:  80% 8/10 [4 s, 1 s left], loss 1", ""]


def test_a_terminal_is_not_written_to_all_the_time(clock):
    screen = Terminal()
    line = Line(total=1000, file=screen)
    for _ in range(1000):
        clock[0] += 0.001
        line.update()
    assert 9 <= screen.getvalue().count("\r") <= 12


def test_a_line_is_no_wider_than_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    screen = Terminal()
    Line(total=3, desc="a name of many letters, many more", file=screen).close()
    assert max(map(len, screen.shown())) == 19


def test_elsewhere_lines_are_rare(clock):
    file = io.StringIO()
    with Line(total=60, file=file) as line:
        for _ in range(60):
            clock[0] += 0.5
            line.update()
            line.set_postfix_str("x")
    assert file.getvalue().splitlines() == [
        " 33% 20/60 [10 s, 20 s left], x",
        " 67% 40/60 [20 s, 10 s left], x",
        "100% 60/60 [30 s], x",
    ]


def test_disable(capsys):
    for disable, screen, some in (
        (None, io.StringIO(), False),
        (None, Terminal(), True),
        (True, Terminal(), False),
    ):
        with Line(total=1, file=screen, disable=disable) as line:
            line.update()
        assert bool(screen.getvalue()) == some
    Line(total=1).close()
    assert capsys.readouterr().err == "  0% 0/1 [0 s]\n"


def test_counts(clock):
    file = io.StringIO()
    for total, options in (
        (3 << 20, {"unit_scale": True, "unit_divisor": 1024, "unit": "B"}),
        (None, {"unit": "files"}),
        (0, {}),
        (5_000_000_000_000, {"unit_scale": True}),
        (4, {"initial": 2, "ncols": 80, "colour": "red"}),
    ):
        with Line(total=total, file=file, **options) as line:
            line.update(1536 if total == 3 << 20 else 0)
    assert file.getvalue().splitlines() == [
        "  0% 1.5K/3M B [0 s, 0 s left]",
        "0 files [0 s]",
        "100% 0/0 [0 s]",
        "  0% 0/5T [0 s]",
        " 50% 2/4 [0 s]",
    ]


def test_an_error_leaves_the_line_complete():
    screen = Terminal()
    with pytest.raises(ZeroDivisionError), Line(total=2, file=screen) as line:
        line.update(1 // 0)
    assert screen.getvalue().endswith("\n")


def test_tqdm_is_taken_where_it_is(monkeypatch):
    tqdm = pytest.importorskip("tqdm")
    with progress(total=1, file=io.StringIO(), ncols=40) as bar:
        assert type(bar) is tqdm.tqdm
    monkeypatch.setitem(sys.modules, "tqdm", None)
    with progress(total=1, file=io.StringIO(), ncols=40) as bar:
        assert type(bar) is Line
