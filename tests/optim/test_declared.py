"""What the base of declared optimisers owns: the step's tensors, complex parameters, steps on the tape, constructors."""

import copy
import gc
import inspect
import io
import math
import pickle
import weakref

import numpy as np
import pytest

import flambeau
from flambeau.optim import ASGD, SGD, Adadelta, Adagrad, Adam, Adamax, AdamW, NAdam, RAdam, RMSprop, Rprop

ALL = [
    (SGD, dict(lr=0.1)),
    (SGD, dict(lr=0.1, momentum=0.9, dampening=0.2, weight_decay=0.1)),
    (SGD, dict(lr=0.1, momentum=0.9, nesterov=True, maximize=True)),
    (Adam, dict(lr=0.1, weight_decay=0.1)),
    (Adam, dict(lr=0.1, amsgrad=True, decoupled_weight_decay=True, weight_decay=0.1)),
    (AdamW, dict(lr=0.1, maximize=True)),
    (RMSprop, dict(lr=0.1, centered=True, momentum=0.5)),
    (RMSprop, dict(lr=0.1, weight_decay=0.1)),
    (Adagrad, dict(lr=0.1, lr_decay=0.1, initial_accumulator_value=0.5)),
    (Adadelta, dict(lr=0.5, rho=0.7, weight_decay=0.1)),
    (Adamax, dict(lr=0.1, maximize=True)),
    (NAdam, dict(lr=0.1, weight_decay=0.1, decoupled_weight_decay=True)),
    (RAdam, dict(lr=0.1, betas=(0.5, 0.9), weight_decay=0.1)),
    (Rprop, dict(lr=0.125)),
    (ASGD, dict(lr=0.1, lambd=0.01, t0=2)),
]
COUNTS = ("step", "mu_product", "eta", "mu")  # the entries of states that are numbers of their own
every = pytest.mark.parametrize(
    "cls, options", ALL, ids=lambda x: x.__name__ if isinstance(x, type) else str(x)
)


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def parameter(values, dtype=flambeau.float64):
    return flambeau.nn.Parameter(flambeau.tensor(values, dtype=dtype))


def train(optimizer, params, grads):
    for g in grads:
        for p in params:
            p.grad = flambeau.tensor(g, dtype=p.dtype)
        optimizer.step()


def state_of(optimizer):
    return [{k: v.tolist() for k, v in s.items()} for s in optimizer.state_dict()["state"].values()]


# --- the count of steps ------------------------------


@pytest.mark.parametrize("cls", [Adam, AdamW, RMSprop, Adagrad])
def test_the_step_is_a_tensor_of_its_own(cls):
    params = [parameter([1.0, 2.0]) for _ in range(2)]
    optimizer = cls(params, lr=0.1)
    train(optimizer, params, numbers(3, 2))
    params[0].grad = None
    optimizer.step()
    first, second = (optimizer.state[p]["step"] for p in params)
    assert first.dtype == flambeau.float32 and first.shape == () and not first.requires_grad
    assert (first.item(), second.item()) == (3, 4) and first.data_ptr() != second.data_ptr()
    before = optimizer.state[params[1]]["step"]
    optimizer.step()
    assert optimizer.state[params[1]]["step"] is before and before.item() == 5


def test_the_step_is_wide_where_the_default_is():
    flambeau.set_default_dtype(flambeau.float64)
    try:
        p = parameter([1.0])
        plain, fused = Adam([p]), Adam([parameter([1.0])], fused=True)
        for optimizer in (plain, fused):
            train(optimizer, optimizer.param_groups[0]["params"], [[1.0]])
        kinds = [next(iter(o.state.values()))["step"].dtype for o in (plain, fused)]
    finally:
        flambeau.set_default_dtype(flambeau.float32)
    assert kinds == [flambeau.float64, flambeau.float32]


def test_a_step_written_in_place_counts():
    """Bias corrections follow what the state says, each parameter's its own."""
    one, other = (parameter([1.0, 2.0]) for _ in range(2))
    optimizer = Adam([one, other], lr=0.1)
    train(optimizer, [one, other], numbers(2, 2))
    optimizer.state[other]["step"].fill_(100.0)
    optimizer.state[other]["exp_avg"].zero_()
    alone = parameter(other.tolist())
    lone = Adam([alone], lr=0.1)
    lone.load_state_dict(
        {"state": {0: optimizer.state_dict()["state"][1]}, "param_groups": lone.state_dict()["param_groups"]}
    )
    train(optimizer, [one, other], numbers(1, 2, seed=1))
    train(lone, [alone], numbers(1, 2, seed=1))
    assert other.tolist() == alone.tolist() and one.tolist() != other.tolist()
    assert optimizer.state[other]["step"].item() == 101


@every
def test_states_with_plain_numbers_are_read(cls, options):
    """Before 1.12 PyTorch kept `step` as a number."""
    p, q = parameter([1.0, -2.0]), parameter([1.0, -2.0])
    one, other = cls([p], **options), cls([q], **options)
    train(one, [p], numbers(3, 2))
    saved = copy.deepcopy(one.state_dict())
    for entries in saved["state"].values():
        if "step" in entries:
            entries["step"] = int(entries["step"].item())
    with flambeau.no_grad():
        q.copy_(p)
    other.load_state_dict(saved)
    train(one, [p], numbers(2, 2, seed=1))
    train(other, [q], numbers(2, 2, seed=1))
    assert p.tolist() == q.tolist() and state_of(one) == state_of(other)


def test_entries_that_are_none_are_made_anew():
    p = parameter([1.0])
    optimizer = SGD([p], lr=0.5, momentum=0.5)
    saved = optimizer.state_dict() | {"state": {0: {"momentum_buffer": None}}}
    optimizer.load_state_dict(saved)
    train(optimizer, [p], [[2.0]])
    assert p.tolist() == [0.0] and optimizer.state[p]["momentum_buffer"].tolist() == [2.0]


def test_an_entry_that_an_option_turns_on_later():
    p = parameter([1.0, 1.0])
    optimizer = Adam([p], lr=0.1)
    train(optimizer, [p], numbers(2, 2))
    optimizer.param_groups[0]["amsgrad"] = True
    train(optimizer, [p], numbers(1, 2))
    assert set(optimizer.state[p]) == {"step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"}
    assert optimizer.state[p]["step"].item() == 3


@every
def test_loading_keeps_the_dtype_of_the_step_and_casts_the_rest(cls, options):
    p, half = parameter([1.0, -2.0]), parameter([1.0, -2.0], flambeau.bfloat16)
    one, other = cls([p], **options), cls([half], **options)
    train(one, [p], numbers(1, 2))
    other.load_state_dict(one.state_dict())
    for name, value in other.state[half].items():
        assert value.dtype == (flambeau.float32 if name in COUNTS else flambeau.bfloat16)
        assert value is not one.state[p][name]


@every
def test_a_state_survives_a_file_a_pickle_and_a_copy(cls, options):
    p = parameter([[1.0, -2.0]])
    optimizer = cls([p], **options)
    train(optimizer, [p], numbers(2, 1, 2))
    file = io.BytesIO()
    flambeau.save(optimizer.state_dict(), file)
    file.seek(0)
    loaded = flambeau.load(file)
    for other in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        other.load_state_dict(loaded)
        assert state_of(other) == state_of(optimizer) and repr(other) == repr(optimizer)
        (q,) = other.param_groups[0]["params"]
        train(other, [q], numbers(1, 1, 2, seed=1))
        again = parameter(p.tolist())
        third = cls([again], **options)
        third.load_state_dict(loaded)
        train(third, [again], numbers(1, 1, 2, seed=1))
        assert q.tolist() == again.tolist()


# --- parameters of every kind ------------------------------


@every
def test_complex_parameters_are_pairs(cls, options):
    start, grads = numbers(3, 2), numbers(4, 3, 2, seed=1)
    pairs = parameter(start)
    z = flambeau.nn.Parameter(flambeau.view_as_complex(flambeau.tensor(start)))
    of_pairs, of_z = cls([pairs], **options), cls([z], **options)
    for g in grads:
        pairs.grad = flambeau.tensor(g)
        z.grad = flambeau.view_as_complex(flambeau.tensor(g))
        of_pairs.step()
        of_z.step()
    assert flambeau.view_as_real(z.detach()).tolist() == pairs.tolist() and z.is_complex()
    for name, value in of_z.state[z].items():
        assert (name in COUNTS) != value.is_complex()


@every
def test_real_and_complex_parameters_together(cls, options):
    real, z = (
        parameter([1.0, 2.0]),
        flambeau.nn.Parameter(flambeau.tensor([1 + 2j], dtype=flambeau.complex128)),
    )
    optimizer = cls([real, z], **options)
    real.grad, z.grad = flambeau.tensor([1.0, 2.0], dtype=flambeau.float64), z.detach().clone()
    optimizer.step()
    assert real.tolist() == flambeau.view_as_real(z.detach())[0].tolist()


@every
def test_parameters_that_are_views_empty_or_strided(cls, options):
    base = flambeau.tensor(numbers(4, 6))
    dense = [base[:, 1].clone(), base.t()[2:4].clone(), base[:0].clone(), base[2, 3].clone()]
    views = [base[:, 1], base.t()[2:4], base[:0], base[2, 3]]
    views[3] = flambeau.tensor(numbers(3))[1]
    dense[3] = views[3].clone()
    for tensors in (dense, views):
        for p in tensors:
            p.requires_grad_()
        optimizer = cls(tensors, **options)
        for _ in range(2):
            for k, p in enumerate(tensors):
                p.grad = flambeau.full(p.shape, 0.5 + k, dtype=p.dtype)
            optimizer.step()
    for p, q in zip(dense, views):
        assert p.tolist() == q.tolist()


@every
def test_a_parameter_and_a_gradient_of_nan_or_inf_spoil_themselves_alone(cls, options):
    values = [math.inf, 1.0, 2.0, math.nan]
    p, alone = parameter(values), parameter([1.0])
    one, other = cls([p], **options), cls([alone], **options)
    for g in (1.0, 2.0):
        p.grad = flambeau.tensor([g, g, math.nan, g], dtype=p.dtype)
        alone.grad = flambeau.tensor([g], dtype=p.dtype)
        one.step()
        other.step()
    found = p.tolist()
    assert found[1] == alone.item() and math.isnan(found[3])
    assert math.isnan(found[2]) or cls is Rprop  # a sign of NaN is 0, as in PyTorch
    if not options.get("weight_decay"):  # AdamW decays by default
        assert found[0] == math.inf


def test_no_decay_leaves_an_infinite_parameter_alone():
    p = parameter([math.inf, -math.inf])
    train(SGD([p], lr=0.5), [p], [[1.0, 1.0]])
    assert p.tolist() == [math.inf, -math.inf]


@every
def test_half_types_compute_in_float32(cls, options):
    p, wide = parameter(numbers(8), flambeau.float16), None
    wide = parameter(p.tolist(), flambeau.float32)
    one, other = cls([p], **options), cls([wide], **options)
    g = flambeau.tensor(numbers(8, seed=1), dtype=flambeau.float16)
    p.grad, wide.grad = g, g.float()
    one.step()
    other.step()
    assert p.tolist() == wide.half().tolist()


@every
def test_optimizers_are_freed_without_the_collector(cls, options):
    p = parameter([1.0])
    optimizer = cls([p], **options)
    train(optimizer, [p], [[1.0], [1.0]])
    gone = weakref.ref(optimizer)
    gc.disable()
    try:
        del optimizer
        assert gone() is None
    finally:
        gc.enable()


# --- steps by operations ------------------------------


@every
def test_steps_on_the_tape_make_the_same(cls, options):
    start, grads = numbers(5), numbers(4, 5, seed=1)
    plain, taped = parameter(start), flambeau.tensor(start)
    one, other = cls([plain], **options), cls([taped], differentiable=True, **options)
    for g in grads:
        plain.grad, taped.grad = flambeau.tensor(g), flambeau.tensor(g)
        one.step()
        other.step()
    assert np.allclose(
        plain.tolist(), taped.tolist(), rtol=1e-4
    )  # bias corrections are of float32 there, as PyTorch's
    assert list(one.state[plain]) == list(other.state[taped])


def two_steps(cls, options, start, push):
    """What a loss is after two steps by gradients `push`."""
    p = start.clone()
    optimizer = cls([p], differentiable=True, **options)
    for factor in (1, 2):
        p.grad = push * factor
        optimizer.step()
    return (p * p).sum()


@every
def test_a_differentiable_step(cls, options):
    if "momentum" in options and cls is SGD:
        options = options | {"momentum": 0}  # the first gradient is a constant in the buffer, as in PyTorch
        options.pop("nesterov", None)
    start = flambeau.tensor(numbers(4), requires_grad=True)
    push = flambeau.tensor(np.abs(numbers(4, seed=1)) + 0.5, requires_grad=True)
    found = flambeau.autograd.grad(
        two_steps(cls, options, start, push), [start, push], materialize_grads=True
    )
    for x, gradient in zip((start, push), found):
        for k in range(4):
            ends = []
            for h in (1e-5, -1e-5):
                moved = x.detach().clone()
                moved[k] += h
                pair = (moved, push) if x is start else (start, moved)
                ends.append(two_steps(cls, options, *(t.detach() for t in pair)).item())
            assert gradient[k].item() == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize(
    "cls, option",
    [
        (SGD, "lr"),
        (SGD, "weight_decay"),
        (SGD, "momentum"),
        (Adam, "lr"),
        (Adam, "weight_decay"),
        (AdamW, "weight_decay"),
        (RMSprop, "alpha"),
        (Adagrad, "lr"),
        (Adagrad, "eps"),
    ],
)
def test_a_step_is_differentiated_by_its_options(cls, option):
    value = 0.25
    start, push = flambeau.tensor(numbers(3)), flambeau.tensor(numbers(3, seed=1))

    def loss(x):
        return two_steps(cls, {"lr": 0.1} | {option: x}, start, push)

    x = flambeau.tensor(value, dtype=flambeau.float64, requires_grad=True)
    (found,) = flambeau.autograd.grad(loss(x), [x])
    ends = [loss(flambeau.tensor(value + h, dtype=flambeau.float64)).item() for h in (1e-5, -1e-5)]
    assert found.item() == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-4)


def test_differentiable_complex_parameters():
    start = flambeau.tensor([1 + 2j, 3 - 1j], dtype=flambeau.complex128, requires_grad=True)
    p = start.clone()
    p.grad = flambeau.ones_like(p)
    SGD([p], lr=0.5, weight_decay=0.5, differentiable=True).step()
    (found,) = flambeau.autograd.grad(flambeau.view_as_real(p).sum(), [start])
    assert flambeau.view_as_real(found).tolist() == [[0.75, 0.75], [0.75, 0.75]]


def test_differentiable_steps_refuse_leaves():
    p = parameter([1.0])
    p.grad = flambeau.ones(1, dtype=flambeau.float64)
    with pytest.raises(RuntimeError, match="leaf"):
        SGD([p], lr=0.1, differentiable=True).step()
    assert p.tolist() == [1.0]


@pytest.mark.parametrize("cls", [Adam, AdamW, RMSprop])
def test_capturable_steps_refuse_the_host(cls):
    p = parameter([1.0])
    p.grad = flambeau.ones(1, dtype=flambeau.float64)
    optimizer = cls([p], capturable=True)
    with pytest.raises(AssertionError, match="accelerators"):
        optimizer.step()
    assert p.tolist() == [1.0]


@pytest.mark.parametrize("cls", [SGD, Adam, AdamW, Adagrad])
def test_fused_and_what_it_excludes(cls):
    for other in ("foreach", "differentiable"):
        with pytest.raises(RuntimeError, match=f"{cls.__name__}.*fused.*{other}"):
            cls([parameter([1.0])], fused=True, **{other: True})
    z = flambeau.nn.Parameter(flambeau.ones(1, dtype=flambeau.complex64))
    z.grad = flambeau.ones_like(z.detach())
    with pytest.raises(RuntimeError, match="floating point"):
        cls([z], fused=True).step()


@every
def test_foreach_and_fused_change_no_bit(cls, options):
    found = []
    for flag in ({}, {"foreach": True}, {"foreach": False}, {"fused": True}):
        if set(flag) <= set(inspect.signature(cls).parameters):
            p = parameter(numbers(5))
            train(cls([p], **options, **flag), [p], numbers(3, 5, seed=1))
            found.append(p.tolist())
    assert len(found) >= 3 and all(f == found[0] for f in found)


# --- constructors ------------------------------


def test_signatures():
    assert str(inspect.signature(SGD)) == (
        "(params, lr=0.001, momentum=0, dampening=0, weight_decay=0, nesterov=False, *, maximize=False, foreach=None, "
        "differentiable=False, fused=None)"
    )
    assert list(inspect.signature(AdamW.__init__).parameters)[:7] == (
        ["self", "params", "lr", "betas", "eps", "weight_decay", "amsgrad"]
    )
    assert "decoupled_weight_decay" not in inspect.signature(AdamW).parameters
    with pytest.raises(TypeError, match=r"SGD.__init__\(\).*'rate'"):
        SGD([parameter([1.0])], rate=0.1)
    with pytest.raises(TypeError, match="SGD.*params"):
        SGD()
    with pytest.raises(TypeError, match="Adam.*positional"):
        Adam([parameter([1.0])], 0.1, (0.9, 0.9), 1e-8, 0, False, True)


def test_subclasses_of_declared_optimizers():
    class Slow(Adam):
        def __init__(self, params, lr=0.5, extra=2):
            super().__init__(params, lr=lr / extra, betas=[0.5, 0.5])

    p = parameter([1.0])
    slow = Slow([p])
    train(slow, [p], [[1.0]])
    assert (
        slow.defaults["lr"] == 0.25
        and slow.defaults["betas"] == (0.5, 0.5)
        and p.item() == pytest.approx(0.75)
    )

    class Backwards(SGD):
        @staticmethod
        def rule(p, g, momentum_buffer, *, lr):
            return p + lr * g, momentum_buffer

    train(Backwards([p], lr=1.0), [p], [[1.0]])
    assert p.item() == pytest.approx(1.75)
    train(SGD([p], lr=1.0), [p], [[1.0]])
    assert p.item() == pytest.approx(0.75)


def test_options_in_tensors_of_one_element():
    found = []
    for lr in (
        0.1,
        flambeau.tensor(0.1, dtype=flambeau.float64),
        flambeau.tensor([0.1], dtype=flambeau.float64),
    ):
        p = parameter([1.0, 2.0])
        optimizer = Adam([p], lr=lr, betas=(flambeau.tensor(0.5), flambeau.tensor([0.5])))
        train(optimizer, [p], numbers(2, 2))
        found.append(p.tolist())
    assert found[0] == found[1] == found[2]


def test_an_accumulator_is_there_from_the_beginning():
    p, z = parameter([1.0]), flambeau.nn.Parameter(flambeau.zeros(1, dtype=flambeau.complex64))
    state = Adagrad([p, z], initial_accumulator_value=0.5).state
    assert state[p]["sum"].tolist() == [0.5] and state[z]["sum"].tolist() == [0.5 + 0.5j]
    assert state[p]["step"].item() == 0
