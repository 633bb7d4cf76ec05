"""Weight norm and spectral norm, newer and older, and orthogonal matrices: values by their definitions, names in files."""

from __future__ import annotations

import copy
import itertools
import warnings

import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.nn import utils
from flambeau.nn.utils import parametrizations as N
from flambeau.nn.utils import parametrize as P
from flambeau.nn.utils import prune

FLOAT64 = {"dtype": flambeau.float64}
LAYERS = {
    "Linear": (lambda: nn.Linear(3, 4, **FLOAT64), (2, 3)),
    "Conv2d": (lambda: nn.Conv2d(2, 4, 3, **FLOAT64), (2, 2, 5, 5)),
    "ConvTranspose1d": (lambda: nn.ConvTranspose1d(2, 4, 3, **FLOAT64), (2, 2, 5)),
}


def old_weight_norm(*args, **kwargs):
    with pytest.warns(FutureWarning, match="deprecated in favor of `nn.utils.parametrizations.weight_norm`"):
        return utils.weight_norm(*args, **kwargs)


def lengths(array, dim):
    if dim in (None, -1):
        return np.sqrt((array**2).sum())
    return np.sqrt(
        (array**2).sum(tuple(d for d in range(array.ndim) if d != dim % array.ndim), keepdims=True)
    )


# ---------------------------------------------------------------- names in files

# Names and shapes in state_dict as PyTorch 2.13 has them.
KEYS = {
    "weight_norm": "bias 3 | parametrizations.weight.original0 3 1 | parametrizations.weight.original1 3 2",
    "weight_norm of bias": "weight 3 2 | parametrizations.bias.original0 3 | parametrizations.bias.original1 3",
    "weight_norm of both": "parametrizations.weight.original0 3 1 1 | parametrizations.weight.original1 3 2 2"
    " | parametrizations.bias.original0 | parametrizations.bias.original1 3",
    "spectral_norm": "bias 3 | parametrizations.weight.original 3 2 1 1 | parametrizations.weight.0._u 3"
    " | parametrizations.weight.0._v 2",
    "spectral_norm of a vector": "bias 3 | parametrizations.weight.original 3",
    "orthogonal": "bias 3 | parametrizations.weight.original 3 2 | parametrizations.weight.0.base 3 3",
    "orthogonal without base": "bias 3 | parametrizations.weight.original 3 2",
    "two": "bias 3 | parametrizations.weight.original 3 2 | parametrizations.weight.1._u 3"
    " | parametrizations.weight.1._v 2",
    "inside": "0.weight 2 2 | 0.bias 2 | 1.parametrizations.weight.original0 3 1"
    " | 1.parametrizations.weight.original1 3 2",
    "lstm": "weight_ih_l0 8 2 | bias_ih_l0 8 | bias_hh_l0 8 | parametrizations.weight_hh_l0.original 8 2"
    " | parametrizations.weight_hh_l0.0.base 8 8",
    "old weight_norm": "bias 3 | weight_g 3 1 | weight_v 3 2",
    "old weight_norm lstm": "weight_ih_l0 8 2 | bias_ih_l0 8 | bias_hh_l0 8 | weight_hh_l0_g 8 1 | weight_hh_l0_v 8 2",
    "old spectral_norm": "bias 3 | weight_orig 3 2 | weight_u 3 | weight_v 2",
    "pruned": "bias 3 | weight_orig 3 2 | weight_mask 3 2",
    "pruned both": "bias_orig 3 | weight_orig 3 2 | bias_mask 3 | weight_mask 3 2",
    "pruned twice": "bias 3 | weight_orig 3 2 | weight_mask 3 2",
}


class Double(nn.Module):
    def forward(self, x):
        return 2 * x


MAKERS = {
    "weight_norm": lambda: N.weight_norm(nn.Linear(2, 3)),
    "weight_norm of bias": lambda: N.weight_norm(nn.Linear(2, 3), "bias"),
    "weight_norm of both": lambda: N.weight_norm(N.weight_norm(nn.Conv1d(2, 3, 2)), "bias", None),
    "spectral_norm": lambda: N.spectral_norm(nn.Conv2d(2, 3, 1)),
    "spectral_norm of a vector": lambda: N.spectral_norm(nn.LayerNorm(3)),
    "orthogonal": lambda: N.orthogonal(nn.Linear(2, 3)),
    "orthogonal without base": lambda: N.orthogonal(nn.Linear(2, 3), use_trivialization=False),
    "two": lambda: N.spectral_norm(P.register_parametrization(nn.Linear(2, 3), "weight", Double())),
    "inside": lambda: nn.Sequential(nn.Linear(2, 2), N.weight_norm(nn.Linear(2, 3, bias=False))),
    "lstm": lambda: N.orthogonal(nn.LSTM(2, 2), "weight_hh_l0"),
    "old weight_norm": lambda: old_weight_norm(nn.Linear(2, 3)),
    "old weight_norm lstm": lambda: old_weight_norm(nn.LSTM(2, 2), "weight_hh_l0"),
    "old spectral_norm": lambda: utils.spectral_norm(nn.Linear(2, 3)),
    "pruned": lambda: prune.l1_unstructured(nn.Linear(2, 3), "weight", 1),
    "pruned both": lambda: prune.random_structured(prune.identity(nn.Linear(2, 3), "bias"), "weight", 1, 0),
    "pruned twice": lambda: prune.identity(prune.identity(nn.Linear(2, 3), "weight"), "weight"),
}


@pytest.mark.parametrize("name", KEYS)
def test_names_in_state_dicts_are_pytorchs(name):
    state = MAKERS[name]().state_dict()
    assert " | ".join(" ".join([key, *map(str, value.shape)]) for key, value in state.items()) == KEYS[name]
    other = MAKERS[name]()
    assert other.load_state_dict(state) == ([], [])
    assert all(value.equal(state[key]) for key, value in other.state_dict().items())


# ---------------------------------------------------------------- weight norm


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("dim", [None, 0, 1, -1, -2])
def test_weight_norm(kind, dim):
    make, shape = LAYERS[kind]
    plain = make()
    w, x = plain.weight.detach().numpy().copy(), flambeau.rand(*shape, **FLOAT64)
    new, old = N.weight_norm(copy.deepcopy(plain), dim=dim), old_weight_norm(copy.deepcopy(plain), dim=dim)
    g, v = new.parametrizations.weight.original0, new.parametrizations.weight.original1
    assert np.allclose(g.detach().numpy(), lengths(w, dim)) and v.detach().numpy().tolist() == w.tolist()
    assert g.shape == old.weight_g.shape and old.weight_v.equal(v)
    for module in (new, old):
        assert flambeau.allclose(module(x), plain(x))
    with flambeau.no_grad():
        for length in (g, old.weight_g):
            length.mul_(3)
        for direction in (v, old.weight_v):
            direction.add_(0.5)
    wanted = 3 * lengths(w, dim) * (w + 0.5) / lengths(w + 0.5, dim)
    assert np.allclose(new.weight.detach().numpy(), wanted)
    new(x).square().sum().backward()
    old(x).square().sum().backward()
    assert np.allclose(old.weight.detach().numpy(), wanted)
    assert flambeau.allclose(old.weight_g.grad, g.grad) and flambeau.allclose(old.weight_v.grad, v.grad)
    assert flambeau.autograd.gradcheck(new.parametrizations.weight[0], (g, v))
    P.remove_parametrizations(new, "weight")
    assert utils.remove_weight_norm(old) is old and not old._forward_pre_hooks
    for module in (new, old):
        assert np.allclose(module.weight.detach().numpy(), wanted) and isinstance(module.weight, nn.Parameter)
        assert set(dict(module.named_parameters())) == {"weight", "bias"}


def test_files_of_the_older_weight_norm_are_read():
    old, new = old_weight_norm(nn.Linear(2, 3)), N.weight_norm(nn.Linear(2, 3))
    assert new.load_state_dict(old.state_dict()) == ([], [])
    assert new.weight.equal(old.weight)
    outer = nn.Sequential(N.weight_norm(nn.Linear(2, 3)))
    outer.load_state_dict(nn.Sequential(old).state_dict())
    assert outer[0].weight.equal(old.weight)
    assert copy.deepcopy(new).load_state_dict(old.state_dict()) == ([], [])


def test_bad_weight_norms():
    layer = old_weight_norm(nn.Linear(2, 3))
    with pytest.raises(
        RuntimeError, match="Cannot register two weight_norm hooks on the same parameter weight"
    ):
        old_weight_norm(layer)
    with pytest.raises(ValueError, match="weight_norm of 'bias' not found in"):
        utils.remove_weight_norm(layer, "bias")
    plain = nn.Linear(2, 3)
    with pytest.raises(AttributeError, match="nope"):
        old_weight_norm(plain, "nope")
    with pytest.raises(ValueError, match="with name 'nope'"):
        N.weight_norm(plain, "nope")
    for function in (N.weight_norm, old_weight_norm):
        with pytest.raises(
            IndexError, match=r"Dimension out of range \(expected to be in range of \[-2, 1\]"
        ):
            function(plain, dim=2)
    assert list(plain.state_dict()) == ["weight", "bias"] and type(plain) is nn.Linear


# ---------------------------------------------------------------- spectral norm


def as_matrix(array, dim):
    return np.moveaxis(array, dim, 0).reshape(array.shape[dim], -1)


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("function", [N.spectral_norm, utils.spectral_norm], ids=["new", "old"])
@pytest.mark.parametrize("dim", [None, 0, 1])
def test_spectral_norm(kind, function, dim):
    flambeau.manual_seed(0)
    make, shape = LAYERS[kind]
    layer = make()
    w, x = layer.weight.detach().numpy().copy(), flambeau.rand(*shape, **FLOAT64)
    rows = (1 if kind.startswith("ConvT") else 0) if dim is None else dim
    sigma = np.linalg.svd(as_matrix(w, rows), compute_uv=False)[0]
    assert function(layer, n_power_iterations=60, dim=dim) is layer
    for _ in range(5):
        layer(x)
    assert np.allclose(layer.weight.detach().numpy(), w / sigma, rtol=1e-4)
    u, v = [b for name, b in layer.named_buffers() if name.endswith(("_u", "_v"))]
    before = u.clone(), v.clone()
    layer.eval()(x)
    assert u.equal(before[0]) and v.equal(before[1])  # evaluation leaves them
    if function is N.spectral_norm:
        P.remove_parametrizations(layer.eval(), "weight")
    else:
        utils.remove_spectral_norm(layer)
        assert not (layer._forward_pre_hooks or layer._state_dict_hooks or layer._load_state_dict_pre_hooks)
    assert np.allclose(layer.weight.detach().numpy(), w / sigma, rtol=1e-4) and list(layer.state_dict())[
        -1:
    ] == ["weight"]


@pytest.mark.parametrize("function", [N.spectral_norm, utils.spectral_norm], ids=["new", "old"])
def test_the_power_method_step_by_step(function):
    """One step a call, from the vectors that there are, and two calls before one backward pass."""
    layer = function(nn.Linear(3, 4, **FLOAT64))
    original = dict(layer.named_parameters())
    weight = next(p for name, p in original.items() if name.endswith(("original", "_orig")))
    u, v = [b for name, b in layer.named_buffers() if name.endswith(("_u", "_v"))]
    a, b, w = u.numpy().copy(), v.numpy().copy(), weight.detach().numpy()
    outputs = []
    for _ in range(2):
        outputs.append(layer(flambeau.eye(3, **FLOAT64)))
        if function is N.spectral_norm:
            a = w @ b / np.linalg.norm(w @ b)
            b = w.T @ a / np.linalg.norm(w.T @ a)
        else:
            b = w.T @ a / np.linalg.norm(w.T @ a)
            a = w @ b / np.linalg.norm(w @ b)
        assert np.allclose(u.numpy(), a) and np.allclose(v.numpy(), b)
        assert np.allclose((outputs[-1] - layer.bias).detach().numpy(), w.T / (a @ w @ b))
    (outputs[0] - 2 * outputs[1]).sum().backward()
    assert bool(weight.grad.isfinite().all())


def test_spectral_norm_of_a_vector():
    layer = nn.LayerNorm(3, **FLOAT64)
    N.spectral_norm(layer)
    assert flambeau.allclose(layer.weight, flambeau.ones(3, **FLOAT64) / 3**0.5)


def test_files_of_version_0_have_no_v():
    """u = W v / |W v| and u · W v = σ give a v, where the file has the weight itself."""
    layer = utils.spectral_norm(nn.Linear(3, 4, **FLOAT64))
    layer(flambeau.ones(2, 3, **FLOAT64))
    state = layer.state_dict()
    assert state._metadata[""]["spectral_norm"] == {"weight.version": 1}
    wanted = layer.weight.detach().clone()
    older = {
        "bias": state["bias"],
        "weight": wanted,
        "weight_orig": state["weight_orig"],
        "weight_u": state["weight_u"],
    }
    other = utils.spectral_norm(nn.Linear(3, 4, **FLOAT64)).eval()
    assert other.load_state_dict(older) == ([], [])
    other(flambeau.ones(2, 3, **FLOAT64))
    assert flambeau.allclose(other.weight, wanted)
    del older["weight_u"]
    with pytest.raises(RuntimeError, match='Missing key.*"weight_u"'):
        other.load_state_dict(older)
    plain = {key: value for key, value in state.items()}  # without the note of its version
    assert other.load_state_dict(plain) == ([], [])


def test_bad_spectral_norms():
    layer = nn.Linear(2, 3)
    for function in (N.spectral_norm, utils.spectral_norm):
        with pytest.raises(
            ValueError, match="n_power_iterations to be positive, but got n_power_iterations=0"
        ):
            function(layer, n_power_iterations=0)
        with pytest.raises(IndexError, match="Dimension out of range"):
            function(layer, dim=2)
    with pytest.raises(ValueError, match="no parameter or buffer with name 'nope'"):
        N.spectral_norm(layer, "nope")
    with pytest.raises(KeyError):
        utils.spectral_norm(layer, "nope")
    with pytest.raises(ValueError, match="cannot be applied as parameter `bias` is None"):
        utils.spectral_norm(nn.Linear(2, 3, bias=False), "bias")
    with pytest.raises(ValueError, match="spectral_norm of 'weight' not found in"):
        utils.remove_spectral_norm(layer)
    assert list(layer.state_dict()) == ["weight", "bias"]
    utils.spectral_norm(layer)
    with pytest.raises(RuntimeError, match="Cannot register two spectral_norm hooks on the same parameter"):
        utils.spectral_norm(layer)


# ---------------------------------------------------------------- orthogonal matrices


def is_orthogonal(matrix):
    tall = matrix if matrix.shape[-2] >= matrix.shape[-1] else np.swapaxes(matrix, -1, -2)
    return np.allclose(np.swapaxes(tall.conj(), -1, -2) @ tall, np.eye(tall.shape[-1]), atol=1e-10)


SHAPES = [(3, 3), (5, 3), (2, 4), (2, 4, 3), (2, 3, 3), (1, 1)]
MAPS = [
    (dtype, name)
    for dtype in (flambeau.float64, flambeau.complex128)
    for name in (None, "matrix_exp", "cayley", "householder")
    if not (dtype.is_complex and name == "householder")
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype, orthogonal_map", MAPS, ids=str)
@pytest.mark.parametrize("trivial", [True, False])
def test_orthogonal(shape, dtype, orthogonal_map, trivial):
    flambeau.manual_seed(1)
    module = nn.Module()
    module.weight = nn.Parameter(flambeau.randn(shape, dtype=dtype))
    N.orthogonal(module, orthogonal_map=orthogonal_map, use_trivialization=trivial)
    assert module.weight.shape == shape and is_orthogonal(module.weight.detach().numpy())
    target = flambeau.randn(shape, dtype=dtype)
    optimizer = flambeau.optim.SGD(module.parameters(), lr=0.05)
    found = []
    for _ in range(8):
        optimizer.zero_grad()
        loss = (module.weight - target).abs().square().sum()
        loss.backward()
        optimizer.step()
        found.append(float(loss.detach()))
        assert is_orthogonal(module.weight.detach().numpy())
    assert min(found[1:]) < found[0] or shape == (1, 1)
    kind = module.parametrizations.weight[0].orthogonal_map.name
    if (
        trivial or kind == "householder"
    ):  # any matrix may be assigned, and one that is orthogonal stays itself
        q = np.linalg.qr(target.numpy() if shape[-2] >= shape[-1] else target.mT.numpy())[0]
        q = flambeau.tensor(q if shape[-2] >= shape[-1] else np.swapaxes(q, -1, -2).copy())
        module.weight = q
        assert flambeau.allclose(module.weight, q)
        module.weight = target
        assert is_orthogonal(module.weight.detach().numpy())
    else:
        with pytest.raises(NotImplementedError, match="when use_trivialization=False"):
            module.weight = target


def test_orthogonal_maps_are_their_formulas():
    x = np.tril(np.random.default_rng(0).standard_normal((3, 3)))
    a = x - x.T
    import scipy.linalg

    for name, wanted in (
        ("matrix_exp", scipy.linalg.expm(a)),
        ("cayley", np.linalg.solve(np.eye(3) - a / 2, np.eye(3) + a / 2)),
    ):
        layer = N.orthogonal(nn.Linear(3, 3, **FLOAT64), orthogonal_map=name, use_trivialization=False)
        layer.parametrizations.weight.original.data = flambeau.tensor(x)
        assert np.allclose(layer.weight.detach().numpy(), wanted)
        assert flambeau.autograd.gradcheck(
            layer.parametrizations.weight[0], layer.parametrizations.weight.original
        )


def test_bad_orthogonal_matrices():
    layer = nn.Linear(2, 3)
    for call, message in (
        (lambda: N.orthogonal(layer, "nope"), "no parameter or buffer with name 'nope'"),
        (lambda: N.orthogonal(layer, "bias"), "Got a tensor of 1 dimensions"),
        (lambda: N.orthogonal(layer, orthogonal_map="qr"), "has to be one of .* Got: qr"),
        (
            lambda: N.orthogonal(nn.Linear(2, 2, dtype=flambeau.complex64), orthogonal_map="householder"),
            "does not support complex tensors",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    N.orthogonal(layer)
    with pytest.raises(ValueError, match=r"of shape .*\[3, 2\].*Got a tensor of shape .*\[2, 2\]"):
        layer.weight = flambeau.eye(2)


def test_copies_keep_their_vectors_apart():
    """Also of the older hooks, whose weight is a tensor with a history until it is made a plain one."""
    for make in (N.weight_norm, N.spectral_norm, N.orthogonal):
        layer = make(nn.Linear(2, 3))
        copied = copy.deepcopy(layer).eval()
        assert copied.weight.equal(layer.eval().weight)
        originals = itertools.chain(layer.parameters(), layer.buffers())
        assert {t.data_ptr() for t in originals}.isdisjoint(
            t.data_ptr() for t in itertools.chain(copied.parameters(), copied.buffers())
        )


def test_old_norms_warn_or_not():
    with warnings.catch_warnings(action="error"):
        utils.spectral_norm(nn.Linear(2, 3))
        N.weight_norm(nn.Linear(2, 3))
