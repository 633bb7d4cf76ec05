"""Timers on a clock that the test turns, statistics, tables, and inputs drawn at random."""

from __future__ import annotations

import copy
import pickle
import re

import pytest

import flambeau
from flambeau.utils import benchmark
from flambeau.utils.benchmark import (
    Compare,
    FuzzedParameter,
    FuzzedTensor,
    Fuzzer,
    Measurement,
    ParameterAlias,
    TaskSpec,
    Timer,
)


class Clock:
    """A clock that runs when `tick` is called."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def tick(self, seconds: float) -> None:
        self.now += seconds


def measured(times, **task) -> Measurement:
    return Measurement(1, list(times), TaskSpec(task.pop("stmt", "x"), "pass", **task))


def test_timeit_warms_up_and_counts_runs():
    clock, runs = Clock(), []
    timer = Timer("run()", timer=clock, globals={"run": lambda: (runs.append(1), clock.tick(0.5))})
    result = timer.timeit(200)
    assert len(runs) == 202 and result.number_per_run == 200
    assert result.times == [0.5] and result.median == result.mean == 0.5 and result.iqr == 0


def test_blocks_are_as_long_as_the_clock_needs():
    clock, calls = Clock(), []
    timer = Timer("tick(1e-6)", timer=clock, globals={"tick": clock.tick})
    result = timer.blocked_autorange(
        lambda number, seconds: calls.append((number, seconds)), min_run_time=0.01
    )
    assert result.number_per_run == 10  # a thousandth of the time asked for
    assert sum(result.raw_times) >= 0.01 and result.median == pytest.approx(1e-6)
    assert len(calls) == len(result.raw_times) and calls[0][0] == 10


def test_adaptive_blocks_stop_when_the_spread_is_small_or_the_time_is_over():
    clock = Clock()
    steady = Timer("tick(1e-2)", timer=clock, globals={"tick": clock.tick})
    assert len(steady.adaptive_autorange().raw_times) == 4
    state = {"k": 0}

    def wild():
        state["k"] += 1
        clock.tick(0.1 if state["k"] % 2 else 1.0)

    result = Timer("wild()", timer=clock, globals={"wild": wild}).adaptive_autorange(max_run_time=5.0)
    assert 5.0 < sum(result.raw_times) < 6.2 and result.has_warnings


def test_statements_see_the_package_their_setup_and_their_threads():
    before = flambeau.get_num_threads()
    seen = []
    timer = Timer(
        """
        note(torch.get_num_threads(), y)
        """,
        setup="y = torch.ones(2) + z",
        globals={"note": lambda *x: seen.append(x), "z": 1},
        num_threads=1,
    )
    timer.timeit(1)
    assert seen[0][0] == 1 and flambeau.equal(seen[0][1], flambeau.full((2,), 2.0))
    assert flambeau.get_num_threads() == before
    with pytest.raises(KeyError):
        Timer("{}['none']").timeit(1)
    assert flambeau.get_num_threads() == before


def test_what_timers_do_not_take():
    for wrong in (dict(stmt=print), dict(language="c++"), dict(global_setup="#include <x>")):
        with pytest.raises(ValueError):
            Timer(**wrong)
    for name in ("repeat", "autorange"):
        with pytest.raises(NotImplementedError, match="blocked_autorange"):
            getattr(Timer(), name)()


def test_statistics():
    result = measured([4.0, 1.0, 3.0, 2.0])
    assert (result.median, result.mean, result.iqr) == (2.5, 2.5, 1.5)
    assert not result.meets_confidence() and result.has_warnings
    even = measured([1e-3] * 20)
    assert even.iqr == 0 and not even.has_warnings and even.significant_figures == 4
    assert measured([1.0, 2.0, 9.0, 3.0]).significant_figures == 1
    assert Measurement(10, [1.0], TaskSpec("x", "")).median == 0.1


def test_measurements_are_told_as_text():
    text = repr(measured([1e-6, 1.1e-6, 2e-6, 3e-6], label="add", sub_label="small", description="mine"))
    assert re.fullmatch(
        r"<\S*Measurement object at 0x[0-9a-f]+>\n"
        r"add: small\nmine\n  Median: 1.55 us\n  IQR:    1.18 us \(1.08 to 2.25\)\n"
        r"  4 measurements, 1 runs per measurement, 1 thread\n"
        r"  WARNING: Interquartile range is 75.8% of the median measurement.\n"
        r"           This suggests significant environmental influence.",
        text,
    )
    single = Measurement(5, [1.0], TaskSpec("a\nb", "c\nd", num_threads=2))
    assert "200.00 ms\n  1 measurement, 5 runs, 2 threads" in repr(single)
    assert single.title == "stmt:\n  a\n  b" and single.task_spec.setup_str() == "setup:\n  c\n  d"
    assert single.as_row_name == "a\nb"
    with pytest.raises(AttributeError, match="nothing"):
        _ = single.nothing


def test_measurements_merge_travel_and_copy():
    one, two = Measurement(10, [1.0], TaskSpec("x", "")), Measurement(5, [1.0, 2.0], TaskSpec("x", ""))
    (merged,) = Measurement.merge([one, two])
    assert merged.number_per_run == 1 and merged.raw_times == [0.1, 0.2, 0.4]
    assert len(Measurement.merge([one, measured([1.0], label="other")])) == 2
    for again in (pickle.loads(pickle.dumps(merged)), copy.deepcopy(merged)):
        assert again.raw_times == merged.raw_times and again.stmt == "x"


def test_units_and_figures():
    told = [benchmark.select_unit(t)[0] for t in (1e-12, 5e-9, 1e-6, 2e-3, 1.0, 5000.0, 0.0)]
    assert told == ["ns", "ns", "us", "ms", "s", "s", "ns"]
    assert [benchmark.unit_to_english(u) for u in ("ns", "s")] == ["nanosecond", "second"]
    assert [benchmark.trim_sigfig(x, 2) for x in (3.14159, 1234.0, 0.0, -0.0456)] == [
        3.1,
        1200.0,
        0.0,
        -0.046,
    ]
    with pytest.raises(AssertionError):
        benchmark.trim_sigfig(1.0, 1.5)


@pytest.fixture
def results():
    return [
        measured([t * 1e-6] * 4, label="add", sub_label=f"n={n}", description=d, num_threads=threads)
        for threads, n, d, t in (
            (1, 10, "a", 10.0),
            (1, 10, "b", 20.04),
            (1, 1000, "a", 60.0),
            (2, 10, "b", 5.0),
        )
    ]


def test_tables_have_rows_by_threads_and_columns_by_description(results):
    lines = str(Compare(results)).splitlines()
    assert lines[0].startswith("[") and " add " in lines[0] and len(lines[0]) == len(lines[1])
    assert [part.strip() for part in lines[1].split("|")] == ["", "a", "b"]
    rows = [[part.strip() for part in line.split("|")] for line in lines[2:7]]
    assert rows == [
        ["1 threads: ".ljust(len(lines[0]), "-").strip()],
        ["n=10", "10.0", "20.0"],
        ["n=1000", "60.0", ""],
        ["2 threads: ".ljust(len(lines[0]), "-").strip()],
        ["n=10", "", "5.0"],
    ]
    assert lines[-1] == "Times are in microseconds (us)."


def test_tables_trim_color_and_warn(results, capsys):
    table = Compare(results)
    table.extend_results([measured([1e-6, 1e-6, 3e-6, 9e-6], label="wild", description="a")])
    table.trim_significant_figures()
    table.highlight_warnings()
    table.print()
    shown = capsys.readouterr().out
    assert "(! 175%)" in shown and "high variance" in shown and "10" in shown
    table.colorize()
    assert "\033[92m\033[1m" in str(table) and "\033[31m" in str(table)
    table.colorize(rowwise=True)
    assert str(table).count("\033[92m") == 4
    with pytest.raises(ValueError, match="Expected an instance of `Measurement`"):
        Compare([1.0])


def test_environments_are_told_where_they_differ():
    results = [measured([1.0], label="x", sub_label="s", env=env) for env in ("old", "new")]
    assert "(old)" in str(Compare(results)) and "(new)" in str(Compare(results))
    assert "(old)" not in str(Compare(results[:1]))


def test_random_inputs_come_again_with_their_seed():
    def draw(seed):
        fuzzer = Fuzzer(
            [
                FuzzedParameter("dims", distribution={1: 0.3, 2: 0.7}, strict=True),
                [FuzzedParameter(f"n{k}", 1, 64, "loguniform") for k in range(2)],
                FuzzedParameter("m", distribution={ParameterAlias("n0"): 0.5, 1: 0.5}),
                FuzzedParameter("p", 0.0, 1.0, "uniform"),
            ],
            [
                FuzzedTensor(
                    "x", ("n0", "n1"), (1, 2), dim_parameter="dims", min_elements=4, max_elements=500
                ),
                FuzzedTensor("y", ("m",), dtype=flambeau.int64, probability_contiguous=1.0),
            ],
            constraints=[lambda params: params["n0"] % 2 == 0],
            seed=seed,
        )
        return list(fuzzer.take(20)), fuzzer.rejection_rate

    (first, rate), (again, _), (other, _) = draw(3), draw(3), draw(4)
    assert 0 < rate < 1
    for (tensors, properties, params), (tensors_again, _, params_again) in zip(first, again):
        assert params == params_again and flambeau.equal(tensors["x"], tensors_again["x"])
        assert tensors["x"].dim() == params["dims"] and 4 <= properties["x"]["numel"] <= 500
        assert params["n0"] % 2 == 0 and params["m"] in (1, params["n0"]) and 0 <= params["p"] <= 1
        assert properties["x"]["is_contiguous"] == tensors["x"].is_contiguous()
        assert tensors["y"].dtype == flambeau.int64
    assert [p for _, _, p in first] != [p for _, _, p in other]
    assert {p["x"]["is_contiguous"] for _, p, _ in first} == {True, False}


def test_wrong_random_inputs():
    for wrong in (
        dict(distribution="normal"),
        dict(distribution={1: 0.5}),
        dict(distribution={1: -1.0, 2: 2.0}),
        dict(minval=1, distribution={1: 1.0}),
        dict(distribution="uniform"),
    ):
        with pytest.raises(AssertionError):
            FuzzedParameter("n", **wrong)
    n, x = FuzzedParameter("n", 1, 2, "uniform"), FuzzedTensor("n", (1,))
    with pytest.raises(ValueError, match="Duplicate names"):
        Fuzzer([n], [x])
    circle = [FuzzedParameter(a, distribution={ParameterAlias(b): 1.0}) for a, b in ("ab", "ba")]
    with pytest.raises(ValueError, match="cycle"):
        next(Fuzzer(circle, []).take(1))
    with pytest.raises(ValueError, match="Failed to generate"):
        next(Fuzzer([n], [], constraints=[lambda params: False], seed=0).take(1))
