"""The zoo of input images: the right pixels, or one clear sentence; nothing is lost without a
word.
"""

import base64
import io
import os
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageCms

from tests.media.pictures import encoded, ffmpeg, png_bytes, png_chunk, scene
from vidgen.errors import BadMedia, NotFound
from vidgen.media import read_image
from vidgen.media.image_modes import to_float

PHOTO = np.rint(scene(1, 48, 32)[0] * 255).astype(np.uint8)
RNG = np.random.default_rng(0)


def pixels(source: bytes, **options: object) -> np.ndarray:
    """Just the picture, checked for the promises that hold for every one."""
    picture = read_image(source, **options).pixels_hwc  # type: ignore[arg-type]
    assert picture.dtype == np.float32
    assert picture.ndim == 3
    assert picture.shape[2] == 3
    assert picture.flags["C_CONTIGUOUS"]
    assert 0 <= picture.min() <= picture.max() <= 1
    return picture


def words(source: bytes | str | Path, **options: object) -> str:
    """The adjustments as one text."""
    return " | ".join(map(str, read_image(source, **options).adjustments))  # type: ignore[arg-type]


MODES = [
    "1", "L", "LA", "La", "P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr", "LAB", "HSV",
    "I", "F", "I;16", "I;16L", "I;16B", "I;16N",
]  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
def test_every_pillow_mode_gives_the_picture(mode: str) -> None:
    photo = Image.fromarray(PHOTO)
    grey = np.asarray(photo.convert("L"), np.float32) / 255
    bound, wanted = 1 / 255, np.repeat(grey[..., None], 3, -1)
    if mode.startswith("I;16"):
        image = Image.frombytes(
            mode, photo.size, (np.asarray(photo.convert("L"), np.uint16) * 257)
            .astype(">u2" if mode.endswith("B") else "<u2").tobytes(),
        )  # fmt: skip
    elif mode == "I":
        image = Image.fromarray((grey * 65535).astype(np.int32))
    elif mode == "F":
        image = Image.fromarray(grey)
    elif mode in ("La", "RGBa"):
        image = photo.convert("LA" if mode == "La" else "RGBA").convert(mode)
    elif mode == "LAB":
        profiles = ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB")
        converted = ImageCms.profileToProfile(photo, *profiles, outputMode="LAB")
        assert converted is not None
        image = converted
    elif mode == "PA":
        image = photo.convert("P").convert("PA")
    else:
        image = photo.convert(mode)
    if mode == "1":
        wanted, bound = np.repeat(np.asarray(image, np.float32)[..., None], 3, -1), 0
    elif mode in ("P", "PA"):
        wanted, bound = np.asarray(photo.convert("P").convert("RGB"), np.float32) / 255, 1e-6
    elif mode not in ("L", "LA", "La", "I", "F") and not mode.startswith("I;16"):
        # Modes of 8 bits in which RGB cannot be written exactly.
        wanted, bound = PHOTO / 255, {"YCbCr": 3.1, "LAB": 20, "HSV": 9}.get(mode, 1.01) / 255
    seen = to_float(image).rgb_hwc
    assert np.abs(seen - wanted).max() <= bound
    assert np.abs(seen - wanted).mean() <= 2 / 255


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "TIFF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_all_orientations(kind: str, orientation: int) -> None:
    from PIL import ImageOps

    exif = Image.Exif()
    exif[0x0112] = orientation
    options = (
        {"quality": 95, "subsampling": 0}
        if kind == "JPEG"
        else {"lossless": True}
        if kind == "WEBP"
        else {}
    )
    data = encoded(Image.fromarray(PHOTO), kind, exif=exif, **options)
    wanted = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(data))), np.float32)
    if orientation >= 5:
        assert wanted.shape == (48, 32, 3)
    assert np.abs(255 * pixels(data) - wanted).max() < 1e-3


def test_transparency_shows_the_background_and_is_recorded() -> None:
    clear = Image.new("RGBA", (4, 4), (255, 0, 0, 0))
    data = encoded(clear, "PNG")
    assert (pixels(data) == 1).all()  # hidden red must not come out
    assert "transparent pixels -> on rgb(255, 255, 255)" in words(data)
    assert np.allclose(pixels(data, background=(0, 51, 255)), np.array([0, 0.2, 1], np.float32))
    half = encoded(Image.new("RGBA", (4, 4), (255, 0, 0, 51)), "PNG")
    assert np.allclose(pixels(half, background=(0, 0, 0))[0, 0], [0.2, 0, 0])
    opaque = encoded(Image.new("RGBA", (4, 4), (255, 0, 0, 255)), "PNG")
    assert words(opaque) == ""
    palette = Image.new("P", (4, 4), 1)
    palette.putpalette([0, 0, 0, 200, 0, 0])
    for data in (encoded(palette, "PNG", transparency=1), encoded(palette, "GIF", transparency=1)):
        assert (pixels(data) == 1).all()
        assert "transparent" in words(data)
    keyed = encoded(Image.new("RGB", (4, 4), (9, 8, 7)), "PNG", transparency=(9, 8, 7))
    assert (pixels(keyed) == 1).all()


@pytest.mark.parametrize(("colour_type", "channels"), [(0, 1), (2, 3), (4, 2), (6, 4)])
def test_sixteen_bit_png_keeps_all_bits(colour_type: int, channels: int) -> None:
    values = RNG.integers(0, 65536, (7, 5, channels), dtype=np.uint16)
    full = values.astype(np.float64) / 65535
    colour = full[..., :3] if channels >= 3 else np.repeat(full[..., :1], 3, -1)
    if channels in (2, 4):
        colour = colour * full[..., -1:] + (1 - full[..., -1:])
    assert np.abs(pixels(png_bytes(values, colour_type)) - colour).max() < 1e-6


def test_sixteen_bit_png_with_a_transparent_colour_and_an_orientation() -> None:
    values = RNG.integers(0, 65536, (7, 5, 3), dtype=np.uint16)
    values[2, 3] = (1, 2, 3)
    key = png_chunk(b"tRNS", struct.pack(">HHH", 1, 2, 3))
    assert (pixels(png_bytes(values, 2, key))[2, 3] == 1).all()
    grey = values[..., :1].copy()
    grey[1, 1] = 7
    assert (pixels(png_bytes(grey, 0, png_chunk(b"tRNS", struct.pack(">H", 7))))[1, 1] == 1).all()
    exif = Image.Exif()
    exif[0x0112] = 6
    turned = pixels(png_bytes(values, 2, png_chunk(b"eXIf", exif.tobytes()[6:])))
    assert np.abs(turned - np.rot90(values, -1) / 65535).max() < 1e-6


def test_sixteen_bit_tiff_and_ppm_keep_all_bits(tmp_path: Path) -> None:
    values = RNG.integers(0, 65536, (32, 48, 3), dtype=np.uint16)
    raw = tmp_path / "raw"
    raw.write_bytes(values.tobytes())
    for name in ("a.tiff", "a.ppm"):
        size = ("-f", "rawvideo", "-pix_fmt", "rgb48le", "-s", "48x32", "-i", raw)
        ffmpeg(*size, "-frames:v", "1", "-update", "1", tmp_path / name)
        data = (tmp_path / name).read_bytes()
        assert np.abs(pixels(data) - values / 65535).max() < 1e-6, name


def test_deep_pictures_that_are_cut_to_eight_bits_say_so(tmp_path: Path) -> None:
    avif = tmp_path / "deep.avif"
    still = ("-f", "lavfi", "-i", "gradients=size=64x64:duration=1", "-frames:v", "1")
    ffmpeg(*still, "-pix_fmt", "yuv420p10le", "-c:v", "libsvtav1", avif)
    assert "10 bits per colour -> 8 bits" in words(avif)
    j2k = tmp_path / "deep.jp2"
    ffmpeg(*still, "-pix_fmt", "rgb48le", "-c:v", "jpeg2000", j2k)
    assert "16 bits per colour -> 8 bits" in words(j2k)


def test_numbers_outside_their_usual_range_are_stretched_and_said() -> None:
    values = np.linspace(-2, 6, 12, dtype=np.float32).reshape(3, 4)
    data = encoded(Image.fromarray(values), "TIFF")
    assert np.allclose(pixels(data)[..., 0], (values + 2) / 8, atol=1e-6)
    assert "values -2..6 -> stretched" in words(data)
    big = encoded(Image.fromarray(np.array([[0, 1_000_000]], np.int32)), "TIFF")
    assert pixels(big)[0, :, 0].tolist() == [0, 1]
    holes = values.copy()
    holes[0, 0] = np.nan
    with pytest.raises(BadMedia, match="not finite"):
        read_image(encoded(Image.fromarray(holes), "TIFF"))


def test_cmyk_without_a_profile_is_converted_plainly_and_said() -> None:
    data = encoded(Image.fromarray(PHOTO).convert("CMYK"), "TIFF")
    assert np.abs(pixels(data) - PHOTO / 255).max() < 2 / 255
    assert "CMYK" in words(data)


# Columns: the XYZ (D50) of red, green and blue.
P3 = np.array([[0.5151, 0.2919, 0.1572], [0.2412, 0.6922, 0.0666], [-0.0011, 0.0419, 0.7841]])
SRGB = np.array([[0.4361, 0.3851, 0.1431], [0.2225, 0.7169, 0.0606], [0.0139, 0.0971, 0.7141]])


def wide_profile() -> bytes:
    """An ICC profile made by hand: the primaries of Display P3 with a gamma of 2.2."""

    def xyz(values: np.ndarray) -> bytes:
        return b"XYZ \0\0\0\0" + struct.pack(">3i", *(np.rint(values * 65536).astype(int)))

    text = b"P3 by hand\0"
    curve = b"curv\0\0\0\0" + struct.pack(">IH", 1, round(2.2 * 256)) + b"\0\0"
    tags = {
        b"desc": b"desc\0\0\0\0" + struct.pack(">I", len(text)) + text + bytes(79),
        b"wtpt": xyz(np.array([0.9642, 1, 0.8249])),
        b"rXYZ": xyz(P3[:, 0]), b"gXYZ": xyz(P3[:, 1]), b"bXYZ": xyz(P3[:, 2]),
        b"rTRC": curve, b"gTRC": curve, b"bTRC": curve,
    }  # fmt: skip
    table, body, at = b"", b"", 128 + 4 + 12 * len(tags)
    for name, content in tags.items():
        content += bytes(-len(content) % 4)
        table += name + struct.pack(">II", at + len(body), len(content))
        body += content
    size = at + len(body)
    head = struct.pack(">I4xI4s4s4s", size, 0x02100000, b"mntr", b"RGB ", b"XYZ ") + bytes(12)
    head += b"acsp" + bytes(28) + struct.pack(">3i", 63190, 65536, 54061)
    return head.ljust(128, b"\0") + struct.pack(">I", len(tags)) + table + body


def test_colour_profiles_are_applied_and_said() -> None:
    profile = wide_profile()
    data = encoded(Image.new("RGB", (4, 4), (200, 100, 100)), "PNG", icc_profile=profile)
    linear = np.linalg.inv(SRGB) @ P3 @ (np.array([200, 100, 100]) / 255) ** 2.2
    wanted = 255 * (1.055 * linear ** (1 / 2.4) - 0.055)
    assert wanted[0] > 210
    assert np.abs(255 * pixels(data)[0, 0] - wanted).max() < 1.5
    assert "converted to sRGB" in words(data)
    grey = encoded(Image.new("L", (4, 4), 100), "PNG", icc_profile=profile)
    assert "cannot be applied" in words(grey)
    broken = encoded(Image.new("RGB", (4, 4), (9, 9, 9)), "PNG", icc_profile=b"nonsense" * 30)
    assert "cannot be applied" in words(broken)
    assert np.allclose(255 * pixels(broken), 9)
    srgb = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    plain = encoded(Image.fromarray(PHOTO), "PNG", icc_profile=srgb)
    assert words(plain) == ""
    assert np.array_equal(np.rint(255 * pixels(plain)), PHOTO)
    deep = RNG.integers(0, 65536, (7, 5, 3), dtype=np.uint16)
    chunk = png_chunk(b"iCCP", b"p3\0\0" + zlib.compress(profile))
    assert "16 bits per colour -> 8 bits" in words(png_bytes(deep, 2, chunk))


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG", "TIFF"])
def test_animations_give_their_first_frame_and_say_so(kind: str) -> None:
    frames = [Image.new("RGB", (16, 16), colour) for colour in ("red", "blue", "lime")]
    data = encoded(frames[0], kind, save_all=True, append_images=frames[1:])
    assert np.abs(pixels(data)[8, 8] - (1, 0, 0)).max() < 0.02
    assert words(data).startswith("image: 3 ")


def test_photos_with_an_embedded_preview_are_not_animations() -> None:
    first, second = Image.fromarray(PHOTO), Image.new("RGB", (48, 32))
    assert words(encoded(first, "MPO", save_all=True, append_images=[second])) == ""


def test_heic_is_read_upright_and_deep() -> None:
    pillow_heif = pytest.importorskip("pillow_heif")
    heif = pillow_heif.from_pillow(Image.fromarray(PHOTO))
    buffer = io.BytesIO()
    heif.save(buffer, quality=100, chroma=444)
    assert np.abs(pixels(buffer.getvalue()) - PHOTO / 255).mean() < 0.01
    exif = Image.Exif()
    exif[0x0112] = 6
    turned = io.BytesIO()
    heif.save(turned, quality=100, chroma=444, exif=exif.tobytes())
    assert pixels(turned.getvalue()).shape == (48, 32, 3)
    ramp = np.linspace(0, 65535, 64).astype(np.uint16)
    deep = np.ascontiguousarray(np.broadcast_to(ramp[None, :, None], (64, 64, 3)))
    buffer = io.BytesIO()
    pillow_heif.from_bytes("RGB;16", (64, 64), deep.tobytes()).save(buffer, quality=100, chroma=444)
    seen = pixels(buffer.getvalue())
    assert np.abs(seen - deep / 65535).max() < 3 / 1023
    assert seen.max() == 1


def test_heic_without_the_extra_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    with pytest.raises(BadMedia, match=r"'\.\[heif\]'"):
        read_image(b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(100))


def test_huge_headers_are_refused_before_decoding(tmp_path: Path) -> None:
    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    bomb = b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", header) + png_chunk(b"IDAT", b"")
    with pytest.raises(BadMedia, match=r"64\.0 million"):
        read_image(bomb)
    header = struct.pack(">IIBBBBB", 9_000, 9_000, 8, 2, 0, 0, 0)
    large = b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", header) + png_chunk(b"IDAT", b"")
    with pytest.raises(BadMedia, match=r"9000x9000, 81\.0 million pixels"):
        read_image(large)
    photo = encoded(Image.fromarray(PHOTO), "PNG")
    with pytest.raises(BadMedia, match="48x32"):
        read_image(photo, max_pixels=1000)
    with pytest.raises(BadMedia, match="MiB"):
        read_image(photo, max_bytes=100)
    path = tmp_path / "big.png"
    with path.open("wb") as file:
        file.truncate(2**40)  # sparse: would not fit into memory
    with pytest.raises(BadMedia, match="1048576"):
        read_image(path)


@pytest.mark.parametrize(
    "kind", ["PNG", "JPEG", "WEBP", "GIF", "TIFF", "BMP", "PPM", "AVIF", "JPEG2000", "TGA", "DEEP"]
)
def test_cut_off_and_damaged_files_never_crash(kind: str) -> None:
    if kind == "DEEP":
        whole = png_bytes(RNG.integers(0, 65536, (32, 48, 3), dtype=np.uint16), 2)
    else:
        options = {"compression": "tiff_lzw"} if kind == "TIFF" else {}
        whole = encoded(Image.fromarray(PHOTO), kind, **options)
    pixels(whole)
    for share in (0.02, 0.3, 0.6, 0.95):
        with pytest.raises(BadMedia) as caught:
            read_image(whole[: max(1, int(share * len(whole)))])
        assert "\n" not in str(caught.value)
    for seed in range(30):
        rng = np.random.default_rng(seed)
        broken = bytearray(whole)
        for place in rng.integers(0, len(broken), 3):
            broken[place] = rng.integers(0, 256)
        try:
            read_image(bytes(broken))
        except BadMedia as error:
            assert "\n" not in str(error)


def test_content_decides_not_the_name(tmp_path: Path) -> None:
    path = tmp_path / "photo.jpg"
    path.write_bytes(encoded(Image.fromarray(PHOTO), "PNG"))
    assert np.array_equal(np.rint(255 * read_image(path).pixels_hwc), PHOTO)
    assert np.array_equal(np.rint(255 * read_image(str(path)).pixels_hwc), PHOTO)


def test_things_that_are_no_pictures(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    (tmp_path / "empty.png").write_bytes(b"")
    (tmp_path / "text.png").write_text("hello")
    (tmp_path / "draw.eps").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n")
    (tmp_path / "draw.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    for name, said in (
        ("empty.png", "empty"), ("text.png", "not an image"), ("draw.eps", "not an image"),
        ("draw.svg", "not an image"), ("pipe", "device or a pipe"), ("", "folder"),
    ):  # fmt: skip
        with pytest.raises(BadMedia, match=said):
            read_image(tmp_path / name)
    for missing in (tmp_path / "none.png", tmp_path / "text.png" / "none.png"):
        with pytest.raises(NotFound, match="No file"):
            read_image(missing)
    for strange in ("a" * 5000, "nul\0byte"):
        with pytest.raises(BadMedia, match="cannot be opened"):
            read_image(strange)
    with pytest.raises(BadMedia, match="not fetched"):
        read_image("https://example.org/a.png")
    with pytest.raises(BadMedia, match="empty"):
        read_image(b"")


def test_data_urls() -> None:
    data = encoded(Image.fromarray(PHOTO), "PNG")
    body = base64.b64encode(data).decode()
    url = f"data:image/png;base64,{body}"
    assert np.array_equal(np.rint(255 * read_image(url).pixels_hwc), PHOTO)
    for bad, said in (
        ("data:text/html;base64,AAAA", "must read"), ("data:image/png,AAAA", "must read"),
        ("data:image/png;base64", "must read"), ("data:image/png;base64,@@@@", "broken"),
        ("data:image/png;base64,", "empty"), (url + "A" * 500, "broken|damaged"),
    ):  # fmt: skip
        with pytest.raises(BadMedia, match=said):
            read_image(bad)
    with pytest.raises(BadMedia, match="MiB"):
        read_image(url, max_bytes=100)


def test_pillow_is_left_as_it_was() -> None:
    """Reading HEIC registers nothing, and no global limit is changed."""
    script = (
        "from PIL import Image; before = (Image.MAX_IMAGE_PIXELS, set(Image.OPEN));"
        "from vidgen.media import read_image; import io; b = io.BytesIO();"
        "Image.new('RGB', (4, 4)).save(b, 'PNG'); Image.init(); before = set(Image.OPEN);"
        "read_image(b.getvalue()); print(set(Image.OPEN) == before, Image.MAX_IMAGE_PIXELS)"
    )
    said = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert said.stdout.split() == ["True", "89478485"]
