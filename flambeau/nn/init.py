"""Initial values for parameters. Every function fills its tensor in place, outside of the graph, and returns
it.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any

from .._tensor import Tensor
from ..autograd.grad_mode import no_grad
from ..core.make import mt19937
from ..core.make.bridge import from_numpy
from ..core.make.create import empty_like
from ..core.make.random import randperm
from ..operations.declare.registry import REGISTRY
from ..operations.pointwise.arithmetic import where
from ..overrides import handle_torch_function, has_torch_function_variadic

__all__ = [
    "calculate_gain",
    "constant",
    "constant_",
    "dirac",
    "dirac_",
    "eye",
    "eye_",
    "kaiming_normal",
    "kaiming_normal_",
    "kaiming_uniform",
    "kaiming_uniform_",
    "normal",
    "normal_",
    "ones_",
    "orthogonal",
    "orthogonal_",
    "sparse",
    "sparse_",
    "trunc_normal_",
    "uniform",
    "uniform_",
    "xavier_normal",
    "xavier_normal_",
    "xavier_uniform",
    "xavier_uniform_",
    "zeros_",
]


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor by which to scale a standard deviation so that signals keep theirs through a nonlinearity.

    Args:
        nonlinearity: 'linear', 'conv1d' ... 'conv_transpose3d', 'sigmoid', 'tanh', 'relu', 'leaky_relu' or
            'selu'.
        param: the slope, 0.01 by default, for 'leaky_relu'.

    Raises:
        ValueError: an unknown nonlinearity, or `param` is no number.

    >>> from flambeau.nn import init
    >>> init.calculate_gain("leaky_relu", 1.0)
    1.0
    """
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, (int, float)):
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + slope**2))
    entry = REGISTRY.get(nonlinearity)
    gain = None if entry is None else entry.details.get("gain")
    if gain is None:
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}")
    return gain


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Draw from U(a, b).

    Shape:
        tensor: any

    Raises:
        RuntimeError: `a` is above `b`

    >>> import flambeau
    >>> w = flambeau.nn.init.uniform_(flambeau.empty(1000), 2.0, 3.0)
    >>> w.min() >= 2, w.max() <= 3
    (tensor(True), tensor(True))
    """
    if has_torch_function_variadic(tensor):
        return handle_torch_function(uniform_, (tensor,), tensor=tensor, a=a, b=b, generator=generator)
    return _no_grad_uniform_(tensor, a, b, generator)


def _no_grad_uniform_(tensor: Tensor, a: float, b: float, generator: Any = None) -> Tensor:
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Draw from N(mean, std²).

    Shape:
        tensor: any

    Raises:
        RuntimeError: `std` is negative

    >>> import flambeau
    >>> w = flambeau.nn.init.normal_(flambeau.empty(10000), mean=3.0, std=0.1)
    >>> 2.9 < w.mean() < 3.1
    tensor(True)
    """
    if has_torch_function_variadic(tensor):
        return handle_torch_function(
            normal_, (tensor,), tensor=tensor, mean=mean, std=std, generator=generator
        )
    return _no_grad_normal_(tensor, mean, std, generator)


def _no_grad_normal_(tensor: Tensor, mean: float, std: float, generator: Any = None) -> Tensor:
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Any = None,
) -> Tensor:
    """Draw from N(mean, std²) restricted to [a, b], through the inverse of its distribution function.

    Warns where the mean lies more than two deviations outside of [a, b].

    Raises:
        NotImplementedError: the dtype is no floating-point one

    >>> import flambeau
    >>> from flambeau.nn import init
    >>> bool(init.trunc_normal_(flambeau.empty(1000), a=-1.0, b=1.0).abs().max() <= 1)
    True
    """
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. "
            "The distribution of values may be incorrect.",
            stacklevel=2,
        )

    def erf_at(x: float) -> float:
        return math.erf((x - mean) / (std * math.sqrt(2.0)))

    with no_grad():
        if mt19937.source(generator, tensor) is not None:
            return _truncated(tensor, mean, std, a, b, erf_at(b) - erf_at(a) > 0.6, generator)
        # erf(z / sqrt 2) of the result is uniform between its values at the two ends.
        tensor.uniform_(erf_at(a), erf_at(b), generator=generator)
        tensor.erfinv_().mul_(std * math.sqrt(2.0)).add_(mean)
        return tensor.clamp_(min=a, max=b)


def _truncated(
    tensor: Tensor, mean: float, std: float, a: float, b: float, wide: bool, generator: Any
) -> Tensor:
    """The same from PyTorch's stream, by rejection: of normal numbers outside of [a, b] where few are, else of uniform ones by the
    density there.
    """
    if wide:
        low, high = (tensor.new_tensor(x, device="cpu").item() for x in (a, b))
        result = tensor.normal_(mean, std, generator=generator)
        while (outside := (result < low) | (result > high)).any():
            result = where(outside, empty_like(result).normal_(mean, std, generator=generator), result)
        return tensor.copy_(result) if result is not tensor else tensor
    most = -0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2

    def refused(drawn: Tensor) -> Tensor:
        height = drawn.sub(mean).div_(std).pow_(2).mul_(-0.5).sub_(most)
        return empty_like(drawn).uniform_(generator=generator).log_().gt(height)

    result = tensor.uniform_(a, b, generator=generator)
    pending = refused(result)
    while pending.any():
        drawn = empty_like(result).uniform_(a, b, generator=generator)
        result = where(pending, drawn, result)
        pending = where(pending, refused(drawn), pending)
    return tensor.copy_(result) if result is not tensor else tensor


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with `val`.

    Shape:
        tensor: any

    Raises:
        AttributeError: the first argument is no Tensor

    >>> import flambeau
    >>> flambeau.nn.init.constant_(flambeau.empty(2), 0.5)
    tensor([0.5000, 0.5000])
    """
    if has_torch_function_variadic(tensor):
        return handle_torch_function(constant_, (tensor,), tensor=tensor, val=val)
    return _no_grad_fill_(tensor, val)


def _no_grad_fill_(tensor: Tensor, val: float) -> Tensor:
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Fill with 1.

    Shape:
        tensor: any

    Raises:
        AttributeError: the argument is no Tensor

    >>> import flambeau
    >>> flambeau.nn.init.ones_(flambeau.empty(2))
    tensor([1., 1.])
    """
    return _no_grad_fill_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fill with 0.

    Shape:
        tensor: any

    Raises:
        AttributeError: the argument is no Tensor

    >>> import flambeau
    >>> flambeau.nn.init.zeros_(flambeau.empty(2))
    tensor([0., 0.])
    """
    with no_grad():
        return tensor.zero_()


def eye_(tensor: Tensor) -> Tensor:
    """Fill a 2-dimensional tensor with the identity matrix, so that a linear layer passes its input on.

    Raises:
        ValueError: the tensor has another number of dimensions.

    >>> import flambeau
    >>> from flambeau.nn import init
    >>> init.eye_(flambeau.empty(2, 3))
    tensor([[1., 0., 0.],
            [0., 1., 0.]])
    """
    _check_matrix(tensor)
    with no_grad():
        tensor.zero_()
        tensor.diagonal().fill_(1.0)
    return tensor


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Fill a convolution's weight, of 3 to 5 dimensions, so that it passes on as many channels as it can.

    Args:
        tensor: of shape (out_channels, in_channels / groups, ...).
        groups: the convolution's; each passes its own channels on.

    Raises:
        ValueError: another number of dimensions, or `groups` does not divide the first size.

    >>> import flambeau
    >>> flambeau.nn.init.dirac_(flambeau.empty(2, 2, 1)).squeeze(-1)
    tensor([[1., 0.],
            [0., 1.]])
    """
    if tensor.dim() not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    if tensor.size(0) % groups != 0:
        raise ValueError("dim 0 must be divisible by groups")
    per_group = tensor.size(0) // groups
    centre = tuple(size // 2 for size in tensor.shape[2:])
    with no_grad():
        tensor.zero_()
        for group in range(groups):
            for channel in range(min(per_group, tensor.size(1))):
                tensor[(group * per_group + channel, channel, *centre)] = 1
    return tensor


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """How many inputs an output of this weight depends on, and how many outputs an input goes to."""
    if tensor.dim() < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    receptive_field = math.prod(tensor.shape[2:])
    return tensor.size(1) * receptive_field, tensor.size(0) * receptive_field


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    modes = ["fan_in", "fan_out"]
    if mode.lower() not in modes:
        raise ValueError(f"Mode {mode.lower()} not supported, please use one of {modes}")
    return _calculate_fan_in_and_fan_out(tensor)[modes.index(mode.lower())]


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Draw from U(-a, a) with a = gain · sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio, 2010).

    Raises:
        ValueError: the tensor has fewer than 2 dimensions.

    >>> import flambeau
    >>> w = flambeau.nn.init.xavier_uniform_(flambeau.empty(3, 3))
    >>> w.abs().max() <= 1
    tensor(True)
    """
    bound = math.sqrt(3.0) * _xavier_std(tensor, gain)
    return _no_grad_uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Draw from a normal distribution of variance gain² · 2 / (fan_in + fan_out) (Glorot and Bengio, 2010).

    Raises:
        ValueError: the tensor has fewer than 2 dimensions.

    >>> import flambeau
    >>> w = flambeau.nn.init.xavier_normal_(flambeau.empty(100, 100))
    >>> 0.09 < w.std() < 0.11
    tensor(True)
    """
    return _no_grad_normal_(tensor, 0.0, _xavier_std(tensor, gain), generator)


def _xavier_std(tensor: Tensor, gain: float) -> float:
    return gain * math.sqrt(2.0 / float(sum(_calculate_fan_in_and_fan_out(tensor))))


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """Draw from U(-b, b) with b = gain · sqrt(3 / fan) (He et al., 2015).

    Args:
        tensor: a weight of at least 2 dimensions.
        a: the slope of the leaky ReLU that follows.
        mode: whether 'fan_in', to keep the variance forward, or 'fan_out', backward.
        nonlinearity: see `calculate_gain`.

    Raises:
        ValueError: fewer than 2 dimensions, or an unknown mode or nonlinearity.

    >>> import flambeau
    >>> w = flambeau.nn.init.kaiming_uniform_(flambeau.empty(100, 6), nonlinearity="relu")
    >>> w.abs().max() <= 1
    tensor(True)
    """
    if has_torch_function_variadic(tensor):
        return handle_torch_function(
            kaiming_uniform_,
            (tensor,),
            tensor=tensor,
            a=a,
            mode=mode,
            nonlinearity=nonlinearity,
            generator=generator,
        )
    if _is_empty(tensor):
        return tensor
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return _no_grad_uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """Draw from a normal distribution of variance gain² / fan (He et al., 2015); see `kaiming_uniform_`.

    Shape:
        tensor: (out, in, *), of at least two dimensions

    Raises:
        ValueError: the tensor has fewer than two dimensions

    >>> import flambeau
    >>> w = flambeau.nn.init.kaiming_normal_(flambeau.empty(100, 200), nonlinearity="relu")
    >>> 0.09 < w.std() < 0.11
    tensor(True)
    """
    if _is_empty(tensor):
        return tensor
    return _no_grad_normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def _is_empty(tensor: Tensor) -> bool:
    if 0 not in tensor.shape:
        return False
    warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
    return True


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    fan = _calculate_correct_fan(tensor, mode)
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """Fill with `gain` times a random matrix of orthonormal rows or columns (Saxe et al., 2013).

    Args:
        tensor: at least 2-dimensional; the dimensions after the first count as one.

    Raises:
        ValueError: the tensor has fewer than 2 dimensions.

    >>> import flambeau
    >>> w = flambeau.nn.init.orthogonal_(flambeau.empty(2, 3))
    >>> flambeau.allclose(w @ w.T, flambeau.eye(2), atol=1e-5)
    True
    """
    if tensor.dim() < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    rows = tensor.size(0)
    columns = tensor.numel() // rows
    with no_grad():
        gaussian = tensor.new_empty((rows, columns)).normal_(0, 1, generator=generator)
        import numpy

        tall = gaussian.t() if rows < columns else gaussian
        q, r = (from_numpy(part.copy()) for part in numpy.linalg.qr(tall.double().numpy()))
        # With R's diagonal made positive the factorisation is unique, and Q uniform among orthogonal
        # matrices.
        q = q * r.diagonal().sign()
        tensor.copy_((q.t() if rows < columns else q).reshape(tensor.shape)).mul_(gain)
    return tensor


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Draw a 2-dimensional tensor from N(0, std²) and zero the fraction `sparsity` of each column (Martens,
    2010).

    Raises:
        ValueError: the tensor has another number of dimensions.

    >>> import flambeau
    >>> w = flambeau.nn.init.sparse_(flambeau.empty(10, 3), sparsity=0.5)
    >>> (w == 0).sum(0)
    tensor([5, 5, 5])
    """
    _check_matrix(tensor)
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with no_grad():
        tensor.normal_(0, std, generator=generator)
        for column in range(columns):
            tensor[randperm(rows, generator=generator, device=tensor.device)[:zeros], column] = 0
    return tensor


def _check_matrix(tensor: Tensor) -> None:
    if tensor.dim() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")


def _old(function: Callable[..., Tensor], example: str) -> Callable[..., Tensor]:
    """The function under its old name, which does not end in "_", and warns.

    `example` has the arguments of the example in its docstring.
    """
    name = function.__name__[:-1]

    @functools.wraps(function)
    def warned(*args: Any, **kwargs: Any) -> Tensor:
        warnings.warn(
            f"`nn.init.{name}` is now deprecated in favor of `nn.init.{function.__name__}`.",
            FutureWarning,
            stacklevel=2,
        )
        return function(*args, **kwargs)

    warned.__name__ = warned.__qualname__ = name
    warned.__doc__ = f"""`{name}_` under its old name: same arguments, shapes, result and errors, and a FutureWarning.

    >>> import warnings
    >>> import flambeau
    >>> with warnings.catch_warnings(record=True, action="always") as caught:
    ...     filled = flambeau.nn.init.{name}({example})
    >>> print(caught[0].message)
    `nn.init.{name}` is now deprecated in favor of `nn.init.{name}_`.
    """
    return warned


constant = _old(constant_, "flambeau.empty(2), 3.0")
dirac = _old(dirac_, "flambeau.empty(2, 2, 3)")
eye = _old(eye_, "flambeau.empty(2, 3)")
kaiming_normal = _old(kaiming_normal_, "flambeau.empty(2, 3)")
kaiming_uniform = _old(kaiming_uniform_, "flambeau.empty(2, 3)")
normal = _old(normal_, "flambeau.empty(2, 3)")
orthogonal = _old(orthogonal_, "flambeau.empty(2, 3)")
sparse = _old(sparse_, "flambeau.empty(4, 2), 0.5")
uniform = _old(uniform_, "flambeau.empty(2, 3)")
xavier_normal = _old(xavier_normal_, "flambeau.empty(2, 3)")
xavier_uniform = _old(xavier_uniform_, "flambeau.empty(2, 3)")
