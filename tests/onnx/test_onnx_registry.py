"""Sample calls of all operations, exported, checked by onnx, and run by onnxruntime beside eager calls."""

from __future__ import annotations

import exported
import pytest

import flambeau

# What is refused, and why.  Everything else is exported, and agrees.
VECTORS = {"svd", "old_svd", "svd_lowrank", "pca_lowrank", "lobpcg", "geqrf"}  # LAPACK's own vectors
BUNCH_KAUFMAN = {"ldl_factor", "ldl_factor_ex", "ldl_solve"}
FRACTIONAL = {f"fractional_max_pool{n}d{rest}" for n in (2, 3) for rest in ("", "_with_indices")}
SIZES = {"nonzero_static"}  # a size that depends on values
REFUSED = VECTORS | BUNCH_KAUFMAN | FRACTIONAL | SIZES
# Calls whose results are not determined: eigenvectors have any sign, boundaries are not sorted.
UNDETERMINED = {"eigh", "bucketize", "searchsorted"}


VOLUMES = {"grid_sample", "grid_sampler_3d"}  # before opset 20


@pytest.mark.parametrize("opset", [18, 20, 23])
@pytest.mark.parametrize("family", exported.FAMILIES)
def test_sample_calls(family, opset):
    refused = {}
    for entry, text in exported.real_calls(family):
        if entry.name not in UNDETERMINED:
            why = exported.refusal(entry, text, opset_version=opset)
            if why is not None and "looks at a value" not in why and "returns" not in why:
                refused[entry.name] = why
    known = REFUSED | VOLUMES if opset < 20 else REFUSED
    unexpected = {name: why for name, why in refused.items() if name not in known}
    assert not unexpected
    assert all("has no form in ONNX" in why for why in refused.values())


def test_what_is_said_to_be_refused_is():
    refused = set()
    for family in exported.FAMILIES:
        for entry, text in exported.real_calls(family):
            if entry.name in REFUSED and exported.refusal(entry, text) is not None:
                refused.add(entry.name)
    assert refused == REFUSED


def test_eigenvectors():
    a = flambeau.randn(2, 5, 5)
    a = a + a.mT
    values, vectors = exported.run(flambeau.onnx.export(flambeau.linalg.eigh, (a,)), [a])
    exported.agree([values], flambeau.linalg.eigvalsh(a))
    back = flambeau.from_numpy(vectors * values[..., None, :]) @ flambeau.from_numpy(vectors).mT
    assert flambeau.allclose(back, a, atol=1e-5)


def test_sorted_boundaries():
    x, line = flambeau.randn(3, 4), flambeau.randn(6).sort().values
    exported.check(lambda x, line: [flambeau.bucketize(x, line, right=r) for r in (False, True)], x, line)
    exported.check(lambda x, line: [flambeau.searchsorted(line, x, right=r) for r in (False, True)], x, line)


@pytest.mark.parametrize("opset", [18, 19, 20, 21, 22, 23])
def test_versions_of_operators(opset):
    x, w = flambeau.randn(3, 4), flambeau.randn(4)
    functional = flambeau.nn.functional

    def several(x, w):
        normed = functional.layer_norm(x, (4,), w), functional.rms_norm(x, (4,), w)
        result = functional.gelu(x), functional.gelu(x, approximate="tanh"), functional.elu(x), x.softmax(-1)
        return (*normed, *result, x.sum(0), x.amax(1), x[:, 1:].cumsum(1))

    program = exported.check(several, x, w, opset_version=opset)
    kinds = [node.op_type for node in program.model_proto.graph.node]
    assert program.model_proto.opset_import[0].version == opset
    assert ("Gelu" in kinds) == (opset >= 20) and ("RMSNormalization" in kinds) == (opset >= 23)
