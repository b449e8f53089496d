/**
 * The cloud's filters: every filter must hold, one of its values is enough, `*` and `?` stand for anything and for one.
 */
export interface Filter {
  readonly name: string;
  readonly values: readonly string[];
}

export type Fields = (name: string) => readonly string[];

/** A test for items, made once for a listing. An unknown filter is refused by the caller before it gets here. */
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
