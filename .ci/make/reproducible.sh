#!/usr/bin/env bash
# Make the artefacts of this commit twice, in two folders at different times, and compare them bit by bit.
# Usage: reproducible.sh PYTHON SHIV
set -euo pipefail
python=$(realpath -s "$1") shiv=$(realpath -s "$2") here=$PWD
scratch=$(mktemp -d); trap 'rm -rf "$scratch"' EXIT
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct); export SOURCE_DATE_EPOCH
for folder in one another/with-a-longer-name; do
  mkdir -p "$scratch/$folder"
  git clone -q "$here" "$scratch/$folder/source"
  (cd "$scratch/$folder/source" && TZ=Pacific/Chatham "$python" deploy/release/artefacts.py "$scratch/$folder/dist" --shiv "$shiv" >/dev/null)
done
if diff "$scratch/one/dist/SHA256SUMS" "$scratch/another/with-a-longer-name/dist/SHA256SUMS"; then
  echo "$(wc -l <"$scratch/one/dist/SHA256SUMS") artefacts of $(git rev-parse --short HEAD), the same bits twice"
else
  echo "not the same bits twice"; exit 1
fi
