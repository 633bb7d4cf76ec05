"""What follows from the registry for readers and type checkers: docs/operations.md and the stubs (`stubs.py`).

python tools/interface.py          # write them
python tools/interface.py --check  # exit 1 where one of them is not current
"""

from __future__ import annotations

import sys
from pathlib import Path

from flambeau.operations.declare.registry import REGISTRY, Entry
from flambeau.utils._python_dispatch import TorchDispatchMode

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
    answer = ""
    for text in samples.calls(entry) or ():
        try:
            results = samples.run(entry, text, samples.Operands(grad=True))
        except NotImplementedError:
            continue
        if any(t.requires_grad for t in results):
            return "yes"
        answer = "no" if results else answer
    return answer


def shown(entry: Entry) -> list[str]:
    """Its public places."""
    return [p for p in entry.places if not p.rpartition(".")[2].startswith("_")]


def public() -> list[Entry]:
    return [e for e in sorted(REGISTRY.values(), key=lambda e: e.name) if shown(e)]


class _Leaves(TorchDispatchMode):
    """Gathers why what is called goes by the host."""

    def __init__(self) -> None:
        super().__init__()
        self.reasons: set[str] = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        entry = getattr(function, "entry", None)
        if entry is not None and entry.by_host is not None:
            self.reasons.add(entry.by_host)
        return function(*args, **(kwargs or {}))


def by_host(entry: Entry) -> str:
    """Why an operation, or a leaf that its sample calls reach, takes tensors of accelerators to the CPU."""
    with _Leaves() as seen:
        for text in samples.calls(entry) or ():
            samples.run(entry, text, samples.Operands())
    return "; ".join(sorted(seen.reasons | ({entry.by_host} - {None})))


def table() -> str:
    lines = [
        "# Operations",
        "",
        "## What goes by the host",
        "",
        "Operations on tensors of an accelerator run there, but for these, which copy them to the CPU and the results back.  The first",
        "call of each warns (`accelerator.CpuFallbackWarning`); `accelerator.set_cpu_fallback`, or FLAMBEAU_CPU_FALLBACK in the",
        "environment, makes it an error, or allows it.  Of the others, numbers that the host decides by travel: how many elements are",
        "not zero, whether an index is valid, whether rotations have come to an end.",
        "",
        "| operation | why |",
        "|---|---|",
    ]
    for entry in public():
        why = by_host(entry)
        if why:
            lines.append(f"| `{shown(entry)[0]}` | {why} |")
    lines += [
        "",
        "## All",
        "",
        "Written by `python tools/interface.py` from the registry.  Whether there is a derivative is found out by a sample call",
        "(`tests/operations/samples.py`); the dtypes are those that its tensors may have, or those that it makes, indices apart.",
        "",
        "| operation | kind | dtypes | derivative | what it gives |",
        "|---|---|---|---|---|",
    ]
    for entry in public():
        places = shown(entry)
        name = f"`{places[0]}`" + (" …" if len(places) > 1 else "")
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
