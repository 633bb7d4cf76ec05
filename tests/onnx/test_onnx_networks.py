"""Networks as ONNX: the operators that stand in them, values beside eager, and sizes that vary."""

from __future__ import annotations

import exported
import pytest

import flambeau as torch
from flambeau import nn
from flambeau.nn import functional as F


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.second = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm, self.again = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)

    def forward(self, x):
        return F.relu(x + self.again(self.second(F.relu(self.norm(self.first(x))))))


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 8, 7, 2, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        self.blocks = nn.Sequential(Residual(8), Residual(8))
        self.head = nn.Linear(8, 10)

    def forward(self, x):
        return self.head(F.adaptive_avg_pool2d(self.blocks(self.stem(x)), 1).flatten(1))


class Tagger(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.embedding = nn.Embedding(20, 6)
        self.layers = kind(6, 5, 2, batch_first=True, bidirectional=True, **options)
        self.head = nn.Linear(2 * options.get("proj_size", 5), 4)

    def forward(self, words):
        return self.head(self.layers(self.embedding(words))[0]).log_softmax(-1)


class Causal(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, activation="gelu")

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        return self.layer(x, src_mask=mask)


class Writer(nn.Module):
    """A small transformer that writes texts, with positions and tied weights."""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(20, 8), nn.Embedding(64, 8)
        self.norm, self.again = nn.LayerNorm(8), nn.LayerNorm(8)
        self.all, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
        self.head = nn.Linear(8, 20, bias=False)
        self.head.weight = self.words.weight

    def forward(self, words):
        x = self.words(words) + self.places(torch.arange(words.shape[1]))
        b, n, d = x.shape
        q, k, v = self.all(self.norm(x)).view(b, n, 3, 2, d // 2).permute(2, 0, 3, 1, 4)
        result = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.head(self.again(x + self.out(result.transpose(1, 2).reshape(b, n, d))))


def kinds(program):
    return [node.op_type for node in program.model_proto.graph.node]


def perceptron():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 3))


def words(*shape):
    return torch.randint(0, 20, shape)


NETWORKS = {
    "perceptron": (perceptron, lambda: torch.randn(3, 4)),
    "residual": (Classifier, lambda: torch.randn(2, 3, 32, 32)),
    "lstm": (lambda: Tagger(nn.LSTM), lambda: words(2, 7)),
    "gru": (lambda: Tagger(nn.GRU), lambda: words(2, 7)),
    "rnn": (lambda: Tagger(nn.RNN, nonlinearity="relu"), lambda: words(2, 7)),
    "projected": (lambda: Tagger(nn.LSTM, proj_size=3), lambda: words(2, 3)),
    "encoder": (lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), lambda: torch.randn(2, 5, 8)),
    "causal": (Causal, lambda: torch.randn(2, 5, 8)),
    "writer": (Writer, lambda: words(2, 7)),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_agree(name):
    torch.manual_seed(0)
    make, data = NETWORKS[name]
    model = make().eval()
    exported.check(model, data())


def test_operators_that_engines_know_stand_for_layers():
    torch.manual_seed(0)
    assert kinds(exported.check(perceptron().eval(), torch.randn(3, 4))) == [
        "Gemm",
        "Relu",
        "LayerNormalization",
        "Gemm",
    ]
    result = kinds(exported.check(Classifier().eval(), torch.randn(2, 3, 32, 32)))
    assert result.count("Conv") == 5 and result.count("BatchNormalization") == 5 and result.count("Relu") == 5
    assert {"MaxPool", "Gemm"} <= set(result)
    for kind in ("LSTM", "GRU", "RNN"):
        layer = getattr(nn, kind)(6, 5, bidirectional=True).eval()
        assert kinds(exported.check(layer, torch.randn(4, 2, 6))).count(kind) == 2
    image = torch.randn(1, 2, 6, 6)
    assert kinds(exported.check(nn.AvgPool2d(3, 2, 1), image)) == ["AveragePool"]
    assert kinds(exported.check(nn.Upsample(scale_factor=2), image)) == ["Resize"]
    assert kinds(exported.check(nn.Upsample(scale_factor=2, mode="bilinear"), image)) == ["Resize"]
    for layer, kind in (
        (nn.Softmax(-1), "Softmax"),
        (nn.GELU(), "Gelu"),
        (nn.Sigmoid(), "Sigmoid"),
        (nn.ELU(), "Elu"),
    ):
        assert kinds(exported.check(layer, image)) == [kind]


# name: model, dimensions that vary, other inputs
VARYING = {
    "perceptron": (perceptron, {0: "batch"}, [(1, 4), (9, 4)]),
    "residual": (Classifier, {0: "batch", 2: "height", 3: "width"}, [(1, 3, 32, 32), (3, 3, 40, 51)]),
    "encoder": (NETWORKS["encoder"][0], {0: "batch", 1: "length"}, [(1, 1, 8), (4, 9, 8)]),
    "causal": (Causal, {0: "batch", 1: "length"}, [(1, 1, 8), (4, 9, 8)]),
}


@pytest.mark.parametrize("name", VARYING)
def test_sizes_that_vary(name):
    torch.manual_seed(0)
    make, axes, shapes = VARYING[name]
    model, example = make().eval(), NETWORKS[name][1]()
    program = torch.onnx.export(model, (example,), input_names=["x"], dynamic_axes={"x": axes})
    given = program.model_proto.graph.input[0].type.tensor_type.shape.dim
    assert [given[d].dim_param for d in axes] == list(axes.values())
    assert program.model_proto.graph.output[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    for shape in shapes:
        x = torch.randn(shape)
        with torch.no_grad():
            exported.agree(exported.run(program, [x]), model(x), f"{shape}")


@pytest.mark.parametrize("make", [*(lambda k=k: Tagger(k) for k in (nn.LSTM, nn.GRU, nn.RNN)), Writer])
def test_batch_and_length_of_texts_vary(make):
    torch.manual_seed(0)
    model = make().eval()
    axes = {"words": {0: "batch", 1: "length"}}
    program = torch.onnx.export(model, (words(1, 4),), dynamic_axes=axes)
    for shape in ((1, 1), (5, 9), (2, 60)):
        x = words(*shape)
        with torch.no_grad():
            exported.agree(exported.run(program, [x]), model(x))


def test_a_training_step_is_a_graph_too():
    """Forward, the gradients of parameters, and the loss, with inputs for the parameters."""

    def step(x, w, y):
        w = w.detach().requires_grad_()
        with torch.enable_grad():
            loss = F.mse_loss((x @ w).tanh(), y)
            (grad,) = torch.autograd.grad(loss, w)
        return loss.detach(), w.detach() - 0.1 * grad

    exported.check(step, torch.randn(5, 3), torch.randn(3, 2), torch.randn(5, 2))
