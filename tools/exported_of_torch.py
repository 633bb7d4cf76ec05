"""Writes `tests/data/torch/export/*.pt2`: small programs that PyTorch exported and saved, and beside each what they give.

python tools/exported_of_torch.py [FOLDER]      # needs torch 2.13

`name.npz` has for each call k of the loaded program: "in{k}.{i}" are the tensors of its arguments, "given{k}" the arguments and keyword
arguments as JSON with "tensor" in their places, "out{k}.{i}" the tensors of the result, "rest{k}" the result as JSON; "state.{name}" what
buffers hold after all calls.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export, save

FOLDER = Path(__file__).resolve().parents[1] / "tests" / "data" / "torch" / "export"
F = nn.functional


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
        x = F.max_pool2d(torch.relu(self.norm(self.conv(x))), 2)
        return torch.log_softmax(self.out(F.adaptive_avg_pool2d(x, 1).flatten(1)), 1)


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(11, 8)
        self.place = nn.Parameter(torch.randn(6, 8))
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.norm = nn.LayerNorm(8)
        self.register_buffer("mask", torch.triu(torch.ones(6, 6, dtype=torch.bool), 1), persistent=False)

    def forward(self, tokens):
        x = self.table(tokens) + self.place[: tokens.shape[1]]
        x = self.layer(x, src_mask=self.mask[: tokens.shape[1], : tokens.shape[1]])
        return self.norm(x) @ self.table.weight.t()


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8, bias=False)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, 2, c // 2).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(b, t, c))


class Rnn(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.rnn = kind(3, 4, num_layers=2, batch_first=True)

    def forward(self, x):
        y, h = self.rnn(x)
        return y, h


class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag, self.table = nn.EmbeddingBag(5, 3, mode="mean"), nn.Embedding(5, 3, padding_idx=0)

    def forward(self, x, offsets):
        return self.bag(x, offsets), self.table(x)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode, self.decode = nn.Linear(3, 3), nn.Linear(3, 3)
        self.decode.weight = self.encode.weight

    def forward(self, x):
        return self.decode(torch.relu(self.encode(x)))


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mean", torch.zeros(2))
        self.norm = nn.BatchNorm1d(2, momentum=0.5)

    def forward(self, x):
        self.steps += 1
        self.mean.mul_(0.5).add_(x.mean(0) * 0.5)
        return self.norm(x) + self.mean, self.steps


class Trees(nn.Module):
    def forward(self, x, rest, *, scale):
        a, (b, c) = rest["a"], rest["b"]
        return {"sum": x + a * scale["by"], "parts": [b - x, (c, x.shape[0])], "none": None}


class Indexing(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = torch.tensor([0.0, 1.0, 2.0])

    def forward(self, x, i):
        y = x[:, 1:, ::2]
        y = torch.cat([y, x[:, :1, ::2].expand_as(y)], -1)
        return (
            y[..., -1],
            x[i],
            torch.where(x > 0.5, x, -1.0),
            self.steps * 2 + x.flatten()[:3],
            x[0, None, 1],
        )


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.line = nn.Linear(3, 3)

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: self.line(x), lambda x: x.sin() - 1, (x,))


class Whole(nn.Module):
    def forward(self, x):
        def more(n, y):
            return n < 3

        def step(n, y):
            return n + 1, y * 2

        return torch._higher_order_ops.while_loop(more, step, (torch.tensor(0), x))


class Mapped(nn.Module):
    def forward(self, xs, y):
        from functorch.experimental.control_flow import map as mapped

        return mapped(lambda x, y: x * y + x.sum(), xs, y)


class Batched(nn.Module):
    """Arithmetic on a size that is a symbol."""

    def __init__(self):
        super().__init__()
        self.line = nn.Linear(4, 2)

    def forward(self, x, y):
        b = x.shape[0]
        z = self.line(x).view(b * 2, 1)
        pad = torch.zeros(b + 1, 1)
        half = torch.arange(b // 2)
        return torch.cat([z, pad, y]), half, x.new_full((b % 3 + b,), 2.0), x.sum() / b


class Derived(nn.Module):
    def forward(self, x, y):
        return x + y[1:], x.repeat(2, 1), y.shape[0] * 2


class Chosen(nn.Module):
    """Sizes that follow from values."""

    def forward(self, x, n):
        k = n.item()
        torch._check(k >= 0)
        torch._check(k <= 5)
        return torch.ones(k) * 2, x[x > 0].sum(), x.nonzero()


class Mutating(nn.Module):
    def forward(self, x, out):
        out.add_(x)
        return x * out


class Halves(nn.Module):
    def __init__(self, dtype):
        super().__init__()
        self.line = nn.Linear(3, 4, dtype=dtype)

    def forward(self, x):
        return F.gelu(self.line(x.to(self.line.weight.dtype))).float().softmax(-1)


class Norms(nn.Module):
    def __init__(self):
        super().__init__()
        self.group, self.layer, self.instance = nn.GroupNorm(2, 4), nn.LayerNorm([4, 3]), nn.InstanceNorm1d(4)
        self.rms = nn.RMSNorm(3)

    def forward(self, x):
        return self.rms(self.layer(self.group(x)) + self.instance(x))


class Losses(nn.Module):
    def forward(self, x, labels):
        return (
            F.cross_entropy(x, labels, label_smoothing=0.1),
            F.mse_loss(x, x * 2, reduction="sum"),
            F.smooth_l1_loss(x, x * 0.5),
            F.binary_cross_entropy_with_logits(x, x.sigmoid()),
        )


class Sorting(nn.Module):
    def forward(self, x):
        values, places = x.topk(2)
        best, at = x.max(1)
        parts = torch.split(x, [1, 2], 1)
        return (
            values,
            places,
            best - parts[0].squeeze(1),
            at,
            x.sort(descending=True)[0],
            torch.einsum("ij,kj->ik", x, x),
            x.std(1),
            torch.stack(x.chunk(2)),
        )


class Upsampled(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(1, 2, 2, stride=2)

    def forward(self, x):
        y = F.interpolate(self.up(x), scale_factor=2.0, mode="bilinear", align_corners=False)
        return F.pad(y, (1, 0, 2, 1), value=0.5), F.avg_pool2d(y, 2), F.interpolate(x, size=(5, 3))


class Complex(nn.Module):
    def forward(self, x):
        y = torch.fft.rfft(x)
        return (y * (1 + 2j)).abs(), torch.view_as_real(y), torch.fft.irfft(y, n=x.shape[-1])


class Numbers(nn.Module):
    def forward(self, x, n: int, s: str, flag: bool = True, nothing=None):
        return x * n if flag and s == "times" else x


class Views(nn.Module):
    """Parameters and constants that share memory."""

    def __init__(self):
        super().__init__()
        whole = torch.arange(12.0).reshape(3, 4)
        self.weight = nn.Parameter(whole[1:])
        self.register_buffer("turned", whole.t())
        self.empty = torch.zeros(0, 4)

    def forward(self, x):
        return torch.cat([self.weight @ self.turned, self.empty @ self.turned]) + x


class Case(NamedTuple):
    """A module, the arguments it is exported with, other arguments it is called with, and how it is exported."""

    module: nn.Module
    args: tuple
    kwargs: dict[str, Any] = {}
    calls: tuple[tuple[tuple, dict[str, Any]], ...] = ()
    shapes: Any = None
    train: bool = False
    decomposed: bool = False
    options: dict[str, Any] = {}


def cases() -> dict[str, Callable[[], Case]]:
    """The programs by name."""
    r = torch.rand
    batch, size = Dim("batch", min=2, max=64), Dim("size", max=1024)
    tokens = torch.randint(0, 11, (2, 6))
    labels = torch.tensor([1, 0])
    return {
        "mlp": lambda: Case(Mlp(), (r(2, 3),)),
        "mlp_core": lambda: Case(Mlp(), (r(2, 3),), decomposed=True),
        "cnn": lambda: Case(ConvNet(), (r(2, 1, 4, 4),)),
        "cnn_core": lambda: Case(ConvNet(), (r(2, 1, 4, 4),), train=True, decomposed=True),
        "transformer": lambda: Case(Transformer(), (tokens,)),
        "transformer_core": lambda: Case(Transformer(), (tokens,), decomposed=True),
        "attention": lambda: Case(
            Attention(), (r(2, 5, 8),), calls=(((r(3, 7, 8),), {}),), shapes={"x": {0: batch, 1: size}}
        ),
        "lstm": lambda: Case(Rnn(nn.LSTM), (r(2, 5, 3),)),
        "gru": lambda: Case(Rnn(nn.GRU), (r(2, 5, 3),)),
        "embedding": lambda: Case(Bag(), (torch.tensor([1, 2, 0, 4]), torch.tensor([0, 2]))),
        "tied": lambda: Case(Tied(), (r(2, 3),)),
        "counting": lambda: Case(Counting(), (r(4, 2),), calls=(((r(4, 2),), {}),), train=True),
        "counting_core": lambda: Case(
            Counting(), (r(4, 2),), calls=(((r(4, 2),), {}),), train=True, decomposed=True
        ),
        "trees": lambda: Case(Trees(), (r(2), {"a": r(2), "b": (r(2), [r(2)][0])}), {"scale": {"by": r(1)}}),
        "indexing": lambda: Case(Indexing(), (r(2, 3, 4), torch.tensor([1, 0, 1]))),
        "branches": lambda: Case(Branches(), (r(2, 3),), calls=(((-r(2, 3),), {}),)),
        "loop": lambda: Case(Whole(), (r(2, 3),)),
        "mapped": lambda: Case(Mapped(), (r(4, 3), r(3))),
        "batched": lambda: Case(
            Batched(),
            (r(6, 4), r(3, 1)),
            calls=(((r(9, 4), r(5, 1)), {}),),
            shapes={"x": {0: Dim("many", min=4, max=64)}, "y": {0: Dim("rows", max=100)}},
        ),
        "derived": lambda: Case(
            Derived(),
            (r(4, 2), r(5, 2)),
            calls=(((r(7, 2), r(8, 2)), {}),),
            shapes={"x": {0: batch}, "y": {0: batch + 1}},
        ),
        "chosen": lambda: Case(
            Chosen(), (r(6) - 0.5, torch.tensor(3)), calls=(((r(6) - 0.5, torch.tensor(5)), {}),)
        ),
        "mutating": lambda: Case(Mutating(), (r(3), r(3))),
        "half": lambda: Case(Halves(torch.float16), (r(2, 3),)),
        "bfloat16": lambda: Case(Halves(torch.bfloat16), (r(2, 3),)),
        "norms": lambda: Case(Norms(), (r(2, 4, 3),)),
        "losses": lambda: Case(Losses(), (r(2, 3), labels)),
        "sorting": lambda: Case(Sorting(), (r(4, 3),)),
        "upsampled": lambda: Case(Upsampled(), (r(1, 1, 3, 2),)),
        "complex": lambda: Case(Complex(), (r(2, 6),)),
        "numbers": lambda: Case(Numbers(), (r(3), 3, "times")),
        "views": lambda: Case(Views(), (r(2, 3),)),
    }


def exported(case: Case) -> ExportedProgram:
    """The program of a case, without the paths of files of whoever runs this."""
    module = case.module.train(case.train)
    with torch.no_grad():
        program = export(module, case.args, case.kwargs, dynamic_shapes=case.shapes, **case.options)
        if case.decomposed:
            program = program.run_decompositions()
    for module in program.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            for node in module.graph.nodes:
                node.meta.pop("stack_trace", None)
                node.meta.pop("from_node", None)
    return program


def leaves(value: Any, tensors: list[Tensor]) -> Any:
    """A value as JSON has it, its tensors replaced by "tensor" and appended to a list."""
    if isinstance(value, Tensor):
        tensors.append(value.detach().clone())
        return "tensor"
    if isinstance(value, dict):
        return {k: leaves(v, tensors) for k, v in value.items()}
    return [leaves(v, tensors) for v in value] if isinstance(value, (list, tuple)) else value


def expected(program: ExportedProgram, case: Case) -> dict[str, Any]:
    """Arguments and results of each call."""
    arrays: dict[str, Any] = {}
    module = program.module()
    for k, (args, kwargs) in enumerate(((case.args, case.kwargs), *case.calls)):
        inputs: list[Tensor] = []
        tensors: list[Tensor] = []
        arrays[f"given{k}"] = json.dumps([leaves(args, inputs), leaves(kwargs, inputs)])
        result = module(*args, **kwargs)
        arrays[f"rest{k}"] = json.dumps(leaves(result, tensors))
        arrays |= {f"in{k}.{i}": t.numpy() for i, t in enumerate(inputs)}
        arrays |= {f"out{k}.{i}": t.numpy() for i, t in enumerate(tensors)}
    return arrays | {f"state.{n}": b.detach().numpy() for n, b in module.named_buffers()}


def main(folder: Path = FOLDER, going_on: bool = False) -> None:
    """Write all programs, and print their sizes; `going_on` with the others where one cannot be exported."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in cases().items():
        torch.manual_seed(0)
        case = make()
        path = folder / f"{name}.pt2"
        try:
            save(exported(case), path)
        except Exception as error:  # noqa: BLE001
            if not going_on:
                raise
            print(f"{name} is not exported: {type(error).__name__}: {str(error)[:150]}")
            continue
        program = torch.export.load(path)
        np.savez_compressed(path.with_suffix(".npz"), **expected(program, case))
        print(f"{path.name}: {path.stat().st_size} bytes", flush=True)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]), going_on=len(sys.argv) > 2)
