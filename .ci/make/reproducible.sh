#!/usr/bin/env bash
# Make the artefacts of this commit twice, in two folders at different times, and compare them bit by bit.
# Usage: reproducible.sh TOOLS
set -euo pipefail
TOOLS=$(realpath -s "$1") here=$PWD
scratch=$(mktemp -d); trap 'rm -rf "$scratch"' EXIT
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct); export SOURCE_DATE_EPOCH TOOLS
for folder in one another/with-a-longer-name; do
  mkdir -p "$scratch/$folder"
  git clone -q "$here" "$scratch/$folder/source"
  (cd "$scratch/$folder/source" && TZ=Pacific/Chatham deploy/release/build.sh "$scratch/$folder/dist" >/dev/null)
done
if diff "$scratch/one/dist/SHA256SUMS" "$scratch/another/with-a-longer-name/dist/SHA256SUMS"; then
  echo "$(wc -l <"$scratch/one/dist/SHA256SUMS") artefacts of $(git rev-parse --short HEAD), the same bits twice"
else
  echo "not the same bits twice"; exit 1
fi
