/** A real headless Chromium from npm, and the window's page in it. */
import { fileURLToPath } from "node:url";
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import { systemClock } from "../../src/adapters/systemClock.ts";
import { startWindow, type WindowServer, type WindowServerOptions } from "../../src/window/startWindow.ts";
import { readStaticFiles } from "../../src/window/staticFiles.ts";
import type { ModelScript } from "../../testing/window/readModels.ts";

/** Skips are for machines on which Chromium cannot start; the reason is printed. */
export async function startChromium(): Promise<Browser | string> {
  try {
    const { default: packed } = await import("@sparticuz/chromium");
    const executablePath = await packed.executablePath();
    // In one process the first tab that closes ends the browser.
    const args = packed.args.filter((flag) => flag !== "--single-process" && flag !== "--no-zygote");
    return await chromium.launch({ executablePath, args, headless: true });
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

export const token = "a-token-of-forty-three-characters-in-base64";

const opened: { close(): Promise<unknown> }[] = [];

/** Closes the tabs and servers of a test, also of one that failed: what is left over takes time from the next. */
export async function closeAll(): Promise<void> {
  await Promise.allSettled(opened.splice(0).map((each) => each.close()));
}

/** The window's server in this process, with models that the test hands out. */
export async function serve(source: ModelScript, more: Partial<WindowServerOptions> = {}): Promise<WindowServer> {
  const server = await startWindow({
    source,
    questions: {},
    actions: {},
    files: readStaticFiles(fileURLToPath(new URL("../../dist/dashboard/", import.meta.url))),
    clock: systemClock(),
    token,
    epoch: "e1",
    mode: "embedded",
    isDemo: false,
    version: "0",
    listen: { host: "127.0.0.1", port: 0 },
    ...more,
  });
  opened.push({ close: () => server.stop() });
  return server;
}

/** What the page tells its tests. */
export interface Told {
  readonly drawn: { tiles: number; changed: number; frames: number; whole: number; waiting: number };
  readonly counters: { resets: number; deltas: number; snapshots: number; connects: number };
}

export function told(page: Page): Promise<Told> {
  return page.evaluate(() => {
    const { drawn, counters } = (globalThis as { musterWindow?: Told }).musterWindow as Told;
    return { drawn: { ...drawn }, counters: { ...counters } };
  });
}

/** Until everything on the screen is of that revision or a later one. */
export async function untilRev(page: Page, rev: number): Promise<void> {
  await page.waitForFunction((least) => Number(document.querySelector("main")?.dataset["rev"] || -1) >= least, rev);
}

export interface Opened {
  readonly page: Page;
  readonly context: BrowserContext;
  /** Addresses that the page has asked for. */
  readonly asked: string[];
  /** What the browser complained about. */
  readonly complaints: string[];
}

/** A tab of its own on a view of the window. */
export async function open(
  browser: Browser,
  url: string,
  path = "/wall",
  { width = 1440, height = 900, theme = "dark" as "dark" | "light" } = {},
): Promise<Opened> {
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme: theme,
    reducedMotion: "reduce",
  });
  opened.push(context);
  context.setDefaultTimeout(90_000);
  const page = await context.newPage();
  const asked: string[] = [];
  const complaints: string[] = [];
  page.on("request", (request) => asked.push(request.url()));
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(error.message));
  const at = new URL(url);
  await page.goto(`${at.origin}${path}${at.hash}`);
  return { page, context, asked, complaints };
}
