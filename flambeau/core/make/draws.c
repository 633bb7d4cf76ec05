#include "draws.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

/* The same loops for newer processors, of which the loader takes what runs here.  None of these contracts products and sums, so the
   bits are the same. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__)
#define FOR_INTEGERS __attribute__((target_clones("avx512f", "avx2", "default")))
#define FOR_NUMBERS __attribute__((target_clones("sse4.1", "default")))
#else
#define FOR_INTEGERS
#define FOR_NUMBERS
#endif

#define TRIES 1000           /* a loop of rejections ends: each try succeeds with a chance of one half and more */
#define PI 3.14159265358979323846

/* --- streams ----------------------------------------------------------------------------------------------------------- */
typedef struct {
    uint64_t key, first, place;
    int ahead;               /* whether the words are a block that nobody has read */
    uint32_t words[4];
} stream;

#define ROUNDS 10
#define KEY_STEPS 0x9E3779B9u, 0xBB67AE85u

/* One round of Philox4x32 (Salmon, Moraes, Dror, Shaw, SC 2011). */
static inline void philox_round(uint32_t *c0, uint32_t *c1, uint32_t *c2, uint32_t *c3, uint32_t k0, uint32_t k1)
{
    uint64_t p0 = (uint64_t)*c0 * 0xD2511F53u, p1 = (uint64_t)*c2 * 0xCD9E8D57u;
    *c0 = (uint32_t)(p1 >> 32) ^ *c1 ^ k0;
    *c2 = (uint32_t)(p0 >> 32) ^ *c3 ^ k1;
    *c1 = (uint32_t)p1;
    *c3 = (uint32_t)p0;
}

static inline void next_block(stream *s)
{
    const uint32_t steps[2] = {KEY_STEPS};
    uint32_t c0 = (uint32_t)s->first, c1 = (uint32_t)(s->first >> 32);
    uint32_t c2 = (uint32_t)s->place, c3 = (uint32_t)(s->place >> 32);
    uint32_t k0 = (uint32_t)s->key, k1 = (uint32_t)(s->key >> 32);
    if (s->ahead) {
        s->ahead = 0;
        return;
    }
    for (int r = 0; r < ROUNDS; r++, k0 += steps[0], k1 += steps[1])
        philox_round(&c0, &c1, &c2, &c3, k0, k1);
    s->words[0] = c0, s->words[1] = c1, s->words[2] = c2, s->words[3] = c3;
    s->place += (uint64_t)1 << 48;
}

/* The first blocks of as many streams at once: most numbers need no other. */
#define AHEAD 64
typedef struct {
    uint32_t words[4][AHEAD];
} first_blocks;

FOR_INTEGERS static void look_ahead(first_blocks *blocks, uint64_t key, uint64_t first, uint64_t place)
{
    const uint32_t steps[2] = {KEY_STEPS};
    uint32_t *c0 = blocks->words[0], *c1 = blocks->words[1], *c2 = blocks->words[2], *c3 = blocks->words[3];
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int i = 0; i < AHEAD; i++) {
        c0[i] = (uint32_t)first, c1[i] = (uint32_t)(first >> 32);
        c2[i] = (uint32_t)(place + i), c3[i] = (uint32_t)((place + i) >> 32);
    }
    for (int r = 0; r < ROUNDS; r++, k0 += steps[0], k1 += steps[1])
        for (int i = 0; i < AHEAD; i++)
            philox_round(c0 + i, c1 + i, c2 + i, c3 + i, k0, k1);
}

/* The stream of element i, which lies `at` places behind the first that were looked ahead for. */
static inline stream stream_of(const first_blocks *blocks, uint64_t key, uint64_t first, int64_t i, int at)
{
    stream s = {key, first, ((uint64_t)i + 1) + ((uint64_t)1 << 48), 1,
                {blocks->words[0][at], blocks->words[1][at], blocks->words[2][at], blocks->words[3][at]}};
    return s;
}

/* In (0, 1), from 32 and from 53 bits. */
static inline double short_fraction(uint32_t word) { return (word + 0.5) * 0x1p-32; }

static inline double fraction(const uint32_t *words)
{
    return ((((uint64_t)words[0] << 32 | words[1]) >> 11) + 0.5) * 0x1p-53;
}

/* --- normal numbers ---------------------------------------------------------------------------------------------------- */
/* The ziggurat of Marsaglia and Tsang, "The ziggurat method for generating random variables" (2000), with 256 strips and the
   strip's number from other bits than the place within it (Doornik 2005). */
#define STRIPS 256
#define EDGE 3.6541528853610088
static double strip_width[STRIPS], strip_height[STRIPS];
static uint64_t strip_inside[STRIPS];

static void make_strips(void)
{
    const double bits = 0x1p52;
    double x = EDGE, before = EDGE, height = exp(-0.5 * EDGE * EDGE);
    double area = EDGE * height + sqrt(0.5 * PI) * erfc(EDGE / sqrt(2.0)), base = area / height;
    strip_inside[0] = (uint64_t)(EDGE / base * bits), strip_inside[1] = 0;
    strip_width[0] = base / bits, strip_width[STRIPS - 1] = EDGE / bits;
    strip_height[0] = 1.0, strip_height[STRIPS - 1] = height;
    for (int k = STRIPS - 2; k >= 1; k--) {
        x = sqrt(-2.0 * log(area / x + exp(-0.5 * x * x)));
        strip_inside[k + 1] = (uint64_t)(x / before * bits);
        before = x;
        strip_height[k] = exp(-0.5 * x * x);
        strip_width[k] = x / bits;
    }
}

/* A standard normal number from the stream's words 0 and 1; further blocks are taken where those do not decide. */
static inline double normal(stream *s)
{
    for (int tries = 0;; tries++) {
        uint64_t word = (uint64_t)s->words[0] << 32 | s->words[1];
        int strip = (int)(word & 255);
        uint64_t place = word >> 9 & 0xFFFFFFFFFFFFFu;
        double x = (double)place * strip_width[strip], sign = word & 256 ? -1.0 : 1.0;
        if (place < strip_inside[strip] || tries == TRIES)
            return sign * x;
        if (strip == 0) {
            for (;;) {
                next_block(s);
                double beyond = -log(fraction(s->words)) / EDGE, y = -log(fraction(s->words + 2));
                if (y + y > beyond * beyond)
                    return sign * (EDGE + beyond);
            }
        }
        if (strip_height[strip] + short_fraction(s->words[2]) * (strip_height[strip - 1] - strip_height[strip]) < exp(-0.5 * x * x))
            return sign * x;
        next_block(s);
    }
}

/* --- gamma, beta, Dirichlet -------------------------------------------------------------------------------------------- */
/* Marsaglia and Tsang, "A simple method for generating gamma variables" (2000).  The number is the result times
   exp(*exponent), which is not 1 for shapes below 1 alone and may be too small for a double. */
typedef struct {
    double shape, d, c;
} gamma_plan;

static inline double gamma_parts(stream *s, gamma_plan *plan, double shape, int wide, double *exponent)
{
    *exponent = 0.0;
    if (!(shape > 0.0) || shape > DBL_MAX)
        return shape >= 0.0 ? shape : NAN;
    if (plan->shape != shape) {
        plan->shape = shape;
        plan->d = (shape < 1.0 ? shape + 1.0 : shape) - 1.0 / 3.0;
        plan->c = 1.0 / sqrt(9.0 * plan->d);
    }
    double d = plan->d, c = plan->c, v = 1.0;
    uint32_t spare = 0;
    for (int tries = 0; tries < TRIES; tries++) {
        next_block(s);
        double u = short_fraction(s->words[2]), x, square;
        spare = s->words[3];
        x = normal(s);
        v = 1.0 + c * x;
        if (v <= 0.0)
            continue;
        v = v * v * v;
        square = x * x;
        if (u < 1.0 - 0.0331 * square * square || log(u) < 0.5 * square + d * (1.0 - v + log(v)))
            break;
    }
    if (shape < 1.0) {
        double u = short_fraction(spare);
        if (wide) {
            next_block(s);
            u = fraction(s->words);
        }
        *exponent = log(u) / shape;
    }
    return d * v;
}

static inline double gamma_number(stream *s, gamma_plan *plan, double shape, int wide)
{
    double exponent, result = gamma_parts(s, plan, shape, wide, &exponent);
    return shape < 1.0 ? result * exp(exponent) : result;
}

/* x of a beta distribution, and 1 - x: of two gamma numbers, whose logarithms are compared where one may be too small. */
static inline void beta_numbers(stream *s, gamma_plan *plans, double a, double b, int wide, double *x, double *rest)
{
    double first_exponent, second_exponent;
    double first = gamma_parts(s, plans, a, wide, &first_exponent);
    double second = gamma_parts(s, plans + 1, b, wide, &second_exponent);
    if (a < 1.0 || b < 1.0) {
        double ahead = (log(first) + first_exponent) - (log(second) + second_exponent), down = exp(-fabs(ahead));
        *x = (ahead > 0.0 ? 1.0 : down) / (1.0 + down);
        *rest = (ahead > 0.0 ? down : 1.0) / (1.0 + down);
    } else {
        *x = first / (first + second);
        *rest = second / (first + second);
    }
}

/* --- Poisson and binomial ---------------------------------------------------------------------------------------------- */
#define MANY 1e8
#define FEW 24.0             /* means up to which inversion takes less time than rejection */
#define MOST 200             /* no number of a distribution with such a mean is larger, to the last bit of a fraction */
#define SMALL 16
#define HALF_LOG_2PI 0.91893853320467274178
static double small_factorials[SMALL], small_rests[SMALL];
static double parts[MOST + 1];   /* 1 / k */

static void make_factorials(void)
{
    for (int k = 1; k <= MOST; k++)
        parts[k] = 1.0 / k;
    for (int k = 0; k < SMALL; k++) {
        small_factorials[k] = k == 0 ? 0.0 : small_factorials[k - 1] + log(k);
        small_rests[k] = small_factorials[k] - ((k + 0.5) * log(k + 1.0) - (k + 1.0) + HALF_LOG_2PI);
    }
}

/* log k! less Stirling's (k + 1/2) log(k + 1) - (k + 1) + log(2 pi) / 2. */
static inline double stirling_rest(double k)
{
    if (k < SMALL)
        return small_rests[(int)k];
    double inverse = 1.0 / (k + 1.0), square = inverse * inverse;
    return (1.0 / 12.0 - (1.0 / 360.0 - (1.0 / 1260.0 - square / 1680.0) * square) * square) * inverse;
}

static inline double log_factorial(double k)
{
    if (k < SMALL)
        return small_factorials[(int)k];
    return (k + 0.5) * log(k + 1.0) - (k + 1.0) + HALF_LOG_2PI + stirling_rest(k);
}

/* The first terms of Cornish and Fisher's expansion: exact to one over the variance, which is large. */
static double nearly_normal(stream *s, double mean, double variance, double skew)
{
    next_block(s);
    double z = normal(s);
    return floor(mean + sqrt(variance) * z + (z * z - 1.0) * skew / 6.0 + 0.5);
}

/* The distribution function of counts with few expected, as far as it was requested; kept while parameters stay the same. */
typedef struct {
    double a, b;             /* the parameters: rate and -1, or trials and chance */
    int known;
    double odds, term, sums[MOST];
} inversion;

static inline void restart(inversion *t, double a, double b, double first)
{
    t->a = a, t->b = b, t->known = 1;
    t->term = t->sums[0] = first;
}

/* The first count whose sum reaches u; term k + 1 is term k times `rise`, an expression in `t->known`. */
#define INVERT(t, u, most, rise)                                                                                               \
    int k_ = 0, most_ = (most) < MOST - 1 ? (int)(most) : MOST - 1;                                                            \
    while (k_ < most_ && u > (t)->sums[k_]) {                                                                                  \
        if (++k_ == (t)->known) {                                                                                              \
            (t)->term *= (rise);                                                                                               \
            (t)->sums[k_] = (t)->sums[k_ - 1] + (t)->term;                                                                     \
            (t)->known++;                                                                                                      \
        }                                                                                                                      \
    }                                                                                                                          \
    return k_

static int few_by_rate(inversion *t, double u, double rate)
{
    if (t->a != rate || t->b != -1.0)
        restart(t, rate, -1.0, exp(-rate));
    INVERT(t, u, MOST, rate * parts[t->known]);
}

static int few_by_trials(inversion *t, double u, double n, double p)
{
    if (t->a != n || t->b != p) {
        restart(t, n, p, exp(n * log1p(-p)));
        t->odds = p / (1.0 - p);
    }
    INVERT(t, u, n, t->odds * (n - t->known + 1.0) * parts[t->known]);
}

/* What rejection asks of its parameters. */
typedef struct {
    double n, p;             /* the parameters: rate and -1, or trials and chance */
    double a, b, inside, inverse, logarithm, alpha, mode, at_mode;
} rejection;

/* What was made for the last parameters: most often those of the next number, too. */
typedef struct {
    inversion few;
    rejection many;
} counting;

static inline counting no_counting(void)
{
    counting plan;
    plan.few.a = plan.few.b = plan.many.n = plan.many.p = NAN;
    return plan;
}

static inline void many_by_rate(rejection *t, double rate)
{
    double root = sqrt(rate);
    t->n = rate, t->p = -1.0;
    t->b = 0.931 + 2.53 * root;
    t->a = -0.059 + 0.02483 * t->b;
    t->inverse = 1.1239 + 1.1328 / (t->b - 3.4);
    t->inside = 0.9277 - 3.6224 / (t->b - 2.0);
    t->logarithm = log(rate);
}

static inline void many_by_trials(rejection *t, double n, double p, double variance, double ratio)
{
    double deviation = sqrt(variance);
    t->n = n, t->p = p;
    t->b = 1.15 + 2.53 * deviation;
    t->a = -0.0873 + 0.0248 * t->b + 0.01 * p;
    t->inside = 0.92 - 4.2 / t->b;
    t->alpha = (2.83 + 5.1 / t->b) * deviation;
    t->mode = floor((n + 1.0) * p);
    t->at_mode = (t->mode + 0.5) * log((t->mode + 1.0) / (ratio * (n - t->mode + 1.0))) + stirling_rest(t->mode)
                 + stirling_rest(n - t->mode);
}

/* Small rates by inversion; larger ones by transformed rejection: PTRS of Hoermann, "The transformed rejection method for
   generating Poisson random variables" (1993). */
static double poisson_number(stream *s, counting *plan, double rate)
{
    if (rate > DBL_MAX)
        return rate;
    if (rate >= MANY)
        return nearly_normal(s, rate, rate, 1.0);
    if (rate < FEW) {
        next_block(s);
        return few_by_rate(&plan->few, fraction(s->words), rate);
    }
    rejection *t = &plan->many;
    if (t->n != rate || t->p != -1.0)
        many_by_rate(t, rate);
    double a = t->a, b = t->b, k = floor(rate);
    for (int tries = 0; tries < TRIES; tries++) {
        next_block(s);
        double u = fraction(s->words) - 0.5, v = fraction(s->words + 2), us = 0.5 - fabs(u);
        k = floor((2.0 * a / us + b) * u + rate + 0.43);
        if (us >= 0.07 && v <= t->inside)
            break;
        if (k < 0.0 || (us < 0.013 && v > us))
            continue;
        if (log(v * t->inverse / (a / (us * us) + b)) <= k * t->logarithm - rate - log_factorial(k))
            break;
    }
    return k < 0.0 ? floor(rate) : k;
}

/* Successes for a chance of at most one half.  Few by inversion; more by transformed rejection: BTRS of Hoermann, "The generation
   of binomial random variates" (1993), with the acceptance of his BTRD, which cancels nowhere. */
static double fewer_successes(stream *s, counting *plan, double n, double p)
{
    double mean = n * p, q = 1.0 - p, ratio = p / q, variance = mean * q, k = 0.0;
    if (p < 1e-15)
        return fmin(poisson_number(s, plan, mean), n);
    if (variance >= MANY)
        return fmin(fmax(nearly_normal(s, mean, variance, 1.0 - 2.0 * p), 0.0), n);
    if (mean < FEW) {
        next_block(s);
        return few_by_trials(&plan->few, fraction(s->words), n, p);
    }
    rejection *t = &plan->many;
    if (t->n != n || t->p != p)
        many_by_trials(t, n, p, variance, ratio);
    double a = t->a, b = t->b, mode = t->mode, c = mean + 0.5;
    for (int tries = 0; tries < TRIES; tries++) {
        next_block(s);
        double u = fraction(s->words) - 0.5, v = fraction(s->words + 2), us = 0.5 - fabs(u);
        k = floor((2.0 * a / us + b) * u + c);
        if (us >= 0.07 && v <= t->inside)
            return k;
        if (k < 0.0 || k > n)
            continue;
        double left = n - k + 1.0;
        if (log(v * t->alpha / (a / (us * us) + b))
            <= t->at_mode + (n + 1.0) * log1p((k - mode) / left) + (k + 0.5) * log(left * ratio / (k + 1.0))
                   - stirling_rest(k) - stirling_rest(n - k))
            return k;
    }
    return mode;
}

static double binomial_number(stream *s, counting *plan, double n, double p)
{
    if (n != n || p != p)
        return NAN;
    if (p <= 0.0 || n <= 0.0)
        return 0.0;
    if (p >= 1.0 || n > DBL_MAX)
        return n;
    n = floor(n);
    return p <= 0.5 ? fewer_successes(s, plan, n, p) : n - fewer_successes(s, plan, n, 1.0 - p);
}

/* --- von Mises --------------------------------------------------------------------------------------------------------- */
/* An angle in [-pi, pi): Best and Fisher, "Efficient simulation of the von Mises distribution" (1979), in terms of 1 - f, so that
   narrow distributions keep their digits. */
static double von_mises_number(stream *s, double concentration, double place)
{
    double angle = 0.0;
    if (!(concentration >= 0.0) || place != place)
        return NAN;
    next_block(s);
    if (concentration < 1e-12) {
        angle = (2.0 * fraction(s->words) - 1.0) * PI;
    } else if (concentration > MANY) {
        angle = normal(s) / sqrt(concentration);
    } else {
        double tau = 1.0 + sqrt(1.0 + 4.0 * concentration * concentration);
        double rho = (tau - sqrt(2.0 * tau)) / (2.0 * concentration);
        double excess = concentration < 1e-4 ? 1.0 / concentration + concentration - 1.0
                                             : (1.0 - rho) * (1.0 - rho) / (2.0 * rho);   /* r - 1 */
        for (int tries = 0; tries < TRIES; tries++) {
            double half = sin(0.5 * PI * short_fraction(s->words[0])), low = 2.0 * half * half;   /* 1 - z */
            double lack = excess * low / (excess + 2.0 - low);                                  /* 1 - f */
            double u = short_fraction(s->words[1]), c = concentration * (excess + lack);
            if (c * (2.0 - c) > u || log(c / u) + 1.0 >= c) {
                angle = 2.0 * asin(fmin(sqrt(0.5 * lack), 1.0));
                angle = s->words[2] & 1 ? -angle : angle;
                break;
            }
            next_block(s);
        }
    }
    angle = fmod(angle + place + PI, 2.0 * PI);
    return (angle < 0.0 ? angle + 2.0 * PI : angle) - PI;
}

/* --- derivatives of numbers by their parameters ------------------------------------------------------------------------- */
/* A number x with the distribution function F(x; a) moves with a, while F stays, by dx/da = -(dF/da) / (dF/dx) (Figurnov,
   Mohamed, Mnih: "Implicit reparameterization gradients", 2018).  dF/da is an integral of (log t + …) times the density over t
   below x, or above x with the other sign: by the series of the incomplete function where its terms have one sign and are few,
   else by Gauss and Legendre's rule over log t (logit t for beta), along which the density falls from x on. */
#define NODES 32             /* for doubles; half of them are enough for floats */
typedef struct {
    int count;
    double faded;            /* exp of it is below the rounding of what is summed */
    double node[NODES], weight[NODES];
} rule;
static rule rules[2];        /* for floats, for doubles */

static void make_rule(rule *made, int count, double faded)
{
    made->count = count, made->faded = faded;
    for (int k = 0; k < count; k++) {
        double x = cos(PI * (k + 0.75) / (count + 0.5)), slope = 1.0;
        for (int step = 0; step < 20; step++) {
            double p = x, before = 1.0;
            for (int n = 2; n <= count; n++) {
                double next = ((2 * n - 1) * x * p - (n - 1) * before) / n;
                before = p;
                p = next;
            }
            slope = count * (x * p - before) / (x * x - 1.0);
            x -= p / slope;
        }
        made->node[k] = 0.5 * (1.0 - x);
        made->weight[k] = 1.0 / ((1.0 - x * x) * slope * slope);
    }
}

static void make_nodes(void)
{
    make_rule(rules, NODES / 2, -20.0);
    make_rule(rules + 1, NODES, -42.0);
}

static double digamma(double x)
{
    double result = 0.0;
    for (; x < 10.0; x += 1.0)
        result -= 1.0 / x;
    double y = 1.0 / (x * x);
    return result + log(x) - 0.5 / x
           - y * (1.0 / 12 - y * (1.0 / 120 - y * (1.0 / 252 - y * (1.0 / 240 - y * (1.0 / 132 - y * 691.0 / 32760)))));
}

#define HUGE_SHAPE 1e12      /* from here on numbers are their means to as many digits as derivatives could be told */
/* Where `fall`, an expression in s_ that decreases from 0, has fallen far enough: doubled from its scale, then halved. */
#define FIND_END(end, scale, fall)                                                                                             \
    do {                                                                                                                       \
        double low_ = 0.0, s_ = (scale);                                                                                       \
        for (int k_ = 0; k_ < 60 && (fall) > r->faded; k_++)                                                                   \
            low_ = s_, s_ *= 2.0;                                                                                              \
        end = s_;                                                                                                              \
        s_ = 0.5 * (low_ + s_);                                                                                                \
        if ((fall) <= r->faded)                                                                                                \
            end = s_;                                                                                                          \
    } while (0)

static double gamma_gradient(const rule *r, double shape, double x)
{
    if (!(shape > 0.0) || !(x >= 0.0) || shape > DBL_MAX || x > DBL_MAX)
        return NAN;
    if (x == 0.0)
        return 0.0;
    if (shape > HUGE_SHAPE)
        return 0.5 * (1.0 + x / shape);
    if (x <= shape + 1.0 && shape < 30.0) {
        double term = 1.0 / shape, by_shape = digamma(shape + 1.0) - log(x), sum = term * by_shape;
        for (double n = 1.0; n < 500.0; n += 1.0) {
            term *= x / (shape + n);
            by_shape += 1.0 / (shape + n);
            sum += term * by_shape;
            if (term * fabs(by_shape) < 1e-17 * fabs(sum) && n > x - shape)
                break;
        }
        return x * sum;
    }
    double level = log(x) - digamma(shape), scale = 4.0 / (sqrt(shape) + fabs(x - shape)), end, sum = 0.0;
    if (x <= shape) {
        FIND_END(end, scale, -shape * s_ - x * expm1(-s_));
        for (int k = 0; k < r->count; k++) {
            double s = end * r->node[k];
            sum -= r->weight[k] * (level - s) * exp(-shape * s - x * expm1(-s));
        }
    } else {
        FIND_END(end, scale, shape * s_ - x * expm1(s_));
        for (int k = 0; k < r->count; k++) {
            double s = end * r->node[k];
            sum += r->weight[k] * (level + s) * exp(shape * s - x * expm1(s));
        }
    }
    return x * end * sum;
}

/* dx/da of a number with the distribution beta(a, b), over 1 - x, which is `rest`. */
static double beta_gradient(const rule *r, double x, double rest, double a, double b)
{
    double total = a + b, sum = 0.0;
    if (!(a > 0.0) || !(b > 0.0) || !(x >= 0.0) || !(rest >= 0.0) || total > DBL_MAX)
        return NAN;
    if (x == 0.0)
        return 0.0;
    if (a > HUGE_SHAPE && b > HUGE_SHAPE)
        return x / a;
    int below = x * total <= a;
    if (below ? a < 1.0 && x > 0.5 : b < 1.0 && rest > 0.5)
        below = !below;
    double center = digamma(a) - digamma(total);
    if (a < 1.0 || b < 1.0)
        r = rules + 1;       /* the density falls in two steps */
    if (below && a < 1.0) {
        double term = 1.0, by_a = log(x) - digamma(a + 1.0) + digamma(total);
        sum = by_a;
        for (double n = 0.0; n < 10000.0; n += 1.0) {
            term *= (total + n) / (a + 1.0 + n) * x;
            by_a += 1.0 / (total + n) - 1.0 / (a + 1.0 + n);
            sum += term * by_a;
            if (term * (fabs(by_a) + 1.0) < 1e-17 * fabs(sum) && (total + n) * x < a + 1.0 + n)
                break;
        }
        return -x / a * sum;
    }
    if (!below && b < 1.0) {
        double term = 1.0, by_a = log(x) - center;
        sum = by_a;
        for (double n = 0.0; n < 10000.0; n += 1.0) {
            term *= (total + n) / (b + 1.0 + n) * rest;
            by_a += 1.0 / (total + n);
            sum += term * by_a;
            if (term * (fabs(by_a) + 1.0) < 1e-17 * fabs(sum) && (total + n) * rest < b + 1.0 + n)
                break;
        }
        return x / b * sum;
    }
    /* over d = |logit t - logit x| */
    double end, level = log(x) - center, scale = 4.0 / (sqrt(total * x * rest) + fabs(x * total - a));
    if (below) {
        FIND_END(end, scale, -a * s_ - total * log1p(x * expm1(-s_)));
        for (int k = 0; k < r->count; k++) {
            double d = end * r->node[k], more = log1p(x * expm1(-d));
            sum -= r->weight[k] * (level - d - more) * exp(-a * d - total * more);
        }
    } else {
        FIND_END(end, scale, -b * s_ - total * log1p(rest * expm1(-s_)));
        for (int k = 0; k < r->count; k++) {
            double d = end * r->node[k], more = log1p(rest * expm1(-d));
            sum += r->weight[k] * (level - more) * exp(-b * d - total * more);
        }
    }
    return x * end * sum;
}

/* --- ranges ------------------------------------------------------------------------------------------------------------ */
static inline double read(const flambeau_draws *f, int k, int64_t i)
{
    int64_t period = f->period[k], at = i < period ? i : period == 1 ? 0 : i % period;
    return f->wide ? ((const double *)f->given[k])[at] : (double)((const float *)f->given[k])[at];
}

static inline void write(const flambeau_draws *f, int k, int64_t i, double x)
{
    if (f->wide)
        ((double *)f->to[k])[i] = x;
    else
        ((float *)f->to[k])[i] = (float)x;
}

/* Elements from `begin` to `end`: `made` is computed of the operand(s) at i and the stream of its own, s. */
#define EACH(made)                                                                                                             \
    for (int64_t from = begin; from < end; from += AHEAD) {                                                                    \
        first_blocks blocks;                                                                                                    \
        look_ahead(&blocks, f->key, f->first, (uint64_t)from + 1);                                                              \
        for (int64_t i = from; i < end && i < from + AHEAD; i++) {                                                             \
            stream s = stream_of(&blocks, f->key, f->first, i, (int)(i - from));                                                \
            made;                                                                                                              \
        }                                                                                                                      \
    }                                                                                                                          \
    break

static inline double within(double x, double least, double most) { return x < least ? least : x > most ? most : x; }

/* Rows of Dirichlet numbers; the logarithms of gamma numbers are compared where one may be too small. */
FOR_NUMBERS static void draw_rows(flambeau_draws *f, int64_t begin, int64_t end)
{
    int64_t n = f->row, from = begin * n - AHEAD;
    double least = f->wide ? DBL_MIN : (double)FLT_MIN, exponent;
    double *numbers = malloc((size_t)n * (sizeof(double) + sizeof(gamma_plan)));
    gamma_plan *plans = (gamma_plan *)(numbers + n);   /* one for each column: rows often have the same concentrations */
    first_blocks blocks;
    if (numbers == NULL) {
        f->no_memory = 1;
        return;
    }
    for (int64_t k = 0; k < n; k++)
        plans[k].shape = 0.0;
    for (int64_t row = begin; row < end; row++) {
        int64_t at = row * n;
        double top = -INFINITY, sum = 0.0;
        int small = 0;
        for (int64_t k = 0; k < n; k++)
            small |= read(f, 0, at + k) < 1.0;
        for (int64_t k = 0; k < n; k++) {
            if (at + k >= from + AHEAD) {
                from = at + k;
                look_ahead(&blocks, f->key, f->first, (uint64_t)from + 1);
            }
            stream s = stream_of(&blocks, f->key, f->first, at + k, (int)(at + k - from));
            double number = gamma_parts(&s, plans + k, read(f, 0, at + k), f->wide, &exponent);
            numbers[k] = small ? log(number) + exponent : number;
            top = numbers[k] > top ? numbers[k] : top;
        }
        for (int64_t k = 0; k < n; k++)
            sum += numbers[k] = small ? exp(numbers[k] - top) : numbers[k] / top;
        for (int64_t k = 0; k < n; k++) {
            double x = numbers[k] / sum;
            write(f, 0, at + k, x < least ? least : x);
        }
    }
    free(numbers);
}

/* Where fractions of a row's sum fall among its cumulative weights: never on a weight of 0. */
static void choose(flambeau_draws *f, int64_t begin, int64_t end)
{
    int64_t n = f->row, next = begin, last = 0;   /* the element that begins the next row */
    double *sums = malloc((size_t)n * sizeof(double)), total = 0.0;
    if (sums == NULL) {
        f->no_memory = 1;
        return;
    }
    for (int64_t from = begin; from < end; from += AHEAD) {
        first_blocks blocks;
        look_ahead(&blocks, f->key, f->first, (uint64_t)from + 1);
        for (int64_t i = from; i < end && i < from + AHEAD; i++) {
            if (i == next) {
                int64_t row = i / f->each;
                next = (row + 1) * f->each;
                total = 0.0;
                for (int64_t k = 0; k < n; k++) {
                    double weight = read(f, 0, row * n + k);
                    if (!(weight >= 0.0 && weight <= DBL_MAX))
                        f->refused = 1;
                    sums[k] = total += weight;
                    if (weight > 0.0)
                        last = k;
                }
                if (!(total > 0.0))
                    f->nothing = 1;
            }
            stream s = stream_of(&blocks, f->key, f->first, i, (int)(i - from));
            next_block(&s);
            double x = fraction(s.words) * total;
            int64_t low = 0, high = last;
            if (last < 32) {               /* counted without branches, which nobody could foresee */
                for (int64_t k = 0; k < last; k++)
                    low += sums[k] <= x;
                high = low;
            }
            while (low < high) {
                int64_t middle = low + (high - low) / 2;
                if (sums[middle] > x)
                    high = middle;
                else
                    low = middle + 1;
            }
            ((int64_t *)f->to[0])[i] = low;
        }
    }
    free(sums);
}

FOR_NUMBERS static void draw_elements(flambeau_draws *f, int64_t begin, int64_t end)
{
    double least = f->wide ? DBL_MIN : (double)FLT_MIN, most = 1.0 - (f->wide ? 0x1p-53 : 0x1p-24), x, rest;
    gamma_plan plans[2] = {{0.0, 0.0, 0.0}, {0.0, 0.0, 0.0}};
    counting plan = no_counting();
    switch (f->kind) {
    case FLAMBEAU_GAMMA:
        EACH(x = gamma_number(&s, plans, read(f, 0, i), f->wide); write(f, 0, i, x < least ? least : x));
    case FLAMBEAU_BETA:
        EACH(beta_numbers(&s, plans, read(f, 0, i), read(f, 1, i), f->wide, &x, &rest); write(f, 0, i, within(x, least, most));
             write(f, 1, i, within(rest, least, most)));
    case FLAMBEAU_POISSON:
        EACH(x = read(f, 0, i); if (!(x >= 0.0)) f->refused = 1; else write(f, 0, i, poisson_number(&s, &plan, x)));
    case FLAMBEAU_BINOMIAL:
        EACH(write(f, 0, i, binomial_number(&s, &plan, read(f, 0, i), read(f, 1, i))));
    case FLAMBEAU_NEGATIVE_BINOMIAL:
        EACH(x = gamma_number(&s, plans, read(f, 0, i), f->wide) * read(f, 1, i);
             write(f, 0, i, x >= 0.0 ? poisson_number(&s, &plan, x) : NAN));
    case FLAMBEAU_VON_MISES:
        EACH(write(f, 0, i, von_mises_number(&s, read(f, 0, i), read(f, 1, i))));
    }
}

void flambeau_draw(void *draws, int64_t begin, int64_t end)
{
    flambeau_draws *f = draws;
    if (f->kind == FLAMBEAU_DIRICHLET) {
        draw_rows(f, begin, end);
    } else if (f->kind == FLAMBEAU_CHOICE) {
        choose(f, begin, end);
    } else if (f->kind == FLAMBEAU_GAMMA_GRADIENT) {
        for (int64_t i = begin; i < end; i++)
            write(f, 0, i, gamma_gradient(rules + f->wide, read(f, 0, i), read(f, 1, i)));
    } else if (f->kind == FLAMBEAU_BETA_GRADIENT) {
        for (int64_t i = begin; i < end; i++) {
            double x = read(f, 0, i);
            write(f, 0, i, beta_gradient(rules + f->wide, x, 1.0 - x, read(f, 1, i), read(f, 2, i)));
        }
    } else {
        draw_elements(f, begin, end);
    }
}

void flambeau_prepare_draws(void)
{
    make_strips();
    make_nodes();
    make_factorials();
}
