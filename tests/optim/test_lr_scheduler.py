"""The schedules against closed formulas of the epoch."""

import math
import warnings

import pytest

import flambeau
from flambeau.optim import SGD, Adam
from flambeau.optim import lr_scheduler as lr


def optimizer(*rates, cls=SGD, **options):
    return cls(
        [{"params": flambeau.zeros(1, requires_grad=True), "lr": rate} for rate in rates or (1.0,)], **options
    )


def rates(scheduler, steps):
    """The rates of the first group at epochs 0, 1, …"""
    result = []
    for _ in range(steps):
        (now, *_) = scheduler.get_last_lr()
        assert now == scheduler.optimizer.param_groups[0]["lr"]
        result.append(now)
        scheduler.optimizer.step()
        scheduler.step()
    return result


def cosine(t, period, low=0.0, high=1.0):
    return low + (high - low) * (1 + math.cos(math.pi * t / period)) / 2


CASES = {
    "lambda": (lambda o: lr.LambdaLR(o, lambda t: 1 / (1 + t)), lambda t: 1 / (1 + t)),
    "multiplicative": (lambda o: lr.MultiplicativeLR(o, lambda t: t / (t + 1)), lambda t: 1 / (t + 1)),
    "step": (lambda o: lr.StepLR(o, 3, 0.5), lambda t: 0.5 ** (t // 3)),
    "multistep": (lambda o: lr.MultiStepLR(o, [2, 7, 7]), lambda t: 0.1 ** ((t >= 2) + 2 * (t >= 7))),
    "constant": (lambda o: lr.ConstantLR(o, 0.25, 4), lambda t: 0.25 if t < 4 else 1.0),
    "linear": (lambda o: lr.LinearLR(o, 0.2, 0.8, 6), lambda t: 0.2 + 0.1 * min(t, 6)),
    "exponential": (lambda o: lr.ExponentialLR(o, 0.9), lambda t: 0.9**t),
    "polynomial": (lambda o: lr.PolynomialLR(o, 8, 2.0), lambda t: (1 - min(t, 8) / 8) ** 2),
    "cosine": (lambda o: lr.CosineAnnealingLR(o, 5, 0.1), lambda t: cosine(t, 5, 0.1)),
    "restarts": (lambda o: lr.CosineAnnealingWarmRestarts(o, 4, 1, 0.1), lambda t: cosine(t % 4, 4, 0.1)),
    "sequential": (
        lambda o: lr.SequentialLR(
            o, [lr.ConstantLR(o, 0.5, 100), lr.ExponentialLR(o, 0.9), lr.StepLR(o, 2)], [3, 8]
        ),
        lambda t: 0.5 if t < 3 else 0.9 ** (t - 3) if t < 8 else 0.1 ** ((t - 8) // 2),
    ),
    "warm-up": (
        lambda o: lr.SequentialLR(o, [lr.LinearLR(o, 0.25, 1.0, 3), lr.CosineAnnealingLR(o, 20)], [3]),
        lambda t: 0.25 + 0.25 * t if t < 3 else cosine(t - 3, 20),
    ),
    "chained": (
        lambda o: lr.ChainedScheduler([lr.ConstantLR(o, 0.5, 4), lr.ExponentialLR(o, 0.9)]),
        lambda t: (0.5 if t < 4 else 1.0) * 0.9**t,
    ),
    "nested": (
        lambda o: lr.SequentialLR(
            o, [lr.ChainedScheduler([lr.ExponentialLR(o, 0.9), lr.StepLR(o, 2)]), lr.StepLR(o, 3)], [4]
        ),
        lambda t: 0.9**t * 0.1 ** (t // 2) if t < 4 else 0.1 ** ((t - 4) // 3),
    ),
    "triangles": (
        lambda o: lr.CyclicLR(o, 1.0, 3.0, 2, 4, cycle_momentum=False),
        lambda t: [1, 2, 3, 2.5, 2, 1.5][t % 6],
    ),
    "triangles, halved": (
        lambda o: lr.CyclicLR(o, 1.0, 3.0, 2, mode="triangular2", cycle_momentum=False),
        lambda t: 1 + [0, 1, 2, 1][t % 4] / 2 ** (t // 4),
    ),
    "triangles, shrinking": (
        lambda o: lr.CyclicLR(o, 1.0, 3.0, 2, mode="exp_range", gamma=0.9, cycle_momentum=False),
        lambda t: 1 + [0, 1, 2, 1][t % 4] * 0.9**t,
    ),
    "triangles, by hand": (
        lambda o: lr.CyclicLR(o, 1.0, 3.0, 2, scale_fn=lambda n: 10.0**n, cycle_momentum=False),
        lambda t: 1 + [0, 1, 2, 1][t % 4] * 10.0 ** (1 + t // 4),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_schedule(name):
    make, formula = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scheduler = make(optimizer())
        assert rates(scheduler, 15) == pytest.approx([formula(t) for t in range(15)], rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("name", CASES)
def test_state_dict(name):
    make, formula = CASES[name]
    first, second = make(optimizer()), make(optimizer())
    rates(first, 5)
    second.load_state_dict(first.state_dict())
    second.optimizer.load_state_dict(first.optimizer.state_dict())
    assert "optimizer" not in first.state_dict()
    assert rates(second, 8) == pytest.approx([formula(t) for t in range(5, 13)], rel=1e-12, abs=1e-15)


@pytest.mark.parametrize(
    "name", ["step", "multistep", "constant", "linear", "polynomial", "cosine", "lambda", "exponential"]
)
def test_jumps_to_an_epoch(name):
    make, formula = CASES[name]
    scheduler = make(optimizer())
    scheduler.optimizer.step()
    for epoch in (7, 2, 0, 12):
        with pytest.warns(UserWarning, match="epoch parameter"):
            scheduler.step(epoch)
        assert scheduler.get_last_lr() == pytest.approx([formula(epoch)], rel=1e-12)
        assert scheduler.last_epoch == epoch


@pytest.mark.parametrize("name", ["step", "multistep", "exponential", "cosine", "polynomial", "lambda"])
def test_resuming_with_last_epoch(name):
    def resumed(o):
        if name == "lambda":
            return lr.LambdaLR(o, lambda t: 1 / (1 + t), last_epoch=4)
        cls, args = {
            "step": (lr.StepLR, (3, 0.5)),
            "multistep": (lr.MultiStepLR, ([2, 7, 7],)),
            "exponential": (lr.ExponentialLR, (0.9,)),
            "cosine": (lr.CosineAnnealingLR, (5, 0.1)),
            "polynomial": (lr.PolynomialLR, (8, 2.0)),
        }[name]
        return cls(o, *args, last_epoch=4)

    make, formula = CASES[name]
    first = make(optimizer())
    rates(first, 5)
    scheduler = resumed(first.optimizer)
    assert scheduler.last_epoch == 5
    assert rates(scheduler, 4) == pytest.approx([formula(t) for t in range(5, 9)], rel=1e-12)
    with pytest.raises(KeyError, match="initial_lr"):
        resumed(optimizer())


def test_groups_have_their_own_rates():
    scheduler = lr.LambdaLR(optimizer(1.0, 2.0), [lambda t: 0.5**t, lambda t: 0.1**t])
    rates(scheduler, 2)
    assert scheduler.get_last_lr() == pytest.approx([0.25, 0.02])
    assert scheduler.base_lrs == [1.0, 2.0]
    assert [g["initial_lr"] for g in scheduler.optimizer.param_groups] == [1.0, 2.0]
    for cls in (lr.LambdaLR, lr.MultiplicativeLR):
        with pytest.raises(ValueError, match="Expected . lr_lambdas, one a group, but got"):
            cls(optimizer(1.0, 2.0), [abs])


def test_rates_that_are_tensors_are_changed_in_place():
    rate = flambeau.tensor(1.0)
    o = optimizer(rate)
    scheduler = lr.ExponentialLR(o, 0.5)
    before = scheduler.get_last_lr()[0]
    o.step()
    scheduler.step()
    assert o.param_groups[0]["lr"] is rate and rate.item() == 0.5
    assert before.item() == 1.0 and scheduler.base_lrs[0].item() == 1.0


def test_restarts_in_growing_periods():
    scheduler = lr.CosineAnnealingWarmRestarts(optimizer(), 2, 2)
    expected = [cosine(t, n) for n in (2, 4, 8) for t in range(n)]
    assert rates(scheduler, 14) == pytest.approx(expected, abs=1e-15)
    for epoch, place in [(0.5, (0.5, 2)), (3, (1, 4)), (13.25, (7.25, 8)), (6, (0, 8)), (1, (1, 2))]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scheduler.step(epoch)
        assert scheduler.get_last_lr() == pytest.approx([cosine(*place)])
        assert scheduler.last_epoch == math.floor(epoch)
    with pytest.raises(ValueError, match="non-negative"):
        scheduler.step(-1)


def between(a, b, part):
    return b + (a - b) * (1 + math.cos(math.pi * part)) / 2


def test_one_cycle():
    o = optimizer(momentum=0.5)
    scheduler = lr.OneCycleLR(o, 2.0, total_steps=10, pct_start=0.4, div_factor=4, final_div_factor=10)
    start, low = 0.5, 0.05
    for t in range(10):
        if t <= 3:
            expected, momentum = between(start, 2.0, t / 3), between(0.95, 0.85, t / 3)
        else:
            expected, momentum = between(2.0, low, (t - 3) / 6), between(0.85, 0.95, (t - 3) / 6)
        assert scheduler.get_last_lr() == pytest.approx([expected])
        assert o.param_groups[0]["momentum"] == pytest.approx(momentum)
        if t < 9:
            o.step()
            scheduler.step()
    scheduler.step()
    with pytest.raises(ValueError, match="step 11 times"):
        scheduler.step()


def test_one_cycle_in_three_phases():
    o = optimizer(cls=Adam, betas=(0.5, 0.7))
    scheduler = lr.OneCycleLR(
        *(o, 2.0),
        **dict(epochs=3, steps_per_epoch=4, pct_start=0.25, anneal_strategy="linear", three_phase=True),
        **dict(div_factor=4, final_div_factor=5),
    )
    points = [(0, 0.5, 0.95), (2, 2.0, 0.85), (4, 0.5, 0.95), (11, 0.1, 0.95)]  # step, rate, beta1
    for t in range(12):
        for (t0, r0, m0), (t1, r1, m1) in zip(points, points[1:]):
            if t0 <= t <= t1:
                part = (t - t0) / (t1 - t0)
                expected, beta = r0 + (r1 - r0) * part, m0 + (m1 - m0) * part
        assert scheduler.get_last_lr() == pytest.approx([expected])
        assert o.param_groups[0]["betas"] == pytest.approx((beta, 0.7))
        o.step()
        scheduler.step()


def test_cyclic_momentum():
    o = optimizer(momentum=0.1)
    scheduler = lr.CyclicLR(o, 1.0, 3.0, 2, base_momentum=0.5, max_momentum=0.9)
    seen = []
    for _ in range(5):
        seen.append(o.param_groups[0]["momentum"])
        o.step()
        scheduler.step()
    assert seen == pytest.approx([0.9, 0.7, 0.5, 0.7, 0.9])


class Shrink:
    def __init__(self, by):
        self.by = by

    def __call__(self, t):
        return self.by**t


def test_state_of_callable_objects_is_kept():
    for make in (
        lambda f: lr.LambdaLR(optimizer(), [f]),
        lambda f: lr.CyclicLR(
            optimizer(), 1.0, 3.0, 2, scale_fn=f, scale_mode="iterations", cycle_momentum=False
        ),
    ):
        f = Shrink(0.5)
        make(f).load_state_dict(make(Shrink(0.25)).state_dict())
        assert f.by == 0.25


# --- plateaus ------------------------------


def plateau(figures, **options):
    o = optimizer()
    scheduler = lr.ReduceLROnPlateau(o, **options)
    result = []
    for figure in figures:
        scheduler.step(figure)
        result.append(o.param_groups[0]["lr"])
    return result


def test_plateau():
    assert plateau([3, 2, 2, 2, 2, 1], factor=0.5, patience=1) == [1, 1, 1, 0.5, 0.5, 0.5]
    assert plateau([1, 2, 2, 2, 3], mode="max", factor=0.5, patience=1) == [1, 1, 1, 0.5, 0.5]
    assert plateau([float("nan")] * 3, factor=0.5, patience=1) == [1, 0.5, 0.5]
    assert plateau([1] * 7, factor=0.5, patience=0, cooldown=2) == [1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25]
    assert plateau([1] * 4, factor=0.1, patience=0, min_lr=0.05) == [1, 0.1, 0.05, 0.05]
    assert plateau([1] * 3, factor=0.9, patience=0, eps=0.2) == [1, 1, 1]
    assert plateau([flambeau.tensor(1.0)] * 2, factor=0.5, patience=0) == [1, 0.5]


def test_plateau_thresholds():
    figures = [10, 9.5, 9.5 * 0.95]
    assert plateau(figures, factor=0.5, patience=0, threshold=0.04) == [1, 1, 1]
    assert plateau(figures, factor=0.5, patience=0, threshold=0.06) == [1, 0.5, 0.5]  # 9.03 is below 9.4
    assert plateau(figures, factor=0.5, patience=0, threshold=0.49, threshold_mode="abs") == [1, 1, 0.5]
    assert plateau([1, 1.5], mode="max", factor=0.5, patience=0, threshold=0.6) == [1, 0.5]
    assert plateau([1, 1.5], mode="max", factor=0.5, patience=0, threshold=0.4, threshold_mode="abs") == [
        1,
        1,
    ]


def test_plateau_groups_and_state():
    o = optimizer(1.0, 1.0)
    scheduler = lr.ReduceLROnPlateau(o, factor=0.1, patience=0, min_lr=[0.5, 0.0])
    scheduler.step(1)
    other = lr.ReduceLROnPlateau(o, patience=7, min_lr=[0, 0])
    other.load_state_dict(scheduler.state_dict())
    other.step(1)
    assert other.get_last_lr() == pytest.approx([0.5, 0.1])
    assert other.best == 1 and other.last_epoch == 2 and not other.in_cooldown
    o.add_param_group({"params": flambeau.zeros(1, requires_grad=True)})
    with pytest.raises(RuntimeError, match="min_lrs"):
        other.step(1)


# --- errors and warnings ------------------------------


@pytest.mark.parametrize(
    "make, error",
    [
        (lambda o: lr.StepLR("optimizer", 1), TypeError),
        (lambda o: lr.LambdaLR("optimizer", abs), TypeError),
        (lambda o: lr.OneCycleLR("optimizer", 1.0, 1), TypeError),
        (lambda o: lr.ReduceLROnPlateau("optimizer"), TypeError),
        (lambda o: lr.ConstantLR(o, 1.5), ValueError),
        (lambda o: lr.ConstantLR(o, -0.5), ValueError),
        (lambda o: lr.LinearLR(o, 0.0), ValueError),
        (lambda o: lr.LinearLR(o, 0.5, 1.5), ValueError),
        (lambda o: lr.CosineAnnealingWarmRestarts(o, 0), ValueError),
        (lambda o: lr.CosineAnnealingWarmRestarts(o, 1.5), ValueError),
        (lambda o: lr.CosineAnnealingWarmRestarts(o, 1, 0), ValueError),
        (lambda o: lr.CosineAnnealingWarmRestarts(o, 1, 1, "0"), ValueError),
        (lambda o: lr.OneCycleLR(o, 1.0), ValueError),
        (lambda o: lr.OneCycleLR(o, 1.0, total_steps=0), ValueError),
        (lambda o: lr.OneCycleLR(o, 1.0, epochs=1.0, steps_per_epoch=1), ValueError),
        (lambda o: lr.OneCycleLR(o, 1.0, total_steps=5, pct_start=2.0), ValueError),
        (lambda o: lr.OneCycleLR(o, 1.0, total_steps=5, anneal_strategy="square"), ValueError),
        (lambda o: lr.OneCycleLR(o, [1.0, 2.0], total_steps=5), ValueError),
        (lambda o: lr.CyclicLR(o, 1.0, 2.0, mode="square"), ValueError),
        (lambda o: lr.CyclicLR(o, [1.0, 1.0], 2.0), ValueError),
        (lambda o: lr.SequentialLR(o, [], []), ValueError),
        (lambda o: lr.SequentialLR(o, [lr.StepLR(o, 1)], [1]), ValueError),
        (lambda o: lr.SequentialLR(o, [lr.StepLR(optimizer(), 1)], []), ValueError),
        (lambda o: lr.SequentialLR(o, [lr.ReduceLROnPlateau(o)], []), ValueError),
        (lambda o: lr.SequentialLR(o, ["step"], []), TypeError),
        (lambda o: lr.ChainedScheduler([]), ValueError),
        (lambda o: lr.ChainedScheduler([lr.StepLR(o, 1), lr.StepLR(optimizer(), 1)]), ValueError),
        (lambda o: lr.ReduceLROnPlateau(o, factor=1.0), ValueError),
        (lambda o: lr.ReduceLROnPlateau(o, mode="up"), ValueError),
        (lambda o: lr.ReduceLROnPlateau(o, threshold_mode="up"), ValueError),
        (lambda o: lr.ReduceLROnPlateau(o, min_lr=[0, 0]), ValueError),
    ],
)
def test_wrong_options(make, error):
    with pytest.raises(error):
        make(optimizer())


def test_cycled_momentum_needs_one():
    class Plain(flambeau.optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {"lr": 1.0})

    for make in (lambda o: lr.CyclicLR(o, 1.0, 2.0), lambda o: lr.OneCycleLR(o, 1.0, total_steps=5)):
        with pytest.raises(ValueError, match="cycle_momentum"):
            make(Plain([flambeau.zeros(1, requires_grad=True)]))


def test_the_first_rate_should_not_be_skipped():
    scheduler = lr.StepLR(optimizer(), 1)
    with pytest.warns(UserWarning, match="before `optimizer.step"):
        scheduler.step()
    scheduler = lr.StepLR(optimizer(), 1)
    scheduler.optimizer.step = lambda: None
    scheduler.optimizer.step()
    with pytest.warns(UserWarning, match="overridden"):
        scheduler.step()


def test_get_lr_is_not_for_users():
    for name in ("step", "lambda", "cosine", "restarts", "triangles"):
        scheduler = CASES[name][0](optimizer())
        with pytest.warns(UserWarning, match="get_last_lr"):
            scheduler.get_lr()


def test_schedules_of_users():
    class Half(lr.LRScheduler):
        def get_lr(self):
            return [base / 2**self.last_epoch for base in self.base_lrs]

    assert rates(Half(optimizer()), 3) == [1.0, 0.5, 0.25]
    with pytest.raises(NotImplementedError, match="get_lr"):
        lr.LRScheduler(optimizer())


# --- what is saved ------------------------------

BASE = {"_get_lr_called_within_step", "_is_initial", "_last_lr", "_step_count", "base_lrs", "last_epoch"}
KEPT = {
    "step": (lambda o: lr.StepLR(o, 2), BASE | {"gamma", "step_size"}),
    "cyclic": (
        lambda o: lr.CyclicLR(o, 0.1, 1.0),
        BASE
        | {
            "_scale_fn_custom",
            "base_momentums",
            "cycle_momentum",
            "gamma",
            "max_lrs",
            "max_momentums",
            "mode",
        }
        | {"scale_mode", "step_ratio", "total_size", "use_beta1"},
    ),
    "one cycle": (
        lambda o: lr.OneCycleLR(o, 0.1, total_steps=9),
        BASE | {"_anneal_func_type", "_schedule_phases", "cycle_momentum", "total_steps", "use_beta1"},
    ),
    "restarts": (
        lambda o: lr.CosineAnnealingWarmRestarts(o, 3),
        BASE | {"T_0", "T_cur", "T_i", "T_mult", "eta_min"},
    ),
    "plateau": (
        lambda o: lr.ReduceLROnPlateau(o),
        {"_last_lr", "best", "cooldown", "cooldown_counter", "default_min_lr", "eps", "factor", "last_epoch"}
        | {"min_lrs", "mode", "mode_worse", "num_bad_epochs", "patience", "threshold", "threshold_mode"},
    ),
}


@pytest.mark.parametrize("name", KEPT)
def test_states_have_the_names_of_pytorchs(name):
    """A schedule saved by either goes on in the other."""
    make, names = KEPT[name]
    assert set(make(optimizer(momentum=0.9)).state_dict()) == names


@pytest.mark.parametrize("three", [False, True])
def test_phases_of_one_cycle(three):
    """PyTorch's list, which its own checkpoints have."""
    scheduler = lr.OneCycleLR(optimizer(momentum=0.9), 0.1, total_steps=20, pct_start=0.25, three_phase=three)
    phases = scheduler.state_dict()["_schedule_phases"]
    assert [p["end_step"] for p in phases] == ([4.0, 8.0, 19] if three else [4.0, 19])
    assert [p["end_lr"] for p in phases] == (
        ["max_lr", "initial_lr", "min_lr"] if three else ["max_lr", "min_lr"]
    )
    assert phases[1] == {
        "end_step": 8.0 if three else 19,
        "start_lr": "max_lr",
        "end_lr": "initial_lr" if three else "min_lr",
        "start_momentum": "base_momentum",
        "end_momentum": "max_momentum",
    }


def test_a_cyclic_state_of_a_plain_function_is_none_and_loading_leaves_it():
    halving = lambda n: 0.5**n
    make = lambda: lr.CyclicLR(optimizer(momentum=0.9), 1.0, 3.0, 2, scale_fn=halving)
    state = make().state_dict()
    assert state["_scale_fn_custom"] is None
    other = make()
    other.load_state_dict(state)
    assert other.scale_fn(2) == 0.25 and "_scale_fn_custom" in state


def test_warm_restarts_count_no_steps():
    scheduler = lr.CosineAnnealingWarmRestarts(optimizer(), 3)
    scheduler.optimizer.step()
    scheduler.step()
    assert scheduler.state_dict()["_step_count"] == 0 and scheduler.last_epoch == 1
