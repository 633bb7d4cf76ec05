"""The steps as functions of lists: the same bits as the optimisers, written into the lists."""

import importlib

import numpy as np
import pytest

import flambeau

MODULES = "adadelta adagrad adam adamw adamax asgd nadam radam rmsprop rprop sgd _adafactor _muon".split()


def parameter(seed):
    return flambeau.nn.Parameter(flambeau.tensor(np.random.default_rng(seed).normal(size=(2, 3))))


@pytest.mark.parametrize("name", MODULES)
def test_functions_are_the_steps(name):
    module = importlib.import_module(f"flambeau.optim.{name}")
    function = getattr(module, name.strip("_"))
    cls = next(
        c for c in vars(module).values() if isinstance(c, type) and c.__name__.lower() == name.strip("_")
    )
    options = {"momentum": 0.9} if name in ("sgd", "rmsprop") else {"amsgrad": True} if name == "adam" else {}
    params, others = ([parameter(k) for k in range(2)] for _ in range(2))
    optimizer = cls(params, lr=0.1, **options)
    group = optimizer.param_groups[0]
    own = {p.name for p in function.__signature__.parameters.values() if p.kind is p.KEYWORD_ONLY}
    given = {k: v for k, v in group.items() if k in own}
    for option, parts in {
        "betas": ("beta1", "beta2"),
        "etas": ("etaminus", "etaplus"),
        "step_sizes": ("step_size_min", "step_size_max"),
        "eps": ("eps1", "eps2"),
    }.items():
        if parts[0] in own:
            given |= zip(parts, group[option])
    lists = [p for p in function.__signature__.parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD][2:]
    state: dict[str, list] = {p.name: [None, None] for p in lists}
    for step in range(3):
        grads = [parameter(10 * step + k).detach() for k in range(2)]
        for p, g in zip(params, grads):
            p.grad = g.clone()
        optimizer.step()
        assert function(others, grads, *state.values(), **given) is None
    assert [p.tolist() for p in others] == [p.tolist() for p in params]
    kept = [x for column in state.values() for x in column if x is not None]
    assert len(kept) == sum(len(optimizer.state[p]) for p in params) and all(p.grad is None for p in others)


def test_wrong_calls():
    from flambeau.optim.sgd import sgd

    p, rest = flambeau.zeros(2), dict(weight_decay=0, momentum=0, lr=0.5, dampening=0, nesterov=False)
    with pytest.raises(TypeError, match="lr"):
        sgd([p], [p], [None], weight_decay=0)
    with pytest.raises(NotImplementedError, match="scaled"):
        sgd([p], [p], [None], grad_scale=p, **rest)
    assert p.tolist() == [0, 0]
