"""`fully_shard`: a module whose parameters are DTensors, a slice in each process, outside of its passes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ...core.base import display
from ...nn.modules.container import ModuleDict, ModuleList
from ...nn.modules.module import Module
from ...nn.parameter import Parameter
from .._groups import default_group
from ._bucket import Bucket, Slot
from ._building import claim
from ._dtensors import is_sharded
from ._engine import Root, Unit, places_of, unit_of
from ._layouts import Rows
from ._policies import AllGather, MixedPrecisionPolicy, OffloadPolicy, ReduceScatter

_AS_THEY_ARE, _NO_OFFLOAD = MixedPrecisionPolicy(), OffloadPolicy()


def fully_shard(
    module: Any,
    *,
    mesh: Any = None,
    reshard_after_forward: bool | int | None = None,
    shard_placement_fn: Callable[[Any], Any] | None = None,
    mp_policy: MixedPrecisionPolicy = _AS_THEY_ARE,
    offload_policy: OffloadPolicy = _NO_OFFLOAD,
    ignored_params: Iterable[Any] | None = None,
    dp_mesh_dims: Any = None,
) -> Any:
    """Share a module's parameters, gradients and optimiser states out over the processes of a mesh, in place.

    Its parameters become DTensors, of which each process holds a slice; its class becomes one that is a `FSDPModule`, too.  Parameters
    that an earlier call on a module in it has taken are left to that: call it from the leaves up.  They are gathered in one call
    before the forward pass and before the backward pass, and gradients are reduced in one.  Make the optimiser afterwards.

    Args:
        module: a module, or a list of modules whose parameters are gathered together.
        mesh: the processes, by default all; of two dimensions, the first holds copies and the second shares out.
        reshard_after_forward: whether parameters are freed between forward and backward; by default in all but the outermost module.
        shard_placement_fn: `fn(parameter)` returns `Shard(dim)` for another dimension than 0, which the number of processes divides, or
            None.
        mp_policy: dtypes in the passes.
        offload_policy: where shards are; here all are on the host.
        ignored_params: parameters that are left alone.

    Returns:
        The module.

    Raises:
        ValueError: a container that has no `forward`; a mesh of three dimensions; a parameter without dimensions, on another device than
            the CPU, or sharded already; a dimension that is not divided evenly
        NotImplementedError: a number for `reshard_after_forward`, or `dp_mesh_dims`

    Parameters that `parallelize_module` has made DTensors over another dimension of the same mesh are sharded further, over both: call
    it before.  In the passes modules hold them as DTensors over that dimension, whose gradients go to FSDP and not to their `grad`.

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.fsdp import fully_shard
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> net = fully_shard(flambeau.nn.Linear(2, 3))
    >>> net.weight.shape, net.weight.to_local().shape
    (flambeau.Size([3, 2]), flambeau.Size([2, 2]))
    >>> net(flambeau.ones(4, 2)).shape
    flambeau.Size([4, 3])
    >>> dist.destroy_process_group()
    """
    modules = _outermost([module] if isinstance(module, Module) else list(module))
    for each in modules:
        if isinstance(each, (ModuleList, ModuleDict)) and type(each).forward is Module.forward:
            raise ValueError(f"fully_shard does not support containers that do not implement forward: {each}")
        if unit_of(each) is not None:
            raise AssertionError(
                f"Each distinct composable distributed API can only be applied to a module once: {each}"
            )
    if dp_mesh_dims is not None:
        raise NotImplementedError(
            "fully_shard(): dp_mesh_dims is not supported; pass the part of the mesh as mesh"
        )
    if reshard_after_forward is not None and not isinstance(reshard_after_forward, bool):
        raise NotImplementedError(
            f"fully_shard(): reshard_after_forward={reshard_after_forward!r}: to shards of a smaller group is not supported, only True, "
            "False or None"
        )
    mesh = _default_mesh() if mesh is None else mesh
    if mesh.ndim not in (1, 2):
        raise ValueError(f"fully_shard expects a 1D or 2D DeviceMesh but got {mesh}")
    group, replicas = mesh.get_group(mesh.ndim - 1), mesh.get_group(0) if mesh.ndim == 2 else None
    alone = {id(p) for p in ignored_params or ()}
    units = {m for top in modules for m in top.modules() if unit_of(m) is not None}
    places = {p: where for p, where in places_of(modules, units).items() if id(p) not in alone}
    dims = {p: _dimension(p, where[0][2], shard_placement_fn, group._size) for p, where in places.items()}
    specs = {p: _joined(p, where[0][2], mesh, dims[p]) for p, where in places.items()}
    claim(places)
    buckets = []
    for parameters in _alike(places):
        buckets.append(_bucket(parameters, places, dims, specs, mesh, group, replicas, mp_policy))
    unit = Unit(
        modules,
        buckets,
        reshard_after_forward=reshard_after_forward,
        input_dtype=mp_policy.param_dtype if mp_policy.cast_forward_inputs else None,
        output_dtype=mp_policy.output_dtype,
    )
    _install(unit, modules, places)
    return module


def _outermost(modules: Sequence[Module]) -> list[Module]:
    """Modules that are in no other of them."""
    inner = {m for each in modules for m in each.modules() if m is not each}
    return [each for each in dict.fromkeys(modules) if each not in inner]


def _default_mesh() -> Any:
    from ..device_mesh import init_device_mesh

    return init_device_mesh("cpu", (default_group()._size,))


def _dimension(parameter: Any, name: str, placement_fn: Callable[[Any], Any] | None, n: int) -> int:
    from ..tensor import Shard

    if parameter.dim() == 0:
        raise ValueError(
            f"fully_shard doesn't support scalar parameters. Change {name} to a 1D tensor with numel equal to 1."
        )
    placement = None if placement_fn is None else placement_fn(parameter)
    if placement is None:
        return 0
    if not isinstance(placement, Shard):
        raise NotImplementedError(
            f"fully_shard(): shard_placement_fn must return Shard or None, got {placement!r}"
        )
    dim = placement.dim + parameter.dim() if placement.dim < 0 else placement.dim
    if not 0 <= dim < parameter.dim():
        raise ValueError(
            f"fully_shard(): {name} has no dimension {placement.dim}: its shape is {list(parameter.shape)}"
        )
    shape = _local(parameter).shape
    if dim and shape[dim] % n:
        raise NotImplementedError(
            f"FSDP does not support uneven sharding on dim {dim}: {list(shape)} (world size: {n})"
        )
    return dim


def _local(parameter: Any) -> Any:
    """The tensor of this process: the piece of a parameter that is sharded over another mesh before."""
    return parameter._local_tensor if is_sharded(parameter) else parameter


def _joined(parameter: Any, name: str, mesh: Any, dim: int) -> Any:
    """How a parameter that is a DTensor before lies over both meshes, its own behind FSDP's; None for another parameter.

    Raises:
        ValueError: the meshes are no parts of one, with names, FSDP's first; the parameter is still to be reduced
    """
    if not is_sharded(parameter):
        return None
    from ..tensor import Replicate, Shard
    from ..tensor._dtensor_spec import DTensorSpec
    from ..tensor.placement_types import _strided

    before = parameter._spec
    names = [each.mesh_dim_names for each in (mesh, before.mesh)]
    if None in names or mesh._get_root_mesh() is not before.mesh._get_root_mesh():
        raise ValueError(
            f"FSDP requires the DP and model parallel TP/EP mesh to have the same parent mesh, and names for its dimensions: {name} lies "
            f"on {before.mesh}, and FSDP's mesh is {mesh}"
        )
    for placement in before.placements:
        if not (placement.is_replicate() or type(placement) is Shard):
            raise ValueError(
                f"fully_shard(): {name} is placed as {placement}; only Shard and Replicate can be sharded further"
            )
    cuts = 1
    for k, placement in enumerate(before.placements):
        if placement.is_shard(dim):
            cuts *= before.mesh.size(k)
    try:
        both = mesh._get_root_mesh()[(*names[0], *names[1])]
    except KeyError as error:
        raise ValueError(
            f"fully_shard(): FSDP's mesh has to come before the one of {name}: {error}"
        ) from None
    own = _strided(dim, cuts) if cuts > 1 else Shard(dim)
    placements = (*[Replicate()] * (mesh.ndim - 1), own, *before.placements)
    return DTensorSpec(both, placements, before.tensor_meta)


def _alike(parameters: Iterable[Any]) -> list[list[Any]]:
    """Parameters of one dtype that all want a gradient, or of which none does."""
    lists: dict[Any, list[Any]] = {}
    for parameter in parameters:
        lists.setdefault((parameter.dtype, parameter.requires_grad, parameter.device), []).append(parameter)
    return list(lists.values())


def _bucket(
    parameters: list[Any],
    places: dict[Any, list[tuple[Any, str, str]]],
    dims: dict[Any, int],
    specs: dict[Any, Any],
    mesh: Any,
    group: Any,
    replicas: Any,
    policy: MixedPrecisionPolicy,
) -> Bucket:
    from ._placed import Placed

    layout = Rows([tuple(_local(p).shape) for p in parameters], [dims[p] for p in parameters], group._size)
    slots = [
        Slot([(m, a) for m, a, _ in places[p]], places[p][0][2], _local_parameter(p), region)
        for p, region in zip(parameters, layout.regions)
    ]
    for slot, parameter in zip(slots, parameters):
        if specs[parameter] is not None:
            slot.specs = specs[parameter], parameter._spec
    bucket = Bucket(
        slots,
        layout,
        group,
        replicas,
        Placed(mesh),
        param_dtype=policy.param_dtype,
        reduce_dtype=policy.reduce_dtype,
    )
    bucket.shard()
    return bucket


def _local_parameter(parameter: Any) -> Any:
    """The piece of a DTensor as a parameter, with what users have attached; another parameter itself."""
    if not is_sharded(parameter):
        return parameter
    made = Parameter(parameter._local_tensor, parameter.requires_grad)
    attached = {k: v for k, v in vars(parameter).items() if k not in ("_local_tensor", "_spec")}
    vars(made).update(attached)
    return made


class _Reshard:
    """A hook that lets modules hold shards before their state is taken or loaded."""

    def __init__(self, unit: Unit) -> None:
        self.unit = unit

    def __call__(self, *args: Any) -> None:
        self.unit.reshard()


def _install(unit: Unit, modules: Sequence[Module], places: dict[Any, list[tuple[Any, str, str]]]) -> None:
    """Let modules run through a unit, and become FSDPModules."""
    holders = {id(holder): holder for where in places.values() for holder, _, _ in where}
    for holder in holders.values():
        holder.register_state_dict_pre_hook(_Reshard(unit))
        holder._register_load_state_dict_pre_hook(_Reshard(unit))
    for module in modules:
        module.__dict__["_fsdp_unit"] = unit
        module.register_forward_pre_hook(unit.enter, prepend=True, with_kwargs=True)
        module.register_forward_hook(unit.leave_or_fail, always_call=True)
        cls: Any = type(module)
        module.__class__ = _class_of(cls)


@functools.cache
def _class_of(cls: Any) -> Any:
    return type(
        f"FSDP{cls.__name__}", (FSDPModule, cls), {"__deepcopy__": _not_copied, "__module__": cls.__module__}
    )


def _not_copied(self: Any, memo: dict[int, Any]) -> Any:
    raise AssertionError("FSDP does not support deepcopy. Please use state dict for serialization.")


class UnshardHandle:
    """Parameters that are on their way, as `FSDPModule.unshard(async_op=True)` returns.

    Raises nothing; `wait` raises DistBackendError where processes are gone.

    >>> from flambeau.distributed.fsdp import UnshardHandle
    >>> UnshardHandle().wait()
    """

    def __init__(self, unit: Unit | None = None) -> None:
        self._unit = unit

    def wait(self) -> None:
        """Wait until the module holds them."""
        if self._unit is not None:
            self._unit.wait_for_unshard()
            self._unit = None


class FSDPModule:
    """What modules are, beside their own class, after `fully_shard`.

    Raises AssertionError for a copy: a state is to be copied instead.

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.fsdp import FSDPModule, fully_shard
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> net = fully_shard(flambeau.nn.Linear(4, 4))
    >>> isinstance(net, FSDPModule), type(net).__name__
    (True, 'FSDPLinear')
    >>> net.unshard()
    >>> tuple(net.weight.shape), type(net.weight).__name__
    ((4, 4), 'Parameter')
    >>> net.reshard()
    >>> dist.destroy_process_group()
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """A module of the class that it was before: parts of containers are no units of their own."""
        original: Any = cls.__mro__[2]
        made = original.__new__(original)
        made.__init__(*args, **kwargs)
        return made

    @property
    def _unit(self) -> Unit:
        unit = unit_of(self)
        if unit is None:
            raise AssertionError(f"No FSDP state found on {self}")
        return unit

    def _units(self, recurse: bool) -> list[Unit]:
        modules = self.modules() if recurse else [self]  # type: ignore[attr-defined]
        return list(dict.fromkeys(m._unit for m in modules if isinstance(m, FSDPModule)))

    def unshard(self, async_op: bool = False) -> UnshardHandle | None:
        """Gather the parameters of this module; those of modules in it that are units of their own stay.

        Returns:
            An `UnshardHandle` with `async_op`, else None.
        """
        self._unit.unshard()
        if async_op:
            return UnshardHandle(self._unit)
        self._unit.wait_for_unshard()
        return None

    def reshard(self) -> None:
        """Free the parameters of this module, and let it hold slices."""
        self._unit.reshard()

    def reset_iter_state(self) -> None:
        """After an error in a pass: free what is gathered, and drop what was under way.  RuntimeError where it is not the outermost one."""
        root = self._unit._rooted()
        if not self._unit.is_root:
            raise RuntimeError("reset_iter_state() should only be called on the root FSDP module")
        root.fail()

    def set_is_last_backward(self, is_last_backward: bool) -> None:
        """Whether the end of the next backward pass waits for all gradients."""
        self._unit._rooted().is_last_backward = is_last_backward

    def set_requires_gradient_sync(self, requires_gradient_sync: bool, *, recurse: bool = True) -> None:
        """Whether gradients are reduced after a backward pass; if not, they stay whole in this process and add up."""
        for unit in self._units(recurse):
            unit.reduce_gradients = unit.reduce_over_replicas = requires_gradient_sync

    def set_requires_all_reduce(self, requires_all_reduce: bool, *, recurse: bool = True) -> None:
        """Whether gradients are added up over the processes that hold copies, too."""
        for unit in self._units(recurse):
            unit.reduce_over_replicas = requires_all_reduce

    def set_reshard_after_forward(self, reshard_after_forward: bool, recurse: bool = True) -> None:
        """Whether parameters are freed between forward and backward.  ValueError for anything but a bool."""
        if not isinstance(reshard_after_forward, bool):
            raise ValueError(f"reshard_after_forward should be a bool, got {type(reshard_after_forward)}")
        for unit in self._units(recurse):
            unit.reshard_after_forward = reshard_after_forward

    def set_reshard_after_backward(self, reshard_after_backward: bool, *, recurse: bool = True) -> None:
        """Whether parameters are freed after backward."""
        for unit in self._units(recurse):
            unit.reshard_after_backward = reshard_after_backward

    def set_unshard_in_backward(self, unshard_in_backward: bool) -> None:
        """Whether parameters are gathered before backward."""
        self._unit.unshard_in_backward = unshard_in_backward

    def set_modules_to_forward_prefetch(self, modules: Sequence[FSDPModule]) -> None:
        """Which modules' parameters begin to be gathered in this one's forward pass.  ValueError for what is no FSDPModule."""
        self._unit.forward_targets = _units_of(modules)

    def set_modules_to_backward_prefetch(self, modules: Sequence[FSDPModule]) -> None:
        """Which modules' parameters begin to be gathered in this one's backward pass; by default those of the one that ran before it.

        ValueError for what is no FSDPModule.
        """
        self._unit.backward_targets = _units_of(modules)

    def set_gradient_divide_factor(self, factor: float) -> None:
        """What sums of gradients are divided by, in place of the number of processes."""
        for bucket in self._unit.buckets:
            bucket.divisor = factor

    def set_reduce_scatter_divide_factor(self, factor: float) -> None:
        """An older name of `set_gradient_divide_factor`."""
        self.set_gradient_divide_factor(factor)

    def set_force_sum_reduction_for_comms(self, enable: bool) -> None:
        """Whether collectives only ever add, and gradients are divided afterwards."""
        for bucket in self._unit.buckets:
            bucket.only_sums = enable

    def set_reduce_scatter_unused_params(
        self, reduce_scatter_unused_params: bool, *, recurse: bool = True
    ) -> None:
        """Whether parameters that no process has used get gradients of zeros; by default theirs stay as they are."""
        for unit in self._units(recurse):
            for bucket in unit.buckets:
                bucket.zero_unused = reduce_scatter_unused_params

    def set_reduce_scatter_max_input_buffers(self, max_input_buffers: int, *, recurse: bool = True) -> None:
        """How many buffers of gradients that are reduced may live at once.

        Raises:
            TypeError: no int
            ValueError: less than 1
        """
        if isinstance(max_input_buffers, bool) or not isinstance(max_input_buffers, int):
            raise TypeError(f"max_input_buffers must be an int, got {type(max_input_buffers).__name__}")
        if max_input_buffers < 1:
            raise ValueError(f"max_input_buffers must be a positive int, got {max_input_buffers}")
        for unit in self._units(recurse):
            unit.under_way = max_input_buffers

    def set_custom_all_gather(self, comm: AllGather) -> None:
        """Let this gather parameters."""
        for bucket in self._unit.buckets:
            bucket.all_gather = comm

    def set_custom_reduce_scatter(self, comm: ReduceScatter) -> None:
        """Let this reduce gradients."""
        for bucket in self._unit.buckets:
            bucket.reduce_scatter = comm

    def set_all_reduce_hook(self, hook: Callable[[Any], None], *, stream: Any = None) -> None:
        """Call `hook(tensor)` with this process's reduced gradients, which it may change, before they become those of parameters.

        ValueError for a stream, which the CPU has not.
        """
        if stream is not None:
            raise ValueError("set_all_reduce_hook(): the CPU has no streams")
        for bucket in self._unit.buckets:
            bucket.after_reduction = hook

    def _apply(self, *args: Any, **kwargs: Any) -> Any:
        self.reshard()
        return super()._apply(*args, **kwargs)  # type: ignore[misc]


def _units_of(modules: Iterable[Any]) -> list[Unit]:
    result = []
    for module in modules:
        if not isinstance(module, FSDPModule):
            raise ValueError(f"Expects FSDPModule but got {type(module)}: {module}")
        result.append(module._unit)
    return result


def register_fsdp_forward_method(module: Any, method_name: str) -> None:
    """Let a method of a module gather and free parameters as `forward` does.  A module that is no FSDPModule stays as it is.

    ValueError where it has no such method.

    >>> import flambeau
    >>> from flambeau.distributed.fsdp import register_fsdp_forward_method
    >>> register_fsdp_forward_method(flambeau.nn.Linear(2, 2), "forward")  # nothing to do
    """
    if not isinstance(module, FSDPModule):
        return
    if not hasattr(module, method_name):
        raise ValueError(f"{type(module)} does not have a method {method_name}")
    original = getattr(type(module), method_name)

    @functools.wraps(original)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        unit = self._unit
        try:
            args, kwargs = unit.enter(self, args, kwargs)
            return unit.leave(self, args, original(self, *args, **kwargs))
        except Exception:
            unit.failed()
            raise

    module.__dict__[method_name] = wrapped.__get__(module)


def share_comm_ctx(modules: Sequence[FSDPModule]) -> None:
    """Let outermost modules, such as the stages of a pipeline, count the buffers of gradients that are under way together.

    ValueError for what is no FSDPModule.

    >>> from flambeau.distributed.fsdp import share_comm_ctx
    >>> share_comm_ctx([])
    """
    roots: list[Root] = [unit._rooted() for unit in _units_of(modules)]
    for root in roots:
        root.reductions = roots[0].reductions


for _class in (FSDPModule, UnshardHandle, fully_shard, register_fsdp_forward_method, share_comm_ctx):
    _class.__module__ = display.public("distributed.fsdp")
for _policy in (MixedPrecisionPolicy, OffloadPolicy):
    _policy.__module__ = display.public("distributed.fsdp")
