"""Media types of files, by the suffix under which they are stored."""

OCTETS = "application/octet-stream"
MEDIA_TYPES = {
    "mp4": "video/mp4",
    "m4s": "video/iso.segment",
    "mov": "video/quicktime",
    "webm": "video/webm",
    "mkv": "video/x-matroska",
    "avi": "video/x-msvideo",
    "ts": "video/mp2t",
    "mpg": "video/mpeg",
    "flv": "video/x-flv",
    "asf": "video/x-ms-asf",
    "ogv": "video/ogg",
    "gif": "image/gif",
    "png": "image/png",
    "jpg": "image/jpeg",
    "webp": "image/webp",
    "bmp": "image/bmp",
    "tif": "image/tiff",
    "jp2": "image/jp2",
    "ico": "image/x-icon",
    "avif": "image/avif",
    "heic": "image/heic",
    "heif": "image/heif",
    "json": "application/json",
    "m3u8": "application/vnd.apple.mpegurl",
    "zip": "application/zip",
    "safetensors": OCTETS,
}
SUFFIXES = {media_type: suffix for suffix, media_type in MEDIA_TYPES.items()}


def media_type_of(name: str) -> str:
    """Return the type that a file's suffix stands for; octets for any that is not ours."""
    return MEDIA_TYPES.get(name.rpartition(".")[2].lower(), OCTETS)
