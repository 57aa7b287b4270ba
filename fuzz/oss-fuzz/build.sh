#!/bin/bash
# The steps of OSS-Fuzz, in its base image for Rust: the programs of all targets, their seeds, and their options into $OUT.
# The repository lies in $SRC/aggregator.
set -eu

cd "$SRC/aggregator"
# With the sanitizer, the optimisation and the flags that the image asks for.
cargo fuzz build --release --debug-assertions --sanitizer "${SANITIZER:-address}"
host=$(rustc -vV | sed -n 's/^host: //p')
built="${CARGO_TARGET_DIR:-$PWD/fuzz/target}/$host/release"

seeds=$(mktemp -d)
trap 'rm -rf "$seeds"' EXIT
tar xzf fuzz/corpus.tar.gz -C "$seeds"
for target in $(cargo fuzz list); do
    cp "$built/$target" "$OUT/"
    printf '[libfuzzer]\nmax_len = 4096\n' >"$OUT/$target.options"
    (cd "$seeds/corpus/$target" && zip -q -r "$OUT/${target}_seed_corpus.zip" .)
done
