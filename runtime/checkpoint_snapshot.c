/* Saving while training goes on: a child process, made by fork, has the memory as it stood between two steps
 * and writes the checkpoint from there. The system copies a page only when training writes to it before the
 * child is done, so training waits for the copy of the page tables and no more.
 *
 * Why not mark rows and copy those that a step is about to touch: each step would pay for it, saves or not,
 * and dense weights, slots and whatever else an optimizer keeps would each need a way of their own.
 *
 * The child has one thread, and the locks that other threads held when it was made stay locked in it: it may
 * take those of malloc and stdio, which fork sees to, and those of tables, which the caller holds meanwhile.
 * It ends by _exit: what stdio still holds is the parent's to write. A preloaded allocator that fork doesn't
 * know of may leave a lock locked: a child that waits for it would do so for ever, and is ended. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "runtime/checkpoint_own.h"
#include "runtime/message.h"

enum { WROTE = '+', FAILED = '-' }; /* first byte of the child's message; the reason follows */

/* ---- the child ---- */

/* Of the two processes the one without which training goes on should go first. */
static void offer_to_oom_killer(void) {
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd < 0) return;
    if (write(fd, "1000", 4) < 0) errno = 0; /* as it was, then */
    close(fd);
}

/* It lives no longer than the parent, which holds the lock by pid; it isn't told to stop by what is sent to
 * all processes of a job, since the parent is, and waits for it. */
static void settle_in(pid_t parent) {
    static const int others[] = {SIGINT, SIGTERM, SIGUSR1};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1); /* it ended before that */
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) signal(others[i], SIG_IGN);
    prctl(PR_SET_NAME, "save");
    offer_to_oom_killer();
}

static _Noreturn void child(int to, pid_t parent, RtSnapshotFn fn, void *arg) {
    char message[1 + RT_MESSAGE] = {FAILED};
    settle_in(parent);
    if (fn(arg, message + 1, RT_MESSAGE)) message[0] = WROTE;
    ssize_t n = (ssize_t)strlen(message);
    bool told = write(to, message, (size_t)n) == n;
    close(to); /* freeing the memory takes longer, and nobody need wait for that */
    _exit(told ? 0 : 1);
}

/* ---- the parent ---- */

static int64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int wait_for(RtSnapshot *s) {
    int status = 0;
    while (s->pid && waitpid(s->pid, &status, 0) < 0 && errno == EINTR) {
    }
    s->pid = 0;
    return status; /* 0 too where children are reaped unasked (SIGCHLD ignored) */
}

bool rt_snapshot_start(RtSnapshot *s, RtSnapshotFn fn, void *arg) {
    int fd[2];
    wait_for(s);
    if (pipe2(fd, O_CLOEXEC)) return false;
    pid_t parent = getpid();
    s->pid = fork();
    if (s->pid == 0) {
        close(fd[0]);
        child(fd[1], parent, fn, arg);
    }
    int e = errno;
    close(fd[1]);
    if (s->pid > 0) {
        *s = (RtSnapshot){.running = true, .pid = s->pid, .from = fd[0], .looked = now_ms()};
        return true;
    }
    s->pid = 0;
    close(fd[0]);
    errno = e;
    return false;
}

static bool ready(int fd, int ms) {
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, ms) > 0;
}

/* ---- a child that hangs ---- */

enum { LOOK_MS = 1000, LOOK_MOST_MS = 2000 };
int rt_snapshot_patience = 120;

typedef struct {
    char state;
    uint64_t cpu_ms, written;
} Doing;

/* What the system says of the child. Without /proc it is said to be at work. */
static Doing doing(pid_t pid) {
    char path[40], text[600] = "";
    Doing d = {.state = 'R'};
    unsigned long long user, system, written;
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    FILE *f = fopen(path, "re");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f) fclose(f);
    const char *rest = n ? strrchr(text, ')') : NULL; /* "pid (name) S …", and the name may hold anything */
    if (!rest ||
        sscanf(rest, ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &d.state, &user, &system) != 3)
        return d;
    d.cpu_ms = (user + system) * 1000 / (uint64_t)sysconf(_SC_CLK_TCK);
    snprintf(path, sizeof path, "/proc/%ld/io", (long)pid);
    if (!(f = fopen(path, "re"))) return d;
    if (fscanf(f, "rchar: %*u wchar: %llu", &written) == 1) d.written = written;
    fclose(f);
    return d;
}

/* Looks once a second at most. A child is idle that sleeps whenever it is looked at, writes nothing and
 * hardly uses the CPU. Who waits for a disk (D), for the CPU (R), or was stopped by somebody (T) isn't; nor
 * does time count in which we didn't look. */
static bool hangs(RtSnapshot *s) {
    int64_t now = now_ms(), past = now - s->looked;
    if (past < LOOK_MS || !s->pid) return false;
    Doing d = doing(s->pid);
    bool idle = d.state == 'S' && d.written == s->written && d.cpu_ms - s->cpu_ms <= (uint64_t)past / 10;
    s->idle = idle ? s->idle + (past < LOOK_MOST_MS ? past : LOOK_MOST_MS) : 0;
    s->looked = now;
    s->cpu_ms = d.cpu_ms;
    s->written = d.written;
    return s->idle >= 1000LL * rt_snapshot_patience;
}

static RtSaveEnd end_it(RtSnapshot *s, char *err, size_t err_bytes) {
    kill(s->pid, SIGKILL);
    wait_for(s);
    close(s->from);
    s->running = false;
    snprintf(err, err_bytes,
             "the process that wrote it slept for %d s and was ended: does a preloaded library keep locks "
             "over fork?",
             rt_snapshot_patience);
    return RT_SAVE_HUNG;
}

/* ---- what it tells ---- */

/* All of the child's message; its end comes right after it. */
static size_t read_message(int fd, char *out, size_t bytes) {
    size_t n = 0;
    for (ssize_t got; n < bytes; n += (size_t)got)
        if ((got = read(fd, out + n, bytes - n)) <= 0) {
            if (got < 0 && errno == EINTR) {
                got = 0;
                continue;
            }
            break;
        }
    return n;
}

RtSaveEnd rt_snapshot_ask(RtSnapshot *s, bool wait, bool *killed, char *err, size_t err_bytes) {
    char message[2 + RT_MESSAGE] = "";
    *killed = false;
    if (!s->running) return RT_SAVE_NONE;
    while (!ready(s->from, wait ? LOOK_MS : 0)) {
        if (hangs(s)) return end_it(s, err, err_bytes);
        if (!wait) return RT_SAVE_RUNS;
    }
    size_t n = read_message(s->from, message, sizeof message - 1);
    close(s->from);
    s->running = false;
    if (n && message[0] == WROTE) return RT_SAVE_DONE;
    *killed = n == 0;
    int status = n ? 0 : wait_for(s);
    if (n)
        snprintf(err, err_bytes, "%s", message + 1);
    else if (WIFSIGNALED(status))
        snprintf(err, err_bytes, "the process that wrote it was ended by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        snprintf(err, err_bytes, "the process that wrote it ended without a word");
    return RT_SAVE_FAILED;
}

void rt_snapshot_close(RtSnapshot *s) {
    char err[RT_MESSAGE];
    bool killed;
    rt_snapshot_ask(s, true, &killed, err, sizeof err);
    wait_for(s);
}
