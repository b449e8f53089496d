/** The window of a real `muster up`: what it shows is what the API says, and it can be seen and read. */
import { execFile, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { GangsPart, JobsPart, QueuesPart, WallPart } from "../../src/model/window/parts.ts";
import { isClosed } from "../../src/model/window/sums.ts";
import { closeAll, open, startChromium, untilRev } from "./chromium.ts";

const started = await startChromium();
const missing = typeof started === "string" ? started : undefined;
const browser = started as Browser;
const program = fileURLToPath(new URL("../../dist/bundle/program/main.js", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "muster-window-"));
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

let up: ReturnType<typeof spawn>;
let url = "";
let errors = "";

/** Runs a command of the program against the cluster. */
async function muster(...words: string[]): Promise<void> {
  await promisify(execFile)(process.execPath, [program, ...words, "--data-dir", folder]);
}

async function api<T>(path: string): Promise<T & { rev: number }> {
  const { origin, hash } = new URL(url);
  const headers = { authorization: `Bearer ${hash.slice("#token=".length)}` };
  const response = await fetch(`${origin}/api/v1/${path}`, { headers });
  expect(response.status, path).toBe(200);
  return (await response.json()) as T & { rev: number };
}

beforeAll(async () => {
  if (missing !== undefined) return;
  const flags = ["--demo", "--memory", "--port", "0", "--dashboard-port", "0", "--pool", "h100=9", "--pool", "t4=2"];
  up = spawn(process.execPath, [program, "up", ...flags, "--data-dir", folder, "-o", "json"]);
  up.stderr?.on("data", (bytes: Buffer) => {
    errors += bytes.toString();
  });
  url = await new Promise<string>((done) => {
    let text = "";
    up.stdout?.on("data", (bytes: Buffer) => {
      text += bytes.toString();
      if (text.includes("\n")) done((JSON.parse(text) as { dashboard: string }).dashboard);
    });
  });
});

afterEach(closeAll);
afterAll(async () => {
  if (missing === undefined) {
    const ended = new Promise((done) => up.once("exit", done));
    up.kill("SIGTERM");
    await Promise.all([browser.close(), ended]);
  }
  rmSync(folder, { recursive: true, force: true });
});

interface Axe {
  run(): Promise<{ violations: { id: string; impact: string; nodes: { html: string }[] }[] }>;
}

const sizes = [
  { width: 1440, height: 900 },
  { width: 1280, height: 800 },
  { width: 390, height: 844 },
] as const;
const addresses = ["/wall", "/wall/h100-0/1", "/why", "/queues", "/gangs"] as const;

/** Text that is too small, cut without an ellipsis, or wider than the screen. */
function troubleWithText(page: Page): Promise<string[]> {
  return page.evaluate(() => {
    const found: string[] = [];
    if (document.documentElement.scrollWidth > innerWidth)
      found.push(`the page is ${document.documentElement.scrollWidth} wide`);
    for (const element of document.querySelectorAll<HTMLElement>("body *")) {
      const own = [...element.childNodes].some(
        (node) => node.nodeType === Node.TEXT_NODE && node.textContent?.trim() !== "",
      );
      const box = element.getBoundingClientRect();
      if (!own || box.width === 0 || element.closest(".hidden-text") !== null) continue;
      const style = getComputedStyle(element);
      if (Number.parseFloat(style.fontSize) < 11) found.push(`${element.textContent} is ${style.fontSize}`);
      const isCut =
        element.scrollWidth > element.clientWidth + 1 &&
        style.overflowX === "hidden" &&
        style.textOverflow !== "ellipsis";
      if (isCut) found.push(`${element.textContent} is cut`);
    }
    return found;
  });
}

describe.skipIf(missing !== undefined)("the window of a cluster", () => {
  test("says in each view what the API says at the revision in the chip", async () => {
    const { page } = await open(browser, url);
    const first = await api<JobsPart>("jobs");
    await untilRev(page, first.rev);
    for (const view of ["wall", "why", "queues", "gangs"]) {
      await page.click(`.nav a[href^='/${view}']`);
      await page.waitForSelector(`main[data-view=${view}]`);
      // One frame: what is read of the page is of one revision.
      const { rev, terms, jobs, queues, gangs } = await page.evaluate(() => {
        const texts = (selector: string): string[] =>
          [...document.querySelectorAll(selector)].map(({ textContent }) => textContent ?? "");
        return {
          rev: Number(document.querySelector<HTMLElement>(".rev")?.dataset["rev"]),
          terms: texts(".eq .big, .eq .term b"),
          jobs: [...document.querySelectorAll("[data-job]")].map((row) => row.getAttribute("data-job")),
          queues: [...document.querySelectorAll("[data-queue]")].map((row) => row.getAttribute("data-queue")),
          gangs: document.querySelectorAll("main[data-view=gangs] tbody tr").length,
        };
      });
      const wall = await api<WallPart>(`wall?rev=${rev}`);
      expect(wall.rev).toBe(rev);
      expect(isClosed(wall.sums, wall.gpus)).toBe(true);
      if (view === "wall") {
        const { total, used, leaving, free, freeInShares, cordoned, unknown, broken } = wall.sums;
        expect(terms.map(Number)).toEqual(
          [total, used, leaving, free, freeInShares, cordoned, unknown, broken].map((milli) => milli / 1000),
        );
      }
      if (view === "wall" || view === "why")
        expect(jobs).toEqual((await api<JobsPart>(`jobs?rev=${rev}`)).jobs.map(({ id }) => id));
      if (view === "queues")
        expect(queues).toEqual((await api<QueuesPart>(`queues?rev=${rev}`)).queues.map(({ name }) => name));
      if (view === "gangs") expect(gangs).toBe((await api<GangsPart>(`gangs?rev=${rev}`)).gangs.length);
    }
  });

  test("shows a GPU that breaks and one that is well again, at one revision in the tile and in the sums", async () => {
    const { page } = await open(browser, url, "/wall/h100-8/7");
    await page.waitForSelector("dd[data-state=f]");
    const pixel = (): Promise<string> =>
      page.evaluate(() => {
        const canvas = document.querySelector<HTMLCanvasElement>("canvas.tiles");
        const image = canvas?.getContext("2d")?.getImageData(0, 0, canvas.width, canvas.height).data ?? [];
        let red = 0;
        for (let at = 0; at < image.length; at += 4)
          if ((image[at] ?? 0) > 200 && (image[at + 1] ?? 0) < 130 && (image[at + 2] ?? 0) < 120) red++;
        return red > 20 ? "red" : "not red";
      });
    expect(await pixel()).toBe("not red");
    await muster("fault", "gpu-unhealthy", "--node", "h100-8", "--device", "7");
    await page.waitForSelector("dd[data-state=x]");
    expect(await page.evaluate(() => document.querySelector("[data-term=broken] b")?.textContent)).toBe("1");
    await page.waitForFunction(
      () =>
        document.querySelector<HTMLElement>(".canvas-box")?.dataset["rev"] ===
        document.querySelector("main")?.dataset["rev"],
    );
    expect(await pixel()).toBe("red");
    await muster("fault", "clear", "--all");
    await page.waitForSelector("dd[data-state=f]");
  });

  test("says of each node why it is refused, with the sentence of the condition and a cure", async () => {
    const { page } = await open(browser, url, "/why/research/too-big");
    await page.waitForSelector("[data-class]");
    const { total, evidence } = await api<{ total: number; evidence: { nodes: string[] }[] }>("why/research/too-big");
    const counts = await page.$$eval("[data-count]", (rows) =>
      rows.map((row) => Number(row.getAttribute("data-count"))),
    );
    expect(counts.reduce((sum, count) => sum + count, 0)).toBe(total);
    expect(evidence.flatMap(({ nodes }) => nodes)).toHaveLength(total);
    const { jobs } = await api<JobsPart>("jobs");
    const job = jobs.find(({ id }) => id === "research/too-big");
    expect(await page.textContent("[data-sentence]")).toBe(`${job?.message}. To run: ${job?.cure}`);
    expect(await page.textContent("[data-cure=free] .what")).toBe(job?.cure);
  });

  test.each(["dark", "light"] as const)("has no serious finding of axe in any view, %s", async (theme) => {
    const { page } = await open(browser, url, "/wall", { theme });
    await page.waitForFunction(() => document.querySelectorAll("[data-job]").length > 0);
    for (const address of addresses) {
      await page.evaluate((to) => {
        history.pushState(null, "", to);
        dispatchEvent(new PopStateEvent("popstate"));
      }, address);
      await page.waitForSelector(`main[data-view=${address.split("/")[1]}]`);
      // The policy of the page allows no script by text; the protocol of the developer tools is not the page's.
      const session = await page.context().newCDPSession(page);
      await session.send("Runtime.evaluate", { expression: axe, allowUnsafeEvalBlockedByCSP: true });
      const found = await page.evaluate(async () => {
        const { violations } = (await (globalThis as { axe?: Axe }).axe?.run()) ?? { violations: [] };
        return violations
          .filter(({ impact }) => impact === "serious" || impact === "critical")
          .map(({ id, nodes }) => `${id}: ${nodes[0]?.html}`);
      });
      expect(found, address).toEqual([]);
      await session.detach();
    }
  });

  test.each(sizes)("fits a screen of $width, with no text below 11 pixels or cut", async (size) => {
    const { page } = await open(browser, url, "/wall", size);
    await page.waitForFunction(() => Number(document.querySelector("main")?.dataset["rev"]) > 0);
    for (const address of addresses) {
      await page.evaluate((to) => {
        history.pushState(null, "", to);
        dispatchEvent(new PopStateEvent("popstate"));
      }, address);
      await page.waitForSelector(`main[data-view=${address.split("/")[1]}]`);
      expect(await troubleWithText(page), address).toEqual([]);
    }
  });

  test("writes nothing to standard error", () => {
    expect(errors).toBe("");
  });
});
