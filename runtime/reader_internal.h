/* The reader stage from the inside. Bytes travel like this:
 *
 *   files ──source──▶ bytes ──split_block──▶ RtBlock ──parsing threads──▶ RtRows ──assembly thread──▶ RtBatch
 *
 * One thread reads, decompresses and cuts the stream into blocks of whole rows. Parsing threads turn blocks
 * into RtRows, in any order; the assembly thread takes them in the order of the blocks, permutes runs,
 * gathers batches and finds each table's unique rows. So all that is seen from outside, errors included,
 * comes in the order of the rows, whatever the number of threads. Every buffer is kept and used again. */
#ifndef CTRC_RUNTIME_READER_INTERNAL_H
#define CTRC_RUNTIME_READER_INTERNAL_H
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "runtime/message.h"
#include "runtime/model.h"
#include "runtime/reader.h"
#include "runtime/vocab_table.h"

enum {
    RT_BLOCK_BYTES = 1 << 20, /* of text in a block; more only if one row is longer */
    RT_PAD = 64,              /* bytes after a block that vector code may read */
    RT_ROW_LIMIT = 64 << 20,  /* a longer row is an error: most likely a quote that is never closed */
    RT_SIDES = 2              /* the main file and the `beside` file */
};

/* ---- split: records and fields ---- */
typedef struct {
    RtFormat format;
    char separator, quote; /* quote 0: none */
    bool trim;
} RtSyntax;

/* Places of structural bytes (separators and line ends) in a block, found a window at a time. */
enum { RT_WINDOW = 16 << 10, RT_STRUCTURAL = 8 };
typedef struct {
    const char *base;
    uint32_t bytes, scanned; /* of the block; how far the windows have come */
    uint32_t n, i;           /* places found in this window, and taken */
    uint8_t set[RT_STRUCTURAL];
    int n_set;
    uint32_t *place; /* [RT_WINDOW + 64] */
} RtIndex;
void rt_index_start(RtIndex *x, const char *base, uint32_t bytes);
void rt_index_refill(RtIndex *x);
void rt_index_seek(RtIndex *x, uint32_t place); /* the next place taken is the first one from here on */
/* The next structural place. There must be one: blocks end with a line end. */
static inline uint32_t rt_index_next(RtIndex *x) {
    while (__builtin_expect(x->i == x->n, 0)) rt_index_refill(x);
    return x->place[x->i++];
}

/* One past the line end of the record that starts at p; NULL if it isn't whole before end. */
const char *rt_record_end(const RtSyntax *s, const char *p, const char *end);
/* The closing quote of a field whose text starts at p (after the opening one), NULL if there is none before
 * end. */
const char *rt_closing_quote(const char *p, const char *end, char quote);
/* Whether the record p..end holds nothing. Such lines are passed over, except where they are rows
 * (RtLayout.blank_rows). */
bool rt_is_blank(const RtSyntax *s, const char *p, const char *end);
uint64_t rt_count_lines(const char *p, size_t bytes);

/* ---- source: bytes of one file, decompressed ---- */
typedef struct RtSource RtSource;
/* wake: a descriptor that becomes readable when reading must stop, -1 for none. */
RtSource *rt_source_new(int wake);
bool rt_source_open(RtSource *s, const char *path, RtMessage *err); /* "-": stdin; closes what was open */
/* Fills to[n], less only at the end of the file. -1: error. */
int64_t rt_source_read(RtSource *s, char *to, size_t n, RtMessage *err);
uint64_t rt_source_taken(const RtSource *s); /* bytes of the file itself that were read so far */
void rt_source_free(RtSource *s);

/* What source.c and a decoder share: the decoder pulls file bytes through rt_source_refill. */
typedef struct {
    const char *name;
    char *raw; /* bytes of the file, at..end not yet used */
    size_t at, end, cap;
    bool ended;
} RtRaw;
bool rt_source_refill(RtSource *s, RtRaw *raw, RtMessage *err); /* only when at == end */
typedef struct RtGzip RtGzip;
typedef struct RtZstd RtZstd;
RtGzip *rt_gzip_new(void);
void rt_gzip_free(RtGzip *g);
void rt_gzip_start(RtGzip *g);
int64_t rt_gzip_read(RtGzip *g, RtSource *s, RtRaw *raw, char *to, size_t n, RtMessage *err);
RtZstd *rt_zstd_new(void);
void rt_zstd_free(RtZstd *z);
void rt_zstd_start(RtZstd *z);
int64_t rt_zstd_read(RtZstd *z, RtSource *s, RtRaw *raw, char *to, size_t n, RtMessage *err);

/* ---- files ---- */
typedef struct {
    uint32_t field;
    int column;
    bool is_list, values; /* values: it is needed for more than features in lanes */
} RtUsed;
/* Which columns a file's fields are. Made once a file, when it is first opened. */
typedef struct {
    int n_fields;
    int *column;  /* [n_fields]: column number, -1: not read */
    int *also;    /* [column of the model] a further column of the same field, -1; NULL: no field has two */
    bool blank_rows; /* a line that holds nothing is a row: the file's only field is a list, or in a pair of files
                        a string, which may be empty */
    int *echo;    /* [RtPlan.echo.n] field numbers; NULL: none are wanted */
    char *header; /* the header line as it stands, with its line end; NULL if there is none */
    size_t header_bytes;
    RtUsed *used; /* [n_used] fields that are read, in order; NULL if a field has two columns */
    int n_used;
} RtLayout;
typedef struct {
    char *path[RT_SIDES];       /* [1] NULL unless a beside file is read */
    const char *name[RT_SIDES]; /* as messages show it */
    uint64_t bytes;             /* on disk, 0 for stdin */
    const char *argument;       /* the given path that it came from: its own, or a directory's */
    bool last;                  /* of those that came from it */
    RtLayout *layout[RT_SIDES];
} RtFile;
typedef struct {
    RtFile *file;
    uint32_t n, cap;
    uint64_t bytes;
    bool sized; /* false with stdin: bytes is not known */
} RtFiles;
/* Expands the paths. beside: the suffix of the second files, NULL if they aren't read; suffix files are left
 * out of directories whenever the model has a suffix. */
bool rt_files_find(RtFiles *f, const char *const *paths, int n, const char *suffix, bool beside,
                   RtMessage *err);
void rt_files_free(RtFiles *f);

/* ---- plan: what this purpose reads ---- */
typedef struct {
    uint32_t divisor;
    uint64_t reciprocal;
} RtMod;
enum { RT_BLANK = 1 /* trimmed */, RT_MISSING = 2 /* texts that mean empty begin with it */ };
typedef struct {
    int feature, axis, words;
} RtItem; /* words of a value: 1, keys 2 */
/* Features in the order in which they are run: one, or several whose values are all made in lanes
 * (reader_lanes.h) where the row allows it. */
typedef enum { RT_GROUP_ONE, RT_GROUP_HASHES, RT_GROUP_FLOATS } RtGroupKind;
typedef struct {
    RtGroupKind kind;
    int first, n; /* in RtPlan.order */
    int lists;    /* so many are lists, which stand first in RtPlan.lane */
    bool one_mod; /* hashes: all modulo the same */
} RtGroup;
typedef struct {
    int column, side;
    int place; /* in the group, as the features stand there */
} RtLaneItem;
typedef struct {
    const RtModel *m;
    int purpose;
    RtSyntax syntax;
    bool side;         /* the beside file is read */
    bool *column_on;   /* [column] */
    bool *column_text; /* [column] some feature looks at its bytes */
    bool *feature_on;  /* [feature] */
    bool *axis_on;     /* [axis] */
    int *axis_word;    /* [axis] word of a row's record that holds the row's length along it, -1: off */
    int *axis_order;   /* [n_axis_words] axes that are on, parents before those derived from them */
    int n_axis_words;
    RtItem *items; /* the values that follow in a row's record */
    int n_items;
    int *item_of;         /* [feature] -1: not stored */
    int *order;           /* [n_order] features that are on */
    RtLaneItem *lane;     /* [n_order] of groups in lanes: their columns, lists first */
    int n_order;
    RtGroup *groups;
    int n_groups;
    bool *column_values;  /* [column] it is needed for more than features in lanes */
    int *root;            /* [feature] the column it shows or is made from, for messages; -1: of several */
    RtMod *mod;           /* [feature] of hash and cross */
    float **bounds;       /* [feature] of bucketize, as float */
    RtLayout *fixed[RT_SIDES]; /* without a header: the declared columns */
    RtEchoed echo;
    uint8_t set[RT_SIDES][RT_STRUCTURAL];
    int n_set[RT_SIDES];
    uint8_t odd[256];    /* by byte: RT_BLANK, RT_MISSING; 0: a text that begins and ends so is a value as it
                            stands */
    size_t *missing_len; /* [n_missing] */
} RtPlan;
RtPlan *rt_plan_new(const RtModel *m, int purpose, RtMessage *err);
void rt_plan_free(RtPlan *p);
/* Whether a row's places tell where the column's values end: a list's, if all places within its field are its
 * own, beside a line end and the separator. */
bool rt_plan_has_spans(const RtPlan *p, const RtColumn *c);
bool rt_plan_is_missing(const RtPlan *p, const char *text, size_t bytes); /* trimmed text */
/* The layout that a header line gives; NULL and an error that says `name` and the line's number if it has not
 * what is needed. */
RtLayout *rt_layout_by_header(const RtPlan *p, int side, const char *name, uint64_t number, const char *line,
                              size_t bytes, RtMessage *err);
/* Whether lines that hold nothing are rows of a file whose only field is this column (NULL: none). */
bool rt_layout_blank_rows(const RtModel *m, const RtColumn *only);
static inline const RtLayout *rt_layout_of(const RtPlan *p, const RtFile *f, int side) {
    return p->fixed[side] ? p->fixed[side] : f->layout[side];
}
void rt_layout_list_used(RtLayout *l, const RtPlan *p); /* once the columns are known */
void rt_layout_free(RtLayout *l);

/* ---- blocks ---- */
typedef struct RtRows RtRows;
typedef struct RtBlock {
    struct RtBlock *next;
    RtRows *rows; /* where its rows go */
    uint32_t file;
    char *text[RT_SIDES]; /* whole rows; ends with '\n' and RT_PAD further bytes */
    size_t bytes[RT_SIDES], cap[RT_SIDES];
    uint64_t line[RT_SIDES]; /* line number of the first byte */
} RtBlock;
typedef struct RtCutter RtCutter;
RtCutter *rt_cutter_new(const RtPlan *p, RtFiles *files, int wake);
void rt_cutter_free(RtCutter *c);
void rt_cutter_rewind(RtCutter *c); /* to the first file */
/* Next block: 1; 0: no more files; -1: error. lines: how many lines the block has. */
int rt_cutter_next(RtCutter *c, RtBlock *b, uint64_t *lines, RtMessage *err);
uint64_t rt_cutter_taken(const RtCutter *c); /* bytes of all files so far */
void rt_block_free(RtBlock *b);

/* ---- rowstore: parsed rows ---- */
#define RT_LINE_BAD (1u << 31)
/* A row is one record of 32-bit words: its length along each axis, then the values of each stored feature.
 * All that a batch takes from a row lies together, so gathering a shuffled row costs one miss, not one a
 * feature. */
typedef enum { RT_ROWS, RT_ROWS_EPOCH_END, RT_ROWS_ERROR } RtRowsKind;
struct RtRows {
    struct RtRows *next;
    RtRowsKind kind;
    bool done;       /* parsed; guarded by the reader's lock */
    uint32_t n, cap; /* rows */
    uint32_t *at;    /* [n + 1] first word of each row */
    uint32_t *line;  /* [n] lines after first_line; RT_LINE_BAD: the place of a bad row */
    uint32_t *word;
    size_t words, cap_words;
    uint64_t first_line, lines;
    uint32_t file;
    uint32_t unused; /* rows that no batch has taken yet */
    uint64_t n_bad, n_held, n_negatives; /* bad rows; rows that sampling passed over */
    char *bad[RT_SIDES]; /* the bad rows' bytes, one after another */
    size_t bad_bytes[RT_SIDES], bad_cap[RT_SIDES];
    char *echo; /* text of the rows, one after another */
    size_t *echo_end, echo_bytes, echo_cap, echo_rows; /* [n] where each row's ends */
    uint64_t taken; /* bytes of all files when the block was cut */
    bool failed;    /* after the rows comes an error */
    RtMessage error;
};
RtRows *rt_rows_new(void);
void rt_rows_free(RtRows *r);
void rt_rows_clear(RtRows *r);
void rt_rows_shrink(RtRows *r); /* to what it holds: before it is kept */
uint64_t rt_rows_bytes(const RtRows *r);
/* Room for one more row of so many words. */
void rt_rows_reserve(RtRows *r, size_t words);
void rt_rows_add_bad(RtRows *r, int side, const char *text, size_t bytes);

/* ---- echo (reader_echo.c) ---- */
/* Whether the model has such columns; with a header only the file can tell. */
bool rt_echo_check(const RtModel *m, const RtEchoed *e, RtMessage *err);
void rt_echo_declared(RtPlan *p); /* the fields in p's fixed layout */
bool rt_echo_by_header(const RtPlan *p, RtLayout *l, char **field, const char *file, uint64_t line,
                       RtMessage *err);
/* The text of the row that was added last, whose bytes are at..end. */
void rt_echo_add(const RtPlan *p, const RtLayout *l, RtRows *r, const char *at, const char *end);
RtText rt_echo_of(const RtRows *r, uint32_t row);

/* ---- parsing ---- */
typedef struct RtParser RtParser;
RtParser *rt_parser_new(const RtPlan *p, const RtFiles *files, RtBadRows bad, const RtSampling *s);
void rt_parser_free(RtParser *p);
/* Appends the block's rows. Bad ones are left out and counted, or end it with rows->failed. */
void rt_parse_block(RtParser *p, const RtBlock *b, RtRows *rows);

/* ---- sampling (reader_sample.c) ---- */
/* Whether a row, p..end with its line end, is among the share of rows that are held out; of the negatives that
 * stay. */
bool rt_sample_held(const RtSampling *s, const char *p, const char *end);
bool rt_sample_stays(const RtSampling *s, const char *p, const char *end);

typedef enum { RT_NUMBER_OK, RT_NUMBER_BAD, RT_NUMBER_RANGE } RtNumber;
RtNumber rt_parse_float(const char *p, size_t bytes, float *out); /* nearest float; no nan, inf or hex */
RtNumber rt_parse_int(const char *p, size_t bytes, int64_t *out);

/* ---- features ---- */
/* The values of a column or a feature in one row; which arrays there are depends on its kind. */
typedef struct {
    uint32_t n;
    RtText *text;
    int64_t *whole;
    float *real;
    uint32_t *id;
    uint64_t *key;
} RtValues;
uint64_t rt_farm64(const char *p, size_t bytes);
RtMod rt_mod_new(uint32_t divisor);
static inline uint32_t rt_mod(uint64_t x, RtMod m) {
    uint64_t q = (uint64_t)(((unsigned __int128)x * m.reciprocal) >> 64), r = x - q * m.divisor;
    return (uint32_t)(r >= m.divisor ? r - m.divisor : r);
}

/* Scratch for the features of a row. */
typedef struct {
    RtValues *value;    /* [feature] */
    uint32_t *axis_len; /* [axis] the row's length; list axes are set by the caller */
    uint32_t **scratch; /* [feature] results that aren't stored */
    uint32_t *cap;      /* [feature] */
    uint64_t *cross;    /* words of a cross's parts */
} RtFeatureState;
void rt_features_init(RtFeatureState *s, const RtPlan *p);
void rt_features_free(RtFeatureState *s, const RtPlan *p);
/* Writes a row's record at rows->word[rows->words], given its columns and its length along each list axis,
 * and counts its words. False: a value outside its bound makes the row bad; whole or real points at it, among
 * the column's values. */
typedef struct {
    int column;
    uint64_t bound;
    const int64_t *whole;
    const float *real;
} RtFeatureError;
/* spans: where the values of features in lanes stand in the block; NULL: all are in columns. */
typedef struct RtSpans RtSpans;
bool rt_features_run(RtFeatureState *s, const RtPlan *p, const RtValues *columns, RtSpans *spans,
                     RtRows *rows, RtFeatureError *error);

/* ---- batches ---- */
typedef struct {
    RtRows *rows;
    uint32_t row;
} RtRef;
void rt_shuffle_run(RtRef *ref, uint64_t n, uint64_t seed, uint64_t epoch, uint64_t run);
typedef struct RtAssembler RtAssembler;
/* index_later: rt_batch_index is left to who gets the batch. */
RtAssembler *rt_assembler_new(const RtPlan *p, RtTables *tables, uint32_t batch, bool index_later);
void rt_assembler_free(RtAssembler *a);
/* Each batch in flight has its own memory; b->own starts with this. */
typedef struct RtBatchOwn {
    struct RtBatchOwn *next;
    RtBatch *batch;
    double progress;   /* of the epoch, when the batch was made */
    uint64_t bad_rows; /* so far */
} RtBatchOwn;
RtBatch *rt_batch_new(const RtAssembler *a);
void rt_batch_free(const RtAssembler *a, RtBatch *b);
/* False: more values than a batch can hold. */
bool rt_batch_fill(RtAssembler *a, RtBatch *b, const RtRef *refs, uint32_t n, RtMessage *err);
/* Before rt_batch_index: how many values each table has to look up, and room for them. False: *weight has too
 * many. */
bool rt_batch_count(RtBatch *b, int *weight);

/* ---- the reader itself (reader.c) and its assembly thread (reader_assemble.c) ---- */
typedef struct RtBadFiles RtBadFiles;
RtBadFiles *rt_bad_files_new(const RtModel *m, const char *path, bool beside,
                             RtMessage *err); /* creates the file at once */
/* Appends the bad rows of a block, below their file's header. */
bool rt_bad_files_write(RtBadFiles *b, const RtFile *f, const RtRows *r, RtMessage *err);
bool rt_bad_files_flush(RtBadFiles *b, RtMessage *err);
void rt_bad_files_free(RtBadFiles *b);

struct RtReader {
    const RtModel *m;
    RtReaderOptions o;
    RtPlan *plan;
    RtFiles files;
    RtAssembler *assembler;
    RtBadFiles *bad_files; /* NULL: bad lines go nowhere */
    int wake[2];           /* a pipe: written to when threads that wait for input must stop */
    pthread_t *thread;
    int n_threads;

    pthread_mutex_t lock; /* guards everything below */
    pthread_cond_t block_free, work_ready, rows_done, rows_space, batch_free, batch_ready;
    bool stop;
    RtBlock *free_blocks, *work, **work_end;
    int n_blocks;               /* made so far */
    RtRows *ahead, **ahead_end; /* cut, in order, not yet taken for assembly */
    uint64_t n_ahead, lines_ahead;
    RtRows *free_rows;
    RtRows **all_rows; /* every one made */
    size_t n_all_rows, cap_all_rows;
    RtBatchOwn *free_batches, *ready, **ready_end;
    RtBatch **all_batches;
    size_t n_all_batches, cap_all_batches;
    bool ended, failed; /* nothing comes after what is ready */
    RtMessage error, first_bad;
    uint64_t bad_rows_end; /* when all was read */
    uint64_t held_out, negatives_left;
    uint64_t cache_bytes;

    double progress; /* the caller's thread only */
    double wait_seconds;
    uint64_t bad_rows;
};
void *rt_reader_assemble(void *reader); /* thread */

/* ---- memory ---- */
_Noreturn void rt_reader_out_of_memory(size_t count, size_t size); /* says so and ends the program */
void *rt_reader_alloc(size_t count, size_t size); /* zeroed; out of memory ends the program, saying so */
void *rt_reader_grow(void *p, size_t *cap, size_t want,
                     size_t size); /* doubles until want; cap in elements */

#endif
