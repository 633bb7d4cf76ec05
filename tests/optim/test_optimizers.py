"""The optimisers against their formulas in NumPy, and the base class: groups, state, checkpoints, hooks."""

import copy
import io
import itertools
import pickle

import numpy as np
import pytest

import flambeau
from flambeau.optim import SGD, Adagrad, Adam, AdamW, Optimizer, RMSprop

# --- the formulas, in float64 ------------------------------


def sgd(p, grads, lr, momentum=0, dampening=0, weight_decay=0, nesterov=False, maximize=False):
    buffer = None
    for g in grads:
        g = (-g if maximize else g) + weight_decay * p
        if momentum:
            buffer = g if buffer is None else momentum * buffer + (1 - dampening) * g
            g = g + momentum * buffer if nesterov else buffer
        p = p - lr * g
    return p


def adam(
    p, grads, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, amsgrad=False, maximize=False, decoupled=False
):
    m = v = peak = np.zeros_like(p)
    for t, g in enumerate(grads, 1):
        g = -g if maximize else g
        if decoupled:
            p = p - lr * weight_decay * p
        else:
            g = g + weight_decay * p
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g**2
        peak = np.maximum(peak, v)
        mean, square = m / (1 - betas[0] ** t), (peak if amsgrad else v) / (1 - betas[1] ** t)
        p = p - lr * mean / (np.sqrt(square) + eps)
    return p


def adamw(p, grads, lr, weight_decay=1e-2, **options):
    return adam(p, grads, lr, weight_decay=weight_decay, decoupled=True, **options)


def rmsprop(p, grads, lr, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0, centered=False, maximize=False):
    v = mean = buffer = np.zeros_like(p)
    for g in grads:
        g = (-g if maximize else g) + weight_decay * p
        v = alpha * v + (1 - alpha) * g**2
        mean = alpha * mean + (1 - alpha) * g
        step = g / (np.sqrt(v - mean**2 if centered else v) + eps)
        buffer = momentum * buffer + step
        p = p - lr * (buffer if momentum else step)
    return p


def adagrad(p, grads, lr, lr_decay=0, weight_decay=0, initial=0, eps=1e-10, maximize=False):
    s = np.full_like(p, initial)
    for t, g in enumerate(grads):
        g = (-g if maximize else g) + weight_decay * p
        s = s + g**2
        p = p - lr / (1 + t * lr_decay) * g / (np.sqrt(s) + eps)
    return p


def grid(**options):
    return [dict(zip(options, values)) for values in itertools.product(*options.values())]


ON_OFF = {"weight_decay": [0, 0.1], "maximize": [False, True]}
CASES = [
    *((SGD, sgd, o) for o in grid(lr=[0.1], momentum=[0, 0.9], dampening=[0, 0.3], **ON_OFF)),
    *((SGD, sgd, o) for o in grid(lr=[0.1], momentum=[0.9], nesterov=[True], **ON_OFF)),
    *(
        (Adam, adam, o)
        for o in grid(lr=[0.1], betas=[(0.9, 0.99), (0.0, 0.5)], amsgrad=[False, True], **ON_OFF)
    ),
    *((AdamW, adamw, o) for o in grid(lr=[0.1], amsgrad=[False, True], **ON_OFF)),
    *(
        (RMSprop, rmsprop, o)
        for o in grid(lr=[0.01], alpha=[0.9], momentum=[0, 0.9], centered=[False, True], **ON_OFF)
    ),
    *((Adagrad, adagrad, o) for o in grid(lr=[0.1], lr_decay=[0, 0.2], **ON_OFF)),
]


@pytest.mark.parametrize(
    "cls, formula, options", CASES, ids=lambda x: str(x) if isinstance(x, dict) else x.__name__
)
def test_formula(cls, formula, options):
    rng = np.random.default_rng(0)
    starts = [rng.normal(size=(3, 4)), rng.normal(size=5), np.array(0.5)]
    grads = [rng.normal(size=(6, *np.shape(start))) for start in starts]
    for dtype, tolerance in ((flambeau.float64, 1e-12), (flambeau.float32, 1e-4)):
        params = [flambeau.tensor(start, dtype=dtype).requires_grad_() for start in starts]
        optimizer = cls(params, **options)
        for t in range(6):
            for p, g in zip(params, grads):
                p.grad = flambeau.tensor(g[t], dtype=dtype)
            optimizer.step()
        for p, start, g in zip(params, starts, grads):
            expected = formula(start, g, **options)
            assert np.allclose(np.array(p.tolist()), expected, rtol=tolerance, atol=tolerance)
            assert p.requires_grad and p.is_leaf


@pytest.mark.parametrize("cls, formula", [(SGD, sgd), (Adam, adam), (RMSprop, rmsprop)])
def test_parameters_without_gradient_stand_still(cls, formula):
    """Each parameter's state counts its own steps."""
    options = {"lr": 0.1, "momentum": 0.9} if cls is SGD else {"lr": 0.1}
    a, b, never = (flambeau.ones(2, dtype=flambeau.float64, requires_grad=True) for _ in range(3))
    optimizer = cls([a, b, never], **options)
    grads = np.arange(1.0, 9).reshape(4, 2)
    for t, g in enumerate(grads):
        a.grad = flambeau.tensor(g)
        b.grad = flambeau.tensor(g) if t % 2 else None
        optimizer.step()
    assert np.allclose(a.tolist(), formula(np.ones(2), grads, **options), rtol=1e-12)
    assert np.allclose(b.tolist(), formula(np.ones(2), grads[1::2], **options), rtol=1e-12)
    assert never.tolist() == [1, 1] and never not in optimizer.state


def test_options_may_change_between_steps():
    p = flambeau.zeros(1, dtype=flambeau.float64, requires_grad=True)
    optimizer = SGD([p], lr=0.5)
    for lr in (0.5, 0.25, flambeau.tensor(2.0)):
        optimizer.param_groups[0]["lr"] = lr
        p.grad = flambeau.ones(1, dtype=flambeau.float64)
        optimizer.step()
    assert p.tolist() == [-2.75]


def test_state_entries():
    def after_a_step(optimizer):
        p.grad = flambeau.tensor([2.0, -4.0])
        optimizer.step()
        return {k: v.tolist() for k, v in optimizer.state[p].items()}

    p = flambeau.zeros(2, requires_grad=True)
    assert after_a_step(SGD([p], lr=0.1)) == {}
    assert after_a_step(SGD([p], lr=0.0, momentum=0.5, dampening=0.5)) == {"momentum_buffer": [2, -4]}
    state = after_a_step(Adam([p], betas=(0.5, 0.75), amsgrad=True))
    assert state == {"step": 1, "exp_avg": [1, -2], "exp_avg_sq": [1, 4], "max_exp_avg_sq": [1, 4]}
    state = after_a_step(RMSprop([p], lr=0.0, alpha=0.75, momentum=0.5, eps=0, centered=True))
    assert state["square_avg"] == [1, 4] and state["grad_avg"] == [0.5, -1] and state["step"] == 1
    assert np.allclose(state["momentum_buffer"], [2 / 0.75**0.5, -4 / 3**0.5])


def test_buffers_are_updated_in_place_and_need_no_gradient():
    p = flambeau.ones(2, requires_grad=True)
    optimizer = Adam([p])
    p.grad = flambeau.ones(2)
    optimizer.step()
    mean = optimizer.state[p]["exp_avg"]
    optimizer.step()
    assert optimizer.state[p]["exp_avg"] is mean and not mean.requires_grad


def test_training_finds_the_minimum():
    target = flambeau.tensor([1.0, -2.0, 3.0])
    for make in (
        lambda p: SGD(p, lr=0.1, momentum=0.5),
        lambda p: Adam(p, lr=0.05),
        lambda p: AdamW(p, lr=0.05, weight_decay=0),
        lambda p: RMSprop(p, lr=0.01),
    ):
        p = flambeau.zeros(3, requires_grad=True)
        optimizer = make([p])
        for _ in range(600):
            optimizer.zero_grad()
            ((p - target) ** 2).sum().backward()
            optimizer.step()
        assert (p - target).abs().max().item() < 0.05


@pytest.mark.parametrize(
    "cls, options",
    [
        (SGD, {"lr": -1}),
        (SGD, {"lr": float("nan")}),
        (SGD, {"lr": flambeau.ones(2)}),
        (SGD, {"momentum": -0.1}),
        (SGD, {"weight_decay": -0.1}),
        (SGD, {"nesterov": True}),
        (SGD, {"nesterov": True, "momentum": 0.9, "dampening": 0.1}),
        (Adam, {"lr": -1}),
        (Adam, {"eps": -1}),
        (Adam, {"betas": (1.0, 0.9)}),
        (Adam, {"betas": (0.9, -0.1)}),
        (Adam, {"weight_decay": -1}),
        (Adam, {"betas": (0.9, flambeau.tensor(0.99))}),
        (Adam, {"lr": flambeau.tensor(0.1), "foreach": True}),
        (Adagrad, {"lr_decay": -1}),
        (Adagrad, {"initial_accumulator_value": -1}),
        (AdamW, {"betas": (0.9, 1.0)}),
        (RMSprop, {"lr": -1}),
        (RMSprop, {"eps": -1}),
        (RMSprop, {"momentum": -1}),
        (RMSprop, {"alpha": -1}),
        (RMSprop, {"weight_decay": -1}),
    ],
    ids=str,
)
def test_wrong_options(cls, options):
    with pytest.raises(ValueError, match=cls.__name__ if "nesterov" not in options else "Nesterov"):
        cls([flambeau.ones(1, requires_grad=True)], **options)


# --- the base class ------------------------------


def leaf(*values):
    return flambeau.tensor(values, requires_grad=True)


def test_groups():
    a, b, c = leaf(1.0), leaf(2.0), leaf(3.0)
    optimizer = SGD([{"params": a}, {"params": [b], "lr": 0.5}], lr=0.1, momentum=0.9)
    optimizer.add_param_group({"params": iter([c]), "momentum": 0})
    assert [g["lr"] for g in optimizer.param_groups] == [0.1, 0.5, 0.1]
    assert [g["momentum"] for g in optimizer.param_groups] == [0.9, 0.9, 0]
    assert [len(g["params"]) for g in optimizer.param_groups] == [1, 1, 1]
    for p in (a, b, c):
        p.grad = flambeau.ones(1)
    optimizer.step()
    assert [round(p.item(), 6) for p in (a, b, c)] == [0.9, 1.5, 2.9]


def test_names():
    a, b = leaf(1.0), leaf(2.0)
    optimizer = SGD([("weight", a), ("bias", b)])
    assert optimizer.param_groups[0]["param_names"] == ["weight", "bias"]
    assert optimizer.param_groups[0]["params"][1] is b
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["weight", "bias"]
    with pytest.raises(ValueError, match="with/without names"):
        SGD([("weight", a), b])
    with pytest.raises(ValueError, match="with/without names"):
        optimizer.add_param_group({"params": [leaf(3.0)]})


def test_wrong_parameters():
    a = leaf(1.0)
    with pytest.raises(TypeError, match="one tensor"):
        SGD(a)
    with pytest.raises(ValueError, match="empty"):
        SGD([])
    with pytest.raises(
        TypeError, match=r"can only optimize Tensors, but one of the params is int: params\[1\]"
    ):
        SGD([a, 1])
    with pytest.raises(TypeError, match="ordered"):
        SGD([{"params": {a}}])
    with pytest.raises(TypeError, match="dict"):
        SGD([a]).add_param_group([leaf(1.0)])
    with pytest.raises(ValueError, match="non-leaf"):
        SGD([a * 2])
    with pytest.raises(ValueError, match="more than one parameter group"):
        SGD([{"params": [a]}, {"params": [a]}])
    with pytest.warns(UserWarning, match="duplicate"):
        SGD([a, a])


def test_failed_groups_change_nothing():
    optimizer = SGD([leaf(1.0)])
    group = {"params": [1]}
    with pytest.raises(TypeError):
        optimizer.add_param_group(group)
    assert len(optimizer.param_groups) == 1 and group == {"params": [1]}


def test_zero_grad():
    a, b = leaf(1.0), leaf(1.0)
    optimizer = SGD([a, b])
    a.grad = flambeau.ones(1)
    gradient = a.grad
    optimizer.zero_grad(set_to_none=False)
    assert a.grad is gradient and gradient.tolist() == [0] and b.grad is None
    optimizer.zero_grad()
    assert a.grad is None


def test_closure():
    p = leaf(2.0)
    optimizer = SGD([p], lr=0.25)

    def closure():
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    with flambeau.no_grad():
        assert optimizer.step(closure).item() == 4
    assert p.item() == 1
    assert optimizer.step() is None


@pytest.mark.parametrize(
    "cls, options", [(SGD, {"momentum": 0.9}), (Adam, {"amsgrad": True}), (RMSprop, {"centered": True})]
)
def test_training_goes_on_from_a_checkpoint(cls, options):
    def steps(optimizer, params, times):
        for t in times:
            for p in params:
                p.grad = flambeau.full((2,), 0.5 + t, dtype=flambeau.float64)
            optimizer.step()

    params = [flambeau.ones(2, dtype=flambeau.float64, requires_grad=True) for _ in range(2)]
    optimizer = cls([{"params": params[:1]}, {"params": params[1:], "lr": 0.3}], lr=0.1, **options)
    steps(optimizer, params, range(3))
    file = io.BytesIO()
    flambeau.save({"optimizer": optimizer.state_dict(), "params": params}, file)
    file.seek(0)
    loaded = flambeau.load(file)
    other = cls([{"params": p} for p in loaded["params"]], lr=5, **options)
    other.load_state_dict(loaded["optimizer"])
    assert [g["lr"] for g in other.param_groups] == [0.1, 0.3]
    steps(optimizer, params, range(3, 6))
    steps(other, loaded["params"], range(3, 6))
    for p, q in zip(params, loaded["params"]):
        assert p.tolist() == q.tolist()


def test_state_dict():
    a, b = leaf(1.0), leaf(2.0)
    optimizer = Adam([{"params": [a]}, {"params": [b]}])
    b.grad = flambeau.ones(1)
    optimizer.step()
    state = optimizer.state_dict()
    assert list(state) == ["state", "param_groups"]
    assert [g["params"] for g in state["param_groups"]] == [[0], [1]]
    assert list(state["state"]) == [1] and state["state"][1]["exp_avg"] is optimizer.state[b]["exp_avg"]

    half = [p.detach().half().requires_grad_() for p in (a, b)]
    other = Adam([{"params": [p]} for p in half])
    other.load_state_dict(state)
    loaded = other.state[half[1]]
    assert loaded["exp_avg"].dtype == flambeau.float16 and loaded["step"] == 1
    assert loaded["exp_avg_sq"].tolist() == pytest.approx(optimizer.state[b]["exp_avg_sq"].tolist(), rel=1e-3)


def test_loaded_state_is_a_copy():
    p = flambeau.ones(2, requires_grad=True)
    optimizer, other = (SGD([p], lr=0.1, momentum=0.9) for _ in range(2))
    p.grad = flambeau.ones(2)
    optimizer.step()
    other.load_state_dict(optimizer.state_dict())
    other.step()
    assert optimizer.state[p]["momentum_buffer"].tolist() == [1, 1]


def test_states_that_do_not_fit():
    optimizer = SGD([leaf(1.0)])
    with pytest.raises(ValueError, match="different number of parameter groups: 2, the optimizer has 1"):
        optimizer.load_state_dict(SGD([{"params": leaf(1.0)}, {"params": leaf(2.0)}]).state_dict())
    with pytest.raises(ValueError, match="group 0 .* 2 parameters"):
        optimizer.load_state_dict(SGD([leaf(1.0), leaf(2.0)]).state_dict())


def test_pickle_and_deepcopy():
    p = leaf(1.0)
    optimizer = SGD([p], lr=0.5, momentum=0.9)
    p.grad = flambeau.ones(1)
    optimizer.step()
    for other in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        (q,) = other.param_groups[0]["params"]
        assert q is not p and q.tolist() == p.tolist()
        assert other.state[q]["momentum_buffer"].tolist() == [1]
        q.grad = flambeau.ones(1)
        other.step()
        assert q.item() == pytest.approx(0.5 - 0.5 * 1.9)


def test_repr():
    assert repr(SGD([leaf(1.0)], lr=0.5)) == (
        "SGD (\nParameter Group 0\n    dampening: 0\n    differentiable: False\n    foreach: None\n"
        "    fused: None\n    lr: 0.5\n    maximize: False\n    momentum: 0\n    nesterov: False\n"
        "    weight_decay: 0\n)"
    )


def test_step_hooks():
    p = leaf(1.0)
    p.grad = flambeau.ones(1)
    optimizer = SGD([p], lr=0.5)
    calls = []
    handles = [
        flambeau.optim.register_optimizer_step_pre_hook(
            lambda o, args, kwargs: calls.append("global before")
        ),
        optimizer.register_step_pre_hook(
            lambda o, args, kwargs: calls.append((o is optimizer, args, kwargs, p.item()))
        ),
        optimizer.register_step_post_hook(lambda o, args, kwargs: calls.append(p.item())),
        flambeau.optim.register_optimizer_step_post_hook(
            lambda o, args, kwargs: calls.append("global after")
        ),
    ]
    optimizer.step()
    assert calls == ["global before", (True, (), {}, 1.0), 0.5, "global after"]
    for handle in handles:
        handle.remove()
    optimizer.step()
    assert len(calls) == 4

    handle = optimizer.register_step_pre_hook(lambda o, args, kwargs: ((lambda: "loss",), {}))
    assert optimizer.step() == "loss"
    handle.remove()
    optimizer.register_step_pre_hook(lambda o, args, kwargs: 3)
    with pytest.raises(RuntimeError, match="pre-hook"):
        optimizer.step()


def test_state_dict_hooks():
    optimizer = SGD([leaf(1.0)], lr=0.5)
    calls = []
    optimizer.register_state_dict_pre_hook(lambda o: calls.append("before"))
    optimizer.register_state_dict_post_hook(lambda o, state: state | {"extra": 1})
    optimizer.register_load_state_dict_pre_hook(lambda o, state: calls.append(state["extra"]))
    optimizer.register_load_state_dict_post_hook(lambda o: calls.append("loaded"))
    optimizer.register_load_state_dict_post_hook(lambda o: calls.append("first"), prepend=True)
    optimizer.load_state_dict(optimizer.state_dict())
    assert calls == ["before", 1, "first", "loaded"]


def test_optimizers_of_users():
    class Sign(Optimizer):
        def __init__(self, params, lr):
            super().__init__(params, {"lr": lr})

        @flambeau.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    p.add_(p.grad.sign(), alpha=-group["lr"])

    p = leaf(1.0, 2.0)
    optimizer = Sign([p], lr=0.25)
    calls = []
    optimizer.register_step_post_hook(lambda *args: calls.append(1))
    p.grad = flambeau.tensor([3.0, -5.0])
    optimizer.step()
    assert p.tolist() == [0.75, 2.25] and calls == [1]

    from flambeau.optim.optimizer import required

    with pytest.raises(ValueError, match="'lr'"):
        Sign([p], required)
    with pytest.raises(NotImplementedError, match="step"):
        Optimizer([p], {}).step()


# ---------------------------------------------------------------- optimisers of other people


class Wrapper(flambeau.optim.Optimizer):
    """Around another optimiser, without `super().__init__()`, as those of training loops are."""

    def __init__(self, base):
        self.base = base
        self.steps = 0

    param_groups = property(
        lambda self: self.base.param_groups, lambda self, v: setattr(self.base, "param_groups", v)
    )
    state = property(lambda self: self.base.state, lambda self, v: setattr(self.base, "state", v))
    defaults = property(lambda self: self.base.defaults)

    def step(self, closure=None):
        self.steps += 1
        return self.base.step(closure)


def test_an_optimizer_that_does_not_initialize_its_base():
    weight = parameter_with_gradient()
    wrapper = Wrapper(flambeau.optim.SGD([weight], lr=0.5, momentum=0.9))
    scheduler = flambeau.optim.lr_scheduler.StepLR(wrapper, step_size=1)
    seen = []
    wrapper.register_step_pre_hook(lambda *call: seen.append("before"))
    wrapper.register_step_post_hook(lambda *call: seen.append("after"))
    wrapper.step()
    scheduler.step()
    assert weight.tolist() == [0.5, 0.5] and seen == ["before", "after"] and wrapper.steps == 1
    assert scheduler.get_last_lr() == [0.05] and "lr: 0.05" in repr(wrapper)
    wrapper.load_state_dict(wrapper.state_dict())
    wrapper.zero_grad()
    assert weight.grad is None and wrapper.state is wrapper.base.state
    wrapper.add_param_group({"params": [parameter_with_gradient()]})
    assert len(wrapper.base.param_groups) == 2


def test_an_optimizer_without_groups():
    class Own(flambeau.optim.Optimizer):
        def __init__(self, weight):
            self.weight = weight

        def step(self, closure=None):
            with flambeau.no_grad():
                self.weight -= self.weight.grad

    weight = parameter_with_gradient()
    Own(weight).step()
    assert weight.tolist() == [0.0, 0.0]


def test_a_mixin_with_a_step_of_its_own():
    class Counting:
        calls = 0

        def step(self, closure=None):
            self.calls += 1
            return super().step(closure)

    class Both(Counting, flambeau.optim.SGD):
        pass

    class Deaf:
        def step(self, closure=None):
            return "deaf"

    class Replaced(Deaf, flambeau.optim.SGD):
        pass

    optimizer = Both([parameter_with_gradient()], lr=0.1)
    optimizer.step()
    assert optimizer.calls == 1
    seen = []
    replaced = Replaced([parameter_with_gradient()], lr=0.1)
    replaced.register_step_post_hook(lambda *call: seen.append(call))
    assert replaced.step() == "deaf" and len(seen) == 1


ADDED = ("maximize", "foreach", "capturable", "differentiable", "fused", "amsgrad", "nesterov", "centered")


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop"])
def test_states_of_earlier_versions_lack_options(name):
    cls = getattr(flambeau.optim, name)
    new, old = (cls([parameter_with_gradient()], lr=0.1) for _ in range(2))
    for optimizer in (new, old):
        optimizer.step()
    saved = old.state_dict()
    for option in (*ADDED, "decoupled_weight_decay"):
        for group in saved["param_groups"]:
            group.pop(option, None)
    old.load_state_dict(saved)
    unpickled = cls.__new__(cls)
    unpickled.__setstate__(
        {"defaults": {}, "state": {}, "param_groups": [dict(saved["param_groups"][0], params=[])]}
    )
    unpickled.step()
    for optimizer in (new, old):
        optimizer.step()
    weights = [optimizer.param_groups[0]["params"][0].tolist() for optimizer in (new, old)]
    assert weights[0] == weights[1] and old.param_groups[0].keys() == new.param_groups[0].keys()


def test_adamw_stays_decoupled_whatever_it_loads():
    adam, adamw = (cls([parameter_with_gradient()]) for cls in (flambeau.optim.Adam, flambeau.optim.AdamW))
    adamw.load_state_dict(adam.state_dict())
    assert adamw.param_groups[0]["decoupled_weight_decay"] is True


@pytest.mark.parametrize("way", ["copy", "pickle"])
def test_hooks_are_not_copied(way):
    optimizer = flambeau.optim.SGD([parameter_with_gradient()], lr=0.1)
    seen = []
    optimizer.register_step_pre_hook(lambda *call: seen.append(call))
    made = copy.deepcopy(optimizer) if way == "copy" else pickle.loads(pickle.dumps(optimizer))
    made.step()
    assert not seen
    made.register_step_pre_hook(lambda *call: seen.append(call))
    made.step()
    optimizer.step()
    assert len(seen) == 2


def parameter_with_gradient():
    weight = flambeau.nn.Parameter(flambeau.ones(2))
    weight.grad = flambeau.ones(2)
    return weight
