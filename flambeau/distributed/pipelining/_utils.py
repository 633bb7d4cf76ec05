"""What stages and schedules tell each other about tensors and graphs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ..._tensor import Tensor
from ...core.base.dtypes import by_name
from ...core.make.bridge import frombuffer

if TYPE_CHECKING:
    from ...fx.graph import Graph

__all__ = ["PipeInfo", "PipeliningMetadataError", "TensorMeta"]


class PipeliningMetadataError(RuntimeError):
    """Tensors between stages are not what they were said to be."""


class TensorMeta(NamedTuple):
    """A tensor between stages: its shape and dtype, and whether a gradient comes back for it."""

    shape: tuple[int, ...]
    dtype: str
    requires_grad: bool

    @classmethod
    def of(cls, tensor: Tensor) -> TensorMeta:
        return cls(tuple(tensor.shape), str(tensor.dtype).partition(".")[2], tensor.requires_grad)

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


def written(metas: Sequence[TensorMeta]) -> Tensor:
    """Descriptions of tensors as bytes (uint8), which run nothing when they are read."""
    text = json.dumps(metas).encode()
    return frombuffer(bytearray(text), dtype=by_name["uint8"])


def read(data: Tensor) -> tuple[TensorMeta, ...]:
    """The inverse of `written`."""
    items = json.loads(data.numpy().tobytes())
    return tuple(TensorMeta(tuple(shape), dtype, requires_grad) for shape, dtype, requires_grad in items)


@dataclass
class PipeInfo:
    """What a `Pipe` is: the graph that calls its stages, how many there are, and where each takes its inputs from.

    `sources[s][k]` is (stage, number of its output) for input k of stage s, None for an input of the whole model.
    """

    graph: Graph
    num_stages: int
    has_loss_and_backward: bool = False
    sources: tuple[tuple[tuple[int, int] | None, ...], ...] = ()


def generate_stage_to_rank_mapping(pp_size: int, num_stages: int, style: str = "loop") -> dict[int, int]:
    """Which rank has which stage: one after the other round and round ("loop"), or down and back up ("v").

    ValueError for another style; for "v" with another number of stages than a multiple of the ranks.

    >>> from flambeau.distributed.pipelining._utils import generate_stage_to_rank_mapping
    >>> generate_stage_to_rank_mapping(2, 4, "v")
    {0: 0, 1: 1, 2: 1, 3: 0}
    """
    if style == "loop":
        return {stage: stage % pp_size for stage in range(num_stages)}
    if style != "v":
        raise ValueError(f"Style {style} is not supported.")
    if num_stages % pp_size:
        raise ValueError(
            f"num_stages {num_stages} must be evenly divisible by pp_size {pp_size} for V schedules"
        )
    mapping = {}
    for stage in range(num_stages):
        round_, place = divmod(stage, pp_size)
        mapping[stage] = place if round_ % 2 == 0 else pp_size - 1 - place
    return mapping


def generate_rank_to_stage_mapping(
    pp_size: int, num_stages: int, style: str = "loop"
) -> dict[int, list[int]]:
    """The stages of each rank, as `generate_stage_to_rank_mapping` gives them out.

    >>> from flambeau.distributed.pipelining._utils import generate_rank_to_stage_mapping
    >>> generate_rank_to_stage_mapping(2, 4)
    {0: [0, 2], 1: [1, 3]}
    """
    mapping: dict[int, list[int]] = {rank: [] for rank in range(pp_size)}
    for stage, rank in generate_stage_to_rank_mapping(pp_size, num_stages, style).items():
        mapping[rank].append(stage)
    return mapping


def as_tuple(values: Any) -> tuple[Any, ...]:
    """One value, a list or a tuple as a tuple."""
    return tuple(values) if isinstance(values, (list, tuple)) else (values,)
