#include "runtime/stop.h"
#include <signal.h>
#include <stddef.h>
#include "runtime/program.h"

static volatile sig_atomic_t stop_signal, save_signal;
static double deadline = -1; /* of rt_now; negative: none */
static const int signals[] = {SIGTERM, SIGINT, SIGUSR1};
enum { N_SIGNALS = sizeof signals / sizeof *signals };
static struct sigaction before[N_SIGNALS];
static bool ours[N_SIGNALS];

static void on_stop(int number) {
    if (stop_signal && number == SIGINT) { /* as if it had never been caught */
        signal(SIGINT, SIG_DFL);
        raise(SIGINT);
        return;
    }
    if (!stop_signal) stop_signal = number;
}
static void on_save(int number) { save_signal = number; }

void rt_stop_watch(bool saves, double after) {
    stop_signal = save_signal = 0;
    deadline = after < 0 ? -1 : rt_now() + after;
    for (int i = 0; i < N_SIGNALS; i++) {
        struct sigaction a = {.sa_flags = SA_RESTART};
        bool save = signals[i] == SIGUSR1;
        a.sa_handler = save ? on_save : on_stop;
        ours[i] = (save || saves) && !sigaction(signals[i], NULL, &before[i]) &&
                  before[i].sa_handler != SIG_IGN && !sigaction(signals[i], &a, NULL);
    }
}

void rt_stop_unwatch(void) {
    for (int i = 0; i < N_SIGNALS; i++)
        if (ours[i]) sigaction(signals[i], &before[i], NULL);
    deadline = -1;
}

const char *rt_stop_reason(void) {
    if (stop_signal) return stop_signal == SIGINT ? "SIGINT" : "SIGTERM";
    return deadline >= 0 && rt_now() >= deadline ? "--stop-after" : NULL;
}

bool rt_stop_save_asked(void) {
    bool asked = save_signal != 0;
    save_signal = 0;
    return asked;
}

bool rt_stop_wake(void) { return save_signal || rt_stop_reason(); }
