# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, binding=False, embedsignature=True, embedsignature.format=clinic
"""Random numbers: their generators, of which each device has one of its own.

Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011) turns a key
and a counter into four random words.  A generator is a key, its seed, and the next counter.  Whoever needs
words reserves counters: element i of an operation that has reserved from `offset` on is word i % 4 of counter
offset + i // 4, on every device and for any number of threads.

A generator of the host may draw PyTorch's stream instead (`twister.h`, `backends.random`), whose numbers are made one after
another by `mt19937.pyx`.  Whoever reserves counters of such a one gets a Philox stream whose key is its next 64 bits.
"""
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy
from libc.stdint cimport int64_t, int32_t, uint8_t, uint16_t, uint32_t, uint64_t
from cpython.object cimport PyObject
from ..base import display, settings
from ..base.dtypes cimport (
    BOOL, U8, U16, U32, U64, I8, I16, I32, I64, F16, BF16, F32, F64, CATEGORY, ITEMSIZE, dtype_of, is_stored,
)
from ..base.device cimport Device, device_for, find_device
from ..base.memory cimport scratch
from ..base.dtypes import cpu_device, device
from ..base.tensor cimport TensorBase, new_tensor, pointer, as_int
from .elements cimport Value, store, check_fits
from .factory cimport Factory, Options, factory, bind, resolve, check_requires, finish, unfilled, where
from ..call.operation cimport Op
import os


# --- Philox -------------------------------------------------------------------
cdef inline void philox_words(uint64_t key, uint64_t low, uint64_t high, uint32_t* out) noexcept nogil:
    """Ten rounds over the 128-bit counter (low, high)."""
    cdef uint32_t c0 = <uint32_t>low, c1 = <uint32_t>(low >> 32)
    cdef uint32_t c2 = <uint32_t>high, c3 = <uint32_t>(high >> 32)
    cdef uint32_t k0 = <uint32_t>key, k1 = <uint32_t>(key >> 32)
    cdef uint64_t p0, p1
    cdef int r
    for r in range(10):
        p0 = <uint64_t>c0 * <uint64_t>0xD2511F53
        p1 = <uint64_t>c2 * <uint64_t>0xCD9E8D57
        c0, c2 = <uint32_t>(p1 >> 32) ^ c1 ^ k0, <uint32_t>(p0 >> 32) ^ c3 ^ k1
        c1, c3 = <uint32_t>p1, <uint32_t>p0
        k0, k1 = k0 + <uint32_t>0x9E3779B9, k1 + <uint32_t>0xBB67AE85
    out[0], out[1], out[2], out[3] = c0, c1, c2, c3


cdef void philox(uint64_t key, uint64_t counter, uint32_t* out) noexcept nogil:
    """The four words of a counter."""
    philox_words(key, counter, 0, out)


def _philox(key: int, counter: int) -> tuple:
    """The four words that Philox4x32-10 makes of a 64-bit key and a 128-bit counter."""
    cdef uint32_t out[4]
    philox_words(key, counter & 0xFFFFFFFFFFFFFFFF, counter >> 64, out)
    return out[0], out[1], out[2], out[3]


# --- generators ---------------------------------------------------------------
cdef uint64_t read_seed(object seed, str who) except? 0:
    """64 bits; a negative seed counts from 2**64 down.  RuntimeError beyond."""
    seed = int(seed)
    if seed < -(1 << 63) or seed >= 1 << 64:
        raise RuntimeError(f"{who}(): a seed must lie in [-2**63, 2**64 - 1], got {seed}")
    return seed & 0xFFFFFFFFFFFFFFFF


cdef class Generator:
    """A stream of random numbers for one type of device: a seed and how far it has been used.

    Draws of the same shapes and dtypes after the same seed are the same.

    RuntimeError for a device that is not there, and for "meta", which has no numbers.

    >>> import flambeau
    >>> g = flambeau.Generator().manual_seed(3)
    >>> g.initial_seed()
    3
    """

    def __init__(self, device="cpu"):
        cdef Device result = device_for(device, "Generator")
        if result is not None and result.blank:
            raise RuntimeError(f"Generator(): {result.place} has no numbers to draw")
        self.place = cpu_device if result is None else result.place
        begin(self, mt19937_stream and result is None)
        start(self, 67280421310721)

    def __dealloc__(self):
        free(self.twister)

    @property
    def device(self):
        """The device that it was made for; it draws on those of this type.  Philox numbers come from the seed and the counter alone:
        generators of any devices with one seed draw the same ones.
        """
        return self.place

    def manual_seed(self, seed) -> Generator:
        """Start the stream of that seed; returns the generator.  RuntimeError for a seed beyond 64 bits, and for another seed than its
        own while a CUDA graph captures what it draws.
        """
        restart(self, read_seed(seed, "manual_seed"), "manual_seed")
        return self

    def seed(self) -> int:
        """Start a stream that nobody can foresee; returns its seed."""
        restart(self, int.from_bytes(os.urandom(8), "little"), "seed")
        return self.key

    def initial_seed(self) -> int:
        """The seed."""
        return self.key

    def get_offset(self) -> int:
        """How many counters, of four words each, have been used.  RuntimeError for a generator of PyTorch's stream, which has none."""
        self.refuse_offset("get_offset")
        return self.offset

    def set_offset(self, offset) -> Generator:
        """Continue behind that many counters; returns the generator.  RuntimeError unless it is in [0, 2**64 - 1], and for a
        generator of PyTorch's stream, which has no counters.
        """
        self.refuse_offset("set_offset")
        given = int(offset)
        if not 0 <= given < 1 << 64:
            raise RuntimeError(f"set_offset(): offset must lie in [0, 2**64 - 1], got {given}")
        self.offset = given
        return self

    cdef int refuse_offset(self, str who) except -1:
        if self.mt19937:
            raise RuntimeError(f"{who}(): a CPU generator of PyTorch's stream does not use offset")
        return self.refuse_captured(who)

    cdef int refuse_captured(self, str who) except -1:
        if self.captured is not None:
            raise RuntimeError(f"{who}(): cannot be called during CUDA graph capture, as the offset is only known at a replay")
        return 0

    def get_state(self):
        """A uint8 tensor: of 16 bytes, the seed and the counters used, both little-endian; of 5056 bytes for PyTorch's stream, laid
        out as PyTorch does it.
        """
        cdef int64_t n = FLAMBEAU_TWISTER_BYTES if self.mt19937 else 16
        cdef TensorBase t = new_tensor(1, &n, U8)
        cdef int k
        self.refuse_captured("get_state")
        if self.mt19937:
            hold(self)
            flambeau_twister_write(self.twister, t.storage.data)
            flambeau_twister_release(self.twister)
            return t
        for k in range(8):
            t.storage.data[k] = <char>(self.key >> 8 * k)
            t.storage.data[8 + k] = <char>(self.offset >> 8 * k)
        return t

    def set_state(self, new_state) -> Generator:
        """Continue where `get_state` was called, here or, for 5056 bytes, in PyTorch: the generator draws the stream that the state
        is of.  TypeError unless it is a uint8 tensor, RuntimeError unless it is such a state.
        """
        cdef TensorBase t
        cdef uint64_t parts[2]
        cdef char state[FLAMBEAU_TWISTER_BYTES]
        cdef int k
        cdef bint mt19937
        self.refuse_captured("set_state")
        if not isinstance(new_state, TensorBase) or (<TensorBase>new_state).code != U8:
            given = new_state.dtype if isinstance(new_state, TensorBase) else type(new_state).__name__
            raise TypeError(f"set_state(): RNG state must be a uint8 Tensor, got {given}")
        t = <TensorBase>new_state
        mt19937 = t.count == FLAMBEAU_TWISTER_BYTES and self.place.type == "cpu"
        if t.count != 16 and not mt19937 or t.rank != 1:
            raise RuntimeError("set_state(): an RNG state has shape [16]"
                               f"{', or [5056] for the stream of PyTorch' if self.place.type == 'cpu' else ''}, got {list(t.shape)}")
        if mt19937:
            for k in range(FLAMBEAU_TWISTER_BYTES):
                state[k] = pointer(t)[k * t.strides[0]]
            self.read(state)
            return self
        parts[0] = parts[1] = 0
        for k in range(16):
            parts[k // 8] |= <uint64_t>(<uint8_t*>pointer(t))[k * t.strides[0]] << 8 * (k % 8)
        begin(self, False)
        self.key, self.offset = parts[0], parts[1]
        return self

    cdef int read(self, const char* state) except -1:
        """Continue PyTorch's stream; a state that is none leaves the generator as it was."""
        cdef flambeau_twister result
        if not flambeau_twister_read(&result, state):
            raise RuntimeError("set_state(): Invalid mt19937 state")
        begin(self, True)
        hold(self)
        flambeau_twister_read(self.twister, state)
        flambeau_twister_release(self.twister)
        self.key, self.offset = self.twister.seed, 0
        return 0

    def clone_state(self) -> Generator:
        """Another generator that continues the same stream."""
        return _generator_at(*self.__reduce__()[1])

    def __reduce__(self):
        if self.mt19937:
            return (_generator_at, (self.key, 0, self.place, bytes(self.get_state().untyped_storage())))
        return (_generator_at, (self.key, self.offset, self.place))

    def __repr__(self):
        if self.mt19937:
            return f"<{display.public('Generator')} seed={self.key} stream='pytorch'>"
        return f"<{display.public('Generator')} seed={self.key} offset={self.offset}>"


cdef bint mt19937_stream = False     # whether generators of the host that are made from now on draw PyTorch's stream
flambeau_twister_prepare()


cdef int begin(Generator g, bint mt19937) except -1:
    """Let a generator draw one stream or the other; what it draws is to be said then."""
    if mt19937 and g.twister == NULL:
        g.twister = <flambeau_twister*>calloc(1, sizeof(flambeau_twister))
        if g.twister == NULL:
            raise MemoryError()
    g.mt19937 = mt19937
    return 0


cdef void start(Generator g, uint64_t seed) noexcept:
    g.key, g.offset = seed, 0
    if g.mt19937:
        hold(g)
        flambeau_twister_seed(g.twister, seed)
        flambeau_twister_release(g.twister)


cdef int restart(Generator g, uint64_t seed, str who) except -1:
    if g.captured is None:
        start(g, seed)
    elif seed != g.key:
        raise RuntimeError(f"{who}(): a generator that a CUDA graph captures can only be given its own seed {g.key}, got {seed}")
    return 0


cdef void hold(Generator g) noexcept:
    """Wait until no other thread draws PyTorch's stream from it."""
    if not flambeau_twister_try_hold(g.twister):
        with nogil:
            flambeau_twister_hold(g.twister)


def _generator_at(key: int, offset: int, place, state: bytes = None) -> Generator:
    cdef Generator g = Generator(place)
    if state is None:
        begin(g, False)
        g.key, g.offset = key, offset
    elif len(state) != FLAMBEAU_TWISTER_BYTES:
        raise RuntimeError(f"an RNG state of PyTorch's stream has {FLAMBEAU_TWISTER_BYTES} bytes, got {len(state)}")
    else:
        g.read(<const char*><bytes>state)
    return g


def get_stream() -> str:
    """"philox" or "pytorch": what generators of the host that are made now draw."""
    return "pytorch" if mt19937_stream else "philox"


def set_stream(str name not None) -> None:
    """Let generators of the host that are made from now on draw that stream, and the default one begin it with its seed; a generator
    that was made before goes on with its own.  ValueError for another name.
    """
    global mt19937_stream
    if name not in ("philox", "pytorch"):
        raise ValueError(f"backends.random.stream must be 'philox' or 'pytorch', got {name!r}")
    mt19937_stream = name == "pytorch"
    if mt19937_stream != the_default.mt19937:
        begin(the_default, mt19937_stream)
        start(the_default, the_default.key)


# --- those that draw where no other is given: one of the host's, one for each device ---
mt19937_stream = settings.choice("FLAMBEAU_RANDOM", ("philox", "pytorch")) == "pytorch"
cdef Generator the_default = Generator()
default_generator = the_default
default_generator.seed()
cdef dict defaults = {}       # device, with its index -> its Generator, from the first draw or seed on
cdef dict first_seeds = {}    # type of device -> the seed of those that are not in `defaults` yet; None stands for all other types


cdef Generator default_of(object place):
    """The default generator of a device with an index; no driver is called for that."""
    cdef Generator g = defaults.get(place)
    if g is None:
        g = Generator.__new__(Generator)
        g.place = place
        seed = first_seeds.get(place.type, first_seeds.get(None))
        if seed is None:
            g.seed()
        else:
            g.manual_seed(seed)
        defaults[place] = g
    return g


def default_of_device(place) -> Generator:
    """The default generator of a device that has an index, or of the host."""
    return the_default if place.type == "cpu" else default_of(place)


def seed_devices(seed, type=None) -> None:
    """Start the streams of that seed on all devices of a type, or on all there are, the ones not used yet included."""
    cdef Generator g
    cdef uint64_t key = read_seed(seed, "manual_seed")
    if type is None:
        first_seeds.clear()
    first_seeds[type] = key
    for place, g in defaults.items():
        if type is None or place.type == type:
            restart(g, key, "manual_seed")


def device_states(type=None) -> dict:
    """The states of the devices' default generators (of one type, or all) by the devices' names, for `set_device_states`."""
    return {str(place): g.get_state() for place, g in defaults.items() if type is None or place.type == type}


def set_device_states(states, type=None) -> None:
    """Let the devices' default generators (of one type, or all) continue from those states; one that was first needed since
    then begins its stream again.
    """
    cdef Generator g
    for place, g in defaults.items():
        if type is None or place.type == type:
            g.offset = 0
    for name, state in states.items():
        default_of(device(name)).set_state(state)


cdef uint64_t reserve(Generator g, uint64_t counters, uint64_t* key) noexcept:
    """Take that many counters under a key; returns the first."""
    cdef uint64_t first = g.offset
    if g.mt19937:
        hold(g)
        key[0] = flambeau_twister_pair(g.twister)
        flambeau_twister_release(g.twister)
        return 0
    key[0] = g.key
    g.offset += counters
    return first


cdef Generator generator_for(object given, Device device, str who):
    """The generator to draw with on the host, for itself (None) or in a device's stead: the one given, else the device's own.  TypeError
    for what is no generator, RuntimeError for one of another type of device, and where a graph would hold the numbers.
    """
    if device is not None and device.capturing():
        raise RuntimeError(f"{who}(): Cannot draw random numbers on the host during CUDA graph capture: each replay would have the same "
                           "ones; draw before the capture, into a tensor that the graph reads")
    return wanted_generator(given, device, who)


cdef Generator wanted_generator(object given, Device device, str who):
    cdef str wanted = "cpu" if device is None else device.type
    if given is None:
        return the_default if device is None else default_of(device.place)
    if not isinstance(given, Generator):
        raise TypeError(f"{who}(): argument 'generator' must be {display.public('Generator')}, not "
                        f"{type(given).__name__}")
    if (<Generator>given).place.type != wanted:
        raise RuntimeError(f"{who}(): Expected a '{wanted}' device type for generator but found "
                           f"'{(<Generator>given).place.type}'")
    return <Generator>given


def generator_on(generator, place, str who) -> Generator:
    """The generator to draw with on a device, as `generator_for` says, for what is drawn on the host in the device's stead."""
    return generator_for(generator, device_for(place, who), who)


def _reserve(generator, uint64_t counters, TensorBase like=None) -> tuple:
    """Take counters of a generator, or of the default one of the device that `like` is on (None: the host): (seed, first
    counter).  RuntimeError for a generator of another type of device, and while a CUDA graph captures the device's stream.
    """
    cdef uint64_t key, first = reserve(
        generator_for(generator, None if like is None else like.storage.on, "_reserve"), counters, &key)
    return key, first


def _reserve_there(generator, uint64_t counters, TensorBase like not None, str who="_reserve") -> tuple:
    """The same for a kernel on the device of `like`, with a third value: None, but while a CUDA graph captures the device's stream a
    tensor of two int64 on it, which each replay fills: what is to be added to the seed and to the counter.  RuntimeError in a capture for
    a generator that the graph does not know.
    """
    cdef Generator g
    cdef uint64_t first
    if not like.storage.on.capturing():
        return *_reserve(wanted_generator(generator, like.storage.on, who), counters, like), None
    g = wanted_generator(generator, like.storage.on, who)
    if g.captured is None:
        raise RuntimeError("Cannot draw random numbers of this generator during CUDA graph capture: CUDAGraph.register_generator_state() "
                           "must be called with it before the capture")
    first = g.taken
    g.taken += counters
    return 0, first, g.captured


def begin_capture(Generator g not None, TensorBase state not None) -> None:
    """Let draws on a stream that is captured read the seed and the offset from `state`, two int64 on the device, which nothing else in the
    graph writes.  RuntimeError in another capture.
    """
    g.refuse_captured("CUDAGraph.capture_begin")
    g.captured, g.taken = state, 0


def end_capture(Generator g not None) -> tuple[TensorBase, int]:
    """Let the generator draw as before; the state, and how many counters a replay takes."""
    state, g.captured = g.captured, None
    return state, g.taken


def advance(Generator g not None, uint64_t counters) -> tuple[int, int]:
    """Take that many counters; the seed and the first of them."""
    cdef uint64_t key, first = reserve(g, counters, &key)
    return key, first


def manual_seed(seed) -> Generator:
    """Start the streams of that seed on the host and on every device; returns the host's generator.

    Draws of the same shapes and dtypes after the same seed are the same.

    Raises:
        RuntimeError: the seed is beyond 64 bits

    >>> import flambeau
    >>> _ = flambeau.manual_seed(5)
    >>> a = flambeau.rand(2)
    >>> _ = flambeau.manual_seed(5)
    >>> flambeau.equal(a, flambeau.rand(2))
    True
    """
    the_default.manual_seed(seed)
    seed_devices(seed)
    return the_default


def seed() -> int:
    """Give the host and every device a seed that nobody can foresee, and return it.

    `manual_seed` of it repeats draws of the same shapes.

    >>> import flambeau
    >>> flambeau.seed() == flambeau.initial_seed()
    True
    """
    the_default.seed()
    seed_devices(the_default.key)
    return the_default.key


def initial_seed() -> int:
    """The default generator's seed; `manual_seed` of it repeats draws of the same shapes.

    >>> import flambeau
    >>> _ = flambeau.manual_seed(5)
    >>> flambeau.initial_seed()
    5
    """
    return the_default.initial_seed()


def get_rng_state():
    """The default generator's state, a uint8 tensor.

    Shape:
        result: (bytes of the state,)

    >>> import flambeau
    >>> state = flambeau.get_rng_state()
    >>> a = flambeau.rand(2)
    >>> flambeau.set_rng_state(state)
    >>> flambeau.equal(a, flambeau.rand(2))
    True
    """
    return the_default.get_state()


def set_rng_state(new_state) -> None:
    """Let the default generator continue from a state.

    Shape:
        new_state: (bytes of the state,), as `get_rng_state` gives it

    Raises:
        TypeError: the state is no uint8 tensor

    >>> import flambeau
    >>> state = flambeau.get_rng_state()
    >>> a = flambeau.rand(2)
    >>> flambeau.set_rng_state(state)
    >>> flambeau.equal(a, flambeau.rand(2))
    True
    """
    the_default.set_state(new_state)


# --- words for the host -------------------------------------------------------
cdef inline uint32_t next_word(Stream* s) noexcept nogil:
    if s.used == 4:
        philox_words(s.key, s.counter, 0, s.block)
        s.counter += 1
        s.used = 0
    s.used += 1
    return s.block[s.used - 1]


cdef inline uint32_t below(Stream* s, uint32_t n) noexcept nogil:
    """An unbiased number below n (Lemire: "Fast random integer generation in an interval", 2019)."""
    cdef uint64_t product = <uint64_t>next_word(s) * n
    cdef uint32_t least
    if <uint32_t>product < n:
        least = (<uint32_t>0 - n) % n
        while <uint32_t>product < least:
            product = <uint64_t>next_word(s) * n
    return <uint32_t>(product >> 32)


def _host_uint32(generator, Py_ssize_t n) -> list:
    """n words of a generator (None for the default one), as ints."""
    cdef Generator g = generator_for(generator, None, "_host_uint32")
    cdef Stream s
    cdef Py_ssize_t i
    if n < 0:
        raise ValueError(f"_host_uint32(): n must be at least 0, got {n}")
    s.used = 4
    s.counter = reserve(g, (n + 3) // 4, &s.key)
    return [next_word(&s) for i in range(n)]


# --- randperm -----------------------------------------------------------------
cdef void shuffle(uint32_t* order, uint32_t n, Stream* s) noexcept nogil:
    """0 … n - 1 in random order (Fisher and Yates)."""
    cdef uint32_t i, j
    for i in range(n):
        order[i] = i
    for i in range(n - 1, 0, -1):
        j = below(s, i + 1)
        order[i], order[j] = order[j], order[i]


cdef int64_t highest(int code) noexcept:
    """How many integers from 0 on a dtype tells apart."""
    if code == F16:
        return 2049
    if code == BF16:
        return 257
    if code == F32:
        return (1 << 24) + 1
    if code == F64:
        return (<int64_t>1 << 53) + 1
    if code == U32 or code == U64:
        return <int64_t>1 << 32
    return 256 if code == U8 else 65536 if code == U16 else 128 if code == I8 else 32768 if code == I16 else <int64_t>1 << 31


cdef object make_randperm(Op op, PyObject** args, Py_ssize_t nargs, PyObject* names):
    cdef PyObject* bound[2]
    cdef Options o
    cdef Generator g
    cdef Stream s
    cdef Value v
    cdef TensorBase t
    cdef uint32_t* order
    cdef int64_t n, i
    cdef int code
    cdef Device device
    bind(<Factory>op, args, nargs, names, bound, &o)
    n = as_int(<object>bound[0], "randperm", "n")
    code = resolve(&o, I64)
    check_requires(&o, code, "randperm")
    if n < 0:
        raise RuntimeError(f"randperm(): Trying to create tensor with negative dimension {n}: [{n}]")
    if code == BOOL or CATEGORY[code] == 3 or is_stored(code):
        raise NotImplementedError(f"randperm(): not implemented for {dtype_of(code)}")
    device = where(&o, None)
    if n > highest(code) and code != I64 and code != U64 or (n >= <int64_t>1 << 32 and not (device is not None and device.blank)):
        raise RuntimeError("randperm(): n cannot be greater than "
                           f"{highest(code) if code != I64 else (1 << 32) - 1} for "
                           f"{dtype_of(code)}, got {n}")
    g = None if device is not None and device.blank else generator_for(
        None if bound[1] == NULL else <object>bound[1], device, "randperm")
    t = unfilled(&o, 1, &n, code)
    if t.storage.data == NULL:
        return finish(t, &o, "randperm")
    order = <uint32_t*>t.storage.data if code == I32 else <uint32_t*>scratch(n, 4)
    s.key, s.counter, s.used = g.key, g.offset, 4
    with nogil:
        if g.mt19937:
            flambeau_twister_hold(g.twister)
            flambeau_twister_shuffle(g.twister, order, <uint32_t>n)
            flambeau_twister_release(g.twister)
        else:
            shuffle(order, <uint32_t>n, &s)
        if code == I64:
            for i in range(n):
                (<int64_t*>t.storage.data)[i] = order[i]
        elif code != I32:
            v.category, v.wide, v.imag = 1, False, 0
            for i in range(n):
                v.whole, v.real = order[i], order[i]
                store(t.storage.data + i * ITEMSIZE[code], code, &v)
    if not g.mt19937:
        g.offset = s.counter
    if code != I32:
        free(order)
    return finish(t, &o, "randperm")


randperm = factory("randperm", make_randperm, ("n", "generator"), 1,
    """randperm(n, *, generator=None, dtype=int64) -> 1-D Tensor

    The integers 0 … n - 1 in random order, each order with equal probability.  RuntimeError where the dtype
    cannot tell them apart.

    >>> import flambeau
    >>> sorted(flambeau.randperm(4).tolist())
    [0, 1, 2, 3]
    """)
