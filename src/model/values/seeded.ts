/**
 * Pseudo-random numbers derived from a seed and a few names. There is no sequence, so adding a node or a fault does not
 * change the numbers of the others, and a run replays from its seed.
 */
export type SeedPart = string | number;

/** A number from 0 (included) to 1 (excluded). */
export function seededFraction(...parts: readonly SeedPart[]): number {
  return (seededWords(parts)[0] ?? 0) / 4_294_967_296;
}

/** A whole number from 0 to `bound` - 1. */
export function seededBelow(bound: number, ...parts: readonly SeedPart[]): number {
  return Math.floor(seededFraction(...parts) * bound);
}

/** A UUID that looks random (version 4). */
export function seededUuid(...parts: readonly SeedPart[]): string {
  const hex = seededWords(parts)
    .map((word) => word.toString(16).padStart(8, "0"))
    .join("");
  const variant = ((Number.parseInt(hex[16] ?? "0", 16) & 3) | 8).toString(16);
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-${variant}${hex.slice(17, 20)}-${hex.slice(20)}`;
}

/** Lower-case hexadecimal, at most 32 digits. */
export function seededHex(digits: number, ...parts: readonly SeedPart[]): string {
  const hex = seededWords(parts).map((word) => word.toString(16).padStart(8, "0"));
  return hex.join("").slice(0, digits);
}

const lanes = [0x9e3779b1, 0x85ebca77, 0xc2b2ae3d, 0x27d4eb2f] as const;

/** Four lanes over the same text, each with its own multiplier, stirred together at the end. */
function seededWords(parts: readonly SeedPart[]): [number, number, number, number] {
  let [a, b, c, d]: [number, number, number, number] = [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344];
  for (const part of parts) {
    const text = typeof part === "number" ? `#${part}` : part;
    for (let i = 0; i <= text.length; i++) {
      // The end of a part counts too: ("ab", "c") and ("a", "bc") are different.
      const unit = i < text.length ? text.charCodeAt(i) : 0x1_0000;
      a = rotate(Math.imul(a ^ unit, lanes[0]), 13);
      b = rotate(Math.imul(b ^ unit ^ a, lanes[1]), 15);
      c = rotate(Math.imul(c ^ unit ^ b, lanes[2]), 16);
      d = rotate(Math.imul(d ^ unit ^ c, lanes[3]), 11);
      a ^= d;
    }
  }
  a = stir(a ^ b ^ c ^ d);
  b = stir(b ^ a);
  c = stir(c ^ b);
  d = stir(d ^ c);
  return [a, b, c, d];
}

function rotate(word: number, bits: number): number {
  return (word << bits) | (word >>> (32 - bits));
}

function stir(word: number): number {
  let w = word ^ (word >>> 16);
  w = Math.imul(w, 0x85ebca6b);
  w ^= w >>> 13;
  w = Math.imul(w, 0xc2b2ae35);
  return (w ^ (w >>> 16)) >>> 0;
}
