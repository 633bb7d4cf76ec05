"""Views and writes in place, which ONNX has not: every value is what eager calls leave in the tensors' memory."""

from __future__ import annotations

import sys
from pathlib import Path

import exported
import numpy as np
import pytest

import flambeau as torch

sys.path.insert(0, str(Path(__file__).parents[1] / "graph"))
import random_programs  # noqa: E402


def through_a_view(x):
    y = x.clone()
    y[1:].mul_(2)
    return y


def view_sees_the_write(x):
    y = x.clone()
    row, turned = y[0], y.T
    y.add_(1)
    return row + 1, turned * 2, y


def view_of_a_view(x):
    y = x.clone()
    part = y[1:, ::2].T
    part[0] = 7
    part.sub_(1)
    return y, part


def columns_and_masks(x):
    y = x.clone()
    y[:, 1] = x[:, 0]
    y[torch.tensor([0, -1])] = 2.0
    y[y > 1] = 3.0
    y.masked_fill_(y < 0, 0.5)
    return y


def index_put(x):
    y = x.clone()
    y.index_put_(
        (torch.tensor([0, 0, 1]), torch.tensor([1, 1, 2])), torch.tensor([1.0, 2.0, 3.0]), accumulate=True
    )
    y.scatter_(1, torch.tensor([[0], [1], [2]]), -1.0)
    return y


def diagonal(x):
    y = x.clone()
    y.diagonal().zero_()
    y.flatten()[1] = 5
    return y


def out_of_a_call(x):
    y = torch.empty(3, 4)
    torch.mul(x, 2, out=y)
    torch.add(y, 1, out=y)
    return y


def the_input_itself(x):
    x.relu_()
    return x * 2, x


def chunks(x):
    a, b = x.clone().chunk(2, 1)
    a += b
    return a, b


def in_a_loop(x):
    y = torch.zeros(3, 4)
    for k in range(3):
        y[k] = x[k].cumsum(0)
    return y


def converted(x):
    y = x.to(torch.int64)
    y += 1
    return y, y.to(torch.float32) / 2, y // 2, y % 3


FUNCTIONS = [
    *(
        through_a_view,
        view_sees_the_write,
        view_of_a_view,
        columns_and_masks,
        index_put,
        diagonal,
        out_of_a_call,
    ),
    *(the_input_itself, chunks, in_a_loop, converted),
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("layout", ["contiguous", "turned", "sliced"])
def test_writes(function, layout):
    torch.manual_seed(0)
    x = torch.randn(3, 4)
    if layout == "turned":
        x = torch.randn(4, 3).T
    if layout == "sliced":
        x = torch.randn(3, 8)[:, ::2]
    program = torch.onnx.export(function, (x.clone(),))
    exported.agree(exported.run(program, [x]), function(x.detach().clone()), function.__name__)


@pytest.mark.parametrize("function", [through_a_view, view_sees_the_write, view_of_a_view, diagonal])
def test_writes_where_sizes_vary(function):
    axes = {"x": {0: "rows", 1: "columns"}}
    if function is diagonal:  # as long as the smaller of two sizes
        with pytest.raises(torch.onnx.OnnxExporterError, match="cannot vary"):
            torch.onnx.export(function, (torch.randn(3, 4),), dynamic_axes=axes)
        return
    program = torch.onnx.export(function, (torch.randn(3, 4),), dynamic_axes=axes)
    for shape in ((3, 4), (6, 5), (2, 8)):
        x = torch.randn(shape)
        exported.agree(exported.run(program, [x]), function(x.clone()), f"{shape}")


def test_the_arguments_and_the_model_stay_as_they_were():
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(4), torch.nn.Dropout())
    x = torch.randn(8, 4)
    before, saved = x.clone(), {k: v.clone() for k, v in model.state_dict().items()}
    torch.onnx.export(lambda x: x.relu_() + 1, (x,))
    torch.onnx.export(model[0], (x,), training=True)
    assert torch.equal(x, before)
    assert all(torch.equal(v, saved[k]) for k, v in model.state_dict().items())
    assert model.training and model[1].training


def test_batch_norm_in_training_mode_normalises_by_the_batch():
    model, x = torch.nn.BatchNorm1d(4), torch.randn(8, 4) * 3 + 1
    program = torch.onnx.export(model, (x,), training=True)
    (result,) = exported.run(program, [x])
    np.testing.assert_allclose(result.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(result.std(0), 1, atol=1e-3)


def test_writing_to_what_is_no_part_of_the_model_is_refused():
    counter = torch.zeros(2)

    def counts(x):
        counter.add_(1)
        return x + counter

    with pytest.raises(torch.onnx.errors.UnsupportedOperatorError, match="register it as a buffer"):
        torch.onnx.export(counts, (torch.ones(2),))


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x.T,
        lambda x: x[::2, 1:],
        lambda x: x[1, None, :, None],
        lambda x: x.reshape(2, 2, -1).permute(2, 0, 1),
        lambda x: x.unfold(1, 2, 1),
        lambda x: x.diagonal(1),
        lambda x: x.as_strided((2, 2), (1, 3), 1),
        lambda x: x[:, :1].expand(4, 5),
        lambda x: x.unsqueeze(0).expand(3, -1, -1).transpose(0, 2),
        lambda x: x.flip(0)[:, [0, 2]],
        lambda x: torch.stack(x.split([1, 3])[1].unbind(1)),
        lambda x: x.movedim(0, 1).swapaxes(0, 1).squeeze().view(-1)[2:7],
        lambda x: x[torch.tensor([[0, 1], [2, 3]]), :2],
        lambda x: x[:, None][torch.tensor([0, 2]), :, torch.tensor([1, 1])],
        lambda x: x[x[:, 0] > 0],
        lambda x: x[..., torch.tensor([True, False, True, True])],
    ],
)
def test_views_and_indices(make):
    torch.manual_seed(0)
    exported.check(lambda x: make(x) * 1, torch.randn(4, 4))
    exported.check(make, torch.randn(4, 4))


@pytest.mark.parametrize("seed", [*range(0, 60), 748, 752])
def test_random_programs(seed):
    """Views, broadcasts, fills, copies, writes (also through views, and to arguments), reductions, dtypes, products."""
    body = random_programs.Body(seed)
    program = torch.onnx.export(lambda *tensors: body(*tensors), tuple(body.inputs(seed)))
    given = body.inputs(seed + 1)
    result = exported.run(program, given)
    for x, t in zip(result, body(*given), strict=True):
        assert x.dtype == t.numpy().dtype and x.shape == tuple(t.shape)
        np.testing.assert_allclose(x, t.numpy(), rtol=1e-3, atol=1e-3)
