/* Puts syntax errors into words: what was expected there, in a few words, what was found, and where the
 * mistake is a common one a hint. */
#include <string.h>
#include "frontend/parse.h"
#include "frontend/grammar.h"

typedef struct {
    Parser *p;
    const char *const *names; /* of the expected symbols */
    int n;
} Expected;

static bool expects(const Expected *e, const char *name) {
    for (int i = 0; i < e->n; i++)
        if (!strcmp(e->names[i], name)) return true;
    return false;
}

/* Is the innermost block one of columns? */
static bool in_columns(const Parser *p) {
    return p->stmt_frames > 0 && p->frames[p->stmt_frames - 1].stmt_kind == INPUT;
}

static bool is_name(const Token *t, const char *word) {
    return t->s && t->kind != STRING && !strcmp(t->s, word);
}

static bool is_reserved(int kind) {
    switch (kind) {
    case FOR:
    case IN:
    case IF:
    case ELSE:
    case RETURN:
    case TRUE_:
    case FALSE_:
    case NONE:
    case AND:
    case OR:
    case NOT: return true;
    }
    return false;
}

static bool found_end_of_file(const Token *t) {
    return t->kind == YYEOF || (t->kind == END && t->len == 0 && t->text[0] == 0);
}

/* What may follow, a handful of descriptions at most. */
static int describe_expected(const Expected *e, const char *out[], int most) {
    static const char *const single[] = {"','",      "'='",    "')'",         "']'",        "'{'",
                                         "'('",      "'}'",    "'for'",       "'in'",       "'if'",
                                         "'beside'", "string", "end of line", "end of file"};
    const Parser *p = e->p;
    int n = 0;
    bool value = expects(e, "number"), statement = expects(e, "'model'");
    bool operators = expects(e, "'+'") || expects(e, "'|>'"), list = expects(e, "','");
    if (p->before.kind == PIPE) {
        out[n++] = "a name or a call";
        return n;
    }
    if (found_end_of_file(&p->last) && expects(e, "'}'")) {
        out[n++] = "'}'";
        return n;
    }
    if (statement && value) {
        out[n++] = "a statement";
    } else if (statement) {
        out[n++] = "a column";
    } else if (value) {
        out[n++] = "a value";
    } else if (expects(e, "name") && !expects(e, "end of line")) {
        bool kind =
            in_columns(p) && p->last.kind != STRING && p->before.span.line == p->last.span.line && !operators;
        out[n++] = kind && p->n_frames == p->stmt_frames
                       ? "the column's kind (label, string, int, float or skip)"
                       : "a name";
    }
    if (statement) return n;
    for (size_t i = 0; i < sizeof single / sizeof *single; i++) {
        bool starts_value = !strcmp(single[i], "'('") && (value || operators);
        bool part = !strcmp(single[i], "string") && value;
        /* of `f(a` and of `x` at a statement's start, the one way to go on that is meant most often */
        bool rare = list && ((!strcmp(single[i], "'='") && expects(e, "')'")) ||
                             (!strcmp(single[i], "','") && expects(e, "end of line")));
        if (!expects(e, single[i]) || starts_value || part || rare) continue;
        if (n == most) return most + 1;
        out[n++] = !strcmp(single[i], "string") ? "a string in double quotes" : single[i];
    }
    if (n == 0 && operators) out[n++] = "an operator";
    return n;
}

static const char *describe_found(Parser *p, const Token *t) {
    if (found_end_of_file(t)) return "end of file";
    if (t->kind == END && t->text[0] == '\n') return "end of line";
    int shown = (int)(t->len > 40 ? 40 : t->len);
    while (shown > 0 && (size_t)shown < t->len && ((unsigned char)t->text[shown] & 0xC0) == 0x80) shown--;
    const char *more = (size_t)shown < t->len ? "…" : "";
    if (t->kind == STRING) return arena_printf(p->a, "%.*s%s", shown, t->text, more);
    return arena_printf(p->a, "'%.*s%s'", shown, t->text, more);
}

/* ---- hints ---- */

static const char *foreign_word(const Token *t) {
    static const struct {
        const char *word, *hint;
    } hints[] = {
        {"def", "a layer is written 'layer f(x) = …' or 'layer f(x) { … return … }'"},
        {"lambda", "a layer is written 'layer f(x) = …' or 'layer f(x) { … return … }'"},
        {"fn", "a layer is written 'layer f(x) = …' or 'layer f(x) { … return … }'"},
        {"func", "a layer is written 'layer f(x) = …' or 'layer f(x) { … return … }'"},
        {"function", "a layer is written 'layer f(x) = …' or 'layer f(x) { … return … }'"},
        {"class", "a layer is written 'layer f(x) = …' or 'layer f(x) { … return … }'"},
        {"elif", "write else { if … { … } }"},
        {"while", "there is no 'while': for i in range(n) { … }"},
        {"let", "a name is bound by 'x = …'"},
        {"var", "a name is bound by 'x = …'"},
        {"const", "a name is bound by 'x = …'"},
        {"auto", "a name is bound by 'x = …'"},
        {"from", "a file is brought in by 'import \"file.ctr\"'"},
        {"beside", "'beside' stands on the line of the '}' before it"},
    };
    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
        if (is_name(t, hints[i].word)) return hints[i].hint;
    return NULL;
}

static const char *reserved_hint(Parser *p, const Expected *e, const Token *t) {
    static const char *const choose = "'if' and 'else' choose statements: if c { x = a } else { x = b }";
    if (t->kind == ELSE && p->before.kind == END) return "'else' stands on the line of the '}' before it";
    if (t->kind == ELSE) return choose;
    if (t->kind == IF && p->before.kind == ELSE) return "write else { if … { … } }";
    if (t->kind == IF && !expects(e, "name")) return choose;
    if (t->kind == FOR && p->before.kind == '[') return "the value comes first: [f(x) for x in list]";
    bool name = expects(e, "name") && (!expects(e, "number") || tokens_peek(p)->kind == '=');
    if (name || (in_columns(p) && p->last_opened))
        return arena_printf(p->a, "'%.*s' is a reserved word, a name must be another", (int)t->len, t->text);
    return NULL;
}

/* A bracket that was never closed shows where the next line goes on as if it had been. */
static const char *bracket_hint(Parser *p, const Expected *e, const Token *t) {
    int n = p->n_frames;
    if (n && (t->kind == '(' || t->kind == '[' || t->kind == '{')) n--; /* the one just met */
    const BracketFrame *f = n ? &p->frames[n - 1] : NULL;
    bool closer = t->kind == ')' || t->kind == ']' || t->kind == '}';
    if (closer && !f)
        return arena_printf(p->a, "no '%c' is open here", t->kind == ')' ? '(' : t->kind == ']' ? '[' : '{');
    if (!f) return NULL;
    if (f->kind == '{' ? !found_end_of_file(t) && !closer
                       : !(closer || t->newline || t->kind == YYEOF || t->kind == '{' || t->kind == ';'))
        return NULL;
    if (!expects(e, f->kind == '(' ? "')'" : f->kind == '[' ? "']'" : "'}'") && t->kind != YYEOF) return NULL;
    return arena_printf(p->a, "the '%c' of line %u is still open", f->kind, f->span.line);
}

/* What the running statement's form asks for at this place. */
static const char *statement_hint(Parser *p, const Expected *e) {
    const Token *t = &p->last, *before = &p->before;
    if (before->kind == IMPORT && t->kind == NAME) return arena_printf(p->a, "write import \"%s.ctr\"", t->s);
    if ((before->kind == ENABLE || before->kind == DISABLE) && t->kind == NAME)
        return "the name of a pass stands in double quotes";
    if (p->stmt_kind == LAYER && before->kind == NAME && expects(e, "'('"))
        return "a layer has brackets: layer f(x) = …";
    if (p->stmt_kind == INPUT && before->kind == NAME && expects(e, "'('") && !in_columns(p))
        return arena_printf(p->a, "write input %s() { … }", before->s);
    if (in_columns(p) && t->kind == NAME && expects(e, "'+'")) return "'= constant' stands last in a column";
    if (p->stmt_kind == PARAM && before->kind == NAME && expects(e, "'='") && t->kind == END)
        return "a param has a default: param lr = 0.001";
    return NULL;
}

static const char *hint_for(Parser *p, const Expected *e) {
    const Token *t = &p->last;
    const char *hint = statement_hint(p, e);
    if (hint) return hint;
    if (t->kind == '=' && !in_columns(p))
        return "'=' binds a name, at the start of a statement; '==' asks whether two values are equal";
    if (t->kind == EQ && expects(e, "'='")) return "a name is bound by '='";
    if ((hint = bracket_hint(p, e, t))) return hint;
    if (is_reserved(t->kind) && (hint = reserved_hint(p, e, t))) return hint;
    if ((hint = foreign_word(&p->before))) return hint;
    if (parse_is_operator(t->kind) && expects(e, "'|>'") && !expects(e, "'+'"))
        return "put brackets around what comes before: (a |> f) + b";
    if (expects(e, "'{'") && t->kind == END && t->text[0] == '\n') return "the '{' stands on the same line";
    if (t->kind == '+' && expects(e, "number")) return "there is no unary '+'";
    return NULL;
}

void syntax_error(Parser *p, const char *const *expected, int n) {
    if (p->stopped) return;
    Expected e = {p, expected, n};
    enum { MOST = 4 };
    const char *words[MOST + 1];
    int k = describe_expected(&e, words, MOST);
    const char *found = describe_found(p, &p->last), *hint = hint_for(p, &e);
    if (k == 0 || k > MOST) {
        diag_error(p->d, p->last.span, hint, "unexpected %s", found);
        return;
    }
    const char *list = words[0];
    for (int i = 1; i < k; i++)
        list = arena_printf(p->a, "%s%s%s", list, i == k - 1 ? " or " : ", ", words[i]);
    diag_error(p->d, p->last.span, hint, "expected %s, found %s", list, found);
}
