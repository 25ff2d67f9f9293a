/* A model inside another program. A call takes a worker from those that are idle, or makes one, so there are
 * as many as calls ran at once; weights, plan and description are shared and only read. A call parses its
 * text, assembles batches and runs them on its own thread: what the reader does on several threads for files,
 * in a straight line.
 *
 * Nothing here ends the process. The runtime gives up by exit and abort where memory runs out; the linker
 * leads both to the functions below (--wrap), which return to the call that is running. What it had at hand
 * is lost then. */
#include "runtime/library.h"
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/checkpoint.h"
#include "runtime/message.h"
#include "runtime/program.h"
#include "runtime/reader_parse.h"

enum { MOST_BYTES = 1 << 30 }; /* of one call: places in a block have 32 bits */

typedef struct Worker {
    struct Worker *next;
    RtFiles files; /* one, named "rows" */
    RtFile file;
    RtBlock block;
    RtRows *rows;
    RtParser *parser;
    RtAssembler *assembler;
    RtBatch *batch;
    RtRef *refs; /* [batch] */
    RtExec *exec;
} Worker;

struct RtLibrary {
    RtModel *m;
    RtTables *tables;
    RtPlan *plan;
    pthread_mutex_t lock; /* of idle */
    Worker *idle;
};

/* ---- instead of ending the process ---- */

static _Thread_local jmp_buf *way_out;

_Noreturn void __real_abort(void);
_Noreturn void __real_exit(int code);
_Noreturn void __wrap_abort(void);
_Noreturn void __wrap_exit(int code);
_Noreturn void __wrap_rt_out_of_memory(void);
void __wrap_rt_warn(const char *format, ...);
_Noreturn void __wrap_abort(void) {
    if (way_out) longjmp(*way_out, 1);
    __real_abort();
}
_Noreturn void __wrap_exit(int code) {
    if (way_out) longjmp(*way_out, 1);
    __real_exit(code);
}
_Noreturn void __wrap_rt_out_of_memory(void) { __wrap_abort(); }
/* Warnings are for a person at a terminal. */
void __wrap_rt_warn(const char *format, ...) { (void)format; }

static int tell(char *message, size_t bytes, int code, const char *text) {
    if (bytes) snprintf(message, bytes, "%s", text);
    return code;
}

/* ---- workers ---- */

static void worker_free(Worker *w) {
    if (!w) return;
    rt_exec_free(w->exec);
    rt_batch_free(w->assembler, w->batch);
    rt_assembler_free(w->assembler);
    rt_parser_free(w->parser);
    rt_rows_free(w->rows);
    rt_layout_free(w->file.layout[0]);
    free(w->block.text[0]);
    free(w->refs);
    free(w);
}

static Worker *worker_new(const RtLibrary *l, char *err, size_t err_bytes) {
    Worker *w = rt_reader_alloc(1, sizeof *w);
    uint32_t batch = (uint32_t)l->m->batch;
    w->exec = rt_exec_new(l->m, l->tables, 1, err, err_bytes);
    if (!w->exec) {
        worker_free(w);
        return NULL;
    }
    w->file.name[0] = "rows";
    w->files = (RtFiles){.file = &w->file, .n = 1};
    w->rows = rt_rows_new();
    w->parser = rt_parser_new(l->plan, &w->files, RT_BAD_HOLD, NULL);
    w->assembler = rt_assembler_new(l->plan, l->tables, batch, false);
    w->batch = rt_batch_new(w->assembler);
    w->refs = rt_reader_alloc(batch, sizeof *w->refs);
    return w;
}

static Worker *take_worker(RtLibrary *l, char *err, size_t err_bytes) {
    pthread_mutex_lock(&l->lock);
    Worker *w = l->idle;
    if (w) l->idle = w->next;
    pthread_mutex_unlock(&l->lock);
    return w ? w : worker_new(l, err, err_bytes);
}

static void give_worker(RtLibrary *l, Worker *w) {
    pthread_mutex_lock(&l->lock);
    w->next = l->idle;
    l->idle = w;
    pthread_mutex_unlock(&l->lock);
}

/* ---- text to rows ---- */

/* The text with a line end and room for vector code behind it, past a byte-order mark. */
static void take_text(Worker *w, const char *text, size_t bytes) {
    RtBlock *b = &w->block;
    if (bytes >= 3 && !memcmp(text, "\xef\xbb\xbf", 3)) text += 3, bytes -= 3;
    b->text[0] = rt_reader_grow(b->text[0], &b->cap[0], bytes + 1 + RT_PAD, 1);
    if (bytes) memcpy(b->text[0], text, bytes);
    if (bytes && text[bytes - 1] != '\n') b->text[0][bytes++] = '\n';
    memset(b->text[0] + bytes, 0, RT_PAD);
    b->bytes[0] = bytes;
    b->line[0] = 1;
}

/* Reads the header off the text's beginning; the one of the call before is most likely the same. */
static bool take_header(const RtLibrary *l, Worker *w, RtMessage *err) {
    RtBlock *b = &w->block;
    const RtSyntax *s = &l->plan->syntax;
    const char *at = b->text[0], *end = at + b->bytes[0], *next;
    while ((next = rt_record_end(s, at, end)) && rt_is_blank(s, at, next)) at = next;
    if (!next) return rt_message(err, "rows:1:1: error: expected the header line, found none");
    uint64_t line = 1 + rt_count_lines(b->text[0], (size_t)(at - b->text[0]));
    size_t n = (size_t)(next - at);
    RtLayout *have = w->file.layout[0];
    if (!have || have->header_bytes != n || memcmp(have->header, at, n)) {
        rt_layout_free(have);
        w->file.layout[0] = rt_layout_by_header(l->plan, 0, "rows", line, at, n, err);
        if (!w->file.layout[0]) return false;
    }
    b->line[0] = line + rt_count_lines(at, n);
    b->bytes[0] = (size_t)(end - next);
    memmove(b->text[0], next, b->bytes[0] + RT_PAD);
    return true;
}

static void parse(Worker *w) {
    rt_rows_clear(w->rows);
    w->rows->first_line = w->block.line[0];
    rt_parse_block(w->parser, &w->block, w->rows);
}

/* ---- rows to predictions ---- */

static bool run_batch(RtLibrary *l, Worker *w, uint32_t from, uint32_t n, float *out, RtMessage *err) {
    const RtModel *m = l->m;
    double keep = *rt_tables_keep_negatives(l->tables);
    for (uint32_t i = 0; i < n; i++) w->refs[i] = (RtRef){w->rows, from + i};
    if (!rt_batch_fill(w->assembler, w->batch, w->refs, n, err)) return false;
    rt_exec_batch(w->exec, w->batch);
    rt_exec_run(w->exec, RT_PREDICT, m->program->predict);
    for (int k = 0; k < m->n_predictions; k++) {
        const float *v = rt_exec_output(w->exec, RT_PREDICT, m->predictions[k].output[RT_PREDICT]);
        for (uint32_t i = 0; i < n; i++)
            out[i * (size_t)m->n_predictions + (size_t)k] =
                w->batch->row_bad[i] ? NAN : rt_corrected(v[i], keep);
    }
    return true;
}

static int predict_with(RtLibrary *l, Worker *w, const char *rows, size_t bytes, float *out, size_t *n_rows,
                        char *message, size_t message_bytes) {
    RtMessage err;
    size_t room = *n_rows, batch = (size_t)l->m->batch;
    take_text(w, rows, bytes);
    *n_rows = 0;
    if (l->m->header && !take_header(l, w, &err))
        return tell(message, message_bytes, RT_LIBRARY_ARGUMENT, err.text);
    parse(w);
    size_t n = *n_rows = w->rows->n;
    if (n > room) {
        rt_message(&err, "the text has %zu rows, there is room for %zu", n, room);
        return tell(message, message_bytes, RT_LIBRARY_ARGUMENT, err.text);
    }
    for (size_t i = 0; i < n; i += batch)
        if (!run_batch(l, w, (uint32_t)i, (uint32_t)(n - i < batch ? n - i : batch),
                       out + i * (size_t)l->m->n_predictions, &err))
            return tell(message, message_bytes, RT_LIBRARY_ARGUMENT, err.text);
    return w->rows->n_bad ? tell(message, message_bytes, RT_LIBRARY_BAD_ROWS, w->rows->error.text)
                          : RT_LIBRARY_OK;
}

static const char no_memory[] = "out of memory";

int rt_library_predict(RtLibrary *l, const char *rows, size_t bytes, float *out, size_t *n_rows,
                       char *message, size_t message_bytes) {
    char err[RT_MESSAGE] = "";
    jmp_buf here;
    if (message_bytes) *message = 0;
    if (!l || !n_rows || (!rows && bytes) || (!out && *n_rows))
        return tell(message, message_bytes, RT_LIBRARY_ARGUMENT,
                    "expected a model, rows and room, found NULL");
    if (bytes > MOST_BYTES)
        return tell(message, message_bytes, RT_LIBRARY_ARGUMENT, "expected at most 1 GiB of rows in a call");
    if (setjmp(here)) {
        way_out = NULL;
        return tell(message, message_bytes, RT_LIBRARY_MEMORY, no_memory);
    }
    way_out = &here;
    Worker *w = take_worker(l, err, sizeof err);
    int code = w ? predict_with(l, w, rows, bytes, out, n_rows, message, message_bytes)
                 : tell(message, message_bytes, RT_LIBRARY_MEMORY, err);
    if (w) give_worker(l, w);
    way_out = NULL;
    return code;
}

/* ---- opening and closing ---- */

void rt_library_close(RtLibrary *l) {
    if (!l) return;
    for (Worker *w = l->idle, *next; w; w = next) {
        next = w->next;
        worker_free(w);
    }
    rt_plan_free(l->plan);
    rt_tables_free(l->tables);
    rt_model_free(l->m);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

/* Fills in l as far as it comes. */
static int open_into(RtLibrary *l, const char *dir, char *err, size_t err_bytes) {
    RtMessage message;
    const RtProgram *p = &ctrc_model;
    if (!rt_machine_fits(p, err, err_bytes)) return RT_LIBRARY_MACHINE;
    l->m = rt_model_parse(p->description, p->description_bytes, p->vocabs, err, err_bytes);
    if (!l->m) return RT_LIBRARY_MACHINE;
    l->m->program = p;
    if (!(l->tables = rt_checkpoint_open(l->m, dir, err, err_bytes))) return RT_LIBRARY_CHECKPOINT;
    l->plan = rt_plan_new(l->m, RT_PREDICT, &message);
    if (l->plan && l->plan->side)
        rt_message(&message,
                   "predictions of the model '%s' read a second file beside each, which rows have not",
                   l->m->name);
    else if (l->plan)
        return RT_LIBRARY_OK;
    snprintf(err, err_bytes, "%s", message.text);
    return RT_LIBRARY_ARGUMENT;
}

int rt_library_open(const char *checkpoint, RtLibrary **out, char *message, size_t message_bytes) {
    char err[RT_MESSAGE] = "";
    jmp_buf here;
    if (message_bytes) *message = 0;
    if (!checkpoint || !out)
        return tell(message, message_bytes, RT_LIBRARY_ARGUMENT,
                    "expected a checkpoint's directory, found NULL");
    *out = NULL;
    if (setjmp(here)) {
        way_out = NULL;
        return tell(message, message_bytes, RT_LIBRARY_MEMORY, no_memory);
    }
    way_out = &here;
    RtLibrary *l = rt_reader_alloc(1, sizeof *l);
    pthread_mutex_init(&l->lock, NULL);
    int code = open_into(l, checkpoint, err, sizeof err);
    way_out = NULL;
    if (code == RT_LIBRARY_OK)
        *out = l;
    else
        rt_library_close(l);
    return code == RT_LIBRARY_OK ? code : tell(message, message_bytes, code, err);
}

size_t rt_library_predictions(const RtLibrary *l) { return l ? (size_t)l->m->n_predictions : 0; }
const char *rt_library_name(const RtLibrary *l, size_t prediction) {
    return prediction < rt_library_predictions(l) ? l->m->predictions[prediction].name : NULL;
}
