/* A few nodes of a long program: those of one layer, or one by its id, with their operands and users. Nodes
 * that match are marked with '>'. This is for a person's eye: the reader doesn't take it. */
#include "ir/print.h"
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 1, MATCHES = 2 };

/* "%12": the id. Else the layer's path, a beginning of it up to a dot, or a pattern with '*'. */
static bool matches(const IrNode *n, const char *what) {
    if (what[0] == '%') {
        char *end;
        long id = strtol(what + 1, &end, 10);
        return end != what + 1 && *end == 0 && id == n->id;
    }
    if (!n->name) return false;
    size_t length = strlen(what);
    if (strncmp(n->name, what, length) == 0 && (n->name[length] == 0 || n->name[length] == '.')) return true;
    return strchr(what, '*') && fnmatch(what, n->name, 0) == 0;
}

static bool in_region(const IrNode *n, const char *what) {
    for (int i = 0; n->body && i < n->body->n; i++)
        if (matches(n->body->nodes[i], what) || in_region(n->body->nodes[i], what)) return true;
    return false;
}

/* A region is shown whole if anything in it matches. Returns the number of matches. */
static int mark(const IrBody *b, const char *what) {
    int count = 0;
    for (int i = 0; i < b->n; i++) b->nodes[i]->mark = 0;
    for (int i = 0; i < b->n; i++) {
        IrNode *n = b->nodes[i];
        if (!matches(n, what) && !in_region(n, what)) continue;
        n->mark |= SHOWN | MATCHES;
        count++;
        for (int k = 0; k < n->n_in; k++) n->in[k]->mark |= SHOWN;
    }
    for (int i = 0; i < b->n; i++)
        for (int k = 0; k < b->nodes[i]->n_in; k++)
            if (b->nodes[i]->in[k]->mark & MATCHES) b->nodes[i]->mark |= SHOWN;
    return count;
}

void ir_print_only(const IrProgram *p, const char *what, FILE *out) {
    IrPrinter pr;
    int total = 0;
    ir_printer_init(&pr, p, out);
    for (int i = 0; i < p->n_funcs; i++) {
        const IrBody *b = &p->funcs[i]->body;
        int count = mark(b, what);
        total += count;
        if (!count) continue;
        ir_put_func_head(&pr, p->funcs[i]);
        for (int k = 0; k < b->n; k++) {
            if (!(b->nodes[k]->mark & SHOWN)) continue;
            fputc(b->nodes[k]->mark & MATCHES ? '>' : ' ', out);
            ir_put_node(&pr, b->nodes[k], 1);
        }
        fputs("}\n", out);
    }
    if (!total) fprintf(out, "no layer or value is named '%s'\n", what);
}
