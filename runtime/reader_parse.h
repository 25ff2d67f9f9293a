/* A parsing thread's state, shared by the three files that turn text into rows: values (reader_value.c),
 * fields and libsvm's pairs (reader_fields.c), rows (reader_parse.c). The first mistake of a row is put into
 * RtParser.error by whoever meets it; everyone above returns false. */
#ifndef CTRC_RUNTIME_READER_PARSE_H
#define CTRC_RUNTIME_READER_PARSE_H
#include "runtime/reader_grid.h"
#include "runtime/reader_internal.h"
#include "runtime/reader_lanes.h"

/* How a column's plain values are taken from the grid; nothing: in lanes alone. */
typedef enum { RT_NOTHING, RT_BY_VALUE, RT_TEXTS, RT_FLOATS, RT_INTS, RT_UNIT } RtDirect;

/* A column and its present values. */
typedef struct {
    const RtColumn *c;
    RtValues *v; /* in RtParser.values */
    uint32_t cap;
    uint32_t total;  /* list: elements in the field, also those beyond `max` */
    uint32_t empty;  /* values that were empty, whatever stands in for them */
    uint32_t max;    /* kept; UINT32_MAX: no limit */
    bool text;       /* the bytes are wanted beside the number */
    bool indexed;    /* the list separator is in the index */
    bool keep_empty; /* an empty string in a list holds its place */
    RtDirect direct;
    const char *at;  /* where the field begins, for messages */
    RtText default_text;
    float default_real;
    int64_t default_whole;
    char default_room[32];
    size_t positive_len, negative_len;
} RtField;

typedef struct {
    char *text;
    size_t cap;
} RtPiece;
/* Told of each row as it was parsed: its values stand in RtParser.column and .features, its bytes at .row. */
typedef struct {
    void *own; /* NULL: nobody is told */
    void (*row)(void *own, const RtParser *p, const char *const *row_end);
    void (*bad)(void *own, const RtMessage *error);
} RtObserver;
struct RtParser {
    const RtPlan *p;
    const RtFiles *files;
    RtBadRows bad;
    RtSampling sampling;
    int label; /* of the sampling, -1 */
    RtObserver observer;
    RtIndex index[RT_SIDES];
    RtGrid grid[RT_SIDES];
    RtSpans spans;
    bool direct;       /* rows are tried by the grid first */
    uint64_t n_direct; /* so many went through; tests look at it */
    RtField *column;  /* [column] */
    RtValues *values; /* [column] as features see them */
    int *list;        /* list columns that are on */
    int n_lists;
    int *axis_first; /* [axis] the first list column seen of it in this row, -1 */
    RtFeatureState features;
    RtPiece *pieces; /* texts of this row that don't stand in the block as such */
    size_t n_pieces, cap_pieces, piece, n_room;
    const char *row[RT_SIDES]; /* the present row of each side, for messages */
    uint64_t line[RT_SIDES];
    const RtBlock *block;
    int side;    /* being parsed */
    bool quoted; /* the row has a quoted field, so it may span lines */
    RtMessage error;
};

/* ---- values (reader_value.c) ---- */

/* Sets the error: file:line:col of a byte of the present row. Gives 0, for `return`. */
int rt_row_fail(RtParser *p, int side, const char *at, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* "expected … for column …, found …". at: the value, or any place if it doesn't stand in the row as such. */
int rt_value_fail(RtParser *p, const RtField *k, const char *at, const char *found, size_t bytes,
                  const char *expected);
/* Text for this row alone, in pieces that never move. */
char *rt_row_room(RtParser *p, size_t bytes);
/* One value: a field's, or a list element's. */
bool rt_value_put(RtParser *p, RtField *k, const char *at, size_t bytes);
/* Room for n values. */
void rt_value_room(RtField *k, uint32_t n);
/* No value at all: no element, or a missing text, or 0. */
void rt_value_none(RtField *k);

/* Whether the text is a value as it stands: nothing to trim, not empty, not one of the missing texts. */
static inline bool rt_is_plain(const RtPlan *p, const char *at, size_t bytes) {
    return bytes && !(p->odd[(uint8_t)at[0]] | (p->odd[(uint8_t)at[bytes - 1]] & RT_BLANK));
}

static inline void rt_trim(const RtPlan *p, const char **at, size_t *bytes) {
    while (*bytes && p->odd[(uint8_t)(*at)[0]] & RT_BLANK) ++*at, --*bytes;
    while (*bytes && p->odd[(uint8_t)(*at)[*bytes - 1]] & RT_BLANK) --*bytes;
}

/* ---- fields (reader_fields.c) ---- */

/* The present row's fields to values. *row_end: one past its line end; set only if all went well. */
bool rt_fields_parse(RtParser *p, int side, const RtLayout *l, const char **row_end);
bool rt_pairs_parse(RtParser *p, const RtLayout *l, const char **row_end); /* libsvm, libffm */
/* A column's value or values from a field's text. */
bool rt_text_put(RtParser *p, RtField *k, const char *at, size_t bytes);
/* Whether a list's field is empty as a whole: then the list is, whatever the default. */
bool rt_is_empty_list(const RtParser *p, const char *at, size_t bytes);

/* ---- fields by the grid (reader_direct.c) ---- */

RtDirect rt_direct_of(const RtParser *p, const RtField *k, int column);
/* As rt_fields_parse, of rows in which nothing is wrong and nothing is quoted; values that are made in lanes
 * are not in their columns but in RtParser.spans. False: rt_fields_parse must do it. */
bool rt_direct_parse(RtParser *p, int side, const RtLayout *l, const char **row_end);

#endif
