# Written by `python tools/interface.py` from the registry and the Tensor class.
from builtins import bool as _bool
from builtins import bytes as _bytes
from builtins import complex as _complex
from builtins import dict as _dict
from builtins import float as _float
from builtins import int as _int
from builtins import object as _object
from builtins import str as _str
from builtins import tuple as _tuple
from builtins import type as _type
from collections.abc import Callable as _Callable
from collections.abc import Iterator as _Iterator
from collections.abc import Sequence as _Sequence
from flambeau import Generator as _Generator
from flambeau import Size as _Size
from flambeau import UntypedStorage as _UntypedStorage
from flambeau import device as _device
from flambeau import dtype as _dtype
from flambeau import layout as _layout
from flambeau import memory_format as _memory_format
from flambeau import return_types as _return_types
from flambeau.storage import TypedStorage as _TypedStorage
from flambeau.utils.hooks import RemovableHandle as _RemovableHandle
from typing import Any as _Any
from typing import Literal as _Literal
from typing import Self as _Self
from typing import TypeVar as _TypeVar
from typing import overload as _overload
import numpy as _numpy
_T = _TypeVar('_T', bound=Tensor)

class Tensor:
    """A multi-dimensional array of elements of one dtype, which records what is done to it."""
    def __init__(self, *args: _Any, **kwargs: _Any) -> None: ...
    H: Tensor
    T: Tensor
    def abs(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """|input|: the absolute value, element by element, a real number; its derivative at 0 is 0."""
    def abs_(self) -> Tensor:
        """`abs` in place: the result is written over the tensor itself, which is returned."""
    def absolute(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """|input|: the absolute value, element by element, a real number; its derivative at 0 is 0."""
    def absolute_(self) -> Tensor:
        """`abs` in place: the result is written over the tensor itself, which is returned."""
    def acos(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """arccos(input), the arc cosine in radians, element by element; integers become the default dtype."""
    def acos_(self) -> Tensor:
        """`acos` in place: the result is written over the tensor itself, which is returned."""
    def acosh(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """log(input + √(input² - 1)), the inverse hyperbolic cosine, element by element; integers become the default dtype."""
    def acosh_(self) -> Tensor:
        """`acosh` in place: the result is written over the tensor itself, which is returned."""
    def add(self, other: Tensor | _complex, *, alpha: _complex = 1.0, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """input + alpha · other, element by element."""
    def add_(self, other: Tensor | _complex, *, alpha: _complex = 1.0) -> Tensor:
        """`add` in place: the result is written over the tensor itself, which is returned."""
    def addbmm(self, batch1: Tensor, batch2: Tensor, *, beta: _complex = 1, alpha: _complex = 1, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """`beta * input + alpha * (batch1 @ batch2).sum(0)` of b matrices each, (b, n, k) and (b, k, m); input broadcasts to (n, m), and is not read where beta is 0. RuntimeError where the shapes do not fit or the dtypes differ."""
    def addbmm_(self, batch1: Tensor, batch2: Tensor, *, beta: _complex = 1, alpha: _complex = 1) -> Tensor:
        """`addbmm` with its result written to input, which must have the result's shape."""
    def addcdiv(self, tensor1: Tensor, tensor2: Tensor, *, value: Tensor | _complex = 1.0, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """input + value · tensor1 / tensor2."""
    def addcdiv_(self, tensor1: Tensor, tensor2: Tensor, *, value: Tensor | _complex = 1.0) -> Tensor:
        """`addcdiv` in place: the result is written over the tensor itself, which is returned."""
    def addcmul(self, tensor1: Tensor, tensor2: Tensor, *, value: Tensor | _complex = 1.0, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """input + value · tensor1 · tensor2."""
    def addcmul_(self, tensor1: Tensor, tensor2: Tensor, *, value: Tensor | _complex = 1.0) -> Tensor:
        """`addcmul` in place: the result is written over the tensor itself, which is returned."""
    def addmm(self, mat1: Tensor, mat2: Tensor, *, beta: _complex = 1, alpha: _complex = 1, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """`beta * input + alpha * mat1 @ mat2` of matrices (n, k) and (k, m); input broadcasts to (n, m), and is not read where beta is 0. RuntimeError where the shapes do not fit or the dtypes differ."""
    def addmm_(self, mat1: Tensor, mat2: Tensor, *, beta: _complex = 1, alpha: _complex = 1) -> Tensor:
        """`addmm` with its result written to input, which must have the result's shape."""
    def addmv(self, mat: Tensor, vec: Tensor, *, beta: _complex = 1, alpha: _complex = 1, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """`beta * input + alpha * mat @ vec` of a matrix (n, k) and a vector (k); input broadcasts to (n), and is not read where beta is 0. RuntimeError where the shapes do not fit or the dtypes differ."""
    def addmv_(self, mat: Tensor, vec: Tensor, *, beta: _complex = 1, alpha: _complex = 1) -> Tensor:
        """`addmv` with its result written to input, which must have the result's shape."""
    def addr(self, vec1: Tensor, vec2: Tensor, *, beta: _complex = 1, alpha: _complex = 1, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """`beta * input + alpha * outer(vec1, vec2)`; input broadcasts to (n, m), and is not read where beta is 0; dtypes are promoted. RuntimeError where the shapes do not fit."""
    def addr_(self, vec1: Tensor, vec2: Tensor, *, beta: _complex = 1, alpha: _complex = 1) -> Tensor:
        """`addr` with its result written to input, which must have the result's shape."""
    def adjoint(self) -> Tensor:
        """The last two dimensions exchanged, and complex numbers conjugated; RuntimeError for a vector."""
    def all(self, dim: _int | _Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: None | _dtype = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """Whether all input ≠ 0, over `dim` (bool; uint8 for uint8)."""
    def allclose(self, other: Tensor | _complex, rtol: _float = 1e-05, atol: _float = 1e-08, equal_nan: _bool = False) -> _bool:
        """Whether |input - other| <= atol + rtol · |other| for all elements, a bool of Python; see `isclose`."""
    def amax(self, dim: _int | _Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: None | _dtype = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """max(input) over `dim`; equal ones share the gradient."""
    def amin(self, dim: _int | _Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: None | _dtype = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """min(input) over `dim`; equal ones share the gradient."""
    def aminmax(self, *, dim: _int | _Sequence[_int] | None = None, keepdim: _bool = False, out: Tensor | _tuple[Tensor, ...] | None = None) -> _return_types.aminmax:
        """min(input) and max(input) over `dim` (all by default), as a named tuple (min, max)."""
    def angle(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """arg(input): the angle of each complex number in radians, in (-π, π]; of real ones, 0 or π, and NaN for NaN."""
    def any(self, dim: _int | _Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: None | _dtype = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """Whether any input ≠ 0, over `dim` (bool; uint8 for uint8)."""
    def apply_(self, function: _Any) -> Tensor:
        """Replace each element by `function` of it (a Python call for each: slow)."""
    def arccos(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """arccos(input), the arc cosine in radians, element by element; integers become the default dtype."""
    def arccos_(self) -> Tensor:
        """`acos` in place: the result is written over the tensor itself, which is returned."""
    def arccosh(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """log(input + √(input² - 1)), the inverse hyperbolic cosine, element by element; integers become the default dtype."""
    def arccosh_(self) -> Tensor:
        """`acosh` in place: the result is written over the tensor itself, which is returned."""
    def arcsin(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """arcsin(input), the arc sine in radians, element by element; integers become the default dtype."""
    def arcsin_(self) -> Tensor:
        """`asin` in place: the result is written over the tensor itself, which is returned."""
    def arcsinh(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """log(input + √(input² + 1)), the inverse hyperbolic sine, element by element; integers become the default dtype."""
    def arcsinh_(self) -> Tensor:
        """`asinh` in place: the result is written over the tensor itself, which is returned."""
    def arctan(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """arctan(input), the arc tangent in radians, element by element; integers become the default dtype."""
    def arctan2(self, other: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """arctan(input / other) with the quadrant: angle of the point (other, input), in (-π, π]."""
    def arctan2_(self, other: Tensor) -> Tensor:
        """`atan2` in place: the result is written over the tensor itself, which is returned."""
    def arctan_(self) -> Tensor:
        """`atan` in place: the result is written over the tensor itself, which is returned."""
    def arctanh(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """log((1 + input) / (1 - input)) / 2, the inverse hyperbolic tangent, element by element; integers become the default dtype."""
    def arctanh_(self) -> Tensor:
        """`atanh` in place: the result is written over the tensor itself, which is returned."""
    def argmax(self, dim: _int | _Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: None | _dtype = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """argmax(input): where the largest element stands (the first of equal ones), along `dim` or in the flattened tensor (int64). (int64)."""
    def argmin(self, dim: _int | _Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: None | _dtype = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """argmin(input): where the smallest element stands (the first of equal ones), along `dim` or in the flattened tensor (int64). (int64)."""
    def argsort(self, dim: _int = -1, descending: _bool = False, stable: _bool = False) -> Tensor:
        """Indices (int64) that sort along `dim`: the second result of `sort`."""
    def argwhere(self) -> Tensor:
        """`nonzero(input)`."""
    def as_strided(self, size: _int | _Sequence[_int], stride: _int | _Sequence[_int], storage_offset: _int | None = None) -> Tensor:
        """Any view of the storage: element `i` lies at storage_offset + i · stride, counted in elements."""
    def as_strided_(self, size: _int | _Sequence[_int], stride: _int | _Sequence[_int], storage_offset: _int | None = None) -> Tensor:
        """`as_strided` in place: the tensor itself gets the new shape."""
    def as_strided_scatter(self, src: Tensor, size: _Sequence[_int], stride: _Sequence[_int], storage_offset: _int | None = None) -> Tensor:
        """A row-major copy of `input` with `src` at the places of `as_strided(size, stride, storage_offset)`."""
    def as_subclass(self, cls: _type[_T]) -> _T:
        """The same elements as an instance of `cls`, a subclass of Tensor; TypeError for another class."""
    def asin(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """arcsin(input), the arc sine in radians, element by element; integers become the default dtype."""
    def asin_(self) -> Tensor:
        """`asin` in place: the result is written over the tensor itself, which is returned."""
    def asinh(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """log(input + √(input² + 1)), the inverse hyperbolic sine, element by element; integers become the default dtype."""
    def asinh_(self) -> Tensor:
        """`asinh` in place: the result is written over the tensor itself, which is returned."""
    def atan(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """arctan(input), the arc tangent in radians, element by element; integers become the default dtype."""
    def atan2(self, other: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """arctan(input / other) with the quadrant: angle of the point (other, input), in (-π, π]."""
    def atan2_(self, other: Tensor) -> Tensor:
        """`atan2` in place: the result is written over the tensor itself, which is returned."""
    def atan_(self) -> Tensor:
        """`atan` in place: the result is written over the tensor itself, which is returned."""
    def atanh(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """log((1 + input) / (1 - input)) / 2, the inverse hyperbolic tangent, element by element; integers become the default dtype."""
    def atanh_(self) -> Tensor:
        """`atanh` in place: the result is written over the tensor itself, which is returned."""
    def backward(self, gradient: Tensor | None=..., retain_graph: _bool | None=..., create_graph: _bool=..., inputs: Tensor | _Sequence[Tensor] | None=...) -> None:
        """Add this tensor's gradients to the `.grad` of the leaves it depends on; see `autograd.backward`."""
    def baddbmm(self, batch1: Tensor, batch2: Tensor, *, beta: _complex = 1, alpha: _complex = 1, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """`beta * input + alpha * batch1 @ batch2` of b matrices each, (b, n, k) and (b, k, m); input broadcasts to (b, n, m), and is not read where beta is 0. RuntimeError where the shapes do not fit or the dtypes differ."""
    def baddbmm_(self, batch1: Tensor, batch2: Tensor, *, beta: _complex = 1, alpha: _complex = 1) -> Tensor:
        """`baddbmm` with its result written to input, which must have the result's shape."""
    def bernoulli(self, p: _float | None = None, *, generator: _Generator | None = None, out: Tensor | None = None) -> Tensor:
        """1 with the probability that the element of `input` gives (or `p`, where it is given), else 0, in input's dtype."""
    def bernoulli_(self, p: _float | _str | None = 0.5, *, generator: _Generator | None = None) -> Tensor:
        """Overwrite with 1 of probability p, a number or a tensor that broadcasts, else 0."""
    def bfloat16(self, memory_format: _memory_format | None = None) -> Tensor:
        """The tensor as bfloat16; itself where it is that already."""
    def bincount(self, weights: Tensor | None = None, minlength: _int = 0) -> Tensor:
        """How often each non-negative integer occurs in a 1-dim tensor, or the sum of the weights where it does."""
    def bitwise_and(self, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """input ∧ other, of each bit of integers, or of bools."""
    def bitwise_and_(self, other: Tensor | _complex) -> Tensor:
        """`bitwise_and` in place: the result is written over the tensor itself, which is returned."""
    def bitwise_left_shift(self, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """input · 2^other, wrapping."""
    def bitwise_left_shift_(self, other: Tensor | _complex) -> Tensor:
        """`bitwise_left_shift` in place: the result is written over the tensor itself, which is returned."""
    def bitwise_not(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """-input - 1 for integers, the complement of each element's bits; of bools, the opposite."""
    def bitwise_not_(self) -> Tensor:
        """`bitwise_not` in place: the result is written over the tensor itself, which is returned."""
    def bitwise_or(self, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """input ∨ other, of each bit of integers, or of bools."""
    def bitwise_or_(self, other: Tensor | _complex) -> Tensor:
        """`bitwise_or` in place: the result is written over the tensor itself, which is returned."""
    def bitwise_right_shift(self, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """⌊input / 2^other⌋."""
    def bitwise_right_shift_(self, other: Tensor | _complex) -> Tensor:
        """`bitwise_right_shift` in place: the result is written over the tensor itself, which is returned."""
    def bitwise_xor(self, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """input ⊕ other, of each bit of integers, or of bools."""
    def bitwise_xor_(self, other: Tensor | _complex) -> Tensor:
        """`bitwise_xor` in place: the result is written over the tensor itself, which is returned."""
    def bmm(self, mat2: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """The products of b matrices each: (b, n, k) and (b, k, m) give (b, n, m). RuntimeError for other shapes (nothing broadcasts) or different dtypes."""
    def bool(self, memory_format: _memory_format | None = None) -> Tensor:
        """The tensor as bool; itself where it is that already."""
    def broadcast_to(self, *sizes: _int | _Sequence[_int], size: _int | _Sequence[_int] | None = None) -> Tensor:
        """`input.expand(size)`."""
    def bucketize(self, boundaries: Tensor, *, out_int32: _bool = False, right: _bool = False, out: Tensor | None = None) -> Tensor:
        """k with boundaries[k - 1] < input ≤ boundaries[k], or ≤ and < where `right`. It is `searchsorted` in a 1-dim tensor."""
    def byte(self, memory_format: _memory_format | None = None) -> Tensor:
        """The tensor as uint8; itself where it is that already."""
    def cauchy_(self, median: _float = 0.0, sigma: _float = 1.0, *, generator: _Generator | None = None) -> Tensor:
        """Overwrite with Cauchy numbers x of density sigma / (π (sigma² + (x - median)²))."""
    def ccol_indices(self) -> Tensor:
        """Where each column begins among the values."""
    def cdouble(self, memory_format: _memory_format | None = None) -> Tensor:
        """The tensor as complex128; itself where it is that already."""
    def ceil(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """⌈input⌉: the smallest integer not below, as a floating-point number; its derivative is 0."""
    def ceil_(self) -> Tensor:
        """`ceil` in place: the result is written over the tensor itself, which is returned."""
    def celu(self, alpha: _complex = 1.0, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """max(0, x) + min(0, alpha · (exp(x / alpha) - 1)) (Barron 2017)."""
    def celu_(self, alpha: _complex = 1.0) -> Tensor:
        """`celu` in place: the result is written over the tensor itself, which is returned."""
    def cfloat(self, memory_format: _memory_format | None = None) -> Tensor:
        """The tensor as complex64; itself where it is that already."""
    def chalf(self, memory_format: _memory_format | None = None) -> Tensor:
        """The tensor as complex32; itself where it is that already."""
    def char(self, memory_format: _memory_format | None = None) -> Tensor:
        """The tensor as int8; itself where it is that already."""
    def cholesky(self, upper: _bool = False, *, out: Tensor | None = None) -> Tensor:
        """`linalg.cholesky`: L with A = L Lᴴ, or its Hermitian transpose where `upper`."""
    def cholesky_inverse(self, upper: _bool = False, *, out: Tensor | None = None) -> Tensor:
        """(L Lᴴ)⁻¹, or (Lᴴ L)⁻¹ where `upper`."""
    def cholesky_solve(self, L: Tensor, upper: _bool = False, *, out: Tensor | None = None) -> Tensor:
        """X with A X = input, for A = L Lᴴ (Lᴴ L where `upper`)."""
    def chunk(self, chunks: _int, dim: _int | _Sequence[_int] | None = 0) -> _tuple[Tensor, ...]:
        """At most `chunks` pieces of equal length; the last may be shorter."""
    def clamp(self, min: Tensor | _complex | None = None, max: Tensor | _complex | None = None, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """min(max(input, min), max): input, kept between min and max (numbers or tensors; either may be None, not both)."""
    def clamp_(self, min: Tensor | _complex | None = None, max: Tensor | _complex | None = None) -> Tensor:
        """`clamp` in place."""
    def clamp_max(self, max: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """min(input, max): input, lowered to max where it is more."""
    def clamp_max_(self, max: Tensor | _complex) -> Tensor:
        """`clamp_max` in place: the result is written over the tensor itself, which is returned."""
    def clamp_min(self, min: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """max(input, min): input, raised to min where it is less."""
    def clamp_min_(self, min: Tensor | _complex) -> Tensor:
        """`clamp_min` in place: the result is written over the tensor itself, which is returned."""
    def clip(self, min: Tensor | _complex | None = None, max: Tensor | _complex | None = None, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """min(max(input, min), max): input, kept between min and max (numbers or tensors; either may be None, not both)."""
    def clip_(self, min: Tensor | _complex | None = None, max: Tensor | _complex | None = None) -> Tensor:
        """`clamp` in place."""
    def clone(self, *, memory_format: _memory_format | None = None) -> Tensor:
        """A copy with its own memory, on the tape: with the strides of the input where it has no gaps, or in `memory_format`."""
    def coalesce(self) -> Tensor:
        """The same sparse tensor with sorted coordinates, where values at the same place are added."""
    def col_indices(self) -> Tensor:
        """The column of each value."""
    def combinations(self, r: _int = 2, with_replacement: _bool = False) -> Tensor:
        """All choices of r elements of a 1-dim tensor, as rows in the order of `itertools.combinations`."""
    def conj(self) -> Tensor:
        """re - i · im: the complex conjugate, in memory of its own; a real tensor itself."""
    def conj_physical(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """re - i · im: the complex conjugate, element by element; of real numbers, themselves."""
    def conj_physical_(self) -> Tensor:
        """`conj_physical` in place: the result is written over the tensor itself, which is returned."""
    def const_data_ptr(self) -> _int:
        """`data_ptr()`, of a program that promises not to write there."""
    def contiguous(self, memory_format: _memory_format | None = None) -> Tensor:
        """The tensor itself where its elements stand in row-major order (or the one of `memory_format`) without gaps, else a copy where they do."""
    def copy_(self, src: Tensor | _complex, non_blocking: _bool = False) -> Tensor:
        """Overwrite the elements by those of `src` (a tensor that broadcasts to the shape, of any dtype, or a number)."""
    def copysign(self, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """|input| with other's sign."""
    def copysign_(self, other: Tensor | _complex) -> Tensor:
        """`copysign` in place: the result is written over the tensor itself, which is returned."""
    def corrcoef(self) -> Tensor:
        """C[i, j] / √(C[i, i] · C[j, j]) for C = `cov(input)`, within [-1, 1]. These are correlation coefficients of variables (rows) over observations (columns)."""
    def cos(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """Cosine of radians, cos(input), element by element; integers become the default dtype."""
    def cos_(self) -> Tensor:
        """`cos` in place: the result is written over the tensor itself, which is returned."""
    def cosh(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """(e^input + e^-input) / 2, the hyperbolic cosine, element by element; integers become the default dtype."""
    def cosh_(self) -> Tensor:
        """`cosh` in place: the result is written over the tensor itself, which is returned."""
    def count_nonzero(self, dim: _int | _Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: None | _dtype = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """Σ (input ≠ 0): how many elements are not zero, over `dim` (int64)."""
    def cov(self, *, correction: _int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None) -> Tensor:
        """Σ (x - mean) (y - mean)ᵀ / (n - correction) of variables (rows) over observations (columns)."""
    def cpu(self, memory_format: _memory_format | None = None) -> Tensor:
        """The tensor in the CPU's memory; itself where it is there."""
    def cross(self, other: Tensor, dim: _int | None = None, *, out: Tensor | None = None) -> Tensor:
        """(a₂b₃ - a₃b₂, a₃b₁ - a₁b₃, a₁b₂ - a₂b₁) for a = input and b = other along `dim`. That has three elements; by default it is the first dimension that has."""
    def crow_indices(self) -> Tensor:
        """Where each row begins among the values."""
    def cuda(self, device: _device | _str | _int | None = None, non_blocking: _bool = False, memory_format: _memory_format | None = None) -> Tensor:
        """The tensor on a CUDA device, by default the current one; RuntimeError where there is none."""
    def cummax(self, dim: _int, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> _return_types.cummax:
        """max(x₀ … xₖ) for each k along `dim` and where it stands, as a named tuple (values, indices)."""
    def cummin(self, dim: _int, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> _return_types.cummin:
        """min(x₀ … xₖ) for each k along `dim` and where it stands, as a named tuple (values, indices)."""
    def cumprod(self, dim: _int, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
        """Π x₀ … xₖ for each k along `dim`, the running product; integers and bools give int64."""
    def cumprod_(self, dim: _int, *, dtype: _dtype | None = None) -> Tensor:
        """`cumprod` in place: Π x₀ … xₖ for each k along `dim`."""
    def cumsum(self, dim: _int, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
        """Σ x₀ … xₖ for each k along `dim`, the running sum; integers and bools give int64, half types are summed in float32, float32 in float64."""
    def cumsum_(self, dim: _int, *, dtype: _dtype | None = None) -> Tensor:
        """`cumsum` in place: Σ x₀ … xₖ for each k along `dim`."""
    data: Tensor
    def data_ptr(self) -> _int:
        """Address of the first element."""
    def deg2rad(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """input · π / 180: degrees to radians."""
    def deg2rad_(self) -> Tensor:
        """`deg2rad` in place: the result is written over the tensor itself, which is returned."""
    def dense_dim(self) -> _int:
        """How many dimensions each listed value has; all of a dense tensor's."""
    def dequantize(self) -> Tensor:
        """The numbers of a quantised tensor, in float32, or of a sequence of them; any other tensor in float32."""
    def det(self, *, out: Tensor | None = None) -> Tensor:
        """Σ sign(π) Π A[k, π(k)]: the determinant of square matrices."""
    def detach(self) -> Tensor:
        """The same elements without history; writes to it are seen by the tape as writes to the input."""
    def detach_(self) -> Tensor:
        """Cut the tensor off from its history; RuntimeError for a view."""
    device: _device
    def diag(self, diagonal: _int = 0, *, out: Tensor | None = None) -> Tensor:
        """Of a vector, the matrix with it as a diagonal; of a matrix, a copy of its diagonal. RuntimeError for other ranks."""
    def diag_embed(self, offset: _int = 0, dim1: _int = -2, dim2: _int = -1) -> Tensor:
        """Matrices, over dimensions dim1 and dim2, with the last dimension of `input` as their diagonal and zeros elsewhere."""
    def diagflat(self, offset: _int = 0) -> Tensor:
        """The matrix with all elements, flattened, as a diagonal."""
    def diagonal(self, offset: _int = 0, dim1: _int = 0, dim2: _int = 1) -> Tensor:
        """The diagonal of the matrices along dim1 and dim2, as a new last dimension; `offset` > 0 lies above the main one."""
    def diagonal_scatter(self, src: Tensor, offset: _int = 0, dim1: _int = 0, dim2: _int = 1) -> Tensor:
        """A copy of `input` with `src` as its diagonal."""
    def diff(self, n: _int = 1, dim: _int = -1, prepend: Tensor | None = None, append: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
        """x[k + 1] - x[k] along `dim`, n times over; `prepend` and `append` are joined on first."""
    def digamma(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """Γ′(input) / Γ(input): the logarithmic derivative of Γ, element by element."""
    def digamma_(self) -> Tensor:
        """`digamma` in place: the result is written over the tensor itself, which is returned."""
    def dim(self) -> _int:
        """How many dimensions."""
    def dim_order(self) -> _tuple[_int, ...]:
        """The dimensions from the outermost in memory to the innermost."""
    def dist(self, other: Tensor | _complex, p: _float | _str | None = 2) -> Tensor:
        """(Σ |input - other|^p)^(1/p): the p-norm of the difference."""
    def div(self, other: Tensor | _complex, *, rounding_mode: _str | None = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """input / other: in floating point, or rounded by `rounding_mode` "trunc" or "floor"."""
    def div_(self, other: Tensor | _complex, *, rounding_mode: _str | None = None) -> Tensor:
        """`div` in place."""
    def divide(self, other: Tensor | _complex, *, rounding_mode: _str | None = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """input / other: in floating point, or rounded by `rounding_mode` "trunc" or "floor"."""
    def divide_(self, other: Tensor | _complex, *, rounding_mode: _str | None = None) -> Tensor:
        """`div` in place."""
    def dot(self, tensor: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """The sum of products of two vectors of one length, 0-dim. RuntimeError for other shapes or different dtypes."""
    def double(self, memory_format: _memory_format | None = None) -> Tensor:
        """The tensor as float64; itself where it is that already."""
    def dsplit(self, indices_or_sections: Tensor | _int | _Sequence[_int]) -> _tuple[Tensor, ...]:
        """`tensor_split` along depth, dimension 2 of at least 3; sections must be of equal length."""
    dtype: _dtype
    def element_size(self) -> _int:
        """Bytes of one element."""
    def eq(self, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """Whether input = other, element by element (bool)."""
    def eq_(self, other: Tensor | _complex) -> Tensor:
        """`eq` in place: the result is written over the tensor itself, which is returned."""
    def equal(self, other: Tensor) -> _bool:
        """Whether input = other: both tensors have the same shape and elements; a bool of Python."""
    def erf(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """Error function, 2/√π ∫₀ˣ exp(-t²) dt, element by element; integers become the default dtype."""
    def erf_(self) -> Tensor:
        """`erf` in place: the result is written over the tensor itself, which is returned."""
    def erfc(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """1 - erf(input), exact for large inputs, element by element; integers become the default dtype."""
    def erfc_(self) -> Tensor:
        """`erfc` in place: the result is written over the tensor itself, which is returned."""
    def erfinv(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """y with erf(y) = input, the inverse of erf, element by element; integers become the default dtype."""
    def erfinv_(self) -> Tensor:
        """`erfinv` in place: the result is written over the tensor itself, which is returned."""
    def exp(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """e^input, element by element; integers become the default dtype."""
    def exp2(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """2^input, element by element; integers become the default dtype."""
    def exp2_(self) -> Tensor:
        """`exp2` in place: the result is written over the tensor itself, which is returned."""
    def exp_(self) -> Tensor:
        """`exp` in place: the result is written over the tensor itself, which is returned."""
    def expand(self, *sizes: _int | _Sequence[_int], size: _int | _Sequence[_int] | None = None, implicit: _bool = False) -> Tensor:
        """Dimensions of size 1 repeated to the given sizes without a copy; -1 keeps a size, new dimensions come first."""
    def expand_as(self, other: Tensor | _complex) -> Tensor:
        """`input.expand(other.size())`."""
    def expm1(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """exp(input) - 1, exact for small inputs, element by element; integers become the default dtype."""
    def expm1_(self) -> Tensor:
        """`expm1` in place: the result is written over the tensor itself, which is returned."""
    def exponential_(self, lambd: _float = 1.0, *, generator: _Generator | None = None) -> Tensor:
        """Overwrite with exponentially distributed numbers x of density lambd · exp(-lambd · x), all above 0."""
    def fill_(self, value: Tensor | _complex) -> Tensor:
        """Write `value`, a number or a 0-dim tensor, to every element. RuntimeError for a number that the dtype cannot hold and for a tensor with dimensions."""
    def fill_diagonal_(self, fill_value: _complex, wrap: _bool = False) -> Tensor:
        """The main diagonal set to a number, in place; `wrap` starts it again below the square part of a tall matrix."""
    def fix(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """sign(input) · ⌊|input|⌋: the integer before the point, as a floating-point number; its derivative is 0."""
    def fix_(self) -> Tensor:
        """`trunc` in place: the result is written over the tensor itself, which is returned."""
    def flatten(self, start_dim: _int = 0, end_dim: _int = -1) -> Tensor:
        """Dimensions start_dim … end_dim made one; a 0-dim tensor gets one dimension."""
    def flip(self, *dims_: _int | _Sequence[_int], dims: _int | _Sequence[_int] | None = None) -> Tensor:
        """A copy with the elements in reverse order along `dims`."""
    def fliplr(self) -> Tensor:
        """The columns (dimension 1) in reverse order."""
    def flipud(self) -> Tensor:
        """The rows (dimension 0) in reverse order."""
    def float(self, memory_format: _memory_format | None = None) -> Tensor:
        """The tensor as float32; itself where it is that already."""
    def float_power(self, exponent: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """input^exponent in float64, or in complex128 where either is complex."""
    def float_power_(self, exponent: Tensor | _complex) -> Tensor:
        """`float_power` in place: input^exponent in float64, or in complex128 where either is complex."""
    def floor(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """⌊input⌋: the largest integer not above, as a floating-point number; its derivative is 0."""
    def floor_(self) -> Tensor:
        """`floor` in place: the result is written over the tensor itself, which is returned."""
    def floor_divide(self, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """Quotient rounded down, ⌊input / other⌋; the caller has ruled out integer zeros."""
    def floor_divide_(self, other: Tensor | _complex) -> Tensor:
        """`floor_divide` in place."""
    def fmax(self, other: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """max(input, other); a NaN loses to a number."""
    def fmin(self, other: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """min(input, other); a NaN loses to a number."""
    def fmod(self, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """input - other · trunc(input / other): of input's sign."""
    def fmod_(self, other: Tensor | _complex) -> Tensor:
        """`fmod` in place."""
    def frac(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """input - trunc(input): the part after the point, with input's sign."""
    def frac_(self) -> Tensor:
        """`frac` in place: the result is written over the tensor itself, which is returned."""
    def frexp(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> _return_types.frexp:
        """Mantissa, of magnitude in [0.5, 1), and exponent (int32) with input = mantissa · 2^exponent."""
    def gather(self, dim: _int | _Sequence[_int] | None, index: Tensor, *, sparse_grad: _bool = False, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """Elements of dimension `dim` chosen by `index`, whose shape the result has."""
    def gcd(self, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """max {d : input = d · i, other = d · j}: the greatest common divisor of integers."""
    def gcd_(self, *others: Tensor) -> Tensor:
        """`gcd` in place."""
    def ge(self, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """Whether input ≥ other, element by element (bool)."""
    def ge_(self, other: Tensor | _complex) -> Tensor:
        """`ge` in place: the result is written over the tensor itself, which is returned."""
    def geometric_(self, p: _float, *, generator: _Generator | None = None) -> Tensor:
        """Overwrite with numbers k of P(k) = (1 - p)^(k - 1) · p, for p in (0, 1). They count trials up to the first success."""
    def geqrf(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> _return_types.geqrf:
        """QR decomposition in LAPACK's compact form: `a` holds R and, below its diagonal, the vectors of the reflections whose scales are `tau`; `linalg.householder_product` makes Q of both."""
    def ger(self, vec2: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """outer(input, vec2, *, out=None) -> Tensor"""
    def get_device(self) -> _int:
        """The device's number; -1 on the CPU."""
    grad: Tensor | None
    grad_fn: _Any
    def greater(self, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """Whether input > other, element by element (bool)."""
    def greater_(self, other: Tensor | _complex) -> Tensor:
        """`gt` in place: the result is written over the tensor itself, which is returned."""
    def greater_equal(self, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """Whether input ≥ other, element by element (bool)."""
    def greater_equal_(self, other: Tensor | _complex) -> Tensor:
        """`ge` in place: the result is written over the tensor itself, which is returned."""
    def gt(self, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """Whether input > other, element by element (bool)."""
    def gt_(self, other: Tensor | _complex) -> Tensor:
        """`gt` in place: the result is written over the tensor itself, which is returned."""
    def half(self, memory_format: _memory_format | None = None) -> Tensor:
        """The tensor as float16; itself where it is that already."""
    def hardshrink(self, lambd: _float = 0.5, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """input where |input| > lambd, else 0."""
    def heaviside(self, values: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """0 where input < 0 and for NaN, 1 where input > 0, `values` where input = 0."""
    def heaviside_(self, values: Tensor) -> Tensor:
        """`heaviside` in place: the result is written over the tensor itself, which is returned."""
    def histc(self, bins: _int = 100, min: _float = 0, max: _float = 0, *, out: Tensor | None = None) -> Tensor:
        """How many elements lie in each of `bins` equal parts of [min, max]; of [smallest, largest] where both are equal."""
    def histogram(self, bins: _Any, *, range: _Sequence[_float] | None = None, weight: Tensor | None = None, density: _bool = False, out: Tensor | _tuple[Tensor, ...] | None = None) -> _return_types.histogram:
        """How many elements, or what weight of them, lie in each bin, and the edges of the bins; the last bin is closed."""
    def hsplit(self, indices_or_sections: Tensor | _int | _Sequence[_int]) -> _tuple[Tensor, ...]:
        """`tensor_split` along columns: dimension 1, or 0 of a vector; sections must be of equal length."""
    def hypot(self, other: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """√(input² + other²) without overflow."""
    def hypot_(self, other: Tensor) -> Tensor:
        """`hypot` in place: the result is written over the tensor itself, which is returned."""
    def i0(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """1/π ∫₀^π exp(x · cos t) dt, the modified Bessel function of the first kind of order 0, element by element; integers become the default dtype."""
    def i0_(self, *others: Tensor) -> Tensor:
        """`i0` in place."""
    def igamma(self, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """Regularised lower incomplete gamma function, 1/Γ(a) ∫₀ˣ t^(a-1) e^(-t) dt with a = input, x = other."""
    def igamma_(self, *others: Tensor) -> Tensor:
        """`igamma` in place."""
    def igammac(self, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """Regularised upper incomplete gamma function, 1 - igamma(input, other)."""
    def igammac_(self, *others: Tensor) -> Tensor:
        """`igammac` in place."""
    imag: Tensor
    def index_add(self, dim: _int | _Sequence[_int] | None, index: Tensor, source: Tensor, *, alpha: _complex = 1, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """A copy of the input with `alpha` times the parts of `source` added to the parts that `index` names."""
    def index_add_(self, dim: _int | _Sequence[_int] | None, index: Tensor, source: Tensor, *, alpha: _complex = 1) -> Tensor:
        """Add `alpha` times the parts of `source` to the parts of dimension `dim` that `index` names; equal indices add up."""
    def index_copy(self, dim: _int | _Sequence[_int] | None, index: Tensor, source: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """A copy of the input with the parts that `index` names overwritten by those of `source`."""
    def index_copy_(self, dim: _int | _Sequence[_int] | None, index: Tensor, source: Tensor) -> Tensor:
        """Overwrite the parts of dimension `dim` that `index` names by those of `source`; of equal indices the last wins."""
    def index_fill(self, dim: _int | _Sequence[_int] | None, index: Tensor, value: Tensor | _complex) -> Tensor:
        """A copy of the input with the parts that `index` names filled with `value`."""
    def index_fill_(self, dim: _int | _Sequence[_int] | None, index: Tensor, value: Tensor | _complex) -> Tensor:
        """Fill the parts of dimension `dim` that `index` names with `value`, a number or a 0-dim tensor."""
    def index_put(self, indices: Tensor | _int | _Sequence[_int], values: _Any, accumulate: _bool = False) -> Tensor:
        """A copy of the input with `values` written (or added) at `indices`."""
    def index_put_(self, indices: Tensor | _int | _Sequence[_int], values: _Any, accumulate: _bool = False) -> Tensor:
        """`input[indices] = values`, or `+=` with `accumulate`, where equal indices add up in their order."""
    def index_reduce(self, dim: _int | _Sequence[_int] | None, index: Tensor, source: Tensor, reduce: _str | _bool | None, *, include_self: _bool = True, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """A copy of the input with the parts of `source` combined where `index` says, as `index_reduce_` does."""
    def index_reduce_(self, dim: _int | _Sequence[_int] | None, index: Tensor, source: Tensor, reduce: _str | _bool | None, *, include_self: _bool = True) -> Tensor:
        """Combine the parts of `source` with the parts of dimension `dim` that a vector of indices names, by "prod", "mean", "amax" or "amin"."""
    def index_select(self, dim: _int | _Sequence[_int] | None, index: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """The parts of dimension `dim` that a vector of indices names, in its order."""
    def indices(self) -> Tensor:
        """Where the values of a sparse tensor stand, sorted and without doubles."""
    def inner(self, other: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """Sums of products over the last dimension of both; the shape is input's other dimensions, then other's. With a 0-dim tensor it is the product of all elements with it. RuntimeError where the last sizes or the dtypes differ."""
    def int(self, memory_format: _memory_format | None = None) -> Tensor:
        """The tensor as int32; itself where it is that already."""
    def int_repr(self) -> Tensor:
        """The integers of a quantised tensor, in memory of their own."""
    def inverse(self, *, out: Tensor | None = None) -> Tensor:
        """A⁻¹, the inverse of square matrices; LinAlgError where one is singular."""
    def is_coalesced(self) -> _bool:
        """Whether the coordinates are sorted and differ."""
    def is_complex(self) -> _bool:
        """Whether the dtype is complex."""
    def is_conj(self) -> _bool:
        """False: `conj` computes, it sets no mark."""
    def is_contiguous(self, memory_format: _memory_format | None = None) -> _bool:
        """Whether the elements lie in row-major order without gaps; with `channels_last` (or `channels_last_3d`), whether they lie in the order batch, height, width, channel."""
    is_cpu: _bool
    is_cuda: _bool
    def is_distributed(self) -> _bool:
        """Whether the elements lie in several processes: False."""
    def is_floating_point(self) -> _bool:
        """Whether the dtype has a fraction and is real."""
    is_hpu: _bool
    def is_inference(self) -> _bool:
        """Whether the tensor was made in inference mode: the tape cannot save it."""
    is_ipu: _bool
    is_leaf: _bool
    is_maia: _bool
    is_meta: _bool
    is_mkldnn: _bool
    is_mps: _bool
    is_mtia: _bool
    def is_neg(self) -> _bool:
        """False: negation computes, it sets no mark."""
    is_nested: _bool
    def is_nonzero(self) -> _bool:
        """Whether a tensor's only element is not zero; RuntimeError unless there is just one."""
    is_opencl: _bool
    def is_pinned(self, device: _device | _str | _int | None = None) -> _bool:
        """Whether the memory is page-locked for an accelerator."""
    is_quantized: _bool
    def is_same_size(self, other: Tensor) -> _bool:
        """Whether two tensors have one shape."""
    def is_set_to(self, tensor: Tensor) -> _bool:
        """Whether both lie over the same storage at the same place with the same shape and strides."""
    def is_shared(self) -> _bool:
        """Whether other processes can see this memory."""
    def is_signed(self) -> _bool:
        """Whether the dtype has negative numbers."""
    is_sparse: _bool
    is_sparse_csr: _bool
    is_vulkan: _bool
    is_xla: _bool
    is_xpu: _bool
    def isclose(self, other: Tensor, rtol: _float = 1e-05, atol: _float = 1e-08, equal_nan: _bool = False) -> Tensor:
        """Whether |input - other| <= atol + rtol · |other|, element by element (bool)."""
    def isfinite(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """|input| < inf: whether each element is a finite number."""
    def isinf(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """|input| = inf: whether each element is infinite."""
    def isnan(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """input ≠ input: whether each element is not a number."""
    def isneginf(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """input = -inf: whether each element is -inf."""
    def isposinf(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """input = inf: whether each element is +inf."""
    def isreal(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """im(input) = 0: whether the imaginary part is 0, element by element; True for real numbers."""
    def istft(self, n_fft: _int, hop_length: _int | None = None, win_length: _int | None = None, window: Tensor | None = None, center: _bool = True, normalized: _bool = False, onesided: _bool | None = None, length: _int | None = None, return_complex: _bool = False) -> Tensor:
        """The signal with the least squared distance to these short-time transforms: D. W. Griffin and J. S. Lim, "Signal estimation from modified short-time Fourier transform" (1984)."""
    def item(self) -> _int | _float | _bool:
        """The one element as a Python number; RuntimeError unless there is exactly one."""
    itemsize: _int
    def kron(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Kronecker product: every element of `input` times the whole of `other`."""
    def kthvalue(self, k: _int, dim: _int = -1, keepdim: _bool = False, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> _return_types.kthvalue:
        """The k-th smallest element along `dim`, counted from 1, and where it stands: (values, indices)."""
    layout: _layout
    def lcm(self, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """|input · other| / gcd(input, other): the least common multiple of integers, element by element."""
    def lcm_(self, *others: Tensor) -> Tensor:
        """`lcm` in place."""
    def ldexp(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """input · 2^other, in the common dtype; integers become the default dtype."""
    def ldexp_(self, other: Tensor) -> Tensor:
        """`ldexp` in place: self · 2^other."""
    def le(self, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """Whether input ≤ other, element by element (bool)."""
    def le_(self, other: Tensor | _complex) -> Tensor:
        """`le` in place: the result is written over the tensor itself, which is returned."""
    def lerp(self, end: Tensor, weight: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """input + weight · (end - input), computed from the nearer end."""
    def lerp_(self, end: Tensor, weight: Tensor | _complex) -> Tensor:
        """`lerp` in place: the result is written over the tensor itself, which is returned."""
    def less(self, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """Whether input < other, element by element (bool)."""
    def less_(self, other: Tensor | _complex) -> Tensor:
        """`lt` in place: the result is written over the tensor itself, which is returned."""
    def less_equal(self, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """Whether input ≤ other, element by element (bool)."""
    def less_equal_(self, other: Tensor | _complex) -> Tensor:
        """`le` in place: the result is written over the tensor itself, which is returned."""
    def lgamma(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """Logarithm of |Γ(input)|, element by element; integers become the default dtype."""
    def lgamma_(self) -> Tensor:
        """`lgamma` in place: the result is written over the tensor itself, which is returned."""
    def log(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """Natural logarithm, log(input), element by element; integers become the default dtype."""
    def log10(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """log₁₀(input), the logarithm to base 10, element by element; integers become the default dtype."""
    def log10_(self) -> Tensor:
        """`log10` in place: the result is written over the tensor itself, which is returned."""
    def log1p(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """log(1 + input), exact for small inputs, element by element; integers become the default dtype."""
    def log1p_(self) -> Tensor:
        """`log1p` in place: the result is written over the tensor itself, which is returned."""
    def log2(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """log₂(input), the logarithm to base 2, element by element; integers become the default dtype."""
    def log2_(self) -> Tensor:
        """`log2` in place: the result is written over the tensor itself, which is returned."""
    def log_(self) -> Tensor:
        """`log` in place: the result is written over the tensor itself, which is returned."""
    def log_normal_(self, mean: _float = 1.0, std: _float = 2.0, *, generator: _Generator | None = None) -> Tensor:
        """Overwrite with numbers exp(mean + std · n), n standard normal."""
    def log_softmax(self, dim: _int | _Sequence[_int] | None, dtype: None | _dtype = None, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """input - log Σ exp(input), relative to the largest element."""
    def logaddexp(self, other: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """log(exp(input) + exp(other)) without overflow."""
    def logaddexp2(self, other: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """log₂(2^input + 2^other) without overflow."""
    def logcumsumexp(self, dim: _int, *, out: Tensor | None = None) -> Tensor:
        """log Σ exp(x₀ … xₖ) for each k along `dim`, without overflow. NotImplementedError for integers."""
    def logdet(self) -> Tensor:
        """log(det A): NaN where the determinant is negative, -inf where it is 0."""
    def logical_and(self, other: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """input ∧ other, of the elements taken as truth values: input ≠ 0 (bool)."""
    def logical_and_(self, other: Tensor) -> Tensor:
        """`logical_and` in place: the result is written over the tensor itself, which is returned."""
    def logical_not(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """input = 0: whether each element is zero (bool)."""
    def logical_not_(self) -> Tensor:
        """`logical_not` in place: the result is written over the tensor itself, which is returned."""
    def logical_or(self, other: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """input ∨ other, of the elements taken as truth values: input ≠ 0 (bool)."""
    def logical_or_(self, other: Tensor) -> Tensor:
        """`logical_or` in place: the result is written over the tensor itself, which is returned."""
    def logical_xor(self, other: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """input ⊕ other, of the elements taken as truth values: input ≠ 0 (bool)."""
    def logical_xor_(self, other: Tensor) -> Tensor:
        """`logical_xor` in place: the result is written over the tensor itself, which is returned."""
    def logit(self, eps: _float | None = None, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """log(x / (1 - x)); with `eps`, x is first kept within [eps, 1 - eps]."""
    def logit_(self, eps: _float | None = None) -> Tensor:
        """`logit` in place: log(x / (1 - x)); with `eps`, x is first kept within [eps, 1 - eps]."""
    def logsumexp(self, dim: _int | _Sequence[_int] | None, keepdim: _bool = False, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """log Σ exp(input) over `dim`, without overflow."""
    def long(self, memory_format: _memory_format | None = None) -> Tensor:
        """The tensor as int64; itself where it is that already."""
    def lt(self, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """Whether input < other, element by element (bool)."""
    def lt_(self, other: Tensor | _complex) -> Tensor:
        """`lt` in place: the result is written over the tensor itself, which is returned."""
    @_overload
    def lu(self, pivot: _bool=True, get_infos: _Literal[False]=False) -> _tuple[Tensor, Tensor]:
        """`linalg.lu_factor`, A = P L U, without an error for a zero pivot; with the verdicts where `get_infos`."""
    @_overload
    def lu(self, pivot: _bool=True, *, get_infos: _Literal[True]) -> _tuple[Tensor, Tensor, Tensor]:
        """`linalg.lu_factor`, A = P L U, without an error for a zero pivot; with the verdicts where `get_infos`."""
    def lu_solve(self, LU_data: Tensor, LU_pivots: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """`linalg.lu_solve`: X with A X = b for A = P L U."""
    mH: Tensor
    mT: Tensor
    def map2_(self, x: Tensor, y: Tensor, callable: _Callable[..., _Any]) -> Tensor:
        """callable(self, x, y) for each element, in place (a Python call for each: slow)."""
    def map_(self, tensor: Tensor, callable: _Callable[..., _Any]) -> Tensor:
        """callable(self, tensor) for each element, in place (a Python call for each: slow)."""
    def masked_fill(self, mask: Tensor | None, value: Tensor | _complex) -> Tensor:
        """value · mask + input · (1 - mask): input, with `value` (a number or a 0-dim tensor) where the mask (bool) holds."""
    def masked_fill_(self, mask: Tensor | None, value: Tensor | _complex) -> Tensor:
        """`masked_fill` in place."""
    def masked_scatter(self, mask: Tensor | None, source: Tensor) -> Tensor:
        """A copy of the input with the elements of `source`, in order, where `mask` is true; input and mask broadcast."""
    def masked_scatter_(self, mask: Tensor | None, source: Tensor) -> Tensor:
        """Write the elements of `source`, in order, where `mask` (which broadcasts) is true."""
    def masked_select(self, mask: Tensor | None, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """The elements where `mask` is true, as a vector; both broadcast."""
    def matmul(self, other: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """The matrix product `input @ other`. Two vectors give their dot product, a 0-dim tensor; a vector beside a matrix counts as a row on the left and as a column on the right, and its dimension does not appear in the result; dimensions before the last two count matrices and broadcast."""
    def matrix_exp(self) -> Tensor:
        """The exponential of square matrices, Σ Aᵏ / k!, by scaling, squaring and Taylor polynomials (Bader, Blanes, Casas 2019)."""
    def matrix_power(self, n: _int, *, out: Tensor | None = None) -> Tensor:
        """A · A · … · A, n times, by repeated squaring; for negative n of the inverse, for 0 the identity."""
    @_overload
    def max(self, *, out: Tensor | None=None) -> Tensor:
        """max(input): the max of all elements; or along `dim`, or of two tensors."""
    @_overload
    def max(self, dim: _int, keepdim: _bool=False, *, out: _tuple[Tensor, Tensor] | None=None) -> _return_types.max:
        """max(input): the max of all elements; or along `dim`, or of two tensors."""
    @_overload
    def max(self, other: Tensor, *, out: Tensor | None=None) -> Tensor:
        """max(input): the max of all elements; or along `dim`, or of two tensors."""
    def maximum(self, other: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """max(input, other), NaN where either is; at a tie the gradient is halved."""
    def mean(self, dim: _int | _Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: None | _dtype = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """Σ input / n over `dim`, the arithmetic mean; floating-point dtypes only."""
    @_overload
    def median(self) -> Tensor:
        """The lower median x₍⌊(n - 1) / 2⌋₎ of the n sorted elements, of all or along `dim`."""
    @_overload
    def median(self, dim: _int, keepdim: _bool=False, *, out: _tuple[Tensor, Tensor] | None=None) -> _return_types.median:
        """The lower median x₍⌊(n - 1) / 2⌋₎ of the n sorted elements, of all or along `dim`."""
    @_overload
    def min(self, *, out: Tensor | None=None) -> Tensor:
        """min(input): the min of all elements; or along `dim`, or of two tensors."""
    @_overload
    def min(self, dim: _int, keepdim: _bool=False, *, out: _tuple[Tensor, Tensor] | None=None) -> _return_types.min:
        """min(input): the min of all elements; or along `dim`, or of two tensors."""
    @_overload
    def min(self, other: Tensor, *, out: Tensor | None=None) -> Tensor:
        """min(input): the min of all elements; or along `dim`, or of two tensors."""
    def minimum(self, other: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """min(input, other), NaN where either is; at a tie the gradient is halved."""
    def mm(self, mat2: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """The product of an (n, k) and a (k, m) matrix. RuntimeError for other shapes or different dtypes."""
    def mode(self, dim: _int = -1, keepdim: _bool = False, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> _return_types.mode:
        """The most frequent element along `dim`, the smallest of equally frequent ones, and where it last stands."""
    def module_load(self, other: Tensor, assign: _bool = False) -> Tensor:
        """The tensor that `load_state_dict` swaps in for this parameter or buffer, under `__future__.set_swap_module_params_on_conversion`."""
    def moveaxis(self, source: _int | _Sequence[_int], destination: _int | _Sequence[_int]) -> Tensor:
        """`movedim` by NumPy's name."""
    def movedim(self, source: _int | _Sequence[_int], destination: _int | _Sequence[_int]) -> Tensor:
        """Dimensions `source` (an int or several) moved to `destination`; the others keep their order."""
    def msort(self, *, out: Tensor | None = None) -> Tensor:
        """The elements in order along the first dimension."""
    def mul(self, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """input · other, element by element."""
    def mul_(self, other: Tensor | _complex) -> Tensor:
        """`mul` in place: the result is written over the tensor itself, which is returned."""
    def multinomial(self, num_samples: _int, replacement: _bool = False, *, generator: _Generator | None = None, out: Tensor | None = None) -> Tensor:
        """Indices (int64) drawn from each row of weights, which need not sum to 1: shape [num_samples] or [rows, num_samples]."""
    def multiply(self, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """input · other, element by element."""
    def multiply_(self, other: Tensor | _complex) -> Tensor:
        """`mul` in place: the result is written over the tensor itself, which is returned."""
    def mv(self, vec: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """The product of an (n, k) matrix and a vector of k elements: n elements. RuntimeError for other shapes or different dtypes."""
    def mvlgamma(self, p: _int, *, out: Tensor | None = None) -> Tensor:
        """Logarithm of the multivariate gamma function of dimension p: p(p-1)/4 · log π + Σ lgamma(input - j/2), j < p."""
    def mvlgamma_(self, p: _int) -> Tensor:
        """`mvlgamma` in place: Logarithm of the multivariate gamma function of dimension p: p(p-1)/4 · log π + Σ lgamma(input - j/2), j < p."""
    def nan_to_num(self, nan: _float | None = 0.0, posinf: _float | None = None, neginf: _float | None = None, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """input, or `nan`, `posinf`, `neginf` where it is NaN, +inf, -inf. The infinities become the dtype's largest and lowest by default."""
    def nan_to_num_(self, nan: _float | None = 0.0, posinf: _float | None = None, neginf: _float | None = None) -> Tensor:
        """`nan_to_num` in place: input, or `nan`, `posinf`, `neginf` where it is NaN, +inf, -inf. The infinities become the dtype's largest and lowest by default."""
    def nanmean(self, dim: _int | _Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """Σ input / n over `dim` (all by default), over the n elements that are numbers."""
    @_overload
    def nanmedian(self) -> Tensor:
        """The lower median x₍⌊(n - 1) / 2⌋₎ of the n sorted elements, of all or along `dim`."""
    @_overload
    def nanmedian(self, dim: _int, keepdim: _bool=False, *, out: _tuple[Tensor, Tensor] | None=None) -> _return_types.nanmedian:
        """The lower median x₍⌊(n - 1) / 2⌋₎ of the n sorted elements, of all or along `dim`."""
    def nanquantile(self, q: Tensor | _float, dim: _int | None = None, keepdim: _bool = False, *, interpolation: _str = 'linear', out: Tensor | None = None) -> Tensor:
        """x₍q (n - 1)₎ of the n sorted elements: the q-quantiles along `dim`, or of all elements."""
    def nansum(self, dim: _int | _Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """Σ input over `dim` (all by default), in which NaN counts as zero."""
    def narrow(self, dim: _int | _Sequence[_int] | None, start: _int, length: _int) -> Tensor:
        """Positions start … start + length - 1 of dimension `dim`; a negative start counts from the end."""
    def narrow_copy(self, dim: _int, start: _int, length: _int) -> Tensor:
        """`narrow`, input[start : start + length] along `dim`, in memory of its own."""
    nbytes: _int
    ndim: _int
    def ndimension(self) -> _int:
        """How many dimensions; `dim`."""
    def ne(self, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """Whether input ≠ other, element by element (bool)."""
    def ne_(self, other: Tensor | _complex) -> Tensor:
        """`ne` in place: the result is written over the tensor itself, which is returned."""
    def neg(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """-input, element by element."""
    def neg_(self) -> Tensor:
        """`neg` in place: the result is written over the tensor itself, which is returned."""
    def negative(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """-input, element by element."""
    def negative_(self) -> Tensor:
        """`neg` in place: the result is written over the tensor itself, which is returned."""
    def nelement(self) -> _int:
        """How many elements; `numel`."""
    def new(self, *args: _Any, **named: _Any) -> Tensor:
        """A tensor of this one's dtype on its device, made of sizes, elements, an array, a storage or a tensor, as by the old constructors."""
    @_overload
    def new_empty(self, *size: _int | _Sequence[_int], dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool | None = None, memory_format: _memory_format | None = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """x.new_empty(*size) -> Tensor of x's dtype, not set."""
    @_overload
    def new_empty(self, size: _Sequence[_int], *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool | None = None, memory_format: _memory_format | None = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """x.new_empty(*size) -> Tensor of x's dtype, not set."""
    def new_empty_strided(self, size: _int | _Sequence[_int], stride: _int | _Sequence[_int], *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool | None = None, memory_format: _memory_format | None = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """x.new_empty_strided(size, stride) -> Tensor of x's dtype with that layout, not set."""
    def new_full(self, size: _int | _Sequence[_int], fill_value: Tensor | _complex, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool | None = None, memory_format: _memory_format | None = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """x.new_full(size, fill_value) -> Tensor of one number in x's dtype."""
    @_overload
    def new_ones(self, *size: _int | _Sequence[_int], dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool | None = None, memory_format: _memory_format | None = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """x.new_ones(*size) -> Tensor of ones of x's dtype."""
    @_overload
    def new_ones(self, size: _Sequence[_int], *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool | None = None, memory_format: _memory_format | None = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """x.new_ones(*size) -> Tensor of ones of x's dtype."""
    def new_tensor(self, data: _Any, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool | None = None, memory_format: _memory_format | None = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """x.new_tensor(data) -> Tensor: a copy of data, in x's dtype where none is given."""
    @_overload
    def new_zeros(self, *size: _int | _Sequence[_int], dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool | None = None, memory_format: _memory_format | None = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """x.new_zeros(*size) -> Tensor of zeros of x's dtype."""
    @_overload
    def new_zeros(self, size: _Sequence[_int], *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | _str | _int | None = None, pin_memory: _bool | None = None, requires_grad: _bool | None = None, memory_format: _memory_format | None = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """x.new_zeros(*size) -> Tensor of zeros of x's dtype."""
    def nextafter(self, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """min {y > input} where other > input, max {y < input} where it is less. It is the floating-point number next to `input` in the direction of `other`, of the dtype of both."""
    def nextafter_(self, *others: Tensor) -> Tensor:
        """`nextafter` in place."""
    @_overload
    def nonzero(self, *, as_tuple: _Literal[False]=False, out: Tensor | None=None) -> Tensor:
        """Where the elements are not zero: a row of coordinates for each, in row-major order."""
    @_overload
    def nonzero(self, *, as_tuple: _Literal[True]) -> _tuple[Tensor, ...]:
        """Where the elements are not zero: a row of coordinates for each, in row-major order."""
    def nonzero_static(self, *, size: _int, fill_value: _int = -1, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """The first `size` rows of `nonzero`, and rows of `fill_value` where there are fewer: (size, input.ndim), int64."""
    def norm(self, p: _float | _str | None = 'fro', dim: _int | _Sequence[_int] | None = None, keepdim: _bool = False, out: Tensor | _tuple[Tensor, ...] | None = None, dtype: _dtype | None = None) -> Tensor:
        """(Σ |x|^p)^(1/p), the p-norm, over `dim` (all by default). For inf it is the largest |x|, for 0 the count of non-zeros."""
    def normal_(self, mean: _float = 0.0, std: _float = 1.0, *, generator: _Generator | None = None) -> Tensor:
        """Overwrite with normal numbers of that mean and standard deviation."""
    def not_equal(self, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """Whether input ≠ other, element by element (bool)."""
    def not_equal_(self, other: Tensor | _complex) -> Tensor:
        """`ne` in place: the result is written over the tensor itself, which is returned."""
    def numel(self) -> _int:
        """How many elements."""
    def numpy(self, *, force: _bool=...) -> _numpy.ndarray[_Any, _Any]:
        """The tensor as an ndarray of the same shape that shares its memory."""
    def opencl(self, device: _device | _str | _int | None = None, non_blocking: _bool = False, memory_format: _memory_format | None = None) -> Tensor:
        """The tensor on an OpenCL device, by default the current one; RuntimeError where there is none."""
    def orgqr(self, tau: Tensor, *, out: Tensor | None = None) -> Tensor:
        """The first n columns of the product of the reflections 1 - τₖ vₖ vₖᴴ. The vₖ stand below the diagonal of the m by n `input` (with a 1 on it and zeros above)."""
    def ormqr(self, tau: Tensor, other: Tensor, left: _bool = True, transpose: _bool = False, *, out: Tensor | None = None) -> Tensor:
        """Q · other, or other · Q unless `left`, for the square Q of the reflections in `input` and `tau`, as `geqrf` gives them."""
    def outer(self, vec2: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """All products of the elements of two vectors, as a matrix; dtypes are promoted. RuntimeError unless both are 1-D."""
    output_nr: _int
    def permute(self, *dims_: _int | _Sequence[_int], dims: _int | _Sequence[_int] | None = None) -> Tensor:
        """Dimensions in another order: dimension k of the result is dimension dims[k] of the input."""
    def pin_memory(self, device: _device | _str | _int | None = None) -> Tensor:
        """The tensor in page-locked memory of the host, from where `to(device, non_blocking=True)` copies beside the host's work; itself where it is there already."""
    def pinverse(self, rcond: _float = 1e-15) -> Tensor:
        """`linalg.pinv`: V S⁺ Uᴴ for input = U S Vᴴ, where singular values up to rcond · largest count as 0."""
    def polygamma(self, n: _int) -> Tensor:
        """ψ⁽ⁿ⁾(x) = dⁿ⁺¹/dxⁿ⁺¹ log Γ(x): the n-th derivative of `digamma`."""
    def polygamma_(self, n: _int) -> Tensor:
        """`polygamma` in place: ψ⁽ⁿ⁾(x) = dⁿ⁺¹/dxⁿ⁺¹ log Γ(x)."""
    def positive(self) -> Tensor:
        """+input: the tensor itself; RuntimeError for bool."""
    def pow(self, exponent: Tensor | _complex, *, out: Tensor | None=None) -> Tensor:
        """input^exponent, element by element; RuntimeError for a negative integer exponent of integers."""
    def pow_(self, exponent: Tensor | _complex) -> Tensor:
        """`pow` in place."""
    def prelu(self, weight: Tensor) -> Tensor:
        """max(0, input) + weight · min(0, input); `weight` has one element or one a channel (dimension 1)."""
    def prod(self, dim: _int | _Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """Π input over one `dim`, or of all elements; integers and bools give int64."""
    def put(self, index: Tensor, source: Tensor, accumulate: _bool = False) -> Tensor:
        """A copy of the input with the elements of `source` written (or added) at positions counted in row-major order."""
    def put_(self, index: Tensor, source: Tensor, accumulate: _bool = False) -> Tensor:
        """Write (or add) the elements of `source` at positions counted in row-major order."""
    def q_per_channel_axis(self) -> _int:
        """The dimension of the channels of a tensor that is quantised per channel."""
    def q_per_channel_scales(self) -> Tensor:
        """The scales of a tensor that is quantised per channel, (C,)."""
    def q_per_channel_zero_points(self) -> Tensor:
        """The zero points of a tensor that is quantised per channel, (C,)."""
    def q_scale(self) -> _float:
        """The scale of a tensor that is quantised per tensor: a number."""
    def q_zero_point(self) -> _int:
        """The zero point of a tensor that is quantised per tensor: the code that means 0."""
    def qr(self, some: _bool = True, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> _return_types.linalg_qr:
        """`linalg.qr`, input = Q R: reduced where `some`, else complete."""
    def qscheme(self) -> _object:
        """How a quantised tensor's numbers are scaled: a `qscheme`."""
    def quantile(self, q: Tensor | _float, dim: _int | None = None, keepdim: _bool = False, *, interpolation: _str = 'linear', out: Tensor | None = None) -> Tensor:
        """x₍q (n - 1)₎ of the n sorted elements: the q-quantiles along `dim`, or of all elements."""
    def rad2deg(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """input · 180 / π: radians to degrees."""
    def rad2deg_(self) -> Tensor:
        """`rad2deg` in place: the result is written over the tensor itself, which is returned."""
    def random_(self, from_: _int | None = None, to: _int | None = ..., *, generator: _Generator | None = None, **named: _int) -> Tensor:
        """Overwrite with integers: `random_(to)` in [0, to), `random_(from, to)` in [from, to)."""
    def ravel(self) -> Tensor:
        """One dimension: a view where the input is contiguous, else a copy."""
    real: Tensor
    def reciprocal(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """1 / input."""
    def reciprocal_(self) -> Tensor:
        """`reciprocal` in place: the result is written over the tensor itself, which is returned."""
    def record_stream(self, stream: _Any) -> None:
        """Keep the tensor's memory, once freed, from others until the work that `stream` (a `flambeau.cuda.Stream`) holds by then has run. RuntimeError for a tensor that is not on a CUDA device."""
    def register_hook(self, hook: _Callable[[Tensor], Tensor | None]) -> _RemovableHandle:
        """`hook(grad)` runs when this tensor's gradient is computed; a tensor it returns replaces the gradient."""
    def register_post_accumulate_grad_hook(self, hook: _Callable[[Tensor], None]) -> _RemovableHandle:
        """`hook(tensor)` runs after a gradient was added to this leaf's `.grad`."""
    def relu(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """max(input, 0), element by element; the derivative at 0 is 0."""
    def relu_(self) -> Tensor:
        """`relu` in place: the result is written over the tensor itself, which is returned."""
    def remainder(self, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """input - other · ⌊input / other⌋: of other's sign."""
    def remainder_(self, other: Tensor | _complex) -> Tensor:
        """`remainder` in place."""
    def renorm(self, p: _float | _str | None, dim: _int | _Sequence[_int] | None, maxnorm: _float, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """input · min(1, maxnorm / ‖slice‖ₚ): slices along `dim` whose p-norm is above maxnorm, cut to it."""
    def renorm_(self, p: _float | _str | None, dim: _int | _Sequence[_int] | None, maxnorm: _float) -> Tensor:
        """`renorm` in place: input · min(1, maxnorm / ‖slice‖ₚ)."""
    def repeat(self, *repeats_: _int | _Sequence[_int], repeats: Tensor | _int | None = None) -> Tensor:
        """The tensor laid side by side `repeats` times along each dimension; more repeats than dimensions add some in front."""
    def repeat_interleave(self, repeats: Tensor | _int | None = None, dim: _int | None = None, *, output_size: _int | None = None) -> Tensor:
        """Every element (or slice along `dim`) `repeats` times over: a number, or a tensor with a number for each."""
    requires_grad: _bool
    def requires_grad_(self, requires_grad: _bool=...) -> _Self:
        """Ask for gradients (or not) in place; RuntimeError for integer dtypes and for results of operations."""
    def reshape(self, *shape_: _int | _Sequence[_int], shape: _int | _Sequence[_int] | _dtype | None = None) -> Tensor:
        """The elements in the same order with another shape: a view where the strides allow it, else a copy."""
    def reshape_as(self, other: Tensor | _complex) -> Tensor:
        """`input.reshape(other.size())`."""
    def resize_(self, *sizes: _int | _Sequence[_int], size: _int | _Sequence[_int] | None = None, memory_format: _memory_format | None = None) -> Tensor:
        """Give the tensor another shape, contiguous, over the memory it has or, where that is too small, over more of it."""
    def resize_as_(self, the_template: _Any, *, memory_format: _memory_format | None = None) -> Tensor:
        """`resize_` to the shape of another tensor."""
    def resolve_conj(self) -> Tensor:
        """The tensor itself, for resolve_conj(x) = x: conjugates are never put off."""
    def resolve_neg(self) -> Tensor:
        """The tensor itself, for resolve_neg(x) = x: negatives are never put off."""
    def retain_grad(self) -> None:
        """Keep the gradient of a result in `.grad`."""
    retains_grad: _bool
    def roll(self, shifts: _int | _Sequence[_int], dims: _int | _Sequence[_int] | None = None) -> Tensor:
        """The elements moved on by `shifts` along `dims`, the last ones to the front; without dims, along all as if one."""
    def rot90(self, k: _int = 1, dims: _Sequence[_int] = (0, 1)) -> Tensor:
        """The plane of two dimensions turned by k quarters, from the first of `dims` towards the second."""
    def round(self, *, decimals: _float = 0, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """Nearest multiple of 10^-decimals, ties to even; its derivative is 0."""
    def round_(self, *, decimals: _int = 0) -> Tensor:
        """`round` in place: Nearest multiple of 10^-decimals, ties to even; its derivative is 0."""
    def row_indices(self) -> Tensor:
        """The row of each value."""
    def rsqrt(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """1 / √input."""
    def rsqrt_(self) -> Tensor:
        """`rsqrt` in place: the result is written over the tensor itself, which is returned."""
    def scatter(self, dim: _int | _Sequence[_int] | None, index: Tensor, src: Tensor | _complex | None = None, *, value: Tensor | _complex | None = None, reduce: _str | _bool | None = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """A copy of the input with the elements of `src` (or a number) written where `index` says."""
    def scatter_(self, dim: _int | _Sequence[_int] | None, index: Tensor, src: Tensor | _complex | None = None, *, value: Tensor | _complex | None = None, reduce: _str | _bool | None = None) -> Tensor:
        """Write the elements of `src` (or a number) to the places of dimension `dim` that `index` names; of equal indices the last wins. `reduce` "add" or "multiply" combines instead."""
    def scatter_add(self, dim: _int | _Sequence[_int] | None, index: Tensor, src: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """A copy of the input with the elements of `src` added where `index` says."""
    def scatter_add_(self, dim: _int | _Sequence[_int] | None, index: Tensor, src: Tensor | _complex) -> Tensor:
        """Add the elements of `src` to the places of dimension `dim` that `index` names, in the order of the elements."""
    def scatter_reduce(self, dim: _int | _Sequence[_int] | None, index: Tensor, src: Tensor | _complex, reduce: _str | _bool | None, *, include_self: _bool = True, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """A copy of the input with the elements of `src` combined where `index` says, as `scatter_reduce_` does."""
    def scatter_reduce_(self, dim: _int | _Sequence[_int] | None, index: Tensor, src: Tensor | _complex, reduce: _str | _bool | None, *, include_self: _bool = True) -> Tensor:
        """Combine the elements of `src` that go to one place by "sum", "prod", "mean", "amax" or "amin"."""
    def select(self, dim: _int | _Sequence[_int] | None, index: _int) -> Tensor:
        """The part at position `index` of dimension `dim`, which the result lacks."""
    def select_scatter(self, src: Tensor, dim: _int, index: _int) -> Tensor:
        """A copy of `input` with `src` at one index of `dim`."""
    def selu(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """scale · (max(0, x) + min(0, α · (exp(x) - 1))): a scaled elu whose activations keep mean 0 and variance 1 (Klambauer et al. 2017)."""
    def selu_(self) -> Tensor:
        """`selu` in place: the result is written over the tensor itself, which is returned."""
    @_overload
    def set_(self) -> Tensor:
        """Let the tensor lie over another storage (or another tensor's); without arguments it becomes empty."""
    @_overload
    def set_(self, source: Tensor | _UntypedStorage | _TypedStorage, storage_offset: _int=0, size: _Sequence[_int]=(), stride: _Sequence[_int]=()) -> Tensor:
        """Let the tensor lie over another storage (or another tensor's); without arguments it becomes empty."""
    def sgn(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """input / |input|, or 0 at 0: the sign of each element; of a complex number, the one of length 1 in its direction."""
    def sgn_(self) -> Tensor:
        """`sgn` in place: the result is written over the tensor itself, which is returned."""
    shape: _Size
    def share_memory_(self) -> Tensor:
        """Move the tensor's storage to shared memory, in place: all tensors over it, and processes they are sent to, see the same elements. Nothing happens to what is shared already."""
    def short(self, memory_format: _memory_format | None = None) -> Tensor:
        """The tensor as int16; itself where it is that already."""
    def sigmoid(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """Logistic function, 1 / (1 + exp(-input)), element by element; integers become the default dtype."""
    def sigmoid_(self) -> Tensor:
        """`sigmoid` in place: the result is written over the tensor itself, which is returned."""
    def sign(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """-1, 0 or 1 by the sign of each element."""
    def sign_(self) -> Tensor:
        """`sign` in place: the result is written over the tensor itself, which is returned."""
    def signbit(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """Whether the sign bit is set, input < 0: true for -0.0 too."""
    def sin(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """Sine of radians, sin(input), element by element; integers become the default dtype."""
    def sin_(self) -> Tensor:
        """`sin` in place: the result is written over the tensor itself, which is returned."""
    def sinc(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """sin(πx) / (πx), 1 at 0."""
    def sinc_(self) -> Tensor:
        """`sinc` in place: the result is written over the tensor itself, which is returned."""
    def sinh(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """(e^input - e^-input) / 2, the hyperbolic sine, element by element; integers become the default dtype."""
    def sinh_(self) -> Tensor:
        """`sinh` in place: the result is written over the tensor itself, which is returned."""
    @_overload
    def size(self, dim: None=...) -> _Size:
        """The shape, or the size of one dimension."""
    @_overload
    def size(self, dim: _int) -> _int:
        """The shape, or the size of one dimension."""
    def slice_scatter(self, src: Tensor, dim: _int = 0, start: _int | None = None, end: _int | None = None, step: _int = 1, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """A copy of `input` with `src` in place of the slice start:end:step of `dim`."""
    def slogdet(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> _return_types.linalg_slogdet:
        """det A / |det A| (or 0) and log |det A|, as a named tuple (sign, logabsdet)."""
    def softmax(self, dim: _int | _Sequence[_int] | None, dtype: None | _dtype = None, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """exp(input) / Σ exp(input) along `dim`, relative to the largest element, so that nothing overflows."""
    def sort(self, dim: _int = -1, descending: _bool = False, stable: _bool = False, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> _return_types.sort:
        """The elements in order along `dim` and where each stood, as a named tuple (values, indices)."""
    def sparse_dim(self) -> _int:
        """How many dimensions are listed by coordinates; 0 of a dense tensor."""
    def sparse_mask(self, mask: Tensor) -> Tensor:
        """The elements at the places that a sparse tensor lists, as such a tensor."""
    def split(self, split_size_or_sections: _int | _Sequence[_int] | None = None, dim: _int | _Sequence[_int] | None = 0, *, split_size: _int | _Sequence[_int] | None = None) -> _tuple[Tensor, ...]:
        """Pieces of `split_size_or_sections` elements (the last may be shorter), or of the lengths in that list."""
    def split_with_sizes(self, split_sizes: _int | _Sequence[_int], dim: _int | _Sequence[_int] | None = 0) -> _tuple[Tensor, ...]:
        """Pieces of the given lengths, whose sum is the size of the dimension."""
    def sqrt(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """√input: the square root; NaN below 0."""
    def sqrt_(self) -> Tensor:
        """`sqrt` in place: the result is written over the tensor itself, which is returned."""
    def square(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """input², element by element; int64 for bool."""
    def square_(self) -> Tensor:
        """`square` in place: the result is written over the tensor itself, which is returned."""
    def squeeze(self, *dims: _int | _Sequence[_int], dim: _int | _Sequence[_int] | None = None) -> Tensor:
        """Without the dimensions of size 1: all of them, or those given."""
    def squeeze_(self, *dims: _int | _Sequence[_int], dim: _int | _Sequence[_int] | None = None) -> Tensor:
        """`squeeze` in place: the tensor itself gets the new shape."""
    def std(self, dim: _int | _Sequence[_int] | None = None, unbiased: _bool | None = None, keepdim: _bool = False, *, correction: _float | None = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """√(Σ (x - mean)² / (n - correction)) over `dim`: the standard deviation, the root of `var`."""
    def std_mean(self, dim: _int | _Sequence[_int] | None = None, unbiased: _bool | None = None, keepdim: _bool = False, *, correction: _float | None = None) -> _tuple[Tensor, Tensor]:
        """√(Σ (x - mean)² / (n - correction)) and the mean over `dim`; correction is 1 unless it is given."""
    def stft(self, n_fft: _int, hop_length: _int | None = None, win_length: _int | None = None, window: Tensor | None = None, center: _bool = True, pad_mode: _str = 'reflect', normalized: _bool = False, onesided: _bool | None = None, return_complex: _bool | None = None) -> Tensor:
        """Σ window[k] · input[t · hop_length + k] · e^(-2πi f k / n_fft): windows of n_fft elements. They stand at every hop_length-th place; the result is (batch, frequency, place)."""
    def storage(self) -> _TypedStorage:
        """The elements under this tensor as a `TypedStorage`; `untyped_storage` has the bytes, and no warning."""
    def storage_offset(self) -> _int:
        """Where the first element stands in the storage, counted in elements."""
    def storage_type(self) -> _type:
        """The old class of storages of this dtype."""
    @_overload
    def stride(self, dim: None=...) -> _tuple[_int, ...]:
        """Elements between neighbours along each dimension, or along one."""
    @_overload
    def stride(self, dim: _int) -> _int:
        """Elements between neighbours along each dimension, or along one."""
    def sub(self, other: Tensor | _complex, *, alpha: _complex = 1.0, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """input - alpha · other, element by element."""
    def sub_(self, other: Tensor | _complex, *, alpha: _complex = 1.0) -> Tensor:
        """`sub` in place: the result is written over the tensor itself, which is returned."""
    def subtract(self, other: Tensor | _complex, *, alpha: _complex = 1.0, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """input - alpha · other, element by element."""
    def subtract_(self, other: Tensor | _complex, *, alpha: _complex = 1.0) -> Tensor:
        """`sub` in place: the result is written over the tensor itself, which is returned."""
    def sum(self, dim: _int | _Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: None | _dtype = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """Sum over `dim` (an int, a tuple, or None for all), Σᵢ xᵢ; integers and bools give int64."""
    def sum_to_size(self, *size: _int | _Sequence[_int]) -> Tensor:
        """Σ input over the dimensions along which a tensor of shape `size` would broadcast to this one."""
    def svd(self, some: _bool = True, compute_uv: _bool = True, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> _return_types.svd:
        """`linalg.svd`, input = U diag(S) Vᴴ, with V instead of its Hermitian transpose; zeros for U and V unless `compute_uv`."""
    def swapaxes(self, axis0: _int, axis1: _int) -> Tensor:
        """`transpose` by NumPy's name."""
    def swapaxes_(self, axis0: _int, axis1: _int) -> Tensor:
        """`swapaxes` in place."""
    def swapdims(self, dim0: _int, dim1: _int) -> Tensor:
        """Another name of `transpose`."""
    def swapdims_(self, dim0: _int, dim1: _int) -> Tensor:
        """`swapdims` in place."""
    def t(self) -> Tensor:
        """The transpose of a matrix; tensors of fewer dimensions are returned as they are, as a view."""
    def t_(self) -> Tensor:
        """`t` in place: the tensor itself gets the new shape."""
    def take(self, index: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """The elements at positions counted in row-major order; the result has the index tensor's shape."""
    def take_along_dim(self, indices: Tensor | _int | _Sequence[_int], dim: _int | _Sequence[_int] | None = None, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """`gather` with broadcasting: the other dimensions of input and indices are repeated to match, and negative indices count from the end. Without `dim`, both are flattened."""
    def tan(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """sin(input) / cos(input), the tangent of radians, element by element; integers become the default dtype."""
    def tan_(self) -> Tensor:
        """`tan` in place: the result is written over the tensor itself, which is returned."""
    def tanh(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """sinh(input) / cosh(input), the hyperbolic tangent, element by element; integers become the default dtype."""
    def tanh_(self) -> Tensor:
        """`tanh` in place: the result is written over the tensor itself, which is returned."""
    def tensor_split(self, indices_or_sections: Tensor | _int | _Sequence[_int] | None = None, dim: _int | _Sequence[_int] | None = 0, *, sections: _int | None = None, indices: Tensor | _int | _Sequence[_int] | None = None) -> _tuple[Tensor, ...]:
        """That many pieces of nearly equal length, or the pieces between the given positions."""
    def tile(self, *dims_: _int | _Sequence[_int], dims: _int | _Sequence[_int] | None = None) -> Tensor:
        """`repeat`, with repeats of 1 in front where `dims` are fewer than the dimensions."""
    @_overload
    def to(self, dtype: _dtype, non_blocking: _bool=False, copy: _bool=False, *, memory_format: _memory_format | None=None) -> Tensor:
        """The tensor in another dtype or on another device: `to(dtype)`, `to(device)`, `to(device, dtype)`, `to(other)`."""
    @_overload
    def to(self, device: _device | _str | _int | None=None, dtype: _dtype | None=None, non_blocking: _bool=False, copy: _bool=False, *, memory_format: _memory_format | None=None) -> Tensor:
        """The tensor in another dtype or on another device: `to(dtype)`, `to(device)`, `to(device, dtype)`, `to(other)`."""
    @_overload
    def to(self, other: Tensor, non_blocking: _bool=False, copy: _bool=False, *, memory_format: _memory_format | None=None) -> Tensor:
        """The tensor in another dtype or on another device: `to(dtype)`, `to(device)`, `to(device, dtype)`, `to(other)`."""
    def to_dense(self, dtype: _dtype | None = None, *, masked_grad: _bool | None = None) -> Tensor:
        """The same elements with all zeros; of a dense tensor itself. `dtype` is the result's."""
    def to_device(self, device: _Any, /, *, stream: _Any=...) -> Tensor:
        """The tensor on another device, or itself: `to` by the name of the array API standard."""
    def to_padded_tensor(self, padding: _float, output_size: _Sequence[_int] | None = None) -> Tensor:
        """NotImplementedError: only a nested tensor has parts to pad; see `flambeau.nested.to_padded_tensor`."""
    def to_scipy(self, *args: _Any, **kwargs: _Any) -> _Any:
        """The sparse matrix as SciPy's, of the same layout, in common memory."""
    def to_sparse(self, *args: _Any, **kwargs: _Any) -> Tensor:
        """The same elements without the zeros, in coordinates or in the `layout` given."""
    def to_sparse_bsc(self, blocksize: _int | _Sequence[_int], dense_dim: _int | None=...) -> Tensor:
        """The same elements as a list by compressed columns of blocks, without the zeros."""
    def to_sparse_bsr(self, blocksize: _int | _Sequence[_int], dense_dim: _int | None=...) -> Tensor:
        """The same elements as a list by compressed rows of blocks, without the zeros."""
    def to_sparse_coo(self) -> Tensor:
        """The same elements without the zeros, each with its coordinates."""
    def to_sparse_csc(self, dense_dim: _int | None=...) -> Tensor:
        """The same elements as a list by compressed columns, without the zeros."""
    def to_sparse_csr(self, dense_dim: _int | None=...) -> Tensor:
        """The same elements as a list by compressed rows, without the zeros."""
    def tolist(self, /) -> _Any:
        """Nested lists of Python numbers; a number for a 0-dim tensor."""
    def topk(self, k: _int, dim: _int = -1, largest: _bool = True, sorted: _bool = True, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> _return_types.topk:
        """The k largest (or smallest) elements along `dim`, in that order, and where they stand: (values, indices)."""
    def trace(self) -> Tensor:
        """Σ inputᵢᵢ: the sum of a matrix's diagonal. RuntimeError unless there are two dimensions."""
    def transpose(self, dim0: _int, dim1: _int) -> Tensor:
        """Dimensions dim0 and dim1 exchanged."""
    def transpose_(self, dim0: _int, dim1: _int) -> Tensor:
        """`transpose` in place: the tensor itself gets the new shape."""
    def triangular_solve(self, A: Tensor, upper: _bool = True, transpose: _bool = False, unitriangular: _bool = False, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> _return_types.triangular_solve:
        """X with A X = b for triangular A (its transpose where requested), and A again."""
    def tril(self, diagonal: _int = 0, *, out: Tensor | None = None) -> Tensor:
        """The lower triangles of matrices: elements up to the given diagonal (0 the main one, above it positive), zeros beyond."""
    def tril_(self, diagonal: _int = 0) -> Tensor:
        """`tril` in place."""
    def triu(self, diagonal: _int = 0, *, out: Tensor | None = None) -> Tensor:
        """The upper triangles of matrices: elements from the given diagonal on (0 the main one, above it positive), zeros before."""
    def triu_(self, diagonal: _int = 0) -> Tensor:
        """`triu` in place."""
    def true_divide(self, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """input / other: the quotient in floating point, element by element."""
    def true_divide_(self, other: Tensor | _complex) -> Tensor:
        """`true_divide` in place: the result is written over the tensor itself, which is returned."""
    def trunc(self, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """sign(input) · ⌊|input|⌋: the integer before the point, as a floating-point number; its derivative is 0."""
    def trunc_(self) -> Tensor:
        """`trunc` in place: the result is written over the tensor itself, which is returned."""
    @_overload
    def type(self) -> _str:
        """The legacy name of the tensor's type, or the tensor as another dtype: a dtype, such a name, or a class as `LongTensor`, which say where the tensor is to be, too."""
    @_overload
    def type(self, dtype: _dtype | _str | _type, non_blocking: _bool=False) -> Tensor:
        """The legacy name of the tensor's type, or the tensor as another dtype: a dtype, such a name, or a class as `LongTensor`, which say where the tensor is to be, too."""
    def type_as(self, other: Tensor) -> Tensor:
        """The tensor in other's dtype."""
    def unbind(self, dim: _int | _Sequence[_int] | None = 0) -> _tuple[Tensor, ...]:
        """The parts along a dimension, each without it."""
    def unflatten(self, dim: _int | _Sequence[_int] | None, sizes: _int | _Sequence[_int]) -> Tensor:
        """Dimension `dim` split into `sizes`, whose product is its size; one may be -1."""
    def unfold(self, dimension: _int, size: _int | _Sequence[_int], step: _float) -> Tensor:
        """Windows of `size` elements, `step` apart, along a dimension; the last dimension of the result runs inside a window."""
    def uniform_(self, from_: _float = 0.0, to: _float = 1.0, *, generator: _Generator | None = None, **named: _float) -> Tensor:
        """Overwrite with numbers that are uniform in [from, to)."""
    @_overload
    def unique(self, sorted: _bool=True, return_inverse: _Literal[False]=False, return_counts: _Literal[False]=False, dim: _int | None=None) -> Tensor:
        """The different elements (or slices along `dim`), in order; also which one each element is, and how many each are."""
    @_overload
    def unique(self, sorted: _bool=True, *, return_inverse: _Literal[True], return_counts: _Literal[False]=False, dim: _int | None=None) -> _tuple[Tensor, Tensor]:
        """The different elements (or slices along `dim`), in order; also which one each element is, and how many each are."""
    @_overload
    def unique(self, sorted: _bool=True, *, return_inverse: _Literal[False]=False, return_counts: _Literal[True], dim: _int | None=None) -> _tuple[Tensor, Tensor]:
        """The different elements (or slices along `dim`), in order; also which one each element is, and how many each are."""
    @_overload
    def unique(self, sorted: _bool=True, *, return_inverse: _Literal[True], return_counts: _Literal[True], dim: _int | None=None) -> _tuple[Tensor, Tensor, Tensor]:
        """The different elements (or slices along `dim`), in order; also which one each element is, and how many each are."""
    @_overload
    def unique(self, sorted: _bool=True, return_inverse: _bool=False, return_counts: _bool=False, dim: _int | None=None) -> Tensor | _tuple[Tensor, ...]:
        """The different elements (or slices along `dim`), in order; also which one each element is, and how many each are."""
    @_overload
    def unique_consecutive(self, return_inverse: _Literal[False]=False, return_counts: _Literal[False]=False, dim: _int | None=None) -> Tensor:
        """The elements (or slices along `dim`) without those that are equal to the one before."""
    @_overload
    def unique_consecutive(self, *, return_inverse: _Literal[True], return_counts: _Literal[False]=False, dim: _int | None=None) -> _tuple[Tensor, Tensor]:
        """The elements (or slices along `dim`) without those that are equal to the one before."""
    @_overload
    def unique_consecutive(self, *, return_inverse: _Literal[False]=False, return_counts: _Literal[True], dim: _int | None=None) -> _tuple[Tensor, Tensor]:
        """The elements (or slices along `dim`) without those that are equal to the one before."""
    @_overload
    def unique_consecutive(self, *, return_inverse: _Literal[True], return_counts: _Literal[True], dim: _int | None=None) -> _tuple[Tensor, Tensor, Tensor]:
        """The elements (or slices along `dim`) without those that are equal to the one before."""
    @_overload
    def unique_consecutive(self, return_inverse: _bool=False, return_counts: _bool=False, dim: _int | None=None) -> Tensor | _tuple[Tensor, ...]:
        """The elements (or slices along `dim`) without those that are equal to the one before."""
    def unsafe_chunk(self, chunks: _int, dim: _int = 0) -> _tuple[Tensor, ...]:
        """`chunk`: at most `chunks` pieces of ⌈n / chunks⌉ elements along `dim`."""
    def unsafe_split(self, split_size: _int, dim: _int = 0) -> _tuple[Tensor, ...]:
        """`split`: pieces of `split_size` along `dim`, of which the last may be shorter."""
    def unsafe_split_with_sizes(self, split_sizes: _Sequence[_int], dim: _int = 0) -> _tuple[Tensor, ...]:
        """`split_with_sizes`: pieces of the given lengths along `dim`, n = Σ split_sizes."""
    def unsqueeze(self, dim: _int | _Sequence[_int] | None) -> Tensor:
        """A new dimension of size 1 at `dim`."""
    def unsqueeze_(self, dim: _int | _Sequence[_int] | None) -> Tensor:
        """`unsqueeze` in place: the tensor itself gets the new shape."""
    def untyped_storage(self) -> _UntypedStorage:
        """The bytes that the tensor lies in, which its views share."""
    def values(self) -> Tensor:
        """The values that a sparse tensor lists."""
    def var(self, dim: _int | _Sequence[_int] | None = None, unbiased: _bool | None = None, keepdim: _bool = False, *, correction: _float | None = None, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """Σ (x - mean)² / (n - correction) over `dim`: the variance, with a correction of 1 by default."""
    def var_mean(self, dim: _int | _Sequence[_int] | None = None, unbiased: _bool | None = None, keepdim: _bool = False, *, correction: _float | None = None) -> _tuple[Tensor, Tensor]:
        """Σ (x - mean)² / (n - correction) and the mean over `dim`; correction is 1 unless it is given."""
    def vdot(self, other: Tensor, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """The sum of products of two vectors of one length, the first conjugated: for real dtypes the same as `dot`."""
    def view(self, *shape: _int | _Sequence[_int] | _dtype, size: _int | _Sequence[_int] | None = None, dtype: _dtype | None = None) -> Tensor:
        """The same elements with another shape (one size may be -1) or, given a dtype, their bytes read as that dtype."""
    def view_as(self, other: Tensor | _complex) -> Tensor:
        """`input.view(other.size())`."""
    def vsplit(self, indices_or_sections: Tensor | _int | _Sequence[_int]) -> _tuple[Tensor, ...]:
        """`tensor_split` along rows, dimension 0 of at least 2; sections must be of equal length."""
    def where(self, condition: Tensor, other: Tensor | _complex) -> Tensor:
        """condition · input + (1 - condition) · other: input where the condition holds, else other."""
    def xlogy(self, other: Tensor | _complex, *, out: Tensor | _tuple[Tensor, ...] | None = None) -> Tensor:
        """input · log(other), 0 where input is 0 and other is a number."""
    def xlogy_(self, other: Tensor | _complex) -> Tensor:
        """`xlogy` in place: the result is written over the tensor itself, which is returned."""
    def zero_(self) -> Tensor:
        """Write zero to every element, of whatever shape."""
    def __abs__(self) -> Tensor: ...
    def __add__(self, other: _Any, /) -> Tensor: ...
    def __and__(self, other: _Any, /) -> Tensor: ...
    def __array__(self, dtype: _Any=..., copy: _bool | None=...) -> _numpy.ndarray[_Any, _Any]: ...
    def __array_namespace__(self, /, *, api_version: _str | None = None) -> _Any:
        """The namespace of the array API standard, 2024.12 (which earlier versions are part of)."""
    def __array_wrap__(self, array: _Any, context: _Any = None, return_scalar: _bool = False) -> Tensor:
        """`Tensor.__array_wrap__`: results of NumPy's functions on tensors are tensors."""
    def __arrow_c_array__(self, requested_schema: _Any = None) -> _Any:
        """`Tensor.__arrow_c_array__`: capsules of an Arrow type and an Arrow array over the tensor's memory; further dimensions are lists of fixed size. `requested_schema` names another type of numbers, to which they are converted."""
    def __bool__(self) -> _bool: ...
    def __bytes__(self) -> _bytes: ...
    def __complex__(self) -> _complex: ...
    def __contains__(self, element: _Any, /) -> _bool: ...
    def __deepcopy__(self, memo: _dict[_int, _Any]) -> _Self: ...
    def __delitem__(self, key: _Any, /) -> _Any:
        """Delete self[key]."""
    def __dlpack__(self, *, stream: _Any = None, max_version: _Any = None, dl_device: _Any = None, copy: _Any = None) -> _Any:
        """`Tensor.__dlpack__`: a capsule through which another library shares the memory."""
    def __dlpack_device__(self) -> _tuple[_int, _int]: ...
    def __eq__(self, other: _object, /) -> Tensor: ...  # type: ignore[override]
    def __float__(self) -> _float: ...
    def __floordiv__(self, other: _Any, /) -> Tensor: ...
    def __ge__(self, other: _Any, /) -> Tensor: ...
    def __getitem__(self, index: _Any, /) -> Tensor: ...
    def __gt__(self, other: _Any, /) -> Tensor: ...
    def __iadd__(self, other: _Any, /) -> Tensor: ...
    def __iand__(self, other: _Any, /) -> Tensor: ...
    def __ifloordiv__(self, other: _Any, /) -> Tensor: ...
    def __ilshift__(self, other: _Any, /) -> Tensor: ...
    def __imod__(self, other: _Any, /) -> Tensor: ...
    def __imul__(self, other: _Any, /) -> Tensor: ...
    def __index__(self) -> _int: ...
    def __int__(self) -> _int: ...
    def __invert__(self) -> Tensor: ...
    def __ior__(self, other: _Any, /) -> Tensor: ...
    def __ipow__(self, other: _Any, /) -> Tensor: ...
    def __irshift__(self, other: _Any, /) -> Tensor: ...
    def __isub__(self, other: _Any, /) -> Tensor: ...
    def __iter__(self) -> _Iterator[Tensor]: ...
    def __itruediv__(self, other: _Any, /) -> Tensor: ...
    def __ixor__(self, other: _Any, /) -> Tensor: ...
    def __le__(self, other: _Any, /) -> Tensor: ...
    def __len__(self) -> _int: ...
    def __lshift__(self, other: _Any, /) -> Tensor: ...
    def __lt__(self, other: _Any, /) -> Tensor: ...
    def __matmul__(self, other: _Any, /) -> Tensor: ...
    def __mod__(self, other: _Any, /) -> Tensor: ...
    def __mul__(self, other: _Any, /) -> Tensor: ...
    def __ne__(self, other: _object, /) -> Tensor: ...  # type: ignore[override]
    def __neg__(self) -> Tensor: ...
    def __or__(self, other: _Any, /) -> Tensor: ...
    def __pos__(self) -> Tensor: ...
    def __pow__(self, other: _Any, /) -> Tensor: ...
    def __radd__(self, other: _Any, /) -> Tensor: ...
    def __rand__(self, other: _Any, /) -> Tensor: ...
    def __rdiv__(self, other: Tensor | _complex) -> _Any:
        """other / self."""
    def __reversed__(self) -> Tensor: ...
    def __rfloordiv__(self, other: _Any, /) -> Tensor: ...
    def __rlshift__(self, other: _Any, /) -> Tensor: ...
    def __rmatmul__(self, other: _Any, /) -> Tensor: ...
    def __rmod__(self, other: _Any, /) -> Tensor: ...
    def __rmul__(self, other: _Any, /) -> Tensor: ...
    def __ror__(self, other: _Any, /) -> Tensor: ...
    def __rpow__(self, other: _Any, /) -> Tensor: ...
    def __rrshift__(self, other: _Any, /) -> Tensor: ...
    def __rshift__(self, other: _Any, /) -> Tensor: ...
    def __rsub__(self, other: _Any, /) -> Tensor: ...
    def __rtruediv__(self, other: _Any, /) -> Tensor: ...
    def __rxor__(self, other: _Any, /) -> Tensor: ...
    def __setitem__(self, index: _Any, value: _Any, /) -> None: ...
    def __setstate__(self, /, __pyx_state: _Any) -> _Any: ...
    def __sub__(self, other: _Any, /) -> Tensor: ...
    def __truediv__(self, other: _Any, /) -> Tensor: ...
    def __xor__(self, other: _Any, /) -> Tensor: ...
    __hash__ = object.__hash__
