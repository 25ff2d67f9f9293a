/* What a command writes may be none of the files that it reads: opened for writing these would be empty
 * before they are read. A slip of the hand, and a log is gone that somebody collected for a year. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "runtime/checkpoint_own.h"
#include "runtime/message.h"
#include "runtime/program.h"
#include "runtime/reader_internal.h"

static bool regular(const char *path, struct stat *st) {
    return path && stat(path, st) == 0 && S_ISREG(st->st_mode);
}

static bool is(const char *path, const struct stat *wanted) {
    struct stat st;
    return regular(path, &st) && st.st_dev == wanted->st_dev && st.st_ino == wanted->st_ino;
}

/* Files that aren't there, and the like, are told of where they are read. */
static bool among_data(const RtModel *m, const RtWords *paths, const struct stat *wanted) {
    RtFiles files = {0};
    RtMessage ignored;
    bool found = false;
    if (paths->n) rt_files_find(&files, paths->v, paths->n, m->beside, m->beside != NULL, &ignored);
    for (uint32_t i = 0; i < files.n && !found; i++)
        for (int side = 0; side < RT_SIDES; side++) found |= is(files.file[i].path[side], wanted);
    rt_files_free(&files);
    return found;
}

static bool among_checkpoint(const char *dir, const struct stat *wanted) {
    char path[RT_PATH];
    bool found = false;
    for (int i = 0; dir && i < RT_FILES; i++)
        found |= is(rt_path_join(dir, rt_checkpoint_files[i], path), wanted);
    return found;
}

static int check(const RtModel *m, const RtArgs *a, const char *option, const char *path) {
    struct stat st;
    if (!regular(path, &st)) return RT_EXIT_OK;
    if (!among_data(m, &a->data, &st) && !among_data(m, &a->eval_data, &st) &&
        !among_checkpoint(a->load, &st) && !among_checkpoint(a->init_from, &st))
        return RT_EXIT_OK;
    return rt_fail(RT_EXIT_FAILED, "%s: error: %s would overwrite this file, which is read", path, option);
}

/* FILE, and what rt_bad_files_write may add: FILE.2 … for other headers, a second file beside each. */
static int check_bad_rows(const RtModel *m, const RtArgs *a) {
    enum { HEADERS = 100 };
    char path[RT_PATH];
    int code = RT_EXIT_OK;
    for (int k = 1; k <= HEADERS && code == RT_EXIT_OK; k++)
        for (int side = 0; side < (m->beside ? 2 : 1) && code == RT_EXIT_OK; side++) {
            size_t n = (size_t)snprintf(path, sizeof path, "%s", a->bad_rows);
            if (k > 1 && n < sizeof path) n += (size_t)snprintf(path + n, sizeof path - n, ".%d", k);
            if (side && n < sizeof path) snprintf(path + n, sizeof path - n, "%s", m->beside);
            code = check(m, a, "--bad-rows", path);
        }
    return code;
}

int rt_outputs_apart(const RtModel *m, const RtArgs *a) {
    int code = a->bad_rows ? check_bad_rows(m, a) : RT_EXIT_OK;
    if (code == RT_EXIT_OK) code = check(m, a, "--log", a->log);
    if (code == RT_EXIT_OK) code = check(m, a, "--profile", a->profile);
    return code == RT_EXIT_OK ? check(m, a, "-o", a->out) : code;
}
