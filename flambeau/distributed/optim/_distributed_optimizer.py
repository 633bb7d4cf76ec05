"""An optimiser of parameters that live in several processes."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from ...core.base import display
from ...optim import Optimizer
from .. import autograd, rpc
from ..rpc._agent import WorkerInfo


class _LocalOptimizer:
    """The optimiser of one process's parameters, with gradients from a context."""

    turn = threading.Lock()  # of all of them: they may have parameters in common

    def __init__(self, optimizer_class: Any, params: Sequence[rpc.RRef], *args: Any, **kwargs: Any) -> None:
        self.params = [rref.local_value() for rref in params]
        self.optim = optimizer_class(self.params, *args, **kwargs)

    def step(self, context_id: int) -> None:
        """Take a step; `.grad` is afterwards what it was."""
        gradients = autograd.get_gradients(context_id)
        with _LocalOptimizer.turn:
            before = [param.grad for param in self.params]
            try:
                for param in self.params:
                    param.grad = gradients.get(param)
                self.optim.step()
            finally:
                for param, grad in zip(self.params, before):
                    param.grad = grad


def _new_local_optimizer(
    optimizer_class: Any, params: Sequence[rpc.RRef], args: tuple, kwargs: dict
) -> rpc.RRef:
    return rpc.RRef(_LocalOptimizer(optimizer_class, params, *args, **kwargs))


def _local_step(optimizer: rpc.RRef, context_id: int) -> None:
    optimizer.local_value().step(context_id)


def _all(futures: Sequence[Any]) -> list[Any]:
    """What they come to, as soon as all are there; the first error is raised then."""
    results, errors = [], []
    for future in futures:
        try:
            results.append(future.wait())
        except Exception as error:
            errors.append(error)
    if errors:
        raise errors[0]
    return results


class DistributedOptimizer:
    """Steps of `optimizer_class` for parameters in several processes, with the gradients of a `distributed.autograd.context`.

    Each process with parameters gets an optimiser of its own for them.  A step runs in all of them at once, in each process
    one after the other.  `.grad` is neither read nor changed.

    optimizer_class: of `optim`, or another with its protocol, which the workers can import. params_rref: RRefs of parameters.
    args, kwargs: what the class takes after the parameters.

    Raises:
        TypeError: a parameter is no RRef, or `optimizer_class` is no class
        ValueError: no parameter; arguments that the class refuses

    >>> from flambeau import optim
    >>> from flambeau.distributed.optim import DistributedOptimizer
    >>> DistributedOptimizer(optim.SGD, [], lr=0.1)
    Traceback (most recent call last):
        ...
    ValueError: DistributedOptimizer(): optimizer got an empty parameter list
    """

    def __init__(
        self,
        optimizer_class: type[Optimizer],
        params_rref: Sequence[rpc.RRef],
        *args: Any,
        **kwargs: Any,
    ) -> None:
        if not callable(optimizer_class):
            raise TypeError(
                f"DistributedOptimizer(): optimizer_class must be a class, not {type(optimizer_class).__name__}"
            )
        by_worker: dict[WorkerInfo, list[rpc.RRef]] = {}
        for k, param in enumerate(params_rref):
            if not isinstance(param, rpc.RRef):
                raise TypeError(
                    f"DistributedOptimizer(): params_rref[{k}] must be a RRef, not {type(param).__name__}"
                )
            by_worker.setdefault(param.owner(), []).append(param)
        if not by_worker:
            raise ValueError("DistributedOptimizer(): optimizer got an empty parameter list")
        self.remote_optimizers: list[rpc.RRef] = _all(
            [
                rpc.rpc_async(worker, _new_local_optimizer, args=(optimizer_class, params, args, kwargs))
                for worker, params in by_worker.items()
            ]
        )

    def step(self, context_id: int) -> None:
        """Take a step in each process, with its gradients of this context; returns when all are done.

        Raises:
            RuntimeError: there is no such context; errors of the processes are raised of their class
        """
        autograd._is_valid_context(context_id)
        _all(
            [
                rpc.rpc_async(optimizer.owner(), _local_step, args=(optimizer, context_id))
                for optimizer in self.remote_optimizers
            ]
        )


DistributedOptimizer.__module__ = display.public("distributed.optim")
