# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, binding=False, embedsignature=True, embedsignature.format=clinic
"""dtype, device and Size: what describes a tensor."""
from libc.stdint cimport int64_t
from cpython.long cimport PyLong_CheckExact
from cpython.object cimport PyObject, PyTypeObject, binaryfunc
from cpython.ref cimport Py_INCREF
from cpython.slice cimport PySlice_Check
from cpython.tuple cimport PyTuple_SET_ITEM
import builtins
import functools
cimport cython
from . import display
from .spelling import nearest

cdef extern from "Python.h":
    ctypedef object (*allocfunc)(PyTypeObject*, Py_ssize_t)
    ctypedef struct PyMappingMethods:
        binaryfunc mp_subscript
    ctypedef struct RawType "PyTypeObject":
        allocfunc tp_alloc
        PyMappingMethods* tp_as_mapping

# --- dtypes ------------------------------
cdef class dtype:
    """The type of a tensor's elements, such as `flambeau.float32`.

    Raises:
        TypeError: one is made; there are those that the library has

    >>> import flambeau
    >>> flambeau.float32.itemsize, flambeau.float32.is_floating_point, flambeau.complex64.to_real()
    (4, True, flambeau.float32)
    """

    def __init__(self, *args, **kwargs):
        raise TypeError(f"cannot create '{display.public('dtype')}' instances")

    def __repr__(self):
        return display.public(self.name)

    def __reduce__(self):
        return (_dtype_named, (self.name,))

    @property
    def is_floating_point(self) -> bool:
        return self.category == 2

    @property
    def is_complex(self) -> bool:
        return self.category == 3

    @property
    def is_signed(self) -> bool:
        if self.code == REFUSED and not self.name.startswith(("int", "uint")):
            raise RuntimeError(f"is_signed: {self} tells of no sign")
        if self.code == REFUSED:
            return self.name.startswith("int")
        return self.code != BOOL and not is_unsigned(self.code) and self.code != F8_E8M0FNU

    def to_real(self):
        """The dtype of a complex dtype's parts; any other dtype itself."""
        return dtype_of(F32 if self.code == C64 else F64 if self.code == C128 else F16 if self.code == C32 else self.code)

    def to_complex(self):
        """The complex dtype whose parts hold this dtype's numbers; RuntimeError for integers, bool and float8."""
        if self.category < 2 or self.code >= F8_E4M3FN:
            raise RuntimeError(f"Unknown Complex ScalarType for {self.name}")
        return dtype_of(self.code if self.category == 3 else C128 if self.code == F64 else C32 if self.code == F16 else C64)


def _dtype_named(name):
    return by_name.get(name) or without_tensors[name]


by_name = {}
cdef dtype _made
for _code, (_name, _size, _category) in enumerate([
        ("bool", 1, 0), ("uint8", 1, 1), ("int8", 1, 1), ("int16", 2, 1), ("int32", 4, 1), ("int64", 8, 1),
        ("float16", 2, 2), ("bfloat16", 2, 2), ("float32", 4, 2), ("float64", 8, 2), ("complex64", 8, 3),
        ("complex128", 16, 3), ("uint16", 2, 1), ("uint32", 4, 1), ("uint64", 8, 1), (None, 0, 0), ("complex32", 4, 3),
        ("float8_e4m3fn", 1, 2), ("float8_e5m2", 1, 2), ("float8_e4m3fnuz", 1, 2), ("float8_e5m2fnuz", 1, 2),
        ("float8_e8m0fnu", 1, 2), ("float4_e2m1fn_x2", 1, 2)]):
    if _name is None:
        continue
    _made = dtype.__new__(dtype)
    _made.code, _made.name, _made.itemsize, _made.category = _code, _name, _size, _category
    Py_INCREF(_made)
    DTYPE_OBJECTS[_code] = <PyObject*>_made
    CATEGORY[_code], ITEMSIZE[_code] = _category, _size
    by_name[_name] = _made


# Dtypes that programs name and compare, and no tensor has: quantised ones, and numbers of some bits.
without_tensors = {}
for _name, _size in [("qint8", 1), ("quint8", 1), ("qint32", 4), ("quint4x2", 1), ("quint2x4", 1), ("bits8", 1), ("bits16", 2),
                     ("bits1x8", 1), ("bits2x4", 1), ("bits4x2", 1)] + [(f"{kind}{n}", 1) for kind in ("int", "uint") for n in range(1, 8)]:
    _made = dtype.__new__(dtype)
    _made.code, _made.name, _made.itemsize, _made.category = REFUSED, _name, _size, 1
    without_tensors[_name] = _made


cdef object no_tensors(dtype d, str who):
    """The error for a dtype that no tensor has."""
    why = "quantised tensors are made by quantize_per_tensor and quantize_per_channel" if d.name.startswith("q") else "numbers of some bits are not computed with"
    return NotImplementedError(f"{who}(): tensors of {d} are not here: {why}")


cdef int promote(int a, int b):
    """PyTorch's lattice: the higher category wins; within one, the wider; uint8 with a signed integer needs
    one more bit.  uint16 and its kin meet real floating-point numbers only, float8 and float4 nothing.
    """
    if a == b:
        return a
    if max(a, b) >= F8_E4M3FN or a == NO_CODE or b == NO_CODE:
        return REFUSED
    if (U16 <= a <= U64 and CATEGORY[b] != 2) or (U16 <= b <= U64 and CATEGORY[a] != 2):
        return REFUSED
    if CATEGORY[a] != CATEGORY[b]:
        if CATEGORY[a] < CATEGORY[b]:
            a, b = b, a
        if a == C32 and b == BF16 or a == C32 and b == F32:
            return C64
        return C128 if CATEGORY[a] == 3 and b == F64 else a
    if a == C32 or b == C32:
        return b if a == C32 else a
    if a > b:
        a, b = b, a
    if a == U8:
        return I16 if b == I8 else b
    if a == F16 and b == BF16:
        return F32
    return b


for _i in range(TABLE_SIZE):
    for _j in range(TABLE_SIZE):
        PROMOTED[_i][_j] = promote(_i, _j)


cdef object no_promotion(int a, int b):
    """The error for dtypes that have no common one."""
    which = "uint16, uint32, uint64 types" if max(a, b) <= C32 else "Float8 Types" if max(a, b) <= F8_E8M0FNU else "Float4 Types"
    return RuntimeError(f"Promotion for {which} is not supported, attempted to promote {dtype_of(a).name} and {dtype_of(b).name}")


cdef int _default = F32

cdef int default_code() noexcept nogil:
    return _default


cdef void set_default_code(int code) noexcept nogil:
    global _default
    _default = code


def get_default_dtype() -> dtype:
    """The dtype that Python floats become: float32 unless `set_default_dtype` has changed it.

    >>> import flambeau
    >>> flambeau.get_default_dtype()
    flambeau.float32
    """
    return dtype_of(_default)


def set_default_dtype(d: dtype) -> None:
    """Choose what Python floats become; TypeError unless it is a floating-point dtype.

    >>> import flambeau
    >>> flambeau.set_default_dtype(flambeau.float64)
    >>> flambeau.tensor(1.0).dtype
    flambeau.float64
    >>> flambeau.set_default_dtype(flambeau.float32)
    """
    global _default
    if d.category != 2 or is_stored(d.code):
        raise TypeError(f"set_default_dtype(): only floating-point types are supported as the default type, got {d}")
    _default = d.code


cdef dtype as_dtype(object value, str who):
    if isinstance(value, dtype):
        if (<dtype>value).code == REFUSED:
            raise no_tensors(<dtype>value, who)
        return <dtype>value
    if value is float:
        return dtype_of(F64)
    if value is int:
        return dtype_of(I64)
    if value is bool:
        return dtype_of(BOOL)
    if value is complex:
        return dtype_of(C128)
    raise TypeError(f"{who}(): argument 'dtype' must be {display.public('dtype')}, not {type(value).__name__}{implied_dtype(value)}")


def implied_dtype(value) -> str:
    """The end of a message about what is no dtype: the one of that name, as text, NumPy's types and dtypes name it."""
    name = value if isinstance(value, str) else getattr(value, "name", None) or getattr(value, "__name__", None)
    result = by_name.get(name.rpartition(".")[2]) if isinstance(name, str) else None
    return "" if result is None else f"; did you mean {result}?"


def promote_types(type1: dtype, type2: dtype) -> dtype:
    """The smallest dtype that holds both kinds of value without loss of category.

    RuntimeError for uint16, uint32 and uint64 with anything but themselves and real floating-point dtypes, and for float8 with
    any other dtype.

    >>> import flambeau
    >>> flambeau.promote_types(flambeau.int32, flambeau.float16)
    flambeau.float16
    """
    if type1.code == REFUSED or type2.code == REFUSED:
        if type1 is type2:
            return type1
        raise no_tensors(type1 if type1.code == REFUSED else type2, "promote_types")
    return dtype_of(promoted(type1.code, type2.code))


# --- devices ------------------------------
enter_device = leave_device = None     # what `with device(…)` does; `core/base/device.pyx` supplies it
accelerator = None                     # function: the type that a bare number means; supplied likewise

# All that a program may name.  Tensors live on those that `core/base/device.pyx:register` has, and on "cpu" and "meta".
DEVICE_TYPES = ("cpu", "cuda", "opencl", "meta", "mps", "xpu", "mtia", "hpu", "xla", "vulkan", "privateuseone", "ipu", "maia",
                "rocm", "hip", "lazy", "ve", "fpga", "opengl", "ideep", "mkldnn")


cdef enum:
    MOST_DEVICES = 32767

cdef dict spelled = {}      # names of devices that were read before -> type and index

cdef str implied_device(str name):
    """The end of a message about a word that is no type of devices."""
    cdef str kind = name.rstrip("0123456789 ")
    if name.rpartition(".")[2] in by_name:
        return implied_dtype(name)
    result = "cuda" if kind.lower() in ("gpu", "nvidia") else nearest(kind, DEVICE_TYPES)
    if result is None:
        return ""
    return f"; did you mean '{result}'?" if not name[len(kind):].isdecimal() else f"; did you mean '{result}:{name[len(kind):]}'?"


cdef class device:
    """Where a tensor's memory is: a type, such as "cpu", and an index or None.  As a context (`with device("meta"):`) it is
    where this thread makes tensors without a device argument.

    Every type of PyTorch's can be named, compared and pickled; making a tensor where there is no such device is the error.
    RuntimeError for other types and for negative indices.

    >>> import flambeau
    >>> flambeau.device("mps") == flambeau.device("mps"), flambeau.device("cuda:1").index
    (True, 1)
    """

    def __init__(self, type, index=None):
        if isinstance(type, device):
            self.type, self.index = (<device>type).type, (<device>type).index
            return
        result = spelled.get(type) if index is None and isinstance(type, str) else None
        if result is not None:
            self.type, self.index = result
            return
        if not isinstance(type, str):
            if index is not None or not hasattr(type, "__index__"):
                raise TypeError(f"device(): argument 'type' must be str, not {builtins.type(type).__name__}")
            index = type.__index__()
            name, separator, number = "" if index < 0 else accelerator(), "", ""
        else:
            name, separator, number = type.partition(":")
            if name not in DEVICE_TYPES:
                raise RuntimeError(f"device(): Expected one of {', '.join(DEVICE_TYPES)} device type at start of device string: {name}"
                                   f"{implied_device(name)}")
        if separator:
            if index is not None or not (number.isdecimal() and number.isascii()) or number != str(int(number)):
                raise RuntimeError(f"device(): invalid device string: '{type}'")
            index = int(number)
        if index is None and len(spelled) < 256:
            spelled[name] = name, None
        if index is not None:
            if not PyLong_CheckExact(index):
                if not hasattr(index, "__index__"):
                    raise TypeError(f"device(): argument 'index' must be int, not {builtins.type(index).__name__}")
                index = index.__index__()
            if index < 0:
                raise RuntimeError(f"device(): Device index must not be negative, got {index}")
            if index > MOST_DEVICES:
                raise RuntimeError(f"device(): Device index must be at most {MOST_DEVICES}, got {index}")
            if separator and len(spelled) < 256:
                spelled[type] = name, index
        self.type, self.index = name, index

    def __repr__(self):
        return f"device(type='{self.type}')" if self.index is None else f"device(type='{self.type}', index={self.index})"

    def __str__(self):
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other):
        return isinstance(other, device) and self.type == (<device>other).type and self.index == (<device>other).index

    def __hash__(self):
        return hash((self.type, self.index))

    def __enter__(self):
        enter_device(self)
        return self

    def __exit__(self, *error):
        leave_device()

    def __call__(self, function):
        """The function, called with this device as the default."""
        @functools.wraps(function)
        @cython.binding(True)
        def call(*args, **kwargs):
            self.__enter__()
            try:
                return function(*args, **kwargs)
            finally:
                self.__exit__(None, None, None)
        return call

    def __reduce__(self):
        return (device, (self.type, self.index))


cpu_device = device("cpu")


# --- shapes ------------------------------
class Size(tuple):
    """The shape of a tensor: a tuple of ints with `numel()`."""

    __slots__ = ()

    def __new__(cls, sizes=()):
        made = tuple.__new__(cls, sizes)
        for k, n in enumerate(made):
            if type(n) is not int:
                if not hasattr(n, "__index__"):
                    raise TypeError(f"{display.public('Size')}() takes an iterable of 'int' (item {k} is '{type(n).__name__}')")
                return tuple.__new__(cls, [m.__index__() for m in made])
        return made

    def __repr__(self):
        return f"{display.public('Size')}({list(self)})"

    def numel(self) -> int:
        n = 1
        for s in self:
            n *= s
        return n

    def __getitem__(self, key):
        return item_of_size(self, key)

    def __add__(self, other):
        return Size(tuple.__add__(self, tuple(other)))

    def __radd__(self, other):
        return Size(tuple(other) + tuple(self))

    def __mul__(self, count):
        return Size(tuple.__mul__(self, count))

    __rmul__ = __mul__

    def __reduce__(self):
        return (Size, (tuple(self),))


cdef PyTypeObject* SIZE = <PyTypeObject*>Size
cdef RawType* TUPLE = <RawType*>tuple

cdef object item_of_size(object self, object key):
    """One of the sizes, or a Size of several.  It stands in the type's slot, so that `x.shape[0]` searches no method."""
    cdef object result = TUPLE.tp_as_mapping.mp_subscript(self, key)
    return Size(result) if PySlice_Check(key) else result

(<RawType*>SIZE).tp_as_mapping.mp_subscript = item_of_size

cdef object size_from(int n, const int64_t* values):
    """A Size of those numbers."""
    cdef object made = (<RawType*>SIZE).tp_alloc(SIZE, n)
    cdef object value
    cdef int i
    for i in range(n):
        value = values[i]
        Py_INCREF(value)
        PyTuple_SET_ITEM(made, i, value)
    return made
