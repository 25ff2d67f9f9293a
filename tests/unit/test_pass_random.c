/* 300 random graphs through all passes, 10,000 if CTRC_NIGHTLY is set. After each pass the program must be
 * valid, read back from its own text unchanged, and compute what it computed before: predictions, losses, and
 * the weights and slots after two steps of training. CTRC_RANDOM_SEED=n runs graph n alone and prints it
 * before a pass that goes wrong.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "tests/unit/pass_fixture.h"
#include "tests/unit/random_graph.h"

/* ---- what a program computes ---- */

typedef struct {
    double *v;
    int n, cap;
    bool ok;
} Results;

static void add(Arena *a, Results *r, double v) { ARENA_PUSH(a, r->v, r->n, r->cap, v); }

static void run(Arena *a, Results *r, Interp *it, IrProgram *p, const char *name, uint64_t seed,
                bool losses) {
    static const int64_t h[] = {0, 2, 2, 5, 6, 9}, k[] = {0, 0, 3, 4, 7, 7};
    FxBatch f;
    r->ok = r->ok && interp_run(it, name, fx_batch(&f, seed, 5, h, k));
    if (!r->ok) return;
    if (losses) add(a, r, interp_loss(it));
    IrBody *b = &ir_func(p, name)->body;
    for (int i = 0; i < b->n; i++) {
        if (b->nodes[i]->op != OP_PREDICT && b->nodes[i]->op != OP_METRIC) continue;
        const InterpValue *v = interp_value(it, b->nodes[i]->in[0]);
        for (int64_t e = 0; e < v->count * v->size; e++) add(a, r, v->v[e]);
    }
}

static Results results(Arena *a, IrProgram *p) {
    Results r = {.ok = true};
    Interp *it = interp_new(p, 3);
    fx_fill(it, p, 0.5);
    if (ir_func(p, "model"))
        run(a, &r, it, p, "model", 1, true);
    else {
        run(a, &r, it, p, "train", 1, true);
        run(a, &r, it, p, "train", 2, true);
        run(a, &r, it, p, "eval", 3, true);
        run(a, &r, it, p, "predict", 3, false);
        for (int w = 0; w < p->n_weights; w++) {
            int64_t size = 1;
            const char *names[3];
            int slots =
                p->weights[w].optimizer >= 0 ? ir_opt_slots(&p->opts[p->weights[w].optimizer], names) : 0;
            for (int i = 0; i < p->weights[w].rank; i++) size *= p->weights[w].dim[i];
            for (int s = -1; s < slots; s++)
                for (int64_t i = 0; i < size; i++)
                    add(a, &r, s < 0 ? interp_weight(it, w)[i] : interp_slot(it, w, s)[i]);
        }
    }
    interp_free(it);
    return r;
}

static bool all_finite(const Results *r) {
    for (int i = 0; i < r->n; i++)
        if (!isfinite(r->v[i])) return false;
    return true;
}

static bool same(const Results *a, const Results *b) {
    if (!a->ok || !b->ok || a->n != b->n) {
        fprintf(stderr, "%d results, then %d\n", a->n, b->n);
        return false;
    }
    for (int i = 0; i < a->n; i++)
        if (fabs(a->v[i] - b->v[i]) > 1e-9 * (1 + fabs(a->v[i]))) {
            fprintf(stderr, "result %d of %d: %.15g, then %.15g\n", i, a->n, a->v[i], b->v[i]);
            return false;
        }
    return true;
}

/* ---- the test ---- */

static FILE *nowhere; /* /dev/null */
static int skipped, applied_passes;
static int reductions, attentions, several; /* graphs in which fuse made such regions, or several results */
static int rewrote[32];                     /* by place in the pass table: graphs that it changed */

static char *text_of(IrProgram *p) {
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    int applied = p->n_applied;
    p->n_applied = 0;
    ir_print(p, f);
    p->n_applied = applied;
    fclose(f);
    return text;
}

static int count_op(const IrFunc *f, IrOp op) {
    int n = 0;
    for (int i = 0; f && i < f->body.n; i++) n += f->body.nodes[i]->op == op;
    return n;
}

static bool has_op(const IrProgram *p, IrOp op) {
    for (int f = 0; f < p->n_funcs; f++)
        if (count_op(p->funcs[f], op)) return true;
    return false;
}

/* What a pass is asked for: on one graph this, on the next that. Blocks of two rows make sums over the five
 * rows of a batch sums of three blocks. */
static const char *asked_for(const char *pass, uint64_t seed) {
    static const char *const recurrent[] = {NULL, "light,layers=*", "layers=*", "tied=true"};
    if (!strcmp(pass, "gru-to-sru")) return recurrent[seed % 4];
    if (!strcmp(pass, "schedule")) return seed % 2 ? "rows=2" : NULL;
    return !strcmp(pass, "micro-batch") ? "n=3" : NULL;
}

/* A pass that changes the model, on a copy: what it makes must be valid, and train. Micro-batches change
 * nothing but batch normalisation. */
static bool changes_the_model(Arena *a, Diag *d, IrProgram *p, const PassOptions *o, int pass,
                              uint64_t seed) {
    IrProgram *other = fx_copy(a, d, p);
    bool blocks = !strcmp(pass_table[pass].name, "micro-batch");
    Results was = results(a, other);
    char *before = text_of(other);
    FILE *loud = d->out;
    d->out = nowhere; /* what a pass remarks about a graph */
    bool ok = pass_run_one(other, o, pass_table[pass].name, asked_for(pass_table[pass].name, seed));
    d->out = loud;
    char *after = text_of(other);
    rewrote[pass] += strcmp(before, after) != 0;
    applied_passes++;
    free(before);
    free(after);
    Results now = results(a, other);
    ok = ok && now.ok && (!blocks || has_op(other, OP_BNSTATS) || same(&was, &now));
    if (ir_func(other, "model")) ok = ok && pass_run_one(other, o, "differentiate", NULL);
    return ok && results(a, other).ok;
}

/* All passes in order on one program; each must leave the results as they were. differentiate is compared
 * with itself on a program that no pass has touched: gradients have a test of their own. */
static bool through_all(uint64_t seed, bool loud) {
    Arena *a = arena_new();
    Diag *d = diag_new(a, stderr);
    PassOptions o = {.level = 2, .verify_each = true, .target = {8, 16, 32768, 524288, true}, .out = stderr};
    IrProgram *p = random_program(a, d, seed), *plain = fx_copy(a, d, p);
    bool ok = ir_verify(p) && plain && pass_run_one(plain, &o, "differentiate", NULL);
    Results forward = results(a, p), trained = ok ? results(a, plain) : (Results){0};
    if (ok && (!all_finite(&forward) || !all_finite(&trained))) {
        skipped++;
        arena_free(a);
        return true;
    }
    for (int i = 0; ok && i < pass_count; i++) {
        if (pass_table[i].kind == PASS_CHANGES) {
            ok = changes_the_model(a, d, p, &o, i, seed);
            if (!ok)
                fprintf(stderr, "graph %llu: wrong after %s\n", (unsigned long long)seed, pass_table[i].name);
            continue;
        }
        char *before = text_of(p);
        int onehots = count_op(ir_func(p, "model"), OP_ONEHOT);
        if (!loud) d->out = nowhere; /* notes */
        ok = pass_run_one(p, &o, pass_table[i].name, asked_for(pass_table[i].name, seed));
        d->out = stderr;
        char *after = text_of(p);
        rewrote[i] += strcmp(before, after) != 0;
        if (!strcmp(pass_table[i].name, "fuse")) {
            reductions += strstr(after, "{kind=\"reduce\"}") != NULL;
            attentions += strstr(after, "{kind=\"attention\"}") != NULL;
            several += strstr(after, " = result ") != NULL;
        }
        applied_passes++;
        Results now = ok ? results(a, p) : (Results){0};
        if (!strcmp(pass_table[i].name, "differentiate")) /* gradients need no one-hot of their own */
            ok = ok && count_op(ir_func(p, "train"), OP_ONEHOT) <= onehots;
        ok = ok && same(ir_func(p, "model") ? &forward : &trained, &now);
        if (!ok)
            fprintf(stderr, "graph %llu: wrong after %s\n", (unsigned long long)seed, pass_table[i].name);
        if (!ok && loud) fprintf(stderr, "before:\n%s\nafter:\n%s\n", before, after);
        free(before);
        free(after);
    }
    arena_free(a);
    return ok;
}

static void test_random_graphs(void **state) {
    int graphs = getenv("CTRC_NIGHTLY") ? 10000 : 300, wrong = 0;
    (void)state;
    nowhere = fopen("/dev/null", "w");
    assert_non_null(nowhere);
    const char *only = getenv("CTRC_RANDOM_SEED");
    if (only) {
        assert_true(through_all(strtoull(only, NULL, 10), true));
        return;
    }
    for (uint64_t seed = 1; seed <= (uint64_t)graphs; seed++) wrong += !through_all(seed, false);
    assert_int_equal(wrong, 0);
    assert_true(skipped < graphs / 10);
    for (int i = 0; i < pass_count; i++)
        if (rewrote[i] < graphs / 10)
            fail_msg("%s changed only %d of %d graphs", pass_table[i].name, rewrote[i], graphs);
    if (reductions < graphs / 3 || attentions < graphs / 20 || several < graphs / 10)
        fail_msg("fuse made reductions in %d, attention in %d and several results in %d of %d graphs",
                 reductions, attentions, several, graphs);
    print_message("%d graphs, %d of them skipped; %d runs of passes\n", graphs, skipped, applied_passes);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_graphs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
