"""Writes in place inside of functions that are mapped or differentiated: each operation that writes, beside the loop over slices."""

from __future__ import annotations

import itertools
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import flambeau
from flambeau.func import hessian, jacfwd, jacrev, jvp, vmap
from flambeau.utils._pytree import tree_map

sys.path.insert(0, str(Path(__file__).parent.parent / "operations"))

from samples import ALL, Operands

SLICES = 3
# What only some slices could do, or what is random.
KINDS = ("random", "creation", "question", "error", "view")


def calls():
    for entry, text in ALL:
        if entry.in_place is not None and entry.kind not in KINDS and "out=" not in text:
            yield entry, text


def batched(x, k):
    """Another tensor of that shape for each slice."""
    return flambeau.stack(
        [x.roll(k * 0 + s) if x.ndim else x + s if x.is_floating_point() else x for s in range(SLICES)]
    )


def arguments(text):
    return eval(f"function({text})", {"function": lambda *args, **kwargs: (list(args), kwargs)}, Operands())


def outcome(call, *args):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return call(*args)
    except Exception as error:
        return error


def stacked(function, over, dim=0):
    return flambeau.stack([function(x) for x in over], dim)


def test_every_write_under_vmap_is_the_loop():
    wrong, same, refused = [], 0, 0
    for entry, text in calls():
        args, kwargs = arguments(text)
        at = [k for k, x in enumerate(args) if isinstance(x, flambeau.Tensor)]
        if not at or at[0] != 0:
            continue
        for which in itertools.product((True, False), repeat=min(len(at), 3)):
            chosen = [k for k, mapped in zip(at, which) if mapped]
            if not chosen:
                continue
            given = [batched(x, k) if k in chosen else x for k, x in enumerate(args)]

            def slice_of(s, given=given, chosen=chosen, entry=entry, kwargs=kwargs):
                own = [
                    x[s].clone() if k in chosen else x.clone() if isinstance(x, flambeau.Tensor) else x
                    for k, x in enumerate(given)
                ]
                entry.in_place(*own, **kwargs)
                return own[0]

            def mapped(*values, entry=entry, kwargs=kwargs, args=args, chosen=chosen):
                own = [x.clone() if isinstance(x, flambeau.Tensor) else x for x in args]
                for k, x in zip(chosen, values):
                    own[k] = x.clone()
                found = entry.in_place(*own, **kwargs)
                assert found is own[0]
                return own[0]

            loop = outcome(stacked, slice_of, range(SLICES))
            found = outcome(vmap(mapped), *[given[k] for k in chosen])
            if isinstance(loop, Exception):
                continue
            if 0 not in chosen:
                refused += 1
                if not isinstance(found, RuntimeError):
                    wrong.append((entry.name, text, which, repr(found)[:150]))
                continue
            same += 1
            if isinstance(found, Exception) or not np.allclose(
                found.numpy(), loop.numpy(), rtol=1e-5, atol=1e-6, equal_nan=True
            ):
                wrong.append((entry.name, text, which, repr(found)[:150]))
    assert wrong == []
    assert same > 200 and refused > 50


def test_every_write_under_jacfwd_is_the_loop():
    wrong, tried = [], 0
    for entry, text in calls():
        if not entry.differentiable:
            continue
        args, kwargs = arguments(text)
        floats = [k for k, x in enumerate(args) if isinstance(x, flambeau.Tensor) and x.is_floating_point()]
        if not floats or floats[0] != 0 or args[0].numel() > 30:
            continue
        for k, itself in [(0, True), *((k, False) for k in floats[:3])]:

            def function(v, k=k, itself=itself, args=args, kwargs=kwargs, entry=entry):
                own = [x.clone() if isinstance(x, flambeau.Tensor) else x for x in args]
                own[k] = v if itself else v.clone()
                if not itself and k:
                    own[0] = own[0] + 0 * v.sum()  # the slices are one in what is written
                return entry.in_place(*own, **kwargs) * 1

            def column(unit, function=function, x=args[k]):
                return jvp(function, (x.clone(),), (unit,))[1]

            units = flambeau.eye(args[k].numel(), dtype=args[k].dtype).reshape(-1, *args[k].shape)
            loop = outcome(stacked, column, units, -1)
            found = outcome(jacfwd(function), args[k].clone())
            if isinstance(loop, Exception):
                continue
            tried += 1
            if isinstance(found, Exception) or not np.allclose(
                found.reshape(loop.shape).numpy(), loop.numpy(), rtol=1e-4, atol=1e-5, equal_nan=True
            ):
                wrong.append((entry.name, text, k, itself, repr(found)[:150]))
    assert wrong == []
    assert tried > 100


def test_fill_with_a_number_of_each_slice():
    x = flambeau.arange(12.0).reshape(3, 2, 2)

    def filled(m):
        z = m.clone()
        assert z.fill_(m[0, 0]) is z
        return z

    assert vmap(filled)(x).tolist() == [[[k, k], [k, k]] for k in (0.0, 4.0, 8.0)]
    assert vmap(lambda m: flambeau.fill(m, m[1, 1]))(x)[:, 0, 0].tolist() == [3.0, 7.0, 11.0]
    assert vmap(lambda m: flambeau.fill(flambeau.zeros(2), m[0, 1]))(x)[:, 0].tolist() == [1.0, 5.0, 9.0]
    assert vmap(lambda m: m.clone().fill_(flambeau.tensor(2.0)))(x).unique().tolist() == [2.0]
    assert vmap(vmap(lambda row: row.clone().fill_(row[1])))(x)[:, :, 0].tolist() == [
        [1.0, 3.0],
        [5.0, 7.0],
        [9.0, 11.0],
    ]
    with pytest.raises(RuntimeError, match="inplace arithmetic"):
        vmap(lambda m: flambeau.zeros(2).fill_(m[0, 0]))(x)
    with pytest.raises(RuntimeError, match="0-dim"):
        vmap(lambda m: m.clone().fill_(m[0]))(x)


@pytest.mark.parametrize("n", [2, 6])
def test_a_function_that_writes_to_its_argument_under_jacfwd(n):
    x = flambeau.linspace(0.5, 1.5, n)
    wanted = np.exp(x.numpy())
    given = x.clone()
    np.testing.assert_allclose(jacfwd(lambda v: v.exp_())(given).numpy(), np.diag(wanted), rtol=1e-6)

    def both(v, w):
        v.mul_(2)
        w.mul_(v)
        return w * 1

    for k, diagonal in ((0, 2 * x.numpy()), (1, 2 * x.numpy())):
        found = jacfwd(both, argnums=k)(x.clone(), x.clone())
        np.testing.assert_allclose(found.numpy(), np.diag(diagonal), rtol=1e-6)
    two = jacfwd(both, argnums=(0, 1))(x.clone(), x.clone())
    np.testing.assert_allclose(two[1].numpy(), np.diag(2 * x.numpy()), rtol=1e-6)


def test_second_derivatives_through_writes():
    def function(v):
        z = v.clone()
        z.mul_(v)
        return (z.exp_() * v).sum()

    x = flambeau.tensor([0.3, -0.4], dtype=flambeau.float64)
    plain = hessian(lambda v: ((v * v).exp() * v).sum())(x)
    np.testing.assert_allclose(hessian(function)(x).numpy(), plain.numpy(), rtol=1e-10)
    np.testing.assert_allclose(jacrev(jacrev(function))(x).numpy(), plain.numpy(), rtol=1e-10)
    assert tree_map(type, x) is flambeau.Tensor


def test_values_of_a_primal_that_is_not_mapped():
    x, units = flambeau.tensor([1.0, 2.0]), flambeau.eye(2)

    def pushed(f):
        return vmap(lambda t: jvp(f, (x,), (t,)))(units)

    for f, slope in (
        (lambda v: v * v[1].item(), 2.0),
        (lambda v: v * float(v.sum()), 3.0),
        (lambda v: v * v.nonzero().sum(), 1.0),
        (lambda v: v * 5 if v.sum() > 0 else v, 5.0),
        (lambda v: v * len(v.tolist()), 2.0),
    ):
        value, tangent = pushed(f)
        assert value.tolist() == [[slope, 2 * slope]] * 2 and tangent.tolist() == [[slope, 0.0], [0.0, slope]]
    wide = flambeau.linspace(1, 2, 7)
    np.testing.assert_allclose(jacfwd(lambda v: v * v[0].item())(wide).numpy(), np.eye(7), rtol=1e-6)


def test_values_that_differ_from_slice_to_slice_are_refused():
    x = flambeau.tensor([[1.0, 2.0], [3.0, 4.0]])
    for f in (
        lambda v: v * v[0].item(),
        lambda v: v * 2 if v.sum() > 2 else v,
        lambda v: v * v.nonzero().sum(),
    ):
        with pytest.raises(RuntimeError, match="vmap"):
            vmap(lambda v, f=f: jvp(f, (v,), (flambeau.ones(2),)) if v.ndim else v)(
                x + flambeau.tensor([[0.0, -2.0], [-3.0, 0.0]])
            )
        with pytest.raises(RuntimeError, match="vmap"):
            vmap(f)(flambeau.ones(2, 2))
