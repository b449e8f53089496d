/**
 * The canonical base64 text of the bytes that this text encodes. Line breaks are accepted, as in PEM data pasted into
 * YAML; unused bits are cleared. Returns the offset of the first invalid character instead when there is one.
 */
export function canonicalBase64(text: string): string | number {
  if (shape.test(text)) {
    // Only padded text can have unused bits.
    return text.endsWith("=") ? Buffer.from(text, "base64").toString("base64") : text;
  }
  const bare = text.replace(/[\r\n]/g, "");
  if (bare.length < text.length && shape.test(bare)) return canonicalBase64(bare);
  return firstWrong(text);
}

const shape = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

function firstWrong(text: string): number {
  const wrong = /[^A-Za-z0-9+/\r\n]/.exec(text);
  // All characters are valid, but one is missing: the error is at the end.
  if (wrong === null || wrong.index === undefined) return text.length;
  return wrong.index;
}
