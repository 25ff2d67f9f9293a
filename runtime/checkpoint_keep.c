/* Earlier checkpoints, DIR/step-N, and the best one, DIR/best: second names (hard links) of the files that
 * DIR had before, so that keeping one costs no writing. They move along when DIR is replaced. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "runtime/checkpoint_own.h"
#include "runtime/message.h"

const char *const rt_checkpoint_files[RT_FILES] = {RT_WEIGHTS_FILE, RT_STATE_FILE};

const char *rt_path_join(const char *dir, const char *name, char out[RT_PATH]) {
    snprintf(out, RT_PATH, "%s/%s", dir, name);
    return out;
}

void rt_keep_path(const char *dir, uint64_t step, char out[RT_PATH]) {
    snprintf(out, RT_PATH, "%s/step-%" PRIu64, dir, step);
}

bool rt_is_link(const char *path) {
    struct stat st;
    return lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
}

/* Of a link nothing: these directories are made by us, and a link in their place leads to somebody's files.
 */
void rt_remove_checkpoint(const char *dir) {
    char path[RT_PATH];
    if (rt_is_link(dir)) return;
    for (int i = RT_FILES - 1; i >= 0; i--)
        unlink(rt_path_join(dir, rt_checkpoint_files[i], path)); /* state.json first */
    unlink(rt_path_join(dir, RT_STATE_FILE ".part", path));
    rmdir(dir);
}

bool rt_keep_as(const char *dir, const char *to) {
    char part[RT_PATH], a[RT_PATH], b[RT_PATH];
    rt_path_join(dir, ".step", part);
    rt_remove_checkpoint(part);
    rt_remove_checkpoint(to);
    bool ok = mkdir(part, 0777) == 0;
    for (int i = 0; i < RT_FILES && ok; i++)
        ok = link(rt_path_join(dir, rt_checkpoint_files[i], a),
                  rt_path_join(part, rt_checkpoint_files[i], b)) == 0;
    ok = ok && rename(part, to) == 0;
    int e = errno;
    if (!ok) rt_remove_checkpoint(part);
    errno = e;
    return ok;
}

bool rt_keep_last(const char *dir, uint64_t step) {
    char to[RT_PATH];
    rt_keep_path(dir, step, to);
    return rt_keep_as(dir, to);
}

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

int rt_keep_list(const char *dir, uint64_t **steps) {
    DIR *d = opendir(dir);
    int n = 0;
    *steps = NULL;
    for (const struct dirent *e; d && (e = readdir(d));) {
        const char *digits = e->d_name + 5;
        char *end;
        if (strncmp(e->d_name, "step-", 5) || !isdigit((unsigned char)*digits)) continue;
        uint64_t step = strtoull(digits, &end, 10);
        if (*end) continue;
        *steps = realloc(*steps, (size_t)(n + 1) * sizeof **steps);
        if (!*steps) rt_out_of_memory();
        (*steps)[n++] = step;
    }
    if (d) closedir(d);
    if (n) qsort(*steps, (size_t)n, sizeof **steps, by_value);
    return n;
}

void rt_keep_prune(const char *dir, uint64_t from, int n) {
    uint64_t *steps;
    char path[RT_PATH];
    int all = rt_keep_list(dir, &steps), left = 0;
    for (int i = 0; i < all; i++) left += steps[i] < from;
    for (int i = 0; i < all; i++) {
        if (steps[i] < from && left <= n) continue;
        left -= steps[i] < from;
        rt_keep_path(dir, steps[i], path);
        rt_remove_checkpoint(path);
    }
    free(steps);
}
