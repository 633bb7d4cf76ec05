"""Reductions of views in any order of memory: permuted, broadcast, with gaps."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau
from flambeau.operations.declare.registry import REGISTRY

OPERATIONS = {
    "sum": np.sum,
    "mean": np.mean,
    "amax": np.max,
    "var": lambda a, axis: np.var(a, axis, ddof=0),
    "count_nonzero": np.count_nonzero,
}


def views(seed):
    """The same random view as a tensor and as an array."""
    rng = np.random.default_rng(seed)
    a = rng.standard_normal(rng.choice([1, 2, 3, 5], rng.integers(1, 4)))
    t = flambeau.tensor(a)
    for _ in range(rng.integers(0, 4)):
        d = int(rng.integers(0, a.ndim))
        match int(rng.integers(0, 3)):
            case 0:
                order = [int(k) for k in rng.permutation(a.ndim)]
                a, t = a.transpose(order), t.permute(order)
            case 1:
                shape = [*a.shape[:d], int(rng.choice([1, 2, 5])), *a.shape[d:]]
                a, t = np.broadcast_to(np.expand_dims(a, d), shape), t.unsqueeze(d).expand(shape)
            case 2:
                cut = (slice(None),) * d + (slice(None, None, 2),)
                a, t = a[cut], t[cut]
    dims = tuple(int(k) for k in rng.permutation(a.ndim)[: rng.integers(1, a.ndim + 1)])
    return a, t, dims


@pytest.mark.parametrize("name", OPERATIONS)
def test_random_views(name):
    for seed in range(300):
        a, t, dims = views(seed)
        options = {"correction": 0} if name == "var" else {}
        found = getattr(t, name)(dims, **options)
        np.testing.assert_allclose(
            found.numpy(),
            OPERATIONS[name](a, axis=dims),
            rtol=1e-12,
            atol=1e-12,
            err_msg=f"{seed} {dims} {t.stride()}",
        )


def test_broadcast_rows():
    x = flambeau.arange(1.0, 5.0).reshape(2, 2).expand(3, 2, 2)
    assert x.sum().item() == 30.0 and x.amax().item() == 4.0 and x.mean().item() == 2.5
    assert x.sum((0, 2)).tolist() == [9.0, 21.0]
    weights = flambeau.tensor([[1.0], [2.0]])  # one value a row here, several in the rows of both dimensions
    from flambeau.operations.rows.softmax import log_sum_exp

    assert log_sum_exp(weights.expand(2, 3)).item() == pytest.approx(np.log(3 * np.e + 3 * np.e**2))


def test_row_functions_of_broadcast_rows():
    x = flambeau.tensor([[1.0], [2.0]]).expand(2, 3)
    assert np.allclose(x.softmax(1).numpy(), 1 / 3)
    assert np.allclose(x.log_softmax(1).numpy(), -np.log(3))
    assert np.allclose(flambeau.tensor([1.0]).expand(4, 1).softmax(0).numpy(), 0.25)
    y = flambeau.tensor([[1.0], [2.0]], requires_grad=True)
    (y.expand(2, 3).softmax(1) * flambeau.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert np.allclose(y.grad.numpy(), 0.0)


def test_rows_that_lie_scattered_broadcast_all_operands():
    """Gathered into copies, each operand has the common shape, whichever of them has it."""
    rng = np.random.default_rng(0)
    x, w, b = (rng.standard_normal((3, 5, 4)) for _ in range(3))
    scattered = lambda a: flambeau.from_numpy(np.repeat(np.repeat(a, 2, 0), 2, 2))[
        ::2, :, ::2
    ].requires_grad_()
    plain = lambda a: flambeau.from_numpy(a.copy()).requires_grad_()
    seed = flambeau.from_numpy(np.repeat(rng.standard_normal((3, 5, 4)), 2, 1))[:, ::2]
    grads = []
    for layout in (scattered, plain):
        operands = [layout(a) for a in (x, w, b)]
        y = flambeau.nn.functional.layer_norm(operands[0], (3, 5, 4), *operands[1:])
        grads.append(flambeau.autograd.grad(y, operands, seed))
    for a, b in zip(*grads):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12, atol=1e-12)


# ---------------------------------------------------------------- dim: a number, several, none, or all

REDUCTIONS = sorted(
    entry.places[0]
    for entry in REGISTRY.values()
    if entry.kind == "reduction" and entry.places and not entry.places[0].startswith("_")
)
COMPOSED = ["var", "std", "nansum", "nanmean", "norm", "logsumexp", "aminmax"]
LITERAL = ("any", "all")  # an empty list is no dimension there, as in NumPy, and all of them elsewhere
ONE = ("argmax", "argmin")  # take one dimension


def found_by(name, *args, **kwargs):
    found = getattr(flambeau, name)(*args, **kwargs)
    return [np.asarray(part) for part in found] if isinstance(found, tuple) else [found.numpy()]


def test_the_reductions_are_there():
    assert {"sum", "mean", "amax", "amin", "any", "all", "count_nonzero", *ONE} <= set(REDUCTIONS)


@pytest.mark.parametrize("name", [n for n in REDUCTIONS + COMPOSED if n not in ONE])
@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("shape", [(2, 3), (4,), (), (2, 1, 3)], ids=str)
def test_no_dimension_one_or_all(name, keepdim, shape):
    x = flambeau.arange(float(np.prod(shape, dtype=int))).reshape(shape) - 1.0
    every = tuple(range(len(shape)))
    whole = found_by(name, x, dim=every, keepdim=keepdim)
    for dim in ((), []):
        found = found_by(name, x, dim=dim, keepdim=keepdim)
        if name in LITERAL:
            assert np.array_equal(found[0], x.numpy() != 0)
        else:
            assert all(np.array_equal(f, w, equal_nan=True) for f, w in zip(found, whole, strict=True))
            assert all(f.shape == ((1,) * len(shape) if keepdim else ()) for f in found)
    for dim in every:
        one, several = (found_by(name, x, dim=d, keepdim=keepdim) for d in (dim, [dim - len(shape)]))
        assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(one, several, strict=True))


@pytest.mark.parametrize("name", LITERAL)
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float32", "complex64"])
def test_any_and_all_of_no_dimension(name, dtype):
    x = flambeau.tensor([[0, 1, 2], [3, 0, 5]]).to(getattr(flambeau, dtype))
    for view in (x, x.t(), x[:, ::2], x[:0], x[0, 0], x.unsqueeze(0).expand(2, 2, 3)):
        found = getattr(view, name)(dim=())
        assert found.tolist() == (view.numpy() != 0).tolist()
        assert found.dtype == (flambeau.uint8 if dtype == "uint8" else flambeau.bool)
    out = flambeau.empty(0, dtype=found.dtype)
    assert getattr(flambeau, name)(x, (), out=out) is out and out.shape == (2, 3)


@pytest.mark.parametrize("name", [*REDUCTIONS, "softmax", "log_softmax", "norm", "max", "min"])
def test_a_bool_is_no_dimension(name):
    x = flambeau.ones(2, 3)
    for dim in (True, (True,), [False, True]):
        with pytest.raises(TypeError, match="must be int, not"):
            getattr(flambeau, name)(x, dim=dim)


@pytest.mark.parametrize(
    "call",
    [
        *(lambda x: x.unsqueeze(True), lambda x: x.transpose(True, False), lambda x: x.select(True, 0)),
        *(lambda x: x.narrow(1, True, 1), lambda x: x.view(True, 6), lambda x: x.reshape([True, 6])),
        *(lambda x: x.flatten(True), lambda x: x.permute(True, False), lambda x: x.expand(True, 2, 3)),
        *(
            lambda x: flambeau.cat([x, x], True),
            lambda x: flambeau.stack([x, x], True),
            lambda x: x.unbind(True),
        ),
        *(
            lambda x: x.chunk(True),
            lambda x: x.split(True),
            lambda x: x.diagonal(True),
            lambda x: x.size(True),
        ),
        *(lambda x: x.index_select(True, flambeau.tensor([0])), lambda x: flambeau.randperm(True)),
    ],
)
def test_a_bool_is_no_size_and_no_place(call):
    with pytest.raises(TypeError, match="must be int, not bool"):
        call(flambeau.ones(2, 3))
