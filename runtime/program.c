#include "runtime/program.h"
#include <cpuid.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "runtime/message.h"

/* ---- is this the right machine, the right runtime? ---- */

#define NEED(feature)                                                                                        \
    if (!__builtin_cpu_supports(feature)) return feature;

/* By CPUID itself: not every compiler's __builtin_cpu_supports knows the names. */
static const char *missing_amx(void) {
    unsigned a, b, c, d = 0;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d & 1 << 24)) return "amx-tile";
    return d & 1 << 22 ? NULL : "amx-bf16";
}

/* The first feature that the program's code needs and this CPU hasn't; NULL if all are there. */
static const char *missing_feature(uint32_t level) {
    __builtin_cpu_init();
    if (level >= 3) {
        NEED("avx") NEED("avx2") NEED("bmi") NEED("bmi2") NEED("f16c") NEED("fma") NEED("lzcnt") NEED("movbe")
    }
    if (level >= 4) {
        NEED("avx512f") NEED("avx512bw") NEED("avx512cd") NEED("avx512dq") NEED("avx512vl")
    }
    if (level >= 5) NEED("avx512bf16")
    return level >= 6 ? missing_amx() : NULL;
}

/* Linux keeps the state of AMX's tiles, 8 KB a thread, for those processes that asked for it
 * before they use them. */
static bool may_use_tiles(void) {
    enum { REQUEST = 0x1023, TILE_DATA = 18 }; /* ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA */
    return syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
}

bool rt_request_tiles(char *err, size_t err_bytes) {
    if (may_use_tiles()) return true;
    snprintf(
        err, err_bytes,
        "the system lets no program use AMX's tiles, the model's code needs them\nhint: "
        "compile it with --enable='schedule(amx=off)' or --march=cooperlake; Linux has them from 5.16 on");
    return false;
}

bool rt_machine_fits(const RtProgram *p, char *err, size_t err_bytes) {
    if (p->abi != RT_ABI_VERSION) {
        snprintf(err, err_bytes,
                 "the model's code was made for runtime interface %u, this runtime has %d: compile it again",
                 p->abi, RT_ABI_VERSION);
        return false;
    }
    const char *feature = missing_feature(p->cpu_level);
    static const char *const more[] = {"", " and avx512bf16", ", avx512bf16 and AMX"};
    int above = p->cpu_level > 5 ? 2 : p->cpu_level > 4;
    if (feature)
        snprintf(err, err_bytes,
                 "this CPU has no %s, the model's code needs it (x86-64-v%u%s)\nhint: compile it with a "
                 "lower --march",
                 feature, above ? 4 : p->cpu_level, more[above]);
    return !feature && (above < 2 || rt_request_tiles(err, err_bytes));
}

/* ---- shared by the commands ---- */

uint32_t rt_args_threads(const RtArgs *a) {
    return a->threads > 0 ? (uint32_t)(a->threads < 1024 ? a->threads : 1024) : rt_cpus();
}

RtReaderOptions rt_reader_options(const RtModel *m, const RtArgs *a, const RtWords *paths, int purpose,
                                  RtTables *t) {
    uint32_t threads = rt_args_threads(a);
    return (RtReaderOptions){.paths = paths->v,
                             .n_paths = paths->n,
                             .purpose = purpose,
                             .batch = (uint32_t)m->batch,
                             .epochs = 1,
                             .bad = !a->on_bad_row          ? RT_BAD_FAIL
                                    : purpose == RT_PREDICT ? RT_BAD_HOLD /* a line a row */
                                                            : RT_BAD_SKIP,
                             .bad_path = a->bad_rows,
                             .threads = threads > 1 ? (int)(threads / 2) : 1,
                             .tables = t,
                             /* where no CPU is left for the reader, it takes one from the step */
                             .index_later = threads >= rt_cpus()};
}

/* A file must not become stdin, stdout or stderr where one of these was closed, or what is said would be
 * written into a checkpoint, and "--data -" would wait for a pipe of our own. They are opened the wrong way
 * round: using them fails as it would have. */
static void hold_standard_streams(void) {
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd ? O_RDONLY : O_WRONLY) != fd) abort();
}

/* For JSON, whose functions would leave a key out of a checkpoint's state where memory runs out. */
static void *json_memory(size_t bytes) {
    void *p = malloc(bytes);
    if (!p) rt_out_of_memory();
    return p;
}

int rt_main(const RtProgram *program, int argc, char **argv) {
    char err[RT_MESSAGE] = "";
    int code;
    hold_standard_streams();
    json_set_alloc_funcs(json_memory, free);
    if (!rt_machine_fits(program, err, sizeof err)) return rt_fail(RT_EXIT_FAILED, "%s", err);
    RtModel *m =
        rt_model_parse(program->description, program->description_bytes, program->vocabs, err, sizeof err);
    if (!m) return rt_fail(RT_EXIT_FAILED, "%s", err);
    m->program = program;
    signal(SIGXFSZ,
           SIG_IGN); /* over the size limit: a failed write, after which nothing half written stays */
    RtArgs a;
    code = rt_args_parse(&a, m->name, m->ctrc, argc, argv);
    if (code == RT_EXIT_OK)
        code = rt_flush_stdout(); /* help was asked for */
    else if (code < 0) {
        int (*const commands[RT_COMMANDS])(const RtModel *, const RtArgs *) = {
            rt_train, rt_eval, rt_predict, rt_check_data, rt_export, rt_info};
        code = rt_outputs_apart(m, &a);
        if (code == RT_EXIT_OK) code = commands[a.command](m, &a);
    }
    rt_args_free(&a);
    rt_model_free(m);
    return code;
}
