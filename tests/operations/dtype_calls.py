"""Sample calls in every dtype: the operands of `samples.py`, floats and whole numbers alike, are made in the dtype that is tried."""

from __future__ import annotations

import functools
import warnings

import numpy as np
import samples
from samples import REGISTRY, WHOLE, Operands, tensors_in

import flambeau

DTYPES = "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128".split()
# What `samples.py` leaves out; `dtype` is the one that is tried.
_MORE = """
    empty zeros ones rand randn: (3,), dtype=dtype
    empty_permuted: (3,), (0,), dtype=dtype
    full: (3,), 1, dtype=dtype
    arange closed_range: 0, 3, dtype=dtype
    linspace logspace: 0, 1, 3, dtype=dtype
    eye: 2, dtype=dtype
    empty_strided: (2,), (1,), dtype=dtype
    scalar_tensor: 1, dtype=dtype
    tril_indices triu_indices: 3, 3, dtype=dtype
    tensor as_tensor asarray: [1, 0], dtype=dtype
    frombuffer: bytearray(16), dtype=dtype
    from_dlpack __dlpack__ __dlpack_device__ __arrow_c_array__ numpy __array__: v
    zeros_like ones_like empty_like rand_like randn_like: v
    full_like: v, 1
    randint_like: v, 2
    new_empty new_zeros new_ones: v, (3,)
    new_full: v, (3,), 1
    new_empty_strided: v, (2,), (1,)
    new_tensor: v, [1, 0], dtype=dtype
    fill_: v, 1
    fill: v, 1
    zero_ detach_ squeeze_ clone contiguous is_contiguous cpu tolist dim_order is_pinned: v
    unsqueeze_: v, 0
    t_: x
    transpose_ swapaxes_ swapdims_: x, 0, 1
    as_strided_: x, (2,), (1,)
    resize_: x, (2,)
    resize_as_: x, y
    set_: x, y
    fill_diagonal_: x, 1
    round_ nan_to_num_: v
    hardtanh_function: x | x, 0, 1
    embedding_renorm_: table, index, 1.0, 2.0
    dropout1d: line | line, 0.5, False
    dropout2d dropout3d: image | image, 0.5, False
    feature_alpha_dropout: image, 0.5, True | image, 0.5, False
    flat_feature_dropout flat_feature_alpha_dropout flat_alpha_dropout: image, 0.5, True | image, 0.5, False
    flat_dropout_ flat_feature_dropout_ flat_alpha_dropout_ flat_feature_alpha_dropout_: image, 0.5, True | image, 0.5, False
    float_power_: v, 2
    logit_: v
    mvlgamma_: v, 1
    item is_nonzero: one
    is_same_size is_set_to to type_as copy_: x, y
    type: x, y.dtype
    as_float32 as_float64 as_complex64 as_complex128 as_complex32 as_float16 as_bfloat16: v
    as_int32 as_int64 as_int16 as_int8 as_uint8 as_bool: v
    __getitem__: x, 0
    __setitem__: x, 0, 1
    uniform_ normal_ exponential_ geometric_ cauchy_ log_normal_ random_ bernoulli_: v
    geometric_: v, 0.5
    randint: 2, (3,), dtype=dtype
    randperm: 3, dtype=dtype
    normal: v, u
    bernoulli poisson: v
    multinomial: v, 1
    binomial: v, u
    fftfreq rfftfreq: 4, dtype=dtype
    hann_window hamming_window blackman_window bartlett_window kaiser_window: 4, dtype=dtype
    general_cosine: 4, a=[0.5, 0.5], dtype=dtype
    general_hamming: 4, dtype=dtype
    window.bartlett window.blackman window.cosine window.exponential window.gaussian window.hamming: 4, dtype=dtype
    window.hann window.kaiser window.nuttall: 4, dtype=dtype
"""
MORE = {
    name: text.strip()
    for names, _, text in (line.partition(":") for line in _MORE.strip().splitlines())
    for name in names.split()
}
# Public operations that take no tensor whose dtype matters, or need what a machine may not have.
WITHOUT = frozenset(
    """manual_seed seed initial_seed get_rng_state set_rng_state Generator default_generator broadcast_shapes
    LinAlgError cuda opencl pin_memory record_stream from_numpy __array_wrap__ is_signed_of map_ map2_""".split()
)


class Typed(Operands):
    """Operands in one dtype; indices, labels and conditions stay what they are, unless nothing else is a tensor."""

    def __init__(self, dtype: str, whole: bool = False) -> None:
        super().__init__()
        self.dtype, self.whole, self.used = dtype, whole, False

    def __missing__(self, name: str):
        return getattr(flambeau, self.dtype) if name == "dtype" else super().__missing__(name)

    def make(self, name: str) -> flambeau.Tensor:
        if self.whole and name in WHOLE:
            self.used = True
            return flambeau.tensor(WHOLE[name]).to(getattr(flambeau, self.dtype))
        return self.floats({"z": "x", "zs": "sq"}[name]) if name in ("z", "zs") else super().make(name)

    def floats(self, name: str) -> flambeau.Tensor:
        found = samples.values(name)
        self.used = True
        kind = getattr(flambeau, self.dtype)
        if kind == flambeau.bool:
            found = found > np.median(found)
        elif not (kind.is_floating_point or kind.is_complex):
            found = np.round(found * 8)
        return flambeau.from_numpy(np.array(found)).to(kind)


def public(entry) -> bool:
    return any(not p.rpartition(".")[2].startswith("_") or p.endswith("__") for p in entry.places)


def calls(entry) -> list[str]:
    """Calls of an operation as text; none of one that no test calls."""
    if entry.name in WITHOUT or not public(entry):
        return []
    return MORE[entry.name].split(" | ") if entry.name in MORE else samples.calls(entry) or []


@functools.cache
def of_whole(name: str, text: str) -> bool:
    """Whether the operands of a call are whole numbers alone."""
    operands = Typed("float32")
    try:
        attempt(REGISTRY[name], text, operands)
    except (RuntimeError, TypeError, ValueError, NotImplementedError):
        pass
    return not operands.used


def attempt(entry, text: str, operands: Operands):
    """The tensors that a call gives."""
    flambeau.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = eval(
            f"function({text})",
            {"function": entry.function, "flambeau": flambeau, "bytearray": bytearray},
            operands,
        )
    return tensors_in(found)


def in_dtype(entry, text: str, dtype: str):
    """The tensors that a call gives whose operands have that dtype."""
    return attempt(entry, text, Typed(dtype, of_whole(entry.name, text)))
