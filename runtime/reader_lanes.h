/* Values of a row that are made four at a time: XXH3 hashes and floats of short texts. Where a list's texts
 * differ in length, a loop over them one by one spends its time on branches foreseen wrongly; lanes have
 * none. Lanes stand in the order in which the row's record has their values, and write them there. */
#ifndef CTRC_RUNTIME_READER_LANES_H
#define CTRC_RUNTIME_READER_LANES_H
#include "runtime/reader_grid.h"

/* A column's values in the present row. */
typedef struct {
    uint32_t from;  /* where the field begins */
    uint32_t first; /* the place that ends its first value */
    uint32_t n;     /* values that are kept */
    bool odd;       /* one of them isn't plain: they stand in the column's RtValues instead */
} RtSpan;
struct RtSpans {
    const RtGrid *grid; /* [side] */
    RtSpan *span;       /* [column] */
    bool odd;           /* any is */
    uint32_t *offset;   /* [feature of a group, and one more] its first lane */
    /* lanes of a group */
    size_t cap;
    const char **at;
    uint64_t *bytes, *word; /* a text's length; its first eight bytes, or it and what follows */
    uint64_t *divisor, *reciprocal;
};
void rt_spans_init(RtSpans *s, const RtPlan *p, const RtGrid *grid);
void rt_spans_free(RtSpans *s);
/* Makes a group's values, one feature behind the other; up to seven words too many may be written. Where a
 * column is odd, room is left. Gives their end; NULL: a text is no number. */
uint32_t *rt_lanes_run(RtSpans *s, const RtPlan *p, const RtGroup *group, uint32_t *out);

#endif
