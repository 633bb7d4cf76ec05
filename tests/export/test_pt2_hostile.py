"""Archives that somebody made: nothing of them runs, nothing absurd is asked for, and what is wrong is said."""

from __future__ import annotations

import ast
import copy
import io
import json
import random
import resource
import sys
import threading
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import flambeau
from flambeau import export
from flambeau._files.archive import Writer

FOLDER = Path(__file__).resolve().parents[1] / "data" / "torch" / "export"
REFUSALS = (RuntimeError, EOFError)
WATCHED = (
    "exec",
    "compile",
    "os.",
    "subprocess.",
    "socket.",
    "shutil.",
    "ctypes.",
    "import",
    "pickle.find_class",
    "urllib",
)
MOST_MEMORY = 256 << 10  # KiB that all of these loads may add to the process


class Watch:
    """What Python's audit hooks see of a thread while it is on."""

    seen: list[tuple[str, Any]] = []
    thread: int | None = None


def _audit(event: str, args: tuple) -> None:
    if Watch.thread == threading.get_ident() and (event.startswith(WATCHED) or event == "open"):
        Watch.seen.append((event, args[:2]))


sys.addaudithook(_audit)


def watched(function: Callable[..., Any], *args: Any, code: bool = False) -> Any:
    """What a function gives; AssertionError where anything else than computing was done.

    `code`: the library may write the code of a graph that is checked.
    """
    Watch.seen, Watch.thread = [], threading.get_ident()
    try:
        return function(*args)
    finally:
        Watch.thread = None
        seen = [e for e in Watch.seen if not (code and e[0] in ("exec", "compile"))]
        assert not seen, seen


def loaded(data: bytes) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return watched(export.load, io.BytesIO(data))


def entries_of(name: str) -> dict[str, bytes]:
    with zipfile.ZipFile(FOLDER / f"{name}.pt2") as archive:
        return {n.partition("/")[2]: archive.read(n) for n in archive.namelist()}


def packed(entries: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    writer = Writer(file.write)
    for name, data in entries.items():
        writer.add(f"archive/{name}", data)
    writer.close()
    return file.getvalue()


NAMES = ("mlp", "counting", "batched", "branches", "trees", "lstm", "chosen", "views", "indexing")
ENTRIES = {name: entries_of(name) for name in NAMES}
PROGRAM = "models/model.json"
WEIGHTS = "data/weights/model_weights_config.json"


@pytest.fixture(scope="module", autouse=True)
def everything_is_imported():
    """What loading imports late is there before anything is watched; and memory is looked at in the end."""
    for name, entries in ENTRIES.items():
        program = export.load(io.BytesIO(packed(entries)))
        assert program.module().code and name
    for data in (b"", b"PK\3\4", packed(ENTRIES["mlp"] | {PROGRAM: b"{"})):
        with pytest.raises(REFUSALS):
            export.load(io.BytesIO(data))
    "é".encode("cp437")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MOST_MEMORY


def changed(name: str, change: Callable[[Any], Any], entry: str = PROGRAM) -> bytes:
    """An archive whose JSON is changed."""
    entries = ENTRIES[name]
    told = json.loads(entries[entry])
    change(told)
    return packed(entries | {entry: json.dumps(told).encode()})


def nodes(told: Any) -> list[Any]:
    return told["graph_module"]["graph"]["nodes"]


def values(told: Any) -> Any:
    return told["graph_module"]["graph"]["tensor_values"]


# --- what a program may call ------------------------------
TARGETS = (
    "os.system",
    "builtins.eval",
    "torch.load",
    "torch.hub.load",
    "torch.ops.load_library",
    "torch._C._set_grad_enabled",
    "torch.ops.aten.__class__.default",
    "torch.ops.aten.add.__class__",
    "torch.ops.aten.from_file.default",
    "torch.ops.aten.no_such_thing.default",
    "torch.ops.higher_order.call_torchbind",
    "torch.ops.higher_order.__class__",
    "torch.ops.higher_order",
    "torch.ops.flambeau.__import__.default",
    "torch.ops.flambeau.load.default",
    "torch.ops.os.system.default",
    "torch.ops.profiler._record_function_enter.default",
    "_operator.attrgetter",
    "_operator.methodcaller",
    "_operator.call",
    "_operator.__class__",
    "math.__loader__",
    "#evil:op",
    "",
    "...",
    "torch.ops.aten.add.Tensor.__globals__",
    "print",
)


@pytest.mark.parametrize("target", TARGETS)
def test_targets(target):
    data = changed("mlp", lambda told: nodes(told)[1].update(target=target))
    with pytest.raises(RuntimeError, match="node 'relu': ") as raised:
        loaded(data)
    assert len(str(raised.value)) < 2000


# --- names that become code ------------------------------
INJECTIONS = (
    "x; import os",
    "x\nimport os\nos.system('ls')",
    "__class__",
    "__init__",
    "x): pass\nimport os\ndef f(",
    "a.b",
    "",
    "class",
    "é\u202e",
    "x" * 100000,
)


def name_changes(name: str) -> dict[str, Callable[[Any], Any]]:
    """Where a name of an archive comes near code."""

    def parameter(told: Any) -> None:
        told["graph_module"]["signature"]["input_specs"][0]["parameter"]["parameter_name"] = name

    def value(told: Any) -> None:
        text = json.dumps(told).replace('"relu"', json.dumps(name))
        told.clear()
        told.update(json.loads(text))

    def argument(told: Any) -> None:
        text = json.dumps(told).replace('"x"', json.dumps(name))
        told.clear()
        told.update(json.loads(text))

    def forward(told: Any) -> None:
        told["graph_module"]["module_call_graph"][0]["signature"]["forward_arg_names"] = [name]

    return {"parameter": parameter, "value": value, "argument": argument, "forward": forward}


@pytest.mark.parametrize("name", INJECTIONS)
@pytest.mark.parametrize("where", ["parameter", "value", "argument", "forward"])
def test_names(where, name):
    """Refused, or a name and nothing else: the code that is written of the graph is that of the graph."""
    try:
        program = loaded(changed("mlp", name_changes(name)[where]))
    except REFUSALS as error:
        assert 20 < len(str(error)) < 2000
        return
    assert where in ("value", "forward", "argument")
    module = watched(program.module, code=True)
    code = watched(lambda: module.code, code=True)
    written = ast.parse(code.strip())
    assert [type(n) for n in written.body] == [ast.FunctionDef]
    assert not any(isinstance(n, (ast.Import, ast.ImportFrom, ast.Lambda)) for n in ast.walk(written))
    assert module(flambeau.ones(2, 3)).shape == (2, 2)


@pytest.mark.parametrize("name", ["x; import os", "a b", "class", "self", "1", "__class__", "x=exec('1')"])
def test_names_of_keyword_arguments(name):
    def change(told: Any) -> None:
        signature = told["graph_module"]["module_call_graph"][0]["signature"]
        signature["in_spec"] = signature["in_spec"].replace(
            '[\\"scale\\"]', json.dumps(json.dumps([name]))[1:-1]
        )

    with pytest.raises(RuntimeError, match="keyword arguments that are no names"):
        loaded(changed("trees", change))


@pytest.mark.parametrize(
    "name", ["forward", "_parameters", "graph", "state_dict", "a.__class__.b", "a..b", "a/../b", "to"]
)
def test_names_that_modules_keep(name):
    data = changed("mlp", name_changes(name)["parameter"])
    with pytest.raises(RuntimeError, match="is no name of a parameter"):
        loaded(data)


def test_a_graph_of_a_name_that_is_none():
    def change(told: Any) -> None:
        for given in nodes(told)[-2]["inputs"] + nodes(told)[-1]["inputs"]:
            if "as_graph" in given["arg"]:
                given["arg"]["as_graph"]["name"] = "forward"

    with pytest.raises(RuntimeError, match="is no name of a graph"):
        loaded(changed("branches", change))


def test_texts_that_are_no_code():
    """Guards, stack traces and annotations of PyTorch's are texts: they are kept, and never run."""
    evil = "__import__('os').system('ls')"

    def change(told: Any) -> None:
        told["guards_code"] = [evil]
        for node in nodes(told):
            node["metadata"] = {
                "stack_trace": evil,
                "custom": evil,
                "from_node": evil,
                "nn_module_stack": f"a,{evil},b;",
            }
        told["torch_version"] = evil

    program = loaded(changed("mlp", change))
    module = watched(program.module, code=True)
    assert watched(module, flambeau.ones(2, 3), code=True).shape == (2, 2)
    assert program._guards_code == [evil]


def test_texts_as_arguments():
    def change(told: Any) -> None:
        nodes(told)[1]["inputs"] = [
            {"name": "equation", "arg": {"as_string": "'); import os; ('"}, "kind": 1},
            {"name": "tensors", "arg": {"as_tensors": [{"name": "linear"}]}, "kind": 1},
        ]
        nodes(told)[1]["target"] = "torch.ops.aten.einsum.default"

    module = watched(loaded(changed("mlp", change)).module, code=True)
    with pytest.raises((RuntimeError, ValueError)):
        watched(module, flambeau.ones(2, 3), code=True)


# --- sizes ------------------------------
EXPRESSIONS = (
    "__import__('os').system('ls')",
    "exec('1')",
    "().__class__",
    "lambda: 1",
    "[1 for x in y]",
    "Symbol('s0').name",
    "Symbol(Symbol)",
    "Symbol('a b')",
    "2**999999999999",
    "9" * 5000,
    "(" * 100000 + "s0" + ")" * 100000,
    "-" * 100000 + "s0",
    "Add(" * 5000 + "s0" + ")" * 5000,
    "*".join(["(s0+s1+s2+s3)"] * 12),
    "s0 s1",
    "s0 +",
    "f'{s0}'",
    "s0.__class__",
    "s0 if s1 else s2",
    "",
    "\x00",
    "s0" + "+s0" * 100000,
)


@pytest.mark.parametrize("text", EXPRESSIONS, ids=range(len(EXPRESSIONS)))
def test_expressions(text):
    def change(told: Any) -> None:
        values(told)["x"]["sizes"][0] = {"as_expr": {"expr_str": text, "hint": {"as_int": 6}}}

    try:
        program = loaded(changed("batched", change))
    except REFUSALS as error:
        assert 20 < len(str(error)) < 2000
    else:  # a large number is a number, and no input has that size
        with pytest.raises(AssertionError):
            program.module()(flambeau.ones(6, 4), flambeau.ones(3, 1))


@pytest.mark.parametrize(
    "text", ["Pow(s0, 1000000000)", "2**64 * s0", "Mod(s0, 0)", "s0 // (s0 - s0)", "IntTrueDiv(s0, 0)"]
)
def test_expressions_that_have_no_value(text):
    """They are refused where they are read, or no input has such a size."""

    def change(told: Any) -> None:
        values(told)["x"]["sizes"][1] = {"as_expr": {"expr_str": text, "hint": None}}

    with pytest.raises((AssertionError, RuntimeError)):
        loaded(changed("batched", change)).module()(flambeau.ones(6, 4), flambeau.ones(3, 1))


# --- weights ------------------------------
def weight(**told: Any) -> bytes:
    """An archive whose first weight is told of otherwise."""

    def change(config: Any) -> None:
        payload = config["config"]["layers.0.weight"]
        meta = payload["tensor_meta"]
        for key, value in told.items():
            (payload if key in payload else meta)[key] = value

    return changed("mlp", change, WEIGHTS)


def ints(*numbers: int) -> list[Any]:
    return [{"as_int": n} for n in numbers]


PAYLOADS = {
    "outside": weight(sizes=ints(4, 4)),
    "far_outside": weight(sizes=ints(1 << 40, 3)),
    "overflow": weight(sizes=ints(1 << 62, 1 << 62), strides=ints(0, 0)),
    "negative_size": weight(sizes=ints(-1, 3)),
    "negative_stride": weight(strides=ints(-3, 1)),
    "negative_offset": weight(storage_offset={"as_int": -4}),
    "large_offset": weight(storage_offset={"as_int": 1 << 60}),
    "large_stride": weight(strides=ints(1 << 62, 1)),
    "ranks": weight(strides=ints(1)),
    "many_dimensions": weight(sizes=ints(*[1] * 70), strides=ints(*[1] * 70)),
    "wider": weight(dtype=8),
    "unknown_dtype": weight(dtype=77),
    "no_dtype": weight(dtype=0),
    "dtype_text": weight(dtype="float"),
    "layout": weight(layout=1),
    "unknown_layout": weight(layout=99),
    "device": weight(device={"type": "__class__", "index": None}),
    "device_index": weight(device={"type": "cpu", "index": -7}),
    "absent_entry": weight(path_name="weight_99"),
    "path": weight(path_name="../../../../../etc/passwd"),
    "absolute_path": weight(path_name="/etc/passwd"),
    "expression": weight(sizes=[{"as_expr": {"expr_str": "s0", "hint": None}}]),
    "no_meta": weight(tensor_meta=None),
    "pickle": weight(use_pickle=True),
    "text_size": weight(sizes=[{"as_int": "4"}]),
    "two_fields": weight(sizes=[{"as_int": 4, "as_expr": {}}, {"as_int": 3}]),
    "bool_size": weight(sizes=ints(True, 3)),
}
EVIL = b"\x80\x02cos\nsystem\n(X\x04\x00\x00\x00echotR."


@pytest.mark.parametrize("name", PAYLOADS)
def test_weights(name):
    with pytest.raises(RuntimeError, match=r"export\.load: ") as raised:
        loaded(PAYLOADS[name])
    assert len(str(raised.value)) < 2000


def torch_file(pickle: bytes) -> bytes:
    file = io.BytesIO()
    writer = Writer(file.write)
    for name, data in (("data.pkl", pickle), ("version", b"3\n"), ("byteorder", b"little")):
        writer.add(f"archive/{name}", data)
    writer.close()
    return file.getvalue()


def test_pickles_in_the_place_of_weights():
    entries = ENTRIES["mlp"] | {"data/weights/weight_0": torch_file(EVIL)}
    config = json.loads(entries[WEIGHTS])
    config["config"]["layers.0.weight"]["use_pickle"] = True
    with pytest.raises(RuntimeError, match=r"os\.system|not allowed|Weights only"):
        loaded(packed(entries | {WEIGHTS: json.dumps(config).encode()}))


@pytest.mark.parametrize(
    "pickle", [EVIL, b"\x80\x02cbuiltins\neval\n(X\x01\x00\x00\x001tR.", b"", b"\x80\x02(", b"\x80\x02K\x01."]
)
def test_pickles_in_the_place_of_sample_inputs(pickle):
    data = packed(ENTRIES["mlp"] | {"data/sample_inputs/model.pt": torch_file(pickle)})
    try:
        program = loaded(data)
    except REFUSALS as error:
        assert "sample inputs" in str(error) or "Ran out of input" in str(error)
    else:
        assert program.example_inputs is None


# --- structures ------------------------------
def spec(text: str) -> bytes:
    def change(told: Any) -> None:
        told["graph_module"]["module_call_graph"][0]["signature"]["in_spec"] = text

    return changed("mlp", change)


LEAF = '{"type": null, "context": null, "children_spec": []}'
SPECS = {
    "class": spec('[1, {"type": "os.system", "context": "null", "children_spec": []}]'),
    "import": spec(
        '[1, {"type": "collections.namedtuple", "context": "\\"os.system\\"", "children_spec": []}]'
    ),
    "context": spec('[1, {"type": "builtins.dict", "context": "{", "children_spec": []}]'),
    "enum": spec(
        '[1, {"type": "builtins.dict", "context": "[{\\"__enum__\\": true, \\"fqn\\": \\"os:system\\", \\"name\\": \\"a\\"}]", '
        f'"children_spec": [{LEAF}]}}]'
    ),
    "deep": spec(
        "[1, "
        + '{"type": "builtins.list", "context": "null", "children_spec": [' * 3000
        + LEAF
        + "]}" * 3000
        + "]"
    ),
    "leaf": spec(f"[1, {LEAF}]"),
    "empty": spec("[1, {}]"),
    "version": spec("[99, {}]"),
    "text": spec("tuple"),
    "nothing": spec(""),
    "other_count": spec(
        f'[1, {{"type": "builtins.tuple", "context": "null", "children_spec": [{{"type": "builtins.tuple", "context": "null", '
        f'"children_spec": [{LEAF}, {LEAF}]}}, {{"type": "builtins.dict", "context": "[]", "children_spec": []}}]}}]'
    ),
}


@pytest.mark.parametrize("name", SPECS)
def test_structures(name):
    with pytest.raises(RuntimeError, match=r"export\.load: "):
        loaded(SPECS[name])


def program(data: bytes) -> bytes:
    return packed(ENTRIES["mlp"] | {PROGRAM: data})


def without(name: str) -> bytes:
    return packed({k: v for k, v in ENTRIES["mlp"].items() if k != name})


FILES = {
    "nothing": b"",
    "no_zip": b"import os\nos.system('ls')\n",
    "start_of_a_zip": b"PK\3\4" + bytes(100),
    "no_json": program(b"import os"),
    "empty_json": program(b""),
    "a_list": program(b"[]"),
    "a_number": program(b"3"),
    "not_a_number": program(ENTRIES["mlp"][PROGRAM].replace(b'"major": 8', b'"major": NaN')),
    "deep_lists": program(b"[" * 1000000),
    "deep_objects": program(b'{"a":' * 1000000),
    "long_number": program(ENTRIES["mlp"][PROGRAM].replace(b'"major": 8', b'"major": ' + b"9" * 10000)),
    "wide_number": program(ENTRIES["mlp"][PROGRAM].replace(b'"major": 8', b'"major": ' + b"9" * 30)),
    "float_version": program(ENTRIES["mlp"][PROGRAM].replace(b'"major": 8', b'"major": 8.0')),
    "other_version": program(ENTRIES["mlp"][PROGRAM].replace(b'"major": 8', b'"major": 9')),
    "twice": program(ENTRIES["mlp"][PROGRAM].replace(b'"verifiers"', b'"graph_module": {}, "verifiers"')),
    "surrogate": program(ENTRIES["mlp"][PROGRAM].replace(b'"relu"', b'"\\ud800"')),
    "binary": program(b"\xff\xfe\x00"),
    "dialect": program(ENTRIES["mlp"][PROGRAM].replace(b'"TRAINING"', b'"os.system"')),
    "format": packed(ENTRIES["mlp"] | {"archive_format": b"zip"}),
    "archive_version": packed(ENTRIES["mlp"] | {"archive_version": b"9999999999999"}),
    "no_format": without("archive_format"),
    "no_program": without(PROGRAM),
    "no_weights": without("data/weights/weight_0"),
    "no_config": without(WEIGHTS),
    "short_weights": packed(ENTRIES["mlp"] | {"data/weights/weight_0": b"\0" * 3}),
    "no_bytes": packed(ENTRIES["mlp"] | {"data/weights/weight_0": b""}),
    "byteorder": packed(ENTRIES["mlp"] | {"byteorder": b"middle"}),
    "old": packed({"serialized_exported_program.json": b"{}"}),
}


@pytest.mark.parametrize("name", FILES)
def test_files(name):
    with pytest.raises(REFUSALS) as raised:
        loaded(FILES[name])
    assert 10 < len(str(raised.value)) < 2000


def graph_change(change: Callable[[Any], Any]) -> bytes:
    return changed("mlp", lambda told: change(told["graph_module"]))


def nested(depth: int) -> Any:
    inner: Any = {"as_tensor": {"name": "x"}}
    for _ in range(depth):
        inner = {"as_string_to_argument": {"a": inner}}
    return inner


def branches_in_branches(module: Any) -> None:
    inner = copy.deepcopy(module["graph"])
    for _ in range(70):
        inner = {
            **inner,
            "nodes": [
                {
                    "target": "torch.ops.higher_order.cond",
                    "inputs": [{"name": "", "arg": {"as_graph": {"name": "g", "graph": inner}}, "kind": 1}],
                    "outputs": [],
                    "metadata": {},
                }
            ],
        }
    module["graph"] = inner


GRAPHS = {
    "read_before": lambda m: m["graph"]["nodes"].reverse(),
    "reads_itself": lambda m: m["graph"]["nodes"][1]["inputs"][0]["arg"]["as_tensor"].update(name="relu"),
    "reads_nothing": lambda m: m["graph"]["nodes"][1]["inputs"][0]["arg"]["as_tensor"].update(name="nothing"),
    "same_name": lambda m: m["graph"]["nodes"].append(copy.deepcopy(m["graph"]["nodes"][1])),
    "unknown_value": lambda m: m["graph"]["tensor_values"].pop("relu"),
    "negative_size": lambda m: m["graph"]["tensor_values"]["relu"]["sizes"][0].update(as_int=-5),
    "no_argument": lambda m: m["graph"]["nodes"][1]["inputs"].clear(),
    "unknown_argument": lambda m: m["graph"]["nodes"][1]["inputs"].append(
        {"name": "evil", "arg": {"as_int": 1}, "kind": 2}
    ),
    "argument_twice": lambda m: m["graph"]["nodes"][1]["inputs"].append(
        {"name": "self", "arg": {"as_tensor": {"name": "x"}}, "kind": 2}
    ),
    "two_kinds": lambda m: m["graph"]["nodes"][1]["inputs"][0]["arg"].update(as_int=3),
    "unknown_kind": lambda m: m["graph"]["nodes"][1]["inputs"][0].update(arg={"as_code": "1"}),
    "operator": lambda m: m["graph"]["nodes"][1]["inputs"][0].update(arg={"as_operator": "os.system"}),
    "object": lambda m: m["graph"]["nodes"][1]["inputs"][0].update(
        arg={"as_custom_obj": {"name": "x", "class_fqn": "os"}}
    ),
    "deep_argument": lambda m: m["graph"]["nodes"][1]["inputs"][0].update(arg=nested(300)),
    "deep_graph": branches_in_branches,
    "no_output": lambda m: m["graph"]["outputs"].clear(),
    "more_outputs": lambda m: m["graph"]["outputs"].append({"as_tensor": {"name": "relu"}}),
    "other_input": lambda m: m["graph"]["inputs"].reverse(),
    "fewer_inputs": lambda m: m["graph"]["inputs"].pop(),
    "specs": lambda m: m["signature"]["input_specs"].pop(),
    "absent_parameter": lambda m: m["signature"]["input_specs"][0]["parameter"].update(
        parameter_name="nothing"
    ),
    "absent_buffer": lambda m: m["signature"]["output_specs"].insert(
        0, {"buffer_mutation": {"arg": {"name": "relu"}, "buffer_name": "nothing"}}
    ),
    "calls": lambda m: m["module_call_graph"].clear(),
    "no_call": lambda m: m["module_call_graph"][0].update(signature=None),
    "other_first": lambda m: m["module_call_graph"].reverse(),
    "call_of_nothing": lambda m: m["module_call_graph"][0]["signature"]["inputs"].append(
        {"as_tensor": {"name": "nothing"}}
    ),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_graphs(name):
    with pytest.raises(RuntimeError, match=r"export\.load: ") as raised:
        loaded(graph_change(GRAPHS[name]))
    assert len(str(raised.value)) < 2000


@pytest.mark.parametrize("told", [(5, 4), ("a", None), (1 << 70, None)])
def test_ranges(told):
    ends = dict(zip(("min_val", "max_val"), told))
    with pytest.raises(RuntimeError, match=r"export\.load: "):
        loaded(changed("batched", lambda program: program["range_constraints"].update(s99=ends)))


def test_a_bomb():
    """A deflated entry that claims more than it can be, or unpacks to more than it claims."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in (ENTRIES["mlp"] | {PROGRAM: b" " * (1 << 26) + b"3"}).items():
            archive.writestr(f"archive/{name}", data)
    with pytest.raises(RuntimeError, match="expected a ExportedProgram"):
        loaded(file.getvalue())
    whole = file.getvalue()
    at = whole.rindex(f"archive/{PROGRAM}".encode()) - 46
    claimed = whole[: at + 24] + b"\xf0\xff\xff\xff" + whole[at + 28 :]
    with pytest.raises(RuntimeError, match="cannot be|has other than|has 4294967280 bytes"):
        loaded(claimed)


def test_extra_files_stay_where_they_are():
    extra = {"../models/model.json": "", "../../../../etc/passwd": "", "/etc/passwd": ""}
    export.load(io.BytesIO(packed(ENTRIES["mlp"])), extra_files=extra)
    assert not any(extra.values())


# --- mutations ------------------------------
def attempt(data: bytes) -> None:
    """Load it: a program whose module and code can be made, or an error of the few kinds that loading has."""
    try:
        result = loaded(data)
    except REFUSALS as error:
        assert str(error)
        return
    assert isinstance(result, export.ExportedProgram)
    module = watched(result.module, code=True)
    assert watched(lambda: module.code, code=True)


WORDS = (
    b"__class__",
    b'"',
    b"os.system",
    b"null",
    b"-1",
    b"99999999999999999999",
    b"{",
    b"]",
    b"torch.ops.aten.add.Tensor",
    b"1e999",
)


def mutated(data: bytes, rng: random.Random) -> bytes:
    """A few bytes changed, cut, doubled or put in."""
    made = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(max(len(made), 1))
        kind = rng.randrange(5)
        if kind == 0 and made:
            made[at] ^= 1 << rng.randrange(8)
        elif kind == 1 and made:
            made[at] = rng.randrange(256)
        elif kind == 2:
            del made[at : at + rng.randrange(1, 9)]
        elif kind == 3:
            made[at:at] = made[at : at + rng.randrange(1, 40)]
        else:
            made[at:at] = rng.choice(WORDS)
    return bytes(made)


@pytest.mark.parametrize("seed", range(20))
def test_mutations_of_files(seed):
    """Of the bytes of a file; its checksums find most."""
    rng = random.Random(seed)
    data = (FOLDER / f"{rng.choice(NAMES)}.pt2").read_bytes()
    for _ in range(5):
        attempt(mutated(data, rng))


@pytest.mark.parametrize("seed", range(40))
def test_mutations_of_texts(seed):
    """Of the bytes of what is inside, with checksums that are right."""
    rng = random.Random(1000 + seed)
    entries = ENTRIES[rng.choice(NAMES)]
    for _ in range(5):
        name = rng.choice([n for n in entries if n.endswith(".json") or rng.random() < 0.2])
        attempt(packed(entries | {name: mutated(entries[name], rng)}))


VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    3,
    1 << 62,
    1e300,
    "",
    "x",
    "relu",
    "__class__",
    "torch.ops.aten.mul.Tensor",
    "_operator.add",
    [],
    {},
    {"as_int": -7},
    {"as_tensor": {"name": "x"}},
    {"as_none": True},
    {"as_expr": {"expr_str": "s0 + Mod(s1, 2)", "hint": None}},
)


def places(told: Any, path: tuple = ()) -> list[tuple]:
    """The paths of all values in JSON."""
    inner = told.items() if isinstance(told, dict) else enumerate(told) if isinstance(told, list) else ()
    return [p for key, value in inner for p in ((*path, key), *places(value, (*path, key)))]


@pytest.mark.parametrize("seed", range(60))
def test_mutations_of_structures(seed):
    """Values of the JSON replaced, left out, doubled or exchanged with others."""
    rng = random.Random(2000 + seed)
    entries = ENTRIES[rng.choice(NAMES)]
    name = rng.choice([n for n in entries if n.endswith(".json")])
    original = json.loads(entries[name])
    known = places(original)
    for _ in range(6):
        told = copy.deepcopy(original)
        for _ in range(rng.choice((1, 1, 2))):
            *path, last = rng.choice(known)
            try:
                at = told
                for key in path:
                    at = at[key]
                kind = rng.randrange(4)
                if kind == 0:
                    at[last] = rng.choice(VALUES)
                elif kind == 1:
                    del at[last]
                elif kind == 2 and isinstance(at, list):
                    at.insert(last, copy.deepcopy(rng.choice(at)))
                else:
                    other = rng.choice(known)
                    result = original
                    for key in other:
                        result = result[key]
                    at[last] = copy.deepcopy(result)
            except (KeyError, IndexError, TypeError):
                continue  # a change before has taken the place away
        attempt(packed(entries | {name: json.dumps(told).encode()}))
