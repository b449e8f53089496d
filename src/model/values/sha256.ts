/**
 * SHA-256 of a text in UTF-8, as bytes. Names that other programs derive too (reservation pods) need this hash, and the
 * pure rooms have no crypto library. For names, not for secrets. Throws for a lone surrogate.
 */
export function sha256(text: string): Uint8Array {
  const message = padded(utf8(text));
  const hash = Uint32Array.from(initial);
  const words = new Uint32Array(64);
  for (let at = 0; at < message.length; at += 64) {
    for (let i = 0; i < 16; i++) words[i] = word(message, at + 4 * i);
    for (let i = 16; i < 64; i++) {
      const a = words[i - 15] as number;
      const b = words[i - 2] as number;
      const low = rotate(a, 7) ^ rotate(a, 18) ^ (a >>> 3);
      const high = rotate(b, 17) ^ rotate(b, 19) ^ (b >>> 10);
      words[i] = ((words[i - 16] as number) + low + (words[i - 7] as number) + high) | 0;
    }
    mix(hash, words);
  }
  const bytes = new Uint8Array(32);
  hash.forEach((value, i) => {
    for (let byte = 0; byte < 4; byte++) bytes[4 * i + byte] = value >>> (24 - 8 * byte);
  });
  return bytes;
}

/** The first bytes of the hash, as hexadecimal digits. */
export function sha256Hex(text: string, bytes = 32): string {
  return [...sha256(text).subarray(0, bytes)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

function mix(hash: Uint32Array, words: Uint32Array): void {
  let [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0] = hash;
  for (let i = 0; i < 64; i++) {
    const choice = (e & f) ^ (~e & g);
    const first =
      h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + choice + (rounds[i] as number) + (words[i] as number);
    const majority = (a & b) ^ (a & c) ^ (b & c);
    const second = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + majority;
    h = g;
    g = f;
    f = e;
    e = (d + first) | 0;
    d = c;
    c = b;
    b = a;
    a = (first + second) | 0;
  }
  [a, b, c, d, e, f, g, h].forEach((value, i) => {
    hash[i] = (hash[i] as number) + value;
  });
}

function rotate(value: number, by: number): number {
  return (value >>> by) | (value << (32 - by));
}

function word(bytes: Uint8Array, at: number): number {
  const [a = 0, b = 0, c = 0, d = 0] = bytes.subarray(at, at + 4);
  return (a << 24) | (b << 16) | (c << 8) | d;
}

/** A one bit, zeros, and the length in bits, up to a whole number of 64-byte blocks. */
function padded(bytes: Uint8Array): Uint8Array {
  const message = new Uint8Array(Math.ceil((bytes.length + 9) / 64) * 64);
  message.set(bytes);
  message[bytes.length] = 0x80;
  const bits = bytes.length * 8;
  for (let byte = 0; byte < 6; byte++) message[message.length - 1 - byte] = Math.floor(bits / 2 ** (8 * byte)) & 0xff;
  return message;
}

function utf8(text: string): Uint8Array {
  const escaped = encodeURIComponent(text);
  const bytes: number[] = [];
  for (let i = 0; i < escaped.length; i++) {
    if (escaped[i] !== "%") bytes.push(escaped.charCodeAt(i));
    else {
      bytes.push(Number.parseInt(escaped.slice(i + 1, i + 3), 16));
      i += 2;
    }
  }
  return Uint8Array.from(bytes);
}

/**
 * The first 32 bits of the fractions of roots of the first primes: square roots to begin with, cube roots for the
 * rounds.
 */
const primes = firstPrimes(64);
const initial = primes.slice(0, 8).map((prime) => fractionBits(Math.sqrt(prime)));
const rounds = primes.map((prime) => fractionBits(Math.cbrt(prime)));

function fractionBits(root: number): number {
  return Math.floor((root - Math.floor(root)) * 2 ** 32) | 0;
}

function firstPrimes(count: number): number[] {
  const found: number[] = [];
  for (let candidate = 2; found.length < count; candidate++) {
    if (found.every((prime) => candidate % prime !== 0)) found.push(candidate);
  }
  return found;
}
