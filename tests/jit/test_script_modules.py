"""Modules as TorchScript: their attributes, methods and submodules, what is kept of them, and what is refused."""

from __future__ import annotations

import copy
import io
import os
import subprocess
import sys
import textwrap
import warnings
from enum import Enum
from typing import Final, NamedTuple  # noqa: UP035  as programs write them

import pytest

import flambeau
from flambeau import Tensor, jit, nn


def reloaded(program):
    """The program, saved and loaded."""
    return jit.load(io.BytesIO(program.save_to_buffer()))


def agree(a, b):
    if isinstance(a, Tensor):
        assert a.dtype == b.dtype and flambeau.allclose(a, b, equal_nan=True)
    elif isinstance(a, (tuple, list)):
        assert len(a) == len(b)
        for x, y in zip(a, b):
            agree(x, y)
    else:
        assert a == b


def check(net, *inputs):
    """Script a module: the script, what is loaded of it, and the module agree."""
    scripted = jit.script(copy.deepcopy(net))
    for program in (scripted, reloaded(scripted)):
        agree(program(*copy.deepcopy(inputs)), copy.deepcopy(net)(*copy.deepcopy(inputs)))
    return scripted


class Inner(nn.Module):
    def __init__(self, k: int):
        super().__init__()
        self.k: Final[int] = k
        self.weight = nn.Parameter(flambeau.full((2,), float(k)))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight + self.k

    @jit.export
    def twice(self, x: Tensor) -> Tensor:
        return self(self(x))


class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = Inner(1), nn.Sequential(Inner(2), Inner(3))

    def forward(self, x: Tensor) -> Tensor:
        return self.a.twice(self.b(x))


def test_submodules_and_exported_methods():
    scripted = check(Nested(), flambeau.randn(3, 2))
    x = flambeau.randn(2)
    agree(scripted.a.twice(x), Inner(1).twice(x))
    assert scripted.a.k == 1 and reloaded(scripted).a.k == 1 and scripted.a.original_name == "Inner"
    assert isinstance(scripted, jit.ScriptModule) and isinstance(scripted.b[0], jit.RecursiveScriptModule)


def test_parameters_are_shared_and_attributes_copied():
    net = Nested()
    scripted = jit.script(net)
    assert all(a is b for a, b in zip(scripted.parameters(), net.parameters()))
    with flambeau.no_grad():
        net.a.weight.zero_()
    agree(scripted.a(flambeau.ones(2)), flambeau.ones(2))


class Loops(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])
        self.named = nn.ModuleDict({"relu": nn.ReLU(), "gelu": nn.GELU()})
        self.scales = nn.ParameterList([nn.Parameter(flambeau.full((1,), float(k))) for k in (2, 3)])

    def forward(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        seen: list[Tensor] = []
        for k, part in enumerate(self.parts):
            x = part(x) + k
            seen.append(x)
        for name, part in self.named.items():
            if name != "gelu":
                x = part(x)
        for part, scale in zip(self.parts, self.scales):
            x = part(x) * scale
        for part in self.parts[1:]:
            x = part(x)
        if "gelu" in self.named:
            x = self.named["gelu"](x)
        return self.parts[0](x) + len(self.parts), seen


def test_lists_and_dictionaries_of_modules_are_unrolled():
    scripted = check(Loops(), flambeau.randn(3, 2))
    assert (
        "for " not in scripted.code and "if" not in scripted.code and scripted.code.count(".forward(") == 10
    )


class Attributes(nn.Module):
    half: Final[float] = 0.5
    ratio: float
    names: dict[str, int]
    maybe: Tensor | None

    def __init__(self):
        super().__init__()
        self.register_buffer("steps", flambeau.zeros(1))
        self.register_buffer("unsaved", flambeau.ones(2), persistent=False)
        self.total: float = 0.5
        self.ratio = 2
        self.sizes = [1, 2, 3]
        self.names = {}
        self.pair = (3, "a")
        self.nothing = None
        self.maybe = None
        self.typed = jit.Attribute({}, dict[str, Tensor])

    def forward(self, x: Tensor) -> Tensor:
        self.steps += 1
        self.total += 1.0
        self.names["seen"] = len(self.names)
        self.typed["x"] = x
        if self.maybe is None:
            self.maybe = x
        if self.nothing is None:
            x = x * self.half
        optional = self.maybe
        if optional is not None:
            x = x + optional
        return x * self.steps + self.unsaved * self.total + self.sizes[-1] + self.pair[0] + self.ratio

    def __getattr__(self, name):
        return super().__getattr__(name)


def test_attributes():
    net = Attributes()
    scripted = jit.script(net)
    x = flambeau.tensor([1.0, 2.0])
    wanted = (0.5 * x + x) * 1 + 1.5 + 3 + 3 + 2
    agree(scripted(x), wanted)
    assert scripted.total == 1.5 and net.total == 0.5 and net.steps.item() == 1  # the buffer is shared
    assert scripted.names == {"seen": 0} and net.names == {} and list(scripted.typed) == ["x"]
    assert list(scripted.state_dict()) == ["steps"]
    again = reloaded(scripted)
    assert again.total == 1.5 and again.names == {"seen": 0} and flambeau.equal(again.maybe, x)
    agree(again(x), scripted(x))


class Constants(nn.Module):
    __constants__ = ["flag", "sizes"]

    def __init__(self, flag: bool):
        super().__init__()
        self.flag, self.sizes = flag, (1, 2)
        if flag:
            self.layer = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        if self.flag:
            x = self.layer(x)
        for n in self.sizes:
            x = x * n
        return x


@pytest.mark.parametrize("flag", [True, False])
def test_branches_by_constants_are_not_compiled(flag):
    scripted = check(Constants(flag), flambeau.ones(1, 2))
    assert ("layer" in scripted.code) == flag and "if" not in scripted.code


class Optionals(nn.Module):
    def __init__(self, bias: bool):
        super().__init__()
        self.weight = nn.Parameter(flambeau.ones(2))
        self.register_parameter("bias", nn.Parameter(flambeau.ones(2)) if bias else None)
        self.down = nn.Linear(2, 2) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        x = x * self.weight
        if self.bias is not None:
            x = x + self.bias
        if self.down is not None:
            x = self.down(x)
        if hasattr(self, "other"):
            x = self.other(x)
        return x


@pytest.mark.parametrize("bias", [True, False])
def test_what_is_none_is_known(bias):
    check(Optionals(bias), flambeau.randn(3, 2))


class Methods(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = flambeau.relu
        self.layer = nn.Linear(2, 2)

    @property
    def scale(self) -> float:
        return 2.0

    @staticmethod
    def add(x: Tensor, n: int = 1) -> Tensor:
        return x + n

    def helper(self, x: Tensor, k: int = 2) -> Tensor:
        return self.f(x) * k

    def forward(self, x: Tensor) -> Tensor:
        return self.add(self.helper(self.layer(x), k=3)) * self.scale + Methods.add(x)


def test_methods_properties_and_functions():
    check(Methods(), flambeau.randn(3, 2))


class Derived(Methods):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + 1


def test_methods_of_base_classes():
    check(Derived(), flambeau.randn(3, 2))


class Pair(NamedTuple):
    left: Tensor
    right: int | None


class Colour(Enum):
    RED = 1
    BLUE = 2


class Plain:
    def __init__(self, n: int):
        self.n = n

    def add(self, k: int) -> int:
        self.n += k
        return self.n


class Classes(nn.Module):
    def __init__(self):
        super().__init__()
        self.colour = Colour.BLUE

    def forward(self, x: Tensor) -> tuple[Pair, int]:
        plain = Plain(2)
        plain.add(3)
        pair = Pair(x * 2, 3)
        if self.colour == Colour.BLUE:
            pair = Pair(pair.left + 1, None)
        return pair, plain.n + self.colour.value


def test_classes_enumerations_and_named_tuples():
    scripted = check(Classes(), flambeau.ones(2))
    pair, n = scripted(flambeau.ones(2))
    assert isinstance(pair, Pair) and pair.right is None and n == 7


def test_objects_of_classes_as_arguments():
    @jit.script
    def f(plain: Plain, colours: list[Colour], pair: Pair) -> tuple[int, Colour, Pair]:
        return plain.add(len(colours)), colours[0], Pair(pair.left * 2, plain.n)

    result = f(Plain(3), [Colour.RED, Colour.BLUE], Pair(flambeau.ones(1), None))
    assert result[0] == 5 and result[1] is Colour.RED and isinstance(result[2], Pair) and result[2].right == 5
    with pytest.raises(RuntimeError, match="Expected a value of type '__torch__.Plain' for argument 'plain'"):
        f(3, [], Pair(flambeau.ones(1), None))


def test_arguments_are_checked():
    @jit.script
    def f(x, n: int = 2, names: list[str] = [], p: float = 1.0) -> Tensor:  # noqa: B006
        return x * n + len(names) + p

    x = flambeau.ones(2)
    agree(f(x), flambeau.full((2,), 3.0))
    agree(f(x, names=["a"], p=2), flambeau.full((2,), 5.0))
    for call, what in (
        (lambda: f(3), "Expected a value of type 'Tensor' for argument 'x' but instead found type 'int'"),
        (lambda: f(x, "a"), "for argument 'n'"),
        (lambda: f(x, 1, [1]), "for argument 'names'"),
        (lambda: f(), "missing value for argument 'x'"),
        (lambda: f(x, m=1), "Unknown keyword argument 'm'"),
        (lambda: f(x, 1, [], 1.0, 2), r"at most 4 argument\(s\) but received 5"),
        (lambda: f(x, x=x), "multiple values for argument 'x'"),
    ):
        with pytest.raises(RuntimeError, match=what):
            call()


def test_integers_have_64_bits():
    @jit.script
    def f(n: int) -> int:
        for _ in range(3):
            n = n * 1000003 + 12345678901
        return n

    n = 9_000_000_000_000
    wanted = n
    for _ in range(3):
        wanted = (wanted * 1000003 + 12345678901 + (1 << 63)) % (1 << 64) - (1 << 63)
    assert f(n) == wanted == reloaded(f)(n)


def test_gradients_and_training():
    net = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Tanh(), nn.Linear(4, 1))
    scripted = jit.script(net.eval())
    x = flambeau.randn(5, 3, requires_grad=True)
    wanted = flambeau.autograd.grad(net(x).pow(2).sum(), [x, *net.parameters()])
    for program in (scripted, reloaded(scripted)):
        actual = flambeau.autograd.grad(program(x).pow(2).sum(), [x, *program.parameters()])
        for a, b in zip(actual, wanted):
            assert flambeau.allclose(a, b)
    assert not scripted.training and scripted.train()[1].training and not net.training


def test_empty_batches_half_types_and_second_calls():
    for dtype in (flambeau.float16, flambeau.bfloat16, flambeau.float64):
        net = nn.Sequential(nn.Linear(2, 2), nn.ReLU()).to(dtype)
        scripted = jit.script(net)
        for n in (0, 3, 3):
            x = flambeau.randn(n, 2).to(dtype)
            assert scripted(x).dtype == dtype and flambeau.equal(scripted(x), net(x))
    assert bool(jit.script(nn.ReLU())(flambeau.tensor([float("nan")])).isnan())


@pytest.mark.parametrize(
    "make, inputs",
    [
        (lambda: nn.LSTM(3, 4, 2, bidirectional=True, batch_first=True), ((2, 5, 3),)),
        (lambda: nn.LSTM(3, 4, proj_size=2), ((5, 3),)),
        (lambda: nn.GRU(3, 4), ((5, 2, 3), (1, 2, 4))),
        (lambda: nn.RNN(3, 4, nonlinearity="relu"), ((5, 2, 3),)),
        (lambda: nn.LSTMCell(3, 4), ((2, 3),)),
        (lambda: nn.GRUCell(3, 4), ((3,),)),
        (lambda: nn.RNNCell(3, 4), ((2, 3), (2, 4))),
        (lambda: nn.MultiheadAttention(4, 2, add_bias_kv=True, add_zero_attn=True), ((5, 2, 4),) * 3),
        (lambda: nn.MultiheadAttention(4, 2, kdim=3, vdim=5, batch_first=True), ((2, 5, 4), (2, 6, 3), (2, 6, 5))),
        (lambda: nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval(), ((2, 3, 4),)),
        (lambda: nn.Transformer(4, 2, 1, 1, 8).eval(), ((3, 2, 4), (5, 2, 4))),
        (lambda: nn.Sequential(nn.Conv2d(1, 2, 3, padding_mode="circular", padding=1), nn.BatchNorm2d(2)).eval(), ((2, 1, 6, 6),)),
        (lambda: nn.ConvTranspose2d(2, 3, 2, stride=2), ((2, 2, 4, 4),)),
        (lambda: nn.InstanceNorm1d(3, affine=True, track_running_stats=True).eval(), ((2, 3, 5),)),
    ],
)  # fmt: skip
def test_layers(make, inputs):
    check(make(), *[flambeau.randn(*s) for s in inputs])


def test_attention_masks():
    attend = nn.MultiheadAttention(4, 2, batch_first=True)
    x = flambeau.randn(2, 5, 4)
    padding = flambeau.arange(5).expand(2, 5) > 3
    causal = flambeau.ones(5, 5).triu(1).bool()
    scripted = jit.script(attend)
    for args in ((padding, True, causal), (padding, False, None), (None, True, causal.float() * -1e9)):
        for a, b in zip(scripted(x, x, x, *args), attend(x, x, x, *args)):
            if b is None:
                assert a is None
            else:
                assert flambeau.allclose(a, b, atol=1e-6)


def test_batch_norm_counts():
    for momentum in (0.1, None):
        net = nn.BatchNorm1d(2, momentum=momentum)
        twin = copy.deepcopy(net)
        scripted = jit.script(net)
        for _ in range(2):
            x = flambeau.randn(4, 2)
            agree(scripted(x), twin(x))
        agree(scripted.running_mean, twin.running_mean)
        assert scripted.num_batches_tracked.item() == 2


# --- marks ------------------------------
class Marked(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.dim() > 5:
            x = self.never(x)
        return self.outside(x, 2)

    @jit.unused
    def never(self, x: Tensor) -> Tensor:
        return sorted(x, key=lambda v: v)[0]

    @jit.ignore
    def outside(self, x: Tensor, n: int) -> Tensor:
        return flambeau.stack([v * n for v in list(x)])


def test_what_is_left_to_python():
    scripted = jit.script(Marked())
    agree(scripted(flambeau.ones(2)), flambeau.full((2,), 2.0))
    with pytest.raises(jit.Error, match="never is marked `unused`"):
        scripted(flambeau.ones([1] * 6))
    with pytest.raises(RuntimeError, match="Could not export Python function call 'outside'"):
        scripted.save_to_buffer()


@jit.interface
class Shape:
    def area(self, scale: float) -> float: ...


class Square:
    def __init__(self, side: float):
        self.side = side

    def area(self, scale: float) -> float:
        return self.side * self.side * scale


class Circle:
    def __init__(self, radius: float):
        self.radius = radius

    def area(self, scale: float) -> float:
        return 3.0 * self.radius * self.radius * scale


class Line:
    def __init__(self, length: float):
        self.length = length


def test_interfaces():
    def total(shape: Shape) -> float:
        return shape.area(2.0)

    def both(n: float) -> float:
        return total(Square(n)) + total(Circle(n))

    def wrong(n: float) -> float:
        return total(Line(n))

    assert jit.script(both)(2.0) == 8.0 + 24.0
    with pytest.raises(RuntimeError, match="Expected a value of type '__torch__.Shape'"):
        jit.script(wrong)


def test_overloads():
    @jit._overload
    def pick(x: int) -> int: ...

    @jit._overload
    def pick(x: str) -> str: ...  # noqa: F811

    def pick(x):  # noqa: F811
        return x

    def f(n: int) -> tuple[int, str]:
        return pick(n), pick("a")

    assert jit.script(f)(3) == (3, "a")


class Scripted(jit.ScriptModule):
    def __init__(self, n: int):
        super().__init__()
        self.weight = nn.Parameter(flambeau.full((2,), float(n)))
        self.n = n

    @jit.script_method
    def forward(self, x: Tensor) -> Tensor:
        return self.helper(x) * self.weight

    @jit.script_method
    def helper(self, x: Tensor) -> Tensor:
        return x + self.n


def test_script_methods():
    net = Scripted(3)
    agree(net(flambeau.ones(2)), flambeau.full((2,), 12.0))
    assert list(net.state_dict()) == ["weight"]
    net.load_state_dict({"weight": flambeau.zeros(2)})
    agree(net(flambeau.ones(2)), flambeau.zeros(2))
    with pytest.raises(RuntimeError, match="has no attribute 'nothing'"):

        class Wrong(jit.ScriptModule):
            def __init__(self):
                super().__init__()

            @jit.script_method
            def forward(self, x: Tensor) -> Tensor:
                return self.nothing(x)

        Wrong()


# --- freezing ------------------------------
class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.drop = nn.Linear(2, 2), nn.Dropout(0.5)
        self.register_buffer("seen", flambeau.zeros(1))
        self.scale = 3

    def forward(self, x: Tensor) -> Tensor:
        self.seen += 1
        if self.training:
            x = -x
        return self.drop(self.layer(x)) * self.scale

    @jit.export
    def size(self) -> int:
        return self.scale


def test_freeze():
    net = Gate().eval()
    frozen = jit.freeze(jit.script(net))
    x = flambeau.randn(3, 2)
    wanted = net.layer(x) * 3
    for program in (frozen, reloaded(frozen)):
        agree(program(x), wanted)
        assert list(program.parameters()) == [] and [n for n, _ in program.named_buffers()] == ["seen"]
    assert (
        "training" not in frozen.code
        and "self.scale" not in frozen.code
        and "CONSTANTS.c0" in frozen.layer.code
    )
    assert jit.freeze(jit.script(net), ["size", "scale"]).size() == 3
    assert list(jit.optimize_for_inference(jit.script(Gate())).parameters()) == []
    with pytest.raises(RuntimeError, match="only implemented for modules in eval mode"):
        jit.freeze(jit.script(Gate()))
    with pytest.raises(RuntimeError, match="expects a ScriptModule"):
        jit.freeze(net)
    with pytest.raises(NotImplementedError, match="no source"):
        jit.freeze(reloaded(jit.script(net)))


# --- errors ------------------------------
def test_errors_underline_the_place():
    def f(x, n: int):
        y = x + n
        return y.nothing(n)

    with pytest.raises(RuntimeError) as raised:
        jit.script(f)
    lines = str(raised.value).splitlines()
    assert lines[1] == "'Tensor' object has no attribute or method 'nothing'.:"
    assert lines[2] == f'  File "{__file__}", line {f.__code__.co_firstlineno + 2}'
    assert lines[5:7] == ["    return y.nothing(n)", "           ~~~~~~~~~ <--- HERE"]


def test_errors_at_run_time_name_the_line():
    @jit.script
    def f(x, n: int):
        if n < 0:
            raise ValueError(f"n is {n}")
        return x @ x

    with pytest.raises(jit.Error, match="ValueError: n is -1"):
        f(flambeau.ones(2, 2), -1)
    with pytest.raises(RuntimeError) as raised:
        f(flambeau.ones(2, 3), 1)
    assert (
        any(entry.path == __file__ or str(entry.path) == __file__ for entry in raised.traceback)
        and raised.traceback[-1].lineno >= f.__wrapped__.__code__.co_firstlineno
    )


@pytest.mark.parametrize("wrong", [3, [1], "a", None, len])
def test_what_is_no_program(wrong):
    with pytest.raises(TypeError, match=r"jit.script\(\): expected a function, a class or a Module"):
        jit.script(wrong)


def test_lambdas_and_methods_are_refused():
    with pytest.raises(Exception, match="write it as a function with `def`"):
        jit.script(lambda x: x)
    with pytest.raises(TypeError, match="mark the method with @jit.export"):
        jit.script(Nested().forward)


def test_scripts_of_scripts():
    inner = jit.script(Inner(2))
    net = nn.Sequential(inner, nn.ReLU())
    scripted = jit.script(net)
    x = flambeau.randn(2)
    agree(scripted(x), net(x))
    assert jit.script(scripted) is scripted

    @jit.script
    def g(x):
        return x * 2

    @jit.script
    def f(x):
        return g(x) + 1

    agree(f(flambeau.ones(1)), flambeau.tensor([3.0]))
    assert jit.script(f) is f and f.__wrapped__(flambeau.ones(1)).item() == 3


# --- while modules are imported ------------------------------
def with_paths(*paths) -> dict[str, str]:
    """The environment, in which these folders are searched first."""
    given = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, paths), *([given] if given else [])])}


def run(tmp_path, module: str, program: str) -> str:
    (tmp_path / "library_of_scripts.py").write_text(textwrap.dedent(module))
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
        env=with_paths(tmp_path),
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_module_that_scripts_while_it_is_imported(tmp_path):
    """Its functions are compiled when they are called; one that is not TorchScript's runs as Python, and a warning says so."""
    module = """
        import flambeau as torch

        @torch.jit.script
        def good(x, n: int = 2):
            return x * n

        @torch.jit.script
        def bad(x):
            return sorted([x], key=lambda v: v.sum())[0]

        @torch.jit.script
        class Kept:
            def __init__(self, n: int):
                self.n = n
    """
    program = """
        import sys, warnings
        import flambeau as torch
        import library_of_scripts as library
        assert "flambeau.jit._script._statements" not in sys.modules  # nothing is compiled yet
        assert library.good(torch.ones(1)).item() == 2 and "torch.mul(x, n)" in library.good.code
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            assert library.bad(torch.ones(1)).item() == 1 and library.bad(torch.ones(1)).item() == 1
        assert len(seen) == 1 and "bad, which was scripted while its module was imported" in str(seen[0].message)
        try:
            torch.jit.script(library.bad.__wrapped__)
        except torch.jit.frontend.FrontendError as error:
            print("FrontendError")
        print(library.Kept(3).n)
    """
    assert run(tmp_path, module, program) == "3\n"


def test_scripts_where_torch_means_this_library(tmp_path):
    program = """
        import torch
        from torch import nn

        class Doubled(torch.jit.ScriptModule):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(2, 2)

            @torch.jit.script_method
            def forward(self, x):
                return torch.nn.functional.relu(self.layer(x)) * 2

        net = torch.jit.script(nn.Sequential(nn.Conv1d(1, 2, 3), nn.BatchNorm1d(2), nn.LSTM(3, 2)))
        print(type(net).__module__.partition(".")[0], net(torch.ones(2, 1, 5))[0].shape, Doubled()(torch.ones(1, 2)).shape)
    """
    (tmp_path / "program.py").write_text(textwrap.dedent(program))
    done = subprocess.run(
        [sys.executable, "-m", "flambeau.torch", "program.py"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "torch torch.Size([2, 2, 2]) torch.Size([1, 2])\n"


def test_script_if_tracing():
    seen = []

    @jit.script_if_tracing
    def f(x):
        if jit.is_scripting():
            y = x * 2
        else:
            y = x * 3
        return y

    agree(f(flambeau.ones(1)), flambeau.tensor([3.0]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = jit.trace(lambda x: f(x), flambeau.ones(1), check_trace=False)
    agree(traced(flambeau.ones(1)), flambeau.tensor([2.0]))
    assert not seen


def test_fork_and_wait():
    future = jit.fork(flambeau.add, flambeau.ones(2), 1)
    agree(jit.wait(future), flambeau.full((2,), 2.0))

    def g(x, n: int):
        return x * n

    @jit.script
    def f(x):
        futures = [jit.fork(g, x, k) for k in range(3)]
        return flambeau.stack([jit.wait(v) for v in futures])

    agree(f(flambeau.ones(1)), flambeau.tensor([[0.0], [1.0], [2.0]]))
    agree(reloaded(f)(flambeau.ones(1)), f(flambeau.ones(1)))


def test_what_has_no_source_and_what_has_hooks_is_refused_by_name():
    traced = jit.trace(nn.Linear(2, 2), flambeau.ones(1, 2))
    with pytest.raises(NotImplementedError, match="the submodule Linear comes from jit.trace or jit.load"):
        jit.script(nn.Sequential(traced))
    net = nn.Linear(2, 2)
    net.register_forward_hook(lambda module, args, output: output)
    with pytest.raises(NotImplementedError, match="module Linear has hooks"):
        jit.script(nn.Sequential(net))


def test_copies_are_of_their_own():
    scripted = jit.script(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    twin = copy.deepcopy(scripted)
    with flambeau.no_grad():
        for p in twin.parameters():
            p.zero_()
    x = flambeau.ones(1, 2)
    assert twin(x).sum() == 0 and not flambeau.equal(scripted[0](x), twin[0](x))
    assert scripted.to(flambeau.float64)(x.double()).dtype == flambeau.float64


def test_graphs():
    def f(x, n: int):
        for k in range(n):
            if k > 1:
                x = flambeau.relu(x) + k
        return x, [n]

    graph = jit.script(f).graph
    assert [n.kind() for n in graph.nodes()][:1] == ["prim::Loop"]
    assert str(graph).startswith("graph(%self,\n      %x,\n      %n):\n  prim::Loop(%n)\n    block0():\n")
    relu = graph.findNode("aten::relu")
    assert [v.debugName() for v in relu.inputs()] == ["x"] and relu.output().node() is relu
    assert len(graph.findAllNodes("aten::add")) == 1 and graph.findNode("aten::mul") is None
    assert len(graph.findNode("prim::If").blocks()) == 2
    for program in (
        jit.script(Loops()),
        jit.script(Classes()),
        jit.trace(nn.Linear(2, 2), flambeau.ones(1, 2)),
    ):
        assert "forward" in program.code and program.graph.findNode("prim::Return") is not None
