/* The head of IR text: everything before the functions, one line an item. The order of sections, and of
 * properties in a line, is fixed, and a property with its default value is left out; so that equal programs
 * have equal text. The syntax is described in README.md, read.c reads it. */
#include "ir/print.h"
#include <math.h>
#include <string.h>

/* ---- files ---- */

static DiagFile file_of(const IrProgram *p, Span at) {
    return p->diag && at.file < p->diag->n_files ? p->diag->files[at.file] : (DiagFile){.path = ""};
}

static int listed(const IrPrinter *pr, const char *path) {
    for (int i = 0; i < pr->n_files; i++)
        if (strcmp(pr->files[i].path, path) == 0) return i;
    return -1;
}

static void list_file(IrPrinter *pr, Span at) {
    DiagFile f = file_of(pr->p, at);
    if (at.line > 0 && listed(pr, f.path) < 0)
        ARENA_PUSH(pr->p->arena, pr->files, pr->n_files, pr->cap_files, f);
}

static void list_files_of_body(IrPrinter *pr, const IrBody *b) {
    for (int i = 0; i < b->n; i++) {
        list_file(pr, b->nodes[i]->span);
        if (b->nodes[i]->body) list_files_of_body(pr, b->nodes[i]->body);
    }
}

void ir_printer_init(IrPrinter *pr, const IrProgram *p, FILE *out) {
    *pr = (IrPrinter){.p = p, .out = out};
    for (int i = 0; i < p->n_axes; i++) list_file(pr, p->axes[i].span);
    for (int i = 0; i < p->input.n_columns; i++) list_file(pr, p->input.columns[i].span);
    for (int i = 0; i < p->n_vocabs; i++) list_file(pr, p->vocabs[i].span);
    for (int i = 0; i < p->n_opts; i++) list_file(pr, p->opts[i].span);
    for (int i = 0; i < p->n_weights; i++) list_file(pr, p->weights[i].span);
    for (int i = 0; i < p->n_funcs; i++) list_files_of_body(pr, &p->funcs[i]->body);
}

void ir_put_span(IrPrinter *pr, Span at) {
    if (at.line == 0) return;
    int file = listed(pr, file_of(pr->p, at).path);
    fputs(" @", pr->out);
    if (file > 0) fprintf(pr->out, "%d/", file);
    fprintf(pr->out, "%u:%u-%u:%u", at.line, at.col, at.end_line, at.end_col);
}

/* ---- pieces of a line ---- */

static void put_cstring(FILE *out, const char *s) { ir_put_string(out, s, strlen(s)); }

static void put_char(FILE *out, const char *key, char c) {
    fprintf(out, " %s=", key);
    ir_put_string(out, &c, c ? 1 : 0);
}

static void put_text(FILE *out, const char *key, const char *s) {
    if (!s) return;
    fprintf(out, " %s=", key);
    put_cstring(out, s);
}

static void put_flag(FILE *out, const char *key, bool set) {
    if (set) fprintf(out, " %s", key);
}

static void put_int(FILE *out, const char *key, int64_t v, int64_t fallback) {
    if (v != fallback) fprintf(out, " %s=%lld", key, (long long)v);
}

static void put_double(FILE *out, const char *key, double v) {
    char buf[32];
    if (v != 0 || signbit(v)) fprintf(out, " %s=%s", key, ir_double_text(v, buf));
}

static void put_strings(FILE *out, const char *key, const char *const *s, int n) {
    if (n == 0) return;
    fprintf(out, " %s=[", key);
    for (int i = 0; i < n; i++) {
        if (i) fputs(", ", out);
        put_cstring(out, s[i]);
    }
    fputc(']', out);
}

/* ---- sections ---- */

static void put_identity(IrPrinter *pr) {
    const IrProgram *p = pr->p;
    fputs("ctrc-ir 1\n", pr->out);
    if (p->name) fputs("model ", pr->out), ir_put_name(pr->out, p->name), fputc('\n', pr->out);
    if (p->source) fputs("source ", pr->out), put_cstring(pr->out, p->source), fputc('\n', pr->out);
    fprintf(pr->out, "digest 0x%016llx\n", (unsigned long long)p->digest);
    for (int i = 0; i < pr->n_files; i++) {
        fprintf(pr->out, "file %d ", i);
        put_cstring(pr->out, pr->files[i].path);
        put_flag(pr->out, "library", pr->files[i].library);
        fputc('\n', pr->out);
    }
    for (int i = 0; i < p->n_params; i++) {
        char buf[32];
        fputs("param ", pr->out);
        ir_put_name(pr->out, p->params[i].name);
        fputs(" = ", pr->out);
        if (p->params[i].is_string)
            put_cstring(pr->out, p->params[i].str);
        else
            fputs(ir_double_text(p->params[i].num, buf), pr->out);
        fputc('\n', pr->out);
    }
}

static void put_column(IrPrinter *pr, const IrColumn *c) {
    static const char *const kinds[] = {"label", "string", "int", "float", "skip"};
    char buf[32];
    FILE *out = pr->out;
    fputs("column ", out);
    ir_put_name(out, c->name ? c->name : "_");
    fprintf(out, " %s", kinds[c->kind]);
    put_int(out, "skip", c->skip, 0);
    if (c->is_list) put_char(out, "list", c->list_sep);
    if (c->axis >= 0) fputs(" axis=", out), ir_put_axis(pr->p, out, c->axis);
    if (c->has_default) {
        fputs(" default=", out);
        if (c->kind == COL_STRING)
            ir_put_string(out, c->default_str, (size_t)c->default_len);
        else
            fputs(ir_double_text(c->default_num, buf), out);
    }
    put_text(out, "positive", c->positive);
    put_text(out, "negative", c->negative);
    put_text(out, "from", c->from);
    put_int(out, "side", c->side, 0);
    put_flag(out, "used", c->used);
    put_flag(out, "used_predict", c->used_predict);
    put_flag(out, "unit_label", c->unit_label);
    ir_put_span(pr, c->span);
    fputc('\n', out);
}

static void put_input(IrPrinter *pr) {
    static const char *const kinds[] = {"csv", "tsv", "libsvm", "libffm"};
    const IrInput *in = &pr->p->input;
    fprintf(pr->out, "input %s", kinds[in->kind]);
    put_char(pr->out, "separator", in->separator);
    if (in->quote) put_char(pr->out, "quote", in->quote);
    put_flag(pr->out, "header", in->header);
    put_flag(pr->out, "trim", in->trim);
    put_strings(pr->out, "missing", in->missing, in->n_missing);
    put_text(pr->out, "beside", in->beside);
    fputc('\n', pr->out);
    for (int i = 0; i < in->n_columns; i++) put_column(pr, &in->columns[i]);
}

static void put_axis(IrPrinter *pr, const IrAxis *x) {
    fputs("axis ", pr->out);
    ir_put_name(pr->out, x->name);
    fprintf(pr->out, " %s", ir_axis_kinds[x->kind]);
    if (x->parent >= 0) fputs(" parent=", pr->out), ir_put_axis(pr->p, pr->out, x->parent);
    put_int(pr->out, "max", x->max, 0);
    put_flag(pr->out, "shared", x->shared);
    ir_put_span(pr, x->span);
    fputc('\n', pr->out);
}

static void put_vocab(IrPrinter *pr, const IrVocab *v, int number) {
    fprintf(pr->out, "vocab %d", number);
    put_text(pr->out, "path", v->path);
    fprintf(pr->out, " digest=0x%016llx", (unsigned long long)v->digest);
    if (!v->path) {
        fputs(" values=[", pr->out);
        for (int64_t i = 0; i < v->n; i++) {
            if (i) fputs(", ", pr->out);
            ir_put_string(pr->out, v->values[i], (size_t)v->lens[i]);
        }
        fputc(']', pr->out);
    }
    ir_put_span(pr, v->span);
    fputc('\n', pr->out);
}

static void put_numbers(FILE *out, const double *v, int n) {
    char buf[32];
    fputc('[', out);
    for (int i = 0; i < n; i++) fprintf(out, "%s%s", i ? ", " : "", ir_double_text(v[i], buf));
    fputc(']', out);
}

static void put_schedule(FILE *out, const IrSched *s) {
    char a[32], b[32], c[32];
    switch (s->kind) {
    case SCHED_CONST: fputs(ir_double_text(s->lr, a), out); break;
    case SCHED_EXPONENTIAL:
        fprintf(out, "exponential(%s, %s, %s)", ir_double_text(s->lr, a), ir_double_text(s->rate, b),
                ir_double_text(s->every, c));
        break;
    case SCHED_COSINE:
        fprintf(out, "cosine(%s, %s, %s)", ir_double_text(s->lr, a), ir_double_text(s->steps, b),
                ir_double_text(s->end, c));
        break;
    case SCHED_PIECEWISE:
        fputs("piecewise(", out);
        put_numbers(out, s->at, s->n);
        fputs(", ", out);
        put_numbers(out, s->values, s->n + 1);
        fputc(')', out);
        break;
    case SCHED_WARMUP:
        fprintf(out, "warmup(%s, ", ir_double_text(s->steps, a));
        put_schedule(out, s->then);
        fputc(')', out);
        break;
    }
}

static void put_optimizer(IrPrinter *pr, const IrOptimizer *o, int number) {
    FILE *out = pr->out;
    fprintf(out, "optimizer %d %s lr=", number, ir_opt_name(o->kind));
    put_schedule(out, &o->lr);
    put_double(out, "clip_norm", o->clip_norm);
    put_double(out, "l2", o->l2);
    put_double(out, "momentum", o->momentum);
    put_double(out, "init", o->init);
    put_double(out, "rate", o->rate);
    put_double(out, "every", o->every);
    put_double(out, "beta1", o->beta1);
    put_double(out, "beta2", o->beta2);
    put_double(out, "eps", o->eps);
    put_double(out, "rho", o->rho);
    put_double(out, "l1_ftrl", o->l1_ftrl);
    put_double(out, "l2_ftrl", o->l2_ftrl);
    put_flag(out, "exact", o->exact);
    put_strings(out, "for", o->targets, o->n_targets);
    ir_put_span(pr, o->span);
    fputc('\n', out);
}

static void put_weight(IrPrinter *pr, const IrWeight *w) {
    char buf[32];
    FILE *out = pr->out;
    fputs("weight ", out);
    ir_put_name(out, w->name);
    fputs(" [", out);
    for (int i = 0; i < w->rank; i++) fprintf(out, "%s%lld", i ? "," : "", (long long)w->dim[i]);
    fprintf(out, "] %s", ir_init_name(w->init));
    if (w->init_arg != 0 || signbit(w->init_arg)) fprintf(out, "(%s)", ir_double_text(w->init_arg, buf));
    put_flag(out, "trainable", w->trainable);
    put_flag(out, "table", w->table);
    put_flag(out, "lazy", w->lazy);
    put_flag(out, "running", w->running);
    put_flag(out, "sparse", w->sparse);
    put_int(out, "optimizer", w->optimizer, -1);
    put_int(out, "own_optimizer", w->own_optimizer, -1);
    ir_put_span(pr, w->span);
    fputc('\n', out);
}

static void put_training(IrPrinter *pr) {
    const IrProgram *p = pr->p;
    fprintf(pr->out, "train batch=%lld epochs=%lld steps=%lld shuffle=%lld seed=%lld\n", (long long)p->batch,
            (long long)p->epochs, (long long)p->steps, (long long)p->shuffle, (long long)p->seed);
    for (int i = 0; i < p->n_requests; i++)
        fputs("request ", pr->out), put_cstring(pr->out, p->requests[i]), fputc('\n', pr->out);
    for (int i = 0; i < p->n_applied; i++)
        fputs("applied ", pr->out), put_cstring(pr->out, p->applied[i]), fputc('\n', pr->out);
    for (int i = 0; i < p->n_effects; i++)
        fputs("effect ", pr->out), put_cstring(pr->out, p->effects[i]), fputc('\n', pr->out);
}

void ir_print(const IrProgram *p, FILE *out) {
    IrPrinter pr;
    ir_printer_init(&pr, p, out);
    put_identity(&pr);
    for (int i = 0; i < p->n_axes; i++) put_axis(&pr, &p->axes[i]);
    put_input(&pr);
    for (int i = 0; i < p->n_vocabs; i++) put_vocab(&pr, &p->vocabs[i], i);
    for (int i = 0; i < p->n_opts; i++) put_optimizer(&pr, &p->opts[i], i);
    for (int i = 0; i < p->n_weights; i++) put_weight(&pr, &p->weights[i]);
    put_training(&pr);
    for (int i = 0; i < p->n_funcs; i++) ir_put_func(&pr, p->funcs[i]);
}
