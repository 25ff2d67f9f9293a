/* From a file's text to its tree. The text is checked to be UTF-8 first, so that neither scanner nor messages
 * meet a byte that can't be shown. */
#include <string.h>
#include "frontend/parse.h"
#include "frontend/grammar.h"

/* Length of the UTF-8 character at s, 0 if it isn't one. Surrogates and overlong forms are none. */
static size_t utf8_length(const unsigned char *s, size_t left) {
    size_t n = s[0] < 0x80                    ? 1
               : s[0] >= 0xC2 && s[0] <= 0xDF ? 2
               : (s[0] & 0xF0) == 0xE0        ? 3
               : s[0] >= 0xF0 && s[0] <= 0xF4 ? 4
                                              : 0;
    if (n == 0 || n > left) return 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xC0) != 0x80) return 0;
    if (s[0] == 0xE0 && s[1] < 0xA0) return 0;
    if (s[0] == 0xED && s[1] > 0x9F) return 0;
    if (s[0] == 0xF0 && s[1] < 0x90) return 0;
    if (s[0] == 0xF4 && s[1] > 0x8F) return 0;
    return n;
}

/* Reports the first bad byte of each line, up to three lines. */
static bool check_bytes(Diag *d, int file, const char *text, size_t size) {
    const unsigned char *s = (const unsigned char *)text;
    uint32_t line = 1, bad_line = 0;
    size_t line_start = 0;
    int bad = 0;
    for (size_t i = 0; i < size && bad < 3;) {
        size_t n = utf8_length(s + i, size - i);
        if ((n == 0 || s[i] == 0) && bad_line != line) {
            uint32_t col = (uint32_t)(i - line_start) + 1;
            Span at = {(uint16_t)file, line, col, line, col + 1};
            if (n)
                diag_error(d, at, "is this a text file?", "unexpected byte 0x00");
            else
                diag_error(d, at, "save the file as UTF-8", "byte 0x%02x is not UTF-8", s[i]);
            bad_line = line;
            bad++;
        }
        if (s[i] == '\n') {
            line++;
            line_start = i + 1;
        }
        i += n ? n : 1;
    }
    return bad == 0;
}

AstBlock *ast_parse(Arena *a, Diag *d, int file) {
    AstBlock *result = ARENA_NEW(a, AstBlock);
    const char *text = d->files[file].text;
    size_t size = d->files[file].size;
    if (!check_bytes(d, file, text, size)) return result;
    if (size >= 3 &&
        !memcmp(text, "\xEF\xBB\xBF", 3)) { /* a byte-order mark is no part of line 1, in messages either */
        d->files[file].text = text += 3;
        d->files[file].size = size -= 3;
    }
    Parser *p = ARENA_NEW(a, Parser);
    *p = (Parser){
        .a = a, .d = d, .file = file, .result = result, .text = text, .line = 1, .col = 1, .at_start = true};
    if (!scanner_open(p, text, size)) {
        Span nowhere = {0};
        diag_error(d, nowhere, NULL, "out of memory");
        scanner_close(p);
        return result;
    }
    yyparse(p);
    scanner_close(p);
    return result;
}
