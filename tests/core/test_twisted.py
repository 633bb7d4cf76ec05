"""mt19937 and PyTorch's stream: the generator against NumPy's and Python's, numbers against their documented transforms."""

from __future__ import annotations

import math
import os
import pickle
import random as python_random
import threading

import numpy as np
import pytest

import flambeau
from flambeau import backends


def words_of(seed: int, n: int) -> np.ndarray:
    """NumPy's mt19937, seeded as Matsumoto and Nishimura do."""
    source = np.random.MT19937()
    source._legacy_seeding(seed & 0xFFFFFFFF)
    return source.random_raw(n)


def doubles_of(words: np.ndarray) -> np.ndarray:
    """53 bits of each two words, the first of which is the upper half."""
    both = words[0::2] << np.uint64(32) | words[1::2]
    return (both & np.uint64(2**53 - 1)).astype(np.float64) * 2.0**-53


@pytest.fixture(autouse=True)
def pytorch_stream():
    before = backends.random.stream
    backends.random.stream = "pytorch"
    yield
    backends.random.stream = before


def generator(seed: int) -> flambeau.Generator:
    return flambeau.Generator().manual_seed(seed)


def bytes_of(state) -> bytes:
    return state.numpy().tobytes()


def test_known_answer():
    """The 10 000th number of std::mt19937 with its seed of 5489, which the C++ standard states ([rand.predef])."""
    g = generator(5489)
    flambeau.empty(9999, dtype=flambeau.int32).random_(generator=g)
    last = flambeau.empty(1, dtype=flambeau.int32).random_(generator=g).item()
    assert last == 4123659995 & 0x7FFFFFFF


@pytest.mark.parametrize("seed", [0, 5, 2**31, 2**32 + 5, 2**64 - 1])
def test_words(seed):
    drawn = flambeau.empty(3000, dtype=flambeau.int32).random_(generator=generator(seed))
    np.testing.assert_array_equal(drawn.numpy(), words_of(seed, 3000) & np.uint64(0x7FFFFFFF))


def test_uniform_numbers():
    words = words_of(3, 2000)
    single = flambeau.rand(2000, generator=generator(3)).numpy()
    np.testing.assert_array_equal(single, (words & np.uint64(0xFFFFFF)).astype(np.float32) * 2.0**-24)
    double = flambeau.rand(1000, generator=generator(3), dtype=flambeau.float64).numpy()
    np.testing.assert_array_equal(double, doubles_of(words))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_never_reach_the_end(dtype):
    made = flambeau.rand(200000, generator=generator(1), dtype=getattr(flambeau, dtype))
    assert made.max().item() < 1
    wide = flambeau.rand(200000, generator=generator(1)).to(getattr(flambeau, dtype))
    wide = flambeau.where(wide == 1, 0.0, wide.float())
    assert (made.float() == wide).all()


@pytest.mark.parametrize("span", [1, 2, 3, 1000, 2**24 + 7, 2**28 - 1, 2**28, 2**31 + 5, 2**40, 2**63 - 1])
def test_integers(span):
    """Ranges from 2^28 on take two words."""
    words = words_of(8, 2000)
    wide = (words[0::2] << np.uint64(32) | words[1::2]) if span >= 2**28 else words
    made = flambeau.randint(0, span, (1000,), generator=generator(8)).numpy()
    np.testing.assert_array_equal(made, (wide[:1000] % np.uint64(span)).astype(np.int64))


def test_the_whole_range():
    words = words_of(8, 20)
    made = flambeau.empty(10, dtype=flambeau.int64).random_(-(2**63), None, generator=generator(8)).numpy()
    both = words[0::2] << np.uint64(32) | words[1::2]
    np.testing.assert_array_equal(made, both.view(np.int64))


@pytest.mark.parametrize("n", [1, 2, 5, 626, 3000])
def test_randperm(n):
    words, order = words_of(4, n).tolist(), list(range(n))
    for i in range(n - 1):
        j = i + words[i] % (n - i)
        order[i], order[j] = order[j], order[i]
    assert flambeau.randperm(n, generator=generator(4)).tolist() == order
    assert flambeau.randperm(n, generator=generator(4), dtype=flambeau.float64).tolist() == order


def test_trials():
    u = doubles_of(words_of(6, 4000))
    for dtype in (flambeau.bool, flambeau.float32, flambeau.int64, flambeau.bfloat16):
        made = flambeau.empty(2000, dtype=dtype).bernoulli_(0.3, generator=generator(6))
        np.testing.assert_array_equal(made.to(flambeau.bool).numpy(), u < 0.3)
    chances = flambeau.linspace(0, 1, 50)
    u = (words_of(6, 50) & np.uint64(0xFFFFFF)).astype(np.float32) * 2.0**-24
    made = flambeau.bernoulli(chances, generator=generator(6))
    np.testing.assert_array_equal(made.numpy() == 1, u < chances.numpy())


def normals_by_16(u: np.ndarray) -> np.ndarray:
    pairs = u.reshape(-1, 2, 8)
    radius, angle = np.sqrt(-2 * np.log1p(-pairs[:, 0])), 2 * math.pi * pairs[:, 1]
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1).ravel()


@pytest.mark.parametrize(("dtype", "error"), [("float64", 1e-13), ("float32", 3e-6), ("bfloat16", 2e-2)])
@pytest.mark.parametrize("n", [16, 21, 640, 1033])
def test_normal_numbers_by_16(dtype, error, n):
    """Sizes that are no multiple of 16 draw their last 16 elements again."""
    words = words_of(11, 2 * n + 40)
    u = doubles_of(words) if dtype == "float64" else (words & np.uint64(0xFFFFFF)) * 2.0**-24
    wanted = normals_by_16(u[: n // 16 * 16])
    if n % 16:
        behind = n // 16 * 16 if dtype == "bfloat16" else n
        wanted = np.concatenate([wanted, np.zeros(n % 16)])
        wanted[n - 16 :] = normals_by_16(u[behind : behind + 16])
    made = flambeau.randn(n, generator=generator(11), dtype=getattr(flambeau, dtype))
    np.testing.assert_allclose(made.double().numpy(), wanted, rtol=error, atol=error)


def test_few_normal_numbers_come_in_pairs():
    """The second number of a pair waits for the next call, whatever its dtype is."""
    u = doubles_of(words_of(12, 8))
    radius, angle = np.sqrt(-2 * np.log1p(-u[1::2])), 2 * math.pi * u[0::2]
    wanted = np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1).ravel()
    g = generator(12)
    made = flambeau.randn(3, generator=g, dtype=flambeau.float64).numpy()
    np.testing.assert_allclose(made, wanted[:3], rtol=1e-14)
    assert flambeau.randn(1, generator=g).item() == pytest.approx(wanted[3], rel=1e-6)


def test_functions_of_uniform_numbers():
    u = doubles_of(words_of(13, 400))
    empty = flambeau.empty(200, dtype=flambeau.float64)
    for name, arguments, wanted in (
        ("exponential_", (1.7,), -np.log1p(-u) / 1.7),
        ("geometric_", (0.2,), np.ceil(np.log(u) / np.log1p(-0.2))),
        ("cauchy_", (0.5, 2.0), 0.5 + 2 * np.tan(math.pi * (u - 0.5))),
    ):
        made = getattr(empty, name)(*arguments, generator=generator(13)).numpy()
        np.testing.assert_allclose(made, wanted, rtol=1e-11)


def test_numbers_stay_in_their_tensor():
    """Every draw of every dtype between two others of the same memory: none writes beyond its elements."""
    names = (
        "bool",
        "uint8",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint16",
        "uint32",
        "float16",
        "bfloat16",
        "float32",
        "float64",
    )
    draws = (
        ("uniform_",), ("normal_",), ("log_normal_",), ("exponential_",), ("cauchy_",), ("geometric_", 0.3), ("bernoulli_", 0.3),
        ("random_",), ("random_", 2), ("bernoulli_", flambeau.linspace(0, 1, 37)),
    )  # fmt: skip
    done = 0
    for name in names:
        for draw, *arguments in draws:
            memory = flambeau.zeros(137, dtype=getattr(flambeau, name))
            try:
                getattr(memory[50:87], draw)(*arguments, generator=generator(3))
            except NotImplementedError:
                continue
            assert (memory[:50] == 0).all() and (memory[87:] == 0).all(), (name, draw)
            done += 1
    assert done > 70


def test_elements_are_drawn_as_they_lie_in_memory():
    plain = flambeau.rand(60, generator=generator(2))
    turned = flambeau.empty(3, 4, 5).permute(2, 0, 1).uniform_(generator=generator(2))
    assert (turned.permute(1, 2, 0).reshape(-1) == plain).all()
    apart = flambeau.zeros(6, 20)[:, ::2].uniform_(generator=generator(2))
    assert (apart.reshape(-1) == plain).all()
    normal = flambeau.empty(40, 2)[:, 0].normal_(generator=generator(2))  # apart: one by one, in pairs
    pairs = [flambeau.randn(2, generator=g) for g in [generator(2)] for _ in range(20)]
    assert (normal == flambeau.cat(pairs)).all()


def test_ranges_that_a_dtype_cannot_hold():
    for draw in (
        lambda: flambeau.empty(3, dtype=flambeau.bfloat16).random_(
            2**24 + 1, 2**24 + 9, generator=generator(1)
        ),
        lambda: flambeau.empty(3).uniform_(-3e38, 1e38, generator=generator(1)),
    ):
        with pytest.raises(RuntimeError, match="expects"):
            draw()


def test_nothing_is_drawn_for_no_elements():
    g = generator(1)
    before = bytes_of(g.get_state())
    for draw in ("uniform_", "normal_", "random_", "bernoulli_", "exponential_"):
        getattr(flambeau.empty(0, 3), draw)(generator=g)
    flambeau.empty(5, device="meta").uniform_()
    flambeau.randperm(1, generator=g)
    assert bytes_of(g.get_state()) == before


def python_state(state: bytes) -> tuple:
    """The same place in Python's own mt19937."""
    left, next_word = int.from_bytes(state[8:12], "little"), int.from_bytes(state[16:24], "little")
    words = np.frombuffer(state[24 : 24 + 8 * 624], np.uint64)
    return 3, (*map(int, words), 624 if left == 1 else next_word), None


@pytest.mark.parametrize("n", [0, 1, 623, 624, 625, 2000])
def test_states_are_laid_out_as_pytorchs(n):
    g = generator(2**40 + 9)
    flambeau.rand(n, generator=g)
    state = bytes_of(g.get_state())
    assert len(state) == 5056 and int.from_bytes(state[:8], "little") == 2**40 + 9
    assert int.from_bytes(state[12:16], "little") == 1
    twin = python_random.Random()
    twin.setstate(python_state(state))
    drawn = flambeau.empty(700, dtype=flambeau.int32).random_(generator=g).tolist()
    assert drawn == [twin.getrandbits(32) & 0x7FFFFFFF for _ in range(700)]


def test_states_continue():
    g = generator(5)
    flambeau.randn(3, generator=g)  # a normal number waits
    state = g.get_state()
    wanted = flambeau.randn(7, generator=g)
    philox = flambeau.Generator()
    backends.random.stream = "philox"
    for other in (
        flambeau.Generator().set_state(state),
        philox.set_state(state),
        pickle.loads(pickle.dumps(philox)),
    ):
        if other.get_state().tolist() != state.tolist():
            other.set_state(state)
        assert (flambeau.randn(7, generator=other.clone_state()) == wanted).all()
        assert other.initial_seed() == 5
    natively = flambeau.Generator().manual_seed(1)
    assert natively.get_state().shape == (16,)
    assert flambeau.Generator().set_state(state).set_state(natively.get_state()).get_state().shape == (16,)


def test_wrong_states_leave_the_generator():
    g = generator(5)
    before = bytes_of(g.get_state())
    with pytest.raises(RuntimeError, match="Invalid mt19937 state"):
        g.set_state(flambeau.zeros(5056, dtype=flambeau.uint8))
    with pytest.raises(RuntimeError, match=r"\[5056\]"):
        g.set_state(flambeau.zeros(5055, dtype=flambeau.uint8))
    with pytest.raises(RuntimeError, match="does not use offset"):
        g.get_offset()
    assert bytes_of(g.get_state()) == before


def test_the_switch():
    own = flambeau.Generator()
    flambeau.manual_seed(4)
    assert len(flambeau.get_rng_state()) == 5056
    wanted = flambeau.rand(3)
    backends.random.stream = "philox"
    assert flambeau.initial_seed() == 4 and len(flambeau.get_rng_state()) == 16
    assert (flambeau.rand(3, generator=own.manual_seed(4)) == wanted).all()  # made before: its stream stays
    assert len(flambeau.Generator().get_state()) == 16
    with pytest.raises(ValueError, match="'philox' or 'pytorch'"):
        backends.random.stream = "mersenne"


def test_threads_share_a_generator():
    """Each call draws its numbers in one piece."""
    g, n = generator(9), 50_000
    made = [flambeau.empty(n) for _ in range(8)]
    threads = [threading.Thread(target=t.uniform_, kwargs={"generator": g}) for t in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wanted = flambeau.rand(8 * n, generator=generator(9)).view(8, n)
    firsts = {t[0].item(): t for t in made}
    assert all((firsts[row[0].item()] == row).all() for row in wanted)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_draws_while_another_thread_drew():
    g, big = generator(9), flambeau.empty(30_000_000)
    thread = threading.Thread(target=big.uniform_, kwargs={"generator": g})
    thread.start()
    child = os.fork()
    if child == 0:
        flambeau.rand(3, generator=g)
        os._exit(0)
    thread.join()
    assert os.waitpid(child, 0)[1] == 0


def test_history_ends_where_numbers_are_drawn():
    x = flambeau.ones(20, requires_grad=True)
    y = x * 2
    y.uniform_(generator=generator(1))
    (y * 3).sum().backward()
    assert x.grad is None or (x.grad == 0).all()
    assert (y.detach() == flambeau.rand(20, generator=generator(1))).all()
    with pytest.raises(RuntimeError, match="leaf"):
        x.uniform_()


def test_dropout_draws_a_trial_for_each_element():
    flambeau.manual_seed(3)
    made = flambeau.nn.functional.dropout(flambeau.ones(300), 0.4)
    np.testing.assert_array_equal(made.numpy() != 0, doubles_of(words_of(3, 600)) < 1 - 0.4)
