/**
 * The DER encodings that certificates need: tag, length, content. A constructed value is the concatenation of its
 * elements.
 */

const constructed = 0x20;
const contextSpecific = 0x80;

export function der(tag: number, ...parts: Uint8Array[]): Buffer {
  const content = Buffer.concat(parts);
  return Buffer.concat([Buffer.from([tag]), lengthOf(content.length), content]);
}

export function sequence(...parts: Uint8Array[]): Buffer {
  return der(0x30, ...parts);
}

export function set(...parts: Uint8Array[]): Buffer {
  return der(0x31, ...parts);
}

/** A tagged element of a structure that contains complete values: `[0] EXPLICIT`. */
export function explicit(tag: number, ...parts: Uint8Array[]): Buffer {
  return der(contextSpecific | constructed | tag, ...parts);
}

/** A tagged element that replaces the tag of a primitive value: `[2] IMPLICIT`. */
export function implicit(tag: number, content: Uint8Array): Buffer {
  return der(contextSpecific | tag, content);
}

/**
 * An integer from its big-endian bytes, read as unsigned: leading zeros are removed, and one is added if the top bit is
 * set.
 */
export function unsignedInteger(bytes: Uint8Array): Buffer {
  let start = 0;
  while (start < bytes.length - 1 && bytes[start] === 0) start++;
  const body = bytes.subarray(start);
  const head = body[0] ?? 0;
  return body.length === 0 || head >= 0x80 ? der(0x02, Buffer.from([0]), body) : der(0x02, body);
}

export function boolean(value: boolean): Buffer {
  return der(0x01, Buffer.from([value ? 0xff : 0]));
}

export function octets(content: Uint8Array): Buffer {
  return der(0x04, content);
}

/** A bit string of whole bytes, such as a signature. */
export function bits(content: Uint8Array): Buffer {
  return der(0x03, Buffer.from([0]), content);
}

/** A bit string of named flags: bit 0 is the first; trailing zero bits are dropped, as DER requires. */
export function namedBits(...set: number[]): Buffer {
  const top = Math.max(...set);
  const bytes = Buffer.alloc(Math.floor(top / 8) + 1);
  for (const bit of set) bytes[bit >> 3] = (bytes[bit >> 3] ?? 0) | (0x80 >> (bit & 7));
  return der(0x03, Buffer.from([7 - (top & 7)]), bytes);
}

export function utf8(text: string): Buffer {
  return der(0x0c, Buffer.from(text, "utf8"));
}

/** An object identifier in dots: `2.5.29.17`. */
export function oid(dotted: string): Buffer {
  const [first = 0, second = 0, ...rest] = dotted.split(".").map(Number);
  const bytes = [first * 40 + second];
  for (const arc of rest) {
    const group = [arc & 0x7f];
    for (let left = arc >>> 7; left > 0; left >>>= 7) group.unshift((left & 0x7f) | 0x80);
    bytes.push(...group);
  }
  return der(0x06, Buffer.from(bytes));
}

/** A time in seconds: two-digit years until 2049, four digits after, as RFC 5280 requires. */
export function time(ms: number): Buffer {
  const stamp = new Date(ms).toISOString().replace(/\.\d+Z$/, "Z");
  const digits = stamp.replace(/[-:T]/g, "");
  const year = Number(digits.slice(0, 4));
  return year >= 1950 && year < 2050
    ? der(0x17, Buffer.from(digits.slice(2), "ascii"))
    : der(0x18, Buffer.from(digits, "ascii"));
}

function lengthOf(length: number): Buffer {
  if (length < 0x80) return Buffer.from([length]);
  const bytes: number[] = [];
  for (let left = length; left > 0; left >>>= 8) bytes.unshift(left & 0xff);
  return Buffer.from([0x80 | bytes.length, ...bytes]);
}
