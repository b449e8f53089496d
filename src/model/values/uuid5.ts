/**
 * A UUID that is derived from another one and a name (version 5, RFC 9562): the same input always gives the same UUID.
 */
export function uuid5(namespace: string, name: string): string {
  const space = hexBytes(namespace);
  // A namespace that is not a UUID is used as text.
  const bytes = [...(space ?? textBytes(namespace)), ...textBytes(name)];
  const hash = sha1(bytes).slice(0, 16);
  hash[6] = ((hash[6] ?? 0) & 0x0f) | 0x50;
  hash[8] = ((hash[8] ?? 0) & 0x3f) | 0x80;
  const hex = hash.map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

const uuidShape = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i;

function hexBytes(uuid: string): number[] | undefined {
  if (!uuidShape.test(uuid)) return undefined;
  const hex = uuid.replaceAll("-", "");
  return Array.from({ length: 16 }, (_, at) => Number.parseInt(hex.slice(2 * at, 2 * at + 2), 16));
}

function textBytes(text: string): number[] {
  const bytes: number[] = [];
  for (const letter of text) {
    const code = letter.codePointAt(0) ?? 0;
    if (code < 0x80) bytes.push(code);
    else if (code < 0x800) bytes.push(0xc0 | (code >> 6), 0x80 | (code & 63));
    else if (code < 0x10000) bytes.push(0xe0 | (code >> 12), 0x80 | ((code >> 6) & 63), 0x80 | (code & 63));
    else bytes.push(0xf0 | (code >> 18), 0x80 | ((code >> 12) & 63), 0x80 | ((code >> 6) & 63), 0x80 | (code & 63));
  }
  return bytes;
}

/** SHA-1 (RFC 3174). Not for secrets: the pure rooms have no crypto library, and names need none. */
function sha1(message: readonly number[]): number[] {
  const length = message.length;
  const blocks = Math.ceil((length + 9) / 64);
  const padded = new Uint8Array(blocks * 64);
  padded.set(message);
  padded[length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(blocks * 64 - 8, Math.floor((length * 8) / 2 ** 32));
  view.setUint32(blocks * 64 - 4, (length * 8) >>> 0);
  const state = [0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0];
  const words = new Int32Array(80);
  for (let block = 0; block < blocks; block++) {
    for (let t = 0; t < 16; t++) words[t] = view.getInt32(block * 64 + t * 4);
    for (let t = 16; t < 80; t++) {
      words[t] = rotate(at(words, t - 3) ^ at(words, t - 8) ^ at(words, t - 14) ^ at(words, t - 16), 1);
    }
    let [a = 0, b = 0, c = 0, d = 0, e = 0] = state;
    for (let t = 0; t < 80; t++) {
      const [mix, key] =
        t < 20
          ? [(b & c) | (~b & d), 0x5a827999]
          : t < 40
            ? [b ^ c ^ d, 0x6ed9eba1]
            : t < 60
              ? [(b & c) | (b & d) | (c & d), 0x8f1bbcdc]
              : [b ^ c ^ d, 0xca62c1d6];
      const next = (rotate(a, 5) + mix + e + key + at(words, t)) | 0;
      e = d;
      d = c;
      c = rotate(b, 30);
      b = a;
      a = next;
    }
    for (const [i, value] of [a, b, c, d, e].entries()) state[i] = ((state[i] ?? 0) + value) | 0;
  }
  return state.flatMap((word) => [(word >>> 24) & 255, (word >>> 16) & 255, (word >>> 8) & 255, word & 255]);
}

function rotate(word: number, by: number): number {
  return (word << by) | (word >>> (32 - by));
}

function at(words: Int32Array, t: number): number {
  return words[t] ?? 0;
}
