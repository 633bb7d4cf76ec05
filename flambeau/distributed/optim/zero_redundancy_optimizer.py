"""An optimizer whose state is distributed over the processes: each steps its share of the parameters and sends them to the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..._tensor import Tensor
from ...autograd import no_grad
from ...core.base import formats
from ...core.base.tensor import TensorBase
from ...core.places.join import cat
from ...optim.optimizer import Optimizer
from .._collectives import broadcast
from .._groups import resolve
from .._objects import gather_object
from ..algorithms.join import Join, Joinable, JoinHook

__all__ = ["ZeroRedundancyOptimizer"]


class ZeroRedundancyOptimizer(Optimizer, Joinable):
    """Any optimizer, with its state distributed over the processes of a group (Rajbhandari et al.: ZeRO, 2020, stage 1).

    A parameter belongs to one process, which steps it and sends it to the others.  Parameters are given out group by group, the largest
    first, each to the process that has the fewest elements.  All processes have the same parameters in the same order, and call `step`
    together.

    Args:
        params: as for other optimizers; all dense and of one dtype.
        optimizer_class: the optimizer that steps this process's share, called `optim`.
        process_group: the processes, by default all.
        parameters_as_bucket_view: the parameters of a process lie in one flat tensor, which is sent as a whole.
        overlap_with_ddp: False.
        defaults: options of `optimizer_class`.

    Raises:
        TypeError: `params` are no tensors, or not all of one dtype
        ValueError: there are none, or this process is not in the group
        NotImplementedError: `overlap_with_ddp` is true

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.optim import ZeroRedundancyOptimizer
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> net = flambeau.nn.Linear(3, 2)
    >>> optimizer = ZeroRedundancyOptimizer(net.parameters(), flambeau.optim.Adam, lr=0.1)
    >>> net(flambeau.ones(1, 3)).sum().backward()
    >>> optimizer.step()
    >>> len(optimizer.optim.state)  # of two parameters
    1
    >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        params: Iterable[Any],
        optimizer_class: type[Optimizer],
        process_group: Any = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ) -> None:
        if overlap_with_ddp:
            raise NotImplementedError("ZeroRedundancyOptimizer: overlap_with_ddp=True is not supported")
        group = resolve(process_group)
        if group is None:
            raise ValueError("ZeroRedundancyOptimizer: this process is not in the group")
        checked = _checked(params)
        Joinable.__init__(self)
        self.process_group, self.rank, self.world_size = group, group._rank, group._size
        self.global_rank = group._ranks[group._rank]
        self.parameters_as_bucket_view = parameters_as_bucket_view
        self._shares: list[list[list[Tensor]]] = []  # for each group of parameters those of each rank
        self._elements = [0] * group._size
        self._buckets: list[Tensor | None] = []
        self._trainable: list[bool] = []
        self._consolidated: list[dict[str, Any]] = []
        self.optim: Optimizer | None = None
        Optimizer.__init__(self, checked, defaults)
        self.optim = optimizer_class([self._own(k) for k in range(len(self.param_groups))], **defaults)
        self.state = self.optim.state
        _copy_options(self.optim.param_groups, self.param_groups)
        self._fill_buckets()

    # Who has what ------------------------------------------------------------------------------------------------------------------
    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters, on all processes; those that there are stay where they are.

        Raises as other optimizers do; TypeError for parameters that are not dense or of another dtype.
        """
        if isinstance(param_group, dict) and not isinstance(
            param_group["params"], (TensorBase, set, frozenset)
        ):
            param_group["params"] = list(param_group["params"])  # an iterator is gone through once
            before = [p for group in self.param_groups for p in group["params"]]
            _check_alike([*before, *map(_tensor, param_group["params"])])
        super().add_param_group(param_group)
        shares: list[list[Tensor]] = [[] for _ in range(self.world_size)]
        for param in sorted(self.param_groups[-1]["params"], key=lambda p: p.numel(), reverse=True):
            rank = self._elements.index(min(self._elements))
            shares[rank].append(param)
            self._elements[rank] += param.numel()
        self._shares.append(shares)
        if self.optim is not None:
            self.optim.add_param_group(self._own(len(self._shares) - 1))
            _copy_options(self.optim.param_groups[-1:], self.param_groups[-1:])
            self._fill_buckets()

    def _own(self, k: int, rank: int | None = None) -> dict[str, Any]:
        """The k-th group with a rank's share of its parameters."""
        group, share = self.param_groups[k], self._shares[k][self.rank if rank is None else rank]
        result = {**group, "params": list(share)}
        if "param_names" in group:
            names = dict(zip(group["params"], group["param_names"]))
            result["param_names"] = [names[param] for param in share]
        return result

    def _partition_parameters(self) -> list[list[dict[str, Any]]]:
        """The groups of each rank."""
        return [
            [self._own(k, rank) for k in range(len(self.param_groups))] for rank in range(self.world_size)
        ]

    @property
    def _param_to_rank(self) -> dict[Tensor, int]:
        return {
            param: rank for shares in self._shares for rank, share in enumerate(shares) for param in share
        }

    def _params_of(self, rank: int) -> list[Tensor]:
        return [param for shares in self._shares for param in shares[rank]]

    def _fill_buckets(self) -> None:
        """Lay the parameters that require gradients into one flat tensor for each rank."""
        self._trainable = [p.requires_grad for group in self.param_groups for p in group["params"]]
        if not self.parameters_as_bucket_view:
            return
        buckets: list[Tensor | None] = []
        with no_grad():
            for rank in range(self.world_size):
                params = self._params_of(rank)
                inside = [p for p in params if p.requires_grad and p.numel()]
                for param in params:
                    if not param.requires_grad:  # it may have been in a bucket
                        param.data = param.detach().clone()
                flat = cat([p.detach().reshape(-1) for p in inside]) if inside else None
                begin = 0
                for param in inside:
                    assert flat is not None
                    param.data = flat[begin : begin + param.numel()].view(param.shape)
                    begin += param.numel()
                buckets.append(flat)
        self._buckets = buckets

    # Steps ---------------------------------------------------------------------------------------------------------------------------
    def step(self, closure: Callable[[], Any] | None = None, **kwargs: Any) -> Any:
        """Step this process's share, and give and get the new parameters; the loss of `closure`.

        `kwargs` go to the optimizer's `step`.  DistBackendError where a process is gone.
        """
        assert self.optim is not None
        Join.notify_join_context(self)
        if self._trainable != [p.requires_grad for group in self.param_groups for p in group["params"]]:
            self._fill_buckets()
        _copy_options(self.param_groups, self.optim.param_groups)
        loss = self.optim.step(**kwargs) if closure is None else self.optim.step(closure=closure, **kwargs)
        _copy_options(self.optim.param_groups, self.param_groups)
        works = []
        for rank in range(self.world_size):
            for tensor in self._sent_by(rank):
                works.append(broadcast(tensor, group=self.process_group, group_src=rank, async_op=True))
        for work in works:
            assert work is not None
            work.wait()
        return loss

    def _sent_by(self, rank: int) -> list[Tensor]:
        if not self.parameters_as_bucket_view:
            return [param.detach() for param in self._params_of(rank)]
        flat = self._buckets[rank]
        return [] if flat is None else [flat]

    # States --------------------------------------------------------------------------------------------------------------------------
    def consolidate_state_dict(self, to: int = 0) -> None:
        """Collect the state of all processes in one, whose `state_dict()` has it then.  All processes call it.

        Args:
            to: the rank in the group.

        Raises:
            ValueError: the group has no such rank
        """
        assert self.optim is not None
        if not 0 <= to < self.world_size:
            raise ValueError(
                f"consolidate_state_dict(): to must be a rank of a group of {self.world_size}, got {to}"
            )
        _copy_options(self.param_groups, self.optim.param_groups)
        result: list[Any] | None = [None] * self.world_size if to == self.rank else None
        gather_object(self.optim.state_dict(), result, group=self.process_group, group_dst=to)
        self._consolidated = result or []

    def state_dict(self) -> dict[str, Any]:
        """The state of all processes when `consolidate_state_dict` was last called, as an optimizer of one process has it.

        Raises:
            RuntimeError: it was not collected in this process
        """
        if not self._consolidated:
            raise RuntimeError(
                "Optimizer state has not been consolidated on this rank. Please call "
                f"`consolidate_state_dict(to={self.rank})` on all ranks beforehand if you meant to save the global state."
            )
        local, merged = self.state, {}
        for rank, of_rank in enumerate(self._consolidated):
            for k, group in enumerate(of_rank["param_groups"]):
                for number, param in zip(group["params"], self._shares[k][rank]):
                    if number in of_rank["state"]:
                        merged[param] = of_rank["state"][number]
        self.state = {p: merged[p] for g in self.param_groups for p in g["params"] if p in merged}  # type: ignore[assignment]
        try:
            return super().state_dict()
        finally:
            self.state = local

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over this process's share of a state dict of all, from any number of processes, or from `optimizer_class` itself.

        Raises:
            ValueError: its groups are of other sizes, or a state is of a parameter of another shape
        """
        assert self.optim is not None
        super().load_state_dict({**state_dict, "state": {}})
        place = {
            number: param
            for group, saved in zip(self.param_groups, state_dict["param_groups"])
            for number, param in zip(saved["params"], group["params"])
        }
        local = self.optim.state_dict()
        numbers = {
            param: number
            for k, group in enumerate(local["param_groups"])
            for number, param in zip(group["params"], self._shares[k][self.rank])
        }
        state = {
            numbers[place[number]]: value
            for number, value in state_dict["state"].items()
            if number in place and place[number] in numbers
        }
        _copy_options(self.param_groups, local["param_groups"])
        self.optim.load_state_dict({**local, "state": state})
        self.state = self.optim.state
        self._consolidated = []

    # Uneven inputs -------------------------------------------------------------------------------------------------------------------
    def join_hook(self, **kwargs: Any) -> JoinHook:
        """A process without inputs steps along with the others, with the gradients that its parameters have."""
        return _Stepping(self)

    @property
    def join_device(self) -> Any:
        """The device of the first parameter."""
        return self.param_groups[0]["params"][0].device

    @property
    def join_process_group(self) -> Any:
        """The processes."""
        return self.process_group


class _Stepping(JoinHook):
    def __init__(self, optimizer: ZeroRedundancyOptimizer) -> None:
        self._optimizer = optimizer

    def main_hook(self) -> None:
        self._optimizer.step()


def _copy_options(source: list[dict[str, Any]], into: list[dict[str, Any]]) -> None:
    """Give groups the options of others, without their parameters."""
    for one, other in zip(source, into):
        other.update({key: value for key, value in one.items() if key not in ("params", "param_names")})


def _tensor(item: Any) -> Any:
    """A parameter out of what optimizers take: itself, or a pair of its name and it."""
    return item[1] if isinstance(item, tuple) and len(item) == 2 else item


def _checked(params: Any) -> list[Any]:
    """The parameters as a list."""
    if isinstance(params, TensorBase):
        raise TypeError(
            f"`params` argument should be an iterable of Tensors, but got {type(params).__name__}"
        )
    try:
        items = list(params)
    except TypeError:
        raise TypeError(
            f"`params` argument should be an iterable of Tensors, but got {type(params).__name__}"
        ) from None
    if not items:
        raise ValueError("ZeroRedundancyOptimizer got an empty parameter list")
    if len({isinstance(item, dict) for item in items}) != 1:
        raise TypeError("`params` argument should be an iterable of Tensors, or one of dicts, not of both")
    return items


def _check_alike(params: list[Any]) -> None:
    for param in params:
        if not isinstance(param, TensorBase):
            raise TypeError(
                f"`params` argument should be an iterable of Tensors, but got {type(param).__name__}"
            )
        if param.layout is not formats.strided:
            raise TypeError(f"ZeroRedundancyOptimizer only supports dense parameters, not {param.layout}")
        if param.dtype is not params[0].dtype:
            raise TypeError(
                "ZeroRedundancyOptimizer requires all parameters to have the same dtype, but got both "
                f"{params[0].dtype} and {param.dtype}"
            )
