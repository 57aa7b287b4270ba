#!/bin/sh
# The reference pipeline, as RFD 172 describes the aggregation: transfer the zone of every datacenter, move it to the
# region by replacing the text of its suffix, give it a new serial, let BIND load it.
# Arguments: address and port of the primary, the region, its serial, its file, a command that reloads it, the zones.
set -eu

address=$1 port=$2 region=$3 serial=$4 file=$5 reload=$6
shift 6
# sed works on octets then, which is much faster.
export LC_ALL=C
{
    echo "$region. 30 IN SOA ns1.example.com. hostmaster.example.com. $serial 30 60 2592000 30"
    echo "$region. 3600 IN NS ns1.example.com."
    for zone; do
        suffix=$(echo "$zone" | sed 's/\./\\./g')
        dig "@$address" -p "$port" +noall +answer "$zone" AXFR |
            sed -e '/[[:space:]]IN[[:space:]]*SOA[[:space:]]/d' -e '/[[:space:]]IN[[:space:]]*NS[[:space:]]/d' \
                -e "s/$suffix\\./$region./g"
    done
} >"$file.new"
mv "$file.new" "$file"
$reload
