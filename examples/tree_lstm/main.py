"""A network that is a different tree for every example: what kind of comparison did the programmer write?

Data: every comparison in the modules of Python's standard library on this machine, parsed by `ast`.  Its operator is hidden, and the
syntax tree of the whole expression is shown: was it equality (`==`, `!=`), less (`<`, `<=`), greater (`>`, `>=`), identity (`is`, `is not`)
or membership (`in`, `not in`)?  Modules are shuffled, and a fifth of them held out.

Figure: accuracy on comparisons of the held-out modules.  To beat, by 2 points: logistic regression on the nodes of the expression as a
bag, the same words without the tree.  To compare: the kind that is most frequent.

    python examples/tree_lstm/main.py --picture tree_lstm.png
"""

from __future__ import annotations

import argparse
import ast
import gc
import random
import sys
import sysconfig
from collections import Counter
from pathlib import Path
from typing import NamedTuple

try:
    import matplotlib.pyplot as plt
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from tqdm import tqdm
except ModuleNotFoundError as missing:
    sys.exit(f"{missing.name} is not installed: pip install '.[examples]'")

import flambeau as torch
from flambeau import nn
from flambeau.nn import functional as F

KINDS = ["equal", "less", "greater", "same", "member"]
KIND = {
    ast.Eq: 0, ast.NotEq: 0, ast.Lt: 1, ast.LtE: 1, ast.Gt: 2, ast.GtE: 2,
    ast.Is: 3, ast.IsNot: 3, ast.In: 4, ast.NotIn: 4,
}  # fmt: skip


class Tree(NamedTuple):
    """Nodes after their children, the root last."""

    words: list[str]  # what each node is
    roles: list[str]  # and what it is to its parent
    children: list[list[int]]
    hole: int  # which node is the comparison
    kind: int
    source: str


def tree_of(expression: ast.expr, hidden: ast.Compare, parent: str) -> Tree:
    """The tree of an expression, with "?" where the operator of `hidden` stood."""
    words, roles, children, numbers = [], [], [], {}

    def add(node: ast.AST, role: str) -> int:
        below = []
        for name, value in ast.iter_fields(node):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and not isinstance(child, ast.expr_context):
                    below.append(add(child, name))
        said = getattr(node, "id", getattr(node, "attr", getattr(node, "value", "")))
        said = "" if isinstance(said, ast.AST) else f" {said!r:.20}"
        words.append("?" if node is hidden.ops[0] else type(node).__name__ + said)
        roles.append(role)
        children.append(below)
        numbers[node] = len(words) - 1
        return numbers[node]

    add(expression, parent)
    return Tree(
        words,
        roles,
        children,
        numbers[hidden],
        KIND[type(hidden.ops[0])],
        ast.unparse(expression),
    )


def trees_of(path: Path) -> list[Tree]:
    """One for each comparison of two things in a module."""
    trees = []
    for statement in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(statement, ast.expr):
            continue
        for expression in ast.iter_child_nodes(statement):  # the outermost expressions
            if isinstance(expression, ast.expr):
                compares = [n for n in ast.walk(expression) if isinstance(n, ast.Compare) and len(n.ops) == 1]
                trees += [tree_of(expression, n, type(statement).__name__) for n in compares]
    return [tree for tree in trees if len(tree.words) <= 30]


class TreeLSTM(nn.Module):
    """The child-sum tree of Tai, Socher and Manning (2015), run node by node as the tree is."""

    def __init__(self, words: list[str], roles: list[str], width: int = 64) -> None:
        super().__init__()
        self.word_number = {word: i for i, word in enumerate(words, 1)}  # 0 is a word never seen
        self.role_number = {role: i for i, role in enumerate(roles, 1)}
        self.words, self.roles = nn.Embedding(len(words) + 1, width), nn.Embedding(len(roles) + 1, width)
        self.here = nn.Linear(width, 4 * width)
        self.below, self.forget = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.answer = nn.Sequential(nn.Dropout(0.3), nn.Linear(2 * width, len(KINDS)))
        self.drop, self.width = nn.Dropout(0.3), width

    def forward(self, tree: Tree):
        words = torch.tensor([self.word_number.get(w, 0) for w in tree.words])
        roles = torch.tensor([self.role_number.get(r, 0) for r in tree.roles])
        here = self.here(self.drop(self.words(words) + self.roles(roles)))
        hidden, cells = [], []
        for own, below in zip(here, tree.children):
            gates, forget = own.split([3 * self.width, self.width])
            remembered = 0.0
            if below:
                states = torch.stack([hidden[k] for k in below])
                gates = gates + self.below(states.sum(0))
                remembered = (
                    (forget + self.forget(states)).sigmoid() * torch.stack([cells[k] for k in below])
                ).sum(0)
            enter, leave, new = gates.chunk(3)
            cells.append(enter.sigmoid() * new.tanh() + remembered)
            hidden.append(leave.sigmoid() * cells[-1].tanh())
        return self.answer(torch.cat([hidden[tree.hole], hidden[-1]]))


def modules_here() -> list[Path]:
    """The standard library's own modules, shuffled."""
    others = {
        "test",
        "tests",
        "idle_test",
        "idlelib",
        "lib2to3",
        "turtledemo",
        "site-packages",
        "dist-packages",
    }
    paths = sorted(Path(sysconfig.get_path("stdlib")).rglob("*.py"))
    paths = [path for path in paths if not others.intersection(path.parts)]
    random.Random(0).shuffle(paths)
    return paths


def forgetful(tree: Tree, dice: random.Random, share: float = 0.1) -> Tree:
    """Some of the words as if they were new, as some are in other modules."""
    return tree._replace(words=[w if w == "?" or dice.random() > share else "" for w in tree.words])


def train(
    net: TreeLSTM, training: list[Tree], held_out: list[Tree], right: list[int], epochs: int
) -> list[float]:
    """Accuracy on held-out trees after each epoch."""
    optimiser = torch.optim.AdamW(net.parameters(), lr=4e-3, weight_decay=0.05)
    steps = epochs * -(-len(training) // 32)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 4e-3, total_steps=steps, pct_start=0.15)
    curve, shuffled = [], random.Random(0)
    gc.freeze()  # graphs are made of many small objects: the collector need not look at all others, too, again and again
    with tqdm(total=steps, disable=None) as bar:
        for _ in range(epochs):
            net.train()
            shuffled.shuffle(training)
            for start in range(0, len(training), 32):
                batch = [forgetful(tree, shuffled) for tree in training[start : start + 32]]
                logits = torch.stack([net(tree) for tree in batch])  # a graph of its own for each
                loss = F.cross_entropy(logits, torch.tensor([tree.kind for tree in batch]))
                optimiser.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(net.parameters(), 1.0)
                optimiser.step()
                schedule.step()
                bar.update()
            net.eval()
            with torch.no_grad():
                curve.append(
                    sum(net(tree).argmax().item() == k for tree, k in zip(held_out, right)) / len(right)
                )
            bar.set_postfix(accuracy=curve[-1])
    return curve


def draw(path: str, net: TreeLSTM, held_out: list[Tree], title: str) -> None:
    """What is taken for what, and some comparisons with the chances that the network gives."""
    figure, (confusion, said) = plt.subplots(
        1, 2, figsize=(13, 4.8), layout="constrained", width_ratios=(1, 1.5)
    )
    figure.suptitle(title, fontsize=10)
    with torch.no_grad():
        chances = torch.stack([net(tree) for tree in held_out]).softmax(1)
    right = torch.tensor([tree.kind for tree in held_out])
    counts = F.one_hot(right, len(KINDS)).float().T @ F.one_hot(chances.argmax(1), len(KINDS)).float()
    confusion.imshow(counts / counts.sum(1, keepdim=True).clamp(min=1), cmap="Blues", vmin=0, vmax=1)
    ticks = range(len(KINDS))
    confusion.set(
        xticks=ticks,
        yticks=ticks,
        yticklabels=KINDS,
        xlabel="the network says",
        ylabel="the programmer wrote",
    )
    confusion.set_xticklabels(KINDS, rotation=45)
    said.axis("off")
    short = [i for i, tree in enumerate(held_out) if 18 < len(tree.source) <= 52]
    for row, i in enumerate(short[:: max(1, len(short) // 14)][:14]):
        best = chances[i].topk(2)
        says = "   ".join(
            f"{KINDS[k]} {chance:.0%}" for chance, k in zip(best.values.tolist(), best.indices.tolist())
        )
        said.text(0.0, 1 - row / 14, held_out[i].source, family="monospace", fontsize=9, va="top")
        colour = "tab:green" if best.indices[0] == right[i] else "tab:red"
        said.text(0.72, 1 - row / 14, says, family="monospace", fontsize=9, va="top", color=colour)
    figure.savefig(path, dpi=80)


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--quick", action="store_true", help="few modules, and an easy figure")
    options.add_argument("--picture", default="tree_lstm.png")
    args = options.parse_args()
    torch.manual_seed(0)

    modules = [trees_of(path) for path in modules_here()[: 40 if args.quick else None]]
    cut = len(modules) // 5
    held_out, training = sum(modules[:cut], []), sum(modules[cut:], [])
    common = [w for w, n in Counter(w for tree in training for w in tree.words).most_common(2000) if n > 2]
    net = TreeLSTM(common, sorted({role for tree in training for role in tree.roles}))
    right = [tree.kind for tree in held_out]
    curve = train(net, training, held_out, right, epochs=2 if args.quick else 4)

    bag = make_pipeline(
        CountVectorizer(analyzer=lambda tree: tree.words, min_df=3), LogisticRegression(max_iter=200)
    )
    linear = bag.fit(training, [tree.kind for tree in training]).score(held_out, right)
    frequent = Counter(right).most_common(1)[0][1] / len(right)
    bar = 0.3 if args.quick else linear + 0.02
    figure = (
        f"accuracy {curve[-1]:.1%} on {len(right):,} comparisons of modules not seen; to reach {bar:.1%}; "
        f"bag of nodes {linear:.1%}, the most frequent kind {frequent:.1%}"
    )
    draw(args.picture, net, held_out, figure)
    print(figure)
    if not curve[-1] >= bar:
        sys.exit("missed")


if __name__ == "__main__":
    main()
