"""What a Trainer does otherwise where several processes train one model.

Every process runs the same loop in step with the others: each has a share of the batches, gradients are averaged during
backward, figures are those of all samples, and whether training ends is agreed on.  Process 0 writes checkpoints; in them is
what each process has of its own.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable
from typing import Any

from ...core.make.literal import tensor
from ..data import BatchSampler, DataLoader, IterableDataset, RandomSampler, SequentialSampler
from ..data.distributed import DistributedSampler
from .metrics import Meter, Metric

STRATEGIES = ("ddp", "fsdp")


class Alone:
    """One process."""

    rank, size = 0, 1

    def prepare(self, trainer: Any) -> None:
        """Called when the trainer has all that it is made with."""

    def module(self, model: Any) -> Any:
        """The model as it was given."""
        return model

    def before_validation(self, model: Any) -> Any:
        """What is called for validation in the place of the model."""
        return model

    def in_step(self, loader: Iterable[Any]) -> Iterable[Any]:
        """The batches of this process, and None for each that another one has more, where a forward pass speaks to the others."""
        return loader

    def any(self, flag: bool) -> bool:
        """Whether it is so in one process at least."""
        return flag

    def share(self, value: Any) -> Any:
        """The value that process 0 has."""
        return value

    def gather(self, value: Any) -> list[Any]:
        """The values of all processes, by rank."""
        return [value]

    def first_does(self, function: Callable[[], None]) -> None:
        """Process 0 calls the function; its error is raised in all."""
        function()

    def figures(self, meter: Meter) -> dict[str, float]:
        """What the samples of all processes give."""
        return meter.compute()

    def model_state(self, model: Any) -> dict[str, Any]:
        return model.state_dict()

    def load_model_state(self, model: Any, state: dict[str, Any]) -> None:
        model.load_state_dict(state)

    def optimizer_state(self, model: Any, optimizer: Any) -> dict[str, Any]:
        return optimizer.state_dict()

    def load_optimizer_state(self, model: Any, optimizer: Any, state: dict[str, Any]) -> None:
        optimizer.load_state_dict(state)


class Replicated(Alone):
    """Each process has the model; DistributedDataParallel averages gradients."""

    def __init__(self) -> None:
        from ... import distributed

        self._dist = distributed
        self.rank, self.size = distributed.get_rank(), distributed.get_world_size()

    def prepare(self, trainer: Any) -> None:
        _check_metrics(trainer.meter)
        seed = self.share(_seed())
        trainer.dataset = _shared_out("dataset", trainer.dataset, self, seed)
        if trainer.validation is not None:
            trainer.validation = _shared_out("validation", trainer.validation, self, None)
        trainer.model = self._wrapped(trainer)

    def _wrapped(self, trainer: Any) -> Any:
        from ...nn.parallel import DistributedDataParallel

        return DistributedDataParallel(trainer.model)

    def module(self, model: Any) -> Any:
        return model.module

    def before_validation(self, model: Any) -> Any:
        """The model itself, which does not speak: processes may have different numbers of batches.  Buffers are those of process 0."""
        for buffer in model.module.buffers():
            self._dist.broadcast(buffer, 0)
        return model.module

    def any(self, flag: bool) -> bool:
        result = tensor([float(flag)])
        self._dist.all_reduce(result, self._dist.ReduceOp.MAX)
        return bool(result.item())

    def share(self, value: Any) -> Any:
        values = [value]
        self._dist.broadcast_object_list(values, 0)
        return values[0]

    def gather(self, value: Any) -> list[Any]:
        values: list[Any] = [None] * self.size
        self._dist.all_gather_object(values, value)
        return values

    def first_does(self, function: Callable[[], None]) -> None:
        error: Exception | None = None
        if self.rank == 0:
            try:
                function()
            except Exception as raised:
                error = raised
        said = self.share(None if error is None else str(error))
        if error is not None:
            raise error
        if said is not None:
            raise RuntimeError(f"Trainer: process 0 could not go on: {said}")

    def figures(self, meter: Meter) -> dict[str, float]:
        first, *others = self.gather(meter.state_dict())
        merged = copy.deepcopy(meter)
        merged.load_state_dict(first)
        for state in others:
            merged.merge(state)
        return merged.compute()


class Sharded(Replicated):
    """Each process has a share of every parameter (`fully_shard`); so has the optimizer of its states."""

    def _wrapped(self, trainer: Any) -> Any:
        from ...distributed.fsdp import fully_shard
        from ...nn import ModuleList

        model, optimizer = trainer.model, trainer.optimizer
        if optimizer.state:
            raise ValueError(
                "Trainer: strategy='fsdp' wants an optimizer that has made no step: its states are of whole parameters"
            )
        names = {id(p): name for name, p in model.named_parameters()}
        for module in list(model.modules()):
            if isinstance(module, ModuleList):
                for layer in module:
                    fully_shard(layer)
        fully_shard(model)
        cut = dict(model.named_parameters())
        for group in optimizer.param_groups:
            group["params"] = [cut[names[id(p)]] if id(p) in names else p for p in group["params"]]
        return model

    def module(self, model: Any) -> Any:
        return model

    def before_validation(self, model: Any) -> Any:
        for buffer in model.buffers():
            self._dist.broadcast(buffer, 0)
        return model

    def in_step(self, loader: Iterable[Any]) -> Iterable[Any]:
        left = iter(loader)
        batch = next(left, None)
        while self.any(batch is not None):
            yield batch
            batch = next(left, None)

    def model_state(self, model: Any) -> dict[str, Any]:
        from ...distributed.checkpoint.state_dict import get_model_state_dict

        return get_model_state_dict(model, options=_full_state_options())

    def load_model_state(self, model: Any, state: dict[str, Any]) -> None:
        from ...distributed.checkpoint.state_dict import set_model_state_dict

        set_model_state_dict(model, state, options=_full_state_options())

    def optimizer_state(self, model: Any, optimizer: Any) -> dict[str, Any]:
        from ...distributed.checkpoint.state_dict import get_optimizer_state_dict

        if not optimizer.state:  # queried for them, `get_optimizer_state_dict` makes a step
            return {}
        return get_optimizer_state_dict(model, optimizer, options=_full_state_options())

    def load_optimizer_state(self, model: Any, optimizer: Any, state: dict[str, Any]) -> None:
        from ...distributed.checkpoint.state_dict import set_optimizer_state_dict

        if state:
            set_optimizer_state_dict(model, optimizer, state, options=_full_state_options())
        else:
            optimizer.state.clear()


def strategy_named(name: str | None) -> Alone:
    """The strategy; in a process that no launcher has started and that is in no group, and without a name, that of one process."""
    if name is None:
        return Alone()
    if name not in STRATEGIES:
        raise ValueError(f"Trainer: strategy must be one of {', '.join(STRATEGIES)}, got {name!r}")
    from ... import distributed

    if not distributed.is_initialized():
        if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
            return Alone()
        distributed.init_process_group()
    if distributed.get_world_size() == 1:
        return Alone()
    return Replicated() if name == "ddp" else Sharded()


def _full_state_options() -> Any:
    from ...distributed.checkpoint.state_dict import StateDictOptions

    return StateDictOptions(full_state_dict=True, cpu_offload=True)


def _seed() -> int:
    from ...core.make.random import initial_seed

    return initial_seed() % 2**32


def _check_metrics(meter: Meter) -> None:
    for name, metric in meter.metrics.items():
        if type(metric).merge is Metric.merge:
            raise ValueError(
                f"Trainer: metric {name!r}: {type(metric).__name__} does not define merge(state_dict), "
                "which takes the samples of another process"
            )


def _shared_out(name: str, loader: Iterable[Any], strategy: Alone, seed: int | None) -> Iterable[Any]:
    """This process's share of a loader's batches; its `batch_size` is that of one process.

    With `seed` each process has as many, in an order drawn anew each epoch where the loader shuffles; without, every sample comes
    once.  What is no DataLoader, or has a DistributedSampler, is this process's share already.
    """
    if not isinstance(loader, DataLoader) or isinstance(loader.dataset, IterableDataset):
        return loader
    sampler: Any = loader.sampler
    if isinstance(sampler, DistributedSampler):
        return loader
    if loader.batch_sampler is not None and type(loader.batch_sampler) is not BatchSampler:
        raise ValueError(
            f"Trainer: {name} has a batch sampler of its own, which cannot be shared out: let it give this process's batches, "
            "around a DistributedSampler"
        )
    if type(sampler) not in (RandomSampler, SequentialSampler):
        raise ValueError(
            f"Trainer: {name} has a sampler of class {type(sampler).__name__}, which cannot be shared out: use a DistributedSampler"
        )
    if seed is None:
        if len(loader.dataset) < strategy.size:
            raise ValueError(
                f"Trainer: {name} has {len(loader.dataset)} samples, fewer than there are processes ({strategy.size})"
            )
        share: Any = range(strategy.rank, len(loader.dataset), strategy.size)
    else:
        shuffle = type(sampler) is RandomSampler
        share = DistributedSampler(loader.dataset, strategy.size, strategy.rank, shuffle, seed)
    shared = copy.copy(loader)
    vars(shared)["sampler"] = share  # as an attribute it cannot be set
    if loader.batch_size is not None:
        vars(shared)["batch_sampler"] = BatchSampler(share, loader.batch_size, loader.drop_last)
    return shared
