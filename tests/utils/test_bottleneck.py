"""`python -m flambeau.utils.bottleneck` beside programs that do well, end early, and fail."""

from __future__ import annotations

import subprocess
import sys

import pytest

import flambeau
from flambeau.utils import bottleneck

PROGRAM = """
import sys
import flambeau
import beside

assert __name__ == "__main__" and __file__ == sys.argv[0]
x = flambeau.ones(50, 50, requires_grad=True)
(x @ x).relu().sum().backward()
beside.work(200_000)
print("given", *sys.argv[1:])
{end}
"""


def program(folder, end=""):
    (folder / "beside.py").write_text("def work(n):\n    return sum(i * i for i in range(n))\n")
    path = folder / "program.py"
    path.write_text(PROGRAM.format(end=end))
    return str(path)


def test_as_a_command(tmp_path):
    command = [sys.executable, "-m", "flambeau.utils.bottleneck", program(tmp_path), "--an", "argument"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    environment, _, rest = done.stdout.partition("=== cProfile")
    calls, _, operations = rest.partition("=== Operations")
    assert (
        environment.startswith("=== Environment ===\n") and f"version: {flambeau.__version__}" in environment
    )
    assert environment.endswith("given --an argument\n") and calls.endswith("given --an argument\n")
    assert "beside.py:2(<genexpr>)" in calls
    first = operations.splitlines()[2].split()
    assert (
        first[:3] == ["Name", "Self", "CPU"] and "aten::relu" in operations and "ReluBackward0" in operations
    )


def test_what_a_program_finds_is_put_back(tmp_path, capsys):
    before = list(sys.argv), list(sys.path), sys.modules["__main__"]
    bottleneck.main([program(tmp_path, end="sys.exit(0)"), "-x"])
    assert (sys.argv, sys.path, sys.modules["__main__"]) == before
    assert capsys.readouterr().out.count("given -x") == 2
    sys.modules.pop("beside")


@pytest.mark.parametrize("end, error", [("sys.exit(3)", SystemExit), ("1 / 0", ZeroDivisionError)])
def test_what_a_program_raises_comes_through(end, error, tmp_path):
    before = list(sys.argv), list(sys.path)
    with pytest.raises(error):
        bottleneck.main([program(tmp_path, end)])
    assert (sys.argv, sys.path) == before
    sys.modules.pop("beside")


def test_what_cannot_be_run(tmp_path, capsys):
    with pytest.raises(SystemExit):
        bottleneck.main([str(tmp_path / "none.py")])
    assert "there is no file" in capsys.readouterr().err
    (tmp_path / "wrong.py").write_text("def")
    with pytest.raises(SyntaxError):
        bottleneck.main([str(tmp_path / "wrong.py")])
    assert capsys.readouterr().out == ""
