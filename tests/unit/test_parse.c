/* The parser: its messages against tests/golden/parse/NAME.err, its trees against NAME.ast, the limits, and
 * whether broken text of any kind leaves it standing. CTRC_UPDATE_GOLDEN=1 writes the golden files anew. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>
#include "frontend/ast.h"
#include "frontend/compile.h"

#define GOLDEN CTRC_SOURCE_DIR "/tests/golden/parse"

typedef struct {
    char *messages, *tree; /* malloc'd */
    int errors, stmts;
} Parsed;

static Parsed parse(const char *path, const char *text, size_t size) {
    Parsed r = {0};
    size_t n;
    Arena *a = arena_new();
    FILE *out = open_memstream(&r.messages, &n);
    Diag *d = diag_new(a, out);
    AstBlock *b = ast_parse(a, d, diag_add_file(d, path, text, size, false));
    fclose(out);
    out = open_memstream(&r.tree, &n);
    ast_print(b, out);
    fclose(out);
    r.errors = d->errors;
    r.stmts = b->n;
    arena_free(a);
    return r;
}

static void drop(Parsed r) {
    free(r.messages);
    free(r.tree);
}

static char *slurp(const char *path, size_t *size) {
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    char *text = NULL, buffer[4096];
    FILE *out = open_memstream(&text, size);
    for (size_t n; (n = fread(buffer, 1, sizeof buffer, f)) > 0;) fwrite(buffer, 1, n, out);
    fclose(out);
    fclose(f);
    return text;
}

/* ---- golden files ---- */

static bool same_as_file(const char *path, const char *found) {
    size_t size;
    char *expected = slurp(path, &size);
    bool same = expected ? !strcmp(expected, found) : found[0] == 0;
    free(expected);
    if (same) return true;
    if (getenv("CTRC_UPDATE_GOLDEN")) {
        FILE *f = fopen(path, "wb");
        fputs(found, f);
        return fclose(f) == 0;
    }
    char temporary[] = "/tmp/ctrc-golden-XXXXXX", command[1024];
    int fd = mkstemp(temporary);
    if (fd < 0 || write(fd, found, strlen(found)) < 0) return false;
    close(fd);
    snprintf(command, sizeof command, "diff -u '%s' '%s' >&2", expected ? path : "/dev/null", temporary);
    fprintf(stderr, "%s differs:\n", path);
    if (system(command) < 0) perror("diff");
    unlink(temporary);
    return false;
}

static void golden(void **state) {
    (void)state;
    struct dirent **names;
    int n = scandir(GOLDEN, &names, NULL, alphasort), cases = 0, wrong = 0;
    for (int i = 0; i < n; i++) {
        char *dot = strrchr(names[i]->d_name, '.');
        if (dot && !strcmp(dot, ".ctr")) {
            char path[1024];
            size_t size;
            snprintf(path, sizeof path, "%s/%s", GOLDEN, names[i]->d_name);
            char *text = slurp(path, &size);
            Parsed r = parse(names[i]->d_name, text, size);
            *dot = 0;
            snprintf(path, sizeof path, "%s/%s.err", GOLDEN, names[i]->d_name);
            wrong += !same_as_file(path, r.messages);
            snprintf(path, sizeof path, "%s/%s.ast", GOLDEN, names[i]->d_name);
            if (r.errors == 0) wrong += !same_as_file(path, r.tree);
            drop(r);
            free(text);
            cases++;
        }
        free(names[i]);
    }
    if (n >= 0) free(names);
    assert_true(cases > 20);
    assert_int_equal(wrong, 0);
}

/* ---- broken text ---- */

static uint32_t next_random(uint64_t *s) {
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*s >> 33);
}

static char *example(size_t *size) {
    char *text = slurp(GOLDEN "/example_deepfm.ctr", size);
    assert_non_null(text);
    return text;
}

static void truncated(void **state) {
    (void)state;
    size_t size;
    char *text = example(&size);
    for (size_t n = 0; n <= size; n++) {
        char *part = malloc(n + 1); /* of exactly this size, so that a byte too far is seen */
        memcpy(part, text, n);
        char *exact = realloc(part, n ? n : 1);
        drop(parse("t.ctr", exact, n));
        free(exact);
    }
    free(text);
}

static void mutated(void **state) {
    (void)state;
    static const char *const bits[] = {"(",   ")",  "[",  "]",  "{",      "}",     "\n",   ";",    "=",
                                       "==",  "\"", "|>", "++", ",",      "for",   "if",   "else", "in",
                                       "not", "-",  "\\", "#",  "beside", "layer", "\xff", "1e9",  "_"};
    enum { BITS = sizeof bits / sizeof *bits };
    size_t size;
    char *text = example(&size);
    uint64_t seed = 7;
    for (int round = 0; round < 3000; round++) {
        char *out = NULL;
        size_t n;
        FILE *f = open_memstream(&out, &n);
        uint32_t every = 20 + next_random(&seed) % 600;
        for (size_t i = 0; i < size; i++) {
            uint32_t r = next_random(&seed);
            if (r % every)
                fputc(text[i], f);
            else if (r / every % 3 == 0)
                fputc((int)(next_random(&seed) & 255), f);
            else if (r / every % 3 == 1)
                fputs(bits[next_random(&seed) % BITS], f);
        }
        fclose(f);
        Parsed r = parse("t.ctr", out, n);
        assert_true(r.errors <= 21);
        drop(r);
        free(out);
    }
    free(text);
}

/* ---- limits ---- */

/* head, then `part` n times, `middle`, `close` n times */
static Parsed repeated(const char *head, const char *part, const char *middle, const char *closing, int n) {
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    fputs(head, f);
    for (int i = 0; i < n; i++) fputs(part, f);
    fputs(middle, f);
    for (int i = 0; i < n; i++) fputs(closing, f);
    fclose(f);
    Parsed r = parse("t.ctr", text, size);
    free(text);
    return r;
}

static void one_error(Parsed r, const char *message) {
    if (r.errors != 1 || !strstr(r.messages, message)) fprintf(stderr, "%s", r.messages);
    assert_int_equal(r.errors, 1);
    assert_non_null(strstr(r.messages, message));
    drop(r);
}

static void no_error(Parsed r) {
    if (r.errors) fprintf(stderr, "%s", r.messages);
    assert_int_equal(r.errors, 0);
    drop(r);
}

static void limits(void **state) {
    (void)state;
    const char *deep = "nested more than 200 deep", *tall = "an expression of more than 1000";
    static const struct {
        const char *head, *part, *middle, *closing;
    } nested[] = {{"x = ", "(", "1", ")"},
                  {"x = ", "[", "1", "]"},
                  {"x = ", "f(", "1", ")"},
                  {"x = ", "-", "1", ""},
                  {"x = ", "not ", "1", ""},
                  {"x = ", "a[", "1", "]"},
                  {"", "if a { ", "b = 1", " }"},
                  {"", "layer f() { ", "return 1", " }"},
                  {"", "for x in a {\n", "b = 1", "\n}"}};
    for (size_t i = 0; i < sizeof nested / sizeof *nested; i++) {
        no_error(repeated(nested[i].head, nested[i].part, nested[i].middle, nested[i].closing, 200));
        one_error(repeated(nested[i].head, nested[i].part, nested[i].middle, nested[i].closing, 201), deep);
        one_error(repeated(nested[i].head, nested[i].part, nested[i].middle, nested[i].closing, 30000), deep);
    }
    one_error(repeated("x = ", "- -(", "1", ")", 100000), deep);
    one_error(repeated("x = [a ", "for b in c ", "", "", 300), ""); /* never closed */
    one_error(repeated("x = [a ", "for b in c ", "]", "", 300), deep);
    static const char *const chains[] = {" + a", " |> f(b)", " ++ a",      " or a", " @ b",
                                         "(a)",  "[0]",      " and not a", " - -a"};
    for (size_t i = 0; i < sizeof chains / sizeof *chains; i++) {
        no_error(repeated("x = a", chains[i], "\n", "", 990));
        one_error(repeated("x = a", chains[i], "\n", "", i == 0 ? 1000000 : 20000), tall);
    }
    one_error(repeated("x = a", " < b", "\n", "", 2), "comparisons can't be chained");
    no_error(repeated("x = [1", ", 2", "]", "", 100000));
    one_error(repeated("", "a;", "", "", 1000000), "the file is too large");
    one_error(repeated("x = ", "12345678", "", "", 100000), "a number of 800000 characters");
    one_error(repeated("x", "yyyyyyyy", " = 1", "", 100000), "a name of 800001 bytes");
    no_error(repeated("x = \"", "yyyyyyyy", "\"", "", 1000000));
    one_error(repeated("x = \"", "yyyyyyyy", "", "", 1000000), "no closing");
    no_error(repeated("", "\n\r\n", "", "", 1000000));
    no_error(repeated("#", "yyyyyyyy", "", "", 1000000));
}

static void at_most_twenty(void **state) {
    (void)state;
    Parsed r = repeated("", "x = )\n", "", "", 1000);
    assert_int_equal(r.errors, 21);
    assert_non_null(strstr(r.messages, "t.ctr:20:5: error"));
    assert_non_null(strstr(r.messages, "too many errors"));
    assert_null(strstr(r.messages, "t.ctr:21:5"));
    drop(r);
}

/* ---- reading files ---- */

static char *read_error(const char *path) {
    char *messages = NULL;
    size_t n, size = 1;
    Arena *a = arena_new();
    FILE *out = open_memstream(&messages, &n);
    Diag *d = diag_new(a, out);
    const char *text = frontend_read_file(a, d, path, &size);
    assert_true((text == NULL) == (d->errors == 1));
    fclose(out);
    arena_free(a);
    return messages;
}

static void files(void **state) {
    (void)state;
    char dir[] = "/tmp/ctrc-read-XXXXXX", path[64];
    assert_non_null(mkdtemp(dir));
    char *m = read_error(dir);
    assert_non_null(strstr(m, "it is a directory"));
    free(m);
    snprintf(path, sizeof path, "%s/none", dir);
    m = read_error(path);
    assert_non_null(strstr(m, "No such file or directory"));
    free(m);
    snprintf(path, sizeof path, "%s/large", dir);
    FILE *f = fopen(path, "w");
    assert_int_equal(ftruncate(fileno(f), 100 << 20), 0);
    fclose(f);
    m = read_error(path);
    assert_non_null(strstr(m, "expected at most 67108864 bytes, found 104857600"));
    free(m);
    assert_int_equal(truncate(path, 0), 0);
    m = read_error(path);
    assert_string_equal(m, "");
    free(m);
    if (getuid() != 0) {
        assert_int_equal(chmod(path, 0), 0);
        m = read_error(path);
        assert_non_null(strstr(m, "Permission denied"));
        free(m);
    }
    unlink(path);
    rmdir(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(golden),         cmocka_unit_test(truncated),
                                       cmocka_unit_test(mutated),        cmocka_unit_test(limits),
                                       cmocka_unit_test(at_most_twenty), cmocka_unit_test(files)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
