"""As much of S3 on this machine as the store speaks: objects, ranges, parts, lists, deletions."""

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape


@dataclass
class Bucket:
    """What the server holds; headers of an object are its notes."""

    port: int
    objects: dict[str, tuple[bytes, dict[str, str]]] = field(default_factory=dict)
    parts: dict[str, tuple[dict[int, bytes], dict[str, str]]] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)


@contextlib.contextmanager
def bucket() -> Iterator[Bucket]:
    """Run a server that has one bucket, named b."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    held = _Handler.held = Bucket(server.server_port)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield held
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    held: Bucket

    def do_PUT(self) -> None:
        key, query, content = self._read()
        if "partNumber" in query:
            self.held.parts[query["uploadId"][0]][0][int(query["partNumber"][0])] = content
        else:
            self.held.objects[key] = (content, self._notes())
        self._answer(200, b"", ETag='"e"')

    def do_POST(self) -> None:
        key, query, content = self._read()
        if "uploads" in query:
            self.held.parts["1"] = ({}, self._notes())
            self._answer(200, b"<R><UploadId>1</UploadId></R>")
        elif "uploadId" in query:
            pieces, notes = self.held.parts.pop(query["uploadId"][0])
            self.held.objects[key] = (b"".join(pieces[n] for n in sorted(pieces)), notes)
            self._answer(200, b"<R><ETag>e</ETag></R>")
        else:
            found = ElementTree.fromstring(content).iterfind(".//{*}Key")
            keys = [str(item.text) for item in found]
            for key in keys:
                self.held.objects.pop(key, None)
            told = "".join(f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in keys)
            self._answer(200, f"<DeleteResult>{told}</DeleteResult>".encode())

    def do_GET(self) -> None:
        key, query, _ = self._read()
        if "list-type" in query:
            self._answer(200, self._list(query["prefix"][0], query.get("delimiter", [""])[0]))
        elif key not in self.held.objects:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        else:
            content, notes = self.held.objects[key]
            asked = self.headers["Range"]
            if asked is None:
                self._answer(200, content, **notes)
                return
            first, last = (int(part) for part in asked.removeprefix("bytes=").split("-"))
            found = content[first : last + 1]
            span = f"bytes {first}-{first + len(found) - 1}/{len(content)}"
            self._answer(206, found, Content_Range=span, **notes)

    def do_HEAD(self) -> None:
        self.do_GET()

    def _read(self) -> tuple[str, dict[str, list[str]], bytes]:
        parts = urlsplit(self.path)
        self.held.calls.append(f"{self.command} {self.path}")
        content = self.rfile.read(int(self.headers["Content-Length"] or 0))
        query = parse_qs(parts.query, keep_blank_values=True)
        return unquote(parts.path).removeprefix("/b").lstrip("/"), query, content

    def _notes(self) -> dict[str, str]:
        kept = ("content-type", "x-amz-meta-")
        return {k: v for k, v in self.headers.items() if k.lower().startswith(kept)}

    def _list(self, prefix: str, delimiter: str) -> bytes:
        keys, folders = [], set()
        for key in sorted(self.held.objects):
            inner = key.removeprefix(prefix)
            if key.startswith(prefix) and delimiter and delimiter in inner:
                folders.add(prefix + inner.split(delimiter)[0] + delimiter)
            elif key.startswith(prefix):
                keys.append(key)
        found = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(self.held.objects[key][0])}</Size>"
            "<LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>e</ETag></Contents>"
            for key in keys
        )
        below = "".join(f"<CommonPrefixes><Prefix>{p}</Prefix></CommonPrefixes>" for p in folders)
        return f"<ListBucketResult>{found}{below}</ListBucketResult>".encode()

    def _answer(self, status: int, content: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Last-Modified", formatdate(1_767_225_600, usegmt=True))
        if "ETag" not in headers:
            self.send_header("ETag", '"e"')
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_arguments: object) -> None:
        pass
