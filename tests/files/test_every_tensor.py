"""Every kind of tensor through every format: what is read is what was written, and no byte of it is from elsewhere in memory."""

from __future__ import annotations

import io
import itertools
import pickle
import random

import checkpoints
import numpy as np
import pytest
import test_hostile

import flambeau
from flambeau import nn
from flambeau._files import first_format, legacy, reading

FORMATS = {"zip": {}, "legacy": {"_use_new_zipfile_serialization": False}}
POISON = b"\xa5" * 8
DTYPES = [*checkpoints.DTYPES, *checkpoints.NEW_DTYPES]
LAYOUTS = ("coo", "csr", "csc", "bsr", "bsc")


def of(name):
    return flambeau.tensor([[0.5, 1, 2], [1, 4, 8]]).to(getattr(flambeau, name))


def dense(name):
    x = of(name)
    trained = x.dtype.is_floating_point or x.dtype.is_complex
    made = {
        "whole": x,
        "again": x,
        "row": x[1],
        "turned": x.t(),
        "part": x[:, 1:],
        "wide": x[0, 1].expand(4, 5),
    }
    made |= {"empty": x.new_empty(0, 3), "number": x[1, 1], "overlapping": x.as_strided((2, 2), (1, 1))}
    made |= {"blank": x.to("meta"), "weight": nn.Parameter(of(name), trained), "state": nn.Buffer(of(name))}
    made |= {
        "temporary": nn.Buffer(of(name), persistent=False),
        "bytes": x.untyped_storage(),
    }
    if name not in checkpoints.NEW_DTYPES:
        made["typed"] = flambeau.TypedStorage(wrap_storage=x.untyped_storage(), dtype=x.dtype, _internal=True)
    noted = of(name)
    noted.note = {"about": [x, "text"]}
    made["noted"] = noted
    if trained:
        made["leaf"] = of(name).requires_grad_()
        made["result"] = made["leaf"].clone()
    if x.dtype.is_complex:
        made |= {"conjugate": x.conj(), "real": x.real, "imaginary": x.imag}
    return made


def sparse(name):
    x = flambeau.tensor([[1.0, 0, 0, 2], [0, 0, 0, 3]]).to(getattr(flambeau, name))
    made = {layout: getattr(x, f"to_sparse_{layout}")() for layout in LAYOUTS[:3]}
    made |= {layout: getattr(x, f"to_sparse_{layout}")((1, 2)) for layout in LAYOUTS[3:]}
    values = flambeau.tensor([3.0, 4.0, 5.0]).to(x.dtype)
    twice = flambeau.sparse_coo_tensor([[0, 2, 0], [1, 0, 1]], values, (3, 2))
    made |= {"twice": twice, "values": values, "again": twice}
    made["rows"] = flambeau.sparse_coo_tensor([[0, 2]], x[:, :2], (3, 2))
    made["nothing"] = flambeau.sparse_coo_tensor(flambeau.zeros(2, 0).long(), values[:0], (3, 2))
    narrow = [flambeau.tensor(i, dtype=flambeau.int32) for i in ([0, 1, 2], [1, 0])]
    made["narrow"] = flambeau.sparse_csr_tensor(*narrow, values[:2], (2, 2))
    return made


def nested():
    return dict(enumerate(checkpoints.nested(flambeau)))


CASES = {
    **{name: lambda name=name: dense(name) for name in DTYPES},
    **{
        f"sparse {name}": lambda name=name: sparse(name) for name in ("float32", "complex64", "int64", "bool")
    },
    "nested": nested,
}


def bits(x):
    """The elements as bytes, in order: NaN and the signs of zeros count."""
    x = x.detach().contiguous().reshape(-1)
    return bytes(x.untyped_storage())[x.storage_offset() * x.dtype.itemsize :][: len(x) * x.dtype.itemsize]


def memory_of(x):
    """The tensors and storages with memory of their own in what was read."""
    if isinstance(x, dict):
        return [y for value in x.values() for y in memory_of(value)]
    if isinstance(x, (list, tuple, set)):
        return [y for value in x for y in memory_of(value)]
    if isinstance(x, flambeau.UntypedStorage):
        return [x]
    if isinstance(x, flambeau.TypedStorage):
        return [x.untyped()]
    if not isinstance(x, flambeau.Tensor):
        return []
    if x.is_nested:
        return [y for part in x.detach().unbind() for y in memory_of(part)]
    if x.layout is not flambeau.strided:
        places = x._indices() if x.layout is flambeau.sparse_coo else x._pattern.parts()
        return memory_of([places, x._values()])
    return [] if x.is_meta else [x.untyped_storage(), *memory_of(x.__dict__)]


def same(a, b):
    if isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            same(a[key], b[key])
    elif isinstance(a, flambeau.UntypedStorage):
        assert bytes(a) == bytes(b)
    elif isinstance(a, flambeau.TypedStorage):
        assert a.dtype == b.dtype and bytes(a.untyped()) == bytes(b.untyped())
    elif isinstance(a, flambeau.Tensor) and not a.is_nested and a.layout is flambeau.strided:
        assert type(a) is type(b) and a.is_meta == b.is_meta
        facts = [(x.dtype, x.shape, x.stride(), x.storage_offset(), x.requires_grad) for x in (a, b)]
        assert facts[0] == facts[1] and b.is_leaf
        assert a.is_meta or bits(a) == bits(b)
        checkpoints.same(a.__dict__, b.__dict__)
    elif isinstance(a, flambeau.Tensor) and a.layout is flambeau.sparse_coo:
        same(dict(enumerate((a._indices(), a._values()))), dict(enumerate((b._indices(), b._values()))))
        facts = [(x.shape, x.dtype, x.is_coalesced(), x.requires_grad) for x in (a, b)]
        assert facts[0] == facts[1]
    else:
        checkpoints.same(a, b)


def sharing(found):
    """Which of the values lie over the same memory."""
    where = {}
    for name, x in found.items():
        for storage in memory_of(x):
            if storage.nbytes():
                where.setdefault(storage.data_ptr(), set()).add(name)
    return sorted(map(sorted, where.values()))


@pytest.fixture
def poisoned(monkeypatch):
    """The memory that files are read into is full of a pattern first."""

    def storage(*args):
        made = flambeau.UntypedStorage(*args)
        memoryview(made)[:] = POISON[:1] * made.nbytes()
        return made

    for module in (legacy, first_format):
        monkeypatch.setattr(module, "Storage", storage)
    zipped = reading.Zip.load

    def load(self, *args):
        with monkeypatch.context() as inner:
            inner.setattr(reading, "Storage", storage)
            return zipped(self, *args)

    monkeypatch.setattr(reading.Zip, "load", load)


def clean(found):
    return not any(POISON[:6] in bytes(storage) for storage in memory_of(found))


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("case", CASES)
def test_what_is_read_is_what_was_written(case, form, tmp_path, poisoned):
    made = CASES[case]()
    path = tmp_path / "x.pt"
    flambeau.save(made, path, **FORMATS[form])
    ways = itertools.product((True, False), (False, True) if form == "zip" else (False,), (None, "cpu"))
    for weights_only, mmap, location in ways:
        found = flambeau.load(path, weights_only=weights_only, mmap=mmap, map_location=location)
        same(made, found)
        assert sharing(found) == sharing(made) and clean(found)
    assert found.get("again") is found.get("twice", found.get("whole"))


@pytest.mark.parametrize("name", checkpoints.NEW_DTYPES)
@pytest.mark.parametrize("form", FORMATS)
def test_storages_of_elements_without_a_class_in_files(form, name):
    untyped = of(name).untyped_storage()
    typed = flambeau.TypedStorage(wrap_storage=untyped, dtype=getattr(flambeau, name), _internal=True)
    with pytest.raises(
        TypeError, match=rf"obj\['x'\] is of type TypedStorage, .* no class of storages of .*{name}"
    ):
        flambeau.save({"x": typed}, io.BytesIO(), **FORMATS[form])


@pytest.mark.parametrize("form", FORMATS)
def test_without_data_on_meta(form):
    file = io.BytesIO()
    made = dense("float32") | sparse("float32")
    flambeau.save(made, file, **FORMATS[form])
    file.seek(0)
    found = flambeau.load(file, map_location="meta")
    assert all(
        x.is_meta and x.shape == made[k].shape for k, x in found.items() if isinstance(x, flambeau.Tensor)
    )


class Looks:
    """An object that reads its tensor when it is made again."""

    def __init__(self, x):
        self.x = x

    def __getstate__(self):
        return {"x": self.x}

    def __setstate__(self, state):
        self.x, self.seen = state["x"], state["x"].tolist()


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("weights_only", [True, False])
def test_what_looks_at_a_tensor_while_it_is_read_sees_its_elements(form, weights_only, poisoned):
    x = flambeau.arange(6.0)
    file = io.BytesIO()
    flambeau.save([Looks(x), x, Looks(x[2:])], file, **FORMATS[form])
    for location in (None, lambda storage, place: [storage.tolist(), storage][1]):
        file.seek(0)
        with flambeau.serialization.safe_globals([Looks]):
            found = flambeau.load(file, weights_only=weights_only, map_location=location)
        assert found[0].seen == x.tolist() and found[2].seen == x[2:].tolist()
        assert found[0].x is found[1] and found[2].x.data_ptr() == x.element_size() * 2 + found[1].data_ptr()


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("weights_only", [True, False])
def test_map_location_is_given_the_data(form, weights_only, poisoned):
    file = io.BytesIO()
    flambeau.save(flambeau.tensor([1, 2, 3], dtype=flambeau.uint8), file, **FORMATS[form])
    file.seek(0)
    seen = []
    found = flambeau.load(
        file, lambda storage, place: seen.append((place, storage.tolist())), weights_only=weights_only
    )
    assert seen == [("cpu", [1, 2, 3])] and found.tolist() == [1, 2, 3]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("make", [lambda x: x.to_sparse(), lambda x: x.to_sparse_csr()])
def test_sparse_tensors_are_no_parameters(form, make):
    """Their class would be lost, and their elements with it."""
    x = make(flambeau.eye(2))
    for kind in (nn.Parameter, nn.Buffer):
        with pytest.raises(TypeError, match="sparse tensors cannot be one"):
            kind(x)
    with pytest.raises(TypeError, match="cannot be a Parameter"):
        x.as_subclass(nn.Parameter)
    assert x.as_subclass(flambeau.Tensor) is x


# --- what PyTorch marks as conjugate or negative: flambeau has no such views, so the marks are put into files ---


def marked(x, marks, form):
    """A file of a tensor that says of it {"conj": True} or {"neg": True}, as PyTorch's do of views that are computed when read."""
    file = io.BytesIO()
    flambeau.save(x, file, **FORMATS[form])
    content = file.getvalue()
    entries = test_hostile.opened(content)
    text = entries["archive/data.pkl"] if entries else content
    hooks = b"ccollections\nOrderedDict\n"
    at = text.index(b"R", text.index(hooks)) + 1  # behind the hooks, which the metadata follows
    while text[at : at + 1] == b"q":  # their number in the memo
        at += 2
    written = b"}(" + b"".join(pickle.dumps(m, 2)[2:-1].partition(b"q")[0] + b"\x88" for m in marks) + b"u"
    text = text[:at] + written + text[at:]
    if not entries:
        return io.BytesIO(text)
    entries["archive/data.pkl"] = text
    return io.BytesIO(test_hostile.closed(entries))


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize(
    "name, marks",
    [("complex64", ["conj"]), ("complex128", ["conj", "neg"]), ("float32", ["neg"]), ("int16", ["neg"])],
)
def test_marks_of_lazy_views(name, marks, weights_only, form, poisoned):
    numbers = np.array([[1 + 2j, -3.5j], [0.25, 7 - 1j]] if "complex" in name else [[1, -2], [3, 0]], name)
    wanted = numbers.conj() if "conj" in marks else numbers
    wanted = -wanted if "neg" in marks else wanted
    for turn in (lambda x: x, lambda x: x.T, lambda x: x[:, 1]):
        file = marked(turn(flambeau.from_numpy(numbers)), marks, form)
        found = flambeau.load(file, weights_only=weights_only)
        assert found.dtype == getattr(flambeau, name) and clean(found)
        np.testing.assert_array_equal(found.numpy(), turn(wanted))


# --- nobody else's memory in what is read ---


def samples():
    made = {
        "dense": {"x": of("float32"), "y": of("int8")[1], "weight": nn.Parameter(of("float64"))},
        "sparse": [sparse("float32")[layout] for layout in LAYOUTS],
        "nested": checkpoints.nested(flambeau),
    }
    for form, options in FORMATS.items():
        for name, obj in made.items():
            file = io.BytesIO()
            flambeau.save(obj, file, **options)
            yield f"{form} {name}", file.getvalue()
        yield f"{form} marked", marked(flambeau.from_numpy(np.array([1 + 2j, 3])), ["conj"], form).getvalue()
    for name in ("tensors.legacy", "old_tensors.tar", "parameters.legacy"):
        yield name, (checkpoints.FOLDER / f"{name}.pt").read_bytes()
    yield "first", (checkpoints.FOLDER.parent / "first_format.fl").read_bytes()


def search(seed, calls):
    """How many damaged files were read; AssertionError for one that shows memory which it did not fill."""
    rng, read = random.Random(seed), 0
    files = list(samples())
    for i in range(calls):
        name, content = files[i % len(files)]
        entries = test_hostile.opened(content)
        if entries is not None and rng.random() < 0.8:
            pickled = next(n for n in entries if n.endswith(("data.pkl", "structure.json")))
            entries[pickled] = test_hostile.mutated(rng, entries[pickled])
            content = test_hostile.closed(entries)
        else:
            content = test_hostile.mutated(rng, content)
        try:
            found = flambeau.load(io.BytesIO(content))
        except test_hostile.REFUSED:
            continue
        read += 1
        assert clean(found), (seed, i, name)
    return read


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(2))
def test_damaged_files_show_no_other_memory(seed, poisoned):
    assert search(seed, 1500) > 50


def test_the_poison_is_seen(poisoned, monkeypatch):
    """The search itself: where the bytes are not filled in, it says so."""
    from flambeau._files import archive

    monkeypatch.setattr(archive.Source, "fill", lambda self, *args: None)
    monkeypatch.setattr(archive.Archive, "fill", lambda self, *args: None)
    for form in FORMATS:
        file = io.BytesIO()
        flambeau.save(flambeau.ones(4), file, **FORMATS[form])
        file.seek(0)
        assert not clean(flambeau.load(file))
