import { equalJson } from "../../model/objects/json.ts";
import { type Fields, formOf, get, isEmptyFields, put, type Shape } from "./shape.ts";

/**
 * Merges an applied configuration into the live object. Leaves come from the configuration; fields that it does not
 * mention stay. The result shares unchanged subtrees with the live object and is the live object itself if nothing
 * differs, so callers copy before they change it. Throws UnnamedItemError.
 */
export function mergeObjects(shape: Shape, live: unknown, config: unknown): unknown {
  if (config === undefined || config === live) return live;
  if (live === undefined) return config;
  const form = formOf(shape, config);
  if (form === "leaf") return equalJson(live, config) ? live : config;
  if (form !== formOf(shape, live) && live !== null) return config;
  if (form === "fields") {
    if (config === null || isEmptyFields(config as Fields)) {
      return live === null || isEmptyFields(live as Fields) ? sameEmpty(live, config) : live;
    }
    return live === null ? config : mergeFields(shape, live as Fields, config as Fields);
  }
  if (config === null || (config as unknown[]).length === 0) {
    return live === null || (live as unknown[]).length === 0 ? sameEmpty(live, config) : live;
  }
  return live === null ? config : mergeLists(shape, live as unknown[], config as unknown[]);
}

/** `{}` over null and null over `{}` is a change; equal kinds of empty are none. */
function sameEmpty(live: unknown, config: unknown): unknown {
  return (live === null) === (config === null) ? live : config;
}

function mergeFields(shape: Shape, live: Fields, config: Fields): Fields {
  let out: Record<string, unknown> | undefined;
  for (const name in config) {
    const wanted = config[name];
    if (wanted === undefined) continue;
    const current = get(live, name);
    if (current === wanted) continue;
    const below = shape.field(name)?.shape ?? shape.undeclared;
    if (below === undefined) continue;
    const merged = mergeObjects(below, current, wanted);
    if (merged === current) continue;
    out ??= copyFields(live);
    put(out, name, merged);
  }
  return out ?? live;
}

function copyFields(fields: Fields): Record<string, unknown> {
  const copy: Record<string, unknown> = {};
  for (const name in fields) if (fields[name] !== undefined) put(copy, name, fields[name]);
  return copy;
}

/**
 * The result has the configured items in their configured order, with the others kept where they were relative to their
 * neighbours. Live items with the same key are replaced by the one configured item.
 *
 * Walks both lists at once. `next` is the next item, in configured order, that both lists have: a live item that both
 * have but that comes later in the configuration is skipped and taken from the configuration.
 */
function mergeLists(shape: Shape, live: readonly unknown[], config: readonly unknown[]): readonly unknown[] {
  const below = shape.items;
  const liveNames = live.map((item) => shape.nameItem(item));
  const configNames = config.map((item) => shape.nameItem(item));
  const liveByName = new Map<string, unknown>();
  liveNames.forEach((name, i) => {
    liveByName.set(name, liveByName.has(name) ? undefined : live[i]);
  });
  const configured = new Set(configNames);
  const shared = configNames.filter((name) => liveByName.has(name));
  let nextShared = 0;
  const out: unknown[] = [];
  const taken = new Set<string>();
  const take = (i: number) => {
    const name = configNames[i] as string;
    taken.add(name);
    if (shared[nextShared] === name) nextShared++;
    out.push(mergeObjects(below, liveByName.get(name), config[i]));
  };
  let l = 0;
  let c = 0;
  while (l < live.length || c < config.length) {
    if (l < live.length) {
      const name = liveNames[l] as string;
      if (c < config.length && name === configNames[c]) {
        take(c++);
        l++;
        continue;
      }
      if (!configured.has(name)) {
        out.push(live[l++]);
        continue;
      }
      const isTurn = shared[nextShared] === name;
      if (c < config.length && nextShared < shared.length && !isTurn) {
        l++;
        continue;
      }
      if (taken.has(name)) l++;
    }
    if (c < config.length) take(c++);
  }
  const isSame = out.length === live.length && out.every((item, i) => item === live[i]);
  return isSame ? live : out;
}
