"""A function of pieces as a function of distributed tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ....core.base import display
from ....core.base.tensor import TensorBase
from ....utils._pytree import tree_flatten, tree_unflatten
from ...device_mesh import DeviceMesh
from .._api import DTensor
from .._dtensor_spec import normalized
from ..placement_types import Placement

__all__ = ["local_map"]

Placements = Sequence[Placement] | None


def local_map(
    func: Callable[..., Any] | None = None,
    out_placements: Any = None,
    in_placements: Sequence[Placements] | None = None,
    in_grad_placements: Sequence[Placements] | None = None,
    device_mesh: DeviceMesh | None = None,
    *,
    redistribute_inputs: bool = False,
) -> Callable[..., Any]:
    """`func` runs on the pieces of distributed tensors; its results become distributed ones.  Gradients pass.

    out_placements: how results lie: placements for all, or a tuple of placements, one for each; None for what is no tensor.
    in_placements: how each argument has to lie, None for one that is no tensor; by default as they come.
    in_grad_placements: how the gradient of each piece lies; by default as the argument.
    device_mesh: by default that of the arguments.
    redistribute_inputs: bring arguments to `in_placements` where they lie otherwise.

    Raises:
        ValueError: an argument lies otherwise; there are more or fewer results than placements; a plain tensor has placements

    >>> import flambeau
    >>> import flambeau.distributed as dist
    >>> from flambeau.distributed.tensor import Shard, distribute_tensor, init_device_mesh
    >>> from flambeau.distributed.tensor.experimental import local_map
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> x = distribute_tensor(flambeau.arange(4.0), init_device_mesh("cpu", (2,)), [Shard(0)])
    >>> local_map(lambda piece: piece.flip(0), out_placements=[Shard(0)])(x).to_local()
    tensor([1., 0.])
    >>> dist.destroy_process_group()
    """
    if func is None:
        return functools.partial(
            local_map,
            out_placements=out_placements,
            in_placements=in_placements,
            in_grad_placements=in_grad_placements,
            device_mesh=device_mesh,
            redistribute_inputs=redistribute_inputs,
        )

    @functools.wraps(func)
    def on_pieces(*args: Any, **kwargs: Any) -> Any:
        flat, structure = tree_flatten(args)
        if in_placements is not None and len(in_placements) != len(flat):
            raise ValueError(
                f"local_map(): in_placements has {len(in_placements)} entries, and there are {len(flat)} arguments"
            )
        mesh, seen, pieces = device_mesh, False, []
        for k, x in enumerate(flat):
            wanted = None if in_placements is None else in_placements[k]
            if isinstance(x, DTensor):
                mesh, seen = mesh or x.device_mesh, True
                x = _as_wanted(x, wanted, k, redistribute_inputs)
                pieces.append(
                    x.to_local(grad_placements=in_grad_placements[k] if in_grad_placements else None)
                )
            elif isinstance(x, TensorBase) and wanted is not None:
                raise ValueError(
                    f"local_map(): argument {k} is a plain tensor, for which placements {wanted} are given"
                )
            else:
                pieces.append(x)
        result = func(*tree_unflatten(pieces, structure), **kwargs)
        if not seen:
            return result
        assert mesh is not None
        results, shape = tree_flatten(result)
        several = isinstance(out_placements, tuple) and not isinstance(out_placements[0], Placement)
        each = list(out_placements) if several else [out_placements] * len(results)
        if len(each) != len(results):
            raise ValueError(
                f"local_map(): out_placements has {len(each)} entries, and there are {len(results)} results"
            )
        made = [_result(x, mesh, placements, k) for k, (x, placements) in enumerate(zip(results, each))]
        return tree_unflatten(made, shape)

    return on_pieces


def _as_wanted(x: DTensor, wanted: Placements, k: int, redistribute: bool) -> DTensor:
    if wanted is None:
        return x
    placements = normalized(wanted, x.device_mesh, x.dim(), "local_map")
    if x.placements == placements:
        return x
    if not redistribute:
        raise ValueError(
            f"local_map(): argument {k} lies as {x.placements}, and in_placements are {placements}: redistribute_inputs=True"
        )
    return x.redistribute(placements=placements)


def _result(x: Any, mesh: DeviceMesh, placements: Placements, k: int) -> Any:
    if not isinstance(x, TensorBase):
        if placements is not None:
            raise ValueError(
                f"local_map(): result {k} is no tensor but {type(x).__name__}, and has placements {placements}"
            )
        return x
    if isinstance(x, DTensor):
        raise ValueError(f"local_map(): result {k} is a DTensor; the function works on pieces")
    return x if placements is None else DTensor.from_local(x, mesh, placements, run_check=False)


local_map.__module__ = display.public("distributed.tensor.experimental")
