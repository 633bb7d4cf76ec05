/* For one type of numbers (NUMBER, named OF_NUMBER, LANE integers of its width): vectors of so many of them, or bytes, and sums of runs. */
#define VECTOR_OF(BYTES) __attribute__((vector_size(BYTES), aligned(sizeof(NUMBER)), may_alias))
typedef NUMBER SHORT(OF_NUMBER, single);
typedef NUMBER SHORT(OF_NUMBER, half) VECTOR_OF(16);
typedef NUMBER SHORT(OF_NUMBER, whole) VECTOR_OF(32);
typedef NUMBER SHORT(OF_NUMBER, pair) VECTOR_OF(2 * sizeof(NUMBER));
typedef NUMBER SHORT(OF_NUMBER, four) VECTOR_OF(4 * sizeof(NUMBER));
typedef NUMBER SHORT(OF_NUMBER, eight) VECTOR_OF(8 * sizeof(NUMBER));
typedef LANE SHORT(OF_NUMBER, lanes) VECTOR_OF(32);
#undef VECTOR_OF

FOR_EACH_PROCESSOR
void SHORT(flambeau_runs, OF_NUMBER)(void *context, int64_t begin, int64_t end)
{
    flambeau_rows *r = context;
    const int64_t *starts = r->starts;
    const NUMBER *right = r->right;
    NUMBER *out = r->out;
    int64_t width = r->width;
    for (int64_t i = begin; i < end; i++) {
        int64_t k = starts[i], stop = starts[i + 1];
        if (width == 1) {
            NUMBER sum = right[r->order[k]];
            for (k++; k < stop; k++)
                sum += right[r->order[k]];
            out[i] = sum;
            continue;
        }
        NUMBER *restrict to = out + i * width;
        memcpy(to, right + r->order[k] * width, width * sizeof(NUMBER));
        for (k++; k < stop; k++) {
            const NUMBER *from = right + r->order[k] * width;
            for (int64_t j = 0; j < width; j++)
                to[j] += from[j];
        }
    }
}
