/* How a range is shared ("a region"):

   The caller that holds `busy` writes the job, then opens `gate` with a number of seats. A worker that sees
   seats takes one, works on chunks handed out by the counter `next`, and leaves. When no chunk is left the
   caller closes the gate and waits for those inside. A worker that comes late finds the gate closed and is
   not waited for, so a region never waits for a sleeping thread to wake up, and costs 0.2-0.4 us while the
   workers still spin. */
#if defined(__linux__)
#define _GNU_SOURCE /* sched_getaffinity */
#endif

#include "pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

#define CACHE_LINES 128 /* x86 fetches lines of 64 bytes in pairs; Apple's are of 128 */
#define SPIN_NANOSECONDS 40000 /* about what it costs to wake a sleeping thread */
#define STACK_BYTES (1 << 20)
#define CHUNKS_PER_THREAD 4
#define PART_NANOSECONDS 5e7

/* The gate is one word: generation (32 bits), free seats (16 bits), workers inside (16 bits). */
#define GENERATION(gate) ((uint32_t)((gate) >> 32))
#define SEATS(gate) ((uint32_t)((gate) >> 16) & 0xffff)
#define INSIDE(gate) ((uint32_t)(gate) & 0xffff)
#define ONE_SEAT ((uint64_t)1 << 16)
#define ALL_SEATS ((uint64_t)0xffff << 16)
#define MAX_WORKERS 0xffff

static struct {
    /* Written by callers and workers, each on lines of its own. */
    _Alignas(CACHE_LINES) _Atomic uint64_t gate;
    _Alignas(CACHE_LINES) _Atomic int64_t next; /* the next chunk to hand out */
    _Alignas(CACHE_LINES) atomic_bool busy;     /* held for the length of a region */

    /* The job: written before the gate opens, constant while it is open or someone is inside. */
    _Alignas(CACHE_LINES) flambeau_task task;
    void *context;
    int64_t first, end, chunk, chunks;
    uint64_t arithmetic; /* the caller's way of rounding and of taking tiny numbers, for whoever takes part */

    /* Changed only by the holder of busy, while no worker runs. */
    pthread_t *workers;
    int64_t most_chunks;
    int worker_count, threads; /* worker_count < threads - 1 where the system refused to make more */
    bool spin;

    atomic_int wanted_threads;
    atomic_bool stopping;
    /* Not on the job's lines, which workers read. */
    _Alignas(CACHE_LINES) atomic_int sleepers; /* workers asleep on `opened`, or about to be */
    atomic_bool caller_sleeps; /* on `finished` */
    pthread_mutex_t lock;      /* for the two conditions only */
    pthread_cond_t opened, finished;
} pool = {
    .wanted_threads = 1,
    .threads = 1,
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .opened = PTHREAD_COND_INITIALIZER,
    .finished = PTHREAD_COND_INITIALIZER,
};

static inline void pause_cpu(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("isb"); /* `yield` does nothing on most cores */
#endif
}

static int64_t nanoseconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

int flambeau_cpu_count(void) {
#if defined(__linux__)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
#endif
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online < 1 ? 1 : (int)online;
}

/* ---- how a thread computes ---- */

#if defined(__SSE2__)
#define FLUSH ((uint64_t)0x8040) /* results to zero, operands as zeros */
#define EVENTS ((uint64_t)0x3f)  /* what has happened: no part of how to compute */
static inline uint64_t arithmetic(void) { return _mm_getcsr() & ~EVENTS; }
static inline void compute_so(uint64_t wanted) {
    if (arithmetic() != wanted) _mm_setcsr((unsigned)wanted);
}
#elif defined(__aarch64__)
#define FLUSH ((uint64_t)1 << 24)
static inline uint64_t arithmetic(void) {
    uint64_t now;
    __asm__ __volatile__("mrs %0, fpcr" : "=r"(now));
    return now;
}
static inline void compute_so(uint64_t wanted) {
    if (arithmetic() != wanted) __asm__ __volatile__("msr fpcr, %0" : : "r"(wanted));
}
#else
#define FLUSH ((uint64_t)0)
static inline uint64_t arithmetic(void) { return 0; }
static inline void compute_so(uint64_t wanted) { (void)wanted; }
#endif

int flambeau_set_flush_denormal(int flush) {
    compute_so(flush ? arithmetic() | FLUSH : arithmetic() & ~FLUSH);
    return FLUSH != 0;
}

/* ---- the worker ---- */

static void run_chunks(void) {
    for (;;) {
        int64_t index = atomic_fetch_add_explicit(&pool.next, 1, memory_order_relaxed);
        if (index >= pool.chunks) return;
        int64_t begin = pool.first + index * pool.chunk;
        pool.task(pool.context, begin, index == pool.chunks - 1 ? pool.end : begin + pool.chunk);
    }
}

/* Takes a seat in a region that this worker has not been in. */
static bool enter(uint32_t *last_generation) {
    uint64_t gate = atomic_load(&pool.gate);
    while (SEATS(gate) != 0 && GENERATION(gate) != *last_generation) {
        if (atomic_compare_exchange_weak(&pool.gate, &gate, gate - ONE_SEAT + 1)) {
            *last_generation = GENERATION(gate);
            return true;
        }
    }
    return false;
}

static void leave(void) {
    uint64_t before = atomic_fetch_sub(&pool.gate, 1);
    if (INSIDE(before) == 1 && SEATS(before) == 0 && atomic_load(&pool.caller_sleeps)) {
        pthread_mutex_lock(&pool.lock);
        pthread_cond_signal(&pool.finished);
        pthread_mutex_unlock(&pool.lock);
    }
}

/* Returns true inside the next region, false when the pool stops. */
static bool wait_for_region(uint32_t *last_generation) {
    if (pool.spin) {
        int64_t deadline = nanoseconds() + SPIN_NANOSECONDS;
        do {
            for (int i = 0; i < 16; i++) {
                if (enter(last_generation)) return true;
                pause_cpu();
            }
            if (atomic_load_explicit(&pool.stopping, memory_order_relaxed)) return false;
        } while (nanoseconds() < deadline);
    }
    pthread_mutex_lock(&pool.lock);
    /* This counts itself, then looks at the gate; the caller opens it, then looks at the count: one sees. */
    atomic_fetch_add(&pool.sleepers, 1);
    bool entered;
    while (!(entered = enter(last_generation)) && !atomic_load(&pool.stopping)) {
        pthread_cond_wait(&pool.opened, &pool.lock);
    }
    atomic_fetch_sub(&pool.sleepers, 1);
    pthread_mutex_unlock(&pool.lock);
    return entered;
}

static void *worker_main(void *unused) {
    (void)unused;
    uint32_t last_generation = 0; /* only one region in 2^32 has this number; the worker sits that one out */
    while (wait_for_region(&last_generation)) {
        compute_so(pool.arithmetic);
        run_chunks();
        leave();
    }
    return NULL;
}

/* ---- starting, stopping, forking ---- */

/* The child of a fork has none of the workers, and its locks may be copies of held ones. */
static void forget_workers(void) {
    atomic_store(&pool.gate, 0);
    atomic_store(&pool.busy, false);
    atomic_store(&pool.stopping, false);
    atomic_store(&pool.sleepers, 0);
    atomic_store(&pool.caller_sleeps, false);
    pool.worker_count = 0;
    pool.threads = 1;
    pool.workers = NULL; /* not freed: the fork may have come while it was being moved */
    pthread_mutex_init(&pool.lock, NULL);
    pthread_cond_init(&pool.opened, NULL);
    pthread_cond_init(&pool.finished, NULL);
}

static void watch_forks(void) { pthread_atfork(NULL, NULL, forget_workers); }

static void stop_workers(void) {
    atomic_store(&pool.stopping, true);
    pthread_mutex_lock(&pool.lock);
    pthread_cond_broadcast(&pool.opened);
    pthread_mutex_unlock(&pool.lock);
    for (int i = 0; i < pool.worker_count; i++) pthread_join(pool.workers[i], NULL);
    atomic_store(&pool.stopping, false);
    pool.worker_count = 0;
}

static void resize(int threads) {
    stop_workers();
    pool.threads = threads;
    pool.spin = threads <= flambeau_cpu_count(); /* a spinning thread would keep a working one off its core */
    pthread_t *workers = realloc(pool.workers, (size_t)(threads - 1) * sizeof *workers);
    if (workers == NULL) return;
    pool.workers = workers;

    /* Signals are for the threads of the program, but a fault is for the thread that made it. */
    sigset_t blocked, before;
    sigfillset(&blocked);
    const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) sigdelset(&blocked, faults[i]);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    while (pool.worker_count < threads - 1 &&
           pthread_create(&pool.workers[pool.worker_count], &attributes, worker_main, NULL) == 0) {
        pool.worker_count++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
}

int flambeau_get_num_threads(void) {
    return atomic_load_explicit(&pool.wanted_threads, memory_order_relaxed);
}

void flambeau_set_num_threads(int threads) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks); /* here, as this is called before the first region of all */
    if (threads > MAX_WORKERS + 1) threads = MAX_WORKERS + 1;
    atomic_store(&pool.wanted_threads, threads);
}

/* ---- the caller ---- */

static void open_gate(int64_t seats) {
    uint32_t generation = GENERATION(atomic_load_explicit(&pool.gate, memory_order_relaxed)) + 1;
    atomic_store(&pool.gate, ((uint64_t)generation << 32) | (uint64_t)seats << 16);
    int sleepers = atomic_load(&pool.sleepers);
    if (sleepers == 0) return;
    /* Once the lock is had, those counted either wait for the signal or have seen the gate. */
    pthread_mutex_lock(&pool.lock);
    pthread_mutex_unlock(&pool.lock);
    for (int64_t awake = pool.worker_count - sleepers; awake < seats; awake++) {
        pthread_cond_signal(&pool.opened);
    }
}

static void close_gate(void) {
    if (INSIDE(atomic_fetch_and(&pool.gate, ~ALL_SEATS)) == 0) return;
    if (pool.spin) {
        int64_t deadline = nanoseconds() + SPIN_NANOSECONDS;
        do {
            for (int i = 0; i < 16; i++) {
                if (INSIDE(atomic_load(&pool.gate)) == 0) return;
                pause_cpu();
            }
        } while (nanoseconds() < deadline);
    }
    pthread_mutex_lock(&pool.lock);
    atomic_store(&pool.caller_sleeps, true);
    while (INSIDE(atomic_load(&pool.gate)) != 0) pthread_cond_wait(&pool.finished, &pool.lock);
    atomic_store(&pool.caller_sleeps, false);
    pthread_mutex_unlock(&pool.lock);
}

/* ---- one thread in the place of many ---- */

#define MOST_REHEARSED 1024

static atomic_int rehearsing; /* threads that do */
static _Thread_local struct {
    flambeau_range *buffer;
    int64_t most, met;
    bool inside;
} rehearsal;

int64_t flambeau_rehearse(flambeau_range *buffer, int64_t most) {
    int64_t met = rehearsal.met;
    atomic_fetch_add(&rehearsing, (buffer != NULL) - (rehearsal.buffer != NULL));
    rehearsal.buffer = buffer;
    rehearsal.most = most;
    rehearsal.met = 0;
    return met;
}

static int64_t own_nanoseconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void rehearse(flambeau_task task, void *context, int64_t first, int64_t n, int64_t chunk, int64_t chunks, int threads) {
    int64_t busy[MOST_REHEARSED] = {0}, total = 0, longest = 0;
    if (threads > MOST_REHEARSED) threads = MOST_REHEARSED;
    rehearsal.inside = true;
    int64_t before = own_nanoseconds(); /* read once a chunk, so that what reading takes is in the chunks */
    for (int64_t index = 0; index < chunks; index++) {
        int64_t begin = first + index * chunk;
        task(context, begin, index == chunks - 1 ? first + n : begin + chunk);
        int64_t now = own_nanoseconds(), took = now - before;
        before = now;
        int free = 0;
        for (int i = 1; i < threads; i++) free = busy[i] < busy[free] ? i : free;
        busy[free] += took;
        longest = busy[free] > longest ? busy[free] : longest;
        total += took;
    }
    rehearsal.inside = false;
    if (rehearsal.met < rehearsal.most) rehearsal.buffer[rehearsal.met] = (flambeau_range){n, chunk, chunks, total, longest};
    rehearsal.met++;
}

static int64_t grains_per_chunk(int64_t grains, int threads) {
    return (grains - 1) / ((int64_t)threads * CHUNKS_PER_THREAD) + 1;
}

static void share(flambeau_task task, void *context, int64_t first, int64_t n, int64_t grain) {
    int threads = flambeau_get_num_threads();
    if (atomic_load_explicit(&rehearsing, memory_order_relaxed) && rehearsal.buffer != NULL && !rehearsal.inside) {
        int64_t unit = grain < 1 ? 1 : grain, grains = (n - 1) / unit + 1;
        int64_t each = threads == 1 ? grains : grains_per_chunk(grains, threads);
        rehearse(task, context, first, n, each * unit < n ? each * unit : n, (grains - 1) / each + 1, threads);
        return;
    }
    if (n <= grain || threads == 1 || atomic_load_explicit(&pool.busy, memory_order_relaxed) ||
        atomic_exchange_explicit(&pool.busy, true, memory_order_acquire)) {
        task(context, first, first + n);
        return;
    }
    if (threads != pool.threads) resize(threads);
    if (grain < 1) grain = 1;
    int64_t grains = (n - 1) / grain + 1;
    int64_t each = grains_per_chunk(grains, threads);
    pool.task = task;
    pool.context = context;
    pool.first = first;
    pool.end = first + n;
    pool.chunk = each * grain;
    pool.chunks = (grains - 1) / each + 1;
    if (pool.chunks > pool.most_chunks) pool.most_chunks = pool.chunks;
    pool.arithmetic = arithmetic();
    atomic_store_explicit(&pool.next, 0, memory_order_relaxed);
    open_gate(pool.worker_count < pool.chunks - 1 ? pool.worker_count : pool.chunks - 1);
    run_chunks();
    close_gate();
    atomic_store_explicit(&pool.busy, false, memory_order_release);
}

int64_t flambeau_max_tasks(void) {
    int64_t result = pool.most_chunks;
    pool.most_chunks = 0;
    return result;
}

void flambeau_parallel_for(flambeau_task task, void *context, int64_t n, int64_t grain) {
    if (n > 0) share(task, context, 0, n, grain);
}

int flambeau_parallel_interruptible(flambeau_task task, void *context, int64_t n, int64_t grain, double nanoseconds_each,
                               int (*stop)(void)) {
    double threads = flambeau_get_num_threads(), most = PART_NANOSECONDS * threads / nanoseconds_each;
    if (grain < 1) grain = 1;
    if (most < threads * (double)grain) most = threads * (double)grain;
    if (!(most < (double)n)) {
        flambeau_parallel_for(task, context, n, grain);
        return 0;
    }
    int64_t part = (int64_t)most / grain * grain;
    for (int64_t first = 0; first < n; first += part) {
        int stopped = first == 0 ? 0 : stop();
        if (stopped != 0) return stopped;
        if (part > n - first) part = n - first;
        share(task, context, first, part, grain);
    }
    return 0;
}
