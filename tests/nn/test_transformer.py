"""Multi-head attention and the transformer against their formulas in NumPy."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest

import flambeau
from flambeau import nn

RNG = np.random.default_rng(0)
E, HEADS, N, L, S = 8, 2, 3, 4, 5
Q = RNG.standard_normal((L, N, E)).astype(np.float32)
K = RNG.standard_normal((S, N, E)).astype(np.float32)
V = RNG.standard_normal((S, N, E)).astype(np.float32)
PADDING = np.zeros((N, S), bool)
PADDING[1, 3:] = True
MASK = np.triu(np.ones((L, S), bool), 2)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def split(x):
    """(place, batch, feature) to (batch, head, place, feature of the head)"""
    return x.reshape(len(x), -1, HEADS, E // HEADS).transpose(1, 2, 0, 3)


def attention(module, q, k, v, added=0.0):
    """Output (L, N, E) and weights (N, head, L, S); `added` goes to the scores."""
    w = {name: value.detach().numpy() for name, value in module.state_dict().items()}
    weights = np.split(w["in_proj_weight"], 3)
    biases = np.split(w.get("in_proj_bias", np.zeros(3 * E)), 3)
    q, k, v = (split(x @ weight.T + bias) for x, weight, bias in zip((q, k, v), weights, biases, strict=True))
    p = softmax(q @ k.transpose(0, 1, 3, 2) / np.sqrt(E // HEADS) + added)
    joined = (p @ v).transpose(2, 0, 1, 3).reshape(-1, q.shape[0], E)
    return joined @ w["out_proj.weight"].T + w.get("out_proj.bias", 0), p


def run(module, *arrays, **options):
    options = {k: flambeau.tensor(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}
    output, weights = module(*(flambeau.tensor(a) for a in arrays), **options)
    return output.detach().numpy(), None if weights is None else weights.detach().numpy()


@pytest.fixture(autouse=True)
def seed():
    flambeau.manual_seed(0)


def additive(mask):
    return np.where(mask, -np.inf, 0).astype(np.float32)


def test_attention():
    module = nn.MultiheadAttention(E, HEADS)
    with flambeau.no_grad():
        module.in_proj_bias.normal_()
    expected, weights = attention(module, Q, K, V)
    output, mean = run(module, Q, K, V)
    assert np.allclose(output, expected, atol=1e-5) and np.allclose(mean, weights.mean(1), atol=1e-6)
    assert np.allclose(run(module, Q, K, V, average_attn_weights=False)[1], weights, atol=1e-6)
    assert run(module, Q, K, V, need_weights=False)[1] is None
    x = flambeau.tensor(K)
    output, _ = module(x, x, x)
    assert np.allclose(output.detach().numpy(), attention(module, K, K, K)[0], atol=1e-5)


def test_attention_layouts():
    module = nn.MultiheadAttention(E, HEADS, batch_first=True, bias=False)
    expected, weights = attention(module, Q, K, V)
    output, mean = run(module, *(x.transpose(1, 0, 2).copy() for x in (Q, K, V)))
    assert np.allclose(output, expected.transpose(1, 0, 2), atol=1e-5)
    assert np.allclose(mean, weights.mean(1), atol=1e-6)
    for batch_first in (True, False):
        module.batch_first = batch_first
        output, mean = run(module, *(x[:, 1].copy() for x in (Q, K, V)), key_padding_mask=PADDING[1])
        wanted, weights = attention(module, Q[:, 1:2], K[:, 1:2], V[:, 1:2], additive(PADDING[1]))
        assert np.allclose(output, wanted[:, 0], atol=1e-5) and np.allclose(
            mean, weights[0].mean(0), atol=1e-6
        )


def test_attention_masks():
    module = nn.MultiheadAttention(E, HEADS)
    both = additive(MASK) + additive(PADDING)[:, None, None, :]
    expected, weights = attention(module, Q, K, V, both)
    for masks in (
        {"attn_mask": MASK, "key_padding_mask": PADDING},
        {"attn_mask": additive(MASK), "key_padding_mask": additive(PADDING)},
    ):
        output, mean = run(module, Q, K, V, **masks)
        assert np.allclose(output, expected, atol=1e-5) and np.allclose(mean, weights.mean(1), atol=1e-6)
    assert (weights[1, :, :, 3:] == 0).all()
    scores = RNG.standard_normal((N, HEADS, L, S)).astype(np.float32)
    output, _ = run(module, Q, K, V, attn_mask=scores.reshape(N * HEADS, L, S))
    assert np.allclose(output, attention(module, Q, K, V, scores)[0], atol=1e-5)


def test_attention_with_other_sizes_and_added_keys():
    module = nn.MultiheadAttention(E, HEADS, kdim=3, vdim=5, add_bias_kv=True, add_zero_attn=True)
    assert list(module.state_dict()) == [
        *["q_proj_weight", "k_proj_weight", "v_proj_weight"],
        *["in_proj_bias", "bias_k", "bias_v", "out_proj.weight", "out_proj.bias"],
    ]
    w = {name: value.numpy() for name, value in module.state_dict().items()}
    k = np.concatenate([K[..., :3] @ w["k_proj_weight"].T, w["bias_k"].repeat(N, 1), np.zeros((1, N, E))])
    v = np.concatenate([V[..., :5] @ w["v_proj_weight"].T, w["bias_v"].repeat(N, 1), np.zeros((1, N, E))])
    scores = split(Q @ w["q_proj_weight"].T) @ split(k).transpose(0, 1, 3, 2) / np.sqrt(E // HEADS)
    scores += np.concatenate([additive(PADDING), np.zeros((N, 2))], 1)[:, None, None, :]
    expected = (softmax(scores) @ split(v)).transpose(2, 0, 1, 3).reshape(L, N, E) @ w["out_proj.weight"].T
    output, weights = run(module, Q, K[..., :3].copy(), V[..., :5].copy(), key_padding_mask=PADDING)
    assert np.allclose(output, expected, atol=1e-5) and weights.shape == (N, L, S + 2)


def test_attention_initial_values():
    module = nn.MultiheadAttention(64, 4)
    bound = np.sqrt(6 / (4 * 64))
    weight = module.in_proj_weight.detach().numpy()
    assert 0.99 * bound < np.abs(weight).max() <= bound * (1 + 1e-6)
    assert (module.in_proj_bias.detach().numpy() == 0).all()
    assert (module.out_proj.bias.detach().numpy() == 0).all()


def test_attention_errors():
    for options, error, message in (
        (
            (0, 1),
            ValueError,
            "embed_dim and num_heads must be greater than 0, got embed_dim=0 and num_heads=1",
        ),
        ((8, 3), AssertionError, "embed_dim must be divisible by num_heads"),
    ):
        with pytest.raises(error, match=message):
            nn.MultiheadAttention(*options)
    module = nn.MultiheadAttention(E, HEADS)
    q, k, v = (flambeau.tensor(x) for x in (Q, K, V))
    bad = flambeau.zeros(L, L)
    for args, options, error, message in (
        (
            (q[0, 0], k, v),
            {},
            AssertionError,
            "query should be unbatched 2D or batched 3D tensor but received 1-D",
        ),
        ((q, k[0], v), {}, AssertionError, "expected `key` and `value` to be 3-D but found 2-D and 3-D"),
        ((q[..., :4], k, v), {}, AssertionError, "was expecting embedding dimension of 8, but got 4"),
        ((q, k, v[:3]), {}, AssertionError, "do not match value's"),
        (
            (q, k, v),
            {"attn_mask": bad},
            RuntimeError,
            r"The shape of the 2D attn_mask is .* should be \(4, 5\)",
        ),
        ((q, k, v), {"attn_mask": bad[0]}, AssertionError, "2-D or 3-D but found 1-D tensor instead"),
        (
            (q, k, v),
            {"key_padding_mask": bad},
            AssertionError,
            r"key_padded_mask.shape\[0\] to be 3, but got 4",
        ),
        ((q, k, v), {"key_padding_mask": bad[0]}, AssertionError, "`None` or 2-D but found 1-D"),
        (
            (q, k, v),
            {"attn_mask": flambeau.tensor(MASK).long()},
            AssertionError,
            "only bool and floating types",
        ),
        ((q, k, v), {"is_causal": True}, RuntimeError, "Need attn_mask if specifying the is_causal hint"),
    ):
        with pytest.raises(error, match=message):
            module(*args, **options)


def normed(module, x):
    w, b = module.weight.detach().numpy(), 0 if module.bias is None else module.bias.detach().numpy()
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + module.eps) * w + b


def linear(module, x):
    return x @ module.weight.detach().numpy().T + (0 if module.bias is None else module.bias.detach().numpy())


def feed_forward(layer, x):
    return linear(layer.linear2, np.maximum(linear(layer.linear1, x), 0))


def encoder_layer(layer, x, added=0.0):
    if layer.norm_first:
        y = normed(layer.norm1, x)
        x = x + attention(layer.self_attn, y, y, y, added)[0]
        return x + feed_forward(layer, normed(layer.norm2, x))
    x = normed(layer.norm1, x + attention(layer.self_attn, x, x, x, added)[0])
    return normed(layer.norm2, x + feed_forward(layer, x))


def decoder_layer(layer, x, memory, added=0.0):
    if layer.norm_first:
        y = normed(layer.norm1, x)
        x = x + attention(layer.self_attn, y, y, y, added)[0]
        x = x + attention(layer.multihead_attn, normed(layer.norm2, x), memory, memory)[0]
        return x + feed_forward(layer, normed(layer.norm3, x))
    x = normed(layer.norm1, x + attention(layer.self_attn, x, x, x, added)[0])
    x = normed(layer.norm2, x + attention(layer.multihead_attn, x, memory, memory)[0])
    return normed(layer.norm3, x + feed_forward(layer, x))


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_layers(norm_first, bias):
    layer = nn.TransformerEncoderLayer(E, HEADS, 16, dropout=0.0, norm_first=norm_first, bias=bias)
    out = layer(flambeau.tensor(K), src_key_padding_mask=flambeau.tensor(PADDING)).detach().numpy()
    assert np.allclose(out, encoder_layer(layer, K, additive(PADDING)[:, None, None, :]), atol=1e-5)
    layer = nn.TransformerDecoderLayer(E, HEADS, 16, dropout=0.0, norm_first=norm_first, bias=bias)
    causal = nn.Transformer.generate_square_subsequent_mask(L)
    out = layer(flambeau.tensor(Q), flambeau.tensor(K), tgt_mask=causal).detach().numpy()
    assert np.allclose(out, decoder_layer(layer, Q, K, causal.numpy()), atol=1e-5)


def test_causal_mask():
    mask = nn.Transformer.generate_square_subsequent_mask(3, dtype=flambeau.float64)
    assert mask.dtype == flambeau.float64
    assert (mask.numpy() == np.where(np.triu(np.ones((3, 3)), 1), -np.inf, 0)).all()


@pytest.mark.parametrize("batch_first", [False, True])
def test_transformer(batch_first):
    model = nn.Transformer(E, HEADS, 2, 2, 16, dropout=0.0, batch_first=batch_first)
    causal = nn.Transformer.generate_square_subsequent_mask(L)
    inputs = [flambeau.tensor(x) for x in (K, Q)]
    if batch_first:
        inputs = [x.transpose(0, 1) for x in inputs]
    out = model(*inputs, tgt_mask=causal, tgt_is_causal=True).detach()
    memory, expected = K, Q
    for layer in model.encoder.layers:
        memory = encoder_layer(layer, memory)
    memory = normed(model.encoder.norm, memory)
    for layer in model.decoder.layers:
        expected = decoder_layer(layer, expected, memory, causal.numpy())
    expected = normed(model.decoder.norm, expected)
    assert np.allclose((out.transpose(0, 1) if batch_first else out).numpy(), expected, atol=1e-4)


def test_stacks_copy_their_layer():
    layer = nn.TransformerEncoderLayer(E, HEADS, 16)
    stack = nn.TransformerEncoder(layer, 3)
    weights = [one.linear1.weight for one in stack.layers]
    assert len({id(w) for w in weights}) == 3 and all(
        flambeau.equal(w, layer.linear1.weight) for w in weights
    )
    assert copy.deepcopy(stack).state_dict().keys() == stack.state_dict().keys()
    assert repr(stack).splitlines()[2] == "    (0-2): 3 x TransformerEncoderLayer("


def test_dropout_and_activation():
    layer = nn.TransformerEncoderLayer(E, HEADS, 16, dropout=0.9, activation="gelu")
    x = flambeau.tensor(K)
    assert not flambeau.equal(layer(x), layer(x))
    layer.eval()
    assert flambeau.equal(layer(x), layer(x))
    squared = nn.TransformerEncoderLayer(E, HEADS, 16, activation=lambda x: x * x)
    assert squared.activation(3) == 9
    with pytest.raises(RuntimeError, match="activation should be relu/gelu, not tanh"):
        nn.TransformerEncoderLayer(E, HEADS, 16, activation="tanh")


def test_transformer_errors():
    model = nn.Transformer(E, HEADS, 1, 1, 16)
    with pytest.raises(RuntimeError, match="the batch number of src and tgt must be equal"):
        model(flambeau.zeros(5, 2, E), flambeau.zeros(4, 3, E))
    with pytest.raises(RuntimeError, match="the feature number of src and tgt must be equal to d_model"):
        model(flambeau.zeros(5, 2, E), flambeau.zeros(4, 2, E + 1))


def test_encoder_layers_say_what_pytorchs_fused_kernel_would_take():
    Layer = lambda **options: nn.TransformerEncoderLayer(8, 2, 16, **{"batch_first": True} | options)
    kinds = ["relu", nn.functional.relu, nn.ReLU(), "gelu", nn.functional.gelu, nn.GELU(), flambeau.tanh]
    assert [Layer(activation=kind).activation_relu_or_gelu for kind in kinds] == [1, 1, 1, 2, 2, 2, 0]
    takes = lambda layer, **flags: nn.TransformerEncoder(layer, 1, **flags).use_nested_tensor
    assert takes(Layer()) is True and takes(Layer(), enable_nested_tensor=False) is False
    others = [
        dict(batch_first=False),
        dict(norm_first=True),
        dict(bias=False),
        dict(activation=flambeau.tanh),
    ]
    assert not any(takes(Layer(**options)) for options in others)
    odd = nn.TransformerEncoderLayer(9, 3, 16, batch_first=True)
    assert takes(odd) is False and takes(nn.Linear(8, 8)) is False


def test_the_output_projection_is_named_as_in_pytorch():
    attention = nn.MultiheadAttention(8, 2)
    assert repr(attention) == (
        "MultiheadAttention(\n  (out_proj): NonDynamicallyQuantizableLinear(in_features=8, out_features=8, bias=True)\n)"
    )
    assert isinstance(attention.out_proj, nn.Linear)


def test_padded_places_are_zeros_where_pytorch_cuts_them_off():
    """In evaluation without gradients, for masks at the ends and no other mask; elsewhere they are computed like all others."""
    layer = nn.TransformerEncoderLayer(E, HEADS, 16, dropout=0.0, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(E))
    x = flambeau.randn(2, 5, E)
    ends = flambeau.arange(5) >= flambeau.tensor([[5], [2]])
    gaps = ends.clone()
    gaps[1, 0] = True
    added = flambeau.zeros(2, 5).masked_fill(ends, -math.inf)
    nothing = encoder.norm(flambeau.zeros(3, E)).detach()
    every = encoder(x, src_key_padding_mask=ends).detach()

    def cut(padding, call=encoder, **options):
        found = call(x, src_key_padding_mask=padding, **options).detach()
        if padding is not gaps:
            assert found[~ends].allclose(every[~ends], atol=1e-6)
        zeros = found[1, 2:].equal(nothing)
        assert zeros or padding is gaps or found.allclose(every, atol=1e-6)
        return zeros

    assert not cut(ends)
    encoder.eval()
    assert not cut(ends)
    with flambeau.no_grad():
        assert cut(ends) and cut(added) and not cut(gaps)
        assert not cut(ends, mask=flambeau.zeros(5, 5, dtype=flambeau.bool))
        assert not cut(ends, flambeau.compile(encoder))
        assert encoder(x[1], src_key_padding_mask=ends[1]).allclose(every[1], atol=1e-6)
        one_by_one = flambeau.vmap(
            lambda x, p: encoder(x.unsqueeze(0), src_key_padding_mask=p.unsqueeze(0)).squeeze(0)
        )
        assert one_by_one(x, ends).allclose(every, atol=1e-6)
        flambeau.backends.mha.set_fastpath_enabled(False)
        assert not cut(ends)
        flambeau.backends.mha.set_fastpath_enabled(True)
    encoder.requires_grad_(False)
    assert cut(ends)
    encoder.use_nested_tensor = False
    assert not cut(ends)
