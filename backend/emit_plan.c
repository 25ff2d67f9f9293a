/* --emit=plan: every kernel of each function in the order in which it runs: where it comes from, its work,
 * how it is made and why, where its result stands; then totals and memory.
 *
 * Work is for a step of a whole batch. How long lists are and how many rows of a table differ is only known
 * when data comes, so a position and a unique row are counted once a row. */
#include <inttypes.h>
#include <string.h>
#include "backend/emit.h"

static const char *const domains[] = {"", "rows", "uniq", "tiles", "one"};

static bool runs(const IrNode *n) { return n->plan.domain != DOM_NONE && ir_ops[n->op].cls != CLASS_ROOT; }

/* How often the node's work is done: as often as the finest of its result and operands lives. */
static IrLive finest(const IrNode *n) {
    IrLive live = n->type.elem == TY_NONE ? LIVE_STEP : n->type.live;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i]->type.elem == TY_F32 && n->in[i]->type.live > live) live = n->in[i]->type.live;
    return live;
}

static double times(const IrProgram *p, const IrNode *n) {
    return finest(n) >= LIVE_ROW ? (double)p->batch : 1;
}

static double elements(const IrProgram *p, const IrNode *n) {
    double size = n->type.elem == TY_NONE ? 0 : (double)ir_type_size(n->type);
    return n->type.live >= LIVE_ROW ? size * (double)p->batch : size;
}

/* Bytes of a step: operands once and the result once; of a table or a whole gradient only the rows at hand.
 */
static double moved(const IrProgram *p, const IrNode *n) {
    if (ir_ops[n->op].cls == CLASS_TAB) return ir_cost(p, n).bytes * times(p, n);
    double sum = elements(p, n);
    for (int i = 0; i < n->n_in; i++) sum += elements(p, n->in[i]);
    return 4 * sum;
}

static const char *where(const IrProgram *p, const IrNode *n) {
    const Diag *d = p->diag;
    if (!n->span.line || n->span.file >= d->n_files) return "-";
    const char *path = d->files[n->span.file].path, *slash = strrchr(path, '/');
    return arena_printf(p->arena, "%s:%u", slash ? slash + 1 : path, n->span.line);
}

static const char *place(const IrProgram *p, const IrNode *n) {
    switch (n->plan.region) {
    case REGION_FIXED: return arena_printf(p->arena, "fixed+%" PRId64, n->plan.offset);
    case REGION_AXIS:
        return arena_printf(p->arena, "~%s+%" PRId64, p->axes[n->type.axis].name, n->plan.offset);
    case REGION_UNIQ:
        return arena_printf(p->arena, "@%s+%" PRId64, p->weights[n->type.axis].name, n->plan.offset);
    default: return "-";
    }
}

static const char *op_text(const IrProgram *p, const IrNode *n) {
    if (n->op != OP_FUSED) return ir_ops[n->op].text;
    const char *text = "";
    for (int i = 0; i < n->body->n; i++)
        if (n->body->nodes[i]->op != OP_ARG && n->body->nodes[i]->op != OP_CONST)
            text =
                arena_printf(p->arena, "%s%s%s", text, *text ? "+" : "", ir_ops[n->body->nodes[i]->op].text);
    return text;
}

/* "396x1024" of a product: inner size by columns; of several rows each: "25x16x25 a row" */
static const char *sizes(const IrProgram *p, const IrNode *n) {
    const IrNode *m = emit_product_of(n);
    if (!m) return n->type.elem == TY_F32 ? ir_type_text(p, n->type) : "-";
    EmitProduct s = emit_product(n, m);
    if (s.grad) return arena_printf(p->arena, "dW %" PRId64 "x%" PRId64, s.k, s.n);
    if (s.m * s.many == 1) return arena_printf(p->arena, "%" PRId64 "x%" PRId64, s.k, s.n);
    return arena_printf(p->arena, "%" PRId64 "x%" PRId64 "x%" PRId64 " a row", s.m * s.many, s.k, s.n);
}

static const char *kernel(const IrProgram *p, const PassTarget *t, const IrNode *n, const char **why) {
    static const char *const names[] = {[PRODUCT_TILE] = "tile",
                                        [PRODUCT_LIBRARY] = "library",
                                        [PRODUCT_NARROW] = "narrow",
                                        [PRODUCT_PLAIN] = "plain"};
    *why = emit_is_gru(n) ? emit_gru_why(t, n, p->arena) : "";
    if (emit_is_gru(n)) return "recurrent";
    if (!emit_product_of(n)) return "loop";
    *why = emit_choice_why(t, n);
    return names[emit_choice(t, n)];
}

static void line(const IrProgram *p, const PassTarget *t, const IrNode *n, FILE *out) {
    const char *why, *made = kernel(p, t, n, &why);
    double flops = ir_cost(p, n).flops * times(p, n), bytes = moved(p, n);
    char domain[32];
    snprintf(domain, sizeof domain, "%s/%d", domains[n->plan.domain], n->plan.block);
    fprintf(out, "%5d %5d  %-9s %-9s %9.3f %9.3f %7.1f  %-16s %-20s %-20s %-20s%s%s\n", n->id, n->plan.phase,
            domain, made, flops / 1e6, bytes / 1e6, bytes > 0 ? flops / bytes : 0, where(p, n), sizes(p, n),
            op_text(p, n), place(p, n), *why ? "  # " : "", why);
}

static void arenas(const IrProgram *p, const IrFunc *f, FILE *out) {
    fprintf(out, "  memory: fixed %.1f KiB (at least %.1f live at once)", (double)f->fixed_bytes / 1024,
            (double)f->lower_bytes / 1024);
    for (int i = 0; f->axis_elems && i < p->n_axes; i++)
        if (f->axis_elems[i])
            fprintf(out, ", ~%s %" PRId64 " B a position", p->axes[i].name, 4 * f->axis_elems[i]);
    for (int i = 0; f->uniq_elems && i < p->n_weights; i++)
        if (f->uniq_elems[i])
            fprintf(out, ", @%s %" PRId64 " B a unique row", p->weights[i].name, 4 * f->uniq_elems[i]);
    fputc('\n', out);
}

static void function(const IrProgram *p, const PassTarget *t, const IrFunc *f, FILE *out) {
    double flops = 0, bytes = 0;
    int64_t scratch = 0;
    int kernels = 0, phases = 0;
    fprintf(out, "func %s\n%5s %5s  %-9s %-9s %9s %9s %7s  %-16s %-20s %-20s %s\n", f->name, "node", "phase",
            "domain", "kernel", "MFLOP", "MB", "FLOP/B", "from", "size", "op", "place");
    for (int i = 0; i < f->body.n; i++) {
        const IrNode *n = f->body.nodes[i];
        if (!runs(n)) continue;
        int64_t need = emit_scratch(p, t, n);
        line(p, t, n, out);
        flops += ir_cost(p, n).flops * times(p, n), bytes += moved(p, n);
        scratch = need > scratch ? need : scratch;
        phases = n->plan.phase + 1 > phases ? n->plan.phase + 1 : phases;
        kernels++;
    }
    fprintf(out, "  total: %d kernels in %d phases, %.1f MFLOP and %.1f MB a step of %" PRId64 " rows\n",
            kernels, phases, flops / 1e6, bytes / 1e6, p->batch);
    arenas(p, f, out);
    fprintf(out, "  scratch: %.1f KiB a thread\n\n", (double)scratch / 1024);
}

static double weight_bytes(const IrProgram *p, const IrWeight *w) {
    const char *names[3];
    double size = 4;
    for (int i = 0; i < w->rank; i++) size *= (double)w->dim[i];
    return size * (1 + (w->optimizer >= 0 ? ir_opt_slots(&p->opts[w->optimizer], names) : 0));
}

void backend_emit_plan(IrProgram *p, FILE *out) {
    EmitTarget t;
    if (!emit_target(p->diag, p->arena, "native", &t)) return;
    double dense = 0, tables = 0;
    for (int i = 0; i < p->n_funcs; i++) function(p, &t.pass, p->funcs[i], out);
    for (int i = 0; i < p->n_weights; i++)
        *(p->weights[i].sparse ? &tables : &dense) += weight_bytes(p, &p->weights[i]);
    fprintf(out,
            "weights with optimizer slots: %.1f MiB dense, tables up to %.1f MiB, stored as rows are met\n",
            dense / 1048576, tables / 1048576);
}
