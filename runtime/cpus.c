/* How many CPUs there are for us: not those of the machine but those that the scheduler and the container
 * leave. A quota of 1.5 CPUs counts as 2 threads. */
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include "runtime/pool.h"

/* CPUs by the limit files in one directory: cgroup 2 (cpu.max: "quota period") or 1; 0 if none. */
static double quota_at(const char *dir) {
    char path[4200];
    double quota = 0, period = 0;
    snprintf(path, sizeof path, "%s/cpu.max", dir);
    FILE *f = fopen(path, "r");
    if (f) {
        int n = fscanf(f, "%lf %lf", &quota, &period); /* "max 100000": no number, no limit */
        fclose(f);
        return n == 2 && period > 0 ? quota / period : 0;
    }
    snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", dir);
    if (!(f = fopen(path, "r"))) return 0;
    if (fscanf(f, "%lf", &quota) != 1) quota = -1;
    fclose(f);
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", dir);
    if (!(f = fopen(path, "r"))) return 0;
    if (fscanf(f, "%lf", &period) != 1) period = 0;
    fclose(f);
    return quota > 0 && period > 0 ? quota / period : 0;
}

/* The least quota of a cgroup and those above it. */
static double quota_up(const char *root, char *cgroup) {
    double least = 0;
    for (;;) {
        char dir[4100];
        snprintf(dir, sizeof dir, "%s%s", root, cgroup);
        double q = quota_at(dir);
        if (q > 0 && (least == 0 || q < least)) least = q;
        char *slash = strrchr(cgroup, '/');
        if (!slash) return least;
        *slash = 0;
    }
}

static double quota(void) {
    FILE *f = fopen("/proc/self/cgroup", "r");
    char line[2048];
    double least = 0;
    while (f && fgets(line, sizeof line, f)) { /* "0::/path" or "4:cpu,cpuacct:/path" */
        line[strcspn(line, "\n")] = 0;
        char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
        if (!path) continue;
        *path++ = 0;
        names++;
        if (!strcmp(path, "/")) *path = 0;
        double q = 0;
        if (!*names)
            q = quota_up("/sys/fs/cgroup", path);
        else if (strstr(names, "cpu"))
            q = quota_up("/sys/fs/cgroup/cpu", path);
        if (q > 0 && (least == 0 || q < least)) least = q;
    }
    if (f) fclose(f);
    return least;
}

uint32_t rt_cpus(void) {
    cpu_set_t set;
    uint32_t n = sched_getaffinity(0, sizeof set, &set) == 0 ? (uint32_t)CPU_COUNT(&set) : 1;
    double q = quota();
    if (q > 0 && ceil(q) < n) n = (uint32_t)ceil(q);
    return n ? n : 1;
}
