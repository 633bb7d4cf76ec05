"""Optimisers that take one step in each call, along a gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..._tensor import Tensor
from ...autograd import no_grad

Function = Callable[[Tensor], tuple[Any, Tensor]]


def _settings(name: str, config: Any, state: Any) -> tuple[dict, dict]:
    if config is None and state is None:
        raise ValueError(f"{name} requires a dictionary to retain state between iterations")
    config = {} if config is None else config
    return config, config if state is None else state


def _evaluated(opfunc: Function, x: Tensor, decay: float = 0) -> tuple[Any, Tensor]:
    """The function's value, and its gradient with the decay of weights, as a tensor of its own where that counts."""
    fx, dfdx = opfunc(x)
    return fx, dfdx.add(x, alpha=decay) if decay else dfdx


def _buffer(state: dict, name: str, like: Tensor, value: float = 0) -> Tensor:
    if name not in state:
        state[name] = like.new_full(like.shape, value)
    return state[name]


def _rate(config: dict, state: dict, default: float) -> float:
    """The learning rate of this evaluation, which it counts."""
    count = state.get("evalCounter", 0)
    state["evalCounter"] = count + 1
    return config.get("learningRate", default) / (1 + count * config.get("learningRateDecay", 0))


@no_grad()
def sgd(opfunc: Function, x: Tensor, config: dict, state: dict | None = None) -> tuple[Tensor, Any]:
    """One step of stochastic gradient descent, which changes `x` in place.

    Args:
        opfunc: takes x, returns the value there and the gradient.
        x: where to start.
        config: `learningRate` (1e-3), `learningRateDecay`, `learningRates` (a factor for each element), `weightDecay`,
            `weightDecays` (one for each element), `momentum`, `dampening` (the momentum), `nesterov`.
        state: what is kept from call to call; by default `config`.

    Returns:
        x and the value before the step.

    Shape:
        x: any, which stays; the gradient has the same

    Raises:
        ValueError: settings that exclude each other.

    >>> import flambeau
    >>> from flambeau.legacy import optim
    >>> x = flambeau.tensor([1.0])
    >>> optim.sgd(lambda x: ((x * x).item(), 2 * x), x, {"learningRate": 0.25})
    (tensor([0.5000]), 1.0)
    """
    config, state = _settings("sgd", config, state)
    momentum = config.get("momentum", 0)
    dampening = config.get("dampening", momentum)
    decay, decays = config.get("weightDecay", 0), config.get("weightDecays")
    nesterov = config.get("nesterov", False)
    if nesterov and (momentum <= 0 or dampening != 0):
        raise ValueError("Nesterov momentum requires a momentum and zero dampening")
    if decay and decays is not None:
        raise ValueError("Only one of wd and wds can be specified")
    rate = _rate(config, state, 1e-3)

    fx, dfdx = _evaluated(opfunc, x, decay)
    if decays is not None:
        dfdx = dfdx + decays * x
    if momentum:
        if "dfdx" not in state:
            state["dfdx"] = dfdx.clone()
        else:
            state["dfdx"].mul_(momentum).add_(dfdx, alpha=1 - dampening)
        dfdx = dfdx + momentum * state["dfdx"] if nesterov else state["dfdx"]
    if config.get("learningRates") is not None:
        dfdx = config["learningRates"] * dfdx
    x.add_(dfdx, alpha=-rate)
    return x, fx


@no_grad()
def nag(opfunc: Function, x: Tensor, config: dict, state: dict | None = None) -> tuple[Tensor, Any]:
    """One step of Nesterov's accelerated gradient (Sutskever et al. 2013): the gradient is taken where the momentum leads.

    Args:
        opfunc, x, state: as for `sgd`.
        config: `learningRate` (1e-3), `learningRateDecay`, `learningRates`, `weightDecay`, `momentum` (0.9).

    Shape:
        x: any, which stays; the gradient has the same

    Raises:
        ValueError: the momentum is not positive.

    >>> import flambeau
    >>> from flambeau.legacy import optim
    >>> x = flambeau.tensor([1.0])
    >>> optim.nag(lambda x: ((x * x).item(), 2 * x), x, {"learningRate": 0.25})
    (tensor([0.5000]), 1.0)
    """
    config, state = _settings("nag", config, state)
    momentum = config.get("momentum", 0.9)
    if momentum <= 0:
        raise ValueError("Momentum must be positive for Nesterov Accelerated Gradient")
    rate = _rate(config, state, 1e-3)
    if "dfdx" in state:
        x.add_(state["dfdx"], alpha=momentum)
    fx, dfdx = _evaluated(opfunc, x, config.get("weightDecay", 0))
    if config.get("learningRates") is not None:
        dfdx = config["learningRates"] * dfdx
    x.add_(dfdx, alpha=-rate)
    _buffer(state, "dfdx", dfdx).mul_(momentum).add_(dfdx, alpha=-rate)
    return x, fx


@no_grad()
def adam(opfunc: Function, x: Tensor, config: dict, state: dict | None = None) -> tuple[Tensor, Any]:
    """One step of Adam (arXiv:1412.6980).

    Args:
        opfunc, x, state: as for `sgd`.
        config: `learningRate` (1e-3), `beta1` (0.9), `beta2` (0.999), `epsilon` (1e-8), `weightDecay`.

    Shape:
        x: any, which stays; the gradient has the same

    Raises:
        TypeError: `opfunc` cannot be called, or does not return two values

    >>> import flambeau
    >>> from flambeau.legacy import optim
    >>> x = flambeau.tensor([1.0])
    >>> optim.adam(lambda x: ((x * x).item(), 2 * x), x, {"learningRate": 0.25})
    (tensor([0.7500]), 1.0)
    """
    config, state = _settings("adam", config, state)
    beta1, beta2 = config.get("beta1", 0.9), config.get("beta2", 0.999)
    fx, dfdx = _evaluated(opfunc, x, config.get("weightDecay", 0))
    m, v = _buffer(state, "m", x), _buffer(state, "v", x)
    t = state["t"] = state.get("t", 0) + 1
    m.mul_(beta1).add_(dfdx, alpha=1 - beta1)
    v.mul_(beta2).addcmul_(dfdx, dfdx, value=1 - beta2)
    step = config.get("learningRate", 1e-3) * (1 - beta2**t) ** 0.5 / (1 - beta1**t)
    x.addcdiv_(m, v.sqrt().add_(config.get("epsilon", 1e-8)), value=-step)
    return x, fx


@no_grad()
def adamax(opfunc: Function, x: Tensor, config: dict, state: dict | None = None) -> tuple[Tensor, Any]:
    """One step of AdaMax (arXiv:1412.6980).

    Args:
        opfunc, x, state: as for `sgd`.
        config: `learningRate` (2e-3), `beta1` (0.9), `beta2` (0.999), `epsilon` (1e-38), `weightDecay`.

    Shape:
        x: any, which stays; the gradient has the same

    Raises:
        TypeError: `opfunc` cannot be called, or does not return two values

    >>> import flambeau
    >>> from flambeau.legacy import optim
    >>> x = flambeau.tensor([1.0])
    >>> optim.adamax(lambda x: ((x * x).item(), 2 * x), x, {"learningRate": 0.25})
    (tensor([0.7500]), 1.0)
    """
    config, state = _settings("adamax", config, state)
    beta1, beta2 = config.get("beta1", 0.9), config.get("beta2", 0.999)
    fx, dfdx = _evaluated(opfunc, x, config.get("weightDecay", 0))
    m, u = _buffer(state, "m", x), _buffer(state, "u", x)
    t = state["t"] = state.get("t", 0) + 1
    m.mul_(beta1).add_(dfdx, alpha=1 - beta1)
    u.copy_((u * beta2).maximum(dfdx.abs() + config.get("epsilon", 1e-38)))
    x.addcdiv_(m, u, value=-config.get("learningRate", 2e-3) / (1 - beta1**t))
    return x, fx


@no_grad()
def adadelta(opfunc: Function, x: Tensor, config: dict, state: dict | None = None) -> tuple[Tensor, Any]:
    """One step of Adadelta (arXiv:1212.5701).

    Args:
        opfunc, x, state: as for `sgd`.
        config: `rho` (0.9), `eps` (1e-6), `weightDecay`.

    Shape:
        x: any, which stays; the gradient has the same

    Raises:
        TypeError: `opfunc` cannot be called, or does not return two values

    >>> import flambeau
    >>> from flambeau.legacy import optim
    >>> x = flambeau.tensor([1.0])
    >>> optim.adadelta(lambda x: ((x * x).item(), 2 * x), x, {"eps": 1.0})
    (tensor([-0.6903]), 1.0)
    """
    config, state = _settings("adadelta", config, state)
    rho, eps = config.get("rho", 0.9), config.get("eps", 1e-6)
    fx, dfdx = _evaluated(opfunc, x, config.get("weightDecay", 0))
    state["evalCounter"] = state.get("evalCounter", 0) + 1
    variance, moved = _buffer(state, "paramVariance", x), _buffer(state, "accDelta", x)
    variance.mul_(rho).addcmul_(dfdx, dfdx, value=1 - rho)
    delta = ((moved + eps) / (variance + eps)).sqrt_().mul_(dfdx)
    x.sub_(delta)
    moved.mul_(rho).addcmul_(delta, delta, value=1 - rho)
    return x, fx


@no_grad()
def adagrad(opfunc: Function, x: Tensor, config: dict, state: dict | None = None) -> tuple[Tensor, Any]:
    """One step of Adagrad (Duchi et al. 2011).

    Args:
        opfunc, x, state: as for `sgd`.
        config: `learningRate` (1e-3), `learningRateDecay`, `weightDecay`.

    Shape:
        x: any, which stays; the gradient has the same

    Raises:
        TypeError: `opfunc` cannot be called, or does not return two values

    >>> import flambeau
    >>> from flambeau.legacy import optim
    >>> x = flambeau.tensor([1.0])
    >>> optim.adagrad(lambda x: ((x * x).item(), 2 * x), x, {"learningRate": 0.25})
    (tensor([0.7500]), 1.0)
    """
    config, state = _settings("adagrad", config, state)
    rate = _rate(config, state, 1e-3)
    fx, dfdx = _evaluated(opfunc, x, config.get("weightDecay", 0))
    variance = _buffer(state, "paramVariance", x).addcmul_(dfdx, dfdx)
    x.addcdiv_(dfdx, variance.sqrt().add_(1e-10), value=-rate)
    return x, fx


@no_grad()
def rmsprop(opfunc: Function, x: Tensor, config: dict, state: dict | None = None) -> tuple[Tensor, Any]:
    """One step of RMSprop, whose mean of squares begins with 1.

    Args:
        opfunc, x, state: as for `sgd`.
        config: `learningRate` (1e-2), `alpha` (0.99), `epsilon` (1e-8), `weightDecay`.

    Shape:
        x: any, which stays; the gradient has the same

    Raises:
        TypeError: `opfunc` cannot be called, or does not return two values

    >>> import flambeau
    >>> from flambeau.legacy import optim
    >>> x = flambeau.tensor([1.0])
    >>> optim.rmsprop(lambda x: ((x * x).item(), 2 * x), x, {"learningRate": 0.25, "alpha": 0.0})
    (tensor([0.7500]), 1.0)
    """
    config, state = _settings("rmsprop", config, state)
    alpha = config.get("alpha", 0.99)
    fx, dfdx = _evaluated(opfunc, x, config.get("weightDecay", 0))
    m = _buffer(state, "m", x, 1).mul_(alpha).addcmul_(dfdx, dfdx, value=1 - alpha)
    x.addcdiv_(dfdx, m.sqrt().add_(config.get("epsilon", 1e-8)), value=-config.get("learningRate", 1e-2))
    return x, fx


@no_grad()
def asgd(opfunc: Function, x: Tensor, config: dict, state: dict | None = None) -> tuple[Tensor, Any, Tensor]:
    """One step of averaged stochastic gradient descent, as in Bottou's sgd-2.0: x becomes (1 - lambda · eta) x - eta · gradient
    with eta = eta0 / (1 + lambda · eta0 · t) to the power alpha, and its mean is taken from the step t0 on.

    Args:
        opfunc, x, state: as for `sgd`.
        config: `eta0` (1e-4), `lambda` (1e-4), `alpha` (0.75), `t0` (1e6).

    Returns:
        x, the value before the step, and the mean.

    Shape:
        x: any, which stays; the gradient has the same

    Raises:
        TypeError: `opfunc` cannot be called, or does not return two values

    >>> import flambeau
    >>> from flambeau.legacy import optim
    >>> x = flambeau.tensor([1.0])
    >>> optim.asgd(lambda x: ((x * x).item(), 2 * x), x, {"eta0": 0.25, "lambda": 0.0})
    (tensor([0.5000]), 1.0, tensor([0.5000]))
    """
    config, state = _settings("asgd", config, state)
    eta0, weight = config.get("eta0", 1e-4), config.get("lambda", 1e-4)
    eta, mu = state.get("eta_t", eta0), state.get("mu_t", 1)
    fx, dfdx = _evaluated(opfunc, x)
    x.mul_(1 - weight * eta).add_(dfdx, alpha=-eta)
    mean = _buffer(state, "ax", x)
    mean.lerp_(x, mu)
    t = state["t"] = state.get("t", 0) + 1
    state["eta_t"] = eta0 / (1 + weight * eta0 * t) ** config.get("alpha", 0.75)
    state["mu_t"] = 1 / max(1, t - config.get("t0", 1e6))
    return x, fx, mean


@no_grad()
def rprop(opfunc: Function, x: Tensor, config: dict, state: dict | None = None) -> tuple[Tensor, list[Any]]:
    """Steps of resilient propagation (Riedmiller and Braun 1993), which looks at the signs of the gradient alone.

    Args:
        opfunc, x, state: as for `sgd`.
        config: `stepsize` (0.1, the first), `etaplus` (1.2), `etaminus` (0.5), `stepsizemax` (50), `stepsizemin` (1e-6),
            `niter` (1, the number of steps).

    Returns:
        x and the list of values before each step.

    Shape:
        x: any, which stays; the gradient has the same

    Raises:
        TypeError: `opfunc` cannot be called, or does not return two values

    >>> import flambeau
    >>> from flambeau.legacy import optim
    >>> x = flambeau.tensor([1.0])
    >>> optim.rprop(lambda x: ((x * x).item(), 2 * x), x, {"stepsize": 0.25})
    (tensor([0.7500]), [1.0])
    """
    config, state = _settings("rprop", config, state)
    bounds = config.get("stepsizemin", 1e-6), config.get("stepsizemax", 50.0)
    first = config.get("stepsize", 0.1)
    values = []
    for _ in range(config.get("niter", 1)):
        fx, dfdx = opfunc(x)
        before, size = _buffer(state, "delta", x), _buffer(state, "stepsizes", x, first)
        turn = dfdx * before
        factor = size.new_ones(size.shape).masked_fill_(turn > 0, config.get("etaplus", 1.2))
        size.mul_(factor.masked_fill_(turn < 0, config.get("etaminus", 0.5)))
        size.clamp_(*bounds)
        dfdx = dfdx.masked_fill(turn < 0, 0)
        x.addcmul_(dfdx.sign(), size, value=-1)
        before.copy_(dfdx)
        values.append(fx)
    return x, values
