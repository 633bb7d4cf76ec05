// A libnccl.so.2 for machines without an NVIDIA device: it moves real bytes between processes, in the order of streams.
//
// A unique id is the path of a folder.  What a process gives to others is a file there, which they read; a collective's name in it is
// its number in the communicator, a message's is the pair and its number.  Work runs in the fake driver's streams by cuLaunchHostFunc,
// waits for files of others, and ends when the communicator is aborted.  A group is one piece of work: all files are written first.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OK, CUDA_ERROR, SYSTEM_ERROR, INTERNAL, INVALID, USAGE, REMOTE, IN_PROGRESS };
typedef struct { char internal[128]; } id;
struct config { size_t size; unsigned magic, version; int blocking; };
struct comm { char folder[128]; int size, rank, number, sent[64], received[64], custom; atomic_int state, aborted; double factors[64]; const void *places[64]; int used[64]; };
enum { ALL_REDUCE, REDUCE, BROADCAST, ALL_GATHER, REDUCE_SCATTER, SEND, RECV };
struct op {
    int what, type, how, root, number;
    const char *sent; char *received; size_t count; struct comm *comm; void *stream; double factor; const void *place; int custom;
    struct op *next;
};

// --- what tests ask for ------------------------------
enum { COMMUNICATORS, ABORTS, DESTROYED, OPS_ALIVE, ASYNC_ERROR, POST_ERROR, GROUPS, INIT_ERROR };
static atomic_long counts[16];
long fake_nccl_count(int what) { return counts[what]; }
void fake_nccl_set(int what, long value) { counts[what] = value; }
static int version(void) { const char *v = getenv("FAKE_NCCL_VERSION"); return v ? atoi(v) : 22703; }

static __thread struct op *first, **last;
static __thread int depth;
static void *launch(void) {
    static void *launch;
    if (!launch) launch = dlsym(dlopen(getenv("FLAMBEAU_LIBCUDA"), RTLD_NOW), "cuLaunchHostFunc");
    return launch;
}

// --- elements ------------------------------
static const int sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
#define EACH(T) { T *a = to; const T *b = from; for (size_t k = 0; k < n; k++) { T x = a[k], y = b[k]; \
    a[k] = how == 1 ? x * y : how == 2 ? (x > y ? x : y) : how == 3 ? (x < y ? x : y) : x + y; } } break
static float of_half(uint16_t v, int type) {
    if (type == 6) { _Float16 h; memcpy(&h, &v, 2); return h; }
    uint32_t bits = (uint32_t)v << 16; float x; memcpy(&x, &bits, 4); return x;
}
static uint16_t to_half(float x, int type) {
    uint16_t v;
    if (type == 6) { _Float16 h = x; memcpy(&v, &h, 2); return v; }
    uint32_t bits; memcpy(&bits, &x, 4); return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
}
static void join(void *to, const void *from, size_t n, int type, int how) {
    switch (type) {
    case 0: EACH(int8_t); case 1: EACH(uint8_t); case 2: EACH(int32_t); case 3: EACH(uint32_t); case 4: EACH(int64_t);
    case 5: EACH(uint64_t); case 7: EACH(float); case 8: EACH(double);
    default: { uint16_t *a = to; const uint16_t *b = from;
        for (size_t k = 0; k < n; k++) { float x = of_half(a[k], type), y = of_half(b[k], type);
            a[k] = to_half(how == 1 ? x * y : how == 2 ? (x > y ? x : y) : how == 3 ? (x < y ? x : y) : x + y, type); } }
    }
}
static void scale(void *at, size_t n, int type, double by, int divide) {
#define SCALE(T) { T *a = at; for (size_t k = 0; k < n; k++) a[k] = divide ? a[k] / (T)by : (T)(a[k] * by); } break
    switch (type) {
    case 0: SCALE(int8_t); case 1: SCALE(uint8_t); case 2: SCALE(int32_t); case 3: SCALE(uint32_t); case 4: SCALE(int64_t);
    case 5: SCALE(uint64_t); case 7: SCALE(float); case 8: SCALE(double);
    default: { uint16_t *a = at; for (size_t k = 0; k < n; k++) { float x = of_half(a[k], type); a[k] = to_half(divide ? x / by : x * by, type); } }
    }
}
static double scalar(const void *at, int type) {
    return type == 8 ? *(double *)at : type == 7 ? *(float *)at : of_half(*(uint16_t *)at, type);
}

// --- files ------------------------------
static void give(struct comm *c, const char *name, const void *data, size_t n) {
    char path[400], hidden[420];
    snprintf(path, sizeof path, "%s/%s", c->folder, name), snprintf(hidden, sizeof hidden, "%s.part%d", path, c->rank);
    FILE *f = fopen(hidden, "wb");
    if (!f || fwrite(data, 1, n, f) != n) abort();
    fclose(f), rename(hidden, path);
}
static int take(struct comm *c, const char *name, void *data, size_t n) {  // 0: aborted, or of another size
    char path[400];
    snprintf(path, sizeof path, "%s/%s", c->folder, name);
    FILE *f;
    while (!(f = fopen(path, "rb"))) { if (c->aborted) return 0; usleep(200); }
    size_t got = fread(data, 1, n, f);
    int more = fgetc(f) != EOF;
    fclose(f);
    if (got != n || more) { c->state = INTERNAL; return 0; }
    return 1;
}

// --- work ------------------------------
static size_t bytes(struct op *o) { return o->count * sizes[o->type]; }
static void write_out(struct op *o) {
    struct comm *c = o->comm;
    char name[64];
    int is_root = c->rank == o->root, all = o->what == REDUCE_SCATTER ? c->size : 1;
    if (o->what == RECV || (o->what == BROADCAST && !is_root)) return;
    if (o->what == SEND) snprintf(name, sizeof name, "m%d-%d-%d", c->rank, o->root, o->number);
    else snprintf(name, sizeof name, "c%d-%d", o->number, c->rank);
    char *copy = malloc(all * bytes(o) + 1);
    memcpy(copy, o->sent, all * bytes(o));
    if (o->custom) scale(copy, all * o->count, o->type, o->place ? scalar(o->place, o->type) : o->factor, 0);
    give(c, name, copy, all * bytes(o)), free(copy);
}
static void read_in(struct op *o) {
    struct comm *c = o->comm;
    char name[64];
    if (o->what == SEND || (o->what == REDUCE && c->rank != o->root)) return;
    if (o->what == RECV || o->what == BROADCAST) {
        if (o->what == RECV) snprintf(name, sizeof name, "m%d-%d-%d", o->root, c->rank, o->number);
        else snprintf(name, sizeof name, "c%d-%d", o->number, o->root);
        take(c, name, o->received, bytes(o));
        return;
    }
    int all = o->what == REDUCE_SCATTER ? c->size : 1;
    char *got = malloc(all * bytes(o) + 1);
    for (int r = 0; r < c->size; r++) {
        snprintf(name, sizeof name, "c%d-%d", o->number, r);
        if (!take(c, name, got, all * bytes(o))) break;
        char *mine = got + (all > 1 ? c->rank * bytes(o) : 0);
        if (o->what == ALL_GATHER) memcpy(o->received + r * bytes(o), mine, bytes(o));
        else if (r == 0) memcpy(o->received, mine, bytes(o));
        else join(o->received, mine, o->count, o->type, o->how);
    }
    if (o->how == 4 && o->what != ALL_GATHER) scale(o->received, o->count, o->type, c->size, 1);
    free(got);
}
static void work(void *given) {
    struct op *o = given, *next;
    usleep(1000);  // a host that does not wait reads what was there before
    for (struct op *k = o; k; k = k->next) write_out(k);
    for (; o; o = next) read_in(o), next = o->next, free(o);
}

static int post(struct op wanted) {
    if (counts[POST_ERROR]) return counts[POST_ERROR];
    if (wanted.count && ((!wanted.sent && wanted.what != RECV) || (!wanted.received && wanted.what != SEND))) return INVALID;
    if (wanted.comm->state || wanted.root >= wanted.comm->size || wanted.type < 0 || wanted.type > 11) return INVALID;
    struct comm *c = wanted.comm;
    if (wanted.how >= 5 && wanted.what != SEND) {
        int k = wanted.how - 5;
        if (!c->used[k]) return INVALID;
        wanted.custom = 1, wanted.factor = c->factors[k], wanted.place = c->places[k], wanted.how = 0;
    }
    wanted.number = wanted.what == SEND ? c->sent[wanted.root]++ : wanted.what == RECV ? c->received[wanted.root]++ : c->number++;
    struct op *o = malloc(sizeof *o);
    *o = wanted, o->next = NULL;
    if (!first) last = &first;
    *last = o, last = &o->next;
    return OK;
}
int ncclGroupStart(void) { return depth++, OK; }
int ncclGroupEnd(void) {
    if (--depth) return OK;
    struct op *o = first;
    first = NULL;
    if (!o) return OK;
    counts[GROUPS]++;
    return ((int (*)(void *, void (*)(void *), void *))launch())(o->stream, work, o) ? CUDA_ERROR : OK;
}
#define POST(...) ncclGroupStart(); int e = post((struct op){__VA_ARGS__}); int f = ncclGroupEnd(); return e ? e : f
int ncclAllReduce(const void *a, void *b, size_t n, int t, int how, struct comm *c, void *s) {
    POST(ALL_REDUCE, .sent = a, .received = b, .count = n, .type = t, .how = how, .comm = c, .stream = s);
}
int ncclReduce(const void *a, void *b, size_t n, int t, int how, int root, struct comm *c, void *s) {
    POST(REDUCE, .sent = a, .received = b, .count = n, .type = t, .how = how, .root = root, .comm = c, .stream = s);
}
int ncclBroadcast(const void *a, void *b, size_t n, int t, int root, struct comm *c, void *s) {
    POST(BROADCAST, .sent = a, .received = b, .count = n, .type = t, .root = root, .comm = c, .stream = s);
}
int ncclAllGather(const void *a, void *b, size_t n, int t, struct comm *c, void *s) {
    POST(ALL_GATHER, .sent = a, .received = b, .count = n, .type = t, .comm = c, .stream = s);
}
int ncclReduceScatter(const void *a, void *b, size_t n, int t, int how, struct comm *c, void *s) {
    POST(REDUCE_SCATTER, .sent = a, .received = b, .count = n, .type = t, .how = how, .comm = c, .stream = s);
}
int ncclSend(const void *a, size_t n, int t, int peer, struct comm *c, void *s) {
    POST(SEND, .sent = a, .count = n, .type = t, .root = peer, .comm = c, .stream = s);
}
int ncclRecv(void *a, size_t n, int t, int peer, struct comm *c, void *s) {
    POST(RECV, .received = a, .count = n, .type = t, .root = peer, .comm = c, .stream = s);
}
int ncclRedOpCreatePreMulSum(int *op, void *factor, int type, int residence, struct comm *c) {
    if (residence > 1 || type < 6 || type > 9) return INVALID;
    int k = 0;
    while (k < 64 && c->used[k]) k++;
    if (k == 64) return INVALID;
    c->used[k] = 1, counts[OPS_ALIVE]++;
    c->places[k] = residence ? NULL : factor;  // on the device it is read when the work runs
    c->factors[k] = residence ? scalar(factor, type) : 0;
    return *op = 5 + k, OK;
}
int ncclRedOpDestroy(int op, struct comm *c) { c->used[op - 5] = 0, counts[OPS_ALIVE]--; return OK; }

// --- communicators ------------------------------
int ncclGetVersion(int *v) { return *v = version(), OK; }
int ncclGetUniqueId(id *made) {
    memset(made, 0, sizeof *made);
    snprintf(made->internal, sizeof made->internal, "%s/id-XXXXXX", getenv("FAKE_NCCL_FOLDER"));
    return mkdtemp(made->internal) ? OK : SYSTEM_ERROR;
}
static void *meet(void *given) {
    struct comm *c = given;
    char name[32], seen;
    snprintf(name, sizeof name, "here-%d", c->rank), give(c, name, "x", 1);
    for (int r = 0; r < c->size; r++) {
        snprintf(name, sizeof name, "here-%d", r);
        if (!take(c, name, &seen, 1)) return NULL;
    }
    c->state = OK; return NULL;
}
static struct comm *begin(int size, id key, int rank) {
    struct comm *c = calloc(1, sizeof *c);
    memcpy(c->folder, key.internal, 128), c->size = size, c->rank = rank, c->state = IN_PROGRESS; counts[COMMUNICATORS]++;
    return c;
}
int ncclCommInitRank(struct comm **made, int size, id key, int rank) {
    if (counts[INIT_ERROR]) return counts[INIT_ERROR];
    meet(*made = begin(size, key, rank));
    return OK;
}
int ncclCommInitRankConfig(struct comm **made, int size, id key, int rank, struct config *config) {
    pthread_t thread;
    if (counts[INIT_ERROR]) return counts[INIT_ERROR];
    if (config->magic != 0xcafebeef || config->size < sizeof *config || config->blocking || rank < 0 || rank >= size) return INVALID;
    *made = begin(size, key, rank);
    pthread_create(&thread, NULL, meet, *made), pthread_detach(thread);
    return IN_PROGRESS;
}
int ncclCommGetAsyncError(struct comm *c, int *e) { return *e = counts[ASYNC_ERROR] ? counts[ASYNC_ERROR] : c->state, OK; }
int ncclCommAbort(struct comm *c) { c->aborted = 1; counts[ABORTS]++; return OK; }  // kept: work may still look at it
int ncclCommDestroy(struct comm *c) { c->aborted = 1; counts[DESTROYED]++; return OK; }
const char *ncclGetErrorString(int e) {
    return e == REMOTE ? "remote process exited or there was a network error" : e == INVALID ? "invalid argument"
         : e == INTERNAL ? "internal error" : e == SYSTEM_ERROR ? "unhandled system error" : "no error";
}
