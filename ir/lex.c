/* Scanner of IR text, by hand. Lines matter: an item ends with its line. `;` opens a comment. */
#include "ir/lex.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool is_name(char c) { return is_letter(c) || is_digit(c) || c == '.'; }

static Span span_to(const Lexer *lx, const char *start) {
    Span s = {lx->file, lx->line, (uint32_t)(start - lx->line_start) + 1, lx->line,
              (uint32_t)(lx->at - lx->line_start) + 1};
    return s;
}

void lex_start(Lexer *lx, Arena *a, Diag *d, int file, const char *text, size_t size) {
    *lx = (Lexer){.arena = a,
                  .diag = d,
                  .text = text,
                  .at = text,
                  .end = text + size,
                  .line_start = text,
                  .line = 1,
                  .file = (uint16_t)file};
    lex_next(lx);
}

bool lex_fail(Lexer *lx, Span at, const char *hint, const char *fmt, ...) {
    if (!lx->failed) {
        va_list ap;
        va_start(ap, fmt);
        const char *text = arena_vprintf(lx->arena, fmt, ap);
        va_end(ap);
        diag_error(lx->diag, at, hint, "%s", text);
    }
    lx->failed = true;
    lx->token.kind = T_END;
    return false;
}

static const char *token_text(Lexer *lx) {
    const Token *t = &lx->token;
    switch (t->kind) {
    case T_END: return "the end of the text";
    case T_NEWLINE: return "the end of the line";
    case T_STRING: return "a string";
    case T_VALUE: return arena_printf(lx->arena, "%%%lld", (long long)t->id);
    case T_PLACE: return "'@'";
    case T_MARK:
        return (unsigned char)t->mark < 0x20 || (unsigned char)t->mark > 0x7e
                   ? arena_printf(lx->arena, "byte 0x%02x", (unsigned char)t->mark)
                   : arena_printf(lx->arena, "'%c'", t->mark);
    default: return arena_printf(lx->arena, "'%.40s'", t->text);
    }
}

bool lex_expected(Lexer *lx, const char *what) {
    return lex_fail(lx, lx->token.span, NULL, "expected %s, found %s", what, token_text(lx));
}

/* ---- scanning ---- */

static int hex_digit(char c) {
    if (is_digit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/* After a backslash. False: not an escape. */
static bool unescape(Lexer *lx, char *out) {
    if (lx->at == lx->end) return false;
    char c = *lx->at++;
    switch (c) {
    case '\\':
    case '"': *out = c; return true;
    case 'n': *out = '\n'; return true;
    case 't': *out = '\t'; return true;
    case 'r': *out = '\r'; return true;
    case 'x': {
        if (lx->end - lx->at < 2) return false;
        int hi = hex_digit(lx->at[0]), lo = hex_digit(lx->at[1]);
        if (hi < 0 || lo < 0) return false;
        lx->at += 2;
        *out = (char)(hi * 16 + lo);
        return true;
    }
    default: return false;
    }
}

static void scan_string(Lexer *lx) {
    const char *start = lx->at++;
    const char *stop = lx->at; /* a bound for the size: escapes only get shorter */
    while (stop < lx->end && *stop != '"' && *stop != '\n')
        stop += *stop == '\\' && stop + 1 < lx->end ? 2 : 1;
    char *s = arena_alloc(lx->arena, (size_t)(stop - lx->at) + 1);
    size_t n = 0;
    for (;;) {
        if (lx->at == lx->end || *lx->at == '\n') {
            lex_fail(lx, span_to(lx, start), NULL,
                     "expected '\"' at the end of a string, found the end of the %s",
                     lx->at == lx->end ? "text" : "line");
            return;
        }
        char c = *lx->at++;
        if (c == '"') break;
        const char *escape = lx->at - 1;
        if (c == '\\' && !unescape(lx, &c)) {
            lex_fail(lx, span_to(lx, escape), NULL,
                     "expected an escape \\\\ \\\" \\n \\t \\r or \\xHH in a string");
            return;
        }
        s[n++] = c;
    }
    lx->token.kind = T_STRING;
    lx->token.text = s;
    lx->token.size = n;
}

static void scan_number(Lexer *lx) {
    const char *s = lx->at;
    while (lx->at < lx->end && (is_name(*lx->at) || ((*lx->at == '-' || *lx->at == '+') &&
                                                     (lx->at[-1] == 'e' || lx->at[-1] == 'E'))))
        lx->at++;
    lx->token.kind = T_NUMBER;
    lx->token.size = (size_t)(lx->at - s);
    lx->token.text = arena_strndup(lx->arena, s, lx->token.size);
}

static void scan_word(Lexer *lx) {
    const char *s = lx->at;
    while (lx->at < lx->end && is_name(*lx->at)) lx->at++;
    lx->token.kind = T_WORD;
    lx->token.size = (size_t)(lx->at - s);
    lx->token.text = arena_strndup(lx->arena, s, lx->token.size);
}

/* %12. Numbers beyond int are cut to one that no node has. */
static void scan_value(Lexer *lx) {
    int64_t id = 0;
    lx->at++;
    while (lx->at < lx->end && is_digit(*lx->at)) {
        id = id * 10 + (*lx->at++ - '0');
        if (id > INT32_MAX) id = INT32_MAX;
    }
    lx->token.kind = T_VALUE;
    lx->token.id = id;
}

static void skip_blanks(Lexer *lx) {
    while (lx->at < lx->end && (*lx->at == ' ' || *lx->at == '\t' || *lx->at == '\r')) lx->at++;
    if (lx->at < lx->end && *lx->at == ';') {
        const char *nl = memchr(lx->at, '\n', (size_t)(lx->end - lx->at));
        lx->at = nl ? nl : lx->end;
    }
}

void lex_next(Lexer *lx) {
    Token *t = &lx->token;
    *t = (Token){.kind = T_END};
    if (lx->failed) return;
    if (lx->at > lx->text && lx->at[-1] == '\n' &&
        lx->line_start != lx->at) { /* the newline before was a token */
        lx->line++;
        lx->line_start = lx->at;
    }
    skip_blanks(lx);
    const char *start = lx->at;
    if (start == lx->end) {
        t->span = span_to(lx, start);
        return;
    }
    char c = *start, after = start + 1 < lx->end ? start[1] : 0;
    if (c == '"')
        scan_string(lx);
    else if (is_letter(c))
        scan_word(lx);
    else if (is_digit(c) || (c == '.' && is_digit(after)))
        scan_number(lx);
    else if (c == '%' && is_digit(after))
        scan_value(lx);
    else {
        lx->at++;
        t->kind = c == '\n' ? T_NEWLINE : c == '@' && is_digit(after) ? T_PLACE : T_MARK;
        t->mark = c;
    }
    if (!lx->failed) t->span = span_to(lx, start);
}

/* ---- taking ---- */

bool lex_take(Lexer *lx, char mark) {
    if (lx->token.kind != T_MARK || lx->token.mark != mark) return false;
    lex_next(lx);
    return !lx->failed;
}

bool lex_take_word(Lexer *lx, const char *word) {
    if (lx->token.kind != T_WORD || strcmp(lx->token.text, word) != 0) return false;
    lex_next(lx);
    return !lx->failed;
}

bool lex_need(Lexer *lx, char mark) {
    if (lex_take(lx, mark)) return true;
    return lex_expected(lx, (char[]){'\'', mark, '\'', 0});
}

bool lex_line_end(Lexer *lx) {
    if (lx->failed) return false;
    if (lx->token.kind == T_END) return true;
    if (lx->token.kind != T_NEWLINE) return lex_expected(lx, "the end of the line");
    lex_next(lx);
    return !lx->failed;
}

bool lex_int(Lexer *lx, int64_t lo, int64_t hi, int64_t *out) {
    Span at = lx->token.span;
    bool minus = lex_take(lx, '-');
    if (lx->token.kind != T_NUMBER) return lex_expected(lx, "a whole number");
    const char *digits = lx->token.text, *text = minus ? arena_printf(lx->arena, "-%s", digits) : digits;
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (*end) return lex_expected(lx, "a whole number");
    if (errno || v < lo || v > hi)
        return lex_fail(lx, at, NULL, "expected a whole number from %lld to %lld, found %.40s", (long long)lo,
                        (long long)hi, text);
    *out = v;
    lex_next(lx);
    return !lx->failed;
}

bool lex_int32(Lexer *lx, int lo, int hi, int *out) {
    int64_t v = 0;
    if (!lex_int(lx, lo, hi, &v)) return false;
    *out = (int)v;
    return true;
}

bool lex_hex(Lexer *lx, uint64_t *out) {
    const Token *t = &lx->token;
    char *end = NULL;
    errno = 0;
    if (t->kind == T_NUMBER && t->size > 2 && t->size <= 18 && t->text[1] == 'x')
        *out = strtoull(t->text, &end, 16);
    if (!end || *end || errno) return lex_expected(lx, "a number 0x…");
    lex_next(lx);
    return !lx->failed;
}

bool lex_double(Lexer *lx, double *out) {
    bool minus = lex_take(lx, '-');
    const Token *t = &lx->token;
    double v = 0;
    if (t->kind == T_WORD && strcmp(t->text, "inf") == 0)
        v = INFINITY;
    else if (t->kind == T_WORD && strcmp(t->text, "nan") == 0)
        v = NAN;
    else {
        char *end = NULL;
        if (t->kind == T_NUMBER && t->text[1] != 'x')
            v = strtod(t->text, &end); /* out of range gives inf or 0 */
        if (!end || *end) return lex_expected(lx, "a number");
    }
    *out = minus ? -v : v;
    lex_next(lx);
    return !lx->failed;
}

bool lex_bytes(Lexer *lx, const char **out, size_t *size) {
    if (lx->token.kind != T_STRING) return lex_expected(lx, "a string");
    *out = lx->token.text;
    *size = lx->token.size;
    lex_next(lx);
    return !lx->failed;
}

bool lex_string(Lexer *lx, const char **out) {
    size_t size = 0;
    Span at = lx->token.span;
    if (!lex_bytes(lx, out, &size)) return false;
    return strlen(*out) == size || lex_fail(lx, at, NULL, "expected a string without NUL bytes");
}

bool lex_name(Lexer *lx, const char *what, const char **out) {
    if (lx->token.kind == T_STRING) return lex_string(lx, out);
    if (lx->token.kind != T_WORD) return lex_expected(lx, what);
    *out = lx->token.text;
    lex_next(lx);
    return !lx->failed;
}

bool lex_choice(Lexer *lx, const char *what, const char *const *words, int n, int *out) {
    if (lx->token.kind != T_WORD) return lex_expected(lx, what);
    for (int i = 0; i < n; i++)
        if (strcmp(lx->token.text, words[i]) == 0) {
            *out = i;
            lex_next(lx);
            return !lx->failed;
        }
    return lex_fail(lx, lx->token.span, diag_did_you_mean(lx->diag, lx->token.text, words, n),
                    "expected %s, found '%.40s'", what, lx->token.text);
}

/* Digits up to a separator, straight from the text: "18-31" is two numbers here, not a difference. */
static bool place_number(Lexer *lx, uint32_t *out) {
    uint64_t v = 0;
    const char *start = lx->at;
    while (lx->at < lx->end && is_digit(*lx->at) && v <= UINT32_MAX) v = v * 10 + (uint64_t)(*lx->at++ - '0');
    *out = (uint32_t)v;
    return lx->at > start && v <= UINT32_MAX;
}

bool lex_place(Lexer *lx, Span *out) {
    const char *start = lx->at;
    uint32_t first, file = 0;
    Span s = {0};
    bool ok = place_number(lx, &first);
    if (ok && lx->at < lx->end && *lx->at == '/') {
        lx->at++;
        file = first;
        ok = place_number(lx, &first);
    }
    s.line = first;
    uint32_t *const rest[] = {&s.col, &s.end_line, &s.end_col};
    for (int i = 0; ok && i < 3; i++) {
        ok = lx->at < lx->end && *lx->at == ":-:"[i];
        if (ok) lx->at++, ok = place_number(lx, rest[i]);
    }
    if (!ok || s.line == 0 || file > UINT16_MAX)
        return lex_fail(lx, span_to(lx, start), NULL,
                        "expected a place as in @31:18-31:52 or @1/31:18-31:52");
    s.file = (uint16_t)file;
    *out = s;
    lex_next(lx);
    return !lx->failed;
}
