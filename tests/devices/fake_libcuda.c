// A libcuda.so.1, and a libcublas, for machines without an NVIDIA device: what the tests of the host's side run on.
// Built with -DHIP it is a libamdhip64.so: the same functions under HIP's names, with HIP's numbers of attributes.
//
// A stream is a thread that takes jobs in order (stream 0 as well: it orders none of the others, which are made
// non-blocking).  Memory of the "device" is malloc's, filled with rubbish when it is allocated and when it is freed, and every access by a copy is
// checked against the blocks that are alive when the copy runs.  A module's image is a shared library of the host's
// (tests/devices/fake_cuda.py makes it from the IR of the PTX): `kernel_call(params)` is one thread's run,
// `kernel_sizes` the bytes of each parameter, and `kernel_barriers` says whether threads wait for each other; then
// each is a coroutine, and one that waits, at a barrier or for the words of its warp, passes control on to the next.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#ifdef HIP
#include "fake_hip_names.h"
#endif

enum { OK, INVALID = 1, NO_MEMORY = 2, NOT_INITIALISED = 3, BAD_PTX = 218, NOT_FOUND = 500, NOT_READY = 600, ILLEGAL = 700,
       UNSUPPORTED = 900, INVALIDATED = 901, CAPTURED = 907 };
typedef uint64_t address;

// --- what happened: read by the tests through `fake_count` ------------------------------
static atomic_long counts[24];
enum { LIVE_BLOCKS, LIVE_BYTES, LAUNCHES, ALLOCATIONS, EVENTS, STREAMS, PINNED, LIMIT, DELAY, TRIMS, GEMMS, GRAPHS, PEERS, OPENED, LTS, LT_DELAY };
long fake_count(int what) { return counts[what]; }
void fake_set(int what, long value) { counts[what] = value; }  // LIMIT: bytes of the device; DELAY: µs before each job, -1 to hold all

static int started;
static pid_t owner;
static atomic_int sticky;  // the first error of a job: all later calls return it, as after a kernel's bad access
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

// --- memory ------------------------------
struct block { char *start; size_t size; struct block *next; int file, foreign; };  // file: of what other processes can be given
static struct block *blocks;

static int inside(address at, size_t n) {
    int inside = 0;
    pthread_mutex_lock(&lock);
    for (struct block *b = blocks; b; b = b->next)
        inside |= at >= (address)b->start && at + n <= (address)b->start + b->size;
    pthread_mutex_unlock(&lock);
    return inside;
}

static void drop(address at) {
    struct block *block = NULL;
    pthread_mutex_lock(&lock);
    for (struct block **b = &blocks; *b; b = &(*b)->next)
        if ((address)(*b)->start == at) { block = *b; *b = block->next; break; }
    pthread_mutex_unlock(&lock);
    if (!block) { sticky = INVALID; return; }
    counts[LIVE_BLOCKS]--, counts[LIVE_BYTES] -= block->size;
    memset(block->start, 0xEE, block->size);
    if (block->file) munmap(block->start, block->size), close(block->file);
    else free(block->start);
    free(block);
}

// --- streams ------------------------------
struct graph;
struct marks { _Atomic long recorded, reached; };  // of an event; in a file in memory where several processes share it
struct event { struct marks *m; struct timespec at; struct graph *graph; int file; };
struct kernel { void (*call)(void **); const int *sizes; int barriers; unsigned shared; };
struct job {
    enum { COPY, FILL, LAUNCH, RECORD, WAIT, CALL } what;
    address to, from; size_t n; int value, host;  // host: 1 `from` is the host's, 2 `to` is
    struct kernel *kernel; unsigned groups[3], threads[3]; char *params;
    struct event *event; long number;
    void (*call)(void *); void *data;
    struct job *next;
};
struct stream { struct job *first, **last; long queued, done; struct stream *next; struct graph *graph; };
// What streams were given while they were captured, in that order.
struct graph { struct job *first, **last; long nodes; struct stream *origin; int bad, mode; };
static struct graph *capturing;  // one at a time
static __thread int exchanged;   // this thread's mode: 2 lets it call what would spoil a capture
static struct stream standard = {0}, *streams = &standard;
static __thread long thread_number, block_number;
static __thread struct job *running;
static int along(long number, const unsigned *sizes, int axis) {
    return axis == 0 ? number % sizes[0] : axis == 1 ? number / sizes[0] % sizes[1] : number / sizes[0] / sizes[1];
}
#define AXIS(letter, k) \
    int fake_thread_##letter(void) { return along(thread_number, running->threads, k); } \
    int fake_block_##letter(void) { return along(block_number, running->groups, k); } \
    int fake_blocks_##letter(void) { return running->groups[k]; }
AXIS(x, 0) AXIS(y, 1) AXIS(z, 2)

char *fake_packet(void) {  // of a launch, where an HSA kernel reads how many threads the grid has
    static __thread struct { char before[12]; unsigned grid[3]; } packet;
    for (int k = 0; k < 3; k++) packet.grid[k] = running->groups[k] * running->threads[k];
    return (char *)&packet;
}

enum { STACK = 1 << 16 };
static __thread ucontext_t *fibres, scheduler;
static __thread void **parameters;
enum { WARP = 32 };
struct meeting { int here, expected; long number; };  // of the threads of a block, or of a warp
static __thread struct meeting *meetings;             // the block's, then those of its warps
static __thread uint32_t (*words)[2];                 // what threads give to others of their warp; every other exchange takes the other place
static __thread long *exchanges;
static void meet(struct meeting *m) {
    long number = m->number;
    if (++m->here == m->expected) m->here = 0, m->number++;
    while (m->number == number) swapcontext(&fibres[thread_number], &scheduler);
}
static void leave(struct meeting *m) {
    if (--m->expected && m->here == m->expected) m->here = 0, m->number++;
}
void fake_barrier(void) { meet(meetings); }
static uint32_t exchange(uint32_t word, long lane) {
    int side = exchanges[thread_number]++ & 1;
    words[thread_number][side] = word;
    meet(&meetings[1 + thread_number / WARP]);
    return words[thread_number / WARP * WARP + lane][side];
}
uint32_t fake_shuffle_bfly(int threads, uint32_t word, int flip, int last) { return exchange(word, thread_number % WARP ^ flip); }
uint32_t fake_shuffle_idx(int threads, uint32_t word, int lane, int last) { return exchange(word, lane); }
uint32_t fake_swizzle(uint32_t word, int pattern) {  // of AMD's, in "bit mask mode"
    return exchange(word, (thread_number & pattern & 31 | pattern >> 5 & 31) ^ pattern >> 10);
}
static __thread char *ended;
static void fibre(void) {
    running->kernel->call(parameters);
    ended[thread_number] = 1;
    leave(meetings), leave(&meetings[1 + thread_number / WARP]);
}

static void run_kernel(struct job *j) {
    void *places[512];
    int k, count = 0;
    char *at = j->params;
    for (k = 0; j->kernel->sizes[k]; k++, at += 8) places[count++] = at;
    long block_count = (long)j->groups[0] * j->groups[1] * j->groups[2], threads = (long)j->threads[0] * j->threads[1] * j->threads[2];
    parameters = places, running = j;
    char *stacks = j->kernel->barriers ? malloc((size_t)STACK * threads) : NULL;
    long warps = (threads + WARP - 1) / WARP;
    if (stacks) {
        fibres = calloc(threads, sizeof *fibres), ended = malloc(threads), meetings = calloc(1 + warps, sizeof *meetings);
        words = calloc(warps * WARP, sizeof *words), exchanges = malloc(threads * sizeof *exchanges);
    }
    for (block_number = 0; block_number < block_count; block_number++) {
        if (stacks) {
            memset(exchanges, 0, threads * sizeof *exchanges);
            meetings[0] = (struct meeting){0, threads, 0};
            for (long w = 0; w < warps; w++) meetings[1 + w] = (struct meeting){0, threads - w * WARP < WARP ? threads - w * WARP : WARP, 0};
        }
        for (thread_number = 0; thread_number < threads; thread_number++) {
            if (!stacks) { j->kernel->call(places); continue; }
            ucontext_t *f = &fibres[thread_number];
            getcontext(f);
            f->uc_stack.ss_sp = stacks + (size_t)STACK * thread_number, f->uc_stack.ss_size = STACK, f->uc_link = &scheduler;
            makecontext(f, fibre, 0), ended[thread_number] = 0;
        }
        for (int left = stacks != NULL; left;)
            for (left = 0, thread_number = 0; thread_number < threads; thread_number++)
                if (!ended[thread_number]) swapcontext(&scheduler, &fibres[thread_number]), left = 1;
    }
    if (stacks) free(stacks), free(fibres), free(ended), free(meetings), free(words), free(exchanges);
    free(j->params);
}

static void await(struct event *e, long number) {
    pthread_mutex_lock(&lock);
    while (e->m->reached < number) {
        struct timespec soon;  // another process says nothing when it gets there
        clock_gettime(CLOCK_REALTIME, &soon), soon.tv_nsec += 1000000;
        if (soon.tv_nsec >= 1000000000) soon.tv_nsec -= 1000000000, soon.tv_sec++;
        e->file ? pthread_cond_timedwait(&changed, &lock, &soon) : pthread_cond_wait(&changed, &lock);
    }
    pthread_mutex_unlock(&lock);
}

static void run_job(struct job *j) {
    while (counts[DELAY] < 0) usleep(100);
    if (counts[DELAY] && j->what != WAIT) usleep(counts[DELAY]);
    if (j->what == RECORD) {
        pthread_mutex_lock(&lock);
        clock_gettime(CLOCK_MONOTONIC, &j->event->at), j->event->m->reached = j->number;
        pthread_mutex_unlock(&lock);
    } else if (j->what == WAIT) {
        await(j->event, j->number);
    } else if (sticky) {
    } else if (j->what == COPY) {
        if ((j->host != 2 && !inside(j->to, j->n)) || (j->host != 1 && !inside(j->from, j->n))) sticky = ILLEGAL;
        else memcpy((void *)j->to, (void *)j->from, j->n);
    } else if (j->what == FILL) {
        if (!inside(j->to, j->n)) sticky = ILLEGAL;
        else memset((void *)j->to, j->value, j->n);
    } else if (j->what == LAUNCH) run_kernel(j);
    else j->call(j->data);
}

static void *work(void *given) {
    struct stream *s = given;
    pthread_mutex_lock(&lock);
    for (;;) {
        while (!s->first) pthread_cond_wait(&changed, &lock);
        struct job *j = s->first;
        pthread_mutex_unlock(&lock);
        run_job(j);
        pthread_mutex_lock(&lock);
        s->first = j->next, s->done++;
        if (!s->first) s->last = &s->first;
        free(j), pthread_cond_broadcast(&changed);
    }
    return NULL;
}

static int queue(struct stream *s, struct job wanted) {
    struct job *j = malloc(sizeof *j);
    if (sticky) return free(j), sticky;
    *j = wanted, j->next = NULL;
    pthread_mutex_lock(&lock);
    if (!s) s = &standard;
    if (j->what == WAIT && j->event->graph && j->event->graph == capturing) s->graph = capturing;  // joins the capture
    if (j->what == RECORD) j->event->graph = s->graph;
    if (s->graph) {
        if (j->what == RECORD || j->what == WAIT) free(j);  // the order of a replay is that of the calls
        else *s->graph->last = j, s->graph->last = &j->next, s->graph->nodes++;
        pthread_mutex_unlock(&lock);
        return OK;
    }
    *s->last = j, s->last = &j->next, s->queued++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return OK;
}

static int finish(struct stream *s) {
    pthread_mutex_lock(&lock);
    for (long goal = s->queued; s->done < goal;) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    return sticky;
}

// Calls that a capture cannot hold spoil it.
static int spoils(void) {
    if (!capturing || exchanged == 2) return 0;
    capturing->bad = 1;
    return UNSUPPORTED;
}

static void start(struct stream *s) {
    pthread_t thread;
    s->last = &s->first;
    pthread_create(&thread, NULL, work, s), pthread_detach(thread);
}

// --- the driver ------------------------------
int cuInit(unsigned flags) {
    if (started && owner != getpid()) return NOT_INITIALISED;
    if (!started) start(&standard), started = 1, owner = getpid();
    return getenv("FAKE_CUDA_NO_DEVICE") ? 100 : OK;
}
#ifdef HIP
int cuDriverGetVersion(int *v) { return *v = 60342131, OK; }  // 6.3.42131
#else
int cuDriverGetVersion(int *v) { return *v = 13000, OK; }
#endif
int cuGetErrorName(int e, const char **s) {
    *s = e == UNSUPPORTED ? "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED" : e == INVALIDATED ? "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"
       : e == CAPTURED ? "CUDA_ERROR_CAPTURED_EVENT" : e == INVALID ? "CUDA_ERROR_INVALID_VALUE" : e == NO_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : e == 100 ? "CUDA_ERROR_NO_DEVICE"
       : e == BAD_PTX ? "CUDA_ERROR_INVALID_PTX" : e == NOT_FOUND ? "CUDA_ERROR_NOT_FOUND" : e == ILLEGAL ? "CUDA_ERROR_ILLEGAL_ADDRESS" : NULL;
    return *s ? OK : INVALID;
}
int cuGetErrorString(int e, const char **s) {
    return *s = e == UNSUPPORTED ? "operation not permitted when stream is capturing" : e == ILLEGAL ? "an illegal memory access was encountered" : "fake error", OK; }
int cuDeviceGetCount(int *n) { return *n = 2, OK; }
int cuDeviceGet(int *d, int k) { return *d = k, OK; }
int cuDeviceGetName(char *s, int n, int d) { return snprintf(s, n, "Fake %d", d), OK; }
int cuDeviceTotalMem_v2(size_t *n, int d) { return *n = counts[LIMIT] ? counts[LIMIT] : 1l << 33, OK; }
int cuDeviceGetAttribute(int *v, int which, int d) {
    const char *given = getenv("FAKE_CUDA_CAPABILITY");
    int capability = given ? atoi(given) : 90;
#ifdef HIP
    switch (which) {  // by the numbers of hipDeviceAttribute_t
    case 26: case 27: case 28: return *v = 1024, OK;       // hipDeviceAttributeMaxBlockDimX, Y, Z
    case 29: return *v = 0x7FFFFFFF, OK;                   // MaxGridDimX
    case 30: case 31: return *v = 65535, OK;               // MaxGridDimY, Z
    case 56: return *v = 1024, OK;                         // MaxThreadsPerBlock
    case 63: return *v = 2, OK;                            // MultiprocessorCount
    case 74: return *v = 64 << 10, OK;                     // MaxSharedMemoryPerBlock
    case 87: return *v = 64, OK;                           // WarpSize
    case 88: return *v = 1, OK;                            // MemoryPoolsSupported
    case 23: return *v = capability / 10, OK;              // ComputeCapabilityMajor
    case 61: return *v = capability % 10, OK;              // ComputeCapabilityMinor
    case 5: case 16: case 19: case 57: case 59: case 60: case 72: case 10002: return *v = 0, OK;
    default: return INVALID;
    }
#endif
    const int limits[] = {0, 1024, 1024, 1024, 64, 0x7FFFFFFF, 65535, 65535};
    *v = which < 8 ? limits[which] : which == 16 ? 2 : which == 75 ? capability / 10 : which == 76 ? capability % 10 : which == 10 ? 32
       : which == 115 ? 1 : which == 97 ? 227 << 10 : 0;
    return OK;
}
int cuDeviceGetDefaultMemPool(void **p, int d) { return *p = &blocks, OK; }
static __thread void *context;
#ifdef HIP
int hipSetDevice(int d) { return context = (void *)(intptr_t)(d + 1), d < 0 || d > 1 ? 101 : OK; }
int hipGetDevicePropertiesR0600(char *properties, int d) {  // gcnArchName, by its place in hipDeviceProp_tR0600
    const char *given = getenv("FAKE_HIP_ARCHITECTURE");
    return memset(properties, 0, 1472), strcpy(properties + 1160, given ? given : "gfx90a:sramecc+:xnack-"), OK;
}
#endif
int cuDevicePrimaryCtxRetain(void **c, int d) { return *c = (void *)(intptr_t)(d + 1), OK; }
int cuCtxSetCurrent(void *c) { return context = c, OK; }
int cuCtxSynchronize(void) {
    if (!context) return NOT_INITIALISED;
    if (spoils()) return UNSUPPORTED;
    for (struct stream *s = streams; s; s = s->next) finish(s);
    return sticky;
}
int cuMemGetInfo_v2(size_t *f, size_t *t) { return cuDeviceTotalMem_v2(t, 0), *f = *t - counts[LIVE_BYTES], OK; }
static struct block *put_block(char *start, size_t n, int file, int foreign) {
    struct block *b = malloc(sizeof *b);
    b->start = start, b->size = n, b->file = file, b->foreign = foreign;
    pthread_mutex_lock(&lock);
    b->next = blocks, blocks = b;
    pthread_mutex_unlock(&lock);
    return b;
}
static char *map(int file, size_t n) { return mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0); }
static int allocate(address *a, size_t n, int shared) {
    size_t total;
    if (sticky || !context) return sticky ? sticky : NOT_INITIALISED;
    cuDeviceTotalMem_v2(&total, 0), counts[ALLOCATIONS]++;
    if (counts[LIVE_BYTES] + n > total) return NO_MEMORY;
    int file = shared ? memfd_create("memory", MFD_CLOEXEC) : 0;
    if (shared && ftruncate(file, n)) return NO_MEMORY;
    char *start = shared ? map(file, n) : aligned_alloc(256, (n + 255) / 256 * 256);
    memset(start, 0xCD, n);
    counts[LIVE_BLOCKS]++, counts[LIVE_BYTES] += n;
    return *a = (address)put_block(start, n, file, 0)->start, OK;
}
int cuMemAllocAsync(address *a, size_t n, struct stream *s) { return (s ? s : &standard)->graph ? UNSUPPORTED : allocate(a, n, 0); }
int cuMemAlloc_v2(address *a, size_t n) { return spoils() ? UNSUPPORTED : allocate(a, n, 1); }
int cuMemFree_v2(address a) { return drop(a), sticky; }
int cuMemPoolSetAttribute(void *p, int k, void *v) { return k == 4 && *(uint64_t *)v ? OK : INVALID; }
int cuMemPoolTrimTo(void *p, size_t n) { return counts[TRIMS]++, OK; }
int cuMemHostAlloc(void **p, size_t n, unsigned flags) {
    if (flags) return INVALID;
    if (spoils()) return UNSUPPORTED;
    return counts[PINNED]++, *p = malloc(n), OK;
}
static struct { char *start; size_t size; } locked[8];
int cuMemHostRegister_v2(void *p, size_t n, unsigned flags) {
    for (int k = 0; k < 8; k++) if (locked[k].start == p) return INVALID;
    for (int k = 0; k < 8; k++) if (!locked[k].start) return locked[k].start = p, locked[k].size = n, counts[PINNED]++, OK;
    return NO_MEMORY;
}
int cuMemHostUnregister(void *p) {
    for (int k = 0; k < 8; k++) if (p && locked[k].start == p) return locked[k].start = NULL, counts[PINNED]--, OK;
    return INVALID;
}
int cuMemFreeHost(void *p) { return counts[PINNED]--, free(p), OK; }
int cuMemcpyHtoDAsync_v2(address to, const void *from, size_t n, struct stream *s) {
    return queue(s, (struct job){COPY, .to = to, .from = (address)from, .n = n, .host = 1});
}
int cuMemcpyDtoHAsync_v2(void *to, address from, size_t n, struct stream *s) {
    return queue(s, (struct job){COPY, .to = (address)to, .from = from, .n = n, .host = 2});
}
int cuMemcpyDtoDAsync_v2(address to, address from, size_t n, struct stream *s) {
    return queue(s, (struct job){COPY, .to = to, .from = from, .n = n});
}
int cuMemcpyPeerAsync(address to, void *there, address from, void *here, size_t n, struct stream *s) {
    if (!there || !here || there == here) return INVALID;
    return counts[PEERS]++, queue(s, (struct job){COPY, .to = to, .from = from, .n = n});
}
#ifdef HIP
int hipMemcpyPeerAsync(address to, int there, address from, int here, size_t n, struct stream *s) {
    return cuMemcpyPeerAsync(to, (void *)(intptr_t)(there + 1), from, (void *)(intptr_t)(here + 1), n, s);
}
#endif
int cuMemsetD8Async(address to, unsigned char value, size_t n, struct stream *s) {
    return queue(s, (struct job){FILL, .to = to, .value = value, .n = n});
}
int cuModuleLoadDataEx(void **module, const char *image, unsigned n, const int *options, void **values) {
    if (spoils()) return UNSUPPORTED;
    if (!memcmp(image, "\177ELF", 4)) {
        uint64_t sections;  // a shared library's table of sections stands at its end
        uint16_t each, number;
        memcpy(&sections, image + 40, 8), memcpy(&each, image + 58, 2), memcpy(&number, image + 60, 2);
        char path[64];
        int file = memfd_create("kernel", 0);
        if (write(file, image, sections + each * number) < 0) return INVALID;
        snprintf(path, sizeof path, "/proc/self/fd/%d", file);
        *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);  // the file stays open: a second library of its name is the first
        if (*module) return OK;
    }
    for (unsigned k = 0; k < n; k++)
        if (options[k] == 5) snprintf(values[k], 100, "fake ptxas: line 1: %.40s", image);
    return BAD_PTX;
}
int cuModuleGetFunction(struct kernel **f, void *module, const char *name) {
    if (strcmp(name, "kernel")) return NOT_FOUND;
    *f = calloc(1, sizeof **f);
    (*f)->call = dlsym(module, "kernel_call"), (*f)->sizes = dlsym(module, "kernel_sizes");
    (*f)->barriers = *(int *)dlsym(module, "kernel_barriers");
    return OK;
}
int cuFuncSetAttribute(struct kernel *f, int which, int value) { return which == 8 && value <= 227 << 10 ? f->shared = value, OK : INVALID; }
int cuLaunchKernel(struct kernel *f, unsigned x, unsigned y, unsigned z, unsigned tx, unsigned ty, unsigned tz, unsigned shared,
                   struct stream *s, void **params, void **extra) {
    if (!x || !y || !z || x > 0x7FFFFFFF || y > 65535 || z > 65535 || !tx || !ty || !tz || tx * ty * tz > 1024 || tz > 64) return INVALID;
    if (shared > (f->shared ? f->shared : 48 << 10)) return INVALID;
    int count = 0;
    while (f->sizes[count]) count++;
    char *copied = calloc(count + 1, 8);
    for (int k = 0; k < count; k++) memcpy(copied + 8 * k, params[k], f->sizes[k]);
    counts[LAUNCHES]++;
    return queue(s, (struct job){LAUNCH, .kernel = f, .groups = {x, y, z}, .threads = {tx, ty, tz}, .params = copied, .n = 8 * (count + 1)});
}
int cuStreamCreateWithPriority(struct stream **s, unsigned flags, int priority) {
    *s = calloc(1, sizeof **s), counts[STREAMS]++;
    pthread_mutex_lock(&lock);
    (*s)->next = streams->next, streams->next = *s;
    pthread_mutex_unlock(&lock);
    return start(*s), OK;
}
int cuStreamCreate(struct stream **s, unsigned flags) { return cuStreamCreateWithPriority(s, flags, 0); }
int cuStreamDestroy_v2(struct stream *s) {  // its thread waits for work for ever: what it holds is not freed
    finish(s);
    pthread_mutex_lock(&lock);
    struct stream *before = streams;
    while (before && before->next != s) before = before->next;
    if (before) before->next = s->next, counts[STREAMS]--;
    pthread_mutex_unlock(&lock);
    return before ? OK : INVALID;
}
int cuStreamSynchronize(struct stream *s) { if (spoils()) return UNSUPPORTED; return finish(s ? s : &standard); }
int cuStreamQuery(struct stream *s) {
    if (!s) s = &standard;
    if (s->graph) return s->graph->bad = 1, UNSUPPORTED;
    return sticky ? sticky : s->done < s->queued ? NOT_READY : OK;
}
int cuStreamWaitEvent(struct stream *s, struct event *e, unsigned flags) {
    return queue(s, (struct job){WAIT, .event = e, .number = e->m->recorded});
}
int cuCtxGetStreamPriorityRange(int *least, int *greatest) { return *least = 0, *greatest = -5, OK; }
static struct event *event_of(struct marks *m, int file) {
    struct event *e = calloc(1, sizeof *e);
    return e->m = m, e->file = file, counts[EVENTS]++, e;
}
static struct marks *shared_marks(int file) { return mmap(NULL, sizeof(struct marks), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0); }
int cuEventCreate(struct event **e, unsigned flags) {
    if (!(flags & 4)) return *e = event_of(calloc(1, sizeof(struct marks)), 0), OK;
    if (!(flags & 2)) return INVALID;  // what is shared tells no times
    int file = memfd_create("event", MFD_CLOEXEC);
    if (ftruncate(file, sizeof(struct marks))) return NO_MEMORY;
    return *e = event_of(shared_marks(file), file), OK;
}
struct handle { char reserved[64]; };
int cuIpcGetMemHandle(struct handle *h, address at) {
    memset(h, 0, sizeof *h);
    for (struct block *b = blocks; b; b = b->next)
        if ((address)b->start == at && b->file && !b->foreign)
            return snprintf(h->reserved, sizeof h->reserved, "memory /proc/%d/fd/%d %zu", getpid(), b->file, b->size), OK;
    return INVALID;
}
int cuIpcOpenMemHandle_v2(address *a, struct handle h, unsigned flags) {
    char path[40];
    size_t n;
    if (h.reserved[63] || sscanf(h.reserved, "memory %39s %zu", path, &n) != 2) return INVALID;
    int process = 0, file = open(path, O_RDWR | O_CLOEXEC);
    sscanf(path, "/proc/%d", &process);
    if (file < 0 || process == getpid()) return INVALID;  // a process does not open its own
    return *a = (address)put_block(map(file, n), n, file, 1)->start, counts[OPENED]++, OK;
}
int cuIpcCloseMemHandle(address at) {
    for (struct block **b = &blocks; *b; b = &(*b)->next)
        if ((address)(*b)->start == at && (*b)->foreign) {
            struct block *block = *b;
            pthread_mutex_lock(&lock);
            *b = block->next;
            pthread_mutex_unlock(&lock);
            munmap(block->start, block->size), close(block->file), free(block);
            return counts[OPENED]--, OK;
        }
    return INVALID;
}
int cuIpcGetEventHandle(struct handle *h, struct event *e) {
    memset(h, 0, sizeof *h);
    if (!e->file) return INVALID;
    return snprintf(h->reserved, sizeof h->reserved, "event /proc/%d/fd/%d", getpid(), e->file), OK;
}
int cuIpcOpenEventHandle(struct event **e, struct handle h) {
    int file = memcmp(h.reserved, "event ", 6) ? -1 : open(h.reserved + 6, O_RDWR | O_CLOEXEC);
    if (file < 0) return INVALID;
    return *e = event_of(shared_marks(file), file), OK;
}
int cuEventDestroy_v2(struct event *e) { return counts[EVENTS]--, OK; }  // kept: jobs may still point to it
int cuEventRecord(struct event *e, struct stream *s) { return queue(s, (struct job){RECORD, .event = e, .number = ++e->m->recorded}); }
int cuEventQuery(struct event *e) { if (e->graph) return CAPTURED; return sticky ? sticky : e->m->reached < e->m->recorded ? NOT_READY : OK; }
int cuEventSynchronize(struct event *e) {
    if (e->graph) return CAPTURED;
    await(e, e->m->recorded);
    return sticky;
}
int cuEventElapsedTime(float *ms, struct event *a, struct event *b) {
    return *ms = (b->at.tv_sec - a->at.tv_sec) * 1e3f + (b->at.tv_nsec - a->at.tv_nsec) * 1e-6f, OK;
}

int cuDeviceCanAccessPeer(int *able, int d, int other) { return *able = d != other, OK; }
void fake_break(void) { sticky = ILLEGAL; }  // as a kernel's bad access does
int cuLaunchHostFunc(struct stream *s, void (*call)(void *), void *data) {
    return queue(s, (struct job){CALL, .call = call, .data = data});
}
static int profiled;
int fake_profiled(void) { return profiled; }
int cuProfilerStart(void) { return profiled = 1, OK; }
int cuProfilerStop(void) { return profiled ? profiled = 0, OK : INVALID; }

// --- graphs: jobs in the order of the calls, copied into a stream by each launch ------------------------------
int cuStreamIsCapturing(struct stream *s, int *status) { return *status = (s ? s : &standard)->graph != NULL, OK; }
int cuThreadExchangeStreamCaptureMode(int *mode) {
    int before = exchanged;
    return exchanged = *mode, *mode = before, OK;
}
int cuStreamBeginCapture_v2(struct stream *s, int mode) {
    if (!s || capturing) return UNSUPPORTED;  // the default stream cannot be captured
    struct graph *g = calloc(1, sizeof *g);
    g->last = &g->first, g->origin = s, g->mode = mode;
    return counts[GRAPHS]++, s->graph = capturing = g, OK;
}
int cuStreamEndCapture(struct stream *s, struct graph **made) {
    struct graph *g = capturing;
    if (!s || !g || g->origin != s) return INVALID;
    pthread_mutex_lock(&lock);
    for (struct stream *each = streams; each; each = each->next)
        if (each->graph == g) each->graph = NULL;
    capturing = NULL;
    pthread_mutex_unlock(&lock);
    if (g->bad) return counts[GRAPHS]--, free(g), *made = NULL, INVALIDATED;
    return *made = g, OK;
}
int cuGraphInstantiateWithFlags(struct graph **made, struct graph *g, unsigned long long flags) { return *made = g, OK; }
int cuGraphGetNodes(struct graph *g, void **nodes, size_t *count) { return *count = g->nodes, OK; }
static void *copy_of(const void *from, size_t n) { return memcpy(malloc(n), from, n); }
int cuGraphLaunch(struct graph *g, struct stream *s) {
    int status = OK;
    for (struct job *j = g->first; j && !status; j = j->next) {
        struct job again = *j;
        if (j->what == LAUNCH) again.params = copy_of(j->params, j->n), counts[LAUNCHES]++;
        if (j->what == CALL) again.data = copy_of(j->data, j->n);
        status = queue(s, again);
    }
    return status;
}
int cuGraphExecDestroy(struct graph *g) { return OK; }
int cuGraphDestroy(struct graph *g) {
    for (struct job *j = g->first, *next; j; j = next) {
        next = j->next;
        if (j->what == LAUNCH) free(j->params);
        if (j->what == CALL) free(j->data);
        free(j);
    }
    return counts[GRAPHS]--, free(g), OK;
}
int cuGraphDebugDotPrint(struct graph *g, const char *path, unsigned flags) {
    FILE *file = fopen(path, "w");
    if (!file) return INVALID;
    fprintf(file, "digraph fake {\n");
    for (long k = 0; k < g->nodes; k++) fprintf(file, "node%ld;\n", k);
    return fprintf(file, "}\n"), fclose(file), OK;
}

// --- cuBLAS: products by their definition, in columns ------------------------------
struct gemm {
    int ta, tb, m, n, k, kind, compute, batch;
    double alpha, beta;
    const char *a, *b; char *c;
    long lda, ldb, ldc, sa, sb, sc;
    const char *bias; long delay;
};
static struct stream *blas_stream;
int cublasCreate_v2(void **h) { return *h = &blas_stream, OK; }
int cublasSetStream_v2(void *h, struct stream *s) { return blas_stream = s, OK; }
int cublasSetMathMode(void *h, int mode) { return OK; }
const char *cublasGetStatusString(int status) { return "fake status"; }

static void get(const char *at, long k, int kind, double *re, double *im) {
    uint16_t half; uint32_t bits; float single;
    *im = 0;
    if (kind == 0) *re = ((float *)at)[k];
    else if (kind == 1) *re = ((double *)at)[k];
    else if (kind == 2) *re = ((_Float16 *)at)[k];
    else if (kind == 4) *re = ((float *)at)[2 * k], *im = ((float *)at)[2 * k + 1];
    else if (kind == 5) *re = ((double *)at)[2 * k], *im = ((double *)at)[2 * k + 1];
    else half = ((uint16_t *)at)[k], bits = (uint32_t)half << 16, memcpy(&single, &bits, 4), *re = single;
}
static void put(char *at, long k, int kind, double re, double im) {
    uint32_t bits; float single = re;
    if (kind == 0) ((float *)at)[k] = re;
    else if (kind == 1) ((double *)at)[k] = re;
    else if (kind == 2) ((_Float16 *)at)[k] = re;
    else if (kind == 4) ((float *)at)[2 * k] = re, ((float *)at)[2 * k + 1] = im;
    else if (kind == 5) ((double *)at)[2 * k] = re, ((double *)at)[2 * k + 1] = im;
    else memcpy(&bits, &single, 4), ((uint16_t *)at)[k] = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
}
static void multiply(void *given) {
    struct gemm *g = given;
    const int sizes[] = {4, 8, 2, 0, 8, 16, [14] = 2};
    if (g->delay) usleep(g->delay);
    for (long batch = 0; batch < g->batch; batch++) {
        const char *a = g->a + batch * g->sa * sizes[g->kind], *b = g->b + batch * g->sb * sizes[g->kind];
        char *c = g->c + batch * g->sc * sizes[g->kind];
        for (long i = 0; i < g->m; i++) for (long j = 0; j < g->n; j++) {
            double re = 0, im = 0, x, y, u, v;
            for (long l = 0; l < g->k; l++) {
                get(a, g->ta ? l + i * g->lda : i + l * g->lda, g->kind, &x, &y);
                get(b, g->tb ? j + l * g->ldb : l + j * g->ldb, g->kind, &u, &v);
                re += x * u - y * v, im += x * v + y * u;
            }
            x = y = 0;
            if (g->beta) get(c, i + j * g->ldc, g->kind, &x, &y);
            u = v = 0;
            if (g->bias) get(g->bias, i, g->kind, &u, &v);
            put(c, i + j * g->ldc, g->kind, g->alpha * re + g->beta * x + u, g->alpha * im + g->beta * y);
        }
    }
    free(g);
}
int cublasGemmStridedBatchedEx(void *h, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, int akind, int lda,
                               long long sa, const void *b, int bkind, int ldb, long long sb, const void *beta, void *c, int ckind,
                               int ldc, long long sc, int batch, int compute, int algorithm) {
    if (lda < (ta ? k : m) || ldb < (tb ? n : k) || ldc < m || akind != bkind || akind != ckind) return 7;
    if (compute != (akind == 1 || akind == 5 ? 70 : 68)) return 15;
    double x = compute == 70 ? *(double *)alpha : *(float *)alpha, y = compute == 70 ? *(double *)beta : *(float *)beta;
    struct gemm *g = malloc(sizeof *g);
    *g = (struct gemm){ta, tb, m, n, k, akind, compute, batch, x, y, a, b, c, lda, ldb, ldc, sa, sb, sc, NULL, counts[LT_DELAY] < 0 ? -counts[LT_DELAY] : 0};
    counts[GEMMS]++;
    return queue(blas_stream, (struct job){CALL, .call = multiply, .data = g, .n = sizeof *g});
}
int cublasGemmEx(void *h, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, int akind, int lda, const void *b,
                 int bkind, int ldb, const void *beta, void *c, int ckind, int ldc, int compute, int algorithm) {
    return cublasGemmStridedBatchedEx(h, ta, tb, m, n, k, alpha, a, akind, lda, 0, b, bkind, ldb, 0, beta, c, ckind, ldc, 0, 1,
                                      compute, algorithm);
}

// --- cuBLASLt: the same products, with a bias for each row of a column ------------------------------
struct lt_product { int compute, scale, ta, tb, epilogue; const char *bias; };
struct lt_matrix { int kind; uint64_t rows, columns; int64_t ld; int batch; int64_t stride; };
struct lt_preference { uint64_t workspace; unsigned alignment[4]; };
struct lt_heuristic { uint64_t algorithm[8]; size_t workspace; int state; float waves; int reserved[4]; };
static int lt_objects;  // that are alive
int fake_lt_objects(void) { return lt_objects; }
size_t cublasLtGetVersion(void) { const char *given = getenv("FAKE_LT_VERSION"); return given ? atoi(given) : 130000; }
int cublasLtCreate(void **h) { return *h = &lt_objects, OK; }
const char *cublasLtGetStatusString(int status) { return "fake Lt status"; }
int cublasLtMatmulDescCreate(struct lt_product **d, int compute, int scale) {
    return *d = calloc(1, sizeof **d), (*d)->compute = compute, (*d)->scale = scale, (*d)->epilogue = 1, lt_objects++, OK;
}
int cublasLtMatmulDescSetAttribute(struct lt_product *d, int which, const void *value, size_t n) {
    if (which == 8) return n == 8 ? d->bias = *(const char **)value, OK : 7;
    if (n != 4) return 7;
    int *to = which == 3 ? &d->ta : which == 4 ? &d->tb : which == 7 ? &d->epilogue : NULL;
    return to ? *to = *(int *)value, OK : 7;
}
int cublasLtMatmulDescDestroy(struct lt_product *d) { return lt_objects--, free(d), OK; }
int cublasLtMatrixLayoutCreate(struct lt_matrix **m, int kind, uint64_t rows, uint64_t columns, int64_t ld) {
    if (ld < (int64_t)rows) return 7;
    *m = calloc(1, sizeof **m);
    return **m = (struct lt_matrix){kind, rows, columns, ld, 1, 0}, lt_objects++, OK;
}
int cublasLtMatrixLayoutSetAttribute(struct lt_matrix *m, int which, const void *value, size_t n) {
    if (which == 5 && n == 4) return m->batch = *(int *)value, OK;
    if (which == 6 && n == 8) return m->stride = *(int64_t *)value, OK;
    return 7;
}
int cublasLtMatrixLayoutDestroy(struct lt_matrix *m) { return lt_objects--, free(m), OK; }
int cublasLtMatmulPreferenceCreate(struct lt_preference **p) { return *p = calloc(1, sizeof **p), lt_objects++, OK; }
int cublasLtMatmulPreferenceSetAttribute(struct lt_preference *p, int which, const void *value, size_t n) {
    if (which == 1 && n == 8) return p->workspace = *(uint64_t *)value, OK;
    if (which >= 5 && which <= 8 && n == 4) return p->alignment[which - 5] = *(unsigned *)value, OK;
    return 7;
}
int cublasLtMatmulPreferenceDestroy(struct lt_preference *p) { return lt_objects--, free(p), OK; }
static int lt_checked(struct lt_product *d, struct lt_matrix *a, struct lt_matrix *b, struct lt_matrix *c) {
    uint64_t m = d->ta ? a->columns : a->rows, k = d->ta ? a->rows : a->columns, n = d->tb ? b->rows : b->columns;
    int wide = a->kind == 1 || a->kind == 5;
    if (k != (d->tb ? b->columns : b->rows) || m != c->rows || n != c->columns || a->kind != b->kind || a->kind != c->kind) return 7;
    if (a->batch != c->batch || b->batch != c->batch || d->compute != (wide ? 70 : 68)) return 7;
    if (d->scale != (a->kind == 4 || a->kind == 5 || a->kind == 1 ? a->kind : 0)) return 7;
    return d->epilogue == 1 || (d->epilogue == 4 && a->kind != 1 && a->kind != 4 && a->kind != 5) ? OK : 15;
}
int cublasLtMatmulAlgoGetHeuristic(void *h, struct lt_product *d, struct lt_matrix *a, struct lt_matrix *b, struct lt_matrix *c,
                                   struct lt_matrix *to, struct lt_preference *p, int wanted, struct lt_heuristic *heuristic, int *count) {
    int status = lt_checked(d, a, b, c);
    *count = 0;
    if (status) return status;
    if (wanted < 1 || c != to || p->alignment[0] < 2 || getenv("FAKE_LT_NONE")) return 15;
    return heuristic->algorithm[0] = 0x17, heuristic->algorithm[1] = p->alignment[0], heuristic->workspace = p->workspace, *count = 1, OK;
}
int cublasLtMatmul(void *h, struct lt_product *d, const void *alpha, const char *a, struct lt_matrix *la, const char *b, struct lt_matrix *lb,
                   const void *beta, const char *c, struct lt_matrix *lc, char *to, struct lt_matrix *ld, const uint64_t *algorithm,
                   void *workspace, size_t n, struct stream *s) {
    int status = lt_checked(d, la, lb, lc);
    if (status || algorithm[0] != 0x17 || c != to || (address)a % algorithm[1]) return status ? status : 7;
    if (n && !inside((address)workspace, n)) return 7;
    if (d->epilogue == 4 && !inside((address)d->bias, 1)) return 7;
    int wide = d->compute == 70;
    struct gemm *g = malloc(sizeof *g);
    *g = (struct gemm){d->ta, d->tb, lc->rows, lc->columns, d->ta ? la->rows : la->columns, la->kind, d->compute, lc->batch,
                       wide ? *(double *)alpha : *(float *)alpha, wide ? *(double *)beta : *(float *)beta, a, b, to,
                       la->ld, lb->ld, lc->ld, la->stride, lb->stride, lc->stride, d->epilogue == 4 ? d->bias : NULL, counts[LT_DELAY] > 0 ? counts[LT_DELAY] : 0};
    counts[LTS]++;
    return queue(s, (struct job){CALL, .call = multiply, .data = g, .n = sizeof *g});
}

#ifdef HIP
// --- rocBLAS: by the numbers of rocblas-types.h ------------------------------
int rocblas_create_handle(void **h) { return cublasCreate_v2(h); }
int rocblas_set_stream(void *h, struct stream *s) { return cublasSetStream_v2(h, s); }
const char *rocblas_status_to_string(int status) { return "fake status"; }
int rocblas_gemm_strided_batched_ex(void *h, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, int akind, int lda,
                                    int64_t sa, const void *b, int bkind, int ldb, int64_t sb, const void *beta, const void *c, int ckind,
                                    int ldc, int64_t sc, void *d, int dkind, int ldd, int64_t sd, int batch, int compute, int algorithm,
                                    int32_t solution, uint32_t flags) {
    static const int kinds[] = {[150] = 3, [151] = 1, [152] = 2, [154] = 5, [155] = 6, [168] = 15};  // cuBLAS's number, and 1
    if (ta < 111 || ta > 112 || tb < 111 || tb > 112 || c != d || ckind != dkind || ldc != ldd || sc != sd) return 11;
    if (akind < 150 || akind > 168 || !kinds[akind] || akind != bkind || akind != ckind || algorithm || solution || flags) return 11;
    if (compute != (akind == 150 || akind == 168 ? 151 : akind)) return 2;
    return cublasGemmStridedBatchedEx(h, ta - 111, tb - 111, m, n, k, alpha, a, kinds[akind] - 1, lda, sa, b, kinds[bkind] - 1, ldb, sb,
                                      beta, d, kinds[ckind] - 1, ldc, sc, batch, akind == 152 || akind == 155 ? 70 : 68, -1);
}
#endif
