"""How many of onnx's own tests of operators `onnx.load_model` passes, by operator.

    python tools/onnx_node_tests.py [--only REGEX] [-v] [--opset 21] [--all]

The operators are those that opset 21 has (`--opset`), whatever version a test is written for; `--all` takes every test.  Needs the
package onnx, whose tests are made by running its reference.
"""

from __future__ import annotations

import argparse
import re
import sys
import traceback
import warnings
from collections import defaultdict
from typing import Any

import numpy as np

import flambeau
from flambeau.onnx.errors import OnnxLoadError

# Tests of what draws random numbers hold what NumPy's generator drew: dtypes and shapes are compared.
_RANDOM = re.compile("bernoulli|training_dropout|random")


def cases(only: str, opset: int | None) -> list[Any]:
    """The tests of nodes whose operator is in the opset, and those of what is written in its place (`_expanded`)."""
    from onnx import defs
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        collected = collect_testcases(None)  # type: ignore[arg-type]
    chosen = []
    for case in collected:
        imports = {o.domain: o.version for o in case.model.opset_import}
        kinds = {n.op_type for n in case.model.graph.node if not n.domain}
        known = all(d in ("", "ai.onnx") for d in imports) and all(_has(defs, k, opset) for k in kinds)
        if re.search(only, case.name) and (opset is None or known):
            chosen.append(case)
    return chosen


def _has(defs: Any, kind: str, opset: int | None) -> bool:
    try:
        return opset is None or defs.get_schema(kind, opset) is not None
    except defs.SchemaError:
        return False


def operator_of(case: Any) -> str:
    """The operator that a test is of: the only one, else the one that its name says."""
    kinds = [n.op_type for n in case.model.graph.node]
    if len(set(kinds)) == 1:
        return kinds[0]
    stem = case.name.removeprefix("test_").replace("_", "")
    named = [k for k in sorted(set(kinds), key=len, reverse=True) if stem.startswith(k.lower())]
    return named[0] if named else f"({case.name.removeprefix('test_').split('_')[0]}, written out)"


def value_of(x: Any) -> Any:
    """An operand of a test as what a module takes."""
    if isinstance(x, list):
        return [value_of(v) for v in x]
    if x is None:
        return None
    if hasattr(x, "SerializeToString"):
        from onnx import numpy_helper

        kind = type(x).__name__
        if kind == "TensorProto":
            from flambeau.onnx._messages import TensorMessage
            from flambeau.onnx._tensors import Folder, tensor_of
            from flambeau.onnx._wire import parsed

            return tensor_of(parsed(TensorMessage, memoryview(x.SerializeToString())), Folder(None))
        if kind == "SequenceProto":
            return [value_of(v) for v in numpy_helper.to_list(x)]
        return value_of(numpy_helper.to_optional(x))
    array = np.asarray(x)
    if array.dtype.kind in "OUS":
        raise OnnxLoadError("strings")
    if array.dtype.kind == "V" or "float8" in str(array.dtype) or "bfloat16" in str(array.dtype):
        bits = array.view(f"u{array.dtype.itemsize}")
        return flambeau.from_numpy(np.array(bits)).view(getattr(flambeau, str(array.dtype)))
    return flambeau.from_numpy(np.array(array))


def agree(actual: Any, wanted: Any, case: Any) -> None:
    """AssertionError where a result is another than the test's."""
    if isinstance(wanted, list):
        assert isinstance(actual, (list, tuple)) and len(actual) == len(wanted), "another number of elements"
        for x, y in zip(actual, wanted):
            agree(x, y, case)
        return
    if wanted is None:
        assert actual is None, "a value, not None"
        return
    y = value_of(wanted)
    assert actual.dtype == y.dtype, f"{actual.dtype} is not {y.dtype}"
    assert tuple(actual.shape) == tuple(y.shape), f"{tuple(actual.shape)} is not {tuple(y.shape)}"
    y_is_half, y_is_bfloat16 = y.dtype == flambeau.float16, y.dtype == flambeau.bfloat16
    if _RANDOM.search(case.name):
        return
    actual, y = (
        t.detach().float() if t.is_floating_point() and t.element_size() < 4 else t.detach()
        for t in (actual, y)
    )
    tolerance = {"rtol": max(case.rtol, 1e-3), "atol": max(case.atol, 1e-5)}
    if y_is_bfloat16:
        tolerance = {"rtol": 1 / 64, "atol": 1e-3}
    elif y_is_half:
        tolerance = {"rtol": 4e-3, "atol": 1e-3}
    np.testing.assert_allclose(actual.numpy(), y.numpy(), equal_nan=True, **tolerance)


def run(case: Any) -> None:
    """AssertionError, or the error of reading or running, where a test fails."""
    module = flambeau.onnx.load_model(case.model.SerializeToString())
    for inputs, outputs in case.data_sets:
        actual = module(*[value_of(x) for x in inputs])
        agree(list(actual) if isinstance(actual, tuple) else [actual], list(outputs), case)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--opset", type=int, default=21)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("-v", action="store_true", dest="verbose")
    options = parser.parse_args()
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    failures = defaultdict(list)
    for case in cases(options.only, None if options.all else options.opset):
        kind = operator_of(case)
        counts[kind][1] += 1
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                run(case)
            counts[kind][0] += 1
        except Exception as error:
            text = str(error).strip().split("\n")
            failures[kind].append(f"{case.name}: {type(error).__name__}: {' '.join(text)[:160]}")
            if options.verbose:
                traceback.print_exc()
    for kind, (passed, total) in sorted(counts.items()):
        print(f"{kind:40} {passed:4} of {total:4}")
        for line in failures[kind]:
            print(f"    {line}")
    passed, total = (sum(c[k] for c in counts.values()) for k in (0, 1))
    print(f"{passed} of {total} tests pass ({100 * passed / max(total, 1):.1f} %)")
    sys.exit(passed < total)


if __name__ == "__main__":
    main()
