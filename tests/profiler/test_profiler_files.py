"""Tables as text, and traces as JSON that Chrome's and Perfetto's readers take."""

from __future__ import annotations

import gzip
import json
import threading

import pytest

import flambeau
from flambeau.autograd.profiler_util import EventList, FunctionEvent
from flambeau.profiler import ProfilerActivity, profile, record_function, tensorboard_trace_handler

PHASES = {  # what each kind of entry must have
    "X": {"name", "cat", "ts", "dur", "pid", "tid", "args"},
    "M": {"name", "pid", "tid", "args"},
    "i": {"name", "ts", "s", "pid", "tid"},
    "s": {"id", "ts", "pid", "tid", "cat", "name"},
    "f": {"id", "ts", "pid", "tid", "cat", "name", "bp"},
}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    weight = flambeau.ones(3, 3, requires_grad=True)

    def work():
        with record_function("span"):
            (flambeau.ones(2, 3) @ weight).sum().backward()

    with profile(record_shapes=True, profile_memory=True, with_stack=True, with_flops=True) as prof:
        work()
        thread = threading.Thread(target=work, name="second")
        thread.start()
        thread.join()
    prof.add_metadata("note", 'a "quoted" text')
    prof.add_metadata_json("numbers", "[1, 2]")
    return prof


@pytest.fixture(scope="module")
def trace(recorded, tmp_path_factory):
    path = tmp_path_factory.mktemp("trace") / "trace.json"
    recorded.export_chrome_trace(str(path))
    return json.loads(path.read_text())


def test_every_entry_has_what_its_phase_needs(trace):
    assert trace["traceEvents"]
    for entry in trace["traceEvents"]:
        assert PHASES[entry["ph"]] <= set(entry), entry
        for number in {"ts", "dur"} & set(entry):
            assert isinstance(entry[number], (int, float)) and entry[number] >= 0


def test_what_stands_beside_the_entries(trace):
    assert trace["schemaVersion"] == 1 and trace["displayTimeUnit"] == "ms"
    assert (
        trace["record_shapes"] == trace["profile_memory"] == trace["with_stack"] == trace["with_flops"] == 1
    )
    assert trace["note"] == 'a "quoted" text' and trace["numbers"] == [1, 2]
    assert len(trace["trace_id"]) == 32


def test_entries_of_a_thread_nest_and_never_cross(trace):
    by_thread = {}
    for e in trace["traceEvents"]:
        if e["ph"] == "X":
            by_thread.setdefault((e["pid"], e["tid"]), []).append(e)
    assert len(by_thread) == 2
    for entries in by_thread.values():
        open_until = []
        for e in sorted(entries, key=lambda e: (e["ts"], -e["dur"])):
            while open_until and open_until[-1] <= e["ts"]:
                open_until.pop()
            assert not open_until or e["ts"] + e["dur"] <= open_until[-1] + 0.002  # rounded to nanoseconds
            open_until.append(e["ts"] + e["dur"])


def test_threads_have_names(trace):
    told = [e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"]
    assert len(told) == 2 and any("second" in name for name in told)


def test_arguments_of_operations(trace):
    (product, *_) = [e for e in trace["traceEvents"] if e["name"] == "aten::matmul"]
    assert product["cat"] == "cpu_op"
    assert product["args"]["Input Dims"] == [[2, 3], [3, 3]]
    assert product["args"]["Input type"] == ["float32", "float32"]
    assert product["args"]["flops"] == 2 * 2 * 3 * 3
    assert "work" in product["args"]["Call stack"]
    (span, *_) = [e for e in trace["traceEvents"] if e["name"] == "span"]
    assert span["cat"] == "user_annotation"


def test_arrows_lead_from_forward_to_backward(trace):
    starts = {e["id"]: e for e in trace["traceEvents"] if e["ph"] == "s"}
    ends = [e for e in trace["traceEvents"] if e["ph"] == "f"]
    assert ends and all(starts[e["id"]]["ts"] < e["ts"] for e in ends)


def test_memory_is_told_where_it_changes(trace):
    changes = [e["args"] for e in trace["traceEvents"] if e["name"] == "[memory]"]
    assert changes and all(c["Bytes"] for c in changes)
    for before, after in zip(changes, changes[1:]):
        assert after["Total Allocated"] == before["Total Allocated"] + after["Bytes"]


def test_compressed_traces_and_the_handler(recorded, tmp_path):
    recorded.export_chrome_trace(str(tmp_path / "trace.json.gz"))
    with gzip.open(tmp_path / "trace.json.gz", "rt") as file:
        assert json.load(file)["traceEvents"]
    for use_gzip, ending in ((False, ".pt.trace.json"), (True, ".pt.trace.json.gz")):
        folder = tmp_path / f"new{use_gzip}" / "folder"
        tensorboard_trace_handler(str(folder), "worker", use_gzip)(recorded)
        (file,) = folder.iterdir()
        assert file.name.startswith("worker.") and file.name.endswith(ending)
    (tmp_path / "taken").write_text("")
    with pytest.raises(RuntimeError, match="Can't create directory"):
        tensorboard_trace_handler(str(tmp_path / "taken"))(recorded)
    with pytest.raises(ValueError):
        recorded.add_metadata_json("wrong", "{")


def test_metadata_set_before(tmp_path):
    prof = profile()
    prof.preset_metadata_json("answer", "42")
    with prof:
        flambeau.ones(1)
    prof.export_chrome_trace(tmp_path / "t.json")
    assert json.loads((tmp_path / "t.json").read_text())["answer"] == 42


def test_the_lists_own_trace(recorded, tmp_path):
    recorded.events().export_chrome_trace(tmp_path / "list.json")
    entries = json.loads((tmp_path / "list.json").read_text())
    assert {"name", "ph", "ts", "dur", "tid", "pid", "args"} == set(entries[0])


# --- tables ---------------------------------------------------------------------------------------
def cells(line: str, rule: str) -> list[str]:
    """A line cut where the rule has gaps."""
    result, place = [], 0
    for dashes in rule.split():
        result.append(line[place : place + len(dashes)].strip())
        place += len(dashes) + 2
    return result


def test_the_columns_of_a_table(recorded):
    lines = recorded.key_averages(group_by_input_shape=True, group_by_stack_n=1).table().splitlines()
    rule = lines[0]
    assert lines[2] == rule and set(rule) <= {"-", " "}
    assert cells(lines[1], rule) == [
        "Name",
        "Self CPU %",
        "Self CPU",
        "CPU total %",
        "CPU total",
        "CPU time avg",
        "CPU Mem",
        "Self CPU Mem",
        "# of Calls",
        "Input Shapes",
        "Source Location",
        "Total FLOPs",
    ]
    assert lines[-1].startswith("Self CPU time total: ") and lines[-1].endswith(("us", "ms", "s"))


def test_rows_are_sorted_and_limited(recorded):
    averages = recorded.key_averages()
    for metric in (
        "cpu_time_total",
        "self_cpu_time_total",
        "cpu_time",
        "count",
        "cpu_memory_usage",
        "cuda_time_total",
    ):
        table = averages.table(sort_by=metric, row_limit=3).splitlines()
        rule = table[0]
        told = [cells(line, rule)[0] for line in table[3 : table.index(rule, 3)]]
        key = metric.replace("cuda", "device")
        expected = [a.key for a in sorted(averages, key=lambda a: getattr(a, key), reverse=True)[:3]]
        assert len(told) == 3
        assert [t.rstrip(".") for t in told] == [e[: len(t.rstrip("."))] for t, e in zip(told, expected)]
    with pytest.raises(AttributeError, match="bogus"):
        averages.table(sort_by="bogus")
    assert len(averages.table(row_limit=-1).splitlines()) == len(averages) + 5


def test_headers_units_and_widths(recorded):
    averages = recorded.key_averages()
    table = averages.table(header="A heading", time_unit="ms", max_name_column_width=15, row_limit=2)
    lines = table.splitlines()
    assert set(lines[0]) == {"="} and lines[1] == "A heading"
    row = cells(lines[5], lines[2])
    assert len(lines[2].split()[0]) == 15 and row[2].endswith("ms")
    with pytest.raises(ValueError, match="time_unit must be one of"):
        averages.table(time_unit="h")
    assert "only display top-level" in recorded.events().table(top_level_events_only=True)
    assert EventList().table() == ""
    widest = averages.table(max_name_column_width=None)
    assert "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad" in widest


def test_shares_are_of_all_that_ran():
    def event(k, start, end):
        return FunctionEvent(k, f"e{k}", 1, start, end)

    outer, inner = event(0, 0.0, 10.0), event(1, 2.0, 6.0)
    outer.append_cpu_child(inner)
    table = EventList([outer, inner]).key_averages().table().splitlines()
    rule = table[0]
    assert cells(table[3], rule)[1:6] == ["60.00%", "6.000us", "100.00%", "10.000us", "10.000us"]
    assert cells(table[4], rule)[1:6] == ["40.00%", "4.000us", "40.00%", "4.000us", "4.000us"]
    assert table[-1] == "Self CPU time total: 10.000us"


def test_grouping():
    x, y = flambeau.ones(2), flambeau.ones(3)
    with profile(record_shapes=True, with_stack=True) as prof:
        for _ in range(3):
            x.exp()
        y.exp()
    assert [a.count for a in prof.key_averages() if a.key == "aten::exp"] == [4]
    by_shape = prof.key_averages(group_by_input_shape=True)
    assert [(a.count, a.input_shapes) for a in by_shape if a.key == "aten::exp"] == [(3, [[2]]), (1, [[3]])]
    by_line = [a for a in prof.key_averages(group_by_stack_n=1) if a.key == "aten::exp"]
    assert [a.count for a in by_line] == [3, 1] and all(len(a.stack) == 1 for a in by_line)
    assert "count" not in repr(by_line[0]) and "aten::exp" in repr(by_line[0])


def test_only_what_was_asked_for_is_told():
    with profile(activities=[ProfilerActivity.OPENCL]) as prof:
        flambeau.ones(1)
    assert prof.events() == []
