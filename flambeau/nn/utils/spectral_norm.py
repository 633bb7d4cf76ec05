"""The older spectral norm: a hook that computes the weight before each call.  `parametrizations.spectral_norm` is the newer."""

from __future__ import annotations

from typing import Any

from ..._tensor import Tensor
from ...autograd.grad_mode import no_grad
from .. import functional as F
from ..modules.module import Module
from ..parameter import Parameter
from ._directions import as_matrix, output_dim, random_direction

__all__ = [
    "SpectralNorm",
    "SpectralNormLoadStateDictPreHook",
    "SpectralNormStateDictHook",
    "remove_spectral_norm",
    "spectral_norm",
]


class SpectralNorm:
    """The hook on one parameter; `apply` registers it.

    After each call u = W v / |W v|.  Version 1 of what is saved has v, and not the weight itself.

    Raises:
        ValueError: `n_power_iterations` is below 1.

    >>> import flambeau
    >>> from flambeau.nn.utils.spectral_norm import SpectralNorm
    >>> layer = flambeau.nn.Linear(2, 2)
    >>> layer.weight.data = flambeau.diag(flambeau.tensor([4.0, 1.0]))
    >>> hook = SpectralNorm.apply(layer, "weight", n_power_iterations=50, dim=0, eps=1e-12)
    >>> hook.compute_weight(layer, do_power_iteration=True).detach().diagonal()
    tensor([1.0000, 0.2500])
    """

    _version: int = 1
    name: str
    dim: int
    n_power_iterations: int
    eps: float

    def __init__(
        self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.name = name
        self.dim = dim
        self.n_power_iterations = n_power_iterations
        self.eps = eps

    def reshape_weight_to_matrix(self, weight: Tensor) -> Tensor:
        """A matrix whose rows are the parts of `weight` along `dim`."""
        return as_matrix(weight, self.dim)

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        """The weight over its spectral norm, with its history; the power method goes on first, if wanted."""
        weight, u, v = (getattr(module, self.name + part) for part in ("_orig", "_u", "_v"))
        matrix = as_matrix(weight, self.dim)
        if do_power_iteration:
            with no_grad():  # in place, so that copies of the module that share its buffers see it
                for _ in range(self.n_power_iterations):
                    F.normalize(matrix.t().mv(u), dim=0, eps=self.eps, out=v)
                    F.normalize(matrix.mv(v), dim=0, eps=self.eps, out=u)
                # Copies: the next call writes over these, and backward of this one needs them.
                u, v = u.clone(), v.clone()
        return weight / u.dot(matrix.mv(v))

    def remove(self, module: Module) -> None:
        """Make the weight a parameter again, with the value that it has."""
        with no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        for part in ("", "_u", "_v", "_orig"):
            delattr(module, self.name + part)
        module.register_parameter(self.name, Parameter(weight))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, do_power_iteration=module.training))

    def _solve_v_and_rescale(self, matrix: Tensor, u: Tensor, sigma: Tensor) -> Tensor:
        """A v with u = W v / |W v| and u·W v = sigma."""
        v = ((matrix.t() @ matrix).pinverse() @ matrix.t()).mv(u)
        return v.mul_(sigma / u.dot(matrix.mv(v)))

    @staticmethod
    def apply(module: Module, name: str, n_power_iterations: int, dim: int, eps: float) -> SpectralNorm:
        """Put a hook on the parameter `name`; RuntimeError where there is one, ValueError where it is None."""
        if any(isinstance(h, SpectralNorm) and h.name == name for h in module._forward_pre_hooks.values()):
            raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
        hook = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
        height, width = as_matrix(weight, dim).shape
        u, v = random_direction(weight, height, eps), random_direction(weight, width, eps)
        delattr(module, name)
        module.register_parameter(name + "_orig", weight)
        # An attribute and no parameter: initialisers look for it before the first call.
        setattr(module, name, weight.data)
        module.register_buffer(name + "_u", u)
        module.register_buffer(name + "_v", v)
        module.register_forward_pre_hook(hook)
        module._register_state_dict_hook(SpectralNormStateDictHook(hook))
        module._register_load_state_dict_pre_hook(SpectralNormLoadStateDictPreHook(hook))
        return hook


class SpectralNormLoadStateDictPreHook:
    """Makes the v that files of version 0 do not have, from u, the weight and the weight that it came from.

    Raises:
        TypeError: the method is not given

    >>> import flambeau
    >>> layer = flambeau.nn.utils.spectral_norm(flambeau.nn.Linear(3, 2))
    >>> _ = layer(flambeau.ones(1, 3))
    >>> old = dict(layer.state_dict(), weight=layer.weight.detach())
    >>> del old["weight_v"]  # as version 0 is
    >>> layer.load_state_dict(old)
    <All keys matched successfully>
    """

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        key = prefix + self.fn.name
        version = local_metadata.get("spectral_norm", {}).get(self.fn.name + ".version")
        if version is not None and version >= 1:
            return
        has = {part: key + part in state_dict for part in ("_orig", "", "_u", "_v")}
        if version is None and not has[""] and has["_orig"] and has["_u"] and has["_v"]:
            return  # complete, and just without the note of its version
        missing = [key + part for part in ("_orig", "", "_u") if not has[part]]
        if missing:
            if strict:
                missing_keys.extend(missing)
            return
        with no_grad():
            original, weight, u = state_dict[key + "_orig"], state_dict.pop(key), state_dict[key + "_u"]
            matrix, sigma = as_matrix(original, self.fn.dim), (original / weight).mean()
            state_dict[key + "_v"] = self.fn._solve_v_and_rescale(matrix, u, sigma)


class SpectralNormStateDictHook:
    """Notes the version of what is saved.

    Raises:
        TypeError: the method is not given

    >>> from flambeau import nn
    >>> nn.utils.spectral_norm(nn.Linear(3, 2)).state_dict()._metadata[""]["spectral_norm"]
    {'weight.version': 1}
    """

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(self, module: Module, state_dict: Any, prefix: str, local_metadata: dict[str, Any]) -> None:
        versions = local_metadata.setdefault("spectral_norm", {})
        key = self.fn.name + ".version"
        if key in versions:
            raise RuntimeError(f"Unexpected key in metadata['spectral_norm']: {key}")
        versions[key] = self.fn._version


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divide a parameter by the largest singular value of it as a matrix (T. Miyato et al., 2018) before each call of
    `module`; return it.

    The parameter becomes `weight_orig`; the buffers `weight_u` and `weight_v` hold the singular vectors, which the power
    method improves at each call in training.  `parametrizations.spectral_norm` is the newer form.

    Args:
        module: the module that has the parameter.
        name: its name.
        n_power_iterations: at least 1.
        eps: what norms are at least, where vectors are divided by them.
        dim: the dimension that makes the matrix's rows; by default 0, and 1 for transposed convolutions.

    Raises:
        RuntimeError: the parameter has a spectral norm.
        ValueError: `n_power_iterations` is below 1, or the parameter is None.

    >>> from flambeau import nn
    >>> layer = nn.utils.spectral_norm(nn.Linear(20, 40))
    >>> list(layer.state_dict())
    ['bias', 'weight_orig', 'weight_u', 'weight_v']
    """
    SpectralNorm.apply(module, name, n_power_iterations, output_dim(module, dim), eps)
    return module


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Make a parameter with a spectral norm an ordinary one again, with its value; return `module`.

    Raises:
        ValueError: it has none.

    >>> from flambeau import nn
    >>> layer = nn.utils.spectral_norm(nn.Linear(3, 2))
    >>> list(nn.utils.remove_spectral_norm(layer).state_dict())
    ['bias', 'weight']
    """
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            break
    else:
        raise ValueError(f"spectral_norm of '{name}' not found in {module}")
    for hooks, cls in (
        (module._state_dict_hooks, SpectralNormStateDictHook),
        (module._load_state_dict_pre_hooks, SpectralNormLoadStateDictPreHook),
    ):
        for key, hook in list(hooks.items()):
            if isinstance(hook, cls) and hook.fn.name == name:
                del hooks[key]
    return module
