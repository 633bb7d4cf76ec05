/* For one type of numbers (NUMBER, named OF_NUMBER) and one of indices (INDEX, named OF_INDEX). */

/* The next rows from i on, whose entries are looked at here so that the loops over them need not; returns the row after them,
   or i where an index is out of bounds. */
FOR_EACH_PROCESSOR
static int64_t JOINED(looked_at, OF_NUMBER, OF_INDEX)(const flambeau_rows *r, int64_t i, int64_t end)
{
    const INDEX *starts = r->starts;
    const UNSIGNED *columns = r->columns;
    int64_t next = end - i < AT_ONCE ? end : i + AT_ONCE, first = starts[i], last = starts[next];
    uint64_t negative = (UNSIGNED)1 << (8 * sizeof(INDEX) - 1), bound = r->bound;
    UNSIGNED most = 0; /* a negative index is more than any other */
    int falls = 0;
    for (int64_t row = i; row < next; row++)
        falls |= starts[row + 1] < starts[row];
    if (falls || first < 0 || last > r->listed)
        return i;
    for (int64_t k = first; k < last; k++)
        most = columns[k] > most ? columns[k] : most;
    return first < last && most >= (bound < negative ? bound : negative) ? i : next;
}

/* A loop over all rows from `begin` to `end`, of which each lists the entries from k up to `stop`. */
#define EACH_ROW(...)                                                                                              \
    const INDEX *starts = r->starts, *columns = r->columns;                                                        \
    const NUMBER *values = r->values, *right = r->right;                                                           \
    for (int64_t i = begin, next; i < end; i = next) {                                                             \
        next = JOINED(looked_at, OF_NUMBER, OF_INDEX)(r, i, end);                                                  \
        if (next == i) {                                                                                           \
            r->bad = 1;                                                                                            \
            return;                                                                                                \
        }                                                                                                          \
        for (int64_t row = i, k = starts[i], stop; row < next; row++, k = stop) {                                  \
            stop = starts[row + 1];                                                                                \
            __VA_ARGS__                                                                                            \
        }                                                                                                          \
    }

/* A product with a vector, of as many rows from i on as list FETCHED entries: first all terms, then their sums, 16 at a time
   with those beyond the row masked out, so that nothing waits for where a row ends.  Returns the row after the last, or i where
   the rows are not of this form. */
FOR_EACH_PROCESSOR
static int64_t JOINED(fetched, OF_NUMBER, OF_INDEX)(flambeau_rows *r, int64_t i, int64_t end)
{
    enum { LANES = sizeof(SHORT(OF_NUMBER, whole)) / sizeof(NUMBER), PARTS = TOGETHER / LANES };
    const INDEX *restrict starts = r->starts, *restrict columns = r->columns;
    const NUMBER *restrict values = r->values, *restrict right = r->right;
    NUMBER *restrict to = r->out, terms[FETCHED + 2 * TOGETHER];
    int64_t first = starts[i], last = first, next = i;
    int64_t most = sizeof(INDEX) == 4 ? INT32_MAX : INT64_MAX;
    INDEX outside = 0, top = r->bound - 1 < most ? r->bound - 1 : most;
    SHORT(OF_NUMBER, lanes) number[PARTS];
    if (first < 0)
        return i;
    while (next < end && starts[next + 1] >= last && starts[next + 1] - first <= FETCHED)
        last = starts[++next];
    if (last > r->listed)
        return i;
    columns += first;
    values += first;
    int count = last - first;
    for (int k = 0; k < count; k++) {
        INDEX column = columns[k];
        outside |= column | (INDEX)((uint64_t)top - (uint64_t)column); /* negative where one is out of bounds */
    }
    if (outside < 0)
        return i;
    for (int k = 0; k < count; k++)
        terms[k] = values[k] * right[columns[k]];
    for (int part = 0; part < PARTS; part++)
        for (int lane = 0; lane < LANES; lane++)
            number[part][lane] = part * LANES + lane;
    for (; i < next; i++) {
        int64_t k = starts[i] - first, left = starts[i + 1] - first - k;
        SHORT(OF_NUMBER, whole) sum = {0};
        do {
            SHORT(OF_NUMBER, lanes) limit = (LANE)left - (SHORT(OF_NUMBER, lanes)){0};
            for (int part = 0; part < PARTS; part++) {
                SHORT(OF_NUMBER, lanes) term = *(SHORT(OF_NUMBER, lanes) *)(terms + k + part * LANES);
                sum += (SHORT(OF_NUMBER, whole))(term & (number[part] < limit));
            }
            k += TOGETHER;
            left -= TOGETHER;
        } while (left > 0);
        union {
            SHORT(OF_NUMBER, whole) whole;
            SHORT(OF_NUMBER, half) half[2];
        } both = {sum};
        SHORT(OF_NUMBER, half) total = both.half[0] + both.half[1];
        to[i] = LANES == 8 ? (total[0] + total[2 % (LANES / 2)]) + (total[1] + total[3 % (LANES / 2)]) : total[0] + total[1];
    }
    return next;
}

/* A product with a vector without gaps, so few rows that a processor remembers where they end. */
FOR_EACH_PROCESSOR
static void JOINED(vector, OF_NUMBER, OF_INDEX)(flambeau_rows *r, int64_t begin, int64_t end)
{
    typedef SHORT(OF_NUMBER, four) four;
    EACH_ROW(
        four a = {0}, b = {0};
        NUMBER c = 0;
        for (; k + 8 <= stop; k += 8) {
            a += *(const four *)(values + k) * (four){PICKED(k)};
            b += *(const four *)(values + k + 4) * (four){PICKED(k + 4)};
        }
        if ((stop - k) & 4) {
            a += *(const four *)(values + k) * (four){PICKED(k)};
            k += 4;
        }
        if ((stop - k) & 2) {
            c = values[k] * right[columns[k]] + values[k + 1] * right[columns[k + 1]];
            k += 2;
        }
        if (k < stop)
            c += values[k] * right[columns[k]];
        a += b;
        ((NUMBER *)r->out)[row] = ((a[0] + a[2]) + (a[1] + a[3])) + c;
    )
}

/* A product with a matrix of so few columns that a vector is one of its rows. */
#define FROM(K) (*(const VECTOR *)(right + (int64_t)columns[K] * WIDTH))
#define NARROW(NAME, TYPE)                                                                                         \
    FOR_EACH_PROCESSOR                                                                                             \
    static void JOINED(NAME, OF_NUMBER, OF_INDEX)(flambeau_rows *r, int64_t begin, int64_t end)                    \
    {                                                                                                              \
        typedef TYPE VECTOR;                                                                                       \
        enum { WIDTH = sizeof(VECTOR) / sizeof(NUMBER) };                                                          \
        EACH_ROW(                                                                                                  \
            VECTOR a = {0}, b = {0}, c = {0}, d = {0};                                                             \
            for (; k + 4 <= stop; k += 4) {                                                                        \
                a += values[k] * FROM(k);                                                                          \
                b += values[k + 1] * FROM(k + 1);                                                                  \
                c += values[k + 2] * FROM(k + 2);                                                                  \
                d += values[k + 3] * FROM(k + 3);                                                                  \
            }                                                                                                      \
            if ((stop - k) & 2) {                                                                                  \
                a += values[k] * FROM(k);                                                                          \
                b += values[k + 1] * FROM(k + 1);                                                                  \
                k += 2;                                                                                            \
            }                                                                                                      \
            if (k < stop)                                                                                          \
                c += values[k] * FROM(k);                                                                          \
            *(VECTOR *)((NUMBER *)r->out + row * WIDTH) = (a + b) + (c + d);                                       \
        )                                                                                                          \
    }
NARROW(two, SHORT(OF_NUMBER, pair))
NARROW(four, SHORT(OF_NUMBER, four))
NARROW(eight, SHORT(OF_NUMBER, eight))
#undef NARROW
#undef FROM

/* So many vectors of a row of the product, kept in registers while the row's entries go by. */
#define BLOCK(VECTOR, COUNT)                                                                                       \
    for (; j + (int64_t)(sizeof(VECTOR) / sizeof(NUMBER)) * COUNT <= width;                                        \
         j += (int64_t)(sizeof(VECTOR) / sizeof(NUMBER)) * COUNT) {                                                \
        VECTOR sum[COUNT];                                                                                         \
        for (int v = 0; v < COUNT; v++)                                                                            \
            sum[v] = (VECTOR){0};                                                                                  \
        for (int64_t n = k; n < stop; n++) {                                                                       \
            const VECTOR *from = (const VECTOR *)(right + columns[n] * step + j);                                  \
            for (int v = 0; v < COUNT; v++)                                                                        \
                sum[v] += values[n] * from[v];                                                                     \
        }                                                                                                          \
        for (int v = 0; v < COUNT; v++)                                                                            \
            ((VECTOR *)(to + j))[v] = sum[v];                                                                      \
    }

FOR_EACH_PROCESSOR
void JOINED(product, OF_NUMBER, OF_INDEX)(void *context, int64_t begin, int64_t end)
{
    flambeau_rows *r = context;
    int64_t width = r->width, step = r->right_step;
    if (width == 1) {
        for (int64_t i = begin, next; i < end && !r->bad; i = next) {
            next = r->listed > MANY ? JOINED(fetched, OF_NUMBER, OF_INDEX)(r, i, end) : i;
            if (next == i) {
                next = r->listed > MANY ? i + 1 : end;
                JOINED(vector, OF_NUMBER, OF_INDEX)(r, i, next);
            }
        }
        return;
    }
    if (width == step && (width == 2 || width == 4 || width == 8)) {
        (width == 2 ? JOINED(two, OF_NUMBER, OF_INDEX) : width == 4 ? JOINED(four, OF_NUMBER, OF_INDEX) :
                                                                    JOINED(eight, OF_NUMBER, OF_INDEX))(r, begin, end);
        return;
    }
    EACH_ROW(
        NUMBER *to = (NUMBER *)r->out + row * width;
        int64_t j = 0;
        BLOCK(SHORT(OF_NUMBER, whole), 8)
        BLOCK(SHORT(OF_NUMBER, whole), 4)
        BLOCK(SHORT(OF_NUMBER, whole), 2)
        BLOCK(SHORT(OF_NUMBER, whole), 1)
        BLOCK(SHORT(OF_NUMBER, half), 1)
        BLOCK(SHORT(OF_NUMBER, pair), 1)
        BLOCK(SHORT(OF_NUMBER, single), 1)
    )
}
#undef BLOCK
#undef EACH_ROW

FOR_EACH_PROCESSOR
void JOINED(inner, OF_NUMBER, OF_INDEX)(void *context, int64_t begin, int64_t end)
{
    flambeau_rows *r = context;
    const INDEX *starts = r->starts, *columns = r->columns;
    NUMBER *values = (NUMBER *)r->values;
    int64_t width = r->width;
    for (int64_t i = begin; i < end; i++) {
        int64_t start = starts[i], stop = starts[i + 1];
        const NUMBER *left = (const NUMBER *)r->left + i * r->left_step;
        if (start < 0 || stop < start || stop > r->listed) {
            r->bad = 1;
            return;
        }
        for (int64_t k = start; k < stop; k++) {
            int64_t column = columns[k], j = 0;
            if ((uint64_t)column >= (uint64_t)r->bound) {
                r->bad = 1;
                return;
            }
            const NUMBER *right = (const NUMBER *)r->right + column * r->right_step;
            SHORT(OF_NUMBER, whole) one = {0}, two = {0};
            NUMBER sum = 0;
            int64_t lanes = sizeof(one) / sizeof(NUMBER);
            for (; j + 2 * lanes <= width; j += 2 * lanes) {
                const SHORT(OF_NUMBER, whole) *x = (const void *)(left + j), *y = (const void *)(right + j);
                one += x[0] * y[0];
                two += x[1] * y[1];
            }
            one += two;
            for (int lane = 0; lane < lanes; lane++)
                sum += one[lane];
            for (; j < width; j++)
                sum += left[j] * right[j];
            values[k] = sum;
        }
    }
}
