# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Tensors that wrap others: a shape, a dtype, a device and a history, and `__torch_dispatch__` of their class for operations.

The tape is above them.  A wrapper lies over a storage of the device `meta`.  An operation that is recorded runs twice: on shadows of its
arguments, plain tensors over those storages, which leaves its node, shapes and versions; and in the class's `__torch_dispatch__`, whose
results take over the histories of the first.  What the node has saved are shadows, too: in backward, whoever calls an operation with one
is given the wrapper (or the plain tensor) again, made of what its storage knows of it.
"""
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint64_t
from ..base.device cimport Device, find_device
from ..base.dtypes cimport CATEGORY, dtype
from ..base.memory cimport new_storage_on
from ..base.sizes cimport product_of
from ..base.tensor cimport MAX_DIMS, TENSOR, TensorBase, alias, bump_version, find_contiguous, new_object, parse_sizes, set_rank
from ..tape.formulas import record
from ..tape.history cimport attach
from ..tape.modes cimport grad_enabled, set_grad, wants_grad
from ..tape.nodes cimport identity_node
from .operation cimport Op
from .interceptors import disable_overrides, set_wrapper_dispatch


cdef class TensorInfo:
    """What the storage of a wrapper, or of a shadow, knows of the tensor."""

    cdef readonly object device
    cdef type cls             # None for a plain tensor's shadow
    cdef dict state, slots    # of the wrapper
    cdef tuple sizes, strides
    cdef int64_t offset
    cdef TensorBase plain     # without history
    cdef uint64_t version     # of the plain tensor's storage, when it was saved


cdef bint dispatches(object cls):
    return getattr(cls, "__torch_dispatch__", None) is not None


cdef bint is_wrapper(TensorBase t):
    return (<PyObject*>t).ob_type != TENSOR and isinstance(t.storage.owner, TensorInfo) and dispatches(type(t))


def is_wrapping(TensorBase t) -> bool:
    """Whether it is a wrapper."""
    return is_wrapper(t)


cdef bint is_shadow(TensorBase t):
    return (<PyObject*>t).ob_type == TENSOR and t.storage.on is not None and t.storage.on.blank and isinstance(t.storage.owner, TensorInfo)


def make(cls, size, strides, int64_t offset, dtype of, device, storage_bytes) -> TensorBase:
    """A wrapper of that class and geometry; see `Tensor._make_wrapper_subclass`."""
    cdef TensorBase t = new_object()
    cdef int64_t sizes[MAX_DIMS]
    cdef int rank = parse_sizes(size, sizes, "_make_wrapper_subclass"), d
    cdef int64_t last = offset
    cdef TensorInfo info = TensorInfo.__new__(TensorInfo)
    if len(strides) != rank:
        raise ValueError(f"_make_wrapper_subclass(): {rank} sizes and {len(strides)} strides")
    set_rank(t, rank)
    for d in range(rank):
        t.sizes[d], t.strides[d] = sizes[d], strides[d]
        last += (sizes[d] - 1) * t.strides[d] if sizes[d] else 0
    if product_of(rank, sizes, &t.count):
        raise RuntimeError(f"_make_wrapper_subclass(): a tensor of shape {tuple(size)} has more elements than 64 bits count")
    t.code, t.width, t.offset = of.code, of.itemsize, offset
    find_contiguous(t)
    if storage_bytes is None:
        storage_bytes = (last + 1) * t.width if t.count else 0
    t.storage = new_storage_on(find_device("meta", None), storage_bytes)
    info.device = device
    t.storage.owner = info
    return TensorBase._make_subclass(cls, t)


def slots_of(t) -> dict:
    """What stands in `__slots__` of the classes that programs wrote."""
    cdef dict result = {}
    for cls in type(t).__mro__:
        names = vars(cls).get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            if name not in ("__dict__", "__weakref__") and hasattr(t, name):
                result[name] = getattr(t, name)
    return result


cdef TensorInfo info_of(TensorBase t):
    """What a storage is to know of a wrapper, or of a plain tensor."""
    cdef TensorInfo result = TensorInfo.__new__(TensorInfo)
    if is_wrapper(t):
        result.device = (<TensorInfo>t.storage.owner).device
        result.cls, result.state, result.slots = type(t), dict(vars(t)), slots_of(t)
        result.sizes, result.strides, result.offset = tuple(t.shape), t.stride(), t.offset
    else:
        result.device = t.device
        result.plain, result.version = alias(t, t.rank, t.sizes, t.strides, t.offset), t.storage.version
    return result


cdef TensorBase shadow_of(TensorBase t):
    """A tensor without data in t's place: over a wrapper's own storage, with t's history."""
    cdef TensorBase result = alias(t, t.rank, t.sizes, t.strides, t.offset)
    if not is_wrapper(t):
        result.storage = new_storage_on(find_device("meta", None), t.storage.length)
    result.storage.owner = info_of(t)
    if wants_grad(t):
        result.fn = t.grad_fn_now()
        if result.fn is None:
            result.fn = identity_node(t)
        else:
            result.output_number = t.output_number
        result.requires, result.fn_version = True, result.storage.version
    return result


cdef TensorBase wrapper_of(TensorBase t, TensorInfo info):
    """The wrapper that a storage tells of, over that storage."""
    cdef int64_t sizes[MAX_DIMS]
    cdef int64_t strides[MAX_DIMS]
    cdef int d, rank = <int>len(info.sizes)
    for d in range(rank):
        sizes[d], strides[d] = info.sizes[d], info.strides[d]
    result = TensorBase._make_subclass(info.cls, alias(t, rank, sizes, strides, info.offset))
    vars(result).update(info.state)
    for name, value in info.slots.items():
        setattr(result, name, value)
    return result


cdef TensorBase unshadowed(TensorBase t):
    """The tensor whose shadow t is, with t's history."""
    cdef TensorInfo info = <TensorInfo>t.storage.owner
    cdef TensorBase result
    cdef bint before = grad_enabled()
    if info.cls is None:
        result = info.plain
        if result is None:
            raise RuntimeError(f"dispatch: what stands for a tensor of shape {list(t.shape)} is not known")
        if result.storage.version != info.version:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace operation: "
                f"[{result.dtype} {list(result.shape)}]. Hint: clone() the tensor before changing it.")
        result = alias(result, t.rank, t.sizes, t.strides, t.offset)
    else:
        result = wrapper_of(t, info)
        if tuple(t.shape) != info.sizes or t.stride() != info.strides or t.offset != info.offset:
            set_grad(False)      # a view that was made inside of an operation
            try:
                result = (<object>result).as_strided(tuple(t.shape), t.stride(), t.offset)
            finally:
                set_grad(before)
    if t.requires:
        result.fn, result.output_number, result.requires, result.fn_version = t.fn, t.output_number, True, result.storage.version
    return result


cdef enum:
    NESTED = 4        # how deep in arguments tensors are looked for: a list may hold itself


cdef object mapped(object function, object x, int deep=NESTED):
    """The tensors of an argument, or of a list, replaced."""
    if isinstance(x, TensorBase):
        return function(x)
    if deep == 0:
        return x
    if type(x) is list:
        return [mapped(function, y, deep - 1) for y in x]
    if isinstance(x, tuple):
        made = [mapped(function, y, deep - 1) for y in x]
        return type(x)(*made) if hasattr(x, "_fields") else tuple(made)
    if type(x) is dict:
        return {key: mapped(function, y, deep - 1) for key, y in x.items()}
    return x


cdef int collect_tensors(object x, list result, int deep=NESTED) except -1:
    """The tensors of an argument."""
    if isinstance(x, TensorBase):
        result.append(x)
    elif deep == 0:
        return 0
    elif isinstance(x, (list, tuple)):
        for y in x:
            collect_tensors(y, result, deep - 1)
    elif type(x) is dict:
        for y in x.values():
            collect_tensors(y, result, deep - 1)
    return 0


def holds_wrapper(object x, int deep=NESTED) -> bool:
    """Whether it is a wrapper or a shadow, or holds one."""
    if isinstance(x, TensorBase):
        return is_wrapper(<TensorBase>x) or is_shadow(<TensorBase>x) or (
            (<PyObject*>x).ob_type != TENSOR and dispatches(type(x)))
    if deep and isinstance(x, (list, tuple)):
        for y in x:
            if holds_wrapper(y, deep - 1):
                return True
    return False


cdef int inside = 0               # operations run on shadows: under Python's lock, and never handed over


def is_enabled() -> bool:
    """Whether operations are handed to classes now: not while one runs on shadows."""
    return inside == 0


cdef object on_shadows(Op op, tuple args, dict named, dict shadows):
    """The operation on shadows: its results, their history and versions; None where it needs elements."""
    global inside

    def shadow(t):
        if id(t) not in shadows:
            shadows[id(t)] = shadow_of(<TensorBase>t)
        return shadows[id(t)]

    args, named = mapped(shadow, args), mapped(shadow, named)
    inside += 1
    disable_overrides(1)
    try:
        return op(*args, **named)
    except Exception:           # the class says what is wrong with the call
        return None
    finally:
        disable_overrides(-1)
        inside -= 1


cdef object no_derivative(str name):
    def refused(grads):
        raise NotImplementedError(f"{name}(): the derivative needs elements, which a wrapper has not; it is not available for wrapper "
                                  "subclasses")
    return refused


cdef int take(TensorBase result, TensorBase shadow_result, list given, set storages) except -1:
    """A result gets the history that the shadows' result has, and is what that one stands for."""
    if any([result is t for t in given]):
        return 0
    if id(shadow_result.storage) not in storages:  # no view of an argument
        if is_wrapper(result):
            (<TensorInfo?>result.storage.owner)
            shadow_result.storage.owner = info_of(result)
            shadow_result.storage.length = result.storage.length
            result.storage = shadow_result.storage
        else:
            shadow_result.storage.owner = info_of(result)
    if shadow_result.requires and shadow_result.fn is not None:
        attach(result, shadow_result.fn, shadow_result.output_number)
    return 0


cdef object call_torch_dispatch(Op op, list given, tuple args, dict named):
    """The result of `__torch_dispatch__`, of subclasses before the classes they are of."""
    cdef list classes = []
    for t in given:
        cls = type(t)
        if not dispatches(cls) or cls in classes:
            continue
        places = [k for k, other in enumerate(classes) if issubclass(cls, other)]
        classes.insert(places[0] if places else len(classes), cls)
    for cls in classes:
        result = cls.__torch_dispatch__(op, tuple(classes), args, named)
        if result is not NotImplemented:
            return result
    raise TypeError(f"Multiple dispatch failed for '{op.__name__}'; all __torch_dispatch__ handlers returned NotImplemented:\n\n"
                    + "".join([f"  - tensor subclass {cls!r}\n" for cls in classes]))


cdef dict decompositions = {}     # operation -> what it is made of, for wrappers


def set_decomposition(op, parts) -> None:
    """What an operation is made of where it meets a wrapper, as PyTorch's composites are taken apart before classes see them."""
    decompositions[op] = parts


def dispatch_wrappers(Op op, tuple args, dict named):
    """The operation's result where a wrapper is among the arguments."""
    cdef list given = [], results = [], shadow_results = []
    cdef dict shadows = {}
    cdef bint tracked, in_place
    cdef bint before = grad_enabled()

    def real(t):
        return unshadowed(<TensorBase>t) if is_shadow(<TensorBase>t) else t

    args, named = mapped(real, args), mapped(real, named)
    name = op.__name__
    if name in ("numpy", "tolist"):
        raise RuntimeError(f".{name}() is not supported for tensor subclasses.")
    collect_tensors(args, given)
    collect_tensors(named, given)
    if not any([dispatches(type(t)) for t in given]):      # shadows of plain tensors alone
        return op(*args, **named)
    for t in given:
        if is_wrapper(<TensorBase>t):
            (<TensorBase>t).storage.owner = info_of(<TensorBase>t)
    parts = decompositions.get(op) or getattr(op, "composite", None)
    if parts is not None and name != "derivative":     # formulas of derivatives compute with more than operations
        return parts(*args, **named)
    for t in given:
        if (<PyObject*>t).ob_type == TENSOR and (<TensorBase>t).storage.on is not None and (<TensorBase>t).storage.on.blank and any(
                [t.device != x.device for x in given]):
            raise NotImplementedError(f"{op.__name__}(): an operation has kept something beside its arguments and results for its "
                                      "derivative, which is not known of wrapper subclasses")
    in_place = op.writes
    tracked = before and any([wants_grad(<TensorBase>t) for t in given])
    if in_place and tracked and given and wants_grad(<TensorBase>given[0]) and (<TensorBase>given[0]).grad_fn_now() is None:
        raise RuntimeError(f"{name}(): a leaf Variable that requires grad is being used in an in-place operation.")
    found_below = on_shadows(op, args, named, shadows) if tracked else None
    storages = {id((<TensorBase>t).storage) for t in shadows.values()}
    set_grad(False)
    try:
        try:
            result = call_torch_dispatch(op, given, args, named)
        except NotImplementedError:
            if parts is None:
                raise
            result = parts(*args, **named)
    finally:
        set_grad(before)
    if in_place:
        written = <TensorBase>given[0]
        if not tracked:
            bump_version(written)
        elif id(written) in shadows:
            shadow = <TensorBase>shadows[id(written)]
            if shadow.requires:
                attach(written, shadow.fn, shadow.output_number)
        return None if name == "__setitem__" else written
    if not tracked:
        return result
    collect_tensors(result, results)
    collect_tensors(found_below, shadow_results)
    if len(results) == len(shadow_results):
        for t, below in zip(results, shadow_results):
            take(<TensorBase>t, <TensorBase>below, given, storages)
    else:
        for t in results:
            if CATEGORY[(<TensorBase>t).code] >= 2 and not any([t is x for x in given]):
                record(f"{name}Backward", no_derivative(name), tuple(given), t)
    return result


set_wrapper_dispatch(dispatch_wrappers, holds_wrapper, is_enabled)
