/* The grid: where the fields of whole lines end, found for a window of text at once, so that a used column is
 * gone to and an unused one costs nothing. It knows nothing of quotes: a line in which one opens a value is
 * marked, and left to the index (split.c), as is everything that is wrong. For x86-64-v3 and up: other CPUs
 * have the index alone. */
#ifndef CTRC_RUNTIME_READER_GRID_H
#define CTRC_RUNTIME_READER_GRID_H
#include "runtime/reader_internal.h"

#define RT_V3 __attribute__((target("avx2,bmi,bmi2,popcnt")))
bool rt_is_v3(void);

enum { RT_GRID_BYTES = 16 << 10 };
/* What a line may have in it. */
enum {
    RT_LINE_ODD = 1,   /* a value that is empty, or that begins or ends in a byte of RtPlan.odd */
    RT_LINE_QUOTED = 2 /* a value that begins with a quote */
};
typedef struct {
    const char *base;
    uint32_t bytes;                                  /* of the block */
    uint32_t to;                                     /* the window's end; the lines known end before it */
    uint32_t n, i;                                   /* whole lines in the window, and the present one */
    uint32_t *place;                                 /* separators, line ends, list separators */
    uint32_t *end;                                   /* which of the places end a field */
    uint32_t *line;                                  /* which of those end a line */
    uint8_t *mark;                                   /* of each line */
    uint64_t *bits_of_byte;                          /* [256] the places of a byte's bits, a byte each */
    uint8_t list[RT_STRUCTURAL], odd[RT_STRUCTURAL]; /* bytes looked for, quotes among the odd ones */
    int n_list, n_odd;
    char separator, quote;
} RtGrid;

/* False: this plan's rows are the index's business. */
bool rt_grid_init(RtGrid *g, const RtPlan *p, int side);
void rt_grid_free(RtGrid *g);
void rt_grid_start(RtGrid *g, const char *base, uint32_t bytes);
/* Makes the line that begins at `at` the present one; false if it is longer than the window. */
bool rt_grid_find(RtGrid *g, uint32_t at);

static inline uint32_t rt_grid_line_end(const RtGrid *g, uint32_t i) { return g->place[g->end[g->line[i]]]; }

#endif
