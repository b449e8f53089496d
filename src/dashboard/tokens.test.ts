/** The figures of the palette, from the tokens as they are in the style sheet. */
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { queueColours } from "./colours.ts";

type Rgb = readonly [number, number, number];

const css = readFileSync(new URL("styles.css", import.meta.url), "utf8");

function tokens(selector: string): Map<string, Rgb> {
  const body = css.slice(css.indexOf(`${selector} {`));
  const block = body.slice(0, body.indexOf("}"));
  return new Map(
    [...block.matchAll(/--([a-z0-9]+):\s*#([0-9a-f]{6})/g)].map(([, name = "", hex = ""]) => [
      name,
      [0, 2, 4].map((at) => Number.parseInt(hex.slice(at, at + 2), 16) / 255) as [number, number, number],
    ]),
  );
}

const linear = (c: number): number => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
const luminance = ([r, g, b]: Rgb): number => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);

function contrast(a: Rgb, b: Rgb): number {
  const [low = 0, high = 0] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
}

function oklab(rgb: Rgb): Rgb {
  const [r, g, b] = rgb.map(linear) as [number, number, number];
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}

function distance(a: Rgb, b: Rgb): number {
  const [x, y] = [oklab(a), oklab(b)];
  return 100 * Math.hypot(x[0] - y[0], x[1] - y[1], x[2] - y[2]);
}

/** Machado 2009, full severity, on linear light. */
const deficiencies: Readonly<Record<string, readonly Rgb[]>> = {
  protanopia: [
    [0.152286, 1.052583, -0.204868],
    [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998],
  ],
  deuteranopia: [
    [0.367322, 0.860646, -0.227968],
    [0.280085, 0.672501, 0.047413],
    [-0.01182, 0.04294, 0.968881],
  ],
  tritanopia: [
    [1.255528, -0.076749, -0.178779],
    [-0.078411, 0.930809, 0.147602],
    [0.004733, 0.691367, 0.3039],
  ],
};

function seenWith(matrix: readonly Rgb[], rgb: Rgb): Rgb {
  const light = rgb.map(linear) as [number, number, number];
  return matrix.map((row) => {
    const value = Math.max(0, Math.min(1, row[0] * light[0] + row[1] * light[1] + row[2] * light[2]));
    return value <= 0.0031308 ? 12.92 * value : 1.055 * value ** (1 / 2.4) - 0.055;
  }) as [number, number, number];
}

describe.each([
  ["dark", ":root"],
  ["light", '[data-theme="light"]'],
])("the %s palette", (_, selector) => {
  const palette = tokens(selector);
  const of = (name: string): Rgb => palette.get(name) ?? [0, 0, 0];
  const queues = Array.from({ length: 6 }, (_each, at) => of(`q${at}`));
  const pairs = queues.flatMap((a, at) => queues.slice(at + 1).map((b) => [a, b] as const));

  test("has text that can be read on every ground", () => {
    for (const ground of ["bg", "s1", "s2"]) {
      expect(contrast(of("ink"), of(ground))).toBeGreaterThan(13);
      expect(contrast(of("ink2"), of(ground))).toBeGreaterThan(6);
      expect(contrast(of("ink3"), of(ground))).toBeGreaterThan(4.5);
    }
    // A selected row writes its quiet text in the next stronger ink.
    expect(contrast(of("ink2"), of("s3"))).toBeGreaterThan(4.5);
  });

  test("has states that can be read on the page and on their chips", () => {
    for (const state of ["ok", "warn", "bad"]) {
      expect(contrast(of(state), of("bg")), state).toBeGreaterThan(4.6);
      expect(contrast(of(state), of(`${state}bg`)), state).toBeGreaterThan(4.6);
    }
  });

  test("has queue colours that differ for full sight and for each deficiency", () => {
    expect(Math.min(...pairs.map(([a, b]) => distance(a, b)))).toBeGreaterThan(14);
    for (const [name, matrix] of Object.entries(deficiencies)) {
      const least = Math.min(...pairs.map(([a, b]) => distance(seenWith(matrix, a), seenWith(matrix, b))));
      expect(least, name).toBeGreaterThan(9);
    }
  });
});

describe("colours of queues", () => {
  const leaf = (name: string, parent = "p") =>
    ({ name, parent, isLeaf: true }) as Parameters<typeof queueColours>[0][number];

  test("are different for six leaves, and stay when queues come and go", () => {
    const six = ["a", "b", "c", "d", "e", "f"].map((name) => leaf(name));
    const first = queueColours(six);
    expect(new Set([...first.values()].map(({ index }) => index)).size).toBe(6);
    const later = queueColours([leaf("x"), ...six.slice(2)], first);
    for (const { name } of six.slice(2)) expect(later.get(name)).toEqual(first.get(name));
  });

  test("are shared by siblings at another lightness from the seventh leaf on", () => {
    const seven = ["a", "b", "c", "d", "e", "f"].map((name) => leaf(name));
    const found = queueColours([...seven, leaf("g")]);
    expect(found.get("g")?.shade).toBe(1);
  });
});
