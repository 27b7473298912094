"""The page in a real browser: what a visitor sees and does, by day, by night, on a phone, by keyboard, and without a script.

The test in tests/it/page_browser.rs starts the processes and databases, runs this script, and compares what was restored. The script asks
it for what only the databases' application can do, in lines on standard output, and waits for a line on standard input.

Arguments: a JSON object with `chromium`, `address`, `token`, `many` (the address of a page of 2,000 databases), `at` (a position
that isn't the newest), `pictures` (a folder) and `folder` (where the databases are).
"""

import json
import os
import socket
import sys

from playwright.sync_api import expect, sync_playwright

GIVEN = json.loads(sys.argv[1])
ORIGIN = f"http://{GIVEN['address']}"
SCREENS = ["/", "/database?name=shop", "/database?name=shop&at=latest", "/proofs", "/activity", "/vaults", "/settings",
           "/confirm?do=restore&name=shop&at=latest"]
WIDE, NARROW = {"width": 1280, "height": 800}, {"width": 390, "height": 844}

# The contrast of each text with what is behind it, as WCAG computes it: texts below 4.5 (large ones: 3).
CONTRAST = """() => {
  const parse = (text) => { const n = text.match(/[\\d.]+/g).map(Number); return n.length < 4 ? [...n, 1] : n; };
  const light = (c) => c.slice(0, 3).map((v) => v / 255).map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour[3] === 1) return colour;
    }
    return [255, 255, 255, 1];
  };
  const bad = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const node = walk.currentNode, holder = node.parentElement;
    if (!node.data.trim() || ["SCRIPT", "STYLE", "TITLE", "title"].includes(holder.tagName)) continue;
    const style = getComputedStyle(holder), box = holder.getBoundingClientRect();
    if (!box.width || style.visibility === "hidden") continue;
    const [a, b] = [light(parse(style.color)), light(ground(holder))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5)) bad.push(`${node.data.trim().slice(0, 40)}: ${ratio.toFixed(2)}`);
  }
  return bad;
}"""

# Fields and buttons without a name that a screen reader could say, and fingers' targets that are too small for WCAG's AA.
UNNAMED = """() => [...document.querySelectorAll("input:not([type=hidden]), select, button, a, svg[role=img], progress")]
  .filter((e) => !(e.labels && e.labels.length) && !e.getAttribute("aria-label") && !e.textContent.trim() && !e.getAttribute("aria-labelledby"))
  .map((e) => e.outerHTML)"""


# The reader of a picture needs no folder and no name of the machine that made it.
TIDY = """([folder, host]) => {
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const node = walk.currentNode;
    const text = node.data.trim() === host ? "db1" : node.data.replaceAll(folder, "/srv");
    if (text !== node.data) node.data = text;
  }
  for (const field of document.querySelectorAll("input")) field.value = field.value.replaceAll(folder, "/srv");
}"""


class Visitor:
    """A browser's context with what must never happen in it."""

    def __init__(self, browser, **how):
        self.context = browser.new_context(**{"viewport": WIDE, **how})
        self.context.set_default_timeout(30_000)
        self.urls, self.wrong = [], []
        self.context.on("request", lambda request: self.urls.append(request.url))
        self.page = self.context.new_page()
        self.page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        self.page.on("console", self.heard)

    def heard(self, message):
        # A refused login is answered with 401, which the console notes.
        if message.type == "error" and "status of 401" not in message.text:
            self.wrong.append(f"console: {message.text}")

    def log_in(self):
        self.page.goto(ORIGIN + "/")
        self.page.get_by_label("Token").fill(GIVEN["token"])
        self.page.get_by_role("button", name="Log in").click()
        expect(self.page.get_by_role("heading", level=1, name="Databases")).to_be_visible()

    def go(self, path):
        response = self.page.goto(ORIGIN + path)
        assert response.status == 200, f"{path}: {response.status}"
        return response

    def leave(self):
        foreign = [url for url in self.urls if not url.startswith((f"http://{GIVEN['address']}/", f"http://{GIVEN['many']}/", "data:"))]
        assert not foreign, f"requests left the page: {foreign}"
        assert not self.wrong, self.wrong
        self.context.close()


def ask(what):
    """Lets the test do something, and waits for it."""
    print(what, flush=True)
    answer = sys.stdin.readline().strip()
    assert answer, f"the test ended before it did: {what}"
    return answer


def picture(page, name):
    path = os.path.join(GIVEN["pictures"], name)
    for _ in range(5):
        page.evaluate(TIDY, [GIVEN["folder"], socket.gethostname()])
        page.screenshot(path=path, animations="disabled")
        # A part that changed meanwhile came with its own text.
        if GIVEN["folder"] not in page.locator("body").inner_text():
            break
    else:
        raise AssertionError(f"{name} shows {GIVEN['folder']}")
    size = os.path.getsize(path)
    assert 5_000 < size < 150_000, f"{name} has {size} bytes"


def every_screen(browser):
    for scheme in ["light", "dark"]:
        for size, viewport in [("wide", WIDE), ("narrow", NARROW)]:
            visitor = Visitor(browser, color_scheme=scheme, viewport=viewport)
            visitor.log_in()
            page = visitor.page
            for screen in SCREENS:
                what = f"{screen} {scheme} {size}"
                visitor.urls.clear()
                visitor.go(screen)
                first = [url for url in visitor.urls if "/live?" not in url and not url.startswith("data:")]
                assert len(first) == 1, f"{what} takes more than one request: {first}"
                assert page.locator("h1").count() == 1, what
                ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
                assert (ground == "rgb(255, 255, 255)") == (scheme == "light"), f"{what}: {ground}"
                low = page.evaluate(CONTRAST)
                assert not low, f"{what}: too little contrast: {low}"
                unnamed = page.evaluate(UNNAMED)
                assert not unnamed, f"{what}: {unnamed}"
                wider = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
                assert wider <= 0, f"{what} is {wider} px too wide"
            visitor.leave()


def pictures(browser):
    visitor = Visitor(browser, color_scheme="light")
    visitor.log_in()
    expect(visitor.page.locator("#live")).to_have_text("Live")
    picture(visitor.page, "page-fleet.png")
    visitor.go("/database?name=shop&at=latest")
    visitor.page.locator("#restore").scroll_into_view_if_needed()
    visitor.page.evaluate("document.querySelector('#restore').scrollIntoView()")
    picture(visitor.page, "page-restore.png")
    visitor.go("/activity")
    picture(visitor.page, "page-activity.png")
    visitor.leave()
    visitor = Visitor(browser, color_scheme="dark", viewport=NARROW)
    visitor.log_in()
    visitor.go("/database?name=shop")
    picture(visitor.page, "page-phone-dark.png")
    visitor.leave()


def wrong_token(browser):
    visitor = Visitor(browser)
    page = visitor.page
    page.goto(ORIGIN + "/settings")
    assert "shop" not in page.content()
    page.get_by_label("Token").fill("a-wrong-token-of-length")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_have_text("This token is wrong.")
    page.goto(ORIGIN + "/")
    expect(page.get_by_label("Token")).to_be_visible()
    visitor.leave()


def live(browser):
    visitor = Visitor(browser)
    visitor.log_in()
    page = visitor.page
    visitor.go("/database?name=shop")
    expect(page.locator("#live")).to_have_text("Live")
    page.get_by_label("Moment").focus()
    loads = len(visitor.urls)
    position = ask("commit")
    expect(page.locator("#facts")).to_contain_text(position)
    assert len(visitor.urls) == loads, "the change came without a load"
    assert page.evaluate("document.activeElement.id") == "at", "the focus stayed"
    visitor.leave()


def keyboard(browser):
    visitor = Visitor(browser)
    visitor.log_in()
    page = visitor.page
    visitor.go("/")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "q", "the search is the first field of the content"
    page.keyboard.type("shop")
    page.keyboard.press("Enter")
    expect(page.locator("#shown")).to_have_text("Databases 1 to 1 of 1.")
    link = page.get_by_role("link", name="shop")
    for _ in range(40):
        page.keyboard.press("Tab")
        if link.evaluate("e => e === document.activeElement"):
            break
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineWidth")
    assert outline == "3px", f"the focus is seen: {outline}"
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1, name="shop")).to_be_visible()
    snapshot = page.locator("body").aria_snapshot()
    for part in ['navigation "Screens"', "heading \"Alarms\"", "table", "textbox \"Moment\"", 'button "Plan a restore"']:
        assert part in snapshot, f"{part} is missing for a screen reader:\n{snapshot}"
    visitor.leave()


def confirm(page, button, name="shop"):
    page.get_by_label("To confirm, type the name").fill(name)
    page.get_by_role("button", name=button).click()


def restore(browser):
    visitor = Visitor(browser)
    visitor.log_in()
    page = visitor.page
    visitor.go("/database?name=shop")
    page.get_by_label("Moment").fill(GIVEN["at"])
    page.get_by_role("button", name="Plan a restore").click()
    plan = page.locator(".card", has_text="The plan")
    expect(plan).to_contain_text(GIVEN["at"])
    expect(plan.locator("pre")).to_contain_text("seawall restore")
    # Along the timeline: a day of the calendar, and a step back to the moment.
    page.locator(".days a").last.click()
    expect(page.locator(".card", has_text="The plan")).to_be_visible()
    visitor.go(f"/database?name=shop&at={GIVEN['at']}")
    page.get_by_role("link", name="Restore this point beside the original").click()
    confirm(page, "Restore beside the original", "shopp")
    expect(page.get_by_role("heading", level=1)).to_have_text("Nothing was done")
    expect(page.locator("body")).to_contain_text("agent.not-confirmed")
    page.go_back()
    confirm(page, "Restore beside the original")
    expect(page.locator("#asked")).to_contain_text("done", timeout=60_000)
    expect(page.locator("#asked")).to_contain_text(GIVEN["at"])
    visitor.wrong = [wrong for wrong in visitor.wrong if "status of 400" not in wrong]
    visitor.go("/database?name=shop")
    page.get_by_role("link", name="Prove now").click()
    confirm(page, "Prove now")
    expect(page.locator("#asked")).to_contain_text("was restored", timeout=60_000)
    visitor.go("/database?name=shop")
    expect(page.get_by_role("heading", name="Proofs in the vault")).to_be_visible()
    visitor.leave()


def no_script(browser):
    visitor = Visitor(browser, java_script_enabled=False)
    visitor.log_in()
    page = visitor.page
    for screen in SCREENS:
        visitor.go(screen)
    assert not any("/live?" in url for url in visitor.urls)
    visitor.go("/database?name=shop")
    page.get_by_label("Moment").fill("latest")
    page.get_by_role("button", name="Plan a restore").click()
    expect(page.locator(".card", has_text="The plan")).to_be_visible()
    page.get_by_role("link", name="Sync").click()
    confirm(page, "Sync")
    expect(page.locator("#asked")).to_contain_text("is in the vault")
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_label("Token")).to_be_visible()
    visitor.leave()


def many(browser):
    visitor = Visitor(browser)
    page = visitor.page
    times = []
    for _ in range(5):
        page.goto(f"http://{GIVEN['many']}/")
        expect(page.locator("#shown")).to_have_text("Databases 1 to 100 of 2000.")
        entry = page.evaluate("(() => { const e = performance.getEntriesByType('navigation')[0]; return [e.loadEventEnd, e.transferSize]; })()")
        times.append(entry[0])
        assert entry[1] <= 60 * 1024, f"{entry[1]} bytes to the first paint"
    assert min(times) < 1000, f"2,000 databases take {times} ms"
    print(f"note: 2,000 databases were loaded in {min(times):.0f} ms at best, {max(times):.0f} ms at worst, {entry[1]} bytes", flush=True)
    page.get_by_label("Search").fill("tenant-1999")
    page.get_by_role("button", name="Apply").click()
    expect(page.locator("#shown")).to_have_text("Databases 1 to 1 of 1.")
    visitor.leave()


def main():
    with sync_playwright() as playwright:
        arguments = ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
        # The sandbox of Chromium refuses root, and a container may have no user namespaces.
        if os.geteuid() == 0:
            arguments.append("--no-sandbox")
        browser = playwright.chromium.launch(executable_path=GIVEN["chromium"], args=arguments)
        for part in [wrong_token, live, restore, keyboard, no_script, every_screen, many, pictures]:
            part(browser)
            print(f"note: {part.__name__} is as it should be", flush=True)
        browser.close()


main()
