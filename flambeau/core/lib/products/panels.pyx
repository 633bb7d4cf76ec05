# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Products of matrices by generated register tiles: the walk over tiles, and how operands are laid out for them.

A tile multiplies a few rows by a panel of columns, over up to `depth` terms, so that the panel stays in the cache while all rows
of a band meet it; deeper products add to what has been put down.  The right operand is laid out panel after panel, or, where it is
small or meets few rows, read where it stands; where there is one band, its first tile lays the panel out while it multiplies.  The
left operand is read by broadcasts, so its strides hardly matter.

Few rows by a transposed matrix are dot products of rows with rows (codegen/tiles/dots.py): nothing is laid out.  Complex numbers are
real ones in twice the columns and terms: (re, im) · ((re, im), (-im, re)); only the right operand has to be written anew.
"""
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from libc.stdlib cimport calloc
from libc.string cimport memcpy, memset
from libc.stdint cimport int64_t, uintptr_t
from .blas cimport INTERRUPTED, OK
from ..tiles cimport Tile
from ...base.dtypes cimport BF16, F16, F32, F64
from ...base.parallel cimport parallel_for, try_interruptible
from ...base.callbacks import callbacks

cdef enum:
    GROUP = 128               # terms that a tile adds up one after another (codegen/tiles/register.py)
    SMALL = 1 << 18           # bytes of a right operand that is read where it stands
    LEAST = 96                # rows of a band
    PANEL = 1 << 18           # bytes of a panel that a tile lays out for the next
    ROWS_AT_ONCE = 32         # rows of a right operand that are laid out into panel after panel: they lie on as many pages
    OWN = 1 << 16             # bytes for an operand that a thread lays out for itself
    LAYOUT_BYTES = 1 << 26    # bytes for operands that are laid out, of the products that are under way
    ASIDE = 3 << 14           # bytes of the sums of a band and a panel
    DOTS = 24                 # columns that all tiles of dot products divide
    STRIP = 10 * DOTS         # columns whose dot products are put down together

cdef extern from * nogil:
    """
    /* What a thread lays out: its stack may have 64 KiB in all. */
    static __thread __attribute__((aligned(64))) char flambeau_own[1 << 16], flambeau_aside[3 << 14], flambeau_laid[1 << 18];
    """
    char* own "flambeau_own"
    char* sums_of_band "flambeau_aside"    # and a panel, or of a strip, where the terms are taken in several parts
    char* laid_panel "flambeau_laid"       # a part of it, where the first tile lays it out

cdef Family families[4]       # of float32, float64, and, for dot products, bfloat16 and float16
cdef Layers of_halves[2]      # for float32's panels: of bfloat16 and float16
cdef tuple NAMES = ("float32", "float64", "bfloat16", "float16")
cdef int64_t NOTHING = 0


cdef dict known = {}          # (number of a family, epilogue) to where its tiles stand


cdef inline int family_of(int code) noexcept:
    return 0 if code == F32 else 1 if code == F64 else 2 if code == BF16 else 3


cdef Tiles* tiles_of(int code, object epilogue) except NULL:
    return tiles_of_family(family_of(code), epilogue)


cdef Tiles* tiles_of_family(int family, object epilogue) except NULL:
    cdef Tiles* result
    place = known.get((family, epilogue))
    if place is not None:
        return <Tiles*><uintptr_t>place
    result = <Tiles*>calloc(1, sizeof(Tiles))
    if result == NULL:
        raise MemoryError()
    Py_INCREF(epilogue)
    result.epilogue = <PyObject*>epilogue
    known[(family, epilogue)] = <uintptr_t>result
    return result


cdef bint clear(Panels* p, int code, Tiles* tiles) except -1:
    cdef Family* f
    cdef int64_t size = 4 if code == F32 else 8 if code == F64 else 2
    if code != F32 and code != F64 and code != BF16 and code != F16:
        return False
    f = &families[family_of(code)]
    if f.lanes == 0:
        infer_signature(f, size)
    memset(p, 0, sizeof(Panels))
    p.family, p.tiles, p.size = f, tiles if tiles != NULL else f.plain, size
    p.layers, p.read = &f.layers, size
    return True


cdef int infer_signature(Family* f, int64_t size) except -1:
    cdef int v
    lanes, shape = callbacks["panels.shape"](size)
    f.vectors, f.few = len(shape.tallest) - 1, len(shape.dots) - 1
    for v in range(f.vectors + 1):
        f.tallest[v] = shape.tallest[v]
    for v in range(f.few + 1):
        f.columns[v] = shape.dots[v]
    f.depth, f.deepest, f.band, f.far = shape.depth, shape.deepest, shape.band, shape.far
    f.plain = tiles_of_family(<int>(f - families), None)
    f.lanes = lanes
    return 0


def forget() -> None:
    """Ask for the processor's registers, and compile, anew: for tests that give it others."""
    cdef Tiles* t
    memset(families, 0, sizeof(families))
    memset(of_halves, 0, sizeof(of_halves))
    for place in known.values():
        t = <Tiles*><uintptr_t>place
        memset(t.tiles, 0, sizeof(t.tiles))
        memset(t.dots, 0, sizeof(t.dots))


# --- panels ------------------------------
cdef inline int64_t panels_of(const Panels* p) noexcept nogil:
    cdef int64_t wide = p.family.lanes * p.family.vectors
    return (p.n + wide - 1) // wide


cdef inline int64_t vectors_of(const Panels* p, int64_t panel, int64_t* first) noexcept nogil:
    """How many vectors a panel has, and which is its first: all, but the last, which takes one of its neighbour's where it
    would have a single one."""
    cdef int64_t whole = p.family.vectors, total = (p.n + p.family.lanes - 1) // p.family.lanes
    cdef int64_t panels = (total + whole - 1) // whole
    cdef bint lends = whole > 2 and panels > 1 and total % whole == 1
    first[0] = panel * whole
    if lends and panel == panels - 1:
        first[0] -= 1
        return 2
    if lends and panel == panels - 2:
        return whole - 1
    return min(whole, total - first[0])


cdef int64_t packed_size(const Panels* p) noexcept nogil:
    return (p.n + p.family.lanes - 1) // p.family.lanes * p.family.lanes * p.size * p.k


cdef inline int64_t next_rows(int64_t left, int64_t tallest) noexcept nogil:
    """Rows of the next tile: the tallest; where few would be left then, the last two share."""
    if left <= tallest:
        return left
    if left >= 2 * tallest or 2 * (left - tallest) >= tallest:
        return tallest
    return (left + 1) // 2


cdef Tiles* continued(const Panels* p, Tiles* tiles) except NULL:
    if tiles.continued == NULL:
        tiles.continued = tiles_of_family(<int>(p.family - families), callbacks["panels.continued"](p.size, <object>tiles.epilogue))
    return tiles.continued


cdef inline Tiles* tiles_for(const Panels* p, int64_t begin, int64_t end) noexcept nogil:
    """What is done to the sums of some of the terms: they are put down until the last are there."""
    cdef Tiles* result = p.tiles if end == p.k else p.family.plain
    return result.continued if begin else result


cdef inline int64_t depth_of(const Panels* p) noexcept nogil:
    """Terms that are summed before the sums are put down; in bfloat16 they would be rounded."""
    cdef int64_t blocks = (p.k + p.family.depth - 1) // p.family.depth
    return p.k if blocks <= 1 or p.size == 2 else ((p.k + blocks - 1) // blocks + GROUP - 1) // GROUP * GROUP


cdef inline int need(Panels* p, Tiles* tiles, int how, int64_t vectors) except -1:
    """Compile the tiles of one epilogue that whole bands need, and the last one."""
    cdef int64_t band = band_of(p), bands = bands_of(p)
    if bands > 1:
        need_for(p, tiles, how, vectors, band)
    return need_for(p, tiles, how, vectors, p.m - (bands - 1) * band)


cdef int need_for(Panels* p, Tiles* all, int how, int64_t vectors, int64_t left) except -1:
    cdef int64_t tallest = p.family.tallest[vectors], rows
    cdef tile_t* tile
    if left > 4 * tallest:    # the first, the tallest again and again, and what is left in the end
        left = 3 * tallest + left % tallest
    while left > 0:
        rows = next_rows(left, tallest)
        tile = &all.tiles[how][vectors][rows]
        if tile[0] == NULL:
            tile[0] = <tile_t><uintptr_t>callbacks["panels.tile"](
                p.size, <object>all.epilogue, vectors, rows, bool(how & MASKED), bool(how & LAYS))
        left -= rows
        if how & LAYS:        # the others read panels
            how = 0
    return 0


cdef int continue_all(Panels* p) except -1:
    """The tiles' epilogues of all parts of the terms."""
    if depth_of(p) < p.k:
        continued(p, p.tiles)
        continued(p, p.family.plain)
    return 0


cdef int need_of_panel(Panels* p, int64_t panel) except -1:
    cdef int64_t first, vectors = vectors_of(p, panel, &first), depth = depth_of(p)
    cdef int how = MASKED if p.b_row != 0 and (first + vectors) * p.family.lanes > p.n else 0
    if p.lays:
        how |= LAYS
    need(p, tiles_for(p, 0, min(depth, p.k)), how, vectors)
    if depth < p.k:
        if 2 * depth < p.k:
            need(p, tiles_for(p, depth, 2 * depth), how, vectors)
        need(p, tiles_for(p, depth, p.k), how, vectors)
    return 0


cdef int ready(Panels* p) except -1:
    cdef int64_t panels = panels_of(p), panel, first, vectors
    continue_all(p)
    for panel in range(max(panels - 3, 0), panels):  # those before are as the first of these
        vectors = vectors_of(p, panel, &first)
        need_of_panel(p, panel)
        if p.layers.copies[vectors] == NULL and p.b_row == 0:
            p.family.layers.copies[vectors] = <layer_t><uintptr_t>callbacks["panels.layer"](p.size, vectors, False)
    if p.layers.turns == NULL and p.b_row == 0:
        p.family.layers.turns = <layer_t><uintptr_t>callbacks["panels.layer"](p.size, 1, True)
    return 0


cdef const Layers* layers_of_halves(int code) except NULL:
    cdef Layers* result = &of_halves[0 if code == BF16 else 1]
    cdef int v
    if result.turns == NULL:
        for v in range(1, MOST_VECTORS + 1):
            result.copies[v] = <layer_t><uintptr_t>callbacks["panels.layer"](4, v, False, NAMES[family_of(code)])
        result.turns = <layer_t><uintptr_t>callbacks["panels.layer"](4, 1, True, NAMES[family_of(code)])
    return result


# --- laying out ------------------------------
cdef void scatter(char* to, int64_t to_step, const char* source, int64_t row, int64_t col, int64_t terms, int64_t columns,
                  int64_t wide, int64_t size) noexcept nogil:
    """A panel of an operand with any strides, element by element."""
    cdef int64_t t, j
    for t in range(terms):
        if size == 4:
            for j in range(columns):
                (<float*>(to + t * to_step))[j] = (<const float*>(source + t * row + j * col))[0]
        else:
            for j in range(columns):
                (<double*>(to + t * to_step))[j] = (<const double*>(source + t * row + j * col))[0]
        memset(to + t * to_step + columns * size, 0, (wide - columns) * size)


cdef void lay_right(const Panels* p, char* workspace, const char* b, int64_t b_row, int64_t b_col, int64_t begin,
                    int64_t end) noexcept nogil:
    """Some panels; what is beyond the last column is 0."""
    cdef Family* f = p.family
    cdef int64_t panel, first, vectors, v, wide, columns, row = 0
    cdef char* to
    cdef const char* source
    if b_col == p.read:
        while row < p.k:
            for panel in range(begin, end):
                vectors = vectors_of(p, panel, &first)
                wide, columns = vectors * f.lanes, min(vectors * f.lanes, p.n - first * f.lanes)
                p.layers.copies[vectors](workspace + (first * f.lanes * p.k + row * wide) * p.size, wide * p.size,
                                         b + first * f.lanes * p.read + row * b_row, b_row, min(<int64_t>ROWS_AT_ONCE, p.k - row), columns)
            row += ROWS_AT_ONCE
        return
    for panel in range(begin, end):
        vectors = vectors_of(p, panel, &first)
        wide, columns = vectors * f.lanes, min(vectors * f.lanes, p.n - first * f.lanes)
        to, source = workspace + first * f.lanes * p.size * p.k, b + first * f.lanes * b_col
        if b_row == p.read:
            for v in range(vectors):
                p.layers.turns(to + v * f.lanes * p.size, wide * p.size, source + v * f.lanes * b_col, b_col, p.k, columns - v * f.lanes)
        else:
            scatter(to, wide * p.size, source, b_row, b_col, p.k, columns, wide, p.size)


# --- computing ------------------------------
cdef inline void aim(Tile* t, const Panels* p, int64_t row, int64_t column, char* aside, int64_t aside_row, bint ends, bint goes_on) noexcept nogil:
    """Where a tile writes, and where it reads its operands; `aside`: the sums put down, which it adds to where it `goes_on`."""
    cdef int k, last = 0
    t.c, t.c_row = aside, aside_row
    if ends:
        t.c, t.c_row = p.c + row * p.c_row + column * p.size, p.c_row
        last = p.operands
        for k in range(last):
            t.operands[k].data = p.operand[k].data + row * p.operand[k].row + column * p.operand[k].column
            t.operands[k].row = p.operand[k].row
    if goes_on:
        t.operands[last].data, t.operands[last].row = aside, aside_row


cdef void multiply_panel(const Panels* p, int64_t from_row, int64_t to_row, int64_t panel) noexcept nogil:
    """Rows by a panel."""
    cdef Tile t
    cdef Family* f = p.family
    cdef Tiles* tiles
    cdef int how
    cdef int64_t depth = depth_of(p), begin = 0, end, first, vectors = vectors_of(p, panel, &first), row, rows, at = first * f.lanes
    cdef int64_t wide = vectors * f.lanes * p.size
    cdef char* aside = sums_of_band
    cdef char* laid = laid_panel
    memcpy(t.numbers, p.numbers, sizeof(t.numbers))
    t.laid = laid
    t.row, t.step, t.offsets, t.b_tap = p.a_row, p.a_col, &NOTHING, 0
    t.b_vector = f.lanes * p.size
    t.taps[0] = t.taps[1] = t.taps[2] = 1
    t.columns = min(vectors * f.lanes, p.n - at)
    while True:
        end = min(begin + depth, p.k)
        t.terms = end - begin
        tiles = tiles_for(p, begin, end)
        how = MASKED if p.b_row != 0 and t.columns < vectors * f.lanes else 0
        if p.lays:
            how |= LAYS
        if p.b_row:
            t.b, t.b_step = p.b + at * p.size + begin * p.b_row, p.b_row
        else:
            t.b_step = wide
            t.b = p.b + at * p.size * p.k + begin * t.b_step
        row = from_row
        while row < to_row:
            rows = next_rows(to_row - row, f.tallest[vectors])
            t.a = p.a + row * p.a_row + begin * p.a_col
            aim(&t, p, row, at, aside + (row - from_row) * wide, wide, end == p.k, begin > 0)
            tiles.tiles[how][vectors][rows](&t)
            row += rows
            if how & LAYS:    # the others read what it has laid out
                t.b, t.b_step, how = laid, wide, 0
        begin = end
        if begin >= p.k:
            return


cdef void multiply_rows(const Panels* p, int64_t from_row, int64_t to_row, int64_t from_panel, int64_t to_panel) noexcept nogil:
    cdef int64_t panel
    for panel in range(from_panel, to_panel):
        multiply_panel(p, from_row, to_row, panel)


# --- few rows, and a right operand whose terms lie side by side ------------------------------
cdef inline int64_t dot_rows(const Panels* p, int64_t left) noexcept nogil:
    """Rows of the next tile: equal parts."""
    cdef int64_t parts = (left + p.family.few - 1) // p.family.few
    return (left + parts - 1) // parts


cdef int need_dots(Panels* p) except -1:
    cdef int64_t left = p.m, rows, depth = depth_of(p)
    continue_all(p)
    while left > 0:
        rows = dot_rows(p, left)
        need_dot(p, tiles_for(p, 0, min(depth, p.k)), rows)
        if 2 * depth < p.k:
            need_dot(p, tiles_for(p, depth, 2 * depth), rows)
        if depth < p.k:
            need_dot(p, tiles_for(p, depth, p.k), rows)
        left -= rows
    return 0


cdef int need_dot(Panels* p, Tiles* all, int64_t rows) except -1:
    cdef tile_t* tiles = all.dots[rows]
    cdef int64_t whole = p.family.columns[rows], rest = p.n % whole
    if tiles[whole] == NULL:
        tiles[whole] = <tile_t><uintptr_t>callbacks["panels.dot"](NAMES[p.family - families], <object>all.epilogue, whole, rows)
    if rest and tiles[rest] == NULL:
        tiles[rest] = <tile_t><uintptr_t>callbacks["panels.dot"](NAMES[p.family - families], <object>all.epilogue, rest, rows)
    return 0


cdef void multiply_strip(const Panels* p, int64_t b_col, int64_t begin, int64_t end, char* aside) noexcept nogil:
    """All rows by some columns; `aside` as in `multiply_panel`."""
    cdef Tile t
    cdef Tiles* tiles
    cdef int64_t row, rows, column, columns, block, first = 0, last, depth = depth_of(p), wide = STRIP * p.size
    memcpy(t.numbers, p.numbers, sizeof(t.numbers))
    t.row, t.b_vector = p.a_row, b_col
    while True:
        last = min(first + depth, p.k)
        t.terms = last - first
        tiles = tiles_for(p, first, last)
        block = begin
        while block < end:
            row = 0
            while row < p.m:
                rows = dot_rows(p, p.m - row)
                t.a = p.a + row * p.a_row + first * p.size
                column = block
                while column < min(block + DOTS, end):
                    columns = min(p.family.columns[rows], end - column)
                    t.b = p.b + column * b_col + first * p.size
                    aim(&t, p, row, column, aside + row * wide + (column - begin) * p.size, wide, last == p.k, first > 0)
                    tiles.dots[rows][columns](&t)
                    column += columns
                row += rows
            block += DOTS
        first = last
        if first >= p.k:
            return


cdef void multiply_deep_dots(const Panels* p, int64_t b_col, int64_t begin, int64_t end) noexcept nogil:
    while begin < end:
        multiply_strip(p, b_col, begin, min(begin + STRIP, end), sums_of_band)
        begin += STRIP


cdef void multiply_dots(const Panels* p, int64_t b_col, int64_t begin, int64_t end) noexcept nogil:
    """All rows by some columns; `begin` is a multiple of DOTS."""
    if depth_of(p) < p.k:
        multiply_deep_dots(p, b_col, begin, end)
    else:
        multiply_strip(p, b_col, begin, end, NULL)


# --- whole products ------------------------------
cdef inline int64_t band_of(const Panels* p) noexcept nogil:
    """Rows that one task computes: the left operand's stay in the cache."""
    cdef int64_t most = max(<int64_t>LEAST, p.family.band // max(<int64_t>1, min(p.k, p.family.deepest) * p.size))
    cdef int64_t bands = (p.m + most - 1) // most
    return max(<int64_t>1, ((p.m + bands - 1) // bands + 23) // 24 * 24) if bands > 1 else p.m


cdef inline int64_t bands_of(const Panels* p) noexcept nogil:
    cdef int64_t band = band_of(p)
    return (p.m + band - 1) // band


cdef int prepare(Products* all) except -1:
    cdef Panels* p = &all.one
    cdef int64_t panel, first, vectors
    p.lays = False
    all.dots = not all.crossed and not all.laid and p.m <= DOTTED and p.a_col == p.size and all.b_row == p.size and all.b_col > 0 and p.n > 1
    if all.dots:
        all.lays_right = all.lays_left = False
        all.right = all.size = all.bytes = 0
        all.slots, all.apart = all.batch, False
        return need_dots(p)
    p.lays = not all.laid and not all.crossed and all.b_col == p.size and all.b_row > 0 and bands_of(p) == 1 and (
        p.m > p.family.tallest[p.family.vectors] and min(p.k, p.family.depth) * p.family.lanes * p.family.vectors * p.size <= PANEL)
    all.lays_right = not all.laid and not p.lays and (
        all.crossed or (p.n > 1 and all.b_col != p.size) or all.b_row <= 0 or (p.k * p.n * p.size > SMALL and p.m > 8))
    all.lays_left = p.a_col >= p.family.far and p.k > GROUP and p.n > p.family.lanes * p.family.vectors and p.a_row == p.size
    p.b_row = 0 if all.lays_right or all.laid else all.b_row
    all.right = packed_size(p) if all.lays_right else 0
    all.size = all.right + (p.m * left_pitch(p) if all.lays_left else 0)
    all.apart = all.batch > 1 and all.size <= OWN
    all.slots = all.batch if all.apart else max(<int64_t>1, min(all.batch, LAYOUT_BYTES // max(all.size, <int64_t>1)))
    all.bytes = 0 if all.apart else all.size * all.slots
    ready(p)
    if all.crossed:
        for panel in range(max(panels_of(p) - 3, 0), panels_of(p)):
            vectors = vectors_of(p, panel, &first)
            if p.family.crosses[vectors] == NULL:
                p.family.crosses[vectors] = <layer_t><uintptr_t>callbacks["panels.crossed"](p.size, vectors)
    if all.lays_left and p.family.layers.turns == NULL:
        p.family.layers.turns = <layer_t><uintptr_t>callbacks["panels.layer"](p.size, 1, True)
    return 0


cdef inline int64_t left_pitch(const Panels* p) noexcept nogil:
    """Bytes of a row of a left operand that is laid out: never a multiple of a page."""
    return (p.k + 15) // 16 * 16 * p.size + 64


cdef struct Under:            # a product that is under way
    Panels one
    const Products* all
    const char* b
    const char* a
    char* workspace


cdef void begin_some(const Products* all, Under* u) noexcept nogil:
    """What all products have in common."""
    u.one, u.all = all.one, all
    if all.lays_left:
        u.one.a_row, u.one.a_col = left_pitch(&u.one), u.one.size


cdef void begin_one(const Products* all, int64_t number, char* workspace, Under* u) noexcept nogil:
    cdef int k
    u.a = u.one.a = all.one.a + number * all.a_batch
    u.one.c = all.one.c + number * all.c_batch
    for k in range(u.one.operands):
        u.one.operand[k].data = all.one.operand[k].data + number * all.operand_batch[k]
    u.b = all.b + number * all.b_batch
    u.workspace = workspace
    u.one.b = u.b
    if all.lays_right:
        u.one.b = u.workspace
    if all.lays_left:
        u.one.a = u.workspace + all.right


cdef void lay_crossed(Under* u, int64_t begin, int64_t end) noexcept nogil:
    """Panels of complex numbers, whose columns lie side by side: two rows of each."""
    cdef const Panels* p = &u.one
    cdef int64_t panel, first, vectors, wide = p.family.lanes * p.size
    for panel in range(begin, end):
        vectors = vectors_of(p, panel, &first)
        p.family.crosses[vectors](u.workspace + first * wide * p.k, 2 * vectors * wide, u.b + first * wide, u.all.b_row, p.k // 2,
                                  min(vectors * p.family.lanes, p.n - first * p.family.lanes))


cdef void lay_panels(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef Under* u = <Under*>context
    if u.all.crossed:
        lay_crossed(u, begin, end)
        return
    lay_right(&u.one, u.workspace, u.b, u.all.b_row, u.all.b_col, begin, end)


cdef void lay_rows(void* context, int64_t begin, int64_t end) noexcept nogil:
    """A left operand whose rows lie side by side, turned: a vector of terms at a time."""
    cdef Under* u = <Under*>context
    cdef int64_t lanes = u.one.family.lanes, block, terms
    for block in range(begin, end):
        terms = min(lanes, u.one.k - block * lanes)
        u.one.family.layers.turns(u.workspace + u.all.right + block * lanes * u.one.size, u.one.a_row, u.a + block * lanes * u.all.one.a_col,
                           u.all.one.a_col, u.one.m, terms)


cdef void compute(void* context, int64_t begin, int64_t end) noexcept nogil:
    """Panels of bands, counted along the panels first."""
    cdef Under* u = <Under*>context
    cdef int64_t bands = bands_of(&u.one), band = band_of(&u.one), panels = panels_of(&u.one), task, at
    for task in range(begin, end):
        at = task // panels
        if bands == 1 and u.all.lays_right:   # used once: while it is in the nearest cache
            lay_panels(u, task, task + 1)
        multiply_rows(&u.one, at * band, u.one.m if at == bands - 1 else (at + 1) * band, task % panels, task % panels + 1)


cdef void dot_blocks(void* context, int64_t begin, int64_t end) noexcept nogil:
    cdef Under* u = <Under*>context
    multiply_dots(&u.one, u.all.b_col, begin * DOTS, min(end * DOTS, u.one.n))


cdef void whole_products(void* context, int64_t begin, int64_t end) noexcept nogil:
    """Products of a batch, each by one thread."""
    cdef Products* all = <Products*>context
    cdef Under u
    cdef int64_t i, band, rows = band_of(&all.one), bands = bands_of(&all.one), panels = panels_of(&all.one)
    begin_some(all, &u)
    for i in range(begin, end):
        begin_one(all, all.first + i, own if all.apart else all.workspace + i * all.size, &u)
        if all.dots:
            multiply_dots(&u.one, all.b_col, 0, u.one.n)
            continue
        if all.lays_right:
            lay_panels(&u, 0, panels)
        if all.lays_left:
            lay_rows(&u, 0, (u.one.k + u.one.family.lanes - 1) // u.one.family.lanes)
        for band in range(bands):             # `ready` has compiled the tiles of bands
            multiply_rows(&u.one, band * rows, min((band + 1) * rows, u.one.m), 0, panels)


cdef int multiply_products(Products* all) noexcept nogil:
    cdef Panels* p = &all.one
    cdef double each = <double>p.m * p.n * p.k            # multiplications, of which some 32 take a cycle
    cdef int64_t tasks, vectors = (p.k + p.family.lanes - 1) // p.family.lanes
    cdef Under u
    all.first = 0
    if all.batch == 1 and not all.apart:
        begin_some(all, &u)
        begin_one(all, 0, all.workspace, &u)
        if all.dots:
            tasks = (p.n + DOTS - 1) // DOTS
            each /= tasks
            return INTERRUPTED if try_interruptible(dot_blocks, &u, tasks, 1 + <int64_t>((1 << 17) / (each + 1500)), each * p.size / 64) else OK
        if all.lays_right and bands_of(p) > 1:
            parallel_for(lay_panels, &u, panels_of(p), 1 + (1 << 14) // max(<int64_t>1, p.k * p.family.lanes * p.family.vectors))
        if all.lays_left:
            parallel_for(lay_rows, &u, vectors, 1 + (1 << 14) // max(<int64_t>1, p.m * p.family.lanes))
        tasks = bands_of(p) * panels_of(p)
        if tasks == 1:
            compute(&u, 0, 1)
            return OK
        each /= tasks
        return INTERRUPTED if try_interruptible(compute, &u, tasks, 1 + <int64_t>((1 << 18) / (each + 1500)), each * p.size / 256) else OK
    while all.first < all.batch:
        if try_interruptible(whole_products, all, min(all.slots, all.batch - all.first), 1 + <int64_t>((1 << 18) / (each + 1500)),
                        each * p.size / 256):
            return INTERRUPTED
        all.first += all.slots
    return OK
