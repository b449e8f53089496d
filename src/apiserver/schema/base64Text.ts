/**
 * The one base64 text for the bytes that this text denotes. Line breaks inside are accepted, as in PEM data pasted
 * into YAML; bits that belong to no byte are cleared. Answers the offset of the first wrong character instead when
 * there is one.
 */
export function canonicalBase64(text: string): string | number {
  if (shape.test(text)) {
    // Only padded text can carry loose bits.
    return text.endsWith("=") ? Buffer.from(text, "base64").toString("base64") : text;
  }
  const bare = text.replace(/[\r\n]/g, "");
  if (bare.length < text.length && shape.test(bare)) return canonicalBase64(bare);
  return firstWrong(text);
}

const shape = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

function firstWrong(text: string): number {
  const wrong = /[^A-Za-z0-9+/\r\n]/.exec(text);
  // Characters that are all fine, but too few of them: the fault is at the end.
  if (wrong === null || wrong.index === undefined) return text.length;
  return wrong.index;
}
