"""Every operation inside of `vmap` is the loop over slices: values and gradients, wherever slices are counted."""

from __future__ import annotations

import functools
import warnings

import pytest
import samples

import flambeau
from flambeau.func import grad, jvp
from flambeau.func import vmap as mapped
from flambeau.operations.declare.registry import REGISTRY

vmap = functools.partial(
    mapped, randomness="same"
)  # a call draws the same numbers for each slice of the loop, too

# Shapes that depend on values, and what asks for a value: refused, as in PyTorch.
REFUSED = frozenset(
    """
    nonzero masked_select unique unique_consecutive bincount allclose equal is_nonzero item tolist
    """.split()
)
# What draws numbers inside: refused unless `randomness` is said, as in PyTorch.
DRAWING = frozenset(
    """
    svd_lowrank pca_lowrank fractional_max_pool2d fractional_max_pool3d fractional_max_pool2d_with_indices
    fractional_max_pool3d_with_indices
    """.split()
)
SCALES = (1.0, 0.96875, 0.9375)


def cases():
    return [
        (e, t)
        for e, t in samples.ALL
        if e.name not in REFUSED | DRAWING and e.kind not in ("random", "question", "creation")
    ]


def operands(entry, text):
    """The tensors of a call by name, and the call as a function of them."""
    used = samples.Operands()
    samples.run(entry, text, used)
    names = [n for n, x in used.items() if isinstance(x, flambeau.Tensor)]

    def call(*tensors):
        given = samples.Operands()
        given.update(zip(names, tensors))
        return samples.run(entry, text, given)

    return [used[n].detach() for n in names], call


def stacks(tensors):
    """Three slices of each: the same places, slightly different numbers."""
    return [
        flambeau.stack([t * s if t.is_floating_point() else t.clone() for s in SCALES])
        if t.is_floating_point() and t.itemsize > 2
        else t.expand(3, *t.shape).clone()
        for t in tensors
    ]


def alike(got, expected, what):
    assert len(got) == len(expected), what
    for a, b in zip(got, expected):
        assert a.shape == b.shape and a.dtype == b.dtype, (
            f"{what}: {a.shape} {a.dtype}, not {b.shape} {b.dtype}"
        )
        flambeau.testing.assert_close(
            a, b, rtol=1e-9, atol=1e-11, equal_nan=True, msg=lambda m: f"{what}: {m}"
        )


def joined(results):
    return [flambeau.stack(list(column)) for column in zip(*results)]


@pytest.mark.parametrize("entry, text", cases(), ids=lambda x: getattr(x, "name", x))
def test_mapped_calls_are_the_loop(entry, text):
    tensors, call = operands(entry, text)
    if not tensors:
        return
    whole = stacks(tensors)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = joined([call(*(x[k].clone() for x in whole)) for k in range(3)])
        alike(vmap(lambda *t: tuple(call(*t)))(*(x.clone() for x in whole)), expected, "all")
        last = whole[0].movedim(0, -1).clone()
        dims = (-1, *(0,) * (len(whole) - 1))
        alike(
            vmap(lambda *t: tuple(call(*t)), in_dims=dims)(last, *(x.clone() for x in whole[1:])),
            expected,
            "last",
        )
        writes = entry.function.__name__.endswith("_") or entry.name.endswith("in_place")
        for k in range(writes, len(whole)) if len(whole) > 1 else ():
            given = [x[0].clone() if n == k else x.clone() for n, x in enumerate(whole)]
            dims = tuple(None if n == k else 0 for n in range(len(whole)))
            expected = joined(
                [
                    call(*(x.clone() if n == k else x[s].clone() for n, x in enumerate(given)))
                    for s in range(3)
                ]
            )
            alike(vmap(lambda *t: tuple(call(*t)), in_dims=dims)(*given), expected, f"operand {k} shared")


@pytest.mark.parametrize("name", sorted(DRAWING))
def test_what_draws_inside_wants_to_be_told_how(name):
    entry, text = next((e, t) for e, t in samples.ALL if e.name == name)
    tensors, call = operands(entry, text)
    whole = stacks(tensors)
    with pytest.raises(RuntimeError, match="randomness error mode"):
        mapped(lambda *t: tuple(call(*t)))(*whole)
    one, other = vmap(lambda *t: tuple(call(*t)))(*[t[:1].expand_as(t) for t in whole])[0][:2]
    flambeau.testing.assert_close(one, other)


def weighted(results):
    """One number that depends on all results."""
    found = [r for r in results if r.is_floating_point() or r.is_complex()]
    terms = [
        (r * flambeau.arange(1, r.numel() + 1, dtype=flambeau.float64).reshape(r.shape).mul(0.37).cos()).sum()
        for r in found
    ]
    return sum(t.real if t.is_complex() else t for t in terms)


def has_derivative(entry, text):
    """Whether somebody knows the derivative of a function that SciPy computes."""
    made = samples.Operands(grad=True)
    try:
        flambeau.autograd.grad(weighted(samples.run(entry, text, made)), made.leaves, allow_unused=True)
    except (NotImplementedError, RuntimeError, AttributeError):
        return False
    return True


def differentiable(entry, text):
    tensors, call = operands(entry, text)
    floats = [k for k, t in enumerate(tensors) if t.is_floating_point() and t.itemsize > 2]
    if not entry.differentiable or not floats:
        return None
    return tensors, call, floats


@pytest.mark.parametrize("entry, text", cases(), ids=lambda x: getattr(x, "name", x))
def test_gradients_of_slices_are_those_of_the_loop(entry, text):
    found = differentiable(entry, text)
    if found is None:
        return
    tensors, call, floats = found
    whole = stacks(tensors)

    def loss(*chosen):
        given = list(rest)
        for k, x in zip(floats, chosen):
            given[k] = x * 1
        return weighted(call(*given))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        each = []
        for s in range(3):
            if entry.kind == "fallback" and not has_derivative(entry, text):
                return
            rest = [x[s].clone() for x in whole]
            leaves = [x[s].clone().requires_grad_() for k, x in enumerate(whole) if k in floats]
            value = loss(*leaves)
            if not isinstance(value, flambeau.Tensor) or not value.requires_grad:
                return
            each.append(flambeau.autograd.grad(value, leaves, allow_unused=True, materialize_grads=True))
        expected = joined(each)

        def sliced(*all_of):
            nonlocal rest
            rest = list(all_of)
            return grad(loss, tuple(range(len(floats))))(*(all_of[k] for k in floats))

        alike(vmap(sliced)(*(x.clone() for x in whole)), expected, "inside")
        shared = floats[0]
        rest = [x[0].clone() if k == shared else x for k, x in enumerate(whole)]
        each = []
        for s in range(3):
            one = [x if k == shared else x[s].clone() for k, x in enumerate(rest)]
            leaves = [one[k].clone().requires_grad_() for k in floats]
            kept, rest = rest, one
            value = loss(*leaves)
            rest = kept
            each.append(flambeau.autograd.grad(value, leaves, allow_unused=True, materialize_grads=True))
        dims = tuple(None if k == shared else 0 for k in range(len(whole)))
        if len(whole) > 1:
            alike(vmap(sliced, in_dims=dims)(*rest), joined(each), "with a shared operand")


@pytest.mark.parametrize("name", sorted(REFUSED & set(REGISTRY)))
def test_what_depends_on_values_is_refused(name):
    x = flambeau.tensor([[1, 0, 2], [0, 0, 1]])
    calls = {
        "masked_select": lambda f, t: f(t, t > 0),
        "allclose": lambda f, t: f(t, t),
        "equal": lambda f, t: f(t, t),
    }
    one = name in ("item", "is_nonzero")
    with pytest.raises(RuntimeError, match="vmap"):
        vmap(lambda t: calls.get(name, lambda f, t: f(t))(REGISTRY[name].function, t[0] if one else t))(x)


@pytest.mark.parametrize("entry, text", cases(), ids=lambda x: getattr(x, "name", x))
def test_backward_with_gradients_of_all_slices_is_the_loop(entry, text):
    """A call recorded outside of `vmap`, and several gradients sent back at once."""
    made = samples.Operands(grad=True)
    if not entry.differentiable:
        return
    results = [r for r in samples.run(entry, text, made) if r.requires_grad]
    if not results or (entry.kind == "fallback" and not has_derivative(entry, text)):
        return
    flambeau.manual_seed(1)
    seeds = [flambeau.randn(3, *r.shape, dtype=r.dtype) for r in results]

    def back(*chosen):
        return flambeau.autograd.grad(
            results, made.leaves, chosen, retain_graph=True, allow_unused=True, materialize_grads=True
        )

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alike(vmap(back)(*seeds), joined([back(*(s[k] for s in seeds)) for k in range(3)]), "seeds")


IN_PLACE = [
    (e, t)
    for e, t in cases()
    if e.in_place is not None and e.kind in ("pointwise", "composite", "scan", "indexing", "library", "shape")
]


@pytest.mark.parametrize("entry, text", IN_PLACE, ids=lambda x: getattr(x, "name", x))
def test_forms_that_write_are_the_loop(entry, text):
    tensors, _ = operands(entry, text)
    names = [n for n in text_operands(entry, text)]

    def write(*given):
        operands = samples.Operands()
        operands.update(zip(names, [t.clone() for t in given]))
        first = text.split(",")[0].strip()
        eval(f"function({text})", {"function": entry.in_place}, operands)
        return operands[first]

    if text.split(",")[0].strip() not in names:
        return
    whole = stacks(tensors)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            each = [write(*(x[k] for x in whole)) for k in range(3)]
        except (RuntimeError, TypeError):  # a result of another dtype does not fit into its operand
            return
        alike([vmap(write)(*whole)], [flambeau.stack(each)], "written")


def text_operands(entry, text):
    """The names of the tensors in a call."""
    used = samples.Operands()
    samples.run(entry, text, used)
    return [n for n, x in used.items() if isinstance(x, flambeau.Tensor)]


@pytest.mark.parametrize("entry, text", cases(), ids=lambda x: getattr(x, "name", x))
def test_tangents_of_slices_are_those_of_the_loop(entry, text):
    found = differentiable(entry, text)
    if found is None or (entry.kind == "fallback" and not has_derivative(entry, text)):
        return
    tensors, call, floats = found
    whole = stacks(tensors)
    flambeau.manual_seed(2)
    moves = [flambeau.randn(*whole[k].shape, dtype=whole[k].dtype) for k in floats]

    def along(*given):
        fixed, directions = list(given[: len(whole)]), given[len(whole) :]

        def f(*chosen):
            for k, x in zip(floats, chosen):
                fixed[k] = x * 1
            return tuple(r for r in call(*fixed) if r.is_floating_point() or r.is_complex())

        return jvp(f, tuple(fixed[k] for k in floats), directions)[1]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        each = [along(*(x[s].clone() for x in whole), *(m[s] for m in moves)) for s in range(3)]
        if each[0]:
            alike(vmap(along)(*(x.clone() for x in whole), *moves), joined(each), "tangents")
