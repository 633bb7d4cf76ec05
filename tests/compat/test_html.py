"""What notebooks show of tensors, modules and profiles: well formed, escaped, with nothing lost and nothing changed."""

from __future__ import annotations

import base64
import io
import re
import subprocess
import sys
from html.parser import HTMLParser

import numpy
import pytest

import flambeau
from flambeau import nn
from flambeau._compat import html as _html
from flambeau._compat import printing as _printing

VOID = {"br", "img"}


class Page(HTMLParser):
    """Checks that every element is closed, and gathers text, `<pre>`s, rows of tables and pictures."""

    def __init__(self, page):
        super().__init__()
        self.open, self.pre, self.rows, self.text, self.tags, self.pictures = [], [], [], "", set(), []
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        if tag == "img":
            self.pictures.append(picture_in(dict(attributes)["src"]))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "pre":
            self.pre.append("")
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data
        if "pre" in self.open:
            self.pre[-1] += data
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data


def picture_in(source):
    from PIL import Image

    kind, data = source.split(",")
    assert kind == "data:image/png;base64"
    return numpy.asarray(Image.open(io.BytesIO(base64.b64decode(data))))


def shown(x):
    return Page(x._repr_html_())


class Own(flambeau.Tensor):
    pass


def tensors():
    x = flambeau.arange(12.0).reshape(3, 4)
    yield "matrix", x
    yield "number", flambeau.tensor(2.5)
    yield "empty", flambeau.empty(0, 3)
    yield "nonfinite", flambeau.tensor([1.0, float("nan"), float("inf"), -float("inf")])
    yield "all_nan", flambeau.full((2, 2), float("nan"))
    yield "many_dimensions", flambeau.randn(2, 3, 4, 5)
    yield "leaf", flambeau.ones(2, requires_grad=True)
    yield "recorded", flambeau.ones(2, requires_grad=True).exp()
    yield "parameter", nn.Parameter(flambeau.ones(2, 2))
    yield "lazy", nn.LazyLinear(3).weight
    yield "subclass", x.as_subclass(Own)
    yield "meta", flambeau.empty(3, 4, device="meta")
    yield "expanded", flambeau.ones(1).expand(1 << 20, 1 << 20)
    yield "transposed", x.T
    yield "conjugated", (x + 1j).conj()
    for layout in ("coo", "csr", "csc"):
        yield layout, getattr(flambeau.eye(3), f"to_sparse_{layout}" if layout != "coo" else "to_sparse")()
    yield "masked", flambeau.masked.masked_tensor(x, x > 2)
    yield "jagged", flambeau.nested.nested_tensor([x, x[:2]], layout=flambeau.jagged)
    yield "nested", flambeau.nested.nested_tensor([x, x[:2]])
    for name in ("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int64", "float16", "bfloat16"):
        yield name, flambeau.tensor([0, 1, 1]).to(getattr(flambeau, name))
    for name in (
        "float64",
        "complex64",
        "complex128",
        "complex32",
        "float8_e4m3fn",
        "float8_e5m2",
        "float8_e8m0fnu",
    ):
        yield name, flambeau.tensor([1.0, 2.0]).to(getattr(flambeau, name))
    yield "float4", flambeau.ones(2, dtype=flambeau.uint8).view(flambeau.float4_e2m1fn_x2)


TENSORS = dict(tensors())


@pytest.mark.parametrize("name", TENSORS)
def test_the_text_stands_in_every_tensor(name):
    x = TENSORS[name]
    before = repr(x)
    page = shown(x)
    assert page.pre == [before] == [repr(x)]
    assert type(x).__name__ in page.text and str(x.dtype).rpartition(".")[2] in page.text


@pytest.mark.parametrize(
    "name, said",
    [
        ("matrix", "Tensor, 3 × 4, float32, cpu · min 0, mean 5.5, max 11"),
        ("number", "Tensor, a number, float32, cpu"),
        ("empty", "Tensor, 0 × 3, float32, cpu"),
        ("nonfinite", "Tensor, 4, float32, cpu · min 1, mean 1, max 1 · 1 NaN, 2 infinite"),
        ("all_nan", "Tensor, 2 × 2, float32, cpu · 4 NaN"),
        ("leaf", "Tensor, 2, float32, cpu, requires_grad · min 1, mean 1, max 1"),
        ("parameter", "Parameter, 2 × 2, float32, cpu, requires_grad · min 1, mean 1, max 1"),
        ("lazy", "UninitializedParameter, of a shape that is not known yet, float32, cpu"),
        ("meta", "Tensor, 3 × 4, float32, meta"),
        (
            "expanded",
            "Tensor, 1048576 × 1048576, float32, cpu · 1,099,511,627,776 elements, of which no figures are computed",
        ),
        ("csr", "sparse_csr"),
        ("nested", "2 tensors"),
        ("bool", "Tensor, 3, bool, cpu · min 0, mean 0.666667, max 1"),
        ("conjugated", "min 1, mean "),
    ],
)
def test_what_is_said_of_tensors(name, said):
    assert said in shown(TENSORS[name]).text


WITHOUT = "number empty lazy meta coo csr csc masked jagged nested float4".split()


@pytest.mark.parametrize("name", TENSORS)
def test_who_has_a_picture(name):
    assert len(shown(TENSORS[name]).pictures) == (name not in WITHOUT)


def test_colours():
    x = flambeau.tensor([[-2.0, 0.0, 1.0, 2.0], [float("nan"), float("inf"), -float("inf"), 0.0]])
    page = shown(x)
    assert page.pictures[0].tolist() == [
        [[33, 102, 172], [247, 247, 247], [212, 136, 145], [178, 24, 43]],
        [[255, 0, 255], [255, 200, 0], [0, 200, 200], [247, 247, 247]],
    ]
    assert "blue -2, white 0, red 2; magenta NaN; yellow inf; cyan -inf" in page.text
    page = shown(flambeau.tensor([5, 6, 7]))
    assert page.pictures[0][0, ::2].tolist() == [[247, 247, 247], [178, 24, 43]]
    assert "white 5, red 7" in page.text
    assert (shown(flambeau.full((2, 2), 3.0)).pictures[0] == 247).all()


def test_a_picture_is_small():
    x = flambeau.zeros(3, 1000, 130)
    x[0, 16::32] = 1.0
    page = shown(x)
    assert page.pictures[0].shape == (63, 44, 3)
    assert "[0, :, :]; 1 row of 16; 1 column of 3" in page.text
    assert (page.pictures[0][1::2] == [178, 24, 43]).all() and (page.pictures[0][::2] == 247).all()
    assert len(flambeau.randn(1000, 1000)._repr_html_()) < 30_000


def test_nothing_is_recorded_or_changed():
    x = flambeau.randn(3, 3, requires_grad=True)
    y = x * 2
    version = y._version
    with flambeau.autograd.graph.saved_tensors_hooks(lambda t: pytest.fail("recorded"), lambda t: t):
        y._repr_html_(), x._repr_html_()
    assert flambeau.is_grad_enabled() and x.grad is None and y._version == version and y.requires_grad
    state = flambeau.get_rng_state()
    y._repr_html_()
    assert flambeau.equal(state, flambeau.get_rng_state())


def test_inside_vmap():
    pages = []

    def function(x):
        pages.append(Page(x._repr_html_()))
        return x

    flambeau.vmap(function)(flambeau.ones(2, 3))
    assert len(pages) == 1 and not pages[0].pictures


def test_a_class_that_stands_for_something_else():
    class Wrapper(flambeau.Tensor):
        @staticmethod
        def __new__(cls, elements):
            return flambeau.Tensor._make_wrapper_subclass(cls, elements.shape, dtype=elements.dtype)

        def __repr__(self, *, tensor_contents=None):
            return "Wrapper(<b>)"

        @classmethod
        def __torch_dispatch__(cls, op, types, args=(), kwargs=None):
            pytest.fail("called")

    page = shown(Wrapper(flambeau.ones(2)))
    assert page.pre == ["Wrapper(<b>)"] and not page.pictures and "b" not in page.tags


def test_only_what_is_shown_leaves_a_device(monkeypatch):
    """Copies to the host hold at most as many elements as the text or the picture shows."""
    sizes = []
    original = flambeau.Tensor.cpu

    def cpu(self, *args, **kwargs):
        sizes.append(self.numel())
        return original(self, *args, **kwargs)

    x = flambeau.arange(100_000.0).reshape(20, 50, 100)
    expected = repr(x)

    class Elsewhere(flambeau.Tensor):
        """Says that it lies on a device."""

        device = property(lambda self: flambeau.device("opencl"))

    monkeypatch.setattr(flambeau.Tensor, "cpu", cpu)
    there = x.as_subclass(Elsewhere)
    assert _printing.values_text(there, 7) == expected[len("tensor(") : -1]
    assert sizes and max(sizes) <= 6**3
    sizes.clear()
    _html._picture(x)
    assert sizes == [50 * 50]
    x = flambeau.arange(4000).as_subclass(Elsewhere)
    assert _printing.values_text(x, 7) == "[   0,    1,    2,  ..., 3997, 3998, 3999]"


class Evil(nn.Module):
    def extra_repr(self):
        return "<script>alert('&')</script>"


def test_a_module_is_a_table():
    shared = nn.Linear(4, 4, bias=False)
    net = nn.Sequential(nn.Linear(3, 4), nn.Sequential(shared, nn.ReLU()), shared, nn.LazyLinear(2))
    net[0].bias.requires_grad_(False)
    net.register_module("tied", nn.Module())
    net.tied.weight = shared.weight
    page = shown(net)
    assert page.pre == [repr(net)]
    assert page.rows == [
        ["name", "class", "shapes of parameters", "parameters", "trained"],
        ["", "Sequential()", "", "", ""],
        ["\u20030", "Linear(in_features=3, out_features=4, bias=True)", "weight 4 × 3, bias 4", "16", "12"],
        ["\u20031", "Sequential()", "", "", ""],
        ["\u2003\u20030", "Linear(in_features=4, out_features=4, bias=False)", "weight 4 × 4", "16", "16"],
        ["\u2003\u20031", "ReLU()", "", "", ""],
        ["\u20033", repr(net[3]), "weight ?, bias ?", "0 + ?", "0 + ?"],
        ["\u2003tied", "Module()", "weight 4 × 4", "16", "16"],
        ["all", "", "", "32 + ?", "28 + ?"],
    ]
    assert "Sequential: 32 + ? parameters, 28 + ? trained, 128 bytes" in page.text
    assert shown(nn.ReLU()).rows[-1] == ["all", "", "", "", ""]


def test_what_a_module_says_is_escaped():
    net = nn.Sequential()
    net.add_module("<i>", Evil())
    page = shown(net)
    assert not {"script", "i"} & page.tags
    assert page.rows[2][:2] == ["\u2003<i>", "Evil(<script>alert('&')</script>)"]


def test_a_large_module_is_cut(monkeypatch):
    monkeypatch.setattr(_html, "ROWS", 3)
    page = shown(nn.Sequential(*[nn.Linear(1, 1) for _ in range(5)]))
    assert len(page.rows) == 1 + 3 + 1 + 1 and page.rows[-2][0] == "… 3 more" and page.rows[-1][3] == "10"


def test_a_profile_is_a_table():
    with flambeau.profiler.profile(record_shapes=True, profile_memory=True) as seen:
        with flambeau.profiler.record_function("<script>"):
            (flambeau.randn(50, 50) @ flambeau.randn(50, 50)).sum()
    averages = seen.key_averages()
    page = shown(averages)
    assert "script" not in page.tags
    assert page.rows[0] == re.split(r"\s\s+", averages.table().splitlines()[1].strip())
    assert sorted(row[0] for row in page.rows[1:]) == sorted(event.key for event in averages)
    assert "<script>" in [row[0] for row in page.rows]
    own = [event.self_cpu_time_total for event in averages]
    first = next(event for event in averages if event.key == page.rows[1][0])
    assert first.self_cpu_time_total == max(own) and "Self CPU time total:" in page.text
    nothing = flambeau.autograd.profiler_util.EventList()
    assert shown(nothing).pre == ["no events"]


def test_nothing_is_imported_before_a_notebook_asks():
    program = (
        "import sys, flambeau; x = flambeau.ones(2); repr(x); assert 'flambeau._compat.html' not in sys.modules; "
        "x._repr_html_(); assert 'flambeau._compat.html' in sys.modules"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
