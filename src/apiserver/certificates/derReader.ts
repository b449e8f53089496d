/** One DER element: its tag, its content, and all its bytes. */
export interface DerElement {
  readonly tag: number;
  readonly content: Buffer;
  readonly bytes: Buffer;
}

const malformed = (): never => {
  throw new Error("malformed DER");
};

/** The elements of a sequence of DER encodings, such as the content of a constructed element. Throws if malformed. */
export function readElements(bytes: Buffer): DerElement[] {
  const elements: DerElement[] = [];
  for (let at = 0; at < bytes.length; ) {
    const element = elementAt(bytes, at);
    elements.push(element);
    at += element.bytes.length;
  }
  return elements;
}

/** The only element of these bytes, which must have the tag. */
export function readElement(bytes: Buffer, tag: number): DerElement {
  const [element, ...rest] = readElements(bytes);
  if (element === undefined || rest.length > 0 || element.tag !== tag) return malformed();
  return element;
}

function elementAt(bytes: Buffer, start: number): DerElement {
  const tag = bytes[start] ?? malformed();
  const first = bytes[start + 1] ?? malformed();
  let contentStart = start + 2;
  let length = first;
  if (first >= 0x80) {
    const count = first & 0x7f;
    if (count === 0 || count > 4 || contentStart + count > bytes.length) return malformed();
    length = bytes.readUIntBE(contentStart, count);
    contentStart += count;
  }
  const end = contentStart + length;
  if (end > bytes.length) return malformed();
  return { tag, content: bytes.subarray(contentStart, end), bytes: bytes.subarray(start, end) };
}
