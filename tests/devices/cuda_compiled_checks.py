"""What `test_cuda_host.py` runs in a process of its own, on the fake driver: compiled functions as graphs of the driver."""

from __future__ import annotations

import copy
import gc
import threading

import fake_cuda
import pytest

import flambeau as torch
from flambeau import nn

fake = fake_cuda.install()
cuda = torch.cuda


def there(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).cuda()


def chain(x, w):
    return ((x @ w).tanh() * 2).softmax(-1), x.exp().cumsum(-1) + 1


def replayed(compiled):
    (entry,) = compiled.entries
    assert entry.why is None
    return entry.launch


def equal(a, b):
    return all(torch.equal(p.cpu(), q.cpu()) for p, q in zip(a, b, strict=True))


def test_a_plan_is_one_graph_from_the_second_call_on():
    compiled = torch.compile(chain, mode="reduce-overhead")
    w = there(4, 4, seed=9)
    graphs = fake.graphs
    for k in range(5):
        x = there(3, 4, seed=k)
        actual, expected = compiled(x, w), torch.compile(chain)(x, w)
        torch.testing.assert_close(actual, expected)
    assert fake.graphs == graphs + 1 and replayed(compiled).why is None
    assert repr(replayed(compiled)).endswith("nodes)")
    compiled(x, w)
    before = fake.allocations
    actual = compiled(x, w)
    assert fake.allocations == before  # nothing is made anew
    del actual


def test_results_that_are_held_keep_their_numbers():
    compiled = torch.compile(lambda x: (x * 2).cumsum(0) + 1, mode="reduce-overhead")
    inputs = [there(9, seed=k) for k in range(6)]
    held = [compiled(x) for x in inputs]
    views = [compiled(x)[2:4] for x in inputs]
    for x, y, v in zip(inputs, held, views, strict=True):
        expected = (x * 2).cumsum(0) + 1
        assert torch.equal(y.cpu(), expected.cpu()) and torch.equal(v.cpu(), expected[2:4].cpu())
    assert replayed(compiled).why is None


def test_a_result_whose_address_was_given_away_ends_the_replays():
    compiled = torch.compile(lambda x: (x * 2).cumsum(0), mode="reduce-overhead")
    x = there(5)
    for _ in range(2):
        compiled(x)
    actual, expected = compiled(x), (x * 2).cumsum(0).cpu()
    address = actual.data_ptr()
    x.mul_(3)
    other = compiled(x)
    assert torch.equal(actual.cpu(), expected) and actual.data_ptr() == address
    assert torch.equal(other.cpu(), (x * 2).cumsum(0).cpu())
    assert replayed(compiled).why == "the address of a result was given away"


def test_arguments_that_lie_elsewhere_are_copied():
    compiled = torch.compile(lambda x, w: (x * w).cumsum(0) + 1, mode="reduce-overhead")
    w = there(7, seed=1)
    for k in range(6):
        x = there(7, seed=k)
        if k == 4:
            w = there(7, seed=20)
        assert torch.equal(compiled(x, w).cpu(), ((x * w).cumsum(0) + 1).cpu())
    assert replayed(compiled).why is None


def test_a_training_step_is_one_graph():
    torch.manual_seed(0)
    mine = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).cuda()
    others = copy.deepcopy(mine)

    def step_of(net):
        optimiser = torch.optim.Adam(net.parameters(), lr=0.01, capturable=True)

        def step(x, y):
            optimiser.zero_grad()
            loss = nn.functional.cross_entropy(net(x), y)
            loss.backward()
            optimiser.step()
            return loss.detach()

        return step

    step, plain = torch.compile(step_of(mine), mode="reduce-overhead"), step_of(others)
    y = torch.tensor([0, 2, 1, 1]).cuda()
    losses = []
    for k in range(7):
        x = there(4, 6, seed=k)
        losses.append(step(x, y))
        torch.testing.assert_close(losses[-1], plain(x, y))
    for a, b in zip(mine.parameters(), others.parameters(), strict=True):
        torch.testing.assert_close(a, b)
    launches = [entry.launch for entry in step.entries if entry.hits]
    assert any(
        "nodes)" in repr(getattr(launch, "plan", launch)) or "nodes)" in repr(launch) for launch in launches
    )
    version = mine[0].weight._version
    step(x, y)
    assert mine[0].weight._version > version
    assert len({round(loss.item(), 6) for loss in losses}) == 7


def test_random_numbers_of_replays_are_those_of_eager_calls():
    function = lambda x: nn.functional.dropout(x, 0.5) + torch.rand_like(x)
    compiled, x = torch.compile(function, mode="reduce-overhead"), there(40)
    for _ in range(3):
        compiled(x)
    torch.manual_seed(5)
    results = [compiled(x).cpu() for _ in range(3)]
    torch.manual_seed(5)
    assert equal(results, [function(x).cpu() for _ in range(3)])


NUMBER = torch.tensor(3.0)
REFUSED = {
    "on the CPU": lambda x: x * 2 + NUMBER,
    "results share memory": lambda x: ((y := x * 2), y[1:]),
    "reads no argument": lambda x: torch.ones(3, device="cuda") * 2,
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_is_no_graph_runs_step_by_step(why):
    compiled, x = torch.compile(REFUSED[why], mode="reduce-overhead"), there(4)
    for _ in range(3):
        actual, expected = compiled(x), REFUSED[why](x)
        actual, expected = (r if isinstance(r, tuple) else (r,) for r in (actual, expected))
        assert equal(actual, expected)
    assert why in replayed(compiled).why


def test_two_devices_in_one_function():
    function = lambda x, y: ((x * 2).exp() + 1, (y.tanh() * 3).sum(0), (x + 1).to(y.device) * y)
    compiled = torch.compile(function)
    for k in range(3):
        x, y = there(6, seed=k), there(6, seed=k + 5).to("cuda:1")
        for a, b in zip(compiled(x, y), function(x, y), strict=True):
            assert a.device == b.device and torch.equal(a.cpu(), b.cpu())
    (entry,) = compiled.entries
    devices = [str(v.device.place) for step in entry.launch.report.steps for v in step.calls[0].results]
    assert entry.why is None and {"cuda:0", "cuda:1"} == set(devices)
    with pytest.raises(RuntimeError, match="two devices, cuda:0 and cuda:1"):
        torch.compile(lambda x, y: x + y)(x, y)


def test_inside_of_a_capture_of_the_programs_own():
    compiled, x = torch.compile(lambda x: x.exp() * 2, mode="reduce-overhead"), there(4)
    for _ in range(3):
        compiled(x)
    made = cuda.CUDAGraph()
    with cuda.graph(made):
        y = compiled(x)
    x.fill_(0.0)
    made.replay()
    assert y.tolist() == [2.0] * 4


def test_other_streams_and_threads():
    compiled, x = torch.compile(lambda x: (x * 2).cumsum(0) + 1, mode="reduce-overhead"), there(50)
    expected = ((x * 2).cumsum(0) + 1).cpu()
    for _ in range(3):
        compiled(x)
    results = []

    def run():
        for _ in range(20):
            results.append(torch.equal(compiled(x).cpu(), expected))

    threads = [threading.Thread(target=run) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    side = cuda.Stream()
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        results.append(torch.equal(compiled(x).cpu(), expected))
    assert len(results) == 61 and all(results)


def test_the_memory_of_a_graph_is_given_back():
    x = there(1000)
    gc.collect()
    cuda.empty_cache()
    graphs = fake.graphs
    compiled = torch.compile(lambda x: (x * 2).cumsum(0) + 1, mode="reduce-overhead")
    for _ in range(3):
        saved = compiled(x)
    assert fake.graphs == graphs + 1
    expected = ((x * 2).cumsum(0) + 1).cpu()
    del compiled
    gc.collect()
    cuda.empty_cache()
    assert fake.graphs == graphs and torch.equal(saved.cpu(), expected)
