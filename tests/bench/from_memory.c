/* What a model's program can't be asked for: evaluation and prediction of rows that are kept in memory, and
 * the description of the model by itself. Linked with the object of `ctrc MODEL.ctr --emit=obj` and the
 * runtime:
 *
 *     from_memory eval|predict DIR THREADS EPOCHS FILE    rows a second, a line an epoch but for the first,
 * which reads the text: as training's epochs behind its first from_memory description | vocabulary the model
 * description, the first vocabulary, to stdout
 *
 * A step does all that the commands do with a batch of rows, metrics too, but for writing predictions as
 * text. DIR is a checkpoint. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/checkpoint.h"
#include "runtime/message.h"
#include "runtime/program.h"

static int fail(const char *text) { return fprintf(stderr, "from_memory: %s\n", text), 1; }

/* One line an epoch. */
static int run(RtExec *x, RtReader *r, RtMetrics *s, int function, char *err) {
    const RtProgram *p = x->m->program;
    double from = rt_now();
    uint64_t rows = 0;
    RtBatch *b;
    int got;
    while ((got = rt_reader_next(r, &b, err, RT_MESSAGE)) == 1) {
        bool last = b->last_of_epoch;
        uint64_t epoch = b->epoch;
        rt_exec_batch(x, b);
        if (!rt_exec_run(x, function, function == RT_EVAL ? p->eval : p->predict))
            return fail("the loss is not finite");
        if (function == RT_EVAL) rt_collect(x, RT_EVAL, s);
        rows += b->rows;
        rt_reader_release(r, b);
        if (!last) continue;
        if (epoch) printf("%.6g\n", (double)rows / (rt_now() - from));
        rt_metrics_reset(s);
        from = rt_now(), rows = 0;
    }
    return got < 0 ? fail(err) : 0;
}

static int measure(const RtModel *m, char **arg) {
    char err[RT_MESSAGE] = "";
    int function = !strcmp(arg[0], "eval") ? RT_EVAL : RT_PREDICT, threads = atoi(arg[2]);
    RtTables *t = rt_checkpoint_open(m, arg[1], err, sizeof err);
    if (!t) return fail(err);
    RtExec *x = rt_exec_new(m, t, (uint32_t)threads, err, sizeof err);
    const char *path = arg[4];
    RtReaderOptions o = {.paths = &path,
                         .n_paths = 1,
                         .purpose = function,
                         .batch = (uint32_t)m->batch,
                         .epochs = strtoull(arg[3], NULL, 10),
                         .cache = true,
                         .threads = threads > 1 ? threads / 2 : 1,
                         .tables = t,
                         .index_later = (uint32_t)threads >= rt_cpus()};
    RtReader *r = x ? rt_reader_open(m, &o, err, sizeof err) : NULL;
    RtMetrics *s = rt_metrics_new(m);
    int code = r ? run(x, r, s, function, err) : fail(err);
    rt_reader_close(r);
    rt_metrics_free(s);
    rt_exec_free(x);
    rt_tables_free(t);
    return code;
}

int main(int argc, char **argv) {
    char err[RT_MESSAGE] = "";
    const RtProgram *p = &ctrc_model;
    if (!rt_machine_fits(p, err, sizeof err)) return fail(err);
    RtModel *m = rt_model_parse(p->description, p->description_bytes, p->vocabs, err, sizeof err);
    if (!m) return fail(err);
    m->program = p;
    int code = 2;
    if (argc == 2 && !strcmp(argv[1], "description"))
        code = fwrite(p->description, 1, p->description_bytes, stdout) != p->description_bytes;
    else if (argc == 2 && !strcmp(argv[1], "vocabulary"))
        code = m->n_vocabs &&
               fwrite(((const RtBlob *)p->vocabs)[0].data, 1, ((const RtBlob *)p->vocabs)[0].bytes, stdout) !=
                   ((const RtBlob *)p->vocabs)[0].bytes;
    else if (argc == 6 && (!strcmp(argv[1], "eval") || !strcmp(argv[1], "predict")) && atoi(argv[3]) > 0)
        code = measure(m, argv + 1);
    else
        fprintf(stderr,
                "usage: from_memory eval|predict DIR THREADS EPOCHS FILE, or description, or vocabulary\n");
    rt_model_free(m);
    return code;
}
