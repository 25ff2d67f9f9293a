/* Between scanner and grammar: where statements end, and which words open one.
 *
 * The grammar never sees a newline but END, one after each statement. A newline ends a statement unless it
 * stands inside ( ) or [ ], after an operator, ',', '=' or '{', or before a line that starts with '|>' or
 * '++'; ';' and '}' end one too. After an error the rest of the statement is skipped here, where the open
 * brackets are known: up to its end, or, when a bracket was never closed, up to the next line that is
 * indented no further than the statement. */
#include <string.h>
#include "frontend/parse.h"
#include "frontend/grammar.h"

static const Token *peek(Parser *p, int i) {
    while (p->n_ahead <= i) {
        scanner_next(p, &p->ahead[p->n_ahead]);
        p->n_ahead++;
    }
    return &p->ahead[i];
}

const Token *tokens_peek(Parser *p) { return peek(p, 0); }

static Token take(Parser *p) {
    Token t = *peek(p, 0);
    p->ahead[0] = p->ahead[1];
    p->n_ahead--;
    return t;
}

bool parse_is_operator(int kind) {
    switch (kind) {
    case OR:
    case AND:
    case LT:
    case LE:
    case GT:
    case GE:
    case EQ:
    case NE:
    case CONCAT:
    case '+':
    case '-':
    case '*':
    case '/':
    case '%':
    case '@': return true;
    }
    return false;
}

/* A newline after such a token counts for nothing. */
static bool continues(int kind) {
    if (parse_is_operator(kind)) return true;
    switch (kind) {
    case PIPE:
    case NOT:
    case ',':
    case '=':
    case '{': return true;
    }
    return false;
}

/* Can a value end with it? Then a '-' behind it is a subtraction. */
static bool ends_value(int kind) {
    return kind == NAME || kind == NUMBER || kind == STRING || kind == ')' || kind == ']' || kind == TRUE_ ||
           kind == FALSE_ || kind == NONE;
}

static bool is_beside(const Token *t) { return t->kind == NAME && !strcmp(t->s, "beside"); }

static bool in_round_or_square(const Parser *p) {
    return p->n_frames > 0 && p->frames[p->n_frames - 1].kind != '{';
}

/* Does the running statement end before t? */
static bool ends_before(const Parser *p, const Token *t) {
    if (t->kind == ';' || t->kind == '}' || t->kind == YYEOF) return true;
    if (p->last.kind == '}') return !(!t->newline && (t->kind == ELSE || is_beside(t)));
    return t->newline && !continues(p->last.kind) && t->kind != PIPE && t->kind != CONCAT;
}

static void open_bracket(Parser *p, const Token *t) {
    if (p->depth >= AST_MAX_NESTING) {
        parse_stop(p, t->span, NULL, "nested more than 200 deep");
        return;
    }
    p->frames[p->n_frames++] =
        (BracketFrame){t->kind, t->span, p->depth - p->unary_run, p->stmt_col, p->stmt_frames, p->stmt_kind};
    p->depth++;
    p->unary_run = 0;
}

/* A bracket that doesn't match stays for the grammar to complain about. After an error '}' closes whatever
 * is open inside its block. */
static void close_bracket(Parser *p, int kind) {
    int opener = kind == ')' ? '(' : kind == ']' ? '[' : '{';
    int n = p->n_frames;
    if (p->recovering && kind == '}')
        while (n > p->stmt_frames && p->frames[n - 1].kind != '{') n--;
    if (n == 0 || p->frames[n - 1].kind != opener) return;
    BracketFrame f = p->frames[n - 1];
    p->n_frames = n - 1;
    p->depth = f.depth;
    p->unary_run = 0;
    if (kind == '}' && !p->recovering) {
        p->stmt_col = f.stmt_col;
        p->stmt_frames = f.stmt_frames;
        p->stmt_kind = f.stmt_kind;
    }
}

static void count_unary(Parser *p, const Token *t) {
    if (t->kind == NOT || (t->kind == '-' && !ends_value(p->last.kind))) {
        p->unary_run++;
        if (++p->depth > AST_MAX_NESTING) parse_stop(p, t->span, NULL, "nested more than 200 deep");
    } else {
        p->depth -= p->unary_run;
        p->unary_run = 0;
    }
}

static void track(Parser *p, const Token *t) {
    switch (t->kind) {
    case '(':
    case '[':
    case '{': open_bracket(p, t); break;
    case ')':
    case ']':
    case '}': close_bracket(p, t->kind); break;
    default: count_unary(p, t);
    }
}

static int statement_word(const char *s) {
    static const struct {
        const char *word;
        int kind;
    } words[] = {{"model", MODEL},         {"param", PARAM},     {"input", INPUT},   {"import", IMPORT},
                 {"layer", LAYER},         {"predict", PREDICT}, {"loss", LOSS},     {"metric", METRIC},
                 {"optimizer", OPTIMIZER}, {"train", TRAIN},     {"enable", ENABLE}, {"disable", DISABLE}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(words[i].word, s)) return words[i].kind;
    return NAME;
}

static const Token *hand_over(Parser *p, Token t) {
    p->before = p->last;
    p->last = t;
    return &p->last;
}

/* END stands where t, which is not taken, makes the statement end. It looks like t to an error message, and a
 * newline like the place right behind the last token. */
static const Token *end_statement(Parser *p, const Token *t) {
    Token end = {.kind = END, .span = t->span, .text = t->text, .len = t->len};
    bool by_newline = t->newline && t->kind != YYEOF;
    if ((by_newline || t->kind == YYEOF) && p->last.span.line) {
        Span s = p->last.span;
        end.span = (Span){s.file, s.end_line, s.end_col, s.end_line, s.end_col + 1};
        end.len = 0;
    }
    if (t->kind == YYEOF)
        end.text = "";
    else if (by_newline)
        end.text = "\n";
    if (t->kind == ';') take(p);
    p->at_start = true;
    p->depth -= p->unary_run;
    p->unary_run = 0;
    return hand_over(p, end);
}

static bool brace_open_in_statement(const Parser *p) {
    for (int i = p->stmt_frames; i < p->n_frames; i++)
        if (p->frames[i].kind == '{') return true;
    return false;
}

static void drop_brackets(Parser *p) {
    if (p->n_frames > p->stmt_frames) {
        p->depth = p->frames[p->stmt_frames].depth;
        p->n_frames = p->stmt_frames;
    }
    p->unary_run = 0;
}

/* After an error: may the statement that holds it be taken to end before t? */
static bool recovers_before(const Parser *p, const Token *t) {
    if (t->kind == YYEOF) return true;
    if (p->n_frames <= p->stmt_frames && t->kind != '}' && ends_before(p, t)) return true;
    if (brace_open_in_statement(p)) return false;
    if (t->kind == '}') return p->stmt_frames > 0;
    return t->newline && t->span.col <= p->stmt_col && t->kind != ')' && t->kind != ']' && t->kind != PIPE &&
           t->kind != CONCAT;
}

static const Token *skip_statement(Parser *p) {
    while (!recovers_before(p, peek(p, 0)) && !p->stopped) {
        Token t = take(p);
        track(p, &t);
        hand_over(p, t);
    }
    p->recovering = false;
    drop_brackets(p);
    return end_statement(p, peek(p, 0));
}

void tokens_recover(Parser *p) {
    Token t = p->last;
    if (p->recovering || t.kind == END || t.kind == YYEOF) return;
    p->recovering = true;
    /* the token at fault may itself open the next statement, or close the block around this one */
    bool next_line = t.newline && !p->last_opened && t.span.col <= p->stmt_col;
    if ((next_line || t.kind == '}') && p->n_ahead < 2 && !brace_open_in_statement(p) &&
        recovers_before(p, &t)) {
        p->ahead[1] = p->ahead[0];
        p->ahead[0] = t;
        p->n_ahead++;
        p->last = p->before;
    }
}

const Token *tokens_next(Parser *p) {
    if (p->d->errors > p->d->max_errors) p->stopped = true; /* and it has said so */
    if (p->stopped) return hand_over(p, (Token){.kind = YYEOF, .span = p->last.span, .text = ""});
    if (p->recovering) return skip_statement(p);
    while (p->at_start && peek(p, 0)->kind == ';') take(p);
    const Token *next = peek(p, 0);
    if (!p->at_start && !in_round_or_square(p) && ends_before(p, next)) return end_statement(p, next);

    Token t = take(p);
    if (t.kind == YYEOF && p->last.span.line) {
        Span s = p->last.span;
        t.span = (Span){s.file, s.end_line, s.end_col, s.end_line, s.end_col + 1};
        t.text = "";
    }
    if (p->at_start && t.kind != '}') {
        p->stmt_col = t.span.col;
        p->stmt_frames = p->n_frames;
        int follow = t.kind == NAME ? peek(p, 0)->kind : 0;
        if (t.kind == NAME && follow != '=' && follow != ',') t.kind = statement_word(t.s);
        p->stmt_kind = t.kind;
    } else if (p->last.kind == '}' && !t.newline && is_beside(&t)) {
        t.kind = BESIDE;
    }
    track(p, &t);
    p->last_opened = p->at_start;
    p->at_start = t.kind == '{';
    hand_over(p, t);
    if (p->stopped) p->last.kind = YYEOF;
    if (t.kind == YYerror) tokens_recover(p);
    return &p->last;
}
