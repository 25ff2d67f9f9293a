/* What a pass did to the work of a step, in one line of IrProgram.effects:
 *
 *   split-concat: 1 product split; func model, 12 to 15 ops, 590.8 to 299.9 MFLOP, 60 to 38.5 MB
 *   plan-memory: func train, 208 ops, 3338 MFLOP, 86.7 MB, fixed 14.2 KiB (at least 14 live at once), 5 KiB
 *     a thread for a block of rows
 *
 * A pass says in words what only it knows (pass_effect); what the work was before and is behind it is
 * measured here, for all passes alike, as ir_step_cost estimates a step of a whole batch. Of func model, and
 * from differentiate on of func train, which has the gradients and updates too. */
#include "passes/rewrite.h"
#include <stdarg.h>
#include <string.h>

void pass_effect(IrProgram *p, const char *pass, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    const char *line = arena_printf(p->arena, "%s: %s", pass, arena_vprintf(p->arena, fmt, args));
    va_end(args);
    ARENA_PUSH(p->arena, p->effects, p->n_effects, p->cap_effects, line);
}

const char *pass_count_text(IrProgram *p, int n, const char *what) {
    return arena_printf(p->arena, "%d %s%s", n, what, n == 1 ? "" : "s");
}

/* The function that stands for the program: "train", "model", or the only ones that a file has. */
static const IrFunc *main_func(const IrProgram *p) {
    const IrFunc *train = ir_func(p, "train");
    return train || !p->n_funcs ? train : p->funcs[0];
}

PassMeasure pass_measure(const IrProgram *p) {
    const IrFunc *f = main_func(p);
    PassMeasure m = {.n_effects = p->n_effects};
    if (!f) return m;
    m.func = f->name;
    m.work = ir_func_work(p, f);
    m.fixed = f->fixed_bytes;
    m.lower = f->lower_bytes;
    m.local = f->local_bytes;
    return m;
}

/* ---- the line ---- */

/* Four digits, and none that stands for a power of ten. */
static const char *number(Arena *a, double x) { return arena_printf(a, x < 1000 ? "%.4g" : "%.0f", x); }

/* "12 to 15", or "15" where nothing changed that could be seen. */
static const char *change(Arena *a, double was, double is) {
    const char *x = number(a, was), *y = number(a, is);
    return strcmp(x, y) ? arena_printf(a, "%s to %s", x, y) : y;
}

static const char *work_text(Arena *a, const PassMeasure *was, const PassMeasure *is) {
    const IrWork *x = &was->work, *y = &is->work;
    bool same = !strcmp(was->func, is->func);
    return arena_printf(a, "func %s%s%s, %s ops, %s MFLOP, %s MB", was->func, same ? "" : " to ",
                        same ? "" : is->func, change(a, x->ops, y->ops),
                        change(a, x->flops / 1e6, y->flops / 1e6), change(a, x->bytes / 1e6, y->bytes / 1e6));
}

static const char *plan_text(Arena *a, const PassMeasure *was, const PassMeasure *is) {
    const char *text = "";
    if (is->work.phases != was->work.phases)
        text = arena_printf(a, ", %d phases, %d barriers", is->work.phases, is->work.barriers);
    if (is->fixed != was->fixed || is->lower != was->lower)
        text = arena_printf(a, "%s, fixed %s KiB (at least %s live at once)", text,
                            number(a, (double)is->fixed / 1024), number(a, (double)is->lower / 1024));
    if (is->local != was->local)
        text = arena_printf(a, "%s, %s KiB a thread for a block of rows", text,
                            number(a, (double)is->local / 1024));
    return text;
}

/* What the pass itself said since `was`, its name left away; these lines leave the program. */
static const char *take_words(IrProgram *p, const char *pass, const PassMeasure *was) {
    const char *words = "";
    for (int i = was->n_effects; i < p->n_effects; i++)
        words = arena_printf(p->arena, "%s%s; ", words, p->effects[i] + strlen(pass) + 2);
    p->n_effects = was->n_effects;
    return words;
}

static const char unchanged[] = " as before";

static bool ends_in(const char *s, const char *end) {
    size_t n = strlen(s), m = strlen(end);
    return n >= m && !strcmp(s + n - m, end);
}

bool pass_changed_model(const IrProgram *p, const char *applied) {
    size_t n = strcspn(applied, "(");
    bool changes = false;
    for (int i = 0; i < pass_count; i++)
        changes |= pass_table[i].kind == PASS_CHANGES && strlen(pass_table[i].name) == n &&
                   !strncmp(pass_table[i].name, applied, n);
    for (int i = 0; i < p->n_effects; i++)
        if (!strncmp(p->effects[i], applied, n) && p->effects[i][n] == ':' &&
            ends_in(p->effects[i], unchanged))
            changes = false;
    return changes;
}

const char *pass_note_effect(IrProgram *p, const char *pass, PassMeasure was) {
    PassMeasure is = pass_measure(p);
    const char *words = take_words(p, pass, &was);
    if (!was.func || !is.func) return "";
    const char *work = work_text(p->arena, &was, &is), *plan = plan_text(p->arena, &was, &is);
    bool same = !*words && !*plan && !strstr(work, " to ");
    const char *text = arena_printf(p->arena, "%s%s%s%s", words, work, plan, same ? unchanged : "");
    pass_effect(p, pass, "%s", text);
    return text;
}
