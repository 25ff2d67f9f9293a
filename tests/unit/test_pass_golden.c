/* Each pass against tests/golden/passes/PASS/NAME.in.ir and NAME.out.ir: the examples of the passes'
 * comments, and each rewrite and each case in which one must not be made. NAME.args holds the pass's
 * arguments, if there are any; one beside a NAME.bf16 is for a CPU with products of bfloat16, beside a
 * NAME.amx for one that has AMX for them.
 * CTRC_UPDATE_GOLDEN=1 writes the outputs anew. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "passes/pass.h"

#define GOLDEN CTRC_SOURCE_DIR "/tests/golden/passes"

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

/* The first line of the .args file beside an input, or NULL. */
static char *args_beside(Arena *a, const char *path) {
    size_t size, stem = strlen(path) - strlen(".in.ir");
    char *text = slurp(arena_printf(a, "%.*s.args", (int)stem, path), &size);
    char *args = text ? arena_strndup(a, text, strcspn(text, "\n")) : NULL;
    free(text);
    return args;
}

static bool is_beside(Arena *a, const char *path, const char *ending) {
    size_t size, stem = strlen(path) - strlen(".in.ir");
    char *text = slurp(arena_printf(a, "%.*s.%s", (int)stem, path, ending), &size);
    free(text);
    return text;
}

static PassTarget target_of(Arena *a, const char *path) {
    bool amx = is_beside(a, path, "amx"), bf16 = amx || is_beside(a, path, "bf16");
    return (PassTarget){bf16 ? 16 : 8, bf16 ? 32 : 16, 32768, 524288, bf16, amx};
}

/* What the pass makes of the file, as text; its messages if it fails. Malloc'd. */
static char *passed(const char *pass, const char *path) {
    size_t size, length;
    char *text = slurp(path, &size), *result = NULL, *messages = NULL;
    assert_non_null(text);
    FILE *errors = open_memstream(&messages, &length), *out = open_memstream(&result, &length);
    Arena *a = arena_new();
    Diag *d = diag_new(a, errors);
    IrProgram *p = ir_read(a, d, strrchr(path, '/') + 1, text, size);
    PassOptions o = {.level = 2, .verify_each = true, .target = target_of(a, path), .out = out};
    bool ok = p && pass_run_one(p, &o, pass, args_beside(a, path));
    if (ok) ir_print(p, out);
    fclose(errors);
    fclose(out);
    arena_free(a);
    free(text);
    free(ok ? messages : result);
    return ok ? result : messages;
}

static int first_difference(const char *a, const char *b) {
    int line = 1;
    for (; *a && *a == *b; a++, b++) line += *a == '\n';
    return line;
}

static bool check(const char *pass, const char *file) {
    char in[1024], out[1024];
    int stem = (int)(strlen(file) - strlen(".in.ir"));
    snprintf(in, sizeof in, GOLDEN "/%s/%s", pass, file);
    snprintf(out, sizeof out, GOLDEN "/%s/%.*s.out.ir", pass, stem, file);
    char *found = passed(pass, in);
    if (getenv("CTRC_UPDATE_GOLDEN")) {
        FILE *f = fopen(out, "w");
        assert_non_null(f);
        fputs(found, f);
        fclose(f);
    }
    size_t size;
    char *expected = slurp(out, &size);
    bool same = expected && !strcmp(expected, found);
    if (!same && expected)
        fprintf(stderr, "%s: differs from line %d; found:\n%s", out, first_difference(expected, found),
                found);
    if (!same && !expected) fprintf(stderr, "%s is missing; found:\n%s", out, found);
    free(expected);
    free(found);
    return same;
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Every pass has golden files, and all of them hold. */
static void test_golden(void **state) {
    (void)state;
    int wrong = 0;
    for (int i = 0; i < pass_count; i++) {
        char path[1024], *files[256];
        int n = 0;
        snprintf(path, sizeof path, GOLDEN "/%s", pass_table[i].name);
        DIR *dir = opendir(path);
        for (struct dirent *e; dir && (e = readdir(dir));) {
            size_t length = strlen(e->d_name);
            if (length > 6 && !strcmp(e->d_name + length - 6, ".in.ir") && n < 256)
                files[n++] = strdup(e->d_name);
        }
        if (dir) closedir(dir);
        if (!n) {
            fprintf(stderr, "%s has no golden file\n", pass_table[i].name);
            wrong++;
        }
        qsort(files, (size_t)n, sizeof *files, by_name);
        for (int k = 0; k < n; k++) {
            wrong += !check(pass_table[i].name, files[k]);
            free(files[k]);
        }
    }
    assert_int_equal(wrong, 0);
}

/* ---- the examples in the passes' comments ---- */

/* Is the text from `line` to the end of the line, without a remark after two blanks, a line of `file`? */
static bool line_of(const char *file, const char *line) {
    size_t n = strcspn(line, "\n");
    for (size_t i = 1; i + 1 < n; i++)
        if (line[i] == ' ' && line[i + 1] == ' ') n = i;
    for (const char *at = file; (at = strchr(at, '%')); at++)
        if (!strncmp(at, line, n) && at[n] == '\n') return true;
    return false;
}

/* One example: the text before the name of its golden file. Returns how many lines it has. */
static int check_example(const char *pass, char *text, const char *name) {
    char path[1024], *golden[2];
    size_t size;
    int lines = 0;
    bool after = false;
    for (int side = 0; side < 2; side++) {
        snprintf(path, sizeof path, GOLDEN "/%s%s.ir", name, side ? "out" : "in");
        golden[side] = slurp(path, &size);
        assert_non_null(golden[side]);
    }
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        after |= !strncmp(line, " * after", 8);
        if (line[0] != ' ' || line[1] != '*' || line[2 + strspn(line + 2, " ")] != '%') continue;
        lines++;
        if (!line_of(golden[after], strchr(line, '%'))) fail_msg("%s.c: not in %s: %s", pass, name, line);
    }
    for (int side = 0; side < 2; side++) free(golden[side]);
    return lines;
}

/* "A before/after example which is the same as its golden test": each line of the opening comment that
 * defines a value is one of the golden file that the comment names next. */
static void test_examples(void **state) {
    (void)state;
    static const char mark[] = "(tests/golden/passes/";
    for (int i = 0; i < pass_count; i++) {
        char path[1024], name[512];
        size_t size;
        snprintf(path, sizeof path, CTRC_SOURCE_DIR "/passes/%s.c", pass_table[i].name);
        char *source = slurp(path, &size), *from = source, *named;
        assert_non_null(source);
        *strstr(source, "*/") = 0;
        assert_non_null(strstr(source, mark));
        for (; (named = strstr(from, mark)); from = named + sizeof mark) {
            assert_int_equal(sscanf(named + sizeof mark - 1, "%500[^*]", name), 1);
            *named = 0;
            assert_true(check_example(pass_table[i].name, from, name) > 3);
        }
        assert_null(strchr(from, '%')); /* an example without a file */
        free(source);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_golden), cmocka_unit_test(test_examples)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
