/* The `input` block: options of the format, columns, and the axes of lists. */
#include "frontend/value.h"
#include <math.h>
#include <string.h>

/* ---- options ---- */

static bool one_byte(Ev *ev, const Arg *a, const char *what, char *out) {
    if (!a->v) return true;
    bool fits = a->v->kind == V_STRING && a->v->string.n == 1 && !strchr("\n\r", a->v->string.s[0]) &&
                a->v->string.s[0];
    if (fits)
        *out = a->v->string.s[0];
    else
        ev_error(ev, a->span, NULL, "expected one byte as '%s', found %s", what, ev_describe(ev, a->v));
    return fits;
}

static bool flag(Ev *ev, const Arg *a, const char *what, bool *out) {
    if (!a->v) return true;
    if (a->v->kind == V_BOOL)
        *out = a->v->boolean;
    else
        ev_error(ev, a->span, NULL, "expected true or false as '%s', found %s", what, ev_describe(ev, a->v));
    return a->v->kind == V_BOOL;
}

/* A string that may stand in a file: no NUL, so that it can be kept as text. */
static const char *text_of(Ev *ev, Scope *s, const AstExpr *e, const char *what) {
    Value *v = ev_expr(ev, s, e);
    if (!v) return NULL;
    if (v->kind == V_STRING && strlen(v->string.s) == v->string.n) return v->string.s;
    ev_error(ev, e->span, NULL, "expected a string as '%s', found %s", what,
             v->kind == V_STRING ? "one with a NUL byte" : ev_describe(ev, v));
    return NULL;
}

static void missing_texts(Ev *ev, const Arg *a, IrInput *in) {
    if (!a->v) return;
    bool fits = a->v->kind == V_LIST;
    for (int i = 0; fits && i < a->v->list.n; i++) fits = a->v->list.items[i]->kind == V_STRING;
    if (!fits) {
        ev_error(ev, a->span, NULL, "expected a list of strings as 'missing', found %s",
                 ev_describe(ev, a->v));
        return;
    }
    in->n_missing = a->v->list.n;
    in->missing = ARENA_ARRAY(ev->a, const char *, in->n_missing + 1);
    for (int i = 0; i < in->n_missing; i++) in->missing[i] = a->v->list.items[i]->string.s;
}

static bool format(Ev *ev, const AstStmt *st, IrInput *in) {
    static const char *const names[] = {"csv", "tsv", "libsvm", "libffm"};
    for (int i = 0; i < 4; i++) {
        if (strcmp(names[i], st->input.format) != 0) continue;
        in->kind = (IrInputKind)i;
        return true;
    }
    const char *hint = diag_did_you_mean(ev->d, st->input.format, names, 4);
    ev_error(ev, st->input.format_span, hint ? hint : "the formats are csv, tsv, libsvm and libffm",
             "unknown format '%s'", st->input.format);
    return false;
}

static void options(Ev *ev, Scope *s, const AstStmt *st, IrInput *in) {
    bool text = in->kind == IN_CSV || in->kind == IN_TSV;
    in->separator = in->kind == IN_CSV ? ',' : in->kind == IN_TSV ? '\t' : ' ';
    in->quote = in->kind == IN_CSV ? '"' : 0;
    Arg a[5] = {0};
    if (!ev_options(ev, s, st->input.format, st->input.format_span,
                    text ? "separator? header? quote? trim? missing?" : "", st->input.args, st->input.n_args,
                    a))
        return;
    if (!text) return;
    one_byte(ev, &a[0], "separator", &in->separator);
    flag(ev, &a[1], "header", &in->header);
    if (a[2].v && a[2].v->kind == V_NONE)
        in->quote = 0;
    else
        one_byte(ev, &a[2], "quote", &in->quote);
    flag(ev, &a[3], "trim", &in->trim);
    missing_texts(ev, &a[4], in);
    if (in->quote && in->quote == in->separator)
        ev_error(ev, a[2].v ? a[2].span : a[0].span, NULL, "separator and quote are the same byte");
}

/* ---- axes ---- */

static int find_axis(const IrProgram *p, const char *name) {
    for (int i = 0; i < p->n_axes; i++)
        if (p->axes[i].shared && strcmp(p->axes[i].name, name) == 0) return i;
    return -1;
}

static int add_axis(Ev *ev, const char *name, bool shared, int64_t max, Span span) {
    IrProgram *p = ev->p;
    for (int i = 0, n = 2; i < p->n_axes; i++) /* a column may be called as an axis is in the IR */
        if (strcmp(p->axes[i].name, name) == 0) name = arena_printf(ev->a, "%s_%d", name, n++), i = -1;
    ARENA_PUSH(
        ev->a, p->axes, p->n_axes, p->cap_axes,
        ((IrAxis){
            .name = name, .kind = AXIS_LIST, .parent = -1, .max = max, .shared = shared, .span = span}));
    return p->n_axes - 1;
}

static int shared_axis(Ev *ev, Scope *s, const AstExpr *e, int64_t max, Span max_span) {
    if (e->kind != EX_NAME) {
        ev_error(ev, e->span, NULL, "expected a name for the axis, such as axis = h");
        return -1;
    }
    int axis = find_axis(ev->p, e->name);
    if (axis < 0) {
        axis = add_axis(ev, e->name, true, max, e->span);
        Value *v = ARENA_NEW(ev->a, Value);
        v->kind = V_AXIS;
        v->axis = axis;
        scope_bind(ev, s, e->name, v, BIND_AXIS, e->span, e);
        return axis;
    }
    IrAxis *x = &ev->p->axes[axis];
    if (max && x->max && max != x->max)
        ev_error(ev, max_span, NULL, "axis '%s' has max %lld in an earlier column, %lld here", x->name,
                 (long long)x->max, (long long)max);
    if (max) x->max = max;
    return axis;
}

/* list(";", axis = h, max = 50) */
static void list_options(Ev *ev, Scope *s, const AstColumn *ac, const IrInput *in, IrColumn *col) {
    AstArg *args = ARENA_ARRAY(ev->a, AstArg, ac->n_list_args + 1);
    const AstExpr *axis = NULL;
    int n = 0;
    for (int i = 0; i < ac->n_list_args; i++) {
        const AstArg *arg = &ac->list_args[i];
        if (!arg->name || strcmp(arg->name, "axis") != 0)
            args[n++] = *arg;
        else if (axis)
            ev_error(ev, arg->name_span, NULL, "argument 'axis' is given twice");
        else
            axis = arg->value;
    }
    bool text = in->kind == IN_CSV || in->kind == IN_TSV;
    Arg a[2] = {0};
    int64_t max = 0;
    col->is_list = true;
    col->list_sep = in->kind == IN_LIBSVM || in->kind == IN_LIBFFM ? ' ' : ';';
    if (ev_options(ev, s, "list", ac->list_span, text ? "separator max?" : "", args, n, a) && text) {
        one_byte(ev, &a[0], "separator", &col->list_sep);
        if (a[1].v &&
            !(a[1].v->kind == V_NUMBER && ev_whole(a[1].v->number, &max) && max >= 1 && max <= 1 << 24)) {
            ev_error(ev, a[1].span, NULL, "list: expected a whole number from 1 to %d as 'max', found %s",
                     1 << 24, ev_describe(ev, a[1].v));
            max = 0;
        }
        if (a[0].v && col->list_sep == in->separator)
            ev_error(ev, a[0].span, NULL, "the list's separator is also the one of fields");
        if (a[0].v && in->quote && col->list_sep == in->quote)
            ev_error(ev, a[0].span, NULL, "the list's separator is also the quote");
    }
    col->axis =
        axis ? shared_axis(ev, s, axis, max, a[1].span) : add_axis(ev, ac->name, false, max, ac->name_span);
}

/* ---- columns ---- */

static IrColKind kind_of(const AstColumn *ac) { /* the parser lets no other words through */
    static const char *const names[] = {"label", "string", "int", "float"};
    for (int i = 0; i < 4; i++)
        if (strcmp(names[i], ac->kind) == 0) return (IrColKind)i;
    return COL_SKIP;
}

static void skip_count(Ev *ev, Scope *s, const AstColumn *ac, IrColumn *col) {
    col->skip = 1;
    if (ac->n_skip_args == 0) return;
    Value *v = ac->n_skip_args == 1 && !ac->skip_args[0].name ? ev_expr(ev, s, ac->skip_args[0].value) : NULL;
    int64_t n = 1;
    bool fits = v && v->kind == V_NUMBER && ev_whole(v->number, &n) && n >= 1 && n <= 1000000;
    if (!fits) ev_error(ev, ac->kind_span, NULL, "skip(n) takes one whole number from 1 to 1000000");
    col->skip = fits ? (int)n : 1;
}

static void initial_value(Ev *ev, Scope *s, const AstColumn *ac, IrColumn *col) {
    Value *v = ev_expr(ev, s, ac->initial);
    if (!v) return;
    col->has_default = true;
    int64_t whole;
    bool fits = col->kind == COL_STRING ? v->kind == V_STRING
                : col->kind == COL_INT  ? v->kind == V_NUMBER && ev_whole(v->number, &whole)
                                        : v->kind == V_NUMBER && isfinite(v->number);
    if (!fits) {
        const char *what = col->kind == COL_STRING ? "a string"
                           : col->kind == COL_INT  ? "a whole number"
                                                   : "a number";
        ev_error(ev, ac->initial->span, NULL, "expected %s as the value of an empty field of '%s', found %s",
                 what, ac->name, ev_describe(ev, v));
        return;
    }
    if (v->kind == V_NUMBER)
        col->default_num = v->number;
    else
        col->default_str = v->string.s, col->default_len = (int)v->string.n;
}

static void label_texts(Ev *ev, Scope *s, const AstColumn *ac, IrColumn *col) {
    if (!ac->positive) return; /* the parser has seen to it that negative stands behind positive */
    if (col->kind != COL_LABEL)
        ev_error(ev, ac->positive->span, NULL, "only a label has texts that mean 1 and 0, '%s' is of kind %s",
                 ac->name, ac->kind);
    else {
        col->positive = text_of(ev, s, ac->positive, "positive");
        if (ac->negative) col->negative = text_of(ev, s, ac->negative, "negative");
        if (col->positive && col->negative && strcmp(col->positive, col->negative) == 0)
            ev_error(ev, ac->negative->span, NULL, "positive and negative are the same text");
    }
}

/* What only some kinds may have. */
static bool fits_kind(Ev *ev, const AstColumn *ac, IrColKind kind) {
    if (kind == COL_SKIP && (ac->has_list || ac->positive || ac->from || ac->initial)) {
        ev_error(ev, ac->span, NULL, "a skipped column has no options");
        return false;
    }
    if (kind != COL_SKIP && strcmp(ac->name, "_") == 0) {
        ev_error(ev, ac->name_span, NULL, "a column to be read needs a name, '_' is for skip");
        return false;
    }
    if (kind == COL_LABEL && ac->has_list) {
        ev_error(ev, ac->list_span, NULL, "a label is no list");
        return false;
    }
    return true;
}

static void add_column(Ev *ev, Scope *s, const AstColumn *ac, int side) {
    IrInput *in = &ev->p->input;
    IrColumn col = {
        .name = ac->name, .kind = kind_of(ac), .axis = -1, .side = side, .span = ac->span, .skip = 1};
    if (!fits_kind(ev, ac, col.kind)) {
        if (strcmp(ac->name, "_") != 0) scope_bind(ev, s, ac->name, NULL, BIND_COLUMN, ac->name_span, NULL);
        return;
    }
    if (col.kind == COL_SKIP) skip_count(ev, s, ac, &col);
    if (ac->has_list) list_options(ev, s, ac, in, &col);
    label_texts(ev, s, ac, &col);
    if (ac->from) {
        col.from = text_of(ev, s, ac->from, "from");
        if (!in->header)
            ev_error(ev, ac->from->span, "csv(header = true)",
                     "from(…) names a column of a header, but the input has none");
    }
    if (ac->initial) initial_value(ev, s, ac, &col);
    ARENA_PUSH(ev->a, in->columns, in->n_columns, in->cap_columns, col);
    if (strcmp(ac->name, "_") == 0) return;
    Value *v = ARENA_NEW(ev->a, Value);
    v->kind = V_COLUMN;
    v->column = in->n_columns - 1;
    scope_bind(ev, s, ac->name, v, BIND_COLUMN, ac->name_span, ac);
    bool must_stand = col.kind == COL_SKIP || in->kind == IN_LIBSVM || in->kind == IN_LIBFFM;
    if (must_stand) scope_own(s, ac->name)->decl->used = true;
}

/* libsvm: label, ids, values; libffm: label, fields, ids, values; the lists along one axis. */
static void sparse_format(Ev *ev, const AstStmt *st) {
    const IrInput *in = &ev->p->input;
    bool ffm = in->kind == IN_LIBFFM;
    int n = ffm ? 4 : 3;
    bool fits =
        in->n_columns == n && in->columns[0].kind == COL_LABEL && in->columns[n - 1].kind == COL_FLOAT;
    for (int i = 1; fits && i < n; i++)
        fits = in->columns[i].is_list && in->columns[i].axis == in->columns[1].axis &&
               (i == n - 1 || in->columns[i].kind == COL_INT);
    if (fits) return;
    ev_error(ev, st->input.format_span,
             ffm ? "y label; f int list(axis = h); i int list(axis = h); v float list(axis = h)"
                 : "y label; i int list(axis = h); v float list(axis = h)",
             "%s has a label%s, a list of ints and a list of floats along one axis", st->input.format,
             ffm ? ", a list of ints" : "");
}

void ev_input(Ev *ev, Scope *s, const AstStmt *st) {
    if (ev->input_stmt) {
        ev_error(ev, st->input.format_span, NULL, "a second `input`");
        diag_note(ev->d, ev->input_stmt->input.format_span, "the first one");
        return;
    }
    ev->input_stmt = st;
    IrInput *in = &ev->p->input;
    if (format(ev, st, in)) options(ev, s, st, in);
    bool sparse = in->kind == IN_LIBSVM || in->kind == IN_LIBFFM;
    for (int i = 0; i < st->input.n_columns; i++) add_column(ev, s, &st->input.columns[i], 0);
    if (st->input.beside && sparse)
        ev_error(ev, st->input.beside->span, NULL, "%s has no `beside` file", st->input.format);
    else if (st->input.beside) {
        in->beside = text_of(ev, s, st->input.beside, "beside");
        if (in->beside && !*in->beside)
            ev_error(ev, st->input.beside->span, NULL, "the suffix of the `beside` file is empty");
        for (int i = 0; i < st->input.n_beside; i++) add_column(ev, s, &st->input.beside_columns[i], 1);
    }
    if (sparse) sparse_format(ev, st);
    ev->columns = ARENA_ARRAY(ev->a, IrNode *, in->n_columns + 1);
}
