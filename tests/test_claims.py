"""What the pages say is reproducible: every command in them names a file, and the programs that need PyTorch say so without it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = [
    path
    for folder in (".", "benchmarks", "docs", "docs/dev", "docs/site", "clients")
    for path in sorted((ROOT / folder).glob("*.md"))
    if path.name != "CHANGELOG.md"
]
PROGRAMS = [
    ROOT / "benchmarks" / "versus.py",
    ROOT / "tools" / "measure.py",
    *sorted((ROOT / "tools").glob("parity_*.py")),
]
_COMMAND = re.compile(r"\bpython[\d.]* ((?:[\w-]+/)*[\w-]+\.py)\b")
_FOLDER = re.compile(r"\bcd ([\w/-]+) && $")
_EXAMPLES = {"program.py", "train.py"}  # a program of the reader's own
# A module that cannot be imported stands in PyTorch's place.
WITHOUT_TORCH = "import runpy, sys; sys.modules['torch'] = None; sys.argv[:] = sys.argv[1:]; sys.path.insert(0, {folder!r}); "
WITHOUT_TORCH += "runpy.run_path(sys.argv[0], run_name='__main__')"


def commands(text: str) -> list[str]:
    """The programs that a page tells to run, by their paths from the repository's root."""
    found = []
    for match in _COMMAND.finditer(text):
        folder = _FOLDER.search(text[: match.start()])
        found.append(f"{folder[1]}/{match[1]}" if folder else match[1])
    return found


def run(program: Path, *options: str) -> subprocess.CompletedProcess:
    code = WITHOUT_TORCH.format(folder=str(program.parent))
    return subprocess.run(
        [sys.executable, "-c", code, str(program), *options], capture_output=True, text=True
    )


def test_commands_are_seen():
    text = "`python a/b.py --x`, `cd tests/x && python y.py --all`, and `python -m z`"
    assert commands(text) == ["a/b.py", "tests/x/y.py"]
    assert sum(len(commands(page.read_text())) for page in PAGES) > 50 and len(PROGRAMS) >= 4


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_of_a_page_names_a_file(page):
    wrong = [c for c in commands(page.read_text()) if c not in _EXAMPLES and not (ROOT / c).is_file()]
    assert not wrong


@pytest.mark.parametrize(
    "page", [p for p in PAGES if p.parent.name != "site"], ids=lambda path: str(path.relative_to(ROOT))
)
def test_every_link_of_a_page_leads_to_a_file(page):
    """The site's own pages link to each other by other names, which the site's build looks at."""
    links = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", page.read_text())
    assert not [link for link in links if not (page.parent / link).exists()]


def test_the_picture_of_speed_is_that_of_the_table():
    """It draws the ratios of every case in RESULTS.md."""
    picture = ROOT / "benchmarks" / "picture.py"
    assert subprocess.run([sys.executable, str(picture), "speed", "--check"]).returncode == 0


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_help_needs_no_torch(program):
    done = run(program, "--help")
    assert done.returncode == 0, done.stderr
    assert "[parity]" in done.stdout or "Needs no PyTorch" in done.stdout
    assert done.stdout.count("--") > 3


def test_a_comparison_asks_for_torch_by_name():
    done = run(ROOT / "tools" / "parity_errors.py", "--only", "^cat$")
    assert (
        done.returncode == 1 and 'pip install ".[parity]"' in done.stderr and "Traceback" not in done.stderr
    )
