/* Preloaded before the C library. Counts the calls that change files below FAULT_FOLDER, and makes call number FAULT_AT fail.
 *
 * With the FAULT_MODE "eio" or "enospc", only that call fails. With "full", that call writes half of its data, and every later
 * call fails with ENOSPC, as on a full disk. Every counted call appends a line to FAULT_LOG: its number, its name, "!" if it
 * failed, and the file. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_long calls;
static const char *folder, *mode;
static long at;
static int log_fd = -1;

__attribute__((constructor)) static void begin(void) {
    const char *log = getenv("FAULT_LOG"), *number = getenv("FAULT_AT");
    folder = getenv("FAULT_FOLDER");
    mode = getenv("FAULT_MODE");
    at = number ? atol(number) : 0;
    if (folder && log)
        log_fd = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    unsetenv("LD_PRELOAD"); /* do not affect child processes */
}

static int is_below(const char *path) {
    size_t n = folder ? strlen(folder) : 0;
    return n > 0 && strncmp(path, folder, n) == 0 && path[n] == '/';
}

/* Returns true if this call must fail. Sets `writes` if half of its data must be written first. */
static int fails(const char *name, const char *path, int *writes) {
    long number = atomic_fetch_add(&calls, 1) + 1;
    int full = mode && strcmp(mode, "full") == 0;
    int now = at > 0 && (number == at || (full && number > at));
    char line[PATH_MAX + 64];
    int n = snprintf(line, sizeof line, "%ld %s%s %s\n", number, name, now ? "!" : "", path);
    if (log_fd >= 0 && n > 0 && (size_t)n < sizeof line && syscall(SYS_write, log_fd, line, n) < 0)
        log_fd = -1;
    if (writes)
        *writes = now && full && number == at;
    if (now)
        errno = mode && strcmp(mode, "eio") == 0 ? EIO : ENOSPC;
    return now;
}

static int fd_fails(const char *name, int fd, int *writes) {
    char link[64], path[PATH_MAX];
    int before = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = folder ? readlink(link, path, sizeof path - 1) : -1;
    errno = before;
    if (n < 0)
        return 0;
    path[n] = 0;
    return is_below(path) && fails(name, path, writes);
}

static int path_fails(const char *name, int dir, const char *path) {
    char whole[2 * PATH_MAX], base[PATH_MAX], link[64];
    int before = errno;
    ssize_t n = -1;
    if (path[0] == '/') {
        snprintf(whole, sizeof whole, "%s", path);
    } else {
        if (dir == AT_FDCWD) {
            n = getcwd(base, sizeof base) ? (ssize_t)strlen(base) : -1;
        } else {
            snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
            n = readlink(link, base, sizeof base - 1);
        }
        if (n < 0)
            return 0;
        base[n] = 0;
        snprintf(whole, sizeof whole, "%s/%s", base, path);
    }
    errno = before;
    return is_below(whole) && fails(name, whole, NULL);
}

#define NEXT(name) \
    static __typeof__(name) *next; \
    if (!next) \
        next = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

#define WRITES(name, fd, half, whole) \
    int writes = 0; \
    NEXT(name); \
    if (!fd_fails(#name, fd, &writes)) \
        return whole; \
    return writes && n > 1 ? half : -1;

ssize_t write(int fd, const void *data, size_t n) { WRITES(write, fd, next(fd, data, n / 2), next(fd, data, n)) }

ssize_t pwrite(int fd, const void *data, size_t n, off_t place) {
    WRITES(pwrite, fd, next(fd, data, n / 2, place), next(fd, data, n, place))
}

ssize_t pwrite64(int fd, const void *data, size_t n, off64_t place) {
    WRITES(pwrite64, fd, next(fd, data, n / 2, place), next(fd, data, n, place))
}

ssize_t writev(int fd, const struct iovec *parts, int n) {
    WRITES(writev, fd, next(fd, parts, n / 2), next(fd, parts, n))
}

ssize_t pwritev(int fd, const struct iovec *parts, int n, off_t place) {
    WRITES(pwritev, fd, next(fd, parts, n / 2, place), next(fd, parts, n, place))
}

#define ON_FD(name, arguments, call) \
    int name arguments { \
        NEXT(name); \
        return fd_fails(#name, fd, NULL) ? -1 : call; \
    }

ON_FD(fsync, (int fd), next(fd))
ON_FD(fdatasync, (int fd), next(fd))
ON_FD(ftruncate, (int fd, off_t size), next(fd, size))
ON_FD(ftruncate64, (int fd, off64_t size), next(fd, size))

int posix_fallocate(int fd, off_t from, off_t n) {
    NEXT(posix_fallocate);
    return fd_fails("posix_fallocate", fd, NULL) ? errno : next(fd, from, n);
}

int rename(const char *from, const char *to) {
    NEXT(rename);
    return path_fails("rename", AT_FDCWD, to) ? -1 : next(from, to);
}

int renameat(int from_dir, const char *from, int to_dir, const char *to) {
    NEXT(renameat);
    return path_fails("renameat", to_dir, to) ? -1 : next(from_dir, from, to_dir, to);
}

int mkdir(const char *path, mode_t bits) {
    NEXT(mkdir);
    return path_fails("mkdir", AT_FDCWD, path) ? -1 : next(path, bits);
}

#define OPENS(name, dir, next_call) \
    mode_t bits = 0; \
    NEXT(name); \
    if (flags & (O_CREAT | O_TMPFILE)) { \
        va_list rest; \
        va_start(rest, flags); \
        bits = va_arg(rest, mode_t); \
        va_end(rest); \
    } \
    if ((flags & O_CREAT) && path_fails(#name, dir, path)) \
        return -1; \
    return next_call;

int open(const char *path, int flags, ...) { OPENS(open, AT_FDCWD, next(path, flags, bits)) }
int open64(const char *path, int flags, ...) { OPENS(open64, AT_FDCWD, next(path, flags, bits)) }
int openat(int dir, const char *path, int flags, ...) { OPENS(openat, dir, next(dir, path, flags, bits)) }
int openat64(int dir, const char *path, int flags, ...) { OPENS(openat64, dir, next(dir, path, flags, bits)) }
