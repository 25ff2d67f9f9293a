/* A model in a C program: reads a log from stdin, prints a line of predictions a row.
 *
 *     ctrc models/adult.ctr --emit=lib
 *     cc models/serving/serve.c -I. -L. -ladult -Wl,-rpath,"$PWD" -o serve
 *     ./serve checkpoint < adult.test
 */
#include <stdio.h>
#include <stdlib.h>
#include "adult.h"

static char *read_stdin(size_t *n) {
    size_t room = 1 << 16, got;
    char *text = malloc(room);
    *n = 0;
    while (text && (got = fread(text + *n, 1, room - *n, stdin)) > 0)
        if ((*n += got) == room) text = realloc(text, room *= 2);
    return text;
}

int main(int argc, char **argv) {
    char message[1024];
    adult_model *model;
    if (argc != 2) return fprintf(stderr, "usage: serve CHECKPOINT < ROWS\n"), 2;
    if (adult_open(argv[1], &model, message, sizeof message)) return fprintf(stderr, "%s\n", message), 1;

    size_t bytes, rows = 1, width = adult_predictions(model);
    char *text = read_stdin(&bytes);
    if (!text) return fprintf(stderr, "out of memory\n"), 1;
    for (size_t i = 0; i < bytes; i++) rows += text[i] == '\n'; /* at most that many */
    float *out = malloc(rows * width * sizeof *out);
    int code = adult_predict(model, text, bytes, out, &rows, message, sizeof message);
    if (code != ADULT_OK) fprintf(stderr, "%s\n", message);
    if (code == ADULT_OK || code == ADULT_BAD_ROWS)
        for (size_t i = 0; i < rows; i++)
            for (size_t k = 0; k < width; k++) printf("%.9g%c", (double)out[i * width + k], k + 1 < width ? ',' : '\n');
    adult_close(model);
    free(out);
    free(text);
    return code;
}
