/** AWS's filters: every filter must match by one of its values; `*` matches any text and `?` one character. */
export interface Filter {
  readonly name: string;
  readonly values: readonly string[];
}

export type Fields = (name: string) => readonly string[];

/** A predicate for the items of a list. The caller refuses unknown filters. */
export function matcher(filters: readonly Filter[]): (fields: Fields) => boolean {
  const tests = filters.map(({ name, values }) => {
    const exact = new Set(values.filter((value) => !/[*?\\]/.test(value)));
    const patterns = values.filter((value) => /[*?\\]/.test(value)).map(patternOf);
    return (fields: Fields): boolean =>
      fields(name).some((value) => exact.has(value) || patterns.some((pattern) => pattern.test(value)));
  });
  return (fields) => tests.every((test) => test(fields));
}

function patternOf(value: string): RegExp {
  const body = value
    .replace(/[.+^${}()|[\]\\]/g, "\\$&")
    .replaceAll("*", "[^]*")
    .replaceAll("?", "[^]");
  return new RegExp(`^${body}$`);
}

export function tagFields(tags: Readonly<Record<string, string>>, name: string): readonly string[] | undefined {
  if (name === "tag-key") return Object.keys(tags);
  if (name === "tag-value") return Object.values(tags);
  if (!name.startsWith("tag:")) return undefined;
  const value = tags[name.slice("tag:".length)];
  return value === undefined ? [] : [value];
}
