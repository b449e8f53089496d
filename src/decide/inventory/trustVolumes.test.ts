import { expect, test } from "vitest";
import { trustRulesDefault, whyVolumesNotTrusted } from "./trustVolumes.ts";

const identity = { account: "1", region: "r" };
const last = { volumes: 100, identity };
const none = { rows: 0, listed: 0 };

test.each([
  { fact: "as many as before", seen: { volumes: 100, liveLinkedRows: 90, identity }, trusted: true },
  { fact: "a third fewer at once", seen: { volumes: 66, liveLinkedRows: 90, identity }, trusted: false },
  {
    fact: "a third fewer of a handful",
    seen: { volumes: 2, liveLinkedRows: 3, identity },
    before: { volumes: 3, identity },
    trusted: true,
  },
  {
    fact: "none, though disks have volumes",
    seen: { volumes: 0, liveLinkedRows: 1, identity },
    before: undefined,
    trusted: false,
  },
  {
    fact: "none again, after --accept-drop",
    seen: { volumes: 0, liveLinkedRows: 1, identity },
    before: { volumes: 0, identity },
    trusted: true,
  },
  {
    fact: "none, and no disk has one",
    seen: { volumes: 0, liveLinkedRows: 0, identity },
    before: undefined,
    trusted: true,
  },
  {
    fact: "another account",
    seen: { volumes: 100, liveLinkedRows: 90, identity: { account: "2", region: "r" } },
    trusted: false,
  },
  {
    fact: "another region",
    seen: { volumes: 100, liveLinkedRows: 90, identity: { account: "1", region: "s" } },
    trusted: false,
  },
  {
    fact: "a first reading without the volumes of disks in use",
    seen: { volumes: 6, liveLinkedRows: 55, inUse: { rows: 55, listed: 5 }, identity },
    before: undefined,
    trusted: false,
  },
  {
    fact: "a first reading where most disks are at rest",
    seen: { volumes: 6, liveLinkedRows: 55, inUse: { rows: 6, listed: 6 }, identity },
    before: undefined,
    trusted: true,
  },
  {
    fact: "a first reading without a few disks in use",
    seen: { volumes: 50, liveLinkedRows: 55, inUse: { rows: 55, listed: 51 }, identity },
    before: undefined,
    trusted: true,
  },
])("a listing is believed or not: $fact", ({ seen, trusted, ...rest }) => {
  const before = "before" in rest ? rest.before : last;
  expect(whyVolumesNotTrusted({ inUse: none, ...seen }, before, trustRulesDefault) === undefined).toBe(trusted);
});
