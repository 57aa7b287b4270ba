# The commands of the README. Only Rust is needed to build and for the demo; tests install Debian packages.

CARGO ?= cargo
# Shown in the metric build_info.
export AGGREGATOR_COMMIT ?= $(shell git rev-parse --short HEAD 2>/dev/null || echo unknown)

.PHONY: help build demo check test test-partition bench profile instructions docs partitions faults lint deny fuzz image test-image release clean

help:
	@echo "make build   the program, target/release/aggregator"
	@echo "make demo    three datacenters in one process, and their region (FOR=20s ends by itself)"
	@echo "make check   formatting, clippy and unit tests: a minute after a small change"
	@echo "make test    installs the real servers that tests talk to, and runs everything"
	@echo "make test-partition  breaks a network of namespaces, disks and clocks, as root, ten minutes"
	@echo "make docs    writes the references in docs/ from the program (make partitions, make faults: the tables of docs/partitions.md, docs/steering.md, docs/faults.md)"
	@echo "make bench   figures beside real servers, over an hour (OPTIONS=--help shows what can be chosen)"
	@echo "make profile where the time of an answer goes"
	@echo "make lint    formatting and clippy, as CI does"
	@echo "make image   container image, Debian package and disk in target/image (image/build --help)"
	@echo "make test-image   runs, boots and installs them; needs root"
	@echo "make release   everything that a release has, in target/release-VERSION (ARCH=\"amd64 arm64\" for both)"
	@echo "make deny    licences, origins and known faults of other people's code"
	@echo "make fuzz    every fuzz target for SECONDS=60 (needs cargo-fuzz)"

build:
	$(CARGO) build --release --locked

demo:
	$(CARGO) run --release --locked -- demo $(if $(FOR),--for $(FOR))

# After every small change: what is fast, and needs no other server. Clippy sees the tests of the program in "make lint",
# and properties are looked at for as long as they should be in "make test".
check: export PROPTEST_CASES ?= 32
check:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --locked --lib --bins -- -D warnings
	if $(CARGO) nextest --version >/dev/null 2>&1; then $(CARGO) nextest run --workspace --locked --lib; \
	else $(CARGO) test --workspace --locked --lib; fi

test:
	scripts/install-peers
	scripts/install-axe $(or $(CARGO_TARGET_DIR),target)/axe
	scripts/install-opentelemetry $(or $(CARGO_TARGET_DIR),target)/opentelemetry
	scripts/install-release-tools $(or $(CARGO_TARGET_DIR),target)/release-tools
	scripts/run-tests

# What needs root: network namespaces. In one test binary after the other, because they measure time.
test-partition:
	scripts/install-peers
	scripts/install-zeroconf $(or $(CARGO_TARGET_DIR),target)/zeroconf
	PATH="$$PATH:/usr/sbin:/sbin" $(CARGO) test --locked --test partition --test steering_net --test compose --test anycast --test link --test logging --test privileges --test faults -- --ignored --nocapture

docs:
	AGGREGATOR_WRITE_DOCS=1 $(CARGO) test --locked --test reference

partitions:
	PATH="$$PATH:/usr/sbin:/sbin" AGGREGATOR_WRITE_DOCS=1 $(CARGO) test --locked --test partition --test steering_net -- --ignored --nocapture

faults:
	PATH="$$PATH:/usr/sbin:/sbin" AGGREGATOR_WRITE_DOCS=1 $(CARGO) test --locked --test faults -- --ignored --nocapture

BENCH = PATH="$$PATH:/usr/sbin:/sbin" $(or $(CARGO_TARGET_DIR),bench/target)/release/aggregator-bench \
	--program $(or $(CARGO_TARGET_DIR),target)/release/aggregator

bench: build
	scripts/install-peers bench
	$(CARGO) build --release --locked --manifest-path bench/Cargo.toml
	$(BENCH) $(OPTIONS)

# perf sees the kernel, too; callgrind counts instructions where there is no perf.
profile: build
	scripts/install-peers
	$(CARGO) build --release --locked --manifest-path bench/Cargo.toml
	if command -v perf >/dev/null; then $(BENCH) --parts profile --records 100000 --seconds 10 $(OPTIONS); \
	else $(CARGO) bench --locked --bench instructions -- --profile; fi

# The number of instructions an answer takes must not grow unseen.
instructions:
	scripts/install-peers
	$(CARGO) bench --locked --bench instructions

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) fmt --check --manifest-path bench/Cargo.toml
	$(CARGO) clippy --all-targets --locked --manifest-path bench/Cargo.toml -- -D warnings
	$(CARGO) fmt --check --manifest-path fuzz/Cargo.toml
	$(CARGO) check --locked --manifest-path fuzz/Cargo.toml

# Licences and origins of other people's code, and known faults where their database can be reached.
deny:
	scripts/check-dependencies

fuzz:
	scripts/run-fuzz $(or $(SECONDS),60)

image:
	image/install-tools
	image/build

test-image: image
	image/test

# What .github/workflows/release.yml runs.
release:
	image/install-tools
	image/release

clean:
	$(CARGO) clean
