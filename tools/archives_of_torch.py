"""Writes `tests/data/torch/jit/*.pt`: small programs that PyTorch traced or scripted and saved, each with inputs and results inside.

python tools/archives_of_torch.py [FOLDER [NAME …]]      # needs torch 2.13

Beside the program an archive has the record `extra/expected.npz`: "in0", "in1" … are the inputs, "out0" … the tensors of the results in
their order, "rest" the other results as JSON, "grads" the gradients of the sum of the first result in the order of `parameters()`.
"""

import io
import json
import sys
from enum import Enum
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

FOLDER = Path(__file__).resolve().parents[1] / "tests" / "data" / "torch" / "jit"


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2), nn.Tanh())

    def forward(self, x):
        return self.layers(x)


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.out = nn.Conv2d(1, 2, 3, padding=1), nn.BatchNorm2d(2), nn.Linear(2, 3)
        self.norm.running_mean += 0.25

    def forward(self, x):
        x = torch.nn.functional.max_pool2d(torch.relu(self.norm(self.conv(x))), 2)
        return torch.log_softmax(self.out(x.mean((2, 3))), 1)


class Rnn(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.rnn = kind(3, 4, num_layers=2, batch_first=True, bidirectional=kind is nn.LSTM)

    def forward(self, x):
        return self.rnn(x)[0]


class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag, self.table = nn.EmbeddingBag(5, 3, mode="mean"), nn.Embedding(5, 3, padding_idx=0)

    def forward(self, x, offsets):
        return self.bag(x, offsets), self.table(x)


class Flow(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        count = 0
        while bool(x.sum() < 100):
            x = x * 2
            count += 1
            if count > 20:
                break
        if count > 3 and x.size(0) > 1:
            x = x - float(count)
        elif count == 0:
            x = -x
        for k in range(x.size(0)):
            if k % 2 == 1:
                continue
            x[k] += k
        return x


class Loop(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])
        self.named = nn.ModuleDict({"relu": nn.ReLU(), "gelu": nn.GELU()})

    def forward(self, x: Tensor) -> Tensor:
        for k, part in enumerate(self.parts):
            x = part(x) + k
        for name, part in self.named.items():
            if name != "gelu":
                x = part(x)
        return x


class Containers(nn.Module):
    def forward(
        self, x: Tensor, names: list[str]
    ) -> tuple[dict[str, Tensor], list[int], tuple[Tensor, float]]:
        results: dict[str, Tensor] = {}
        lengths: list[int] = []
        for k, name in enumerate(names):
            results[name] = x[k]
            lengths.append(len(name))
        lengths.sort(reverse=True)
        lengths.extend([7, 8])
        if "b" in results:
            results.pop("b")
        return results, [n * 2 for n in lengths], (x.sum(), float(x.max()))


class Options(nn.Module):
    def forward(self, x: Tensor, mask: Tensor | None = None, scale: float | None = None) -> Tensor:
        if mask is not None:
            x = x.masked_fill(mask, 0.0)
        if scale is None:
            scale = 2.0
        return x * scale


class Texts(nn.Module):
    def forward(self, x: Tensor, text: str) -> tuple[str, int, bool, list[str]]:
        words = text.strip().split(" ")
        shown = f"{len(words)} words, {x.size(0)}"
        if text.startswith("a"):
            shown += "!"
        return (
            shown.upper().replace("WORDS", "w"),
            text.find("b"),
            "b" in text,
            [w[1:] + w[0] for w in words],
        )


class Raising(nn.Module):
    def forward(self, x: Tensor, n: int) -> Tensor:
        if n < 0:
            raise ValueError(f"n must not be negative, got {n}")
        assert x.dim() == 2, "two dimensions"
        return x * n


class Inner(nn.Module):
    def __init__(self, k: int):
        super().__init__()
        self.k: Final[int] = k
        self.weight = nn.Parameter(torch.full((2,), float(k)))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight + self.k

    @torch.jit.export
    def twice(self, x: Tensor) -> Tensor:
        return self(self(x))


class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = Inner(1), nn.Sequential(Inner(2), Inner(3))

    def forward(self, x: Tensor) -> Tensor:
        return self.a.twice(self.b(x))


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode, self.decode = nn.Linear(3, 3, bias=False), nn.Linear(3, 3)
        self.decode.weight = self.encode.weight

    def forward(self, x):
        return self.decode(torch.sin(self.encode(x)))


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("steps", torch.zeros(1))
        self.register_buffer("unsaved", torch.ones(2), persistent=False)
        self.total: float = 0.5
        self.sizes = [1, 2, 3]
        self.names = {"one": 1, "two": 2}

    def forward(self, x: Tensor) -> Tensor:
        self.steps += 1
        self.total += 1.0
        return x * self.steps + self.unsaved * self.total + self.sizes[-1] + self.names["two"]


class Pair(NamedTuple):
    left: Tensor
    right: int | None


class Colour(Enum):
    RED = 1
    BLUE = 2


class Plain:
    def __init__(self, n: int):
        self.n = n

    def add(self, k: int) -> int:
        self.n += k
        return self.n


class Classes(nn.Module):
    def __init__(self):
        super().__init__()
        self.colour = Colour.BLUE

    def forward(self, x: Tensor) -> tuple[Pair, int]:
        plain = Plain(2)
        plain.add(3)
        pair = Pair(x * 2, 3)
        if self.colour == Colour.BLUE:
            pair = Pair(pair.left + 1, None)
        return pair, plain.n + self.colour.value


class Half(nn.Module):
    def __init__(self, dtype):
        super().__init__()
        self.linear = nn.Linear(2, 3).to(dtype)

    def forward(self, x):
        return self.linear(x.to(self.linear.weight.dtype)).float()


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attend = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        return self.attend(x, x, x)


class Indexing(nn.Module):
    def forward(self, x, i):
        y = x[:, 1:, None] + x[..., i].unsqueeze(2)
        y[0] = 1
        y[1, 0] = x[0, 0, 0]
        return torch.cat([y.flatten(), x[x > 0]]), torch.arange(x.shape[1]), x.view(x.shape[0], -1)


class Upsample(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        x = torch.nn.functional.interpolate(x, scale_factor=2.0, mode="nearest")
        x = torch.nn.functional.pad(x, [1, 1, 0, 0], mode="constant", value=0.5)
        return torch.nn.functional.interpolate(x, size=[3, 3], mode="bilinear", align_corners=False)


class Norms(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.group = nn.LayerNorm(4), nn.GroupNorm(2, 4)
        self.transposed = nn.ConvTranspose1d(4, 2, 2, stride=2)

    def forward(self, x):
        return self.transposed(self.group(self.layer(x).transpose(1, 2)))


class Search(nn.Module):
    """Loops within one another that are left early, a dictionary of lists, and a function of the program."""

    def forward(self, x: Tensor, words: list[str]) -> tuple[dict[str, list[int]], int, Tensor]:
        places: dict[str, list[int]] = {}
        for k, word in enumerate(words):
            if word not in places:
                empty: list[int] = []
                places[word] = empty
            places[word].append(k)
        result = first_above(x, 0.5)
        total = x.sum()
        for row in x:
            for k in range(row.size(0)):
                if bool(row[k] < 0):
                    break
                total = total + row[k] * k
        return places, result, total


def first_above(x: Tensor, limit: float) -> int:
    for k, v in enumerate(x.flatten()):
        if float(v) > limit:
            return k
    return -1


class Stack:
    def __init__(self, items: list[Tensor]):
        self.items = items
        self.pushed = 0

    def push(self, x: Tensor) -> None:
        self.items.append(x)
        self.pushed += 1

    def pop(self) -> Tensor:
        return self.items.pop()

    def __len__(self) -> int:
        return len(self.items)


class Machine(nn.Module):
    """A stack of tensors, as an object, and words that say what is done with it."""

    def forward(self, x: Tensor, program: list[str]) -> tuple[Tensor, int, int]:
        stack = Stack([x])
        for word in program:
            if word == "double":
                stack.push(stack.pop() * 2)
            elif word == "copy":
                top = stack.pop()
                stack.push(top)
                stack.push(top)
            elif word == "add" and len(stack) > 1:
                stack.push(stack.pop() + stack.pop())
            else:
                raise RuntimeError("no such word: " + word)
        return stack.pop(), stack.pushed, len(stack)


class Unions(nn.Module):
    def forward(self, x: Tensor, how: int | str | None = None) -> Tensor:
        if how is None:
            return x
        if isinstance(how, str):
            return x + len(how)
        return x * how


class Beam(nn.Module):
    """The best sequences, kept in lists of tuples that are sorted by hand."""

    def __init__(self):
        super().__init__()
        self.score = nn.Linear(2, 3)

    def forward(self, x: Tensor, width: int) -> list[tuple[float, list[int]]]:
        nothing: list[int] = []
        beams: list[tuple[float, list[int]]] = [(0.0, nothing)]
        for row in torch.log_softmax(self.score(x), 1):
            results: list[tuple[float, list[int]]] = []
            for total, taken in beams:
                for k in range(row.size(0)):
                    results.append((total + float(row[k]), taken + [k]))
            beams = []
            while len(beams) < width and len(results) > 0:
                best = 0
                for k in range(len(results)):
                    if results[k][0] > results[best][0]:
                        best = k
                beams.append(results.pop(best))
        return [(float(round(total * 100.0)), taken) for total, taken in beams]


class Enumerated(nn.Module):
    def forward(self, x: Tensor, k: int) -> tuple[Tensor, str, int]:
        colour = Colour.RED if k > 0 else Colour.BLUE
        pair = Pair(x * colour.value, None if k > 1 else k)
        right = pair.right
        return pair.left, colour.name, right if right is not None else -1


def function(x: Tensor, y: Tensor) -> Tensor:
    if bool(x.mean() > y.mean()):
        return x - y
    return torch.where(x > y, x, y)


def losses(x, y):
    f = nn.functional
    return f.mse_loss(x, y) + f.smooth_l1_loss(x, y, reduction="sum"), f.cross_entropy(
        x, torch.tensor([0, 1])
    )


def models() -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """The programs by name, each with inputs."""
    seed = torch.manual_seed(0)
    t, s = torch.jit.trace, torch.jit.script
    x, image, words = torch.randn(2, 3), torch.randn(2, 1, 4, 4), torch.randn(2, 5, 3)
    bags = (torch.tensor([1, 2, 4, 3]), torch.tensor([0, 2]))
    pairs, steps = torch.randn(3, 2), torch.randn(2, 3, 4)
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval()
    del seed
    return {
        "mlp_traced": (t(Mlp(), x), (x,)),
        "mlp_scripted": (s(Mlp()), (x,)),
        "conv_traced": (t(ConvNet().eval(), image), (image,)),
        "conv_scripted": (s(ConvNet().eval()), (image,)),
        "lstm_traced": (t(Rnn(nn.LSTM), words), (words,)),
        "gru_traced": (t(Rnn(nn.GRU), words), (words,)),
        "rnn_traced": (t(Rnn(nn.RNN), words), (words,)),
        "lstm_scripted": (s(Rnn(nn.LSTM)), (words,)),
        "gru_scripted": (s(Rnn(nn.GRU)), (words,)),
        "bag_traced": (t(Bag(), bags), bags),
        "bag_scripted": (s(Bag()), bags),
        "encoder_traced": (t(nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True), steps), (steps,)),
        "encoder_scripted": (s(layer), (steps,)),
        "attention_scripted": (s(Attention()), (steps,)),
        "flow_scripted": (s(Flow()), (torch.rand(4, 2),)),
        "loop_scripted": (s(Loop()), (pairs,)),
        "containers_scripted": (s(Containers()), (x, ["ab", "b"])),
        "options_scripted": (s(Options()), (x, x > 0, 3.0)),
        "texts_scripted": (s(Texts()), (x, " a bc def ")),
        "raising_scripted": (s(Raising()), (x, 3)),
        "nested_scripted": (s(Nested()), (pairs,)),
        "shared_traced": (t(Shared(), x), (x,)),
        "counting_scripted": (s(Counting()), (pairs,)),
        "classes_scripted": (s(Classes()), (x,)),
        "half_traced": (t(Half(torch.float16), pairs), (pairs,)),
        "bfloat16_traced": (t(Half(torch.bfloat16), pairs), (pairs,)),
        "indexing_traced": (t(Indexing(), (steps, torch.tensor(1))), (steps, torch.tensor(2))),
        "upsample_scripted": (s(Upsample()), (image,)),
        "norms_traced": (t(Norms(), steps), (steps,)),
        "function_scripted": (s(function), (x, x + 1)),
        "search_scripted": (s(Search()), (x, ["a", "b", "a"])),
        "machine_scripted": (s(Machine()), (x, ["copy", "double", "add", "double"])),
        "unions_scripted": (s(Unions()), (x, "abc")),
        "beam_scripted": (s(Beam()), (pairs, 2)),
        "enumerated_scripted": (s(Enumerated()), (x, 1)),
        "losses_traced": (t(losses, (x, x * 2)), (x, x * 3)),
    }


def leaves(value: Any, tensors: list[Tensor]) -> Any:
    """A value as JSON has it, its tensors replaced by "tensor" and appended to a list."""
    if isinstance(value, Tensor):
        tensors.append(value)
        return "tensor"
    if isinstance(value, dict):
        return {k: leaves(v, tensors) for k, v in value.items()}
    return [leaves(v, tensors) for v in value] if isinstance(value, (list, tuple)) else value


def expected(program: Any, inputs: tuple[Any, ...]) -> bytes:
    """Inputs, results and gradients as the bytes of an npz file."""
    tensors_in: list[Tensor] = []
    arrays: dict[str, Any] = {"given": json.dumps(leaves(inputs, tensors_in))}
    again = torch.jit.load(io.BytesIO(program.save_to_buffer()))
    tensors: list[Tensor] = []
    result = again(*[v.clone() if isinstance(v, Tensor) else v for v in inputs])
    arrays["rest"] = json.dumps(leaves(result, tensors))
    arrays |= {f"in{k}": v.numpy() for k, v in enumerate(tensors_in)}
    arrays |= {f"out{k}": v.detach().numpy() for k, v in enumerate(tensors)}
    parameters = [p for p in again.parameters() if p.requires_grad]
    if parameters and tensors and tensors[0].requires_grad:
        grads = torch.autograd.grad(tensors[0].sum(), parameters, allow_unused=True)
        arrays |= {f"grad{k}": g.float().numpy() for k, g in enumerate(grads) if g is not None}
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def main(folder: Path = FOLDER, only: tuple[str, ...] = ()) -> None:
    """Write the archives, all or those of these names, and print their sizes."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (program, inputs) in models().items():
        if only and name not in only:
            continue
        path = folder / f"{name}.pt"
        torch.jit.save(program, str(path), _extra_files={"expected.npz": expected(program, inputs)})
        print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else FOLDER, tuple(sys.argv[2:]))
