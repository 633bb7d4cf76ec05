"""`repr(tensor)` and `set_printoptions`, against texts written out by hand."""

import pytest

import flambeau
from flambeau import tensor

inf, nan = float("inf"), float("nan")


@pytest.fixture(autouse=True)
def default_options():
    yield
    flambeau.set_printoptions(profile="default")


@pytest.mark.parametrize(
    "values, text",
    [
        (1.0, "tensor(1.)"),
        (-0.0, "tensor(-0.)"),
        (3, "tensor(3)"),
        (True, "tensor(True)"),
        (nan, "tensor(nan)"),
        (1e10, "tensor(1.0000e+10)"),
        (3 + 4j, "tensor(3.+4.j)"),
        (complex(0, -1.5), "tensor(0.-1.5000j)"),
        ([1.0, 2.0], "tensor([1., 2.])"),
        ([1.5, -2.0], "tensor([ 1.5000, -2.0000])"),
        ([1, -20], "tensor([  1, -20])"),
        ([True, False], "tensor([ True, False])"),
        ([0.0, -0.0, 5.0], "tensor([0., -0., 5.])"),
        ([1.0, inf, nan], "tensor([1., inf, nan])"),
        ([1.5, -inf, nan], "tensor([1.5000,   -inf,    nan])"),
        ([nan, nan], "tensor([nan, nan])"),
        ([1e-5, 1.0], "tensor([1.0000e-05, 1.0000e+00])"),
        ([1.0, 1001.0], "tensor([1.0000e+00, 1.0010e+03])"),
        ([1.0, 1000.0], "tensor([   1., 1000.])"),
        ([1e8], "tensor([100000000.])"),
        ([1.0001e8], "tensor([1.0001e+08])"),
        ([1.0 + 2j, -3.5 - 4j], "tensor([ 1.0000+2.j, -3.5000-4.j])"),
        ([[1, 2], [3, 4]], "tensor([[1, 2],\n        [3, 4]])"),
        ([[[1], [2]], [[3], [4]]], "tensor([[[1],\n         [2]],\n\n        [[3],\n         [4]]])"),
        ([], "tensor([])"),
    ],
)
def test_values(values, text):
    assert repr(tensor(values)) == text


def test_dtype_is_named_when_it_cannot_be_seen():
    assert repr(tensor([1.0], dtype=flambeau.float64)) == "tensor([1.], dtype=flambeau.float64)"
    assert repr(tensor([1], dtype=flambeau.uint8)) == "tensor([1], dtype=flambeau.uint8)"
    assert repr(tensor([0.1], dtype=flambeau.float16)) == "tensor([0.1000], dtype=flambeau.float16)"
    assert repr(tensor([0.1], dtype=flambeau.bfloat16)) == "tensor([0.1001], dtype=flambeau.bfloat16)"
    assert repr(tensor([1j], dtype=flambeau.complex128)) == "tensor([0.+1.j], dtype=flambeau.complex128)"


def test_empty_tensors_show_shape_and_dtype():
    assert repr(flambeau.empty(0)) == "tensor([])"
    assert repr(flambeau.empty(2, 0)) == "tensor([], size=(2, 0))"
    assert repr(flambeau.empty(0, dtype=flambeau.int64)) == "tensor([], dtype=flambeau.int64)"


def test_gradients():
    x = flambeau.ones(2, requires_grad=True)
    assert repr(x) == "tensor([1., 1.], requires_grad=True)"
    assert repr(x + 1) == f"tensor([2., 2.], grad_fn=<{(x + 1).grad_fn.name()}>)"


def test_parameters_and_other_subclasses():
    class Mine(flambeau.Tensor):
        pass

    parameter = flambeau.nn.Parameter(flambeau.ones(2))
    assert repr(parameter) == "Parameter containing:\ntensor([1., 1.], requires_grad=True)"
    assert repr(flambeau.ones(2).as_subclass(Mine)) == "Mine([1., 1.])"


def test_lines_are_broken_at_the_line_width():
    assert repr(flambeau.arange(30)) == (
        "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,\n"
        "        18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29])"
    )


def test_a_suffix_that_does_not_fit_goes_to_the_next_line():
    text = repr(flambeau.arange(18, dtype=flambeau.int32))
    assert text == (
        "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17],\n"
        "       dtype=flambeau.int32)"
    )


def test_large_tensors_are_abbreviated():
    assert repr(flambeau.arange(1001)) == "tensor([   0,    1,    2,  ...,  998,  999, 1000])"
    assert repr(flambeau.arange(1200).reshape(4, 300)) == (
        "tensor([[   0,    1,    2,  ...,  297,  298,  299],\n"
        "        [ 300,  301,  302,  ...,  597,  598,  599],\n"
        "        [ 600,  601,  602,  ...,  897,  898,  899],\n"
        "        [ 900,  901,  902,  ..., 1197, 1198, 1199]])"
    )
    assert repr(flambeau.zeros(400, 3)) == (
        "tensor([[0., 0., 0.],\n        [0., 0., 0.],\n        [0., 0., 0.],\n        ...,\n"
        "        [0., 0., 0.],\n        [0., 0., 0.],\n        [0., 0., 0.]])"
    )


def test_only_what_is_shown_decides_the_format():
    x = flambeau.zeros(2000)
    x[1000] = 0.5
    assert repr(x) == "tensor([0., 0., 0.,  ..., 0., 0., 0.])"


def test_options():
    x = tensor([1.23456, 2.0])
    flambeau.set_printoptions(precision=2)
    assert repr(x) == "tensor([1.23, 2.00])"
    flambeau.set_printoptions(sci_mode=True)
    assert repr(x) == "tensor([1.23e+00, 2.00e+00])"
    flambeau.set_printoptions(profile="default")
    assert repr(x) == "tensor([1.2346, 2.0000])"
    flambeau.set_printoptions(threshold=4, edgeitems=1)
    assert repr(flambeau.arange(5)) == "tensor([0,  ..., 4])"
    flambeau.set_printoptions(edgeitems=0)
    assert repr(flambeau.arange(5)) == "tensor([...], size=(5,))"
    flambeau.set_printoptions(profile="full")
    assert repr(flambeau.arange(2000)).count(",") == 1999
    flambeau.set_printoptions(profile="default", linewidth=20)
    assert repr(flambeau.arange(6)) == "tensor([0, 1, 2, 3,\n        4, 5])"
    with pytest.raises(ValueError, match="profile"):
        flambeau.set_printoptions(profile="long")


def test_finfo():
    f = flambeau.finfo(flambeau.float16)
    assert (f.bits, f.max, f.min, f.eps) == (16, 65504.0, -65504.0, 2**-10)
    assert (f.tiny, f.smallest_normal, f.resolution, f.dtype) == (2**-14, 2**-14, 1e-3, "float16")
    assert flambeau.finfo(flambeau.bfloat16).max == (2 - 2**-7) * 2.0**127
    assert flambeau.finfo(flambeau.float64).eps == 2**-52
    assert flambeau.finfo(flambeau.complex64) == flambeau.finfo(flambeau.float32) == flambeau.finfo()
    assert repr(flambeau.finfo(flambeau.float32)) == (
        "finfo(resolution=1e-06, min=-3.40282e+38, max=3.40282e+38, eps=1.19209e-07, "
        "smallest_normal=1.17549e-38, tiny=1.17549e-38, dtype=float32)"
    )
    for wrong in (flambeau.int8, flambeau.bool, 3):
        with pytest.raises(TypeError, match="finfo"):
            flambeau.finfo(wrong)


def test_iinfo():
    i = flambeau.iinfo(flambeau.int64)
    assert (i.bits, i.min, i.max, i.dtype) == (64, -(2**63), 2**63 - 1, "int64")
    assert (flambeau.iinfo(flambeau.uint8).min, flambeau.iinfo(flambeau.uint8).max) == (0, 255)
    assert repr(flambeau.iinfo(flambeau.int16)) == "iinfo(min=-32768, max=32767, dtype=int16)"
    for wrong in (flambeau.bool, flambeau.float32, flambeau.complex64, "int8"):
        with pytest.raises(TypeError, match="iinfo"):
            flambeau.iinfo(wrong)
