/* Makes a system call on the files of one folder fail: preloaded into a process (LD_PRELOAD).
 *
 * FAULTY_FOLDER  the folder; calls on other files are left alone
 * FAULTY_CALL    open, write, fsync, rename, close or unlink
 * FAULTY_AT      which of these calls fails, counted from 1
 * FAULTY_ACTION  a number: fail with this errno; "short": write half; "none": write nothing;
 *                "kill": end the process before the call
 *
 * All calls are told on stderr, a line each; the one that fails has a "!" behind it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What the library would have called, had this file not been here. */
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int is_watched(const char *path) {
    const char *folder = getenv("FAULTY_FOLDER");
    return folder && strncmp(path, folder, strlen(folder)) == 0;
}

static int is_watched_fd(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return is_watched(path);
}

/* Returns the action if this very call shall fail, otherwise NULL. */
static const char *fault(const char *call) {
    static int count = 0;
    const char *chosen = getenv("FAULTY_CALL"), *at = getenv("FAULTY_AT");
    int now = chosen && at && strcmp(call, chosen) == 0 && ++count == atoi(at);
    char line[64];
    int length = snprintf(line, sizeof line, "%s%s\n", call, now ? "!" : "");
    syscall(SYS_write, STDERR_FILENO, line, length);
    const char *action = now ? getenv("FAULTY_ACTION") : NULL;
    if (action && strcmp(action, "kill") == 0) raise(SIGKILL);
    return action;
}

static int failed(const char *action) {
    errno = atoi(action);
    return -1;
}

#define OPEN(name)                                                                                 \
    int name(const char *path, int flags, ...) {                                                   \
        va_list more;                                                                              \
        va_start(more, flags);                                                                     \
        mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;                                  \
        va_end(more);                                                                              \
        const char *action = is_watched(path) ? fault("open") : NULL;                              \
        return action ? failed(action) : REAL(name)(path, flags, mode);                            \
    }
OPEN(open)
OPEN(open64)

ssize_t write(int fd, const void *data, size_t size) {
    const char *action = is_watched_fd(fd) ? fault("write") : NULL;
    if (!action) return REAL(write)(fd, data, size);
    if (strcmp(action, "short") == 0) return REAL(write)(fd, data, (size + 1) / 2);
    if (strcmp(action, "none") == 0) return 0;
    return failed(action);
}

int fsync(int fd) {
    const char *action = is_watched_fd(fd) ? fault("fsync") : NULL;
    return action ? failed(action) : REAL(fsync)(fd);
}

int rename(const char *from, const char *to) {
    const char *action = is_watched(to) ? fault("rename") : NULL;
    return action ? failed(action) : REAL(rename)(from, to);
}

/* Closes also when it fails, as Linux does. */
int close(int fd) {
    const char *action = is_watched_fd(fd) ? fault("close") : NULL;
    int result = REAL(close)(fd);
    return action ? failed(action) : result;
}

int unlink(const char *path) {
    const char *action = is_watched(path) ? fault("unlink") : NULL;
    return action ? failed(action) : REAL(unlink)(path);
}
