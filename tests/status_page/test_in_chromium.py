"""The page in a real browser: by keyboard, on a phone, light and dark, without scripts.

Needs Debian's ``chromium`` and the package ``playwright``; without one of them the tests are skipped. With
``CHECKBACK_SCREENSHOTS`` each page is photographed into that folder.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from checkback.local.kafka import free_port
from conf import Settings
from status_page.app import site_app
from status_page.http.server import StatusServer
from tests.status_page.sample import TOKEN, SampleView, sample_site

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
playwright: Any = pytest.importorskip("playwright.sync_api", reason="the package playwright is not installed")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium: apt-get install chromium")

PAGES = {
    "overview": "/",
    "transactions": "/transactions",
    "parked": "/parked",
    "groups": "/groups",
    "transaction": "/transactions/1:81924",
    "parked-one": "/transactions/3:70112",
    "story": "/transactions/1:81924/story",
    "sign-in": "/sign-in",
    "decide": "/decide?action=rollback&what=4:81927+order-2026-1122-0000004&what=5:81928+order-2026-1122-0000005",
    "nothing": "/nowhere",
}
PHONE = {"width": 360, "height": 740}
DESK = {"width": 1280, "height": 900}
_CONTRAST = """() => {
  const bright = (colour) => {
    const [r, g, b] = colour.match(/[\\d.]+/g).slice(0, 3).map((one) => {
      const part = one / 255;
      return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const colour = getComputedStyle(one).backgroundColor;
      if (!/, 0\\)$|transparent/.test(colour)) return colour;
    }
    return 'rgb(255, 255, 255)';
  };
  const wrong = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.getClientRects().length) continue;
    if (element.closest('.unseen, svg, .skip')) continue;
    const [one, other] = [bright(getComputedStyle(element).color), bright(behind(element))].sort().reverse();
    const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (contrast < 4.5) wrong.push(`${walker.currentNode.data.trim().slice(0, 40)}: ${contrast.toFixed(2)}`);
  }
  return wrong;
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        # a container's root has no sandbox
        opened = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def url() -> Iterator[str]:
    """Of a sample page whose job judges at once."""
    settings = Settings.model_validate({"http": {"port": free_port(), "token": TOKEN}})
    view = SampleView(notes=("Checks of group payments wait: all 3 endpoints skipped (connection refused).",))
    site = sample_site(settings, view, seconds=0)
    server = StatusServer(settings.http, site_app(site))
    assert server.start()
    yield server.url
    server.stop()


def opened(browser: Any, url: str, **options: Any) -> Any:
    """A page, signed in; what it complains of is in ``complaints``."""
    page = browser.new_context(viewport=DESK, java_script_enabled=True, **options).new_page()
    page.complaints = []
    page.on("console", lambda said: page.complaints.append(said.text))
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.goto(f"{url}/sign-in")
    page.fill("#token", TOKEN)
    page.keyboard.press("Enter")
    page.wait_for_url(f"{url}/")
    return page


def test_each_page_is_readable_on_a_phone_and_at_a_desk_light_and_dark(browser: Any, url: str) -> None:
    page = opened(browser, url, reduced_motion="reduce")
    for name, path in PAGES.items():
        page.goto(f"{url}{path}")
        for width, size in (("phone", PHONE), ("desk", DESK)):
            page.set_viewport_size(size)
            too_wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert too_wide == 0, (name, width)
            assert width == "desk" or small_targets(page) == [], name
            for colours in ("light", "dark"):
                page.emulate_media(color_scheme=colours)
                photographed(page, f"{name}-{width}-{colours}")
                assert page.evaluate(_CONTRAST) == [], (name, width, colours)
    refused = [said for said in page.complaints if "404" not in said and "DOM" not in said]
    assert refused == [], "among others, what the content security policy refuses"
    page.context.close()


def small_targets(page: Any) -> list[str]:
    """What a finger would miss (WCAG 2.5.8), but for links within sentences."""
    found: list[str] = page.eval_on_selector_all(
        "button, input:not([type=hidden]), select, textarea, nav a, summary",
        """(all) => all.filter((one) => one.getClientRects().length).map((one) => [one, one.getBoundingClientRect()])
        .filter(([one, box]) => box.height < 18 || box.width < 18).map(([one, box]) => one.outerHTML.slice(0, 80))""",
    )
    return found


def photographed(page: Any, name: str) -> None:
    folder = os.environ.get("CHECKBACK_SCREENSHOTS")
    if folder:
        page.screenshot(path=str(Path(folder) / f"{name}.png"), full_page=True)


def test_somebody_with_a_keyboard_finds_understands_and_ends_a_stuck_transaction(browser: Any, url: str) -> None:
    """No pointer is used. Scripts are off: nothing may depend on them."""
    still = {"reduced_motion": "reduce"}  # or the link is looked at while it moves in
    page = browser.new_context(viewport=DESK, java_script_enabled=False, **still).new_page()
    page.goto(url)
    page.keyboard.press("Tab")
    assert focused(page) == "Skip to content"
    assert page.locator(":focus").bounding_box()["y"] >= 0, "it is seen once it has the focus"
    tab_to(page, "18 of payments for shop.payments")
    assert outlined(page)
    page.keyboard.press("Enter")
    page.wait_for_url("**/transactions?group=payments&topic=shop.payments")
    tab_to(page, "5f0c0e7c3f8e4f7ab7c4d2a1e6b95d10")
    page.keyboard.press("Enter")
    page.wait_for_url("**/transactions/1:81924")
    assert "all 3 endpoints skipped: connection refused" in page.inner_text("main")
    tab_to(page, "Sign in")
    page.keyboard.press("Enter")
    page.wait_for_url("**/sign-in?*")
    page.locator("input:focus").wait_for()
    page.keyboard.type(TOKEN)
    page.keyboard.press("Enter")
    page.wait_for_url("**/transactions/1:81924")
    tab_to(page, "Roll back…")
    page.keyboard.press("Enter")
    page.wait_for_url("**/decide?*")
    assert "Roll back 1 transaction?" in page.inner_text("h1")
    tab_to(page, "who")
    page.keyboard.type("Ada")
    tab_to(page, "why")
    page.keyboard.type("No such payment in the database.")
    tab_to(page, "Roll back 1 transaction")
    page.keyboard.press("Enter")
    page.wait_for_url("**/decided/*")
    page.wait_for_selector("text=The job has judged it.", timeout=15_000)
    photographed(page, "decided")
    page.context.close()


def focused(page: Any) -> str:
    """Name of what has the focus, or its text."""
    element = page.locator(":focus")
    return (
        str(element.get_attribute("name") or "") if element.evaluate(_IS_FIELD) else str(element.inner_text()).strip()
    )


_IS_FIELD = "(one) => ['INPUT', 'TEXTAREA', 'SELECT'].includes(one.tagName)"


def tab_to(page: Any, wanted: str, most: int = 60) -> None:
    for _ in range(most):
        page.keyboard.press("Tab")
        if " ".join(focused(page).split()) == wanted:
            return
    raise AssertionError(f"{wanted} cannot be reached by keyboard")


def outlined(page: Any) -> bool:
    return bool(page.locator(":focus").evaluate("(one) => parseFloat(getComputedStyle(one).outlineWidth) >= 2"))


def test_what_loads_itself_can_be_paused(browser: Any, url: str) -> None:
    page = browser.new_context(viewport=DESK).new_page()
    page.goto(url)
    page.get_by_role("link", name="Pause").click()
    # a click does not always wait for the page that it leads to: its other link does
    page.get_by_role("link", name="Load itself again").wait_for()
    assert page.locator("meta[http-equiv=refresh]").count() == 0
    page.get_by_role("link", name="Load itself again").click()
    page.get_by_role("link", name="Pause").wait_for()
    assert page.locator("meta[http-equiv=refresh]").count() == 1
    page.context.close()


def test_a_screen_reader_is_told_names_and_roles(browser: Any, url: str) -> None:
    page = opened(browser, url)
    page.set_viewport_size(PHONE)  # cards are still tables
    page.goto(f"{url}/transactions")
    roles = told_roles(page)
    assert [roles.count(role) for role in ("table", "row", "columnheader")] == [1, 26, 8]
    assert page.get_by_role("checkbox", name="tx-αβγ-42 at 2:81925").count() == 1
    assert page.get_by_role("link", name="In doubt", exact=True).get_attribute("aria-current") == "page"
    page.goto(url)
    assert page.get_by_role("img", name="Half messages").count() == 1
    assert page.get_by_role("navigation", name="Pages").count() == 1
    assert page.get_by_role("heading", level=1).count() == 1
    page.get_by_text("The same as a table").click()
    assert page.get_by_role("table", name="Numbers in stretches of 5 min").is_visible()
    page.context.close()


def told_roles(page: Any) -> list[str]:
    """What Chromium itself tells of the page, layout and all."""
    tree = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")
    return [node["role"]["value"] for node in tree["nodes"] if not node["ignored"]]


def test_nothing_comes_from_elsewhere(browser: Any, url: str) -> None:
    page = browser.new_context(viewport=DESK).new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    for path in ("/", "/transactions", "/groups"):
        page.goto(f"{url}{path}")
    assert asked
    assert [one for one in asked if not one.startswith(f"{url}/")] == []
    page.context.close()
