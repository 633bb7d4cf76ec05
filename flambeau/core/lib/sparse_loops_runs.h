/* For one type of numbers (NUMBER, named OF_NUMBER, LANE integers of its width): vectors of 32 bytes and their halves, and sums of runs. */
typedef NUMBER SHORT(OF_NUMBER, whole) __attribute__((vector_size(32), aligned(sizeof(NUMBER)), may_alias));
typedef NUMBER SHORT(OF_NUMBER, half) __attribute__((vector_size(16), aligned(sizeof(NUMBER)), may_alias));
typedef LANE SHORT(OF_NUMBER, lanes) __attribute__((vector_size(32), aligned(sizeof(LANE)), may_alias));

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
