"""The base class: validation, subclasses of users, lazy properties, shapes."""

from __future__ import annotations

import copy
import subprocess
import sys
import warnings

import numpy as np
import pytest

import flambeau
from flambeau.distributions import constraints
from flambeau.distributions.utils import (
    broadcast_all,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
    tril_matrix_to_vec,
    vec_to_tril_matrix,
)

D = flambeau.distributions


class Shifted(D.Normal):
    """As programs derive: more parameters, an `expand` of its own."""

    arg_constraints = {**D.Normal.arg_constraints, "shift": constraints.nonnegative}

    def __init__(self, loc, scale, shift, validate_args=None):
        self.shift = shift
        super().__init__(loc, scale, validate_args)

    def expand(self, batch_shape, _instance=None):
        new = self._get_checked_instance(Shifted, _instance)
        new.shift = self.shift.expand(batch_shape)
        return super().expand(batch_shape, new)


def test_subclasses_expand_through_their_base():
    made = Shifted(flambeau.zeros(2), 1.0, flambeau.ones(2))
    wide = made.expand((3, 2))
    assert type(wide) is Shifted and wide.shift.shape == wide.loc.shape == (3, 2)
    assert (
        repr(made) == "Shifted(loc: flambeau.Size([2]), scale: flambeau.Size([2]), shift: flambeau.Size([2]))"
    )
    with pytest.raises(ValueError, match=r"Expected parameter shift .* GreaterThanEq\(lower_bound=0.0\)"):
        Shifted(0.0, 1.0, flambeau.tensor(-1.0))
    with pytest.raises(ValueError, match="parameter scale"):
        Shifted(0.0, -1.0, flambeau.tensor(1.0))


def test_subclasses_with_another_constructor_must_expand_themselves():
    class Unit(D.Normal):
        def __init__(self):
            super().__init__(0.0, 1.0)

    with pytest.raises(NotImplementedError, match=r"Subclass Unit of Normal .* custom .expand\(\)"):
        Unit().expand((2,))


def test_messages_name_what_was_given():
    with pytest.raises(ValueError) as caught:
        D.Normal(flambeau.zeros(2), flambeau.tensor([1.0, -1.0]))
    assert str(caught.value) == (
        "Expected parameter scale (Tensor of shape (2,)) of distribution Normal(loc: flambeau.Size([2]),"
        " scale: flambeau.Size([2])) to satisfy the constraint GreaterThan(lower_bound=0.0), but found invalid"
        " values:\ntensor([ 1., -1.])"
    )
    with pytest.raises(ValueError) as caught:
        D.Exponential(1.0).log_prob(flambeau.tensor(-1.0))
    assert str(caught.value) == (
        "Expected value argument (Tensor of shape ()) to be within the support (GreaterThanEq(lower_bound=0.0)) of the"
        " distribution Exponential(rate: 1.0), but found invalid values:\n-1.0"
    )


def test_validation_is_switched():
    try:
        D.Distribution.set_default_validate_args(False)
        assert D.Normal(0.0, -1.0).scale.item() == -1
        with pytest.raises(ValueError, match="parameter scale"):
            D.Normal(0.0, -1.0, validate_args=True)
    finally:
        D.Distribution.set_default_validate_args(True)
    with pytest.raises(ValueError, match="True or False"):
        D.Distribution.set_default_validate_args("yes")
    off = D.Exponential(1.0, validate_args=False)
    assert off.log_prob(flambeau.tensor(-1.0)).item() == 1
    assert off.expand((2,)).log_prob(flambeau.tensor(-1.0)).tolist() == [1, 1]


def test_validation_is_off_where_assertions_are():
    program = "import flambeau.distributions as D; print(D.Normal(0.0, -1.0).scale.item())"
    done = subprocess.run([sys.executable, "-O", "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout == "-1.0\n", done.stderr


def test_what_is_not_defined():
    class Nothing(D.Distribution):
        arg_constraints: dict = {}

    made = Nothing()
    for what in ("mean", "variance", "mode", "stddev", "support"):
        with pytest.raises(NotImplementedError):
            getattr(made, what)
    for method in ("rsample", "entropy", "enumerate_support", "sample", "perplexity"):
        with pytest.raises(NotImplementedError):
            getattr(made, method)()
    for method in ("log_prob", "cdf", "icdf", "expand"):
        with pytest.raises(NotImplementedError):
            getattr(made, method)(flambeau.zeros(()))
    with pytest.warns(UserWarning, match="does not define `support`"):
        made._validate_sample(flambeau.zeros(()))

    class Less(D.Distribution):
        pass

    with pytest.warns(UserWarning, match="does not define `arg_constraints`"):
        Less()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Less(validate_args=False)


def test_sample_n_is_deprecated():
    with pytest.warns(FutureWarning, match="sample_n"):
        assert D.Normal(0.0, 1.0).sample_n(3).shape == (3,)


def test_lazy_properties():
    made = D.Bernoulli(flambeau.tensor([0.25, 0.5], requires_grad=True))
    assert "logits" not in vars(made)
    with flambeau.no_grad():
        logits = made.logits
    assert made.logits is logits and logits.requires_grad
    assert isinstance(D.Bernoulli.logits, lazy_property) and isinstance(D.Bernoulli.logits, property)
    wide = made.expand((3, 2))
    assert wide.logits.shape == (3, 2) and wide._param is wide.probs
    again = copy.deepcopy(D.Bernoulli(logits=flambeau.tensor([0.5])))
    assert again._param is again.logits


def test_parameters_that_come_one_or_the_other():
    for make in (D.Bernoulli, D.Geometric, D.Categorical, D.OneHotCategorical, D.ContinuousBernoulli):
        for given in ({}, {"probs": flambeau.ones(2) / 2, "logits": flambeau.zeros(2)}):
            with pytest.raises(ValueError, match="`probs` or `logits`"):
                make(**given)
    for name in ("probs", "logits"):
        with pytest.raises(ValueError, match=f"`{name}` parameter must be at least one-dimensional"):
            D.Categorical(**{name: flambeau.tensor(0.5)})
    with pytest.raises(ValueError, match="to be positive but found invalid values"):
        D.Geometric(flambeau.tensor([0.0, 0.5]))


def test_broadcast_all():
    one, other, third = broadcast_all(flambeau.zeros(3, 1), 2, flambeau.ones(2, dtype=flambeau.float64))
    assert one.shape == other.shape == third.shape == (3, 2)
    assert (one.dtype, other.dtype, third.dtype) == (flambeau.float32, flambeau.float32, flambeau.float64)
    assert [x.dtype for x in broadcast_all(1, True)] == [flambeau.float32] * 2
    with pytest.raises(ValueError, match="instances of Number"):
        broadcast_all("a", 1.0)
    with pytest.raises(RuntimeError):
        broadcast_all(flambeau.zeros(2), flambeau.zeros(3))


def test_probabilities_and_logits():
    probs = flambeau.tensor([0.0, 0.25, 1.0], dtype=flambeau.float64)
    logits = probs_to_logits(probs, is_binary=True)
    assert logits.isfinite().all()
    np.testing.assert_allclose(logits_to_probs(logits, is_binary=True).numpy(), probs.numpy(), atol=1e-15)
    rows = flambeau.tensor([[0.0, 0.25, 0.75]], dtype=flambeau.float64)
    np.testing.assert_allclose(logits_to_probs(probs_to_logits(rows)).numpy(), rows.numpy(), atol=1e-15)


@pytest.mark.parametrize("diag", [-2, -1, 0, 1, 2])
def test_triangles(diag):
    matrix = flambeau.randn(2, 4, 4)
    vector = tril_matrix_to_vec(matrix, diag)
    rows, columns = np.tril_indices(4, diag)
    np.testing.assert_array_equal(vector.numpy(), matrix.numpy()[:, rows, columns])
    np.testing.assert_array_equal(vec_to_tril_matrix(vector, diag).numpy(), np.tril(matrix.numpy(), diag))
    with pytest.raises(ValueError, match="outside"):
        tril_matrix_to_vec(matrix, 4)
    with pytest.raises(ValueError, match="lower triangular part"):
        vec_to_tril_matrix(flambeau.zeros(4))


def test_tensors_without_data():
    made = D.Normal(flambeau.zeros(3, device="meta"), 1.0)
    assert made.log_prob(flambeau.zeros(2, 3, device="meta")).shape == (2, 3)
    assert made.rsample((4,)).device.type == "meta"


def test_whole_numbers_as_parameters():
    made = D.Normal(flambeau.tensor(0), flambeau.tensor(2))
    np.testing.assert_allclose(made.log_prob(flambeau.tensor(1)).item(), -1.7370857, rtol=1e-6)
    assert D.Bernoulli(flambeau.tensor([0.5])).log_prob(flambeau.tensor([1])).dtype is flambeau.float32


def test_importing_costs_nothing_before_use():
    program = """if True:
        import sys, flambeau
        assert not [m for m in sys.modules if m.startswith("flambeau.distributions.")]
        from flambeau.distributions.normal import Normal
        from flambeau.distributions.kl import kl_divergence
        assert kl_divergence(Normal(0.0, 1.0), Normal(0.0, 1.0)).item() == 0
        import flambeau.distributions as D
        assert D.Normal is Normal and D.constraints.positive is not None and "Weibull" in dir(D)
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
