/* The generator mt19937 and numbers drawn from it one after another, as PyTorch's CPU generator draws them.

   Matsumoto and Nishimura, "Mersenne Twister", ACM TOMACS 8 (1998): 624 words of state, of which a block of as many is made at
   once.  Which words make a number, and how, is what PyTorch documents by its states and its results; `tools/random_on_torch.py`
   compares both, element by element. */
#ifndef FLAMBEAU_TWISTER_H
#define FLAMBEAU_TWISTER_H

#include <stdint.h>

#define FLAMBEAU_TWISTER_WORDS 624
#define FLAMBEAU_TWISTER_BYTES 5056      /* of a state as PyTorch lays it out */

typedef struct {
    uint64_t seed;
    uint32_t state[FLAMBEAU_TWISTER_WORDS];
    int used;                /* words that were taken of the block */
    int fresh;               /* the state is the seed's, no block was made of it */
    int has_normal;          /* the second number of a pair waits, of doubles and of floats */
    int has_single;
    double normal;
    float single;
    int busy;                /* who draws; see flambeau_twister_hold */
} flambeau_twister;

/* What elements are made of. */
enum {
    FLAMBEAU_TWISTED_UNIFORM,            /* [a, b) */
    FLAMBEAU_TWISTED_NORMAL,             /* mean a, deviation b: pairs, the second of which waits */
    FLAMBEAU_TWISTED_NORMAL_BY_16,       /* the same for 16 elements and more that lie together */
    FLAMBEAU_TWISTED_LOG_NORMAL,
    FLAMBEAU_TWISTED_EXPONENTIAL,        /* rate a */
    FLAMBEAU_TWISTED_GEOMETRIC,          /* probability a */
    FLAMBEAU_TWISTED_CAUCHY,             /* median a, scale b */
    FLAMBEAU_TWISTED_BERNOULLI,          /* probability a */
    FLAMBEAU_TWISTED_TRIALS,             /* probabilities of their own */
    FLAMBEAU_TWISTED_RANGE,              /* low + a word modulo span; span 0 stands for 2^64 */
    FLAMBEAU_TWISTED_MODULUS             /* a word, of 32 or 64 bits as the dtype is, modulo span */
};

/* Dtypes as they lie in memory. */
enum {
    FLAMBEAU_IN_BOOL, FLAMBEAU_IN_8, FLAMBEAU_IN_16, FLAMBEAU_IN_32, FLAMBEAU_IN_64,
    FLAMBEAU_IN_HALF, FLAMBEAU_IN_BFLOAT, FLAMBEAU_IN_FLOAT, FLAMBEAU_IN_DOUBLE
};

typedef struct {
    int kind;
    int dtype;
    int unsigned_;           /* a whole number without sign, for geometric numbers */
    double a, b;
    uint64_t span;
    int64_t low;
    const char *chances;     /* floats, or doubles where `wide` */
    int wide;
} flambeau_mt19937_draw;

void flambeau_twister_prepare(void);                                   /* once, before any other call */
void flambeau_twister_seed(flambeau_twister *t, uint64_t seed);
void flambeau_twister_hold(flambeau_twister *t);                       /* one thread draws at a time */
int flambeau_twister_try_hold(flambeau_twister *t);
void flambeau_twister_release(flambeau_twister *t);
void flambeau_twister_write(const flambeau_twister *t, char *state);   /* 5056 bytes, little-endian as the machine is */
int flambeau_twister_read(flambeau_twister *t, const char *state);     /* 0 where they are no state */
uint32_t flambeau_twister_word(flambeau_twister *t);
uint64_t flambeau_twister_pair(flambeau_twister *t);
double flambeau_twister_uniform(flambeau_twister *t);
double flambeau_twister_normal(flambeau_twister *t);
void flambeau_twister_fill(flambeau_twister *t, const flambeau_mt19937_draw *what, char *to, int64_t n);
void flambeau_twister_shuffle(flambeau_twister *t, uint32_t *order, uint32_t n);

/* Numbers by rejection (`twister_rejection.c`): element i has the parameters i % period. */
typedef struct {
    int kind;
    int wide;                /* doubles, not floats */
    const char *given[2];
    int64_t period[2];
    char *to[2];
    int64_t n;
    int64_t row;             /* elements of a row */
    int64_t each;            /* choices for each row */
} flambeau_rejection;

enum {
    FLAMBEAU_TWISTER_GAMMA,
    FLAMBEAU_TWISTER_BETA,               /* two results: the number and what it lacks to 1 */
    FLAMBEAU_TWISTER_DIRICHLET,          /* rows */
    FLAMBEAU_TWISTER_POISSON,
    FLAMBEAU_TWISTER_BINOMIAL,
    FLAMBEAU_TWISTER_CHOICE              /* places in rows of weights, int64, with replacement */
};
enum {                                   /* how it went */
    FLAMBEAU_TWISTER_DONE,
    FLAMBEAU_TWISTER_REFUSED,            /* an operand lies outside of what can be drawn from */
    FLAMBEAU_TWISTER_NOTHING,            /* a row's weights are all 0 */
    FLAMBEAU_TWISTER_NO_MEMORY
};
int flambeau_twister_reject(flambeau_twister *t, const flambeau_rejection *r);

#endif
