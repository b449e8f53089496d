import fc from "fast-check";
import { expect, test } from "vitest";
import { Chance } from "./chance.ts";
import { faultKinds, registerFault, Swarm } from "./faults.ts";
import { Schedule } from "./schedule.ts";

test("a draw does not depend on the draws before it", () => {
  const few = new Chance(7);
  const many = new Chance(7);
  for (let n = 0; n < 50; n++) many.decide(`other ${n}`, (dice) => dice.below(100));
  const draw = (chance: Chance): number =>
    chance.decide("ann|create|/pods/default/a#1", (dice) => dice.between(1, 1e6));
  expect(draw(many)).toBe(draw(few));
});

test("two seeds that differ by 2^32 are two seeds", () => {
  const draw = (seed: number): number => new Chance(seed).decide("a", (dice) => dice.between(1, 1e9));
  expect(new Set([7, 7 + 2 ** 32, 7 + 2 ** 33, Number.MAX_SAFE_INTEGER].map(draw)).size).toBe(4);
});

test("the n-th call of the same kind has a key of its own", () => {
  const chance = new Chance(1);
  expect([chance.nth("a"), chance.nth("a"), chance.nth("b")]).toEqual(["a#1", "a#2", "b#1"]);
});

test("what is decided can be played again from the list, and what is not on it means nothing unusual", () => {
  const first = new Chance(3);
  const keys = Array.from({ length: 40 }, (_, n) => `key ${n}`);
  const drawn = keys.map((key) => first.decide(key, (dice) => (dice.perMille(300) ? dice.between(1, 9) : 0)));
  const again = new Chance(99, first.decisions);
  expect(keys.map((key) => again.decide(key, () => 5))).toEqual(drawn);
  expect(new Chance(3, []).decide("key 0", () => 5)).toBe(0);
});

test("nothing unusual is decided once everything is calm", () => {
  const chance = new Chance(1);
  chance.calm = true;
  expect(chance.decide("key", () => 5)).toBe(0);
  expect(chance.decisions).toEqual([]);
});

test("a swarm is drawn from the seed, uses only the faults of the scenario, and lists those that are on", () => {
  const all = Array.from({ length: 50 }, (_, seed) => Swarm.draw(new Chance(seed)).toString());
  expect(new Set(all).size).toBeGreaterThan(45);
  expect(Swarm.draw(new Chance(4)).toString()).toBe(Swarm.draw(new Chance(4)).toString());
  expect(Swarm.draw(new Chance(4), ["pause"]).toString()).toMatch(/^(no faults|pause [123])$/);
});

test("a part may add its own kind of fault, once", () => {
  registerFault({ name: "node-flap-of-a-test", concerns: "node", about: "a node goes and comes" });
  expect(faultKinds().at(-1)?.name).toBe("node-flap-of-a-test");
  expect(() => registerFault({ name: "pause", concerns: "process", about: "" })).toThrow("registered twice");
});

test("things happen in order of time, then of key, then of being put there, and what is cancelled does not", () => {
  fc.assert(
    fc.property(fc.array(fc.record({ at: fc.nat(20), tie: fc.nat(2), dropped: fc.boolean() })), (items) => {
      const schedule = new Schedule();
      const ran: string[] = [];
      items.forEach(({ at, tie, dropped }, order) => {
        const cancel = schedule.at(at, tie, () => ran.push(`${order}`));
        if (dropped) cancel();
      });
      for (let run = schedule.next(); run !== undefined; run = schedule.next()) run();
      const expected = items
        .map((item, order) => ({ ...item, order }))
        .filter(({ dropped }) => !dropped)
        .sort((a, b) => a.at - b.at || a.tie - b.tie || a.order - b.order)
        .map(({ order }) => `${order}`);
      expect(ran).toEqual(expected);
    }),
  );
});
