"""Data sets of one's own, loaders, samplers, batches of one's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import flambeau as torch
from flambeau import Tensor
from flambeau.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    Subset,
    TensorDataset,
    WeightedRandomSampler,
    random_split,
)


class Digits(Dataset[tuple[Tensor, int]]):
    def __init__(self, count: int) -> None:
        self.images = torch.arange(count * 4.0).view(count, 2, 2)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.images[index], index % 3


class Lines(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(5))


class Batch(NamedTuple):
    images: Tensor
    labels: Tensor


def collate(samples: list[tuple[Tensor, int]]) -> Batch:
    return Batch(torch.stack([image for image, _ in samples]), torch.tensor([label for _, label in samples]))


class Backwards(Sampler[int]):
    def __init__(self, data: Digits) -> None:
        self.data = data

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data) - 1, -1, -1))

    def __len__(self) -> int:
        return len(self.data)


def begin(worker: int) -> None:
    torch.manual_seed(worker)


def main() -> None:
    data = Digits(6)
    image, label = data[0]
    assert image.shape == (2, 2) and label + 1 == 1
    seen = 0
    for images, labels in DataLoader(data, batch_size=2, shuffle=True, num_workers=2, worker_init_fn=begin):
        seen += images.size(0) + labels.size(0)
    loader: DataLoader[tuple[Tensor, int]] = DataLoader(
        data, batch_size=4, collate_fn=collate, drop_last=True
    )
    for batch in loader:
        seen += batch.images.size(0)
    assert seen == 16 and len(loader) == 1
    generator = torch.Generator().manual_seed(0)
    training, held_out = random_split(data, [4, 2], generator=generator)
    assert isinstance(training, Subset) and len(training) + len(held_out) == 6
    first, _ = held_out[0]
    assert first.shape == (2, 2)
    pairs = TensorDataset(torch.ones(3, 2), torch.zeros(3))
    x, y = pairs[0]
    assert x.sum() == 2 and y == 0
    assert len(ConcatDataset([data, data])) == 12 and len(data + data) == 12
    for sampler in (
        Backwards(data),
        RandomSampler(data, replacement=True, num_samples=3),
        WeightedRandomSampler([0.5] * 6, 2),
    ):
        for _ in DataLoader(data, sampler=sampler, batch_size=None):
            seen += 1
    assert seen == 27
    for _ in DataLoader(
        data, batch_sampler=BatchSampler(Backwards(data), batch_size=4, drop_last=False), pin_memory=False
    ):
        seen += 1
    assert seen == 29 and sum(len(numbers) for numbers in DataLoader(Lines(), batch_size=2)) == 5


main()
