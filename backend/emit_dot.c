/* --emit=dot: the graph for graphviz, one picture a function, clustered by the layer that each node came
 * from. Products are drawn as boxes, reads and updates of weights in colour, and reader-stage values dashed.
 */
#include <stdlib.h>
#include <string.h>
#include "backend/backend.h"

static void text(FILE *out, const char *s) {
    for (; *s; s++) {
        if (*s == '"' || *s == '\\') fputc('\\', out);
        fputc(*s, out);
    }
}

/* The layer: the path up to its last dot; NULL if there is none. */
static const char *cluster(const IrProgram *p, const IrNode *n) {
    const char *dot = n->name ? strrchr(n->name, '.') : NULL;
    return dot ? arena_strndup(p->arena, n->name, (size_t)(dot - n->name)) : n->name;
}

static const char *style(const IrNode *n) {
    if (backend_is_reader(n)) return "style=dashed";
    switch (ir_ops[n->op].cls) {
    case CLASS_PROD:
    case CLASS_REG: return "shape=box";
    case CLASS_TAB: return "shape=box style=filled fillcolor=lightyellow";
    case CLASS_UPD: return "shape=box style=filled fillcolor=mistyrose";
    case CLASS_ROOT: return "shape=doubleoctagon";
    default: return n->op == OP_WEIGHT ? "style=filled fillcolor=lightblue" : "";
    }
}

/* What the op is about beside its operands: a weight, a column, a name. */
static const char *about(const IrProgram *p, const IrNode *n) {
    const IrAttr *a = ir_attr(n, "w");
    if (a) return p->weights[a->i].name;
    if ((a = ir_attr(n, "col"))) return p->input.columns[a->i].name;
    if ((a = ir_attr(n, "name"))) return a->s;
    return NULL;
}

static void node(const IrProgram *p, int f, const IrNode *n, FILE *out) {
    const char *what = about(p, n);
    fprintf(out, "    f%dn%d [label=\"%%%d %s", f, n->id, n->id, ir_ops[n->op].text);
    for (int i = 0; n->op == OP_FUSED && i < n->body->n; i++)
        if (n->body->nodes[i]->op != OP_ARG) fprintf(out, "\\n%s", ir_ops[n->body->nodes[i]->op].text);
    if (what) {
        fputs("\\n", out);
        text(out, what);
    }
    if (n->type.elem != TY_NONE) {
        fputs("\\n", out);
        text(out, ir_type_text(p, n->type));
    }
    fprintf(out, "\" %s];\n", style(n));
}

static bool same(const char *a, const char *b) { return a == b || (a && b && !strcmp(a, b)); }

/* The nodes of each layer in one cluster, in the order in which layers are met. */
static void clusters(const IrProgram *p, int f, const IrBody *b, FILE *out) {
    bool *done = calloc((size_t)b->n + 1, sizeof *done);
    if (!done) abort();
    for (int i = 0; i < b->n; i++) {
        const char *layer = cluster(p, b->nodes[i]);
        if (done[i]) continue;
        if (layer) {
            fprintf(out, "  subgraph \"cluster_%d_%d\" {\n    label=\"", f, i);
            text(out, layer);
            fputs("\";\n", out);
        }
        for (int k = i; k < b->n; k++)
            if (!done[k] && same(layer, cluster(p, b->nodes[k]))) {
                node(p, f, b->nodes[k], out);
                done[k] = true;
            }
        if (layer) fputs("  }\n", out);
    }
    free(done);
}

void backend_emit_dot(IrProgram *p, FILE *out) {
    for (int f = 0; f < p->n_funcs; f++) {
        const IrBody *b = &p->funcs[f]->body;
        fprintf(out, "digraph \"%s\" {\n  rankdir=TB; node [fontsize=10];\n", p->funcs[f]->name);
        clusters(p, f, b, out);
        for (int i = 0; i < b->n; i++)
            for (int k = 0; k < b->nodes[i]->n_in; k++)
                fprintf(out, "  f%dn%d -> f%dn%d;\n", f, b->nodes[i]->in[k]->id, f, b->nodes[i]->id);
        fputs("}\n", out);
    }
}
