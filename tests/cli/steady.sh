#!/usr/bin/env bash
# Threads that compute make no system call and no allocation in a step from memory, but for sleeping while they wait
# (futex, sched_yield). The first thread, which computes too, sets up, ends epochs and reports: so what is asked is how
# its calls grow. With E epochs of n steps they are A + E (B + n C); of C, calls a step, there must be none.
. tests/cli/common.sh.inc
! ldd "$ctrc" | grep -q asan || { echo "not under AddressSanitizer, which must be preloaded first"; exit 77; }
cc -shared -fPIC -O1 -o steady.so "$source_dir/tests/cli/steady.c" || { echo "FAILED: no steady.so"; exit 1; }
clicks_ctr > clicks.ctr
clicks_csv 320 > 10.csv; clicks_csv 960 > 30.csv # as many steps
traced=yes
strace -f --seccomp-bpf -o /dev/null true 2> /dev/null || { traced=no; echo "skipped: system calls (no strace, or it may not trace here)"; }

# train PROGRAM STEPS EPOCHS COMMAND…: rows stay in order, so that each epoch has the same batches
train() { local p=$1 n=$2 e=$3; shift 3; expect 0 "$@" ./"$p" train --data "$n.csv" --epochs "$e" --no-shuffle --cache memory --threads 3 --json; }
# counts of "NAME CALLS" lines for NAME
of() { awk -v who="$1" '$1 == who { n += $2 } END { print n + 0 }' "$2"; }
# grows WHAT WHO: calls of the later two of four epochs, of 30 steps beside 10
grows() {
  local short long n
  short=$(($(of "$2" 10.4) - $(of "$2" 10.2))); long=$(($(of "$2" 30.4) - $(of "$2" 30.2)))
  [ $short = $long ] && return
  fail "$program: $2 makes $1: $short in two epochs of 10 steps, $long in two of 30"
  for n in 10.2 10.4 30.2 30.4; do echo "$n: $(awk -v who="$2" '$1 == who { n[$3] += $2 } END { for (c in n) printf " %s:%d", c, n[c] }' $n)"; done
}

# calls TRACE PROGRAM: lines "NAME 1 CALL" of the first thread (main) and of those that are called step. Memory that
# the first one gets is left out here: it is counted by the library above, and what malloc asks of the system depends on
# what other threads do. A thread's name is given by the one that started it, through a file.
calls() {
  awk '{ id = $1; call = $2; sub(/\(.*/, "", call) }
    NR == 1 { main = id }
    match($0, /openat\(AT_FDCWD, "\/proc\/self\/task\/[0-9]+\/comm"/) { split(substr($0, RSTART, RLENGTH), part, "/"); named = part[5] }
    /write\([0-9]+, "step", 4/ { step[named] = 1 }
    call ~ /^[a-z_0-9]+$/ && (id != main || call !~ /^(brk|mmap|munmap|mremap|mprotect|madvise)$/) { n++; who[n] = id; what[n] = call }
    END { for (i = 1; i <= n; i++) if (who[i] == main) print "main 1 " what[i]; else if (who[i] in step) print "step 1 " what[i] }' "$1"
}
check() { # check PROGRAM: built before
  local n e
  program=$1
  for n in 10 30; do
    for e in 2 4; do train "$1" $n $e env STEADY_COUNT=$n.$e LD_PRELOAD=./steady.so; done
  done
  [ "$(of main 10.2)" -gt 0 ] || fail "$1: no allocation was counted"
  [ "$(of step 30.4)" = 0 ] || { fail "$1: threads of a step allocate:"; cat 30.4; }
  grows allocations main
  [ $traced = yes ] || return 0
  for n in 10 30; do
    for e in 2 4; do
      train "$1" $n $e strace -f -qq --seccomp-bpf -e trace='!futex,sched_yield,clock_gettime' -o trace
      calls trace > $n.$e
    done
  done
  [ "$(of main 10.2)" -gt 0 ] || fail "$1: no system call was seen"
  [ "$(grep -c '^step 1 exit' 30.4)" = 2 ] || fail "$1: the two further threads of a step were not found"
  grows "system calls" main; grows "system calls" step
  # what starts a thread and ends it
  awk '$1 == "step" { print $3 }' 30.4 | sort -u | grep -vxE 'rseq|set_robust_list|rt_sigprocmask|madvise|exit' > more
  [ ! -s more ] || { fail "$1: threads of a step make system calls:"; cat more; }
}
build small clicks.ctr; check small
build large clicks.ctr -D buckets=3000000; check large                    # rows stored as met
# oneDNN gets memory in each call (dnnl_sgemm, runtime/gemm.c): what is asked is not so where a plan hands products to it,
# which takes --tune-kernels, schedule's arguments, or a result of 5 to 7 columns. System calls don't grow there either.
if [ "${CTRC_STEADY:-}" = library ]; then build library clicks.ctr --enable='schedule(products=library)'; check library
else echo "not checked: products that are oneDNN's, which allocates (CTRC_STEADY=library does, and fails)"; fi
exit $bad
