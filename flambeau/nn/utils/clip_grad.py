"""Clipping gradients, by their total norm or element by element."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from types import GeneratorType
from typing import Any

from ..._tensor import Tensor
from ...autograd.grad_mode import no_grad
from ...core.base.callbacks import callbacks
from ...core.make.literal import tensor as new_tensor
from ...core.places.join import stack
from ...operations.pointwise import arithmetic
from ...operations.rows.norms import vector_norm

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]


def _on(device: Any, number: Tensor) -> Tensor:
    return number if number.device == device else number.to(device)


def _is_distributed(tensor: Any) -> bool:
    return hasattr(tensor, "placements")


def _whole(number: Any) -> Tensor:
    return number.full_tensor() if _is_distributed(number) else number


def _listed(tensors: Tensor | Iterable[Tensor]) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The norm of all tensors together, as if they were one vector; a 0-dimensional tensor.

    Args:
        tensors: one tensor or several, of any shapes; of distributed ones, every process of their mesh calls it, and the norm is
            a distributed tensor, too.
        norm_type: the p of the norm; `float("inf")` for the largest magnitude.
        error_if_nonfinite: whether to raise where the norm is infinite or NaN.
        foreach: accepted for PyTorch's sake; it changes nothing.

    Raises:
        RuntimeError: the norm is not finite, if `error_if_nonfinite`.

    >>> import flambeau
    >>> flambeau.nn.utils.get_total_norm([flambeau.tensor([3.0]), flambeau.tensor([4.0])])
    tensor(5.)
    """
    tensors = _listed(tensors)
    norm_type = float(norm_type)
    if not tensors:
        return new_tensor(0.0)
    with no_grad():
        if any(map(_is_distributed, tensors)):
            total = callbacks["norm of distributed tensors"](tensors, norm_type)
        else:
            device = tensors[0].device
            norms = [vector_norm(tensor, norm_type) for tensor in tensors]
            total = vector_norm(stack([_on(device, norm) for norm in norms]), norm_type)
    if error_if_nonfinite and not bool(_whole(total).isfinite()):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it "
            "cannot be clipped. To disable this error and scale the gradients by the non-finite norm "
            "anyway, set `error_if_nonfinite=False`"
        )
    return total


def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale all gradients by max_norm / total_norm if that is below 1, in place.

    Args:
        parameters: one tensor or several; those without a gradient are left out.
        max_norm: the norm wanted.
        total_norm: the norm there is, from `get_total_norm`.
        foreach: accepted for PyTorch's sake; it changes nothing.

    Shape:
        total_norm: (); gradients: any, which stay

    Raises:
        TypeError: an argument is missing

    >>> import flambeau
    >>> x = flambeau.zeros(2, requires_grad=True)
    >>> x.grad = flambeau.tensor([3.0, 4.0])
    >>> flambeau.nn.utils.clip_grads_with_norm_(x, 2.5, flambeau.nn.utils.get_total_norm(x.grad))
    >>> x.grad
    tensor([1.5000, 2.0000])
    """
    grads = [parameter.grad for parameter in _listed(parameters) if parameter.grad is not None]
    with no_grad():
        # Multiplying by 1 where nothing is to be clipped spares a wait for the device's answer.
        scale = (float(max_norm) / (_whole(total_norm) + 1e-6)).clamp(max=1.0)
        grads = [grad.to_local() if _is_distributed(grad) else grad for grad in grads]
        arithmetic.mul.foreach([grads, [_on(grad.device, scale) for grad in grads]], out=[grads])


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale all gradients, in place, so that their total norm is at most `max_norm`; return the norm before.

    Args:
        parameters: one tensor or several; those without a gradient are left out.
        max_norm: the largest total norm.
        norm_type: the p of the norm; `float("inf")` for the largest magnitude.
        error_if_nonfinite: whether to raise where the norm is infinite or NaN.
        foreach: accepted for PyTorch's sake; it changes nothing.

    Shape:
        gradients: any, which stay; the result: ()

    Raises:
        RuntimeError: the norm is not finite, if `error_if_nonfinite`.

    >>> import flambeau
    >>> from flambeau.nn.utils import clip_grad_norm_
    >>> x = flambeau.zeros(2, requires_grad=True)
    >>> x.grad = flambeau.tensor([3.0, 4.0])
    >>> clip_grad_norm_(x, 1.0)
    tensor(5.)
    >>> x.grad
    tensor([0.6000, 0.8000])
    """
    drawn = isinstance(parameters, GeneratorType)
    parameters = _listed(parameters)
    if drawn and not parameters:
        warnings.warn("`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=2)
    grads = [parameter.grad for parameter in parameters if parameter.grad is not None]
    total_norm = get_total_norm(grads, norm_type, error_if_nonfinite)
    clip_grads_with_norm_(parameters, max_norm, total_norm)
    return total_norm


def clip_grad_norm(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The old name of `clip_grad_norm_`, of the same arguments, result and errors; a FutureWarning says so.

    Shape:
        gradients: any, which stay; the result: ()

    >>> import warnings
    >>> import flambeau
    >>> x = flambeau.zeros(2, requires_grad=True)
    >>> x.grad = flambeau.tensor([3.0, 4.0])
    >>> with warnings.catch_warnings(action="ignore"):
    ...     flambeau.nn.utils.clip_grad_norm(x, 1.0)
    tensor(5.)
    """
    warnings.warn(
        "`nn.utils.clip_grad_norm` is now deprecated in favor of `nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(
    parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None
) -> None:
    """Cut all gradients off at ±`clip_value`, in place.

    Args:
        parameters: one tensor or several; those without a gradient are left out.
        clip_value: the largest magnitude.
        foreach: accepted for PyTorch's sake; it changes nothing.

    Shape:
        gradients: any, which stay

    Raises:
        ValueError: `clip_value` is a text that is no number

    >>> import flambeau
    >>> x = flambeau.zeros(2, requires_grad=True)
    >>> x.grad = flambeau.tensor([3.0, -0.5])
    >>> flambeau.nn.utils.clip_grad_value_(x, 1.0)
    >>> x.grad
    tensor([ 1.0000, -0.5000])
    """
    clip_value = float(clip_value)
    grads = [parameter.grad for parameter in _listed(parameters) if parameter.grad is not None]
    arithmetic.clamp_both.foreach([grads, [-clip_value] * len(grads), [clip_value] * len(grads)], out=[grads])
