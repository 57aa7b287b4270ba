"""A collector of OpenTelemetry: takes OTLP over HTTP as JSON, reads it with the protocol's own messages, in which no field
is unknown, and prints a line of JSON for each span. It answers 503 while the file "busy" is in its folder."""

import base64
import http.server
import json
import os
import sys

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


def value(attribute):
    kind = attribute.value.WhichOneof("value")
    return getattr(attribute.value, kind)


def octets_for_hex(node):
    """In JSON identifiers are written in hexadecimal digits, which protobuf's own JSON has in base64."""
    if isinstance(node, dict):
        for key, inner in node.items():
            if key in ("traceId", "spanId", "parentSpanId"):
                node[key] = base64.b64encode(bytes.fromhex(inner)).decode()
            else:
                octets_for_hex(inner)
    elif isinstance(node, list):
        for inner in node:
            octets_for_hex(inner)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert self.path == "/v1/traces", self.path
        assert self.headers["Content-Type"] == "application/json", self.headers
        status = 503 if os.path.exists("busy") else 200
        if status == 200:
            node = json.loads(body)
            octets_for_hex(node)
            told = json_format.Parse(json.dumps(node), ExportTraceServiceRequest())
            for resource in told.resource_spans:
                about = {entry.key: value(entry) for entry in resource.resource.attributes}
                for scope in resource.scope_spans:
                    for span in scope.spans:
                        print(json.dumps({
                            "resource": about,
                            "trace": span.trace_id.hex(),
                            "span": span.span_id.hex(),
                            "parent": span.parent_span_id.hex(),
                            "name": span.name,
                            "began": span.start_time_unix_nano,
                            "ended": span.end_time_unix_nano,
                            "about": {entry.key: value(entry) for entry in span.attributes},
                        }), flush=True)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
