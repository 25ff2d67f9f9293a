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

/* The next word of a line of properties, one of `words`; those before `n_valued` take "=value". */
static bool read_property(Reader *r, const char *of, const char *const *words, int n, int n_valued,
                          int *which) {
    if (!lex_choice(&r->lx, of, words, n, which)) return false;
    return *which >= n_valued || lex_need(&r->lx, '=');
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
    static const char *const words[] = {"separator", "quote", "missing", "beside", "header", "trim"};
    IrInput *in = &r->p->input;
    int kind, k;
    if (!lex_choice(&r->lx, "csv, tsv, libsvm or libffm", kinds, COUNT(kinds), &kind)) return false;
    in->kind = (IrInputKind)kind;
    while (!is_end(r)) {
        if (!read_property(r, "a property of the input", words, COUNT(words), 4, &k)) return false;
        bool ok = true;
        switch (k) {
        case 0: ok = read_char(r, &in->separator); break;
        case 1: ok = read_char(r, &in->quote); break;
        case 2: ok = read_strings(r, &in->missing, &in->n_missing); break;
        case 3: ok = lex_string(&r->lx, &in->beside); break;
        case 4: in->header = true; break;
        case 5: in->trim = true; break;
        }
        if (!ok) return false;
    }
    return lex_line_end(&r->lx);
}

static bool read_default(Reader *r, IrColumn *c) {
    c->has_default = true;
    if (c->kind != COL_STRING) return lex_double(&r->lx, &c->default_num);
    size_t size;
    Span at = r->lx.token.span;
    if (!lex_bytes(&r->lx, &c->default_str, &size)) return false;
    c->default_len = (int)size;
    return size <= INT32_MAX || lex_fail(&r->lx, at, NULL, "a default of more than 2 GB");
}

static bool read_column_axis(Reader *r, IrColumn *c) {
    int64_t axis;
    if (!read_axis_name(r, &axis)) return false;
    c->axis = (int)axis;
    return true;
}

static bool read_column(Reader *r) {
    static const char *const kinds[] = {"label", "string", "int", "float", "skip"};
    static const char *const words[] = {"skip", "list", "axis", "default",      "positive",  "negative",
                                        "from", "side", "used", "used_predict", "unit_label"};
    IrColumn c = {.axis = -1};
    int kind, k;
    if (!lex_name(&r->lx, "a column's name", &c.name)) return false;
    if (!lex_choice(&r->lx, "label, string, int, float or skip", kinds, COUNT(kinds), &kind)) return false;
    c.kind = (IrColKind)kind;
    while (!is_end(r)) {
        bool ok = true;
        if (r->lx.token.kind == T_PLACE) {
            if (!read_place(r, &c.span)) return false;
            continue;
        }
        if (!read_property(r, "a property of a column", words, COUNT(words), 8, &k)) return false;
        switch (k) {
        case 0: ok = lex_int32(&r->lx, 1, INT32_MAX, &c.skip); break;
        case 1: c.is_list = true, ok = read_char(r, &c.list_sep); break;
        case 2: ok = read_column_axis(r, &c); break;
        case 3: ok = read_default(r, &c); break;
        case 4: ok = lex_string(&r->lx, &c.positive); break;
        case 5: ok = lex_string(&r->lx, &c.negative); break;
        case 6: ok = lex_string(&r->lx, &c.from); break;
        case 7: ok = lex_int32(&r->lx, 0, 1, &c.side); break;
        case 8: c.used = true; break;
        case 9: c.used_predict = true; break;
        case 10: c.unit_label = true; break;
        }
        if (!ok) return false;
    }
    ARENA_PUSH(r->lx.arena, r->p->input.columns, r->p->input.n_columns, r->p->input.cap_columns, c);
    return lex_line_end(&r->lx);
}

static bool read_axis(Reader *r) {
    static const char *const kinds[] = {"list", "first", "last", "filter"};
    static const char *const words[] = {"parent", "max", "shared"};
    IrAxis x = {.parent = -1};
    int kind, k;
    int64_t parent;
    if (!lex_name(&r->lx, "an axis's name", &x.name)) return false;
    if (!lex_choice(&r->lx, "list, first, last or filter", kinds, COUNT(kinds), &kind)) return false;
    x.kind = (IrAxisKind)kind;
    while (!is_end(r)) {
        if (r->lx.token.kind == T_PLACE) {
            if (!read_place(r, &x.span)) return false;
            continue;
        }
        if (!read_property(r, "a property of an axis", words, COUNT(words), 2, &k)) return false;
        if (k == 0) {
            if (!read_axis_name(r, &parent)) return false;
            x.parent = (int)parent;
        } else if (k == 1) {
            if (!lex_int(&r->lx, 0, INT64_MAX, &x.max)) return false;
        } else {
            x.shared = true;
        }
    }
    ARENA_PUSH(r->lx.arena, r->p->axes, r->p->n_axes, r->p->cap_axes, x);
    return lex_line_end(&r->lx);
}

/* ---- vocabularies ---- */

static bool read_values(Reader *r, IrVocab *v) {
    int64_t cap = 0, cap_lens = 0, n = 0;
    v->n = 0;
    if (!lex_need(&r->lx, '[')) return false;
    while (!lex_take(&r->lx, ']')) {
        const char *s;
        size_t size;
        Span at = r->lx.token.span;
        if ((v->n && !lex_need(&r->lx, ',')) || !lex_bytes(&r->lx, &s, &size)) return false;
        if (size > INT32_MAX) return lex_fail(&r->lx, at, NULL, "a value of more than 2 GB");
        ARENA_PUSH(r->lx.arena, v->lens, n, cap_lens, (int)size);
        ARENA_PUSH(r->lx.arena, v->values, v->n, cap, s);
    }
    return true;
}

/* The values behind a path are read now: types depend on how many there are. digest NULL: any. */
static bool load_vocab(Reader *r, IrVocab *v, const uint64_t *digest, Span at) {
    IrVocab loaded = {.path = v->path, .span = at};
    if (!ir_vocab_load(r->p, &loaded)) {
        r->lx.failed = true;
        return false;
    }
    loaded.span = v->span;
    *v = loaded;
    if (!digest || v->digest == *digest) return true;
    return lex_fail(&r->lx, at, "the file was changed since this program was made",
                    "vocabulary '%s': expected digest 0x%016llx, found 0x%016llx", v->path,
                    (unsigned long long)*digest, (unsigned long long)v->digest);
}

static bool read_vocab(Reader *r) {
    static const char *const words[] = {"path", "digest", "values"};
    IrVocab v = {0};
    int number, k;
    uint64_t digest = 0;
    bool has_values = false, has_digest = false; /* a text written by hand may leave the digest out */
    Span at = r->lx.token.span;
    if (!lex_int32(&r->lx, 0, INT32_MAX, &number)) return false;
    if (number != r->p->n_vocabs)
        return lex_fail(&r->lx, at, NULL, "expected vocab %d, found %d", r->p->n_vocabs, number);
    while (!is_end(r)) {
        if (r->lx.token.kind == T_PLACE) {
            if (!read_place(r, &v.span)) return false;
            continue;
        }
        if (!read_property(r, "path, digest or values", words, COUNT(words), 3, &k)) return false;
        if (k == 0 && !lex_string(&r->lx, &v.path)) return false;
        if (k == 1 && !lex_hex(&r->lx, &digest)) return false;
        if (k == 2 && !read_values(r, &v)) return false;
        has_digest |= k == 1;
        has_values |= k == 2;
    }
    if (has_values == (v.path != NULL)) return lex_fail(&r->lx, at, NULL, "expected either a path or values");
    if (v.path && !load_vocab(r, &v, has_digest ? &digest : NULL, at)) return false;
    if (!v.path) {
        v.digest = ir_vocab_digest(&v);
        if (has_digest && v.digest != digest)
            return lex_fail(&r->lx, at, NULL,
                            "vocab %d: expected digest 0x%016llx of its values, found 0x%016llx", number,
                            (unsigned long long)v.digest, (unsigned long long)digest);
    }
    ARENA_PUSH(r->lx.arena, r->p->vocabs, r->p->n_vocabs, r->p->cap_vocabs, v);
    return lex_line_end(&r->lx);
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

static bool read_optimizer(Reader *r) {
    static const char *const words[] = {"lr",   "clip_norm", "l2",      "momentum", "init",
                                        "rate", "every",     "beta1",   "beta2",    "eps",
                                        "rho",  "l1_ftrl",   "l2_ftrl", "for",      "exact"};
    static const char *kinds[OPT_FTRL + 1];
    IrOptimizer o = {0};
    double *const numbers[] = {NULL,     &o.clip_norm, &o.l2,  &o.momentum, &o.init,    &o.rate,   &o.every,
                               &o.beta1, &o.beta2,     &o.eps, &o.rho,      &o.l1_ftrl, &o.l2_ftrl};
    int number, kind, k;
    for (int i = 0; i <= OPT_FTRL; i++) kinds[i] = ir_opt_name((IrOptKind)i);
    Span at = r->lx.token.span;
    if (!lex_int32(&r->lx, 0, INT32_MAX, &number)) return false;
    if (number != r->p->n_opts)
        return lex_fail(&r->lx, at, NULL, "expected optimizer %d, found %d", r->p->n_opts, number);
    if (!lex_choice(&r->lx, "an optimizer", kinds, COUNT(kinds), &kind)) return false;
    o.kind = (IrOptKind)kind;
    while (!is_end(r)) {
        if (r->lx.token.kind == T_PLACE) {
            if (!read_place(r, &o.span)) return false;
            continue;
        }
        if (!read_property(r, "a property of an optimizer", words, COUNT(words), 14, &k)) return false;
        if (k == 0 && !read_schedule(r, &o.lr, 0)) return false;
        if (k > 0 && k < COUNT(numbers) && !lex_double(&r->lx, numbers[k])) return false;
        if (k == 13 && !read_strings(r, &o.targets, &o.n_targets)) return false;
        if (k == 14) o.exact = true;
    }
    ARENA_PUSH(r->lx.arena, r->p->opts, r->p->n_opts, r->p->cap_opts, o);
    return lex_line_end(&r->lx);
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
    static const char *const words[] = {"optimizer", "own_optimizer", "trainable", "table",
                                        "lazy",      "running",       "sparse"};
    static const char *inits[INIT_HE_NORMAL + 1];
    IrWeight w = {.optimizer = -1, .own_optimizer = -1};
    int init, k;
    for (int i = 0; i <= INIT_HE_NORMAL; i++) inits[i] = ir_init_name((IrInit)i);
    if (!lex_name(&r->lx, "a weight's name", &w.name) || !read_weight_shape(r, &w)) return false;
    if (!lex_choice(&r->lx, "an initialiser", inits, COUNT(inits), &init)) return false;
    w.init = (IrInit)init;
    if (lex_take(&r->lx, '(') && (!lex_double(&r->lx, &w.init_arg) || !lex_need(&r->lx, ')'))) return false;
    bool *const flags[] = {NULL, NULL, &w.trainable, &w.table, &w.lazy, &w.running, &w.sparse};
    while (!is_end(r)) {
        if (r->lx.token.kind == T_PLACE) {
            if (!read_place(r, &w.span)) return false;
            continue;
        }
        if (!read_property(r, "a property of a weight", words, COUNT(words), 2, &k)) return false;
        if (k >= 2)
            *flags[k] = true;
        else if (!lex_int32(&r->lx, 0, INT32_MAX, k == 0 ? &w.optimizer : &w.own_optimizer))
            return false;
    }
    ARENA_PUSH(r->lx.arena, r->p->weights, r->p->n_weights, r->p->cap_weights, w);
    return lex_line_end(&r->lx);
}

/* ---- training ---- */

static bool read_train(Reader *r) {
    static const char *const words[] = {"batch", "epochs", "steps", "shuffle", "seed"};
    IrProgram *p = r->p;
    int64_t *const numbers[] = {&p->batch, &p->epochs, &p->steps, &p->shuffle, &p->seed};
    int k;
    while (!is_end(r)) {
        if (!read_property(r, "batch, epochs, steps, shuffle or seed", words, COUNT(words), COUNT(words), &k))
            return false;
        if (!lex_int(&r->lx, k == 4 ? INT64_MIN : 0, INT64_MAX, numbers[k])) return false;
    }
    return lex_line_end(&r->lx);
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
    static const char *const words[] = {"model",     "source", "digest",  "input",   "train",
                                        "file",      "param",  "column",  "axis",    "vocab",
                                        "optimizer", "weight", "request", "applied", "func"};
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
    bool ok = read_version(&r) && read_items(&r) && ir_verify_decls(r.p, &r.places) &&
              ir_verify_funcs(r.p, &r.places);
    for (int i = 0; i < r.p->n_funcs; i++) number_from_largest(r.p, &r.p->funcs[i]->body);
    return ok ? r.p : NULL;
}
