/** Which colour a queue has: by the hash of its name, over the leaves in the order of the tree. */
import type { QueueRow } from "../model/window/parts.ts";

export const colourCount = 6;

function hashOf(text: string): number {
  let hash = 2166136261;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 16777619);
  return hash >>> 0;
}

/** An index of the six colours, and which lightness of it: from the seventh leaf on queues share colours. */
export interface QueueColour {
  readonly index: number;
  readonly shade: number;
}

/** `before` keeps the colours of queues that stay, whatever comes and goes beside them. */
export function queueColours(
  queues: readonly QueueRow[],
  before: ReadonlyMap<string, QueueColour> = new Map(),
): ReadonlyMap<string, QueueColour> {
  const leaves = queues.filter(({ isLeaf }) => isLeaf);
  const colours = new Map<string, QueueColour>();
  const used = new Map<number, number>();
  const take = (name: string, colour: QueueColour): void => {
    colours.set(name, colour);
    used.set(colour.index, Math.max(used.get(colour.index) ?? 0, colour.shade + 1));
  };
  for (const { name } of leaves) {
    const known = before.get(name);
    if (known !== undefined) take(name, known);
  }
  for (const { name, parent } of leaves) {
    if (colours.has(name)) continue;
    const wanted = hashOf(name) % colourCount;
    const free = Array.from({ length: colourCount }, (_, n) => (wanted + n) % colourCount).find((at) => !used.has(at));
    if (free !== undefined) {
      take(name, { index: free, shade: 0 });
      continue;
    }
    const sibling = leaves.find((each) => each.parent === parent && colours.has(each.name));
    const index = (sibling === undefined ? undefined : colours.get(sibling.name)?.index) ?? wanted;
    take(name, { index, shade: used.get(index) ?? 0 });
  }
  return colours;
}

/** As CSS; a pod without a queue has the colour of quiet text. */
export function colourText(colour: QueueColour | undefined): string {
  if (colour === undefined) return "var(--ink3)";
  const base = `var(--q${colour.index})`;
  if (colour.shade === 0) return base;
  const part = colour.shade % 2 === 1 ? "white" : "black";
  return `color-mix(in oklab, ${base} ${Math.max(40, 80 - 12 * Math.ceil(colour.shade / 2))}%, ${part})`;
}
