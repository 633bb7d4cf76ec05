"""nn.utils.rnn: padded, packed and listed sequences, and recurrent layers over packed ones, against one sequence at a time."""

from __future__ import annotations

import copy
import itertools
import pickle

import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.nn.utils import rnn

SETS = [[3], [1, 4, 2], [2, 2, 2], [5, 1, 1, 3, 5], [1, 1]]


def sequences(lengths, *sizes, dtype=flambeau.float64):
    generator = flambeau.Generator().manual_seed(sum(lengths))
    return [flambeau.rand(n, *sizes, generator=generator, dtype=dtype) for n in lengths]


def packed_rows(parts):
    """The definition: step after step, of the sequences that have it, the longest first."""
    order = sorted(range(len(parts)), key=lambda i: -len(parts[i]))
    steps = range(max(map(len, parts)))
    return [parts[i][t].tolist() for t in steps for i in order if t < len(parts[i])]


@pytest.mark.parametrize("lengths", SETS, ids=str)
@pytest.mark.parametrize("sizes", [(), (3,), (2, 2)], ids=str)
@pytest.mark.parametrize("batch_first", [False, True])
def test_there_and_back(lengths, sizes, batch_first):
    parts = sequences(lengths, *sizes)
    padded = rnn.pad_sequence(parts, batch_first=batch_first, padding_value=7.0)
    longest, n = max(lengths), len(lengths)
    assert padded.shape == ((n, longest) if batch_first else (longest, n)) + sizes
    for i, part in enumerate(parts):
        whole = padded[i] if batch_first else padded[:, i]
        assert whole[: len(part)].equal(part) and bool((whole[len(part) :] == 7).all())
    packed = rnn.pack_padded_sequence(padded, lengths, batch_first, enforce_sorted=False)
    assert packed.data.tolist() == packed_rows(parts)
    assert packed.batch_sizes.tolist() == [sum(n > t for n in lengths) for t in range(longest)]
    order = packed.sorted_indices.tolist()
    assert [lengths[i] for i in order] == sorted(lengths, reverse=True)
    assert [order[i] for i in packed.unsorted_indices.tolist()] == list(range(n))
    again, found = rnn.pad_packed_sequence(packed, batch_first, padding_value=7.0)
    assert again.equal(padded) and found.tolist() == lengths
    more, _ = rnn.pad_packed_sequence(packed, batch_first, -1.0, total_length=longest + 2)
    assert more.shape[batch_first] == longest + 2 and float(more.select(int(batch_first), -1).max()) == -1
    for split in (
        rnn.unpack_sequence(packed),
        rnn.unpad_sequence(padded, flambeau.tensor(lengths), batch_first),
        rnn.unpack_sequence(rnn.pack_sequence(parts, enforce_sorted=False)),
    ):
        assert all(a.equal(b) for a, b in zip(split, parts, strict=True))
    assert padded.shape[batch_first] == longest  # nothing was turned in place


def test_sorted_batches_have_no_indices():
    packed = rnn.pack_sequence(sequences([4, 2, 2]))
    assert packed.sorted_indices is None and packed.unsorted_indices is None
    assert packed.data.tolist() == packed_rows(sequences([4, 2, 2]))


def test_padding_on_the_left():
    parts = [flambeau.tensor([1, 2, 3]), flambeau.tensor([4])]
    assert rnn.pad_sequence(parts, True, padding_side="left").tolist() == [[1, 2, 3], [0, 0, 4]]
    assert rnn.pad_sequence(parts, False, 9, "left").tolist() == [[1, 9], [2, 9], [3, 4]]


def test_what_pad_sequence_takes():
    first = flambeau.ones(2, 3, dtype=flambeau.float16)
    assert rnn.pad_sequence([first, flambeau.ones(3, 1)]).shape == (3, 2, 3)  # sizes of 1 are repeated
    assert rnn.pad_sequence([first, flambeau.ones(3, 3)]).dtype is flambeau.float16
    assert rnn.pad_sequence(flambeau.ones(3, 4, 2)).shape == (4, 3, 2)
    assert rnn.pad_sequence(iter([first[:0], first[:0]])).shape == (0, 2, 3)
    assert (
        rnn.pad_sequence([flambeau.ones(1, dtype=flambeau.int64)], padding_value=1.5).dtype is flambeau.int64
    )


def test_moving_rows_has_gradients():
    parts = [p.requires_grad_() for p in sequences([2, 4, 1], 2)]
    functions = (
        lambda *x: rnn.pad_sequence(x, padding_value=3.0),
        lambda *x: rnn.pack_sequence(x, enforce_sorted=False).data,
        lambda *x: rnn.pad_packed_sequence(rnn.pack_sequence(x, enforce_sorted=False))[0],
    )
    for function in functions:
        assert flambeau.autograd.gradcheck(function, parts)
        assert flambeau.autograd.gradgradcheck(lambda *x, f=function: f(*x) ** 2, parts)


# ---------------------------------------------------------------- recurrent layers


def tuple_of(state):
    return state if isinstance(state, tuple) else (state,)


def one_at_a_time(module, parts, state):
    """Outputs and final states, sequence by sequence."""
    outputs, finals = [], []
    for i, part in enumerate(parts):
        given = tuple(s[:, i] for s in state)
        output, final = module(part, given if isinstance(module, nn.LSTM) else given[0])
        outputs.append(output)
        finals.append(tuple_of(final))
    return outputs, [flambeau.stack(f, 1) for f in zip(*finals, strict=True)]


KINDS = [
    (kind, {"num_layers": layers, "bidirectional": both, **more})
    for kind, layers, both in itertools.product(("RNN", "LSTM", "GRU"), (1, 2), (False, True))
    for more in ({}, {"bias": False}, {"proj_size": 2})
    if kind == "LSTM" or "proj_size" not in more
]


@pytest.mark.parametrize("kind, options", KINDS, ids=str)
@pytest.mark.parametrize("lengths", SETS[1:4], ids=str)
def test_a_packed_batch_is_its_sequences(kind, options, lengths):
    module = getattr(nn, kind)(3, 4, dtype=flambeau.float64, **options)
    places, n = len(module.all_weights), len(lengths)
    sizes = [options.get("proj_size", 4), 4][: 1 + (kind == "LSTM")]
    state = [flambeau.randn(places, n, s, dtype=flambeau.float64, requires_grad=True) for s in sizes]
    parts = [p.requires_grad_() for p in sequences(lengths, 3)]
    inputs = [*parts, *state, *module.parameters()]

    packed = rnn.pack_sequence(parts, enforce_sorted=False)
    output, final = module(packed, tuple(state) if kind == "LSTM" else state[0])
    assert type(output) is rnn.PackedSequence and output.batch_sizes is packed.batch_sizes
    assert output.sorted_indices is packed.sorted_indices
    found = [*rnn.unpack_sequence(output), *tuple_of(final)]
    outputs, finals = one_at_a_time(module, parts, state)
    wanted = [*outputs, *finals]
    for a, b in zip(found, wanted, strict=True):
        assert a.shape == b.shape and flambeau.allclose(a, b, atol=1e-12)
    weights = [flambeau.randn_like(w) for w in wanted]
    for a, b in zip(
        flambeau.autograd.grad(found, inputs, weights),
        flambeau.autograd.grad(wanted, inputs, weights),
        strict=True,
    ):
        assert flambeau.allclose(a, b, atol=1e-12)
    with flambeau.no_grad():
        assert flambeau.allclose(module(packed)[0].data[0], module(parts[packed.sorted_indices[0]])[0][0])


def test_derivatives_of_any_order_and_mode():
    parts = [p.requires_grad_() for p in sequences([2, 3, 1], 2)]
    for kind in (nn.RNN, nn.LSTM, nn.GRU):
        module = kind(2, 2, bidirectional=True, dtype=flambeau.float64)

        def run(*parts, module=module):
            output, state = module(rnn.pack_sequence(parts, enforce_sorted=False))
            return output.data, *tuple_of(state)

        assert flambeau.autograd.gradcheck(run, parts, check_forward_ad=True)
        assert flambeau.autograd.gradgradcheck(lambda *p, run=run: run(*p)[0], parts)


def test_dropout_between_layers():
    module = nn.GRU(3, 4, num_layers=2, dropout=1.0)
    packed = rnn.pack_sequence(sequences([2, 3], 3, dtype=flambeau.float32), enforce_sorted=False)
    zeros = packed._replace(data=flambeau.zeros_like(packed.data))
    assert not module(packed)[0].data.equal(module.eval()(packed)[0].data)
    module.train()
    assert module(packed)[0].data.equal(
        module(zeros)[0].data
    )  # nothing of the input reaches the second layer


def test_an_empty_batch_that_is_padded():
    for kind in (nn.RNN, nn.LSTM, nn.GRU):
        output, _ = kind(3, 4, bidirectional=True)(flambeau.zeros(5, 0, 3))
        assert output.shape == (5, 0, 8)
        output.sum().backward()


def test_meta_tensors_have_shapes():
    module = nn.LSTM(3, 4, bidirectional=True, device="meta")
    packed = rnn.pack_sequence(sequences([2, 3], 3, dtype=flambeau.float32), enforce_sorted=False)
    output, (hidden, cell) = module(packed.to("meta"))
    assert output.data.shape == (5, 8) and output.data.is_meta and hidden.shape == cell.shape == (2, 2, 4)


# ---------------------------------------------------------------- the class


def test_a_packed_sequence_is_a_named_tuple():
    packed = rnn.pack_sequence(sequences([1, 2], dtype=flambeau.float32), enforce_sorted=False)
    assert packed._fields == ("data", "batch_sizes", "sorted_indices", "unsorted_indices")
    data, batch_sizes, order, back = packed
    assert rnn.PackedSequence((data, batch_sizes), sorted_indices=order).unsorted_indices.equal(back)
    made = [copy.copy(packed), copy.deepcopy(packed)]
    made += [pickle.loads(pickle.dumps(packed, p)) for p in range(pickle.HIGHEST_PROTOCOL + 1)]
    for same in made:
        assert type(same) is rnn.PackedSequence
        assert all(a.equal(b) for a, b in zip(same, packed, strict=True))


def test_moving_and_casting():
    packed = rnn.pack_sequence(sequences([1, 2], dtype=flambeau.float32), enforce_sorted=False)
    assert packed.to(flambeau.float32) is packed and packed.cpu() is packed and packed.float() is packed
    for name, dtype in (
        *(("double", flambeau.float64), ("half", flambeau.float16), ("long", flambeau.int64)),
        *(
            ("int", flambeau.int32),
            ("short", flambeau.int16),
            ("char", flambeau.int8),
            ("byte", flambeau.uint8),
        ),
    ):
        cast = getattr(packed, name)()
        assert type(cast) is rnn.PackedSequence and cast.data.dtype is dtype
        assert cast.sorted_indices.dtype is flambeau.int64
    assert not packed.is_cuda and not packed.is_pinned()
    moved = packed.to("meta", non_blocking=True)
    assert moved.data.is_meta and moved.sorted_indices.is_meta and moved.unsorted_indices.is_meta
    assert moved.batch_sizes.device.type == "cpu"


X = flambeau.arange(24.0).reshape(4, 3, 2)


@pytest.mark.parametrize(
    "lengths, error, message",
    [
        ([4, 2, 0], RuntimeError, "Length of all samples has to be greater than 0"),
        ([4, 2, -1], RuntimeError, "Length of all samples has to be greater than 0"),
        ([5, 2, 1], RuntimeError, "at most the length of the padded sequences, 4, but found 5"),
        ([1, 2, 4], RuntimeError, "must be sorted in decreasing order when `enforce_sorted` is True"),
        ([4, 2], RuntimeError, r"but got 2 \(batch_size=3\)"),
        ([4, 2, 1, 1], RuntimeError, r"but got 4 \(batch_size=3\)"),
        ([[4, 2, 1]], RuntimeError, "should be a 1D CPU int64 tensor, but got 2D cpu"),
        (flambeau.tensor([4, 2, 1], device="meta"), RuntimeError, "1D CPU int64 tensor, but got 1D meta"),
        (None, TypeError, "NoneType"),
    ],
    ids=str,
)
def test_bad_lengths(lengths, error, message):
    with pytest.raises(error, match=message):
        rnn.pack_padded_sequence(X, lengths)
    if "sorted" not in message:
        with pytest.raises(error, match=message):
            rnn.pack_padded_sequence(X, lengths, enforce_sorted=False)


def test_bad_input():
    tensor = flambeau.tensor
    good = rnn.pack_padded_sequence(X, [1, 4, 2], enforce_sorted=False)
    ones = [flambeau.ones(2, 3), flambeau.ones(2, 4)]
    for call, error, message in (
        (lambda: rnn.pack_padded_sequence(X[:, :0], []), RuntimeError, "Cannot pack empty tensors"),
        (lambda: rnn.pack_padded_sequence(X[:, :, :0], [4, 2, 1]), RuntimeError, "Cannot pack empty tensors"),
        (lambda: rnn.pack_padded_sequence(X[0, 0], [1, 1]), IndexError, "at least 2 dimensions, got 1"),
        (lambda: rnn.pack_padded_sequence([[1]], [1]), TypeError, "must be Tensor, not list"),
        (lambda: rnn.pad_packed_sequence(X), AttributeError, "batch_sizes"),
        (
            lambda: rnn.pad_packed_sequence(good, total_length=3),
            ValueError,
            "total_length=3 and max .* being 4",
        ),
        (lambda: rnn.pad_sequence([]), RuntimeError, "received an empty list of sequences"),
        (lambda: rnn.pad_sequence(3), RuntimeError, "Expected iterable for input sequences"),
        (lambda: rnn.pad_sequence([[1, 2]]), TypeError, "expected Tensor as element 0, but got list"),
        (lambda: rnn.pad_sequence([tensor(1.0)]), RuntimeError, "element 0 has none"),
        (lambda: rnn.pad_sequence(ones), RuntimeError, r"element 1 has the size \[2, 4\]"),
        (lambda: rnn.pad_sequence([ones[0], ones[0][0]]), RuntimeError, r"element 1 has the size \[3\]"),
        (lambda: rnn.pad_sequence(ones, padding_side="up"), RuntimeError, "one of left or right, but got up"),
        (lambda: rnn.pad_sequence([tensor([1])], padding_value="a"), TypeError, "str"),
        (
            lambda: rnn.unpad_sequence(X, tensor([1, 2])),
            ValueError,
            "as many lengths as sequences, 3, but got 2",
        ),
        (lambda: rnn.pack_sequence([]), RuntimeError, "empty list"),
        (lambda: rnn.pack_sequence(sequences([1, 0])), RuntimeError, "greater than 0"),
        (lambda: rnn.invert_permutation(tensor([3, 0, 1])), RuntimeError, "out of bounds"),
        (lambda: rnn.PackedSequence(X), AssertionError, "tuple of length 2"),
        (
            lambda: rnn.PackedSequence(X, flambeau.ones(1, device="meta")),
            ValueError,
            "batch_sizes should always be on CPU",
        ),
        (
            lambda: rnn.pad_packed_sequence(good._replace(unsorted_indices=tensor([0, 0, 1]))),
            RuntimeError,
            "must be a permutation of the 3 sequences",
        ),
    ):
        with pytest.raises(error, match=message):
            call()
    assert rnn.invert_permutation(None) is None


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_what_layers_refuse(kind):
    module, rows, tensor = getattr(nn, kind)(2, 5), flambeau.ones(3, 2), flambeau.tensor
    state = flambeau.zeros(1, 3, 5)
    for data, batch_sizes, message in (
        (rows, tensor([1, 2]), "must be positive and must not grow"),
        (rows, tensor([3, 0]), "must be positive and must not grow"),
        (rows, tensor([2, 2]), "sum up to the number of rows of data, 3, but their sum is 4"),
        (rows, tensor([1, 1]), "sum up to the number of rows of data, 3, but their sum is 2"),
        (rows, tensor([], dtype=flambeau.int64), "batch_sizes can not be empty"),
        (rows, tensor([2.0, 1.0]), "1D CPU int64 tensor"),
        (flambeau.ones(3, 4), tensor([2, 1]), "Expected 2, got 4"),
        (flambeau.ones(3), tensor([2, 1]), "must have 2 dimensions, got 1"),
    ):
        with pytest.raises(RuntimeError, match=message):
            module(rnn.PackedSequence(data, batch_sizes))
    packed = rnn.PackedSequence(rows, tensor([2, 1]))
    with pytest.raises(RuntimeError, match=r"size \(1, 2, 5\), got \[1, 3, 5\]"):
        module(packed, (state, state) if kind == "LSTM" else state)
    with pytest.raises(ValueError, match="does not match weight dtype"):
        module(packed.double())
    with pytest.raises(AttributeError, match="a Tensor or a PackedSequence, got tuple"):
        module(tuple(packed))


def test_a_packed_batch_computes_nothing_for_padding():
    """Rows behind the ends are seen by no product: what stands in the padding may be NaN."""
    padded = flambeau.ones(50, 4, 3)
    lengths = np.array([50, 2, 1, 1])
    for i, n in enumerate(lengths):
        padded[n:, i] = flambeau.nan
    for kind in (nn.RNN, nn.LSTM, nn.GRU):
        module = kind(3, 4)
        output, _ = module(rnn.pack_padded_sequence(padded, lengths))
        assert output.data.shape == (54, 4) and bool(output.data.isfinite().all())
        output.data.sum().backward()
        assert all(bool(p.grad.isfinite().all()) for p in module.parameters())
