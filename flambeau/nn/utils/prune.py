"""Pruning: parameters times masks of zeros and ones.

A pruned parameter `weight` is an attribute, computed as `weight_orig` · `weight_mask` before each call of the module, by a
hook that knows the pruning method.  Pruning again chooses among what is not pruned yet.
"""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

from ..._tensor import Tensor
from ...core.make.create import ones_like, zeros_like
from ...operations.linalg.matrices import norm
from ...operations.random.random import rand, rand_like
from ..modules.module import Module
from .convert_parameters import parameters_to_vector

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "PruningContainer",
    "RandomStructured",
    "RandomUnstructured",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]


# ---------------------------------------------------------------- methods


class BasePruningMethod(ABC):
    """A way to prune a tensor: a class derived from it defines `compute_mask` and PRUNING_TYPE.

    PRUNING_TYPE says what a second pruning chooses from: "unstructured", the elements that are left; "structured", the
    channels along `self.dim` of which something is left; "global", all of it.

    >>> import flambeau
    >>> from flambeau.nn.utils import prune
    >>> class EverySecond(prune.BasePruningMethod):
    ...     PRUNING_TYPE = "unstructured"
    ...     def compute_mask(self, t, default_mask):
    ...         mask = default_mask.clone()
    ...         mask.view(-1)[::2] = 0
    ...         return mask
    >>> layer = flambeau.nn.Linear(2, 2)
    >>> _ = EverySecond.apply(layer, "weight")
    >>> layer.weight_mask
    tensor([[0., 1.],
            [0., 1.]])
    """

    _tensor_name: str
    PRUNING_TYPE: str

    def __call__(self, module: Module, inputs: Any) -> None:
        """Compute the pruned tensor; this is the hook before each call of `module`."""
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask for `t`, importance by importance, where `default_mask`, of its shape, holds what is left so far."""

    def apply_mask(self, module: Module) -> Tensor:
        """The pruned tensor of a module that this method was applied to."""
        if getattr(self, "_tensor_name", None) is None:
            raise AssertionError(f"Module {module} has to be pruned")
        original = getattr(module, self._tensor_name + "_orig")
        return getattr(module, self._tensor_name + "_mask").to(dtype=original.dtype) * original

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any
    ) -> BasePruningMethod:
        """Prune the parameter `name` by `cls(*args, **kwargs)`, after other methods where it is pruned already.

        Args:
            module: the module that has the parameter.
            name: its name.
            importance_scores: what the mask is computed from, of the parameter's shape; by default the parameter.

        Returns:
            The method, or the container of all methods applied to it.

        Raises:
            AssertionError: `importance_scores` are of another shape.
        """
        method = cls(*args, **kwargs)
        method._tensor_name = name
        result = [
            (key, hook)
            for key, hook in module._forward_pre_hooks.items()
            if isinstance(hook, BasePruningMethod) and hook._tensor_name == name
        ]
        if len(result) > 1:
            raise AssertionError(
                f"Avoid adding multiple pruning hooks to the same tensor {name} of module {module}. Use a PruningContainer."
            )
        original = getattr(module, name)
        scores = original if importance_scores is None else importance_scores
        if scores.shape != original.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as parameter {name} of {module}, "
                f"got {scores.shape} vs {original.shape}"
            )
        if not result:
            mask = method.compute_mask(scores, default_mask=ones_like(original))
            module.register_parameter(name + "_orig", original)
            del module._parameters[name]
        else:
            ((key, hook),) = result
            container = PruningContainer(*(hook if isinstance(hook, PruningContainer) else (hook,)))
            container._tensor_name = name
            container.add_pruning_method(method)
            before = getattr(module, name + "_mask").detach().clone()
            mask = container.compute_mask(scores, before)
            del module._forward_pre_hooks[key]
            method = container
        module.register_buffer(name + "_mask", mask)
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(
        self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None
    ) -> Tensor:
        """A pruned `t`, without a module.

        Args:
            t: any tensor.
            default_mask: what of it is left, of its shape; by default all.
            importance_scores: what the mask is computed from, of its shape; by default `t`.

        Raises:
            AssertionError: `importance_scores` are of another shape.
        """
        scores = t if importance_scores is None else importance_scores
        if scores.shape != t.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as tensor t, got {scores.shape} vs {t.shape}"
            )
        return t * self.compute_mask(
            scores, default_mask=ones_like(t) if default_mask is None else default_mask
        )

    def remove(self, module: Module) -> None:
        """Make the pruned tensor a parameter again: its original, which takes over its values."""
        pruned = self.apply_mask(module)
        name = self._tensor_name
        if hasattr(module, name):
            delattr(module, name)
        original: Any = module._parameters.pop(name + "_orig")
        original.data = pruned.data
        del module._buffers[name + "_mask"]
        setattr(module, name, original)


class PruningContainer(BasePruningMethod):
    """Methods applied to one tensor, one after another.

    A second pruning of a tensor makes it; a program does not.

    Raises:
        TypeError: an argument is no pruning method

    >>> from flambeau import nn
    >>> from flambeau.nn.utils import prune
    >>> layer = prune.random_unstructured(nn.Linear(3, 2), "weight", 1)
    >>> both = prune.L1Unstructured.apply(layer, "weight", 2)
    >>> type(both).__name__, len(both), int((layer.weight_mask == 0).sum())
    ('PruningContainer', 2, 3)
    """

    def __init__(self, *args: BasePruningMethod) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        if len(args) >= 1 and hasattr(args[0], "_tensor_name"):
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod) -> None:
        """Add a method, for the tensor that those before are for.

        Raises:
            TypeError: it is none.
            ValueError: it is for a tensor of another name.
        """
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if self._tensor_name != method._tensor_name:
            raise ValueError(
                f"Can only add pruning methods acting on the parameter named '{self._tensor_name}' to PruningContainer "
                f"{self}. Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: Any) -> Any:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """`default_mask` after the last method, which sees what that leaves of `t`, as its PRUNING_TYPE says.

        Raises:
            AttributeError: a "structured" method has no `dim`.
            IndexError: that is out of range.
            ValueError: another PRUNING_TYPE.
        """
        method: Any = self._pruning_methods[-1]
        left: Any
        if method.PRUNING_TYPE == "unstructured":
            left = default_mask == 1
        elif method.PRUNING_TYPE == "structured":
            if not hasattr(method, "dim"):
                raise AttributeError(
                    'Pruning methods of PRUNING_TYPE "structured" need to have the attribute `dim` defined.'
                )
            dim = method.dim + t.dim() if method.dim < 0 else method.dim
            if not 0 <= dim < t.dim():
                raise IndexError(f"Index is out of bounds for tensor with dimensions {t.dim()}")
            others = [d for d in range(t.dim()) if d != dim]
            left = (*[slice(None)] * dim, default_mask.sum(dim=others) != 0)
        elif method.PRUNING_TYPE == "global":
            left = ...
        else:
            raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
        mask = default_mask.to(dtype=t.dtype, copy=True)
        mask[left] = method.compute_mask(t[left], default_mask=default_mask[left]).to(dtype=mask.dtype)
        return mask


class _ByAmount(BasePruningMethod):
    """A method that prunes so many elements, or channels, an int, or such a part of all, a float from 0 to 1."""

    def __init__(self, amount: float) -> None:
        if not isinstance(amount, numbers.Real):
            raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
        if amount < 0 or (not isinstance(amount, numbers.Integral) and not amount <= 1.0):
            raise ValueError(
                f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer"
            )
        self.amount: Any = amount

    def _count(self, size: int) -> int:
        """How many of `size` to prune."""
        if not isinstance(self.amount, numbers.Integral):
            return round(self.amount * size)
        count = int(self.amount)
        if count > size:
            raise ValueError(
                f"amount={self.amount} should be smaller than the number of parameters to prune={size}"
            )
        return count


class Identity(BasePruningMethod):
    """Prunes nothing.

    >>> import flambeau
    >>> flambeau.nn.utils.prune.Identity().prune(flambeau.tensor([1.0, -3.0]))
    tensor([ 1., -3.])
    """

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask

    @classmethod
    def apply(cls, module: Module, name: str) -> BasePruningMethod:  # type: ignore[override]
        return super().apply(module, name)


class RandomUnstructured(_ByAmount):
    """Prunes elements drawn at random: `amount` of them, or that part of all if it is a float.

    Raises:
        TypeError: `amount` is no real number.
        ValueError: it is negative, a float above 1, or more than there is to prune.

    >>> import flambeau
    >>> flambeau.nn.utils.prune.RandomUnstructured(0.25).prune(flambeau.ones(8)).sum()
    tensor(6.)
    """

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return _without_top(default_mask, rand_like(t), self._count(t.numel()), largest=True)

    @classmethod
    def apply(cls, module: Module, name: str, amount: float) -> BasePruningMethod:  # type: ignore[override]
        return super().apply(module, name, amount=amount)


class L1Unstructured(_ByAmount):
    """Prunes the elements of the least magnitude: `amount` of them, or that part of all if it is a float.

    Raises:
        TypeError: `amount` is no real number.
        ValueError: it is negative, a float above 1, or more than there is to prune.

    >>> import flambeau
    >>> flambeau.nn.utils.prune.L1Unstructured(2).prune(flambeau.tensor([1.0, -3.0, 2.0, 0.5]))
    tensor([ 0., -3.,  2.,  0.])
    """

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return _without_top(default_mask, t.detach().abs(), self._count(t.numel()), largest=False)

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str, amount: float, importance_scores: Tensor | None = None
    ) -> BasePruningMethod:
        return super().apply(module, name, amount=amount, importance_scores=importance_scores)


def _without_top(mask: Tensor, scores: Tensor, count: int, largest: bool) -> Tensor:
    """A copy of `mask` with 0 at the places of the `count` largest or smallest scores."""
    mask = mask.clone().contiguous()
    mask.view(-1)[scores.reshape(-1).topk(count, largest=largest).indices] = 0
    return mask


class _Structured(_ByAmount):
    """A method that prunes channels along `dim`."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    @abstractmethod
    def _kept(self, t: Tensor, count: int) -> Tensor:
        """The indices of the channels that stay where `count` go."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """`default_mask` without some of the channels.

        Raises:
            ValueError: `t` has fewer than two dimensions, or fewer channels than are to be pruned.
            IndexError: `dim` is out of range.
        """
        if t.dim() <= 1:
            raise ValueError(
                "Structured pruning can only be applied to multidimensional tensors. Found tensor of shape "
                f"{t.shape} with {t.dim()} dims"
            )
        if not -t.dim() <= self.dim < t.dim():
            raise IndexError(f"Invalid index {self.dim} for tensor of size {t.shape}")
        count = self._count(t.size(self.dim))
        if count == 0:
            return default_mask
        mask = zeros_like(t)
        mask.index_fill_(self.dim, self._kept(t.detach(), count), 1)
        return mask.mul_(default_mask.to(dtype=mask.dtype))


class RandomStructured(_Structured):
    """Prunes channels along `dim` drawn at random: `amount` of them, or that part of all if it is a float.

    Raises:
        TypeError: `amount` is no real number.
        ValueError: it is negative, a float above 1, or more than there are channels; the tensor is a vector.
        IndexError: `dim` is out of range.

    >>> import flambeau
    >>> pruned = flambeau.nn.utils.prune.RandomStructured(1, dim=0).prune(flambeau.ones(3, 2))
    >>> pruned.sum(0), sorted(pruned.sum(1).tolist())
    (tensor([2., 2.]), [0.0, 2.0, 2.0])
    """

    def _kept(self, t: Tensor, count: int) -> Tensor:
        channels = t.size(self.dim)
        return rand(channels, device=t.device).topk(channels - count).indices

    @classmethod
    def apply(cls, module: Module, name: str, amount: float, dim: int = -1) -> BasePruningMethod:  # type: ignore[override]
        return super().apply(module, name, amount=amount, dim=dim)


class LnStructured(_Structured):
    """Prunes the channels along `dim` of the least `n`-norm.

    `amount` of them go, or that part of all if it is a float.
    `n` is what `flambeau.norm` takes as `p`: a number, `inf`, `-inf`, "fro" or "nuc".

    Raises:
        TypeError: `amount` is no real number.
        ValueError: it is negative, a float above 1, or more than there are channels; the tensor is a vector.
        IndexError: `dim` is out of range.

    >>> import flambeau
    >>> flambeau.nn.utils.prune.LnStructured(1, n=2, dim=0).prune(flambeau.tensor([[1.0, 2.0], [0.0, 1.0]]))
    tensor([[1., 2.],
            [0., 0.]])
    """

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def _kept(self, t: Tensor, count: int) -> Tensor:
        others = [d for d in range(t.dim()) if d != self.dim % t.dim()]
        lengths = norm(t, p=self.n, dim=others)
        return lengths.topk(lengths.numel() - count).indices

    @classmethod
    def apply(  # type: ignore[override]
        cls,
        module: Module,
        name: str,
        amount: float,
        n: Any,
        dim: int,
        importance_scores: Tensor | None = None,
    ) -> BasePruningMethod:
        return super().apply(module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores)


class CustomFromMask(BasePruningMethod):
    """Prunes by a mask that is given, of the tensor's shape; AssertionError for another one.

    >>> import flambeau
    >>> flambeau.nn.utils.prune.CustomFromMask(flambeau.tensor([0, 1])).prune(flambeau.tensor([5.0, 6.0]))
    tensor([0., 6.])
    """

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Both masks together; AssertionError where their shapes differ."""
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"default_mask shape {default_mask.shape} must match self.mask shape {self.mask.shape}"
            )
        return default_mask * self.mask.to(dtype=default_mask.dtype)

    @classmethod
    def apply(cls, module: Module, name: str, mask: Tensor) -> BasePruningMethod:  # type: ignore[override]
        return super().apply(module, name, mask=mask)


# ---------------------------------------------------------------- what programs call


def identity(module: Module, name: str) -> Module:
    """Give the parameter `name` a mask of ones; return `module`, of which the parameter becomes `name_orig` (here and below).

    Raises:
        AttributeError: the module has no parameter of that name

    >>> from flambeau import nn
    >>> nn.utils.prune.identity(nn.Linear(2, 3), "bias").bias_mask
    tensor([1., 1., 1.])
    """
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: float) -> Module:
    """Prune elements of the parameter `name` drawn at random; return `module`.

    Args:
        module: the module that has the parameter.
        name: its name.
        amount: how many of those that are left, or which part of them, a float from 0 to 1.

    Raises:
        TypeError: `amount` is no real number.
        ValueError: it is negative, a float above 1, or more than there is to prune.

    >>> from flambeau import nn
    >>> int((nn.utils.prune.random_unstructured(nn.Linear(2, 3), "weight", 2).weight_mask == 0).sum())
    2
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(
    module: Module, name: str, amount: float, importance_scores: Tensor | None = None
) -> Module:
    """Prune the elements of the parameter `name` of the least magnitude; return `module`.

    Args:
        module, name, amount: as of `random_unstructured`, with the same errors.
        importance_scores: whose magnitudes decide, of the parameter's shape; by default the parameter.

    Raises:
        AttributeError: the module has no parameter of that name
        ValueError: `amount` is a float outside of 0 to 1, or more than there is

    >>> from flambeau import nn
    >>> list(nn.utils.prune.l1_unstructured(nn.Linear(2, 3), "weight", 0.2).state_dict())
    ['bias', 'weight_orig', 'weight_mask']
    """
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: float, dim: int) -> Module:
    """Prune channels of the parameter `name` along `dim` drawn at random; return `module`.

    Args:
        module, name, amount: as of `random_unstructured`, of channels; with the same errors.
        dim: the dimension that counts the channels; IndexError where it is out of range, ValueError for a vector.

    >>> from flambeau import nn
    >>> layer = nn.utils.prune.random_structured(nn.Linear(5, 3), "weight", amount=3, dim=1)
    >>> int((layer.weight.abs().sum(0) == 0).sum())
    3
    """
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module, name: str, amount: float, n: Any, dim: int, importance_scores: Tensor | None = None
) -> Module:
    """Prune the channels of the parameter `name` along `dim` of the least `n`-norm; return `module`.

    Args:
        module, name, amount, dim: as of `random_structured`, with the same errors.
        n: what `flambeau.norm` takes as `p`.
        importance_scores: whose norms decide, of the parameter's shape; by default the parameter.

    Raises:
        AttributeError: the module has no parameter of that name
        ValueError: `amount` is a float outside of 0 to 1, or more than there is

    >>> import flambeau
    >>> from flambeau import nn
    >>> layer = nn.Linear(2, 3)
    >>> layer.weight.data = flambeau.tensor([[1., 2.], [0., 1.], [3., 4.]])
    >>> nn.utils.prune.ln_structured(layer, "weight", amount=1, n=2, dim=0).weight_mask
    tensor([[1., 1.],
            [0., 0.],
            [1., 1.]])
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prune the parameter `name` by `mask`, of its shape; return `module`.

    Raises:
        AttributeError: the module has no parameter of that name

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.utils.prune.custom_from_mask(nn.Linear(5, 3), "bias", flambeau.tensor([0, 1, 0])).bias_mask
    tensor([0., 1., 0.])
    """
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]],
    pruning_method: Any,
    importance_scores: dict[tuple[Module, str], Tensor] | None = None,
    **kwargs: Any,
) -> None:
    """Prune several parameters as if they were one.

    Args:
        parameters: pairs of a module and the name of one of its parameters.
        pruning_method: a class of an "unstructured" method, such as `L1Unstructured`.
        importance_scores: what the mask is computed from for some of the pairs; for others it is the parameter.
        **kwargs: arguments of the method, such as `amount`.

    Shape:
        each parameter, which stays: any

    Raises:
        TypeError: `parameters` are no iterable, `importance_scores` no dictionary, or the method is not "unstructured".

    >>> from flambeau import nn
    >>> net = nn.Sequential(nn.Linear(10, 4), nn.Linear(4, 1))
    >>> pairs = [(net[0], "weight"), (net[1], "weight")]
    >>> nn.utils.prune.global_unstructured(pairs, nn.utils.prune.L1Unstructured, amount=10)
    >>> int((nn.utils.parameters_to_vector(net.buffers()) == 0).sum())
    10
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    pairs = list(parameters)
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. '
            f"Found method {pruning_method} of type {method.PRUNING_TYPE}"
        )
    method._tensor_name = "all"
    tensors = [getattr(module, name) for module, name in pairs]
    masks = [getattr(module, name + "_mask", None) for module, name in pairs]
    whole = PruningContainer(method).compute_mask(
        _joined(scores.get(pair, tensor) for pair, tensor in zip(pairs, tensors, strict=True)),
        _joined(ones_like(t) if mask is None else mask for mask, t in zip(masks, tensors, strict=True)),
    )
    parts = whole.split([tensor.numel() for tensor in tensors])
    for (module, name), tensor, part in zip(pairs, tensors, parts, strict=True):
        custom_from_mask(module, name, part.view(tensor.shape))


def _joined(tensors: Iterable[Tensor]) -> Tensor:
    return parameters_to_vector([tensor.detach().contiguous() for tensor in tensors])


def remove(module: Module, name: str) -> Module:
    """Make the pruned parameter `name` an ordinary one again, with zeros where it was pruned; return `module`.

    Raises:
        ValueError: it is not pruned.

    >>> from flambeau import nn
    >>> layer = nn.utils.prune.identity(nn.Linear(5, 7), "weight")
    >>> [name for name, _ in nn.utils.prune.remove(layer, "weight").named_parameters()]
    ['bias', 'weight']
    """
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")


def is_pruned(module: Module) -> bool:
    """Whether a parameter of `module`, or of a module in it, is pruned.

    Raises:
        AttributeError: the argument is no module

    >>> from flambeau import nn
    >>> nn.utils.prune.is_pruned(nn.utils.prune.identity(nn.Linear(5, 7), "weight"))
    True
    """
    return any(
        isinstance(hook, BasePruningMethod)
        for part in module.modules()
        for hook in part._forward_pre_hooks.values()
    )
