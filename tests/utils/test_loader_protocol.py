"""The iterators of DataLoader over objects that only have the attributes which they read, as libraries make them."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import threading
import warnings

import pytest

import flambeau
from flambeau.utils.data import DataLoader, IterableDataset, TensorDataset, get_worker_info
from flambeau.utils.data._utils.passes import _ThreadingDataLoaderIter
from flambeau.utils.data.dataloader import (
    _BaseDataLoaderIter,
    _DatasetKind,
    _MultiProcessingDataLoaderIter,
    _SingleProcessDataLoaderIter,
)

READ = {
    *("dataset", "_dataset_kind", "_index_sampler", "_auto_collation", "_IterableDataset_len_called"),
    *("collate_fn", "drop_last", "num_workers", "timeout", "pin_memory"),
    *("persistent_workers", "generator"),
}
READ_WITH_WORKERS = {*READ, "prefetch_factor", "in_order", "worker_init_fn"}
ITERATORS = {
    "none": _SingleProcessDataLoaderIter,
    "process": _MultiProcessingDataLoaderIter,
    "thread": _ThreadingDataLoaderIter,
}


class Plain:
    """The attributes, and nothing else: what else is looked for is noted in `missed`."""

    def __init__(self, **given):
        self.__dict__.update(
            dataset=range(7),
            _dataset_kind=_DatasetKind.Map,
            _index_sampler=[[0, 1], [2, 3, 4], [6]],
            _auto_collation=True,
            _IterableDataset_len_called=None,
            collate_fn=list,
            drop_last=False,
            num_workers=0,
            timeout=0,
            pin_memory=False,
            pin_memory_device="",
            persistent_workers=False,
            generator=None,
            prefetch_factor=2,
            in_order=True,
            worker_init_fn=None,
            multiprocessing_context=None,
        )
        self.__dict__.update(given)


def workers(kind):
    return {} if kind == "none" else {"num_workers": 2}


@pytest.mark.parametrize("kind", ITERATORS)
def test_samples_with_numbers(kind):
    loader = Plain(**workers(kind))
    before = dict(vars(loader))
    made = ITERATORS[kind](loader)
    assert isinstance(made, _BaseDataLoaderIter) and len(made) == 3
    assert list(made) == [[0, 1], [2, 3, 4], [6]]
    assert vars(loader) == before  # nothing is left on an object that is not ours
    one_by_one = Plain(_auto_collation=False, _index_sampler=[3, 0, 5], collate_fn=str, **workers(kind))
    assert list(ITERATORS[kind](one_by_one)) == ["3", "0", "5"]


@pytest.mark.parametrize("kind", ITERATORS)
@pytest.mark.parametrize("name", sorted(READ_WITH_WORKERS))
def test_the_attributes_are_those_of_the_protocol(kind, name):
    """One that is missing is an AttributeError; those of workers are read with workers alone."""
    loader = Plain(**workers(kind))
    delattr(loader, name)
    if kind == "none" and name not in READ:
        assert len(list(ITERATORS[kind](loader))) == 3
    else:
        with pytest.raises(AttributeError, match=name):
            ITERATORS[kind](loader)


@pytest.mark.parametrize("name", sorted(READ_WITH_WORKERS | {"multiprocessing_context"}))
def test_a_loader_has_them(name):
    for loader in (DataLoader(range(4)), DataLoader(range(4), num_workers=1)):
        getattr(loader, name)


# --- as fastai has it: the loader is its own dataset, which makes batches; numbers go on for ever ---


class Batches:
    """A library's loader of its own."""

    def __init__(self, n=10, size=3):
        self.n, self.size, self.workers, self.at, self.begun = n, size, 1, 0, 0

    def create(self):
        numbers = [i for i in range(self.n) if i // self.size % self.workers == self.at]
        for k in range(0, len(numbers), self.size):
            yield flambeau.tensor(numbers[k : k + self.size]), (os.getpid(), threading.get_ident())


def become(worker_id):
    info = get_worker_info()
    info.dataset.made.workers, info.dataset.made.at = info.num_workers, info.id
    info.dataset.made.begun += 1


class Own:
    _IterableDataset_len_called, _auto_collation, drop_last, in_order = None, False, False, True
    _index_sampler, generator, prefetch_factor = itertools.count(), None, 2
    dataset_kind = _dataset_kind = _DatasetKind.Iterable

    def __init__(self, made, num_workers=0, pin_memory=False, persistent_workers=False, timeout=0):
        self.dataset = self
        self.made, self.num_workers, self.pin_memory = made, num_workers, pin_memory
        self.persistent_workers, self.timeout = persistent_workers, timeout
        self.pin_memory_device, self.worker_init_fn = "", become

    def collate_fn(self, x=None, *args, **kwargs):
        return x

    def __iter__(self):
        return iter(self.made.create())

    @property
    def multiprocessing_context(self):
        return (None, multiprocessing)[self.num_workers > 0]


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("pin", [False, True])
@pytest.mark.parametrize("kind", ["none", "process"])
def test_a_loader_that_is_its_own_dataset(kind, pin, persistent):
    loader = Own(
        Batches(),
        pin_memory=pin,
        persistent_workers=persistent,
        timeout=100 * (kind == "process"),
        **workers(kind),
    )
    made = ITERATORS[kind]
    for _ in range(2):
        with warnings.catch_warnings():
            warnings.filterwarnings(
                "ignore", "'pin_memory' argument is set as true but no accelerator is found"
            )
            results = list(made(loader))
        assert sorted(x.tolist() for x, _ in results) == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]
        pids = {who[0] for _, who in results}
        assert len(pids) == (2 if kind == "process" else 1) and (os.getpid() in pids) == (kind == "none")


def test_threads_of_a_loader_that_is_its_own_dataset():
    loader = Own(Batches())
    loader.num_workers, loader.worker_init_fn = 1, None
    results = list(_ThreadingDataLoaderIter(loader))
    assert [x.tolist() for x, _ in results] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]
    assert {who[1] for _, who in results} != {threading.get_ident()}


class Counting(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        return iter(range(5)) if info is None or info.id == 0 else iter(())


@pytest.mark.parametrize("kind", ITERATORS)
def test_iterable_datasets_and_the_length_they_told(kind):
    loader = Plain(
        dataset=Counting(),
        _dataset_kind=_DatasetKind.Iterable,
        _index_sampler=itertools.repeat(range(2)),
        **workers(kind),
    )
    assert list(ITERATORS[kind](loader)) == [[0, 1], [2, 3], [4]]
    loader._IterableDataset_len_called = 2
    with pytest.warns(UserWarning, match="was reported as 2 batches, but 3 have been fetched"):
        assert len(list(ITERATORS[kind](loader))) == 3
    loader._IterableDataset_len_called, loader.drop_last = None, True
    assert list(ITERATORS[kind](loader)) == [[0, 1], [2, 3]]


@pytest.mark.parametrize("kind", ITERATORS)
def test_another_pass_of_the_same_iterator(kind):
    """`_reset`, which PyTorch's loader calls; workers that stay are the same."""
    for persistent in (False, True):
        loader = Plain(persistent_workers=persistent and kind != "none", **workers(kind))
        made = ITERATORS[kind](loader)
        first = getattr(made, "_workers", None)
        assert next(made) == [0, 1]
        made._reset(loader)
        assert list(made) == [[0, 1], [2, 3, 4], [6]]
        assert kind == "none" or (made._workers is first) == persistent


def test_workers_that_are_too_few_or_too_many():
    with pytest.raises(AssertionError, match="num_workers"):
        _SingleProcessDataLoaderIter(Plain(num_workers=1))
    for kind in ("process", "thread"):
        with pytest.raises(AssertionError, match="num_workers"):
            ITERATORS[kind](Plain())
    with pytest.raises(AssertionError, match="timeout"):
        _SingleProcessDataLoaderIter(Plain(timeout=1))


@pytest.mark.parametrize("kind", ["none", "process"])
def test_the_generator_gives_the_workers_seed(kind):
    seeds = []
    for _ in range(2):
        generator = flambeau.Generator().manual_seed(5)
        loader = Plain(generator=generator, collate_fn=drawn, **workers(kind))
        flambeau.manual_seed(0)
        made = ITERATORS[kind](loader)
        seeds.append((made._base_seed, list(made) if kind == "process" else None))
    assert seeds[0] == seeds[1]


def drawn(samples):
    return int(flambeau.randint(1 << 40, ()))


@pytest.mark.parametrize("workers", [0, 2])
def test_iterators_over_a_loader_made_by_hand(workers):
    """As lightning and others make them of a DataLoader, whose place is then that of this pass."""
    loader = DataLoader(TensorDataset(flambeau.arange(6)), batch_size=2, num_workers=workers)
    made = (_SingleProcessDataLoaderIter, _MultiProcessingDataLoaderIter)[workers > 0](loader)
    next(made)
    state = loader.state_dict()
    assert state["batches"] == 1 and state["running"]
    other = DataLoader(TensorDataset(flambeau.arange(6)), batch_size=2, num_workers=workers)
    other.load_state_dict(state)
    assert [x.tolist() for (x,) in other] == [x.tolist() for (x,) in made] == [[2, 3], [4, 5]]
