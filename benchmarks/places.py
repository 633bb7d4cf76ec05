"""Reading and writing at computed places on the CPU: the core's loops in C beside the kernels that devices run.

    python benchmarks/places.py                    # one thread, as a Markdown table; times in microseconds
    python benchmarks/places.py --only scatter

`C loop` is the operation as it is called; `kernel` is the body in `operations/moving/places.py` for the same operands.  A loop in
C stays where its kernel takes longer.  Each time is the least of five repeats.
"""

from __future__ import annotations

import argparse
import re
import timeit
from collections.abc import Callable, Iterator
from time import process_time

import flambeau
from flambeau.operations.moving import places

SIZES = (8, 4096, 1 << 20)


def cases(n: int) -> Iterator[tuple[str, Callable, Callable]]:
    """(name, the operation, its kernel) for n elements."""
    generator = flambeau.Generator().manual_seed(n)
    width = min(n, 64)
    for dtype in (flambeau.float32, flambeau.uint8):
        kind = str(dtype).rpartition(".")[2]
        x = flambeau.zeros(n, dtype=dtype)
        values = flambeau.ones(n, dtype=dtype)
        apart = flambeau.randint(0, n, (n, 2), generator=generator)
        grid, columns = (
            x.view(-1, width),
            flambeau.randint(0, width, (n,), generator=generator).view(-1, width),
        )
        for how, index in (("contiguous", apart[:, 0].contiguous()), ("strided", apart[:, 0])):
            end = f"{kind}, {how} index"
            yield (
                f"gather, {end}",
                lambda x=x, i=index: x.gather(0, i),
                lambda x=x, i=index: places.gather(x, 0, i),
            )
            yield (
                f"scatter, {end}",
                lambda x=x, i=index, v=values: x.scatter_(0, i, v),
                lambda x=x, i=index, v=values: places.write_at(x, v, i, 0, "set"),
            )
            yield (
                f"scatter add, {end}",
                lambda x=x, i=index, v=values: x.scatter_add_(0, i, v),
                lambda x=x, i=index, v=values: places.write_at(x, v, i, 0, "add"),
            )
            yield (
                f"index, {end}",
                lambda x=x, i=index: x[i],
                lambda x=x, i=index: places.get(x, [i], True),
            )
            yield (
                f"index_put, {end}",
                lambda x=x, i=index, v=values: x.index_put_((i,), v),
                lambda x=x, i=index, v=values: places.put(x, [i], v, False, True),
            )
            yield (
                f"index_put add, {end}",
                lambda x=x, i=index, v=values: x.index_put_((i,), v, accumulate=True),
                lambda x=x, i=index, v=values: places.put(x, [i], v, True, True),
            )
        shaped = values.view(-1, width)
        rows = flambeau.randint(0, len(grid), (len(grid),), generator=generator)
        for dim in (0, 1):
            i = columns % len(grid) if dim == 0 else columns
            yield (
                f"gather along {dim} of a matrix, {kind}",
                lambda x=grid, i=i, d=dim: x.gather(d, i),
                lambda x=grid, i=i, d=dim: places.gather(x, d, i),
            )
            yield (
                f"scatter add along {dim} of a matrix, {kind}",
                lambda x=grid, i=i, d=dim, v=shaped: x.scatter_add_(d, i, v),
                lambda x=grid, i=i, d=dim, v=shaped: places.write_at(x, v, i, d, "add"),
            )
        yield (
            f"index, rows of a matrix, {kind}",
            lambda x=grid, i=rows: x[i],
            lambda x=grid, i=rows: places.get(x, [i], True),
        )
        yield (
            f"index_put add, rows of a matrix, {kind}",
            lambda x=grid, i=rows, v=shaped: x.index_put_((i,), v, accumulate=True),
            lambda x=grid, i=rows, v=shaped: places.put(x, [i], v, True, True),
        )


def microseconds(call: Callable) -> float:
    """Microseconds a call."""
    call()
    timer = timeit.Timer(call, timer=process_time)  # others may use the machine
    number = 1
    while (taken := timer.timeit(number)) < 0.01:
        number *= 4
    return min([taken, *timer.repeat(4, number)]) / number * 1e6


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="a pattern that the name of a case contains")
    options = parser.parse_args()
    flambeau.set_num_threads(1)
    print("| operation | elements | C loop | kernel | kernel / C loop |")
    print("|---|---|---|---|---|")
    rows: dict[str, list[str]] = {}
    for n in SIZES:
        for name, loop, kernel in cases(n):
            if re.search(options.only, name):
                a, b = microseconds(loop), microseconds(kernel)
                rows.setdefault(name, []).append(f"| {name} | {n} | {a:.2f} | {b:.2f} | {b / a:.2f} |")
    for lines in rows.values():
        print("\n".join(lines), flush=True)


if __name__ == "__main__":
    main()
