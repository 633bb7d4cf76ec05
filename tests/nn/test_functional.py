"""Functions of neural networks against their formulas in NumPy, and their gradients by finite differences."""

from __future__ import annotations

import inspect
import itertools
import math
import warnings

import numpy as np
import pytest

import flambeau
from flambeau.nn import functional as F

RNG = np.random.default_rng(0)


def draw(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape)


def close(found, wanted, tolerance: float = 1e-10) -> None:
    found = found.detach().numpy()
    assert found.shape == np.shape(wanted)
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def gradients_agree(function, *arrays: np.ndarray) -> None:
    inputs = [flambeau.tensor(a, requires_grad=True) for a in arrays]
    assert flambeau.autograd.gradcheck(function, tuple(inputs))


# --- attention ------------------------------
@pytest.mark.parametrize("kind", ["plain", "causal", "bool", "float"])
def test_attention(kind):
    q, k, v = draw(2, 3, 4), draw(2, 5, 4), draw(2, 5, 6)
    allowed = np.ones((3, 5), bool)
    options = {}
    if kind == "causal":
        allowed, options = np.tril(allowed), {"is_causal": True}
    elif kind != "plain":
        allowed[0, 2:] = False
        mask = allowed if kind == "bool" else np.where(allowed, 0.5, -math.inf)
        options = {"attn_mask": flambeau.tensor(mask)}
    scores = np.where(allowed, q @ k.transpose(0, 2, 1) / 2, -math.inf)
    given = [flambeau.tensor(x) for x in (q, k, v)]
    close(F.scaled_dot_product_attention(*given, **options), softmax(scores) @ v)
    gradients_agree(lambda *x: F.scaled_dot_product_attention(*x, **options), q, k, v)


def test_attention_to_nothing_is_zero_with_finite_gradients():
    q = flambeau.tensor(draw(2, 4), requires_grad=True)
    mask = flambeau.tensor([[True, False], [False, False]])
    out = F.scaled_dot_product_attention(q, q, q, mask)
    out.sum().backward()
    assert out[1].tolist() == [0.0] * 4 and bool(q.grad.isfinite().all())


def test_attention_shares_heads():
    q, k = draw(1, 4, 3, 2), draw(1, 2, 5, 2)
    found = F.scaled_dot_product_attention(*map(flambeau.tensor, (q, k, k)), enable_gqa=True)
    repeated = k.repeat(2, axis=1)
    close(found, softmax(q @ repeated.swapaxes(2, 3) / math.sqrt(2)) @ repeated)


@pytest.mark.parametrize("extra, zero", list(itertools.product((False, True), repeat=2)))
def test_multi_head_attention_is_the_layer(extra, zero):
    layer = flambeau.nn.MultiheadAttention(8, 2, add_bias_kv=extra, add_zero_attn=zero)
    q, k = flambeau.randn(3, 2, 8), flambeau.randn(4, 2, 8)
    hidden = flambeau.tensor([[False, True, False, False], [False, False, False, True]])
    found = F.multi_head_attention_forward(
        q, k, k, 8, 2, layer.in_proj_weight, layer.in_proj_bias, layer.bias_k, layer.bias_v, zero, 0.0,
        layer.out_proj.weight, layer.out_proj.bias, key_padding_mask=hidden,
    )  # fmt: skip
    wanted = layer(q, k, k, key_padding_mask=hidden)
    for a, b in zip(found, wanted, strict=True):
        close(a, b.detach().numpy(), 1e-5)


# --- resizing ------------------------------
def test_interpolate_nearest():
    x = draw(1, 2, 3, 5)
    rows, columns = np.arange(6) * 3 // 6, np.arange(4) * 5 // 4
    close(F.interpolate(flambeau.tensor(x), (6, 4)), x[:, :, rows][:, :, :, columns])


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("mode, rank", [("linear", 1), ("bilinear", 2), ("trilinear", 3)])
def test_interpolate_linear(mode, rank, aligned):
    x = draw(2, 1, *(3, 4, 2)[:rank])
    wanted = x
    for d in range(2, rank + 2):
        size = x.shape[d]
        at = np.linspace(0, size - 1, 5) if aligned else (np.arange(5) + 0.5) * size / 5 - 0.5
        wanted = np.apply_along_axis(lambda row: np.interp(at, np.arange(size), row), d, wanted)  # noqa: B023
    close(F.interpolate(flambeau.tensor(x), (5,) * rank, mode=mode, align_corners=aligned), wanted)
    gradients_agree(lambda t: F.interpolate(t, (5,) * rank, mode=mode, align_corners=aligned), x)


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_interpolation_keeps_constants_and_shrinks_by_means(mode, antialias):
    x = flambeau.full((1, 1, 6, 8), 3.0, dtype=flambeau.float64)
    close(F.interpolate(x, (4, 3), mode=mode, antialias=antialias), np.full((1, 1, 4, 3), 3.0))
    gradients_agree(lambda t: F.interpolate(t, (2, 3), mode=mode, antialias=antialias), draw(1, 1, 4, 5))


def test_antialiased_halving():
    x = np.zeros((1, 1, 1, 8))
    x[..., 3] = 1.0
    found = F.interpolate(flambeau.tensor(x), (1, 4), mode="bilinear", antialias=True)
    close(found, np.array([[[[0.0, 0.375, 0.125, 0.0]]]]))


def test_interpolate_area_and_errors():
    x = draw(1, 1, 4, 6)
    close(F.interpolate(flambeau.tensor(x), (2, 3), mode="area"), x.reshape(1, 1, 2, 2, 3, 2).mean((3, 5)))
    t = flambeau.tensor(x)
    with pytest.raises(ValueError, match="either size or scale_factor"):
        F.interpolate(t)
    with pytest.raises(ValueError, match="only one of size or scale_factor"):
        F.interpolate(t, 3, 2.0)
    with pytest.raises(ValueError, match="same number of spatial dimensions"):
        F.interpolate(t, (3,))
    with pytest.raises(NotImplementedError):
        F.interpolate(t, 3, mode="linear")


def test_channel_shuffle():
    x = flambeau.arange(6).reshape(1, 6, 1)
    assert F.channel_shuffle(x, 2).flatten().tolist() == [0, 3, 1, 4, 2, 5]
    with pytest.raises(RuntimeError, match="divisible by groups"):
        F.channel_shuffle(x, 4)


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_the_identity_map_samples_the_image(mode):
    x = draw(2, 3, 4, 5)
    identity = flambeau.eye(2, 3, dtype=flambeau.float64).expand(2, 2, 3)
    for aligned in (False, True):
        grid = F.affine_grid(identity, x.shape, aligned)
        close(F.grid_sample(flambeau.tensor(x), grid, mode, align_corners=aligned), x)


@pytest.mark.parametrize("padding, wanted", [("zeros", 0.0), ("border", 3.0), ("reflection", 2.0)])
def test_padding_of_samples(padding, wanted):
    x = flambeau.tensor([[[[0.0, 1.0, 2.0, 3.0]]]])
    grid = flambeau.tensor([[[[5 / 3, 0.0]]]])  # one element beyond the last
    assert F.grid_sample(x, grid, padding_mode=padding, align_corners=True).item() == pytest.approx(
        wanted, abs=1e-5
    )


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_gradients_of_samples(mode):
    gradients_agree(lambda x, g: F.grid_sample(x, g, mode), draw(1, 2, 4, 5), draw(1, 2, 3, 2) * 0.4)


# --- tables ------------------------------
def test_embedding():
    table = draw(5, 3)
    weight = flambeau.tensor(table, requires_grad=True)
    number = flambeau.tensor([[1, 4], [1, 2]])
    found = F.embedding(number, weight, padding_idx=2)
    close(found, table[number.numpy()])
    found.sum().backward()
    assert weight.grad[:, 0].tolist() == [0.0, 2.0, 0.0, 0.0, 1.0]
    weight.grad = None
    F.embedding(number, weight, padding_idx=2, scale_grad_by_freq=True).sum().backward()
    assert weight.grad[:, 0].tolist() == [0.0, 1.0, 0.0, 0.0, 1.0]
    with pytest.raises(IndexError):
        F.embedding(flambeau.tensor([5]), weight)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags(mode):
    table, number = draw(6, 3), np.array([1, 5, 2, 2, 0])
    of = getattr(np, mode)
    wanted = np.stack([of(table[number[:2]], 0), np.zeros(3), of(table[number[2:]], 0)])
    starts = flambeau.tensor([0, 2, 2])
    found = F.embedding_bag(flambeau.tensor(number), flambeau.tensor(table), starts, mode=mode)
    close(found, wanted)
    gradients_agree(lambda w: F.embedding_bag(flambeau.tensor(number), w, starts, mode=mode), table)


def test_bags_with_padding_and_weights():
    table, number = draw(4, 2), np.array([[0, 3, 1], [3, 3, 2]])
    scale = draw(2, 3)
    given = flambeau.tensor(number), flambeau.tensor(table)
    kept = scale * (number != 3)
    wanted = (table[number] * kept[:, :, None]).sum(1)
    found = F.embedding_bag(*given, mode="sum", per_sample_weights=flambeau.tensor(scale), padding_idx=3)
    close(found, wanted)
    with pytest.raises(ValueError, match="mode has to be"):
        F.embedding_bag(*given, mode="median")


# --- activations and losses ------------------------------
def test_gumbel_softmax():
    flambeau.manual_seed(0)
    logits = flambeau.tensor(np.log([[0.2, 0.8]])).expand(4000, 2)
    soft, hard = F.gumbel_softmax(logits), F.gumbel_softmax(logits, hard=True)
    close(soft.sum(1), np.ones(4000))
    assert set(hard.round().flatten().tolist()) == {0.0, 1.0}
    assert hard[:, 1].mean().item() == pytest.approx(0.8, abs=0.03)


def test_in_place_forms_write_over_the_input():
    x = flambeau.tensor([-2.0, 3.0])
    assert F.threshold_(x, 0.0, 7.0) is x and x.tolist() == [7.0, 3.0]
    y = flambeau.tensor([-2.0, 3.0])
    assert F.leaky_relu(y, 0.5, inplace=True) is y and y.tolist() == [-1.0, 3.0]


@pytest.mark.parametrize("bend", [0.0, 0.4, 1.0])
def test_losses_that_bend(bend):
    x, y = draw(4, 6), draw(4, 6)
    gap = np.abs(x - y)
    quadratic = gap * gap / 2
    wanted = np.where(gap < bend, quadratic / (bend or 1.0), gap - bend / 2)
    smooth = lambda a, b: F.smooth_l1_loss(a, b, beta=bend)
    close(smooth(flambeau.tensor(x), flambeau.tensor(y)), wanted.mean())
    gradients_agree(smooth, x, y)
    if bend == 0.0:
        with pytest.raises(RuntimeError, match="does not support non-positive values for delta"):
            F.huber_loss(flambeau.tensor(x), flambeau.tensor(y), delta=bend)
        return
    huber = lambda a, b: F.huber_loss(a, b, reduction="none", delta=bend)
    close(huber(flambeau.tensor(x), flambeau.tensor(y)), wanted * bend)
    gradients_agree(huber, x, y)


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_nll_loss(reduction):
    """Weighted, and with rows that do not count; a class that is not there is named."""
    x, y, weight = draw(5, 3), np.array([2, 0, -100, 1, 0]), np.array([1.0, 2.0, 0.5])
    options = dict(reduction=reduction, weight=flambeau.tensor(weight))
    kept = y >= 0
    rows = np.where(kept, -x[np.arange(5), y * kept] * weight[y * kept], 0.0)
    wanted = {"none": rows, "sum": rows.sum(), "mean": rows.sum() / weight[y[kept]].sum()}[reduction]
    close(F.nll_loss(flambeau.tensor(x), flambeau.tensor(y), **options), wanted)
    gradients_agree(lambda a: F.nll_loss(a, flambeau.tensor(y), **options), x)
    rows = np.where(kept, -x[np.arange(5), y * kept], 0.0)
    wanted = {"none": rows, "sum": rows.sum(), "mean": rows.sum() / 4}[reduction]
    close(F.nll_loss(flambeau.tensor(x), flambeau.tensor(y), reduction=reduction), wanted)
    for wrong in (3, -1):
        with pytest.raises(IndexError, match=f"Target {wrong} is out of bounds"):
            F.nll_loss(flambeau.tensor(x), flambeau.tensor([0, 1, wrong, 0, 0]), reduction=reduction)


def test_multilabel_margin_loss():
    x, y = draw(2, 4), np.array([[3, 0, -1, 1], [2, -1, -1, -1]])
    wanted = []
    for row, classes in zip(x, ([3, 0], [2])):
        others = [k for k in range(4) if k not in classes]
        wanted.append(sum(max(0.0, 1 - row[c] + row[k]) for c in classes for k in others) / 4)
    close(F.multilabel_margin_loss(flambeau.tensor(x), flambeau.tensor(y), reduction="none"), wanted)


def collapsed(path, blank=0):
    return [k for k, _ in itertools.groupby(path) if k != blank]


@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 5)])
@pytest.mark.parametrize("options", [{}, {"label_smoothing": 0.2}, {"ignore_index": 1}, {"weight": True}])
def test_cross_entropy(shape, options):
    x = draw(*shape)
    target = RNG.integers(0, 3, (shape[0], *shape[2:]))
    target.flat[0], target.flat[1] = 1, 2
    weight = np.array([0.5, 1.0, 2.0]) if options.get("weight") else np.ones(3)
    options = {**options, **({"weight": flambeau.tensor(weight)} if options.get("weight") else {})}
    scores = np.moveaxis(np.log(softmax(x, 1)), 1, -1)
    kept = target != options.get("ignore_index", -100)
    smooth = options.get("label_smoothing", 0.0)
    wanted_of = np.eye(3)[target] * (1 - smooth) + smooth / 3
    losses = -(scores * wanted_of * weight).sum(-1) * kept
    wanted = losses.sum() / (weight[target] * kept).sum()
    close(F.cross_entropy(flambeau.tensor(x), flambeau.tensor(target), **options), wanted)
    gradients_agree(lambda t: F.cross_entropy(t, flambeau.tensor(target), **options), x)


# --- normalisation ------------------------------
@pytest.mark.parametrize("name", ["layer", "batch", "group", "instance"])
def test_normalisation(name):
    x, w, b = draw(3, 4, 5), draw(4), draw(4)
    if name == "layer":
        w, b = draw(5), draw(5)
        axes, of = (2,), lambda t, w, b: F.layer_norm(t, (5,), w, b)
    elif name == "batch":
        axes, of = (0, 2), lambda t, w, b: F.batch_norm(t, None, None, w, b, True)
    elif name == "instance":
        axes, of = (2,), lambda t, w, b: F.instance_norm(t, None, None, w, b)
    else:
        axes, of = (2, 3), lambda t, w, b: F.group_norm(t, 2, w, b)
    grouped = x.reshape(3, 2, 2, 5) if name == "group" else x
    mean, var = grouped.mean(axes, keepdims=True), grouped.var(axes, keepdims=True)
    y = ((grouped - mean) / np.sqrt(var + 1e-5)).reshape(x.shape)
    column = (lambda t: t) if name == "layer" else lambda t: t[:, None]
    close(of(*map(flambeau.tensor, (x, w, b))), y * column(w) + column(b))
    gradients_agree(of, x, w, b)


def test_running_moments_follow_the_batch():
    x = draw(6, 2)
    mean, var = flambeau.zeros(2, dtype=flambeau.float64), flambeau.ones(2, dtype=flambeau.float64)
    F.batch_norm(flambeau.tensor(x), mean, var, training=True, momentum=0.25)
    close(mean, 0.25 * x.mean(0))
    close(var, 0.75 + 0.25 * x.var(0, ddof=1))


@pytest.mark.parametrize("p", [0.2, 0.7])
def test_dropout_keeps_the_mean(p):
    flambeau.manual_seed(1)
    out = F.dropout(flambeau.ones(20000), p)
    assert (out == 0).sum().item() / 20000 == pytest.approx(p, abs=0.02)
    assert out.max().item() == pytest.approx(1 / (1 - p))
    channels = F.dropout2d(flambeau.ones(8, 64, 3, 3), p).reshape(512, 9)
    assert bool((channels == channels[:, :1]).all())


@pytest.mark.parametrize("causal", [False, True])
def test_attention_of_half_types_rounds_once(causal):
    q, k, v = (flambeau.randn(2, 3, 8).bfloat16() for _ in range(3))
    found = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    wide = F.scaled_dot_product_attention(q.float(), k.float(), v.float(), is_causal=causal)
    assert found.dtype == flambeau.bfloat16 and found.equal(wide.bfloat16())
    mask = flambeau.zeros(3, 3).bfloat16()
    assert F.scaled_dot_product_attention(q, k, v, mask).equal(F.scaled_dot_product_attention(q, k, v))


def test_batch_norm_of_an_empty_vector():
    assert F.batch_norm(flambeau.ones(0), flambeau.ones(0), flambeau.ones(0), training=True).shape == (0,)
    with pytest.raises(RuntimeError, match="at least 2 dimensions"):
        F.batch_norm(flambeau.ones(3), flambeau.ones(3), flambeau.ones(3))


# ---------------------------------------------------------------- dropout of channels, whatever the rank

CHANNELS = [
    # function, shape, the shape that is drawn for it, what the warning says
    *[("dropout1d", shape, drawn, None) for shape, drawn in [((64, 3), (64, 1)), ((8, 64, 3), (8, 64, 1))]],
    ("dropout2d", (8, 64), (8, 64), "2-D input"),
    ("dropout2d", (8, 64, 3), (8, 64, 1), "3D input"),
    ("dropout2d", (8, 64, 2, 3), (8, 64, 1, 1), None),
    ("dropout2d", (8, 64, 2, 3, 2), (8, 64, 1, 1, 1), "5-D input"),
    ("dropout3d", (64,), (64,), "1-D input"),
    ("dropout3d", (64, 3), (64, 1), "2-D input"),
    ("dropout3d", (64, 3, 2), (64, 1, 1), "3-D input"),
    ("dropout3d", (64, 2, 3, 2), (64, 1, 1, 1), None),
    ("dropout3d", (8, 64, 2, 3, 2), (8, 64, 1, 1, 1), None),
    ("feature_alpha_dropout", (8, 64), (8, 64), None),
]


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("name, shape, drawn, warning", CHANNELS)
def test_channels_are_dropped_as_a_whole(name, shape, drawn, warning, inplace):
    function = getattr(F, name)
    x = flambeau.ones(shape)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        y = function(x, 0.5, True, inplace)
    assert [warning in str(w.message) for w in seen] == ([] if warning is None else [True])
    assert all(w.filename == __file__ for w in seen)
    y = y.numpy()
    lead = y[tuple(slice(0, n) for n in drawn)]
    assert np.array_equal(np.broadcast_to(lead, y.shape), y) and len(np.unique(lead)) == 2
    assert (x.numpy() is not y) and np.array_equal(x.numpy(), y) is inplace


@pytest.mark.parametrize(
    "name, ndim", [("dropout2d", 1), ("dropout2d", 0), ("dropout3d", 0), ("feature_alpha_dropout", 1)]
)
@pytest.mark.filterwarnings("ignore:dropout")
def test_too_few_dimensions_for_channels(name, ndim):
    function, x = getattr(F, name), flambeau.ones((2,) * ndim)
    with pytest.raises(RuntimeError, match="at least 2 dimensions"):
        function(x, 0.5, True)
    assert function(x, 0.5, False) is x and function(x, 0.0, True) is x


@pytest.mark.parametrize("ndim", [1, 4])
def test_dropout1d_refuses_other_ranks(ndim):
    with pytest.raises(RuntimeError, match="Expected 2D or 3D input"):
        F.dropout1d(flambeau.ones((2,) * ndim))


# ---------------------------------------------------------------- reduction, and the two arguments it came from

X, Y = (
    flambeau.tensor([[0.1, 0.2, 0.3], [0.4, 0.5, 0.7]]),
    flambeau.tensor([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]),
)
W = flambeau.tensor([[1.0, 0.0, 2.0], [0.5, 1.0, -1.0], [0.0, 1.0, 1.0]])
SIGNS, CLASSES, LISTED = Y * 2 - 1, flambeau.tensor([0, 2]), flambeau.tensor([[0, -1, 1], [1, 2, -1]])
LOSSES = {
    "binary_cross_entropy": (X, Y),
    "binary_cross_entropy_with_logits": (X, Y),
    "cosine_embedding_loss": (X, Y, flambeau.tensor([1.0, -1.0])),
    "cross_entropy": (X, CLASSES),
    "ctc_loss": (flambeau.zeros(4, 1, 3).log_softmax(2), flambeau.tensor([[1, 2]]), (4,), (2,)),
    "gaussian_nll_loss": (X, Y, X),
    "hinge_embedding_loss": (X, SIGNS),
    "huber_loss": (X, Y),
    "kl_div": (X, Y),
    "l1_loss": (X, Y),
    "linear_cross_entropy": (X, W, CLASSES),
    "margin_ranking_loss": (X, Y, SIGNS),
    "mse_loss": (X, Y),
    "multi_margin_loss": (X, CLASSES),
    "multilabel_margin_loss": (X, LISTED),
    "multilabel_soft_margin_loss": (X, Y),
    "nll_loss": (X, CLASSES),
    "poisson_nll_loss": (X, Y),
    "smooth_l1_loss": (X, Y),
    "soft_margin_loss": (X, SIGNS),
    "triplet_margin_loss": (X, Y, X * 2 + 1),
    "triplet_margin_with_distance_loss": (X, Y, X * 2 + 1),
}


def parameters(name):
    return inspect.signature(getattr(F, name)).parameters


def test_every_loss_is_listed():
    assert sorted(LOSSES) == [
        name for name in F.__all__ if getattr(F, name) is not F.linear and "reduction" in parameters(name)
    ]


@pytest.mark.parametrize("name", LOSSES)
def test_reductions_of_losses(name):
    loss = getattr(F, name)
    each = loss(*LOSSES[name], reduction="none")
    assert each.ndim and loss(*LOSSES[name], reduction="sum").item() == pytest.approx(
        each.sum().item(), rel=1e-5
    )
    with pytest.warns(UserWarning, match="elementwise_mean"):
        assert loss(*LOSSES[name], reduction="elementwise_mean").item() == loss(*LOSSES[name]).item()
    with pytest.raises(ValueError, match="mode is not a valid value for reduction"):
        loss(*LOSSES[name], reduction="mode")


@pytest.mark.parametrize(
    "name", [name for name in LOSSES if "reduce" in parameters(name) or "size_average" in parameters(name)]
)
@pytest.mark.parametrize(
    "size_average, reduce, reduction",
    [
        *(
            (None, True, "mean"),
            (None, False, "none"),
            (True, None, "mean"),
            (False, None, "sum"),
            (0, None, "sum"),
        ),
        *((True, True, "mean"), (True, False, "none"), (False, True, "sum"), (False, False, "none")),
    ],
)
def test_the_deprecated_arguments_of_losses(name, size_average, reduce, reduction):
    loss, given = getattr(F, name), LOSSES[name]
    with pytest.warns(UserWarning, match=f"please use reduction='{reduction}' instead") as seen:
        found = loss(*given, size_average=size_average, reduce=reduce, reduction="sum")
    assert len(seen) == 1 and seen[0].filename == __file__
    assert found.tolist() == loss(*given, reduction=reduction).tolist()


# ---------------------------------------------------------------- other names


def test_functions_that_always_give_places():
    x = flambeau.tensor(np.random.default_rng(0).permutation(2 * 6 * 6 * 6).reshape(1, 2, 6, 6, 6) * 1.0)
    for n in (1, 2, 3):
        y = x[(0,) * (3 - n)]
        for name, arguments in (("adaptive_max_pool", (3,)), ("max_pool", (2,))):
            found = getattr(F, f"{name}{n}d_with_indices")(y, *arguments)
            expected = getattr(F, f"{name}{n}d")(y, *arguments, return_indices=True)
            assert [f.tolist() for f in found] == [e.tolist() for e in expected]
    samples = flambeau.full((2, 1, 2), 0.3, dtype=flambeau.float64)
    found = F.fractional_max_pool2d_with_indices(
        x[0], 2, 3, _random_samples=samples[:, 0].reshape(2, 1, 2).expand(2, 6, 2)
    )
    expected = F.fractional_max_pool2d(
        x[0], 2, 3, return_indices=True, _random_samples=samples[:, 0].reshape(2, 1, 2).expand(2, 6, 2)
    )
    assert [f.tolist() for f in found] == [e.tolist() for e in expected]


def test_convolutions_with_time_first():
    x, w, b = flambeau.rand(5, 2, 3), flambeau.rand(3, 3, 4), flambeau.rand(4)
    expected = F.conv1d(x.permute(1, 2, 0), w.permute(2, 1, 0), b, padding=1).permute(2, 0, 1)
    assert F.conv_tbc(x, w, b, 1).tolist() == expected.tolist() and flambeau.conv_tbc is F.conv_tbc
    for arguments in ((x, w[0], b), (x[0], w, b), (x, w, b[:2]), (x, w[:, :2], b), (x, w, b, -1)):
        with pytest.raises(RuntimeError, match="conv_tbc"):
            F.conv_tbc(*arguments)


def test_rrelu_in_place():
    x = flambeau.tensor([-1.0, 2.0])
    assert F.rrelu_(x, 0.25, 0.75) is x and x.tolist() == [-0.5, 2.0]
    x = flambeau.full((100,), -1.0)
    assert F.rrelu_(x, training=True) is x and x.min() >= -1 / 3 and x.max() <= -1 / 8 and x.min() != x.max()
    assert F.native_channel_shuffle is F.channel_shuffle


def test_activations_show_their_parameters():
    assert list(inspect.signature(F.hardtanh).parameters) == ["input", "min_val", "max_val", "inplace"]
    x = flambeau.tensor([-1.0, 2.0])
    assert F.hardtanh(x, -0.5, 0.5, True) is x and x.tolist() == [-0.5, 0.5]
    with pytest.raises(TypeError, match=r"elu\(\) takes from 1 to 3 positional arguments but 4 were given"):
        F.elu(x, 1.0, False, 3)
    with pytest.raises(TypeError, match="unexpected keyword argument 'alfa'"):
        F.elu(x, alfa=1.0)


@pytest.mark.parametrize("kind", ["float32", "float64", "bfloat16", "float16"])
@pytest.mark.parametrize("shape, dim", [((3, 8), -1), ((4, 5, 6), 0), ((2, 6, 0), 1), ((700, 200), 1)])
def test_glu_is_rounded_once(shape, dim, kind):
    """One kernel, so that halves are rounded at its end; both gradients by formula."""
    dtype = getattr(flambeau, kind)
    x = flambeau.tensor(np.random.default_rng(3).standard_normal(shape) * 4).to(dtype).requires_grad_()
    out = flambeau.nn.functional.glu(x, dim)
    a, b = np.split(x.detach().double().numpy(), 2, dim)
    s = 1 / (1 + np.exp(-b))
    eps = {"float64": 1e-15, "float32": 3e-7, "bfloat16": 2.0**-8, "float16": 2.0**-11}[kind]
    np.testing.assert_allclose(out.detach().double().numpy(), a * s, rtol=eps * 1.1, atol=1e-7)
    out.sum().backward()
    expected = np.concatenate([s, a * s * (1 - s)], dim)
    np.testing.assert_allclose(x.grad.double().numpy(), expected, rtol=4 * eps, atol=4 * eps)
    if out.numel() > 10:
        assert type(out.grad_fn).__name__ == "GluBackward0"
        y = x.detach().clone()
        y[0, 0] = float("nan")
        assert flambeau.nn.functional.glu(y, dim).isnan().any()
