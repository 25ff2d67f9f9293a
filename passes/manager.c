/* The pass manager: which passes run, in the table's order, and what is checked and printed around each. */
#include "passes/rewrite.h"
#include <stdlib.h>
#include <string.h>

enum { REQUIRED = PASS_REQUIRED, EXACT = PASS_EXACT, CHANGES = PASS_CHANGES };
const PassInfo pass_table[] = {
#define PASS(text, fn, kind, level, meaning, why_here) {text, fn, (PassKind)kind, level, meaning, why_here},
#include "passes/passes.def"
#undef PASS
};
const int pass_count = sizeof pass_table / sizeof *pass_table;

static const Span no_place = {0};

/* ---- names ---- */

static int find(const char *name, int from) {
    for (int i = from; i < pass_count; i++)
        if (!strcmp(pass_table[i].name, name)) return i;
    return -1;
}

static bool known_at(Diag *d, Span at, const char *name) {
    const char **names = ARENA_ARRAY(d->arena, const char *, pass_count);
    if (find(name, 0) >= 0) return true;
    for (int i = 0; i < pass_count; i++) names[i] = pass_table[i].name;
    diag_error(d, at, diag_did_you_mean(d, name, names, pass_count), "unknown pass '%s'", name);
    return false;
}

bool pass_known(Diag *d, const char *name) { return known_at(d, no_place, name); }

void pass_list(FILE *out) {
    static const char *const kinds[] = {"required", "exact", "changes the model"};
    for (int i = 0; i < pass_count; i++) {
        const PassInfo *x = &pass_table[i];
        fprintf(out, "%-22s %-18s -O%d  %s\n", x->name, kinds[x->kind], x->level, x->meaning);
    }
}

/* "name" of "name(args)". */
static const char *bare_name(Arena *a, const char *text) {
    return arena_strndup(a, text, strcspn(text, "("));
}

static bool last_of_name(int at) { return find(pass_table[at].name, at + 1) < 0; }

/* ---- which ones ---- */

typedef struct {
    bool on, off;
    const char *args;
    Span at; /* in the file, if that asks */
} Wish;

static Span request_place(const IrProgram *p, int number) {
    return number < p->n_request_spans ? p->request_spans[number] : no_place;
}

/* What the file, then the command line, wants of a pass; the latter wins. */
static Wish wish_for(IrProgram *p, const PassOptions *o, const char *name) {
    Wish w = {0};
    for (int i = 0; i < p->n_requests; i++) {
        PassArg *list = NULL;
        int n = 0;
        if (!pass_parse_args(p->arena, p->diag, p->requests[i] + 1, &list, &n) || n != 1 ||
            strcmp(list->name, name) != 0)
            continue;
        w = (Wish){.on = p->requests[i][0] == '+',
                   .off = p->requests[i][0] == '-',
                   .args = list->args,
                   .at = request_place(p, i)};
    }
    for (int i = 0; i < o->n_enable; i++)
        if (!strcmp(o->enable[i].name, name)) w = (Wish){.on = true, .args = o->enable[i].args};
    for (int i = 0; i < o->n_disable; i++)
        if (!strcmp(o->disable[i].name, name)) w = (Wish){.off = true};
    return w;
}

static bool request_known(IrProgram *p, int number) {
    const char *request = p->requests[number];
    Span at = request_place(p, number);
    PassArg *list = NULL;
    int n = 0;
    if (request[0] != '+' && request[0] != '-') {
        diag_error(p->diag, at, NULL, "expected '+' or '-' before a requested pass, found '%s'", request);
        return false;
    }
    p->diag->asked_at = at;
    bool reads = pass_parse_args(p->arena, p->diag, request + 1, &list, &n);
    p->diag->asked_at = no_place;
    if (!reads) return false;
    if (n == 1) return known_at(p->diag, at, list->name);
    diag_error(p->diag, at, NULL, "expected one pass in a request, found '%s'", request);
    return false;
}

/* The command line may say both, in two places of a script. */
static void note_contradictions(IrProgram *p, const PassOptions *o) {
    for (int i = 0; i < o->n_enable; i++)
        for (int k = 0; k < o->n_disable; k++)
            if (!strcmp(o->enable[i].name, o->disable[k].name))
                diag_warn(p->diag, no_place, NULL, "pass '%s' is left out: --disable=%s wins over --enable",
                          o->disable[k].name, o->disable[k].name);
}

/* Names that aren't passes, and passes that can't be left out. */
static bool check_wishes(IrProgram *p, const PassOptions *o) {
    bool ok = true;
    for (int i = 0; i < p->n_applied_spans; i++) /* where to go on from would be a guess */
        ok &= known_at(p->diag, p->applied_spans[i], bare_name(p->arena, p->applied[i]));
    for (int i = 0; i < p->n_requests; i++) ok &= request_known(p, i);
    for (int i = 0; i < o->n_enable; i++) ok &= pass_known(p->diag, o->enable[i].name);
    for (int i = 0; i < o->n_disable; i++) ok &= pass_known(p->diag, o->disable[i].name);
    for (int i = 0; i < o->n_print_before; i++)
        ok &= !strcmp(o->print_before[i], "all") || pass_known(p->diag, o->print_before[i]);
    for (int i = 0; i < o->n_print_after; i++)
        ok &= !strcmp(o->print_after[i], "all") || pass_known(p->diag, o->print_after[i]);
    for (int i = 0; ok && i < pass_count; i++)
        if (pass_table[i].kind == PASS_REQUIRED) {
            Wish w = wish_for(p, o, pass_table[i].name);
            if (!w.off) continue;
            diag_error(p->diag, w.at, NULL, "pass '%s' can't be disabled: no program compiles without it",
                       pass_table[i].name);
            ok = false;
        }
    return ok;
}

static bool wanted(const PassInfo *x, Wish w, int level) {
    if (x->kind == PASS_REQUIRED || w.on) return true;
    return !w.off && x->kind == PASS_EXACT && x->level <= level;
}

/* Where a program that has had `applied` goes on: behind the last of them. A pass is never run before one
 * that has already been, even if it was left out then. */
static int resume_at(IrProgram *p) {
    int next = 0;
    for (int i = 0; i < p->n_applied; i++) {
        int at = find(bare_name(p->arena, p->applied[i]), next);
        if (at >= 0) next = at + 1;
    }
    return next;
}

/* ---- around a pass ---- */

/* A pass that stands twice is dumped by its name where it first runs, so that what is saved is one program;
 * `all` shows every place. */
static bool listed(const char **names, int n, const char *name, bool first) {
    for (int i = 0; i < n; i++)
        if (!strcmp(names[i], "all") || (first && !strcmp(names[i], name))) return true;
    return false;
}

/* A pass by whose name a dump was asked for, but which didn't run: said, so that silence isn't taken for it.
 */
static void note_unseen(IrProgram *p, const char *option, const char **names, int n, int start,
                        const bool *ran) {
    for (int i = 0; i < n; i++) {
        bool seen = !strcmp(names[i], "all");
        for (int k = start; k < pass_count; k++) seen |= ran[k] && !strcmp(pass_table[k].name, names[i]);
        if (!seen)
            diag_warn(p->diag, no_place, NULL, "pass '%s' doesn't run here: %s=%s shows nothing", names[i],
                      option, names[i]);
    }
}

/* The text alone goes to `out`, so that it can be read again; what it is, to where messages go. */
static void dump(IrProgram *p, const PassOptions *o, const char *when, const char *name) {
    FILE *out = o->out ? o->out : stdout;
    fflush(out);
    fprintf(p->diag->out, "%s %s:\n", when, name);
    if (o->print_only)
        ir_print_only(p, o->print_only, out);
    else
        ir_print(p, out);
}

static char *text_of(const IrProgram *p, size_t *size) {
    char *text = NULL;
    FILE *f = open_memstream(&text, size);
    if (!f) {
        fputs("ctrc: error: out of memory\n", stderr);
        exit(1);
    }
    ir_print(p, f);
    fclose(f);
    return text;
}

/* print ∘ read ∘ print gives the same bytes. */
static bool reads_back(IrProgram *p, const char *name) {
    size_t n1, n2 = 0;
    char *first = text_of(p, &n1), *second = NULL;
    Arena *a = arena_new();
    Diag *d = diag_new(a, p->diag->out);
    IrProgram *again = ir_read(a, d, "after-pass.ir", first, n1);
    if (again) second = text_of(again, &n2);
    bool same = second && n1 == n2 && !memcmp(first, second, n1);
    if (!same) {
        size_t at = 0;
        int line = 1;
        while (second && at < n1 && at < n2 && first[at] == second[at]) line += first[at++] == '\n';
        diag_error(p->diag, no_place, NULL,
                   "after pass '%s': the printed program doesn't read back as it is (line %d)", name, line);
    }
    free(first);
    free(second);
    arena_free(a);
    return same;
}

static bool check(IrProgram *p, const PassOptions *o, const char *name) {
#ifdef NDEBUG
    if (!o->verify_each) return true;
#else
    (void)o;
#endif
    if (!ir_verify(p)) {
        diag_error(p->diag, no_place, NULL,
                   "the program isn't valid after pass '%s': a mistake of the compiler", name);
        return false;
    }
    return reads_back(p, name);
}

static bool run(IrProgram *p, const PassOptions *o, const PassInfo *x, const char *args) {
    int errors = p->diag->errors;
    p->settled = NULL;
    if (!x->run(p, o, args) || p->diag->errors > errors) {
        if (p->diag->errors == errors) diag_error(p->diag, no_place, NULL, "pass '%s' failed", x->name);
        return false;
    }
    if (p->settled) args = args ? arena_printf(p->arena, "%s, %s", args, p->settled) : p->settled;
    const char *record = args ? arena_printf(p->arena, "%s(%s)", x->name, args) : x->name;
    ARENA_PUSH(p->arena, p->applied, p->n_applied, p->cap_applied, record);
    ir_renumber(p);
    return check(p, o, x->name);
}

/* ---- entrances ---- */

static bool run_noted(IrProgram *p, const PassOptions *o, const PassInfo *x, const char *args,
                      const char **effect) {
    PassMeasure was = pass_measure(p);
    if (!run(p, o, x, args)) return false;
    *effect = pass_note_effect(p, x->name, was);
    return true;
}

/* Runs a pass and finds out whether it changed the program: for those that were asked for by name. */
static bool run_and_compare(IrProgram *p, const PassOptions *o, const PassInfo *x, const char *args,
                            bool *changed, const char **effect) {
    size_t before_size, after_size;
    int applied = p->n_applied, effects = p->n_effects;
    char *before = text_of(p, &before_size);
    bool ok = run_noted(p, o, x, args, effect);
    if (ok) {
        int now_applied = p->n_applied, now_effects = p->n_effects;
        p->n_applied = applied, p->n_effects = effects; /* being listed is no change */
        char *after = text_of(p, &after_size);
        p->n_applied = now_applied, p->n_effects = now_effects;
        *changed = before_size != after_size || memcmp(before, after, before_size) != 0;
        free(after);
    }
    free(before);
    return ok;
}

/* A pass that was asked for says so if it found nothing to do in any of its places in the table. One that
 * changes the model says so whenever it did. */
static bool run_asked(IrProgram *p, const PassOptions *o, int at, const char *args, bool *did) {
    const PassInfo *x = &pass_table[at];
    bool changed = false;
    const char *effect = "";
    if (!run_and_compare(p, o, x, args, &changed, &effect)) return false;
    for (int i = 0; i < pass_count; i++)
        if (!strcmp(pass_table[i].name, x->name)) did[i] |= changed;
    if (!did[at] && last_of_name(at))
        diag_warn(p->diag, no_place, NULL, "pass '%s' does not apply to this model", x->name);
    if (changed && x->kind == PASS_CHANGES)
        fprintf(p->diag->out, "applied %s, which changes the model: %s\n", p->applied[p->n_applied - 1],
                effect);
    return true;
}

static bool was_applied(const IrProgram *p, const char *name) {
    for (int i = 0; i < p->n_applied; i++)
        if (!strcmp(bare_name(p->arena, p->applied[i]), name)) return true;
    return false;
}

/* What the command line says of a pass that an .ir file is past: said, so that silence isn't taken for
 * consent. Called before any pass runs. */
static void note_past(IrProgram *p, const PassOptions *o, int start) {
    for (int i = 0; i < o->n_enable; i++) {
        const char *name = o->enable[i].name;
        if (find(name, start) >= 0) continue;
        if (was_applied(p, name))
            diag_warn(p->diag, no_place, NULL, "pass '%s' has run already: --enable=%s changes nothing", name,
                      name);
        else
            diag_warn(p->diag, no_place, NULL,
                      "pass '%s' is not run: this program is already behind where it stands, at '%s'", name,
                      p->applied[p->n_applied - 1]);
    }
    for (int i = 0; i < o->n_disable; i++) {
        const char *name = o->disable[i].name;
        if (was_applied(p, name))
            diag_warn(p->diag, no_place, NULL, "pass '%s' has run already: --disable=%s doesn't undo it",
                      name, name);
    }
}

bool pass_run_all(IrProgram *p, const PassOptions *o) {
    if (!check_wishes(p, o)) return false;
    note_contradictions(p, o);
    bool *did = ARENA_ARRAY(p->arena, bool, pass_count), *ran = ARENA_ARRAY(p->arena, bool, pass_count);
    ir_renumber(p);
    int start = resume_at(p);
    if (start == pass_count && p->batch < 1) { /* else plan-memory sees it */
        diag_error(p->diag, p->train_at.line ? p->train_at : p->text_end, NULL,
                   "expected a batch of at least 1, found %lld", (long long)p->batch);
        return false;
    }
    note_past(p, o, start);
    if (o->watch) o->watch(o->watch_context, p, NULL);
    for (int i = start; i < pass_count; i++) {
        const PassInfo *x = &pass_table[i];
        Wish w = wish_for(p, o, x->name);
        if (!wanted(x, w, o->level)) continue;
        bool first = find(x->name, start) == i;
        ran[i] = true;
        if (listed(o->print_before, o->n_print_before, x->name, first)) dump(p, o, "before", x->name);
        const char *effect;
        p->diag->asked_at = w.at;
        bool ok = w.on ? run_asked(p, o, i, w.args, did) : run_noted(p, o, x, NULL, &effect);
        p->diag->asked_at = no_place;
        if (!ok) return false;
        if (o->watch) o->watch(o->watch_context, p, x);
        if (listed(o->print_after, o->n_print_after, x->name, first)) dump(p, o, "after", x->name);
    }
    note_unseen(p, "--print-before", o->print_before, o->n_print_before, start, ran);
    note_unseen(p, "--print-after", o->print_after, o->n_print_after, start, ran);
    return true;
}

bool pass_run_one(IrProgram *p, const PassOptions *o, const char *name, const char *args) {
    if (!pass_known(p->diag, name)) return false;
    ir_renumber(p);
    return run(p, o, &pass_table[find(name, 0)], args);
}
