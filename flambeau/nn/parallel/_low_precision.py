"""Parameters in a lower precision while a module computes; those that optimisers see keep their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ..._tensor import Tensor
from ...autograd import no_grad
from ...distributed._trees import map_tensors
from ..modules.module import Module
from ..parameter import Parameter


@dataclass
class MixedPrecision:
    """Dtypes of DistributedDataParallel: of parameters and inputs in a pass, of gradients while they are added up, of floating buffers."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    buffer_dtype: Any = None


class LowPrecision:
    """For each parameter a leaf of a lower precision, which takes its place in forward passes, and hands its gradient on."""

    def __init__(
        self, module: Module, parameters: Sequence[Tensor], dtype: Any, arrived: Callable[[Tensor], None]
    ) -> None:
        wanted = {id(p) for p in parameters}
        self._arrived, self._places = arrived, []
        self.leaves: dict[int, Any] = {}  # by the ids of parameters
        for each in module.modules():
            for name, p in each._parameters.items():
                if p is None or not p.dtype.is_floating_point or (p.requires_grad and id(p) not in wanted):
                    continue
                leaf = self.leaves.get(id(p))
                if leaf is None:
                    leaf = self.leaves[id(p)] = Parameter(p.detach().to(dtype), requires_grad=p.requires_grad)
                    if p.requires_grad:
                        leaf.register_post_accumulate_grad_hook(_Handing(self, p))
                self._places.append((each, name, p, leaf))

    @contextmanager
    def used(self) -> Iterator[None]:
        """In the block, modules hold the leaves, which have the parameters' values."""
        with no_grad():
            for _, _, p, leaf in self._places:
                leaf.data.copy_(p)
        for module, name, _, leaf in self._places:
            module._parameters[name] = leaf
        try:
            yield
        finally:
            for module, name, p, _ in self._places:
                module._parameters[name] = p

    def hand(self, p: Tensor, leaf: Tensor) -> None:
        """A leaf has its gradient: it becomes the parameter's."""
        grad, leaf.grad = leaf.grad, None
        assert grad is not None
        with no_grad():
            if p.grad is None:
                p.grad = grad.to(p.dtype)
            else:
                p.grad.add_(grad)
        self._arrived(p)


class _Handing:
    """The hook of a leaf."""

    def __init__(self, owner: LowPrecision, parameter: Tensor) -> None:
        self.owner, self.parameter = owner, parameter

    def __call__(self, leaf: Tensor) -> None:
        self.owner.hand(self.parameter, leaf)


def cast_inputs(value: Any, dtype: Any) -> Any:
    """Floating tensors in a value, of `dtype`."""
    return map_tensors(lambda t: t.to(dtype) if t.dtype.is_floating_point else t, value)


def cast_buffers(module: Module, dtype: Any) -> None:
    """Floating buffers of a module, of `dtype`."""
    for each in module.modules():
        for name, buffer in each._buffers.items():
            if buffer is not None and buffer.dtype.is_floating_point:
                each._buffers[name] = buffer.to(dtype)
