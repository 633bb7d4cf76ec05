"""What `backward` of a user's Function returns: what is looked at, what is not, and what is refused."""

from __future__ import annotations

import pytest

import flambeau
from flambeau import autograd


def returning(make):
    """A Function of two arguments whose `backward` returns what `make(grad)` does."""

    class Doubled(autograd.Function):
        @staticmethod
        def forward(ctx, x, other):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return make(grad)

    return Doubled.apply


def leaf():
    return flambeau.ones(2, requires_grad=True)


OF_NO_CONCERN = {
    "None": lambda g: None,
    "of its shape": lambda g: g,
    "of another shape": lambda g: flambeau.ones(5),
    "of another rank": lambda g: flambeau.ones(2, 1, 3),
    "of integers": lambda g: flambeau.ones(2, dtype=flambeau.int64),
    "complex": lambda g: g * 1j,
    "on meta": lambda g: flambeau.ones(3, device="meta"),
    "sparse": lambda g: flambeau.eye(2).to_sparse(),
    "with a history": lambda g: leaf() * 3,
}


@pytest.mark.parametrize("given", OF_NO_CONCERN)
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_of_a_tensor_that_wants_none_any_gradient_is_ignored(given, dtype):
    other = flambeau.ones(2).to(getattr(flambeau, dtype))
    x = leaf()
    apply = returning(lambda g: (g * 2, OF_NO_CONCERN[given](g)))
    apply(x, other).sum().backward()
    assert x.grad.tolist() == [2, 2] and other.grad is None
    x = leaf()
    assert autograd.grad(apply(x, other).sum(), x, create_graph=True)[0].tolist() == [2, 2]


@pytest.mark.parametrize("wrong", ["text", 3, 2.5, [1], {}], ids=repr)
@pytest.mark.parametrize("wanted", [True, False])
def test_a_gradient_of_a_tensor_is_a_tensor_or_none(wrong, wanted):
    other = flambeau.ones(2, requires_grad=wanted)
    with pytest.raises(
        RuntimeError, match=rf"expected Variable or None \(got {type(wrong).__name__}\).*gradient 2"
    ):
        returning(lambda g: (g, wrong))(leaf(), other).sum().backward()
    with pytest.raises(
        RuntimeError, match=rf"expected Variable or None \(got {type(wrong).__name__}\).*gradient 1"
    ):
        returning(lambda g: (wrong, None))(leaf(), other).sum().backward()


@pytest.mark.parametrize("other", [2.0, None, "text", (1, 2)], ids=repr)
@pytest.mark.parametrize("wrong", ["text", 3, flambeau.ones(2)], ids=["str", "int", "tensor"])
def test_of_what_is_no_tensor_there_is_no_gradient(other, wrong):
    with pytest.raises(
        RuntimeError, match="different than None at position 2, but the corresponding forward input was"
    ):
        returning(lambda g: (g, wrong))(leaf(), other).sum().backward()
    x = leaf()
    returning(lambda g: (g, None))(x, other).sum().backward()
    assert x.grad.tolist() == [1, 1]


@pytest.mark.parametrize(
    "make, got",
    [
        (lambda g: g, 1),
        (lambda g: (g,), 1),
        (lambda g: [g, None], 1),  # a list is one thing
        (lambda g: (g, None, g), 3),
        (lambda g: (g, None, None, "text"), 4),
        (lambda g: (), 0),
    ],
)
def test_there_is_a_gradient_for_each_argument(make, got):
    with pytest.raises(RuntimeError, match=rf"incorrect number of gradients \(expected 2, got {got}\)"):
        returning(make)(leaf(), 1.0).sum().backward()


def test_more_are_none():
    x = leaf()
    returning(lambda g: (g, None, None, None))(x, 1.0).sum().backward()
    assert x.grad.tolist() == [1, 1]


def test_of_two_that_want_one_the_shapes_of_both_are_looked_at():
    """As in PyTorch: both are on the tape."""
    x, other = leaf(), leaf()
    with pytest.raises(RuntimeError, match=r"invalid gradient at index 1 - got \[5\]"):
        autograd.grad(returning(lambda g: (g, flambeau.ones(5)))(x, other).sum(), x)


def test_a_real_tensor_has_no_complex_gradient():
    """Whose imaginary part would be lost in silence."""
    with pytest.raises(RuntimeError, match="complex64 for an input whose elements are real"):
        returning(lambda g: (g * 1j, None))(leaf(), None).sum().backward()
    z = flambeau.ones(2, dtype=flambeau.complex64, requires_grad=True)
    returning(lambda g: (g.real, None))(z, None).sum().abs().backward()
    assert z.grad.tolist() == [1, 1]


def test_old_names_of_the_context():
    """Functions written before 0.4 read `saved_variables` and name what shares a storage."""

    class Square(flambeau.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            with pytest.warns(FutureWarning, match="mark_shared_storage"):
                ctx.mark_shared_storage((x, x))
            return x * x

        @staticmethod
        def backward(ctx, grad):
            with pytest.warns(DeprecationWarning, match="use 'saved_tensors'"):
                (x,) = ctx.saved_variables
            assert x is ctx.saved_tensors[0] or flambeau.equal(x, ctx.saved_tensors[0])
            return 2 * x * grad

    x = flambeau.tensor([1.0, -3.0], requires_grad=True)
    Square.apply(x).sum().backward()
    assert x.grad.tolist() == [2.0, -6.0]
