/* Reads IR text: the head, item by item, then the functions (read_func.c), then the verifier. Items may stand
 * in any order before the first function, as long as what a line names stands above it; a property that is
 * left out has its default. Nothing in the text is trusted. */
#include "ir/read.h"
#include <string.h>

/* ---- places and names ---- */

bool read_place(Reader *r, Span *out) {
    Span at = r->lx.token.span;
    if (!lex_place(&r->lx, out)) return false;
    if (out->file >= r->n_files)
        return lex_fail(&r->lx, at, NULL, "expected a place in a listed file, found file %d", out->file);
    out->file = r->files[out->file];
    return true;
}

static const char *axis_name(const IrProgram *p, int i) { return p->axes[i].name; }
static const char *weight_name(const IrProgram *p, int i) { return p->weights[i].name; }
static const char *column_name(const IrProgram *p, int i) {
    return p->input.columns[i].kind == COL_SKIP
               ? ""
               : p->input.columns[i].name; /* fields that are passed over all have one name */
}

/* A name, bare or quoted, that must be one of n. */
static bool read_reference(Reader *r, const char *what, const char *(*name_at)(const IrProgram *, int), int n,
                           int64_t *out) {
    const char *name;
    Span at = r->lx.token.span;
    if (!lex_name(&r->lx, what, &name)) return false;
    for (int i = 0; i < n; i++)
        if (strcmp(name_at(r->p, i), name) == 0) {
            *out = i;
            return true;
        }
    const char **names = ARENA_ARRAY(r->lx.arena, const char *, n);
    for (int i = 0; i < n; i++) names[i] = name_at(r->p, i);
    return lex_fail(&r->lx, at, diag_did_you_mean(r->lx.diag, name, names, n), "expected %s, found '%.60s'",
                    what, name);
}

bool read_axis_name(Reader *r, int64_t *out) {
    return read_reference(r, "a list axis", axis_name, r->p->n_axes, out);
}
bool read_weight_name(Reader *r, int64_t *out) {
    return read_reference(r, "a weight", weight_name, r->p->n_weights, out);
}
bool read_column_name(Reader *r, int64_t *out) {
    return read_reference(r, "a column", column_name, r->p->input.n_columns, out);
}

/* ---- values of properties ---- */

static bool read_char(Reader *r, char *out) {
    const char *s;
    size_t n;
    Span at = r->lx.token.span;
    if (!lex_bytes(&r->lx, &s, &n)) return false;
    if (n > 1) return lex_fail(&r->lx, at, NULL, "expected a string of one byte, found %zu", n);
    *out = n ? s[0] : 0;
    return true;
}

static bool read_strings(Reader *r, const char ***out, int *n) {
    const char **list = NULL;
    int cap = 0;
    *n = 0;
    if (!lex_need(&r->lx, '[')) return false;
    while (!lex_take(&r->lx, ']')) {
        const char *s;
        if ((*n && !lex_need(&r->lx, ',')) || !lex_string(&r->lx, &s)) return false;
        ARENA_PUSH(r->lx.arena, list, *n, cap, s);
    }
    *out = list;
    return true;
}

static bool read_numbers(Reader *r, double **out, int *n) {
    double *list = NULL;
    int cap = 0;
    *n = 0;
    if (!lex_need(&r->lx, '[')) return false;
    while (!lex_take(&r->lx, ']')) {
        double v;
        if ((*n && !lex_need(&r->lx, ',')) || !lex_double(&r->lx, &v)) return false;
        ARENA_PUSH(r->lx.arena, list, *n, cap, v);
    }
    *out = list;
    return true;
}

static bool is_end(const Reader *r) {
    return r->lx.failed || r->lx.token.kind == T_NEWLINE || r->lx.token.kind == T_END;
}

/* What may stand in the rest of a line, in any order: words, most of them followed by "=value". */
typedef struct {
    const char *word;
    enum { P_FLAG, P_INT, P_LONG, P_DOUBLE, P_STRING, P_STRINGS, P_CHAR, P_OTHER } kind;
    void *to;       /* bool, int, int64_t, double, const char *, const char **, char */
    int64_t lo, hi; /* P_INT, P_LONG */
    int *n;         /* P_STRINGS: how many */
    bool (*read)(Reader *r, void *to);
} Property;

static bool read_value(Reader *r, const Property *p) {
    switch (p->kind) {
    case P_FLAG: return *(bool *)p->to = true;
    case P_INT: return lex_int32(&r->lx, (int)p->lo, (int)p->hi, p->to);
    case P_LONG: return lex_int(&r->lx, p->lo, p->hi, p->to);
    case P_DOUBLE: return lex_double(&r->lx, p->to);
    case P_STRING: return lex_string(&r->lx, p->to);
    case P_STRINGS: return read_strings(r, p->to, p->n);
    case P_CHAR: return read_char(r, p->to);
    case P_OTHER: return p->read(r, p->to);
    }
    return false;
}

/* Up to the end of the line. `of`: "a property of …". place: where it stands in its source file; NULL where
 * an item has none. */
static bool read_properties(Reader *r, const char *of, const Property *props, int n, Span *place) {
    const char *words[16];
    int which;
    for (int i = 0; i < n; i++) words[i] = props[i].word;
    while (!is_end(r)) {
        if (place && r->lx.token.kind == T_PLACE) {
            if (!read_place(r, place)) return false;
            continue;
        }
        if (!lex_choice(&r->lx, of, words, n, &which)) return false;
        if (props[which].kind != P_FLAG && !lex_need(&r->lx, '=')) return false;
        if (!read_value(r, &props[which])) return false;
    }
    return lex_line_end(&r->lx);
}

/* ---- model, files, params ---- */

static bool read_file(Reader *r) {
    int number;
    const char *path;
    Span at = r->lx.token.span;
    if (!lex_int32(&r->lx, 0, UINT16_MAX, &number)) return false;
    if (number != r->n_files)
        return lex_fail(&r->lx, at, NULL, "expected file %d, found %d", r->n_files, number);
    if (!lex_string(&r->lx, &path)) return false;
    bool library = lex_take_word(&r->lx, "library");
    Diag *d = r->lx.diag;
    int index = -1; /* a file that the Diag knows keeps its text for messages */
    for (int i = 0; i < d->n_files && index < 0; i++)
        if (i != r->lx.file && d->files[i].library == library && strcmp(d->files[i].path, path) == 0)
            index = i;
    if (index < 0) index = diag_add_file(d, path, NULL, 0, library);
    if (index > UINT16_MAX) return lex_fail(&r->lx, at, NULL, "too many files");
    ARENA_PUSH(r->lx.arena, r->files, r->n_files, r->cap_files, (uint16_t)index);
    return lex_line_end(&r->lx);
}

static bool read_param(Reader *r) {
    IrParam param = {0};
    if (!lex_name(&r->lx, "a param's name", &param.name) || !lex_need(&r->lx, '=')) return false;
    param.is_string = r->lx.token.kind == T_STRING;
    if (param.is_string ? !lex_string(&r->lx, &param.str) : !lex_double(&r->lx, &param.num)) return false;
    ARENA_PUSH(r->lx.arena, r->p->params, r->p->n_params, r->p->cap_params, param);
    return lex_line_end(&r->lx);
}

/* ---- input ---- */

static bool read_input(Reader *r) {
    static const char *const kinds[] = {"csv", "tsv", "libsvm", "libffm"};
    IrInput *in = &r->p->input;
    int kind;
    const Property props[] = {
        {"separator", P_CHAR, .to = &in->separator},
        {"quote", P_CHAR, .to = &in->quote},
        {"header", P_FLAG, .to = &in->header},
        {"trim", P_FLAG, .to = &in->trim},
        {"missing", P_STRINGS, .to = &in->missing, .n = &in->n_missing},
        {"beside", P_STRING, .to = &in->beside},
    };
    if (!lex_choice(&r->lx, "csv, tsv, libsvm or libffm", kinds, COUNT(kinds), &kind)) return false;
    in->kind = (IrInputKind)kind;
    return read_properties(r, "a property of the input", props, COUNT(props), NULL);
}

static bool read_list(Reader *r, void *to) {
    IrColumn *c = to;
    c->is_list = true;
    return read_char(r, &c->list_sep);
}

static bool read_default(Reader *r, void *to) {
    IrColumn *c = to;
    c->has_default = true;
    if (c->kind != COL_STRING) return lex_double(&r->lx, &c->default_num);
    size_t size = 0;
    Span at = r->lx.token.span;
    if (!lex_bytes(&r->lx, &c->default_str, &size)) return false;
    c->default_len = (int)size;
    return size <= INT32_MAX || lex_fail(&r->lx, at, NULL, "a default of more than 2 GB");
}

static bool read_axis_index(Reader *r, void *to) {
    int64_t axis = -1;
    bool ok = read_axis_name(r, &axis);
    *(int *)to = (int)axis;
    return ok;
}

static bool read_column(Reader *r) {
    static const char *const kinds[] = {"label", "string", "int", "float", "skip"};
    IrColumn c = {.axis = -1};
    int kind;
    const Property props[] = {
        {"skip", P_INT, .to = &c.skip, .lo = 1, .hi = INT32_MAX},
        {"list", P_OTHER, .to = &c, .read = read_list},
        {"axis", P_OTHER, .to = &c.axis, .read = read_axis_index},
        {"default", P_OTHER, .to = &c, .read = read_default},
        {"positive", P_STRING, .to = &c.positive},
        {"negative", P_STRING, .to = &c.negative},
        {"from", P_STRING, .to = &c.from},
        {"side", P_INT, .to = &c.side, .lo = 0, .hi = 1},
        {"used", P_FLAG, .to = &c.used},
        {"used_predict", P_FLAG, .to = &c.used_predict},
        {"unit_label", P_FLAG, .to = &c.unit_label},
    };
    if (!lex_name(&r->lx, "a column's name", &c.name)) return false;
    if (!lex_choice(&r->lx, "label, string, int, float or skip", kinds, COUNT(kinds), &kind)) return false;
    c.kind = (IrColKind)kind;
    if (!read_properties(r, "a property of a column", props, COUNT(props), &c.span)) return false;
    ARENA_PUSH(r->lx.arena, r->p->input.columns, r->p->input.n_columns, r->p->input.cap_columns, c);
    return true;
}

_Static_assert(AXIS_KINDS == 5, "the message below names them all");

static bool read_axis(Reader *r) {
    IrAxis x = {.parent = -1};
    int kind;
    const Property props[] = {
        {"parent", P_OTHER, .to = &x.parent, .read = read_axis_index},
        {"max", P_LONG, .to = &x.max, .lo = 0, .hi = INT64_MAX},
        {"shared", P_FLAG, .to = &x.shared},
    };
    if (!lex_name(&r->lx, "an axis's name", &x.name)) return false;
    if (!lex_choice(&r->lx, "list, first, last, filter or append", ir_axis_kinds, AXIS_KINDS, &kind))
        return false;
    x.kind = (IrAxisKind)kind;
    if (!read_properties(r, "a property of an axis", props, COUNT(props), &x.span)) return false;
    ARENA_PUSH(r->lx.arena, r->p->axes, r->p->n_axes, r->p->cap_axes, x);
    return true;
}

/* ---- vocabularies ---- */

typedef struct {
    IrVocab v;
    bool has_values, has_digest; /* a text written by hand may leave the digest out */
    uint64_t digest;
} VocabItem;

static bool read_values(Reader *r, void *to) {
    IrVocab *v = &((VocabItem *)to)->v;
    int64_t cap = 0, cap_lens = 0, n = 0;
    ((VocabItem *)to)->has_values = true;
    v->n = 0;
    if (!lex_need(&r->lx, '[')) return false;
    while (!lex_take(&r->lx, ']')) {
        const char *s;
        size_t size = 0;
        Span at = r->lx.token.span;
        if ((v->n && !lex_need(&r->lx, ',')) || !lex_bytes(&r->lx, &s, &size)) return false;
        if (size > INT32_MAX) return lex_fail(&r->lx, at, NULL, "a value of more than 2 GB");
        ARENA_PUSH(r->lx.arena, v->lens, n, cap_lens, (int)size);
        ARENA_PUSH(r->lx.arena, v->values, v->n, cap, s);
    }
    return true;
}

static bool read_digest(Reader *r, void *to) {
    VocabItem *item = to;
    item->has_digest = true;
    return lex_hex(&r->lx, &item->digest);
}

/* The values behind a path are read now: types depend on how many there are. */
static bool load_vocab(Reader *r, VocabItem *item, Span at) {
    IrVocab loaded = {.path = item->v.path, .span = at};
    if (!ir_vocab_load(r->p, &loaded)) {
        r->lx.failed = true; /* it has reported */
        return false;
    }
    loaded.span = item->v.span;
    item->v = loaded;
    if (!item->has_digest || loaded.digest == item->digest) return true;
    return lex_fail(&r->lx, at, "the file was changed since this program was made",
                    "vocabulary '%s': expected digest 0x%016llx, found 0x%016llx", loaded.path,
                    (unsigned long long)item->digest, (unsigned long long)loaded.digest);
}

static bool listed_vocab(Reader *r, VocabItem *item, int number, Span at) {
    item->v.digest = ir_vocab_digest(&item->v);
    if (!item->has_digest || item->v.digest == item->digest) return true;
    return lex_fail(&r->lx, at, NULL, "vocab %d: expected digest 0x%016llx of its values, found 0x%016llx",
                    number, (unsigned long long)item->v.digest, (unsigned long long)item->digest);
}

static bool read_vocab(Reader *r) {
    VocabItem item = {0};
    int number;
    const Property props[] = {
        {"path", P_STRING, .to = &item.v.path},
        {"digest", P_OTHER, .to = &item, .read = read_digest},
        {"values", P_OTHER, .to = &item, .read = read_values},
    };
    Span at = r->lx.token.span;
    if (!lex_int32(&r->lx, 0, INT32_MAX, &number)) return false;
    if (number != r->p->n_vocabs)
        return lex_fail(&r->lx, at, NULL, "expected vocab %d, found %d", r->p->n_vocabs, number);
    if (!read_properties(r, "path, digest or values", props, COUNT(props), &item.v.span)) return false;
    if (item.has_values == (item.v.path != NULL))
        return lex_fail(&r->lx, at, NULL, "expected either a path or values");
    if (item.v.path ? !load_vocab(r, &item, at) : !listed_vocab(r, &item, number, at)) return false;
    ARENA_PUSH(r->lx.arena, r->p->vocabs, r->p->n_vocabs, r->p->cap_vocabs, item.v);
    return true;
}

/* ---- optimizers ---- */

static bool read_schedule(Reader *r, IrSched *s, int depth) {
    static const char *const kinds[] = {"exponential", "cosine", "piecewise", "warmup"};
    Lexer *lx = &r->lx;
    Span at = lx->token.span;
    int kind, n_values = 0;
    if (lx->token.kind != T_WORD || strcmp(lx->token.text, "inf") == 0 || strcmp(lx->token.text, "nan") == 0)
        return lex_double(lx, &s->lr);
    if (depth > READ_MAX_DEPTH)
        return lex_fail(lx, at, NULL, "schedules nested more than %d deep", READ_MAX_DEPTH);
    if (!lex_choice(lx, "a number, exponential, cosine, piecewise or warmup", kinds, COUNT(kinds), &kind))
        return false;
    s->kind = (IrSchedKind)(kind + 1);
    if (!lex_need(lx, '(')) return false;
    bool ok = false;
    switch (s->kind) {
    case SCHED_CONST: break; /* a plain number, read above */
    case SCHED_EXPONENTIAL:
        ok = lex_double(lx, &s->lr) && lex_need(lx, ',') && lex_double(lx, &s->rate) && lex_need(lx, ',') &&
             lex_double(lx, &s->every);
        break;
    case SCHED_COSINE:
        ok = lex_double(lx, &s->lr) && lex_need(lx, ',') && lex_double(lx, &s->steps) && lex_need(lx, ',') &&
             lex_double(lx, &s->end);
        break;
    case SCHED_PIECEWISE:
        ok = read_numbers(r, &s->at, &s->n) && lex_need(lx, ',') && read_numbers(r, &s->values, &n_values);
        if (ok && n_values != s->n + 1)
            ok = lex_fail(lx, at, NULL, "expected %d values for %d bounds, found %d", s->n + 1, s->n,
                          n_values);
        break;
    case SCHED_WARMUP:
        s->then = ARENA_NEW(lx->arena, IrSched);
        ok = lex_double(lx, &s->steps) && lex_need(lx, ',') && read_schedule(r, s->then, depth + 1);
        break;
    }
    return ok && lex_need(lx, ')');
}

static bool read_rate(Reader *r, void *to) { return read_schedule(r, to, 0); }

static bool read_optimizer(Reader *r) {
    static const char *kinds[OPT_FTRL + 1];
    IrOptimizer o = {0};
    int number, kind;
    const Property props[] = {
        {"lr", P_OTHER, .to = &o.lr, .read = read_rate},
        {"clip_norm", P_DOUBLE, .to = &o.clip_norm},
        {"l2", P_DOUBLE, .to = &o.l2},
        {"momentum", P_DOUBLE, .to = &o.momentum},
        {"init", P_DOUBLE, .to = &o.init},
        {"rate", P_DOUBLE, .to = &o.rate},
        {"every", P_DOUBLE, .to = &o.every},
        {"beta1", P_DOUBLE, .to = &o.beta1},
        {"beta2", P_DOUBLE, .to = &o.beta2},
        {"eps", P_DOUBLE, .to = &o.eps},
        {"rho", P_DOUBLE, .to = &o.rho},
        {"l1_ftrl", P_DOUBLE, .to = &o.l1_ftrl},
        {"l2_ftrl", P_DOUBLE, .to = &o.l2_ftrl},
        {"exact", P_FLAG, .to = &o.exact},
        {"for", P_STRINGS, .to = &o.targets, .n = &o.n_targets},
    };
    for (int i = 0; i <= OPT_FTRL; i++) kinds[i] = ir_opt_name((IrOptKind)i);
    Span at = r->lx.token.span;
    if (!lex_int32(&r->lx, 0, INT32_MAX, &number)) return false;
    if (number != r->p->n_opts)
        return lex_fail(&r->lx, at, NULL, "expected optimizer %d, found %d", r->p->n_opts, number);
    if (!lex_choice(&r->lx, "an optimizer", kinds, COUNT(kinds), &kind)) return false;
    o.kind = (IrOptKind)kind;
    if (!read_properties(r, "a property of an optimizer", props, COUNT(props), &o.span)) return false;
    ARENA_PUSH(r->lx.arena, r->p->opts, r->p->n_opts, r->p->cap_opts, o);
    return true;
}

/* ---- weights ---- */

static bool read_weight_shape(Reader *r, IrWeight *w) {
    if (!lex_need(&r->lx, '[')) return false;
    do {
        if (w->rank == IR_MAX_RANK)
            return lex_fail(&r->lx, r->lx.token.span, NULL, "more than %d dimensions", IR_MAX_RANK);
        if (!lex_int(&r->lx, 1, INT64_MAX, &w->dim[w->rank++])) return false;
    } while (lex_take(&r->lx, ','));
    return lex_need(&r->lx, ']');
}

static bool read_weight(Reader *r) {
    static const char *inits[INIT_HE_NORMAL + 1];
    IrWeight w = {.optimizer = -1, .own_optimizer = -1};
    int init;
    const Property props[] = {
        {"trainable", P_FLAG, .to = &w.trainable},
        {"table", P_FLAG, .to = &w.table},
        {"lazy", P_FLAG, .to = &w.lazy},
        {"running", P_FLAG, .to = &w.running},
        {"sparse", P_FLAG, .to = &w.sparse},
        {"optimizer", P_INT, .to = &w.optimizer, .lo = 0, .hi = INT32_MAX},
        {"own_optimizer", P_INT, .to = &w.own_optimizer, .lo = 0, .hi = INT32_MAX},
    };
    for (int i = 0; i <= INIT_HE_NORMAL; i++) inits[i] = ir_init_name((IrInit)i);
    if (!lex_name(&r->lx, "a weight's name", &w.name) || !read_weight_shape(r, &w)) return false;
    if (!lex_choice(&r->lx, "an initialiser", inits, COUNT(inits), &init)) return false;
    w.init = (IrInit)init;
    if (lex_take(&r->lx, '(') && (!lex_double(&r->lx, &w.init_arg) || !lex_need(&r->lx, ')'))) return false;
    if (!read_properties(r, "a property of a weight", props, COUNT(props), &w.span)) return false;
    ARENA_PUSH(r->lx.arena, r->p->weights, r->p->n_weights, r->p->cap_weights, w);
    return true;
}

/* ---- training ---- */

static bool read_train(Reader *r) {
    IrProgram *p = r->p;
    const Property props[] = {
        {"batch", P_LONG, .to = &p->batch, .lo = 0, .hi = INT64_MAX},
        {"epochs", P_LONG, .to = &p->epochs, .lo = 0, .hi = INT64_MAX},
        {"steps", P_LONG, .to = &p->steps, .lo = 0, .hi = INT64_MAX},
        {"shuffle", P_LONG, .to = &p->shuffle, .lo = 0, .hi = INT64_MAX},
        {"seed", P_LONG, .to = &p->seed, .lo = INT64_MIN, .hi = INT64_MAX},
    };
    return read_properties(r, "batch, epochs, steps, shuffle or seed", props, COUNT(props), NULL);
}

static bool read_list_item(Reader *r, const char ***list, int *n, int *cap) {
    const char *s;
    if (!lex_string(&r->lx, &s)) return false;
    ARENA_PUSH(r->lx.arena, *list, *n, *cap, s);
    return lex_line_end(&r->lx);
}

/* ---- the whole ---- */

typedef enum {
    I_MODEL,
    I_SOURCE,
    I_DIGEST,
    I_INPUT,
    I_TRAIN, /* once at most */
    I_FILE,
    I_PARAM,
    I_COLUMN,
    I_AXIS,
    I_VOCAB,
    I_OPTIMIZER,
    I_WEIGHT,
    I_REQUEST,
    I_APPLIED,
    I_EFFECT,
    I_FUNC
} Item;

static bool read_item(Reader *r, Item item) {
    IrProgram *p = r->p;
    Lexer *lx = &r->lx;
    switch (item) {
    case I_MODEL: return lex_name(lx, "the model's name", &p->name) && lex_line_end(lx);
    case I_SOURCE: return lex_string(lx, &p->source) && lex_line_end(lx);
    case I_DIGEST: return lex_hex(lx, &p->digest) && lex_line_end(lx);
    case I_INPUT: return read_input(r);
    case I_TRAIN: return read_train(r);
    case I_FILE: return read_file(r);
    case I_PARAM: return read_param(r);
    case I_COLUMN: return read_column(r);
    case I_AXIS: return read_axis(r);
    case I_VOCAB: return read_vocab(r);
    case I_OPTIMIZER: return read_optimizer(r);
    case I_WEIGHT: return read_weight(r);
    case I_REQUEST: return read_list_item(r, &p->requests, &p->n_requests, &p->cap_requests);
    case I_APPLIED: return read_list_item(r, &p->applied, &p->n_applied, &p->cap_applied);
    case I_EFFECT: return read_list_item(r, &p->effects, &p->n_effects, &p->cap_effects);
    case I_FUNC: return read_func(r);
    }
    return false;
}

/* For the verifier's errors. */
static void note_place(Reader *r, Item item, Span at) {
    static const IrDecl decls[] = {[I_PARAM] = DECL_PARAM,         [I_COLUMN] = DECL_COLUMN,
                                   [I_AXIS] = DECL_AXIS,           [I_VOCAB] = DECL_VOCAB,
                                   [I_OPTIMIZER] = DECL_OPTIMIZER, [I_WEIGHT] = DECL_WEIGHT,
                                   [I_TRAIN] = DECL_TRAIN,         [I_FUNC] = DECL_FUNC};
    bool declares = item == I_TRAIN || item == I_FUNC || (item >= I_PARAM && item <= I_WEIGHT);
    if (!declares) return;
    IrDecl d = decls[item];
    ARENA_PUSH(r->lx.arena, r->places.at[d], r->places.n[d], r->places.cap[d], at);
}

static bool read_items(Reader *r) {
    static const char *const words[] = {"model",   "source",  "digest", "input", "train",     "file",
                                        "param",   "column",  "axis",   "vocab", "optimizer", "weight",
                                        "request", "applied", "effect", "func"};
    unsigned seen = 0;
    while (!r->lx.failed && r->lx.token.kind != T_END) {
        int item;
        Span at = r->lx.token.span;
        if (r->lx.token.kind == T_NEWLINE) {
            lex_next(&r->lx);
            continue;
        }
        if (!lex_choice(&r->lx, "an item of a program", words, COUNT(words), &item)) return false;
        if (r->p->n_funcs && item != I_FUNC)
            return lex_fail(&r->lx, at, NULL, "expected func, as functions come last, found '%s'",
                            words[item]);
        if (!r->p->n_funcs && item == I_FUNC && !ir_verify_decls(r->p, &r->places))
            return false; /* types rely on them */
        if (item <= I_TRAIN && (seen & 1u << item))
            return lex_fail(&r->lx, at, NULL, "a second '%s'", words[item]);
        seen |= 1u << item;
        if (!read_item(r, (Item)item)) return false;
        note_place(r, (Item)item, at);
        if (item == I_TRAIN) r->p->train_at = at;
        if (item == I_REQUEST)
            ARENA_PUSH(r->lx.arena, r->p->request_spans, r->p->n_request_spans, r->p->cap_request_spans, at);
        if (item == I_APPLIED)
            ARENA_PUSH(r->lx.arena, r->p->applied_spans, r->p->n_applied_spans, r->p->cap_applied_spans, at);
    }
    return !r->lx.failed;
}

static bool read_version(Reader *r) {
    Lexer *lx = &r->lx;
    static const char expected[] = "a file that begins with 'ctrc-ir 1'";
    while (!lx->failed && lx->token.kind == T_NEWLINE) lex_next(lx);
    bool known = lex_take_word(lx, "ctrc") && lex_take(lx, '-') && lex_take_word(lx, "ir");
    if (!known) return lex_expected(lx, expected);
    if (lx->token.kind != T_NUMBER || strcmp(lx->token.text, "1") != 0)
        return lex_expected(lx, "version 1 of the IR text");
    lex_next(lx);
    return lex_line_end(lx);
}

static void number_from_largest(IrProgram *p, const IrBody *b) {
    for (int i = 0; i < b->n; i++) {
        b->nodes[i]->aux = NULL; /* held the node's place in the IR text */
        if (b->nodes[i]->id >= p->next_id) p->next_id = b->nodes[i]->id + 1;
        if (b->nodes[i]->body) number_from_largest(p, b->nodes[i]->body);
    }
}

IrProgram *ir_read(Arena *a, Diag *d, const char *path, const char *text, size_t size) {
    Reader r = {.p = ir_program_new(a, d)};
    int file = diag_add_file(d, path, text, size, false);
    lex_start(&r.lx, a, d, file, text, size);
    bool ok = read_version(&r) && read_items(&r);
    r.p->text_end = r.lx.token.span;
    ok = ok && ir_verify_decls(r.p, &r.places) && ir_verify_funcs(r.p, &r.places);
    for (int i = 0; i < r.p->n_funcs; i++) number_from_largest(r.p, &r.p->funcs[i]->body);
    return ok ? r.p : NULL;
}
