"""Writes `flambeau/library/_overloads.py`, ATen's overloads of the operations that are declared here, and `aten_schemas.txt`, what these
take and return.

python tools/aten_of_torch.py [--schemas [-v]]      # needs torch 2.13 beside flambeau

With `--schemas` it writes nothing: it compares the schemas of those operations, which follow from their declarations, with the first
overload of each in PyTorch, and prints how many agree in the arguments (names, types, which are given by name alone) and in the results.
"""

from __future__ import annotations

import pathlib
import sys
import textwrap
from collections import Counter, defaultdict
from typing import Any

PAGE = pathlib.Path(__file__).parent.parent / "flambeau" / "library" / "_overloads.py"
SCHEMAS = PAGE.parent / "aten_schemas.txt"

BEGIN, END = (
    '_TABLE = """\n',
    '\n"""\n',
)  # what is written stands between them; the code around it is the module's own


def main() -> None:
    """Ask PyTorch's dispatcher, and write the table."""
    import torch

    from flambeau.library._aten import candidates

    overloads: dict[str, list[str]] = defaultdict(list)
    for qualname in torch._C._dispatch_get_all_op_names():
        space, _, name = qualname.partition("::")
        name, _, overload = name.partition(".")
        if space == "aten":
            overloads[name].append(overload or "default")
    order = ["default", "Tensor", "Scalar", "out"]
    groups: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for name in sorted(candidates()):
        if name in overloads:
            ordered = sorted(overloads[name], key=lambda o: (order.index(o) if o in order else 9, o))
            groups[tuple(ordered)].append(name)
    blocks = [
        textwrap.fill(
            f"{' '.join(group)}: {' '.join(names)}", 118, subsequent_indent="    ", break_on_hyphens=False
        )
        for group, names in sorted(groups.items())
    ]
    head, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, tail = rest.partition(END)
    PAGE.write_text(head + BEGIN + "\n\n".join(blocks) + END + tail)
    SCHEMAS.write_text("\n".join(schemas((set(overloads) & set(candidates())) | steps())) + "\n")


def steps() -> set[str]:
    """The names of what is a step in ATen, and computed by others here; and of what calls are written as."""
    import re

    from flambeau.library import _aten_forms
    from flambeau.library._aten_steps import STEPS

    source = pathlib.Path(_aten_forms.__file__).read_text()
    named = set(re.findall(r'"(\w+)", \(', source)) | {"split_with_sizes"}
    sampled = {f"{name}{n}d" for name, ranks in _aten_forms._SAMPLED.values() for n in ranks}
    return {schema.partition("(")[0].partition(".")[0] for schema in STEPS} | named | sampled


def schemas(names: set[str]) -> list[str]:
    """The schemas of these names that take or return tensors, without those that write to `out` and those of lists of tensors."""
    import torch

    texts = []
    for schema in torch._C._jit_get_all_schemas():
        space, _, name = schema.name.partition("::")
        if space != "aten" or name not in names or name.startswith("_foreach"):
            continue
        values = [*schema.arguments, *schema.returns]
        lists = any(
            a.alias_info and a.alias_info.is_write and "List" in str(a.type) for a in schema.arguments
        )
        written = lists or any(
            a.is_out or ("out" in schema.overload_name and a.alias_info) for a in schema.arguments
        )
        if not written and "Dict(" not in str(schema) and any("Tensor" in str(a.type) for a in values):
            texts.append(str(schema).removeprefix("aten::"))
    return sorted(
        texts, key=lambda text: text.partition("(")[0].partition(".")[0]
    )  # overloads as PyTorch tries them


def arguments(schema: Any) -> list[tuple[str, str, bool]]:
    return [(a.name, str(a.type), a.kwarg_only) for a in schema.arguments]


def results(schema: Any) -> list[tuple[str, str]]:
    return [(r.name, str(r.type)) for r in schema.returns]


def compare(verbose: bool) -> None:
    """Print how many schemas agree with PyTorch's, and with `verbose` those that do not."""
    import torch

    from flambeau.library._aten import names
    from flambeau.library._overloads import table

    count: Counter[str] = Counter()
    for name, op in sorted(names().items()):
        if name.startswith("_foreach"):  # a function of lists, which has no signature here
            continue
        overload = table()[name][0]
        here, there = op._schema, torch._C._get_schema(f"aten::{name}", overload.replace("default", ""))
        count["operations"] += 1
        count["arguments agree"] += (same := arguments(here) == arguments(there))
        count["results agree"] += (alike := results(here) == results(there))
        if verbose and not (same and alike):
            print(f"{here}\n    {there}")
    print(", ".join(f"{what}: {n}" for what, n in count.items()))


if __name__ == "__main__":
    compare("-v" in sys.argv) if "--schemas" in sys.argv else main()
