/**
 * What every implementation of the KubeApi port owes its callers, as facts. Controllers are written against these
 * facts, tested against the embedded server and run against other people's clusters; here is why that is the same
 * thing.
 */
import { afterAll, beforeAll, describe } from "vitest";
import type { ContractWorld } from "./contractWorld.ts";
import { listFacts } from "./listFacts.ts";
import { objectFacts } from "./objectFacts.ts";
import { podFacts } from "./podFacts.ts";
import { watchFacts } from "./watchFacts.ts";

/**
 * Registers the whole suite for one implementation. One world serves all facts; each works in a namespace of its own.
 */
export function kubeApiContract(name: string, makeWorld: () => Promise<ContractWorld>): void {
  describe(`a KubeApi ${name}`, () => {
    let world: ContractWorld | undefined;
    const here = (): ContractWorld => world as ContractWorld;
    beforeAll(async () => {
      world = await makeWorld();
    });
    afterAll(() => world?.close());
    describe("objects", () => objectFacts(here));
    describe("pods", () => podFacts(here));
    describe("lists", () => listFacts(here));
    describe("watches", () => watchFacts(here));
  });
}
