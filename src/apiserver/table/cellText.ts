/** Texts that cells of many kinds share. */
import type { Container, LabelSelector } from "../../model/kubernetes.generated.ts";

export const none = "<none>";
export const unset = "<unset>";
export const unknown = "<unknown>";

/** `a=1,b=2`, in order of the keys. */
export function labelsText(labels: Readonly<Record<string, string>> | undefined): string {
  if (labels === undefined) return none;
  const keys = Object.keys(labels);
  return keys.length === 0
    ? none
    : keys
        .sort()
        .map((key) => `${key}=${labels[key]}`)
        .join(",");
}

/** A selector as a user would type it; empty when it selects everything or is missing. */
export function selectorText(selector: LabelSelector | undefined): string {
  if (selector === undefined) return "";
  const terms: { key: string; text: string }[] = [];
  for (const [key, value] of Object.entries(selector.matchLabels ?? {})) terms.push({ key, text: `${key}=${value}` });
  for (const { key, operator, values } of selector.matchExpressions ?? []) {
    const list = [...(values ?? [])].sort().join(",");
    if (operator === "In") terms.push({ key, text: `${key} in (${list})` });
    else if (operator === "NotIn") terms.push({ key, text: `${key} notin (${list})` });
    else terms.push({ key, text: operator === "Exists" ? key : `!${key}` });
  }
  terms.sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0));
  return terms.map(({ text }) => text).join(",");
}

/** The same, with `<none>` when empty. */
export function selectorTextOrNone(selector: LabelSelector | undefined): string {
  return selectorText(selector) || none;
}

/** The cells of the wide columns Containers and Images. */
export function containerCells(containers: readonly Container[] | undefined): [names: string, images: string] {
  if (containers === undefined) return ["", ""];
  return [containers.map(({ name }) => name).join(","), containers.map(({ image }) => image ?? "").join(",")];
}

/** The first few of a list, and how many more there are. */
export function firstOf(texts: readonly string[], max: number, separator: string): string {
  const shown = texts.slice(0, max).join(separator);
  return texts.length > max ? `${shown} + ${texts.length - max} more...` : shown;
}

export function boolText(value: boolean | undefined): string {
  return value === undefined ? unset : value ? "True" : "False";
}
