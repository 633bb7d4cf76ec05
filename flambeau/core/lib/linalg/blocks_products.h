/* C - A B, and triangular systems by it.  Real numbers are counted, not elements, but for terms and rows. */

/* Rows of a tile, some of them twice where fewer exist: their sums are taken one term after another, and subtracted in the end. */
#define EACH_ROW(X) X(0) X(1) X(2) X(3) X(4) X(5)
#define BEGIN_ROW(i)                                          \
    VECTOR s##i##0 = {0}, s##i##1 = {0}, s##i##2 = {0}, s##i##3 = {0}; \
    const NUMBER *a##i = a + (i < exist ? i : 0) * a_row;
#define MULTIPLY_ROW(i)                       \
    if (i < rows) {                           \
        const NUMBER one = a##i[at + part];   \
        s##i##0 += one * r0;                  \
        if (vectors > 1) s##i##1 += one * r1; \
        if (vectors > 2) s##i##2 += one * r2; \
        if (vectors > 3) s##i##3 += one * r3; \
    }
#define SUBTRACT_ROW(i)                                                      \
    if (i < rows) {                                                          \
        NUMBER *to = c + i * c_row;                                          \
        VECTOR_AT(to) -= s##i##0;                                            \
        if (vectors > 1) VECTOR_AT(to + LANES) -= s##i##1;                   \
        if (vectors > 2) VECTOR_AT(to + 2 * LANES) -= s##i##2;               \
        if (vectors > 3) VECTOR_AT(to + 3 * LANES) -= s##i##3;               \
    }

static inline __attribute__((always_inline)) void NAME(tile)(NUMBER *c, int64_t c_row, const NUMBER *a, int64_t a_row, int64_t a_col,
                                                             const NUMBER *b, int64_t b_row, int64_t terms, int64_t exist, const int rows,
                                                             const int vectors) {
    EACH_ROW(BEGIN_ROW)
    for (int64_t at = 0, end = terms * a_col; at != end; at += a_col) {
        for (int part = 0; part < PARTS; part++, b += b_row) {
            VECTOR r0 = CONST_VECTOR_AT(b), r1 = r0, r2 = r0, r3 = r0;
            if (vectors > 1) r1 = CONST_VECTOR_AT(b + LANES);
            if (vectors > 2) r2 = CONST_VECTOR_AT(b + 2 * LANES);
            if (vectors > 3) r3 = CONST_VECTOR_AT(b + 3 * LANES);
            EACH_ROW(MULTIPLY_ROW)
        }
    }
    EACH_ROW(SUBTRACT_ROW)
}

#define TILE(rows, vectors)                                                                                                                     \
    static __attribute__((noinline)) void NAME(tile_##rows##_##vectors)(NUMBER * c, int64_t c_row, const NUMBER *a, int64_t a_row, int64_t a_col, \
                                                                        const NUMBER *b, int64_t b_row, int64_t terms, int64_t exist) {          \
        NAME(tile)(c, c_row, a, a_row, a_col, b, b_row, terms, exist, rows, vectors);                                                             \
    }
#define TILES(vectors) TILE(2, vectors) TILE(4, vectors) TILE(6, vectors)
#define NAMES(vectors) {NAME(tile_2_##vectors), NAME(tile_4_##vectors), NAME(tile_6_##vectors)}
TILES(1)
TILES(2)
#if VECTORS > 2
TILES(3)
TILES(4)
#endif
static void (*const NAME(tiles)[VECTORS][3])(NUMBER *, int64_t, const NUMBER *, int64_t, int64_t, const NUMBER *, int64_t, int64_t, int64_t) = {
    NAMES(1),
    NAMES(2),
#if VECTORS > 2
    NAMES(3),
    NAMES(4),
#endif
};

/* Some rows of B for tiles of so many vectors, 0 beyond `width`. */
static void NAME(lay)(NUMBER *to, int64_t vectors, const NUMBER *b, int64_t b_row, int64_t terms, int64_t width, int conjugate) {
    int64_t whole = width / LANES, wide = vectors * LANES;
    for (int64_t t = 0; t < terms; t++, b += b_row, to += wide * PARTS) {
        for (int64_t v = 0; v < whole; v++) VECTOR_AT(to + v * LANES) = CONST_VECTOR_AT(b + v * LANES);
        for (int64_t j = whole * LANES; j < wide; j++) to[j] = j < width ? b[j] : 0;
#if PARTS == 2
        for (int64_t v = 0; v < vectors; v++) {
            VECTOR x = TURNED(CONST_VECTOR_AT(to + v * LANES));
            VECTOR_AT(to + wide + v * LANES) = conjugate ? -x : x;
        }
#else
        (void)conjugate;
#endif
    }
}

static inline int64_t NAME(next_rows)(int64_t left) { return left > 8 || left == 5 || left == 6 ? 6 : left > 2 ? 4 : 2; }

static void NAME(subtract)(void *to, int64_t c_row, const void *left, int64_t a_row, int64_t a_col, const void *right, int64_t b_row, int64_t m,
                           int64_t n, int64_t k, int64_t below, int conjugate) {
    NUMBER laid[TERMS * WIDE] __attribute__((aligned(64))), edge[ROWS * WIDE] __attribute__((aligned(64)));
    NUMBER *c = to;
    const NUMBER *a = left, *b = right;
    c_row *= PARTS, a_row *= PARTS, a_col *= PARTS, b_row *= PARTS, n *= PARTS, below *= PARTS;
    for (int64_t t = 0; t < k; t += TERMS / PARTS) {
        int64_t terms = k - t < TERMS / PARTS ? k - t : TERMS / PARTS;
        for (int64_t column = 0; column < n; column += WIDE) {
            int64_t width = n - column < WIDE ? n - column : WIDE, vectors = (width + LANES - 1) / LANES;
            int64_t row = column > below ? (column - below) / PARTS : 0, laid_row = vectors * LANES;
            if (row >= m) break;
            const NUMBER *panel = b + t * b_row + column;
            if (PARTS == 1 && m - row <= IN_PLACE && width == laid_row) {
                laid_row = b_row;
            } else {
                NAME(lay)(laid, vectors, panel, b_row, terms, width, conjugate);
                panel = laid;
            }
            for (int64_t rows; row < m; row += rows) {
                rows = NAME(next_rows)(m - row);
                int64_t exist = m - row < rows ? m - row : rows;
                NUMBER *at = c + row * c_row + column;
                const NUMBER *from = a + row * a_row + t * a_col;
                if (exist == rows && width == vectors * LANES) {
                    NAME(tiles)[vectors - 1][rows / 2 - 1](at, c_row, from, a_row, a_col, panel, laid_row, terms, exist);
                    continue;
                }
                for (int64_t i = 0; i < rows; i++)
                    for (int64_t j = 0; j < vectors * LANES; j++)
                        edge[i * vectors * LANES + j] = i < exist && j < width ? at[i * c_row + j] : 0;
                NAME(tiles)[vectors - 1][rows / 2 - 1](edge, vectors * LANES, from, a_row, a_col, panel, laid_row, terms, exist);
                for (int64_t i = 0; i < exist; i++) memcpy(at + i * c_row, edge + i * vectors * LANES, (size_t)width * sizeof(NUMBER));
            }
        }
    }
}

/* --- triangular systems ------------------------------------------------------------------------------------------------------ */
#define TRIANGLE 16 /* rows that are substituted one after another */

/* A triangle by rows in the order in which they are met, and the reciprocals of its diagonal. */
typedef struct {
    NUMBER of[TRIANGLE * TRIANGLE * PARTS], over[TRIANGLE * PARTS];
    int divides[TRIANGLE]; /* where a reciprocal is not as exact as a quotient: below the least normal number, or not finite */
} NAME(triangle);

/* 1 / (re + i im), without squares that overflow (R. Smith, "Algorithm 116: complex division", 1962). */
static inline void NAME(reciprocal)(const NUMBER *x, NUMBER *to) {
#if PARTS == 1
    to[0] = 1 / x[0];
#else
    NUMBER re = x[0], im = x[1], size_re = re < 0 ? -re : re, size_im = im < 0 ? -im : im;
    if (size_re >= size_im) {
        NUMBER r = im / re, d = re + im * r;
        to[0] = 1 / d, to[1] = -r / d;
    } else {
        NUMBER r = re / im, d = re * r + im;
        to[0] = r / d, to[1] = -1 / d;
    }
#endif
}

static inline __attribute__((always_inline)) void NAME(substitute)(const NAME(triangle) * t, NUMBER *x, int64_t step, int64_t n, int unit,
                                                                   const int vectors) {
    for (int64_t i = 0; i < n; i++) {
        NUMBER *to = x + i * step;
        const NUMBER *one = t->of + i * TRIANGLE * PARTS;
        VECTOR s[4];
        for (int v = 0; v < vectors; v++) s[v] = VECTOR_AT(to + v * LANES);
#if PARTS == 2
        VECTOR turned[4] = {{0}};
#endif
        for (int64_t k = 0; k < i; k++)
            for (int v = 0; v < vectors; v++) {
                VECTOR other = VECTOR_AT(x + k * step + v * LANES);
                s[v] -= one[k * PARTS] * other;
#if PARTS == 2
                turned[v] += one[k * PARTS + 1] * other;
#endif
            }
        for (int v = 0; v < vectors; v++) {
#if PARTS == 2
            s[v] -= TURNED(turned[v]);
            if (!unit) s[v] = t->over[i * 2] * s[v] + t->over[i * 2 + 1] * TURNED(s[v]);
#else
            if (!unit) s[v] = t->divides[i] ? s[v] / one[i] : s[v] * t->over[i];
#endif
            VECTOR_AT(to + v * LANES) = s[v];
        }
    }
}

static void NAME(solve_small)(const NUMBER *a, int64_t a_row, int64_t a_col, NUMBER *x, int64_t x_row, int64_t n, int64_t columns, int upper,
                              int unit) {
    NAME(triangle) t;
    NUMBER edge[TRIANGLE * LANES] __attribute__((aligned(64)));
    int64_t first = upper ? n - 1 : 0, sign = upper ? -1 : 1, column = 0, step = sign * x_row;
    a += first * (a_row + a_col), x += first * x_row;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t k = 0; k < (unit ? i : i + 1); k++)
            for (int p = 0; p < PARTS; p++) t.of[(i * TRIANGLE + k) * PARTS + p] = a[sign * (i * a_row + k * a_col) + p];
        t.divides[i] = 0;
        if (!unit) {
            NAME(reciprocal)(t.of + (i * TRIANGLE + i) * PARTS, t.over + i * PARTS);
            NUMBER over = t.over[i * PARTS] < 0 ? -t.over[i * PARTS] : t.over[i * PARTS];
            t.divides[i] = !(over >= LEAST_NORMAL) || over - over != 0;
        }
    }
    for (; column + 4 * LANES <= columns; column += 4 * LANES) NAME(substitute)(&t, x + column, step, n, unit, 4);
    for (; column + LANES <= columns; column += LANES) NAME(substitute)(&t, x + column, step, n, unit, 1);
    if (column < columns) {
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < LANES; j++) edge[i * LANES + j] = column + j < columns ? x[i * step + column + j] : 0;
        NAME(substitute)(&t, edge, LANES, n, unit, 1);
        for (int64_t i = 0; i < n; i++) memcpy(x + i * step + column, edge + i * LANES, (size_t)(columns - column) * sizeof(NUMBER));
    }
}

static void NAME(solve)(const void *matrix, int64_t a_row, int64_t a_col, void *right, int64_t x_row, int64_t n, int64_t columns, int upper,
                        int unit) {
    const NUMBER *a = matrix;
    NUMBER *x = right;
    if (n <= TRIANGLE) {
        NAME(solve_small)(a, a_row * PARTS, a_col * PARTS, x, x_row * PARTS, n, columns * PARTS, upper, unit);
        return;
    }
    int64_t half = (n / 2 + TRIANGLE - 1) / TRIANGLE * TRIANGLE, rest = n - half;
    const NUMBER *last = a + half * (a_row + a_col) * PARTS;
    NUMBER *below = x + half * x_row * PARTS;
    if (upper) {
        NAME(solve)(last, a_row, a_col, below, x_row, rest, columns, upper, unit);
        NAME(subtract)(x, x_row, a + half * a_col * PARTS, a_row, a_col, below, x_row, half, columns, rest, columns, 0);
        NAME(solve)(a, a_row, a_col, x, x_row, half, columns, upper, unit);
    } else {
        NAME(solve)(a, a_row, a_col, x, x_row, half, columns, upper, unit);
        NAME(subtract)(below, x_row, a + half * a_row * PARTS, a_row, a_col, x, x_row, rest, columns, half, columns, 0);
        NAME(solve)(last, a_row, a_col, below, x_row, rest, columns, upper, unit);
    }
}

#undef EACH_ROW
#undef BEGIN_ROW
#undef MULTIPLY_ROW
#undef SUBTRACT_ROW
#undef TILE
#undef TILES
#undef NAMES
