/** The address: view, selection, revision and the view's own parameters. Back and forward work, a reload stays. */
import { computed, signal } from "@preact/signals";

export const views = ["wall", "why", "queues", "gangs"] as const;
export type View = (typeof views)[number];

export interface Route {
  readonly view: View;
  /** The path segment after the view's name. */
  readonly path: readonly string[];
  readonly query: ReadonlyMap<string, string>;
}

function read(): Route {
  const [first = "", ...path] = location.pathname
    .split("/")
    .filter((part) => part !== "")
    .map(decode);
  const view = views.find((each) => each === first) ?? "wall";
  return { view, path, query: new Map(new URLSearchParams(location.search)) };
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export const route = signal<Route>(read());
/** The revision that the address names; undefined: the newest. */
export const askedRev = computed(() => {
  const text = route.value.query.get("rev");
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : undefined;
});

addEventListener("popstate", () => {
  route.value = read();
});

/** The address of a view. The revision that is shown is kept. */
export function href(view: View, path: readonly string[] = [], query: Readonly<Record<string, string>> = {}): string {
  const rev = askedRev.peek();
  const all = new URLSearchParams({ ...query, ...(rev !== undefined && { rev: String(rev) }) });
  const text = all.toString();
  return `/${[view, ...path.map(encodeURIComponent)].join("/")}${text === "" ? "" : `?${text}`}`;
}

export function go(address: string, { replace = false } = {}): void {
  if (replace) history.replaceState(null, "", address);
  else history.pushState(null, "", address);
  route.value = read();
}

/** Same view and selection, with some parameters changed; an empty one is removed. */
export function goWith(query: Readonly<Record<string, string>>, { replace = false } = {}): void {
  const all = new URLSearchParams([...route.value.query]);
  for (const [key, value] of Object.entries(query)) {
    if (value === "") all.delete(key);
    else all.set(key, value);
  }
  const text = all.toString();
  go(`${location.pathname}${text === "" ? "" : `?${text}`}`, { replace });
}

/** Links of the page change the address without loading it again. */
export function followLinks(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
  const anchor = (event.target as Element | null)?.closest?.("a[href^='/']");
  const address = anchor?.getAttribute("href");
  if (address === null || address === undefined) return;
  event.preventDefault();
  go(address);
}
