"""The contract of leaves and composites holds for all sample calls: see `leaves.py`."""

from __future__ import annotations

import leaves
from flambeau.core.call.leaf import LeafOp

from flambeau.operations.declare.registry import REGISTRY

# The turned matrix of complex numbers is a transpose and a conjugate in one compiled property.
TWO_NODES = {"mH is more than one node"}


def test_leaves_are_one_node_that_saves_arguments_and_results():
    assert set(leaves.leaf_faults()) <= TWO_NODES


def test_composites_and_formulas_call_operations_alone():
    assert leaves.composite_faults() == {}


def test_leaves_have_the_names_they_are_registered_under():
    shown = {name: e.function.__name__ for name, e in REGISTRY.items() if isinstance(e.function, LeafOp)}
    assert shown == {name: name.rpartition(".")[2] for name in shown}
