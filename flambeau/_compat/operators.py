"""Which operation each Python operator of Tensor calls."""

from __future__ import annotations

from typing import Any

from ..core.base.tensor import set_operator
from ..core.call.operation import Op, rename
from ..operations.declare.registry import REGISTRY, published
from ..operations.moving import shaping
from ..operations.pointwise import arithmetic as a
from ..operations.pointwise import elementary as functions
from ..operations.rows import moments, norms, softmax

_methods = published("Tensor.")
# As users call them: graphs hold these, not the operations behind them.
_floor_divide, _remainder, _pow = REGISTRY["floor_divide"], REGISTRY["remainder"], REGISTRY["pow"]
# Operations behind a Python function: what users call it.
for _op, _name in {
    a.true_divide: "div",
    a.power: "pow",
    a.rounded: "round",
    a.floor_quotient: "floor_divide",
    a.remainder_of: "remainder",
    a.fmod_of: "fmod",
    a.clamp_both: "clamp",
    a.where_of: "where",
    a.masked_value: "masked_fill",
    a.identity: "copy",
    a.close_to: "isclose",
    functions.numbers_only: "nan_to_num",
    functions.log_odds: "logit",
    functions.log_odds_within: "logit",
    moments.variance: "var",
    moments.deviation: "std",
    moments.variance_and_mean: "var_mean",
    softmax.log_sum_exp: "logsumexp",
    norms.norm2: "linalg_vector_norm",
    shaping.lower_part: "tril",
    shaping.upper_part: "triu",
}.items():
    rename(_op, _name)


def _operator(op: Any, name: str | None = None) -> None:
    """The operation of a Python operator, which has its name where no other is given."""
    if isinstance(op, Op):
        op.method = _methods.get(op.name)  # what modes and classes are shown of an operator
    set_operator(name or op.__name__, op)


for _op in (a.add, a.sub, a.rsub, a.mul, a.lt, a.le, a.gt, a.ge, a.eq, a.ne, a.neg, a.absolute):
    _operator(_op)
for _name, _op in {
    "div": a.true_divide,
    "floordiv": _floor_divide.function,
    "mod": _remainder.function,
    "pow": _pow.function,
    "and": a.bitwise_and,
    "or": a.bitwise_or,
    "xor": a.bitwise_xor,
    "lshift": a.bitwise_left_shift,
    "rshift": a.bitwise_right_shift,
    "invert": a.bitwise_not,
    "ifloordiv": _floor_divide.in_place,
    "imod": _remainder.in_place,
    "ipow": _pow.in_place,
    "idiv": a.DIVIDE_IN_PLACE,
}.items():
    _operator(_op, _name)
for _name, _op in {
    "iadd": a.add,
    "isub": a.sub,
    "imul": a.mul,
    "iand": a.bitwise_and,
    "ior": a.bitwise_or,
    "ixor": a.bitwise_xor,
    "ilshift": a.bitwise_left_shift,
    "irshift": a.bitwise_right_shift,
}.items():
    _operator(_op.in_place, _name)


def _reversed_divide(self, other):
    return a.true_divide(other, self)


def _reversed_power(self, other):
    return _pow.function(other, self)


set_operator("rdiv", _reversed_divide)
set_operator("rpow", _reversed_power)
set_operator("rfloordiv", lambda self, other: _floor_divide.function(other, self))
set_operator("rmod", lambda self, other: _remainder.function(other, self))
set_operator("rlshift", lambda self, other: a.bitwise_left_shift(other, self))
set_operator("rrshift", lambda self, other: a.bitwise_right_shift(other, self))
if "matmul" in REGISTRY:
    set_operator("matmul", REGISTRY["matmul"].function)
    set_operator("rmatmul", lambda self, other: REGISTRY["matmul"].function(other, self))
