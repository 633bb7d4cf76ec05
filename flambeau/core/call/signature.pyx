# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The parameters of operations: names, spellings, kinds.

All that reads the arguments of a call is here.  A parameter is known by more names than its own: PyTorch's parser takes
NumPy's `axis` and `keepdims`, and the array API's `x`, `x1`, `x2`.
"""
from cpython.object cimport PyObject, PyTypeObject
from ..base.dtypes cimport dtype
from ..base.dtypes import implied_dtype
from ..base.once import warn_once
from ..base.parameters import BY_NAME, MISSING, STARRED, described, signature
from ..base.spelling import hint
from ..base.tensor cimport TENSOR as TENSOR_CLASS, TensorBase

cdef extern from "Python.h":
    bint PyFloat_Check(object o)
    bint PyLong_Check(object o)
    bint PyBool_Check(object o)
    bint PyComplex_Check(object o)
    bint PyUnicode_Check(object o)
    bint PyTuple_Check(object o)
    bint PyList_Check(object o)
    PyObject* PyTuple_GET_ITEM(object t, Py_ssize_t k)
    bint PyIndex_Check(object o)

cdef PyTypeObject* INT_CLASS = <PyTypeObject*>int
cdef PyTypeObject* BOOL_CLASS = <PyTypeObject*>bool


cdef inline bint is_exactly(int kinds, PyObject* value) noexcept:
    """Whether a value is of one of those kinds, known by its very class; False says nothing."""
    cdef PyTypeObject* cls = (<PyObject*>value).ob_type
    return ((kinds & TENSOR and cls == TENSOR_CLASS) or (kinds & (INT | REAL | NUMBER) and cls == INT_CLASS)
            or (kinds & BOOL and cls == BOOL_CLASS) or (kinds & NOTHING and value == <PyObject*>None))


cdef tuple SPELLINGS = (
    ("input", "self", "x", "x1", "a"),
    ("dim", "axis"),
    ("keepdim", "keepdims"),
    ("other", "x2"),
)

# How annotations name kinds; what is not here is not checked.
cdef dict KINDS = {
    "Tensor": TENSOR, "TensorBase": TENSOR, "None": NOTHING, "int": INT, "float": REAL, "bool": BOOL, "str": TEXT,
    "Sequence[int]": INTS, "complex": NUMBER, "dtype": DTYPE, "Sequence[Tensor]": TENSORS, "Sequence[TensorBase]": TENSORS,
}
cdef tuple WORDS = (
    (TENSOR, "Tensor"), (NUMBER, "Number"), (INT, "int"), (REAL, "float"), (BOOL, "bool"), (INTS, "tuple of ints"),
    (TENSORS, "tuple of Tensors"), (TEXT, "str"), (DTYPE, "dtype"),
)


cdef class Signature:
    """The parameters of one operation, in order; those after `positional` are given by name only."""

    def __init__(self, tuple names, int positional, int required, tuple kinds=(), bint open=False, dict defaults=None, whole=None):
        cdef int k
        if len(names) > MAX_BOUND and not hasattr(whole, "varied"):     # a schema's operation binds its arguments itself
            raise ValueError(f"an operation has at most {MAX_BOUND} parameters, got {names}")
        self.names, self.positional, self.required, self.open = names, positional, required, open
        self.total = <int>len(names)
        self.spellings, self.defaults, self.whole, self.old = {}, defaults or {}, whole, ()
        for k in range(min(self.total, <int>MAX_BOUND)):
            self.kinds[k] = kinds[k] if k < len(kinds) else 0
            self.checks = self.checks or self.kinds[k] != 0

    cdef int place(self, str who, object key) except -1:
        """Which parameter a keyword means; TypeError for none."""
        cdef int k
        for k in range(self.total):
            if PyTuple_GET_ITEM(self.names, k) == <PyObject*>key:
                return k
        k = place_of(self, key)
        return k if k >= 0 else refuse_keyword(self, who, key)

    def types(self):
        """The types of parameters and results (`types.py`): as a schema said them, else as annotations and defaults tell."""
        from .types import Types, described as types_of

        return self.whole if isinstance(self.whole, Types) else types_of(self.to_python())

    @property
    def by_position(self):
        """How many parameters may be given by position."""
        return self.positional

    @property
    def takes_more(self):
        """Whether it takes more than its names: `*args`, `**kwargs`."""
        return bool(self.open)

    def to_python(self):
        """The parameters as `inspect` has them."""
        cdef int k
        if isinstance(self.whole, tuple):      # of the function whose they are
            self.whole = signature(self.whole[0])
        if hasattr(self.whole, "varied"):      # a schema's types
            import inspect

            given, missing = inspect.Parameter, inspect.Parameter.empty
            return inspect.Signature([
                given(name, given.POSITIONAL_OR_KEYWORD if k < self.positional else given.KEYWORD_ONLY, default=self.defaults.get(name, missing))
                for k, name in enumerate(self.names)])
        if self.whole is None:
            import inspect

            kinds, missing = inspect.Parameter, inspect.Parameter.empty
            self.whole = inspect.Signature([
                inspect.Parameter(name, kinds.POSITIONAL_OR_KEYWORD if k < self.positional else kinds.KEYWORD_ONLY,
                                  default=missing if k < self.required else self.defaults.get(name),
                                  annotation=annotation_of(self.kinds[k]))
                for k, name in enumerate(self.names)])
        return self.whole

    def with_out(self):
        """The same parameters, and `out` by name."""
        kinds = tuple([self.kinds[k] for k in range(self.total)]) + (0,)
        return Signature(self.names + ("out",), self.positional, self.required, kinds, self.open, self.defaults)

    cdef int bind(self, str who, PyObject** args, Py_ssize_t nargs, PyObject* names, PyObject** bound) except -1:
        """Fill `found` (borrowed; NULL where nothing was given), and check the kinds of what was given."""
        cdef int k
        self.arrange(who, args, nargs, names, bound)
        if self.checks:
            for k in range(self.total):
                if bound[k] != NULL and self.kinds[k] and not is_exactly(self.kinds[k], bound[k]):
                    self.check(who, k, <object>bound[k])
        return 0

    cdef int arrange(self, str who, PyObject** args, Py_ssize_t nargs, PyObject* names, PyObject** bound) except -1:
        """Fill `found` (borrowed; NULL where nothing was given)."""
        cdef int k, at
        if nargs > self.positional:
            raise TypeError(f"{who}() takes at most {self.positional} positional arguments but {nargs} were given")
        for k in range(self.total):
            bound[k] = args[k] if k < nargs else NULL
        if names != NULL:
            for k in range(<int>len(<tuple>names)):
                at = self.place(who, <object>PyTuple_GET_ITEM(<object>names, k))
                if bound[at] != NULL:
                    raise TypeError(f"{who}() got multiple values for argument '{self.names[at]}'")
                bound[at] = args[nargs + k]
        for k in range(self.required):
            if bound[k] == NULL:
                raise TypeError(f'{who}() missing 1 required positional arguments: "{self.names[k]}"')
        return 0

    cdef bint names_hold(self, tuple names):
        """Whether all keywords are names as declared (the very strings, as those of a program are)."""
        cdef int k, i
        for i in range(<int>len(names)):
            for k in range(self.total):
                if PyTuple_GET_ITEM(self.names, k) == PyTuple_GET_ITEM(names, i):
                    break
            else:
                return False
        return True

    cdef int check_all(self, str who, PyObject** args, Py_ssize_t nargs, PyObject* names) except -1:
        """The kinds of all arguments, the keywords being names as declared; their number is left to the function."""
        cdef int k, i
        for k in range(<int>min(nargs, self.positional)):
            if self.kinds[k] and not is_exactly(self.kinds[k], args[k]):
                self.check(who, k, <object>args[k])
        if names != NULL:
            for i in range(<int>len(<tuple>names)):
                for k in range(self.total):
                    if PyTuple_GET_ITEM(self.names, k) == PyTuple_GET_ITEM(<object>names, i):
                        if self.kinds[k] and not is_exactly(self.kinds[k], args[nargs + i]):
                            self.check(who, k, <object>args[nargs + i])
                        break
        return 0

    cdef object spelled(self, str who, tuple names):
        """The keywords of a call as the operation itself calls them."""
        result = self.spellings.get(names)
        if result is None:
            result = tuple([key if self.open and not self.knows(key) else self.names[self.place(who, key)] for key in names])
            if len(set(result)) < len(result):
                raise TypeError(f"{who}() got multiple values for one argument: {', '.join(names)}")
            if len(self.spellings) < 64:
                self.spellings[names] = result
        return result

    def knows(self, key):
        """Whether a keyword means one of the parameters."""
        return place_of(self, key) >= 0

    cdef int check(self, str who, int k, object value) except -1:
        """TypeError where an argument is none of the kinds that its parameter takes."""
        if not is_kind(self.kinds[k], value):
            raise mistaken(who, self.names[k], k + 1, self.kinds[k], value)
        return 0


cdef int place_of(Signature signature, object key) except -2:
    """Which parameter a keyword means, -1 for none."""
    cdef int k
    for k in range(signature.total):
        if key == <object>PyTuple_GET_ITEM(signature.names, k):
            return k
    for group in SPELLINGS:
        if key in group:
            for k in range(signature.total):
                if <object>PyTuple_GET_ITEM(signature.names, k) in group:
                    return k
    return -1


cdef int refuse_keyword(Signature signature, str who, object key) except -1:
    """TypeError for a keyword that means no parameter, with the one that may have been meant."""
    names = signature.names + tuple([name for group in SPELLINGS if not set(signature.names).isdisjoint(group) for name in group])
    raise TypeError(f"{who}() got an unexpected keyword argument '{key}'{hint(key, names)}")


cdef bint is_kind(int kinds, object value) except -1:
    cdef TensorBase t
    if isinstance(value, TensorBase):
        if kinds & TENSOR:
            return True
        t = <TensorBase>value
        if kinds & (INT | REAL | NUMBER | BOOL) and t.count == 1:
            return True
        return kinds & (TENSORS | INTS) and t.rank > 0
    if value is None:
        return kinds & NOTHING != 0
    if PyBool_Check(value):
        return kinds & (BOOL | NUMBER | REAL) != 0
    if PyLong_Check(value):
        return kinds & (INT | REAL | NUMBER) != 0
    if PyFloat_Check(value):
        return kinds & (REAL | NUMBER) != 0
    if PyTuple_Check(value) or PyList_Check(value):
        return kinds & (INTS | TENSORS) != 0
    if PyUnicode_Check(value):
        return kinds & TEXT != 0
    if isinstance(value, dtype):
        return kinds & DTYPE != 0
    if PyComplex_Check(value):
        return kinds & NUMBER != 0
    # numbers and sequences of other libraries
    if kinds & (INT | REAL | NUMBER | BOOL) and hasattr(value, "dtype") and getattr(value, "ndim", 1) == 0:
        return True
    if kinds & (INT | REAL | NUMBER) and PyIndex_Check(value):
        return True
    if kinds & REAL and hasattr(value, "__float__"):
        return True
    return kinds & (INTS | TENSORS) != 0 and hasattr(value, "__iter__")


cdef object mistaken(str who, str name, int place, int kinds, object value):
    words = [word for kind, word in WORDS if kinds & kind]
    return TypeError(f"{who}(): argument '{name}' (position {place}) must be {' or '.join(words)}, not {type(value).__name__}"
                     + (implied_dtype(value) if kinds & DTYPE else ""))


cdef object annotation_of(int kinds):
    """The kinds as an annotation."""
    words = [word for word, kind in KINDS.items() if kinds & <int>kind and word not in ("TensorBase", "Sequence[TensorBase]")]
    if words:
        return " | ".join(words)
    import inspect

    return inspect.Parameter.empty


cdef int kinds_of(object annotation) except -1:
    """The kinds that an annotation names, 0 where one of its parts is not known."""
    cdef int kinds = 0
    if not isinstance(annotation, str):
        annotation = getattr(annotation, "__name__", "")
    for part in annotation.split("|"):
        if part.strip() not in KINDS:
            return 0
        kinds |= <int>KINDS[part.strip()]
    return kinds


cdef Signature signature_of(object function):
    """The parameters that a function in Python or Cython declares; None where they are unknown."""
    cdef int positional = 0, required = 0
    cdef bint open = False
    cdef list names = [], kinds = []
    cdef dict defaults = {}
    try:
        result = described(function)
    except (TypeError, ValueError):
        return None
    for name, kind, default, annotation in result:
        if kind == STARRED:
            open = True
            continue
        names.append(name)
        kinds.append(0 if annotation is MISSING else kinds_of(annotation))
        if default is None and kinds[len(kinds) - 1]:
            kinds[len(kinds) - 1] |= NOTHING
        if kind != BY_NAME:
            positional += 1
        if default is MISSING:
            required = len(names)
        else:
            defaults[name] = default
    return Signature(tuple(names), positional, required, tuple(kinds), open, defaults, (function,))


# --- orders of before ------------------------------
SCALARS = ("alpha", "beta", "value")     # what stands among the tensors in those orders


def in_order(str who, orders, tuple args, dict named, bint method=False):
    """A call in one of those orders as arguments of today, after a warning that is said once; None where it is in none of them.

    As a method (`x.addmm(beta, alpha, mat1, mat2)`) the tensor itself stands first in each.
    """
    cdef tuple order, shown
    for order in orders:
        shown = order
        if method:
            order = ("input",) + tuple([name for name in order if name != "input"])
        if len(args) > len(order) or any([name in named for name in order[:len(args)]]):
            continue
        given = dict(zip(order, args), **named)
        if set(given) - {"out"} != set(order) or not all([fits_old(name, given[name]) for name in order]):
            continue
        if method:
            shown = order[1:]
        warn_once(f"This overload of {who} is deprecated:\n\t{old_signature(who, shown, shown, method)}\nConsider using one of the following "
                  "signatures instead:\n\t" + old_signature(who, shown, tuple([name for name in shown if name not in SCALARS]), method),
                  stacklevel=1)
        return tuple([given.pop(name) for name in order if name not in SCALARS]), given
    return None


cdef bint fits_old(str name, object value):
    """Whether a scalar, or a tensor, is given where one stands; the last operand of sums may be a number, too."""
    if name in SCALARS:
        if isinstance(value, TensorBase):
            return (<TensorBase>value).rank == 0 and not (<TensorBase>value).requires
        return is_kind(NUMBER, value)
    return isinstance(value, TensorBase) or (name == "other" and is_kind(NUMBER, value))


cdef str old_signature(str who, tuple order, tuple positional, bint method):
    cdef list parts = [f"{'Number' if name in SCALARS else 'Tensor'} {name}" for name in positional]
    cdef list later = [f"Number {name} = 1" for name in order if name not in positional]
    if not (method or who.endswith("_")):
        later.append("Tensor out = None")
    return f"{who}({', '.join(parts + (['*'] if later else []) + later)})"
