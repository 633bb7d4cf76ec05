"""What operations take on 64 cores, by a model on paper: work is cut for 64 threads, and one does and times all chunks.

    python benchmarks/many_cores.py                     # every case
    python benchmarks/many_cores.py --threads 128 --cases 'mm|conv'
    python benchmarks/many_cores.py --write             # puts the table into docs/many_cores.md

The machine needs one core.  docs/many_cores.md says what the model leaves out.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import flambeau
from flambeau.core.base import parallel

PAGE = Path(__file__).resolve().parents[1] / "docs" / "many_cores.md"
BEGIN, END = "<!-- modelled: begin -->", "<!-- modelled: end -->"
REGION = (
    2e-6  # seconds to have spinning workers of several sockets begin and end a range: 0.2 to 0.4 µs on one
)


class Model(NamedTuple):
    """A call's seconds: of one thread, before and between its ranges, and of the busiest thread in them."""

    one: float
    serial: float
    longest: float
    ranges: int
    chunks: int

    def many(self) -> float:
        return self.serial + self.longest + self.ranges * REGION

    def times(self) -> float:
        """How many times as fast as one thread."""
        return self.one / self.many()


def cases() -> dict[str, Callable[[], object]]:
    F, randn = flambeau.nn.functional, flambeau.randn
    x, m, image, weight = randn(1 << 24), randn(4096, 4096), randn(64, 64, 56, 56), randn(64, 64, 3, 3)
    tall, tokens = randn(4096, 768), flambeau.randint(0, 50257, (64, 512))
    up, table, head = randn(768, 3072), randn(50257, 768), randn(8, 12, 1024, 64)
    row, channel = randn(1, 4096), randn(64)
    return {
        "x + x, 16 Mi": lambda: x + x,
        "exp, 16 Mi": lambda: x.exp(),
        "sum, 16 Mi": lambda: x.sum(),
        "softmax, 4096 x 4096": lambda: m.softmax(1),
        "layer_norm, 4096 x 4096": lambda: F.layer_norm(m, (4096,)),
        "batch_norm, 64 x 64 x 56 x 56": lambda: F.batch_norm(image, channel, channel.abs(), None, None),
        "transposed copy, 4096 x 4096": lambda: m.t().contiguous(),
        "cumsum, 4096 x 4096": lambda: m.cumsum(1),
        "sort, 4096 x 4096": lambda: m.sort(1),
        "embedding, 32 Ki x 768": lambda: F.embedding(tokens, table),
        "mm, 4096 x 4096 x 4096": lambda: m @ m,
        "mm, 4096 x 768 x 3072": lambda: tall @ up,
        "mm by a transposed weight, 4096 x 768 x 3072": lambda: F.linear(tall, up.view(3072, 768)),
        "mm, 1 x 4096 x 4096": lambda: row @ m,
        "conv2d 3 x 3, 64 x 64 x 56 x 56": lambda: F.conv2d(image, weight, padding=1),
        "attention, 8 x 12 x 1024 x 64": lambda: F.scaled_dot_product_attention(head, head, head),
    }


def modelled(f: Callable[[], object], rounds: int = 7) -> Model:
    """The least of some rounds, part by part: what else the machine does only adds."""
    samples = []
    f()
    for _ in range(rounds):
        began = time.thread_time()
        ranges = parallel._rehearsed(f)
        one = time.thread_time() - began
        inside, longest = sum(r[3] for r in ranges), sum(r[4] for r in ranges)
        samples.append((one, max(one - inside, 0.0), longest))
    one, serial, longest = (min(part) for part in zip(*samples))
    return Model(one, serial, longest, len(ranges), max((r[2] for r in ranges), default=1))


def table(threads: int, wanted: str) -> str:
    flambeau.set_num_threads(threads)
    lines = [
        f"| case | one thread, ms | ranges | most chunks | outside of ranges, % | {threads} threads, ms | times as fast |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, f in cases().items():
        if re.search(wanted, name):
            m = modelled(f)
            lines.append(
                f"| {name} | {m.one * 1e3:.2f} | {m.ranges} | {m.chunks} | {100 * m.serial / m.one:.2f} | {m.many() * 1e3:.3f} | "
                f"{m.times():.0f} |"
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--threads", type=int, default=64)
    parser.add_argument("--cases", default=".", help="a regular expression")
    parser.add_argument("--write", action="store_true", help="put the table into docs/many_cores.md")
    args = parser.parse_args()
    made = table(args.threads, args.cases)
    print(made)
    if args.write:
        text = PAGE.read_text()
        before, rest = text.split(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{made}\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    main()
