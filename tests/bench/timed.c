/* timed FILE PROGRAM ARGUMENTS…: runs it and writes "WALL CPU PEAK" to FILE: seconds by the clock, seconds of
 * user and system time, and the most memory it had at once in KB. Its exit code is the program's. */
#include <spawn.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

static double seconds(struct timeval t) { return (double)t.tv_sec + 1e-6 * (double)t.tv_usec; }

int main(int argc, char **argv) {
    struct timespec from, to;
    struct rusage use;
    pid_t pid;
    int status;
    if (argc < 3) return fprintf(stderr, "usage: timed FILE PROGRAM ARGUMENTS...\n"), 2;
    clock_gettime(CLOCK_MONOTONIC, &from);
    if (posix_spawnp(&pid, argv[2], NULL, NULL, argv + 2, environ)) return perror(argv[2]), 127;
    if (wait4(pid, &status, 0, &use) < 0) return perror("wait4"), 1;
    clock_gettime(CLOCK_MONOTONIC, &to);
    FILE *f = fopen(argv[1], "w");
    if (!f) return perror(argv[1]), 1;
    fprintf(f, "%.6f %.6f %ld\n",
            (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec),
            seconds(use.ru_utime) + seconds(use.ru_stime), use.ru_maxrss);
    fclose(f);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
