"""Counts of floating-point operations: each product, convolution and attention, forward and backward; by module."""

from __future__ import annotations

import pytest

import flambeau
from flambeau import nn
from flambeau.nn import functional as F
from flambeau.utils import flop_counter
from flambeau.utils.flop_counter import FlopCounterMode, register_flop_formula
from flambeau.utils.module_tracker import ModuleTracker


def r(*shape):
    return flambeau.randn(*shape, requires_grad=True)


def c(*shape):
    return flambeau.randn(*shape)


# Forward and backward together; each gradient of a product is a product of the same size.
CASES = {
    "matrices": (lambda: r(3, 4) @ r(4, 5), {"aten.mm": 3 * 120}),
    "one gradient": (lambda: c(3, 4) @ r(4, 5), {"aten.mm": 2 * 120}),
    "stacks": (lambda: flambeau.bmm(r(2, 3, 4), r(2, 4, 5)), {"aten.bmm": 3 * 240}),
    "broadcast stacks": (lambda: r(6, 2, 3, 4) @ r(2, 4, 5), {"aten.bmm": 3 * 1440}),
    "stack by matrix": (lambda: r(2, 3, 4) @ r(4, 5), {"aten.mm": 3 * 240}),
    "addmm": (lambda: flambeau.addmm(r(5), r(3, 4), r(4, 5)), {"aten.addmm": 120, "aten.mm": 240}),
    "baddbmm": (
        lambda: flambeau.baddbmm(r(2, 3, 5), r(2, 3, 4), r(2, 4, 5)),
        {"aten.baddbmm": 240, "aten.bmm": 480},
    ),
    "linear": (lambda: F.linear(r(2, 7, 4), r(5, 4), r(5)), {"aten.addmm": 560, "aten.mm": 1120}),
    "linear without bias": (lambda: F.linear(r(7, 4), r(5, 4)), {"aten.mm": 840}),
    "linear by keywords": (
        lambda: F.linear(r(7, 4), weight=r(5, 4), bias=r(5)),
        {"aten.addmm": 280, "aten.mm": 560},
    ),
    "convolution": (
        lambda: F.conv2d(r(2, 3, 8, 8), r(6, 3, 3, 3), r(6), padding=1),
        {"aten.convolution": 2 * 2 * 64 * 162, "aten.convolution_backward": 2 * 2 * 2 * 64 * 162},
    ),
    "convolution of what wants none": (
        lambda: F.conv1d(c(2, 3, 9), r(6, 3, 3)),
        {"aten.convolution": 2 * 2 * 7 * 54, "aten.convolution_backward": 2 * 2 * 7 * 54},
    ),
    "groups": (
        lambda: F.conv1d(c(1, 4, 9), r(4, 2, 3), groups=2),
        {"aten.convolution": 2 * 7 * 24, "aten.convolution_backward": 2 * 7 * 24},
    ),
    "transposed convolution": (
        lambda: F.conv_transpose2d(r(2, 3, 8, 8), r(3, 5, 2, 2), stride=2),
        {"aten.convolution": 2 * 2 * 64 * 60, "aten.convolution_backward": 2 * 2 * 2 * 64 * 60},
    ),
    "attention": (
        lambda: F.scaled_dot_product_attention(r(2, 4, 5, 8), r(2, 4, 6, 8), r(2, 4, 6, 8)),
        {"aten.bmm": 6 * 2 * 8 * 30 * 8},
    ),
    "attention in tiles": (
        lambda: F.scaled_dot_product_attention(r(1, 1, 300, 8), r(1, 1, 300, 8), r(1, 1, 300, 4)),
        {
            "aten._scaled_dot_product_flash_attention": 2 * 300 * 300 * 12,
            "aten._scaled_dot_product_flash_attention_backward": 2 * 300 * 300 * (3 * 8 + 2 * 4),
        },
    ),
    "einsum": (lambda: flambeau.einsum("bij,bjk->bik", r(2, 3, 4), r(2, 4, 5)), {"aten.bmm": 720}),
    "vectors are not counted": (lambda: flambeau.mv(r(3, 4), r(4)), {}),
    "pointwise is not counted": (lambda: r(3) * r(3), {}),
}


@pytest.mark.parametrize("case", CASES)
def test_counts(case):
    program, expected = CASES[case]
    with FlopCounterMode(display=False) as counter:
        program().sum().backward()
    assert counter.get_flop_counts().get("Global", {}) == expected
    assert counter.get_total_flops() == sum(expected.values())


def test_flex_attention():
    from flambeau.nn.attention.flex_attention import flex_attention

    q = [r(2, 4, 5, 8) for _ in range(3)]
    with FlopCounterMode(display=False) as counter:
        flex_attention(*q, score_mod=lambda score, b, h, i, j: score + 1.0).sum().backward()
    whole = 2 * 2 * 4 * 25 * 8
    assert counter.get_flop_counts()["Global"] == {
        "flex_attention": 2 * whole,
        "flex_attention_backward": 5 * whole,
    }


def test_a_recurrent_layer_counts_every_step():
    for kind, gates in ((nn.LSTM, 4), (nn.GRU, 3), (nn.RNN, 1)):
        with FlopCounterMode(display=False) as counter:
            kind(3, 4)(r(5, 2, 3))[0].sum().backward()
        rows = 5 * 2
        assert counter.get_total_flops() == 3 * 2 * rows * gates * 4 * (3 + 4)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.rest = nn.Sequential(nn.ReLU(), nn.Linear(16, 4))

    def forward(self, x):
        return self.rest(self.first(x))


def test_modules_count_what_runs_in_them_forward_and_backward():
    net, x = Net(), c(5, 8)
    with FlopCounterMode(display=False) as counter:
        net(x).sum().backward()
    counts = {name: sum(result.values()) for name, result in counter.get_flop_counts().items()}
    first, second = 2 * 5 * 8 * 16, 2 * 5 * 16 * 4
    assert counts == {
        "Net": 2 * first + 3 * second,
        "Net.first": 2 * first,
        "Net.rest": 3 * second,
        "Net.rest.1": 3 * second,
        "Global": 2 * first + 3 * second,
    }


def test_tables(capsys):
    net = Net()
    with FlopCounterMode(depth=1) as counter:
        net(c(5, 8))
        c(2, 2) @ c(2, 2)
    shown = capsys.readouterr().out
    assert shown == counter.get_table() + "\n"
    lines = shown.splitlines()
    assert lines[0].split() == ["Module", "FLOP", "%", "Total"] and set(lines[1]) == {"-", " "}
    assert [line.split()[0] for line in lines[2:] if "-" not in line.split()[0]] == ["Global", "Net"]
    assert "Net.rest.1" in counter.get_table(depth=3) and "Net.first" not in counter.get_table()
    with FlopCounterMode(display=False) as empty:
        c(2)
    assert empty.get_table().splitlines()[2].split() == ["Global", "0", "0%"]
    big = FlopCounterMode(display=False)
    with big, flambeau.device("meta"):
        flambeau.empty(4000, 4000) @ flambeau.empty(4000, 4000)
    assert "128.000B" in big.get_table()


def test_formulas_of_users():
    @register_flop_formula([flambeau.exp, flambeau.log])
    def each(shape, *args, out_shape=None, **kwargs):
        assert shape == out_shape
        return 7 * shape[0]

    try:
        with FlopCounterMode(
            display=False, custom_mapping={flambeau.mm: lambda a, b, out_shape=None: 1}
        ) as counter:
            c(3).exp().exp()
            flambeau.mm(c(2, 2), c(2, 2))
        assert counter.get_flop_counts()["Global"] == {"aten.exp": 42, "aten.mm": 1}
    finally:
        flop_counter.flop_registry.clear()
    with pytest.raises(ValueError, match="expected each target to be an operation"):
        register_flop_formula("exp")(each)


def test_states():
    with pytest.warns(UserWarning, match="mods argument is not needed"):
        counter = FlopCounterMode(nn.Linear(1, 1), display=False)
    with counter:
        with pytest.raises(RuntimeError, match="on already"):
            counter.__enter__()
        c(2, 2) @ c(2, 2)
    with counter:
        c(3, 3) @ c(3, 3)
    assert counter.get_total_flops() == 54  # counted anew
    with pytest.raises(KeyError), counter:
        raise KeyError
    c(2, 2) @ c(2, 2)
    assert counter.get_total_flops() == 0


def test_where_a_program_is():
    seen = []

    class Noted(nn.Module):
        def forward(self, x):
            seen.append((sorted(tracker.parents), tracker.is_bw))
            x = x * 2
            x.register_hook(lambda g: seen.append((sorted(tracker.parents), tracker.is_bw)))
            return x

    net = nn.Sequential(Noted(), nn.ModuleDict({"inner": Noted()})["inner"])
    with ModuleTracker() as tracker:
        assert tracker.parents == {"Global"}
        net(r(2)).sum().backward()
        assert tracker.parents == {"Global"} and not tracker.is_bw
    forward = [["Global", "Sequential", f"Sequential.{k}"] for k in range(2)]
    assert seen[:2] == [(forward[0], False), (forward[1], False)]
    assert [is_bw for _, is_bw in seen[2:]] == [True, True]
    net(r(2))
    assert seen[4] == (["Global"], False)  # nobody is told any more
