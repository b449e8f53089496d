/** UTF-8 encoding and decoding, because the pure rooms have no TextEncoder. */
export function encodeUtf8(text: string): Uint8Array {
  const out: number[] = [];
  for (const char of text) {
    const point = char.codePointAt(0) as number;
    if (point < 0x80) out.push(point);
    else if (point < 0x800) out.push(0xc0 | (point >> 6), 0x80 | (point & 63));
    else if (point < 0x10000) out.push(0xe0 | (point >> 12), 0x80 | ((point >> 6) & 63), 0x80 | (point & 63));
    else out.push(0xf0 | (point >> 18), 0x80 | ((point >> 12) & 63), 0x80 | ((point >> 6) & 63), 0x80 | (point & 63));
  }
  return Uint8Array.from(out);
}

/** The text, or undefined where the bytes are not UTF-8. */
export function decodeUtf8(bytes: Uint8Array): string | undefined {
  let text = "";
  for (let i = 0; i < bytes.length; ) {
    const first = bytes[i++] as number;
    if (first < 0x80) {
      text += String.fromCharCode(first);
      continue;
    }
    const more = first >= 0xf0 && first < 0xf5 ? 3 : first >= 0xe0 ? 2 : first >= 0xc2 ? 1 : 0;
    if (more === 0 || first >= 0xf5) return undefined;
    let point = first & (0x3f >> more);
    for (let n = 0; n < more; n++) {
      const next = bytes[i++];
      if (next === undefined || (next & 0xc0) !== 0x80) return undefined;
      point = (point << 6) | (next & 63);
    }
    const tooSmall = point < (more === 1 ? 0x80 : more === 2 ? 0x800 : 0x10000);
    if (tooSmall || point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) return undefined;
    text += String.fromCodePoint(point);
  }
  return text;
}

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const digitOf = new Map(Array.from(alphabet, (char, value) => [char, value]));

export function encodeBase64(bytes: Uint8Array): string {
  let text = "";
  for (let i = 0; i < bytes.length; i += 3) {
    const [a = 0, b = 0, c = 0] = [bytes[i], bytes[i + 1], bytes[i + 2]];
    const word = (a << 16) | (b << 8) | c;
    const digits = [word >> 18, (word >> 12) & 63, (word >> 6) & 63, word & 63].map((n) => alphabet[n] as string);
    const used = Math.min(3, bytes.length - i) + 1;
    text += digits.slice(0, used).join("") + "=".repeat(4 - used);
  }
  return text;
}

/** The bytes, or undefined where the text is not padded standard base64. */
export function decodeBase64(text: string): Uint8Array | undefined {
  const clean = text.replaceAll("\n", "").replaceAll("\r", "");
  if (clean.length % 4 !== 0) return undefined;
  const padding = clean.endsWith("==") ? 2 : clean.endsWith("=") ? 1 : 0;
  const out: number[] = [];
  for (let i = 0; i < clean.length; i += 4) {
    let word = 0;
    const used = i + 4 === clean.length ? 4 - padding : 4;
    for (let n = 0; n < 4; n++) {
      const digit = n < used ? digitOf.get(clean[i + n] as string) : 0;
      if (digit === undefined) return undefined;
      word = (word << 6) | digit;
    }
    for (let n = 0; n < used - 1; n++) out.push((word >> (16 - 8 * n)) & 255);
  }
  return Uint8Array.from(out);
}
