/* Runs the fixture's program as a user would: in a child process, with its output caught. Each test has a
 * fresh working directory with train.csv and eval.csv. */
#ifndef CTRC_RUNTIME_RUN_H
#define CTRC_RUNTIME_RUN_H
#include <jansson.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "runtime/program.h"
#include "runtime_fixture_steps.h"

typedef struct {
    int code;
    char out[16384], err[16384];
} Run;
typedef struct {
    const char *users, *from, *to;
    rlim_t file_limit;
    const char *input;
    int cpu_level;
    void (*train)(RtStep *, uint32_t, uint32_t); /* NULL: fix_train */
    char *graph;                                 /* for ONNX */
} RunHow;                                        /* from, to: change of the description */

static char run_dir[64];

static inline void run_slurp(const char *path, char *out, size_t n) {
    FILE *f = fopen(path, "r");
    size_t got = f ? fread(out, 1, n - 1, f) : 0;
    out[got] = 0;
    if (f) fclose(f);
}

static inline int run_child(RunHow how, char **argv, int argc) {
    if (!freopen(how.input ? how.input : "/dev/null", "r", stdin)) return 99;
    if (!freopen(".out", "w", stdout) || !freopen(".err", "w", stderr)) return 99;
    if (how.file_limit) {
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){how.file_limit, how.file_limit});
    }
    const char *users = how.users ? how.users : FIX_USERS_SMALL;
    char *d = how.from ? fix_description_with(users, how.from, how.to) : fix_description(users);
    RtProgram p = {.abi = RT_ABI_VERSION,
                   .cpu_level = how.cpu_level,
                   .description = d,
                   .description_bytes = strlen(d),
                   .train = how.train ? how.train : fix_train,
                   .eval = fix_eval,
                   .graph = how.graph,
                   .graph_bytes = how.graph ? strlen(how.graph) : 0,
                   .predict = fix_predict};
    int code = rt_main(&p, argc, argv);
    free(d);
    return code;
}

/* args: words separated by single spaces. */
static inline Run run_how(RunHow how, const char *args) {
    char words[1000], *argv[40] = {"logit"};
    int argc = 1;
    snprintf(words, sizeof words, "%s", args);
    for (char *w = strtok(words, " "); w; w = strtok(NULL, " ")) argv[argc++] = w;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        int code = run_child(how, argv, argc);
        fflush(NULL);
        _exit(code);
    }
    int status;
    waitpid(pid, &status, 0);
    static Run r;
    r.code = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
    run_slurp(".out", r.out, sizeof r.out);
    run_slurp(".err", r.err, sizeof r.err);
    return r;
}
#define run(...) run_how((RunHow){0}, __VA_ARGS__)

static inline json_t *run_json(const Run *r) {
    json_error_t e;
    json_t *o = json_loads(r->out, 0, &e);
    if (!o) fprintf(stderr, "not JSON: %s\n%s", r->out, r->err), abort();
    return o;
}

/* Clicks that depend on x and on the user, so that there is something to learn. */
static inline void run_write_csv(const char *path, int rows, uint32_t seed) {
    FILE *f = fopen(path, "w");
    fputs("clicked,user,x,group\n", f);
    for (int i = 0; i < rows; i++) {
        uint32_t r[3];
        for (int k = 0; k < 3; k++) r[k] = (seed = seed * 1664525u + 1013904223u) >> 8;
        int user = (int)(r[0] % 80);
        double x = (double)(r[1] % 2000) / 500 - 2, z = 1.5 * x + 2 * sin(user) - 0.3;
        fprintf(f, "%d,u%d,%.4f,%d\n", (double)(r[2] % 10000) / 1e4 < 1 / (1 + exp(-z)), user, x, user % 7);
    }
    fclose(f);
}

static inline int run_setup(void **state) {
    (void)state;
    strcpy(run_dir, "/tmp/ctrc-run-XXXXXX");
    if (!mkdtemp(run_dir) || chdir(run_dir)) return 1;
    run_write_csv("train.csv", 2000, 1);
    run_write_csv("eval.csv", 500, 2);
    return 0;
}
static inline int run_teardown(void **state) {
    (void)state;
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", run_dir);
    return chdir("/") || system(command);
}

static inline bool run_same_files(const char *a, const char *b) {
    static char x[1 << 20], y[1 << 20];
    FILE *f = fopen(a, "rb"), *g = fopen(b, "rb");
    size_t n = f ? fread(x, 1, sizeof x, f) : 0, k = g ? fread(y, 1, sizeof y, g) : 0;
    if (f) fclose(f);
    if (g) fclose(g);
    return f && g && n == k && n > 0 && !memcmp(x, y, n);
}
static inline bool run_exists(const char *path) { return access(path, F_OK) == 0; }
#endif
