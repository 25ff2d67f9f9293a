/* Runs a fuzz target without libFuzzer: first the corpus as it is, then random changes of it for some
 * seconds. fuzz_NAME DIR…          CTRC_FUZZ_SECONDS (default 10), CTRC_FUZZ_SEED (default 1) fuzz_NAME FILE
 * one input An input that ends the process is left in crash-NAME in the directory that the program was
 * started in. */
#include "tests/fuzz/fuzz.h"
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>

enum { LARGEST = 64 << 10, TOO_LONG = 20 /* seconds that an input may take */ };

typedef struct {
    uint8_t *p;
    size_t n;
} Input;
static struct {
    Input *v;
    int n, cap;
} corpus;
static uint64_t seed;
static Input now; /* being run */
static char crash[300];

void __sanitizer_set_death_callback(void (*fn)(void)) __attribute__((weak));

static void keep_input(void) {
    int f = open(crash, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (f < 0 || write(f, now.p, now.n) != (ssize_t)now.n) return;
    close(f);
    dprintf(STDERR_FILENO, "the input is in %s (CTRC_FUZZ_SEED=%llu)\n", crash, (unsigned long long)seed);
}

static void on_signal(int number) {
    if (number == SIGALRM) dprintf(STDERR_FILENO, "an input takes more than %d seconds\n", TOO_LONG);
    keep_input();
    signal(number, SIG_DFL);
    raise(number == SIGALRM ? SIGABRT : number);
}

/* ---- the corpus ---- */

static void add(uint8_t *p, size_t n) {
    if (corpus.n == corpus.cap) {
        corpus.cap = corpus.cap ? 2 * corpus.cap : 64;
        corpus.v = realloc(corpus.v, (size_t)corpus.cap * sizeof *corpus.v);
        if (!corpus.v) abort();
    }
    corpus.v[corpus.n++] = (Input){p, n};
}

static void add_file(const char *path) {
    FILE *f = fopen(path, "rb");
    uint8_t *p = malloc(LARGEST);
    if (!f || !p) abort();
    size_t n = fread(p, 1, LARGEST, f);
    fclose(f);
    add(p, n);
}

static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void add_directory(const char *dir) {
    struct dirent **e;
    struct stat st;
    int n = scandir(dir, &e, NULL, by_name);
    if (n < 0) dprintf(STDERR_FILENO, "can't read %s\n", dir), exit(2);
    for (int i = 0; i < n; i++) {
        char path[600];
        snprintf(path, sizeof path, "%s/%s", dir, e[i]->d_name);
        if (e[i]->d_name[0] != '.' && !stat(path, &st)) {
            if (S_ISDIR(st.st_mode)) add_directory(path);
            if (S_ISREG(st.st_mode)) add_file(path);
        }
        free(e[i]);
    }
    free(e);
}

/* ---- changes ---- */

static uint32_t pick(uint32_t n) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)((seed >> 32) * n >> 32);
}

static void insert(Input *x, size_t at, const uint8_t *p, size_t n) {
    if (x->n + n > LARGEST) return;
    memmove(x->p + at + n, x->p + at, x->n - at);
    memcpy(x->p + at, p, n);
    x->n += n;
}

static void erase(Input *x, size_t at, size_t n) {
    if (n > x->n - at) n = x->n - at;
    memmove(x->p + at, x->p + at + n, x->n - at - n);
    x->n -= n;
}

/* Words that break programs, whatever the language. */
static void spice(Input *x, size_t at) {
    static const char *const words[] = {"0",
                                        "-1",
                                        "1e308",
                                        "4294967295",
                                        "9223372036854775807",
                                        "nan",
                                        "\n",
                                        "\"",
                                        "(",
                                        "]",
                                        "{}",
                                        ",",
                                        "\xef\xbb\xbf",
                                        "\r\n",
                                        "\xff",
                                        "null",
                                        "18446744073709551616"};
    const char *w = words[pick(sizeof words / sizeof *words)];
    insert(x, at, (const uint8_t *)w, strlen(w));
}

static void change(Input *x) {
    size_t at = x->n ? pick((uint32_t)x->n) : 0;
    const Input *other = &corpus.v[pick((uint32_t)corpus.n)];
    size_t from = other->n ? pick((uint32_t)other->n) : 0, most = other->n - from;
    size_t n = 1 + pick(pick(4) ? 16 : 512);
    uint8_t byte = (uint8_t)pick(256);
    switch (pick(8)) {
    case 0:
        if (x->n) x->p[at] ^= (uint8_t)(1 << pick(8));
        break;
    case 1:
        if (x->n) x->p[at] = byte;
        break;
    case 2: insert(x, at, &byte, 1); break;
    case 3: erase(x, at, n); break;
    case 4: spice(x, at); break;
    case 5: /* a piece of another one, or of itself */
        insert(x, at, other->p + from, n < most ? n : most);
        break;
    case 6: /* a digit for a digit */
        while (at < x->n && (x->p[at] < '0' || x->p[at] > '9')) at++;
        if (at < x->n) x->p[at] = (uint8_t)('0' + pick(10));
        break;
    default:
        if (!pick(4)) x->n = at;
        break;
    }
}

/* ---- running ---- */

static void run(const uint8_t *p, size_t n) {
    uint8_t *exact = malloc(n ? n : 1); /* so that a byte read too many is seen */
    if (!exact) abort();
    memcpy(exact, p, n);
    now = (Input){exact, n};
    alarm(TOO_LONG);
    LLVMFuzzerTestOneInput(exact, n);
    alarm(0);
    free(exact);
}

static double clock_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static long mutate(double seconds) {
    static uint8_t room[LARGEST];
    long runs = 0;
    for (double end = clock_seconds() + seconds; clock_seconds() < end; runs++) {
        const Input *from = &corpus.v[pick((uint32_t)corpus.n)];
        Input x = {room, from->n};
        memcpy(room, from->p, from->n);
        for (uint32_t k = 1 + pick(5); k > 0; k--) change(&x);
        run(x.p, x.n);
    }
    return runs;
}

static void name_crash(const char *program) {
    char dir[200];
    const char *slash = strrchr(program, '/');
    if (!getcwd(dir, sizeof dir)) abort();
    snprintf(crash, sizeof crash, "%s/crash-%.60s", dir, slash ? slash + 1 : program);
}

int main(int argc, char **argv) {
    static const int deadly[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGALRM};
    const char *seconds = getenv("CTRC_FUZZ_SECONDS"), *number = getenv("CTRC_FUZZ_SEED");
    seed = number ? strtoull(number, NULL, 10) : 1;
    if (!seed) seed = 1;
    name_crash(argv[0]);
    if (__sanitizer_set_death_callback) __sanitizer_set_death_callback(keep_input);
    for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++) signal(deadly[i], on_signal);
    struct stat st;
    for (int i = 1; i < argc; i++) {
        if (stat(argv[i], &st)) dprintf(STDERR_FILENO, "no %s\n", argv[i]), exit(2);
        if (S_ISDIR(st.st_mode))
            add_directory(argv[i]);
        else
            add_file(argv[i]);
    }
    if (!corpus.n) dprintf(STDERR_FILENO, "no corpus\n"), exit(2);
    uint64_t first = seed;
    for (int i = 0; i < corpus.n; i++) run(corpus.v[i].p, corpus.v[i].n);
    bool one = argc == 2 && !S_ISDIR(st.st_mode);
    long runs = one ? 0 : mutate(seconds ? atof(seconds) : 10);
    printf("%d inputs and %ld changes of them, CTRC_FUZZ_SEED=%llu\n", corpus.n, runs,
           (unsigned long long)first);
    for (int i = 0; i < corpus.n; i++) free(corpus.v[i].p);
    free(corpus.v);
    return 0;
}
