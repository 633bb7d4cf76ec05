/* For one type of numbers (NUMBER, named OF_NUMBER) and one of indices (INDEX, named OF_INDEX). */

/* So many vectors of a row of the product, kept in registers while the row's entries go by. */
#define BLOCK(LANES, VECTORS)                                                                                    \
    for (; j + LANES * VECTORS <= width; j += LANES * VECTORS) {                                                 \
        SHORT(OF_NUMBER, LANES) sum[VECTORS];                                                                    \
        for (int v = 0; v < VECTORS; v++)                                                                        \
            sum[v] = (SHORT(OF_NUMBER, LANES)){0};                                                               \
        for (int64_t k = start; k < stop; k++) {                                                                 \
            int64_t column = columns[k];                                                                         \
            if ((uint64_t)column >= (uint64_t)r->bound) {                                                        \
                r->bad = 1;                                                                                      \
                return;                                                                                          \
            }                                                                                                    \
            const NUMBER *from = right + column * r->right_step + j;                                             \
            for (int v = 0; v < VECTORS; v++)                                                                    \
                sum[v] += values[k] * *(const SHORT(OF_NUMBER, LANES) *)(from + v * LANES);                      \
        }                                                                                                        \
        for (int v = 0; v < VECTORS; v++)                                                                        \
            *(SHORT(OF_NUMBER, LANES) *)(to + j + v * LANES) = sum[v];                                           \
    }

FOR_EACH_PROCESSOR
void JOINED(product, OF_NUMBER, OF_INDEX)(void *context, int64_t begin, int64_t end)
{
    flambeau_rows *r = context;
    const INDEX *starts = r->starts, *columns = r->columns;
    const NUMBER *values = r->values, *right = r->right;
    int64_t width = r->width;
    for (int64_t i = begin; i < end; i++) {
        int64_t start = starts[i], stop = starts[i + 1], j = 0;
        NUMBER *to = (NUMBER *)r->out + i * width;
        if (start < 0 || stop < start || stop > r->listed) {
            r->bad = 1;
            return;
        }
        if (width > 1) {
            BLOCK(16, 4)
            BLOCK(16, 2)
            BLOCK(16, 1)
            BLOCK(8, 1)
            BLOCK(4, 1)
            BLOCK(2, 1)
        }
        for (; j < width; j++) {
            NUMBER a = 0, b = 0;
            int64_t k = start;
            for (; k + 2 <= stop; k += 2) {
                int64_t one = columns[k], two = columns[k + 1];
                if ((uint64_t)one >= (uint64_t)r->bound || (uint64_t)two >= (uint64_t)r->bound) {
                    r->bad = 1;
                    return;
                }
                a += values[k] * right[one * r->right_step + j];
                b += values[k + 1] * right[two * r->right_step + j];
            }
            if (k < stop) {
                int64_t one = columns[k];
                if ((uint64_t)one >= (uint64_t)r->bound) {
                    r->bad = 1;
                    return;
                }
                a += values[k] * right[one * r->right_step + j];
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
            SHORT(OF_NUMBER, 16) wide = {0};
            NUMBER sum = 0;
            for (; j + 16 <= width; j += 16)
                wide += *(const SHORT(OF_NUMBER, 16) *)(left + j) * *(const SHORT(OF_NUMBER, 16) *)(right + j);
            for (int lane = 0; lane < 16; lane++)
                sum += wide[lane];
            for (; j < width; j++)
                sum += left[j] * right[j];
            values[k] = sum;
        }
    }
}
