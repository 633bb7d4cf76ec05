/* Householder's reflections of small matrices, one after another, for one kind of real numbers: included once for each.

   The matrix lies in a workspace by rows, whose columns fill up whole vectors with zeros, so a reflection 1 - tau w wᵀ is two walks over
   rows: s = Σ w_i row_i, then row_i -= tau w_i s.  Lanes are columns, no sum goes across them.

   Before inclusion: NUMBER, OF_NUMBER (a suffix), LOWEST and HIGHEST: between which norms of columns lie whose squares and reciprocals
   neither underflow nor overflow. */
#define LANES ((int64_t)(64 / sizeof(NUMBER)))
#define JOINED_(a, b) a##_##b
#define JOINED(a, b) JOINED_(a, b)
#define NAMED(a) JOINED(a, OF_NUMBER)

typedef NUMBER NAMED(lanes) __attribute__((vector_size(64), aligned(sizeof(NUMBER)), may_alias));

/* The matrix, which comes by columns, is put into `rows`; 0 where it has infinite numbers or NaN, or its squares would overflow. */
static int NAMED(gather)(const NUMBER *columns, int64_t lead, int64_t m, int64_t n, NUMBER *rows, int64_t wide) {
    int finite = 1;
    memset(rows, 0, m * wide * sizeof(NUMBER));
    for (int64_t c = 0; c < n; c++)
        for (int64_t r = 0; r < m; r++) {
            NUMBER x = columns[c * lead + r], size = x < 0 ? -x : x;
            rows[r * wide + c] = x;
            finite &= size <= HIGHEST;
        }
    return finite;
}

static void NAMED(scatter)(const NUMBER *rows, int64_t wide, int64_t m, int64_t n, NUMBER *columns, int64_t lead) {
    for (int64_t c = 0; c < n; c++)
        for (int64_t r = 0; r < m; r++)
            columns[c * lead + r] = rows[r * wide + c];
}

/* `count` vectors of the columns from `at` on; those before column `from` stay as they are. */
#define REFLECT(count)                                                                                                                     \
    do {                                                                                                                                   \
        NAMED(lanes) s[count];                                                                                                             \
        for (int k = 0; k < count; k++) s[k] = (NAMED(lanes)){0};                                                                          \
        for (int64_t r = first; r < m; r++)                                                                                                \
            for (int k = 0; k < count; k++) s[k] += w[r] * ((const NAMED(lanes) *)(rows + r * wide + at))[k];                              \
        for (int k = 0; k < count; k++) s[k] *= tau;                                                                                       \
        for (int64_t c = at; c < from; c++) ((NUMBER *)s)[c - at] = 0;                                                                     \
        for (int64_t r = first; r < m; r++)                                                                                                \
            for (int k = 0; k < count; k++) ((NAMED(lanes) *)(rows + r * wide + at))[k] -= w[r] * s[k];                                    \
        at += count * LANES;                                                                                                               \
    } while (0)

FOR_EACH_PROCESSOR
static void NAMED(reflect)(NUMBER *rows, int64_t wide, int64_t first, int64_t m, const NUMBER *w, NUMBER tau, int64_t from) {
    int64_t at = from / LANES * LANES;
    while (at + 4 * LANES <= wide) REFLECT(4);
    if (at + 2 * LANES <= wide) REFLECT(2);
    if (at < wide) REFLECT(1);
}

/* `geqrf` of a matrix by columns; 0, with nothing written, where it is for LAPACK. The workspace has m (wide + 1) numbers. */
static int NAMED(qr)(NUMBER *a, int64_t lead, int64_t m, int64_t n, NUMBER *scales, NUMBER *rows, int64_t wide) {
    NUMBER *w = rows + m * wide;
    if (!NAMED(gather)(a, lead, m, n, rows, wide)) return 0;
    for (int64_t j = 0; j < m && j < n; j++) {
        int any = 0;
        double sums[4] = {0};
        NUMBER alpha = rows[j * wide + j], norm, beta, scale;
        for (int64_t r = j + 1; r < m; r++) {
            w[r] = rows[r * wide + j];
            any |= w[r] != 0;
            sums[r & 3] += (double)w[r] * w[r];
        }
        sums[0] += sums[1] + (sums[2] + sums[3]);
        scales[j] = 0;
        if (!any) continue;
        norm = (NUMBER)sqrt(sums[0] + (double)alpha * alpha);
        if (norm < LOWEST) return 0;
        beta = alpha < 0 ? norm : -norm;
        scale = 1 / (alpha - beta);
        scales[j] = (beta - alpha) / beta;
        w[j] = 1;
        for (int64_t r = j + 1; r < m; r++) rows[r * wide + j] = w[r] *= scale;
        rows[j * wide + j] = beta;
        if (j + 1 < n) NAMED(reflect)(rows, wide, j, m, w, scales[j], j + 1);
    }
    NAMED(scatter)(rows, wide, m, n, a, lead);
    return 1;
}

/* `orgqr` of k reflections, of which n columns are wanted, in the same way. */
static int NAMED(q)(NUMBER *a, int64_t lead, int64_t m, int64_t n, int64_t k, const NUMBER *scales, NUMBER *rows, int64_t wide) {
    NUMBER *w = rows + m * wide;
    for (int64_t j = 0; j < k; j++)
        if (!(scales[j] >= 0 && scales[j] <= 2)) return 0;
    if (!NAMED(gather)(a, lead, m, k, rows, wide)) return 0;
    for (int64_t j = k; j < n; j++) rows[j * wide + j] = 1;
    for (int64_t j = k - 1; j >= 0; j--) {
        w[j] = 1;
        for (int64_t r = j + 1; r < m; r++) w[r] = rows[r * wide + j];
        if (j + 1 < n) NAMED(reflect)(rows, wide, j, m, w, scales[j], j + 1);
        for (int64_t r = 0; r < j; r++) rows[r * wide + j] = 0;
        rows[j * wide + j] = 1 - scales[j];
        for (int64_t r = j + 1; r < m; r++) rows[r * wide + j] = -scales[j] * w[r];
    }
    NAMED(scatter)(rows, wide, m, n, a, lead);
    return 1;
}
#undef REFLECT
#undef LANES
#undef JOINED_
#undef JOINED
#undef NAMED
