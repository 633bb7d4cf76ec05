// Runs kernels that `aarch64.py` recorded: reads a file of calls, makes each in a process of its own, writes what it left in memory.
//
// A call: kernel, integers, floats, bytes of its arena, relocations (as many 64-bit words); the integers, each with a flag that
// says whether it is a place in the arena; the floats; the relocations (where in the arena a pointer stands, and the place in the arena it
// points to); the arena.  Answered with the exit status of the process and the arena, where pointers are places again.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

typedef uint64_t u64;
// On AArch64 integers and floats are counted apart: the first eight of each go in registers, further integers on the stack.
typedef void (*kernel)(u64, u64, u64, u64, u64, u64, u64, u64, double, double, double, double, u64, u64, u64, u64, u64, u64, u64,
                       u64);
extern kernel kernels[];

static u64 word(FILE *file) {
    u64 value;
    if (fread(&value, 8, 1, file) != 1) exit(0);  // the end
    return value;
}

int main(int count, char **names) {
    FILE *in = fopen(names[1], "rb"), *out = fopen(names[2], "wb");
    if (count != 3 || !in || !out) return 2;
    for (;;) {
        u64 number = word(in), integers = word(in), floats = word(in), size = word(in), moved = word(in);
        u64 arguments[16] = {0};
        double reals[4] = {0};
        char *arena = mmap(0, size + 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (arena == MAP_FAILED || integers > 16 || floats > 4) {
            fprintf(stderr, "kernel %d: %d integers, %d floats, %ld bytes\n", (int)number, (int)integers, (int)floats, (long)size);
            return 2;
        }
        for (u64 k = 0; k < integers; k++) {
            u64 value = word(in);
            arguments[k] = word(in) ? (u64)arena + value : value;
        }
        for (u64 k = 0; k < floats; k++) {
            u64 value = word(in);
            memcpy(&reals[k], &value, 8);
        }
        u64 *places = malloc(16 * moved + 1);
        if (fread(places, 16, moved, in) != moved || fread(arena, 1, size, in) != size) return 2;
        for (u64 k = 0; k < moved; k++) {
            u64 pointer = (u64)arena + places[2 * k + 1];
            memcpy(arena + places[2 * k], &pointer, 8);
        }
        fflush(out);
        pid_t child = fork();
        if (!child) {
            u64 *g = arguments;
            kernels[number](g[0], g[1], g[2], g[3], g[4], g[5], g[6], g[7], reals[0], reals[1], reals[2], reals[3], g[8], g[9],
                            g[10], g[11], g[12], g[13], g[14], g[15]);
            _exit(0);
        }
        int status = -1;
        waitpid(child, &status, 0);
        for (u64 k = 0; k < moved; k++) memcpy(arena + places[2 * k], &places[2 * k + 1], 8);
        u64 code = (u64)(uint32_t)status;
        fwrite(&code, 8, 1, out);
        fwrite(arena, 1, size, out);
        munmap(arena, size + 8192);
        free(places);
    }
}
