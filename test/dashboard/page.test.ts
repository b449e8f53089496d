/** The page in a real Chromium, with models that the tests hand out one by one. They wait for revisions, not for time. */
import type { Browser } from "playwright-core";
import { afterAll, afterEach, describe, expect, test } from "vitest";
import type { GpuCell, JobRow, ReadModel } from "../../src/model/window/parts.ts";
import { sumsOf } from "../../src/model/window/sums.ts";
import { job, ModelScript, model } from "../../testing/window/readModels.ts";
import { closeAll, open, serve, startChromium, type Told, told, untilRev } from "./chromium.ts";

const started = await startChromium();
const missing = typeof started === "string" ? started : undefined;
if (missing !== undefined) process.stderr.write(`muster: no Chromium here: ${missing}\n`);
const browser = started as Browser;
afterEach(closeAll);
afterAll(async () => {
  if (missing === undefined) await browser.close();
});

/** As many nodes with eight GPUs as asked for. */
function large(rev: number, nodes: number, cell: (at: number) => GpuCell): ReadModel {
  const gpus = Array.from({ length: nodes * 8 }, (_, at) => cell(at));
  const base = model(rev);
  const columns = Array.from({ length: nodes }, (_, at) => [`n${at}`, Math.floor(at / 8), 0, "ready", 8, ""] as const);
  const racks = Array.from({ length: Math.ceil(nodes / 8) }, (_, at) => `r${at + 1}`);
  return { ...base, wall: { ...base.wall, racks, nodes: columns, gpus, sums: sumsOf(gpus) } };
}

const text = (selector: string): string => document.querySelector(selector)?.textContent ?? "";

describe.skipIf(missing !== undefined)("the page", () => {
  test("shows dashes and no number before the cluster is read, then the numbers of one revision", async () => {
    const source = new ModelScript();
    const server = await serve(source);
    const { page } = await open(browser, server.url);
    await page.waitForSelector(".eq");
    expect(await page.locator("main").innerText()).not.toMatch(/\d/);
    source.next = model(41, { gpus: [["f"], ["u", [[1, 1, 1000, 0]]], ["x", [], 0, "xid"]] });
    await untilRev(page, 41);
    expect(await page.evaluate(text, ".eq")).toMatch(
      /^3 GPUs = *1in use\+0leaving\+1free\+0free in shares\+0cordoned\+0unknown\+1broken$/,
    );
    expect(await page.getAttribute(".rev", "data-rev")).toBe("41");
  });

  test("reports when the sums do not add up", async () => {
    const whole = model(5);
    const source = new ModelScript({ ...whole, wall: { ...whole.wall, sums: { ...whole.wall.sums, free: 1000 } } });
    const server = await serve(source);
    const { page } = await open(browser, server.url);
    await page.waitForSelector("[data-stripe=sums]");
    expect(await page.evaluate(text, "[data-stripe=sums]")).toContain(
      "The sums do not close: 2 GPUs, and the parts come to 1",
    );
  });

  test("keeps its data while the connection is cut, continues with differences, and starts again in another epoch", async () => {
    const source = new ModelScript(model(1));
    const server = await serve(source);
    const { page } = await open(browser, server.url);
    await untilRev(page, 1);
    await page.evaluate(() => {
      const seen: string[] = [];
      const look = (): void => {
        seen.push(document.querySelector(".eq .big")?.textContent ?? "");
      };
      new MutationObserver(look).observe(document.body, { subtree: true, childList: true, characterData: true });
      Object.assign(globalThis, { seen });
    });
    const port = Number(new URL(server.url).port);
    await server.stop();
    await page.waitForSelector("[data-stripe=stale]", { timeout: 10_000 });
    expect(await page.evaluate(text, "[data-stripe=stale]")).toContain("Everything here is as of revision 1.");
    const listen = { host: "127.0.0.1", port };
    const again = await serve(source, { listen, epoch: "e2" });
    await page.waitForFunction(() => document.querySelector("[data-stripe=stale]") === null);
    expect((await told(page)).counters.resets).toBe(1);
    again.cut();
    source.next = model(2, { gpus: [["f"], ["c"]] });
    await untilRev(page, 2);
    const { counters } = await told(page);
    expect(counters).toMatchObject({ resets: 1, snapshots: 8 });
    const seen = await page.evaluate(() => (globalThis as { seen?: string[] }).seen ?? []);
    expect(new Set(seen)).toEqual(new Set(["2"]));
  });

  test("keeps rows in their places while the pointer is in the list, counts the changes, and applies them on leaving", async () => {
    const names = ["a/one", "a/two", "a/three"];
    const jobs = (turn: number): JobRow[] => {
      const order = turn % 2 === 0 ? names : [...names].reverse();
      return order.map((id) => job(id, id === "a/two" ? { gpus: 1000 * (turn + 1) } : {}));
    };
    const source = new ModelScript(model(1, { jobs: jobs(0) }));
    const server = await serve(source);
    const { page } = await open(browser, server.url);
    await page.waitForSelector("[data-job='a/one']");
    await page.hover("[data-job='a/two']");
    const order = (): Promise<(string | null)[]> =>
      page.$$eval("[data-job]", (rows) => rows.map((row) => row.getAttribute("data-job")));
    for (let turn = 1; turn <= 49; turn++) {
      source.next = model(turn + 1, { jobs: jobs(turn) });
      server.feed.look();
      await untilRev(page, turn + 1);
    }
    expect(await order()).toEqual(names);
    expect(await page.getAttribute("[data-changes]", "data-changes")).toBe("49");
    source.next = model(60, { jobs: jobs(49).filter(({ id }) => id !== "a/two") });
    server.feed.look();
    await untilRev(page, 60);
    expect(await page.getAttribute("[data-job='a/two']", "class")).toContain("ended");
    await page.mouse.move(300, 400);
    await page.waitForFunction(() => document.querySelectorAll("[data-job]").length === 2);
    expect(await order()).toEqual(["a/three", "a/one"]);
  });

  test("reports that a revision is no longer in the history, and offers the oldest or live", async () => {
    const source = new ModelScript(model(100));
    const server = await serve(source);
    const { page } = await open(browser, server.url, "/wall?rev=7");
    await page.waitForSelector("[data-stripe=forgotten]");
    expect(await page.evaluate(text, "[data-stripe=forgotten]")).toContain(
      "Revision 7 is no longer known. The oldest is 100.",
    );
    await page.click("text=go to live");
    await page.waitForFunction(
      () => document.querySelector("[data-stripe=forgotten]") === null && location.search === "",
    );
  });

  test("shows a moment of the past at its own revision, and the newest again", async () => {
    const source = new ModelScript(model(10));
    const server = await serve(source);
    source.next = model(20, { gpus: [["f"], ["c"]], jobs: [job("a/b")] });
    server.feed.look();
    const { page } = await open(browser, server.url, "/wall?rev=10");
    await page.waitForSelector(".rev.past");
    expect(await page.getAttribute("main", "data-rev")).toBe("10");
    expect(await page.evaluate(text, "[data-term=cordoned] b")).toBe("0");
    await page.keyboard.press("0");
    await untilRev(page, 20);
    expect(await page.evaluate(text, "[data-term=cordoned] b")).toBe("1");
  });

  test("asks nothing of any other server, breaks no policy, and takes the token out of the address", async () => {
    const source = new ModelScript(model(1, { jobs: [job("a/b")] }));
    const server = await serve(source);
    const { page, asked, complaints } = await open(browser, server.url);
    await untilRev(page, 1);
    for (const key of ["2", "3", "4", "1"]) await page.keyboard.press(key);
    await page.evaluate(() => document.fonts.ready);
    const { origin } = new URL(server.url);
    expect(asked.length).toBeGreaterThan(4);
    expect(asked.filter((address) => !address.startsWith(`${origin}/`))).toEqual([]);
    expect(asked.filter((address) => address.includes("token"))).toEqual([]);
    expect(await page.evaluate(() => location.hash)).toBe("");
    expect(complaints).toEqual([]);
  });

  test("without the token says where it is, and shows nothing", async () => {
    const server = await serve(new ModelScript(model(1)));
    const { page } = await open(browser, new URL(server.url).origin);
    await page.waitForSelector("text=The token is missing or wrong");
  });

  test("shows names that try to deceive as what they are", async () => {
    const source = new ModelScript(model(1, { jobs: [job("a/<img src=x onerror=alert(1)>\u202eexe")] }));
    const server = await serve(source);
    const { page, complaints } = await open(browser, server.url);
    await page.waitForSelector(".item .name");
    expect(await page.evaluate(text, ".item .name")).toBe("<img src=x onerror=alert(1)>\\u202eexe");
    expect(complaints).toEqual([]);
  });

  test("works by keyboard alone: views, finder, wall, lists", async () => {
    const source = new ModelScript(model(1, { jobs: [job("a/b")], gpus: [["f"], ["f"], ["x", [], 0, "xid"]] }));
    const server = await serve(source);
    const { page } = await open(browser, server.url);
    await untilRev(page, 1);
    for (const [key, view] of [
      ["2", "why"],
      ["3", "queues"],
      ["4", "gangs"],
      ["1", "wall"],
    ] as const) {
      await page.keyboard.press(key);
      await page.waitForSelector(`main[data-view=${view}]`);
    }
    await page.focus("canvas.over");
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("Enter");
    await page.waitForSelector("dd[data-state=x]");
    expect(await page.evaluate(() => location.pathname)).toBe("/wall/n1/2");
    await page.reload();
    await page.waitForSelector("dd[data-state=x]");
    await page.keyboard.press("Escape");
    await page.waitForFunction(() => location.pathname === "/wall");
    await page.keyboard.press("Shift+W");
    await page.waitForSelector("main table");
    await page.keyboard.press("Shift+W");
    await page.waitForSelector("canvas.over");
    await page.keyboard.press("/");
    await page.keyboard.type("n1");
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => location.pathname === "/wall/n1");
    await page.keyboard.press("Escape");
    await page.keyboard.press("j");
    await page.waitForFunction(() => document.activeElement?.getAttribute("data-job") === "a/b");
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => location.pathname === "/why/a/b");
    await page.goBack();
    await page.waitForSelector("main[data-view=wall]");
    const before = await page.evaluate(() => document.documentElement.dataset["theme"]);
    await page.keyboard.press("t");
    expect(await page.evaluate(() => document.documentElement.dataset["theme"])).not.toBe(before);
  });

  test("the finder takes the key that follows its shortcut at once", async () => {
    const source = new ModelScript(model(1, { gpus: [["f"]] }));
    const server = await serve(source);
    const { page } = await open(browser, server.url);
    await untilRev(page, 1);
    const label = await page.evaluate(async () => {
      dispatchEvent(new KeyboardEvent("keydown", { key: "/" }));
      // The page renders in a microtask. No frame is painted in between.
      for (let turn = 0; turn < 10; turn++) await Promise.resolve();
      return document.activeElement?.getAttribute("aria-label");
    });
    expect(label).toBe("find");
  });

  test("draws as many tiles as change, of ten thousand", async () => {
    const source = new ModelScript(large(1, 1250, () => ["f"]));
    const server = await serve(source);
    const { page } = await open(browser, server.url);
    await untilRev(page, 1);
    const isDrawn = (): Promise<unknown> =>
      page.waitForFunction(() => {
        const { tiles = 0, waiting = 1 } = (globalThis as { musterWindow?: Told }).musterWindow?.drawn ?? {};
        return tiles >= 10_000 && waiting === 0;
      });
    await page.evaluate(() => document.fonts.ready);
    await isDrawn();
    // A stripe that comes above the wall on a busy machine, or a late font, gives the wall another size: drawing all of it
    // is right then, and only then.
    await page.evaluate(() => {
      const wall = document.querySelector(".canvas-scroll") as Element;
      const sizes: string[] = [];
      new ResizeObserver(() => sizes.push(`${wall.clientWidth}x${wall.clientHeight}`)).observe(wall);
      Object.assign(globalThis, { sizes });
    });
    await page.waitForFunction(() => (globalThis as { sizes?: string[] }).sizes?.length === 1);
    await isDrawn();
    const before = (await told(page)).drawn;
    for (let turn = 1; turn <= 10; turn++) {
      source.next = large(turn + 1, 1250, (at) =>
        at % 50 === 0 && at < 10_000 ? ["u", [[1, at + turn, 1000, 0]]] : ["f"],
      );
      server.feed.look();
      await untilRev(page, turn + 1);
    }
    await isDrawn();
    const after = (await told(page)).drawn;
    const resized = (await page.evaluate(() => (globalThis as { sizes?: string[] }).sizes ?? [])).length - 1;
    const changed = after.changed - before.changed;
    expect(changed).toBe(2_000);
    expect(after.tiles - before.tiles).toBeLessThanOrEqual(changed + 16 + resized * 10_000);
    expect(after.whole - before.whole).toBeLessThanOrEqual(resized);
  });
});
