"""Functions in C and C++: what they compute as operations, what is refused, and what is kept on disk."""

from __future__ import annotations

import inspect
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import flambeau
from flambeau import kernels
from flambeau.utils import cpp_extension
from flambeau.utils.cpp_extension import bind, load, load_inline

HEAD = "#include <flambeau/extension.h>\n"
SQUAREPLUS = (
    HEAD
    + """
#include <math.h>
/* FLAMBEAU_FUNCTION in_a_comment(int x); */
FLAMBEAU_FUNCTION squareplus(const DLTensor *x, DLTensor *out, double b) {
    if (b < 0)
        return "b must not be negative";
    int64_t n = flambeau_count(x);
    if (flambeau_is(x, kDLFloat, 32)) {
        const float *from = FLAMBEAU_DATA(float, x);
        float *to = FLAMBEAU_DATA(float, out);
        for (int64_t i = 0; i < n; i++)
            to[i] = (from[i] + sqrtf(from[i] * from[i] + (float)b)) / 2;
    } else {
        const double *from = FLAMBEAU_DATA(double, x);
        double *to = FLAMBEAU_DATA(double, out);
        for (int64_t i = 0; i < n; i++)
            to[i] = (from[i] + sqrt(from[i] * from[i] + b)) / 2;
    }
    return NULL;
}
"""
)
FLOATS = ("float32", "float64")


@pytest.fixture(autouse=True, scope="module")
def folder(tmp_path_factory):
    """Libraries of these tests in a folder of their own."""
    place = tmp_path_factory.mktemp("root") / "extensions"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCH_EXTENSIONS_DIR", str(place))
        yield place


@pytest.fixture(scope="module")
def squareplus(folder):
    op = load_inline(
        "mine",
        c_sources=SQUAREPLUS,
        functions={"squareplus": {"dtypes": FLOATS, "defaults": {"b": 4.0}, "doc": "A smooth relu."}},
    ).squareplus

    @op.derivative
    def _(grad, x, b):
        return grad * (1 + x / (x * x + b).sqrt()) / 2

    return op


# --- as operations ------------------------------
def test_as_our_own_operations(squareplus):
    x = flambeau.randn(3, 4)
    made = kernels.check(
        squareplus,
        x,
        (x, 1.0),
        dtypes=["float32"],
        devices=(),
        reference=lambda x, b=4.0: (x + np.sqrt(x * x + b)) / 2,
    )
    assert {"values", "strides", "no elements", "meta", "gradients", "second gradients"} <= set(made)
    assert squareplus.__doc__ == "A smooth relu."
    assert squareplus(x.requires_grad_(), b=1).grad_fn.name() == "SquareplusBackward0"
    with flambeau.no_grad():
        assert not squareplus(x).requires_grad
    assert "b=4.0" in str(inspect.signature(squareplus))


def test_modes_and_classes_see_them(squareplus):
    seen = []

    class Names(flambeau.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    class Own(flambeau.Tensor):
        pass

    with Names():
        squareplus(flambeau.ones(2))
    assert squareplus in seen
    assert type(squareplus(flambeau.ones(2).as_subclass(Own))) is Own


def test_results_numbers_and_strides():
    source = (
        HEAD
        + """
    FLAMBEAU_FUNCTION split(const DLTensor *x, DLTensor *even, int64_t begin, bool twice, DLTensor *count, float scale, int32_t step) {
        const double *from = FLAMBEAU_DATA(double, x);
        int64_t n = even->shape[0];
        for (int64_t i = 0; i < n; i++)
            FLAMBEAU_DATA(double, even)[i] = scale * (twice ? 2 : 1) * from[(begin + i * step) * x->strides[0]];
        FLAMBEAU_DATA(int64_t, count)[0] = n;
        return NULL;
    }
    """.replace("FLAMBEAU_DATA(double, even)[i]", "((double *)FLAMBEAU_DATA(double, even))[i]").replace(
            "FLAMBEAU_DATA(int64_t, count)[0]", "((int64_t *)FLAMBEAU_DATA(int64_t, count))[0]"
        )
    )

    def results(x, begin, twice, scale, step):
        return [(len(range(begin, len(x), step)),), ((), flambeau.int64)]

    rule = {"results": results, "dtypes": flambeau.float64, "contiguous": False}
    split = load_inline("parts", c_sources=source, functions={"split": rule}).split
    x = flambeau.arange(20, dtype=flambeau.float64)[::2]
    even, count = split(x, 1, True, 0.5, 3)
    assert even.tolist() == [2.0, 8.0, 14.0] and count.item() == 3 and count.dtype == flambeau.int64
    blank = split(x.to("meta"), 1, step=3, scale=1, twice=False)
    assert [b.shape for b in blank] == [(3,), ()] and blank[1].dtype == flambeau.int64
    with pytest.raises(TypeError, match="argument 'begin' must be an integer, not float"):
        split(x, 1.5, True, 1.0, 2)
    with pytest.raises(OverflowError, match="argument 'begin' must fit 64 bits"):
        split(x, 1 << 63, True, 1.0, 2)
    with pytest.raises(OverflowError, match="argument 'step' must fit 32 bits"):
        split(x, 1, True, 1.0, 1 << 31)
    with pytest.raises(TypeError, match="argument 'scale' must be a number, not Tensor"):
        split(x, 1, True, flambeau.ones(()), 2)


def test_exceptions_of_cpp():
    source = (
        HEAD
        + """
    #include <stdexcept>
    FLAMBEAU_FUNCTION fails(const DLTensor *x, DLTensor *out, bool known) {
        if (known) throw std::runtime_error("no way");
        throw 3;
    }
    """
    )
    fails = load_inline("throwing", source, functions="fails").fails
    with pytest.raises(RuntimeError, match=r"the C function fails \(throwing \(inline\)\): no way"):
        fails(flambeau.ones(1), True)
    with pytest.raises(RuntimeError, match="no std::exception"):
        fails(flambeau.ones(1), False)


def test_runs_without_the_lock_of_python():
    """It waits for what another thread of Python writes."""
    source = (
        HEAD
        + """
    #define _DEFAULT_SOURCE
    #include <unistd.h>
    FLAMBEAU_FUNCTION waits(const DLTensor *x, DLTensor *out) {
        volatile float *flag = (volatile float *)x->data;
        for (int turn = 0; turn < 30000 && *flag == 0; turn++)
            usleep(1000);
        return *flag == 0 ? "nobody came" : NULL;
    }
    """
    )
    waits = load_inline("waiting", c_sources=source).waits
    flag = flambeau.zeros(1)
    thread = threading.Timer(0.05, lambda: flag.fill_(1.0))
    thread.start()
    waits(flag)
    thread.join()


# --- refused ------------------------------
def test_calls(squareplus):
    with pytest.raises(
        RuntimeError, match=r"the C function squareplus \(mine \(inline\)\): b must not be negative"
    ):
        squareplus(flambeau.ones(1), -1.0)
    with pytest.raises(TypeError, match="'x' must be of dtype float32 or float64, got float16"):
        squareplus(flambeau.ones(1, dtype=flambeau.float16))
    with pytest.raises(TypeError, match="argument 'x' must be Tensor, not float"):
        squareplus(1.0)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        squareplus()
    add = HEAD + "FLAMBEAU_FUNCTION add(const DLTensor *a, const DLTensor *b, DLTensor *out) { return NULL; }"
    add = load_inline("adding", c_sources=add).add
    with pytest.raises(RuntimeError, match="same device, but found at least two devices, cpu and meta"):
        add(flambeau.ones(1), flambeau.ones(1, device="meta"))
    with pytest.raises(
        RuntimeError, match=r"the C function add \(adding \(inline\)\) has no derivative: .*@add.derivative"
    ):
        add(flambeau.ones(1, requires_grad=True), flambeau.ones(1)).sum().backward()
    if flambeau.opencl.is_available():
        with pytest.raises(
            NotImplementedError, match="runs on the CPU: argument 'a' is on opencl:0; use tensor.cpu()"
        ):
            add(flambeau.ones(1, device="opencl"), flambeau.ones(1, device="opencl"))


@pytest.mark.parametrize(
    ("results", "says"),
    [
        (lambda x: None, "must return a shape, or a pair .* returned None"),
        (lambda x: (1.5,), r"returned \(1.5,\)"),
        (lambda x: (-1,), r"returned \(-1,\)"),
        (lambda x: x.numel(), "returned 2"),
        (lambda x: (1 << 40, 1 << 40), "which no memory holds"),
    ],
)
def test_rules_that_say_something_wrong(results, says):
    source = HEAD + "FLAMBEAU_FUNCTION same(const DLTensor *x, DLTensor *out) { return NULL; }"
    op = load_inline("ruled", c_sources=source, functions={"same": {"results": results}}).same
    with pytest.raises(
        RuntimeError,
        match=rf"the C function same \(ruled \(inline\)\): `results` \(.*test_cpp_extension.py:\d+\).*{says}",
    ):
        op(flambeau.ones(2))


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        (
            "const DLTensor *x, DLTensor *out, char *text",
            TypeError,
            r"argument 'char \*text' of f must be one of const DLTensor \*",
        ),
        ("const DLTensor *x, DLTensor *out, unsigned n", TypeError, "argument 'unsigned n' of f"),
        ("const DLTensor *, DLTensor *out", TypeError, "and have a name"),
        ("const DLTensor *x", TypeError, "f must take at least one operand .* and one result"),
        ("void", TypeError, "argument 'void' of f"),
    ],
)
def test_signatures(arguments, error, says):
    with pytest.raises(error, match=says):
        load_inline("wrong", c_sources=f"{HEAD}FLAMBEAU_FUNCTION f({arguments}) {{ return NULL; }}")


def test_sources():
    with pytest.raises(
        RuntimeError, match=r"(?s)broken: broken.c: the compiler says.*broken.c:3:\d+: error"
    ) as told:
        load_inline(
            "broken",
            c_sources=f"{HEAD}FLAMBEAU_FUNCTION f(const DLTensor *x, DLTensor *y) {{\nreturn nothing; }}",
        )
    assert "the command was" in str(told.value)
    with pytest.raises(ValueError, match="declare no function with FLAMBEAU_FUNCTION"):
        load_inline("none", c_sources="int f(void) { return 1; }")
    with pytest.raises(ValueError, match="declare no function cube; they declare squareplus"):
        load_inline("mine", c_sources=SQUAREPLUS, functions=["cube"])
    with pytest.raises(TypeError, match="mine: squareplus: 'shape' is none of results, dtypes"):
        load_inline("mine", c_sources=SQUAREPLUS, functions={"squareplus": {"shape": None}})
    with pytest.raises(ValueError, match="'float31', which is no dtype"):
        load_inline("mine", c_sources=SQUAREPLUS, functions={"squareplus": {"dtypes": "float31"}})
    with pytest.raises(TypeError, match="defaults names 'c', which is none of its numbers"):
        load_inline("mine", c_sources=SQUAREPLUS, functions={"squareplus": {"defaults": {"c": 1}}})
    with pytest.raises(ValueError, match="name must be a Python identifier"):
        load_inline("../mine", c_sources=SQUAREPLUS)
    with pytest.raises(ValueError, match="no sources given"):
        load_inline("mine")
    for path, says in (("x.py", "sources end in"), ("x.f90", "sources end in")):
        with pytest.raises(ValueError, match=says):
            load("mine", [path])
    with pytest.raises(FileNotFoundError):
        load("mine", ["/nowhere/x.c"])


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (
            "#include <torch/extension.h>\ntorch::Tensor f(torch::Tensor x) { return x; }",
            "<torch/extension.h>",
        ),
        ('#include "ATen/ATen.h"', "ATen/ATen.h"),
        ("at::Tensor f(at::Tensor x) { return x; }", "at::Tensor"),
        ("TORCH_LIBRARY(mine, m) {}", "TORCH_LIBRARY"),
    ],
)
def test_sources_for_libtorch_are_refused_by_name(text, what):
    with pytest.raises(NotImplementedError, match="written for LibTorch") as told:
        load_inline("theirs", text, functions=["f"])
    assert what in str(told.value) and "flambeau/extension.h" in str(told.value)
    with pytest.raises(ValueError, match="FLAMBEAU_FUNCTION"):  # not where a comment speaks of it
        load_inline("theirs", f"/* {text} */ // at::Tensor")


def test_other_compilers_are_refused_by_name(tmp_path):
    for call in (
        lambda: load_inline("mine", SQUAREPLUS, cuda_sources="__global__ void f() {}"),
        lambda: load_inline("mine", SQUAREPLUS, with_cuda=True),
        lambda: load("mine", [str(tmp_path / "x.cu")]),
        lambda: cpp_extension.CUDAExtension("mine", ["x.cu"]),
        lambda: cpp_extension.include_paths("cuda"),
    ):
        with pytest.raises(NotImplementedError, match="CUDA sources is used: a kernel in Python"):
            call()
    assert cpp_extension.CUDA_HOME is None


def test_no_compiler(monkeypatch):
    monkeypatch.setenv("CC", "/nowhere/cc -m64")
    with pytest.raises(
        RuntimeError, match=r"no C compiler was found \(tried CC=/nowhere/cc -m64\): install one .* or set CC"
    ):
        load_inline("uncompiled", c_sources=SQUAREPLUS)
    monkeypatch.delenv("CC")
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(RuntimeError, match=r"no C\+\+ compiler was found \(tried c\+\+, g\+\+, clang\+\+\)"):
        load_inline("uncompiled", SQUAREPLUS)
    with pytest.raises(RuntimeError, match=r"no C\+\+ compiler"):
        cpp_extension.get_cxx_compiler()


# --- kept on disk ------------------------------
@pytest.fixture
def counting(tmp_path, monkeypatch):
    """A compiler that notes what it compiles, and waits while there is a file `wait`."""
    script, log = tmp_path / "counting-cc", tmp_path / "log"
    script.write_text(
        f'#!/bin/sh\ncase "$*" in *" -c "*) echo "$*" >> {log}; while [ -e {tmp_path}/wait ]; do sleep 0.02; done;; esac\n'
        f'exec {shutil.which("cc")} "$@"\n'
    )
    script.chmod(0o755)
    log.touch()
    monkeypatch.setenv("CC", str(script))
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path / "extensions"))
    return lambda: len(log.read_text().splitlines())


def test_compiled_once_for_equal_sources_flags_and_headers(counting, tmp_path):
    (tmp_path / "own.h").write_text("#define TWO 2\n")
    file = tmp_path / "scaled.c"
    file.write_text(
        HEAD + '#include "own.h"\n#ifndef ONE\n#define ONE 1\n#endif\n'
        "FLAMBEAU_FUNCTION scaled(const DLTensor *x, DLTensor *y) {"
        "*(float *)y->data = (TWO + ONE) * *(float *)x->data; return NULL; }"
    )

    def value(**options):
        return load("scaled", str(file), **options).scaled(flambeau.ones(1)).item()

    assert value() == 3 and counting() == 2  # the source, and the list of its functions
    assert value() == 3 and counting() == 2
    assert value(extra_cflags=["-DONE=5"]) == 7 and counting() == 4
    (tmp_path / "own.h").write_text("#define TWO 20\n")
    assert value() == 21 and counting() == 6
    assert value(build_directory=str(tmp_path / "other")) == 21 and counting() == 8
    assert list((tmp_path / "other").glob("scaled-*.so"))


def test_damaged_libraries_are_made_anew(counting, tmp_path):
    place = tmp_path / "extensions"
    load_inline("mine", c_sources=SQUAREPLUS)
    (made,) = place.glob("*.so")
    whole, before = made.read_bytes(), counting()
    for damage in (b"", whole[:100], whole[:-1] + b"x"):
        made.unlink()  # the file that this process has mapped stays whole
        made.write_bytes(damage)
        assert load_inline("mine", c_sources=SQUAREPLUS).squareplus(flambeau.zeros(1), 4.0).item() == 1.0
        assert made.read_bytes() == whole
    assert counting() == before + 6
    elsewhere = tmp_path / "elsewhere.so"
    made.rename(elsewhere)
    made.symlink_to(elsewhere)  # not followed
    load_inline("mine", c_sources=SQUAREPLUS)
    assert counting() == before + 8 and not made.is_symlink()
    made.chmod(0o777)  # others may have written it
    load_inline("mine", c_sources=SQUAREPLUS)
    assert counting() == before + 10 and not made.stat().st_mode & 0o022


def test_folders_that_others_can_write_are_not_used(counting, tmp_path):
    place = tmp_path / "extensions"
    place.mkdir()
    place.chmod(0o777)
    with pytest.warns(RuntimeWarning, match=r"not to be used: others may write there \(its mode is 0777\)"):
        op = load_inline("mine", c_sources=SQUAREPLUS).squareplus
    assert op(flambeau.zeros(1), 4.0).item() == 1.0 and not list(place.iterdir())


def test_where_no_folder_can_be_made(monkeypatch):
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", "/proc/nowhere/extensions")
    with pytest.warns(
        RuntimeWarning, match="extensions are compiled anew in each process, since /proc/nowhere/extensions"
    ):
        assert load_inline("mine", c_sources=SQUAREPLUS).squareplus(flambeau.zeros(1), 4.0).item() == 1.0


CHILD = """
import sys, flambeau
from flambeau.utils.cpp_extension import load_inline
print("ready", flush=True)
print(load_inline("mine", c_sources=sys.stdin.read()).squareplus(flambeau.zeros(1), 4.0).item())
"""


def child():
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    process.stdin.write(SQUAREPLUS)
    process.stdin.close()
    return process


def reached(condition):
    """Wait until a condition holds that another process brings about."""
    for _ in range(3000):
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError("it did not come about in a minute")


def test_processes_compile_once_and_a_killed_one_leaves_nothing(counting, tmp_path):
    (tmp_path / "wait").touch()
    killed = child()
    reached(lambda: counting() == 1)
    waiting = [child(), child()]  # for the lock of the first
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    killed.stdout.close()
    reached(lambda: counting() == 2)  # one of them compiles, the other waits
    (tmp_path / "wait").unlink()
    for process in waiting:
        assert process.stdout.read() == "ready\n1.0\n" and process.wait(60) == 0
        process.stdout.close()
    assert counting() == 3
    left = sorted(p.suffix for p in (tmp_path / "extensions").iterdir())
    assert left == [".lock", ".so"]


# --- built by others ------------------------------
def test_a_whole_module_of_python(tmp_path):
    file = tmp_path / "plain.c"
    file.write_text(
        "#include <Python.h>\n"
        "static PyObject *seven(PyObject *self, PyObject *none) { return PyLong_FromLong(7); }\n"
        'static PyMethodDef methods[] = {{"seven", seven, METH_NOARGS, 0}, {0}};\n'
        'static struct PyModuleDef plain = {PyModuleDef_HEAD_INIT, "plain", 0, -1, methods};\n'
        "PyMODINIT_FUNC PyInit_plain(void) { return PyModule_Create(&plain); }\n"
    )
    assert load("plain", [str(file)]).seven() == 7


PAGE = (Path(__file__).parents[2] / "docs" / "extending.md").read_text()


def shown(folder, *names):
    """Write files that the page shows, each a block that begins with its name; another file's name may stand in it."""
    for name in names:
        (text,) = re.findall(rf"```\w+\n((?:#|/\*) {re.escape(name)}(?: \*/)?\n.*?)```", PAGE, re.DOTALL)
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)


def run(*command, where):
    paths = [str(Path(flambeau.__file__).parents[1]), str(where)]
    tools = os.pathsep.join(
        [str(Path(sys.executable).parent), os.environ["PATH"]]
    )  # meson and ninja of this environment
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PATH": tools}
    done = subprocess.run(
        command, cwd=where, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_program_of_the_page(tmp_path):
    shown(tmp_path, "squareplus.c", "use.py")
    assert run(sys.executable, "use.py", where=tmp_path) == "tensor([0.5000, 0.5000])\n"


USE = """
import pickle, flambeau, mine
print(mine.squareplus(flambeau.zeros(2)).tolist(), pickle.loads(pickle.dumps(mine.squareplus)) is mine.squareplus)
"""


def test_the_recipe_for_setuptools(tmp_path):
    shown(tmp_path, "squareplus.c", "setup.py", "mine/__init__.py")
    run(sys.executable, "setup.py", "-q", "build_ext", "--inplace", where=tmp_path)
    assert run(sys.executable, "-c", USE, where=tmp_path) == "[1.0, 1.0] True\n"


def test_the_recipe_for_meson(tmp_path):
    shown(tmp_path, "squareplus.c", "meson.build")
    run("meson", "setup", "build", where=tmp_path)
    run("meson", "compile", "-C", "build", where=tmp_path)
    (library,) = [p for p in (tmp_path / "build").glob("mine.*") if p.is_file()]
    op = bind(library, {"squareplus": {"defaults": {"b": 4.0}}}).squareplus
    assert op(flambeau.zeros(2)).tolist() == [1.0, 1.0]


def test_any_library_with_its_source(tmp_path):
    (tmp_path / "squareplus.c").write_text(SQUAREPLUS)
    command = [
        "cc",
        "-shared",
        "-fPIC",
        "squareplus.c",
        "-o",
        "plain.so",
        "-I",
        cpp_extension.include_paths()[0],
        "-lm",
    ]
    subprocess.run(command, cwd=tmp_path, check=True)
    op = bind(tmp_path / "plain.so", sources=SQUAREPLUS).squareplus
    assert op(flambeau.zeros(2), 4.0).tolist() == [1.0, 1.0]
    with pytest.raises(
        RuntimeError, match="plain.so does not list its functions: give the text of its sources"
    ):
        bind(tmp_path / "plain.so")
    other = SQUAREPLUS.replace("squareplus", "cube")
    with pytest.raises(RuntimeError, match="plain.so has no function cube, which its sources declare"):
        bind(tmp_path / "plain.so", sources=other)
    (tmp_path / "no.so").write_bytes(b"no library")
    with pytest.raises(RuntimeError, match="no.so: the library cannot be opened"):
        bind(tmp_path / "no.so")


def test_the_recipe_for_cffi(tmp_path):
    shown(tmp_path, "axpy.py")
    (tmp_path / "axpy.c").write_text(
        "void axpy(long n, float a, const float *x, float *y) { for (long i = 0; i < n; i++) y[i] += a * x[i]; }"
    )
    subprocess.run(["cc", "-shared", "-fPIC", "axpy.c", "-o", "axpy.so"], cwd=tmp_path, check=True)
    assert run(sys.executable, "axpy.py", where=tmp_path) == "tensor([2., 2., 2.]) tensor([1., 1., 1.])\n"


def test_questions():
    assert (Path(cpp_extension.include_paths()[0]) / "flambeau" / "extension.h").is_file()
    assert cpp_extension.library_paths() == []
    compiler = cpp_extension.get_cxx_compiler()
    assert cpp_extension.check_compiler_ok_for_platform(compiler)
    fine, version = cpp_extension.get_compiler_abi_compatibility_and_version(compiler)
    assert fine and version > (3, 0, 0)
    assert isinstance(cpp_extension.check_compiler_is_gcc(compiler), bool)
    if not cpp_extension.is_ninja_available():
        with pytest.raises(RuntimeError, match="pip install ninja"):
            cpp_extension.verify_ninja_availability()


def test_the_header_stands_beside_dlpack_and_in_both_languages(tmp_path):
    """It is C99 and C++ without warnings, and leaves the structures to dlpack.h where that was included before."""
    text = "#include <flambeau/extension.h>\n#include <flambeau/extension.h>\nint main(void) { return flambeau_count(0) != 0; }\n"
    for command, suffix in ((["cc", "-std=c99", "-pedantic"], ".c"), (["c++", "-std=c++11"], ".cpp")):
        file = tmp_path / f"main{suffix}"
        file.write_text(text)
        flags = ["-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I", cpp_extension.include_paths()[0]]
        subprocess.run([*command, *flags, str(file)], check=True)


def test_nothing_is_said_where_nothing_is_wrong():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_inline("mine", c_sources=SQUAREPLUS)
