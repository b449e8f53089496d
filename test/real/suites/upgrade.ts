/** A version replaces another under load: both are this tree's image, under two names. */
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Node } from "../../../src/model/kubernetes.generated.ts";
import { builtin } from "../../../src/model/resources.generated.ts";
import { Burst } from "../kit/burst.ts";
import type { RealCluster } from "../kit/cluster.ts";
import { print } from "../kit/figures.ts";
import { musterImage } from "../kit/musterImage.ts";
import { until } from "../kit/processes.ts";
import { isRolledOut, own } from "./install.ts";

const next = "muster.dev/muster:next";
const count = 1_000;
const nodeCount = 126;

export function upgradeSuite(cluster: RealCluster): void {
  describe("upgrade", () => {
    const namespace = "upgrade";
    const simulated = async (): Promise<string[]> =>
      (await cluster.list<Node>(builtin.Node))
        .map(({ metadata }) => metadata.name)
        .filter((name) => name.startsWith("h100"));
    beforeAll(async () => {
      await cluster.namespace(namespace);
      cluster.startMuster("many", "nodes", "sim", "--install", "--pool", `h100=${nodeCount}`);
      await until(async () => (await simulated()).length === nodeCount);
      for (const node of cluster.nodes) await node.ctr("images", "tag", musterImage, next);
    });
    afterAll(async () => {
      await cluster.clean(namespace);
      await cluster.processes.stop("many");
      await cluster.kubectl("delete", "node", ...(await simulated()));
      await cluster.kubectl("delete", "resourceslices", "--all");
    });

    test(`${count} pods are placed while a version replaces another: none is lost, and none is bound twice`, async () => {
      const away = { key: "kubernetes.io/hostname", operator: "NotIn", values: cluster.nodes.map(({ name }) => name) };
      const nodeSelectorTerms = [{ matchExpressions: [away] }];
      const affinity = { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms } } };
      const burst = new Burst(cluster, namespace, { affinity });
      const created = burst.create("load", count);
      await until(async () => burst.binds().length >= 100);
      const fromMs = Date.now();
      const values = join(cluster.folder, "values.json");
      const done = await cluster.muster("install", "--image", next, "--values", values);
      expect(done, done.err).toMatchObject({ code: 0 });
      await until(() => isRolledOut(cluster), 240_000);
      const atMs = Date.now();
      await created;
      await burst.untilBound(count);
      const images = (await cluster.pods(own)).flatMap(({ spec }) => spec?.containers.map(({ image }) => image) ?? []);
      expect(new Set(images)).toEqual(new Set([next]));
      expect(burst.twice()).toEqual([]);
      expect(await burst.refused()).toEqual([]);
      const bound = burst.binds().map(({ atMs: each }) => each);
      const during = bound.filter((each) => each >= fromMs && each <= atMs).length;
      const longest = Math.max(...bound.slice(1).map((each, at) => each - (bound[at] ?? each)));
      print(`upgrade in ${((atMs - fromMs) / 1000).toFixed(1)} s: ${during} binds meanwhile, longest time without one`);
      print(
        `  ${(longest / 1000).toFixed(1)} s; ${burst.refusals.length} creates were refused: ${burst.refusals[0] ?? ""}`,
      );
    });
  });
}
