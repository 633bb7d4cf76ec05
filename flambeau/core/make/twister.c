#include "twister.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

/* The same loops for newer processors, of which the loader takes what runs here.  Sums of products are fused where `fma` says so and
   nowhere else (-ffp-contract=off), so the bits are the same. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__)
#define FOR_NEWER __attribute__((target_clones("avx512f", "arch=haswell", "default")))
#else
#define FOR_NEWER
#endif

#define N FLAMBEAU_TWISTER_WORDS
#define AHEAD 397                        /* mt19937's constants */
#define MATRIX 0x9908b0dfu
#define CHUNK 512                        /* elements that are made at once */
#define PI 3.14159265358979323846

/* --- words --------------------------------------------------------------------------------------------------------------- */
void flambeau_twister_seed(flambeau_twister *t, uint64_t seed)
{
    t->seed = seed;
    t->state[0] = (uint32_t)seed;
    for (uint32_t i = 1; i < N; i++)
        t->state[i] = 1812433253u * (t->state[i - 1] ^ t->state[i - 1] >> 30) + i;
    t->used = N, t->fresh = 1;
    t->has_normal = t->has_single = 0;
    t->normal = t->single = 0;
}

static inline uint32_t twist(uint32_t upper, uint32_t lower)
{
    uint32_t y = (upper & 0x80000000u) | (lower & 0x7fffffffu);
    return y >> 1 ^ (-(lower & 1u) & MATRIX);
}

FOR_NEWER static void next_block(uint32_t *s)
{
    for (int i = 0; i < N - AHEAD; i++)
        s[i] = s[i + AHEAD] ^ twist(s[i], s[i + 1]);
    for (int i = N - AHEAD; i < N - 1; i++)
        s[i] = s[i - (N - AHEAD)] ^ twist(s[i], s[i + 1]);
    s[N - 1] = s[AHEAD - 1] ^ twist(s[N - 1], s[0]);
}

static inline uint32_t tempered(uint32_t y)
{
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680u;
    y ^= y << 15 & 0xefc60000u;
    return y ^ y >> 18;
}

FOR_NEWER static void temper(const uint32_t *restrict from, uint32_t *restrict to, int n)
{
    for (int i = 0; i < n; i++)
        to[i] = tempered(from[i]);
}

static inline void make_block(flambeau_twister *t)
{
    next_block(t->state);
    t->used = 0, t->fresh = 0;
}

static void take(flambeau_twister *t, uint32_t *to, int n)
{
    while (n > 0) {
        int m;
        if (t->used == N)
            make_block(t);
        m = N - t->used < n ? N - t->used : n;
        temper(t->state + t->used, to, m);
        t->used += m, to += m, n -= m;
    }
}

uint32_t flambeau_twister_word(flambeau_twister *t)
{
    if (t->used == N)
        make_block(t);
    return tempered(t->state[t->used++]);
}

uint64_t flambeau_twister_pair(flambeau_twister *t)
{
    uint64_t high = flambeau_twister_word(t);
    return high << 32 | flambeau_twister_word(t);
}

/* --- one thread at a time ------------------------------------------------------------------------------------------------ */
static int epoch = 1;                    /* a process's own: what another thread held before a fork is free in the child */

static void in_child(void) { epoch++; }

void flambeau_twister_prepare(void) { pthread_atfork(NULL, NULL, in_child); }

int flambeau_twister_try_hold(flambeau_twister *t)
{
    int holder = __atomic_load_n(&t->busy, __ATOMIC_RELAXED);
    return holder != epoch &&
           __atomic_compare_exchange_n(&t->busy, &holder, epoch, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

void flambeau_twister_hold(flambeau_twister *t)
{
    while (!flambeau_twister_try_hold(t))
        sched_yield();
}

void flambeau_twister_release(flambeau_twister *t) { __atomic_store_n(&t->busy, 0, __ATOMIC_RELEASE); }

/* --- states ---------------------------------------------------------------------------------------------------------------
   seed (8 bytes), words left (4), seeded (4), next word (8), 624 words of 8 bytes, three doubles of which the second is the waiting
   normal number, whether it waits (4), 4 bytes of nothing, a float that waits and whether it does (1), 3 bytes of nothing. */
enum { LEFT = 8, SEEDED = 12, NEXT = 16, STATE = 24, NORMAL = STATE + 8 * N + 8, HAS_NORMAL = NORMAL + 16, SINGLE = HAS_NORMAL + 8 };

static void put(char *to, uint64_t value, int bytes)
{
    for (int k = 0; k < bytes; k++)
        to[k] = (char)(value >> 8 * k);
}

static uint64_t got(const char *from, int bytes)
{
    uint64_t value = 0;
    for (int k = 0; k < bytes; k++)
        value |= (uint64_t)(unsigned char)from[k] << 8 * k;
    return value;
}

void flambeau_twister_write(const flambeau_twister *t, char *state)
{
    uint64_t bits;
    uint32_t single;
    memset(state, 0, FLAMBEAU_TWISTER_BYTES);
    put(state, t->seed, 8);
    put(state + LEFT, t->used == N ? 1 : N + 1 - t->used, 4);
    put(state + SEEDED, 1, 4);
    put(state + NEXT, t->fresh ? 0 : t->used, 8);
    for (int i = 0; i < N; i++)
        put(state + STATE + 8 * i, t->state[i], 8);
    memcpy(&bits, &t->normal, 8);
    put(state + NORMAL, t->has_normal ? bits : 0, 8);
    put(state + HAS_NORMAL, t->has_normal, 4);
    memcpy(&single, &t->single, 4);
    put(state + SINGLE, t->has_single ? single : 0, 4);
    put(state + SINGLE + 4, t->has_single, 1);
}

int flambeau_twister_read(flambeau_twister *t, const char *state)
{
    int64_t left = (int32_t)got(state + LEFT, 4);
    uint64_t next = got(state + NEXT, 8), bits;
    uint32_t single;
    if (left < 1 || left > N || next > N || got(state + SEEDED, 4) != 1)
        return 0;
    t->seed = got(state, 8);
    t->fresh = left == 1 && next == 0;
    t->used = left == 1 ? N : (int)next;
    for (int i = 0; i < N; i++)
        t->state[i] = (uint32_t)got(state + STATE + 8 * i, 4);
    t->has_normal = got(state + HAS_NORMAL, 4) != 0;
    bits = got(state + NORMAL, 8);
    memcpy(&t->normal, &bits, 8);
    t->has_single = got(state + SINGLE + 4, 1) != 0;
    single = (uint32_t)got(state + SINGLE, 4);
    memcpy(&t->single, &single, 4);
    return 1;
}

/* --- single numbers ------------------------------------------------------------------------------------------------------ */
#define MASK_53 ((1ull << 53) - 1)

double flambeau_twister_uniform(flambeau_twister *t) { return (double)(flambeau_twister_pair(t) & MASK_53) * 0x1p-53; }

/* Box and Muller's pair; the sine's number waits for the next call. */
double flambeau_twister_normal(flambeau_twister *t)
{
    double angle, radius;
    if (t->has_normal) {
        t->has_normal = 0;
        return t->normal;
    }
    angle = 2.0 * PI * flambeau_twister_uniform(t);
    radius = sqrt(-2.0 * log1p(-flambeau_twister_uniform(t)));
    t->normal = radius * sin(angle);
    t->has_normal = 1;
    return radius * cos(angle);
}

/* --- elements as they lie in memory -------------------------------------------------------------------------------------- */
static inline uint32_t bits_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, 4);
    return u;
}

static inline float of_bits(uint32_t u)
{
    float x;
    memcpy(&x, &u, 4);
    return x;
}

static inline uint16_t bfloat_of(float x)
{
    uint32_t u = bits_of(x);
    return x != x ? 0x7fc0 : (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

/* Rounded to the nearest, ties to even: small numbers by a sum whose last bit is 2^-24, others by their bits. */
static inline uint16_t half_of(float x)
{
    uint32_t u = bits_of(x), sign = u >> 16 & 0x8000u, a = u & 0x7fffffffu;
    uint32_t small = bits_of(of_bits(a) + 0.5f) - bits_of(0.5f);
    uint32_t normal = (a + 0xfffu + (a >> 13 & 1) - 0x38000000u) >> 13;
    uint32_t result = a < 0x38800000u ? small : a >= 0x477ff000u ? 0x7c00u : normal;
    return (uint16_t)(sign | (a > 0x7f800000u ? 0x7e00u : result));
}

FOR_NEWER static void store_floats(const float *restrict v, char *to, int n, int dtype)
{
    if (dtype == FLAMBEAU_IN_FLOAT)
        memcpy(to, v, (size_t)n * 4);
    else if (dtype == FLAMBEAU_IN_HALF)
        for (int i = 0; i < n; i++)
            ((uint16_t *)to)[i] = half_of(v[i]);
    else
        for (int i = 0; i < n; i++)
            ((uint16_t *)to)[i] = bfloat_of(v[i]);
}

static void store_doubles(const double *restrict v, char *to, int n, const flambeau_mt19937_draw *what)
{
    float narrow[CHUNK];
    switch (what->dtype) {
    case FLAMBEAU_IN_DOUBLE: memcpy(to, v, (size_t)n * 8); break;
    case FLAMBEAU_IN_64: for (int i = 0; i < n; i++) ((int64_t *)to)[i] = (int64_t)v[i]; break;
    case FLAMBEAU_IN_32: for (int i = 0; i < n; i++) ((int32_t *)to)[i] = (int32_t)v[i]; break;
    case FLAMBEAU_IN_16: for (int i = 0; i < n; i++) ((int16_t *)to)[i] = (int16_t)(int32_t)v[i]; break;
    case FLAMBEAU_IN_8: for (int i = 0; i < n; i++) ((int8_t *)to)[i] = (int8_t)(int32_t)v[i]; break;
    case FLAMBEAU_IN_BOOL: for (int i = 0; i < n; i++) to[i] = v[i] != 0; break;
    default:
        for (int i = 0; i < n; i++)
            narrow[i] = (float)v[i];
        store_floats(narrow, to, n, what->dtype);
    }
}

FOR_NEWER static void store_whole(const int64_t *restrict v, char *to, int n, int dtype)
{
    float narrow[CHUNK];
    switch (dtype) {
    case FLAMBEAU_IN_BOOL: for (int i = 0; i < n; i++) to[i] = v[i] != 0; break;
    case FLAMBEAU_IN_8: for (int i = 0; i < n; i++) to[i] = (char)v[i]; break;
    case FLAMBEAU_IN_16: for (int i = 0; i < n; i++) ((int16_t *)to)[i] = (int16_t)v[i]; break;
    case FLAMBEAU_IN_32: for (int i = 0; i < n; i++) ((int32_t *)to)[i] = (int32_t)v[i]; break;
    case FLAMBEAU_IN_64: memcpy(to, v, (size_t)n * 8); break;
    case FLAMBEAU_IN_DOUBLE: for (int i = 0; i < n; i++) ((double *)to)[i] = (double)v[i]; break;
    case FLAMBEAU_IN_FLOAT: for (int i = 0; i < n; i++) ((float *)to)[i] = (float)v[i]; break;
    default:
        for (int i = 0; i < n; i++)
            narrow[i] = (float)v[i];
        store_floats(narrow, to, n, dtype);
    }
}

/* --- uniform numbers ----------------------------------------------------------------------------------------------------- */
FOR_NEWER static void pairs(const uint32_t *restrict w, uint64_t *restrict to, int n)
{
    for (int i = 0; i < n; i++)
        to[i] = (uint64_t)w[2 * i] << 32 | w[2 * i + 1];
}

FOR_NEWER static void unit_doubles(const uint64_t *restrict r, double *restrict to, int n)
{
    for (int i = 0; i < n; i++)
        to[i] = (double)(int64_t)(r[i] & MASK_53) * 0x1p-53;
}

FOR_NEWER static void unit_floats(const uint32_t *restrict w, float *restrict to, int n)
{
    for (int i = 0; i < n; i++)
        to[i] = (float)(int32_t)(w[i] & 0xffffff) * 0x1p-24f;
}

FOR_NEWER static void scale_floats(float *v, int n, float from, float to)
{
    float span = to - from;
    for (int i = 0; i < n; i++)
        v[i] = __builtin_fmaf(v[i], span, from);
}

FOR_NEWER static void scale_doubles(double *v, int n, double from, double to)
{
    double span = to - from;
    for (int i = 0; i < n; i++) {
        double x = __builtin_fma(v[i], span, from);
        v[i] = x == to ? from : x;
    }
}

/* What was rounded up to the end of the range is its beginning, in the dtype's own numbers. */
FOR_NEWER static void keep_below(char *at, int n, int dtype, float from, float to)
{
    if (dtype == FLAMBEAU_IN_FLOAT) {
        float *v = (float *)at;
        for (int i = 0; i < n; i++)
            v[i] = v[i] == to ? from : v[i];
    } else {
        uint16_t *v = (uint16_t *)at;
        uint16_t end = dtype == FLAMBEAU_IN_HALF ? half_of(to) : bfloat_of(to);
        uint16_t begin = dtype == FLAMBEAU_IN_HALF ? half_of(from) : bfloat_of(from);
        uint16_t other = end & 0x7fff ? end : end ^ 0x8000;      /* both zeros are equal */
        for (int i = 0; i < n; i++)
            v[i] = v[i] == end || v[i] == other ? begin : v[i];
    }
}

/* --- normal numbers by 16 --------------------------------------------------------------------------------------------------
   Box and Muller's transform of floats with Cephes' logarithm, sine and cosine (Moshier 1989; single precision). */
static inline float cephes_log(float x)
{
    uint32_t u = bits_of(x < 0x1p-126f ? 0x1p-126f : x);
    float e = (float)((int32_t)(u >> 23) - 126), m = of_bits((u & 0x007fffffu) | 0x3f000000u), z, y;
    int below = m < 0.707106781186547524f;
    e -= below ? 1.0f : 0.0f;
    m = (m - 1.0f) + (below ? m : 0.0f);
    z = m * m;
    y = 7.0376836292e-2f;
    y = __builtin_fmaf(y, m, -1.1514610310e-1f);
    y = __builtin_fmaf(y, m, 1.1676998740e-1f);
    y = __builtin_fmaf(y, m, -1.2420140846e-1f);
    y = __builtin_fmaf(y, m, 1.4249322787e-1f);
    y = __builtin_fmaf(y, m, -1.6668057665e-1f);
    y = __builtin_fmaf(y, m, 2.0000714765e-1f);
    y = __builtin_fmaf(y, m, -2.4999993993e-1f);
    y = __builtin_fmaf(y, m, 3.3333331174e-1f);
    y = y * m;
    y = __builtin_fmaf(y, z, e * -2.12194440e-4f);
    y = __builtin_fmaf(z, -0.5f, y);
    return __builtin_fmaf(e, 0.693359375f, m + y);
}

static inline void cephes_sincos(float x, float *sine, float *cosine)
{
    int32_t j = ((int32_t)(x * 1.27323954473516f) + 1) & ~1;
    float y = (float)j, z, c, s, result;
    x = __builtin_fmaf(y, -0.78515625f, x);
    x = __builtin_fmaf(y, -2.4187564849853515625e-4f, x);
    x = __builtin_fmaf(y, -3.77489497744594108e-8f, x);
    z = x * x;
    c = 2.443315711809948e-5f;
    c = __builtin_fmaf(c, z, -1.388731625493765e-3f);
    c = __builtin_fmaf(c, z, 4.166664568298827e-2f);
    c = c * z;
    c = __builtin_fmaf(c, z, -(z * 0.5f)) + 1.0f;
    s = -1.9515295891e-4f;
    s = __builtin_fmaf(s, z, 8.3321608736e-3f);
    s = __builtin_fmaf(s, z, -1.6666654611e-1f);
    s = s * z;
    s = __builtin_fmaf(s, x, x);
    result = j & 2 ? c : s;
    *sine = of_bits(bits_of(result) ^ (uint32_t)(j & 4) << 29);
    result = j & 2 ? s : c;
    *cosine = of_bits(bits_of(result) ^ ((uint32_t)~(j - 2) & 4) << 29);
}

FOR_NEWER static void box_muller(const float *restrict u, const float *restrict w, float *restrict first, float *restrict second,
                                 int n, float mean, float std)
{
    for (int i = 0; i < n; i++) {
        float radius = sqrtf(-2.0f * cephes_log(1.0f - u[i])), sine, cosine;
        cephes_sincos((float)(2.0f * PI) * w[i], &sine, &cosine);
        first[i] = __builtin_fmaf(radius * cosine, std, mean);
        second[i] = __builtin_fmaf(radius * sine, std, mean);
    }
}

/* Element j of a group goes with element j + 8. */
static void normal_floats(float *v, int groups, float mean, float std)
{
    float u[CHUNK / 2], w[CHUNK / 2], first[CHUNK / 2], second[CHUNK / 2];
    for (int g = 0; g < groups; g++) {
        memcpy(u + 8 * g, v + 16 * g, 32);
        memcpy(w + 8 * g, v + 16 * g + 8, 32);
    }
    box_muller(u, w, first, second, 8 * groups, mean, std);
    for (int g = 0; g < groups; g++) {
        memcpy(v + 16 * g, first + 8 * g, 32);
        memcpy(v + 16 * g + 8, second + 8 * g, 32);
    }
}

static void normal_doubles(double *v, int groups, double mean, double std)
{
    for (int g = 0; g < groups; g++, v += 16)
        for (int j = 0; j < 8; j++) {
            double radius = sqrt(-2 * log(1 - v[j])), angle = 2.0 * PI * v[j + 8];
            v[j] = fma(radius * cos(angle), std, mean);
            v[j + 8] = fma(radius * sin(angle), std, mean);
        }
}

static void normals_by_16(flambeau_twister *t, const flambeau_mt19937_draw *what, char *to, int n)
{
    uint32_t words[2 * CHUNK];
    uint64_t both[CHUNK];
    double wide[CHUNK];
    float narrow[CHUNK];
    if (what->dtype == FLAMBEAU_IN_DOUBLE) {
        take(t, words, 2 * n);
        pairs(words, both, n);
        unit_doubles(both, wide, n);
        normal_doubles(wide, n / 16, what->a, what->b);
        memcpy(to, wide, (size_t)n * 8);
    } else {
        take(t, words, n);
        unit_floats(words, narrow, n);
        normal_floats(narrow, n / 16, (float)what->a, (float)what->b);
        store_floats(narrow, to, n, what->dtype);
    }
}

/* The last 16 elements are drawn again where their number is no multiple of 16, once all others were drawn: floats and doubles take
   words for every element first, the ones behind the last whole group included, halves for whole groups alone. */
static void fill_by_16(flambeau_twister *t, const flambeau_mt19937_draw *what, char *to, int64_t n, int size)
{
    int64_t whole = n / 16 * 16, rest = n - whole;
    uint32_t lost[32];
    for (int64_t i = 0; i < whole; i += CHUNK)
        normals_by_16(t, what, to + i * size, (int)(whole - i < CHUNK ? whole - i : CHUNK));
    if (rest) {
        if (what->dtype == FLAMBEAU_IN_DOUBLE)
            take(t, lost, 2 * (int)rest);
        else if (what->dtype == FLAMBEAU_IN_FLOAT)
            take(t, lost, (int)rest);
        normals_by_16(t, what, to + (n - 16) * size, 16);
    }
}

/* --- whole numbers ------------------------------------------------------------------------------------------------------- */
FOR_NEWER static void remainders(const uint32_t *restrict w, int64_t *restrict to, int n, uint32_t span, int64_t low)
{
    double by = 1.0 / span, d = span;
    for (int i = 0; i < n; i++) {        /* quotients may be off by one; all numbers here are exact in doubles */
        double x = (double)w[i], r = x - __builtin_floor(x * by) * d;
        r = r < 0 ? r + d : r;
        r = r >= d ? r - d : r;
        to[i] = (int64_t)((uint64_t)(int64_t)(int32_t)r + (uint64_t)low);
    }
}

static void wide_remainders(const uint64_t *r, int64_t *to, int n, uint64_t span, int64_t low)
{
    for (int i = 0; i < n; i++)
        to[i] = (int64_t)((span == 0 ? r[i] : (span & (span - 1)) == 0 ? r[i] & (span - 1) : r[i] % span) + (uint64_t)low);
}

/* --- all kinds ----------------------------------------------------------------------------------------------------------- */
FOR_NEWER static void below(const uint64_t *restrict r, int64_t *restrict to, int n, int64_t limit)
{
    for (int i = 0; i < n; i++)
        to[i] = (int64_t)(r[i] & MASK_53) < limit;
}

FOR_NEWER static void float_trials(const float *restrict u, const float *restrict p, int64_t *restrict to, int n)
{
    for (int i = 0; i < n; i++)
        to[i] = u[i] < p[i];
}

FOR_NEWER static void double_trials(const double *restrict u, const double *restrict p, int64_t *restrict to, int n)
{
    for (int i = 0; i < n; i++)
        to[i] = u[i] < p[i];
}

static void some(flambeau_twister *t, const flambeau_mt19937_draw *what, char *to, int64_t at, int n)
{
    uint32_t words[2 * CHUNK];
    uint64_t both[CHUNK];
    int64_t whole[CHUNK];
    double wide[CHUNK], a = what->a, b = what->b;
    float narrow[CHUNK];
    const int is_double = what->dtype == FLAMBEAU_IN_DOUBLE;

    switch (what->kind) {
    case FLAMBEAU_TWISTED_UNIFORM:
        if (!is_double) {
            take(t, words, n);
            unit_floats(words, narrow, n);
            scale_floats(narrow, n, (float)a, (float)b);
            store_floats(narrow, to, n, what->dtype);
            keep_below(to, n, what->dtype, (float)a, (float)b);
            return;
        }
        take(t, words, 2 * n);
        pairs(words, both, n);
        unit_doubles(both, wide, n);
        scale_doubles(wide, n, a, b);
        break;
    case FLAMBEAU_TWISTED_NORMAL:
        for (int i = 0; i < n; i++)
            wide[i] = fma(flambeau_twister_normal(t), b, a);
        break;
    case FLAMBEAU_TWISTED_LOG_NORMAL:
        for (int i = 0; i < n; i++)
            wide[i] = exp(fma(flambeau_twister_normal(t), b, a));
        break;
    case FLAMBEAU_TWISTED_EXPONENTIAL:
    case FLAMBEAU_TWISTED_GEOMETRIC:
    case FLAMBEAU_TWISTED_CAUCHY:
        take(t, words, 2 * n);
        pairs(words, both, n);
        unit_doubles(both, wide, n);
        if (what->kind == FLAMBEAU_TWISTED_EXPONENTIAL)
            for (int i = 0; i < n; i++)
                wide[i] = -1.0 / a * log1p(-wide[i]);
        else if (what->kind == FLAMBEAU_TWISTED_GEOMETRIC)
            for (int i = 0; i < n; i++)
                wide[i] = ceil(log(wide[i]) / log1p(-a));
        else
            for (int i = 0; i < n; i++)
                wide[i] = fma(b, tan(PI * (wide[i] - 0.5)), a);
        break;
    case FLAMBEAU_TWISTED_BERNOULLI:
        take(t, words, 2 * n);
        pairs(words, both, n);
        below(both, whole, n, (int64_t)ceil(a * 0x1p53));
        store_whole(whole, to, n, what->dtype);
        return;
    case FLAMBEAU_TWISTED_TRIALS:
        if (what->wide) {
            take(t, words, 2 * n);
            pairs(words, both, n);
            unit_doubles(both, wide, n);
            double_trials(wide, (const double *)what->chances + at, whole, n);
        } else {
            take(t, words, n);
            unit_floats(words, narrow, n);
            float_trials(narrow, (const float *)what->chances + at, whole, n);
        }
        store_whole(whole, to, n, what->dtype);
        return;
    default:                                                     /* RANGE and MODULUS */
        if (what->kind == FLAMBEAU_TWISTED_RANGE ? what->span - 1 < (1u << 28) - 1
                                                 : !is_double && what->dtype != FLAMBEAU_IN_64) {
            take(t, words, n);
            remainders(words, whole, n, (uint32_t)what->span, what->low);
        } else {
            take(t, words, 2 * n);
            pairs(words, both, n);
            wide_remainders(both, whole, n, what->span, what->low);
        }
        store_whole(whole, to, n, what->dtype);
        return;
    }
    store_doubles(wide, to, n, what);
}

void flambeau_twister_fill(flambeau_twister *t, const flambeau_mt19937_draw *what, char *to, int64_t n)
{
    static const int sizes[] = {1, 1, 2, 4, 8, 2, 2, 4, 8};
    int size = sizes[what->dtype];
    if (what->kind == FLAMBEAU_TWISTED_NORMAL_BY_16) {
        fill_by_16(t, what, to, n, size);
        return;
    }
    for (int64_t i = 0; i < n; i += CHUNK)
        some(t, what, to + i * size, i, (int)(n - i < CHUNK ? n - i : CHUNK));
}

/* Each place is given to what stands at or behind it: Fisher and Yates from the front.  From a twentieth of 2^32 on words of 32 bits would
   favour some places: there each number in turn takes the place of an earlier one, by words of 64. */
void flambeau_twister_shuffle(flambeau_twister *t, uint32_t *order, uint32_t n)
{
    if (n >= UINT32_MAX / 20) {
        for (uint32_t i = 0; i < n; i++) {
            uint32_t j = (uint32_t)(flambeau_twister_pair(t) % ((uint64_t)i + 1));
            order[i] = order[j];
            order[j] = i;
        }
        return;
    }
    for (uint32_t i = 0; i < n; i++)
        order[i] = i;
    for (uint32_t i = 0; i + 1 < n; i++) {
        uint32_t j = i + flambeau_twister_word(t) % (n - i), moved = order[i];
        order[i] = order[j];
        order[j] = moved;
    }
}
