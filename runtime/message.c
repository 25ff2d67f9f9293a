#include "runtime/message.h"
#include <unistd.h>
#include <ctype.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

int rt_message(RtMessage *m, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(m->text, sizeof m->text, format, args);
    va_end(args);
    return 0;
}

void rt_line(RtLines *l, const char *format, ...) {
    if (l->n++ >= l->most) return;
    size_t used = strlen(l->text);
    va_list args;
    va_start(args, format);
    used += (size_t)snprintf(l->text + used, l->room - used, "\n  ");
    if (used < l->room) vsnprintf(l->text + used, l->room - used, format, args);
    va_end(args);
}

const char *rt_lines(RtLines *l) {
    size_t used = strlen(l->text);
    if (l->n > l->most) snprintf(l->text + used, sizeof l->text - used, "\n  and %d more", l->n - l->most);
    return l->text;
}

/* Bytes of the UTF-8 character at p, 0 if there is no valid one. Overlong forms and surrogates are left to
 * the terminal: all that counts here is that no control byte gets through. */
static size_t utf8_length(const unsigned char *p, size_t left) {
    size_t n = p[0] < 0x80                   ? 1
               : p[0] >= 0xc2 && p[0] < 0xe0 ? 2
               : p[0] >= 0xe0 && p[0] < 0xf0 ? 3
               : p[0] >= 0xf0 && p[0] < 0xf5 ? 4
                                             : 0;
    if (!n || n > left) return 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    if (n == 2 && p[0] == 0xc2 && p[1] < 0xa0) return 0; /* C1 controls */
    return n;
}

const char *rt_show(const char *text, size_t bytes, char out[RT_SHOWN]) {
    enum { LIMIT = 40 };
    size_t n = 0, i = 0;
    out[n++] = '\'';
    while (i < bytes && i < LIMIT) {
        const unsigned char *p = (const unsigned char *)text + i;
        size_t len = utf8_length(p, bytes - i);
        if (!len || p[0] < 0x20 || p[0] == 0x7f) {
            n += (size_t)snprintf(out + n, 5, "\\x%02x", p[0]);
            i++;
        } else {
            memcpy(out + n, p, len);
            n += len;
            i += len;
        }
    }
    out[n++] = '\'';
    out[n] = 0;
    if (i < bytes) strcpy(out + n, "...");
    return out;
}

const char *rt_nearest(const char *name, const char *const *candidates, int n) {
    enum { LONGEST = 64 };
    size_t len = strlen(name), best = SIZE_MAX;
    const char *found = NULL;
    if (len > LONGEST) return NULL;
    for (int c = 0; c < n; c++) {
        if (!candidates[c] || strlen(candidates[c]) > LONGEST) continue;
        size_t row[LONGEST + 1], other = strlen(candidates[c]);
        for (size_t j = 0; j <= other; j++) row[j] = j;
        for (size_t i = 1; i <= len; i++) {
            size_t diagonal = row[0];
            row[0] = i;
            for (size_t j = 1; j <= other; j++) {
                int differ =
                    tolower((unsigned char)name[i - 1]) != tolower((unsigned char)candidates[c][j - 1]);
                size_t change = diagonal + (size_t)differ, drop = row[j] + 1, add = row[j - 1] + 1;
                diagonal = row[j];
                row[j] = change < drop ? change : drop;
                if (add < row[j]) row[j] = add;
            }
        }
        if (row[other] < best) {
            best = row[other];
            found = candidates[c];
        }
    }
    return best <= len / 3 + 1 && best < len ? found : NULL;
}

const char *rt_reason(int error, char out[RT_SHOWN]) {
    snprintf(out, RT_SHOWN, "%s", strerror(error));
    if (isupper((unsigned char)out[0]) && islower((unsigned char)out[1]))
        out[0] = (char)tolower((unsigned char)out[0]);
    return out;
}

void rt_out_of_memory(void) {
    static const char text[] = "error: out of memory\n";
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0) _exit(1);
    _exit(1);
}
