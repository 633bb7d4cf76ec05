"""The older weight norm: a hook that computes the weight before each call.  `parametrizations.weight_norm` is the newer one."""

from __future__ import annotations

import warnings
from typing import Any

from ..modules.module import Module
from ..parameter import Parameter
from ._directions import directed, norm_except

__all__ = ["WeightNorm", "remove_weight_norm", "weight_norm"]


class WeightNorm:
    """The hook on one parameter; `apply` registers it.

    Raises:
        TypeError: `dim` is not given

    >>> import warnings
    >>> import flambeau
    >>> from flambeau.nn.utils.weight_norm import WeightNorm
    >>> layer = flambeau.nn.Linear(3, 2)
    >>> with warnings.catch_warnings(action="ignore"):
    ...     hook = WeightNorm.apply(layer, "weight", 0)
    >>> layer.weight_g.data = flambeau.tensor([[1.5], [2.5]])
    >>> hook.compute_weight(layer).detach().norm(dim=1)
    tensor([1.5000, 2.5000])
    """

    name: str
    dim: int

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Any:
        """g · v / |v|, with their history."""
        return directed(getattr(module, self.name + "_v"), getattr(module, self.name + "_g"), self.dim)

    @staticmethod
    def apply(module: Module, name: str, dim: int | None) -> WeightNorm:
        """Put a hook on the parameter `name`; RuntimeError where there is one."""
        warnings.warn(
            "`nn.utils.weight_norm` is deprecated in favor of `nn.utils.parametrizations.weight_norm`.",
            FutureWarning,
            stacklevel=3,
        )
        if any(isinstance(h, WeightNorm) and h.name == name for h in module._forward_pre_hooks.values()):
            raise RuntimeError(f"Cannot register two weight_norm hooks on the same parameter {name}")
        hook = WeightNorm(name, dim)
        weight = getattr(module, name)
        length = Parameter(norm_except(weight, hook.dim).detach())
        del module._parameters[name]
        module.register_parameter(name + "_g", length)
        module.register_parameter(name + "_v", Parameter(weight.data))
        setattr(module, name, hook.compute_weight(module))
        module.register_forward_pre_hook(hook)
        return hook

    def remove(self, module: Module) -> None:
        """Make the weight a parameter again, with the value that it has."""
        weight = self.compute_weight(module)
        delattr(module, self.name)
        del module._parameters[self.name + "_g"]
        del module._parameters[self.name + "_v"]
        setattr(module, self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Make a parameter g · v / |v| of two new ones, `weight_g` and `weight_v` (T. Salimans and D. Kingma, 2016), before each
    call of `module`; return it.

    `parametrizations.weight_norm` does so whenever the weight is requested, and is what programs use instead; a
    FutureWarning says so.

    Args:
        module: the module that has the parameter.
        name: its name.
        dim: the dimension along which each part has a length of its own; None for one length.

    Raises:
        RuntimeError: the parameter has a weight norm.

    >>> import warnings
    >>> from flambeau import nn
    >>> with warnings.catch_warnings(action="ignore"):
    ...     layer = nn.utils.weight_norm(nn.Linear(20, 40))
    >>> [(name, tuple(p.shape)) for name, p in layer.named_parameters()]
    [('bias', (40,)), ('weight_g', (40, 1)), ('weight_v', (40, 20))]
    """
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Make a parameter with a weight norm an ordinary one again, with the value that it has; return `module`.

    Raises:
        ValueError: it has none.

    >>> import warnings
    >>> from flambeau import nn
    >>> with warnings.catch_warnings(action="ignore"):
    ...     layer = nn.utils.weight_norm(nn.Linear(3, 2))
    >>> [name for name, _ in nn.utils.remove_weight_norm(layer).named_parameters()]
    ['bias', 'weight']
    """
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, WeightNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"weight_norm of '{name}' not found in {module}")
