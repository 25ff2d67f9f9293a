#!/usr/bin/env bash
# Installs the Debian packages that ctrc needs, if any is missing.
set -euo pipefail
packages="gcc libc6-dev make cmake flex bison llvm-19-dev libdnnl-dev libxxhash-dev zlib1g-dev libzstd-dev libjansson-dev libcmocka-dev"
missing=""
for p in $packages; do
  [ "$(dpkg-query -W -f='${Status}' "$p" 2>/dev/null)" = "install ok installed" ] || missing="$missing $p"
done
[ -n "$missing" ] || exit 0
echo "== installing:$missing"
root=""
if [ "$(id -u)" != 0 ]; then root=sudo; fi
$root apt-get update -qq
# shellcheck disable=SC2086
DEBIAN_FRONTEND=noninteractive $root apt-get install -y -qq --no-install-recommends $missing >/dev/null
