"""What comes of a video that exists: remix, edit, extension, fork, storyboard."""

from typing import Any

from server.api.plans import Plans
from tests.server.api.site import Site, story
from vidgen.device import cpu_profile
from vidgen.inputs import Inputs
from vidgen.models import resolve
from vidgen.plan import plan
from vidgen.request import parse_request


def _payload(site: Site, video: str) -> dict[str, Any]:
    payload = site.floor.jobs.get(video, None).payload
    assert payload is not None
    return payload


def test_a_remix_changes_the_prompt_and_keeps_the_rest(site: Site) -> None:
    site.worker()
    made = site.make(seed=9, steps=7, num_frames=33)
    again = site.created(f"/v1/videos/{made['id']}/remix", prompt="a blue ball")
    assert again["remixed_from_video_id"] == made["id"]
    assert again["lineage"] == {"parent": made["id"], "kind": "remix"}
    assert again["request"] == {**made["request"], "prompt": "a blue ball"}
    other = site.created(f"/v1/videos/{made['id']}/remix", prompt="x", seconds="1", seed=1)
    assert (other["num_frames"], other["seed"]) == (17, 1)
    missing = site.http.post(f"/v1/videos/{made['id']}/remix", json={"steps": 3})
    assert (missing.status_code, missing.json()["error"]["param"]) == (400, "prompt")


def test_an_extension_of_a_clip_is_a_chain_from_its_file(site: Site) -> None:
    site.worker()
    made = site.make(seed=9, steps=7, guidance_scale=2)
    answer = site.http.post(
        "/v1/videos/extensions",
        data={"prompt": "it stops", "seconds": "2", "video": made["id"]},
    )
    longer = answer.json()
    assert answer.status_code == 200, answer.text
    assert (longer["kind"], longer["lineage"]["kind"]) == ("chain", "extension")
    assert (longer["width"], longer["height"], longer["fps"]) == (96, 96, "16")
    assert longer["num_frames"] == made["num_frames"] + 32
    assert float(longer["seconds"]) == longer["num_frames"] / 16
    payload = _payload(site, longer["id"])
    assert payload["extension"] == {"video": f"job:{made['id']}", "size": [96, 96]}
    assert payload["story"]["shots"] == [{"prompt": "it stops", "seconds": 2.0}]
    assert payload["story"]["request"]["num_inference_steps"] == 7
    assert payload["story"]["request"]["guidance_scale"] == 2.0
    assert "seed" not in payload["story"]["request"]


def test_an_extension_of_a_chain_shares_its_clips(site: Site) -> None:
    site.worker()
    chain = site.make(prompt=None, story=story("a", "b", seed=3))
    body = {"prompt": "c", "seconds": 1, "video": {"id": chain["id"]}}
    longer = site.http.post("/v1/videos/extensions", json=body).json()
    payload = _payload(site, longer["id"])
    assert payload["takes"] == {"job": chain["id"], "clips": 2}
    assert [shot["prompt"] for shot in payload["story"]["shots"]] == ["a", "b", "c"]
    assert payload["story"]["seed"] == 3
    assert longer["clip_plan"][:2] == chain["clip_plan"]
    assert (longer["clips"], longer["seed"]) == (3, 3)
    several = {**body, "strategy": "overlap", "handover": {"overlap": 5}}
    answer = site.http.post("/v1/videos/extensions", json=several)
    assert answer.status_code == 200, answer.text
    takes = _payload(site, answer.json()["id"])["takes"]
    assert takes["clips"] == 1  # the chain kept one frame of its last clip: it is made again


def test_extensions_that_cannot_be(site: Site) -> None:
    site.worker()
    done, waiting = site.make()["id"], site.created()["id"]
    for body, status, param in (
        ({"prompt": "x", "seconds": 1}, 400, "video"),
        ({"video": done, "seconds": 1}, 400, "prompt"),
        ({"video": done, "prompt": "x"}, 400, "seconds"),
        ({"video": waiting, "prompt": "x", "seconds": 1}, 409, "video"),
        ({"video": "video_0000000000000000000000000", "prompt": "x", "seconds": 1}, 404, "video"),
        ({"video": "/etc/passwd", "prompt": "x", "seconds": 1}, 400, "video"),
        ({"video": done, "prompt": "x", "seconds": 1, "fps": 8}, 422, "fps"),
        ({"video": done, "prompt": "x", "seconds": 1, "strategy": "last_latent"}, 422, "strategy"),
        ({"video": done, "prompt": "x", "seconds": 1, "strategi": "x"}, 400, "strategi"),
    ):  # fmt: skip
        answer = site.http.post("/v1/videos/extensions", json=body)
        assert answer.status_code == status, (body, answer.text)
        assert answer.json()["error"]["param"] == param, answer.text


def test_an_edit_names_its_video_and_takes_its_model(site: Site) -> None:
    site.worker()
    made = site.make()
    body = {"prompt": "in blue", "video": made["id"], "strength": 0.5}
    answer = site.http.post("/v1/videos/edits", json=body)
    assert answer.status_code in (200, 422), answer.text  # toyworld may or may not change videos
    wan = site.http.post("/v1/videos/edits", json={**body, "model": "wan2.1-t2v-1.3b"})
    assert wan.status_code == 422  # the only worker is a small CPU
    assert wan.json()["error"]["code"] == "no_worker_fits"
    assert site.http.post("/v1/videos/edits", json={"prompt": "x"}).json()["error"]["param"] == (
        "video"
    )


def test_a_fork_shares_what_does_not_change(site: Site) -> None:
    site.worker()
    chain = site.make(prompt=None, story=story("a", "b", "c", seed=3))
    url = f"/v1/videos/{chain['id']}/fork"

    def fork(**body: Any) -> Any:
        return site.http.post(url, json=body)

    made = fork(from_clip=1, prompt="other").json()
    payload = _payload(site, made["id"])
    assert payload["takes"] == {"job": chain["id"], "clips": 1}
    assert [shot["prompt"] for shot in payload["story"]["shots"]] == ["a", "other", "c"]
    assert made["lineage"] == {"parent": chain["id"], "kind": "fork"}
    told = fork(story={"shots": [*story("a", "b")["shots"], {"prompt": "z", "seconds": 1}]}).json()
    assert _payload(site, told["id"])["takes"]["clips"] == 2
    nothing = fork(story={"seed": 3})
    assert nothing.status_code == 422
    early = fork(from_clip=2, story=story("x", "b", "c"))
    assert (early.status_code, early.json()["error"]["param"]) == (409, "from_clip")
    assert fork(from_clip=7, prompt="x").status_code == 422
    assert fork(from_clip="x", prompt="x").status_code == 400
    clip = site.make()
    assert site.created(f"/v1/videos/{clip['id']}/fork", prompt="y")["prompt"] == "y"


def test_cards_are_made_anew_one_by_one(site: Site) -> None:
    """Four cards; card 1 anew leaves 0 and marks 2 and 3 stale; rendering makes them."""
    site.worker()
    made = site.http.post("/v1/storyboards", json=story("a", "b", "c", "d", seed=3)).json()
    assert [card["state"] for card in made["cards"]] == ["waiting"] * 4
    site.work()
    url = f"/v1/storyboards/{made['id']}"
    assert [card["state"] for card in site.http.get(url).json()["cards"]] == ["made"] * 4
    again = site.http.post(f"{url}/cards/1/reroll", json={"prompt": "B"}).json()
    assert [card["state"] for card in again["cards"]] == ["waiting", "waiting", "stale", "stale"]
    assert [card["prompt"] for card in again["cards"]] == ["a", "B", "c", "d"]
    assert (again["stale"], again["parent"]) == ([2, 3], made["id"])
    assert again["cards"][2]["video"] == made["id"]
    assert _payload(site, again["id"])["takes"] == {"job": made["id"], "clips": 1}
    assert again["video"]["num_frames"] < made["video"]["num_frames"]
    site.work()
    heads = site.http.get("/v1/storyboards").json()["data"]
    assert [board["id"] for board in heads] == [again["id"]]
    for card, having in ((1, [made] * 2), (0, [again, made, made])):
        anew = site.http.post(f"/v1/storyboards/{again['id']}/cards/{card}/reroll", json={}).json()
        stale = [card["video"] for card in anew["cards"] if card["state"] == "stale"]
        assert stale == [job["id"] for job in having]
        site.http.delete(f"/v1/videos/{anew['id']}")
    longer = {"prompt": "on", "seconds": 1, "video": site.make()["id"]}
    for _ in range(2):
        assert site.http.post("/v1/videos/extensions", json=longer).status_code == 200
    page = site.http.get("/v1/storyboards?limit=1").json()
    assert [board["id"] for board in page["data"]] == [again["id"]]  # extensions are no boards
    whole = site.http.post(f"/v1/storyboards/{again['id']}/render").json()
    assert [card["state"] for card in whole["cards"]] == ["waiting"] * 4
    assert _payload(site, whole["id"])["takes"] == {"job": again["id"], "clips": 2}
    assert whole["video"]["num_frames"] == made["video"]["num_frames"]
    assert site.http.post(f"{url}/render").status_code == 409
    assert site.http.post(f"{url}/cards/9/reroll").status_code == 404
    assert site.http.post(f"{url}/cards/1/reroll", json={"promt": "x"}).status_code == 400
    rest = site.http.post(f"{url}/cards/1/reroll", json={"rest": "render", "seed": 5}).json()
    assert (rest["stale"], rest["cards"][1]["seed"]) == ([], 5)


def test_a_plan_of_a_like_request_is_the_plan(site: Site) -> None:
    """What is taken over from an earlier plan equals what planning gives, field by field."""
    device, model, plans = cpu_profile(2, 8 << 30), resolve("toyworld"), Plans()
    long = "a very red ball " * 40  # more tokens than the model reads
    for prompt, seed in (("a ball", 1), ("two blue balls", 5), (long, 2), ("a ball", 3)):
        for extra in ({}, {"steps": 9}, {"negative_prompt": "blur"}, {"fps": 8}):
            request = parse_request({"prompt": prompt, "seed": seed, **extra})
            found = plans.plan(request, device, model, "", Inputs)
            assert found == plan(request, device, Inputs(), model)
    drawn = {plans.plan(parse_request({"prompt": "x"}), device, model, "", Inputs).seeds
             for _ in range(4)}  # fmt: skip
    assert len(drawn) == 4
