"""Random programs over loaders: whatever the options, the batches are those that a few lines of Python make."""

import itertools
import random
import warnings

import numpy as np
import pytest

import flambeau
from flambeau.utils import data


class Numbers(data.Dataset):
    """Sample i, of a size that depends on i in a batch's own way: on the number that the batch begins with."""

    def __init__(self, n, width, kind):
        self.n, self.width, self.kind = n, width, kind

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        if self.kind == "tensor":
            return flambeau.full((self.width,), i), i
        if self.kind == "array":
            return np.full(self.width, i), i
        return [i] * 3, str(i) * (1 + self.width % 97)


class Streamed(data.IterableDataset):
    def __init__(self, samples):
        self.samples = samples

    def __iter__(self):
        info = data.get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        return (self.samples[i] for i in range(first, len(self.samples), step))


def numbers(batch, batched):
    """The samples of a batch, read off its first and its last field."""
    first, last = batch
    if isinstance(first, (flambeau.Tensor, np.ndarray)):
        rows = first if batched else first[None]
        assert (rows == rows[:, :1]).all()
        assert rows[:, -1].tolist() == (last.tolist() if batched else [last])
        return rows[:, 0].tolist()
    columns = [column.tolist() if batched else [column] for column in first]
    assert columns[0] == columns[1] == columns[2]
    assert [text[: len(str(i))] for i, text in zip(columns[0], last if batched else [last])] == list(
        map(str, columns[0])
    )
    return columns[0]


def expected(order, size, drop_last):
    whole = [order[i : i + size] for i in range(0, len(order), size)]
    return [batch for batch in whole if len(batch) == size or not drop_last]


def streamed(n, size, drop_last, workers):
    """In turn, the batches that each worker makes of its part."""
    parts = [expected(list(range(w, n, workers)), size, drop_last) for w in range(workers)]
    return [batch for row in itertools.zip_longest(*parts) for batch in row if batch is not None]


@pytest.mark.parametrize("seed", range(24))
def test_a_random_program(seed):
    draw = random.Random(seed)
    n, size = draw.randint(0, 40), draw.randint(1, 7)
    batched, stream = draw.random() < 0.8, draw.random() < 0.3
    samples = Numbers(n, draw.choice([50, 3000, 9000]), draw.choice(["tensor", "array", "list"]))
    workers = draw.choice([0, 1, 2, 3])
    drop_last = batched and draw.random() < 0.5
    options = {"batch_size": size if batched else None, "drop_last": drop_last}
    if workers:
        options |= {
            "num_workers": workers,
            "worker_type": draw.choice(["process", "process", "thread"]),
            "prefetch_factor": draw.choice([1, 2, 5]),
            "persistent_workers": draw.random() < 0.5,
            "in_order": draw.random() < 0.7,
            "timeout": 60,
        }
    shuffle = not stream and n > 0 and draw.random() < 0.5
    if shuffle:
        options |= {"shuffle": True, "generator": flambeau.Generator().manual_seed(seed)}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="This DataLoader will create")
        loader = data.DataLoader(Streamed(samples) if stream else samples, **options)
    shadow = flambeau.Generator().manual_seed(seed)
    unit = size if batched else 1
    held = []
    for _ in range(3):
        order = list(range(n))
        if shuffle:
            flambeau.empty((), dtype=flambeau.int64).random_(generator=shadow)  # the seed of workers
            order = flambeau.randperm(n, generator=shadow).tolist()
            flambeau.randperm(n, generator=shadow)  # at its end the sampler draws once more, as PyTorch does
        if stream:
            wanted = streamed(n, unit, drop_last, max(workers, 1))
        else:
            wanted = expected(order, unit, drop_last)
        stop = draw.randint(0, len(wanted)) if draw.random() < 0.3 and not shuffle else None
        results = []
        for batch in itertools.islice(loader, stop):
            results.append(numbers(batch, batched))
            if draw.random() < 0.3:
                held.append((results[-1], batch))
        if options.get("in_order", True):
            assert results == wanted[:stop]
        else:
            assert len(results) == len(wanted[:stop]) and all(batch in wanted for batch in results)
            assert stop is not None or sorted(results) == sorted(wanted)
    assert all(numbers(batch, batched) == one for one, batch in held)
