"""What `test_cuda_host.py` runs in a process of its own, on the fake driver: graphs, and streams of threads."""

from __future__ import annotations

import gc
import threading

import fake_cuda
import pytest

import flambeau

fake = fake_cuda.install()
cuda = flambeau.cuda


@pytest.fixture(autouse=True)
def _settled():
    """Each test begins and ends with an idle device, no graph, and an empty cache."""
    flambeau.ones(3, device="cuda") + 1  # what a first launch makes
    cuda.synchronize()
    cuda.empty_cache()
    before = fake.live_blocks, cuda.memory_allocated(), cuda.memory_reserved()
    yield
    fake.set("delay", 0)
    fake.set("limit", 0)
    gc.collect()
    cuda.synchronize()
    cuda.empty_cache()
    after = fake.live_blocks, cuda.memory_allocated(), cuda.memory_reserved()
    # a first capture makes the place where kernels report an index out of bounds, and keeps it
    assert fake.graphs == 0 and all(b - a in (0, 1, 64) for a, b in zip(before, after, strict=True))


def test_a_capture_runs_nothing_and_a_replay_runs_it():
    x = flambeau.arange(4.0, device="cuda")
    made = cuda.CUDAGraph()
    with cuda.graph(made):
        assert cuda.is_current_stream_capturing()
        y = x * 2
        z = y + 1
        del y
    assert not cuda.is_current_stream_capturing()
    launches = fake.launches
    made.replay()
    assert fake.launches == launches + 2 and z.tolist() == [1.0, 3.0, 5.0, 7.0]
    x.copy_(flambeau.tensor([5.0, 6.0, 7.0, 8.0]))
    made.replay()
    made.replay()
    assert z.tolist() == [11.0, 13.0, 15.0, 17.0]


def test_memory_of_a_graph_is_no_other_tensors():
    x = flambeau.ones(1 << 12, device="cuda")
    made = cuda.CUDAGraph()
    with cuda.graph(made):
        y = x + 1
        z = y * 3
        del y
    inside = z.data_ptr()
    del z
    others = [flambeau.zeros(1 << 12, device="cuda") for _ in range(4)]
    with cuda.stream(cuda.graph.default_capture_stream):
        others += [flambeau.zeros(1 << 12, device="cuda") for _ in range(4)]
    cuda.synchronize()
    made.replay()
    assert inside not in [o.data_ptr() for o in others]
    assert all(not o.any().item() for o in others)
    reserved = cuda.memory_reserved()
    cuda.empty_cache()
    made.replay()  # the cache that was given back held nothing of the graph
    cuda.synchronize()
    del made, others
    cuda.empty_cache()
    assert cuda.memory_reserved() < reserved


def test_graphs_share_a_pool():
    x = flambeau.ones(1 << 12, device="cuda")
    first, second = cuda.CUDAGraph(), cuda.CUDAGraph()
    with cuda.graph(first):
        y = x + 1
        z = y * 2
        del y
    allocations = fake.allocations
    with cuda.graph(second, pool=first.pool()):
        w = z + 5  # in the memory of y
    assert fake.allocations == allocations
    first.replay()
    second.replay()
    assert set(w.tolist()) == {9.0}
    first.reset()
    with pytest.raises(RuntimeError, match="Called CUDAGraph::replay without a preceding successful capture"):
        first.replay()
    second.replay()
    assert set(w.tolist()) == {9.0}


def test_tensors_outlive_their_graph():
    x = flambeau.ones(4, device="cuda")
    made = cuda.CUDAGraph()
    with cuda.graph(made):
        y = x + 1
    made.replay()
    made.reset()
    cuda.empty_cache()
    assert y.tolist() == [2.0] * 4
    made.reset()


def test_fills_of_any_pattern_are_captured():
    x = flambeau.zeros(3, dtype=flambeau.float64, device="cuda")
    made = cuda.CUDAGraph()
    with cuda.graph(made):
        x.fill_(1.5)
        y = flambeau.full((2,), 7, dtype=flambeau.int64, device="cuda")
    pinned = fake.pinned
    x.zero_()
    made.replay()
    assert x.tolist() == [1.5] * 3 and y.tolist() == [7, 7]
    del made
    assert fake.pinned < pinned


def test_streams_that_wait_for_the_captured_one_are_captured():
    x = flambeau.ones(4, device="cuda")
    side, made = cuda.Stream(), cuda.CUDAGraph()
    with cuda.graph(made):
        y = x + 1
        side.wait_stream(cuda.current_stream())
        with cuda.stream(side):
            z = y * 2
            assert cuda.is_current_stream_capturing()
        y.record_stream(side)
        cuda.current_stream().wait_stream(side)
        w = z + y
        del y
    made.replay()
    assert w.tolist() == [6.0] * 4


def test_what_the_host_would_wait_for():
    x = flambeau.ones(4, device="cuda")
    for use, message in (
        (cuda.synchronize, "operation not permitted when stream is capturing"),
        (lambda: cuda.current_stream().synchronize(), "operation not permitted when stream is capturing"),
        (x.cpu, "operation not permitted when stream is capturing: a copy from cuda:0 to cpu"),
        (x.tolist, "operation not permitted when stream is capturing"),
        (lambda: flambeau.ones(2).cuda(), "unless the CPU tensor is pinned"),
        (lambda: flambeau.randperm(2, device="cuda"), "on the host during CUDA graph capture"),
    ):
        made = cuda.CUDAGraph()
        made_by = cuda.graph(made)
        made_by.__enter__()
        y = x + 1
        with pytest.raises(RuntimeError, match=message):
            use()
        try:
            made_by.__exit__(None, None, None)
        except RuntimeError as error:
            assert "INVALIDATED" in str(error)
            with pytest.raises(RuntimeError, match="without a preceding successful capture"):
                made.replay()
        assert not cuda.is_current_stream_capturing()
        del y
    assert (x + 1).tolist() == [2.0] * 4


def test_a_pinned_tensor_is_read_by_each_replay():
    host = flambeau.ones(4).pin_memory()
    made = cuda.CUDAGraph()
    with cuda.graph(made):
        x = host.to("cuda", non_blocking=True)
        y = x * 2
    host.fill_(3)
    made.replay()
    assert y.tolist() == [6.0] * 4
    del host


def test_wrong_use():
    made = cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match="must be captured on a non-default stream"):
        made.capture_begin()
    with pytest.raises(RuntimeError, match="capture_end without a preceding capture_begin"):
        made.capture_end()
    with pytest.raises(RuntimeError, match=r"Called CUDAGraph::pool\(\) without"):
        made.pool()
    with pytest.raises(NotImplementedError, match="keep_graph"):
        cuda.CUDAGraph(keep_graph=True)
    with cuda.stream(cuda.Stream()):
        with pytest.raises(RuntimeError, match="Unknown capture error mode"):
            made.capture_begin(capture_error_mode="strict")
        made.capture_begin()
        with pytest.raises(RuntimeError, match="already owns a captured graph"):
            made.capture_begin()
        with pytest.raises(RuntimeError, match="is being captured already"):
            cuda.CUDAGraph().capture_begin()
        with (
            cuda.stream(cuda.Stream()),
            pytest.raises(RuntimeError, match="Capture must end on the same stream"),
        ):
            made.capture_end()
        with pytest.warns(UserWarning, match="The CUDA Graph is empty"):
            made.capture_end()
        with pytest.raises(RuntimeError, match="already owns a captured graph"):
            made.capture_begin()


def test_an_error_in_the_context_ends_the_capture():
    made = cuda.CUDAGraph()
    x = flambeau.ones(4, device="cuda")
    with pytest.raises(KeyError), cuda.graph(made):
        x + 1
        raise KeyError
    assert not cuda.is_current_stream_capturing() and cuda.current_stream() == cuda.default_stream()


def test_no_memory_left_in_a_capture():
    x = flambeau.ones(4, device="cuda")
    made = cuda.CUDAGraph()
    with cuda.graph(made):
        y = x + 1
        fake.set("limit", 1 << 20)
        with pytest.raises(cuda.OutOfMemoryError, match=r"in a graph's capture.*empty_cache\(\) before it"):
            flambeau.empty(1 << 20, device="cuda")
        fake.set("limit", 0)
    made.replay()
    assert y.tolist() == [2.0] * 4


def test_an_index_out_of_bounds_in_a_replay_is_reported():
    x, where = flambeau.arange(4.0, device="cuda"), flambeau.tensor([0, 3], device="cuda")
    x[where]
    made = cuda.CUDAGraph()
    with cuda.graph(made):
        y = x[where]
    made.replay()
    cuda.synchronize()
    assert y.tolist() == [0.0, 3.0]
    where.fill_(9)
    cuda.synchronize()
    made.replay()
    with pytest.raises(IndexError, match="an index was out of bounds on cuda:0"):
        cuda.synchronize()


def test_debug_dump(tmp_path):
    x = flambeau.ones(4, device="cuda")
    made = cuda.CUDAGraph()
    with cuda.graph(made):
        y = x + 1
    with pytest.warns(UserWarning, match="debug not enabled"):
        made.debug_dump(str(tmp_path / "none.dot"))
    made.enable_debug_mode()
    made.debug_dump(str(tmp_path / "some.dot"))
    assert (tmp_path / "some.dot").read_text().startswith("digraph") and not (tmp_path / "none.dot").exists()
    del y


def test_graphed_modules_train_as_others():
    flambeau.manual_seed(0)
    plain = flambeau.nn.Sequential(flambeau.nn.Linear(5, 7), flambeau.nn.Tanh(), flambeau.nn.Linear(7, 2))
    import copy

    moved = copy.deepcopy(plain).to("cuda")
    graphed = cuda.make_graphed_callables(moved, (flambeau.zeros(3, 5, device="cuda", requires_grad=True),))
    assert graphed is moved
    sgd = [flambeau.optim.SGD(m.parameters(), lr=0.1) for m in (plain, graphed)]
    for _ in range(3):
        x = flambeau.randn(3, 5)
        inputs = x.clone().requires_grad_(), x.to("cuda").requires_grad_()
        for model, optimizer, given in zip((plain, graphed), sgd, inputs, strict=True):
            optimizer.zero_grad()
            (model(given) ** 2).sum().backward()
            optimizer.step()
        flambeau.testing.assert_close(inputs[1].grad.cpu(), inputs[0].grad)
        for a, b in zip(plain.parameters(), graphed.parameters(), strict=True):
            flambeau.testing.assert_close(b.cpu(), a)
    with pytest.raises(RuntimeError, match=r"argument 0 must be .* of shape \(3, 5\)"):
        graphed(flambeau.zeros(4, 5, device="cuda"))
    graphed.eval()
    assert graphed(flambeau.zeros(4, 5, device="cuda")).shape == (4, 2)
    with pytest.raises(TypeError, match=r"sample_args\[0\] must be a Tensor, not int"):
        cuda.make_graphed_callables(lambda x: x, (1,))
    for p in graphed.parameters():
        p.grad = None
    del graphed.forward


def test_graphed_functions_of_several():
    a, b = flambeau.ones(4, device="cuda", requires_grad=True), flambeau.ones(4, device="cuda")
    first, second = cuda.make_graphed_callables(
        (lambda x, y: (x * y, x + y), lambda x: x.exp()), ((a, b), (flambeau.ones(4, device="cuda"),))
    )
    x = flambeau.full((4,), 3.0, device="cuda", requires_grad=True)
    product, total = first(x, flambeau.full((4,), 2.0, device="cuda"))
    (product + total).sum().backward()
    assert x.grad.tolist() == [3.0] * 4 and product.tolist() == [6.0] * 4
    assert second(flambeau.zeros(4, device="cuda")).tolist() == [1.0] * 4


def test_the_current_stream_belongs_to_the_thread():
    stream, seen = cuda.Stream(), []
    ready, done = threading.Event(), threading.Event()

    def other():
        seen.append(cuda.current_stream())
        with cuda.stream(cuda.Stream()) as _:
            mine = cuda.current_stream()
            ready.set()
            done.wait(60)
            seen.append(cuda.current_stream() == mine)
        cuda.set_device(1)
        seen.append(cuda.current_device())

    thread = threading.Thread(target=other)
    with cuda.stream(stream):
        thread.start()
        ready.wait(60)
        assert cuda.current_stream() == stream
        done.set()
        thread.join()
        assert cuda.current_stream() == stream and cuda.current_device() == 0
    assert seen == [cuda.default_stream(), True, 1]
    assert cuda.current_stream() == cuda.default_stream() != stream


def test_threads_work_on_streams_of_their_own():
    failed = []

    def work(k):
        with cuda.stream(cuda.Stream()):
            x = flambeau.zeros(64, device="cuda")
            for _ in range(30):
                y = x + 1
                del x
                x = y
            if x.tolist() != [30.0] * 64:
                failed.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed


def test_each_device_has_its_own_current_stream():
    stream = cuda.Stream("cuda:1")
    cuda.set_stream(stream)
    assert cuda.current_stream("cuda:1") == stream and cuda.current_stream("cuda:0") == cuda.default_stream(
        "cuda:0"
    )
    cuda.set_stream(cuda.default_stream("cuda:1"))


def test_a_training_step_in_a_graph():
    """Its loss asks nothing of the host; a wrong class is met at the next wait."""
    flambeau.manual_seed(0)
    net = flambeau.nn.Linear(6, 4, device="cuda")
    x, kinds = flambeau.randn(8, 6, device="cuda"), flambeau.arange(8, device="cuda") % 4
    optimizer = flambeau.optim.SGD(net.parameters(), lr=0.5)

    def step():
        optimizer.zero_grad(set_to_none=False)
        loss = flambeau.nn.functional.cross_entropy(net(x), kinds)
        loss.backward()
        optimizer.step()
        return loss.detach()

    first = [step().item() for _ in range(2)]
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        loss = step()
    later = []
    for _ in range(5):
        graph.replay()
        later.append(loss.item())
    assert first[0] > first[1] > later[0] and later == sorted(later, reverse=True)
    kinds[0] = 4
    graph.replay()
    with pytest.raises(IndexError, match="an index was out of bounds on cuda:0"):
        cuda.synchronize()
