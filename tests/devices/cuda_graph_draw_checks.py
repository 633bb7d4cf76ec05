"""What `test_cuda_host.py` runs in a process of its own, on the fake driver: random numbers that a graph's replays draw."""

from __future__ import annotations

import gc

import fake_cuda
import pytest

import flambeau
from flambeau.core.make.random import begin_capture
from flambeau.operations.random import sampled

fake = fake_cuda.install()
cuda = flambeau.cuda


@pytest.fixture(autouse=True)
def _settled():
    yield
    gc.collect()
    cuda.synchronize()
    assert fake.graphs == 0 and not cuda.is_current_stream_capturing()


def _captured(draw):
    made = cuda.CUDAGraph()
    with cuda.graph(made):
        result = draw()
    return made, result


RATES = flambeau.linspace(0.1, 40, 300, device="cuda")

DRAWS = {
    "uniform": lambda: flambeau.rand(700, device="cuda"),
    "few": lambda: flambeau.rand(3, device="cuda"),
    "whole groups": lambda: flambeau.rand(2, 256, device="cuda"),
    "float64": lambda: flambeau.rand(700, dtype=flambeau.float64, device="cuda"),
    "normal": lambda: flambeau.randn(300, device="cuda"),
    "complex": lambda: flambeau.randn(30, dtype=flambeau.complex64, device="cuda"),
    "half": lambda: flambeau.randn(300, dtype=flambeau.float16, device="cuda"),
    "exponential": lambda: flambeau.empty(300, device="cuda").exponential_(2.0),
    "integers": lambda: flambeau.randint(-5, 60, (300,), device="cuda"),
    "wide integers": lambda: flambeau.randint(-(1 << 62), 1 << 62, (300,), device="cuda"),
    "bernoulli": lambda: flambeau.empty(300, device="cuda").bernoulli_(0.3),
    "dropout": lambda: flambeau.nn.functional.dropout(flambeau.ones(300, device="cuda"), 0.4),
    "gamma": lambda: sampled.standard_gamma(RATES),
    "binomial": lambda: flambeau.binomial(RATES.floor(), RATES / 80),
    "no elements": lambda: flambeau.rand(0, device="cuda"),
    "a strided view": lambda: flambeau.zeros(6, 50, device="cuda")[:, ::2].normal_(),
}


@pytest.mark.parametrize("name", DRAWS)
def test_replays_draw_what_calls_would_draw(name):
    draw = DRAWS[name]
    cuda.manual_seed(11)
    expected = [draw().cpu() for _ in range(3)]
    state = cuda.get_rng_state()
    cuda.manual_seed(11)
    made, result = _captured(draw)
    assert cuda.get_rng_state().tolist()[8:] == [0] * 8  # the capture itself takes none
    for e in expected:
        made.replay()
        flambeau.testing.assert_close(result.cpu(), e, rtol=0, atol=0)
    assert cuda.get_rng_state().equal(state)
    cuda.manual_seed(11)  # a seed between replays counts
    made.replay()
    flambeau.testing.assert_close(result.cpu(), expected[0], rtol=0, atol=0)
    del result


def test_several_draws_of_a_graph_and_calls_between_its_replays():
    draw = lambda: (flambeau.rand(300, device="cuda"), flambeau.randn(5, device="cuda"))
    cuda.manual_seed((1 << 63) + 9)
    expected = [[x.cpu() for x in draw()] for _ in range(3)]
    cuda.manual_seed((1 << 63) + 9)
    made, result = _captured(draw)
    made.replay()
    assert all(a.cpu().equal(b) for a, b in zip(result, expected[0], strict=True))
    assert all(a.cpu().equal(b) for a, b in zip(draw(), expected[1], strict=True))
    made.replay()
    assert all(a.cpu().equal(b) for a, b in zip(result, expected[2], strict=True))
    cuda.default_generators[0].set_offset((1 << 64) - 3)  # the counter goes round
    made.replay()
    cuda.default_generators[0].set_offset((1 << 64) - 3)
    assert result[0].equal(draw()[0])


def test_a_generator_of_ones_own():
    own = flambeau.Generator("cuda").manual_seed(3)
    expected = [flambeau.rand(4, device="cuda", generator=own).cpu() for _ in range(2)]
    own.manual_seed(3)
    default = cuda.get_rng_state()
    made = cuda.CUDAGraph()
    made.register_generator_state(own)
    made.register_generator_state(own)
    with cuda.graph(made):
        x = flambeau.rand(4, device="cuda", generator=own)
    for e in expected:
        made.replay()
        assert x.cpu().equal(e)
    assert cuda.get_rng_state().equal(default)
    with pytest.raises(RuntimeError, match="before the capture begins"):
        made.register_generator_state(own)
    other = cuda.CUDAGraph()
    with pytest.raises(TypeError, match="generator must be a Generator, not int"):
        other.register_generator_state(1)
    with pytest.raises(RuntimeError, match="one of a CUDA device, got cpu"):
        other.register_generator_state(flambeau.Generator())
    with cuda.graph(other):
        y = x + 1
        with pytest.raises(RuntimeError, match=r"register_generator_state\(\) must be called"):
            flambeau.rand(4, device="cuda", generator=own)
    other.replay()
    assert y.cpu().equal(expected[1] + 1)


def test_what_a_capture_refuses_of_its_generator():
    own = cuda.default_generators[0]
    own.manual_seed(7)
    made = cuda.CUDAGraph()
    with cuda.graph(made):
        x = flambeau.rand(4, device="cuda")
        for use in (own.get_state, own.get_offset, cuda.get_rng_state, lambda: own.set_offset(0)):
            with pytest.raises(RuntimeError, match="cannot be called during CUDA graph capture"):
                use()
        with pytest.raises(RuntimeError, match="cannot be called during CUDA graph capture"):
            own.set_state(flambeau.zeros(16, dtype=flambeau.uint8))
        for use in (own.seed, lambda: cuda.manual_seed(8), lambda: flambeau.manual_seed(8)):
            with pytest.raises(RuntimeError, match="only be given its own seed 7"):
                use()
        cuda.manual_seed(7)
        with pytest.raises(RuntimeError, match="on the host during CUDA graph capture"):
            flambeau.randperm(4, device="cuda")
    own.set_offset(0)
    expected = flambeau.rand(4, device="cuda")
    own.set_offset(0)
    made.replay()
    assert x.equal(expected)


def test_a_capture_that_cannot_begin():
    own = flambeau.Generator("cuda")
    first, second = cuda.CUDAGraph(), cuda.CUDAGraph()
    for made in (first, second):
        made.register_generator_state(own)
    with cuda.graph(first):
        x = flambeau.rand(4, device="cuda", generator=own)
        with pytest.raises(RuntimeError, match="capture_begin.*during CUDA graph capture"):
            begin_capture(own, x)
    first.replay()
    assert x.unique().numel() == 4
    with cuda.device(1), cuda.graph(second, stream=cuda.Stream("cuda:1")):
        y = flambeau.rand(4, device="cuda:1", generator=own)
    second.replay()
    assert not y.cpu().equal(x.cpu())
    fake.set("limit", 1)
    third = cuda.CUDAGraph()
    with pytest.raises(cuda.OutOfMemoryError), cuda.graph(third):
        pass
    fake.set("limit", 0)
    with cuda.graph(third):
        z = x + 1
    third.replay()
    assert z.equal(x + 1)


def test_a_capture_that_failed_leaves_its_generator():
    cuda.manual_seed(5)
    expected = flambeau.rand(4, device="cuda")
    cuda.manual_seed(5)
    with pytest.raises(KeyError), cuda.graph(cuda.CUDAGraph()):
        flambeau.rand(4, device="cuda")
        raise KeyError
    with pytest.raises(RuntimeError, match="INVALIDATED"), cuda.graph(cuda.CUDAGraph()):
        flambeau.rand(4, device="cuda")
        with pytest.raises(RuntimeError, match="not permitted"):
            cuda.synchronize()
    assert flambeau.rand(4, device="cuda").equal(expected)


def test_dropout_in_graphed_callables():
    model = flambeau.nn.Sequential(flambeau.nn.Linear(6, 40), flambeau.nn.Dropout(0.5)).cuda()
    x = flambeau.randn(3, 6, device="cuda", requires_grad=True)
    graphed = cuda.make_graphed_callables(model, (x,))
    plain = type(model).forward
    zeros = []
    for _ in range(2):
        state = cuda.get_rng_state()
        y = graphed(x)
        (first,) = flambeau.autograd.grad(y.sum(), x)
        cuda.set_rng_state(state)
        z = plain(model, x)
        assert y.equal(z)
        flambeau.testing.assert_close(first, flambeau.autograd.grad(z.sum(), x)[0])
        zeros.append((y == 0).cpu())
    assert 20 < zeros[0].sum() < 100 and not zeros[0].equal(zeros[1])
    model.eval()
    assert (graphed(x) != 0).all()
    del graphed.forward, graphed


def test_trees_of_arguments():
    def both(pair, named):
        return {"sum": pair[0] + pair[1], "products": [pair[0] * named["scale"], named["scale"]]}

    ones = lambda grad=False: flambeau.ones(4, device="cuda", requires_grad=grad)
    graphed = cuda.make_graphed_callables(both, ((ones(True), ones()), {"scale": ones(True)}))
    x = flambeau.full((4,), 3.0, device="cuda", requires_grad=True)
    scale = flambeau.full((4,), 2.0, device="cuda", requires_grad=True)
    result = graphed((x, ones()), {"scale": scale})
    assert result["sum"].tolist() == [4.0] * 4 and result["products"][0].tolist() == [6.0] * 4
    (result["sum"] + result["products"][0] + result["products"][1]).sum().backward()
    assert x.grad.tolist() == [3.0] * 4 and scale.grad.tolist() == [4.0] * 4
    with pytest.raises(RuntimeError, match="must have the structure"):
        graphed([x, ones()], {"scale": scale})
    with pytest.raises(RuntimeError, match="argument 2 must be .*float32"):
        graphed((x, ones()), {"scale": scale.double()})
    with pytest.raises(TypeError, match=r"sample_args\[1\] must hold nothing but Tensors, not complex"):
        cuda.make_graphed_callables(both, ((ones(), ones()), {"scale": 2j}))
    with pytest.raises(TypeError, match="a callable must return a Tensor or a container of Tensors, not int"):
        cuda.make_graphed_callables(lambda x: (x, 1), (ones(),))
    with (
        flambeau.autocast("cuda"),
        pytest.raises(RuntimeError, match="does not support the autocast caching"),
    ):
        cuda.make_graphed_callables(both, ((ones(), ones()), {"scale": ones()}))
