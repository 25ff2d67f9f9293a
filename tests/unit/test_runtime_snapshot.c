/* Saving beside training: the checkpoint is of the moment at which it was begun, whatever changes meanwhile;
 * and however the process that writes it ends, it is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <fcntl.h>
#include <pthread.h>
#include <time.h>
#include "runtime/checkpoint_own.h"
#include "runtime/message.h"
#include "runtime/safetensors.h"
#include "runtime_run.h"

/* ---- the process ---- */

static int gate[2]; /* a child waits until it is closed */

static bool writes(void *arg, char *err, size_t err_bytes) {
    (void)err, (void)err_bytes;
    return *(int *)arg == 1;
}
static bool waits(void *arg, char *err, size_t err_bytes) {
    char c;
    close(gate[1]);
    ssize_t n = read(gate[0], &c, 1);
    snprintf(err, err_bytes, "it was %d", *(int *)arg);
    return n != 0;
}
static bool is_killed(void *arg, char *err, size_t err_bytes) {
    (void)arg, (void)err, (void)err_bytes;
    raise(SIGKILL);
    return true;
}
static bool leaves(void *arg, char *err, size_t err_bytes) {
    (void)arg, (void)err, (void)err_bytes;
    _exit(3);
}

static RtSaveEnd ends(RtSnapshotFn fn, bool *killed, char err[RT_MESSAGE]) {
    RtSnapshot s = {0};
    int one = 1;
    *err = 0;
    assert_true(rt_snapshot_start(&s, fn, &one));
    RtSaveEnd end = rt_snapshot_ask(&s, true, killed, err, RT_MESSAGE);
    bool again;
    assert_int_equal(rt_snapshot_ask(&s, true, &again, err, RT_MESSAGE), RT_SAVE_NONE); /* told once */
    rt_snapshot_close(&s);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* nobody is left */
    return end;
}

static void test_ends(void **state) {
    (void)state;
    char err[RT_MESSAGE];
    bool killed;
    assert_int_equal(ends(writes, &killed, err), RT_SAVE_DONE);
    assert_false(killed);
    assert_int_equal(ends(is_killed, &killed, err), RT_SAVE_FAILED);
    assert_true(killed);
    assert_string_equal(err, "the process that wrote it was ended by signal 9 (Killed)");
    assert_int_equal(ends(leaves, &killed, err), RT_SAVE_FAILED);
    assert_true(killed);
    assert_string_equal(err, "the process that wrote it ended without a word");
    /* where children are reaped by the system, how one ended isn't known, what it said is */
    signal(SIGCHLD, SIG_IGN);
    assert_int_equal(ends(writes, &killed, err), RT_SAVE_DONE);
    assert_int_equal(ends(is_killed, &killed, err), RT_SAVE_FAILED);
    assert_string_equal(err, "the process that wrote it ended without a word");
    signal(SIGCHLD, SIG_DFL);
}

/* The memory is that of the start, signals of a job don't reach the child, and its message comes back. */
static void test_moment(void **state) {
    (void)state;
    RtSnapshot s = {0};
    char err[RT_MESSAGE] = "";
    bool killed;
    int number = 5;
    assert_int_equal(pipe(gate), 0);
    assert_true(rt_snapshot_start(&s, waits, &number));
    number = 6;
    assert_int_equal(rt_snapshot_ask(&s, false, &killed, err, sizeof err), RT_SAVE_RUNS);
    usleep(50000); /* it has settled in */
    for (int i = 0; i < 3; i++) kill(s.pid, (int[]){SIGTERM, SIGINT, SIGUSR1}[i]);
    usleep(50000);
    assert_int_equal(rt_snapshot_ask(&s, false, &killed, err, sizeof err), RT_SAVE_RUNS);
    close(gate[0]);
    close(gate[1]);
    assert_int_equal(rt_snapshot_ask(&s, true, &killed, err, sizeof err), RT_SAVE_FAILED);
    assert_string_equal(err, "it was 5");
    assert_false(killed);
    rt_snapshot_close(&s);
}

/* A child that waits for what never comes is ended; one that was stopped by somebody is waited for. */
static void test_hangs(void **state) {
    (void)state;
    RtSnapshot s = {0};
    char err[RT_MESSAGE] = "";
    bool killed;
    int number = 5;
    assert_int_equal(pipe(gate), 0);
    rt_snapshot_patience = 2;
    assert_true(rt_snapshot_start(&s, waits, &number));
    usleep(50000);
    kill(s.pid, SIGSTOP);
    for (int i = 0; i < 4; i++) {
        usleep(1050000);
        assert_int_equal(rt_snapshot_ask(&s, false, &killed, err, sizeof err), RT_SAVE_RUNS);
    }
    kill(s.pid, SIGCONT);
    assert_int_equal(rt_snapshot_ask(&s, true, &killed, err, sizeof err), RT_SAVE_HUNG);
    assert_false(killed);
    assert_string_equal(
        err, "the process that wrote it slept for 2 s and was ended: does a preloaded library keep "
             "locks over fork?");
    rt_snapshot_close(&s);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    close(gate[0]);
    close(gate[1]);
    rt_snapshot_patience = 120;
}

/* Nor is one that works for longer than that, or that writes now and then. */
static bool works(void *arg, char *err, size_t err_bytes) {
    (void)err, (void)err_bytes;
    int out = open("/dev/null", O_WRONLY);
    if (*(int *)arg) /* the CPU */
        for (clock_t end = clock() + 4 * CLOCKS_PER_SEC; clock() < end;) continue;
    for (int i = 0; i < 8 && !*(int *)arg; i++) {
        usleep(500000);
        if (write(out, "x", 1) != 1) return false;
    }
    return close(out) == 0;
}
static void test_slow(void **state) {
    (void)state;
    rt_snapshot_patience = 3;
    for (int cpu = 0; cpu < 2; cpu++) {
        RtSnapshot s = {0};
        char err[RT_MESSAGE] = "";
        bool killed;
        assert_true(rt_snapshot_start(&s, works, &cpu));
        assert_int_equal(rt_snapshot_ask(&s, true, &killed, err, sizeof err), RT_SAVE_DONE);
        rt_snapshot_close(&s);
    }
    rt_snapshot_patience = 120;
}

/* A child doesn't outlive a parent that is killed. */
static void test_orphan(void **state) {
    (void)state;
    int tell[2], hold[2];
    assert_int_equal(pipe(gate), 0);
    assert_int_equal(pipe(tell), 0);
    assert_int_equal(pipe(hold), 0); /* its end is seen when nobody has it open for writing */
    pid_t parent = fork();
    if (parent == 0) {
        RtSnapshot s = {0};
        int number = 0;
        close(hold[0]);
        rt_snapshot_start(&s, waits, &number);
        usleep(50000);
        if (write(tell[1], "x", 1) != 1) _exit(1);
        pause();
    }
    char c;
    close(hold[1]);
    close(tell[1]);
    assert_int_equal(read(tell[0], &c, 1), 1);
    kill(parent, SIGKILL);
    waitpid(parent, NULL, 0);
    alarm(20);
    assert_int_equal(read(hold[0], &c, 1), 0);
    alarm(0);
    close(hold[0]);
    close(tell[0]);
    close(gate[0]);
    close(gate[1]);
}

/* ---- the checkpoint ---- */

static void put(RtTables *t, uint32_t id, float value) {
    float row[2] = {value, -value};
    for (int part = 0; part < 2; part++) rt_tables_put_row(t, FIX_USERS, id, part, row);
}

/* What ckpt holds of the users' rows 0, 1, … of the file. */
static void expect_rows(const float *want, int n) {
    char err[RT_MESSAGE];
    RtTensorFile *f = rt_tensors_open("ckpt/weights.safetensors", err, sizeof err);
    assert_non_null(f);
    const RtTensor *users = rt_tensors_find(f, "users");
    assert_int_equal(users->dim[0], n);
    const float *v = rt_tensors_data(f, users);
    for (int i = 0; i < n; i++) assert_true(v[2 * i] == want[i]);
    rt_tensors_close(f);
}

static void test_rows_of_the_moment(void **state) {
    (void)state;
    char err[RT_MESSAGE] = "";
    RtModel *m = fix_model(FIX_USERS_LARGE);
    RtTables *t = rt_tables_new(m, 1, err, sizeof err);
    RtSaver *s = rt_saver_open("ckpt", 2, err, sizeof err);
    assert_non_null(s);
    assert_int_equal(rt_saver_ask(s, true, err, sizeof err), RT_SAVE_NONE);
    for (uint32_t id = 0; id < 3; id++) put(t, id, 1);
    rt_saver_start(s, m, t, &(RtState){.step = 1});
    put(t, 1, 7);
    put(t, 90000000, 7);
    assert_int_equal(rt_saver_ask(s, true, err, sizeof err), RT_SAVE_DONE);
    expect_rows((float[]){1, 1, 1}, 3);
    rt_saver_start(s, m, t, &(RtState){.step = 2});
    rt_saver_close(s); /* waits for it */
    expect_rows((float[]){1, 7, 1, 7}, 4);
    assert_true(run_exists("ckpt/step-1/state.json"));
    assert_false(run_exists("ckpt.tmp"));
    assert_false(run_exists("ckpt.lock"));
    rt_tables_free(t);
    rt_model_free(m);
}

/* A failure is told as it would be without a child; what was there stays. */
static void test_failure(void **state) {
    (void)state;
    char err[RT_MESSAGE] = "";
    RtModel *m = fix_model(FIX_USERS_SMALL);
    RtTables *t = rt_tables_new(m, 1, err, sizeof err);
    RtSaver *s = rt_saver_open("ckpt", 2, err, sizeof err);
    rt_saver_start(s, m, t, &(RtState){.step = 1});
    assert_int_equal(rt_saver_ask(s, true, err, sizeof err), RT_SAVE_DONE);
    rt_tables_dense(t, FIX_BIAS, 0)[0] = NAN;
    rt_saver_start(s, m, t, &(RtState){.step = 2});
    assert_int_equal(rt_saver_ask(s, true, err, sizeof err), RT_SAVE_FAILED);
    assert_string_equal(err, "not saved: weight 'bias' holds values that are not finite");
    assert_int_equal(rt_saver_ask(s, true, err, sizeof err), RT_SAVE_NONE);
    rt_saver_close(s);
    RtState state_there;
    json_t *json;
    assert_int_equal(rt_state_read("ckpt/state.json", "ckpt", m, &state_there, &json, err, sizeof err),
                     RT_READ_OK);
    assert_int_equal(state_there.step, 1);
    json_decref(json);
    rt_tables_free(t);
    rt_model_free(m);
}

/* Readers' threads give rows to ids all the while: no snapshot is made amid a change of theirs. */
typedef struct {
    RtTables *t;
    bool stop;
} Meeting;
static void *meet(void *arg) {
    Meeting *x = arg;
    for (uint32_t id = 0; !__atomic_load_n(&x->stop, __ATOMIC_ACQUIRE); id++)
        rt_tables_slot(x->t, FIX_USERS, id % 90000000, true);
    return NULL;
}

static void test_beside_readers(void **state) {
    (void)state;
    char err[RT_MESSAGE] = "";
    RtModel *m = fix_model(FIX_USERS_LARGE);
    Meeting x = {.t = rt_tables_new(m, 1, err, sizeof err)};
    RtSaver *s = rt_saver_open("ckpt", 1, err, sizeof err);
    pthread_t reader;
    for (uint32_t id = 0; id < 3; id++) put(x.t, id, 1);
    assert_int_equal(pthread_create(&reader, NULL, meet, &x), 0);
    alarm(120); /* a lock that stays locked in the child would end here */
    for (uint64_t step = 1; step <= 20; step++) {
        rt_saver_start(s, m, x.t, &(RtState){.step = step});
        assert_int_equal(rt_saver_ask(s, true, err, sizeof err), RT_SAVE_DONE);
        expect_rows((float[]){1, 1, 1}, 3);
    }
    alarm(0);
    __atomic_store_n(&x.stop, true, __ATOMIC_RELEASE);
    pthread_join(reader, NULL);
    rt_saver_close(s);
    rt_tables_free(x.t);
    rt_model_free(m);
}

/* ---- in training ---- */

/* As a lock of an allocator that fork doesn't know of: locked by a thread that the child doesn't have. */
static pthread_mutex_t foreign = PTHREAD_MUTEX_INITIALIZER;
static int generation; /* of forks: 1 is the program, 2 what saves beside it */
static void take_foreign(void) {
    if (++generation == 2) pthread_mutex_lock(&foreign);
}

static void slow_train(RtStep *s, uint32_t thread, uint32_t threads) {
    if (!thread) usleep(400000);
    fix_train(s, thread, threads);
}

static void test_training_goes_on(void **state) {
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    skip(); /* programs with AddressSanitizer save by themselves */
#endif
    static const char told[] =
        "warning: the process that wrote it slept for 1 s and was ended: does a preloaded library "
        "keep locks over fork?\nfrom now on training waits for its saves\n";
    pthread_atfork(NULL, NULL, take_foreign);
    pthread_mutex_lock(&foreign);
    rt_snapshot_patience = 1;
    Run r = run("train --data train.csv --epochs 1 --save ckpt --save-every 8 --keep 9");
    assert_int_equal(r.code, 0);
    assert_string_equal(r.err, told); /* once */
    assert_true(run_exists("ckpt/step-16/state.json"));
    assert_true(run_exists("ckpt/step-24/state.json"));
    assert_false(run_exists("ckpt.tmp"));
    /* a save that nobody waits for is made up for when it is found to hang, long before the next one */
    r = run_how((RunHow){.train = slow_train},
                "train --data train.csv --epochs 1 --save other --save-every 8 --steps 15 --keep 9");
    assert_int_equal(r.code, 0);
    assert_string_equal(r.err, told);
    bool made_up = false;
    for (int step = 9; step < 15; step++) {
        char path[40];
        snprintf(path, sizeof path, "other/step-%d/state.json", step);
        made_up |= run_exists(path);
    }
    assert_true(made_up);
    pthread_mutex_unlock(&foreign);
    rt_snapshot_patience = 120;
}

int main(void) {
#define IN_DIRECTORY(f) cmocka_unit_test_setup_teardown(f, run_setup, run_teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ends),         cmocka_unit_test(test_moment),
        cmocka_unit_test(test_orphan),       IN_DIRECTORY(test_rows_of_the_moment),
        IN_DIRECTORY(test_failure),          IN_DIRECTORY(test_beside_readers),
        cmocka_unit_test(test_hangs),        cmocka_unit_test(test_slow),
        IN_DIRECTORY(test_training_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
