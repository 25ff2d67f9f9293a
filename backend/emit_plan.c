/* --emit=plan: every kernel of each function in the order in which it runs: where it comes from, its work,
 * how it is made and why, where its result stands; then totals, memory and what the predictions rest on. */
#include <inttypes.h>
#include <string.h>
#include "backend/plan_facts.h"
#include "passes/product_cost.h"

typedef struct {
    IrProgram *p;
    const PassTarget *t;
    PlanRates rates;
    const PassCosts *costs; /* NULL: none */
    FILE *out;
} Plan;

/* ---- the table ---- */

enum { COLUMNS = 12 };
static const char *const titles[COLUMNS] = {"node",   "phase", "domain", "kernel", "MFLOP", "MB",
                                            "FLOP/B", "us",    "op",     "size",   "from",  "place"};
static const bool right_aligned[COLUMNS] = {true, true, false, false, true, true, true, true};

static void fill(const Plan *plan, const IrNode *n, const char *cell[COLUMNS]) {
    Arena *a = plan->p->arena;
    IrCost c = ir_step_cost(plan->p, n);
    cell[0] = arena_printf(a, "%d", n->id);
    cell[1] = arena_printf(a, "%d", n->plan.phase);
    cell[2] = arena_printf(a, "%s/%d", plan_domain(n), n->plan.block);
    cell[3] = plan_kernel(plan->t, n);
    cell[4] = arena_printf(a, "%.3f", c.flops / 1e6);
    cell[5] = arena_printf(a, "%.3f", c.bytes / 1e6);
    cell[6] = arena_printf(a, "%.1f", c.bytes > 0 ? c.flops / c.bytes : 0);
    cell[7] = arena_printf(a, "%.1f", 1e6 * plan_seconds(&plan->rates, plan->t, n, c));
    cell[8] = plan_op(plan->p, n);
    cell[9] = plan_size(plan->p, n);
    cell[10] = plan_from(plan->p, n);
    cell[11] = plan_place(plan->p, n);
}

static void put_row(FILE *out, const char *const cell[COLUMNS], const int width[COLUMNS]) {
    for (int i = 0; i < COLUMNS; i++) {
        if (i) fputs("  ", out);
        if (i == COLUMNS - 1)
            fputs(cell[i], out);
        else
            fprintf(out, "%*s", right_aligned[i] ? width[i] : -width[i], cell[i]);
    }
    fputc('\n', out);
}

/* Columns as wide as what stands in them. Returns how many kernels there are. */
static int table(const Plan *plan, const IrBody *b) {
    const char *(*rows)[COLUMNS] = arena_alloc(plan->p->arena, sizeof *rows * (size_t)(b->n + 1));
    int n = 0, width[COLUMNS] = {0};
    memcpy(rows[n++], titles, sizeof titles);
    for (int i = 0; i < b->n; i++)
        if (ir_runs(b->nodes[i])) fill(plan, b->nodes[i], rows[n++]);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < COLUMNS; k++) {
            int size = (int)strlen(rows[i][k]);
            width[k] = size > width[k] ? size : width[k];
        }
    for (int i = 0; i < n; i++) put_row(plan->out, rows[i], width);
    return n - 1;
}

/* ---- what stands below it ---- */

/* Each way in which a product is made here, and why. */
static void choices(const Plan *plan, const IrBody *b) {
    const char *told[8];
    int n = 0;
    for (int i = 0; i < b->n; i++) {
        if (!ir_runs(b->nodes[i])) continue;
        const char *made = plan_kernel(plan->t, b->nodes[i]),
                   *why = plan_why(plan->p->arena, plan->t, b->nodes[i]);
        bool known = !*why;
        for (int k = 0; k < n; k++) known |= told[k] == made;
        if (known) continue;
        if (n < 8) told[n++] = made;
        fprintf(plan->out, "  %s: %s\n", made, why);
    }
}

/* Why the figures led to this kernel, where they don't say it by themselves. */
static const char *why_not_faster(const PassProduct *s, const PassCost *c, const char *made) {
    bool is_library = !strcmp(made, "library");
    if (pass_library_wins(s, 1 / c->tile, 1 / c->library) != is_library)
        return ", by schedule's arguments or weighed with the other products";
    if (is_library || c->library <= c->tile) return "";
    return s->grad ? ", as the library isn't a fifth faster" : ", as the library isn't a tenth faster";
}

/* What each product was measured to cost, and what followed. */
static void measured(const Plan *plan, const IrFunc *f) {
    Arena *a = plan->p->arena;
    const char **told = ARENA_ARRAY(a, const char *, f->body.n + 1);
    int n = 0;
    for (int i = 0; i < f->body.n; i++) {
        PassProduct s;
        const IrNode *node = f->body.nodes[i];
        if (!ir_runs(node) || !pass_product(plan->p, f, node, node->plan.block, &s)) continue;
        const char *key = pass_product_key(a, &s), *made = plan_kernel(plan->t, node);
        const PassCost *c = pass_cost(plan->costs, key);
        bool known = false;
        for (int k = 0; k < n; k++) known |= !strcmp(told[k], key);
        if (known) continue;
        told[n++] = key;
        if (c)
            fprintf(plan->out, "  measured: %s: tile %.1f GFLOP/s, library %.1f: %s%s\n", key, c->tile,
                    c->library, made, why_not_faster(&s, c, made));
        else
            fprintf(plan->out, "  not measured: %s: %s\n", key, made);
    }
}

/* Tables whose unique rows take as much are told in one line. */
static void unique_rows(const Plan *plan, const IrFunc *f) {
    const IrProgram *p = plan->p;
    for (int i = 0; f->uniq_elems && i < p->n_weights; i++) {
        bool told = !f->uniq_elems[i];
        for (int k = 0; k < i; k++) told |= f->uniq_elems[k] == f->uniq_elems[i];
        if (told) continue;
        fprintf(plan->out, "  memory: %" PRId64 " B a unique row of", 4 * f->uniq_elems[i]);
        for (int k = i; k < p->n_weights; k++)
            if (f->uniq_elems[k] == f->uniq_elems[i]) fprintf(plan->out, " @%s", p->weights[k].name);
        fputc('\n', plan->out);
    }
}

/* An arena's size beside the least that any placement needs; those of tables are told together. */
static void arena_line(const Plan *plan, const PlanArena *a, int64_t scratch) {
    if (a->region == REGION_UNIQ) return;
    const char *list = a->index < 0 ? NULL : plan->p->axes[a->index].name;
    double size = (double)a->size / 1024, live = (double)a->live / 1024;
    if (a->region == REGION_FIXED)
        fprintf(plan->out,
                "  memory: fixed %.1f KiB (at least %.1f live at once), scratch %.1f KiB a thread\n", size,
                live, (double)scratch / 1024);
    else if (a->region == REGION_LOCAL && !list)
        fprintf(plan->out, "  memory: %.1f KiB a thread for a block of rows (at least %.1f live at once)\n",
                size, live);
    else
        fprintf(plan->out,
                "  memory: %" PRId64 " B a position of ~%s%s (at least %" PRId64 " live at once)\n", a->size,
                list, a->region == REGION_LOCAL ? " of a thread's block of rows" : "", a->live);
}

static void memory(const Plan *plan, const IrFunc *f) {
    const IrProgram *p = plan->p;
    int64_t scratch = 0;
    for (int i = 0; i < f->body.n; i++) {
        if (!ir_runs(f->body.nodes[i])) continue;
        int64_t need = emit_scratch(p, plan->t, f->body.nodes[i]);
        scratch = need > scratch ? need : scratch;
    }
    int n;
    const PlanArena *all = plan_arenas(p, f, &n);
    for (int i = 0; i < n; i++) arena_line(plan, &all[i], scratch);
    unique_rows(plan, f);
}

static void function(const Plan *plan, const IrFunc *f) {
    IrWork sum = ir_func_work(plan->p, f);
    double seconds = 0;
    fprintf(plan->out, "func %s\n", f->name);
    int kernels = table(plan, &f->body);
    for (int i = 0; i < f->body.n; i++) {
        const IrNode *n = f->body.nodes[i];
        if (ir_runs(n)) seconds += plan_seconds(&plan->rates, plan->t, n, ir_step_cost(plan->p, n));
    }
    fprintf(plan->out,
            "  total: %d kernels in %d phases, %.1f MFLOP and %.1f MB, about %.2f ms on one thread, "
            "a step of %" PRId64 " rows\n",
            kernels, sum.phases, sum.flops / 1e6, sum.bytes / 1e6, 1e3 * seconds, plan->p->batch);
    choices(plan, &f->body);
    if (plan->costs) measured(plan, f);
    memory(plan, f);
    fputc('\n', plan->out);
}

static void weights(const Plan *plan) {
    const IrProgram *p = plan->p;
    double dense = 0, tables = 0;
    for (int i = 0; i < p->n_weights; i++) {
        const IrWeight *w = &p->weights[i];
        *(w->sparse ? &tables : &dense) += plan_weight_bytes(w) + plan_slot_bytes(p, w);
    }
    fprintf(plan->out,
            "weights with optimizer slots: %.1f MiB dense, tables up to %.1f MiB, stored as rows are met\n",
            dense / 1048576, tables / 1048576);
    for (int i = 0; i < p->n_effects; i++) fprintf(plan->out, "%s\n", p->effects[i]);
}

/* What can't be known before data comes, and what was taken instead. */
static void assumptions(const Plan *plan) {
    const IrProgram *p = plan->p;
    fprintf(plan->out, "work: of a whole batch of %" PRId64 " rows, each with a row of its own in each table",
            p->batch);
    for (int i = 0; i < p->n_axes; i++) {
        bool known;
        int64_t n = ir_positions(p, i, &known);
        fprintf(plan->out, ", ~%s %" PRId64 " %s a row%s", p->axes[i].name, n,
                n == 1 ? "position" : "positions", known ? " (its maximum)" : " (no maximum is declared)");
    }
    fprintf(plan->out,
            "\ntime: arithmetic or bytes, whichever takes longer, at %.0f GFLOP/s, %.0f GB/s in cache, "
            "%.0f GB/s in memory; %s\n",
            plan->rates.flops / 1e9, plan->rates.cache_bytes / 1e9, plan->rates.memory_bytes / 1e9,
            plan->rates.source);
    if (plan->costs) fprintf(plan->out, "products: %s\n", plan->costs->source);
}

bool backend_emit_plan(IrProgram *p, const char *march, const PassCosts *costs, FILE *out) {
    EmitTarget t;
    if (!emit_target(p->diag, p->arena, march, &t)) return false;
    Plan plan = {p, &t.pass, plan_rates(p->arena, &t, march), costs, out};
    for (int i = 0; i < p->n_funcs; i++) function(&plan, p->funcs[i]);
    weights(&plan);
    assumptions(&plan);
    return true;
}
