# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, binding=False, embedsignature=True, embedsignature.format=clinic
"""Memory that the system maps.

Shared memory is an anonymous file (memfd) that is mapped: it has no name, so nothing is left of it when its last user goes,
however that ends.  Its pages are there before anything is written, and it is sealed, so that nobody can shorten it:
touching a page that is not there ends a process (SIGBUS).  Who maps what another process sent asks first how long it is.
"""
from libc.errno cimport EINTR, EMFILE, ENFILE, ENOMEM, errno
from libc.stdint cimport int64_t
from . import display
from .device import OutOfMemoryError
import os

cdef extern from *:
    """
    #ifndef _GNU_SOURCE
    #define _GNU_SOURCE
    #endif
    #include <errno.h>
    #include <fcntl.h>
    #include <sys/mman.h>
    #include <sys/stat.h>
    #include <unistd.h>
    #ifdef __linux__
    #include <sys/syscall.h>
    #include <sys/sysinfo.h>
    #ifndef F_ADD_SEALS
    #define F_ADD_SEALS 1033
    #endif
    static int flambeau_memfd(void) { return (int)syscall(SYS_memfd_create, "flambeau", 3u); }  /* close on exec, sealable */
    static int flambeau_seal(int fd) { return fcntl(fd, F_ADD_SEALS, 1 | 2 | 4); }               /* no seals more, shrink, grow */
    static double flambeau_machine(void) {
        struct sysinfo s;
        return sysinfo(&s) ? -1.0 : ((double)s.totalram + (double)s.totalswap) * s.mem_unit;
    }
    #else
    #include <limits.h>
    #include <stdio.h>
    #include <stdlib.h>
    static int flambeau_memfd(void) {  /* a temporary file that has lost its name */
        char path[PATH_MAX];
        const char *folder = getenv("TMPDIR");
        if (snprintf(path, sizeof path, "%s/flambeau-XXXXXX", folder && *folder ? folder : "/tmp") >= (int)sizeof path) {
            errno = ENAMETOOLONG;
            return -1;
        }
        int fd = mkstemp(path);
        if (fd >= 0) {
            unlink(path);
            fcntl(fd, F_SETFD, FD_CLOEXEC);
        }
        return fd;
    }
    static int flambeau_seal(int fd) { return 0; }
    #ifdef __APPLE__
    #include <sys/sysctl.h>
    static double flambeau_machine(void) {
        unsigned long long bytes = 0;
        size_t n = sizeof bytes;
        return sysctlbyname("hw.memsize", &bytes, &n, NULL, 0) ? -1.0 : (double)bytes;
    }
    /* Nothing is reserved: a full disk is met by whoever writes. */
    #define posix_fallocate(fd, offset, n) (ftruncate((fd), (offset) + (n)) ? errno : 0)
    #else
    static double flambeau_machine(void) { return -1.0; }
    #endif
    #endif
    static long long flambeau_length(int fd) { struct stat s; return fstat(fd, &s) ? -1 : (long long)s.st_size; }
    static char *flambeau_map(int fd, size_t n, int shared, int present) {
        int flags = shared ? MAP_SHARED : MAP_PRIVATE;
    #ifdef MAP_POPULATE
        if (present) flags |= MAP_POPULATE;
    #endif
        void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, flags, fd, 0);
        return p == MAP_FAILED ? NULL : (char *)p;
    }
    """
    int flambeau_memfd()
    int flambeau_seal(int descriptor)
    double flambeau_machine()          # bytes of memory and swap, -1 where unknown
    long long flambeau_length(int descriptor)
    char* flambeau_map(int descriptor, size_t n, bint shared, bint present)
    int munmap(void* address, size_t n)
    int posix_fallocate(int descriptor, int64_t offset, int64_t n) nogil
    int close(int descriptor)
    ssize_t write(int descriptor, const void* source, size_t n) nogil

cdef extern from "Python.h":
    int PyErr_CheckSignals() except -1

cdef enum:
    PIECE = 1 << 26      # bytes that are written between two looks at signals
    ZEROS = 1 << 16

cdef char nothing[16]    # what a storage without bytes points to
cdef char zeros[ZEROS]


cdef class Mapping:
    """Pages of an anonymous or named file; they, and the descriptor, go with this object."""

    def __cinit__(self):
        self.descriptor = -1
        self.data = nothing

    def __dealloc__(self):
        if self.data != nothing:
            munmap(self.data, self.length)
        if self.descriptor >= 0:
            close(self.descriptor)


cdef object failed(str who, str what, int code):
    """The error for a call of the system that failed."""
    if code == EMFILE or code == ENFILE:
        return RuntimeError(
            f"{who}(): {what}: {os.strerror(code)}.  With the sharing strategy 'file_descriptor' each shared storage keeps a "
            "descriptor open: raise the limit (`ulimit -n`), or use "
            f"{display.public('multiprocessing.set_sharing_strategy')}('file_system')")
    return RuntimeError(f"{who}(): {what}: {os.strerror(code)}")


cdef object out_of_memory(str who, object nbytes, str reason):
    return OutOfMemoryError(f"{who}(): {display.NAME}: cannot allocate {nbytes} bytes of shared memory: {reason}")


cdef int reserve(int descriptor, size_t nbytes, str who) except -1:
    """Pages for so many bytes of a file."""
    cdef int code = EINTR
    while code == EINTR:
        PyErr_CheckSignals()
        with nogil:
            code = posix_fallocate(descriptor, 0, <int64_t>nbytes)
    if code:
        raise out_of_memory(who, nbytes, os.strerror(code))
    return 0


cdef int write_all(int descriptor, const char* source, size_t nbytes, str who) except -1:
    """An anonymous file's bytes: those at `source`, zeros where it is NULL.  Pages that are written are there at once; those that
    posix_fallocate reserves are made anew when they are touched, which takes four times as long."""
    cdef const char* at
    cdef size_t done = 0, piece
    cdef ssize_t n
    while done < nbytes:
        PyErr_CheckSignals()
        piece = min(nbytes - done, <size_t>(PIECE if source != NULL else ZEROS))
        at = zeros
        if source != NULL:
            at = source + done
        n = write(descriptor, at, piece)
        if n >= 0:
            done += n
        elif errno != EINTR:
            raise out_of_memory(who, nbytes, os.strerror(errno))
    return 0


cdef int map_into(Mapping m, int descriptor, size_t nbytes, bint present, str who) except -1:
    m.length = nbytes
    if nbytes == 0:
        return 0
    cdef char* data = flambeau_map(descriptor, nbytes, m.shared, present)
    if data == NULL:
        if errno == ENOMEM:
            raise out_of_memory(who, nbytes, os.strerror(errno))
        raise failed(who, f"cannot map {nbytes} bytes", errno)
    m.data = data
    return 0


cdef Mapping new_shared(const char* source, size_t nbytes, str who):
    """A copy of so many bytes, or so many zeros where `source` is NULL, that other processes can map by the descriptor."""
    cdef Mapping m = Mapping()
    cdef double most = flambeau_machine()
    if most >= 0 and <double>nbytes > most:
        raise out_of_memory(who, nbytes, f"the machine has {int(most)} bytes of memory and swap")
    m.shared = True
    m.descriptor = flambeau_memfd()
    if m.descriptor < 0:
        raise failed(who, f"cannot make shared memory of {nbytes} bytes", errno)
    write_all(m.descriptor, source, nbytes, who)
    if flambeau_seal(m.descriptor) < 0:
        raise failed(who, f"cannot seal shared memory of {nbytes} bytes", errno)
    map_into(m, m.descriptor, nbytes, True, who)
    return m


cdef size_t checked_length(int descriptor, object nbytes, str who, str what) except? 18446744073709551615:
    """The bytes to map; RuntimeError where the file does not hold them."""
    cdef long long length = flambeau_length(descriptor)
    if length < 0:
        raise failed(who, f"cannot map {what}", errno)
    if isinstance(nbytes, bool) or not isinstance(nbytes, int):
        raise TypeError(f"{who}(): argument 'nbytes' must be int, not {type(nbytes).__name__}")
    if nbytes < 0:
        raise RuntimeError(f"{who}(): nbytes must be at least 0, got {nbytes}")
    if nbytes > length:
        raise RuntimeError(f"{who}(): {what} size <{length}> is smaller than the required mapping size <{nbytes}>")
    return nbytes


cdef Mapping of_descriptor(int descriptor, object nbytes, str who):
    """The shared memory behind a descriptor, which belongs to the mapping from now on; it is closed where this fails."""
    cdef Mapping m = Mapping()
    m.shared = True
    m.descriptor = descriptor
    flambeau_seal(descriptor)    # another program's memory may not be sealable; ours is sealed already
    map_into(m, descriptor, checked_length(descriptor, nbytes, who, f"descriptor <{descriptor}>"), True, who)
    return m


cdef Mapping of_file(object filename, bint shared, object nbytes, str who):
    """A file's bytes: shared with it (it is made, or made longer, where needed), or a private copy on write.  With nbytes of 0,
    the whole file."""
    cdef Mapping m = Mapping()
    cdef int descriptor
    m.filename = os.fspath(filename)
    if isinstance(nbytes, bool) or not isinstance(nbytes, int):
        raise TypeError(f"{who}(): argument 'nbytes' must be int, not {type(nbytes).__name__}")
    if nbytes < 0 or nbytes >= 1 << 63:
        raise RuntimeError(f"{who}(): nbytes must be at least 0 and below 2^63, got {nbytes}")
    try:
        descriptor = os.open(m.filename, (os.O_RDWR | os.O_CREAT if shared else os.O_RDONLY) | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise RuntimeError(f"{who}(): unable to open file <{m.filename}> in "
                           f"{'read-write' if shared else 'read-only'} mode: {error.strerror} ({error.errno})") from None
    m.shared, m.descriptor = shared, descriptor
    if shared and nbytes > flambeau_length(descriptor):
        reserve(descriptor, nbytes, who)
    map_into(m, descriptor, checked_length(descriptor, nbytes or flambeau_length(descriptor), who, f"file <{m.filename}>"), False,
             who)
    if not shared:
        close(descriptor)
        m.descriptor = -1
    return m
