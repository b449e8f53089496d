/**
 * A manifest with settings in it. `evaluate` turns a tree into the objects that `muster install` applies, `templateOf`
 * turns the same tree into the template of the Helm chart, so that the two cannot differ.
 *
 * A setting is named inside a string: `«image.repository»:«image.tag»`. A string that is one setting and nothing else
 * has the setting's value, of whatever type. What depends on a setting is a `When`, as a field of an object or an item
 * of a list.
 */
export type Tree = string | number | boolean | When | Each | readonly Tree[] | { readonly [field: string]: Tree };

/** A condition on settings. A bare path holds if its value is not empty, as in Helm. */
export type Condition =
  | string
  | { readonly path: string; readonly equals: string }
  | { readonly path: string; readonly includes: string }
  | { readonly all: readonly Condition[] };

export class When {
  readonly condition: Condition;
  readonly tree: Tree;

  constructor(condition: Condition, tree: Tree) {
    this.condition = condition;
    this.tree = tree;
  }
}

/**
 * Inserts the items of a list setting into the surrounding list, or the fields of a map into the surrounding object.
 */
export class Each {
  readonly path: string;
  /** Fields that are added to every item. */
  readonly more: { readonly [field: string]: unknown } | undefined;

  constructor(path: string, more?: { readonly [field: string]: unknown }) {
    this.path = path;
    this.more = more;
  }
}

export const when = (condition: Condition, tree: Tree): When => new When(condition, tree);
export const each = (path: string, more?: { readonly [field: string]: unknown }): Each => new Each(path, more);

export type Values = { readonly [name: string]: unknown };

const setting = /«([^»]+)»/g;
/** Suffix of a list setting: its items, joined by commas. */
const joined = "|join";
const onlySetting = /^«([^»]+)»$/;

/** Helm's names of the settings that do not come from values. */
const builtIn: Readonly<Record<string, string>> = {
  "release.namespace": ".Release.Namespace",
  "release.service": ".Release.Service",
  "chart.version": ".Chart.AppVersion",
};

export function evaluate(tree: Tree, values: Values): unknown {
  if (typeof tree === "string") {
    const [, whole] = onlySetting.exec(tree) ?? [];
    if (whole !== undefined) return valueAt(values, whole);
    return tree.replace(setting, (_, path: string) => String(valueAt(values, path)));
  }
  if (Array.isArray(tree)) {
    return tree.flatMap((item: Tree) => {
      if (item instanceof Each) return itemsOf(item, values);
      if (!(item instanceof When)) return [evaluate(item, values)];
      return holds(item.condition, values) ? [evaluate(item.tree, values)] : [];
    });
  }
  if (typeof tree !== "object") return tree;
  const fields = Object.entries(tree).flatMap(([name, field]: [string, Tree]) => {
    if (field instanceof Each) return Object.entries(valueAt(values, field.path) as object);
    if (!(field instanceof When)) return [[name, evaluate(field, values)]];
    return holds(field.condition, values) ? [[name, evaluate(field.tree, values)]] : [];
  });
  return Object.fromEntries(fields);
}

function itemsOf({ path, more }: Each, values: Values): unknown[] {
  const items = valueAt(values, path) as unknown[];
  return more === undefined ? items : items.map((item) => ({ ...(item as object), ...more }));
}

export function holds(condition: Condition, values: Values): boolean {
  if (typeof condition === "string") return !isEmpty(valueAt(values, condition));
  if ("all" in condition) return condition.all.every((one) => holds(one, values));
  const value = valueAt(values, condition.path);
  return "equals" in condition ? value === condition.equals : (value as string[]).includes(condition.includes);
}

function valueAt(values: Values, path: string): unknown {
  if (path.endsWith(joined)) return (valueAt(values, path.slice(0, -joined.length)) as string[]).join(",");
  if (path in values) return values[path];
  let value: unknown = values;
  for (const name of path.split(".")) value = (value as Values | undefined)?.[name];
  if (value === undefined) throw new Error(`there is no setting ${path}`);
  return value;
}

function isEmpty(value: unknown): boolean {
  if (value === undefined || value === null || value === false || value === "" || value === 0) return true;
  return typeof value === "object" && Object.keys(value).length === 0;
}

/** The same manifest as a Helm template: YAML with values in JSON, which is valid YAML. */
export function templateOf(tree: Tree, condition?: Condition): string {
  const lines = linesOf(tree);
  const shown = condition === undefined ? lines : [`{{- if ${test(condition)} }}`, ...lines, "{{- end }}"];
  return `${shown.join("\n")}\n`;
}

function linesOf(tree: Tree): string[] {
  if (Array.isArray(tree)) return tree.flatMap((item: Tree) => itemLines(item));
  return Object.entries(tree).flatMap(([name, field]: [string, Tree]) => {
    if (field instanceof Each) {
      const line = "{{ $name | toJson }}: {{ $value | toJson }}";
      return [`{{- range $name, $value := .Values.${field.path} }}`, line, "{{- end }}"];
    }
    if (!(field instanceof When)) return fieldLines(name, field);
    return [`{{- if ${test(field.condition)} }}`, ...fieldLines(name, field.tree), "{{- end }}"];
  });
}

function fieldLines(name: string, field: Tree): string[] {
  const key = /^[A-Za-z0-9_./-]+$/.test(name) ? name : JSON.stringify(name);
  if (isScalar(field)) return [`${key}: ${scalar(field)}`];
  return [`${key}:`, ...indented(linesOf(field))];
}

function itemLines(item: Tree): string[] {
  if (item instanceof Each) {
    const { path, more } = item;
    const value = more === undefined ? "." : `merge (fromJson ${JSON.stringify(JSON.stringify(more))}) .`;
    return [`{{- range .Values.${path} }}`, `- {{ ${value} | toJson }}`, "{{- end }}"];
  }
  if (item instanceof When) return [`{{- if ${test(item.condition)} }}`, ...itemLines(item.tree), "{{- end }}"];
  if (isScalar(item)) return [`- ${scalar(item)}`];
  const [first = "", ...rest] = linesOf(item);
  // A template directive cannot follow the dash of a list item.
  if (first.startsWith("{{-")) return ["-", ...indented([first, ...rest])];
  return [`- ${first}`, ...indented(rest)];
}

/** Directives are not indented: their `-` removes the preceding line break. */
function indented(lines: readonly string[]): string[] {
  return lines.map((line) => (line.startsWith("{{-") ? line : `  ${line}`));
}

function isScalar(tree: Tree): tree is string | number | boolean {
  return typeof tree !== "object" || (!(tree instanceof When) && !(tree instanceof Each) && isEmpty(tree));
}

function scalar(tree: Tree): string {
  if (typeof tree !== "string") return JSON.stringify(tree);
  const names = [...tree.matchAll(setting)].map(([, path = ""]) => reference(path));
  if (names.length === 0) return isPlain(tree) ? tree : JSON.stringify(tree).replaceAll("{{", '{{ "{{" }}');
  if (onlySetting.test(tree)) return `{{ ${names[0]} | toJson }}`;
  return `{{ printf ${JSON.stringify(tree.replace(setting, "%v"))} ${names.join(" ")} | toJson }}`;
}

/** Whether every YAML parser reads the text as a string without quotes. */
function isPlain(text: string): boolean {
  return /^[A-Za-z/][A-Za-z0-9_./=-]*$/.test(text) && !/^(true|false|null|yes|no|on|off|y|n)$/i.test(text);
}

function reference(path: string): string {
  if (path.endsWith(joined)) return `(join "," ${reference(path.slice(0, -joined.length))})`;
  return builtIn[path] ?? `.Values.${path}`;
}

function test(condition: Condition): string {
  if (typeof condition === "string") return reference(condition);
  if ("all" in condition) return `and ${condition.all.map((one) => `(${test(one)})`).join(" ")}`;
  const name = reference(condition.path);
  if ("equals" in condition) return `eq ${name} ${JSON.stringify(condition.equals)}`;
  return `has ${JSON.stringify(condition.includes)} ${name}`;
}
