"""Each program under examples/ runs, learns something, and draws its picture; the runner and the gallery know them all.

What needs the drop-in (`ON_THE_DROP_IN`) cannot run where PyTorch may be imported, too: `make examples` runs those.
"""

import ast
import importlib.util
import re
import runpy
import sys
import tomllib
from pathlib import Path

import matplotlib
import pytest

ROOT = Path(__file__).parents[1]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
DISTRIBUTIONS = {"sklearn": "scikit-learn"}
EXAMPLES = sorted(path.parent.name for path in (ROOT / "examples").glob("*/main.py"))
ON_THE_DROP_IN = {"captum", "skorch", "spelling_bert"}


@pytest.fixture(scope="module")
def runner():
    spec = importlib.util.spec_from_file_location("run_examples", ROOT / "examples" / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name not in ON_THE_DROP_IN])
def test_runs(name, tmp_path, monkeypatch, capsys):
    """The small run reaches its small figure (else the program exits) and draws."""
    monkeypatch.setattr(sys, "argv", ["main.py", "--quick", "--picture", str(tmp_path / "picture.png")])
    matplotlib.use("Agg")
    runpy.run_path(str(ROOT / "examples" / name / "main.py"), run_name="__main__")
    matplotlib.pyplot.close("all")
    assert re.search(r"\d.*to reach", capsys.readouterr().out.splitlines()[-1])
    assert (tmp_path / "picture.png").stat().st_size > 5_000


def needs(name):
    """The packages that a program imports and Python, flambeau and the drop-in do not have."""
    tree = ast.parse((ROOT / "examples" / name).read_text())
    found = [n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)]
    found += [alias.name for n in ast.walk(tree) if isinstance(n, ast.Import) for alias in n.names]
    tops = {module.partition(".")[0] for module in found}
    return sorted(tops - sys.stdlib_module_names - {"flambeau", "torch"})


@pytest.mark.parametrize(
    "name, package",
    [(name, p) for name in EXAMPLES if name not in ON_THE_DROP_IN for p in needs(f"{name}/main.py")],
)
def test_what_is_missing_is_named_with_its_extra(name, package, monkeypatch):
    """Before anything is done, in one line."""
    monkeypatch.setitem(sys.modules, package, None)
    for module in [m for m in sys.modules if m.startswith(package + ".")]:
        monkeypatch.delitem(sys.modules, module)
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "examples" / name / "main.py"), run_name="__main__")
    told = re.fullmatch(
        rf"{package}(?:\.\w+)* is not installed: pip install '\.\[(\w+)\]'", str(ended.value.code)
    )
    assert told, ended.value.code
    assert DISTRIBUTIONS.get(package, package) in EXTRAS[told[1]] or package in ("numpy", "scipy")


@pytest.mark.parametrize("name", sorted(ON_THE_DROP_IN))
def test_who_needs_the_drop_in_says_so(name):
    """All that is not ours is imported where its absence is caught."""
    tree = ast.parse((ROOT / "examples" / name / "main.py").read_text())
    (caught,) = [node for node in tree.body if isinstance(node, ast.Try)]
    assert needs(f"{name}/main.py") == sorted(
        {
            module.partition(".")[0]
            for node in caught.body
            for module in (
                [node.module] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
            )
        }
        - {"torch"}
    )
    assert "pip install ./dropin '.[examples]'" in ast.unparse(caught.handlers[0]).replace("\\", "")
    assert {DISTRIBUTIONS.get(p, p) for p in needs(f"{name}/main.py")} - {"numpy"} <= set(EXTRAS["examples"])


@pytest.mark.parametrize("name", EXAMPLES)
def test_says_what_it_does(name):
    """A docstring with the data, the figure and the command."""
    told = ast.get_docstring(ast.parse((ROOT / "examples" / name / "main.py").read_text()))
    assert re.search(r"^(Data|World): ", told, re.MULTILINE) and re.search(r"^Figure: ", told, re.MULTILINE)
    assert re.search(r"^    python examples/(\w+)/main.py", told, re.MULTILINE)[1] == name


def test_the_runner_knows_all(runner):
    assert sorted(runner.NAMES) == EXAMPLES


def test_the_gallery_shows_all():
    page = (ROOT / "docs" / "gallery.md").read_text()
    pictures = re.findall(r"!\[(\w+)\]\((\S+)\)", page)
    assert sorted(name for name, _ in pictures) == EXAMPLES
    sizes = [(ROOT / "docs" / place).stat().st_size for _, place in pictures]
    assert max(sizes) <= 60_000 and min(sizes) > 5_000
    for _, place in re.findall(r"\[(Source)\]\((\S+)\)", page):
        assert (ROOT / "docs" / place).exists()


def test_a_missed_figure_is_a_failure(runner, tmp_path, monkeypatch, capsys):
    """The runner ends with an error that names the example, and does not show it."""
    program = '"""What.\n\nFigure: none."""\nimport sys\nprint("0 %; to reach 1 %")\nsys.exit("missed")\n'
    (tmp_path / "examples" / "bad").mkdir(parents=True)
    (tmp_path / "examples" / "bad" / "main.py").write_text(program)
    monkeypatch.setattr(runner, "HERE", tmp_path / "examples")
    monkeypatch.setattr(runner, "NAMES", ["bad"])
    monkeypatch.setattr(sys, "argv", ["run.py"])
    with pytest.raises(SystemExit, match="failed: bad"):
        runner.main()
    assert "FAILED bad" in capsys.readouterr().out
    assert "bad" not in (tmp_path / "docs" / "gallery.md").read_text()


def test_a_run_that_does_not_end_is_a_failure(runner, tmp_path, monkeypatch):
    (tmp_path / "slow").mkdir()
    (tmp_path / "slow" / "main.py").write_text("import time\ntime.sleep(60)\n")
    monkeypatch.setattr(runner, "HERE", tmp_path)
    done = runner.run("slow", tmp_path / "slow.png", [], limit=0.5)
    assert done.status == 124 and done.figure == "nothing was printed"


def test_a_page(runner, tmp_path, monkeypatch):
    """Docstring, picture, figure and times of a run stand on the page."""
    (tmp_path / "good").mkdir()
    (tmp_path / "good" / "main.py").write_text('"""What it\nshows.\n\nData: some.\n\n    command\n"""\n')
    monkeypatch.setattr(runner, "HERE", tmp_path)
    text = runner.page([runner.Run("good", 0, "99 %; to reach 98 %", 61.0, 100.4)], "gallery")
    assert "**What it shows.**" in text and "Data: some." in text and "    command" not in text
    assert "![good](gallery/good.png)" in text and "> 99 %; to reach 98 %" in text
    assert (
        "| [good](#good) | 99 %; to reach 98 % | 61 | 100 |" in text
        and "1 examples in\n1.0 minutes, 1.7 minutes of CPU" in text
    )


def test_pictures_are_made_small(runner, tmp_path):
    import numpy as np
    from PIL import Image

    noise = np.random.default_rng(0).integers(0, 256, (240, 400, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "noise.png")
    runner.shrink(tmp_path / "noise.png", most=60_000)
    assert (tmp_path / "noise.png").stat().st_size <= 60_000
