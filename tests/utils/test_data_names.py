"""Names where programs look for them, and what programs do to loaders."""

import importlib

import numpy as np
import pytest

import flambeau
from flambeau.utils import data

PATHS = {
    "utils.data": "BatchSampler ChainDataset ConcatDataset DataLoader Dataset DistributedSampler IterableDataset "
    "RandomSampler Sampler SequentialSampler StackDataset Subset SubsetRandomSampler TensorDataset "
    "WeightedRandomSampler default_collate default_convert get_worker_info random_split _DatasetKind",
    "utils.data.dataloader": "DataLoader default_collate default_convert get_worker_info ExceptionWrapper _DatasetKind "
    "_BaseDataLoaderIter _SingleProcessDataLoaderIter _MultiProcessingDataLoaderIter _InfiniteConstantSampler _utils "
    "Dataset IterableDataset Sampler BatchSampler RandomSampler SequentialSampler",
    "utils.data.dataset": "Dataset IterableDataset TensorDataset StackDataset ConcatDataset ChainDataset Subset random_split",
    "utils.data.sampler": "Sampler SequentialSampler RandomSampler SubsetRandomSampler WeightedRandomSampler BatchSampler",
    "utils.data.distributed": "DistributedSampler",
    "utils.data._utils.collate": "collate default_collate default_convert default_collate_fn_map collate_tensor_fn "
    "collate_numpy_array_fn collate_numpy_scalar_fn collate_float_fn collate_int_fn collate_str_fn "
    "default_collate_err_msg_format",
    "utils.data._utils.worker": "WorkerInfo get_worker_info _generate_state",
    "utils.data._utils.fetch": "_BaseDatasetFetcher _MapDatasetFetcher _IterableDatasetFetcher",
    "utils.data._utils.pin_memory": "pin_memory",
}


@pytest.mark.parametrize("path", PATHS)
def test_names_stand_where_pytorch_has_them(path):
    module = importlib.import_module(f"flambeau.{path}")
    reached = flambeau
    for part in path.split("."):
        reached = getattr(reached, part)
    assert reached is module
    for name in PATHS[path].split():
        result = getattr(module, name)
        public = getattr(data, name, result)
        assert result is public, name


def test_loaders_that_repeat_for_ever():
    """As several libraries keep workers: the batch sampler is replaced, and one iterator serves all epochs."""

    class Repeat:
        def __init__(self, sampler):
            self.sampler = sampler

        def __iter__(self):
            while True:
                yield from iter(self.sampler)

    class Infinite(data.DataLoader):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            object.__setattr__(self, "batch_sampler", Repeat(self.batch_sampler))
            self.iterator = super().__iter__()

        def __len__(self):
            return len(self.batch_sampler.sampler)

        def __iter__(self):
            for _ in range(len(self)):
                yield next(self.iterator)

        def reset(self):
            self.iterator = self._get_iterator()

    class Epochs(data.DataLoader):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self._DataLoader__initialized = False
            self.batch_sampler = Repeat(self.batch_sampler)
            self._DataLoader__initialized = True
            self.iterator = super().__iter__()

        def __iter__(self):
            for _ in range(len(self.batch_sampler.sampler)):
                yield next(self.iterator)

    for kind in (Infinite, Epochs):
        for workers in (0, 1):
            loader = kind(range(5), batch_size=2, num_workers=workers)
            for _ in range(3):
                assert [batch.tolist() for batch in loader] == [[0, 1], [2, 3], [4]]
            if workers:
                assert all(worker.is_alive() for worker in loader.iterator._workers)
                loader.iterator._shutdown_workers()
                assert not any(worker.is_alive() for worker in loader.iterator._workers)


def test_fetchers_are_made_by_kind():
    kind = data._DatasetKind
    fetcher = kind.create_fetcher(kind.Map, "abc", True, list, False)
    assert fetcher.fetch([2, 0]) == ["c", "a"]
    assert data.DataLoader("abc")._dataset_kind == kind.Map


@pytest.mark.parametrize(
    "options, error, text",
    [
        ({"worker_type": "fibre"}, ValueError, "worker_type should be one of"),
        ({"num_workers": 1, "prefetch_factor": -1}, ValueError, "prefetch_factor"),
        ({"num_workers": 1, "multiprocessing_context": "knife"}, ValueError, "valid start method in"),
        ({"num_workers": 1, "multiprocessing_context": 3}, TypeError, "valid context object"),
        (
            {"num_workers": 1, "worker_type": "thread", "multiprocessing_context": "fork"},
            ValueError,
            "can only be used with multi-process loading",
        ),
    ],
    ids=str,
)
def test_wrong_options_of_workers(options, error, text):
    with pytest.raises(error, match=text):
        data.DataLoader([1, 2], **options)


def test_a_timeout_needs_workers():
    with pytest.raises(AssertionError, match="timeout=3"):
        iter(data.DataLoader([1], timeout=3))


def test_no_batches_ahead():
    assert list(data.DataLoader("abc", num_workers=2, prefetch_factor=0, worker_type="thread")) == [
        ["a"],
        ["b"],
        ["c"],
    ]


# --- collation by type ------------------------------


def test_functions_for_types():
    class Box:
        def __init__(self, n):
            self.n = n

    class Small(Box):
        pass

    collate = data._utils.collate.collate
    by_type = {
        Box: lambda batch, *, collate_fn_map: [box.n for box in batch],
        (str, bytes): lambda batch, *, collate_fn_map: len(batch),
    }
    samples = [{"box": Small(1), "words": ("a", b"b")}, {"box": Box(2), "words": ("c", b"d")}]
    assert collate(samples, collate_fn_map=by_type) == {"box": [1, 2], "words": [2, 2]}
    with pytest.raises(TypeError, match="default_collate.*Small.*in field \\['box'\\]"):
        data.default_collate(samples)


def test_the_map_of_types_is_extended_in_place(monkeypatch):
    data.default_collate([np.float32(1)])
    types = data._utils.collate.default_collate_fn_map
    names = [kind.__name__ for kind in types if isinstance(kind, type)]
    assert names == ["Tensor", "ndarray", "float", "int", "str", "bytes"]
    monkeypatch.setitem(types, complex, lambda batch, *, collate_fn_map: flambeau.tensor(batch))
    assert data.default_collate([{"z": 1j}, {"z": 2j}])["z"].tolist() == [1j, 2j]


def test_numbers_and_arrays_of_numpy(tmp_path):
    assert data.default_collate([np.float64(1), np.float64(2)]).dtype == flambeau.float64
    mapped = np.memmap(tmp_path / "a", np.int16, "w+", shape=(2, 3))
    mapped[:] = 7
    assert data.default_collate([mapped, mapped]).tolist() == [[[7] * 3] * 2] * 2
    assert data.default_convert(mapped).tolist() == [[7] * 3] * 2
    mixed = data.default_collate([np.ones(2, np.float32), np.ones(2, np.float64)])
    assert mixed.dtype == flambeau.float64


@pytest.mark.parametrize(
    "options", [{}, {"num_workers": 1}, {"num_workers": 1, "worker_type": "thread"}], ids=str
)
@pytest.mark.parametrize(
    "sample, text",
    [
        (
            lambda i: {"a": [0, np.ones(2 + (i == 7))]},
            r"got \[2\] at entry 0 and \[3\] at entry 2, in field \['a'\]\[1\]",
        ),
        (
            lambda i: (flambeau.ones(9000 + (i == 7)),),
            r"got \[9000\] at entry 0 and \[9001\] at entry 2, in field \[0\]",
        ),
        (
            lambda i: {"a": [1] * (1 + (i == 7))},
            r"got length 1 at entry 0 and 2 at entry 2, in field \['a'\]",
        ),
        (lambda i: flambeau.ones([1] * (i == 7)), r"got \[\] at entry 0 and \[1\] at entry 2"),
    ],
    ids=["arrays", "tensors", "lists", "dimensions"],
)
def test_samples_that_do_not_fit_are_named(sample, text, options):
    class Samples(data.Dataset):
        def __getitem__(self, i):
            return sample(i)

    loader = data.DataLoader(Samples(), batch_sampler=[[5, 6, 7]], **options)
    with pytest.raises(
        RuntimeError, match=text + r".*\(entry 0 is sample 5, entry 2 is sample 7 of the dataset\)"
    ):
        list(loader)


def test_a_field_that_a_sample_lacks():
    with pytest.raises(KeyError, match="entry 1 has no field 'b'"):
        data.default_collate([{"a": 1, "b": 2}, {"a": 1}])


# --- parts of a dataset for several processes ------------------------------


@pytest.mark.parametrize("n, replicas", [(10, 2), (11, 3), (2, 5), (7, 7), (1, 1)])
@pytest.mark.parametrize("shuffle", [False, True])
def test_each_process_takes_its_part(n, replicas, shuffle):
    def parts(**more):
        return [
            list(data.DistributedSampler(range(n), replicas, rank, shuffle, **more))
            for rank in range(replicas)
        ]

    full, cut = parts(), parts(drop_last=True)
    assert {len(part) for part in full} == {-(-n // replicas)} and {len(part) for part in cut} == {
        n // replicas
    }
    assert {i for part in full for i in part} == set(range(n))
    assert len({i for part in cut for i in part}) == n // replicas * replicas
    order = list(range(n))
    if shuffle:
        order = flambeau.randperm(n, generator=flambeau.Generator().manual_seed(0)).tolist()
    assert full == [
        [order[i % n] for i in range(rank, len(full[0]) * replicas, replicas)] for rank in range(replicas)
    ]


def test_epochs_of_distributed_samplers():
    sampler = data.distributed.DistributedSampler(range(50), 2, 0, seed=3)
    first = list(sampler)
    assert first == list(sampler) and len(sampler) == 25
    sampler.set_epoch(1)
    assert first != list(sampler)
    sampler.set_epoch(0)
    assert first == list(sampler)


def test_distributed_samplers_need_to_be_told():
    for given in ({"rank": 0}, {"num_replicas": 2}, {}):
        with pytest.raises(ValueError, match="Default process group has not been initialized"):
            data.DistributedSampler(range(3), **given)
    for rank in (-1, 2):
        with pytest.raises(ValueError, match=r"Invalid rank .* \[0, 1\]"):
            data.DistributedSampler(range(3), 2, rank)
    with pytest.raises(AssertionError, match="0 samples"):
        list(data.DistributedSampler([], 2, 0))
