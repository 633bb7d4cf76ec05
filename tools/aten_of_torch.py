"""Writes `flambeau/library/_overloads.py`: ATen's overloads of the operations that are declared here.

python tools/aten_of_torch.py       # needs torch 2.13 beside flambeau
"""

from __future__ import annotations

import pathlib
import textwrap
from collections import defaultdict

PAGE = pathlib.Path(__file__).parent.parent / "flambeau" / "library" / "_overloads.py"

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
            found = sorted(overloads[name], key=lambda o: (order.index(o) if o in order else 9, o))
            groups[tuple(found)].append(name)
    blocks = [
        textwrap.fill(
            f"{' '.join(group)}: {' '.join(names)}", 118, subsequent_indent="    ", break_on_hyphens=False
        )
        for group, names in sorted(groups.items())
    ]
    head, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, tail = rest.partition(END)
    PAGE.write_text(head + BEGIN + "\n\n".join(blocks) + END + tail)


if __name__ == "__main__":
    main()
