"""Opens pages of `pavlov report` in Qt's browser and uses them as a reader does; needs `pip install PyQt6-WebEngine`.

    report_in_browser.py PAGE.html [PICTURE.png [WIDTH [light|dark]]]
    report_in_browser.py ADDRESS TEXT

Prints one JSON object: messages of the console, requests that left the page, and what was seen. Runs without a screen. With an
address it prints `loaded` when the page is there, and then waits until the page has loaded itself again and shows the text.
"""

import json
import os
import sys

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ.setdefault("QTWEBENGINE_CHROMIUM_FLAGS", "--no-sandbox --disable-gpu")
if "dark" in sys.argv[4:]:
    os.environ["QTWEBENGINE_CHROMIUM_FLAGS"] += " --blink-settings=preferredColorScheme=0"

from PyQt6.QtCore import QEventLoop, QTimer, QUrl  # noqa: E402
from PyQt6.QtWebEngineCore import QWebEnginePage, QWebEngineUrlRequestInterceptor  # noqa: E402
from PyQt6.QtWebEngineWidgets import QWebEngineView  # noqa: E402
from PyQt6.QtWidgets import QApplication  # noqa: E402

# What a reader does: the values at a place, a part of the plot alone, a line hidden, the other axis, a column sorted, a search, the episode moved.
USE = """(() => {
  const all = what => [...document.querySelectorAll(what)], seen = {};
  seen.curves = all("svg path.line").filter(p => p.getAttribute("d")).length;
  seen.svgs_without_words = all("svg[role=img]").filter(s => !s.getAttribute("aria-label")).length;
  seen.wide = document.documentElement.scrollWidth > innerWidth;
  const svg = document.querySelector("svg[data-plot]");
  if (svg) {
    const box = svg.getBoundingClientRect(), values = svg.parentElement.querySelector(".values");
    svg.dispatchEvent(new PointerEvent("pointermove", {clientX: box.left + box.width / 2, clientY: box.top + 50}));
    seen.values = values ? values.innerText : null;
    svg.dispatchEvent(new PointerEvent("pointerleave"));
    seen.values_leave = values ? values.hidden : null;
    const line = svg.querySelector("path.line[data-name]"), whole = line.getAttribute("d");
    const at = (event, share) => svg.dispatchEvent(new PointerEvent(event, {clientX: box.left + box.width * share, clientY: box.top + 50}));
    at("pointermove", 0.3); at("pointerdown", 0.3); at("pointermove", 0.5); at("pointerup", 0.5);
    seen.zoomed = line.getAttribute("d") !== whole && line.getAttribute("clip-path").startsWith("url");
    seen.ticks = [...svg.querySelectorAll("text.tick")].filter(t => t.style.display !== "none").map(t => t.textContent);
    svg.dispatchEvent(new MouseEvent("dblclick"));
    seen.zoomed_back = line.getAttribute("d") === whole && line.getAttribute("clip-path") === "none";
    at("pointerleave", 0.5);
    const name = svg.querySelector("text.end[role=button]");
    if (name) {
      name.dispatchEvent(new MouseEvent("click", {bubbles: true}));
      seen.hidden = svg.querySelectorAll("path.line.off").length;
      name.dispatchEvent(new KeyboardEvent("keydown", {key: "Enter", bubbles: true}));
      seen.shown_again = svg.querySelectorAll("path.line.off").length === 0;
    }
  }
  const choice = document.querySelector("[data-choice] > select");
  if (choice) {
    const parts = () => [...choice.parentElement.querySelectorAll(":scope > [data-part]")].map(p => p.hidden);
    seen.parts = [parts()];
    choice.value = "1"; choice.dispatchEvent(new Event("change"));
    seen.parts.push(parts());
    choice.value = "0"; choice.dispatchEvent(new Event("change"));
  }
  const table = document.querySelector("table.sorts");
  if (table) {
    const column = () => [...table.tBodies[0].rows].map(r => r.cells[table.tHead.rows[0].cells.length - 3].dataset.v).filter(v => v).map(Number);
    const button = table.tHead.rows[0].cells[table.tHead.rows[0].cells.length - 3].querySelector("button");
    const before = [...table.tBodies[0].rows].map(r => r.cells[0].textContent);
    button.click(); seen.down = column();
    button.click(); seen.up = column();
    seen.sort = button.parentElement.getAttribute("aria-sort");
    const search = document.querySelector("input[type=search]");
    search.value = before[0]; search.dispatchEvent(new Event("input"));
    seen.found = [...table.tBodies[0].rows].filter(r => !r.hidden).length;
    search.value = ""; search.dispatchEvent(new Event("input"));
    button.click();
  }
  const play = document.querySelector("[data-frames]");
  if (play) {
    const canvas = play.querySelector("canvas"), slider = play.querySelector("input"), button = play.querySelector("button");
    const picture = () => canvas.toDataURL();
    slider.value = 0; slider.dispatchEvent(new Event("input"));
    const first = picture();
    slider.value = slider.max; slider.dispatchEvent(new Event("input"));
    seen.frames_differ = picture() !== first;
    seen.button = button.textContent;
    button.click(); seen.button_after = button.textContent; button.click();
  }
  seen.scripts = all("script").length;
  seen.handlers = all("*").filter(e => [...e.attributes].some(a => a.name.startsWith("on"))).length;
  seen.stranger = typeof window.stranger;
  return JSON.stringify(seen);
})()"""


def main():
    page_path = sys.argv[1]
    picture = sys.argv[2] if len(sys.argv) > 2 else None
    width = int(sys.argv[3]) if len(sys.argv) > 3 else 1200
    messages, requests = [], []

    class Page(QWebEnginePage):
        def javaScriptConsoleMessage(self, level, text, line, source):
            messages.append(f"{line}: {text}")

    class Watch(QWebEngineUrlRequestInterceptor):
        def interceptRequest(self, info):
            url = info.requestUrl().toString()
            if not url.startswith(("file:", "data:")):
                requests.append(url)

    app = QApplication(sys.argv[:1])
    view, watch = QWebEngineView(), Watch()
    page = Page(view)
    page.profile().setUrlRequestInterceptor(watch)
    view.setPage(page)
    view.resize(width, 800)
    view.show()

    def wait(connect, limit_ms=30_000):
        loop, got = QEventLoop(), []
        connect(lambda *value: (got.extend(value), loop.quit()))
        QTimer.singleShot(limit_ms, loop.quit)
        loop.exec()
        return got[0] if got else None

    loaded = []
    view.loadFinished.connect(lambda ok: loaded.append(ok))
    served = page_path.startswith("http://")
    view.load(QUrl(page_path) if served else QUrl.fromLocalFile(os.path.abspath(page_path)))
    while not loaded:
        app.processEvents()
    if served:
        print("loaded", flush=True)
        shown = False
        for _ in range(240):
            wait(lambda done: QTimer.singleShot(250, done))
            text = wait(lambda done: page.runJavaScript("document.body?.innerText", done)) or ""
            shown = sys.argv[2] in text
            # The text is there before the browser says that the page has loaded.
            if shown and len(loaded) > 1:
                break
        print(json.dumps({"loads": len(loaded), "shown": shown, "console": messages}))
        view.close()
        return
    wait(lambda done: QTimer.singleShot(500, done))
    seen = wait(lambda done: page.runJavaScript(USE, done))
    if picture:
        height = wait(lambda done: page.runJavaScript("document.documentElement.scrollHeight", done))
        view.resize(width, int(height))
        # What is drawn follows the window's size a while later.
        for _ in range(40):
            wait(lambda done: QTimer.singleShot(250, done))
            if wait(lambda done: page.runJavaScript("innerHeight", done)) >= int(height):
                break
        wait(lambda done: QTimer.singleShot(3000, done))
        view.grab().save(picture)
    print(json.dumps({"loaded": loaded[0], "console": messages, "requests": requests, "seen": json.loads(seen or "null")}))
    view.close()


main()
