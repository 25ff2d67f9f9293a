/* What fuzz targets share. Each fuzz_NAME.c is one target, in the form that libFuzzer wants; driver.c runs it
 * without libFuzzer, in the test suite. */
#ifndef CTRC_FUZZ_H
#define CTRC_FUZZ_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One input; 0. Aborts, or has the sanitizers do so, where the program under test is wrong. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A contradiction that no sanitizer would see. */
#define FUZZ_CHECK(condition, ...)                                                                           \
    do {                                                                                                     \
        if (condition) break;                                                                                \
        dprintf(STDERR_FILENO, "%s:%d: ", __FILE__, __LINE__);                                               \
        dprintf(STDERR_FILENO, __VA_ARGS__);                                                                 \
        dprintf(STDERR_FILENO, "\n");                                                                        \
        abort();                                                                                             \
    } while (0)

static inline void fuzz_leave_directory(void) {
    char dir[64], command[100];
    if (!getcwd(dir, sizeof dir) || strncmp(dir, "/tmp/ctrc_fuzz_", 15) || chdir("/")) return;
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    if (system(command)) dprintf(STDERR_FILENO, "%s stays\n", dir);
}

/* The target's own directory, its working directory from then on: what it writes goes nowhere else. */
static inline void fuzz_enter_directory(void) {
    static char dir[64];
    if (*dir) return;
    strcpy(dir, "/tmp/ctrc_fuzz_XXXXXX");
    if (!mkdtemp(dir) || chdir(dir)) abort();
    atexit(fuzz_leave_directory);
}

static inline void fuzz_write(const char *path, const void *p, size_t n) {
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(p, 1, n, f) != n || fclose(f)) abort();
}

/* Messages go here: they are made, since making them may go wrong, and thrown away. */
static inline FILE *fuzz_null(void) {
    static FILE *null;
    if (!null && !(null = fopen("/dev/null", "w"))) abort();
    return null;
}

#endif
