/** Semantic Versioning 2.0.0. */
export type Semver = {
  readonly major: bigint;
  readonly minor: bigint;
  readonly patch: bigint;
  readonly prerelease: readonly string[];
  readonly build: string;
};

const number = "(?:0|[1-9]\\d{0,19})";
const prerelease = "(?:0|[1-9]\\d*|\\d*[a-zA-Z-][0-9a-zA-Z-]*)";
const strict = new RegExp(
  `^(${number})\\.(${number})\\.(${number})(?:-(${prerelease}(?:\\.${prerelease})*))?(?:\\+([0-9a-zA-Z-]+(?:\\.[0-9a-zA-Z-]+)*))?$`,
);

/** The version, or why the text is invalid. Normalizing accepts a leading `v`, leading zeros and missing components. */
export function parseSemver(text: string, normalize: boolean): Semver | string {
  const match = strict.exec(normalize ? normalized(text) : text);
  if (match === null) return "No Major.Minor.Patch elements found";
  const [, major, minor, patch, pre, build] = match;
  return {
    major: BigInt(major as string),
    minor: BigInt(minor as string),
    patch: BigInt(patch as string),
    prerelease: pre === undefined ? [] : pre.split("."),
    build: build ?? "",
  };
}

function normalized(text: string): string {
  const plain = text.startsWith("v") ? text.slice(1) : text;
  const match = /^([0-9.]*)(.*)$/s.exec(plain);
  const parts = (match?.[1] ?? "").split(".").map((part) => part.replace(/^0+(?=\d)/, ""));
  // A pre-release cannot follow a version with missing components.
  const tail = match?.[2] ?? "";
  if (parts.length < 3 && tail !== "") return text;
  while (parts.length < 3) parts.push("0");
  return parts.join(".") + tail;
}

/** Precedence; build metadata is ignored. */
export function compareSemver(a: Semver, b: Semver): number {
  const main = order(a.major, b.major) || order(a.minor, b.minor) || order(a.patch, b.patch);
  if (main !== 0) return main;
  if (a.prerelease.length === 0 || b.prerelease.length === 0) {
    return Math.sign(b.prerelease.length - a.prerelease.length);
  }
  const length = Math.min(a.prerelease.length, b.prerelease.length);
  for (let i = 0; i < length; i++) {
    const difference = comparePart(a.prerelease[i] as string, b.prerelease[i] as string);
    if (difference !== 0) return difference;
  }
  return Math.sign(a.prerelease.length - b.prerelease.length);
}

function comparePart(a: string, b: string): number {
  const leftIsNumber = /^\d+$/.test(a);
  const rightIsNumber = /^\d+$/.test(b);
  if (leftIsNumber && rightIsNumber) return order(BigInt(a), BigInt(b));
  if (leftIsNumber !== rightIsNumber) return leftIsNumber ? -1 : 1;
  return a < b ? -1 : a > b ? 1 : 0;
}

function order(a: bigint, b: bigint): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
