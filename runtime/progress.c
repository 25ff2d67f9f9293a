#include "runtime/progress.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool drawn; /* a line stands on the terminal */

void rt_progress_init(RtProgress *p, RtProgressMode mode) {
    *p = (RtProgress){.on = mode == RT_PROGRESS_ALWAYS || (mode == RT_PROGRESS_AUTO && isatty(2))};
}

void rt_progress_begin(RtProgress *p, const char *what, double now) {
    p->what = what;
    p->start = now; /* shown goes on: many short epochs share the line, and the first step of all shows it */
}

static void put_count(char *out, size_t n, double v) {
    if (v < 10000)
        snprintf(out, n, "%.0f", v);
    else if (v < 1e6)
        snprintf(out, n, "%.1fk", v / 1e3);
    else
        snprintf(out, n, "%.2fM", v / 1e6);
}

static void put_time(char *out, size_t n, double seconds) {
    uint64_t s = (uint64_t)(seconds + 0.5);
    if (s < 3600)
        snprintf(out, n, "%llu:%02llu", (unsigned long long)s / 60, (unsigned long long)s % 60);
    else
        snprintf(out, n, "%llu:%02llu:%02llu", (unsigned long long)s / 3600, (unsigned long long)s / 60 % 60,
                 (unsigned long long)s % 60);
}

void rt_progress_show(RtProgress *p, double now, uint64_t rows, double loss, double share, double more) {
    if (!p->on || now - p->shown < 0.2) return;
    p->shown = now;
    double seconds = now - p->start;
    char count[32], rate[32], left[64] = "", lost[48] = "";
    put_count(count, sizeof count, (double)rows);
    put_count(rate, sizeof rate, (double)rows / seconds);
    if (isfinite(loss)) snprintf(lost, sizeof lost, ", loss %.4f", loss);
    if (share > 0.001) {
        char t[32];
        put_time(t, sizeof t, seconds / share * (1 - share + more));
        snprintf(left, sizeof left, ", %s left", t);
    }
    fprintf(stderr, "\r\033[K%s: %s rows, %s rows/s%s%s", p->what, count, rate, lost, left);
    fflush(stderr);
    drawn = true;
}

void rt_progress_clear(void) {
    if (!drawn) return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
    drawn = false;
}
