/* Numbers that are drawn by rejection from PyTorch's stream, one element after another.

   What stands in floats and what in doubles decides which numbers are rejected, and with that how many words are taken: operands are
   of the tensors' dtype, numbers from the generator are doubles. */
#include "twister.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

/* --- gamma: Marsaglia and Tsang, "A simple method for generating gamma variables", 2000 ------------------------------------- */
static double gamma_of(flambeau_twister *t, double d, double scale)
{
    const double c = 1.0 / sqrt(9.0 * d);
    for (;;) {
        double x, y, v, u;
        do {
            x = flambeau_twister_normal(t);
            y = 1.0 + c * x;
        } while (y <= 0);
        v = y * y * y;
        u = 1 - flambeau_twister_uniform(t);
        if (u < 1.0 - (double)0.0331f * (x * x) * (x * x) || log(u) < 0.5 * (x * x) + d * (1.0 - v + log(v)))
            return scale * d * v;
    }
}

/* Shapes below 1 are drawn as those above by 1, times a power of a uniform number.  A third is a float's. */
#define GAMMA(NAME, T)                                                                                                              \
    static double NAME(flambeau_twister *t, T shape)                                                                                \
    {                                                                                                                               \
        double scale = 1.0;                                                                                                         \
        T d;                                                                                                                        \
        if (shape < 1) {                                                                                                            \
            if (shape == 0)                                                                                                         \
                return 0;                                                                                                           \
            scale = pow(1 - flambeau_twister_uniform(t), (double)((T)1 / shape));                                                   \
            shape += 1;                                                                                                             \
        }                                                                                                                           \
        d = shape - (T)(1.0f / 3.0f);                                                                                               \
        return gamma_of(t, d, scale);                                                                                               \
    }
GAMMA(gamma_float, float)
GAMMA(gamma_double, double)

static inline double given(const flambeau_rejection *r, int which, int64_t i)
{
    i %= r->period[which];
    return r->wide ? ((const double *)r->given[which])[i] : (double)((const float *)r->given[which])[i];
}

static inline void put(const flambeau_rejection *r, int which, int64_t i, double x)
{
    if (r->wide)
        ((double *)r->to[which])[i] = x;
    else
        ((float *)r->to[which])[i] = (float)x;
}

static inline double at_least(const flambeau_rejection *r, double x)
{
    double least = r->wide ? DBL_MIN : (double)FLT_MIN;
    return x < least ? least : x;
}

/* Inside of (0, 1) in the tensor's dtype. */
static inline double inside(const flambeau_rejection *r, double x)
{
    double most = r->wide ? 1 - DBL_EPSILON / 2 : 1 - FLT_EPSILON / 2;
    x = at_least(r, r->wide ? x : (double)(float)x);
    return x > most ? most : x;
}

/* Gamma numbers of small shapes underflow: parts of nothing would be no numbers. */
static inline double above_zero(double x) { return x < DBL_MIN ? DBL_MIN : x; }

static int gammas(flambeau_twister *t, const flambeau_rejection *r)
{
    for (int64_t i = 0; i < r->n; i++) {
        double shape = given(r, 0, i);
        put(r, 0, i, at_least(r, r->wide ? gamma_double(t, shape) : gamma_float(t, (float)shape)));
    }
    return FLAMBEAU_TWISTER_DONE;
}

static int betas(flambeau_twister *t, const flambeau_rejection *r)
{
    for (int64_t i = 0; i < r->n; i++) {
        double a = above_zero(gamma_double(t, given(r, 0, i))), b = above_zero(gamma_double(t, given(r, 1, i)));
        put(r, 0, i, inside(r, a / (a + b)));
        put(r, 1, i, inside(r, b / (a + b)));
    }
    return FLAMBEAU_TWISTER_DONE;
}

static int rows(flambeau_twister *t, const flambeau_rejection *r)
{
    double *drawn = malloc((size_t)r->row * sizeof *drawn);
    if (!drawn)
        return FLAMBEAU_TWISTER_NO_MEMORY;
    for (int64_t i = 0; i < r->n; i += r->row) {
        double sum = 0;
        for (int64_t j = 0; j < r->row; j++)
            sum += drawn[j] = above_zero(gamma_double(t, given(r, 0, i + j)));
        for (int64_t j = 0; j < r->row; j++)
            put(r, 0, i + j, inside(r, drawn[j] / sum));
    }
    free(drawn);
    return FLAMBEAU_TWISTER_DONE;
}

/* --- Poisson: Hörmann, "The transformed rejection method for generating Poisson random variables", 1993 (PTRS) --------------- */
static double poisson_of(flambeau_twister *t, double rate)
{
    if (rate >= 10) {
        const double logarithm = log(rate), b = 0.931 + 2.53 * sqrt(rate), a = -0.059 + 0.02483 * b;
        const double inverse = 1.1239 + 1.1328 / (b - 3.4), limit = 0.9277 - 3.6224 / (b - 2);
        for (;;) {
            double u = flambeau_twister_uniform(t) - 0.5, v = flambeau_twister_uniform(t);
            double us = 0.5 - fabs(u), k = floor((2 * a / us + b) * u + rate + 0.43);
            if (us >= 0.07 && v <= limit)
                return k;
            if (k < 0 || (us < 0.013 && v > us))
                continue;
            if (log(v) + log(inverse) - log(a / (us * us) + b) <= -rate + k * logarithm - lgamma(k + 1))
                return k;
        }
    }
    if (rate == 0)
        return 0;
    double k = 0, product = 1, least = exp(-rate);
    while ((product *= flambeau_twister_uniform(t)) > least)
        k++;
    return k;
}

static int poissons(flambeau_twister *t, const flambeau_rejection *r)
{
    for (int64_t i = 0; i < r->n; i++) {
        double rate = given(r, 0, i);
        if (!(rate >= 0))
            return FLAMBEAU_TWISTER_REFUSED;
        put(r, 0, i, poisson_of(t, rate));
    }
    return FLAMBEAU_TWISTER_DONE;
}

/* --- binomial: Hörmann, "The generation of binomial random variates", 1993 (BTRS), and sums of geometric numbers ------------- */
static double stirling_tail(double k)
{
    static const double first[] = {0.0810614667953272,  0.0413406959554092, 0.0276779256849983,  0.02079067210376509,
                                   0.0166446911898211,  0.0138761288230707, 0.0118967099458917,  0.0104112652619720,
                                   0.00925546218271273, 0.00833056343336287};
    double square = (k + 1) * (k + 1);
    if (k < 10)
        return first[(int)k];
    return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1);
}

#define BINOMIAL(NAME, T, ROOT, LOG1P)                                                                                              \
    static T NAME##_few(flambeau_twister *t, T count, T p)                                                                          \
    {                                                                                                                               \
        const double logarithm = LOG1P(-p);                                                                                         \
        double sum = 0;                                                                                                             \
        T k = 0;                                                                                                                    \
        for (;; k++) {                                                                                                              \
            sum += ceil(log(flambeau_twister_uniform(t)) / logarithm);                                                              \
            if (sum > count)                                                                                                        \
                return k;                                                                                                           \
        }                                                                                                                           \
    }                                                                                                                               \
    static T NAME##_many(flambeau_twister *t, T count, T p)                                                                         \
    {                                                                                                                               \
        const double deviation = ROOT(count * p * (1 - p)), b = 1.15 + 2.53 * deviation;                                            \
        const double a = -0.0873 + 0.0248 * b + 0.01 * p, c = count * p + 0.5, limit = 0.92 - 4.2 / b;                              \
        const double odds = p / (1 - p), alpha = (2.83 + 5.1 / b) * deviation;                                                      \
        const double m = (T)floor((double)((count + 1) * p));                                                                       \
        for (;;) {                                                                                                                  \
            double u = flambeau_twister_uniform(t) - 0.5, v = flambeau_twister_uniform(t), us = 0.5 - fabs(u);                      \
            T k = (T)floor((2 * a / us + b) * u + c);                                                                               \
            if (k < 0 || k > count)                                                                                                 \
                continue;                                                                                                           \
            if (us >= 0.07 && v <= limit)                                                                                           \
                return k;                                                                                                           \
            v = log(v * alpha / (a / (us * us) + b));                                                                               \
            if (v <= (m + 0.5) * log((m + 1) / (odds * (count - m + 1))) +                                                          \
                         (double)(count + 1) * log((count - m + 1) / (double)(count - k + 1)) +                                     \
                         (k + 0.5) * log(odds * (double)(count - k + 1) / (double)(k + 1)) + stirling_tail(m) +                     \
                         stirling_tail(count - m) - stirling_tail(k) - stirling_tail(count - k))                                    \
                return k;                                                                                                           \
        }                                                                                                                           \
    }                                                                                                                               \
    static T NAME(flambeau_twister *t, T count, T p)                                                                                \
    {                                                                                                                               \
        T q = (T)(1.0 - p);                                                                                                         \
        if (count <= 0 || p <= 0)                                                                                                   \
            return 0;                                                                                                               \
        if (p >= 1)                                                                                                                 \
            return count;                                                                                                           \
        if (p <= 0.5)                                                                                                               \
            return count * p >= 10 ? NAME##_many(t, count, p) : NAME##_few(t, count, p);                                            \
        if (p > 0.5)                                                                                                                \
            return count - (count * q >= 10 ? NAME##_many(t, count, q) : NAME##_few(t, count, q));                                  \
        return (T)NAN;                                                                                                              \
    }
BINOMIAL(binomial_float, float, sqrtf, log1pf)
BINOMIAL(binomial_double, double, sqrt, log1p)

static int binomials(flambeau_twister *t, const flambeau_rejection *r)
{
    for (int64_t i = 0; i < r->n; i++) {
        double count = given(r, 0, i), p = given(r, 1, i);
        put(r, 0, i, r->wide ? binomial_double(t, count, p) : binomial_float(t, (float)count, (float)p));
    }
    return FLAMBEAU_TWISTER_DONE;
}

/* --- places in rows of weights: a row's weights are summed up, and divided by their sum --------------------------------------- */
#define CHOOSE(NAME, T)                                                                                                             \
    static int NAME(flambeau_twister *t, const flambeau_rejection *r, T *below)                                                     \
    {                                                                                                                               \
        int64_t *to = (int64_t *)r->to[0];                                                                                             \
        for (int64_t row = 0; row < r->n; row++) {                                                                                  \
            const T *weights = (const T *)r->given[0] + row * r->row;                                                               \
            T sum = 0;                                                                                                              \
            for (int64_t j = 0; j < r->row; j++) {                                                                                  \
                if (!(weights[j] >= 0) || isinf(weights[j]))                                                                        \
                    return FLAMBEAU_TWISTER_REFUSED;                                                                                 \
                below[j] = sum += weights[j];                                                                                       \
            }                                                                                                                       \
            if (!(sum > 0))                                                                                                         \
                return FLAMBEAU_TWISTER_NOTHING;                                                                                        \
            for (int64_t j = 0; j < r->row; j++)                                                                                    \
                below[j] /= sum;                                                                                                    \
            below[r->row - 1] = 1;                                                                                                  \
            for (int64_t k = 0; k < r->each; k++) {                                                                                 \
                double u = flambeau_twister_uniform(t);                                                                             \
                int64_t left = 0, right = r->row;                                                                                   \
                while (left < right) {                                                                                              \
                    int64_t middle = left + (right - left) / 2;                                                                     \
                    if (below[middle] < u)                                                                                          \
                        left = middle + 1;                                                                                          \
                    else                                                                                                            \
                        right = middle;                                                                                             \
                }                                                                                                                   \
                *to++ = left;                                                                                                       \
            }                                                                                                                       \
        }                                                                                                                           \
        return FLAMBEAU_TWISTER_DONE;                                                                                             \
    }
CHOOSE(choose_floats, float)
CHOOSE(choose_doubles, double)

static int choices(flambeau_twister *t, const flambeau_rejection *r)
{
    void *below = malloc((size_t)r->row * sizeof(double));
    int result;
    if (!below)
        return FLAMBEAU_TWISTER_NO_MEMORY;
    result = r->wide ? choose_doubles(t, r, below) : choose_floats(t, r, below);
    free(below);
    return result;
}

int flambeau_twister_reject(flambeau_twister *t, const flambeau_rejection *r)
{
    switch (r->kind) {
    case FLAMBEAU_TWISTER_GAMMA: return gammas(t, r);
    case FLAMBEAU_TWISTER_BETA: return betas(t, r);
    case FLAMBEAU_TWISTER_DIRICHLET: return rows(t, r);
    case FLAMBEAU_TWISTER_POISSON: return poissons(t, r);
    case FLAMBEAU_TWISTER_BINOMIAL: return binomials(t, r);
    default: return choices(t, r);
    }
}
