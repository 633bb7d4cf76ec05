"""Work is shared out in parts enough for 64 threads, and the parts make the whole."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau
from flambeau.core.base import parallel

F = flambeau.nn.functional


@pytest.fixture(autouse=True)
def _threads_as_before():
    before = flambeau.get_num_threads()
    yield
    flambeau.set_num_threads(before)


# Shapes whose outer dimensions cannot merge: a broadcast channel between them, or every second element.
SHAPES = [(2, 64, 3136), (3, 5, 40, 300), (7, 1000, 9), (2, 2, 2, 9000), (1, 3, 70001), (2, 33, 17, 5, 40)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("cut", ["channel", "strided", "turned"])
def test_lines_of_few_outer_places(shape, cut):
    rng = np.random.default_rng(len(shape))
    x, y = rng.standard_normal(shape), rng.standard_normal(shape[1])
    each = (1, -1) + (1,) * (len(shape) - 2)
    calls = {
        "channel": (lambda t, u: t * u.reshape(each) + t, lambda a, b: a * b.reshape(each) + a),
        "strided": (lambda t, u: t[..., ::2] + t[..., 1::2], lambda a, b: a[..., ::2] + a[..., 1::2]),
        "turned": (lambda t, u: t.transpose(0, -1) - 1.0, lambda a, b: a.swapaxes(0, -1) - 1.0),
    }
    ours, theirs = calls[cut]
    if cut == "strided" and shape[-1] % 2:
        x = x[..., :-1].copy()
    for threads in (1, 2, 3, 64):
        flambeau.set_num_threads(threads)
        found = ours(flambeau.from_numpy(x), flambeau.from_numpy(y))
        np.testing.assert_array_equal(found.numpy(), theirs(x, y))


@pytest.mark.parametrize("shape", SHAPES)
def test_elements_keep_their_numbers(shape):
    """A kernel that counts elements draws the same numbers, however they are shared out."""
    found = []
    for threads in (1, 2, 64):
        flambeau.set_num_threads(threads)
        flambeau.manual_seed(5)
        x = flambeau.ones(shape).transpose(0, -1)
        found.append(F.dropout(x * 2, 0.4).numpy().tobytes())
    assert found[0] == found[1] == found[2]


def large():
    x, m, image = flambeau.randn(1 << 22), flambeau.randn(2048, 2048), flambeau.randn(16, 64, 56, 56)
    few, places = flambeau.randn(8, 1 << 18), flambeau.randint(0, 2048, (2048,))
    channel = image[0, :, 0, 0]
    return {
        "add": lambda: x + x,
        "exp": lambda: x.exp(),
        "row": lambda: m + m[0],
        "column": lambda: m * m[:, :1],
        "turned": lambda: m.t().contiguous(),
        "channels": lambda: F.batch_norm(image, channel, channel.abs(), None, None),
        "convert": lambda: x.double(),
        "sum": lambda: x.sum(),
        "sum of rows": lambda: m.sum(1),
        "sum of columns": lambda: m.sum(0),
        "argmax": lambda: x.argmax(),
        "var": lambda: x.var(),
        "softmax": lambda: m.softmax(1),
        "layer_norm": lambda: F.layer_norm(m, (2048,)),
        "batch_norm": lambda: F.batch_norm(image, None, None, None, None, True),
        "cumsum": lambda: x.cumsum(0),
        "cumsum of rows": lambda: m.cumsum(1),
        "sort of rows": lambda: m.sort(1),
        "index": lambda: m[places],
        "gather": lambda: m.gather(0, places[:, None].expand(2048, 2048)),
        "masked_fill": lambda: m.masked_fill(m > 0, 0.0),
        "flip": lambda: m.flip(1),
        "cat": lambda: flambeau.cat([m, m], 1),
        "dropout": lambda: F.dropout(x, 0.3),
        "max_pool2d": lambda: F.max_pool2d(image, 3, 2, 1),
    } | {name: (parts, f) for name, parts, f in (
        ("two images", 8, lambda: F.batch_norm(image[:2], channel, channel.abs(), None, None)),  # 400,000 elements
        ("few rows", 8, lambda: few.softmax(1)),  # a row's folds belong to one thread
        ("sum of few rows", 16, lambda: few.sum(1)),  # in blocks of 16384
        ("columns", 32, lambda: m.softmax(0)),  # 64 side by side
        ("cumsum of columns", 16, lambda: m.cumsum(0)),  # 128 side by side
        ("zeros", 32, lambda: flambeau.zeros(1 << 22)),  # in parts of half a megabyte
        ("randn", 32, lambda: flambeau.randn(1 << 22)),
    )}  # fmt: skip


LARGE = large()


@pytest.mark.parametrize("name", LARGE)
def test_parts_enough_for_64_threads(name):
    """Four million elements; where there can be no 64 parts, as many as stand there."""
    given = LARGE[name]
    least, f = given if isinstance(given, tuple) else (64, given)
    flambeau.set_num_threads(64)
    f()
    parallel._max_tasks()
    f()
    assert least <= parallel._max_tasks() <= 4 * 64 + 1


def test_parts_are_asked_once():
    flambeau.set_num_threads(4)
    flambeau.ones(1 << 20) + 1.0
    assert parallel._max_tasks() > 1
    assert parallel._max_tasks() == 0
    flambeau.set_num_threads(1)
    flambeau.ones(1 << 20) + 1.0
    assert parallel._max_tasks() == 0
