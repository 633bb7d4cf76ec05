"""Calls that must fail do so with the class of error that PyTorch raises, and say what is wrong with them."""

from __future__ import annotations

import importlib.util
import warnings
from pathlib import Path

import pytest

import flambeau

_spec = importlib.util.spec_from_file_location("bad_calls", Path(__file__).parent / "bad_calls.py")
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)


@pytest.mark.parametrize("expected, call", _module.CALLS, ids=[c for _, c in _module.CALLS])
def test_error_class(expected, call):
    with warnings.catch_warnings(), pytest.raises(Exception) as raised:
        warnings.simplefilter("ignore")
        eval(call, {"t": flambeau})
    built_in = next(c.__name__ for c in type(raised.value).__mro__ if c.__module__ == "builtins")
    assert built_in == expected, str(raised.value)
    assert str(raised.value)
