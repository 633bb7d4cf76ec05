/* For one type of numbers (NUMBER, named OF_NUMBER) and one of indices (INDEX, named OF_INDEX). */

/* So many vectors of a row of the product, kept in registers while the row's entries go by. */
#define BLOCK(VECTOR, COUNT)                                                                                       \
    for (; j + (int64_t)(sizeof(VECTOR) / sizeof(NUMBER)) * COUNT <= width;                                        \
         j += (int64_t)(sizeof(VECTOR) / sizeof(NUMBER)) * COUNT) {                                                \
        VECTOR sum[COUNT];                                                                                         \
        for (int v = 0; v < COUNT; v++)                                                                            \
            sum[v] = (VECTOR){0};                                                                                  \
        for (int64_t k = start; k < stop; k++) {                                                                   \
            int64_t column = columns[k];                                                                           \
            if ((uint64_t)column >= (uint64_t)bound) {                                                             \
                r->bad = 1;                                                                                        \
                return;                                                                                            \
            }                                                                                                      \
            const VECTOR *from = (const VECTOR *)(right + column * step + j);                                      \
            for (int v = 0; v < COUNT; v++)                                                                        \
                sum[v] += values[k] * from[v];                                                                     \
        }                                                                                                          \
        for (int v = 0; v < COUNT; v++)                                                                            \
            ((VECTOR *)(to + j))[v] = sum[v];                                                                      \
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

/* A product with a vector without gaps. */
FOR_EACH_PROCESSOR
static void JOINED(vector, OF_NUMBER, OF_INDEX)(flambeau_rows *r, int64_t begin, int64_t end)
{
    const INDEX *restrict starts = r->starts, *restrict columns = r->columns;
    const NUMBER *restrict values = r->values, *restrict right = r->right;
    NUMBER *restrict to = r->out;
    int64_t bound = r->bound, listed = r->listed;
    for (int64_t i = begin; i < end; i++) {
        if (listed > MANY) {
            int64_t next = JOINED(fetched, OF_NUMBER, OF_INDEX)(r, i, end);
            if (next > i) {
                i = next - 1;
                continue;
            }
        }
        int64_t k = starts[i], stop = starts[i + 1];
        NUMBER a = 0, b = 0;
        if (k < 0 || stop < k || stop > listed) {
            r->bad = 1;
            return;
        }
        for (; k + 2 <= stop; k += 2) {
            int64_t one = columns[k], two = columns[k + 1];
            if ((uint64_t)one >= (uint64_t)bound || (uint64_t)two >= (uint64_t)bound) {
                r->bad = 1;
                return;
            }
            a += values[k] * right[one];
            b += values[k + 1] * right[two];
        }
        if (k < stop) {
            int64_t one = columns[k];
            if ((uint64_t)one >= (uint64_t)bound) {
                r->bad = 1;
                return;
            }
            a += values[k] * right[one];
        }
        to[i] = a + b;
    }
}

FOR_EACH_PROCESSOR
void JOINED(product, OF_NUMBER, OF_INDEX)(void *context, int64_t begin, int64_t end)
{
    flambeau_rows *r = context;
    const INDEX *starts = r->starts, *columns = r->columns;
    const NUMBER *values = r->values, *right = r->right;
    int64_t width = r->width, bound = r->bound, step = r->right_step;
    if (width == 1) {
        JOINED(vector, OF_NUMBER, OF_INDEX)(r, begin, end);
        return;
    }
    for (int64_t i = begin; i < end; i++) {
        int64_t start = starts[i], stop = starts[i + 1], j = 0;
        NUMBER *to = (NUMBER *)r->out + i * width;
        if (start < 0 || stop < start || stop > r->listed) {
            r->bad = 1;
            return;
        }
        BLOCK(SHORT(OF_NUMBER, whole), 8)
        BLOCK(SHORT(OF_NUMBER, whole), 4)
        BLOCK(SHORT(OF_NUMBER, whole), 2)
        BLOCK(SHORT(OF_NUMBER, whole), 1)
        BLOCK(SHORT(OF_NUMBER, half), 1)
        for (; j < width; j++) {
            NUMBER a = 0, b = 0;
            int64_t k = start;
            for (; k + 2 <= stop; k += 2) {
                int64_t one = columns[k], two = columns[k + 1];
                if ((uint64_t)one >= (uint64_t)bound || (uint64_t)two >= (uint64_t)bound) {
                    r->bad = 1;
                    return;
                }
                a += values[k] * right[one * step + j];
                b += values[k + 1] * right[two * step + j];
            }
            if (k < stop) {
                int64_t one = columns[k];
                if ((uint64_t)one >= (uint64_t)bound) {
                    r->bad = 1;
                    return;
                }
                a += values[k] * right[one * step + j];
            }
            to[j] = a + b;
        }
    }
}
#undef BLOCK

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
