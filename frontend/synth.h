/* ctrc synth, in three parts: what each column may hold (synth_columns.c), the hidden world that labels are
 * drawn from (synth.c), and the file formats (synth_write.c). */
#ifndef CTRC_FRONTEND_SYNTH_H
#define CTRC_FRONTEND_SYNTH_H
#include "ir/ir.h"

typedef enum { SYNTH_SKIP, SYNTH_LABEL, SYNTH_WORDS, SYNTH_IDS, SYNTH_NUMBER } SynthKind;

/* Values that columns of one table share: ranks 0 … n-1, drawn by Zipf's law. */
typedef struct {
    int n;
    double *cdf;          /* [n] */
    char prefix;          /* of words that no vocabulary lists: prefix and rank */
    const IrVocab *vocab; /* NULL: none */
    int *word;            /* [n] positions in the vocabulary */
} SynthDomain;

typedef struct {
    const IrColumn *col;
    SynthKind kind;
    SynthDomain *domain; /* WORDS, IDS */
    double limit;        /* most values that the model can tell apart */
    double mean, std;    /* NUMBER: where values lie; bounds: cut points that the model uses */
    const double *bounds;
    int n_bounds;
    bool whole, never_empty;
    bool compared;
    double above, below; /* LABEL: texts of 1 and 0 are numbers on either side of a comparison */
    uint64_t name;       /* hash of the name: what the world knows of a column */
    double strength;     /* of its share in the score, 0: none */
} SynthColumn;

typedef struct {
    int rank;
    double number;
    bool empty;
} SynthValue;

typedef struct {    /* one row, column by column */
    int *count;     /* [columns] values: 1, or the list's length */
    SynthValue **v; /* [columns][count] */
    int *label;     /* [columns] 0 or 1, of labels */
} SynthRow;

enum { SYNTH_MAX_LIST = 64 };

typedef struct {
    IrProgram *p;
    SynthColumn *columns;
    int n;
    bool *never_empty;     /* [axes] lists along it have elements */
    int *axis_length;      /* [axes] of the row being made */
    int pair[2];           /* columns whose values meet, -1: none */
    double centre, spread; /* of the raw score over the world */
} Synth;

/* ---- synth_columns.c ---- */
void synth_columns(Synth *s);
/* The text of one value; may be buffer. */
const char *synth_text(const SynthColumn *c, SynthValue v, char buffer[64], int *len);

/* ---- synth.c ---- */
uint64_t synth_mix(uint64_t a, uint64_t b); /* a hash of two words */
double synth_uniform(uint64_t *state);      /* [0, 1); advances state */

/* ---- synth_write.c ---- */
typedef struct SynthFiles SynthFiles;
/* Temporary files beside out and, if the program has one, its `beside` file. NULL after an error. */
SynthFiles *synth_open(const Synth *s, const char *out);
void synth_write(SynthFiles *f, const Synth *s, const SynthRow *row);
/* Puts the files in place if all was written, else removes them and reports. */
bool synth_close(SynthFiles *f, bool keep);

#endif
