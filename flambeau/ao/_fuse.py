"""Layers that stand behind each other become one: what is computed once is rounded once."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from .. import nn
from ..nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval
from .nn import intrinsic


def _same_mode(*modules: Any) -> None:
    if len({m.training for m in modules}) > 1:
        names = ", ".join(type(m).__name__ for m in modules)
        raise AssertionError(f"{names} both must be in the same mode (train or eval).")


def _trainable(layer: Any, bn: Any) -> None:
    features = layer.out_features if isinstance(layer, nn.Linear) else layer.out_channels
    if bn.num_features != features:
        raise AssertionError(
            f"Output channels of the layer must match num_features of the normalisation: {features} and {bn.num_features}"
        )
    if not bn.affine or not bn.track_running_stats:
        raise AssertionError(
            "Only support fusing a BatchNorm with affine and track_running_stats set to True"
        )


def fuse_conv_bn(is_qat: bool, conv: Any, bn: Any) -> Any:
    """A convolution and its normalisation as one layer: a plain convolution, or in training with rounding one that keeps both.

    Raises:
        AssertionError: one is in training and one is not, or they do not fit.

    >>> from flambeau import nn
    >>> from flambeau.ao.quantization import fuse_conv_bn
    >>> fuse_conv_bn(False, nn.Conv2d(1, 2, 3).eval(), nn.BatchNorm2d(2).eval())
    Conv2d(1, 2, kernel_size=(3, 3), stride=(1, 1))
    """
    _same_mode(conv, bn)
    if not is_qat:
        return fuse_conv_bn_eval(conv, bn)
    _trainable(conv, bn)
    return getattr(intrinsic, f"ConvBn{conv.weight.ndim - 2}d")(conv, bn)


def fuse_conv_bn_relu(is_qat: bool, conv: Any, bn: Any, relu: Any) -> Any:
    """A convolution, its normalisation and a ReLU as one module; see `fuse_conv_bn`.

    Raises:
        AssertionError: some are in training and some are not, or they do not fit.

    >>> from flambeau import nn
    >>> from flambeau.ao.quantization import fuse_conv_bn_relu
    >>> type(fuse_conv_bn_relu(False, nn.Conv2d(1, 2, 3).eval(), nn.BatchNorm2d(2).eval(), nn.ReLU().eval())).__name__
    'ConvReLU2d'
    """
    _same_mode(conv, bn, relu)
    dims = conv.weight.ndim - 2
    if not is_qat:
        return getattr(intrinsic, f"ConvReLU{dims}d")(fuse_conv_bn_eval(conv, bn), relu)
    _trainable(conv, bn)
    return getattr(intrinsic, f"ConvBnReLU{dims}d")(conv, bn, relu)


def fuse_linear_bn(is_qat: bool, linear: Any, bn: Any) -> Any:
    """A linear layer and its normalisation as one; see `fuse_conv_bn`.

    Raises:
        AssertionError: one is in training and one is not, or they do not fit.

    >>> from flambeau import nn
    >>> from flambeau.ao.quantization import fuse_linear_bn
    >>> fuse_linear_bn(False, nn.Linear(1, 2).eval(), nn.BatchNorm1d(2).eval())
    Linear(in_features=1, out_features=2, bias=True)
    """
    _same_mode(linear, bn)
    if not is_qat:
        return fuse_linear_bn_eval(linear, bn)
    _trainable(linear, bn)
    return intrinsic.LinearBn1d(linear, bn)


def _transposed(is_qat: bool, conv: Any, bn: Any) -> Any:
    _same_mode(conv, bn)
    if is_qat:
        raise NotImplementedError("Fusing ConvTranspose+BatchNorm not yet supported in QAT.")
    return fuse_conv_bn_eval(conv, bn, transpose=True)


def _together(kind: Any) -> Callable:
    return lambda is_qat, *modules: kind(*modules)


FUSERS: dict[tuple, Callable] = {
    (nn.Linear, nn.ReLU): _together(intrinsic.LinearReLU),
    (nn.Linear, nn.BatchNorm1d): fuse_linear_bn,
    (nn.BatchNorm2d, nn.ReLU): _together(intrinsic.BNReLU2d),
    (nn.BatchNorm3d, nn.ReLU): _together(intrinsic.BNReLU3d),
}
for _d in (1, 2, 3):
    _conv, _bn, _transpose = (getattr(nn, f"{kind}{_d}d") for kind in ("Conv", "BatchNorm", "ConvTranspose"))
    FUSERS[_conv, _bn] = fuse_conv_bn
    FUSERS[_conv, _bn, nn.ReLU] = fuse_conv_bn_relu
    FUSERS[_conv, nn.ReLU] = _together(getattr(intrinsic, f"ConvReLU{_d}d"))
    FUSERS[_transpose, _bn] = _transposed


def fuse_known_modules(
    mod_list: Sequence[Any], is_qat: bool, additional_fuser_method_mapping: dict | None = None
) -> list[Any]:
    """A fused module in place of the first, and `Identity` in place of the others.

    Args:
        additional_fuser_method_mapping: functions of `is_qat` and the modules, by tuples of classes.

    Raises:
        NotImplementedError: classes that have no fused form.

    >>> from flambeau import nn
    >>> from flambeau.ao.quantization import fuse_known_modules
    >>> fuse_known_modules([nn.Linear(1, 2), nn.ReLU()], False)[1]
    Identity()
    """
    kinds = tuple(type(m) for m in mod_list)
    fuser = (additional_fuser_method_mapping or {}).get(kinds) or FUSERS.get(kinds)
    if fuser is None:
        raise NotImplementedError(f"Cannot fuse modules: {kinds}")
    fused = fuser(is_qat, *mod_list)
    for hook in mod_list[0]._forward_pre_hooks.values():
        fused.register_forward_pre_hook(hook)
    mod_list[0]._forward_pre_hooks.clear()
    for hook in mod_list[-1]._forward_hooks.values():
        fused.register_forward_hook(hook)
    mod_list[-1]._forward_hooks.clear()
    fused.train(mod_list[0].training)
    return [fused, *(nn.Identity().train(mod_list[0].training) for _ in mod_list[1:])]


def _fused(
    model: Any,
    modules_to_fuse: Sequence[Any],
    is_qat: bool,
    inplace: bool,
    fuser_func: Callable,
    config: dict | None,
) -> Any:
    model = model if inplace else copy.deepcopy(model)
    given = (config or {}).get("additional_fuser_method_mapping", {})
    lists = [modules_to_fuse] if all(isinstance(name, str) for name in modules_to_fuse) else modules_to_fuse
    for names in lists:
        modules = [model.get_submodule(name) for name in names]
        for name, module in zip(names, fuser_func(modules, is_qat, given)):
            owner, _, last = name.rpartition(".")
            setattr(model.get_submodule(owner), last, module)
    return model


def fuse_modules(
    model: Any,
    modules_to_fuse: Sequence[Any],
    inplace: bool = False,
    fuser_func: Callable = fuse_known_modules,
    fuse_custom_config_dict: dict | None = None,
) -> Any:
    """A model in which named modules that stand behind each other are one: a normalisation goes into the weight before it.

    It fuses a convolution and a BatchNorm, these and a ReLU, a convolution and a ReLU, a Linear and a BatchNorm1d, a Linear and a
    ReLU, and a BatchNorm and a ReLU, in evaluation mode where a BatchNorm is among them.

    Args:
        modules_to_fuse: dotted names, or a list of lists of such.
        inplace: whether `model` itself is changed.
        fuser_func: as `fuse_known_modules`.
        fuse_custom_config_dict: {"additional_fuser_method_mapping": functions by tuples of classes}.

    Raises:
        NotImplementedError: classes that have no fused form.
        AssertionError: modules that do not fit, or a BatchNorm in training.
        AttributeError: a name that the model does not have.

    >>> from flambeau import nn
    >>> from flambeau.ao.quantization import fuse_modules
    >>> fuse_modules(nn.Sequential(nn.Linear(1, 2), nn.ReLU()), [["0", "1"]])
    Sequential(
      (0): LinearReLU(
        (0): Linear(in_features=1, out_features=2, bias=True)
        (1): ReLU()
      )
      (1): Identity()
    )
    """
    return _fused(model, modules_to_fuse, False, inplace, fuser_func, fuse_custom_config_dict)


def fuse_modules_qat(
    model: Any,
    modules_to_fuse: Sequence[Any],
    inplace: bool = False,
    fuser_func: Callable = fuse_known_modules,
    fuse_custom_config_dict: dict | None = None,
) -> Any:
    """`fuse_modules` for training: a normalisation stays, beside the layer before it.

    Raises:
        NotImplementedError: classes that have no fused form.
        AssertionError: modules that do not fit.
        AttributeError: a name that the model does not have.

    >>> from flambeau import nn
    >>> from flambeau.ao.quantization import fuse_modules_qat
    >>> type(fuse_modules_qat(nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)), ["0", "1"])[0]).__name__
    'ConvBn2d'
    """
    return _fused(model, modules_to_fuse, True, inplace, fuser_func, fuse_custom_config_dict)
