import { decodeUtf8 } from "../utf8.ts";

/** A URL as in a request line: absolute, or a path that starts with a slash. */
export type Url = {
  readonly text: string;
  readonly scheme: string;
  /** With the port, if one was written. */
  readonly host: string;
  readonly hostname: string;
  readonly port: string;
  /** Percent-encoded. */
  readonly path: string;
  readonly query: ReadonlyMap<string, string[]>;
};

const shape = /^(?:([a-zA-Z][a-zA-Z0-9+.-]*):)?(?:\/\/([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#.*)?$/s;
const hostShape = /^(?:[^@]*@)?(\[[0-9a-fA-F:.%]*\]|[^:[\]]*)(?::([0-9]*))?$/;

/** The components, or why the text is no URL. */
export function parseUrl(text: string): Url | string {
  const wrong = (why: string) => `URL parse error during conversion from string: parse ${JSON.stringify(text)}: ${why}`;
  const match = shape.exec(text);
  if (text === "" || match === null) return wrong("empty url");
  for (let i = 0; i < text.length; i++) {
    if (text.charCodeAt(i) < 0x20 || text.charCodeAt(i) === 0x7f)
      return wrong("net/url: invalid control character in URL");
  }
  const [, scheme = "", authority, path = "", query = ""] = match;
  if (scheme === "" && !path.startsWith("/") && authority === undefined) return wrong("invalid URI for request");
  if (scheme === "" && authority !== undefined) return wrong("invalid URI for request");
  const host = hostShape.exec(authority ?? "");
  if (host === null || /[ "<>^`{}|\\]/.test(host[1] ?? "")) return wrong("invalid character in host name");
  if (!wellEscaped(path)) return wrong("invalid URL escape");
  const [, name = "", port] = host;
  return {
    text,
    scheme: scheme.toLowerCase(),
    host: port === undefined ? name : `${name}:${port}`,
    hostname: name.startsWith("[") ? name.slice(1, -1) : name,
    port: port ?? "",
    path: path.replace(/[ "<>^`{}|\\]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`),
    query: parseQuery(query),
  };
}

function wellEscaped(text: string): boolean {
  return !/%(?![0-9a-fA-F]{2})/.test(text);
}

/** Pairs with invalid escapes are left out, as in Go. */
function parseQuery(query: string): Map<string, string[]> {
  const out = new Map<string, string[]>();
  for (const pair of query.split("&")) {
    if (pair === "" || pair.includes(";")) continue;
    const equals = pair.indexOf("=");
    const key = decodeQuery(equals < 0 ? pair : pair.slice(0, equals));
    const value = decodeQuery(equals < 0 ? "" : pair.slice(equals + 1));
    if (key === undefined || value === undefined) continue;
    const values = out.get(key);
    if (values === undefined) out.set(key, [value]);
    else values.push(value);
  }
  return out;
}

function decodeQuery(text: string): string | undefined {
  if (!wellEscaped(text)) return undefined;
  const plain = text.replaceAll("+", " ");
  return plain.replace(/(?:%[0-9a-fA-F]{2})+/g, (run) => {
    const bytes = run
      .slice(1)
      .split("%")
      .map((hex) => Number.parseInt(hex, 16));
    return decodeUtf8(Uint8Array.from(bytes)) ?? "�";
  });
}
