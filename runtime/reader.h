/* The reader stage: log files → batches. It runs on its own threads ahead of the step: decompresses, splits,
 * parses, computes features (hash, vocab, …), shuffles, and finds each table's unique rows, or leaves these to
 * the step's threads.
 *
 * The files are one stream in the order given (directories by name); batches cross files, not epochs; the last
 * batch of an epoch may be short. Shuffle permutes each run of n consecutive rows by (seed, epoch, run). */
#ifndef CTRC_RUNTIME_READER_H
#define CTRC_RUNTIME_READER_H
#include "runtime/model.h"

typedef struct RtReader RtReader;
typedef struct RtTables RtTables; /* tables.h: gives storage rows to ids of large tables */

/* RT_BAD_HOLD: a bad row keeps its place, with no value in any column (RtBatch.row_bad). */
typedef enum { RT_BAD_FAIL, RT_BAD_SKIP, RT_BAD_HOLD } RtBadRows;
/* Which rows are read. Both choices look at nothing but the bytes of a row in the first file, its line end left out:
 * so they are the same whatever the order of the files, the threads, the seed, the epoch. Copies of a row share its
 * fate. */
typedef struct {
    double hold_out;       /* this share of the rows is held out; 0: none */
    bool held;             /* read the rows held out, instead of the others */
    double keep_negatives; /* this share of the rows whose label is 0 is read; 0: all of them */
} RtSampling;
/* Fields of each row that the caller wants as text (RtBatch.row_echo): "a,b," or "\"name\":\"a\",…," */
typedef struct { const char *const *name; int n; bool json; } RtEchoed;
typedef struct { const char *p; uint32_t n; } RtText; /* p NULL: no value */
typedef struct {
    const char *const *paths; int n_paths; /* files, directories, "-" */
    int purpose;             /* RT_TRAIN, RT_EVAL, RT_PREDICT: which features are read, whether tables give new rows */
    uint32_t batch;
    uint64_t shuffle, seed;  /* 0: file order */
    uint64_t epochs;         /* 0: no limit (the caller stops) */
    bool cache;              /* keep parsed rows; later epochs read no text */
    RtBadRows bad;
    RtSampling sampling;
    RtEchoed echo;           /* names: declared columns, with a header any that it has */
    const char *bad_path;    /* --bad-rows: where bad lines go, NULL: nowhere */
    int threads;             /* parsing threads, at least 1 */
    RtTables *tables;        /* may be NULL if no table is larger than 2^20 rows */
    bool index_later;        /* batches come without tables (RtBatch.to_index) */
    /* resume: begin in this epoch (from 0), behind this many rows of it; `epochs` counts from 0 all the same */
    uint64_t first_epoch, skip_rows;
    uint64_t bad_before;     /* resume behind the first epoch: bad rows in it, */
    const char *first_bad;   /* and the message about the first of them */
    bool (*wake)(void);      /* asked now and then while rt_reader_next waits: must it return? NULL: never */
} RtReaderOptions;

typedef struct {
    uint32_t rows;
    uint64_t epoch;                /* from 0 */
    bool last_of_epoch;
    const uint32_t **offsets;      /* [axis]; NULL for axes that nothing in this purpose reads */
    const void **inputs;           /* [input]; NULL for inputs that this purpose doesn't read */
    RtTableBatch *tables;          /* [weight] */
    bool to_index;                 /* tables are still to be filled, by rt_batch_index */
    const uint32_t *row_file;      /* [rows] index into the reader's files */
    const uint64_t *row_line;      /* [rows] line number, from 1 */
    const bool *row_bad;           /* [rows] a bad row's place */
    const RtText *row_echo;        /* [rows] what RtReaderOptions.echo asks for; NULL: nothing */
    void *own;
} RtBatch;

/* ---- unique rows of a batch (batch_index.c) ---- */
typedef struct RtIndexScratch RtIndexScratch; /* of one thread, for any number of batches of the model */
RtIndexScratch *rt_index_scratch_new(const RtModel *m);
void rt_index_scratch_free(RtIndexScratch *s);
/* Before: room for what the batch needs, so that rt_batch_index itself allocates nothing. */
void rt_index_reserve(RtIndexScratch *s, const RtBatch *b);
/* Called by any number of threads at once, each with scratch of its own: numbers the unique rows of tables that none
 * of them has taken, fills RtBatch.tables and replaces ids in the inputs that are lookups. When all have returned, it
 * is done, and the caller clears to_index. Same bytes whoever does what. */
void rt_batch_index(RtBatch *b, RtIndexScratch *s);

/* NULL on error; err holds the message ("data.csv: cannot open: no such file", …). */
RtReader *rt_reader_open(const RtModel *m, const RtReaderOptions *o, char *err, size_t err_bytes);
/* 1: *out is a batch, to be given back by rt_reader_release, in order. 0: the end. -1: error, in err. 2: woken
 * before there was a batch; call again to wait on. */
int rt_reader_next(RtReader *r, RtBatch **out, char *err, size_t err_bytes);
void rt_reader_release(RtReader *r, RtBatch *b);
void rt_reader_close(RtReader *r);

const char *rt_reader_file(const RtReader *r, uint32_t file); /* path as given or found in a directory */
uint64_t rt_reader_bad_rows(const RtReader *r);    /* up to the last batch given, in the first epoch */
const char *rt_reader_first_bad(const RtReader *r); /* message about the first of them, NULL if there is none */
/* Rows that sampling passed over, in the last epoch that was read to its end. */
uint64_t rt_reader_held_out(const RtReader *r);        /* in the other part */
uint64_t rt_reader_negatives_left(const RtReader *r);
/* The column by which rows are negative: the only label in use, if it lies in [0, 1]; else -1. */
int rt_label_column(const RtModel *m);
/* Share of the current epoch's bytes that were consumed, 0…1, or -1 if unknown (stdin). */
double rt_reader_progress(const RtReader *r);
double rt_reader_wait_seconds(const RtReader *r);  /* how long rt_reader_next has waited in all */
uint64_t rt_reader_cache_bytes(const RtReader *r);

/* ---- what the data is (data_digest.c, data_whole.c) ---- */
/* The files that paths stand for, in order, as [{"file","bytes","digest"},…]; a pipe has null for both. The
 * digest is XXH3 of the whole file, of files above 16 MiB of 16 pieces of 1 MiB, evenly spaced from the first byte
 * to the last; these have "whole": null too. NULL after an error, which stands in err. */
struct json_t *rt_data_digests(const RtModel *m, const char *const *paths, int n, char *err, size_t err_bytes);
/* If the saved one has "whole", the digest of the file from its first byte to its last, gives it to `file`: by
 * reading it, unless it hasn't been touched since. Without, after: it can't be read, or changes, or training is
 * to stop. */
void rt_data_read_whole(struct json_t *file, const struct json_t *saved);
/* Reads the files of the lists that want "whole", beside training; both may be NULL. NULL: there are none. */
typedef struct RtDigester RtDigester;
RtDigester *rt_digester_start(struct json_t *data, struct json_t *eval_data);
void rt_digester_note(RtDigester *d); /* puts what is known by now into the lists */
void rt_digester_end(RtDigester *d);  /* before the lists are freed */

#endif
