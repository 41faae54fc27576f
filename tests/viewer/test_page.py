"""The page in a real browser: from the server, and as one file from disk."""

from pathlib import Path
from urllib.parse import urlparse

import pytest
from chromium import PHONE, Tab, chromium, different
from tube_scene import tube_scene

from understudy.rigs.base import animate
from understudy.rigs.registry import load_rig
from understudy.viewer.page import write_page
from understudy.viewer.scene import poses_scene, rig_scene
from understudy.viewer.server import ViewServer

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def browser():
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "tube.html"
    write_page(tube_scene()[0], path)
    return path.as_uri()


@pytest.fixture(scope="module")
def server():
    scene, rig = tube_scene(served=True)
    with ViewServer(scene, rig) as running:
        yield running


@pytest.fixture(scope="module")
def file_tab(browser, page_file):
    made = Tab(browser).open(page_file)
    yield made
    made.close()


@pytest.fixture
def tab(file_tab):
    """The page from disk, as it opens."""
    file_tab.run("(app.setLayout('single'), app.setMap('none'), app.showBones(false))")
    file_tab.run("app.timeline.choose(0)")
    file_tab.page.click("#tab-pose")
    file_tab.settle()
    return file_tab


def positions(tab, surface=0):
    return tab.run(f"Array.from(app.surfaces[{surface}].positions)")


def test_the_character_is_visible(tab):
    shown = tab.stage()
    layers = "app.surfaces.forEach(s => s.object.traverse(o => o.layers.{}))"
    tab.run(f"({layers.format('disableAll()')}, app.stage.invalidate())")
    empty = tab.stage()
    tab.run(f"({layers.format('set(0)')}, app.stage.invalidate())")
    assert 0.01 < different(shown, empty) < 0.6
    tab.picture("page")


def test_the_timeline_plays_and_scrubs(tab):
    before = positions(tab)
    tab.page.click("#play")
    tab.page.wait_for_timeout(600)
    tab.page.click("#play")
    assert tab.run("app.timeline.frame") > 0
    assert positions(tab) != before
    box = tab.page.locator("#curve").bounding_box()
    tab.page.mouse.click(box["x"] + box["width"] - 3, box["y"] + 20)
    assert tab.run("app.timeline.frame") == tab.run("app.timeline.current.frames - 1")
    tab.page.click("#worst-frame")
    worst = tab.run("app.timeline.current.errors[0].largest[app.timeline.frame]")
    assert worst == tab.run("Math.max(...app.timeline.current.errors[0].largest)")


def test_errors_are_those_that_were_measured(tab):
    for frame in (0, 17, 40):
        tab.run(f"app.timeline.seek({frame}, true)")
        stored = tab.run(f"app.timeline.current.errors[0].mean[{frame}]")
        assert tab.run("app.errors[0].mean") == pytest.approx(stored, rel=0.02, abs=2e-4)


def test_the_heat_map_toggles(tab):
    plain = tab.stage()
    tab.page.keyboard.press("e")
    assert tab.page.is_visible("#legend")
    hot = tab.stage()
    assert not tab.run("document.getElementById('worst').hidden")
    assert different(plain, hot) > 0.01
    tab.picture("heat")
    tab.page.keyboard.press("e")
    assert different(plain, tab.stage()) < 0.002
    assert not tab.page.is_visible("#legend")


@pytest.mark.parametrize(("key", "labels"), [("2", 3), ("3", 2), ("4", 1)])
def test_layouts(tab, key, labels):
    single = tab.picture()
    tab.page.keyboard.press(key)
    assert tab.page.locator(".label").count() == labels
    assert different(single, tab.picture(f"layout-{key}")) > 0.003


def test_the_swipe_moves(tab):
    tab.page.keyboard.press("3")
    box = tab.page.locator("#swipe").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    tab.page.mouse.move(x, y)
    tab.page.mouse.down()
    tab.page.mouse.move(x - 200, y, steps=3)
    tab.page.mouse.up()
    moved = tab.page.locator("#swipe").bounding_box()
    assert moved["x"] == pytest.approx(box["x"] - 200, abs=3)


def test_wireframe_and_bones(tab):
    plain = tab.stage()
    tab.page.keyboard.press("w")
    assert different(plain, tab.stage()) > 0.001
    tab.page.keyboard.press("w")
    assert different(plain, tab.stage()) < 0.0002  # the lines are gone, so they made the difference
    tab.page.click("#tab-bones")
    tab.page.click("#show-bones")
    assert different(plain, tab.stage()) > 0.0005
    tab.page.click("[data-bone=middle]")
    assert "moves" in tab.page.inner_text("#bone-about")
    assert tab.page.is_visible("#legend")
    tab.picture("weights")


def test_a_click_on_a_bone_shows_its_weights(tab):
    tab.page.click("#tab-bones")
    tab.page.click("#show-bones")
    tab.settle()
    # A point a little above the head of the bone, inside its octahedron.
    x, y = tab.run("app.bonePlace(1)")
    tab.page.mouse.click(x, y - 4)
    chosen = tab.page.locator(".bone[aria-selected=true]")
    assert chosen.count() == 1
    assert tab.page.is_visible("#legend")
    # A click beside the character takes it back.
    tab.page.mouse.click(30, 500)
    assert tab.page.locator(".bone[aria-selected=true]").count() == 0
    assert not tab.page.is_visible("#legend")


def test_a_slider_moves_the_mesh_and_undo_restores_it(tab):
    before = positions(tab)
    slider = tab.page.locator("[data-control=flex]")
    slider.fill("0.9")
    slider.dispatch_event("change")
    moved = positions(tab)
    assert moved != before
    assert "not known" in tab.page.inner_text("#readout")
    tab.page.click("#undo")
    assert positions(tab) == before
    tab.page.click("#redo")
    assert positions(tab) == moved


def test_a_phone_and_its_fingers(browser, page_file):
    tab = Tab(browser, PHONE, touch=True).open(page_file)
    plain = tab.stage()
    assert not tab.page.is_visible("#panel")
    tab.page.tap("#heat")
    assert tab.page.is_visible("#legend")
    tab.picture("phone")
    tab.page.tap("#heat")
    # One finger turns the character.
    swipe(tab, 200, 400, 320, 430)
    tab.page.wait_for_timeout(400)
    assert different(plain, tab.stage()) > 0.003
    tab.page.tap("#toggle-panel")
    assert tab.page.is_visible("#pose-panel")
    tab.picture("phone-panel")
    width = tab.page.evaluate("document.documentElement.scrollWidth")
    assert width <= PHONE[0]
    tab.close()


def swipe(tab, x0, y0, x1, y1):
    """Move one finger over the page."""
    session = tab.context.new_cdp_session(tab.page)
    send = lambda kind, points: session.send(
        "Input.dispatchTouchEvent", {"type": kind, "touchPoints": points}
    )
    send("touchStart", [{"x": x0, "y": y0}])
    for part in (0.25, 0.5, 0.75, 1.0):
        send("touchMove", [{"x": x0 + part * (x1 - x0), "y": y0 + part * (y1 - y0)}])
    send("touchEnd", [])


def test_the_live_rig_moves_and_is_compared(browser, server):
    tab = Tab(browser).open(server.url)
    before = positions(tab)
    slider = tab.page.locator("[data-control=bend_1]")
    slider.fill("40")
    slider.dispatch_event("change")
    tab.page.wait_for_timeout(500)
    assert positions(tab) != before
    # The server answered with the original at these controls.
    rig = load_rig("tube")
    values = tab.run("Array.from(app.poser.values)")
    truth = rig.evaluate([values]).vertices[0].reshape(-1)
    assert positions(tab, 1) == pytest.approx(truth.tolist(), abs=1e-4)
    assert tab.run("app.errors[0].mean") > 0
    tab.picture("live")
    tab.close()


def test_tabs_close_and_multiply(browser, server):
    first = Tab(browser).open(server.url)
    second = Tab(browser).open(server.url)
    first.close()
    slider = second.page.locator("[data-control=bend_2]")
    before = positions(second)
    slider.fill("30")
    second.page.wait_for_timeout(500)
    assert positions(second) != before
    second.page.reload()
    second.page.wait_for_selector("#timeline", state="attached")
    second.close()


def test_a_server_that_ended_is_told(browser):
    scene, rig = tube_scene(served=True)
    with ViewServer(scene, rig) as server:
        tab = Tab(browser).open(server.url)
        assert not tab.page.is_visible("#trouble")
    tab.page.locator("[data-control=bend_1]").fill("20")
    tab.page.wait_for_selector("#trouble", state="visible")
    assert "does not answer" in tab.page.inner_text("#trouble")
    tab.picture("server-ended")
    tab.context.close()


def test_a_wrong_token_shows_an_error_and_nothing_else(browser, server):
    tab = Tab(browser)
    reply = tab.page.goto(f"http://127.0.0.1:{server.port}/?token=wrong")
    assert reply.status == 403
    tab.context.close()


def test_a_damaged_page_says_so(browser, page_file, tmp_path):
    text = Path(urlparse(page_file).path).read_text()
    start = text.index('id="scene">') + len('id="scene">')
    path = tmp_path / "damaged.html"
    path.write_text(
        text[:start] + text[start : start + 4000] + text[text.index("</script>", start) :]
    )
    tab = Tab(browser).open(path.as_uri())
    assert "damaged or incomplete" in tab.page.inner_text("#failure")
    tab.picture("damaged")
    tab.context.close()


@pytest.mark.parametrize("kind", ["rig", "poses"])
def test_rigs_and_poses_alone(browser, kind):
    rig = load_rig("tube")
    scene = rig_scene(rig) if kind == "rig" else poses_scene(animate(rig, "wave"), "wave")
    with ViewServer(scene, rig if kind == "rig" else None) as server:
        tab = Tab(browser).open(server.url)
        tab.page.wait_for_timeout(300)
        before = positions(tab)
        tab.run("app.timeline.seek(20, true)")
        tab.page.wait_for_timeout(500)
        assert positions(tab) != before
        assert not tab.page.is_visible("#layout")
        tab.picture(f"{kind}-alone")
        tab.close()
