"""Libraries: definitions, kernels, how long they stay, and what is refused."""

from __future__ import annotations

import gc
import subprocess
import sys
import warnings

import pytest

import flambeau
from flambeau.library import Library, define, impl, register_fake, register_kernel


@pytest.fixture
def lib():
    made = Library("tests_lib", "DEF")
    yield made
    made._destroy()


def test_definitions_and_kernels(lib):
    assert lib.define("pair.Tensor(Tensor x, Tensor y) -> Tensor") == "pair.Tensor"
    lib.define("pair.Scalar(Tensor x, Scalar y) -> Tensor")
    lib.impl("pair.Tensor", lambda x, y: x + y, "CPU")
    lib.impl("pair.Scalar", lambda x, y: x * y, "CPU")
    pair = flambeau.ops.tests_lib.pair
    assert pair.overloads() == ["Tensor", "Scalar"] and pair.op_overloads()[0] is pair.Tensor
    assert pair(flambeau.ones(1), flambeau.ones(1)).item() == 2.0 and pair(flambeau.ones(1), 3).item() == 3.0
    assert pair.Scalar._schema.overload_name == "Scalar" and str(pair.Scalar) == "tests_lib.pair.Scalar"
    with pytest.raises(RuntimeError, match="failed to match any schema(.|\n)*pair.Tensor(.|\n)*pair.Scalar"):
        pair(flambeau.ones(1), "text")
    with pytest.raises(AttributeError, match=r"no overload name 'default' \(there are: Tensor, Scalar\)"):
        _ = pair.default


def test_what_a_library_made_goes_with_it(lib):
    lib.define("short(Tensor x) -> Tensor")
    fragment = Library("tests_lib", "FRAGMENT")
    fragment.define("shorter(Tensor x) -> Tensor")
    fragment.impl("short", lambda x: x + 1, "CPU")
    op = flambeau.ops.tests_lib.short.default
    assert op(flambeau.zeros(1)).item() == 1.0 and "shorter" in dir(flambeau.ops.tests_lib)
    operator = flambeau.ops.tests_lib.shorter
    del fragment
    gc.collect()
    with pytest.raises(
        AttributeError, match=r"no operation tests_lib::shorter is defined \(in tests_lib: short\)"
    ):
        _ = flambeau.ops.tests_lib.shorter
    with pytest.raises(RuntimeError, match="not defined any more"):
        operator(flambeau.zeros(1))
    with pytest.raises(NotImplementedError, match=r"'CPU' backend.*\[\]"):
        op(flambeau.zeros(1))


def test_the_newest_kernel_runs_until_it_is_taken_back(lib):
    lib.define("newest(Tensor x) -> Tensor")
    lib.impl("newest", lambda x: x + 1, "CPU")
    other = Library("tests_lib", "IMPL", "CPU")
    other.impl("newest", lambda x: x + 2)
    op = flambeau.ops.tests_lib.newest
    assert op(flambeau.zeros(1)).item() == 2.0
    with pytest.raises(RuntimeError, match="already a kernel registered from python"):
        other.impl("newest", lambda x: x, allow_override=False)
    other._destroy()
    assert op(flambeau.zeros(1)).item() == 1.0


def test_kernels_may_come_before_the_definition():
    register_fake("tests_later::nms", lambda x: x.new_empty(0))
    kernel = Library("tests_later", "IMPL")
    kernel.impl("nms", lambda x: x + 1, "CPU")
    with pytest.raises(
        AttributeError, match=r"kernels for it are registered \(CPU, Meta\): .* was not loaded"
    ):
        _ = flambeau.ops.tests_later.nms
    define("tests_later::nms", "(Tensor x) -> Tensor")
    op = flambeau.ops.tests_later.nms
    assert op(flambeau.ones(1, device="meta")).shape == (0,)
    with pytest.raises(RuntimeError, match=r"its shape is \[1\], and the fake implementation says \[0\]"):
        op(flambeau.ones(1))


def test_the_functions(lib):
    define("tests_lib::sum_of", "(Tensor x) -> Tensor", lib=lib)

    @impl("tests_lib::sum_of", ("cpu", "cuda"), lib=lib)
    def _(x):
        return x.sum()

    @impl(lib, "sum_of", "Meta")
    def _(x):
        return x.new_empty(())

    @define(lib, "double_of(Tensor x) -> Tensor")
    def double_of(x):
        return x * 2

    assert flambeau.ops.tests_lib.sum_of(flambeau.ones(3)).item() == 3.0
    assert flambeau.ops.tests_lib.sum_of(flambeau.ones(3, device="meta")).shape == ()
    assert flambeau.ops.tests_lib.double_of(flambeau.ones(1)).item() == 2.0 and double_of(1) == 2
    register_kernel(
        "tests_lib::sum_of", None, lambda x: x.sum() + 1, lib=lib
    )  # for all types: the CPU has its own
    assert flambeau.ops.tests_lib.sum_of(flambeau.ones(3)).item() == 3.0
    assert flambeau.library.get_kernel("tests_lib::sum_of", "XPU")(flambeau.ones(3)).item() == 4.0
    with pytest.warns(FutureWarning, match="register_fake"):
        flambeau.library.impl_abstract("tests_lib::sum_of", lambda x: x.new_empty(1), lib=lib)


def test_kernels_for_what_does_not_exist_here_are_kept(lib):
    lib.define("quantised(Tensor x) -> Tensor")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for key in ("QuantizedCPU", "Functionalize", "FuncTorchBatched", "PrivateUse1", "ADInplaceOrView"):
            lib.impl("quantised", lambda x: x, key)
    op = flambeau.ops.tests_lib.quantised.default
    assert op.has_kernel_for_dispatch_key("QuantizedCPU") and not op.has_kernel_for_dispatch_key("CPU")
    with pytest.raises(NotImplementedError, match="'CPU' backend.*QuantizedCPU"):
        op(flambeau.ones(1))
    lib.impl("quantised", flambeau.library.fallthrough_kernel, "CPU")  # no kernel
    with pytest.raises(NotImplementedError, match="'CPU' backend"):
        op(flambeau.ones(1))


def test_results_may_be_arguments_where_no_function_promised_otherwise(lib):
    lib.define("same(Tensor x) -> Tensor")
    lib.impl("same", lambda x: x, "CPU")
    lib.define("flat(Tensor(a) x) -> Tensor(a)")
    lib.impl("flat", lambda x: x.view(-1), "CPU")
    x = flambeau.ones(2, 2)
    assert flambeau.ops.tests_lib.same(x) is x
    flat = flambeau.ops.tests_lib.flat(x)
    assert flat._is_view() and flambeau.ops.tests_lib.flat.default.is_view
    flat[0] = 5
    assert x[0, 0].item() == 5.0


def test_arguments_by_name_and_lists_of_a_length(lib):
    lib.define("windows(Tensor x, int[2] size, *, int n) -> int[]")
    lib.impl("windows", lambda x, size, *, n: [*size, n], "CPU")
    op = flambeau.ops.tests_lib.windows
    assert op(flambeau.ones(1), 3, n=1) == [3, 3, 1] and op(flambeau.ones(1), (3, 4), n=1) == [3, 4, 1]
    with pytest.raises(RuntimeError, match="missing value for argument 'n'"):
        op(flambeau.ones(1), 3)
    lib.define("middle(Tensor x, int n=3, int m=4) -> int[]")
    lib.impl("middle", lambda x, n, m: [n, m], "CPU")
    assert flambeau.ops.tests_lib.middle(flambeau.ones(1), m=5) == [3, 5]
    lib.define("maybe(Tensor? x, Tensor?[] ys) -> Tensor?")
    lib.impl("maybe", lambda x, ys: ys[0] if x is None else x, "CPU")
    y = flambeau.ones(1)
    assert flambeau.ops.tests_lib.maybe(None, [y, None]) is y


def test_no_tensors_no_kernel(lib):
    lib.define("made() -> Tensor")
    lib.impl("made", lambda: flambeau.ones(1), "CPU")
    with pytest.raises(
        NotImplementedError, match="no tensor arguments.*only available for these backends.*CPU"
    ):
        flambeau.ops.tests_lib.made()
    lib.impl("made", lambda: flambeau.ones(2), "CompositeExplicitAutograd")
    assert flambeau.ops.tests_lib.made().shape == (2,)


@pytest.mark.parametrize(
    "act, error, said",
    [
        (lambda lib: Library("tests_lib", "DEF"), RuntimeError, "Only a single .*test_libraries.py"),
        (lambda lib: Library("x", "OTHER"), ValueError, "Unsupported kind: OTHER"),
        (lambda lib: Library("prim", "DEF"), ValueError, "reserved namespace"),
        (lambda lib: Library("x", "IMPL", "Moon"), RuntimeError, "could not parse dispatch key: Moon"),
        (lambda lib: lib.define("a(Tensor x) -> Tensor"), RuntimeError, "multiple times.*test_libraries.py"),
        (lambda lib: lib.define("other::b(Tensor x) -> Tensor"), RuntimeError, "does not match namespace"),
        (lambda lib: lib.define("b(Tensor x) -> Tensor", "WRONG"), RuntimeError, "Invalid alias_analysis"),
        (lambda lib: Library("tests_lib", "IMPL").define("b() -> ()"), RuntimeError, "kind IMPL"),
        (lambda lib: lib.impl("a", 3, "CPU"), TypeError, "callable but found type <class 'int'>"),
        (lambda lib: lib.impl("a", len, "Moon"), RuntimeError, "could not parse dispatch key: Moon"),
        (lambda lib: lib.impl(3, len, "CPU"), RuntimeError, "a name or an OpOverload object"),
        (lambda lib: lib.impl("a", len, "CPU", with_keyset=True), NotImplementedError, "with_keyset"),
        (lambda lib: lib.fallback(len, "CPU"), RuntimeError, 'global namespace "_"'),
        (lambda lib: Library("_", "IMPL").fallback(len, "CPU"), NotImplementedError, "TorchDispatchMode"),
        (
            lambda lib: Library("aten", "IMPL").impl("div.Tensor", len, "CPU"),
            NotImplementedError,
            "aten::div.Tensor",
        ),
        (
            lambda lib: Library("aten", "FRAGMENT").define("mm(Tensor x) -> Tensor"),
            RuntimeError,
            "there already",
        ),
        (lambda lib: define(3, "() -> ()"), ValueError, "expected qualname to be instance of str"),
        (lambda lib: define("noname", "() -> ()"), ValueError, 'the form "namespace::name"'),
        (lambda lib: define("tests_lib::b", "b() -> ()"), ValueError, "expected schema to look like"),
        (lambda lib: register_fake(3), ValueError, "unexpected type for op"),
        (
            lambda lib: flambeau.library.register_autograd("tests_lib::none", len),
            AttributeError,
            "tests_lib::none",
        ),
        (
            lambda lib: flambeau.library.register_vmap("tests_lib::none", len),
            AttributeError,
            "tests_lib::none",
        ),
        (lambda lib: flambeau.library.get_kernel("tests_lib::none", "CPU"), RuntimeError, "does not exist"),
        (lambda lib: flambeau.library.get_kernel("tests_lib::a", "Moon"), ValueError, "Invalid dispatch key"),
        (lambda lib: flambeau.library.triton_op("a::b", len), NotImplementedError, "no Triton here"),
        (lambda lib: flambeau.library.wrap_triton(None), NotImplementedError, "no Triton here"),
    ],
)
def test_what_is_refused(lib, act, error, said):
    lib.define("a(Tensor x) -> Tensor")
    with pytest.raises(error, match=said):
        act(lib)


@pytest.mark.parametrize(
    "schema, tag, said",
    [
        ("b(Tensor x) -> Tensor", "inplace", "first positional argument to be mutable"),
        ("b(*, Tensor(a!) x) -> Tensor(a!)", "inplace", "at least one positional"),
        ("b(Tensor(a!)[] x) -> Tensor(a!)", "inplace", "to be a Tensor. Got type"),
        ("b(Tensor(a!) x) -> ()", "inplace", "exactly one value"),
        ("b(Tensor(a!) x) -> Tensor", "inplace", "must return the first mutable argument"),
        ("b(Tensor(a!) x, Tensor(b!) y) -> Tensor(a!)", "inplace", r"additional mutable args: \['y'\]"),
        ("b(Tensor x) -> Tensor", "out", "at least one mutable argument"),
        ("b(Tensor(a!) x) -> Tensor(a!)", "out", "keyword-only"),
        ("b(*, Tensor(a!)[] x) -> Tensor(a!)", "out", "only supports Tensor"),
        ("b(*, Tensor(a!) x) -> ()", "out", "1 mutable args but 0 returns"),
        ("b(*, Tensor(a!) x) -> Tensor(b!)", "out", "must alias mutable arg 'x'"),
    ],
)
def test_schemas_that_do_not_fit_their_tags(lib, schema, tag, said):
    with pytest.raises(ValueError, match=said):
        lib.define(schema, tags=flambeau.Tag[tag])


def test_shared_libraries_are_loaded_or_named(tmp_path):
    broken = tmp_path / "broken.so"
    broken.write_bytes(b"no library")
    for path in (broken, tmp_path / "missing.so"):
        with pytest.raises(OSError, match=f"Could not load this library: {path}"):
            flambeau.ops.load_library(path)
    assert str(broken) not in flambeau.ops.loaded_libraries


def test_nothing_of_it_is_imported_before_it_is_used():
    code = "import sys, flambeau; print([m for m in sys.modules if m.startswith('flambeau.library.')])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_a_forked_child_and_the_end_of_a_process_are_quiet():
    code = (
        "import os, flambeau\n"
        "lib = flambeau.library.Library('ends', 'DEF')\n"
        "lib.define('a(Tensor x) -> Tensor'); lib.impl('a', lambda x: x + 1, 'CPU')\n"
        "if os.fork() == 0:\n"
        "    assert flambeau.ops.ends.a(flambeau.ones(1)).item() == 2.0\n"
        "else:\n"
        "    assert os.wait()[1] == 0\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stderr) == (0, "")
