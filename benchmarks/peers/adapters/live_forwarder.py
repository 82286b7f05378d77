"""A forwarder that passes on bytes and does nothing else: the floor of what a proxy costs."""

import http.client
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

UPSTREAM = urlsplit(sys.argv[1])
HOP = ("host", "connection", "transfer-encoding", "content-length")


class Handler(BaseHTTPRequestHandler):
    """Forwards one connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    local = threading.local()

    def do_POST(self) -> None:
        """Forward a request, and its answer as it comes."""
        if (upstream := getattr(self.local, "upstream", None)) is None:
            upstream = self.local.upstream = http.client.HTTPConnection(UPSTREAM.hostname, UPSTREAM.port)
        body = self.rfile.read(int(self.headers["content-length"]))
        headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP}
        upstream.request("POST", self.path, body, headers)
        answer = upstream.getresponse()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in HOP:
                self.send_header(name, value)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        while piece := answer.read1(1 << 16):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(json.dumps({"url": f"http://127.0.0.1:{server.server_address[1]}"}), flush=True)
server.serve_forever()
