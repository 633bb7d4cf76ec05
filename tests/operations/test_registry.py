"""What every declared operation earns: values against NumPy or SciPy, dtypes, shapes, layouts, out=,
in-place, derivatives.
"""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import flambeau
from flambeau.operations.declare.registry import REGISTRY

POINTWISE = [e for e in REGISTRY.values() if e.kind == "pointwise" and e.places]
WITH_REFERENCE = [e for e in POINTWISE if e.reference]
DIFFERENTIABLE = [e for e in POINTWISE if e.differentiable and "float64" in e.dtypes]
REDUCTIONS = [e for e in REGISTRY.values() if e.kind == "reduction" and e.reference]
name_of = lambda entry: entry.name


def reference(entry):
    module, _, name = entry.reference.rpartition(".")
    return getattr(importlib.import_module(module), name)


def sample(entry, shape, dtype="float64", seed=0):
    """Operands of that shape: random numbers from the operation's domain; conditions and masks are bool."""
    rng = np.random.default_rng(seed)
    low, high = entry.domain
    arrays = []
    for operand in entry.details["operands"]:
        if operand in ("condition", "mask"):
            arrays.append(rng.random(shape) < 0.5)
        else:
            values = rng.uniform(low, high, shape)
            arrays.append(np.asarray(values).astype(dtype))
    return arrays


def call(entry, arrays, **given):
    params = {p: v for p, v in required(entry).items()}
    return entry.function(*[flambeau.from_numpy(np.array(a)) for a in arrays], **params, **given)


def required(entry):
    """Values for scalar parameters that have no default."""
    signature = entry.function.__signature__
    operands = entry.details["operands"]
    return {n: 0.5 for n, p in signature.parameters.items() if p.default is p.empty and n not in operands}


def supports(entry, dtype):
    return dtype in entry.dtypes


def dtype_for(entry):
    return next(dtype for dtype in ("float32", "int64", "uint8") if supports(entry, dtype))


@pytest.mark.parametrize("entry", WITH_REFERENCE, ids=name_of)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_values(entry, dtype):
    if not supports(entry, dtype):
        with pytest.raises((RuntimeError, TypeError)):
            call(entry, sample(entry, (3,), dtype))
        return
    arrays = sample(entry, (5, 37), dtype)
    expected = np.asarray(
        reference(entry)(*[a.astype("float64") if a.dtype.kind == "f" else a for a in arrays])
    )
    got = call(entry, arrays).numpy()
    assert got.shape == expected.shape
    tolerance = 3e-6 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(
        got.astype("float64"), expected.astype("float64"), rtol=tolerance, atol=tolerance
    )


@pytest.mark.parametrize("entry", WITH_REFERENCE, ids=name_of)
@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "bool"])
def test_integer_values(entry, dtype):
    arrays = [
        np.abs(a).astype(dtype) if dtype in ("uint8", "bool") else a.astype(dtype)
        for a in sample(entry, (41,))
    ]
    if not supports(entry, dtype) and not (entry.details["int_to_float"]):
        with pytest.raises((RuntimeError, NotImplementedError)):
            call(entry, arrays)
        return
    got = call(entry, arrays)
    if entry.details["int_to_float"]:
        assert got.dtype == flambeau.float32
        arrays = [a.astype("float64") for a in arrays]
    if entry.name == "sign" and dtype == "bool":  # NumPy has no sign of bools
        assert got.tolist() == arrays[0].tolist()
        return
    with np.errstate(all="ignore"):
        expected = np.asarray(reference(entry)(*arrays)).astype(got.numpy().dtype)
    np.testing.assert_allclose(got.numpy(), expected, rtol=3e-6, atol=1e-6)


@pytest.mark.parametrize("entry", POINTWISE, ids=name_of)
def test_layouts_agree(entry):
    """Strided, transposed and expanded operands give the elements that contiguous ones give."""
    dtype = dtype_for(entry)
    arrays = sample(entry, (6, 10), dtype)
    plain = call(entry, arrays)
    plain = plain if isinstance(plain, tuple) else (plain,)
    strided = [np.repeat(a, 2, axis=1)[:, ::2] for a in arrays]
    views = [flambeau.from_numpy(np.ascontiguousarray(np.repeat(a, 2, axis=1)))[:, ::2] for a in arrays]
    turned = [flambeau.from_numpy(np.ascontiguousarray(a.T)).t() for a in arrays]
    assert not views[0].is_contiguous() and not turned[0].is_contiguous() and strided[0].shape == (6, 10)
    for operands in (views, turned, [*views[:1], *turned[1:]]):
        found = entry.function(*operands, **required(entry))
        for a, b in zip(plain, found if isinstance(found, tuple) else (found,)):
            assert a.dtype == b.dtype and tuple(a.shape) == tuple(b.shape)
            np.testing.assert_array_equal(a.numpy(), b.contiguous().numpy())


@pytest.mark.parametrize("entry", [e for e in POINTWISE if len(e.details["operands"]) > 1], ids=name_of)
def test_broadcasting(entry):
    dtype = dtype_for(entry)
    count = len(entry.details["operands"])
    shapes = [(4, 1, 5), (3, 1), (1,)][:count] + [()] * (count - 3)
    arrays = [sample(entry, s, dtype, seed)[k] for k, (seed, s) in enumerate(zip(range(count), shapes))]
    got = call(entry, arrays)
    full = np.broadcast_shapes(*shapes)
    expected = call(entry, [np.array(np.broadcast_to(a, full)) for a in arrays])
    for a, b in zip(
        got if isinstance(got, tuple) else (got,), expected if isinstance(expected, tuple) else (expected,)
    ):
        assert tuple(a.shape) == full
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    bad = [np.ones(s, a.dtype) for s, a in zip([(2, 3), (2, 4)], arrays)] + arrays[2:]
    with pytest.raises(RuntimeError, match="must match the size of tensor b"):
        call(entry, bad)


@pytest.mark.parametrize("entry", POINTWISE, ids=name_of)
@pytest.mark.parametrize("shape", [(0,), (3, 0, 2), ()])
def test_empty_and_zero_dimensional(entry, shape):
    dtype = dtype_for(entry)
    got = call(entry, sample(entry, shape, dtype))
    for r in got if isinstance(got, tuple) else (got,):
        assert tuple(r.shape) == shape


@pytest.mark.parametrize("entry", [e for e in POINTWISE if not e.places[0].startswith("_")], ids=name_of)
def test_out(entry):
    dtype = dtype_for(entry)
    arrays = sample(entry, (3, 4), dtype)
    plain = call(entry, arrays)
    out = flambeau.empty(12, dtype=plain.dtype).reshape(4, 3).t()
    found = call(entry, arrays, out=out)
    assert found is out and out.stride() == (1, 3)
    np.testing.assert_array_equal(out.contiguous().numpy(), plain.numpy())
    grown = flambeau.empty(0, dtype=plain.dtype)
    call(entry, arrays, out=grown)
    assert tuple(grown.shape) == (3, 4)


@pytest.mark.parametrize("entry", [e for e in POINTWISE if e.in_place], ids=name_of)
def test_in_place(entry):
    dtype = dtype_for(entry)
    arrays = sample(entry, (3, 4), dtype)
    plain = call(entry, arrays)
    tensors = [flambeau.from_numpy(a.copy()) for a in arrays]
    version = tensors[0]._version
    found = entry.in_place(*tensors, **required(entry))
    assert found is tensors[0] and tensors[0]._version == version + 1
    np.testing.assert_array_equal(found.numpy(), plain.to(found.dtype).numpy())


@pytest.mark.parametrize("entry", [e for e in POINTWISE if supports(e, "bfloat16")], ids=name_of)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_types_compute_in_float32(entry, dtype):
    kind = getattr(flambeau, dtype)
    arrays = sample(entry, (33,), "float32")
    halves = [flambeau.from_numpy(a) if a.dtype == bool else flambeau.from_numpy(a).to(kind) for a in arrays]
    got = entry.function(*halves, **required(entry))
    wide = entry.function(
        *[h if h.dtype == flambeau.bool else h.to(flambeau.float32) for h in halves], **required(entry)
    )
    for a, b in zip(got if isinstance(got, tuple) else (got,), wide if isinstance(wide, tuple) else (wide,)):
        if b.is_floating_point():
            assert a.dtype == kind
        np.testing.assert_array_equal(
            a.to(flambeau.float32).numpy(), b.to(a.dtype).to(flambeau.float32).numpy()
        )


def test_what_has_a_derivative_has_floats():
    """Operations that the tests of gradients leave out are of integers and bools, or of half types alone."""
    left_out = [e.name for e in POINTWISE if e.differentiable and e not in DIFFERENTIABLE]
    assert [n for n in left_out if REGISTRY[n].dtypes & {"float32", "float64"}] == []


@pytest.mark.parametrize("entry", DIFFERENTIABLE, ids=name_of)
def test_gradients(entry):
    arrays = sample(entry, (2, 3), "float64", seed=3)
    tensors = [
        flambeau.from_numpy(a) if a.dtype == bool else flambeau.from_numpy(a).requires_grad_() for a in arrays
    ]
    params = required(entry)
    function = lambda *xs: entry.function(*xs, **params)
    if not any(o.requires_grad for o in _all(function(*tensors))):
        pytest.fail(f"{entry.name} is declared differentiable but its result has no history")
    assert flambeau.autograd.gradcheck(function, tensors, check_forward_ad=True)
    first = flambeau.autograd.grad(
        sum((o.real if o.is_complex() else o).sum() for o in _all(function(*tensors))),
        [t for t in tensors if t.requires_grad],
        create_graph=True,
        allow_unused=True,
    )
    if any(g is not None and g.requires_grad for g in first):
        assert flambeau.autograd.gradgradcheck(function, tensors)


def _all(found):
    return found if isinstance(found, tuple) else (found,)


@pytest.mark.parametrize("entry", [e for e in DIFFERENTIABLE if len(e.details["operands"]) > 1], ids=name_of)
def test_gradients_broadcast(entry):
    count = len(entry.details["operands"])
    shapes = [(2, 1, 3), (2, 1), (1,)][:count] + [()] * (count - 3)
    arrays = [sample(entry, s, "float64", 5 + k)[k] for k, s in enumerate(shapes)]
    tensors = [
        flambeau.from_numpy(np.array(a))
        if a.dtype == bool
        else flambeau.from_numpy(np.array(a)).requires_grad_()
        for a in arrays
    ]
    params = required(entry)
    assert flambeau.autograd.gradcheck(
        lambda *xs: entry.function(*xs, **params), tensors, check_forward_ad=True
    )


@pytest.mark.parametrize("entry", REDUCTIONS, ids=name_of)
@pytest.mark.parametrize(
    "shape,dim",
    [
        ((7,), None),
        ((3, 50), 1),
        ((50, 3), 0),
        ((4, 5, 6), (0, 2)),
        ((2, 3, 4), -2),
        ((33000,), 0),
        ((5000, 70), 0),
        ((2, 40000), 1),
    ],
)
def test_reductions(entry, shape, dim):
    if entry.name.startswith("arg") and isinstance(dim, tuple):
        with pytest.raises(TypeError, match="must be int"):
            entry.function(flambeau.ones(*shape), dim)
        return
    dtype = "float64"
    x = np.random.default_rng(0).uniform(0.9, 1.1, shape) * np.random.default_rng(1).choice([-1, 1], shape)
    expected = np.asarray(reference(entry)(x, axis=dim))
    got = entry.function(flambeau.from_numpy(x.astype(dtype)), dim)
    assert tuple(got.shape) == expected.shape
    np.testing.assert_allclose(
        got.numpy().astype("float64"), expected.astype("float64"), rtol=1e-11, atol=1e-11
    )
    kept = entry.function(flambeau.from_numpy(x), dim, True)
    assert kept.ndim == len(shape)
    strided = flambeau.from_numpy(np.ascontiguousarray(np.swapaxes(x, 0, -1))).transpose(0, -1)
    np.testing.assert_allclose(
        entry.function(strided, dim).numpy().astype("float64"),
        expected.astype("float64"),
        rtol=1e-11,
        atol=1e-11,
    )


@pytest.mark.parametrize("entry", REDUCTIONS, ids=name_of)
@pytest.mark.parametrize("shape,dim", [((100000,), None), ((70000, 3), 0), ((300, 4000), 1)])
def test_reductions_have_the_same_bits_for_any_number_of_threads(entry, shape, dim):
    x = flambeau.from_numpy(np.random.default_rng(2).standard_normal(shape).astype("float32"))
    before = flambeau.get_num_threads()
    try:
        found = []
        for threads in (1, 2, 3):
            flambeau.set_num_threads(threads)
            found.append(entry.function(x, dim).numpy().tobytes())
    finally:
        flambeau.set_num_threads(before)
    assert found[0] == found[1] == found[2]


def test_integers_with_a_number_become_floats():
    """The number is read as the integers' common dtype hands it over, then converted."""
    t = flambeau.tensor([4, 6])
    assert (t / 2).tolist() == [2.0, 3.0] and (12 / t).tolist() == [3.0, 2.0]
    assert (t / 0.5).tolist() == [8.0, 12.0] and (flambeau.tensor([True]) / 2).tolist() == [0.5]
    np.testing.assert_allclose(
        flambeau.atan2(t, flambeau.tensor(2)).tolist(), np.arctan2([4, 6], 2), rtol=1e-6
    )
