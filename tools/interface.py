"""What follows from the registry for readers and type checkers: docs/operations.md and the stubs (`stubs.py`).

python tools/interface.py          # write them
python tools/interface.py --check  # exit 1 where one of them is not current
"""

from __future__ import annotations

import sys
from pathlib import Path

from flambeau.operations.declare.registry import REGISTRY, Entry

_HERE = Path(__file__).resolve().parent
sys.path[:0] = [
    str(_HERE),
    str(_HERE.parent / "tests" / "operations"),
]  # also where PYTHONSAFEPATH leaves them out
import samples  # noqa: E402
from stubs import stubs  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "docs" / "operations.md"


# --- the table ------------------------------
def first_sentence(entry: Entry) -> str:
    text = (entry.function.__doc__ or "").split(">>>")[0].strip()
    if text.startswith(entry.name + "("):  # a compiled function's signature
        text = text.partition("\n")[2]
    return " ".join(text.split()).split(". ")[0].rstrip(".").replace("|", "\\|")


def dtypes_of(entry: Entry) -> str:
    """In words where there is one."""
    taken = entry.dtypes
    if not taken:
        return ""
    groups = {
        "bool": {"bool"},
        "integers": {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
        "floats": {"float16", "bfloat16", "float32", "float64"},
        "complex": {"complex64", "complex128"},
    }
    words = [word for word, group in groups.items() if group <= taken]
    covered = set().union(*(groups[w] for w in words)) if words else set()
    return ", ".join(words + sorted(taken - covered))


def derivative(entry: Entry) -> str:
    """Whether a result of a sample call requires gradients; nothing for what has no sample call."""
    found = ""
    for text in samples.calls(entry) or ():
        try:
            results = samples.run(entry, text, samples.Operands(grad=True))
        except NotImplementedError:
            continue
        if any(t.requires_grad for t in results):
            return "yes"
        found = "no" if results else found
    return found


def table() -> str:
    lines = [
        "# Operations",
        "",
        "Written by `python tools/interface.py` from the registry.  Whether there is a derivative is found out by a sample call",
        "(`tests/operations/samples.py`); the dtypes are those that its tensors may have, or those that it makes, indices apart.",
        "",
        "| operation | kind | dtypes | derivative | what it gives |",
        "|---|---|---|---|---|",
    ]
    for entry in sorted(REGISTRY.values(), key=lambda e: e.name):
        places = [p for p in entry.places if not p.rpartition(".")[2].startswith("_")]
        if places:
            name = ", ".join(f"`{p}`" for p in places[:1]) + (" …" if len(places) > 1 else "")
            lines.append(
                f"| {name} | {entry.kind} | {dtypes_of(entry)} | {derivative(entry)} | {first_sentence(entry)} |"
            )
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    texts = {TABLE: table(), **{ROOT / "flambeau" / path: text for path, text in stubs().items()}}
    stale = [path for path, text in texts.items() if not path.exists() or path.read_text() != text]
    stale += [path for path in (ROOT / "flambeau").rglob("*.pyi") if path not in texts]
    if "--check" in arguments:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is not current: run python tools/interface.py")
        return bool(stale)
    for path in stale:
        path.write_text(texts[path]) if path in texts else path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
