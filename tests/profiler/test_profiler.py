"""What a profile tells of programs whose calls are known."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import threading
import warnings

import pytest

import flambeau
from flambeau import nn
from flambeau.core.base import profiling
from flambeau.nn import functional as F
from flambeau.profiler import ProfilerAction, ProfilerActivity, profile, record_function, schedule


def names(prof) -> list[str]:
    """The names of all events but what is compiled, which depends on what ran before."""
    return [e.name for e in prof.events() if not e.name.startswith(("flambeau::compile", "[memory]"))]


def find(prof, name):
    return [e for e in prof.events() if e.name == name]


@pytest.fixture
def layer():
    flambeau.manual_seed(0)
    return nn.Linear(3, 2)


def warmed(function):
    function()
    return function


# --- which events there are -----------------------------------------------------------------------
def test_operators_methods_functions_and_indexing_are_events():
    x = flambeau.ones(3, 4)
    with profile() as prof:
        x + 1
        x.exp_()
        flambeau.sum(x)
        x[0]
        x[1:] = 2
        x @ x.T
        flambeau.linalg.vector_norm(x)
        flambeau.special.erf(x)
    tops = [e.name for e in prof.events() if e.cpu_parent is None]
    assert tops == [
        "aten::add",
        "aten::exp_",
        "aten::sum",
        "aten::index",
        "aten::index_put_",
        "aten::numpy_T",
        "aten::matmul",
        "aten::linalg_vector_norm",
        "aten::erf",
    ]


def test_a_training_step_from_forward_to_the_optimiser(layer):
    optimiser = flambeau.optim.SGD(layer.parameters(), lr=0.1)
    x = flambeau.ones(4, 3)

    def step():
        optimiser.zero_grad()
        layer(x).relu().sum().backward()
        optimiser.step()

    warmed(step)
    with profile() as prof:
        step()
    told = names(prof)
    evaluated = [n.partition(": ")[2] for n in told if n.startswith("autograd::engine::evaluate_function")]
    accumulate = "torch::autograd::AccumulateGrad"
    assert evaluated == ["SumBackward0", "ReluBackward0", "AddmmBackward0", accumulate, accumulate]
    assert told[0] == "Optimizer.zero_grad#SGD.zero_grad"
    assert told.index("aten::linear") < told.index("aten::relu") < told.index("aten::sum")
    (step_event,) = find(prof, "Optimizer.step#SGD.step")
    assert [c.name for c in step_event.cpu_children] == ["flambeau::SGD"]
    (node,) = find(prof, "AddmmBackward0")
    assert node.cpu_parent.name == "autograd::engine::evaluate_function: AddmmBackward0"
    assert [c.name for c in node.cpu_children] == ["aten::sum", "aten::mm"]  # x needs no gradient


def test_sequence_numbers_tie_backward_to_forward(layer):
    x = flambeau.ones(4, 3)
    with profile() as prof:
        layer(x).relu().sum().backward()
    for forward, node in (("aten::linear", "AddmmBackward0"), ("aten::relu", "ReluBackward0")):
        (made,), (met,) = find(prof, forward), find(prof, node)
        assert made.sequence_nr == met.sequence_nr > 0
        assert met.fwd_thread == made.thread
        assert met.scope == 1
    assert find(prof, "aten::sum")[0].scope == 0


def test_own_functions_of_the_tape_are_named():
    class Twice(flambeau.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = flambeau.ones(3, requires_grad=True)
    with profile() as prof:
        Twice.apply(x).sum().backward()
    (node,) = find(prof, "TwiceBackward")
    assert [c.name for c in node.cpu_children] == ["aten::mul"]


def test_profiling_changes_nothing_that_is_computed(layer):
    x, results = flambeau.randn(4, 3), []
    for on in (False, True):
        layer.zero_grad()
        with profile() if on else flambeau.enable_grad():
            out = layer(x).tanh().sum()
            out.backward()
        results.append((out.detach(), layer.weight.grad, layer.bias.grad))
    for plain, profiled in zip(*results):
        assert flambeau.equal(plain, profiled)


def test_gradients_that_nobody_else_holds_are_taken_not_copied(layer):
    """The first profile of a training step showed a copy for each parameter."""
    with profile() as prof:
        layer(flambeau.ones(4, 3)).sum().backward()
    assert find(prof, "aten::clone") == []
    a, b = (flambeau.ones(3, requires_grad=True) for _ in range(2))
    given, saved = flambeau.ones(3), []
    (a + b).backward(given)
    a.register_hook(saved.append)
    (a * 3).sum().backward()
    a.backward(given)
    assert len({t.data_ptr() for t in (a.grad, b.grad, given, *saved)}) == 4 - (saved[1] is given)
    flambeau.testing.assert_close(a.grad, flambeau.full((3,), 5.0))
    flambeau.testing.assert_close(given, flambeau.ones(3))


def test_gradients_of_other_classes_are_copied():
    """What stands behind a sparse gradient may be one element for all; a copy may be written to."""
    weight = flambeau.ones(5, 3, requires_grad=True)
    F.embedding(flambeau.tensor([1, 1, 4]), weight, sparse=True).sum().backward()
    weight.grad._values().mul_(2)
    assert flambeau.equal(weight.grad.to_dense()[:, 0], flambeau.tensor([0.0, 4.0, 0.0, 0.0, 2.0]))


def test_batches_of_a_loader_and_modules():
    loader = flambeau.utils.data.DataLoader([1.0, 2.0, 3.0], batch_size=2)
    model = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1))
    with profile(with_modules=True) as prof:
        for batch in loader:
            model(batch[:, None].float())
    assert len(find(prof, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__")) == 3  # the end, too
    outer = find(prof, "nn.Module: Sequential_0")
    assert [[c.name for c in e.cpu_children] for e in outer] == [
        ["nn.Module: Linear_0", "nn.Module: Linear_1"]
    ] * 2
    assert not nn.Module._hooked  # calls go the short way again


def test_compilation_is_an_event_of_its_own():
    from flambeau.operations.declare.pointwise import pointwise

    @pointwise(places=("_never_seen_before",), in_place=False)
    def never_seen_before(input):
        return input * 3.0 + 1.0

    try:
        x = flambeau.ones(3)
        with profile() as prof:
            never_seen_before(x)
            never_seen_before(x)
        (made,) = find(prof, "flambeau::compile never_seen_before")
        calls = find(prof, "flambeau::never_seen_before")
        assert len(calls) == 2 and made.cpu_parent is calls[0]
        assert made.cpu_time_total > 0.5 * calls[0].cpu_time_total
    finally:
        from flambeau.operations.declare.registry import REGISTRY

        del REGISTRY["never_seen_before"]


def test_what_a_mode_answers_did_not_run():
    from flambeau.utils._python_dispatch import TorchDispatchMode

    class Other(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return flambeau.zeros(2) if func.__name__ == "exp" else func(*args, **(kwargs or {}))

    with profile() as prof, Other():
        flambeau.ones(2).exp()
    assert names(prof) == ["aten::ones", "aten::zeros"]


# --- what an event tells --------------------------------------------------------------------------
def test_shapes_dtypes_values_and_keywords():
    x, y = flambeau.ones(2, 3), flambeau.ones(3, dtype=flambeau.float64)
    with profile(record_shapes=True) as prof:
        flambeau.add(x, y, alpha=2)
        flambeau.cat([x, x], 1)
        x.sum(0)
    add, cat, total = (e for e in prof.events() if e.cpu_parent is None)
    assert add.input_shapes == [[2, 3], [3]] and add.input_dtypes == ["float32", "float64"]
    assert add.kwinputs == {"alpha": 2}
    assert cat.input_shapes == [[], []] and cat.structured_input_shapes[0] == [[2, 3], [2, 3]]
    assert total.concrete_inputs == ["", 0]
    with profile() as prof:
        x + 1
    assert prof.events()[0].input_shapes == []


def test_memory_of_operations_and_what_nobody_claims():
    with profile(profile_memory=True) as prof:
        x = flambeau.ones(1000)
        y = x * 2 + 1
        del x, y
        flambeau.ones(1)
    made = find(prof, "aten::ones")[0]
    assert 4000 <= made.cpu_memory_usage < 4200
    assert made.self_cpu_memory_usage == made.cpu_memory_usage
    product, total = find(prof, "aten::mul")[0], find(prof, "aten::add")[0]
    assert product.cpu_memory_usage == total.cpu_memory_usage == made.cpu_memory_usage
    assert sum(e.cpu_memory_usage for e in find(prof, "[memory]")) == -3 * made.cpu_memory_usage
    assert "Self CPU Mem" in prof.key_averages().table(sort_by="self_cpu_memory_usage")


def test_memory_over_time(tmp_path):
    with profile(profile_memory=True) as prof:
        x = flambeau.ones(1000)
        x = flambeau.ones(3000)
        del x
        flambeau.ones(1)
    prof.export_memory_timeline(tmp_path / "memory.json")
    times, sizes = json.loads((tmp_path / "memory.json").read_text())
    assert times == sorted(times) and max(sizes) - sizes[0] >= 12000
    prof.export_memory_timeline(tmp_path / "memory.html")
    assert "<polyline" in (tmp_path / "memory.html").read_text()
    with profile() as prof:
        flambeau.ones(1)
    with pytest.raises(ValueError, match="profile_memory=True required"):
        prof.export_memory_timeline(tmp_path / "memory.json")


def outer_function():
    return inner_function()


def inner_function():
    return flambeau.ones(3, requires_grad=True).exp().sum()


def test_stacks_lead_to_the_users_lines(tmp_path):
    with profile(with_stack=True) as prof:
        outer_function().backward()
    (event,) = find(prof, "aten::exp")
    assert [line.rpartition(" ")[2] for line in event.stack[:2]] == ["inner_function", "outer_function"]
    assert __file__ in event.stack[0] and all("flambeau/operations" not in line for line in event.stack)
    (node,) = find(prof, "ExpBackward0")
    assert node.stack == event.stack  # of the call that made it
    prof.export_stacks(tmp_path / "stacks")
    for line in (tmp_path / "stacks").read_text().splitlines():
        frames, _, weight = line.rpartition(" ")
        assert int(weight) > 0 and " " not in frames
    with pytest.raises(ValueError, match="metric should be one of"):
        prof.export_stacks(tmp_path / "stacks", "cpu_memory")


def test_floating_point_operations(layer):
    x, image = flambeau.ones(4, 3), flambeau.ones(2, 3, 8, 8)
    weight = flambeau.ones(6, 3, 3, 3, requires_grad=True)
    with profile(with_flops=True) as prof:
        layer(x)
        x @ flambeau.ones(3, 5)
        flambeau.bmm(flambeau.ones(7, 2, 3), flambeau.ones(7, 3, 4))
        F.conv2d(image, weight, padding=1, stride=2)
        F.scaled_dot_product_attention(*[flambeau.ones(2, 5, 4)] * 3)
        x + 1

    def flops(name):
        return [e.flops for e in find(prof, name)]

    assert flops("aten::linear") == [2 * 4 * 3 * 2]
    assert flops("aten::matmul")[0] == 2 * 4 * 3 * 5
    assert flops("aten::bmm")[0] == 2 * 7 * 2 * 3 * 4
    assert flops("aten::conv2d") == [2 * 2 * 16 * 6 * 27]
    assert flops("aten::scaled_dot_product_attention") == [2 * 2 * 2 * 25 * 4]
    assert flops("aten::add") == [12]
    assert "FLOPs" in prof.key_averages().table()


# --- spans, nesting, threads ----------------------------------------------------------------------
def test_spans_nest_as_blocks_and_as_decorators():
    @record_function("decorated")
    def double(n):
        return flambeau.ones(1) if n == 0 else double(n - 1)

    with profile() as prof, record_function("outer"):
        with record_function("inner"):
            flambeau.ones(2)
        double(2)
    outer = find(prof, "outer")[0]
    assert [c.name for c in outer.cpu_children] == ["inner", "decorated"]
    first = outer.cpu_children[1]
    assert first.cpu_children[0].cpu_children[0].cpu_children[0].name == "aten::ones"
    assert (
        outer.is_user_annotation
        and not first.cpu_children[0].cpu_children[0].cpu_children[0].is_user_annotation
    )


def test_one_object_may_be_open_in_several_blocks_and_nests_deeply():
    span = record_function("again")
    with profile() as prof:
        for _ in range(3000):
            span.__enter__()
        flambeau.ones(1)
        for _ in range(3000):
            span.__exit__(None, None, None)
    event, depth = prof.events()[-1], 0
    while event.cpu_parent is not None:
        event, depth = event.cpu_parent, depth + 1
    assert depth == 3000
    (average,) = [a for a in prof.key_averages() if a.key == "again"]
    assert average.count == 3000 and average.device_time_total == 0


def test_children_lie_inside_their_parents_and_times_add_up(layer):
    with profile() as prof:
        for _ in range(3):
            F.cross_entropy(layer(flambeau.ones(4, 3)), flambeau.zeros(4, dtype=flambeau.int64)).backward()
    for event in prof.events():
        assert event.self_cpu_time_total >= 0
        if event.cpu_parent is not None:
            assert event.cpu_parent.thread == event.thread
            assert event.cpu_parent.time_range.start <= event.time_range.start
            assert event.time_range.end <= event.cpu_parent.time_range.end
    tops = sum(e.cpu_time_total for e in prof.events() if e.cpu_parent is None)
    assert prof.events().self_cpu_time_total == pytest.approx(tops)
    total = prof.events().total_average()
    assert total.key == "Total" and total.count == len(prof.events())


def test_threads_started_while_profiling_are_told_apart():
    def work():
        for _ in range(20):
            with record_function("work"):
                flambeau.ones(10).exp()

    warmed(work)
    with profile() as prof:
        threads = [threading.Thread(target=work) for _ in range(3)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    spans = find(prof, "work")
    assert len(spans) == 60 and len({e.thread for e in spans}) == 3
    assert all([c.name for c in e.cpu_children] == ["aten::ones", "aten::exp"] for e in spans)


def test_an_exception_inside_ends_what_it_leaves():
    with pytest.raises(RuntimeError, match="mismatch|size"), profile() as prof:
        with record_function("failing"):
            flambeau.ones(2) + flambeau.ones(3)
    assert names(prof) == ["failing", "aten::ones", "aten::ones", "aten::add"]
    assert not profiling.is_profiling()
    assert all(e.cpu_parent.name == "failing" for e in prof.events()[1:])


def test_a_span_that_is_open_at_the_end_ends_there():
    span = record_function("open")
    with profile() as prof:
        span.__enter__()
        flambeau.ones(1)
    with profile() as later:
        span.__exit__(None, None, None)  # of another recording: not of this one
        flambeau.ones(1)
    assert names(prof) == ["open", "aten::ones"] and prof.events()[1].cpu_parent.name == "open"
    assert names(later) == ["aten::ones"]


# --- one at a time, states ------------------------------------------------------------------------
def test_a_profiler_inside_another_is_an_error_and_hurts_nothing():
    with profile() as prof:
        flambeau.ones(1)
        for inner in (profile, flambeau.autograd.profiler.profile):
            with pytest.raises(RuntimeError, match="Profiler is already enabled"):
                inner().__enter__()
        flambeau.ones(1)
    assert names(prof) == ["aten::ones"] * 2
    with profile() as prof:
        flambeau.ones(1)
    assert names(prof) == ["aten::ones"]


def test_asking_before_there_is_an_answer():
    prof = profile()
    for ask in (prof.events, prof.key_averages, prof.stop, lambda: prof.export_chrome_trace("x")):
        with pytest.raises(AssertionError, match="Profiler must be initialized before"):
            ask()
    with profile() as prof:
        with pytest.raises(RuntimeError, match="didn't finish"):
            prof.events()
    with pytest.raises(TypeError, match="ProfilerActivity"):
        profile(activities=["cpu"])
    with pytest.warns(UserWarning, match="XPU is not available"):
        profile(activities=[ProfilerActivity.CPU, ProfilerActivity.XPU])
    with pytest.warns(FutureWarning, match="use_cuda"):
        assert (
            ProfilerActivity.CUDA not in profile(use_cuda=False, activities=[ProfilerActivity.CPU]).activities
        )
    with pytest.raises(AssertionError, match="No valid profiler activities"):
        profile(activities=[])
    with pytest.raises(NotImplementedError, match="experimental_config"):
        profile(experimental_config=object())
    with pytest.raises(TypeError, match="name must be str"):
        record_function(3)


def test_collection_may_pause():
    with profile() as prof:
        flambeau.ones(1)
        prof.toggle_collection_dynamic(False, [ProfilerActivity.CPU])
        flambeau.zeros(1)
        prof.toggle_collection_dynamic(True, [ProfilerActivity.CPU])
        flambeau.ones(1)
    assert names(prof) == ["aten::ones"] * 2


def test_nothing_is_left_when_a_profile_is_dropped():
    gc.collect()
    gc.disable()
    try:
        held = flambeau.core.base.memory.memory_stats()["allocated_bytes"]
        with profile(record_shapes=True, with_stack=True, profile_memory=True) as prof:
            flambeau.ones(1000, requires_grad=True).exp().sum().backward()
        prof.events()
        assert flambeau.core.base.memory.memory_stats()["allocated_bytes"] == held  # no tensor is kept
    finally:
        gc.enable()


def test_off_means_no_entry_and_no_python():
    assert not profiling.is_profiling()
    before = profiling.begin_span("nothing")
    assert before == -1
    profiling.end_span(before)


# --- schedules ------------------------------------------------------------------------------------
CASES = [
    dict(wait=1, warmup=1, active=2),
    dict(wait=0, warmup=1, active=1, repeat=2),
    dict(wait=2, warmup=1, active=1, repeat=2, skip_first=3),
    dict(wait=2, warmup=1, active=1, repeat=1, skip_first=1, skip_first_wait=1),
]
TOLD = ["NWRSNWRSNW", "WSWSNNNNNN", "NNNNNWSNNW", "NWSNNNNNNN"]


@pytest.mark.parametrize("options, told", list(zip(CASES, TOLD)))
def test_schedules(options, told):
    letters = {"NONE": "N", "WARMUP": "W", "RECORD": "R", "RECORD_AND_SAVE": "S"}
    function = schedule(**options)
    assert "".join(letters[function(step).name] for step in range(10)) == told


def test_wrong_schedules():
    for wrong in (
        dict(wait=-1, warmup=0, active=1),
        dict(wait=0, warmup=1, active=0),
        dict(wait=0, warmup=1, active=1, repeat=-1),
    ):
        with pytest.raises(AssertionError, match="Invalid profiler schedule"):
            schedule(**wrong)
    with pytest.warns(UserWarning, match="won't be using warmup"):
        schedule(wait=0, warmup=0, active=1)
    with pytest.raises(AssertionError, match="non-negative"):
        schedule(wait=0, warmup=1, active=1)(-1)
    for answer in (None, ProfilerAction.DEVICE_STOPPED):
        with pytest.raises(ValueError, match="must return a ProfilerAction"):
            profile(schedule=lambda step, answer=answer: answer)
    assert not profiling.is_started()


def test_each_cycle_is_handed_on_with_its_steps():
    seen = []

    def ready(prof):
        seen.append([e.name for e in prof.events() if e.cpu_parent is None or e.name == "aten::exp"])

    with profile(schedule=schedule(wait=1, warmup=1, active=2, repeat=2), on_trace_ready=ready) as prof:
        x = flambeau.ones(3)
        for _ in range(10):
            x.exp()
            prof.step()
    # A step's own span begins before its operations; warm-up's are thrown away.
    assert seen == [
        ["ProfilerStep#2", "aten::exp", "ProfilerStep#3", "aten::exp"],
        ["ProfilerStep#6", "aten::exp", "ProfilerStep#7", "aten::exp"],
    ]
    assert prof.step_num == 10


def test_a_cycle_that_the_program_cuts_short_is_handed_on():
    seen = []
    with profile(
        schedule=schedule(wait=0, warmup=1, active=5), on_trace_ready=lambda p: seen.append(names(p))
    ) as prof:
        prof.step()
        flambeau.ones(1)
    assert seen == [["ProfilerStep#1", "aten::ones"]]


def test_events_of_all_cycles():
    with profile(schedule=schedule(wait=0, warmup=1, active=1, repeat=2), acc_events=True) as prof:
        for _ in range(4):
            flambeau.ones(1)
            prof.step()
    assert names(prof).count("aten::ones") == 2


def test_changes_of_mind_are_warned_of():
    told = [ProfilerAction.RECORD, ProfilerAction.NONE]
    with pytest.warns(UserWarning, match="Incorrect schedule: RECORD followed by NONE"):
        with profile(schedule=lambda step: told[min(step, 1)]) as prof:
            prof.step()
    assert not profiling.is_started()


# --- processes ------------------------------------------------------------------------------------
def run(script: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)


def test_a_profiler_left_open_at_exit_hands_on_what_it_has():
    done = run(
        "import flambeau\n"
        "from flambeau.profiler import profile\n"
        "prof = profile(on_trace_ready=lambda p: print([e.name for e in p.events()]))\n"
        "prof.start()\n"
        "flambeau.ones(2)\n"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "['aten::ones']"
    assert "still on when the program ended" in done.stderr


def test_the_child_of_a_fork_records_nothing():
    done = run(
        "import os, sys, flambeau\n"
        "from flambeau.core.base import profiling\n"
        "from flambeau.profiler import profile\n"
        "with profile(on_trace_ready=lambda p: print(os.getpid() == parent, [e.name for e in p.events()])) as prof:\n"
        "    parent = os.getpid()\n"
        "    flambeau.ones(2)\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        flambeau.zeros(2)\n"
        "        assert not profiling.is_profiling()\n"
        "    else:\n"
        "        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0\n"
        "if not child:\n"
        "    with profile() as own:\n"
        "        flambeau.full((2,), 1.0)\n"
        "    assert [e.name for e in own.events()] == ['aten::full']\n"
        "    os._exit(0)\n"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "True ['aten::ones']"


# --- the older profiler ---------------------------------------------------------------------------
def test_autograd_profiler():
    with flambeau.autograd.profiler.profile(record_shapes=True) as prof:
        with flambeau.autograd.profiler.record_function("mine"):
            flambeau.ones(2, 3) * 2
    assert [e.name for e in prof.function_events if "compile" not in e.name] == [
        "mine",
        "aten::ones",
        "aten::mul",
    ]
    assert prof.self_cpu_time_total == prof.function_events.self_cpu_time_total > 0
    assert prof.total_average().count == len(prof.function_events)
    assert "aten::mul" in str(prof) and "Self CPU time total" in prof.table()
    with flambeau.autograd.profiler.profile(enabled=False) as off:
        flambeau.ones(1)
    assert off is None
    unfinished = flambeau.autograd.profiler.profile()
    assert str(unfinished) == "<unfinished profiler>"
    with pytest.raises(RuntimeError, match="didn't finish"):
        _ = unfinished.function_events
    with pytest.raises(RuntimeError, match="with_stack=True"):
        prof.export_stacks(os.devnull)


def test_warnings_are_not_made_by_ordinary_use():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with profile() as prof:
            flambeau.ones(1)
        prof.key_averages().table()
