"""Products of matrices and attention, for `shape_search.py`."""

from __future__ import annotations

import math

import numpy as np
import shape_references as reference
from shape_search import LAYOUTS, Case, draw, family

import flambeau as fb
from flambeau.nn.attention import SDPBackend, sdpa_kernel

F = fb.nn.functional
SIZES = (0, 1, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33)
LEADS = ((), (), (1,), (2,), (3,), (0,), (2, 1), (1, 3), (2, 3))
DTYPES = ("float32",) * 3 + ("float64",) * 3 + ("complex64", "complex128", "bfloat16", "float16")
SHARED = dict(layout=LAYOUTS, second=LAYOUTS, sent=LAYOUTS, dtype=DTYPES)
LETTERS = "uvwxyz"


def _scaled(array, dtype):
    """Numbers whose sums halves and floats hold well."""
    return array / 4 if dtype in ("bfloat16", "float16") else array


def _product(rng, a, b, dtype, call, pattern):
    """A case of einsum's pattern, whose operands broadcast along letters of size 1."""
    (first, second), result = pattern.split("->")[0].split(","), pattern.split("->")[1]
    sizes: dict[str, int] = {}
    for letter, n in [*zip(first, a), *zip(second, b)]:
        if sizes.get(letter, 1) not in (1, n) and n != 1:
            return None
        sizes[letter] = n if sizes.get(letter, 1) == 1 else sizes[letter]

    def against(x, y, grad):
        wide = [np.broadcast_to(v, [sizes[letter] for letter in of]) for v, of in ((x, first), (y, second))]
        found, into = reference.product(pattern, *wide, grad)
        return found, [reference.unbroadcast(i, v.shape) for i, v in zip(into, (x, y))]

    operands = [_scaled(draw(rng, a, dtype), dtype), _scaled(draw(rng, b, dtype), dtype)]
    return Case(operands, call, tuple(sizes[letter] for letter in result), against)


@family("matmul", 3000, first=LEADS, second_lead=LEADS, m=(None, *SIZES), k=SIZES, n=(None, *SIZES), **SHARED)
def matmul(rng, first, second_lead, m, k, n, dtype, **_):
    if (m is None and first) or (n is None and second_lead):
        return None
    a = (*first, k) if m is None else (*first, m, k)
    b = (*second_lead, k) if n is None else (*second_lead, k, n)
    if len(a) + len(b) < 2:
        return None
    lead = LETTERS[: max(len(first), len(second_lead))]
    own = [lead[len(lead) - len(of) :] for of in (first, second_lead)]
    rows, columns = "" if m is None else "m", "" if n is None else "n"
    return _product(rng, a, b, dtype, fb.matmul, f"{own[0]}{rows}k,{own[1]}k{columns}->{lead}{rows}{columns}")


PRODUCTS = {  # the call, and einsum's pattern; sizes by letter
    "mm": (fb.mm, "mk,kn->mn"),
    "bmm": (fb.bmm, "bmk,bkn->bmn"),
    "mv": (fb.mv, "mk,k->m"),
    "dot": (fb.dot, "k,k->"),
    "outer": (fb.outer, "m,n->mn"),
    "inner": (fb.inner, "bmk,nk->bmn"),
    "linear": (F.linear, "bmk,nk->bmn"),
    "einsum transposed": (lambda a, b: fb.einsum("bkm,bnk->bnm", a, b), "bkm,bnk->bnm"),
    "einsum two sums": (lambda a, b: fb.einsum("bmkl,lkn->mbn", a, b), "bmkl,lkn->mbn"),
    "einsum pointwise": (lambda a, b: fb.einsum("bmk,bk->bmk", a, b), "bmk,bk->bmk"),
    "tensordot": (lambda a, b: fb.tensordot(a, b, ([2, 1], [0, 2])), "bkl,lnk->bn"),
    "vdot": (lambda a, b: fb.vdot(a.conj(), b), "k,k->"),
    "mm of mH": (lambda a, b: a.mT.mm(b.mT), "km,nk->mn"),
}


def _plain(name: str) -> None:
    call, pattern = PRODUCTS[name]
    used = sorted(set(pattern) - set(",->"))
    sizes = {f"size_{letter}": SIZES if letter not in "bl" else (0, 1, 2, 3) for letter in used}

    @family(name, 250, **sizes, **SHARED)
    def product(rng, dtype, **given):
        first, second = pattern.split("->")[0].split(",")
        a, b = (tuple(given[f"size_{letter}"] for letter in of) for of in (first, second))
        return _product(rng, a, b, dtype, call, pattern)


for _name in PRODUCTS:
    _plain(_name)


@family("kron", 200, a=[(2,), (3, 1), (2, 3), (1, 2, 2)], b=[(1,), (3,), (2, 2), (0, 2), (3, 4)], **SHARED)
def kron(rng, a, b, dtype, **_):
    n = max(len(a), len(b))
    wide = [(1,) * (n - len(s)) + s for s in (a, b)]
    out = tuple(i * j for i, j in zip(*wide))
    pairs = tuple(s for both in zip(*wide) for s in both)

    def against(x, y, grad):
        x4, y4 = x.reshape(wide[0]), y.reshape(wide[1])
        first, second = LETTERS[:n], "abcdef"[:n]
        result = "".join(f + s for f, s in zip(first, second))
        found, into = reference.product(f"{first},{second}->{result}", x4, y4, grad.reshape(pairs))
        return found.reshape(out), [i.reshape(v.shape) for i, v in zip(into, (x, y))]

    return Case([draw(rng, a, dtype), draw(rng, b, dtype)], fb.kron, out, against)


ADDED = {  # what is added to, and the product
    "addmm": (fb.addmm, "mk,kn->mn"),
    "addmv": (fb.addmv, "mk,k->m"),
    "addr": (fb.addr, "m,n->mn"),
    "baddbmm": (fb.baddbmm, "bmk,bkn->bmn"),
    "addbmm": (fb.addbmm, "bmk,bkn->mn"),
    "linear with bias": (lambda c, a, b, beta, alpha: F.linear(a, b, c), "bmk,nk->bmn"),
}


def _added(name: str) -> None:
    call, pattern = ADDED[name]
    used = sorted(set(pattern) - set(",->"))
    sizes = {f"size_{letter}": SIZES if letter != "b" else (0, 1, 2, 3) for letter in used}
    linear = name.startswith("linear")
    shared = {**SHARED, "layout": ("plain", "plain", "cut", "stepped", "expanded")}

    @family(
        name, 300, **sizes, **shared, beta=(1, 1, 0.5, 0) if not linear else (1,), alpha=(1, 1, -0.75) if not linear else (1,),
        wide=("whole", "last", "ones", "scalar"),
    )  # fmt: skip
    def sum_with(rng, dtype, beta, alpha, wide, **given):
        (first, second), result = pattern.split("->")[0].split(","), pattern.split("->")[1]
        a, b, out = (tuple(given[f"size_{letter}"] for letter in of) for of in (first, second, result))
        added = {"whole": out, "last": out[-1:], "ones": (1,) * len(out), "scalar": ()}[wide]
        if linear and wide != "last":
            return None

        def against(c, x, y, grad):
            found, into = reference.product(pattern, x, y, grad * alpha)
            found = found * alpha + beta * np.broadcast_to(c, out)
            return found, [reference.unbroadcast(beta * grad, c.shape), *into]

        operands = [_scaled(draw(rng, s, dtype), dtype) for s in (added, a, b)]
        return Case(operands, lambda c, x, y: call(c, x, y, beta=beta, alpha=alpha), out, against)


for _name in ADDED:
    _added(_name)


@family(
    "bilinear",
    200,
    lead=((), (1,), (3,), (0,), (2, 3)),
    i=(1, 2, 5),
    j=(1, 3, 8),
    o=(1, 2, 17),
    bias=(False, True),
    **SHARED,
)
def bilinear(rng, lead, i, j, o, bias, dtype, **_):
    def against(x, y, w, *rest):
        grad = rest[-1]
        x2, y2, grad2 = (v.reshape(math.prod(lead), v.shape[-1]) for v in (x, y, grad))
        found = np.einsum("bi,bj,oij->bo", x2, y2, w)
        into = [
            np.einsum("bo,bj,oij->bi", grad2, y2.conj(), w.conj()).reshape(x.shape),
            np.einsum("bo,bi,oij->bj", grad2, x2.conj(), w.conj()).reshape(y.shape),
            np.einsum("bo,bi,bj->oij", grad2, x2.conj(), y2.conj()),
        ]
        if bias:
            found, into = found + rest[0], [*into, grad2.sum(0)]
        return found.reshape(grad.shape), into

    operands = [draw(rng, s, dtype) for s in ((*lead, i), (*lead, j), (o, i, j))]
    operands = [_scaled(v, dtype) for v in operands] + [
        _scaled(draw(rng, (o,), dtype), dtype) if bias else None
    ]
    return Case(operands, F.bilinear, (*lead, o), against)


# --- attention ------------------------------
BACKENDS = {"chosen": None, "math": SDPBackend.MATH, "tiles": SDPBackend.FLASH_ATTENTION}


@family(
    "attention", 2500, backend=("chosen", "math", "tiles"), batch=(None, 0, 1, 2), heads=(1, 2, 4), shared_heads=(False, True),
    queries=(0, 1, 2, 3, 5, 16, 17, 40, 70), keys=(0, 1, 2, 3, 5, 16, 17, 40, 70), width=(1, 3, 8, 16, 20), out=(1, 3, 8, 33),
    mask=(None, None, "causal", "bool", "bool row", "float", "float plane", "empty rows"), scale=(None, 0.3),
    dtype=("float32",) * 3 + ("float64",) * 3 + ("bfloat16",), layout=LAYOUTS, second=LAYOUTS, sent=LAYOUTS,
)  # fmt: skip
def attention(rng, backend, batch, heads, shared_heads, queries, keys, width, out, mask, scale, dtype, **_):
    own = max(heads // 2, 1) if shared_heads else heads
    lead = (heads,) if batch is None else (batch, heads)
    few = (own,) if batch is None else (batch, own)
    if backend == "tiles" and (batch is None or 0 in (batch, queries, keys)):
        return None
    if mask == "causal":
        added = np.where(np.tril(np.ones((queries, keys))) > 0, 0.0, -np.inf)
        attended = None
    elif mask is None:
        added, attended = np.zeros(()), None
    else:
        shape = {"bool row": (1, keys), "float": (*lead, queries, keys)}.get(mask, (queries, keys))
        if mask.startswith("float"):
            added = np.round(rng.standard_normal(shape) * 4) / 4
            attended = fb.from_numpy(added).to(getattr(fb, dtype))
        else:
            allowed = rng.random(shape) > (0.3 if mask != "empty rows" else 0.8)
            added, attended = np.where(allowed, 0.0, -np.inf), fb.from_numpy(allowed)
    factor = 1 / math.sqrt(width) if scale is None else scale

    def against(q, k, v, grad):
        wide = [np.repeat(x, heads // own, -3) for x in (k, v)]
        found, (into_q, into_k, into_v) = reference.attention(q, *wide, added, factor, grad)
        back = [i.reshape(*few[:-1], own, heads // own, *i.shape[-2:]).sum(-3) for i in (into_k, into_v)]
        return found, [into_q, *back]

    def call(q, k, v):
        given = dict(attn_mask=attended, is_causal=mask == "causal", scale=scale, enable_gqa=own != heads)
        if backend == "chosen":
            return F.scaled_dot_product_attention(q, k, v, **given)
        with sdpa_kernel(BACKENDS[backend]):
            return F.scaled_dot_product_attention(q, k, v, **given)

    shapes = (*lead, queries, width), (*few, keys, width), (*few, keys, out)
    return Case([draw(rng, s, dtype) for s in shapes], call, (*lead, queries, out), against)
