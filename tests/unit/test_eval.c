/* The evaluator by golden files: tests/golden/frontend/NAME.ctr gives NAME.ir (or its warnings before it),
 * and tests/golden/errors/NAME.ctr gives the messages in NAME.err. A first line `# args: -D a=1` sets params.
 * CTRC_UPDATE_GOLDEN=1 writes the files anew, to be read before they are committed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "frontend/compile.h"

#define LIBRARY CTRC_SOURCE_DIR "/frontend/lib"

/* ---- compiling one file ---- */

typedef struct {
    Arena *a;
    Diag *d;
    IrProgram *p;
    char *messages;
    size_t n_messages;
} Compiled;

static int parse_args(Arena *a, const char *text, Define *defs, int cap) {
    const char *s = strstr(text, "# args:");
    int n = 0;
    if (!s) return 0;
    const char *end = strchr(s, '\n');
    for (s = strstr(s, "-D "); s && s < end && n < cap; s = strstr(s + 1, "-D ")) {
        const char *name = s + 3, *eq = strchr(name, '=');
        size_t len = strcspn(eq + 1, " \n");
        defs[n++] = (Define){arena_strndup(a, name, (size_t)(eq - name)), arena_strndup(a, eq + 1, len)};
    }
    return n;
}

static char *read_text(const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    char *text = NULL;
    size_t n = 0, got;
    char buffer[4096];
    FILE *m = open_memstream(&text, &n);
    while ((got = fread(buffer, 1, sizeof buffer, f)) > 0) fwrite(buffer, 1, got, m);
    fclose(m);
    fclose(f);
    return text;
}

static Compiled compile(const char *path) {
    Compiled c = {.a = arena_new()};
    FILE *out = open_memstream(&c.messages, &c.n_messages);
    c.d = diag_new(c.a, out);
    Define defs[8];
    char *text = read_text(path);
    int n = text ? parse_args(c.a, text, defs, 8) : 0;
    free(text);
    c.p = frontend_compile(c.a, c.d, path, defs, n, LIBRARY);
    fclose(out);
    return c;
}

static void release(Compiled *c) {
    free(c->messages);
    arena_free(c->a);
}

/* Compiles text as if it stood in a file. */
static Compiled compile_text(const char *text) {
    char path[] = "/tmp/ctrc_eval_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    FILE *f = fdopen(fd, "w");
    fputs(text, f);
    fclose(f);
    Compiled c = compile(path);
    unlink(path);
    return c;
}

/* ---- golden files ---- */

static int is_program(const struct dirent *e) {
    size_t n = strlen(e->d_name);
    return n > 4 && strcmp(e->d_name + n - 4, ".ctr") == 0;
}

static int mismatches;

static void compare(const char *program, const char *extension, const char *found) {
    char path[512];
    snprintf(path, sizeof path, "%.*s%s", (int)strlen(program) - 4, program, extension);
    if (getenv("CTRC_UPDATE_GOLDEN")) {
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        fputs(found, f);
        fclose(f);
        return;
    }
    char *expected = read_text(path);
    if (!expected || strcmp(expected, found) != 0) {
        print_error("%s differs; found:\n%s\n", path, found);
        mismatches++;
    }
    free(expected);
}

static void each_program(const char *directory, void (*check)(const char *)) {
    struct dirent **names;
    assert_int_equal(chdir(directory), 0);
    int n = scandir(".", &names, is_program, alphasort);
    assert_true(n > 0);
    mismatches = 0;
    for (int i = 0; i < n; i++) {
        check(names[i]->d_name);
        free(names[i]);
    }
    free(names);
    assert_int_equal(mismatches, 0);
}

static void check_program(const char *path) {
    Compiled c = compile(path);
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    for (const char *s = c.messages; *s; s += strcspn(s, "\n") + 1)
        fprintf(out, "# %.*s\n", (int)strcspn(s, "\n"), s);
    if (c.p) ir_print(c.p, out);
    fclose(out);
    compare(path, ".ir", text);
    if (c.p && c.d->errors == 0) { /* what is printed is read back to the same text */
        Arena *a = arena_new();
        Diag *d = diag_new(a, stderr);
        const char *ir = text + (strstr(text, "ctrc-ir") - text);
        IrProgram *again = ir_read(a, d, path, ir, strlen(ir));
        assert_non_null(again);
        char *second = NULL;
        size_t m = 0;
        FILE *f = open_memstream(&second, &m);
        ir_print(again, f);
        fclose(f);
        assert_string_equal(ir, second);
        free(second);
        arena_free(a);
    } else {
        print_error("%s doesn't compile\n", path);
        mismatches++;
    }
    free(text);
    release(&c);
}

static void check_errors(const char *path) {
    Compiled c = compile(path);
    if (c.p) {
        print_error("%s compiles\n", path);
        mismatches++;
    }
    compare(path, ".err", c.messages);
    release(&c);
}

static void programs_give_the_expected_ir(void **state) {
    (void)state;
    each_program(CTRC_SOURCE_DIR "/tests/golden/frontend", check_program);
}

static void mistakes_give_the_expected_messages(void **state) {
    (void)state;
    each_program(CTRC_SOURCE_DIR "/tests/golden/errors", check_errors);
}

static void models_compile(void **state) {
    (void)state;
    struct dirent **names;
    assert_int_equal(chdir(CTRC_SOURCE_DIR "/models"), 0);
    int n = scandir(".", &names, is_program, alphasort);
    assert_true(n > 0);
    for (int i = 0; i < n; i++) {
        char *text = read_text(names[i]->d_name);
        bool model = strncmp(text, "model ", 6) == 0 || strstr(text, "\nmodel ");
        /* those need vocabularies beside a log: tests/cli/readme_snippets.sh gives them some */
        model = model && !strstr(text, "import \"amazon.ctr\"");
        if (model) {
            Compiled c = compile(names[i]->d_name);
            if (!c.p) print_error("%s", c.messages);
            assert_non_null(c.p);
            assert_int_equal(c.d->warnings, 0);
            release(&c);
        }
        free(text);
        free(names[i]);
    }
    free(names);
}

/* ---- limits ---- */

#define HEAD "model m\ninput csv() { y label; a float }\n"
#define TAIL "predict p = sigmoid(dense(a, 1))\nloss mse(p, y)\noptimizer sgd(lr = 1)\n"

static void stops(const char *body, const char *message) {
    char text[4096];
    snprintf(text, sizeof text, HEAD "%s\n" TAIL, body);
    Compiled c = compile_text(text);
    assert_null(c.p);
    if (!strstr(c.messages, message)) fail_msg("expected '%s' in:\n%s", message, c.messages);
    release(&c);
}

static void limits_hold(void **state) {
    (void)state;
    stops("layer f(x) = f(x)\nz = f(a)", "calls nest more than 200 deep in layer 'f'");
    stops("layer f(x) = g(x)\nlayer g(x) { return f(x) + 1 }\nz = f(a)", "calls nest more than 200 deep");
    stops("n = len([1 for i in range(1000) for j in range(1000) for k in range(1000)])",
          "more than 1000000 evaluation steps");
    stops("layer two(n) { if n == 0 { return 0 } \n return two(n - 1) + two(n - 1) }\nz = two(60)",
          "more than 1000000 evaluation steps");
    stops("s = \"0123456789\"\nfor i in range(40) { s = s ++ s }", "more than 1 GB");
    stops("s = [1]\nfor i in range(40) { s = s ++ s }", "more than");
    stops(
        "x = concat([a for i in range(1000)])\nfor i in range(100) { x = concat([x for k in range(1000)]) }",
        "");
    stops("l, k = [[1], [1]]\nfor i in range(60) { l = [l, l]\n k = [k, k] }\nsame = l == k",
          "more than 1000000 evaluation steps");
    stops("x = [a for i in range(10000)]\nfor i in range(100000) { z = sum(x) }",
          "more than 1000000 evaluation steps");
    stops("w = weight([1000000, 1000000, 1000000])", "more than 2^40 elements");
}

/* Calls and expressions may each be as high as they are allowed; together they would need too much stack. */
static void the_stack_holds(void **state) {
    (void)state;
    char text[8192] = HEAD "layer f(x, n) { if n == 0 { return x } else { return f(x, n - 1)";
    for (int i = 0; i < 950; i++) strcat(text, " + 1");
    strcat(text, " } }\nz = f(a, 190)\n" TAIL);
    Compiled c = compile_text(text);
    if (c.p == NULL) assert_non_null(strstr(c.messages, "expressions and calls nest too deeply"));
    release(&c);
}

static void a_missing_library_is_named(void **state) {
    (void)state;
    Arena *a = arena_new();
    char *messages = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&messages, &n);
    Diag *d = diag_new(a, out);
    assert_null(frontend_compile(a, d, CTRC_SOURCE_DIR "/models/bank.ctr", NULL, 0, "/nonexistent"));
    fclose(out);
    assert_string_equal(messages, "error: no layer library in '/nonexistent'\n");
    free(messages);
    arena_free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_give_the_expected_ir),
        cmocka_unit_test(mistakes_give_the_expected_messages),
        cmocka_unit_test(models_compile),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(the_stack_holds),
        cmocka_unit_test(a_missing_library_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
