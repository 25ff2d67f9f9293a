/* ctrc diff: what changed between two programs, op by op.
 *
 *   func train
 *   - %3 = relu %2 : f32[512] "deep.mlp.0"
 *   + %3 = tanh %2 : f32[512] "deep.mlp.0"
 *   ~ %9 = matmul %8, %7 {ta=0, tb=0} : f32[16]
 *     %9 = matmul %8, %7 {ta=0, tb=0} : f32[32]      (type)
 *
 * Numbers of nodes shift with every insertion, so nodes are first paired by what they are (op, attributes,
 * type, layer) in order; then a pair has changed if its operands aren't paired too, or its plan differs. What
 * is left between two pairs is paired by op and layer alone. Places in the source, the digest, which changes
 * with every comment, and offsets in the arena, which all shift with one value, count for nothing. */
#include <stdlib.h>
#include <string.h>
#include "frontend/compile.h"
#include "ir/print.h"

typedef struct {
    const char *text;   /* what it is paired by */
    int key;            /* equal texts have equal keys */
    int match;          /* index on the other side, -1 */
    const IrNode *node; /* NULL for a line of the head */
    int depth;          /* regions inside regions */
} Item;
typedef struct {
    Item *v;
    int n, cap;
} Items;

typedef struct {
    Arena *a;
    const IrProgram *p[2];
    FILE *out;
    int count;
} Diff;

/* ---- text ---- */

/* Without " @31:18-31:52". */
static char *without_places(Arena *a, const char *s, size_t n) {
    char *t = arena_alloc(a, n + 1);
    size_t k = 0;
    bool quoted = false;
    for (size_t i = 0; i < n; i++) {
        if (quoted && s[i] == '\\' && i + 1 < n)
            t[k++] = s[i++];
        else if (s[i] == '"')
            quoted = !quoted;
        if (!quoted && s[i] == ' ' && i + 1 < n && s[i + 1] == '@') {
            size_t digits = strspn(s + i + 2, "0123456789/:-");
            if (digits) {
                i += 1 + digits;
                continue;
            }
        }
        t[k++] = s[i];
    }
    return t;
}

static char *node_text(Diff *d, int side, IrNode n) {
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (!f) exit(1);
    IrPrinter pr = {.p = d->p[side], .out = f};
    n.body = NULL;
    n.span = (Span){0};
    ir_put_node(&pr, &n, 0);
    fclose(f);
    char *kept = arena_strndup(d->a, text, size ? size - 1 : 0); /* without the newline */
    free(text);
    return kept;
}

/* Op, attributes, type and layer. */
static const char *what_it_is(Diff *d, int side, const IrNode *n, int depth) {
    IrNode bare = *n;
    bare.id = depth;
    bare.n_in = 0;
    bare.plan = (IrPlan){.phase = -1};
    return node_text(d, side, bare);
}

static const char *op_and_layer(Diff *d, const Item *x) {
    return arena_printf(d->a, "%d %s %s", x->depth, ir_ops[x->node->op].text,
                        x->node->name ? x->node->name : "");
}

/* ---- items ---- */

static void add(Diff *d, Items *items, const char *text, const IrNode *node, int depth) {
    ARENA_PUSH(d->a, items->v, items->n, items->cap, ((Item){text, 0, -1, node, depth}));
}

static void add_body(Diff *d, Items *items, int side, const IrBody *b, int depth) {
    for (int i = 0; i < b->n; i++) {
        add(d, items, what_it_is(d, side, b->nodes[i], depth), b->nodes[i], depth);
        if (b->nodes[i]->body) add_body(d, items, side, b->nodes[i]->body, depth + 1);
    }
}

static void add_head(Diff *d, Items *items, int side) {
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (!f) exit(1);
    ir_print(d->p[side], f);
    fclose(f);
    for (const char *s = text; *s && strncmp(s, "func ", 5);) {
        size_t n = strcspn(s, "\n");
        bool told = strncmp(s, "digest ", 7) && strncmp(s, "source ", 7) && strncmp(s, "file ", 5);
        if (told) add(d, items, without_places(d->a, s, n), NULL, 0);
        s += n + (s[n] == '\n');
    }
    free(text);
}

static int by_text(const void *x, const void *y) {
    return strcmp((*(Item *const *)x)->text, (*(Item *const *)y)->text);
}

/* Numbers equal texts alike on both sides. */
static void set_keys(Diff *d, Items *a, Items *b) {
    int n = a->n + b->n;
    Item **all = ARENA_ARRAY(d->a, Item *, n + 1);
    for (int i = 0; i < n; i++) all[i] = i < a->n ? &a->v[i] : &b->v[i - a->n];
    qsort(all, (size_t)n, sizeof *all, by_text);
    for (int i = 0, key = 0; i < n; i++) {
        if (i && strcmp(all[i - 1]->text, all[i]->text)) key++;
        all[i]->key = key;
    }
}

/* ---- pairing: the longest common subsequence, in linear space (Hirschberg) ---- */

/* Lengths of the longest common subsequence of a's items with each beginning (forward) or end of b. */
static void lengths(const Item *a, int n, const Item *b, int m, bool forward, int *row) {
    memset(row, 0, sizeof *row * (size_t)(m + 1));
    for (int i = 0; i < n; i++) {
        int key = forward ? a[i].key : a[n - 1 - i].key, diagonal = 0;
        for (int j = 1; j <= m; j++) {
            int above = row[j];
            if (key == (forward ? b[j - 1].key : b[m - j].key))
                row[j] = diagonal + 1;
            else if (row[j - 1] > above)
                row[j] = row[j - 1];
            diagonal = above;
        }
    }
}

static void pair_up(Items *x, Items *y, int i, int j) {
    x->v[i].match = j;
    y->v[j].match = i;
}

/* Pairs x[i, i+n) with y[j, j+m). rows: scratch of 2 (m + 1) ints. */
static void pair_range(Items *x, int i, int n, Items *y, int j, int m, int *rows) {
    for (; n && m && x->v[i].key == y->v[j].key; n--, m--) pair_up(x, y, i++, j++);
    for (; n && m && x->v[i + n - 1].key == y->v[j + m - 1].key; n--, m--)
        pair_up(x, y, i + n - 1, j + m - 1);
    if (!n || !m) return;
    if (n == 1) {
        for (int k = 0; k < m; k++)
            if (x->v[i].key == y->v[j + k].key) {
                pair_up(x, y, i, j + k);
                return;
            }
        return;
    }
    int half = n / 2, best = -1, cut = 0, *ahead = rows, *behind = rows + m + 1;
    if ((double)n * m > 1e9) { /* two programs with nothing in common, and of a size that no model has */
        cut = (int)((int64_t)m * half / n);
    } else {
        lengths(&x->v[i], half, &y->v[j], m, true, ahead);
        lengths(&x->v[i + half], n - half, &y->v[j], m, false, behind);
        for (int k = 0; k <= m; k++)
            if (ahead[k] + behind[m - k] > best) {
                best = ahead[k] + behind[m - k];
                cut = k;
            }
        if (best == 0) return;
    }
    pair_range(x, i, half, y, j, cut, rows);
    pair_range(x, i + half, n - half, y, j + cut, m - cut, rows);
}

static void pair_all(Diff *d, Items *x, Items *y) {
    set_keys(d, x, y);
    int *rows = ARENA_ARRAY(d->a, int, 2 * (y->n + 1));
    pair_range(x, 0, x->n, y, 0, y->n, rows);
}

/* What is left between two pairs, by op and layer alone. */
static void pair_rest(Diff *d, Items *x, Items *y) {
    int j = 0;
    for (int i = 0; i < x->n; i++) {
        if (x->v[i].match >= 0) {
            j = x->v[i].match + 1;
            continue;
        }
        const char *wanted = op_and_layer(d, &x->v[i]);
        for (int k = j; k < y->n && y->v[k].match < 0; k++)
            if (!strcmp(wanted, op_and_layer(d, &y->v[k]))) {
                pair_up(x, y, i, k);
                j = k + 1;
                break;
            }
    }
}

/* ---- saying what changed ---- */

static int index_of(const Items *items, const IrNode *n) {
    return n->mark < items->n && items->v[n->mark].node == n ? n->mark : -1;
}

static void put_reason(const char **list, const char *more, Arena *a) {
    *list = **list ? arena_printf(a, "%s, %s", *list, more) : more;
}

/* "" if the two are the same. */
static const char *changes(Diff *d, const Items *x, const Items *y, const Item *p, const Item *q) {
    const IrNode *m = p->node, *n = q->node;
    const char *list = "";
    if (p->key != q->key) {
        if (strcmp(ir_type_text(d->p[0], m->type), ir_type_text(d->p[1], n->type)))
            put_reason(&list, "type", d->a);
        IrNode m1 = *m, n1 = *n;
        m1.type = n1.type = (IrType){.elem = TY_NONE, .axis = -1};
        if (strcmp(what_it_is(d, 0, &m1, 0), what_it_is(d, 1, &n1, 0))) put_reason(&list, "attributes", d->a);
    }
    if (m->n_in != n->n_in)
        put_reason(&list, arena_printf(d->a, "%d operands, now %d", m->n_in, n->n_in), d->a);
    for (int i = 0; i < m->n_in && i < n->n_in; i++) {
        int at = index_of(x, m->in[i]);
        if (at < 0 || x->v[at].match != index_of(y, n->in[i]))
            put_reason(&list, arena_printf(d->a, "operand %d", i + 1), d->a);
    }
    IrPlan f = m->plan, g = n->plan;
    if (f.phase != g.phase || f.domain != g.domain || f.block != g.block || f.kernel != g.kernel ||
        f.region != g.region)
        put_reason(&list, "plan", d->a);
    return list;
}

static void put(Diff *d, const char *sign, int side, const Item *x) {
    const char *text = x->node ? node_text(d, side, *x->node) : x->text;
    fprintf(d->out, "%s%*s%s\n", sign, 2 * x->depth, "", text);
}

static void put_all(Diff *d, const char *title, Items *x, Items *y) {
    int before = d->count, j = 0;
    for (int i = 0; i <= x->n; i++) {
        int until = i == x->n ? y->n : x->v[i].match;
        bool removed = i < x->n && until < 0;
        const char *why = "";
        if (!removed && i < x->n && x->v[i].node) why = changes(d, x, y, &x->v[i], &y->v[until]);
        bool news = removed || *why || (!removed && j < until);
        if (news && d->count == before && title) fprintf(d->out, "%s\n", title);
        if (removed) {
            put(d, "- ", 0, &x->v[i]);
            d->count++;
            continue;
        }
        for (; j < until; j++, d->count++) put(d, "+ ", 1, &y->v[j]);
        if (i == x->n) break;
        j = until + 1;
        if (!*why) continue;
        put(d, "~ ", 0, &x->v[i]);
        fprintf(d->out, "  %*s%s   (%s)\n", 2 * x->v[i].depth, "", node_text(d, 1, *y->v[until].node), why);
        d->count++;
    }
}

static void number(Items *items) {
    for (int i = 0; i < items->n; i++) ((IrNode *)items->v[i].node)->mark = i; /* mark: anyone's scratch */
}

static const char *head_text(Diff *d, int side, const IrFunc *f) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) exit(1);
    IrPrinter pr = {.p = d->p[side], .out = out};
    ir_put_func_head(&pr, f);
    fclose(out);
    char *kept = arena_strndup(d->a, text, size > 3 ? size - 3 : 0); /* without " {" and the newline */
    free(text);
    return kept;
}

static void diff_funcs(Diff *d, const IrFunc *f, const IrFunc *g) {
    const char *head[2] = {head_text(d, 0, f), head_text(d, 1, g)};
    bool same = !strcmp(head[0], head[1]);
    if (!same) fprintf(d->out, "~ %s\n  %s\n", head[0], head[1]);
    d->count += !same;
    Items x = {0}, y = {0};
    add_body(d, &x, 0, &f->body, 0);
    add_body(d, &y, 1, &g->body, 0);
    pair_all(d, &x, &y);
    pair_rest(d, &x, &y);
    number(&x);
    number(&y);
    put_all(d, same ? head[0] : NULL, &x, &y);
}

int frontend_diff(const IrProgram *a, const IrProgram *b, FILE *out) {
    Diff d = {.a = a->arena, .p = {a, b}, .out = out};
    Items x = {0}, y = {0};
    add_head(&d, &x, 0);
    add_head(&d, &y, 1);
    pair_all(&d, &x, &y);
    put_all(&d, NULL, &x, &y);
    for (int i = 0; i < a->n_funcs; i++) {
        const IrFunc *g = ir_func(b, a->funcs[i]->name);
        if (g) {
            diff_funcs(&d, a->funcs[i], g);
        } else {
            fprintf(out, "- func %s\n", a->funcs[i]->name);
            d.count++;
        }
    }
    for (int i = 0; i < b->n_funcs; i++)
        if (!ir_func(a, b->funcs[i]->name)) {
            fprintf(out, "+ func %s\n", b->funcs[i]->name);
            d.count++;
        }
    return d.count;
}
