# The commands of the README. Only Rust is needed to build and for the demo; tests install Debian packages.

CARGO ?= cargo
# Shown in the metric build_info.
export AGGREGATOR_COMMIT ?= $(shell git rev-parse --short HEAD 2>/dev/null || echo unknown)

.PHONY: help build demo test test-partition bench docs partitions lint fuzz clean

help:
	@echo "make build   the program, target/release/aggregator"
	@echo "make demo    three datacenters in one process, and their region (FOR=20s ends by itself)"
	@echo "make test    installs the real servers that tests talk to, and runs everything"
	@echo "make test-partition  breaks a network of namespaces, as root, one minute"
	@echo "make docs    writes the references in docs/ from the program (make partitions: the table of docs/partitions.md)"
	@echo "make bench   figures beside real servers, fifteen minutes (OPTIONS=--help shows what can be chosen)"
	@echo "make lint    formatting and clippy, as CI does"
	@echo "make fuzz    every fuzz target for SECONDS=60 (needs cargo-fuzz)"

build:
	$(CARGO) build --release --locked

demo:
	$(CARGO) run --release --locked -- demo $(if $(FOR),--for $(FOR))

test:
	scripts/install-peers
	scripts/run-tests

# What needs root: network namespaces. In one test binary after the other, because they measure time.
test-partition:
	scripts/install-peers
	PATH="$$PATH:/usr/sbin:/sbin" $(CARGO) test --locked --test partition --test compose --test anycast -- --ignored --nocapture

docs:
	AGGREGATOR_WRITE_DOCS=1 $(CARGO) test --locked --test reference

partitions:
	PATH="$$PATH:/usr/sbin:/sbin" AGGREGATOR_WRITE_DOCS=1 $(CARGO) test --locked --test partition -- --ignored --nocapture

bench: build
	scripts/install-peers
	$(CARGO) build --release --locked --manifest-path bench/Cargo.toml
	PATH="$$PATH:/usr/sbin:/sbin" $(or $(CARGO_TARGET_DIR),bench/target)/release/aggregator-bench \
		--program $(or $(CARGO_TARGET_DIR),target)/release/aggregator $(OPTIONS)

lint:
	$(CARGO) fmt --check
	$(CARGO) clippy --all-targets --locked -- -D warnings
	$(CARGO) fmt --check --manifest-path bench/Cargo.toml
	$(CARGO) clippy --all-targets --locked --manifest-path bench/Cargo.toml -- -D warnings

fuzz:
	scripts/run-fuzz $(or $(SECONDS),60)

clean:
	$(CARGO) clean
