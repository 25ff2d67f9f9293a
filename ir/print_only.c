/* A few nodes of a long program: those of one layer, or one by its id, with their operands and users. Nodes
 * that match are marked with '>'. This is for a person's eye: the reader doesn't take it. */
#include "ir/print.h"
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 1, MATCHES = 2 };

/* "%12": the id. Else the layer's path, or a beginning of it up to a dot, with any '*'. */
static bool matches(const IrNode *n, const char *what) {
    if (what[0] == '%') {
        char *end;
        long id = strtol(what + 1, &end, 10);
        return end != what + 1 && *end == 0 && id == n->id;
    }
    return n->name && ir_path_matches(n->name, what);
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

/* Layers, and the beginnings of their paths, that `what` may be a slip of. */
static const char *nearest(const IrProgram *p, const char *what) {
    const char **names = NULL;
    int n = 0, cap = 0;
    for (int f = 0; f < p->n_funcs; f++)
        for (int i = 0; i < p->funcs[f]->body.n; i++) {
            const char *name = p->funcs[f]->body.nodes[i]->name;
            for (const char *s = name; s && *s;) {
                s += strcspn(s, ".");
                ARENA_PUSH(p->arena, names, n, cap, arena_strndup(p->arena, name, (size_t)(s - name)));
                if (*s) s++;
            }
        }
    return diag_nearest(what, names, n);
}

/* Which files the numbers in places mean, where there are several. */
static void put_files(const IrPrinter *pr) {
    for (int i = 0; pr->n_files > 1 && i < pr->n_files; i++) {
        fprintf(pr->out, "file %d ", i);
        ir_put_string(pr->out, pr->files[i].path, strlen(pr->files[i].path));
        fputc('\n', pr->out);
    }
}

/* As the printer has it, regions and all; what matches has its mark where the first blank stands. */
static void put_node(IrPrinter pr, const IrNode *n) {
    FILE *out = pr.out;
    char *text = NULL;
    size_t size = 0;
    pr.out = open_memstream(&text, &size);
    if (!pr.out) exit(1);
    ir_put_node(&pr, n, 2);
    fclose(pr.out);
    if (n->mark & MATCHES) text[0] = '>';
    fwrite(text, 1, size, out);
    free(text);
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
        if (count == total) put_files(&pr);
        ir_put_func_head(&pr, p->funcs[i]);
        for (int k = 0; k < b->n; k++) {
            if (!(b->nodes[k]->mark & SHOWN)) continue;
            put_node(pr, b->nodes[k]);
        }
        fputs("}\n", out);
    }
    if (total) return;
    const char *near = nearest(p, what);
    fprintf(out, "no layer or value is named '%s'", what);
    if (near) fprintf(out, ", did you mean '%s'?", near);
    fputc('\n', out);
}
