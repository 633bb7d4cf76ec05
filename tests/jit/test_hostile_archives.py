"""Archives that somebody made: nothing of them runs, and what is wrong is said with file and line."""

from __future__ import annotations

import io
import random
import re
import struct
import sys
import threading
import zipfile
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import pytest

import flambeau
from flambeau import jit
from flambeau._files.archive import Writer

FOLDER = Path(__file__).resolve().parents[1] / "data" / "torch" / "jit"
REFUSALS = (RuntimeError, UnpicklingError, EOFError)
WATCHED = (
    "exec",
    "os.",
    "subprocess.",
    "socket.",
    "shutil.",
    "ctypes.",
    "import",
    "winreg",
    "webbrowser",
    "ftplib",
    "urllib",
)


class Watch:
    """What Python's audit hooks see of a thread while it is on."""

    seen: list[tuple[str, Any]] = []
    thread: int | None = None


def _audit(event: str, args: tuple) -> None:
    if Watch.thread == threading.get_ident() and (event.startswith(WATCHED) or event == "open"):
        Watch.seen.append((event, args[:2]))


sys.addaudithook(_audit)


def loaded(data: bytes) -> Any:
    """What `jit.load` makes of bytes; an AssertionError where anything else than reading was done."""
    Watch.seen, Watch.thread = [], threading.get_ident()
    try:
        return jit.load(io.BytesIO(data))
    finally:
        Watch.thread = None
        seen = [
            e for e in Watch.seen if e != ("open", ("", "rb"))
        ]  # Python's, for an error in a text without a file
        assert not seen, seen


@pytest.fixture(scope="module", autouse=True)
def everything_is_imported():
    """What loading imports late is there before anything is watched."""
    for path in sorted(FOLDER.glob("*.pt")):
        jit.load(path)
    "é".encode("cp437")
    (flambeau.ones(2, 3) * 2).relu()  # a process's first kernel brings the compiler
    for data in (b"", b"PK\3\4"):
        with pytest.raises(REFUSALS):
            jit.load(io.BytesIO(data))


def packed(entries: dict[str, bytes]) -> bytes:
    """An archive of these entries."""
    file = io.BytesIO()
    writer = Writer(file.write)
    for name, data in entries.items():
        writer.add(f"archive/{name}", data)
    writer.close()
    return file.getvalue()


def entries_of(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {
            n.partition("/")[2]: archive.read(n) for n in archive.namelist() if not n.endswith("debug_pkl")
        }


PICKLE = b"\x80\x02c__torch__\nNet\n)\x81}(X\x08\x00\x00\x00training\x89ub."
CLASS = "class Net(Module):\n  __parameters__ = []\n  __buffers__ = []\n  training : bool\n"
METHOD = "  def forward(self: __torch__.Net,\n    x: Tensor) -> Tensor:\n"


def archive(code: str = CLASS + METHOD + "    return x\n", data: bytes = PICKLE, **more: Any) -> bytes:
    """An archive of a program that somebody wrote by hand."""
    entries = {"data.pkl": data, "code/__torch__.py": code.encode() if isinstance(code, str) else code}
    entries |= {"constants.pkl": b"\x80\x02).", "version": b"3\n", "byteorder": b"little"}
    return packed(entries | more)


def body(text: str) -> bytes:
    return archive(CLASS + METHOD + "".join(f"    {line}\n" for line in text.split("\n")))


def test_the_one_that_is_not_hostile():
    net = loaded(archive())
    x = flambeau.ones(2)
    assert net(x) is x


# --- code ------------------------------
SYNTAX = {
    "import": "import os",
    "import_from": "from os import system",
    "lambda": "f = lambda x: x",
    "comprehension": "y = [i for i in x]",
    "walrus": "y = (z := x)",
    "f-string": 'y = f"{x}"',
    "bytes": 'y = b"a"',
    "raw": 'y = r"a"',
    "try": "try:\n  y = x\nexcept Exception:\n  pass",
    "with": "with x as y:\n  pass",
    "global": "global y",
    "nonlocal": "nonlocal y",
    "delete": "del x",
    "yield": "yield x",
    "await": "await x",
    "async": "async def f():\n  pass",
    "star": "y = torch.add(*x)",
    "double_star": "y = torch.add(**x)",
    "operator": "y = x + x",
    "comparison": "y = x < x",
    "conditional": "y = x if x else x",
    "boolean": "y = x and x",
    "not": "y = not x",
    "decorator": "@x\ndef f():\n  pass",
    "inner_function": "def f(y: Tensor) -> Tensor:\n  return y\nreturn f",
    "inner_class": "class A:\n  pass",
    "assert": "assert x",
    "raise": "raise x",
    "two_statements": "y = x; z = x",
    "augmented": "x += 1",
    "set": "y = {x}",
    "slice": "y = x[1:2]",
    "ellipsis": "y = ...",
    "chained": "y = z = x",
    "stored_item": "x[0] = 1",
    "for_over_anything": "for i in x:\n  pass",
    "for_else": "for i in range(2):\n  pass\nelse:\n  pass",
    "while_else": "while x:\n  pass\nelse:\n  pass",
    "elif": "if x:\n  pass\nelif x:\n  pass",
    "undefined": "y = nothing",
    "undefined_call": 'y = exec("import os")',
    "eval": 'y = eval("1")',
    "builtins": 'y = __import__("os")',
    "open": 'y = open("/tmp/x", "w")',
    "other_module": "y = os.system",
    "absent_class": "y = __torch__.Nothing.make(x, )",
    "absent_constant": "y = CONSTANTS.c7",
    "odd_constant": "y = CONSTANTS.__class__",
    "unknown_type": "y = isinstance(x, Nothing[int])",
    "backslash": "y = \\\n x",
    "backquote": "y = `x`",
    "semicolon_start": ";",
    "matrix": "y = x @ x",
    "unicode_name": "é = x",
    "dots": "y = x" + ".a" * 300,
    "calls": "y = x" + "()" * 300,
    "brackets": "y = " + "[" * 5000 + "]" * 5000,
    "parentheses": "y = " + "(" * 50000 + "x" + ")" * 50000,
    "minus": "y = " + "-" * 50000 + "1",
    "long_number": "y = " + "9" * 6000,
    "unclosed": "y = (",
    "unclosed_text": 'y = "abc',
    "null": "y = x\0",
    "break_outside": "break",
    "continue_in_a_branch": "if x:\n  continue\nelse:\n  pass",
    "with_a_call": 'with open("/tmp/x"):\n  pass',
    "with_an_operation": "with torch.relu(x):\n  pass",
    "with_own": "with ops.flambeau.relu(x):\n  pass",
    "with_an_argument": "with ops.flambeau.value_no_grad(x):\n  pass",
    "with_a_name": "with ops.flambeau.value_no_grad() as y:\n  pass",
    "with_two": "with ops.flambeau.value_no_grad(), ops.flambeau.value_no_grad():\n  pass",
    "with_another": "with ops.flambeau.value_size():\n  pass",
    "async_with": "async with ops.flambeau.value_no_grad():\n  pass",
    "blocks": "\n".join("  " * k + "if x:" for k in range(120)) + "\n" + "  " * 120 + "pass",
}


@pytest.mark.parametrize("name", SYNTAX)
def test_code_that_is_not_torchscript(name):
    with pytest.raises(RuntimeError, match=r"code/__torch__\.py, line \d+: "):
        loaded(body(SYNTAX[name]))


CLASSES = {
    "metaclass": "class Net(Module, metaclass=X):\n  training : bool\n",
    "two_bases": "class Net(Module, Other):\n  training : bool\n",
    "statement": "x = 1\n" + CLASS,
    "loop_in_class": CLASS + "  for i in range(3):\n    pass\n",
    "call_in_class": CLASS + "  k = print(1)\n",
    "expression_in_class": CLASS + "  print(1)\n",
    "declared_twice": CLASS + "  training : bool\n",
    "defined_twice": CLASS + CLASS,
    "default_that_calls": CLASS + '  def forward(self, x: int=exec("1")) -> int:\n    return x\n',
    "star_parameters": CLASS + "  def forward(self, *x) -> int:\n    return x\n",
    "named_only": CLASS + "  def forward(self, *, x: int) -> int:\n    return x\n",
    "decorated": CLASS + "  @staticmethod\n  def forward(x: int) -> int:\n    return x\n",
    "same_parameters": CLASS + "  def forward(self, x: int, x: int) -> int:\n    return x\n",
}


@pytest.mark.parametrize("name", CLASSES)
def test_classes_that_are_not_torchscript(name):
    with pytest.raises(RuntimeError, match=r"code/__torch__\.py, line \d+: "):
        loaded(archive(CLASSES[name]))


RUNNING = {
    "class_of": ("return x.__class__", "has no attribute '__class__'"),
    "module_of": ("return self.__module__", "has no attribute '__module__'"),
    "dict_of": ('return getattr(self, "__dict__")', "has no attribute '__dict__'"),
    "buffers_of": ("return self._buffers", "has no attribute '_buffers'"),
    "method_of_tensor": ("return (x).numpy()", "has no method 'numpy'"),
    "method_of_module": ("return (self).register_buffer(x)", "has no method 'register_buffer'"),
    "set_class": ("self.__class__ = x\nreturn x", "has no attribute '__class__'"),
    "set_method": ("self.forward = x\nreturn x", "has no attribute 'forward'"),
    "class_of_tuple": ("return ((x, x)).__class__", "has no attribute '__class__'"),
    "class_of_text": ('return ("a").__class__', "has no attribute '__class__'"),
    "nested_module": ('return torch.os.system("ls")', "no operation torch.os.system"),
    "operators_of_python": ("return torch.attrgetter(x)", "no operation aten::attrgetter"),
    "call_of_python": ("return torch.call(x)", "no operation aten::call"),
    "own_import": ('return ops.flambeau.__import__("os")', "no operation flambeau::__import__"),
    "own_private": ("return ops.flambeau._table()", "no operation flambeau::_table"),
    "python_op": ("return ops.prim.PythonOp(x)", "no operation prim::PythonOp"),
    "file": ('return torch.from_file("/etc/passwd", False, 3)', "no operation aten::from_file"),
    "seeds": ("return torch.manual_seed(3)", "is not run"),
    "text_method": ('return torch.format_map("{x}", x)', "no operation aten::format_map"),
    "call_of_a_number": ("y = 3\nreturn y(x)", "a call of a int"),
    "item_of_tensor": ("return x[0]", "an item of a Tensor"),
    "unpacking": ("a, b, c, = (x, x)\nreturn a", "Expected 3 values to unpack, got 2 values"),
    "wrong_arguments": ('return torch.add(x, "a")', "takes no"),
    "python": ("return ops.python.system(x)", "no operation python::system"),
    "context_as_a_call": ("return ops.flambeau.value_no_grad()", "no operation flambeau::value_no_grad"),
    "recursion": ("return (self).forward(x, )", "calls within one another|recursion"),
    "formats": ('return torch.len(torch.format("{0.__class__}{}", x, x))', None),
    "numbers": ('return int(torch.mul("9", 5000))', "is no number"),
}


@pytest.mark.parametrize("name", RUNNING)
def test_code_that_reaches_for_python(name):
    text, what = RUNNING[name]
    net = loaded(body(text))
    Watch.seen, Watch.thread = [], threading.get_ident()
    try:
        if what is None:
            assert net(flambeau.ones(1)) == len("{0.__class__}tensor([1.])")
        else:
            with pytest.raises((RuntimeError, NotImplementedError), match=what):
                net(flambeau.ones(1))
    finally:
        Watch.thread = None
    assert not [e for e in Watch.seen if e[0] != "import"]


def test_functions_that_call_themselves():
    code = "def f(x: Tensor) -> Tensor:\n  return __torch__.g(x, )\ndef g(x: Tensor) -> Tensor:\n  return __torch__.f(x, )\n"
    with pytest.raises(RuntimeError, match="f calls itself|g calls itself"):
        loaded(archive(code + CLASS + METHOD + "    return __torch__.f(x, )\n"))


def test_percent_formats_have_no_width():
    from flambeau.jit._host import percent_formatted

    assert percent_formatted("%s %d %999999999d", "a", 3, 4) == "a 3 %999999999d"


# --- pickles ------------------------------
def text(t: str) -> bytes:
    return b"X" + struct.pack("<I", len(t)) + t.encode()


def attribute(name: str, value: bytes, declared: str = "int") -> bytes:
    """An archive whose module has one attribute."""
    code = CLASS + (
        f"  {name} : {declared}\n" if name.isidentifier() else f'  __annotations__["{name}"] = {declared}\n'
    )
    return archive(code + METHOD + "    return x\n", PICKLE[:-3] + text(name) + value + b"ub.")


STORAGE = b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpu"
TENSOR = b"ctorch._utils\n_rebuild_tensor_v2\n(" + STORAGE


def tensor(count: bytes, geometry: bytes) -> bytes:
    return TENSOR + count + b"tQ" + geometry + b"\x89ccollections\nOrderedDict\n)RtR"


PICKLES = {
    "system": archive(data=b"\x80\x02cos\nsystem\n(" + text("echo") + b"tR."),
    "eval": archive(data=b"\x80\x02cbuiltins\neval\n(" + text("1") + b"tR."),
    "class_of_python": archive(data=b"\x80\x02cbuiltins\nobject\n)\x81."),
    "absent_class": archive(data=b"\x80\x02c__torch__\nOther\n)\x81}b."),
    "function_as_class": archive("def f(x: int) -> int:\n  return x\n", b"\x80\x02c__torch__\nf\n)\x81}b."),
    "no_module": archive(data=b"\x80\x02K\x01."),
    "list": archive(data=b"\x80\x02]."),
    "unfinished_object": archive(data=b"\x80\x02c__torch__\nNet\n)\x81."),
    "undeclared": archive(data=PICKLE[:-3] + text("other") + b"K\x01ub."),
    "parameters": attribute("_parameters", b"}"),
    "hooks": attribute("_forward_hooks", b"}"),
    "class": attribute("__class__", b"K\x01"),
    "own_field": attribute("script_class", b"K\x01"),
    "dotted": attribute("a.b", b"K\x01"),
    "class_value": attribute("a", b"c__torch__\nNet\n"),
    "helper_value": attribute("a", b"ctorch.jit._pickle\nbuild_intlist\n"),
    "other_helper": attribute("a", b"ctorch.jit._pickle\nbuild_tensor_from_id\n(K\x01tR"),
    "helper_of_number": attribute("a", b"ctorch.jit._pickle\nbuild_intlist\n(K\x01tR"),
    "holds_itself": archive(
        CLASS + "  a : __torch__.Net\n", b"\x80\x02c__torch__\nNet\n)\x81q\x00}(" + text("a") + b"h\x00ub."
    ),
    "arguments_of_new": archive(data=b"\x80\x02c__torch__\nNet\nK\x01\x85\x81}b."),
    "state_that_is_no_dictionary": archive(data=b"\x80\x02c__torch__\nNet\n)\x81]b."),
    "setstate": archive(CLASS + "  def __setstate__(self, state: int) -> NoneType:\n    return None\n"),
    "absent_storage": attribute("a", tensor(b"K\x04", b"K\x00K\x04\x85K\x01\x85"), "Tensor"),
    "tensor_outside": archive(
        CLASS + "  a : Tensor\n",
        PICKLE[:-3] + text("a") + tensor(b"K\x02", b"K\x00K\x40\x85K\x01\x85") + b"ub.",
        **{"data/0": bytes(8)},
    ),
    "huge_tensor": archive(
        CLASS + "  a : Tensor\n",
        PICKLE[:-3]
        + text("a")
        + tensor(b"K\x02", b"K\x00\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x85K\x01\x85")
        + b"ub.",
        **{"data/0": bytes(8)},
    ),
    "wrong_length": archive(
        CLASS + "  a : Tensor\n",
        PICKLE[:-3]
        + text("a")
        + tensor(b"\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x0f", b"K\x00K\x02\x85K\x01\x85")
        + b"ub.",
        **{"data/0": bytes(8)},
    ),
    "tuple_of_tuples": archive(data=b"\x80\x02}(" + b"(" * 3000 + b"t" * 3000 + b"K\x01u."),
    "copies": archive(
        data=b"\x80\x02]q\x00(" + b"K\x01" * 100 + b"e0" + b"ctorch\nSize\n(h\x00tR0" * 400 + b"K\x01."
    ),
    "truncated": archive(data=PICKLE[:-8]),
    "constants_that_are_no_tuple": archive(**{"constants.pkl": b"\x80\x02]."}),
    "constants_with_code": archive(**{"constants.pkl": b"\x80\x02cos\nsystem\n(" + text("ls") + b"tR."}),
    "byteorder": archive(
        CLASS + "  a : Tensor\n",
        PICKLE[:-3] + text("a") + tensor(b"K\x02", b"K\x00K\x02\x85K\x01\x85") + b"ub.",
        **{"data/0": bytes(8), "byteorder": b"middle"},
    ),
    "no_code": packed({"data.pkl": PICKLE, "constants.pkl": b"\x80\x02)."}),
    "no_constants": packed({"data.pkl": PICKLE}),
    "no_data": packed({"constants.pkl": b"\x80\x02)."}),
    "old": packed({"model.json": b"{}", "tensors/0": b""}),
    "binary_code": archive(b"\xff\xfe\x00"),  # type: ignore[arg-type]
    "nothing": b"",
    "no_zip": b"import os\nos.system('ls')\n",
    "start_of_a_zip": b"PK\3\4" + bytes(100),
}


@pytest.mark.parametrize("name", PICKLES)
def test_pickles(name):
    with pytest.raises(REFUSALS) as raised:
        loaded(PICKLES[name])
    assert len(str(raised.value)) > 20 and len(str(raised.value)) < 2000


# --- zip files ------------------------------
def deflated(name: str, data: bytes, size: int) -> bytes:
    """A zip archive with the usual entries, and a deflated one that claims a size."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for entry, content in (("data.pkl", PICKLE), ("constants.pkl", b"\x80\x02).")):
            archive.writestr(f"archive/{entry}", content)
        archive.writestr(f"archive/{name}", data, zipfile.ZIP_DEFLATED)
    whole = bytearray(file.getvalue())
    at = whole.rfind(b"PK\1\2")
    whole[at + 24 : at + 28] = struct.pack("<L", size)
    return bytes(whole)


def test_deflated_code_is_read_to_the_size_that_it_claims():
    code = (CLASS + METHOD + "    return x\n").encode()
    assert loaded(deflated("code/__torch__.py", code, len(code))) is not None
    for size in (len(code) - 1, len(code) + 1):
        with pytest.raises(RuntimeError, match=r"has other than \d+ bytes|CRC"):
            loaded(deflated("code/__torch__.py", code, size))


def test_bombs():
    zeros = bytes(1 << 24)
    with pytest.raises(RuntimeError, match="cannot be 4294967294"):
        loaded(deflated("code/__torch__.py", zeros, 0xFFFFFFFE))
    with pytest.raises(RuntimeError, match="has other than 1000 bytes"):
        loaded(deflated("code/__torch__.py", zeros, 1000))
    with pytest.raises(RuntimeError, match="is not of TorchScript"):
        loaded(deflated("code/__torch__.py", zeros, len(zeros)))
    with pytest.raises(RuntimeError, match="compressed, and so no storage"):
        loaded(compressed_storage())


def compressed_storage() -> bytes:
    file = io.BytesIO()
    data = PICKLE[:-3] + text("a") + tensor(b"K\x02", b"K\x00K\x02\x85K\x01\x85") + b"ub."
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", data)
        archive.writestr("archive/constants.pkl", b"\x80\x02).")
        archive.writestr("archive/code/__torch__.py", CLASS + "  a : Tensor\n")
        archive.writestr("archive/data/0", bytes(8), zipfile.ZIP_DEFLATED)
    return file.getvalue()


def test_names_that_leave_the_folder():
    """They are names and nothing else: nothing is written anywhere."""
    code = (CLASS + METHOD + "    return x\n").encode()
    entries = {
        "code/../../../../tmp/evil.py": code,
        "../x": b"1",
        "/etc/passwd": b"1",
        "code/__torch__/../evil.py": code,
    }
    assert loaded(archive(**entries)) is not None  # type: ignore[arg-type]
    extra = {"../../data.pkl": "", "../data.pkl": "", "/etc/passwd": ""}
    jit.load(io.BytesIO(archive()), _extra_files=extra)
    assert not any(extra.values())


def test_two_entries_of_a_name():
    file = io.BytesIO()
    writer = Writer(file.write)
    for _ in range(2):
        writer.add("archive/constants.pkl", b"\x80\x02).")
    writer.close()
    with pytest.raises(RuntimeError, match="same name"):
        loaded(file.getvalue())


# --- mutations ------------------------------
NAMES = (
    "mlp_traced",
    "flow_scripted",
    "counting_scripted",
    "classes_scripted",
    "containers_scripted",
    "nested_scripted",
    "indexing_traced",
)


def mutated(data: bytes, rng: random.Random) -> bytes:
    """A few bytes changed, cut, doubled or moved."""
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
            made[at:at] = rng.choice(
                (
                    b"__class__",
                    b"(",
                    b"os.system",
                    b"\n  ",
                    b"R",
                    b"c",
                    b"\xff\xff\xff\x7f",
                    b"lambda: ",
                    b"-",
                )
            )
    return bytes(made)


@pytest.mark.parametrize("seed", range(30))
def test_mutations_of_files(seed):
    """Of the bytes of a file; its checksums find most."""
    rng = random.Random(seed)
    data = (FOLDER / f"{rng.choice(NAMES)}.pt").read_bytes()
    for _ in range(5):
        attempt(mutated(data, rng))


@pytest.mark.parametrize("seed", range(60))
def test_mutations_of_what_is_inside(seed):
    """Of code, pickles and storages, with checksums that are right."""
    rng = random.Random(1000 + seed)
    entries = entries_of(FOLDER / f"{rng.choice(NAMES)}.pt")
    for _ in range(5):
        name = rng.choice([n for n in entries if n.endswith((".py", ".pkl")) or rng.random() < 0.2])
        attempt(packed(entries | {name: mutated(entries[name], rng)}))


def attempt(data: bytes) -> None:
    """Load it: a module, or an error of the few kinds that loading has."""
    try:
        result = loaded(data)
    except REFUSALS as error:
        assert str(error)
    else:
        assert isinstance(result, jit.RecursiveScriptModule)


def test_checksums_are_compared():
    path = FOLDER / "mlp_traced.pt"
    with zipfile.ZipFile(path) as archive:
        weights = archive.read("mlp_traced/data/0")
    data = bytearray(path.read_bytes())
    data[data.index(weights) + 1] ^= 1
    with pytest.raises(RuntimeError, match="bad CRC-32 of entry 'mlp_traced/data/0'"):
        loaded(bytes(data))


def test_gradients_are_recorded_again_after_a_with():
    """Whether gradients are recorded is as before: after a return, an error, and a loop that is left."""
    net = loaded(
        body(
            "for k in range(3):\n  with ops.flambeau.value_no_grad():\n    if torch.eq(k, 1):\n      break\n    else:\n      continue\n"
            "with ops.flambeau.value_no_grad():\n  return torch.matmul(x, x)"
        )
    )
    assert net(flambeau.ones(2, 2, requires_grad=True)).requires_grad is False and flambeau.is_grad_enabled()
    with pytest.raises(RuntimeError):
        net(flambeau.ones(2, 3))
    assert flambeau.is_grad_enabled()


@pytest.mark.parametrize("seed", range(8))
def test_scripted_code_that_was_changed(seed):
    """Words and signs of what `script` writes, exchanged: an error or a module, and nothing is run but its operations."""

    def program(x, n: int):
        total = 0
        while n > 0:
            n -= 1
            if n == 3:
                continue
            total += n
        with flambeau.no_grad():
            y = x * total
        return [y, y.relu()], {"a": n}

    entries = {}
    with zipfile.ZipFile(io.BytesIO(jit.script(program).save_to_buffer())) as saved:
        entries = {n.partition("/")[2]: saved.read(n) for n in saved.namelist()}
    text = entries["code/__torch__.py"].decode()
    words = sorted(set(re.findall(r"\w+|[^\w\s]", text)))
    rng = random.Random(seed)
    for _ in range(60):
        before, after = (
            rng.choice(words),
            rng.choice([*words, "import", "lambda", "exec", "__class__", "with", "break", "open"]),
        )
        at = rng.randrange(text.count(before))
        parts = text.split(before)
        changed = before.join(parts[: at + 1]) + after + before.join(parts[at + 1 :])
        try:
            net = loaded(packed(entries | {"code/__torch__.py": changed.encode()}))
        except REFUSALS:
            continue
        Watch.seen, Watch.thread = [], threading.get_ident()
        try:
            if "while True" not in changed and changed.count("while") == text.count("while"):
                net(flambeau.ones(2), 0)
        except (
            RuntimeError,
            NotImplementedError,
            TypeError,
            ValueError,
            IndexError,
            KeyError,
            AttributeError,
        ):
            pass
        finally:
            Watch.thread = None
        assert not [e for e in Watch.seen if e[0] != "import"], (changed, Watch.seen)
