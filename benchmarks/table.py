"""Write a table of `versus.py --json` results as Markdown.

python benchmarks/table.py out.json
"""

from __future__ import annotations

import json
import math
import sys


def main() -> None:
    with open(sys.argv[1]) as f:
        rows = json.load(f)
    groups: dict[str, list[float]] = {}
    print("| case | flambeau, µs | PyTorch, µs | ratio |\n|---|---|---|---|")
    for row in rows:
        if "error" in row:
            print(f"| {row['case']} | {row['error']} | | |")
            continue
        groups.setdefault(row["case"].split(".")[0], []).append(row["ratio"])
        print(
            f"| {row['case']} | {row['ours_s'] * 1e6:.2f} | {row['theirs_s'] * 1e6:.2f} | {row['ratio']:.2f} |"
        )
    print("\n| group | cases | geometric mean of ratios | least | at or above 1 |\n|---|---|---|---|---|")
    for name, ratios in groups.items():
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"| {name} | {len(ratios)} | {mean:.2f} | {min(ratios):.2f} | {sum(r >= 1 for r in ratios)} |")


if __name__ == "__main__":
    main()
