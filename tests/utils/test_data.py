"""Datasets, samplers, collation and the loader."""

import collections
import copy
import itertools
import pickle
import tracemalloc
import warnings

import numpy as np
import pytest

import flambeau
from flambeau.utils import data


def dataset(n=10):
    return data.TensorDataset(flambeau.arange(2.0 * n).reshape(n, 2), flambeau.arange(n))


def lists(batch):
    """The same structure with lists in place of tensors."""
    if isinstance(batch, flambeau.Tensor):
        return batch.tolist()
    if isinstance(batch, dict):
        return {key: lists(value) for key, value in batch.items()}
    if isinstance(batch, (list, tuple)):
        return [lists(item) for item in batch]
    return batch


class Squares(data.Dataset):
    def __getitem__(self, i):
        if not 0 <= i < 5:
            raise IndexError(i)
        return i * i

    def __len__(self):
        return 5


class Stream(data.IterableDataset):
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return iter(range(self.n))

    def __len__(self):
        return self.n


# --- datasets ------------------------------


def test_tensor_dataset():
    d = dataset()
    assert len(d) == 10
    x, y = d[-1]
    assert x.tolist() == [18, 19] and y.item() == 9
    with pytest.raises(AssertionError, match="Size mismatch"):
        data.TensorDataset(flambeau.zeros(2), flambeau.zeros(3))


def test_stack_dataset():
    d = data.StackDataset(Squares(), "abcde")
    assert d[2] == (4, "c") and len(d) == 5
    assert d.__getitems__([0, 3]) == [(0, "a"), (9, "d")]
    d = data.StackDataset(n=Squares(), c="abcde")
    assert d[2] == {"n": 4, "c": "c"}
    assert d.__getitems__([4]) == [{"n": 16, "c": "e"}]
    for args, kwargs in [((), {}), ((Squares(),), {"a": Squares()}), ((Squares(), "abc"), {})]:
        with pytest.raises(ValueError):
            data.StackDataset(*args, **kwargs)


def test_concat_dataset():
    d = Squares() + data.Subset("xyz", [0, 2])
    assert isinstance(d, data.ConcatDataset)
    assert [d[i] for i in range(len(d))] == [0, 1, 4, 9, 16, "x", "z"]
    assert d[-1] == "z" and d[-7] == 0
    assert d.cumulative_sizes == [5, 7]
    with pytest.raises(ValueError, match="-8"):
        d[-8]
    with pytest.raises(IndexError):
        d[7]
    with pytest.raises(AssertionError):
        data.ConcatDataset([])
    with pytest.raises(AssertionError):
        data.ConcatDataset([Stream(1)])


def test_chain_dataset():
    d = Stream(2) + Stream(3)
    assert isinstance(d, data.ChainDataset)
    assert list(d) == [0, 1, 0, 1, 2] and len(d) == 5
    with pytest.raises(AssertionError, match="IterableDataset"):
        list(data.ChainDataset([Squares()]))


def test_subset():
    d = data.Subset(Squares(), [4, 4, 1])
    assert len(d) == 3 and [d[i] for i in range(3)] == [16, 16, 1]
    assert d.__getitems__([2, 0]) == [1, 16]
    both = data.Subset(d, [2, 1])
    assert both.__getitems__([0, 1]) == [1, 16]
    assert data.Subset(flambeau.arange(5), [3, 1, 0])[[0, 2]].tolist() == [3, 0]


def test_random_split():
    generator = flambeau.Generator().manual_seed(3)
    parts = data.random_split(range(10), [7, 3], generator=generator)
    assert [len(part) for part in parts] == [7, 3]
    order = flambeau.randperm(10, generator=flambeau.Generator().manual_seed(3)).tolist()
    assert [part.indices for part in parts] == [order[:7], order[7:]]
    # 10 * 0.3 and 10 * 0.35 are rounded down; the one that is left goes to the first.
    assert [len(part) for part in data.random_split(range(10), [0.3, 0.35, 0.35])] == [4, 3, 3]
    with pytest.raises(ValueError, match="does not equal"):
        data.random_split(range(10), [7, 4])
    with pytest.raises(ValueError, match="not between"):
        data.random_split(range(10), [1.5, -0.5])
    with pytest.warns(UserWarning, match="index 1 is 0"):
        data.random_split(range(2), [0.99, 0.01])


def test_datasets_are_generic():
    class Typed(data.Dataset[int]):
        def __getitem__(self, i):
            return i

    assert Typed()[3] == 3
    with pytest.raises(NotImplementedError, match="__getitem__"):
        data.Dataset()[0]


# --- samplers ------------------------------


def seeded(seed=0):
    return flambeau.Generator().manual_seed(seed)


def test_sequential_sampler():
    assert list(data.SequentialSampler("abc")) == [0, 1, 2]


def test_random_sampler():
    sampler = data.RandomSampler(range(50), generator=seeded())
    first, second = list(sampler), list(sampler)
    assert sorted(first) == sorted(second) == list(range(50))
    assert first != second != list(range(50))
    assert first == flambeau.randperm(50, generator=seeded()).tolist()
    assert list(data.RandomSampler(range(50), generator=seeded())) == first

    more = list(data.RandomSampler(range(4), num_samples=10))
    assert len(more) == 10 and sorted(more[:4]) == sorted(more[4:8]) == [0, 1, 2, 3]
    assert len(set(more[8:])) == 2
    drawn = data.RandomSampler(range(4), replacement=True, num_samples=100)
    assert len(drawn) == 100 and set(drawn) == {0, 1, 2, 3}
    with pytest.raises(TypeError, match="replacement"):
        data.RandomSampler(range(4), replacement=1)
    for count in (0, -1, 1.5):
        with pytest.raises(ValueError, match="num_samples"):
            data.RandomSampler(range(4), num_samples=count)


def test_the_default_generator_is_used():
    flambeau.manual_seed(5)
    first = list(data.RandomSampler(range(30)))
    flambeau.manual_seed(5)
    assert list(data.RandomSampler(range(30))) == first


def test_subset_random_sampler():
    sampler = data.SubsetRandomSampler([7, 8, 9, 10], generator=seeded())
    assert len(sampler) == 4 and sorted(sampler) == [7, 8, 9, 10]


def test_weighted_random_sampler():
    assert set(data.WeightedRandomSampler([0.0, 1.0, 0.0, 3.0], 200)) == {1, 3}
    assert sorted(data.WeightedRandomSampler([1, 2, 3], 3, replacement=False)) == [0, 1, 2]
    for args in [([1.0], 0), ([1.0], True), ([1.0], 1, "no"), ([[1.0]], 1)]:
        with pytest.raises(ValueError):
            data.WeightedRandomSampler(*args)


def test_batch_sampler():
    assert list(data.BatchSampler(range(7), 3, False)) == [[0, 1, 2], [3, 4, 5], [6]]
    assert list(data.BatchSampler(range(7), 3, True)) == [[0, 1, 2], [3, 4, 5]]
    assert [len(data.BatchSampler(range(7), 3, drop)) for drop in (False, True)] == [3, 2]
    for args in [(range(7), 0, False), (range(7), True, False), (range(7), 2.0, False), (range(7), 2, 1)]:
        with pytest.raises(ValueError):
            data.BatchSampler(*args)


# --- collation ------------------------------

Pair = collections.namedtuple("Pair", "a b")


def test_collate_numbers_and_text():
    floats = data.default_collate([1.5, 2.5])
    assert floats.dtype == flambeau.float64 and floats.tolist() == [1.5, 2.5]
    assert data.default_collate([1, 2]).dtype == flambeau.int64
    assert data.default_collate([True, False]).dtype == flambeau.bool
    assert data.default_collate(["a", "b"]) == ["a", "b"]
    assert data.default_collate([b"a", b"b"]) == [b"a", b"b"]


def test_collate_tensors_and_arrays():
    t = flambeau.ones(2, dtype=flambeau.int16)
    batch = data.default_collate([t, t])
    assert batch.shape == (2, 2) and batch.dtype == flambeau.int16
    for dtype in (np.float32, np.int8, np.bool_):
        batch = data.default_collate([np.ones(3, dtype), np.zeros(3, dtype)])
        assert batch.tolist() == [[1, 1, 1], [0, 0, 0]] and batch.shape == (2, 3)
        scalars = data.default_collate([dtype(1), dtype(0)])
        assert scalars.tolist() == [1, 0] and scalars.dtype == batch.dtype
    with pytest.raises(RuntimeError, match=r"equal size, but got \[3\] at entry 0 and \[2\] at entry 1"):
        data.default_collate([np.ones(3), np.ones(2)])
    with pytest.raises(RuntimeError):
        data.default_collate([flambeau.ones(3), flambeau.ones(2)])


def test_collate_containers():
    assert lists(data.default_collate([{"a": 1, "b": [2]}, {"a": 3, "b": [4]}])) == {
        "a": [1, 3],
        "b": [[2, 4]],
    }
    ordered = data.default_collate([collections.OrderedDict(b=1, a=2)] * 2)
    assert type(ordered) is collections.OrderedDict and list(ordered) == ["b", "a"]
    pair = data.default_collate([Pair(1, "x"), Pair(2, "y")])
    assert type(pair) is Pair and pair.a.tolist() == [1, 2] and pair.b == ("x", "y")
    batch = data.default_collate([(1, (2, 3)), (4, (5, 6))])
    assert type(batch) is list and lists(batch) == [[1, 4], [[2, 5], [3, 6]]]
    with pytest.raises(RuntimeError, match="equal size"):
        data.default_collate([[1], [1, 2]])
    for wrong in (None, object(), np.array(["a"])):
        with pytest.raises(TypeError, match="default_collate"):
            data.default_collate([wrong])


def test_convert():
    assert data.default_convert("a") == "a"
    assert data.default_convert(3) == 3
    array = np.arange(3)
    assert data.default_convert(array).tolist() == [0, 1, 2]
    result = data.default_convert({"x": [array, "b"], "p": Pair(np.float32(1), 2)})
    assert result["x"][0].tolist() == [0, 1, 2] and result["x"][1] == "b"
    assert type(result["p"]) is Pair and result["p"].a.dtype == flambeau.float32
    names = np.array(["a"])
    assert data.default_convert(names) is names


# --- the loader ------------------------------


def test_batches_in_order():
    loader = data.DataLoader(dataset(), batch_size=4)
    batches = list(loader)
    assert len(loader) == len(batches) == 3
    assert all(type(batch) is list for batch in batches)
    assert lists(batches[0]) == [[[0, 1], [2, 3], [4, 5], [6, 7]], [0, 1, 2, 3]]
    assert lists(batches[2]) == [[[16, 17], [18, 19]], [8, 9]]
    assert lists(list(data.DataLoader(dataset(), batch_size=4, drop_last=True))) == lists(batches[:2])


class ByHand(data.Dataset):
    """The same samples as those of another dataset, one by one."""

    def __init__(self, other):
        self.other = other

    def __getitem__(self, i):
        return self.other[i]

    def __len__(self):
        return len(self.other)


@pytest.mark.parametrize(
    "make",
    [
        dataset,
        lambda: data.Subset(dataset(20), range(19, 4, -1)),
        lambda: data.Subset(data.Subset(dataset(20), range(19, 4, -1)), [0, -1, 3]),
        lambda: data.StackDataset(a=dataset(), b=flambeau.arange(10)),
        lambda: dataset(4) + dataset(7),
    ],
)
@pytest.mark.parametrize(
    "options", [{"batch_size": 3}, {"batch_sampler": [[0, -1, 1], [2]]}, {"batch_size": None}]
)
def test_batches_made_at_once_are_those_made_of_samples(make, options):
    fast = lists(list(data.DataLoader(make(), **options)))
    assert fast == lists(list(data.DataLoader(ByHand(make()), **options)))


def test_batches_are_copies_and_carry_gradients():
    x = flambeau.ones(4, requires_grad=True)
    (batch,) = next(iter(data.DataLoader(data.TensorDataset(x), batch_size=2)))
    (batch * 3).sum().backward()
    assert x.grad.tolist() == [3, 3, 0, 0]
    y = flambeau.zeros(4)
    (batch,) = next(iter(data.DataLoader(data.TensorDataset(y), batch_size=4)))
    batch += 1
    assert y.tolist() == [0, 0, 0, 0]


def test_subclasses_that_change_samples_are_asked():
    class Negative(data.TensorDataset):
        def __getitem__(self, i):
            return tuple(-t for t in super().__getitem__(i))

    class Plus(data.Subset):
        def __getitem__(self, i):
            return super().__getitem__(i) + 1

    (batch,) = next(iter(data.DataLoader(Negative(flambeau.arange(3)), batch_size=3)))
    assert batch.tolist() == [0, -1, -2]
    assert next(iter(data.DataLoader(Plus(Squares(), [1, 2]), batch_size=2))).tolist() == [2, 5]


def test_indices_out_of_range():
    for wrong in (10, -11):
        with pytest.raises(IndexError):
            list(data.DataLoader(dataset(), batch_sampler=[[0, wrong]]))


def test_shuffle():
    loader = data.DataLoader(dataset(), batch_size=3, shuffle=True, generator=seeded())
    first, second = ([i for _, y in loader for i in y.tolist()] for _ in range(2))
    assert sorted(first) == sorted(second) == list(range(10))
    generator = seeded()
    flambeau.randint(2**63 - 1, (), generator=generator)  # the workers' seed, drawn with or without workers
    assert first == flambeau.randperm(10, generator=generator).tolist()
    assert first != second


def test_samplers_and_functions():
    loader = data.DataLoader(Squares(), batch_size=2, sampler=[3, 1, 0], collate_fn=sum)
    assert list(loader) == [10, 0]
    loader = data.DataLoader(Squares(), batch_sampler=[[0], [4, 3]], collate_fn=list)
    assert list(loader) == [[0], [16, 9]] and len(loader) == 2
    assert list(data.DataLoader(Squares(), batch_size=None)) == [0, 1, 4, 9, 16]


def test_many_items_at_once():
    class Many(Squares):
        def __getitems__(self, indices):
            return [-i for i in indices]

    assert next(iter(data.DataLoader(Many(), batch_size=3))).tolist() == [0, -1, -2]


def test_iterable_datasets():
    loader = data.DataLoader(Stream(7), batch_size=3)
    assert lists(list(loader)) == lists(list(loader)) == [[0, 1, 2], [3, 4, 5], [6]]
    assert len(loader) == 3
    assert lists(list(data.DataLoader(Stream(7), batch_size=3, drop_last=True))) == [[0, 1, 2], [3, 4, 5]]
    assert list(data.DataLoader(Stream(3), batch_size=None)) == [0, 1, 2]
    for option in ({"shuffle": True}, {"sampler": [1]}, {"batch_sampler": [[1]]}):
        with pytest.raises(ValueError, match="IterableDataset"):
            data.DataLoader(Stream(3), **option)


def test_iterable_datasets_longer_than_they_say():
    class Liar(Stream):
        def __len__(self):
            return 2

    loader = data.DataLoader(Liar(3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [batch.item() for batch in loader] == [0, 1, 2]
    assert len(loader) == 2
    with pytest.warns(UserWarning, match="Length of IterableDataset"):
        list(loader)


@pytest.mark.parametrize(
    "options",
    [
        {"num_workers": -1},
        {"timeout": -1},
        {"prefetch_factor": 2},
        {"persistent_workers": True},
        {"multiprocessing_context": "fork"},
        {"shuffle": True, "sampler": [0]},
        {"batch_sampler": [[0]], "batch_size": 2},
        {"batch_sampler": [[0]], "drop_last": True},
        {"batch_size": None, "drop_last": True},
        {"batch_size": 0},
    ],
    ids=str,
)
def test_wrong_options(options):
    with pytest.raises(ValueError):
        data.DataLoader(dataset(), **options)


def test_what_makes_batches_is_fixed():
    loader = data.DataLoader(dataset())
    for name in ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset"):
        with pytest.raises(ValueError, match=name):
            setattr(loader, name, None)
    loader.collate_fn = len
    assert next(iter(loader)) == 1


def test_there_are_no_workers():
    assert data.get_worker_info() is None


# ---------------------------------------------------------------- draws as they are asked for


@pytest.mark.parametrize(
    "sampler",
    [
        data.RandomSampler(range(7), replacement=True, num_samples=10**10),
        data.RandomSampler(range(7), num_samples=10**10),
        data.WeightedRandomSampler([1.0, 2.0, 0.0], num_samples=10**10),
    ],
    ids=["replacement", "permutations", "weighted"],
)
def test_ten_thousand_million_draws(sampler):
    assert len(sampler) == 10**10 and len(data.DataLoader(range(7), sampler=sampler, batch_size=10)) == 10**9
    tracemalloc.start()
    drawn = list(itertools.islice(sampler, 5000))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 2**20 and len(set(drawn)) == (2 if isinstance(sampler, data.WeightedRandomSampler) else 7)


@pytest.mark.parametrize("count", [1, 1023, 1024, 1025, 5000])
def test_as_many_draws_as_asked_for(count):
    samplers = [
        data.RandomSampler(range(3), True, count),
        data.RandomSampler(range(3), False, count),
        data.WeightedRandomSampler([1.0, 1.0], count),
    ]
    for sampler in samplers:
        assert len(list(sampler)) == count == len(sampler)


def test_what_is_drawn_meanwhile_changes_nothing():
    def drawn(between):
        flambeau.manual_seed(5)
        sampler = iter(data.RandomSampler(range(100), replacement=True, num_samples=3000))
        first = list(itertools.islice(sampler, 10))
        between()
        return first + list(sampler)

    assert drawn(lambda: None) == drawn(lambda: flambeau.randn(7))


# ---------------------------------------------------------------- pinned memory


class Parcel:
    def __init__(self, samples):
        self.samples, self.pinned = samples, False

    def pin_memory(self):
        self.pinned = True
        return self


def test_pinned_memory_without_an_accelerator_is_a_warning(monkeypatch):
    monkeypatch.setattr("flambeau.utils.data._utils.passes.accelerator_type", lambda: None)
    loader = data.DataLoader(dataset(), batch_size=5, pin_memory=True, pin_memory_device="cuda")
    with pytest.warns(UserWarning, match="no accelerator is found"):
        batches = list(loader)
    assert lists(batches) == lists(list(data.DataLoader(dataset(), batch_size=5)))


def test_pinned_batches(monkeypatch):
    monkeypatch.setattr("flambeau.utils.data._utils.passes.accelerator_type", lambda: "cuda")
    monkeypatch.setattr(flambeau.Tensor, "pin_memory", lambda self: self + 100)
    for options in ({}, {"num_workers": 1}, {"num_workers": 1, "worker_type": "thread"}):
        pinned = list(data.DataLoader([{"a": (1, "x"), "b": 2.0}], pin_memory=True, **options))
        assert lists(pinned) == [{"a": [[101], ["x"]], "b": [102.0]}]
    whole = data.DataLoader([1, 2], batch_size=2, collate_fn=Parcel, pin_memory=True)
    (parcel,) = whole
    assert parcel.pinned and parcel.samples == [1, 2] and len(iter(whole)) == 1


def test_loaders_are_generic_and_are_copied():
    class Typed(data.DataLoader[int]):
        pass

    for made in (copy.deepcopy(data.DataLoader([1, 2])), pickle.loads(pickle.dumps(data.DataLoader([1, 2])))):
        assert lists(list(made)) == [[1], [2]]
    assert lists(list(Typed([3]))) == [[3]]
