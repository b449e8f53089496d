import { expect, test } from "vitest";
import { choicesText } from "./choicesText.ts";

const many = Array.from({ length: 170 }, (_, at) => `scenario-${at}`);

test("of 170 names the nearest are shown, on two lines at most", () => {
  const text = choicesText("lost-reservatoin", [...many, "lost-reservation"]);
  expect(text).toMatch(/^choose one of 171, such as lost-reservation, /);
  expect(text.length).toBeLessThan(160);
});

test("a name that is the beginning of others finds them", () => {
  expect(choicesText("gan", [...many, "gang", "gang/terminate"])).toContain("such as gang, gang/terminate, ");
});

test("few names are all shown", () => {
  expect(choicesText("x", ["bind", "gang"])).toBe("choose from: bind, gang");
});
