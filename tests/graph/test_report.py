"""What a plan says of itself: steps, reasons, lines, pictures, logs, profiles."""

from __future__ import annotations

import logging
import xml.etree.ElementTree as tree

import pytest
from flambeau.graph.record import Recording

import flambeau
from flambeau.graph.explain import report
from flambeau.graph.lines import Lines
from flambeau.graph.logs import level_of
from flambeau.graph.lower import plan
from flambeau.graph.picture import svg
from flambeau.graph.program import Program
from flambeau.graph.trace import record

F = flambeau.nn.functional


def gated(x, w):
    a, b = F.linear(x, w).chunk(2, -1)
    y = a * b.sigmoid()
    y = y - y.mean(-1, keepdim=True)
    values = flambeau.sort(y).values
    values[0] = 1.0
    return (values + 1).sum(0), y.mT.exp()


def given():
    return flambeau.randn(8, 16), flambeau.randn(12, 16)


def test_every_call_is_of_one_step():
    seen = report(gated, *given())
    calls = [c for step in seen.steps for c in step.calls]
    assert sorted(calls, key=lambda c: c.number) == seen.program.calls
    kinds = [step.kind for step in seen.steps]
    assert kinds.count("product") == 1 and kinds.count("call") == 2 and kinds.count("kernel") >= 3


def test_reasons_name_what_stays_apart():
    seen = "\n".join(report(gated, *given()).apart())
    assert "sort() is no loop over elements or rows" in seen
    assert "__setitem__() writes to memory that is there before" in seen
    assert "loops over [8, 6] and over [6, 8]" in seen


def test_rows_of_other_dimensions_are_said():
    seen = report(lambda x: x.softmax(0).softmax(1), flambeau.ones(3, 4)).apart()
    assert seen == ["kernel 1 and kernel 0, which makes %1: rows of dimensions [-2] and of [-1]"]


def test_complex_numbers_are_said():
    seen = report(lambda x: x * 2, flambeau.ones(3, dtype=flambeau.complex64)).apart()
    assert seen == ["call 0: mul() is of complex numbers"]


def test_lines_are_those_of_the_program():
    begin = gated.__code__.co_firstlineno
    seen = report(gated, *given())
    lines = {c.name: seen.line(c) for c in seen.program.calls}
    assert lines["linear"] == f"test_report.py:{begin + 1}"
    assert lines["sort"] == f"test_report.py:{begin + 4}"
    assert lines["exp"] == f"test_report.py:{begin + 6}"
    assert f"# test_report.py:{begin + 6}" in repr(seen)


def test_lines_after_a_function_that_the_program_calls():
    def inner(x):
        return x.exp()

    def outer(x):
        return inner(x).sin() + inner(x)

    with Recording() as recording, Lines(recording) as lines:
        outer(flambeau.ones(2))
    first = outer.__code__.co_firstlineno
    inside = inner.__code__.co_firstlineno + 1
    found = [line for _, line in lines.of_calls()]
    assert found[1:] == [inside, first + 1, inside, first + 1]


def test_tracing_is_as_it_was_after_an_error():
    import sys

    before = sys.gettrace()
    with pytest.raises(RuntimeError):
        report(lambda x: x @ x, flambeau.ones(2, 3))
    assert sys.gettrace() is before


def test_a_plan_has_its_report_and_memory():
    runner = plan(Program(record(gated, *given())[0]))
    assert len(runner.report.steps) == len(runner.steps)
    assert f"a run takes {runner.memory.peak} bytes" in repr(runner.report)


def test_a_picture_has_a_box_for_each_call_and_step():
    seen = report(gated, *given())
    drawn = tree.fromstring(svg(seen, "a < b"))
    boxes = drawn.findall("{http://www.w3.org/2000/svg}rect")
    assert len(boxes) == 1 + len(seen.program.calls) + len(seen.steps)


def test_a_profile_shows_steps():
    runner = plan(Program(record(gated, *given())[0]))
    with flambeau.profiler.profile() as seen:
        found = runner(*given())
    names = {e.key for e in seen.key_averages()}
    assert {step.name for step in runner.report.steps if step.kind != "call"} <= names
    assert found[0].shape == (6,)


def test_plans_are_logged_where_that_is_wanted(caplog):
    with caplog.at_level(logging.DEBUG, "flambeau.graph"):
        plan(Program(record(gated, *given())[0]))
    assert "sort() is no loop" in caplog.text


@pytest.mark.parametrize(
    "text, level", [("graph", logging.INFO), ("a,+graph", logging.DEBUG), ("", None), ("graphs", None)]
)
def test_the_environment_sets_the_level(text, level):
    assert level_of({"FLAMBEAU_LOG": text}) == level
