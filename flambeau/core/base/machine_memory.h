/* How much memory this process may have, and how much of it nobody needs just now. */
#ifndef FLAMBEAU_MACHINE_MEMORY_H
#define FLAMBEAU_MACHINE_MEMORY_H

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FLAMBEAU_NO_LIMIT ((uint64_t)1 << 62)

/* The number behind `name` (or at the front, where that is empty) in a small file of the system; FLAMBEAU_NO_LIMIT where there is none. */
static uint64_t flambeau_number_in(const char *path, const char *name) {
    char text[2048];
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return FLAMBEAU_NO_LIMIT;
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    if (length <= 0) return FLAMBEAU_NO_LIMIT;
    text[length] = 0;
    const char *at = strstr(text, name);
    if (at == NULL) return FLAMBEAU_NO_LIMIT;
    char *end;
    at += strlen(name);
    unsigned long long number = strtoull(at, &end, 10);
    return end == at || number >= FLAMBEAU_NO_LIMIT ? FLAMBEAU_NO_LIMIT : number;
}

/* Bytes of the machine, or of the container where that has less. */
static uint64_t flambeau_memory_of_machine(void) {
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    uint64_t least = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : FLAMBEAU_NO_LIMIT;
    const char *limits[] = {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
    for (int k = 0; k < 2; k++) {
        uint64_t limit = flambeau_number_in(limits[k], "");
        if (limit < least) least = limit;
    }
    return least;
}

/* Bytes that can be had without writing anything to disk; FLAMBEAU_NO_LIMIT where the system does not tell. */
static uint64_t flambeau_memory_available(void) {
    uint64_t kilobytes = flambeau_number_in("/proc/meminfo", "MemAvailable:");
    uint64_t least = kilobytes < FLAMBEAU_NO_LIMIT ? kilobytes * 1024 : FLAMBEAU_NO_LIMIT;
    uint64_t most = flambeau_number_in("/sys/fs/cgroup/memory.max", "");
    if (most < FLAMBEAU_NO_LIMIT) {
        uint64_t used = flambeau_number_in("/sys/fs/cgroup/memory.current", "");
        uint64_t files = flambeau_number_in("/sys/fs/cgroup/memory.stat", "inactive_file ");
        if (files < used) used -= files; /* pages of files that were read go first */
        if (used < FLAMBEAU_NO_LIMIT && (used > most ? 0 : most - used) < least) least = used > most ? 0 : most - used;
    }
    return least;
}

#endif
