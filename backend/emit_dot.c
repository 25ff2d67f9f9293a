/* --emit=dot: the graph for graphviz, one picture a function, clustered by layer. Products are boxes, reads
 * and updates of tables and weights in colour, reader-stage values dashed.
 *
 * So that a model with dozens of alike fields can be read, nodes that do the same in the same place are drawn
 * as one, "embed ×24". Two nodes are alike if op, sizes and kind are, and if what they read and what reads
 * them is alike in turn: the coarsest such division, found by refining one by op and type alone until nothing
 * changes. Constants are not drawn, as their edges would cross everything. What only the backward pass and
 * the updates compute stands in clusters of its own, below the forward pass (newrank: edges between clusters
 * count for rows, too), and what it reads of that comes by grey edges. */
#include <stdlib.h>
#include <string.h>
#include "backend/plan_facts.h"

typedef struct {
    const IrProgram *p;
    const IrBody *b;
    int number;    /* of the function */
    uint64_t *key; /* of each node: equal ones are drawn as one */
    int *group;    /* of each node: the first one with its key; -1: not drawn */
    int *size;     /* of each group, at its first node */
    bool *forward; /* a prediction, metric, loss or running statistic depends on it */
    FILE *out;
} Dot;

static void text(FILE *out, const char *s) {
    for (; *s; s++) {
        if (*s == '"' || *s == '\\') fputc('\\', out);
        fputc(*s, out);
    }
}

/* ---- which nodes are alike ---- */

static uint64_t mix(uint64_t h, uint64_t x) {
    h = (h ^ x) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

static uint64_t mix_text(uint64_t h, const char *s) {
    for (; *s; s++) h = mix(h, (unsigned char)*s);
    return h;
}

/* Op, type without names of lists and tables, and what kind of op it is: not which column, weight or part. */
static uint64_t own_key(const IrNode *n, bool forward) {
    uint64_t h = mix(mix(1, (uint64_t)n->op), forward);
    h = mix(mix(mix(h, n->type.elem), n->type.live), (uint64_t)n->type.bound);
    for (int i = 0; i < n->type.rank; i++) h = mix(h, (uint64_t)n->type.dim[i]);
    for (int i = 0; i < n->n_attrs; i++)
        if (n->attrs[i].kind == 's' && strcmp(n->attrs[i].key, "name")) h = mix_text(h, n->attrs[i].s);
    for (int i = 0; n->body && i < n->body->n; i++) h = mix(h, own_key(n->body->nodes[i], forward));
    return n->op == OP_PREDICT || n->op == OP_LOSS ? mix_text(h, ir_attr_s(n, "name")) : h;
}

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* As a set: it doesn't matter how many alike fields are joined. */
static uint64_t mix_set(uint64_t h, uint64_t *keys, int n) {
    qsort(keys, (size_t)n, sizeof *keys, by_value);
    for (int i = 0; i < n; i++)
        if (!i || keys[i] != keys[i - 1]) h = mix(h, keys[i]);
    return mix(h, 2);
}

static int count_keys(const Dot *d) {
    uint64_t *sorted = ARENA_ARRAY(d->p->arena, uint64_t, d->b->n + 1);
    int count = 0;
    memcpy(sorted, d->key, sizeof *sorted * (size_t)d->b->n);
    qsort(sorted, (size_t)d->b->n, sizeof *sorted, by_value);
    for (int i = 0; i < d->b->n; i++) count += !i || sorted[i] != sorted[i - 1];
    return count;
}

/* mark: the place in the body. */
static void refine(Dot *d) {
    Arena *a = d->p->arena;
    const IrBody *b = d->b;
    int edges = 0, *users = ARENA_ARRAY(a, int, b->n + 1), *first = ARENA_ARRAY(a, int, b->n + 2);
    for (int i = 0; i < b->n; i++)
        for (int k = 0; k < b->nodes[i]->n_in; k++, edges++) users[b->nodes[i]->in[k]->mark]++;
    for (int i = 0; i < b->n; i++) first[i + 1] = first[i] + users[i];
    uint64_t *read = ARENA_ARRAY(a, uint64_t, b->n + edges + 1), *by = ARENA_ARRAY(a, uint64_t, edges + 1);
    uint64_t *next = ARENA_ARRAY(a, uint64_t, b->n + 1);
    for (int before = 0, now = count_keys(d); now > before; before = now, now = count_keys(d)) {
        memset(users, 0, sizeof *users * (size_t)b->n);
        for (int i = 0; i < b->n; i++)
            for (int k = 0; k < b->nodes[i]->n_in; k++) {
                int from = b->nodes[i]->in[k]->mark;
                by[first[from] + users[from]++] = d->key[i];
            }
        for (int i = 0; i < b->n; i++) {
            const IrNode *n = b->nodes[i];
            for (int k = 0; k < n->n_in; k++) read[k] = d->key[n->in[k]->mark];
            next[i] = mix_set(mix_set(d->key[i], read, n->n_in), by + first[i], users[i]);
        }
        memcpy(d->key, next, sizeof *next * (size_t)b->n);
    }
}

static bool is_drawn(const IrNode *n) {
    return n->op != OP_CONST && n->op != OP_INVROWS && n->op != OP_WEIGHT;
}

static void find_groups(Dot *d) {
    const IrBody *b = d->b;
    for (int i = 0; i < b->n; i++) b->nodes[i]->mark = i;
    for (int i = b->n - 1; i >= 0; i--) {
        d->forward[i] |= ir_ops[b->nodes[i]->op].effect == EFFECT_ROOT || b->nodes[i]->op == OP_BNUPDATE;
        for (int k = 0; d->forward[i] && k < b->nodes[i]->n_in; k++)
            d->forward[b->nodes[i]->in[k]->mark] = true;
    }
    for (int i = 0; i < b->n; i++) d->key[i] = own_key(b->nodes[i], d->forward[i]);
    refine(d);
    for (int i = 0; i < b->n; i++) {
        int k = 0;
        while (d->key[k] != d->key[i]) k++;
        d->group[i] = is_drawn(b->nodes[i]) ? k : -1;
        d->size[k]++;
    }
}

/* ---- nodes ---- */

static const char *style(const IrNode *n) {
    if (ir_is_reader(n)) return "style=\"rounded,dashed\"";
    switch (ir_ops[n->op].cls) {
    case CLASS_PROD:
    case CLASS_REG: return ir_product_of(n) ? "fillcolor=\"#dbe4ff\" penwidth=1.4" : "";
    case CLASS_TAB: return "fillcolor=\"#fff3bf\"";
    case CLASS_UPD: return "fillcolor=\"#ffe3e3\"";
    case CLASS_ROOT: return "fillcolor=\"#d3f9d8\" penwidth=1.4";
    default: return "";
    }
}

/* What the op is about beside its operands: a weight, which a region that writes it has inside, a column, a
 * name. */
static const char *about(const IrProgram *p, const IrNode *n) {
    const IrAttr *a = ir_attr(ir_is_update_region(n) ? ir_writer(n) : n, "w");
    if (a) return p->weights[a->i].name;
    if ((a = ir_attr(n, "col"))) return p->input.columns[a->i].name;
    if ((a = ir_attr(n, "name"))) return a->s;
    return NULL;
}

/* Without what the layer's cluster says already, and no longer than a label may be. */
static void short_name(const Dot *d, const char *name, const char *layer) {
    enum { MOST = 32 };
    size_t n = layer ? strlen(layer) : 0;
    if (n && !strncmp(name, layer, n) && name[n] == '.') name += n + 1;
    if (strlen(name) > MOST) {
        fputs("…", d->out);
        name += strlen(name) - MOST;
        while ((*name & 0xc0) == 0x80) name++; /* not into a letter of several bytes */
    }
    text(d->out, name);
}

/* "shop_id, item_id … brand_id" of a group's members. */
static void names(const Dot *d, int group, const char *layer) {
    enum { TOLD = 2 };
    int told = 0;
    const char *last = NULL;
    for (int i = group; i < d->b->n; i++) {
        const char *name = d->group[i] == group ? about(d->p, d->b->nodes[i]) : NULL;
        if (!name) continue;
        if (told < TOLD) {
            fputs(told ? ", " : "\\n", d->out);
            short_name(d, name, layer);
        }
        last = name;
        told++;
    }
    if (told <= TOLD) return;
    fputs(told == TOLD + 1 ? ", " : " … ", d->out);
    short_name(d, last, layer);
}

/* "with dense.kernel, dense.bias": the weights that an op reads; of several alike ops the first one's. */
static void weights(const Dot *d, const IrNode *n, const char *layer) {
    const char *lead = "\\nwith ";
    for (int i = 0; i < n->n_in; i++) {
        if (n->in[i]->op != OP_WEIGHT) continue;
        fputs(lead, d->out);
        short_name(d, about(d->p, n->in[i]), layer);
        lead = i % 3 == 2 ? ",\\n" : ", ";
    }
}

/* The type of a single node; of several, without the name of what list or table it is along. */
static const char *type_text(const Dot *d, const IrNode *n, int size) {
    char *s = arena_strdup(d->p->arena, ir_type_text(d->p, n->type)), *to = s;
    bool name = false;
    for (const char *from = s; *from; from++) {
        if (name && (*from == ',' || *from == ']')) name = false;
        if (!name) *to++ = *from;
        if (size > 1 && (*from == '~' || *from == '@')) name = true;
    }
    *to = 0;
    return s;
}

static void node(const Dot *d, int group, const char *layer) {
    const IrNode *n = d->b->nodes[group];
    int size = d->size[group];
    fprintf(d->out, "    f%dn%d [label=\"", d->number, group);
    if (size == 1) fprintf(d->out, "%%%d ", n->id);
    fputs(plan_op(d->p, n), d->out);
    if (size > 1) fprintf(d->out, " ×%d", size);
    names(d, group, layer);
    weights(d, n, layer);
    if (n->type.elem != TY_NONE) {
        fputs("\\n", d->out);
        text(d->out, type_text(d, n, size));
    }
    fprintf(d->out, "\" %s];\n", style(n));
}

/* ---- clusters ---- */

/* The layer that a group's members have in common: for one the path up to its last dot. */
static const char *layer(const Dot *d, int group) {
    const char *common = NULL;
    for (int i = group; i < d->b->n; i++) {
        const char *name = d->b->nodes[i]->name;
        if (d->group[i] != group) continue;
        if (!name) return NULL;
        if (!common) {
            const char *dot = strrchr(name, '.');
            common = arena_strndup(d->p->arena, name, dot ? (size_t)(dot - name) : strlen(name));
        }
        while (*common && (strncmp(common, name, strlen(common)) ||
                           (name[strlen(common)] && name[strlen(common)] != '.'))) {
            const char *dot = strrchr(common, '.');
            common = arena_strndup(d->p->arena, common, dot ? (size_t)(dot - common) : 0);
        }
    }
    return common && *common ? common : NULL;
}

static bool same(const char *a, const char *b) { return a == b || (a && b && !strcmp(a, b)); }

/* The groups of each layer in one cluster, in the order in which layers are met; forward and backward apart.
 */
static void clusters(const Dot *d) {
    const char **layers = ARENA_ARRAY(d->p->arena, const char *, d->b->n + 1);
    bool *done = ARENA_ARRAY(d->p->arena, bool, d->b->n + 1);
    for (int i = 0; i < d->b->n; i++)
        if (d->group[i] == i) layers[i] = layer(d, i);
    for (int i = 0; i < d->b->n; i++) {
        if (d->group[i] != i || done[i]) continue;
        if (layers[i]) {
            fprintf(d->out, "  subgraph \"cluster_%d_%d\" {\n    label=\"", d->number, i);
            text(d->out, layers[i]);
            fprintf(d->out, "%s\";%s\n", d->forward[i] ? "" : " (backward)",
                    d->forward[i] ? "" : " bgcolor=\"#fcf8f3\";");
        }
        for (int k = i; k < d->b->n; k++)
            if (d->group[k] == k && !done[k] && same(layers[i], layers[k]) &&
                d->forward[i] == d->forward[k]) {
                node(d, k, layers[i]);
                done[k] = true;
            }
        if (layers[i]) fputs("  }\n", d->out);
    }
}

/* One between two groups, however many there are between their members. */
static void edges(const Dot *d) {
    const IrBody *b = d->b;
    for (int i = 0; i < b->n; i++)
        for (int k = 0; k < b->nodes[i]->n_in && d->group[i] == i; k++) {
            int from = d->group[b->nodes[i]->in[k]->mark];
            bool told = from < 0;
            for (int j = 0; j < k; j++) told |= d->group[b->nodes[i]->in[j]->mark] == from;
            if (told) continue;
            bool saved = d->forward[from] && !d->forward[i];
            fprintf(d->out, "  f%dn%d -> f%dn%d%s;\n", d->number, from, d->number, i,
                    saved ? " [color=\"#adb5bd\" arrowsize=0.5 weight=0]" : "");
        }
}

void backend_emit_dot(IrProgram *p, FILE *out) {
    for (int f = 0; f < p->n_funcs; f++) {
        size_t n = (size_t)p->funcs[f]->body.n + 1;
        Dot d = {.p = p, .b = &p->funcs[f]->body, .number = f, .out = out};
        d.key = ARENA_ARRAY(p->arena, uint64_t, n);
        d.group = ARENA_ARRAY(p->arena, int, n);
        d.size = ARENA_ARRAY(p->arena, int, n);
        d.forward = ARENA_ARRAY(p->arena, bool, n);
        find_groups(&d);
        fprintf(out, "digraph \"%s\" {\n", p->funcs[f]->name);
        fputs("  rankdir=TB; newrank=true; ranksep=0.35; nodesep=0.18; fontname=\"Helvetica\"; fontsize=11; labeljust=l;\n"
              "  style=\"rounded\"; color=\"#adb5bd\";\n"
              "  node [shape=box style=\"rounded,filled\" fillcolor=white fontname=\"Helvetica\" fontsize=10 "
              "height=0.3 margin=\"0.08,0.04\"];\n"
              "  edge [arrowsize=0.6 color=\"#495057\"];\n",
              out);
        clusters(&d);
        edges(&d);
        fputs("}\n", out);
    }
}
