/* The model description, parsed: see README.md for what each field means. Everything is owned by RtModel and
 * lives as long as the program. Index -1 means none. */
#ifndef CTRC_RUNTIME_MODEL_H
#define CTRC_RUNTIME_MODEL_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "runtime/abi.h"
#include "runtime/vocab_table.h"

typedef enum { RT_CSV, RT_TSV, RT_LIBSVM, RT_LIBFFM } RtFormat;
typedef enum { RT_LABEL, RT_STRING, RT_INT, RT_FLOAT, RT_SKIP } RtColumnKind;
typedef struct {
    const char *name, *from; /* from: header text, NULL: the name */
    RtColumnKind kind;
    int skip;
    bool is_list;
    char list_sep;
    int axis;
    bool has_default;
    double default_num;
    const char *default_str;
    size_t default_len;
    const char *positive, *negative;
    int side;
    bool used, used_predict, unit_label;
} RtColumn;

typedef enum { RT_AXIS_LIST, RT_AXIS_FIRST, RT_AXIS_LAST, RT_AXIS_FILTER, RT_AXIS_APPEND } RtAxisKind;
typedef struct { const char *name; RtAxisKind kind; int parent; uint64_t max; bool shared; } RtAxis;

typedef enum { RT_F_VALUE, RT_F_NUMBER, RT_F_HASH, RT_F_VOCAB, RT_F_BUCKETIZE, RT_F_IDENTITY, RT_F_CROSS, RT_F_TRUNCATE, RT_F_POSITIONS, RT_F_KEY, RT_F_OFFSET } RtFeatureOp;
typedef enum { RT_T_F32, RT_T_ID, RT_T_KEY, RT_T_STR, RT_T_INT } RtValueType;
typedef struct { bool is_column; int index; } RtPart;
typedef struct {
    RtFeatureOp op;
    RtPart *in; int n_in;
    RtValueType type;
    int axis;
    uint64_t bound, buckets;
    int64_t by;
    bool farm64;
    int vocab; int64_t unknown;
    double *bounds; int n_bounds;
    bool predict;
} RtFeature;

typedef enum { RT_IN_F32, RT_IN_ID, RT_IN_KEY, RT_IN_LOOKUP } RtInputKind;
typedef struct { RtInputKind kind; int index; /* feature, or lookup */ } RtInput;
typedef struct { int feature, table; bool pooled; int ordinal; /* among the table's lookups */ } RtLookup;

typedef struct {
    const char *name;
    int rank; int64_t dim[6]; uint64_t size; /* elements */
    const char *init; double init_arg;
    bool table, lazy, sparse, running, trainable;
    int optimizer;
    int n_slots; const char *slots[3];
} RtWeight;

typedef struct RtSched {
    enum { RT_LR_CONST, RT_LR_EXPONENTIAL, RT_LR_COSINE, RT_LR_PIECEWISE, RT_LR_WARMUP } kind;
    double lr, rate, every, steps, end;
    double *at, *values; int n;
    struct RtSched *then;
} RtSched;
typedef enum { RT_SGD, RT_MOMENTUM, RT_ADAGRAD, RT_ADAGRAD_DECAY, RT_RMSPROP, RT_ADAM, RT_ADAM_ASYNC, RT_FTRL } RtOptKind;
typedef struct {
    RtOptKind kind; const char *kind_name; RtSched lr;
    double clip_norm, l2, momentum, init, rate, every, beta1, beta2, eps, rho, l1_ftrl, l2_ftrl; bool exact;
} RtOptimizer;

typedef enum { RT_AT_FIXED, RT_AT_AXIS, RT_AT_UNIQ, RT_AT_INPUT } RtRegion;
typedef struct { RtRegion region; uint64_t offset; int axis, input; } RtPlace;
typedef struct { int id; const char *op, *ops, *name, *at, *type; } RtNodeInfo; /* ops: those of a region */
typedef struct {
    uint64_t fixed_bytes, scratch_bytes, row_block; uint64_t *axis_elems, *local_elems, *uniq_elems; double flops;
    RtNodeInfo *nodes; int n_nodes;
    RtPlace *outputs; int n_outputs;
} RtFunction;
enum { RT_TRAIN, RT_EVAL, RT_PREDICT, RT_FUNCTIONS_N };

typedef struct { const char *name; int output[RT_FUNCTIONS_N]; } RtPrediction;
typedef enum { RT_AUC, RT_GAUC, RT_LOGLOSS, RT_PCOC, RT_ACCURACY } RtMetricKind;
typedef struct { RtMetricKind kind; int prediction; const char *key; int p[2], y[2], where[2], by[2]; /* by [RT_TRAIN|RT_EVAL]; where, by -1: none. key: what reports call it */ } RtMetric;
/* path NULL: its values are listed in the source. table: made by the first reader that needs it, on the thread that
 * opens readers, and kept for those after it. */
typedef struct { const char *path; int64_t n; uint64_t digest; const char *text; uint64_t bytes; RtVocabTable *table; } RtVocab;
typedef struct { const char *name; bool is_string; double num; const char *str; } RtParam;

typedef struct {
    const char *ctrc, *name, *source, *digest, *march;
    int64_t batch, epochs, steps, shuffle, seed;
    RtParam *params; int n_params;
    const char **passes; int n_passes;
    const char **changes; int n_changes;
    RtFormat format; char separator, quote; bool header, trim;
    const char **missing; int n_missing;
    const char *beside;
    RtColumn *columns; int n_columns;
    RtAxis *axes; int n_axes;
    RtFeature *features; int n_features;
    RtInput *inputs; int n_inputs;
    RtLookup *lookups; int n_lookups;
    RtVocab *vocabs; int n_vocabs;
    RtWeight *weights; int n_weights;
    RtOptimizer *opts; int n_opts;
    RtFunction fn[RT_FUNCTIONS_N];
    RtPrediction *predictions; int n_predictions;
    RtMetric *metrics; int n_metrics;
    const RtProgram *program; /* NULL in tests that have only a description */
} RtModel;

/* Parses a description. NULL on error, with one line in err. blobs may be NULL if there are no vocabularies. */
RtModel *rt_model_parse(const char *json, size_t bytes, const RtBlob *blobs, char *err, size_t err_bytes);
void rt_model_free(RtModel *m);

#endif
