# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Products of bfloat16 by generated tiles, where the processor has the instruction (codegen/tiles).

The right operand is laid out in groups of 16 columns, in which pairs of neighbours in depth stand side by side; of the left one
pairs are read where they stand, if they stand side by side, else it is laid out in panels of six rows.  Where the processor has a
matrix unit (codegen/tiles/matrix_unit.py), it reads the same groups, filled up to 16 pairs, and panels of 32 rows.  Each element of
the result is summed in float32 over all of the depth, in one order whatever the threads, and rounded once.
"""
from libc.string cimport memcpy, memset
from libc.stdint cimport int64_t, uint16_t, uint32_t, uintptr_t
from .blas cimport INTERRUPTED, OK
from .panels cimport layer_t
from ...base.parallel cimport parallel_for, try_interruptible
from ...base.callbacks import callbacks

ctypedef void (*tile_t)(const char* a, int64_t row, int64_t pair, const char* b, int64_t group, int64_t pairs, char* c, int64_t step,
                        float* sums, int64_t mode, float alpha, float beta) noexcept nogil

ctypedef void (*set_up_t)(const char* setup) noexcept nogil

cdef enum:
    ROWS = 6                  # of a tile
    GROUP = 16                # columns that a vector holds
    GROUPS = 4                # vectors of a tile
    PANELS = 32               # tiles one below the other that a task computes
    TOGETHER = 8              # groups, or panels, that are laid out together: whole lines of the cache are read
    DEPTH = 512               # pairs that are summed before the sums are put down: a tile's operands stay in the cache
    ADDS = 1                  # modes of a tile
    ENDS = 2
    LAYOUT_BYTES = 1 << 25    # bytes for operands that are laid out, of the products that are under way

cdef enum:                    # of the matrix unit
    TALL = 32                 # rows of a block
    SIDE = 16                 # rows, pairs and columns of a register
    STEP = 64                 # bytes of depth of a register's row
    RIGHT = 6                 # the first register of a right operand
    BLOCK = TALL * STEP       # bytes of a panel's step
    FEW = 8                   # blocks one below the other that a task computes
    NEAR = 8                  # steps
    ZIPPED = 32               # pairs that are turned together
    MANY = 32                 # tasks that take all rows, or all columns, each: enough for threads

cdef extern from * nogil:
    """
    /* What a thread puts down: its stack may have 64 KiB in all. */
    static __thread __attribute__((aligned(64))) float flambeau_sums[1 << 14];
    static __thread __attribute__((aligned(64))) char flambeau_zipped[1 << 15];
    """
    float* sums "flambeau_sums"          # of all blocks of a task: FEW · 2 · 2 · SIDE · TALL, or PANELS · ROWS · GROUPS · GROUP
    char* zipped "flambeau_zipped"       # 2 · TOGETHER · ZIPPED · STEP

cdef tile_t tiles[GROUPS]
cdef turn_t turns
cdef set_up_t sets_up
cdef bint unit = False        # whether there is a matrix unit
cdef layer_t turns_words, zips         # which lay a right operand: columns one after another, or rows
cdef int known = -1           # whether the processor has the instruction


cdef bint ready(int64_t columns) except -1:
    """Whether tiles of so many columns can be computed; they are compiled when they are first needed."""
    global known, turns_words, zips, unit, rounds, sets_up
    cdef int v, i
    if known == 0:
        return False
    if known < 0:
        known = callbacks["tiles.possible"]()
        if not known:
            return False
        turns_words = <layer_t><uintptr_t>callbacks["panels.layer"](4, 1, True)
        zips = <layer_t><uintptr_t>callbacks["panels.pairs"]()
        if callbacks["matrix_unit.possible"]():
            rounds = <round_t><uintptr_t>callbacks["matrix_unit.address"](0, 1)
            sets_up = <set_up_t><uintptr_t>callbacks["matrix_unit.address"](0, 0)
            turning()
            for v in range(2):
                for i in range(2):
                    blocks[v][i] = <block_t><uintptr_t>callbacks["matrix_unit.address"](v + 1, i + 1)
            unit = True
    if unit:
        return True
    if columns > GROUP * GROUPS - GROUP and tiles[GROUPS - 1] == NULL:
        tiles[GROUPS - 1] = <tile_t><uintptr_t>callbacks["tiles.address"](GROUPS)
    v = <int>(groups_of(columns) % GROUPS)
    if v and tiles[v - 1] == NULL:
        tiles[v - 1] = <tile_t><uintptr_t>callbacks["tiles.address"](v)
    return True


cdef bint has_unit() except -1:
    return ready(0) and unit


cdef bint has_blocks() except -1:
    """Whether `blocks` and `rounds` can be called: the matrix unit's, or the same by pairs."""
    global rounds
    cdef int v, i
    if not ready(0):
        return False
    if rounds == NULL:
        for v in range(2):
            for i in range(2):
                blocks[v][i] = <block_t><uintptr_t>callbacks["pair_blocks.address"](v + 1, i + 1)
        rounds = <round_t><uintptr_t>callbacks["matrix_unit.address"](0, 1)
    return True


cdef bint by_unit() noexcept nogil:
    return unit


cdef layer_t zipping() except NULL:
    """What lays pairs of rows side by side, once tiles are ready."""
    return zips


cdef turn_t turning() except NULL:
    """What turns a matrix of pairs."""
    global turns
    if turns == NULL:
        turns = <turn_t><uintptr_t>callbacks["matrix_unit.turning"]()
    return turns


cdef void set_up(int rows) noexcept nogil:
    """The unit's registers, for blocks that this thread computes until it gives them back: those of left operands and sums have so many
    rows, up to 16.  Without a unit there are none.
    """
    cdef unsigned char setup[STEP]
    cdef int i
    if not unit:
        return
    memset(setup, 0, STEP)
    setup[0] = 1
    for i in range(8):
        setup[16 + 2 * i] = STEP
        setup[48 + i] = rows if i < RIGHT else SIDE
    sets_up(<const char*>setup)


cdef void give_back() noexcept nogil:
    if unit:
        sets_up(NULL)


cdef inline int64_t groups_of(int64_t columns) noexcept nogil:
    return (columns + GROUP - 1) // GROUP


cdef inline int64_t panels_of(int64_t rows) noexcept nogil:
    return (rows + ROWS - 1) // ROWS


cdef inline int64_t pairs_of(const Halves* h) noexcept nogil:
    """How many pairs a group is laid out with; for the matrix unit, whole registers."""
    cdef int64_t pairs = (h.k + 1) // 2
    return (pairs + SIDE - 1) // SIDE * SIDE if unit else pairs


cdef inline bint in_place(const Halves* h) noexcept nogil:
    """Whether the left operand's pairs are read where they stand."""
    return h.a_col == 1 and h.k % 2 == 0


cdef inline int64_t together(const Halves* h) noexcept nogil:
    """Rows that a task computes."""
    return FEW * TALL if unit else PANELS * ROWS


cdef inline int64_t stretches(const Halves* h) noexcept nogil:
    return (h.m + together(h) - 1) // together(h)


cdef inline int64_t column_blocks(const Halves* h) noexcept nogil:
    return (groups_of(h.n) + GROUPS - 1) // GROUPS


cdef inline bint by_columns(const Halves* h) noexcept nogil:
    """Whether a task takes all rows: then the groups it reads are laid out right before, and stay in the cache."""
    return stretches(h) == 1 or h.batch > 1 or column_blocks(h) >= MANY and (h.n >= h.m or stretches(h) < MANY)


cdef inline bint by_rows(const Halves* h) noexcept nogil:
    """The same for panels of the left operand and all columns."""
    return unit and stretches(h) >= MANY and not by_columns(h)


cdef inline bint rows_first(const Halves* h) noexcept nogil:
    """Whether tasks that follow each other take the same rows: those of the matrix unit stay in the cache, else the longer side's."""
    return (unit or h.m > h.n) and stretches(h) > 1 and not by_columns(h)


cdef int prepare(Halves* h) except -1:
    """How much room a product needs, and how many may be under way."""
    cdef int64_t pairs = pairs_of(h)
    cdef int64_t panels = 1 if in_place(h) else panels_of(h.m)
    h.size = groups_of(h.n) * pairs * GROUP * 4 + panels * pairs * ROWS * 4
    if unit:
        h.size = groups_of(h.n) * pairs * GROUP * 4 + (tall_panels(h) + pairs // SIDE if h.a_col == 1 else tall_panels(h) * (pairs // SIDE)) * BLOCK
    h.slots = max(1, min(h.batch, LAYOUT_BYTES // max(h.size, 1)))
    return 0


# --- laying out ------------------------------
cdef inline uint16_t half_at(const char* source, int64_t place) noexcept nogil:
    return (<const uint16_t*>source)[place]


cdef void lay_group(const Halves* h, int64_t pairs, const char* b, char* workspace, int64_t group) noexcept nogil:
    """16 columns of the right operand; what is beyond it is 0."""
    cdef int64_t whole = h.k // 2, j, p, columns = min(<int64_t>GROUP, h.n - group * GROUP)
    cdef uint16_t* to = <uint16_t*>(workspace + group * pairs * GROUP * 4)
    cdef const char* source = b + group * GROUP * h.b_col * 2
    if h.b_row == 1 and h.k % 2 == 0:
        turns_words(<char*>to, GROUP * 4, source, h.b_col * 2, whole, columns)
        memset(to + whole * 32, 0, (pairs - whole) * GROUP * 4)
        return
    memset(to, 0, pairs * GROUP * 4)
    for p in range(whole):
        for j in range(columns):
            to[p * 32 + 2 * j] = half_at(source, 2 * p * h.b_row + j * h.b_col)
            to[p * 32 + 2 * j + 1] = half_at(source, (2 * p + 1) * h.b_row + j * h.b_col)
    if h.k % 2:
        for j in range(columns):
            to[whole * 32 + 2 * j] = half_at(source, 2 * whole * h.b_row + j * h.b_col)


cdef void zip_groups(const Halves* h, int64_t pairs, const char* b, char* workspace, int64_t begin, int64_t end) noexcept nogil:
    """Whole groups of a right operand whose rows lie in one piece: row by row through all of them."""
    cdef int64_t whole = h.k // 2, g
    cdef char* to = workspace + begin * pairs * GROUP * 4
    cdef const char* source = b + begin * GROUP * 2
    zips(to, pairs * GROUP * 4, source, h.b_row * 2, whole, end - begin)
    if whole < pairs:         # of a last row the neighbour, and what fills up, is 0
        for g in range(end - begin):
            memset(to + (g * pairs + whole) * GROUP * 4, 0, (pairs - whole) * GROUP * 4)
            if h.k % 2:
                last_row(<uint32_t*>(to + (g * pairs + whole) * GROUP * 4),
                         <const uint16_t*>(source + (2 * whole * h.b_row + g * GROUP) * 2))


cdef inline void last_row(uint32_t* to, const uint16_t* source) noexcept nogil:
    cdef int j
    for j in range(GROUP):
        to[j] = source[j]


cdef void lay_some_panels(const Halves* h, const char* a, char* workspace, int64_t begin, int64_t end, int64_t places) noexcept nogil:
    """Six rows of the left operand each, from the place `places` on: pair by pair through all of them; what is beyond it is 0."""
    cdef int64_t pairs = (h.k + 1) // 2, i, p, panel, rows
    cdef char* laid = workspace + groups_of(h.n) * pairs * GROUP * 4
    cdef const char* first
    cdef uint32_t* to
    for p in range(pairs):
        for panel in range(begin, end):
            to = <uint32_t*>(laid + ((panel - begin + places) * pairs + p) * ROWS * 4)
            first = a + (panel * ROWS * h.a_row + 2 * p * h.a_col) * 2
            rows = min(<int64_t>ROWS, h.m - panel * ROWS)
            for i in range(rows, ROWS):
                to[i] = 0
            if 2 * p + 1 == h.k:
                for i in range(rows):
                    to[i] = half_at(first, i * h.a_row)
            elif rows == ROWS and h.a_row == 1:
                for i in range(ROWS):
                    to[i] = half_at(first, i) | <uint32_t>half_at(first, h.a_col + i) << 16
            else:
                for i in range(rows):
                    to[i] = half_at(first, i * h.a_row) | <uint32_t>half_at(first, h.a_col + i * h.a_row) << 16


cdef struct One:              # a product that is under way
    const Halves* h
    const char* a
    const char* b
    char* c
    char* workspace
    bint laid                 # whether all groups are laid out already
    char* left                # the same for panels
    char* right               # where groups of the right operand are laid: at the workspace's begin, or so that all take one place


cdef void lay_groups(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef One* one = <One*>context
    lay_some_groups(one.h, pairs_of(one.h), one.b, one.right, begin, end)


cdef void lay_some_groups(const Halves* h, int64_t pairs, const char* b, char* to, int64_t begin, int64_t end) noexcept nogil:
    cdef int64_t g = begin, whole = min(end, h.n // GROUP)
    if h.b_col == 1 and (h.b_row != 1 or h.k % 2):
        while g < whole:
            zip_groups(h, pairs, b, to, g, min(g + TOGETHER, whole))
            g += TOGETHER
        g = max(begin, whole)
    for g in range(g, end):
        lay_group(h, pairs, b, to, g)


cdef void lay_right(const Halves* h, char* to, int64_t pairs) noexcept nogil:
    lay_some_groups(h, pairs, h.b, to, 0, groups_of(h.n))


# --- the matrix unit's panels ------------------------------
cdef inline int64_t tall_panels(const Halves* h) noexcept nogil:
    return (h.m + TALL - 1) // TALL


cdef inline bint ragged(const Halves* h, int64_t panel) noexcept nogil:
    """Whether a panel has fewer rows than its registers, so that reading it where it stands would go beyond the operand."""
    return min(<int64_t>TALL, h.m - panel * TALL) % SIDE != 0


cdef void lay_tall(const Halves* h, const char* a, char* laid, int64_t panel) noexcept nogil:
    """32 rows of the left operand, step after step; what is beyond it is 0.  Where its rows lie in one piece, the last step alone, and
    after those of all panels the steps of one with fewer rows than its registers.
    """
    cdef int64_t steps = pairs_of(h) // SIDE, rows = min(<int64_t>TALL, h.m - panel * TALL), i, k, s
    cdef const char* source = a + panel * TALL * h.a_row * 2
    cdef char* to = laid + panel * steps * BLOCK
    if h.a_col == 1:
        if ragged(h, panel):
            to = laid + tall_panels(h) * BLOCK
            memset(to, 0, steps * BLOCK)
            for i in range(rows):
                for s in range(steps):
                    memcpy(to + s * BLOCK + i * STEP, source + (i * h.a_row + s * TALL) * 2, min(<int64_t>TALL, h.k - s * TALL) * 2)
            return
        k = h.k // TALL * TALL
        if k == h.k:
            return
        to = laid + panel * BLOCK
        memset(to, 0, BLOCK)
        for i in range(rows):
            memcpy(to + i * STEP, source + (i * h.a_row + k) * 2, (h.k - k) * 2)
        return
    memset(to, 0, steps * BLOCK)
    for k in range(h.k):
        for i in range(rows):
            (<uint16_t*>(to + k // TALL * BLOCK + i * STEP))[k % TALL] = half_at(source, i * h.a_row + k * h.a_col)


cdef void lay_turned(const Halves* h, const char* a, char* laid, int64_t begin, int64_t count) noexcept nogil:
    """Up to `TOGETHER` whole panels of a left operand whose columns lie in one piece: whole lines of the cache are read."""
    cdef int64_t steps = pairs_of(h) // SIDE, whole = h.k // 2, p = 0, i, s, some, panel
    cdef const char* source = a + begin * TALL * 2
    cdef char* to
    for panel in range(count):
        memset(laid + ((begin + panel) * steps + whole // SIDE) * BLOCK, 0, (steps - whole // SIDE) * BLOCK)
    while p < whole:          # a word is a pair
        some = min(<int64_t>ZIPPED, whole - p)
        zips(zipped, ZIPPED * STEP, source + 2 * p * h.a_col * 2, h.a_col * 2, some, 2 * count)
        for panel in range(count):
            to = laid + (begin + panel) * steps * BLOCK
            for s in range(0, some, 16):  # pairs that a register has side by side
                for i in range(2):
                    turns(zipped + (2 * panel + i) * ZIPPED * STEP + s * STEP, STEP, min(<int64_t>SIDE, some - s), SIDE,
                          to + (p + s) // SIDE * BLOCK + i * SIDE * STEP, STEP)
        p += ZIPPED
    if h.k % 2:
        for panel in range(count):
            to = laid + ((begin + panel) * steps + whole // SIDE) * BLOCK
            for i in range(TALL):
                (<uint16_t*>(to + i * STEP))[(h.k - 1) % TALL] = half_at(source, panel * TALL + i + (h.k - 1) * h.a_col)


cdef void compute_tall(One* one, int64_t from_panel, int64_t to_panel, int64_t from_group) noexcept nogil:
    """Panels by up to four groups, two at a time: `NEAR` steps of those stay in the nearest cache while all panels meet them."""
    cdef float* own
    cdef int64_t nothing = 0
    cdef const Halves* h = one.h
    cdef int64_t pairs = pairs_of(h), steps = pairs // SIDE, group = pairs * GROUP * 4, whole = h.k // TALL if h.a_col == 1 else steps
    cdef int64_t last = min(groups_of(h.n), from_group + GROUPS), begin, end, g, panel, rows, wide, tall, j
    cdef const char* laid = one.left
    cdef const char* a
    cdef const char* b
    cdef char* c
    cdef int64_t row, step
    for g in range(from_group, last, 2):
        wide = min(<int64_t>2, last - g)
        begin = 0
        while begin < steps:
            end = min(begin + NEAR, whole) if begin < whole else steps
            b = one.right + g * group + begin * SIDE * STEP
            for panel in range(from_panel, to_panel):
                rows = min(<int64_t>TALL, h.m - panel * TALL)
                tall = 2 if rows > SIDE else 1
                if h.a_col != 1:
                    a, row, step = laid + (panel * steps + begin) * BLOCK, STEP, BLOCK
                elif ragged(h, panel):
                    a, row, step = laid + (tall_panels(h) + begin) * BLOCK, STEP, BLOCK
                elif begin < whole:
                    a, row, step = one.a + (panel * TALL * h.a_row + begin * TALL) * 2, h.a_row * 2, STEP
                else:
                    a, row, step = laid + panel * BLOCK, STEP, BLOCK
                own = sums + (panel - from_panel) * 2 * SIDE * TALL
                blocks[tall - 1][wide - 1](a, row, step, b, STEP, SIDE * STEP, group, &nothing, 1, end - begin, own, TALL * 4,
                                           1 if begin else 0)
                if end < steps:
                    continue
                c = one.c + (panel * TALL * h.c_row + g * GROUP) * 2
                for j in range(wide):
                    rounds(own + j * SIDE, c + j * GROUP * 2, h.c_row * 2, rows, min(<int64_t>GROUP, h.n - (g + j) * GROUP), h.alpha,
                           h.beta)
            begin = end


cdef void lay_tall_panels(const One* one, int64_t begin, int64_t end) noexcept nogil:
    cdef int64_t some
    while begin < end:
        some = min(<int64_t>TOGETHER, min(end, one.h.m // TALL) - begin) if one.h.a_row == 1 and one.h.a_col != 1 else 0
        if some > 0:
            lay_turned(one.h, one.a, one.left, begin, some)
        else:
            lay_tall(one.h, one.a, one.left, begin)
        begin += max(some, <int64_t>1)


cdef void lay_panels(void* context, int64_t begin, int64_t end) noexcept nogil:
    """All panels, or the last one, which is not full, where others are read as they stand."""
    cdef One* one = <One*>context
    cdef int64_t panels = panels_of(one.h.m)
    if unit:
        lay_tall_panels(one, begin, end)
        return
    if in_place(one.h):
        lay_some_panels(one.h, one.a, one.workspace, panels - 1, panels, 0)
        return
    while begin < end:
        lay_some_panels(one.h, one.a, one.workspace, begin, min(begin + TOGETHER, end), begin)
        begin += TOGETHER


# --- computing ------------------------------
cdef void compute(void* context, int64_t begin, int64_t end) noexcept nogil:
    if unit:
        set_up(SIDE)
    computed(<One*>context, begin, end)
    if unit:
        give_back()


cdef void computed(One* one, int64_t begin, int64_t end) noexcept nogil:
    """Blocks of `PANELS` panels, or all of them, and `GROUPS` groups, or all of them."""
    cdef One own = one[0]
    cdef const Halves* h = own.h
    cdef int64_t high = 1 if by_columns(h) else stretches(h), panels = tall_panels(h) if unit else panels_of(h.m), task, group, first, last
    cdef int64_t each = FEW if unit else PANELS, wide = column_blocks(h)
    if by_rows(h):
        for task in range(begin, end):
            first, last = task * FEW, min(panels, (task + 1) * FEW)
            if h.a_col != 1:
                own.left = one.left - (task - begin) * FEW * (pairs_of(h) // SIDE) * BLOCK
                lay_tall_panels(&own, first, last)
            for group in range(wide):
                compute_tall(&own, first, last, group * GROUPS)
        return
    cdef int64_t bytes = GROUPS * pairs_of(h) * GROUP * 4
    for task in range(begin, end):
        group = (task % wide if rows_first(h) else task // high) * GROUPS
        if high == 1 and not own.laid:  # groups that one task alone reads are laid out right before it does, in the place of the first
            own.right = own.workspace - (task - begin) * bytes
            lay_groups(&own, group, min(groups_of(h.n), group + GROUPS))
        first = (task // wide if rows_first(h) else task % high) * each
        last = panels if high == 1 else min(panels, first + each)
        while first < last:
            if unit:
                compute_tall(&own, first, min(last, first + each), group)
            else:
                compute_block(&own, first, min(last, first + each), group)
            first += each


cdef void compute_block(One* one, int64_t from_panel, int64_t to_panel, int64_t from_group) noexcept nogil:
    cdef uint16_t edge[ROWS * GROUPS * GROUP]
    cdef const Halves* h = one.h
    cdef int64_t pairs = (h.k + 1) // 2, groups = min(<int64_t>GROUPS, groups_of(h.n) - from_group)
    cdef int64_t columns = min(groups * GROUP, h.n - from_group * GROUP), group = pairs * GROUP * 4, begin = 0, end, panel, rows, i, mode
    cdef const char* laid = one.workspace + groups_of(h.n) * group
    cdef const char* b = one.right + from_group * group
    cdef const char* a
    cdef char* c
    cdef int64_t row, pair
    cdef bint whole
    while True:
        end = min(begin + DEPTH, pairs)
        mode = (ADDS if begin else 0) | (ENDS if end == pairs else 0)
        for panel in range(from_panel, to_panel):
            rows = min(<int64_t>ROWS, h.m - panel * ROWS)
            if not in_place(h):
                a, row, pair = laid + panel * pairs * ROWS * 4, 4, ROWS * 4
            elif rows < ROWS:
                a, row, pair = laid, 4, ROWS * 4
            else:
                a, row, pair = one.a + panel * ROWS * h.a_row * 2, h.a_row * 2, 4
            c = one.c + (panel * ROWS * h.c_row + from_group * GROUP) * 2
            whole = rows == ROWS and columns == groups * GROUP
            if whole or not mode & ENDS:
                tiles[groups - 1](a + begin * pair, row, pair, b + begin * GROUP * 4, group, end - begin, c, h.c_row * 2,
                                  sums + (panel - from_panel) * ROWS * GROUPS * GROUP, mode, h.alpha, h.beta)
                continue
            if h.beta != 0:
                for i in range(rows):
                    memcpy(edge + i * GROUPS * GROUP, c + i * h.c_row * 2, columns * 2)
            tiles[groups - 1](a + begin * pair, row, pair, b + begin * GROUP * 4, group, end - begin, <char*>edge,
                              GROUPS * GROUP * 2, sums + (panel - from_panel) * ROWS * GROUPS * GROUP, mode, h.alpha, h.beta)
            for i in range(rows):
                memcpy(c + i * h.c_row * 2, edge + i * GROUPS * GROUP, columns * 2)
        begin = end
        if begin >= pairs:
            return


cdef int64_t blocks_of(const Halves* h) noexcept nogil:
    return (1 if by_columns(h) else stretches(h)) * (1 if by_rows(h) else column_blocks(h))


cdef inline int64_t panels_to_lay(const Halves* h) noexcept nogil:
    return tall_panels(h) if unit else 1 if in_place(h) else panels_of(h.m)


cdef void one_of(const Halves* h, int64_t number, One* one) noexcept nogil:
    one.h, one.laid = h, False
    one.a, one.b, one.c = h.a + number * h.a_step * 2, h.b + number * h.b_step * 2, h.c + number * h.c_step * 2
    one.workspace = one.right = h.workspace + (number - h.first) * h.size
    one.left = one.workspace + groups_of(h.n) * pairs_of(h) * GROUP * 4


cdef void whole_products(void* context, int64_t begin, int64_t end) noexcept nogil:
    """Products of a batch, each by one thread."""
    cdef Halves* h = <Halves*>context
    cdef One one
    cdef int64_t i
    if unit:
        set_up(SIDE)
    for i in range(begin, end):
        one_of(h, h.first + i, &one)
        if h.b_step == 0:
            one.laid, one.right = True, h.workspace
        lay_panels(&one, 0, panels_to_lay(h))
        computed(&one, 0, blocks_of(h))
    if unit:
        give_back()


cdef int multiply_halves(Halves* h) noexcept nogil:
    """All products; OK, or INTERRUPTED with the exception set."""
    cdef double each = <double>h.m * h.n * h.k            # multiplications, of which some 32 take a cycle
    cdef int64_t grain = 1 + <int64_t>((1 << 18) / (each + 1500))
    cdef int64_t count = blocks_of(h)
    cdef One one
    if h.batch == 1:
        h.first = 0
        one_of(h, 0, &one)
        grain = 1 + <int64_t>((1 << 18) / (each / count + 1500))
        if not by_columns(h):
            parallel_for(lay_groups, &one, groups_of(h.n), 1 + (1 << 14) // max(<int64_t>1, h.k * GROUP))
        if h.a_col == 1 or not by_rows(h):
            parallel_for(lay_panels, &one, panels_to_lay(h), 1 + (1 << 13) // max(<int64_t>1, h.k * ROWS))
        return INTERRUPTED if try_interruptible(compute, &one, count, grain, each / count / 128) else OK
    h.first = 0
    if h.b_step == 0:         # products with one matrix: it is laid out once
        one_of(h, 0, &one)
        parallel_for(lay_groups, &one, groups_of(h.n), 1 + (1 << 14) // max(<int64_t>1, h.k * GROUP))
    while h.first < h.batch:
        if try_interruptible(whole_products, h, min(h.slots, h.batch - h.first), grain, each / 64):
            return INTERRUPTED
        h.first += h.slots
    return OK
