"""onnx's own tests of operators, read and run: what fails is what is known to be refused, for a reason that is said here."""

from __future__ import annotations

import re
import sys
import warnings
from collections import defaultdict
from pathlib import Path

import pytest

import flambeau
from flambeau.onnx._operators import read_declarations
from flambeau.onnx._operators.declare import OPERATORS, REFUSED

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
import onnx_node_tests as nodes  # noqa: E402

# Tests that fail, by their names, and why.
KNOWN = {
    r"(?i)int4|int2|float4": "integers of 2 and 4 bits and floats of 4 have no dtype",
    r"equal_string|identity_sequence_string": "there are no tensors of strings",
    r"regex|string|strnormalizer|tfidf|image_decoder": "there are no tensors of strings, and images are read before the model",
    r"e8m0": "float8_e8m0fnu is rounded upwards there, and to the nearest power of two here",
    r"upsample|scan_sum$|loop11|dropout_\w+_old|clip_.*old": "operators of opsets before 13 that have another meaning",
}


@pytest.fixture(scope="module")
def outcomes():
    """By operator: how many tests there are, and the errors of those that fail."""
    results = defaultdict(lambda: [0, {}])
    for case in nodes.cases("", 21):
        entry = results[nodes.operator_of(case)]
        entry[0] += 1
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                nodes.run(case)
        except Exception as error:
            entry[1][case.name] = f"{type(error).__name__}: {error}"
    return results


def test_what_fails_is_known(outcomes):
    failures = {name: why for _, failed in outcomes.values() for name, why in failed.items()}
    unknown = {n: why for n, why in failures.items() if not any(re.search(p, n) for p in KNOWN)}
    assert not unknown
    idle = [p for p in KNOWN if not any(re.search(p, n) for n in failures)]
    assert not idle, "these reasons explain nothing"


def test_nine_tenths_pass(outcomes):
    total = sum(count for count, _ in outcomes.values())
    failed = sum(len(f) for _, f in outcomes.values())
    assert total > 1500 and (total - failed) / total >= 0.9


def test_every_operator_of_the_opsets_is_read_or_refused():
    from onnx import defs

    read_declarations()
    known = {name for domain, name in (*OPERATORS, *REFUSED) if not domain} | {"Constant"}
    for opset in range(13, 22):
        there = {s.name for s in defs.get_all_schemas() if _has(defs, s, opset)}
        assert there <= known


def _has(defs, schema, opset):
    if schema.domain:
        return False
    try:
        return not defs.get_schema(schema.name, opset).deprecated
    except defs.SchemaError:
        return False


def test_declarations_have_the_inputs_and_attributes_of_the_standard():
    """Of the version that opset 21 has: as many inputs, and attributes of the same names and kinds."""
    from onnx import defs

    read_declarations()
    kinds = {"INTS": "ints", "FLOATS": "floats", "STRINGS": "strs", "TENSOR": "tensor", "GRAPH": "graph"}
    kinds |= {"INT": "int", "FLOAT": "float", "STRING": "str", "TYPE_PROTO": "type"}
    for (domain, name), versions in OPERATORS.items():
        try:
            schema = defs.get_schema(name, 21) if not domain else None
        except defs.SchemaError:
            continue
        if schema is None:
            continue
        declared = next(o for o in reversed(versions) if o.since <= 21)
        assert declared.variadic or len(declared.inputs) >= schema.max_input, name
        assert declared.required <= schema.min_input, name
        for attribute, said in schema.attributes.items():
            wanted = kinds[said.type.name]
            got = (
                "int"
                if declared.attributes[attribute].kind == "dtype"
                else declared.attributes[attribute].kind
            )
            assert got == wanted, f"{name}.{attribute}"
            assert declared.attributes[attribute].required <= said.required, f"{name}.{attribute}"


def test_defaults_are_those_of_the_standard():
    import inspect

    from onnx import defs, helper

    read_declarations()
    for (domain, name), versions in OPERATORS.items():
        try:
            schema = defs.get_schema(name, 21) if not domain else None
        except defs.SchemaError:
            continue
        declared = next(o for o in reversed(versions) if o.since <= 21)
        if schema is None or isinstance(declared.function, type) or not declared.attributes:
            continue
        parameters = inspect.signature(declared.function).parameters
        for attribute, said in schema.attributes.items():
            if not said.default_value.type or declared.attributes[attribute].kind == "dtype":
                continue
            wanted = helper.get_attribute_value(said.default_value)
            wanted = wanted.decode() if isinstance(wanted, bytes) else wanted
            got = parameters[attribute].default
            if isinstance(wanted, list) and got is None:  # what the function puts in its place
                continue
            assert got == pytest.approx(wanted) if isinstance(wanted, float) else got == wanted, (
                f"{name}.{attribute}"
            )


def test_a_module_can_be_traced_with_its_operators_as_nodes():
    program = flambeau.onnx.export(flambeau.nn.LayerNorm(4), (flambeau.ones(2, 4),))
    read = flambeau.onnx.load_model(program.model_proto.SerializeToString())
    traced = flambeau.fx.symbolic_trace(read)
    called = [n.target.__name__ for n in traced.graph.nodes if n.op == "call_function"]
    assert "layer_normalization" in called
    x = flambeau.randn(2, 4)
    assert flambeau.equal(traced(x), read(x))
