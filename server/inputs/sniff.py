"""What a file is by its first bytes; names and headers of clients are not believed."""

from typing import Literal

Kind = Literal["image", "video"]
HEAD = 64  # bytes that are looked at

_IMAGES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
    (b"\x00\x00\x00\x0cjP  \r\n\x87\n", "image/jp2"),
    (b"\xff\x4f\xff\x51", "image/jp2"),
    (b"\x00\x00\x01\x00", "image/x-icon"),
)
_VIDEOS = (
    (b"FLV\x01", "video/x-flv"),
    (b"OggS", "video/ogg"),
    (b"\x00\x00\x01\xba", "video/mpeg"),
    (b"\x30\x26\xb2\x75\x8e\x66\xcf\x11", "video/x-ms-asf"),
)
_STILL_BRANDS = {
    b"avif": "image/avif",
    b"avis": "image/avif",
    **dict.fromkeys((b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx"), "image/heic"),
    **dict.fromkeys((b"mif1", b"msf1"), "image/heif"),
}
_ATOMS = (b"moov", b"mdat", b"wide", b"free", b"skip")


def sniff(head: bytes) -> tuple[Kind, str] | None:
    """Return kind and media type of a picture or video, None for anything else.

    head  the first HEAD bytes
    """
    for start, media_type in _IMAGES:
        if head.startswith(start):
            return "image", media_type
    for start, media_type in _VIDEOS:
        if head.startswith(start):
            return "video", media_type
    if head[:4] == b"RIFF":
        return {b"WEBP": ("image", "image/webp"), b"AVI ": ("video", "video/x-msvideo")}.get(  # type: ignore[return-value]
            head[8:12]
        )
    if head[:4] == b"\x1a\x45\xdf\xa3":
        return "video", "video/webm" if b"webm" in head else "video/x-matroska"
    if head[4:8] == b"ftyp":
        return _of_brand(head[8:12])
    if head[4:8] in _ATOMS:
        return "video", "video/quicktime"
    if head[:1] == b"G" and len(head) == HEAD and head[3] & 0xC0 == 0 and head[1] & 0x80 == 0:
        return "video", "video/mp2t"
    return None


def _of_brand(brand: bytes) -> tuple[Kind, str]:
    if brand in _STILL_BRANDS:
        return "image", _STILL_BRANDS[brand]
    return "video", "video/quicktime" if brand == b"qt  " else "video/mp4"
