/**
 * The contract of the KubeApi port, as facts that every implementation is tested with. Controllers rely on these facts:
 * they are tested against the embedded server and run against other clusters.
 */
import { afterAll, beforeAll, describe } from "vitest";
import type { ContractCluster } from "./contractCluster.ts";
import { listFacts } from "./listFacts.ts";
import { objectFacts } from "./objectFacts.ts";
import { podFacts } from "./podFacts.ts";
import { watchFacts } from "./watchFacts.ts";

/** Registers the suite for one implementation. One cluster serves all facts; each fact has its own namespace. */
export function kubeApiContract(name: string, createCluster: () => Promise<ContractCluster>): void {
  describe(`a KubeApi ${name}`, () => {
    let cluster: ContractCluster | undefined;
    const here = (): ContractCluster => cluster as ContractCluster;
    beforeAll(async () => {
      cluster = await createCluster();
    });
    afterAll(() => cluster?.close());
    describe("objects", () => objectFacts(here));
    describe("pods", () => podFacts(here));
    describe("lists", () => listFacts(here));
    describe("watches", () => watchFacts(here));
  });
}
