"""What holds for every optimiser there is, searched over the list of them."""

import copy
import inspect
import io
import math
import os
import pickle

import numpy as np
import pytest

import flambeau
from flambeau import optim
from flambeau.optim._declared import Declared

ALL = {
    name: cls
    for name, cls in vars(optim).items()
    if isinstance(cls, type) and issubclass(cls, optim.Optimizer) and cls is not optim.Optimizer
}
every = pytest.mark.parametrize("name", sorted(ALL))
COMPLEX = sorted(set(ALL) - {"Adafactor", "Muon", "SparseAdam"})
# Options besides lr, with values that are out of their range and what PyTorch's error says of them.
WRONG = [
    ("*", {"lr": -1.0}, "earning rate"),
    ("*", {"lr": math.nan}, "earning rate"),
    ("*", {"lr": flambeau.ones(2)}, "1-element"),
    ("Adadelta", {"rho": 1.5}, "Invalid rho value: 1.5"),
    ("Adafactor", {"beta2_decay": 0.8}, "beta2_decay should be <= 0 but is: 0.8"),
    ("Adafactor", {"d": 0.5}, "Clipping threshold d should be >= 1 but is: 0.5"),
    ("Adafactor", {"eps": (-1.0, 1e-3)}, "epsilon1 should be >= 0 but is: -1.0"),
    ("Adagrad", {"lr_decay": -0.5}, "Invalid lr_decay value: -0.5"),
    ("Adagrad", {"initial_accumulator_value": -0.1}, "Invalid initial_accumulator_value value: -0.1"),
    ("Adam", {"betas": (1.0, 0.0)}, "Invalid beta parameter at index 0: 1.0"),
    ("AdamW", {"betas": (0.0, -0.5)}, "Invalid beta parameter at index 1: -0.5"),
    ("Adam", {"eps": -1}, "Invalid epsilon value: -1"),
    ("Adamax", {"betas": (0.0, 1.0)}, "Invalid beta parameter at index 1: 1.0"),
    ("ASGD", {"weight_decay": -0.5}, "Invalid weight_decay value: -0.5"),
    ("Muon", {"momentum": -0.5}, "momentum should be >= 0 but is: -0.5"),
    ("Muon", {"weight_decay": -0.5}, "weight decay should be >= 0 but is: -0.5"),
    ("Muon", {"adjust_lr_fn": "none"}, "Adjust learning rate function none is not supported"),
    ("NAdam", {"momentum_decay": -0.2}, "Invalid momentum_decay value: -0.2"),
    ("RAdam", {"weight_decay": -1}, "Invalid weight_decay value: -1"),
    ("RMSprop", {"momentum": -1.0}, "Invalid momentum value: -1.0"),
    ("Rprop", {"etas": (1.0, 0.5)}, "Invalid eta values: 1.0, 0.5"),
    ("SparseAdam", {"lr": 0}, "Invalid learning rate: 0"),
]


def parameter(values, dtype=flambeau.float64):
    return flambeau.nn.Parameter(flambeau.tensor(values, dtype=dtype))


def matrix(seed=0, *shape):
    return np.random.default_rng(seed).normal(size=shape or (3, 4))


def give(name, p, seed):
    """A gradient of the kind that the optimiser takes."""
    values = flambeau.tensor(matrix(seed, *p.shape), dtype=p.dtype)
    p.grad = values.to_sparse(1) if name == "SparseAdam" else values


def step(name, optimizer, params, seed):
    """A step by gradients that the seed gives."""

    def closure():
        for k, p in enumerate(params):
            give(name, p, seed + k)
        return flambeau.tensor(-float(seed))

    closure()
    return optimizer.step(closure) if name == "LBFGS" else optimizer.step()


def plain(x):
    """A state as lists, for comparison by bits."""
    if isinstance(x, flambeau.Tensor):
        return x.dtype, tuple(x.shape), x.tolist()
    if isinstance(x, dict):
        return {k: plain(v) for k, v in x.items()}
    return [plain(v) for v in x] if isinstance(x, (list, tuple)) else x


@pytest.mark.parametrize("name, options, told", WRONG, ids=str)
def test_options_out_of_range(name, options, told):
    for each in sorted(ALL) if name == "*" else [name]:
        with pytest.raises(ValueError, match=told):
            ALL[each]([parameter(matrix())], **options)


@every
def test_the_constructor_says_what_it_takes(name):
    parameters = list(inspect.signature(ALL[name]).parameters.values())
    assert parameters[0].name == "params" and parameters[1].name == "lr"
    assert ALL[name].__doc__.count(">>>") and "Raises" in (
        ALL[name].__doc__ + (ALL[name].__mro__[1].__doc__ or "")
    )


@every
def test_training_goes_on_to_the_same_bits(name, tmp_path):
    """From a file, a deep copy and a pickle; a copy's steps leave the original alone."""
    params = [parameter(matrix(k)) for k in range(2)]
    optimizer = ALL[name]([{"params": params}], lr=0.05)
    for seed in range(3):
        step(name, optimizer, params, seed)
    flambeau.save({"optimizer": optimizer.state_dict(), "params": params}, tmp_path / "checkpoint")
    copied, copied_params = copy.deepcopy((optimizer, params))
    pickled, pickled_params = pickle.loads(pickle.dumps((optimizer, params)))
    loaded = flambeau.load(tmp_path / "checkpoint")
    resumed = ALL[name](loaded["params"], lr=1.0)
    resumed.load_state_dict(loaded["optimizer"])
    ways = [(copied, copied_params), (pickled, pickled_params), (resumed, loaded["params"])]
    before = plain(optimizer.state_dict())
    for other, its in ways:
        assert plain(other.state_dict()) == before
        for seed in range(3, 6):
            step(name, other, its, seed)
        assert plain(optimizer.state_dict()) == before
    for seed in range(3, 6):
        step(name, optimizer, params, seed)
    for other, its in ways:
        assert plain(other.state_dict()) == plain(optimizer.state_dict())
        assert [p.tolist() for p in its] == [p.tolist() for p in params]


@every
def test_a_state_of_another_shape(name):
    """A clear error, and nothing is loaded."""
    one, other = parameter(matrix()), parameter(matrix(0, 5, 4))
    optimizer, wrong = ALL[name]([one]), ALL[name]([other])
    step(name, optimizer, [one], 1)
    step(name, wrong, [other], 1)
    saved = wrong.state_dict()
    if saved["state"] and issubclass(ALL[name], Declared):
        before = plain(optimizer.state_dict())
        with pytest.raises(ValueError, match=f"{name}.load_state_dict: state of parameter 0: .*shape"):
            optimizer.load_state_dict(saved)
        assert plain(optimizer.state_dict()) == before
    with pytest.raises(ValueError, match="2 parameter"):
        optimizer.load_state_dict(ALL[name]([one, other]).state_dict())


@every
def test_a_closure_that_raises(name):
    """Parameters and state are what they were, and the next step is what it would have been."""
    params, others = ([parameter(matrix(k)) for k in range(2)] for _ in range(2))
    optimizer, untouched = ALL[name](params), ALL[name](others)
    for each, its in ((optimizer, params), (untouched, others)):
        step(name, each, its, 1)
    before = plain(optimizer.state_dict()), plain(params)
    calls = []

    def closure():
        calls.append(1)
        for p in params:
            give(name, p, len(calls))
        if len(calls) == (3 if name == "LBFGS" else 1):
            raise KeyError("midway")
        return flambeau.tensor(-float(len(calls)))

    with pytest.raises(KeyError, match="midway"):
        optimizer.step(closure)
    assert (plain(optimizer.state_dict()), plain(params)) == before
    for each, its in ((optimizer, params), (untouched, others)):
        step(name, each, its, 2)
    assert plain(params) == plain(others) and plain(optimizer.state_dict()) == plain(untouched.state_dict())


@every
def test_what_has_no_gradient_or_no_elements(name):
    still, empty, moved = parameter(matrix()), parameter(matrix(0, 0, 4)), parameter(matrix(1))
    optimizer = ALL[name]([still, empty, moved], lr=0.1)
    for seed in range(2):
        step(name, optimizer, [empty, moved], seed)
    assert still.tolist() == matrix().tolist() and moved.tolist() != matrix(1).tolist()
    assert empty.tolist() == [] and all(math.isfinite(x) for row in moved.tolist() for x in row)
    assert still not in optimizer.state or name in ("Adagrad", "LBFGS")
    alone = ALL[name]([parameter(matrix())])
    if name == "LBFGS":
        assert alone.step(lambda: flambeau.tensor(2.0)).item() == 2
    else:
        assert alone.step() is None and alone.step(lambda: 7) == 7
    assert not alone.state or name in ("Adagrad", "LBFGS")


@every
def test_parameters_that_are_none(name):
    p = parameter(matrix())
    for wrong, error in (
        ([], ValueError),
        (p, TypeError),
        ([1], TypeError),
        ([p * 2], ValueError),
        ([{"params": [p]}, {"params": [p]}], ValueError),
        ({p}, TypeError),
    ):
        with pytest.raises(error):
            ALL[name](wrong if not isinstance(wrong, set) else [{"params": wrong}])
    with pytest.warns(UserWarning, match="duplicate"):
        ALL[name]([p, p])


@every
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_gradients_that_are_no_numbers(name, bad):
    """No error, no hang; parameters that the bad gradient is not of stay finite."""
    params = [parameter(matrix(k)) for k in range(2)]
    optimizer = ALL[name](params)

    def closure():
        for k, p in enumerate(params):
            give(name, p, k)
        g = params[0].grad
        (g._values() if g.is_sparse else g)[0, 0] = bad
        return flambeau.tensor(1.0)

    for _ in range(2):
        closure()
        optimizer.step(*[closure] * (name == "LBFGS"))
    assert name == "LBFGS" or all(math.isfinite(x) for row in params[1].tolist() for x in row)


@pytest.mark.parametrize("name", sorted(set(ALL) - set(COMPLEX)))
def test_complex_parameters_are_refused(name):
    p = flambeau.nn.Parameter(flambeau.zeros(2, 2, dtype=flambeau.complex64))
    with pytest.raises((RuntimeError, ValueError), match=f"{name} does not support complex parameters"):
        optimizer = ALL[name]([p])
        p.grad = flambeau.ones_like(p)
        optimizer.step()
    assert p.tolist() == [[0, 0], [0, 0]]


@every
def test_hooks_and_closures(name):
    p, seen = parameter(matrix()), []
    optimizer = ALL[name]([p])
    optimizer.register_step_pre_hook(lambda o, args, kwargs: seen.append("before"))
    optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append("after"))

    def closure():
        assert flambeau.is_grad_enabled()
        give(name, p, len(seen))
        return flambeau.tensor(5.0 - len(seen))

    with flambeau.no_grad():
        assert optimizer.step(closure).item() == 4
    assert (seen[0], seen[-1]) == ("before", "after") and p.is_leaf and p.requires_grad
    assert all(not v.requires_grad for v in optimizer.state[p].values() if isinstance(v, flambeau.Tensor))


@every
def test_halves_and_rates_in_tensors(name):
    one, other = (parameter(matrix(), flambeau.float32) for _ in range(2))
    half = parameter(matrix(), flambeau.bfloat16)
    for p, lr in ((one, 0.125), (other, flambeau.tensor([0.125])), (half, 0.125)):
        optimizer = ALL[name]([p], lr=lr)
        for seed in range(2):
            step(name, optimizer, [p], seed)
    assert np.allclose(one.tolist(), other.tolist(), rtol=1e-5)
    assert half.dtype == flambeau.bfloat16
    if name != "LBFGS":  # whose line of 20 iterations in bfloat16 is another
        assert np.allclose(half.float().tolist(), one.tolist(), atol=0.1)


def test_a_step_in_the_child_of_a_fork():
    made = []
    for name in sorted(ALL):
        params = [parameter(matrix())]
        made.append((name, ALL[name](params), params))
        step(name, *made[-1][1:], 0)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            for name, optimizer, params in made:
                step(name, optimizer, params, 1)
            found = io.BytesIO()
            pickle.dump([params[0].tolist() for _, _, params in made], found)
            os.write(writer, found.getvalue())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        found = pickle.loads(pipe.read())
    os.waitpid(child, 0)
    for name, optimizer, params in made:
        step(name, optimizer, params, 1)
    assert found == [params[0].tolist() for _, _, params in made]
