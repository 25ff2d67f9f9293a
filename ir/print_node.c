/* Functions and nodes as text:
 *   %12 = matmul %11, %10 {ta=0, tb=0} : f32[512] @31:18-31:52 "deep.mlp.0.dense" #phase=3 domain=rows … */
#include "ir/print.h"
#include <string.h>

const char *const ir_domain_names[5] = {"none", "rows", "uniq", "tiles", "one"};
const char *const ir_kernel_names[5] = {"none", "loop", "tile", "library", "amx"};
const char *const ir_region_names[N_REGIONS] = {"none", "fixed", "axis", "uniq", "input", "local"};

static void put_attr(const IrPrinter *pr, const IrAttr *a) {
    char buf[32];
    FILE *out = pr->out;
    fprintf(out, "%s=", a->key);
    switch (a->kind) {
    case 'f': fputs(ir_double_text(a->f, buf), out); break;
    case 's': ir_put_string(out, a->s, strlen(a->s)); break;
    case 'w': ir_put_weight(pr->p, out, a->i); break;
    case 'c': ir_put_column(pr->p, out, a->i); break;
    case 'x': ir_put_axis(pr->p, out, a->i); break;
    case 'I':
        fputc('[', out);
        for (int i = 0; i < a->ilist.n; i++) fprintf(out, "%s%lld", i ? ", " : "", (long long)a->ilist.v[i]);
        fputc(']', out);
        break;
    case 'F':
        fputc('[', out);
        for (int i = 0; i < a->flist.n; i++)
            fprintf(out, "%s%s", i ? ", " : "", ir_double_text(a->flist.v[i], buf));
        fputc(']', out);
        break;
    default: fprintf(out, "%lld", (long long)a->i); /* i b, and v o, which are known by number */
    }
}

static void put_plan(const IrPrinter *pr, const IrPlan *plan) {
    const char *lead = " #"; /* before the first property that is set */
    FILE *out = pr->out;
    if (plan->phase != -1) fprintf(out, "%sphase=%d", lead, plan->phase), lead = " ";
    if (plan->domain) fprintf(out, "%sdomain=%s", lead, ir_domain_names[plan->domain]), lead = " ";
    if (plan->block) fprintf(out, "%sblock=%d", lead, plan->block), lead = " ";
    if (plan->kernel) fprintf(out, "%skernel=%s", lead, ir_kernel_names[plan->kernel]), lead = " ";
    if (plan->region || plan->offset)
        fprintf(out, "%sat=%s+%lld", lead, ir_region_names[plan->region], (long long)plan->offset);
    if (plan->col) fprintf(out, " col=%lld", (long long)plan->col);
    if (plan->ld) fprintf(out, " ld=%lld", (long long)plan->ld);
    if (plan->per_block) fputs(" per_block=1", out);
}

static void put_body(IrPrinter *pr, const IrBody *b, int indent) {
    for (int i = 0; i < b->n; i++) ir_put_node(pr, b->nodes[i], indent);
}

void ir_put_node(IrPrinter *pr, const IrNode *n, int indent) {
    FILE *out = pr->out;
    fprintf(out, "%*s%%%d = %s", indent, "", n->id, ir_ops[n->op].text);
    for (int i = 0; i < n->n_in; i++) fprintf(out, "%s%%%d", i ? ", " : " ", n->in[i]->id);
    for (int i = 0; i < n->n_attrs; i++) fputs(i ? ", " : " {", out), put_attr(pr, &n->attrs[i]);
    if (n->n_attrs) fputc('}', out);
    fputs(" : ", out);
    ir_print_type(pr->p, n->type, out);
    ir_put_span(pr, n->span);
    if (n->name) fputc(' ', out), ir_put_string(out, n->name, strlen(n->name));
    put_plan(pr, &n->plan);
    if (n->body) {
        fputs(" {\n", out);
        put_body(pr, n->body, indent + 2);
        fprintf(out, "%*s}", indent, "");
    }
    fputc('\n', out);
}

/* Elements a position (unique row), those above zero; the list stands there, even empty, once they were
 * planned. */
static void put_elems(IrPrinter *pr, const char *key, const int64_t *elems, int n,
                      void (*put_ref)(const IrProgram *, FILE *, int64_t)) {
    if (!elems) return;
    const char *lead = "";
    fprintf(pr->out, " %s=[", key);
    for (int i = 0; i < n; i++) {
        if (!elems[i]) continue;
        fputs(lead, pr->out);
        put_ref(pr->p, pr->out, i);
        fprintf(pr->out, ": %lld", (long long)elems[i]);
        lead = ", ";
    }
    fputc(']', pr->out);
}

void ir_put_func_head(IrPrinter *pr, const IrFunc *f) {
    fputs("func ", pr->out);
    ir_put_name(pr->out, f->name);
    if (f->fixed_bytes) fprintf(pr->out, " fixed=%lld", (long long)f->fixed_bytes);
    if (f->lower_bytes) fprintf(pr->out, " lower=%lld", (long long)f->lower_bytes);
    if (f->blocks) fprintf(pr->out, " blocks=%lld", (long long)f->blocks);
    if (f->loop_last) fprintf(pr->out, " loop=[%d, %d]", f->loop_first, f->loop_last);
    if (f->local_bytes) fprintf(pr->out, " local=%lld", (long long)f->local_bytes);
    put_elems(pr, "axes", f->axis_elems, pr->p->n_axes, ir_put_axis);
    put_elems(pr, "local_axes", f->local_elems, pr->p->n_axes, ir_put_axis);
    put_elems(pr, "uniq", f->uniq_elems, pr->p->n_weights, ir_put_weight);
    fputs(" {\n", pr->out);
}

void ir_put_func(IrPrinter *pr, const IrFunc *f) {
    ir_put_func_head(pr, f);
    put_body(pr, &f->body, 2);
    fputs("}\n", pr->out);
}
