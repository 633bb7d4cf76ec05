"""Calls by ATen's schemas: which overload takes them, what they compute, and how calls here are written as them."""

from __future__ import annotations

import numpy as np
import pytest
from flambeau.core.call.operation import behind

import flambeau as torch
from flambeau import nn
from flambeau.library._calls import Unfit, choice, overloads
from flambeau.library._schema import parse_schema
from flambeau.library._written import written

F = nn.functional
x = torch.arange(12.0).reshape(3, 4) / 7 - 0.5


def call(name, *args, **kwargs):
    """The result, which a prepared call gives, too."""
    overload, values, loosely = choice(overloads("aten", name), args, kwargs)
    result = overload.call(values)
    prepared = overload.prepared(args, kwargs, loosely)
    if prepared is not None:
        again = prepared(list(args), kwargs)
        for a, b in zip(*[(r,) if isinstance(r, torch.Tensor) else r for r in (result, again)]):
            assert a is b or torch.equal(a, b)
    return result


def close(actual, wanted):
    np.testing.assert_allclose(actual.numpy(force=True), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "name, args, kwargs, overload",
    [
        ("add", (x, 1), {}, "Scalar"),
        ("add", (x, x), {"alpha": 2}, "Tensor"),
        ("sum", (x,), {}, ""),
        ("sum", (x, [0], True), {}, "dim_IntList"),
        ("sum", (x,), {"dtype": 7}, ""),
        ("max", (x, 0), {}, "dim"),
        ("max", (x, x), {}, "other"),
        ("split", (x, 2), {}, "Tensor"),
        ("zeros", ([2, 3],), {"dtype": 6, "device": torch.device("cpu"), "pin_memory": False}, ""),
        ("where", (x > 0, x, 1.0), {}, "ScalarOther"),
        ("to", (x, 7), {}, "dtype"),
        ("to", (x, torch.device("cpu"), 6), {}, "device"),
    ],
)
def test_overloads(name, args, kwargs, overload):
    assert choice(overloads("aten", name), args, kwargs)[0].schema.overload_name == overload
    call(name, *args, **kwargs)


def test_numbers_for_what_has_none():
    assert call("zeros", [2], dtype=7, layout=0, device=None).dtype == torch.float64
    assert call("clone", torch.ones(2, 3, 4, 5), memory_format=2).is_contiguous(
        memory_format=torch.channels_last
    )
    close(call("mse_loss", x, x * 0, 2), (x.numpy() ** 2).sum())
    close(call("mse_loss", x, x * 0), (x.numpy() ** 2).mean())
    close(
        call("arange", torch.tensor(3)), np.arange(3)
    )  # a tensor of one element is a number where one is wanted
    assert call("arange", torch.tensor(3)).shape == (3,)


@pytest.mark.parametrize(
    "name, args", [("add", (x, "a")), ("view", (x, "a")), ("zeros", ([2], 99)), ("cat", (x,))]
)
def test_calls_that_no_overload_takes(name, args):
    with pytest.raises(Unfit):
        choice(overloads("aten", name), args, {})


def test_what_is_not_here_is_refused():
    elu = overloads("aten", "elu")
    with pytest.raises(NotImplementedError, match=r"aten::elu\(\): argument 'scale' must be 1 here, got 2.0"):
        overload, values, _ = choice(elu, (x, 1.0, 2.0, 1.0), {})
        overload.call(values)
    assert overloads("aten", "no_such_name") == () and overloads("nowhere", "add") == ()


def test_overloads_of_their_own():
    a = x.numpy()
    close(call("tensordot", x, x, [0], [0]), np.tensordot(a, a, ([0], [0])))
    close(call("cdist", x, x, 2.0, None), np.linalg.norm(a[:, None] - a[None], axis=-1))
    values, inverse, counts = call("_unique2", torch.tensor([3, 1, 3]), True, True, False)
    assert values.tolist() == [1, 3] and inverse.tolist() == [1, 0, 1] and counts.numel() == 0
    values, inverse, counts = call("unique_consecutive", torch.tensor([3, 3, 1]), False, True, None)
    assert values.tolist() == [3, 1] and inverse.numel() == 0 and counts.tolist() == [2, 1]
    image = torch.arange(16.0).reshape(1, 1, 4, 4)
    pooled, places = F.max_pool2d(image, 2, return_indices=True)
    whole = call("max_unpool2d", pooled, places, [4, 4])
    assert whole.sum() == pooled.sum() and whole[0, 0, 3, 3] == 15
    close(call("upsample_nearest2d", pooled, [4, 4], None, None), pooled.numpy().repeat(2, 2).repeat(2, 3))
    close(call("upsample_nearest2d", pooled, None, [2.0, 2.0]), pooled.numpy().repeat(2, 2).repeat(2, 3))
    signal, kernel = torch.randn(1, 1, 6), torch.randn(1, 1, 3)
    wanted = np.correlate(signal.numpy()[0, 0], kernel.numpy()[0, 0], "same")
    close(call("_convolution_mode", signal, kernel, None, [1], "same", [1], 1)[0, 0], wanted)
    frames = call("stft", signal[0], 4, 2, 4, torch.ones(4), False, True, True)
    wanted = np.stack([np.fft.rfft(signal.numpy()[0, 0, k : k + 4]) for k in (0, 2)], 1)
    np.testing.assert_allclose(frames[0].numpy(), wanted, atol=1e-5)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_packed_sequences(kind):
    layer = kind(3, 4)
    packed = nn.utils.rnn.pack_sequence([torch.randn(3, 3), torch.randn(2, 3)])
    wanted, state = layer(packed)
    start = torch.zeros(1, 2, 4)
    hx, name = (
        ([start, start], "lstm") if kind is nn.LSTM else (start, "gru" if kind is nn.GRU else "rnn_tanh")
    )
    weights = [p.detach() for p in layer.parameters()]
    actual = call(name, packed.data, packed.batch_sizes, hx, weights, True, 1, 0.0, False, False)
    close(actual[0], wanted.data.numpy(force=True))
    close(actual[1], (state[0] if kind is nn.LSTM else state).numpy(force=True))


def text(op, *args, **kwargs):
    """How a call is written; tensors are shown by their shapes."""
    result = written(behind(op), args, kwargs)
    if result is None:
        return None
    shown = [f"{n}={_shown(v)}" if n else _shown(v) for n, v in result.values]
    return f"{result.overload.schema.name}({', '.join(shown)})" + (
        "" if result.item is None else f"[{result.item}]"
    )


def _shown(v):
    if isinstance(v, torch.Tensor):
        return "T"
    return "[" + ", ".join(map(_shown, v)) + "]" if isinstance(v, (list, tuple)) else str(v)


@pytest.mark.parametrize(
    "op, args, kwargs, wanted",
    [
        (torch.Tensor.view, (x, 4, 3), {}, "aten::view(T, [4, 3])"),
        (torch.Tensor.view, (x, torch.int32), {}, "aten::view(T, flambeau.int32)"),
        (torch.Tensor.permute, (x, 1, 0), {}, "aten::permute(T, [1, 0])"),
        (torch.zeros, (2, 3), {"dtype": torch.float64}, "aten::zeros([2, 3], dtype=flambeau.float64)"),
        (torch.arange, (1, 5), {}, "aten::arange(1, 5, dtype=None, device=None)"),
        (F.elu, (x, 0.5), {}, "aten::elu(T, 0.5)"),
        (F.elu, (x,), {"inplace": True}, "aten::elu_(T)"),
        (F.relu, (x,), {"inplace": True}, "aten::relu_(T)"),
        (F.mse_loss, (x, x), {"reduction": "sum"}, "aten::mse_loss(T, T, 2)"),
        (F.embedding, (x.long(), x), {"padding_idx": 1}, "aten::embedding(T, T, 1, False, False)"),
        (torch.einsum, ("ij,ij", x, x), {}, "aten::einsum(ij,ij, [T, T])"),
        (torch.split, (x, [1, 2]), {}, "aten::split_with_sizes(T, [1, 2], 0)"),
        (F.adaptive_max_pool1d, (x, 2), {}, "aten::adaptive_max_pool1d(T, [2])[0]"),
        (torch.Tensor.squeeze, (x, ()), {}, "aten::squeeze(T, [])"),
        (torch.std, (x,), {"correction": 0}, "aten::std(T, correction=0)"),
        (F.kl_div, (x, x), {"reduction": "batchmean"}, None),
        (F.softsign, (x,), {}, None),
        (torch.masked.mean, (x,), {}, None),
    ],
)
def test_calls_as_they_are_written(op, args, kwargs, wanted):
    assert text(op, *args, **kwargs) == wanted


def test_the_file_of_schemas_is_read_whole():
    from flambeau.library._calls import texts

    count = 0
    for name, lines in texts().items():
        for line in lines:
            assert parse_schema("aten::" + line).name == f"aten::{name}"
            count += 1
    assert count > 1000
