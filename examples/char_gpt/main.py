"""A small GPT that writes Python's manual, letter by letter.

Data: the language reference that `help()` reads, in the standard library (`pydoc_data.topics`, 450,000 to 720,000 characters).  One
topic in ten, chosen by the seed, is held out.

Figure: bits per character on held-out topics.  To beat: `xz -9e`, given the training topics for nothing (what the held-out ones add to
the compressed file), and a count model that mixes contexts of 0 to 5 characters (Witten and Bell, 1991), the best of classical models
this simple.

    python examples/char_gpt/main.py --picture char_gpt.png
"""

from __future__ import annotations

import argparse
import lzma
import math
import random
import sys
import textwrap
from collections import Counter, defaultdict
from pydoc_data.topics import topics

try:
    import matplotlib.pyplot as plt
    from tqdm import tqdm
except ModuleNotFoundError as missing:
    sys.exit(f"{missing.name} is not installed: pip install '.[examples]'")

import flambeau as torch
from flambeau import nn
from flambeau.nn import functional as F


class Block(nn.Module):
    """Attention to what came before, then two linear layers, each added to what it read."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        qkv = self.qkv(self.before_attention(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        heard = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(heard.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.before_mlp(x))


class GPT(nn.Module):
    """Characters to the logits of the next one."""

    def __init__(self, letters: int, context: int, width: int = 128, heads: int = 4, depth: int = 2) -> None:
        super().__init__()
        self.context = context
        self.letter, self.place = nn.Embedding(letters, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(depth)], nn.LayerNorm(width))
        self.head = nn.Linear(width, letters)
        nn.init.normal_(self.letter.weight, std=0.02)
        nn.init.normal_(self.place.weight, std=0.02)

    def forward(self, text):
        return self.head(self.blocks(self.letter(text) + self.place.weight[: text.shape[1]]))

    @torch.no_grad()
    def write(self, text, length: int, temperature: float = 0.7):
        """The text (1, n) with `length` characters more."""
        for _ in range(length):
            logits = self(text[:, -self.context :])[:, -1] / temperature
            text = torch.cat([text, torch.multinomial(logits.softmax(1), 1)], 1)
        return text


def split() -> tuple[str, str]:
    """Training topics and held-out ones, each as one text; a paragraph that stands in several topics is kept where it comes first."""
    names, seen, texts = sorted(topics), set(), []
    random.Random(0).shuffle(names)
    for name in names:
        paragraphs = [p for p in topics[name].split("\n\n") if not (p in seen or seen.add(p))]
        texts.append("".join(p + "\n\n" for p in paragraphs))
    held_out = len(texts) // 10
    return "".join(texts[held_out:]), "".join(texts[:held_out])


def bits_of_xz(training: str, held_out: str) -> float:
    """Bits that each held-out character adds to the compressed training text."""
    size = [
        len(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
        for text in (training, training + held_out)
    ]
    return 8 * (size[1] - size[0]) / len(held_out)


def bits_of_counts(training: str, held_out: str, order: int = 5) -> float:
    """Witten and Bell's mixture: each context weighs as often as it was seen, the shorter one as often as it was followed by news."""
    seen = [defaultdict(Counter) for _ in range(order + 1)]
    for i, letter in enumerate(training):
        for n in range(min(i, order) + 1):
            seen[n][training[i - n : i]][letter] += 1
    bits = 0.0
    for i in range(order, len(held_out)):
        chance = 1 / 128
        for n in range(order + 1):
            if after := seen[n].get(held_out[i - n : i]):
                chance = (after[held_out[i]] + len(after) * chance) / (after.total() + len(after))
        bits -= math.log2(chance)
    return bits / (len(held_out) - order)


@torch.no_grad()
def bits_of_net(net: GPT, text) -> float:
    """Of every character after the first half of a window, which has at least so much to go by."""
    half = net.context // 2
    windows = text[: (len(text) - 1) // half * half + 1].unfold(0, net.context + 1, half)
    losses = [
        F.cross_entropy(net(w[:, :-1])[:, half:].transpose(1, 2), w[:, half + 1 :]) for w in windows.split(64)
    ]
    return sum(losses).item() / len(losses) / math.log(2)


def train(net: GPT, text, steps: int) -> list[float]:
    """Bits per character of each batch.  Muon steps the matrices inside the blocks, AdamW everything else."""
    matrices = [p for p in net.blocks.parameters() if p.ndim == 2]
    others = [p for p in net.parameters() if not any(p is m for m in matrices)]
    optimisers = [
        torch.optim.Muon(matrices, lr=1e-2, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(others, lr=1e-2, weight_decay=0.1, betas=(0.9, 0.98)),
    ]
    warm_up = lambda step: min(1, step / (0.1 * steps)) * (1 - step / steps)
    schedules = [torch.optim.lr_scheduler.LambdaLR(optimiser, warm_up) for optimiser in optimisers]
    windows, curve = text.unfold(0, net.context + 1, 1), []
    for _ in (bar := tqdm(range(steps), disable=None)):
        batch = windows[torch.randint(len(windows), (16,))]
        loss = F.cross_entropy(net(batch[:, :-1]).transpose(1, 2), batch[:, 1:])
        for optimiser in optimisers:
            optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        for optimiser, schedule in zip(optimisers, schedules):
            optimiser.step()
            schedule.step()
        curve.append(loss.item() / math.log(2))
        bar.set_postfix(bits=curve[-1])
    return curve


def draw(path: str, curve: list[float], levels: dict[str, float], words: list[str], title: str) -> None:
    """The learning curve with what others reach, and what the network wrote."""
    figure, (learning, page) = plt.subplots(1, 2, figsize=(13, 4.8), layout="constrained")
    figure.suptitle(title)
    learning.plot(curve, color="tab:blue", alpha=0.25, linewidth=0.7)
    smooth = torch.tensor(curve).unfold(0, min(25, len(curve)), 1).mean(1)
    learning.plot(
        range(len(curve) - len(smooth), len(curve)), smooth, color="tab:blue", label="training batches"
    )
    for (name, level), colour in zip(levels.items(), ("0.5", "0.2", "tab:orange")):
        learning.axhline(level, color=colour, linestyle=":", label=f"{name}, held out")
    learning.set(xlabel="step", ylabel="bits per character", ylim=(1, 5))
    learning.legend()
    shown = "\n\n".join(textwrap.fill(" ".join(text.split()), 74) for text in words)
    page.text(0, 1, shown, family="monospace", fontsize=8, va="top")
    page.axis("off")
    figure.savefig(path, dpi=80)


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--quick", action="store_true", help="a few steps, and an easy figure")
    options.add_argument("--picture", default="char_gpt.png")
    args = options.parse_args()
    torch.manual_seed(0)
    steps, context = (40, 32) if args.quick else (1000, 96)

    training, held_out = split()
    alphabet = sorted(set(training) | set(held_out))
    number = {letter: i for i, letter in enumerate(alphabet)}
    text, unseen = (torch.tensor([number[letter] for letter in part]) for part in (training, held_out))
    net = GPT(len(alphabet), context)
    curve = train(net, text, steps)

    bits, xz, counts = (
        bits_of_net(net, unseen),
        bits_of_xz(training, held_out),
        bits_of_counts(training, held_out),
    )
    bar = 4.2 if args.quick else min(xz, counts)
    starts = ("The value of ", "A class definition ", "If the expression ", "Changed in version ")
    words = []
    for start in starts[: 1 if args.quick else None]:
        written = net.write(torch.tensor([[number[letter] for letter in start]]), 40 if args.quick else 300)
        words.append("".join(alphabet[i] for i in written[0].tolist()))
    figure = f"{bits:.2f} bits per held-out character; to reach {bar:.2f}; xz {xz:.2f}, counts of 6 characters {counts:.2f}"
    draw(args.picture, curve, {"xz": xz, "counts": counts, "this network": bits}, words, figure)
    print(figure)
    if not bits <= bar:
        sys.exit("missed")


if __name__ == "__main__":
    main()
