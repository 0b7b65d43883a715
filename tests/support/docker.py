"""Hosts in Docker for tests, and a registry to pull from."""

import gzip
import hashlib
import io
import json
import tarfile
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from toolkit.cluster.backends import backend_named
from toolkit.cluster.backends.base import Backend, HostWish, NetworkWish
from toolkit.cluster.images import node
from toolkit.machine.docker_objects import labelled
from toolkit.machine.labels import DOCKER_LABEL
from toolkit.machine.leases import Lease

_MEDIA = "application/vnd.docker.distribution.manifest.v2+json"


@contextmanager
def opened(networks: Sequence[NetworkWish], hosts: Sequence[HostWish], kind: str = "docker") -> Iterator[Backend]:
    """An open backend, of which nothing is left in the end."""
    node.build(announce=lambda _: None)  # one process makes it, and the others wait
    lease = Lease.take(f"t{uuid.uuid4().hex[:12]}")
    backend = backend_named(kind)(lease, lambda _: None)
    try:
        backend.open(networks, hosts)
        yield backend
        backend.close()
        assert docker_objects(lease) == []
    finally:
        assert lease.journal.undo() == []
        assert docker_objects(lease) == []


def docker_objects(lease: Lease) -> list[str]:
    """Return the objects of a cluster in Docker."""
    return labelled(f"{DOCKER_LABEL}={lease.label}")


@contextmanager
def registry(name: str, tag: str) -> Iterator[str]:
    """A registry on loopback that has one image, with one file in it; yields what to call the image."""
    content = _image()
    pages = {
        f"/v2/{name}/manifests/{reference}": (_MEDIA, content["manifest"]) for reference in (tag, content["id"])
    }
    pages |= {f"/v2/{name}/blobs/{_digest(blob)}": ("application/octet-stream", blob) for blob in content["blobs"]}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            media, page = pages.get(self.path, ("text/plain", b""))
            self.send_response(200 if page or self.path == "/v2/" else 404)
            self.send_header("Content-Type", media)
            self.send_header("Content-Length", str(len(page)))
            self.send_header("Docker-Content-Digest", _digest(page))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(page)

        do_HEAD = do_GET  # noqa: N815 - so it is called

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}/{name}:{tag}"
        finally:
            server.shutdown()
            thread.join()


def _image() -> dict:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        entry = tarfile.TarInfo("from-the-registry")
        entry.size = 5
        tar.addfile(entry, io.BytesIO(b"stock"))
    layer = gzip.compress(packed.getvalue(), mtime=0)
    root = {"type": "layers", "diff_ids": [_digest(packed.getvalue())]}
    config = json.dumps({"architecture": "amd64", "os": "linux", "config": {}, "rootfs": root}).encode()
    manifest = {
        "schemaVersion": 2,
        "mediaType": _MEDIA,
        "config": _described("application/vnd.docker.container.image.v1+json", config),
        "layers": [_described("application/vnd.docker.image.rootfs.diff.tar.gzip", layer)],
    }
    text = json.dumps(manifest).encode()
    return {"manifest": text, "id": _digest(text), "blobs": (config, layer)}


def _described(media: str, blob: bytes) -> dict:
    return {"mediaType": media, "size": len(blob), "digest": _digest(blob)}


def _digest(blob: bytes) -> str:
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"
