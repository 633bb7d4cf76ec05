"""Operators with attributes drawn at random, read and run beside onnxruntime."""

from __future__ import annotations

import random

import numpy as np
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import flambeau as torch

KINDS = {"float32": 1, "int64": 7, "int32": 6, "uint8": 2, "int8": 3, "bool": 9, "float64": 11}
TRIES = 60


class Draw(random.Random):
    """Numbers and arrays for a node."""

    def ints(self, count, low, high):
        return [self.randint(low, high) for _ in range(count)]

    def floats(self, *shape):
        return np.array([self.uniform(-2, 2) for _ in range(int(np.prod(shape)))], "f4").reshape(shape)

    def whole(self, low, high, *shape, dtype="i8"):
        return np.array([self.randint(low, high) for _ in range(int(np.prod(shape)))], dtype).reshape(shape)

    def pads(self, kernel):
        """Before and behind, less than the window."""
        return [self.randint(0, k - 1) for k in (*kernel, *kernel)]

    def windows(self, dims, dilated=True):
        """Attributes of windows over `dims` dimensions."""
        kernel = self.ints(dims, 1, 3)
        results = {"kernel_shape": kernel, "strides": self.ints(dims, 1, 3)}
        if self.random() < 0.7:
            results["pads"] = self.pads(kernel)
        else:
            results["auto_pad"] = self.choice(["SAME_UPPER", "SAME_LOWER", "VALID"])
            results["strides"] = [min(s, k) for s, k in zip(results["strides"], kernel)]  # no padding below 0
        if dilated and self.random() < 0.4 and "pads" in results:
            results["dilations"] = self.ints(dims, 1, 2)
        return results


def conv(d):
    dims, group = d.randint(1, 3), d.choice([1, 2])
    way = d.windows(dims)
    x = d.floats(2, 2 * group, *d.ints(dims, 6, 8))
    w = d.floats(3 * group, 2, *way["kernel_shape"])
    return "Conv", [x, w, d.floats(3 * group)][: d.choice([2, 3])], {**way, "group": group}


def conv_transpose(d):
    dims, group = d.randint(1, 2), d.choice([1, 2])
    kernel, strides = d.ints(dims, 2, 4), d.ints(dims, 1, 3)
    more = {"strides": strides, "kernel_shape": kernel, "group": group}
    if d.random() < 0.5:
        more["pads"] = [d.randint(0, 1) for _ in range(2 * dims)]
        more["output_padding"] = [d.randint(0, s - 1) for s in strides]
    x, w = d.floats(1, 2 * group, *d.ints(dims, 3, 5)), d.floats(2 * group, 3, *kernel)
    return "ConvTranspose", [x, w, d.floats(3 * group)], more


def max_pool(d):
    dims = d.randint(1, 3)
    way = d.windows(dims)
    if "pads" in way and d.random() < 0.5:
        way["ceil_mode"] = 1
    return "MaxPool", [d.floats(2, 2, *d.ints(dims, 6, 8))], way


def average_pool(d):
    dims = d.randint(1, 3)
    way = d.windows(dims, dilated=False)
    way["count_include_pad"] = d.randint(0, 1)
    return "AveragePool", [d.floats(2, 2, *d.ints(dims, 6, 8))], way


def lp_pool(d):
    dims = d.randint(1, 2)
    return (
        "LpPool",
        [d.floats(1, 2, *d.ints(dims, 6, 8))],
        {**d.windows(dims, dilated=False), "p": d.randint(1, 3)},
    )


def resize(d):
    x = d.floats(1, 2, d.randint(3, 6), d.randint(3, 6))
    more = {"mode": d.choice(["nearest", "linear", "cubic"])}
    ways = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"]
    more["coordinate_transformation_mode"] = d.choice(ways)
    if more["mode"] == "nearest":
        more["nearest_mode"] = d.choice(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
    if more["mode"] == "cubic":
        more["cubic_coeff_a"] = d.choice([-0.75, -0.5])
    sizes = np.array([1, 2, d.randint(2, 11), d.randint(2, 11)])
    return "Resize", [x, None, None, sizes], more


def pad(d):
    x = d.floats(*d.ints(d.randint(1, 3), 3, 5))
    mode = d.choice(["constant", "reflect", "edge", "wrap"])
    low = -1 if mode == "constant" else 0
    numbers = [x, np.array(d.ints(2 * x.ndim, low, 2))]
    return "Pad", numbers + ([d.floats()] if mode == "constant" else []), {"mode": mode}


def slices(d):
    x = d.floats(*d.ints(3, 1, 6))
    axes = d.sample(range(-3, 0), 2)
    steps = [d.choice([-2, -1, 1, 2, 3]) for _ in axes]
    given = [np.array(v) for v in (d.ints(2, -8, 8), d.ints(2, -8, 8), axes, steps)]
    return "Slice", [x, *given], {}


def reduction(d):
    kinds = "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSumExp ReduceSumSquare"
    x = d.floats(*d.ints(3, 2, 4))
    axes = np.array(d.sample(range(-3, 3), 1)) if d.random() < 0.8 else np.zeros(0, "i8")
    more = {"keepdims": d.randint(0, 1), "noop_with_empty_axes": 0}
    return d.choice(kinds.split()), [x, axes], more


def extremes(d):
    x = d.whole(0, 3, 3, 4, 5).astype("f4")
    more = {"axis": d.randint(-3, 2), "keepdims": d.randint(0, 1), "select_last_index": d.randint(0, 1)}
    return d.choice(["ArgMax", "ArgMin"]), [x], more


def top_k(d):
    more = {"axis": d.randint(-2, 1), "largest": d.randint(0, 1)}
    return "TopK", [d.floats(4, 5), np.array([d.randint(1, 4)])], more


def running(d):
    more = {"exclusive": d.randint(0, 1), "reverse": d.randint(0, 1)}
    return "CumSum", [d.floats(3, 4), np.array(d.randint(-2, 1))], more


def gathered(d):
    kind, x, axis = d.choice(["Gather", "GatherElements", "GatherND"]), d.floats(3, 4, 5), d.randint(-3, 2)
    if kind == "Gather":
        return kind, [x, d.whole(-3, 2, *d.ints(d.randint(0, 2), 1, 3))], {"axis": axis}
    if kind == "GatherElements":
        return kind, [x, d.whole(-3, 2, 3, 4, 5)], {"axis": axis}
    batch = d.randint(0, 1)
    depth = d.randint(1, 3 - batch)
    return kind, [x, d.whole(-3, 2, *([3] if batch else []), 2, depth)], {"batch_dims": batch}


def scattered(d):
    reduction = d.choice(["none", "add", "mul", "max", "min"])
    x = d.floats(4, 5)
    if d.random() < 0.5:
        at = np.array([d.sample(range(4), 4) for _ in range(5)]).T
        return "ScatterElements", [x, at, d.floats(4, 5)], {"axis": 0, "reduction": reduction}
    at = np.array([[a, b] for a, b in d.sample([(a, b) for a in range(4) for b in range(5)], 6)])
    return "ScatterND", [x, at, d.floats(6)], {"reduction": reduction}


def matrices(d):
    turned = d.randint(0, 1), d.randint(0, 1)
    a, b = d.floats(3, 4), d.floats(4, 2)
    c = d.choice([d.floats(3, 2), d.floats(2), d.floats(3, 1), d.floats()])
    more = {
        "alpha": d.choice([1.0, 0.5]),
        "beta": d.choice([1.0, 2.0]),
        "transA": turned[0],
        "transB": turned[1],
    }
    return "Gemm", [a.T.copy() if turned[0] else a, b.T.copy() if turned[1] else b, c], more


def recurrent(d):
    kind = d.choice(["RNN", "GRU", "LSTM"])
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind]
    direction = d.choice(["forward", "reverse", "bidirectional"])
    ways, size = 1 + (direction == "bidirectional"), 3
    x = d.floats(5, 2, 4)
    inputs = [x, d.floats(ways, gates * size, 4), d.floats(ways, gates * size, size)]
    inputs.append(d.floats(ways, 2 * gates * size) if d.random() < 0.7 else None)
    inputs.append(np.array(d.ints(2, 1, 5), "i4") if d.random() < 0.5 else None)
    inputs += [d.floats(ways, 2, size)] * (1 + (kind == "LSTM"))
    more = {"hidden_size": size, "direction": direction}
    if kind == "LSTM" and d.random() < 0.5:
        inputs.append(d.floats(ways, 3 * size))
    if kind == "GRU":
        more["linear_before_reset"] = d.randint(0, 1)
    if kind != "LSTM" and d.random() < 0.4:  # the runtime does not clip what the cell's function takes
        more["clip"] = 0.7
    if kind == "RNN" and d.random() < 0.5:
        more["activations"] = [d.choice(["Relu", "Sigmoid", "Affine", "LeakyRelu"])] * ways
        more["activation_alpha"], more["activation_beta"] = [0.5] * ways, [0.1] * ways
    return kind, inputs, more


def normalised(d):
    x = d.floats(2, 4, 3, 3)
    kind = d.choice(
        ["LayerNormalization", "InstanceNormalization", "LRN", "LpNormalization", "BatchNormalization"]
    )
    if kind == "LayerNormalization":
        axis = d.randint(1, 3)
        return (
            kind,
            [x, d.floats(*x.shape[axis:]), d.floats(*x.shape[axis:])],
            {"axis": axis, "epsilon": 1e-3},
        )
    if kind == "LRN":
        return kind, [x], {"size": d.choice([1, 3, 5]), "alpha": 0.1, "beta": 0.6, "bias": 1.5}
    if kind == "LpNormalization":
        return kind, [x], {"axis": d.randint(-4, 3), "p": d.randint(1, 2)}
    rest = [d.floats(4), np.abs(d.floats(4)) + 0.1] if kind == "BatchNormalization" else []
    return kind, [x, d.floats(4), d.floats(4), *rest], {"epsilon": 1e-3}


def quantised(d):
    kind, dtype = d.choice(["QuantizeLinear", "DequantizeLinear"]), d.choice(["uint8", "int8"])
    axis = d.randint(0, 2)
    count = (2, 3, 4)[axis]
    whole, scale = d.random() < 0.5, np.abs(d.floats(count)) * 0.05 + 0.01
    zero = d.whole(1, 90, count, dtype=dtype)
    pair = [scale[0].reshape(()), zero[0].reshape(())] if whole else [scale, zero]
    x = d.floats(2, 3, 4) if kind == "QuantizeLinear" else d.whole(0, 120, 2, 3, 4, dtype=dtype)
    return kind, [x, *pair], {} if whole else {"axis": axis}


def products_of_bytes(d):
    kind = d.choice(["MatMulInteger", "QLinearMatMul", "ConvInteger", "QLinearConv"])
    zero, scale = (
        (lambda: d.whole(0, 200, dtype="u1").reshape(())),
        (lambda: np.array(d.uniform(0.01, 0.1), "f4")),
    )
    a, b = d.whole(0, 255, 3, 4, dtype="u1"), d.whole(0, 255, 4, 2, dtype="u1")
    x, w = d.whole(0, 255, 1, 2, 5, 5, dtype="u1"), d.whole(0, 255, 3, 2, 3, 3, dtype="u1")
    if kind == "MatMulInteger":
        return kind, [a, b, zero(), zero()], {}
    if kind == "ConvInteger":
        return kind, [x, w, zero(), zero()], {"pads": [1, 0, 0, 1], "strides": [2, 1]}
    given = (a, b) if kind == "QLinearMatMul" else (x, w)
    more = {} if kind == "QLinearMatMul" else {"pads": [1, 1, 0, 1]}
    out = np.array(d.uniform(5, 20), "f4")
    return kind, [given[0], scale(), zero(), given[1], scale(), zero(), out, zero()], more


def shaped(d):
    kind = d.choice(
        [
            "DepthToSpace",
            "SpaceToDepth",
            "Tile",
            "Trilu",
            "Transpose",
            "Flatten",
            "Expand",
            "OneHot",
            "Unique",
        ]
    )
    if kind == "DepthToSpace":
        return kind, [d.floats(2, 8, 2, 3)], {"blocksize": 2, "mode": d.choice(["DCR", "CRD"])}
    if kind == "SpaceToDepth":
        return kind, [d.floats(2, 3, 4, 6)], {"blocksize": 2}
    x = d.floats(3, 4)
    if kind == "Trilu":
        return kind, [x, np.array(d.randint(-5, 5))], {"upper": d.randint(0, 1)}
    if kind == "Tile":
        return kind, [x, np.array(d.ints(2, 0, 3))], {}
    if kind == "Expand":
        return kind, [d.floats(1, 4), np.array(d.choice([[3, 1], [2, 3, 4], [1]]))], {}
    if kind == "OneHot":
        return kind, [d.whole(-4, 5, 2, 3), np.array(4), d.floats(2)], {"axis": d.randint(-3, 2)}
    if kind == "Unique":
        more = {"axis": d.randint(0, 1)} if d.random() < 0.5 else {}
        return kind, [d.whole(0, 2, 4, 2).astype("f4")], {**more, "sorted": d.randint(0, 1)}
    return kind, [x], {"perm": [1, 0]} if kind == "Transpose" else {"axis": d.randint(-2, 2)}


def pointwise(d):
    kind = d.choice(
        "Mod Div Pow Clip Round HardSigmoid Elu Celu Selu ThresholdedRelu Shrink PRelu BitShift Max Gelu".split()
    )
    x, y = d.floats(2, 1, 3) * 3, d.floats(4, 1) * 3
    if kind in ("Mod", "Div"):
        whole = [
            d.whole(-9, 9, 2, 1, 3, dtype="i4"),
            d.whole(1, 5, 4, 1, dtype="i4") * np.int32(d.choice([-1, 1])),
        ]
        more = {"fmod": d.randint(0, 1)} if kind == "Mod" else {}
        return kind, whole, more
    if kind == "Pow":
        return kind, [np.abs(x), d.choice([y, d.whole(-2, 3, 4, 1)])], {}
    if kind == "Clip":
        return kind, [x, d.choice([None, np.array(-1, "f4")]), d.choice([None, np.array(1, "f4")])], {}
    if kind in ("PRelu", "Max"):
        return kind, [x, y[:1]], {}
    if kind == "BitShift":
        return (
            kind,
            [d.whole(0, 255, 3, dtype="u1"), d.whole(0, 7, 3, dtype="u1")],
            {"direction": d.choice(["LEFT", "RIGHT"])},
        )
    if kind == "Gelu":
        return kind, [x], {"approximate": d.choice(["none", "tanh"])}
    more = {"HardSigmoid": {"alpha": 0.3, "beta": 0.4}, "Shrink": {"bias": 0.3, "lambd": 0.8}, "Round": {}}
    return kind, [x], more.get(kind, {"alpha": 0.7})


FAMILIES = [
    conv, conv_transpose, max_pool, average_pool, lp_pool, resize, pad, slices, reduction, extremes, top_k, running, gathered, scattered,
    matrices, recurrent, normalised, quantised, products_of_bytes, shaped, pointwise,
]  # fmt: skip


def made(kind, arrays, attributes):
    """A model of one node: its inputs are those of the graph, but for shapes and the like, which are constants."""
    names = [f"i{k}" if a is not None else "" for k, a in enumerate(arrays)]
    while names and not names[-1]:
        names.pop()
    count = {"LSTM": 3, "GRU": 2, "RNN": 2, "TopK": 2, "MaxPool": 1, "Unique": 4}.get(kind, 1)
    outputs = [f"o{k}" for k in range(count)]
    if kind == "MaxPool" and "dilations" not in attributes and len(arrays[0].shape) < 5:
        outputs.append("o1")
    node = helper.make_node(kind, names, outputs, **attributes)
    held = [
        numpy_helper.from_array(a, n)
        for a, n in zip(arrays[1:], names[1:])
        if a is not None and a.dtype == np.int64
    ]
    initializers = {t.name for t in held}
    given = [
        helper.make_tensor_value_info(n, KINDS[str(a.dtype)], a.shape)
        for a, n in zip(arrays, names)
        if a is not None and n not in initializers
    ]
    graph = helper.make_graph(
        [node], "g", given, [helper.make_empty_tensor_value_info(o) for o in outputs], held
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    feeds = {n: a for a, n in zip(arrays, names) if a is not None and n not in initializers}
    return model.SerializeToString(), feeds


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.__name__)
def test_drawn_nodes(family):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    compared = 0
    for seed in range(TRIES):
        kind, arrays, attributes = family(Draw(seed))
        data, feeds = made(kind, arrays, attributes)
        try:
            expected = onnxruntime.InferenceSession(data, options).run(None, feeds)
        except Exception:  # noqa: S112  what the runtime does not have
            continue
        actual = torch.onnx.load_model(data)(*[torch.from_numpy(np.array(a)) for a in feeds.values()])
        actual = actual if isinstance(actual, tuple) else (actual,)
        said = f"seed {seed}: {kind} {attributes} of {[None if a is None else (a.shape, a.dtype) for a in arrays]}"
        assert len(actual) == len(expected)
        for t, y in zip(actual, expected):
            assert tuple(t.shape) == y.shape and str(t.numpy().dtype) == str(y.dtype), said
            np.testing.assert_allclose(t.numpy(), y, rtol=1e-4, atol=1e-5, err_msg=said)
        compared += 1
    assert compared > TRIES // 2
