"""Parallelize a module by a plan."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch

from ....core.base import display
from ....nn import Module
from ...device_mesh import DeviceMesh, _mesh_resources
from .style import ParallelStyle

__all__ = ["parallelize_module"]


def parallelize_module(
    module: Module,
    device_mesh: DeviceMesh | None = None,
    parallelize_plan: ParallelStyle | Mapping[str, ParallelStyle] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> Module:
    """Let a module's parameters lie over the processes of a mesh, as a plan says, in place.  Every process calls it.

    device_mesh: of one dimension, as `mesh["tp"]` of a larger one; by default the one that is on (`with mesh:`).
    parallelize_plan: a style for the module, or styles by the names of submodules: "layers.0.ffn", or with wildcards "layers.*.ffn".
    src_data_rank: whose parameters count, as a rank in the mesh; None: each process's own, without communication.

    Returns:
        The module, or what a style for the whole of it makes.

    Raises:
        ValueError: the mesh has several dimensions
        TypeError: the plan is neither a style nor a dictionary of styles
        NotImplementedError: a style does not know a module

    A name without a submodule is passed over with a warning.

    >>> import flambeau.distributed as dist
    >>> from flambeau import nn
    >>> from flambeau.distributed.device_mesh import init_device_mesh
    >>> from flambeau.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> net = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 4))
    >>> net = parallelize_module(net, init_device_mesh("cpu", (2,)), {"0": ColwiseParallel(), "1": RowwiseParallel()})
    >>> net[0].weight.to_local().shape, net[1].weight.to_local().shape
    (flambeau.Size([4, 4]), flambeau.Size([4, 4]))
    >>> dist.destroy_process_group()
    """
    mesh = device_mesh or _mesh_resources.get_current_mesh()
    if mesh.ndim != 1:
        raise ValueError(
            f"Tensor Parallel only accepts a 1D DeviceMesh, but found {mesh.ndim}D! Slice it: mesh['tp']"
        )
    if parallelize_plan is None:
        warnings.warn(
            "No parallelize_plan is provided and auto-parallel is not supported at the moment, so this parallelize_module call will do "
            "nothing.",
            stacklevel=2,
        )
        return module
    if isinstance(parallelize_plan, ParallelStyle):
        parallelize_plan.src_data_rank = src_data_rank
        return parallelize_plan._apply(module, mesh)
    if not isinstance(parallelize_plan, Mapping):
        raise TypeError(
            "Expect Union[ParallelStyle, Dict[str, ParallelStyle]] for parallelize_plan, "
            f"{type(parallelize_plan).__name__} found!"
        )
    for path, style in parallelize_plan.items():
        if not isinstance(style, ParallelStyle):
            raise TypeError(
                f"parallelize_module(): the plan of {path!r} is a ParallelStyle, got {type(style).__name__}"
            )
        result = list(_matching(module, path.split("."))) if path else [(None, "", module)]
        if not result:
            warnings.warn(
                f"Parallelize plan key '{path}' could not be resolved: no submodule matching it in module {type(module).__name__}, "
                "skipping this plan entry.",
                stacklevel=2,
            )
        for parent, name, each in result:
            style.src_data_rank = src_data_rank
            made = style._apply(each, mesh)
            if made is not each and parent is not None:
                setattr(parent, name, made)
    return module


def _matching(module: Module, path: list[str]) -> Iterator[tuple[Module, str, Module]]:
    """The submodules whose names match, with their parents."""
    for name, child in list(module.named_children()):
        if fnmatch(name, path[0]):
            if len(path) == 1:
                yield module, name, child
            else:
                yield from _matching(child, path[1:])


parallelize_module.__module__ = display.public("distributed.tensor.parallel")
