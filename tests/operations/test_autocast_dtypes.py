"""Every operation computes under autocast in the dtypes that PyTorch's computes in: `tests/data/autocast.tsv`, written by
`tools/autocast_on_torch.py` from the same calls.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from autocast_calls import WAYS, outcome
from samples import ALL

import flambeau

LINES = (Path(__file__).parent.parent / "data" / "autocast.tsv").read_text().splitlines()[1:]
FUNCTIONS = {entry.name: entry.function for entry, _ in ALL}
# PyTorch's list for CUDA is asked without data, where its kernels take what those of a device refuse.
NO_KERNEL = (
    "Low precision dtypes not supported",
    "Unsupported dtype",
    "only supported for floating point",
    "not implemented for",
)
# Calls that differ, each with the reason why it stays.
DIFFERENT = {
    ("cpu", "linalg_vander"): "PyTorch's has no kernel for half types and refuses some ways of asking",
    ("cpu", "masked.logaddexp"): "PyTorch's rounds to the first operand's dtype, without autocast too",
    ("cuda", "masked.logaddexp"): "the same",
    ("cpu", "lu_solve"): "the sample factorises in its arguments, and PyTorch's `lu` is another operation",
    ("cuda", "linalg_vander"): "as on the CPU",
    ("cuda", "pinv"): "its products are cast on the CPU; without data PyTorch shows another way",
    ("cuda", "pinverse"): "the same",
    ("cuda", "put"): "without data PyTorch compares no dtypes",
    ("cuda", "complex"): "the same",
    ("cuda", "polar"): "the same",
    ("cuda", "heaviside"): "the same",
    ("cuda", "grid_sampler_3d"): "the same",
    ("cuda", "affine_grid"): "without data PyTorch shows another way than that of its composite",
}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_dtypes_are_those_of_the_table(device):
    """CUDA's list is that of all accelerators; its rules are read off tensors without data."""
    place, lower = ("cpu", flambeau.bfloat16) if device == "cpu" else ("meta", flambeau.float16)
    wrong, asked = [], 0
    for line in LINES:
        kind, name, text, *expected = line.split("\t")
        if kind != device or (kind, name) in DIFFERENT:
            continue
        for way, wanted in zip(WAYS, expected):
            found = (
                "-"
                if wanted == "-"
                else outcome(flambeau, FUNCTIONS[name], f"function({text})", place, way, lower)
            )
            asked += wanted != "-"
            if found != wanted and not any(reason in found for reason in NO_KERNEL):
                wrong.append(f"{name}({text}), {way}: {found}, PyTorch's {wanted}")
    assert not wrong, "\n".join(wrong)
    assert asked > 2000


def test_what_differs_is_in_the_table():
    named = {tuple(line.split("\t")[:2]) for line in LINES}
    assert set(DIFFERENT) <= named
