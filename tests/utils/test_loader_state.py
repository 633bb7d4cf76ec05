"""A loader tells where it is, and another goes on from there."""

import random

import numpy as np
import pytest

import flambeau
from flambeau.utils import data


class Noisy(data.Dataset):
    """Samples with random numbers of every kind."""

    def __len__(self):
        return 23

    def __getitem__(self, i):
        info = data.get_worker_info()
        if info is None or info.rng is None:
            return i, random.random(), np.random.rand(), flambeau.rand(())
        rng = info.rng
        drawn = flambeau.rand((), generator=rng.torch_generator)
        return i, rng.random_generator.random(), rng.numpy_generator.random(), drawn


class Stream(data.IterableDataset):
    def __iter__(self):
        info = data.get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        for i in range(first, 23, step):
            rng = random if info is None or info.rng is None else info.rng.random_generator
            yield i, rng.random()


def lists(batches):
    return [[column.tolist() for column in batch] for batch in batches]


def generator(seed=0):
    return flambeau.Generator().manual_seed(seed)


LOADERS = {
    "in order": lambda **o: data.DataLoader(Noisy(), 3, **o),
    "shuffled": lambda **o: data.DataLoader(Noisy(), 3, shuffle=True, **o),
    "own generator": lambda **o: data.DataLoader(Noisy(), 3, shuffle=True, generator=generator(), **o),
    "replacement": lambda **o: data.DataLoader(
        Noisy(), 100, sampler=data.RandomSampler(Noisy(), True, 2450, generator()), drop_last=True, **o
    ),
    "subset": lambda **o: data.DataLoader(Noisy(), 3, sampler=data.SubsetRandomSampler(range(5, 20)), **o),
    "weighted": lambda **o: data.DataLoader(
        Noisy(), 3, sampler=data.WeightedRandomSampler([1.0] * 23, 50, generator=generator()), **o
    ),
    "batch sampler": lambda **o: data.DataLoader(
        Noisy(),
        batch_sampler=data.BatchSampler(data.RandomSampler(Noisy(), generator=generator()), 4, False),
        **o,
    ),
    "iterable": lambda **o: data.DataLoader(Stream(), 3, **o),
}
WAYS = {
    "alone": {},
    "processes": {"num_workers": 2},
    "persistent": {"num_workers": 2, "persistent_workers": True},
    "threads": {"num_workers": 2, "worker_type": "thread"},
}


def seed(number):
    flambeau.manual_seed(number)
    random.seed(number)
    np.random.seed(number)


def streams():
    return flambeau.get_rng_state(), random.getstate(), np.random.get_state()


def restore(saved):
    flambeau.set_rng_state(saved[0])
    random.setstate(saved[1])
    np.random.set_state(saved[2])


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("make", LOADERS.values(), ids=LOADERS)
@pytest.mark.parametrize("epoch, given", [(0, 0), (1, 3), (1, None)])
def test_the_same_batches_after_resuming(make, way, epoch, given, tmp_path):
    """The rest of the epoch and the next ones, random numbers of workers included."""
    epochs = 3
    seed(5)
    loader = make(**way)
    for _ in range(epoch):
        list(loader)
    batches = iter(loader)
    if given is None:
        list(batches)
    else:
        [next(batches) for _ in range(given)]
    flambeau.save((loader.state_dict(), streams()[0]), tmp_path / "place")
    mine = streams()
    after = [] if given is None else [lists(batches)]
    after += [lists(loader) for _ in range(epochs - epoch - 1)]

    seed(99)
    again = make(**way)
    restore(mine)
    state, _ = flambeau.load(tmp_path / "place")
    again.load_state_dict(state)
    assert again.state_dict()["batches"] == (given or 0)
    results = [lists(again) for _ in range(len(after))]
    assert results == after
    assert any(after)


@pytest.mark.parametrize("make", LOADERS.values(), ids=LOADERS)
def test_resuming_between_passes_of_workers_that_stay_in_pytorchs_stream(make, tmp_path):
    """PyTorch draws no seed for workers that stay, so none is drawn where they go on elsewhere."""
    before = flambeau.backends.random.stream
    flambeau.backends.random.stream = "pytorch"
    try:
        test_the_same_batches_after_resuming(make, WAYS["persistent"], 1, None, tmp_path)
    finally:
        flambeau.backends.random.stream = before


def test_a_batch_that_failed_is_passed():
    class Odd(data.Dataset):
        def __len__(self):
            return 5

        def __getitem__(self, i):
            if i == 1:
                raise ValueError(i)
            return i

    for workers in (0, 2):
        loader = data.DataLoader(Odd(), batch_size=None, num_workers=workers)
        batches = iter(loader)
        assert next(batches) == 0
        with pytest.raises(ValueError):
            next(batches)
        assert next(batches) == 2
        again = data.DataLoader(Odd(), batch_size=None, num_workers=workers)
        again.load_state_dict(loader.state_dict())
        assert list(again) == [3, 4]


def test_states_that_do_not_fit():
    loader = data.DataLoader(range(10), 2)
    next(iter(loader))
    state = loader.state_dict()
    for other, text in {
        data.DataLoader(range(12), 2): "10 samples, this one has 12",
        data.DataLoader(range(10), 5): "5 batches, this one has 2",
        data.DataLoader(range(10), 2, shuffle=True, generator=generator()): "1 generators.* 2",
    }.items():
        with pytest.raises(RuntimeError, match=text):
            other.load_state_dict(state)
    with pytest.raises(RuntimeError, match="has no base_seed"):
        loader.load_state_dict({k: v for k, v in state.items() if k != "base_seed"})
    stream = data.DataLoader(Stream(), num_workers=2)
    next(iter(stream))
    with pytest.raises(RuntimeError, match="of 2 workers, this loader has 0"):
        data.DataLoader(Stream()).load_state_dict(stream.state_dict())
    unordered = data.DataLoader(range(10), num_workers=1, in_order=False)
    assert unordered.state_dict()["running"] is False
    batches = iter(unordered)
    next(batches)
    with pytest.raises(RuntimeError, match="in_order=False"):
        unordered.state_dict()

    for workers in (0, 2):
        stream = data.DataLoader(Stream(), 3, num_workers=workers)
        next(iter(stream))
        stream.load_state_dict({**stream.state_dict(), "batches": 9})
        with pytest.raises(RuntimeError, match="after 9 batches, for the dataset gives only 8"):
            iter(stream)

    class Short(data.Sampler):
        def __iter__(self):
            return iter([0, 1])

        def __len__(self):
            return 5

    short = data.DataLoader(range(10), 1, sampler=Short())
    short.load_state_dict({**state, "batches": 4, "lengths": {"samples": 10, "batches": 5}})
    with pytest.raises(RuntimeError, match="after 4 batches, for the sampler gives only 2"):
        iter(short)


def test_another_number_of_workers_gives_the_same_samples():
    def make(**more):
        return data.DataLoader(range(20), 3, shuffle=True, generator=generator(), **more)

    loader = make(num_workers=2)
    batches = iter(loader)
    next(batches)
    again = make()
    again.load_state_dict(loader.state_dict())
    assert [b.tolist() for b in again] == [b.tolist() for b in batches]


def test_the_default_generator_is_the_programs():
    """Resuming draws again from the saved state, and leaves the generator where the program has it."""
    loader = data.DataLoader(range(10), 2, shuffle=True)
    next(iter(loader))
    state = loader.state_dict()
    flambeau.manual_seed(7)
    expected = flambeau.rand(3).tolist()
    flambeau.manual_seed(7)
    again = data.DataLoader(range(10), 2, shuffle=True)
    again.load_state_dict(state)
    next(iter(again))
    assert flambeau.rand(3).tolist() == expected
