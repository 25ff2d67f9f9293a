#!/usr/bin/env bash
# The include rule: which room may see which. A room's own headers are always allowed; system headers too,
# but LLVM's only in backend/ and oneDNN's only in one file of runtime/.
set -u
cd "$(dirname "$0")/../.."
bad=0
allow() { # allow ROOM "ROOMS IT MAY SEE"
  local room=$1 may="$1 $2" file line seen
  while IFS=: read -r file line seen; do
    seen=${seen#*\"}; seen=${seen%%/*}
    case " $may " in *" $seen "*) ;; *) echo "$file:$line: error: $room/ may not include from $seen/ (allowed: $may)"; bad=1 ;; esac
  done < <(grep -nE '^ *# *include *"[a-z]+/' $(find "$room" -name '*.[chyl]' -o -name '*.def' -path "$room/*") /dev/null)
}
allow ir ""
allow passes "ir"
allow runtime ""
# the runtime's ABI table is the one thing of it that the backend sees; checked below
allow backend "ir passes runtime"
grep -nE '^ *# *include *"runtime/' backend/*.[ch] | grep -v '"runtime/abi\.' && { echo "error: backend/ may include only runtime/abi.def and abi.h"; bad=1; }
# the driver alone sees every room
for f in frontend/*.[chyl]; do
  case "$f" in frontend/main.c | frontend/options.[ch] | frontend/driver*.[ch]) continue ;; esac
  while IFS=: read -r line seen; do
    seen=${seen#*\"}; seen=${seen%%/*}
    case "$seen" in ir | frontend) ;; *) echo "$f:$line: error: frontend/ may not include from $seen/ (only the driver may)"; bad=1 ;; esac
  done < <(grep -nE '^ *# *include *"[a-z]+/' "$f")
done
grep -lE '# *include *[<"]llvm-c/' -r frontend ir passes runtime && { echo "error: LLVM headers stay in backend/"; bad=1; }
dnnl=$(grep -lE '# *include *[<"](dnnl|oneapi)' -r frontend ir passes runtime backend | wc -l)
[ "$dnnl" -le 1 ] || { echo "error: oneDNN is called from $dnnl files, expected one"; bad=1; }
# a source file that no rule read would make this test worthless
count=$(find ir passes runtime backend frontend -name '*.[ch]' | wc -l)
[ "$count" -gt 20 ] || { echo "error: only $count source files found"; bad=1; }
exit $bad
