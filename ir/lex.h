/* Tokens of IR text, for read.c and read_func.c. After the first error every token is T_END, so that the
 * reader's loops stop by themselves: one error a text. */
#ifndef CTRC_IR_LEX_H
#define CTRC_IR_LEX_H
#include "ir/internal.h"

typedef enum {
    T_END,
    T_NEWLINE,
    T_WORD,   /* a letter or _, then also digits and dots */
    T_NUMBER, /* digits, with point, exponent or 0x; a sign in front is a token of its own */
    T_STRING,
    T_VALUE, /* %12 */
    T_PLACE, /* @31:18-31:52: at the sign, the numbers are read by lex_place */
    T_MARK   /* one other character */
} TokenKind;

typedef struct {
    TokenKind kind;
    Span span;
    const char *text; /* word and number: as written; string: its bytes; terminated by NUL */
    size_t size;
    char mark;
    int64_t id; /* T_VALUE */
} Token;

typedef struct {
    Arena *arena;
    Diag *diag;
    const char *text, *at, *end, *line_start;
    uint32_t line;
    uint16_t file;
    Token token; /* the present one */
    bool failed;
} Lexer;

void lex_start(Lexer *lx, Arena *a, Diag *d, int file, const char *text, size_t size);
void lex_next(Lexer *lx);

/* Reports at the present token ("… , found X" is added) or at a place, and stops. Always false. */
bool lex_expected(Lexer *lx, const char *what);
bool lex_fail(Lexer *lx, Span at, const char *hint, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* If the present token is that mark or word, takes it. */
bool lex_take(Lexer *lx, char mark);
bool lex_take_word(Lexer *lx, const char *word);
/* The same, and an error if it isn't. */
bool lex_need(Lexer *lx, char mark);
bool lex_line_end(Lexer *lx); /* a newline or the end of the text */

bool lex_int(Lexer *lx, int64_t lo, int64_t hi, int64_t *out);
bool lex_int32(Lexer *lx, int lo, int hi, int *out);
bool lex_hex(Lexer *lx, uint64_t *out);
bool lex_double(Lexer *lx, double *out);
bool lex_string(Lexer *lx, const char **out); /* without NUL bytes */
bool lex_bytes(Lexer *lx, const char **out, size_t *size);
bool lex_name(Lexer *lx, const char *what, const char **out); /* word or string */
/* One of n words; out gets its position. */
bool lex_choice(Lexer *lx, const char *what, const char *const *words, int n, int *out);
/* The present T_PLACE: [file/]line:col-line:col; file is the number as written, 0 if none. */
bool lex_place(Lexer *lx, Span *out);

#endif
