/** Flags of a Go program: `--name=value`, `--name value`, `-name`; a flag that comes twice has both values. */
export function parseFlags(words) {
  const flags = new Map();
  for (let at = 0; at < words.length; at++) {
    const match = /^--?([^=]+)(?:=(.*))?$/s.exec(words[at]);
    if (match === null) continue;
    const [, name, attached] = match;
    const next = words[at + 1];
    let value = attached;
    if (value === undefined && next !== undefined && !next.startsWith("-")) value = words[++at];
    flags.set(name, [...(flags.get(name) ?? []), value ?? "true"]);
  }
  return flags;
}
