"""A clip from a server with OpenAI's client: python -m demos.client "a small blue star" star.mp4

The client (pip install openai) warns that OpenAI's own video service ends; this is another server.
"""

import os
import sys

from openai import OpenAI


def main(prompt: str = "a big red ball moves left", path: str = "client.mp4") -> None:
    """Have a server make a clip, wait for it and save it."""
    client = OpenAI(
        base_url=os.environ.get("VIDGEN_SERVER", "http://127.0.0.1:8000") + "/v1",
        api_key=os.environ.get("VIDGEN_API_KEY", "none"),
    )
    video = client.videos.create_and_poll(prompt=prompt, model="toyworld", extra_body={"seed": 7})
    if video.error is not None:
        raise SystemExit(video.error.message)
    client.videos.download_content(video.id).write_to_file(path)
    print(f"{path}: {video.seconds} s of {video.size}")


if __name__ == "__main__":
    main(*sys.argv[1:])
