"""Items that several ranks could write, each left to one of them."""

from __future__ import annotations

import math
from dataclasses import replace

from .metadata import MetadataIndex
from .planner import SavePlan, WriteItem

__all__ = ["dedup_save_plans"]


def dedup_save_plans(all_plans: list[SavePlan], save_to_lowest_rank: bool = False) -> list[SavePlan]:
    """The plans with every item in one of them: where the least is written so far, or on the lowest rank that has it.

    Chunks without elements are left out, where the tensor has some: such a one may begin where another rank's chunk does.

    Raises:
        ValueError: ranks have different things under one name
    """
    all_plans = [
        replace(plan, items=[item for item in plan.items if not _is_void(item)]) for plan in all_plans
    ]
    owners: dict[MetadataIndex, list[int]] = {}
    items: dict[MetadataIndex, WriteItem] = {}
    for rank, plan in enumerate(all_plans):
        for item in plan.items:
            owners.setdefault(item.index, []).append(rank)
            first = items.setdefault(item.index, item)
            _check_same(first, owners[item.index][0], item, rank)
    written = [0] * len(all_plans)
    chosen: dict[MetadataIndex, int] = {}
    for index, ranks in owners.items():
        rank = ranks[0] if save_to_lowest_rank else min(ranks, key=lambda rank: written[rank])
        written[rank] += items[index].tensor_storage_size() or 1
        chosen[index] = rank
    return [
        replace(plan, items=[item for item in plan.items if chosen[item.index] == rank])
        for rank, plan in enumerate(all_plans)
    ]


def _is_void(item: WriteItem) -> bool:
    data = item.tensor_data
    return data is not None and not math.prod(data.chunk.sizes) and math.prod(data.size) > 0


def _check_same(first: WriteItem, first_rank: int, item: WriteItem, rank: int) -> None:
    one, other = first.tensor_data, item.tensor_data
    if first.type is item.type and one == other:
        return
    if one is not None and other is not None and one.size == other.size and not math.prod(one.size):
        return  # nothing of nothing
    raise ValueError(
        f"ranks save different things as {item.index.fqn!r}: rank {first_rank} {_described(first)}, rank {rank} {_described(item)}"
    )


def _described(item: WriteItem) -> str:
    data = item.tensor_data
    if data is None:
        return "an object"
    return f"{data.properties.dtype}{list(data.size)}, of it a chunk of {list(data.chunk.sizes)}"
