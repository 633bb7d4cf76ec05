"""Functions exported and run by onnxruntime beside their eager results; sample calls of all operations."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

import flambeau
from flambeau.onnx.errors import OnnxExporterError, UnsupportedOperatorError
from flambeau.operations.declare.registry import REGISTRY, Entry

sys.path.insert(0, str(Path(__file__).parents[1] / "operations"))
import samples  # noqa: E402

CLOSE = {"float16": 2e-3, "float32": 2e-4, "float64": 1e-6}


def session(program: Any) -> onnxruntime.InferenceSession:
    """onnxruntime's session of a program's bytes, checked by onnx."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    model = program.model_proto
    onnx.checker.check_model(model, full_check=True)
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def leaves(x: Any) -> list:
    """The tensors in a result, in order."""
    return [t for t in flambeau.utils._pytree.tree_leaves(x) if isinstance(t, flambeau.Tensor)]


def run(program: Any, tensors: Sequence[flambeau.Tensor]) -> list[np.ndarray]:
    opened = session(program)
    names = [i.name for i in opened.get_inputs()]
    return opened.run(None, {n: t.detach().numpy() for n, t in zip(names, tensors, strict=True)})


def agree(actual: Sequence[np.ndarray], expected: Any, what: str = "") -> None:
    """Assert that results have the same shapes, dtypes and values, NaN and infinities included."""
    wanted = leaves(expected)
    assert len(actual) == len(wanted), f"{what}: {len(actual)} results, {len(wanted)} expected"
    for x, t in zip(actual, wanted):
        y = t.detach().numpy()
        assert x.shape == y.shape and x.dtype == y.dtype, (
            f"{what}: {x.dtype}{x.shape}, not {y.dtype}{y.shape}"
        )
        if y.dtype.kind == "f":
            tolerance = CLOSE[str(y.dtype)]
            np.testing.assert_allclose(
                x, y, rtol=tolerance, atol=tolerance / 10, equal_nan=True, err_msg=what
            )
        else:
            np.testing.assert_array_equal(x, y, err_msg=what)


def read(program: Any, tensors: Sequence[flambeau.Tensor]) -> list[np.ndarray]:
    """What the module that the program's bytes are read as gives."""
    module = flambeau.onnx.load_model(program.model_proto.SerializeToString())
    with flambeau.no_grad():
        return [t.numpy() for t in leaves(module(*[t.detach().clone() for t in tensors]))]


def check(function: Callable, *tensors: flambeau.Tensor, **options: Any) -> Any:
    """Export a function or module, run it, and compare; the program."""
    program = flambeau.onnx.export(function, tensors, **options)
    copies = [t.detach().clone() for t in tensors]
    with flambeau.no_grad():
        expected = function(*copies)
    agree(run(program, tensors), expected, getattr(function, "__name__", ""))
    agree(read(program, tensors), expected, f"read again: {getattr(function, '__name__', '')}")
    return program


class Singles(samples.Operands):
    """The operands of sample calls in float32."""

    def floats(self, name: str) -> flambeau.Tensor:
        return super().floats(name).float()


def real_calls(family: str) -> Iterator[tuple[Entry, str]]:
    """Sample calls of public operations that are declared in a family."""
    for entry, text in samples.ALL:
        if entry.module.split(".")[2] == family and entry.kind != "random":
            yield entry, text


def of_sample(entry: Entry, text: str) -> tuple[Callable, list[flambeau.Tensor]] | None:
    """A sample call as a function of its operands; None where complex numbers come out or go in, or nothing goes in as float32."""
    operands = Singles()
    with flambeau.no_grad():
        results = samples.run(entry, text, operands)
    tensors = [t.detach() for t in operands.values() if isinstance(t, flambeau.Tensor)]
    if not results or any(t.is_complex() or "float8" in str(t.dtype) for t in (*tensors, *results)):
        return None
    if not any(t.dtype == flambeau.float32 for t in tensors):
        return None
    names = [n for n, t in operands.items() if isinstance(t, flambeau.Tensor)]

    def call(*given: flambeau.Tensor) -> list:
        return samples.run(entry, text, dict(zip(names, given)))

    return call, [t.clone() for t in tensors]


def refusal(entry: Entry, text: str, **options: Any) -> str | None:
    """Why a sample call is not exported; None where it is, and agrees."""
    sample = of_sample(entry, text)
    if sample is None:
        return None
    call, tensors = sample
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = flambeau.onnx.export(call, tuple(t.clone() for t in tensors), **options)
    except UnsupportedOperatorError as error:
        return str(error)
    except OnnxExporterError as error:
        assert "looks at" in str(error) or "returns" in str(error), error
        return str(error)
    with flambeau.no_grad():
        expected = call(*[t.clone() for t in tensors])
    agree(run(program, tensors), expected, f"{entry.name}: {text}")
    agree(read(program, tensors), expected, f"read again, {entry.name}: {text}")
    return None


FAMILIES = sorted(
    {e.module.split(".")[2] for e in REGISTRY.values() if e.module.startswith("flambeau.operations.")}
)
