/* What the backend makes of a whole program: objects, assembly for each target, plans, graphs, executables;
 * and what it says when it can't. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "backend/backend.h"
#include "frontend/compile.h"
#include "tests/tools/op_cases.h"

static Arena *arena;
static char *messages;
static size_t messages_size;
static Diag *diag;

static int setup(void **state) {
    (void)state;
    arena = arena_new();
    diag = diag_new(arena, open_memstream(&messages, &messages_size));
    return 0;
}

static int teardown(void **state) {
    (void)state;
    fclose(diag->out);
    free(messages);
    arena_free(arena);
    return 0;
}

static const char *said(void) {
    fflush(diag->out);
    return messages;
}

/* A model after all passes. */
static IrProgram *program(const char *model, const char *march) {
    const char *path = arena_printf(arena, "%s/models/%s.ctr", CTRC_SOURCE_DIR, model);
    IrProgram *p = frontend_compile(arena, diag, path, NULL, 0, CTRC_SOURCE_DIR "/frontend/lib");
    PassOptions o = {.level = 2, .out = stdout};
    if (!p || !backend_target(diag, march, &o.target) || !pass_run_all(p, &o))
        fail_msg("%s: %s", model, said());
    return p;
}

typedef struct {
    char *data;
    size_t size;
} Text;

static Text emitted(IrProgram *p, const char *march, BackendEmit what) {
    Text t = {0};
    FILE *f = open_memstream(&t.data, &t.size);
    if (!backend_emit(p, march, 2, what, f)) fail_msg("%s", said());
    fclose(f);
    return t;
}

static int count(const char *text, const char *what) {
    int n = 0;
    for (const char *s = text; (s = strstr(s, what)); s += strlen(what)) n++;
    return n;
}

/* ---- code ---- */

static void test_same_object_twice(void **state) {
    (void)state;
    Text a = emitted(program("adult", "native"), "native", EMIT_OBJ),
         b = emitted(program("adult", "native"), "native", EMIT_OBJ);
    assert_true(a.size > 10000 && a.size == b.size);
    assert_memory_equal(a.data, b.data, a.size);
    free(a.data), free(b.data);
}

static void test_targets(void **state) {
    (void)state;
    Text v3 = emitted(program("adult", "x86-64-v3"), "x86-64-v3", EMIT_ASM),
         v4 = emitted(program("adult", "x86-64-v4"), "x86-64-v4", EMIT_ASM);
    assert_int_equal(count(v3.data, "%zmm"), 0);
    assert_true(count(v3.data, "vfmadd231ps") > 100);
    assert_true(count(v4.data, "%zmm") > count(v4.data, "%ymm"));
    free(v3.data), free(v4.data);
}

/* No flag that would let LLVM contract or reassociate; the one exported constant, and no call but the
 * runtime's. */
static void test_llvm_text(void **state) {
    (void)state;
    Text t = emitted(program("adult", "x86-64-v3"), "x86-64-v3", EMIT_LLVM);
    static const char *const flags[] = {" fast ", " reassoc ", " contract ", " nnan ", " afn ", " arcp "};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) assert_int_equal(count(t.data, flags[i]), 0);
    assert_int_equal(count(t.data, "@ctrc_model = "), 1);
    for (const char *s = t.data; (s = strstr(s, "\ndeclare ")); s++) {
        const char *name = strchr(s, '@') + 1;
        if (strncmp(name, "rt_", 3) && strncmp(name, "llvm.", 5)) fail_msg("calls %.40s", name);
    }
    free(t.data);
}

static void test_unknown_march(void **state) {
    (void)state;
    PassTarget t;
    assert_false(backend_target(diag, "x86-64-v2", &t));
    assert_non_null(strstr(
        said(), "error: unknown --march 'x86-64-v2': expected native, x86-64-v3, x86-64-v4, or with bfloat16 "
                "cooperlake, sapphirerapids or znver4"));
    assert_non_null(strstr(said(), "hint: did you mean 'x86-64-v3'?"));
}

static void test_native_target(void **state) {
    (void)state;
    PassTarget t;
    assert_true(backend_target(diag, "native", &t));
    assert_true(t.vector_floats == 8 || t.vector_floats == 16);
    assert_int_equal(t.vector_regs, 2 * t.vector_floats);
    assert_true(t.l1_bytes >= 16 << 10 && t.l2_bytes > t.l1_bytes);
}

/* ---- plans and graphs ---- */

static bool runs(const IrNode *n) {
    return n->plan.domain != DOM_NONE && ir_ops[n->op].cls != CLASS_ROOT && n->op != OP_RESULT &&
           !ir_all_in_place(n);
}

static void test_plan(void **state) {
    (void)state;
    IrProgram *p = program("adult", "native");
    Text t = {0};
    FILE *f = open_memstream(&t.data, &t.size);
    unsetenv("XDG_CACHE_HOME"); /* no measuring, and no file in anyone's home */
    unsetenv("HOME");
    assert_true(backend_emit_plan(p, "native", NULL, f));
    fclose(f);
    for (int i = 0; i < p->n_funcs; i++) {
        const IrBody *b = &p->funcs[i]->body;
        int kernels = 0;
        for (int k = 0; k < b->n; k++) kernels += runs(b->nodes[k]);
        const char *at = strstr(t.data, arena_printf(arena, "func %s\n", p->funcs[i]->name));
        assert_non_null(at);
        const char *total = strstr(at, "  total: ");
        int lines = 0;
        for (const char *s = at; s < total; s++) lines += *s == '\n';
        assert_int_equal(lines, kernels + 2); /* name and heading */
        assert_non_null(strstr(at, arena_printf(arena, "  total: %d kernels in ", kernels)));
    }
    assert_non_null(strstr(t.data, " tile  "));
    assert_non_null(strstr(t.data, " matmul+add+relu "));
    assert_non_null(strstr(t.data, "\n  tile: at least a vector of columns"));
    assert_non_null(strstr(t.data, "adult.ctr:"));
    assert_non_null(strstr(t.data, "  memory: fixed "));
    assert_non_null(strstr(t.data, "\ntime: arithmetic or bytes, whichever takes longer, at "));
    assert_non_null(strstr(t.data, "not measured here\n"));
    free(t.data);
}

/* The group of op cases that is about gru, after all passes. */
static IrProgram *recurrent_program(const char *march) {
    PassOptions o = {.level = 2, .out = stdout};
    const char *what = "";
    IrProgram *p = NULL;
    for (int group = 0; strcmp(what, "gru"); group++) p = op_case_group(arena, diag, group, "gru_2", &what);
    if (!p || !backend_target(diag, march, &o.target) || !pass_run_all(p, &o)) fail_msg("%s", said());
    return p;
}

static void test_recurrent(void **state) {
    (void)state;
    Text t = {0};
    FILE *f = open_memstream(&t.data, &t.size);
    assert_true(backend_emit_plan(recurrent_program("native"), "native", NULL, f));
    fclose(f);
    assert_int_equal(count(t.data, " recurrent "), 4); /* forward in each function, the gradient in one */
    assert_int_equal(count(t.data, "  recurrent: rows by length, 24 at a time; "), 3);
    free(t.data);
    Text v3 = emitted(recurrent_program("x86-64-v3"), "x86-64-v3", EMIT_ASM),
         v4 = emitted(recurrent_program("x86-64-v4"), "x86-64-v4", EMIT_ASM);
    /* terms, columns, floats a row of the state and of both gates, in whole vectors of 8 and of 16 */
    assert_non_null(strstr(v3.data, "\nrecurrent_product_36_72_40_80:"));
    assert_non_null(strstr(v4.data, "\nrecurrent_product_36_72_48_96:"));
    free(v3.data), free(v4.data);
}

/* Each node is in the picture once, alone or among others like it; constants and weights in no node of their
 * own. */
static void test_dot(void **state) {
    (void)state;
    IrProgram *p = program("adult", "native");
    Text t = {0};
    FILE *f = open_memstream(&t.data, &t.size);
    backend_emit_dot(p, f);
    fclose(f);
    assert_int_equal(count(t.data, "digraph "), p->n_funcs);
    assert_int_equal(count(t.data, "{"), count(t.data, "}"));
    int nodes = 0, drawn = 0, boxes = 0;
    for (int i = 0; i < p->n_funcs; i++)
        for (int k = 0; k < p->funcs[i]->body.n; k++) {
            IrOp op = p->funcs[i]->body.nodes[k]->op;
            nodes += op != OP_CONST && op != OP_INVROWS && op != OP_WEIGHT;
        }
    for (const char *s = t.data; (s = strstr(s, " [label=\"")); boxes++) {
        s += strlen(" [label=\"");
        const char *times = strstr(s, " ×");
        drawn += *s != '%' && times && times < strchr(s, ']') ? atoi(times + strlen(" ×")) : 1;
    }
    assert_int_equal(drawn, nodes);
    assert_true(boxes < nodes);
    assert_non_null(strstr(t.data, "label=\"column ×4\\nworkclass, race … native_country\\nstr\""));
    assert_non_null(strstr(t.data, "\\nwith "));
    assert_non_null(strstr(t.data, "matmul_grad_w+update\\ndense.kernel\"")); /* what a region writes */
    assert_non_null(strstr(t.data, "subgraph \"cluster_"));
    free(t.data);
}

/* ---- linking ---- */

static char folder[] = "/tmp/ctrc_link_XXXXXX";

static const char *in_folder(const char *name) { return arena_printf(arena, "%s/%s", folder, name); }

static void put_file(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    fputs(text, f);
    fclose(f);
}

static void expect_file(const char *path, const char *text) {
    char got[64] = "";
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    got[fread(got, 1, sizeof got - 1, f)] = 0;
    fclose(f);
    assert_string_equal(got, text);
}

/* Nothing but `exe` may be left in the folder. */
static void expect_alone(const char *name) {
    assert_int_equal(system(arena_printf(arena, "[ \"$(ls -A %s)\" = \"%s\" ]", folder, name)), 0);
}

static void test_link_without_library(void **state) {
    (void)state;
    const char *exe = in_folder("model");
    put_file(exe, "as it was");
    assert_false(backend_link(program("adult", "native"), "native", 2, "/nowhere", exe, false));
    assert_non_null(strstr(
        said(), "error: can't read the runtime library '/nowhere/libctrc_rt.a': No such file or directory"));
    expect_file(exe, "as it was");
    expect_alone("model");
}

static void test_link_without_cc(void **state) {
    (void)state;
    const char *exe = in_folder("model"), *path = arena_strdup(arena, getenv("PATH"));
    put_file(in_folder("libctrc_rt.a"), "");
    setenv("PATH", "/nowhere", 1);
    bool ok = backend_link(program("adult", "native"), "native", 2, folder, exe, false);
    setenv("PATH", path, 1);
    unlink(in_folder("libctrc_rt.a"));
    assert_false(ok);
    assert_non_null(strstr(said(), "error: cannot find 'cc', which links the program"));
    assert_non_null(strstr(said(), "hint: apt-get install gcc"));
    expect_file(exe, "as it was");
    expect_alone("model");
}

static void test_link_into_missing_folder(void **state) {
    (void)state;
    assert_false(backend_link(program("adult", "native"), "native", 2, CTRC_BUILD_DIR "/lib/ctrc",
                              in_folder("no/model"), false));
    assert_non_null(strstr(said(), "error: can't write beside"));
    assert_non_null(strstr(said(), "No such file or directory"));
}

static void test_link(void **state) {
    (void)state;
    const char *exe = in_folder("model");
    mode_t before = umask(027);
    bool ok = backend_link(program("adult", "native"), "native", 2, CTRC_BUILD_DIR "/lib/ctrc", exe, false);
    umask(before);
    if (!ok) fail_msg("%s", said());
    struct stat st;
    assert_int_equal(stat(exe, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0750);
    assert_int_equal(system(arena_printf(arena, "%s info > %s/info && grep -q adult %s/info && rm %s/info",
                                         exe, folder, folder, folder)),
                     0);
    expect_alone("model");
}

int main(void) {
    if (!mkdtemp(folder)) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_same_object_twice, setup, teardown),
        cmocka_unit_test_setup_teardown(test_targets, setup, teardown),
        cmocka_unit_test_setup_teardown(test_llvm_text, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unknown_march, setup, teardown),
        cmocka_unit_test_setup_teardown(test_native_target, setup, teardown),
        cmocka_unit_test_setup_teardown(test_plan, setup, teardown),
        cmocka_unit_test_setup_teardown(test_recurrent, setup, teardown),
        cmocka_unit_test_setup_teardown(test_dot, setup, teardown),
        cmocka_unit_test_setup_teardown(test_link_without_library, setup, teardown),
        cmocka_unit_test_setup_teardown(test_link_without_cc, setup, teardown),
        cmocka_unit_test_setup_teardown(test_link_into_missing_folder, setup, teardown),
        cmocka_unit_test_setup_teardown(test_link, setup, teardown),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char exe[sizeof folder + 8];
    snprintf(exe, sizeof exe, "%s/model", folder);
    unlink(exe);
    rmdir(folder);
    return failed;
}
