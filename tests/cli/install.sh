#!/usr/bin/env bash
# cmake --install, the tree moved elsewhere, and a model compiled and trained from there with next to no environment.
. tests/cli/common.sh.inc
has cmake || { echo "skipped: no cmake"; exit 77; }
cd "$source_dir" && build=$(readlink -f "$BUILD") && cd "$work" || exit 1

env -u DESTDIR cmake --install "$build" --prefix "$work/first" > log 2>&1 || { echo "FAILED: cmake --install"; cat log; exit 1; }
for f in bin/ctrc lib/ctrc/libctrc_rt.a share/ctrc/lib/dense.ctr; do [ -s first/$f ] || fail "$f isn't installed"; done
for f in "$source_dir"/frontend/lib/*.ctr; do same "$f" "first/share/ctrc/lib/${f##*/}"; done
mkdir "a place" && mv first "a place/moved"
tree="$work/a place/moved"
clicks_ctr > clicks.ctr
clicks_csv 300 > train.csv

# ---- with nothing in PATH but the linker ----
mkdir tools; for tool in cc ld; do ln -s "$(command -v $tool)" tools/$tool; done
expect 0 env -i PATH="$work/tools" "$tree/bin/ctrc" clicks.ctr; quiet; silent
[ -x clicks ] || fail "no ./clicks"
expect 0 env -i ./clicks train --data train.csv --save ckpt; quiet; prints '^clicks: 300 rows, 10 steps'
expect 0 env -i ./clicks predict --data train.csv --load ckpt -o p.csv; quiet; [ "$(wc -l < p.csv)" = 300 ] || fail "$(wc -l < p.csv) predictions"
# nothing in the program refers to where it was made or to the compiler's tree
mv "$tree" "$work/away"; expect 0 env -i ./clicks eval --data train.csv --load ckpt; quiet; mv "$work/away" "$tree"
# the build tree's own ctrc makes the same program
build other clicks.ctr; cmp -s clicks other || { ./other train --data train.csv --save other.ckpt > out 2> err; same ckpt/weights.safetensors other.ckpt/weights.safetensors; }
# without any environment; through a link; from another directory
expect 0 env -i "$tree/bin/ctrc" clicks.ctr -o bare; quiet; [ -x bare ] || fail "no ./bare"
ln -s "$tree/bin/ctrc" link; expect 0 ./link clicks.ctr -o linked; quiet; [ -x linked ] || fail "no ./linked"
mkdir sub; (cd sub && PATH="$tree/bin:$PATH" && ctrc ../clicks.ctr && ./clicks info > info) || fail "ctrc from PATH in another directory"

# ---- what may be missing ----
refuses() { # MESSAGE COMMAND…: and leaves no program, whole or in part
  local message=$1; shift
  expect 1 "$@" clicks.ctr -o missing; silent; says "$message"; absent missing missing.*
}
mkdir none
refuses "error: cannot find 'cc', which links the program
hint: apt-get install gcc" env -i PATH="$work/none" "$tree/bin/ctrc"
: > none/cc; chmod 644 none/cc
refuses "error: cannot run 'cc', which links the program: Permission denied" env -i PATH="$work/none" "$tree/bin/ctrc"
printf '#!/bin/sh\necho it is broken >&2\nexit 3\n' > none/cc; chmod 755 none/cc
refuses "it is broken
error: 'cc' could not link the program (its messages stand above)
hint: what it needs: apt-get install gcc libdnnl-dev libxxhash-dev zlib1g-dev libzstd-dev libjansson-dev" env -i PATH="$work/none" "$tree/bin/ctrc"
expect 0 env -i PATH="$work/none" "$tree/bin/ctrc" check clicks.ctr; quiet # needs no linker

moved_together="hint: bin/, lib/ and share/ of an installed ctrc are moved together"
mv "$tree/lib" lib.kept
refuses "error: can't find the runtime library: $tree/lib/ctrc/libctrc_rt.a: No such file or directory
$moved_together" "$tree/bin/ctrc"
expect 0 "$tree/bin/ctrc" check clicks.ctr; quiet # needs no runtime
mv lib.kept "$tree/lib"; mv "$tree/share" share.kept
layers="error: can't find the layer library: $tree/share/ctrc/lib/dense.ctr: No such file or directory
$moved_together"
refuses "$layers" "$tree/bin/ctrc"
expect 1 "$tree/bin/ctrc" check clicks.ctr; says "$layers"
mkdir -p "$tree/share/ctrc/lib"; refuses "$layers" "$tree/bin/ctrc"
rm -r "$tree/share"; mv share.kept "$tree/share"
cp "$tree/bin/ctrc" alone; expect 1 ./alone clicks.ctr -o missing; hears "error: can't find the runtime library: "
expect 0 "$tree/bin/ctrc" clicks.ctr -o missing; quiet # all is there again

[ $bad = 0 ] && echo "an installed tree works wherever it stands"
exit $bad
