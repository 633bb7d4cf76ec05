"""The words of the source are those of `docs/dev/glossary.md`: what it retires is no name in `core/`, or part of no name at all."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "dev" / "glossary.md"
SOURCES = (".py", ".pyx", ".pxd", ".pyi", ".c", ".h")
RETIRED_EVERYWHERE = {"asked", "room", "rooms", "told"}
LIBRARIES = (
    "backends cuda devices distributed export fx hub.py jit kernels legacy library nested onnx opencl.py profiler sparse utils xpu"
).split()
ALLOWED = {"found_inf", "_known_worker_ids", "plain_indices"}  # names of PyTorch's
# The attribute of an operation in `core/` that computes calls by a function; and a file whose text is part of the key of all that
# is translated to C, so that it changes when a rule of it does.
LEFT = {"flambeau/library/_operators.py": {"whole"}, "tools/cythonize.py": {"found", "given"}}
# What is no code: literals and comments.
_SKIPPED = re.compile(
    r'[rRbBuUfF]{0,2}("""|\'\'\')(?:\\.|.)*?\1|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|#[^\n]*|//[^\n]*|/\*.*?\*/',
    re.DOTALL,
)


def rows(title: str) -> list[list[str]]:
    """The cells of the table under a heading of the page."""
    section = PAGE.read_text().partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]


def retired() -> dict[str, str]:
    """Names that are not used any more, and what stands in their place."""
    return {old.strip("`"): new for old, new in rows("Formerly")}


def names(text: str) -> set[str]:
    """The identifiers of a source, those in literals and comments left out."""
    return set(re.findall(r"\b[A-Za-z_]\w*", _SKIPPED.sub(" ", text)))


def parts(name: str) -> set[str]:
    """The words of an identifier, in small letters."""
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def bound(path: Path) -> set[str]:
    """The names that a source gives: of functions, classes, arguments, variables and attributes; in C and Cython all of it."""
    if path.suffix != ".py":
        return names(path.read_text()) | {path.stem}
    result = {path.stem}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            result.add(node.name)
        elif isinstance(node, ast.arg):
            result.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            result.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            result.add(node.attr)
    return result


def test_literals_and_comments_are_no_names():
    source = 'cdef int door = watch("late")  # attended\n"""hosted\n"""\n/* told */ int composed; // spread\n'
    assert names(source) == {"cdef", "int", "door", "watch", "composed"}


def test_the_page_has_words_and_names():
    assert {"door", "watching", "provide"} <= set(retired())
    words = [word for word, _, _ in rows("Words")]
    assert len(words) == len(set(words)) and {"dispatch", "leaf", "composite", "workspace"} <= set(words)


@pytest.mark.parametrize(
    "path",
    sorted(p for p in (ROOT / "flambeau" / "core").rglob("*") if p.suffix in SOURCES),
    ids=lambda p: "/".join(p.parts[-2:]),
)
def test_retired_names_do_not_come_back(path):
    gone = retired()
    back = {name: gone[name] for name in names(path.read_text()) | {path.stem} if name in gone}
    assert not back, f"{path}: the field's words are {back}"


def test_names_are_split_into_words():
    assert parts("_make_room") == {"make", "room"} and parts("RowRoom") == {"row", "room"}
    assert parts("INLINE_ROOM") == {"inline", "room"} and parts("masked_HTTPTold") == {
        "masked",
        "http",
        "told",
    }


def test_the_page_retires_the_words_of_no_name():
    assert RETIRED_EVERYWHERE <= set(retired())


@pytest.mark.parametrize("folder", ["flambeau", "tools"])
def test_retired_words_are_part_of_no_name(folder):
    paths = [p for p in sorted((ROOT / folder).rglob("*")) if p.suffix in SOURCES]
    assert paths
    back = {}
    for path in paths:
        text = path.read_text()
        # most files have none even in their comments, which is found sooner
        if re.search("asked|room|told", text, re.IGNORECASE):
            found = {n for n in names(text) | {path.stem} if parts(n) & RETIRED_EVERYWHERE}
            if found:
                back[str(path.relative_to(ROOT))] = found
        elif parts(path.stem) & RETIRED_EVERYWHERE:
            back[str(path.relative_to(ROOT))] = {path.stem}
    assert not back, back


def test_names_that_a_source_gives(tmp_path):
    path = tmp_path / "given.py"
    path.write_text(
        "from a import plain\n"
        "class Kept:\n"
        "    def found(self, spread=None, *rest, whole):\n"
        "        self.known = [x for x in plain.held(spread, taken=1)]\n"
        "        if (late := self.early): pass\n"
    )
    assert bound(path) == {
        *("given", "Kept", "found", "self", "spread", "rest", "whole", "known", "x", "late"),
    }


def test_words_of_libraries_and_tools_are_on_the_page():
    scopes = {scope for _, _, scope in rows("Words of no name")}
    assert scopes == {"libraries", "libraries, tools"}


@pytest.mark.parametrize(
    "folder", [*(f"flambeau/{each}" for each in LIBRARIES), "tools", "benchmarks", "examples"]
)
def test_words_of_no_name_do_not_come_back(folder):
    scope = "libraries" if folder.startswith("flambeau/") else "tools"
    gone = {
        word.strip("`"): new for word, new, where in rows("Words of no name") if scope in where.split(", ")
    }
    assert gone
    root = ROOT / folder
    paths = [p for p in (sorted(root.rglob("*")) if root.is_dir() else [root]) if p.suffix in SOURCES]
    assert paths
    back = {}
    for path in paths:
        where = str(path.relative_to(ROOT))
        made = bound(path) - ALLOWED - LEFT.get(where, set())
        if again := {name: gone[word] for name in made for word in parts(name) if word in gone}:
            back[where] = again
    assert not back, f"the field's words are {back}"
