"""What `test_cuda_host.py` runs in a process of its own, on the fake driver: the sanitizer of streams."""

from __future__ import annotations

import gc

import fake_cuda
import pytest

import flambeau
from flambeau.cuda import _sanitizer as csan

fake = fake_cuda.install()
cuda = flambeau.cuda


@pytest.fixture(autouse=True)
def _sanitized():
    cuda.init()
    csan.enable_cuda_sanitizer()
    yield
    csan.cuda_sanitizer.disable()
    assert not csan.cuda_sanitizer.enabled
    gc.collect()
    cuda.synchronize()


@pytest.fixture
def side():
    return cuda.Stream()


def zeros(n=4, device="cuda"):
    return flambeau.zeros(n, device=device)


def race(act, *args, **kwargs):
    """The one error that an action makes."""
    with pytest.raises(csan.CUDASanitizerErrors) as caught:
        act(*args, **kwargs)
    (error,) = caught.value.errors
    return error


def test_a_write_and_a_read(side, capsys):
    x = zeros()
    with cuda.stream(side):
        error = race(x.add, 1)
    assert isinstance(error, csan.UnsynchronizedAccessError) and isinstance(error, csan.SynchronizationError)
    assert error.data_ptr == x.data_ptr()
    assert (error.current_access.type, error.current_access.operator) == (csan.AccessType.READ, "add")
    assert (error.previous_access.type, error.previous_access.operator) == (csan.AccessType.WRITE, "zeros")
    assert (error.current_access.stream, error.previous_access.stream) == (side.cuda_stream, 0)
    text = capsys.readouterr().err
    assert text == str(error) + "\n"
    assert "add, reading from argument(s) self" in text and "zeros, writing to the output" in text
    assert text.count(f'{__file__}", line ') >= 5 and "return flambeau.zeros(n, device=device)" in text
    assert "/flambeau/cuda/" not in text and "The memory was allocated at:" in text


def test_reads_race_with_nothing_but_writes(side):
    x = zeros()
    cuda.synchronize()
    a = x + 1
    with cuda.stream(side):
        b = x + 1
        error = race(x.mul_, 2)
    assert error.previous_access.type is csan.AccessType.READ
    assert error.current_access.aliases == ["self"]
    cuda.synchronize()
    assert flambeau.equal(a, b)


def test_what_orders_two_streams(side):
    x = zeros()
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        x.add_(1)
        event = cuda.Event()
        event.record()
    cuda.current_stream().wait_event(event)
    x.add_(1)
    third = cuda.Stream()
    with cuda.stream(third):
        third.wait_event(event)
        error = race(x.add, 1)  # the event stands before the last write
        assert error.previous_access.operator == "add_" and error.previous_access.stream == 0
        third.wait_stream(cuda.default_stream())
        x.add(1)


def test_an_order_by_way_of_a_third_stream(side):
    third = cuda.Stream()
    x, y = zeros(), zeros()
    side.wait_stream(cuda.current_stream())
    third.wait_stream(side)
    with cuda.stream(third):
        x.add(y)


@pytest.mark.parametrize("wait", ["device", "stream", "event", "query", "item", "cpu", "event query"])
def test_what_the_host_has_waited_for(side, wait):
    x = zeros()
    event = cuda.Event()
    event.record()
    if wait == "device":
        cuda.synchronize()
    elif wait == "stream":
        cuda.current_stream().synchronize()
    elif wait == "event":
        event.synchronize()
    elif wait == "query":
        while not cuda.current_stream().query():
            pass
    elif wait == "item":
        x[0].item()
    elif wait == "cpu":
        x.cpu()
    else:
        while not event.query():
            pass
    with cuda.stream(side):
        x.add_(1)


def test_a_copy_that_nobody_waits_for(side):
    x = flambeau.ones(4).pin_memory().to("cuda", non_blocking=True)
    with cuda.stream(side):
        error = race(x.add, 1)
    assert error.previous_access.operator == "to" and error.previous_access.is_output


def test_views_race_where_they_share_bytes(side):
    x = flambeau.zeros(4, 6, device="cuda")
    cuda.synchronize()
    x[:, :3].add_(1)
    with cuda.stream(side):
        x[:, 3:].add_(1)
        x[:, 3:].mul_(1)
        error = race(x[1:, 2:4].add_, 1)
    assert error.current_access.stream == side.cuda_stream and error.previous_access.operator == "add_"


def test_what_looks_at_no_element(side):
    x = zeros()
    with cuda.stream(side):
        y = flambeau.zeros_like(x)
        assert x.view(2, 2).t().shape == (2, 2) and x.is_contiguous() and x.detach().stride() == (1,)
        x.new_ones(3)
        y.add_(1)


def test_results_given(side):
    x, y = zeros(), zeros()
    cuda.synchronize()
    x.add(1)
    with cuda.stream(side):
        error = race(flambeau.exp, y, out=x)
    assert error.current_access.type is csan.AccessType.WRITE and error.current_access.is_output
    assert error.current_access.aliases == ["out"]


def test_memory_that_was_handed_out_again(side):
    x = zeros(1000)
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        x.add(1)
    place = x.data_ptr()
    del x
    error = race(zeros, 1000)
    assert error.data_ptr == place and error.previous_access.freed
    assert "Tensor.record_stream says so" in str(error)


def test_a_stream_that_was_recorded(side):
    x = zeros(1000)
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        x.add(1)
    x.record_stream(side)
    del x
    side.synchronize()
    zeros(1000)


def test_memory_after_the_cache_was_emptied(side):
    x = zeros(1000)
    del x
    cuda.empty_cache()
    with cuda.stream(side):
        zeros(1000)


def test_gradients_and_optimizers(side):
    layer = flambeau.nn.Linear(4, 4, device="cuda")
    x = flambeau.ones(2, 4, device="cuda")
    optimizer = flambeau.optim.Adam(layer.parameters())
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        for _ in range(2):
            optimizer.zero_grad()
            layer(x).relu().sum().backward()
            optimizer.step()
    error = race(layer.weight.detach().add, 1)
    assert error.current_access.operator == "add" and error.previous_access.type is csan.AccessType.WRITE


def test_streams_of_two_devices():
    x = zeros()
    y = x.to("cuda:1")  # each waits for the other's
    x.add_(1)
    with cuda.device(1):
        y.add_(1)
        with cuda.stream(cuda.Stream()):
            assert race(y.add, 1).current_access.device == 1


def test_a_history_beside_it(side):
    cuda.memory._record_memory_history(max_entries=100)
    x = zeros()
    cuda.memory._record_memory_history(None)
    del x
    x = zeros(3)
    with cuda.stream(side):
        race(x.add, 1)


def test_what_is_captured_does_not_run(side):
    x = zeros()
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        y = x + 1
    graph.replay()
    assert y.tolist() == [1] * 4


def test_it_is_on_once():
    with pytest.raises(RuntimeError, match="is on already"):
        csan.enable_cuda_sanitizer()


def test_what_is_remembered_is_bounded():
    x = zeros(10_000)
    for k in range(3 * csan.MOST):
        x[k].add_(1)
    blocks = csan.cuda_sanitizer.dispatch.blocks.blocks
    assert len(blocks[x.data_ptr()].accesses) <= csan.MOST
    cuda.synchronize()
    x.add_(1)
    assert len(blocks[x.data_ptr()].accesses) == 1
