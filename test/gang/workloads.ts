/** The workloads that Grove's own end-to-end tests use, by their names there. */
import type { PodCliqueSet, SetTemplate, StartupType } from "../../src/model/gang/types.ts";
import { clique, pcs } from "./setBuilder.ts";

export interface WorkloadOptions {
  readonly name?: string;
  readonly replicas?: number;
  readonly scheduler?: "kai-scheduler" | "default-scheduler";
  readonly template?: Partial<SetTemplate>;
  readonly spec?: object;
}

interface Sizes {
  readonly aMin: number;
  readonly cMin: number;
  readonly groupMin: number;
}

function workload(
  defaultName: string,
  { aMin, cMin, groupMin }: Sizes,
  wish: WorkloadOptions,
  after: Record<string, string[]> = {},
): PodCliqueSet {
  const scheduler = wish.scheduler ?? "kai-scheduler";
  const pod = {
    schedulerName: scheduler,
    containers: [{ name: "main", image: "registry/app:1", resources: { requests: { memory: "80Mi" } } }],
  };
  const more = { labels: { "kai.scheduler/queue": "test" } };
  const starts = (name: string) => (after[name] === undefined ? {} : { after: after[name] });
  return pcs(
    wish.name ?? defaultName,
    [
      clique({ name: "pc-a", replicas: 2, min: aMin, pod, more, ...starts("pc-a") }),
      clique({ name: "pc-b", replicas: 1, min: 1, pod, more, ...starts("pc-b") }),
      clique({ name: "pc-c", replicas: 3, min: cMin, pod, more, ...starts("pc-c") }),
    ],
    {
      replicas: wish.replicas ?? 1,
      groups: [{ name: "sg-x", cliqueNames: ["pc-b", "pc-c"], replicas: 2, minAvailable: groupMin }],
      ...(wish.template && { template: wish.template }),
      ...(wish.spec && { spec: wish.spec }),
    },
  );
}

const inOrder = { cliqueStartupType: "CliqueStartupTypeInOrder" as StartupType };
const explicit = { cliqueStartupType: "CliqueStartupTypeExplicit" as StartupType };

export const workload1 = (wish: WorkloadOptions = {}) => workload("workload1", { aMin: 2, cMin: 3, groupMin: 2 }, wish);
export const workload2 = (wish: WorkloadOptions = {}) => workload("workload2", { aMin: 1, cMin: 1, groupMin: 1 }, wish);
export const workload3 = (wish: WorkloadOptions = {}) =>
  workload("workload3", { aMin: 2, cMin: 3, groupMin: 2 }, { ...wish, template: { ...wish.template, ...inOrder } });
export const workload4 = (wish: WorkloadOptions = {}) =>
  workload("workload4", { aMin: 1, cMin: 1, groupMin: 1 }, { ...wish, template: { ...wish.template, ...inOrder } });
export const workload5 = (wish: WorkloadOptions = {}) =>
  workload(
    "workload5",
    { aMin: 2, cMin: 3, groupMin: 2 },
    { ...wish, template: { ...wish.template, ...explicit } },
    {
      "pc-c": ["pc-a"],
      "pc-b": ["pc-c"],
    },
  );
export const workload6 = (wish: WorkloadOptions = {}) =>
  workload(
    "workload6",
    { aMin: 1, cMin: 1, groupMin: 1 },
    { ...wish, template: { ...wish.template, ...explicit } },
    {
      "pc-b": ["pc-a"],
      "pc-c": ["pc-b"],
    },
  );
export const workload5gt = (wish: WorkloadOptions = {}) =>
  workload("workload5-gt", { aMin: 1, cMin: 3, groupMin: 1 }, wish);
export const quick = { terminationDelay: "10s" };
