import { byDistance } from "../../model/values/nameDistance.ts";

const shownMax = 8;

/** The cure for an unknown name: the nearest ones, and how many there are. */
export function choicesText(given: string, known: readonly string[]): string {
  const shown = byDistance(given, known).slice(0, shownMax).join(", ");
  return known.length <= shownMax ? `choose from: ${shown}` : `choose one of ${known.length}, such as ${shown}`;
}
