#!/usr/bin/env bash
# The Debian package: made by cpack, unpacked elsewhere, and a model compiled and trained from there.
. tests/cli/common.sh.inc
for p in cpack dpkg-deb dpkg-shlibdeps; do has $p || { echo "skipped: no $p"; exit 77; }; done
cd "$source_dir" && build=$(readlink -f "$BUILD") && cd "$work" || exit 1
cpack --config "$build/CPackConfig.cmake" -G DEB -B "$work/package" > log 2>&1 || { echo "FAILED: cpack"; cat log; exit 1; }
deb=$(ls package/*.deb); [ -s "$deb" ] || { echo "FAILED: no package"; exit 1; }
depends=$(dpkg-deb -f "$deb" Depends)
for d in gcc libc6-dev libdnnl-dev libxxhash-dev zlib1g-dev libzstd-dev libjansson-dev libllvm19; do
  case ", $depends," in *", $d,"* | *", $d "*) ;; *) fail "the package doesn't depend on $d: $depends" ;; esac
done
dpkg-deb -x "$deb" root
for f in usr/bin/ctrc usr/lib/ctrc/libctrc_rt.a usr/share/ctrc/lib/dense.ctr; do [ -s root/$f ] || fail "$f isn't in the package"; done
others=$(find root -type f ! -path 'root/usr/bin/ctrc' ! -path 'root/usr/lib/ctrc/*' ! -path 'root/usr/share/*'); [ -z "$others" ] || fail "also in the package: $others"
writable=$(find root -perm /022 ! -type l); [ -z "$writable" ] || fail "others may write to $writable"
clicks_ctr > clicks.ctr; clicks_csv 300 > train.csv
expect 0 env -u LD_LIBRARY_PATH root/usr/bin/ctrc clicks.ctr; quiet
expect 0 ./clicks train --data train.csv --save ckpt; quiet; prints '^clicks: 300 rows, 10 steps'
[ $bad = 0 ] && echo "${deb##*/} holds a compiler that works"
exit $bad
