/** Numbers, times and names as the page shows them. */

const grouped = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });
const parts = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 2 });

/** Unknown is an en dash, never a zero. */
export const unknown = "–";

/** Thousandths of a GPU as GPUs: `176.5`. */
export function gpus(milli: number | undefined): string {
  return milli === undefined ? unknown : parts.format(milli / 1000);
}

export function count(value: number | undefined): string {
  return value === undefined ? unknown : grouped.format(value);
}

/** `14 m`, `2 d`: for lists. */
export function shortSpan(ms: number): string {
  const s = Math.max(0, Math.floor(ms / 1000));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} m`;
  if (s < 2 * 86_400) return `${Math.floor(s / 3600)} h`;
  return `${Math.floor(s / 86_400)} d`;
}

/** `14 m 06 s`. */
export function span(ms: number): string {
  const s = Math.max(0, Math.floor(ms / 1000));
  if (s < 60) return `${s} s`;
  const two = (value: number): string => String(value).padStart(2, "0");
  if (s < 3600) return `${Math.floor(s / 60)} m ${two(s % 60)} s`;
  if (s < 86_400) return `${Math.floor(s / 3600)} h ${two(Math.floor((s % 3600) / 60))} m`;
  return `${Math.floor(s / 86_400)} d ${Math.floor((s % 86_400) / 3600)} h`;
}

/** `14:32:08`, in the reader's own zone. */
export function clock(ms: number): string {
  return new Date(ms).toLocaleTimeString("en-GB", { hour12: false });
}

const nameMax = 253;
// Control characters, and those that turn the direction of text: a name must not be able to look like another.
const unsafe = /[\p{Cc}\p{Cf}\u2028\u2029]/gu;

/** A name of an object as text: cut, with characters that could deceive written out. */
export function name(text: string): string {
  const cut = text.length > nameMax ? `${text.slice(0, nameMax)}…` : text;
  return cut.replace(unsafe, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** `atlas` of `pretrain/atlas`. */
export function bareName(id: string): string {
  const bare = id.slice(id.indexOf("/") + 1);
  // The pod grouper names a group after its workload and the workload's UID.
  return name(/^pg-(.+)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.exec(bare)?.[1] ?? bare);
}

/** `H100` of `NVIDIA-H100-80GB-HBM3`. */
export function shortType(type: string): string {
  const found = /\b(?:RTX-)?([A-Z]{1,3}\d{1,4}[A-Z]{0,2})\b/.exec(type.replace(/^NVIDIA-|^Tesla-/i, ""));
  return found?.[1] ?? name(type);
}

export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}
