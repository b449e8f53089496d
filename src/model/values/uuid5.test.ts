import { expect, test } from "vitest";
import { uuid5 } from "./uuid5.ts";

test.each([
  // RFC 9562, appendix A.4.
  ["6ba7b810-9dad-11d1-80b4-00c04fd430c8", "www.example.com", "2ed6657d-e927-568b-95e1-2665a8aea6a2"],
  ["6ba7b810-9dad-11d1-80b4-00c04fd430c8", "python.org", "886313e1-3b8a-5372-9b90-0c9aee199e5d"],
])("the UUID of %s and %s is %s", (space, name, expected) => {
  expect(uuid5(space, name)).toBe(expected);
});
