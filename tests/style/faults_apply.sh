#!/usr/bin/env bash
# The faults of tests/tools/mutations/ still fit the sources: mutations.sh itself runs too long to be part of the suite.
set -u
command -v patch > /dev/null 2>&1 || { echo "skipped: no patch here"; exit 77; }
bad=0 n=0
for f in tests/tools/mutations/*.patch; do
  n=$((n + 1))
  patch --dry-run -p1 -s -f < "$f" > /dev/null || { echo "$f does not apply any more"; bad=1; }
done
[ $n -ge 22 ] || { echo "only $n faults"; bad=1; }
exit $bad
