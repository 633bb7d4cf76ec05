"""Compare errors with PyTorch's, on the error inputs of PyTorch's own operator records.

    python tools/parity_errors.py                    # all 226 records that have error inputs
    python tools/parity_errors.py --only '^cat$' -v
    python tools/parity_errors.py --public           # only the records that parity_operations.py tries
    python tools/parity_errors.py --json errors.json

Needs PyTorch: pip install ".[parity]".  Each error input is given to both libraries.  It passes when the class is PyTorch's or a
subclass of it (LinAlgError goes by its name).  Of the message it is counted whether it matches the record's own pattern, which is PyTorch's
wording, and whether it names the operation, an argument of it, or a word that PyTorch's message quotes.
"""

from __future__ import annotations

import argparse
import inspect
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import _parity_samples as samples
from _parity_children import Row, drive, one_line, parser_for, serve, write_json
from _parity_samples import Bridge, label

# Words of PyTorch's messages that name what an error is about.
WORDS = (
    "dim dimension shape size dtype device index stride kernel padding batch square float complex integer integral bool scalar "
    "empty broadcast positive negative range layout contiguous type weight bias target reduction order norm axis tensor length out"
).split()
COUNTS = ("tried", "same", "pattern", "named", "subject")


class Sharing(Bridge):
    """Tensors of one storage stay views of one storage; overlapping strides stay; one tensor twice stays one."""

    def __init__(self, lib: Any) -> None:
        super().__init__(lib)
        self.storages: dict = {}
        self.known: dict = {}

    def tensor_there(self, t: Any) -> Any:
        if id(t) not in self.known:
            self.known[id(t)] = t, self.view_there(t)
        return self.known[id(t)][1]

    def view_there(self, t: Any) -> Any:
        torch = self.torch
        if (
            t.layout is not torch.strided
            or t.is_conj()
            or t.is_neg()
            or not t.numel()
            or t.device.type != "cpu"
        ):
            # a copy: asking a tensor for its NumPy array makes its storage fixed, which changes PyTorch's errors
            return super().tensor_there(t.detach().clone().requires_grad_(t.requires_grad))
        storage = t.untyped_storage()
        key = storage.data_ptr(), t.dtype
        if key not in self.storages:
            whole = torch.empty(0, dtype=t.dtype).set_(storage, 0, (storage.nbytes() // t.element_size(),))
            self.storages[key] = super().tensor_there(whole.clone())
        view = self.storages[key].as_strided(tuple(t.shape), tuple(t.stride()), t.storage_offset())
        return view.detach().requires_grad_(True) if t.requires_grad else view


def records() -> list[tuple[int, Any]]:
    return [(n, op) for n, op in samples.records() if op.error_inputs_func]


def argument_names(op: Any, function: Callable) -> set[str]:
    names: set[str] = set()
    for f in (function, op.op):
        try:
            names.update(inspect.signature(f).parameters)
        except (TypeError, ValueError):
            pass
        first = next((line for line in (getattr(f, "__doc__", None) or "").splitlines() if "(" in line), "")
        names.update(re.findall(r"[(,*] *(\w+)", first))
    return {n for n in names if n not in ("a", "k", "args", "kwargs", "self", "x") and len(n) > 1}


def mentions(op: Any, function: Callable, message: str, theirs: str) -> set[str]:
    """Which of operation, argument and subject (a word of PyTorch's message) the message names."""
    text = message.lower()
    names = [name.split(".")[-1].strip("_").lower() for name in (op.name, *(a.name for a in op.aliases))]
    said = set()
    if any(re.search(rf"\b_*{re.escape(n)}_*\b", text) for n in names):
        said.add("operation")
    if any(re.search(rf"\b{re.escape(n.lower())}s?\b", text) for n in argument_names(op, function)):
        said.add("argument")
    quoted = {q.lower() for q in re.findall(r"['\"`](\w+)['\"`]", theirs)}
    if any(w in text for w in {w for w in WORDS if w in theirs.lower()} | quoted):
        said.add("subject")
    return said


def compare(
    row: Row, op: Any, function: Callable, case: Any, ours: Exception, theirs: Exception, where: str
) -> None:
    """Counts in `row` what the candidate's error has of PyTorch's."""
    names = [type(e).__name__.strip("_") for e in (ours, theirs)]
    said = mentions(op, function, str(ours), str(theirs))
    row["pattern"] += bool(re.search(case.error_regex, str(ours)))
    row["named"] += bool(said & {"operation", "argument"})
    row["subject"] += bool(said)
    if isinstance(ours, type(theirs)) or names[0] == names[1]:
        row["same"] += 1
        kind = "" if said else "message names nothing"
    else:
        kind = f"{type(ours).__name__} for {type(theirs).__name__}"
    if kind:
        row["misses"].append([kind, where, one_line(ours, 160), one_line(theirs, 160)])


def run_operation(torch: Any, lib: Any, op: Any) -> Row:
    row: Row = {"name": label(op), "public": samples.is_public(op), "skipped": [], "misses": []}
    row.update(dict.fromkeys(COUNTS, 0))
    function = samples.function_of(lib, op)
    torch.manual_seed(0)
    for number, case in enumerate(op.error_inputs("cpu")):
        args, kwargs = (case.sample_input.input, *case.sample_input.args), case.sample_input.kwargs
        where = f"#{number} {samples.brief_call(torch, args, kwargs)}"[:240]
        if function is None:
            row["missing"] = True
            row["tried"] += 1
            continue
        bridge = Sharing(lib)
        try:  # before PyTorch sees them: it may write in place
            ours_args, ours_kwargs = bridge.there(args), bridge.there(kwargs)
        except Exception as error:
            row["skipped"].append([where, "cannot be carried over: " + one_line(error, 120)])
            continue
        try:
            samples.quietly(op.op, *args, **kwargs)
        except Exception as error:
            theirs = error
        else:
            row["skipped"].append([where, "PyTorch raises nothing"])
            continue
        row["tried"] += 1
        try:
            samples.quietly(function, *ours_args, **ours_kwargs)
        except Exception as error:
            compare(row, op, function, case, error, theirs, where)
        else:
            row["misses"].append(["no error", where, "", one_line(theirs, 200)])
    return row


def report(row: Row, verbose: bool) -> None:
    """Prints a row with misses of more than the message."""
    wrong = [m for m in row["misses"] if m[0] != "message names nothing"]
    if not wrong:
        return
    aside = "" if row.get("public", True) else "  (not among those of parity_operations.py)"
    print(f"{row['name']}: {row['same']}/{row['tried']}{aside}", flush=True)
    for kind, where, ours, theirs in wrong[:1] if row.get("missing") else wrong if verbose else wrong[:2]:
        ours, theirs = f"\n        {ours}" if ours else "", f"\n        PyTorch: {theirs}" if theirs else ""
        print(f"    {kind} at {where}{ours}{theirs}")


def summary(title: str, rows: list[Row]) -> str:
    total = {k: sum(r[k] for r in rows) for k in COUNTS}

    def share(key: str) -> str:
        return f"{total[key]} ({100 * total[key] / total['tried']:.1f} %)"

    whole = sum(r["same"] == r["tried"] for r in rows if r["tried"])
    return (
        f"{title}: {whole} of {sum(bool(r['tried']) for r in rows)} records; {total['tried']} error inputs: same class {share('same')}, "
        f"PyTorch's pattern {share('pattern')}, names operation or argument {share('named')}, or its subject {share('subject')}"
    )


def run(options: argparse.Namespace) -> None:
    names = [
        (n, label(op))
        for n, op in records()
        if re.search(options.only, op.name) and (not options.public or samples.is_public(op))
    ]
    rows, kinds = [], Counter[str]()
    for _, row in drive(__file__, options, names):
        if "tried" not in row:
            kind = "crash" if "crash" in row else "error of this program"
            row.update(dict.fromkeys(COUNTS, 0), tried=1, skipped=[])
            row["misses"] = [[kind, "", row.get("crash") or row["tool_error"][-300:], ""]]
        if row.get("missing"):
            row["misses"] = [["missing operation", "", "", ""]] * row["tried"]
        rows.append(row)
        kinds.update(m[0] for m in row["misses"])
        report(row, options.verbose)
    skipped = Counter(s[1].split(":")[0] for r in rows for s in r["skipped"])
    print("\nmisses by kind: " + ", ".join(f"{k} {n}" for k, n in kinds.most_common()))
    print(f"left out: {skipped.total()} ({dict(skipped)})")
    public = [r for r in rows if r.get("public", True)]
    for title, chosen in (("all records", rows), ("public records", public)):
        if sum(r["tried"] for r in chosen):
            print(summary(title, chosen))
    write_json(options, rows)


def main() -> None:
    parser = parser_for(__doc__)
    parser.add_argument(
        "--public", action="store_true", help="only the records that parity_operations.py tries"
    )
    options = parser.parse_args()
    if not options.worker:
        return run(options)
    ops = dict(records())
    serve(options, lambda torch, lib, index: run_operation(torch, lib, ops[index]))


if __name__ == "__main__":
    main()
