/**
 * Names that are derived from identity. Upstream appends five random letters, so a create that is retried after a lost
 * response makes a second pod. Here the name is a function of the owner's UID and a slot, so the second create fails
 * with AlreadyExists.
 */
const letters = "bcdfghjklmnpqrstvwxz2456789";
/** Longer bases are truncated, so that a name with its suffix is a DNS label. */
const baseLengthMax = 58;

/** FNV-1a in 32 bits over UTF-16 units, low byte first. */
export function fnv32(text: string, seed = 0x811c9dc5): number {
  let hash = seed;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    hash = Math.imul(hash ^ (unit & 0xff), 0x01000193);
    hash = Math.imul(hash ^ (unit >>> 8), 0x01000193);
  }
  return hash >>> 0;
}

/** Letters that spell no words: no vowels and nothing that looks like one. */
export function safeText(number: number): string {
  let text = "";
  for (const digit of String(number)) text += letters[digit.charCodeAt(0) % letters.length];
  return text;
}

/** Five letters that follow from the parts. */
export function suffixOf(...parts: readonly (string | number)[]): string {
  let hash = fnv32(parts.map(String).join("\u0000"));
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = (hash ^ (hash >>> 13)) >>> 0;
  let text = "";
  for (let i = 0; i < 5; i++) {
    text += letters[hash % letters.length];
    hash = Math.floor(hash / letters.length);
  }
  return text;
}

export interface NameSource {
  /** The prefix, including the last dash: `web-7d9f-`. */
  readonly base: string;
  readonly uid: string;
}

/** Whether an object of the namespace already has the name. */
export type IsTaken = (name: string) => boolean;

/** The used names of a namespace: of existing objects, of planned ones, and further names that the caller adds. */
export class TakenNames {
  readonly #names = new Set<string>();
  readonly #more: IsTaken | undefined;
  /** Below these slots all names of a source are used, so they are not tried again for every pod. */
  readonly #slots = new Map<string, number>();

  constructor(
    namespace: string | undefined,
    objects: readonly { metadata: { namespace?: string; name: string } }[],
    more?: IsTaken,
  ) {
    for (const { metadata } of objects) if (metadata.namespace === namespace) this.#names.add(metadata.name);
    this.#more = more;
  }

  /** Returns a free name and marks it as used. */
  take(source: NameSource): string {
    const place = `${source.uid} ${source.base}`;
    for (let slot = this.#slots.get(place) ?? 0; ; slot++) {
      const name = nameAt(source, slot);
      if (this.has(name)) continue;
      this.#slots.set(place, slot + 1);
      this.#names.add(name);
      return name;
    }
  }

  has(name: string): boolean {
    return this.#names.has(name) || this.#more?.(name) === true;
  }
}

/** The first `count` free names of the owner, slot by slot. */
export function freeNames(source: NameSource, count: number, isTaken: IsTaken): string[] {
  const names = new Set<string>();
  for (let slot = 0; names.size < count; slot++) {
    const name = nameAt(source, slot);
    if (!isTaken(name)) names.add(name);
  }
  return [...names];
}

function nameAt({ base, uid }: NameSource, slot: number): string {
  return base.slice(0, baseLengthMax) + suffixOf(uid, slot);
}
