"""A TLS server on this machine with a certificate for files.example, and rules that reach it."""

import contextlib
import datetime
import ipaddress
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from server.inputs.addresses import Address, is_public
from server.inputs.dialling import Rules

HOST = "files.example"
Answer = Callable[[BaseHTTPRequestHandler], None]


@dataclass
class Web:
    """The running server; `pages` are what it answers by path."""

    port: int
    context: ssl.SSLContext
    pages: dict[str, Answer] = field(default_factory=dict)
    seen: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def url(self, path: str, host: str = HOST) -> str:
        """Return an address of a page."""
        return f"https://{host}:{self.port}{path}"

    def rules(self, addresses: dict[str, list[str]] | None = None, seconds: float = 20) -> Rules:
        """Return rules under which this server's own address, and no other private one, is allowed.

        addresses  that names lead to, one after the other, the last for ever
        """
        known = {HOST: ["127.0.0.1"], **(addresses or {})}

        def resolve(host: str, _port: int) -> list[str]:
            self.asked.append(host)
            found = known[host]
            return [found.pop(0) if len(found) > 1 else found[0]]

        def allowed(address: Address) -> bool:
            return address == ipaddress.ip_address("127.0.0.1") or is_public(address)

        return Rules(seconds, allowed=allowed, resolve=resolve, context=self.context)


def body(content: bytes, status: int = 200, **headers: str) -> Answer:
    """Return an answer with a body."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    return answer


@contextlib.contextmanager
def web(folder: Path) -> Iterator[Web]:
    """Run the server."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            running.seen.append((self.path, {k.lower(): v for k, v in self.headers.items()}))
            with contextlib.suppress(OSError):  # who asked has gone
                running.pages.get(self.path, body(b"", 404))(self)

        def log_message(self, *_arguments: object) -> None:
            pass

    certificate, key = _certificate(folder)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.handle_error = lambda *_arguments: None  # type: ignore[method-assign]
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    own.load_cert_chain(certificate, key)
    server.socket = own.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    running = Web(server.server_port, ssl.create_default_context(cafile=str(certificate)))
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield running
    finally:
        server.shutdown()
        server.server_close()


def _certificate(folder: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate_file, key_file = folder / "certificate.pem", folder / "key.pem"
    certificate_file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return certificate_file, key_file
