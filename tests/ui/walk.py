"""What is asked of whatever the page shows: nothing that axe-core finds, no way sideways, all of it by keyboard."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

AXE: Final = Path(__file__).parent / "tools/node_modules/axe-core/axe.min.js"
needs_axe: Final = pytest.mark.skipif(
    not AXE.exists(), reason="LEFT OUT, accessibility: axe-core is not there (tests/setup, npm)"
)
TABS: Final = 120
"""So many stops are gone to by key; a table of 800 devices has one for each, which are then asked one by one."""

# What listens for clicks is noted from the start, so that none is missed which no key reaches.
LISTENING: Final = """(() => {
  const listen = EventTarget.prototype.addEventListener;
  globalThis.clickable = new Set();
  EventTarget.prototype.addEventListener = function (name, ...more) {
    if (name === "click" && this instanceof Element) globalThis.clickable.add(this);
    return listen.call(this, name, ...more);
  };
})()"""
# How many stops there are, and what does something and is none.
_STOPS: Final = """(() => {
  const seen = (one) => one.isConnected && one.checkVisibility({ visibilityProperty: true });
  const all = [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")];
  const stops = all.filter(seen);
  globalThis.stops = stops;
  const lost = [...globalThis.clickable].filter((one) => seen(one) && !stops.some((stop) => stop.contains(one)));
  const dead = stops.filter((one) => {
    one.focus({ preventScroll: true });
    return document.activeElement !== one;
  });
  document.activeElement.blur();
  getSelection().collapse(document.body, 0);
  return { count: stops.length, wrong: [...lost, ...dead].map((one) => one.outerHTML.slice(0, 120)) };
})()"""
# Which of them has the focus, and whether one sees that: an outline, inside of the window, with nothing above it.
_FOCUSED: Final = """(() => {
  const one = document.activeElement;
  const { outlineStyle, outlineWidth } = getComputedStyle(one);
  const inside = ({ top, bottom, left, right }) => bottom > 0 && top < innerHeight && right > 0 && left < innerWidth;
  const box = [...one.getClientRects()].find(inside);
  const middle = (from, to, most) => (Math.max(0, from) + Math.min(most, to)) / 2;
  const top = box && document.elementFromPoint(
    middle(box.left, box.right, innerWidth), middle(box.top, box.bottom, innerHeight));
  const isSeen = Boolean(top) && (one.contains(top) || top.contains(one));
  const isOutlined = outlineStyle !== "none" && parseFloat(outlineWidth) >= 2;
  return { number: globalThis.stops.indexOf(one), text: one.outerHTML.slice(0, 120), isSeen: isSeen && isOutlined };
})()"""
_COLOUR_ONLY: Final = '{ runOnly: ["color-contrast"] }'


async def violations(page: Any, *, is_colour_only: bool = False) -> list[str]:
    """What axe-core finds on what is shown now; the page's context bypasses the policy that lets in no other script."""
    if not await page.evaluate("Boolean(globalThis.axe)"):
        await page.add_script_tag(path=str(AXE))
    found: Any = await page.evaluate(f"globalThis.axe.run({_COLOUR_ONLY if is_colour_only else ''})")
    assert found["passes"]
    return [f"{one['id']}: {one['help']}: {one['nodes'][0]['html'][:200]}" for one in found["violations"]]


async def unreached(page: Any) -> list[str]:
    """What does something and cannot be reached by Tab in the order of the page, or does not show that it is."""
    found = await page.evaluate(_STOPS)
    wrong = [f"no key reaches {one}" for one in found["wrong"]]
    expected = min(found["count"], TABS)
    at = 0
    for _ in range(2 * expected):
        await page.keyboard.press("Tab")
        focused = await page.evaluate(_FOCUSED)
        if focused["number"] < 0:
            continue  # what only scrolls
        if focused["number"] != at:
            return [*wrong, f"Tab comes to {focused['number']}, not {at}: {focused['text']}"]
        if not focused["isSeen"]:
            wrong.append(f"one does not see that this has the focus: {focused['text']}")
        at += 1
        if at == expected:
            return wrong
    return [*wrong, f"Tab comes to {at} of {expected}"]


async def is_wide(page: Any) -> bool:
    """Whether one has to scroll sideways."""
    return bool(await page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"))
