# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Guards as steps in compiled code: each source is found once, each guard is a comparison of pointers or words.

Steps stand in the order of the guards, for a guard may rely on those before it: what it is found by is found right before.  Nothing of
Python's runs but what `Attribute` sources ask for, so values are borrowed; those of attributes are owned until the check ends.
"""
from cpython.object cimport Py_EQ, PyObject, PyTypeObject
from cpython.ref cimport Py_DECREF, Py_INCREF, Py_XDECREF
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcmp, memset
from ..core.base.device cimport Device
from ..core.base.dtypes cimport device, dtype, dtype_of
from ..core.base.tensor cimport TensorBase
from ..core.tape.modes cimport wants_grad
from ..core.base.dtypes import Size
from . import sources

cdef extern from "alloca.h" nogil:
    void* alloca(size_t n)

cdef extern from *:
    """
    static inline unsigned int flambeau_version_of(PyTypeObject* type) {
        /* The number of a class as it is now; 0 where it has none.  Changing an attribute of it or of a base takes the number away. */
    #if PY_VERSION_HEX < 0x030C0000
        if (!(type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG)) return 0;
    #endif
        return type->tp_version_tag;
    }
    static inline unsigned int flambeau_give_version(PyTypeObject* type, PyObject* name) {
        _PyType_Lookup(type, name);      /* a look-up that is cached gives the class a number */
        PyErr_Clear();
    #if PY_VERSION_HEX >= 0x030C0000
        PyUnstable_Type_AssignVersionTag(type);
    #endif
        return flambeau_version_of(type);
    }
    static inline PyObject* flambeau_int_of_its_own(PyObject* value, Py_ssize_t bits) {
        /* An int with the digits of another; small ones too, of which Python's own functions give the one that it has. */
        Py_ssize_t digits = bits / PyLong_SHIFT + 1;
        PyObject* made = (PyObject*)_PyLong_New(digits);
        if (made)
            memcpy((char*)made + sizeof(PyObject), (char*)value + sizeof(PyObject),
                   PyLong_Type.tp_basicsize - sizeof(PyObject) + (bits ? (bits - 1) / PyLong_SHIFT + 1 : 0) * sizeof(digit));
        return made;
    }
    static inline int flambeau_same_text(PyObject* a, PyObject* b) {
        return a == b || (PyUnicode_CheckExact(a) && PyUnicode_CheckExact(b) && PyUnicode_Compare(a, b) == 0);
    }
    """
    unsigned int flambeau_version_of(PyTypeObject* type) noexcept
    unsigned int flambeau_give_version(PyTypeObject* type, object name)
    object flambeau_int_of_its_own(object value, Py_ssize_t bits)
    bint flambeau_same_text(PyObject* a, PyObject* b) noexcept

cdef extern from "Python.h":
    unsigned long Py_TPFLAGS_IMMUTABLETYPE
    ctypedef struct RawType "PyTypeObject":
        unsigned long tp_flags
    Py_ssize_t PyVectorcall_NARGS(size_t n)
    PyObject* PyDict_GetItemWithError(PyObject* d, PyObject* key) noexcept
    PyObject* PyObject_GenericGetDict(PyObject* o, void* context) noexcept
    PyObject* PyObject_GetAttr(PyObject* o, PyObject* name) noexcept
    int PyObject_RichCompareBool(PyObject* a, PyObject* b, int op) noexcept
    int PyDict_Next(PyObject* d, Py_ssize_t* at, PyObject** key, PyObject** value) noexcept
    Py_ssize_t PyDict_Size(PyObject* d) noexcept
    Py_ssize_t PyList_GET_SIZE(PyObject* o) noexcept
    PyObject* PyList_GET_ITEM(PyObject* o, Py_ssize_t k) noexcept
    Py_ssize_t PyTuple_GET_SIZE(PyObject* o) noexcept
    PyObject* PyTuple_GET_ITEM(PyObject* o, Py_ssize_t k) noexcept
    PyObject* PyCell_GET(PyObject* o) noexcept
    bint PyCell_Check(PyObject* o) noexcept
    bint PyDict_Check(PyObject* o) noexcept
    bint PyList_Check(PyObject* o) noexcept
    bint PyTuple_Check(PyObject* o) noexcept
    bint PyFloat_CheckExact(PyObject* o) noexcept
    object PyFloat_FromDouble(double x)
    long long PyLong_AsLongLongAndOverflow(PyObject* o, int* overflow) noexcept
    PyObject* RawVectorcall "PyObject_Vectorcall" (PyObject* callable, PyObject** args, size_t nargs, PyObject* names) noexcept
    bint PyComplex_CheckExact(PyObject* o) noexcept
    bint PySlice_Check(PyObject* o) noexcept
    double PyFloat_AS_DOUBLE(PyObject* o) noexcept
    double PyComplex_RealAsDouble(PyObject* o) noexcept
    double PyComplex_ImagAsDouble(PyObject* o) noexcept
    ctypedef struct PySliceObject:
        PyObject* start
        PyObject* stop
        PyObject* step
    void PyErr_Clear() noexcept
    PyObject* PyErr_Occurred() noexcept

cdef enum:
    FIND_ARGUMENT             # positional argument `index`
    FIND_KEYWORD              # keyword argument `value`
    FIND_OBJECT               # `value` itself
    FIND_ITEM                 # entry `value` of a dict, item `index` of a list or tuple
    FIND_NAMESPACE            # the dict of an instance
    FIND_ATTRIBUTE
    FIND_CONTENTS             # of a cell
    FIND_COMPUTED             # what `value` makes of the values in the slots `of` and `index`, as far as these are not -1
    CHECK_IS
    CHECK_EQUALS
    CHECK_CLASS
    CHECK_LENGTH
    CHECK_KEYS
    CHECK_LACKS
    CHECK_TENSOR
    CHECK_NUMBER              # a float, or an int of 64 bits
    CHECK_SAME                # it is the same object as in slot `of`
    CHECK_COUNT               # so many positional arguments
    CHECK_NAMES               # these keyword arguments
    CHECK_NO_KEYWORD          # no keyword argument of that name

cdef struct Step:
    int kind
    int slot                  # the value that is found, or looked at
    int of                    # the slot that it is found by
    unsigned int version      # of a class
    Py_ssize_t index
    PyObject* value

cdef struct TensorCheck:
    int slot, code, rank
    bint requires, leaf, inference, writable, silent
    PyObject* cls
    PyObject* place
    int shares                # the input whose memory it shares, -1 for none before
    int64_t offset            # from that input's first element
    int64_t* sizes            # and behind them the strides
    int64_t last              # elements from the first to behind the last

cdef uint64_t checks = 1 << 62       # stamps of `Storage.met`: those of recordings are small


cdef bint equal(PyObject* a, PyObject* b) noexcept:
    """Whether a value is of the other's class and equal to it: floats by their bits, tuples and slices by what is in them."""
    cdef Py_ssize_t k
    cdef double x[2]
    cdef double y[2]
    cdef int answer
    if a == b:
        return True
    if a.ob_type != b.ob_type:
        return False
    if PyFloat_CheckExact(b):
        x[0], y[0] = PyFloat_AS_DOUBLE(a), PyFloat_AS_DOUBLE(b)
        return same_bits(x[0], y[0])
    if PyComplex_CheckExact(b):
        return (same_bits(PyComplex_RealAsDouble(a), PyComplex_RealAsDouble(b))
                and same_bits(PyComplex_ImagAsDouble(a), PyComplex_ImagAsDouble(b)))
    if PyTuple_Check(b):
        if PyTuple_GET_SIZE(a) != PyTuple_GET_SIZE(b):
            return False
        for k in range(PyTuple_GET_SIZE(b)):
            if not equal(PyTuple_GET_ITEM(a, k), PyTuple_GET_ITEM(b, k)):
                return False
        return True
    if PySlice_Check(b):
        return (equal((<PySliceObject*>a).start, (<PySliceObject*>b).start) and equal((<PySliceObject*>a).stop, (<PySliceObject*>b).stop)
                and equal((<PySliceObject*>a).step, (<PySliceObject*>b).step))
    answer = PyObject_RichCompareBool(a, b, Py_EQ)
    if answer < 0:
        PyErr_Clear()
    return answer == 1


cdef inline bint same_bits(double a, double b) noexcept:
    """Whether two numbers are one: NaN is NaN, whatever its bits, and -0.0 is not 0.0."""
    return memcmp(&a, &b, sizeof(double)) == 0 or (a != a and b != b)


cdef int64_t span(int rank, const int64_t* sizes, const int64_t* strides) noexcept:
    """Elements from a tensor's first to behind its last."""
    cdef int64_t last = 1
    cdef int d
    for d in range(rank):
        if sizes[d] == 0:
            return 0
        last += (sizes[d] - 1) * strides[d]
    return last


cdef class Guards:
    """What must hold of a call for a capture to be right, from `sources.Guard`s in the order of the program.

    Inputs are numbered by the index of their `TensorLike`.

    >>> import flambeau as torch
    >>> from flambeau.graph.guards import Guards
    >>> from flambeau.graph.sources import Arguments, Equals, Item, TensorLike
    >>> x = torch.ones(2, 4)
    >>> guards = Guards([TensorLike(Item(Arguments(), 0), x, 0), Equals(Item(Arguments(), 1), 3)])
    >>> guards.check((x, 3), {}) == [x]
    True
    >>> guards.explain((torch.ones(3, 4), 3), {})
    'args[0]: shape [3, 4], captured with [2, 4]'
    """

    def __init__(self, guards):
        self.held, self.origins, self.numbers, self.attributes, self.number_slots = [], [], {}, [], []
        self.memories = {}
        for guard in guards:
            self.add(guard)
        self.memories = None
        # Tensors that were captured with are not kept.
        self.origins = [sources.TensorLike(x.source, None, x.index) if type(x) is sources.TensorLike else x for x in self.origins]

    def __dealloc__(self):
        cdef int k
        for k in range(self.tensor_count):
            free(self.tensors[k].sizes)
        free(self.tensors)
        free(self.steps)

    def slot(self, source) -> int:
        """Where a check leaves the value of a source, which is found after all guards hold where none of them looks at it."""
        return self.find(source)

    # --- making ------------------------------
    cdef Step* new_step(self, origin) except NULL:
        cdef Step* larger = <Step*>realloc(self.steps, (self.count + 1) * sizeof(Step))
        if larger == NULL:
            raise MemoryError
        self.steps = larger
        memset(&larger[self.count], 0, sizeof(Step))
        self.origins.append(origin)
        self.count += 1
        return &larger[self.count - 1]

    cdef PyObject* hold(self, x):
        self.held.append(x)
        return <PyObject*>x

    cdef int find(self, source) except -1:
        """The slot of a source, with the steps that fill it."""
        cdef Step* step
        cdef int of = 0, slot
        cdef object kind = type(source)
        if source in self.numbers:
            return self.numbers[source]
        if kind in (sources.Arguments, sources.Keywords):
            raise ValueError(f"guards look at items of {source}, not at {source} itself")
        if kind is sources.Computed:
            return self.find_computed(source)
        direct = kind is sources.Item and type(source.of) in (sources.Arguments, sources.Keywords)
        if kind is not sources.Object and not direct:
            of = self.find(source.of)
        step = self.new_step(source)
        slot = self.slots
        step.of, step.slot = of, slot
        if kind is sources.Object:
            step.kind, step.value = FIND_OBJECT, self.hold(source.value)
        elif direct and type(source.of) is sources.Arguments:
            step.kind, step.index = FIND_ARGUMENT, source.key
        elif direct:
            step.kind, step.value = FIND_KEYWORD, self.hold(source.key)
        elif kind is sources.Item:
            step.kind, step.value = FIND_ITEM, self.hold(source.key)
            step.index = source.key if type(source.key) is int and source.key >= 0 else -1
        elif kind is sources.Namespace:
            step.kind = FIND_NAMESPACE
        elif kind is sources.Attribute:
            step.kind, step.value = FIND_ATTRIBUTE, self.hold(source.name)
            self.attributes.append(slot)
        elif kind is sources.Contents:
            step.kind = FIND_CONTENTS
        else:
            raise NotImplementedError(f"guards find no {kind.__name__}")
        self.slots += 1
        self.numbers[source] = slot
        return slot

    cdef int find_computed(self, source) except -1:
        cdef Step* step
        cdef list of = [self.find(x) for x in source.of]
        if len(of) > 2:
            raise NotImplementedError(f"guards compute with two numbers at most, got {len(of)} ({source})")
        step = self.new_step(source)
        step.kind, step.value, step.slot, step.of = FIND_COMPUTED, self.hold(source.function), self.slots, of[0] if of else -1
        step.index = of[1] if len(of) == 2 else -1
        self.attributes.append(self.slots)
        self.numbers[source] = self.slots
        self.slots += 1
        return self.slots - 1

    cdef int add(self, guard) except -1:
        cdef Step* step
        cdef int slot, other
        cdef object kind = type(guard)
        if type(guard.source) is sources.Arguments:
            if kind is sources.Length:
                step = self.new_step(guard)
                step.kind, step.index = CHECK_COUNT, guard.value
            elif kind is not sources.ClassIs:      # it always is a tuple
                raise NotImplementedError(f"{kind.__name__} of the arguments")
            return 0
        if type(guard.source) is sources.Keywords:
            if kind is sources.Keys:
                step = self.new_step(guard)
                step.kind, step.value = CHECK_NAMES, self.hold(guard.value)
            elif kind is sources.Length:
                step = self.new_step(guard)
                step.kind, step.index = CHECK_NAMES, guard.value
            elif kind is sources.Lacks:
                step = self.new_step(guard)
                step.kind, step.value = CHECK_NO_KEYWORD, self.hold(guard.value)
            elif kind is not sources.ClassIs:
                raise NotImplementedError(f"{kind.__name__} of the keyword arguments")
            return 0
        slot = self.find(guard.source)
        other = self.find(guard.other) if kind is sources.Same else 0
        if kind is sources.TensorLike:
            return self.add_tensor(guard, slot)
        if kind is sources.NumberLike:
            return self.add_number(guard, slot)
        step = self.new_step(guard)
        step.slot = slot
        if kind is sources.Is:
            step.kind, step.value = CHECK_IS, self.hold(guard.value)
        elif kind is sources.Equals:
            # one object stands for each of these values
            one = guard.value is None or type(guard.value) in (bool, dtype, type(...), type(NotImplemented))
            step.kind, step.value = CHECK_IS if one else CHECK_EQUALS, self.hold(guard.value)
        elif kind is sources.ClassIs:
            step.kind, step.value = CHECK_CLASS, self.hold(guard.value)
            if not (<RawType*>step.value).tp_flags & Py_TPFLAGS_IMMUTABLETYPE:
                step.version = flambeau_give_version(<PyTypeObject*>step.value, "__class__")
                if step.version == 0:
                    raise NotImplementedError(f"class {guard.value.__qualname__} has changed too often: changes are not seen any more")
        elif kind is sources.Same:
            step.kind, step.of = CHECK_SAME, other
        elif kind is sources.Length:
            step.kind, step.index = CHECK_LENGTH, guard.value
        elif kind is sources.Keys:
            step.kind, step.value = CHECK_KEYS, self.hold(guard.value)
        elif kind is sources.Lacks:
            step.kind, step.value = CHECK_LACKS, self.hold(guard.value)
        else:
            raise NotImplementedError(f"guards check no {kind.__name__}")
        return 0

    cdef int add_number(self, guard, int slot) except -1:
        cdef Step* step
        if guard.index != self.inputs or guard.value not in (float, int):
            raise ValueError(f"numbers are the last inputs, floats or ints: wanted {self.inputs}, got {guard}")
        step = self.new_step(guard)
        step.kind, step.slot, step.value = CHECK_NUMBER, slot, self.hold(guard.value)
        self.number_slots.append(slot)
        self.number_count += 1
        self.inputs += 1
        return 0

    cdef int add_tensor(self, guard, int slot) except -1:
        cdef TensorBase t = guard.value
        cdef TensorCheck* larger = <TensorCheck*>realloc(self.tensors, (self.tensor_count + 1) * sizeof(TensorCheck))
        cdef TensorCheck* check
        cdef Step* step
        cdef int d
        if larger == NULL:
            raise MemoryError
        self.tensors = larger
        if guard.index != self.tensor_count or self.number_count:
            raise ValueError(f"inputs are numbered as they are met: wanted {self.tensor_count}, got {guard.index} ({guard.source})")
        step = self.new_step(guard)
        step.kind, step.slot, step.index = CHECK_TENSOR, slot, self.tensor_count
        check = &self.tensors[self.tensor_count]
        memset(check, 0, sizeof(TensorCheck))
        check.slot, check.code, check.rank, check.cls = slot, t.code, t.rank, self.hold(type(t))
        check.requires, check.leaf = wants_grad(t), t.fn is None
        check.inference, check.writable, check.silent = t.storage.inference, t.storage.writable, t.silent
        check.place = self.hold(t.storage.on)
        check.sizes = <int64_t*>calloc(2 * t.rank + 1, sizeof(int64_t))
        if check.sizes == NULL:
            raise MemoryError
        for d in range(t.rank):
            check.sizes[d], check.sizes[t.rank + d] = t.sizes[d], t.strides[d]
        check.last = span(t.rank, t.sizes, t.strides)
        check.shares = -1
        met = self.memories.setdefault(t.storage, (self.tensor_count, t.offset))
        if met[0] != self.tensor_count:
            check.shares, check.offset = met[0], t.offset - <int64_t>met[1]
        self.tensor_count += 1
        self.inputs += 1
        return 0

    # --- checking ------------------------------
    cdef int run(self, PyObject** args, Py_ssize_t nargs, PyObject* names, PyObject** values, PyObject** tensors) noexcept:
        """-1 where all hold, with the tensors in `found`; else the number of the first step that fails.

        `values` has room for the slots, whose attributes `release` gives back.
        """
        cdef Step* step
        cdef PyObject* x
        cdef PyObject* key
        cdef Py_ssize_t k, at
        cdef PyObject* operands[2]
        cdef int n, d
        cdef TensorBase t
        cdef TensorCheck* check
        cdef int64_t* sizes
        global checks
        for n in range(self.slots):
            values[n] = NULL
        for n in range(self.count):
            step = &self.steps[n]
            if step.kind <= FIND_COMPUTED:
                x = NULL
                if step.kind == FIND_ARGUMENT:
                    if step.index < nargs:
                        x = args[step.index]
                elif step.kind == FIND_OBJECT:
                    x = step.value
                elif step.kind == FIND_ITEM:
                    x = values[step.of]
                    if PyDict_Check(x):
                        x = PyDict_GetItemWithError(x, step.value)
                        if x == NULL:
                            PyErr_Clear()
                    elif PyTuple_Check(x):
                        x = PyTuple_GET_ITEM(x, step.index) if 0 <= step.index < PyTuple_GET_SIZE(x) else NULL
                    elif PyList_Check(x):
                        x = PyList_GET_ITEM(x, step.index) if 0 <= step.index < PyList_GET_SIZE(x) else NULL
                    else:
                        x = NULL
                elif step.kind == FIND_NAMESPACE:
                    x = PyObject_GenericGetDict(values[step.of], NULL)
                    if x == NULL:
                        PyErr_Clear()
                    else:
                        Py_DECREF(<object>x)      # the instance holds it
                elif step.kind == FIND_KEYWORD:
                    if names != NULL:
                        for k in range(PyTuple_GET_SIZE(names)):
                            if flambeau_same_text(PyTuple_GET_ITEM(names, k), step.value):
                                x = args[nargs + k]
                                break
                elif step.kind == FIND_ATTRIBUTE:
                    x = PyObject_GetAttr(values[step.of], step.value)
                    if x == NULL:
                        PyErr_Clear()
                elif step.kind == FIND_COMPUTED:
                    if step.of >= 0:
                        operands[0] = values[step.of]
                    if step.index >= 0:
                        operands[1] = values[step.index]
                    x = RawVectorcall(step.value, operands, (step.of >= 0) + (step.index >= 0), NULL)
                    if x == NULL:
                        PyErr_Clear()
                else:
                    x = PyCell_GET(values[step.of]) if PyCell_Check(values[step.of]) else NULL
                if x == NULL:
                    return n
                values[step.slot] = x
                continue
            x = values[step.slot]
            if step.kind == CHECK_IS:
                if x != step.value:
                    return n
            elif step.kind == CHECK_CLASS:
                if <PyObject*>x.ob_type != step.value or (step.version and flambeau_version_of(<PyTypeObject*>step.value) != step.version):
                    return n
            elif step.kind == CHECK_EQUALS:
                if x != step.value and not equal(x, step.value):
                    return n
            elif step.kind == CHECK_TENSOR:
                check = &self.tensors[step.index]
                if <PyObject*>x.ob_type != check.cls:
                    return n
                t = <TensorBase>x
                if t.code != check.code or t.rank != check.rank or t.silent != check.silent or <PyObject*>t.storage.on != check.place:
                    return n
                sizes = check.sizes
                for d in range(t.rank):
                    if t.sizes[d] != sizes[d] or t.strides[d] != sizes[check.rank + d]:
                        return n
                if t.storage.inference != check.inference or t.storage.writable != check.writable:
                    return n
                if t.base is not None and t.fn_version != t.storage.version:
                    try:
                        wants_grad(t)
                    except BaseException:
                        return n
                if t.requires != check.requires or (t.fn is None) != check.leaf:
                    return n
                if t.offset + check.last > <int64_t>(t.storage.length // t.width):
                    return n      # it has been shrunk under the tensor
            elif step.kind == CHECK_LENGTH:
                if PyList_Check(x):
                    if PyList_GET_SIZE(x) != step.index:
                        return n
                elif not PyTuple_Check(x) or PyTuple_GET_SIZE(x) != step.index:
                    return n
            elif step.kind == CHECK_KEYS:
                if not PyDict_Check(x) or PyDict_Size(x) != PyTuple_GET_SIZE(step.value):
                    return n
                k = at = 0
                while PyDict_Next(x, &at, &key, NULL):
                    if not equal(key, PyTuple_GET_ITEM(step.value, k)):
                        return n
                    k += 1
            elif step.kind == CHECK_LACKS:
                if not PyDict_Check(x) or PyDict_GetItemWithError(x, step.value) != NULL:
                    return n
                if PyErr_Occurred() != NULL:
                    PyErr_Clear()
                    return n
            elif step.kind == CHECK_NUMBER:
                if <PyObject*>x.ob_type != step.value:
                    return n
                if not PyFloat_CheckExact(x):
                    PyLong_AsLongLongAndOverflow(x, &d)
                    if d:
                        return n
            elif step.kind == CHECK_SAME:
                if x != values[step.of]:
                    return n
            elif step.kind == CHECK_COUNT:
                if nargs != step.index:
                    return n
            elif step.kind == CHECK_NAMES:
                at = PyTuple_GET_SIZE(step.value) if step.value != NULL else step.index
                if (0 if names == NULL else PyTuple_GET_SIZE(names)) != at:
                    return n
                if step.value != NULL:
                    for k in range(at):
                        if not flambeau_same_text(PyTuple_GET_ITEM(names, k), PyTuple_GET_ITEM(step.value, k)):
                            return n
            elif step.kind == CHECK_NO_KEYWORD:
                if names != NULL:
                    for k in range(PyTuple_GET_SIZE(names)):
                        if flambeau_same_text(PyTuple_GET_ITEM(names, k), step.value):
                            return n
        # Memory that inputs share: in one go, when nothing of Python's can come between.
        checks += 1
        for n in range(self.tensor_count):
            check = &self.tensors[n]
            t = <TensorBase>values[check.slot]
            if check.shares < 0:
                if t.storage.met == checks:
                    return self.step_of_tensor(n)
                t.storage.met = checks
            elif (t.storage is not (<TensorBase>tensors[check.shares]).storage
                  or t.offset - (<TensorBase>tensors[check.shares]).offset != check.offset):
                return self.step_of_tensor(n)
            tensors[n] = <PyObject*>t
        return -1

    cdef int step_of_tensor(self, int number) noexcept:
        cdef int n
        for n in range(self.count):
            if self.steps[n].kind == CHECK_TENSOR and self.steps[n].index == number:
                return n
        return 0

    cdef void release(self, PyObject** values) noexcept:
        """Give back what the check owns."""
        for slot in self.attributes:
            Py_XDECREF(values[<int>slot])
            values[<int>slot] = NULL

    cdef object checked(self, tuple args, dict kwargs, bint explained):
        cdef PyObject** values = <PyObject**>alloca((self.slots + 1) * sizeof(PyObject*))
        cdef PyObject** result = <PyObject**>alloca((self.tensor_count + 1) * sizeof(PyObject*))
        cdef list given = [*args, *kwargs.values()]
        cdef tuple names = tuple(kwargs)
        cdef PyObject** pointers = <PyObject**>alloca((len(given) + 1) * sizeof(PyObject*))
        cdef int k, failed
        for k in range(len(given)):
            pointers[k] = PyList_GET_ITEM(<PyObject*>given, k)
        failed = self.run(pointers, len(args), <PyObject*>names if names else NULL, values, result)
        try:
            if explained:
                return None if failed < 0 else (self.origins[failed], self.words(failed, values, len(args), names))
            return [<object>result[k] for k in range(self.tensor_count)] if failed < 0 else None
        finally:
            self.release(values)

    def check(self, tuple args not None, dict kwargs not None):
        """The tensors of the inputs, in their order; None where a guard fails."""
        return self.checked(args, kwargs, False)

    def explain(self, tuple args not None, dict kwargs not None):
        """Which guard fails first, in words; None where all hold."""
        return self.first_failing(args, kwargs)[1]

    def __len__(self):
        return self.count

    def first_failing(self, tuple args not None, dict kwargs not None):
        """The guard that fails first (or the source that leads nowhere), and why in words; (None, None) where all hold."""
        return self.checked(args, kwargs, True) or (None, None)

    # --- words ------------------------------
    cdef str words(self, int number, PyObject** values, Py_ssize_t nargs, tuple names):
        cdef Step* step = &self.steps[number]
        origin = self.origins[number]
        if step.kind == CHECK_COUNT:
            return f"{nargs} positional arguments, captured with {step.index}"
        if step.kind == CHECK_NAMES:
            return f"keyword arguments {list(names)}, captured with {list(origin.value) if step.value != NULL else step.index}"
        if step.kind == CHECK_NO_KEYWORD:
            return f"keyword argument {origin.value!r}, captured without"
        if step.kind == FIND_COMPUTED:
            return f"{origin}: cannot be computed"
        if step.kind <= FIND_CONTENTS:
            return f"{origin}: is not there any more"
        value = <object>values[step.slot]
        name = f"{origin.source}"
        if step.kind == CHECK_TENSOR:
            return f"{name}: {self.tensor_words(<int>step.index, value)}"
        if step.kind == CHECK_CLASS:
            if type(value) is origin.value:
                return f"{name}: class {origin.value.__qualname__} has been changed"
            return f"{name}: of class {type(value).__qualname__}, captured with {origin.value.__qualname__}"
        if step.kind == CHECK_LENGTH:
            if not isinstance(value, (list, tuple)):
                return f"{name}: of class {type(value).__qualname__}, captured with a list or tuple"
            return f"{name}: {len(value)} items, captured with {step.index}"
        if step.kind == CHECK_KEYS:
            return f"{name}: {f'keys {list(value)}' if isinstance(value, dict) else type(value).__qualname__}, captured with keys {list(origin.value)}"
        if step.kind == CHECK_LACKS:
            return f"{name}: has {origin.value!r}, captured without"
        if step.kind == CHECK_SAME:
            return f"{name}: another object than {origin.other}, captured with one"
        if step.kind == CHECK_NUMBER:
            return f"{name}: {short(value)}, captured with {origin.value.__name__} of 64 bits"
        if step.kind == CHECK_IS and type(origin) is sources.Is:
            return f"{name}: another object ({short(value)}), captured with {short(origin.value)}"
        return f"{name}: {short(value)}, captured with {short(origin.value)}"

    cdef str tensor_words(self, int number, value):
        cdef TensorCheck* check = &self.tensors[number]
        cdef TensorBase t
        if (<PyObject*>value).ob_type != <PyTypeObject*>check.cls:
            return f"of class {type(value).__qualname__}, captured with {(<object>check.cls).__qualname__}"
        t = value
        sizes = [check.sizes[d] for d in range(check.rank)]
        strides = [check.sizes[check.rank + d] for d in range(check.rank)]
        if t.code != check.code:
            return f"{dtype_of(t.code)}, captured with {dtype_of(check.code)}"
        if [t.sizes[d] for d in range(t.rank)] != sizes:
            return f"shape {[t.sizes[d] for d in range(t.rank)]}, captured with {sizes}"
        if <PyObject*>t.storage.on != check.place:
            return f"on {value.device}, captured on {'cpu' if <object>check.place is None else (<Device>check.place).place}"
        if [t.strides[d] for d in range(t.rank)] != strides:
            return f"strides {[t.strides[d] for d in range(t.rank)]}, captured with {strides}"
        if t.requires != check.requires:
            return f"{'requires' if t.requires else 'does not require'} gradients, captured with one that {'does not' if t.requires else 'does'}"
        if (t.fn is None) != check.leaf:
            return f"{'a leaf' if t.fn is None else 'a result'} of the tape, captured with {'a result' if t.fn is None else 'a leaf'}"
        if t.storage.inference != check.inference:
            return f"made {'in' if t.storage.inference else 'outside of'} inference mode, captured otherwise"
        if t.storage.writable != check.writable:
            return f"memory that {'may' if t.storage.writable else 'may not'} be written to, captured otherwise"
        if t.silent != check.silent:
            return f"{'made' if t.silent else 'not made'} by .data, captured otherwise"
        if t.offset + check.last > <int64_t>(t.storage.length // t.width):
            return "its storage has become too small for it"
        return "shares memory with other inputs in another way than it was captured with"


cdef str short(value):
    """A value in a few words."""
    text = repr(value) if type(value) in (int, float, complex, bool, str, bytes, type(None), type(...), tuple, Size, slice, dtype, device) else ""
    if not text:
        text = getattr(value, "__qualname__", "") or f"a {type(value).__qualname__}"
    return text if len(text) <= 60 else text[:57] + "..."


def renewed(value):
    """A float or an int as an object that nobody else has.

    >>> from flambeau.graph.guards import renewed
    >>> one = 1
    >>> renewed(one) == one, renewed(one) is one
    (True, False)
    """
    if type(value) is float:
        return PyFloat_FromDouble(value)
    if type(value) is int:
        return flambeau_int_of_its_own(value, value.bit_length())
    raise TypeError(f"renewed(): a float or an int expected, got {type(value).__name__}")
