/* ctrc synth: the rows fit the model's columns, depend on nothing but the seed, tell of the same world
 * whatever the seed, and carry a signal that can be learnt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "frontend/compile.h"

#define LIBRARY CTRC_SOURCE_DIR "/frontend/lib"
#define GOLDEN CTRC_SOURCE_DIR "/tests/golden/frontend/"

static char directory[] = "/tmp/ctrc_synth_XXXXXX";

static char *path_of(const char *name) {
    static char paths[4][256];
    static int next;
    char *p = paths[next++ & 3];
    snprintf(p, 256, "%s/%s", directory, name);
    return p;
}

static int make_directory(void **state) {
    (void)state;
    return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state) {
    (void)state;
    char command[300];
    snprintf(command, sizeof command, "rm -r %s", directory);
    return system(command);
}

/* Writes a log of a program and returns its best AUC. */
static double synth(const char *program, int64_t rows, uint64_t seed, const char *out) {
    Arena *a = arena_new();
    Diag *d = diag_new(a, stderr);
    assert_int_equal(chdir(GOLDEN), 0);
    IrProgram *p = frontend_compile(a, d, program, NULL, 0, LIBRARY);
    assert_non_null(p);
    double auc = -1;
    assert_true(frontend_synth(p, rows, seed, out, &auc));
    arena_free(a);
    return auc;
}

static char *read_all(const char *path) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    long n = ftell(f);
    rewind(f);
    char *text = malloc((size_t)n + 1);
    assert_int_equal(fread(text, 1, (size_t)n, f), n);
    text[n] = 0;
    fclose(f);
    return text;
}

static int count(const char *s, const char *end, char c) {
    int n = 0;
    for (; s < end; s++) n += *s == c;
    return n;
}

/* ---- format ---- */

static void each_line_has_the_fields(const char *path, char separator, int fields, int rows) {
    char *text = read_all(path);
    int n = 0;
    for (char *s = text, *end; *s; s = end + 1, n++) {
        end = strchr(s, '\n');
        assert_non_null(end);
        assert_int_equal(count(s, end, separator), fields - 1);
    }
    assert_int_equal(n, rows);
    free(text);
}

static void rows_fit_the_columns(void **state) {
    (void)state;
    char *out = path_of("a.csv");
    synth("deepfm.ctr", 100, 1, out);
    each_line_has_the_fields(out, ',', 7, 100);
    synth("training.ctr", 100, 1, out); /* with a header */
    each_line_has_the_fields(out, ',', 6, 101);
    char *text = read_all(out);
    assert_memory_equal(text, "click,stars,w,user,shop,group\n", 30);
    free(text);
    synth("libsvm.ctr", 100, 1, out);
    each_line_has_the_fields(out, '\n', 1, 100);
}

static char *nth_field(char *line, char separator, int n) {
    while (n-- > 0) line = strchr(line, separator) + 1;
    return line;
}

static void lists_of_one_axis_are_equally_long(void **state) {
    (void)state;
    char *out = path_of("b.tsv"), *side = path_of("b.tsv_neg");
    synth("beside.ctr", 300, 1, out);
    char *a = read_all(out), *b = read_all(side);
    int longest = 0;
    for (char *s = a, *t = b; *s; s = strchr(s, '\n') + 1, t = strchr(t, '\n') + 1) {
        char *hist = nth_field(s, '\t', 2), *hist_end = strchr(hist, '\n'), *other_end = strchr(t, '\n');
        int n = count(hist, hist_end, '\x02');
        assert_int_equal(n, count(t, other_end, '\x02'));
        assert_true(hist != hist_end && t != other_end); /* its file's only field: an empty line is no row */
        if (n > longest) longest = n;
    }
    assert_true(longest > 5 && longest < 52);
    free(a);
    free(b);
}

static void labels_have_the_model_s_texts(void **state) {
    (void)state;
    char *out = path_of("c.csv");
    synth("features.ctr", 400, 3, out);
    char *text = read_all(out);
    int yes = 0, no = 0;
    for (char *s = strchr(text, '\n') + 1; *s; s = strchr(s, '\n') + 1) {
        yes += strncmp(s, "yes|", 4) == 0;
        no += strncmp(s, "no|", 3) == 0;
        char *missing = nth_field(s, '|', 2); /* an int without a default is never empty */
        assert_true(*missing >= '0' && *missing <= '9');
    }
    assert_int_equal(yes + no, 400);
    assert_true(yes > 60 && no > 60);
    free(text);
}

/* ---- seeds ---- */

static void the_seed_decides_the_bytes(void **state) {
    (void)state;
    synth("deepfm.ctr", 200, 1, path_of("s1"));
    synth("deepfm.ctr", 200, 1, path_of("s2"));
    synth("deepfm.ctr", 200, 2, path_of("s3"));
    char *a = read_all(path_of("s1")), *b = read_all(path_of("s2")), *c = read_all(path_of("s3"));
    assert_string_equal(a, b);
    assert_string_not_equal(a, c);
    free(a);
    free(b);
    free(c);
}

/* ---- the signal ---- */

/* Smoothed log-odds of each value of the string columns, learnt from one log and summed over another's: the
 * plainest learner there is. */
enum { CELLS = 1 << 16, FIELDS = 3 };
typedef struct {
    double clicks, rows;
} Cell;

static unsigned cell_of(const char *s, const char *end, int field) {
    uint64_t h = 1469598103934665603ULL + (uint64_t)field;
    for (; s < end; s++) h = (h ^ (unsigned char)*s) * 1099511628211ULL;
    return (unsigned)((h ^ (h >> 40)) % CELLS); /* the last byte moves the low and the high bits */
}

typedef void Visit(Cell *cells, const unsigned cell[FIELDS], int y, void *user);

static int each_row(const char *path, Cell *cells, Visit *visit, void *user) {
    char *text = read_all(path);
    int n = 0;
    for (char *s = text; *s; s = strchr(s, '\n') + 1, n++) {
        static const int at[FIELDS] = {1, 3, 4}; /* user_id, shop_id, the list as a whole */
        unsigned cell[FIELDS];
        for (int i = 0; i < FIELDS; i++) {
            char *f = nth_field(s, ',', at[i]);
            cell[i] = cell_of(f, f + strcspn(f, ",\n"), i);
        }
        visit(cells, cell, *s == '1', user);
    }
    free(text);
    return n;
}

static void learn(Cell *cells, const unsigned cell[FIELDS], int y, void *user) {
    (void)user;
    for (int i = 0; i < FIELDS; i++) cells[cell[i]].clicks += y, cells[cell[i]].rows += 1;
}

typedef struct {
    double score[8192];
    int y[8192];
    int n;
} Scores;

static void score(Cell *cells, const unsigned cell[FIELDS], int y, void *user) {
    Scores *s = user;
    double sum = 0;
    for (int i = 0; i < FIELDS; i++) {
        double rate = (cells[cell[i]].clicks + 2) / (cells[cell[i]].rows + 5);
        sum += log(rate / (1 - rate));
    }
    s->score[s->n] = sum;
    s->y[s->n++] = y;
}

static double auc(const Scores *s) {
    double wins = 0, pairs = 0;
    for (int i = 0; i < s->n; i++)
        for (int k = 0; k < s->n; k++)
            if (s->y[i] && !s->y[k]) {
                wins += s->score[i] > s->score[k] ? 1 : s->score[i] == s->score[k] ? 0.5 : 0;
                pairs += 1;
            }
    return wins / pairs;
}

static void what_one_log_teaches_holds_in_another(void **state) {
    (void)state;
    char *train = path_of("train"), *test = path_of("test");
    synth("deepfm.ctr", 30000, 1, train);
    double best = synth("deepfm.ctr", 4000, 2, test);
    assert_true(best > 0.75 && best < 0.88);
    Cell *cells = calloc(CELLS, sizeof *cells);
    Scores *s = calloc(1, sizeof *s);
    each_row(train, cells, learn, NULL);
    each_row(test, cells, score, s);
    double reached = auc(s);
    if (!(reached > 0.66 && reached < best)) fail_msg("reached %.3f of %.3f", reached, best);
    free(cells);
    free(s);
}

/* ---- failures ---- */

static void nothing_half_written(void **state) {
    (void)state;
    Arena *a = arena_new();
    char *messages = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&messages, &n);
    Diag *d = diag_new(a, out);
    assert_int_equal(chdir(GOLDEN), 0);
    IrProgram *p = frontend_compile(a, d, "deepfm.ctr", NULL, 0, LIBRARY);
    assert_non_null(p);
    double best;
    assert_false(frontend_synth(p, 10, 1, "/nonexistent/log.csv", &best));
    assert_false(frontend_synth(p, 10, 1, path_of("log.csv.gz"), &best));
    assert_false(frontend_synth(p, 100000, 1, "/dev/full/x", &best));
    fclose(out);
    assert_non_null(strstr(messages, "can't write '/nonexistent/log.csv'"));
    assert_non_null(strstr(messages, "logs are written as plain text"));
    assert_int_equal(access(path_of("log.csv.gz"), F_OK), -1);
    free(messages);
    arena_free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_fit_the_columns),
        cmocka_unit_test(lists_of_one_axis_are_equally_long),
        cmocka_unit_test(labels_have_the_model_s_texts),
        cmocka_unit_test(the_seed_decides_the_bytes),
        cmocka_unit_test(what_one_log_teaches_holds_in_another),
        cmocka_unit_test(nothing_half_written),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
