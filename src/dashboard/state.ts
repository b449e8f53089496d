/** The state of the page as signals. Values that the server can compute are not computed here. */
import { computed, signal } from "@preact/signals";
import type { ReadModel } from "../model/window/parts.ts";
import { isClosed, rightSide } from "../model/window/sums.ts";
import { type QueueColour, queueColours } from "./colours.ts";

export interface About {
  readonly mode: "embedded" | "attached" | "file";
  readonly version: string;
  readonly isDemo: boolean;
  readonly oldest: number | null;
  readonly newest: number | null;
  readonly actions: readonly string[];
  readonly clock: string;
}

/** `reading` before the first data; `live`; `cut` while the stream is broken; `refused` when it must not go on. */
export type Link =
  | { readonly kind: "reading" }
  | { readonly kind: "live" }
  | { readonly kind: "cut"; readonly sinceMs: number; readonly retries: number }
  | { readonly kind: "refused"; readonly status: number; readonly message: string };

export const about = signal<About | undefined>(undefined);
export const link = signal<Link>({ kind: "reading" });
export const live = signal<ReadModel | undefined>(undefined);
/** The earlier model that is shown instead of the newest one. */
export const past = signal<ReadModel | undefined>(undefined);
/** A requested revision that is no longer in the history. */
export const forgotten = signal<{ readonly rev: number; readonly oldest: number } | undefined>(undefined);
/** The one model that everything on the screen is drawn from. */
export const shown = computed(() => past.value ?? live.value);
export const isPast = computed(() => past.value !== undefined);

/** When the server last confirmed that the model is current, by its own clock. */
export const confirmedMs = signal(0);
export const behindMs = signal(0);
/** The offset of the server's clock from the browser's. */
export const offsetMs = signal(0);
/** The browser's clock, updated ten times and once a second. */
export const tenths = signal(Date.now());
export const seconds = signal(Date.now());

export const serverNowMs = computed(() => seconds.value + offsetMs.value);
/** Durations end at the time of the model that is shown. */
export const momentMs = computed(() => {
  const still = past.value ?? (about.value?.mode === "file" ? live.value : undefined);
  return still === undefined ? serverNowMs.value : Date.parse(still.at);
});

export const ageMs = computed(() => Math.max(0, tenths.value + offsetMs.value - confirmedMs.value));
const staleMs = 10_000;
const behindFromMs = 3_000;

export type Freshness = "reading" | "live" | "behind" | "stale" | "past" | "file";
export const freshness = computed((): Freshness => {
  if (live.value === undefined) return "reading";
  if (past.value !== undefined) return "past";
  if (about.value?.mode === "file") return "file";
  if (link.value.kind === "refused" || (link.value.kind === "cut" && link.value.retries > 0)) return "stale";
  const isOld = seconds.value + offsetMs.value - confirmedMs.value;
  if (isOld > staleMs || behindMs.value > staleMs) return "stale";
  return isOld > behindFromMs || behindMs.value > 0 ? "behind" : "live";
});

let kept: ReadonlyMap<string, QueueColour> = new Map();
export const colours = computed(() => {
  const { queues = [] } = shown.value?.queues ?? {};
  kept = queueColours(queues, kept);
  return kept;
});

/** Both sides of the equation where it does not close. */
export const openSums = computed(() => {
  const wall = shown.value?.wall;
  if (wall === undefined || isClosed(wall.sums, wall.gpus)) return undefined;
  return { total: wall.sums.total, right: rightSide(wall.sums) };
});

const themeKey = "muster-theme";
function firstTheme(): "dark" | "light" {
  const saved = localStorage.getItem(themeKey);
  if (saved === "dark" || saved === "light") return saved;
  return matchMedia("(prefers-color-scheme: light)").matches ? "light" : "dark";
}
export const theme = signal<"dark" | "light">(firstTheme());

export function toggleTheme(): void {
  theme.value = theme.value === "dark" ? "light" : "dark";
  localStorage.setItem(themeKey, theme.value);
}

export function startClocks(): void {
  setInterval(() => {
    tenths.value = Date.now();
  }, 100);
  setInterval(() => {
    seconds.value = Date.now();
  }, 1000);
}
