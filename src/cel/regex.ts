import { RE2JS } from "re2js";
import { fail } from "./values.ts";

/** RE2 patterns, compiled once. Backtracking engines would let a pattern in a CRD stall the server. */
const cacheMax = 512;
const cache = new Map<string, RE2JS>();

/** The compiled pattern, or the error. */
export function compilePattern(pattern: string): RE2JS | string {
  const known = cache.get(pattern);
  if (known !== undefined) return known;
  try {
    const compiled = RE2JS.compile(pattern);
    if (cache.size >= cacheMax) cache.delete(cache.keys().next().value as string);
    cache.set(pattern, compiled);
    return compiled;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** For expressions: an invalid pattern fails the evaluation. */
export function patternOrFail(pattern: string): RE2JS {
  const compiled = compilePattern(pattern);
  if (typeof compiled === "string") fail(compiled);
  return compiled;
}

const cachedTextsMax = 256;

/** A matcher that caches short strings: a cluster has few distinct values, and RE2 takes a microsecond for each. */
export function cachingMatcher(pattern: RE2JS): (text: string) => boolean {
  const answers = new Map<string, boolean>();
  return (text) => {
    if (text.length > 64) return pattern.test(text);
    let answer = answers.get(text);
    if (answer === undefined) {
      answer = pattern.test(text);
      if (answers.size >= cachedTextsMax) answers.clear();
      answers.set(text, answer);
    }
    return answer;
  };
}

/** Whether the pattern occurs anywhere in the text. */
export function matchesAnywhere(pattern: RE2JS, text: string): boolean {
  return pattern.test(text);
}

/** All matches from left to right, at most `max` of them. */
export function findMatches(pattern: RE2JS, text: string, max: number): string[] {
  const found: string[] = [];
  const matcher = pattern.matcher(text);
  while (found.length < max && matcher.find()) found.push(matcher.group() ?? "");
  return found;
}
