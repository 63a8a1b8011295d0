"""The editor of submissions in a real browser: what it marks, mends and completes, and the plan beside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
import yaml

from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.provider.submit.request import names
from tests import browser
from tests.e2e.page_site import ASKED, ROOT, Site, served

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

pytestmark = [
    pytest.mark.integration,
    pytest.mark.airflow,
    pytest.mark.browser,
    pytest.mark.skipif(browser.missing() is not None, reason=str(browser.missing())),
]
#: The plan of that, drawn: pairs of texts of which one covers the other, and texts that leave the picture.
COVERED = """(plan) => {
  const picture = graphOf(plan);
  document.body.append(picture);
  const around = picture.getBoundingClientRect();
  const texts = [...picture.querySelectorAll("text")].map((text) => [text.textContent, text.getBoundingClientRect()]);
  const out = texts.filter(([, at]) => at.left < around.left - 1 || at.right > around.right + 1);
  const meet = (a, b) => a.left < b.right && b.left < a.right && a.top + 2 < b.bottom && b.top + 2 < a.bottom;
  const later = (a, index) => texts.slice(index + 1).filter(([, b]) => meet(a, b));
  const pairs = texts.flatMap(([one, a], index) => later(a, index).map(([other]) => `${one} / ${other}`));
  return [...pairs, ...out.map(([text]) => `${text} leaves the picture`)];
}"""


@pytest.fixture(scope="module")
def site(kept_perfdb: PerfDB, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The pages with the shipped submissions, and a run that asked for something."""
    with served(kept_perfdb, tmp_path_factory.mktemp("site")) as site:
        yield site


def test_a_submission_is_mended_by_the_hint(page: Page, site: Site) -> None:
    """The mistake is marked at its line while it is typed, mended by one click; keys complete and say their unit and
    default, to the caret and to the pointer; the plan tells stages, jobs and why it would wait; the gallery has every
    shipped submission.
    """
    page.goto(f"{site.url}/inferbench/new")
    area = page.get_by_label("Submission, YAML")
    assert area.input_value() == (ROOT / "configs/submissions/quickstart.yaml").read_text()
    stages = page.get_by_role("list", name="Stages in their order")
    stages.get_by_text("load × 2").wait_for()
    assert stages.get_by_role("listitem").all_inner_texts()[0].startswith("generate")
    cards = page.locator("a.card b").all_inner_texts()
    assert "training/jade" in cards and len(cards) == len(names(ROOT / "configs/submissions"))
    good = area.input_value()
    area.fill(good.replace("\nload:", "\nlod:"))
    line = 1 + good.split("\n").index("load:")
    told = page.locator("#problems li")
    told.get_by_text("unknown key; did you mean 'load'?").wait_for()
    assert told.first.inner_text().startswith(f"line {line}, lod:")
    assert page.locator(".gutter .wrong").inner_text().strip() == str(line)
    assert page.get_by_role("button", name="Send").is_disabled()
    page.screenshot(path=site.shots / "12-new-mistake.png", full_page=True)
    told.get_by_role("button", name="Write load").click()
    assert area.input_value() == good
    stages.get_by_text("load × 2").wait_for()
    assert page.get_by_role("button", name="Send").is_enabled() and told.count() == 0
    # The pointer on a key says what it means; beside the text it says nothing.
    tip, row = page.locator("#tip"), good.split("\n").index("load:")
    area.hover(position={"x": 20, "y": 8 + 20 * row + 10})
    page.locator("#tip", has_text="load: default null. The traffic.").wait_for()
    page.screenshot(path=site.shots / "12-new-tip.png")
    area.hover(position={"x": 500, "y": 8 + 20 * row + 10})
    tip.wait_for(state="hidden")
    area.press("Control+End")
    area.press_sequentially("reque")
    page.get_by_role("option", name="requests").wait_for()
    area.press("ArrowDown")
    area.press("Enter")
    area.press_sequentially("{samp")
    page.get_by_role("option", name="samples").wait_for()
    area.press("ArrowDown")
    page.locator("#about", has_text="whole number from 1 to 1000000; default 256").wait_for()
    area.press("Enter")
    area.press_sequentially("100, kind: ")
    area.press("Control+Space")
    assert page.get_by_role("option").all_inner_texts() == [
        "dataset",
        "files",
        "random",
        "prompts",
        "conversations",
        "trace",
    ]
    page.screenshot(path=site.shots / "12-new-completion.png", full_page=True)
    area.press("ArrowDown")
    area.press("ArrowDown")
    area.press("Enter")
    area.press_sequentially("}")
    assert area.input_value() == good + "requests: {samples: 100, kind: random}"
    stages.get_by_text("load × 2").wait_for()
    page.get_by_text("Changes to the submission quickstart: ").click()
    assert page.locator("#diff").inner_text() == "- \n+ requests: {samples: 100, kind: random}"


def test_what_was_said_of_a_line_goes_with_its_words(page: Page, site: Site) -> None:
    """While the server still checks, a line that was mended carries no mark and no problem of what stood there, and
    the status says that it checks instead of how many things are wrong.
    """
    page.goto(f"{site.url}/inferbench/new")
    area, checks = page.get_by_label("Submission, YAML"), page.locator("#checks")
    page.get_by_role("list", name="Stages in their order").wait_for()
    good = area.input_value()
    area.fill(good.replace("\nload:", "\nlod:"))
    page.locator("#problems li").get_by_text("unknown key").wait_for()
    page.locator("#plan").get_by_text("Not yet: one thing is wrong.").wait_for()
    assert checks.inner_text() == ""
    answers: list[Route] = []

    def hold(route: Route) -> None:
        answers.append(route)

    page.route("**/submissions/plan", hold)
    area.fill(good)
    checks.get_by_text("Being checked …").wait_for()
    assert page.locator("#problems li").count() == 0 and page.locator(".gutter .wrong").count() == 0
    assert "wrong" not in page.locator("#plan").inner_text()
    while not answers:
        page.wait_for_timeout(50)
    answers[0].continue_()
    page.get_by_role("list", name="Stages in their order").wait_for()
    assert checks.inner_text() == ""


def test_no_word_of_a_plan_covers_another(page: Page, site: Site) -> None:
    """Whatever there is to say above the stages: the words lie beside each other, and within the picture. What is known
    of the model's batch stands beside it.
    """
    page.goto(f"{site.url}/inferbench/new")
    page.get_by_role("list", name="Stages in their order").get_by_text("load × 2").wait_for()
    serving = ["generate", "convert", "+serve", "+load", "+release"]
    overdue = {"wait_s": 5000, "jobs_before": 12, "overdue": True}
    for place, stages in (
        (None, serving),
        ({"wait_s": 0}, serving),
        (overdue, ["+train"]),
        ({"wait_s": None, "devices": 2}, ["prepare", "+train"]),
    ):
        drawn = [
            {"name": name.removeprefix("+"), "leased": name[0] == "+", "of_submission": False, "jobs": 1}
            for name in stages
        ]
        known = {"jobs_before": 0, "overdue": False, "devices": 1, **place} if place else None
        plan = {"jobs": 1, "stages": drawn, "device": "cpu", "expected_s": 36, "place": known, "points": [{}],
                "points_s": [36], "points_stages": [[of["name"] for of in drawn]]}  # fmt: skip
        assert page.evaluate(COVERED, plan) == [], place
    points = [{"load.batch_size": size, "load.duration_s": 10} for size in (1, 4)]
    of_serving = [
        {"name": of.removeprefix("+"), "leased": of[0] == "+", "of_submission": False, "jobs": 2}
        for of in serving
    ]
    names_of_both = [[of["name"] for of in of_serving]] * 2
    seconds = {"points": points, "points_s": [20, 30], "points_stages": names_of_both, "stages": of_serving}
    drawn_labels = "of => [...graphOf(of).querySelectorAll('text')].map(text => text.textContent)"
    labels = page.evaluate(drawn_labels, {**plan, "jobs": 2, **seconds})
    assert {"batch_size 1: 20 s", "batch_size 4: 30 s"} <= set(labels), "what differs, and the time"
    model = {"kind": "canonical", "family": "mlp", "framework": "torch"}
    seconds["points"] = [{"model": {**model, "layers": 1, "neurons": size}} for size in (64, 256)]
    labels = page.evaluate(drawn_labels, {**plan, "jobs": 2, **seconds})
    assert {"neurons 64: 20 s", "neurons 256: 30 s"} <= set(labels), "of a swept mapping its parts"
    said = "four is served at its batch of 4, batching off"
    more = {
        "places": [],
        "remarks": [said],
        "devices_of_a_job": 1,
        "known_jobs": 0,
        "on_these_devices_s": None,
    }
    page.evaluate("of => showPlan(of)", {**plan, **more})
    page.locator("#plan .note", has_text=said).wait_for()
    page.evaluate("of => showPlan(of)", {**plan, **more, "devices_of_a_job": 2, "hosts_elsewhere": 1})
    held = "2 devices of one host at once, or with one of another host at once"
    page.locator("#plan", has_text=held).wait_for()


def test_a_run_is_asked_for_again(page: Page, site: Site) -> None:
    """What a run asked for stands in the editor without its defaults; it validates; what is changed is told."""
    page.goto(f"{site.url}/inferbench/new?run=asked-1.000")
    area = page.get_by_label("Submission, YAML")
    asked = yaml.safe_load(area.input_value())
    assert (
        "block" not in asked
        and "sweep" not in asked
        and asked["load"]["arrivals"] == ASKED["load"]["arrivals"]
    )
    page.get_by_role("list", name="Stages in their order").get_by_text("load").wait_for()
    area.fill(area.input_value().replace("duration_s:", "duration_s: 1"))
    page.locator("#changed", has_text="2 lines").wait_for()
    page.get_by_text("Changes to").click()
    page.get_by_label("Against what another run asked for").fill("nobody-1.000")
    page.keyboard.press("Enter")
    page.locator("#past-told", has_text="nobody").wait_for()
    page.get_by_label("Against what another run asked for").fill("asked-1.000")
    page.keyboard.press("Enter")
    page.wait_for_function("document.getElementById('past-told').textContent === ''")
    page.locator("#changed", has_text="2 lines").wait_for()
    page.goto(f"{site.url}/inferbench/new?run=nobody")
    assert "nobody" in page.get_by_role("alert").inner_text()
