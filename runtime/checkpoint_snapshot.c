/* Saving while training goes on: a child process, made by fork, has the memory as it stood between two steps
 * and writes the checkpoint from there. The system copies a page only when training writes to it before the
 * child is done, so training waits for the copy of the page tables and no more.
 *
 * Why not mark rows and copy those that a step is about to touch: each step would pay for it, saves or not,
 * and dense weights, slots and whatever else an optimizer keeps would each need a way of their own.
 *
 * The child has one thread, and the locks that other threads held when it was made stay locked in it: it may
 * take those of malloc and stdio, which fork sees to, and those of tables, which the caller holds meanwhile.
 * It ends by _exit: what stdio still holds is the parent's to write. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
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
        s->from = fd[0];
        s->running = true;
        return true;
    }
    s->pid = 0;
    close(fd[0]);
    errno = e;
    return false;
}

static bool ready(int fd, bool wait) {
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int n;
    while ((n = poll(&p, 1, wait ? -1 : 0)) < 0 && errno == EINTR) {
    }
    return n != 0;
}

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
    if (!ready(s->from, wait)) return RT_SAVE_RUNS;
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
