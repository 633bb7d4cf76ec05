"""FLAMBEAU_* variables: what they may hold, and that anything else is one warning when flambeau is imported."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings

import pytest

from flambeau.core.base import settings


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", 7), ("0", 0), ("268435456", 1 << 28), ("1G", 1 << 30), ("1g", 1 << 30), ("1.5 GiB", 3 << 29), ("64KB", 1 << 16),
        ("2M", 2 << 20), ("3T", 3 << 40), ("10B", 10), (" 5 ", 5),
    ],
)  # fmt: skip
def test_sizes(text, wanted):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert settings.number_of_bytes("SIZE", 7, {"SIZE": text}) == wanted
        assert settings.number_of_bytes("SIZE", 7, {}) == 7


@pytest.mark.parametrize(
    "text", ["much", "-1", "1e9", "²", "٣", "1GG", "G", "0x10", "1 2", "1,5G", "nan", "9" * 400, "9999999T"]
)
def test_what_is_no_size_is_warned_of(text):
    with pytest.warns(RuntimeWarning, match="SIZE must be a number of bytes, .* it is ignored"):
        assert settings.number_of_bytes("SIZE", 7, {"SIZE": text}) == 7


def test_choices():
    assert settings.choice("BLAS", ("mkl", "openblas"), {"BLAS": " MKL"}) == "mkl"
    assert settings.choice("BLAS", ("mkl", "openblas"), {}) == ""
    with pytest.warns(RuntimeWarning, match="BLAS must be 'mkl' or 'openblas', but is 'foo': it is ignored"):
        assert settings.choice("BLAS", ("mkl", "openblas"), {"BLAS": "foo"}) == ""


PROGRAM = """
import flambeau
import sys; print("imported", file=sys.stderr)
x = flambeau.ones(3, 3)
print((x @ x.exp()).shape)
"""


def test_bad_settings_are_warned_of_once_and_break_nothing(tmp_path):
    """At import; what concerns the disk cache with the first kernel, which loads it."""
    bad = {"FLAMBEAU_CACHE_LIMIT": "plenty", "FLAMBEAU_NUM_THREADS": "abc", "FLAMBEAU_BLAS": "foo"}
    env = dict(os.environ, FLAMBEAU_CACHE_DIR=str(tmp_path), **bad)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    before, after = done.stderr.split("imported\n")
    warned = [[text.count(f"RuntimeWarning: {name} must be") for text in (before, after)] for name in bad]
    assert warned == [[0, 1], [1, 0], [1, 0]]
