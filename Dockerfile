# The container image with nothing but Docker: docker build -t aggregator:0.1.0 .
# It builds the program as image/oci does, and the image has the same users, ports and folders; it is not the same to the
# last octet. From sources that are no checkout of git: --build-arg SOURCE_DATE_EPOCH=$(date +%s).

FROM rust:1.95-bookworm AS build
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates git libcap2-bin musl-tools \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
ARG SOURCE_DATE_EPOCH
RUN OUTPUT=/output image/program "$(uname -m)-unknown-linux-musl" \
    && install -D "/output/$(uname -m)-unknown-linux-musl/aggregator" /image/aggregator \
    && setcap cap_net_bind_service=ep /image/aggregator \
    && cat /usr/share/ca-certificates/mozilla/*.crt >/image/ca-certificates.crt \
    && mkdir /image/empty

FROM scratch
COPY --from=build /image/aggregator /aggregator
COPY --from=build /image/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build --chown=65532:65532 --chmod=750 /image/empty/ /run/aggregator/
COPY --from=build --chown=65532:65532 --chmod=750 /image/empty/ /var/lib/aggregator/
ENV PATH=/
USER 65532:65532
WORKDIR /
EXPOSE 53/tcp 53/udp 9153/tcp
VOLUME ["/run/aggregator", "/var/lib/aggregator"]
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=10s --retries=3 CMD ["/aggregator", "status"]
ENTRYPOINT ["/aggregator"]
CMD ["boot"]
