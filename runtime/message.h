/* Words for error messages about data: values made printable, nearest names, the system's reasons. */
#ifndef CTRC_RUNTIME_MESSAGE_H
#define CTRC_RUNTIME_MESSAGE_H
#include <stddef.h>

enum { RT_MESSAGE = 1024, RT_SHOWN = 176 };
typedef struct {
    char text[RT_MESSAGE];
} RtMessage;

/* Always false, so that a failing function can end with `return rt_message(…)`. */
int rt_message(RtMessage *m, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Several things to tell below one message, a line each: the first `most` of them, in `room` bytes. */
typedef struct {
    int most, n; /* n: all there are */
    size_t room;
    char text[RT_MESSAGE];
} RtLines;
void rt_line(RtLines *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The lines, and how many more there are. */
const char *rt_lines(RtLines *l);
/* The bytes in single quotes, at most 40 of them and then "...", control bytes and invalid UTF-8 as \xHH. */
const char *rt_show(const char *text, size_t bytes, char out[RT_SHOWN]);
/* The candidate at the smallest edit distance from name, NULL if none is near; candidates may be NULL. */
const char *rt_nearest(const char *name, const char *const *candidates, int n);
/* Says so, and ends the program at once: stdio and the other threads are left as they are. */
_Noreturn void rt_out_of_memory(void);
/* strerror in the style of our messages: lower case. */
const char *rt_reason(int error, char out[RT_SHOWN]);

#endif
