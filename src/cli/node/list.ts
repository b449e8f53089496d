import type { Node } from "../../model/kubernetes.generated.ts";
import { marks } from "../../model/profiles/marks.ts";
import { builtin } from "../../model/resources.generated.ts";
import { humanDuration } from "../../model/values/humanDuration.ts";
import { timeToMs } from "../../model/values/time.ts";
import { mustSucceed } from "../cluster/mustSucceed.ts";
import { tableText } from "../views/table.ts";
import { type NodeFlags, withChosenCluster } from "./withChosenCluster.ts";

interface ShownNode {
  readonly name: string;
  readonly kind: "real" | "simulated";
  readonly status: string;
  readonly address: string;
  readonly kubelet: string;
  readonly runtime: string;
  readonly ageSeconds: number;
}

/** Prints the nodes: which are real, and whether they are ready. */
export async function listNodes(flags: NodeFlags): Promise<void> {
  await withChosenCluster(flags, async ({ kube, clock }) => {
    const { items, revision } = mustSucceed(await kube.list(builtin.Node), "nodes could not be listed");
    const nodes = items.map((node) => shownNode(node, clock.nowMs())).sort(realFirst);
    if (flags.output === "json") {
      process.stdout.write(`${JSON.stringify({ revision, nodes })}\n`);
      return;
    }
    if (nodes.length === 0) {
      process.stdout.write("the cluster has no nodes; `muster node join` prints how a machine joins\n");
      return;
    }
    const head = ["NAME", "KIND", "STATUS", "ADDRESS", "KUBELET", "RUNTIME", "AGE"];
    const rows = nodes.map(({ name, kind, status, address, kubelet, runtime, ageSeconds }) => [
      name,
      kind,
      status,
      address,
      kubelet,
      runtime,
      humanDuration(ageSeconds * 1000),
    ]);
    process.stdout.write(tableText([head, ...rows], process.stdout.isTTY ? process.stdout.columns : undefined));
  });
}

export function shownNode({ metadata, spec, status }: Node, nowMs: number): ShownNode {
  const ready = status?.conditions?.find(({ type }) => type === "Ready");
  const state = ready?.status === "True" ? "Ready" : ready === undefined ? "Unknown" : "NotReady";
  const isSimulated = metadata.annotations?.[marks.kwokNode] === marks.kwokNodeValue;
  const createdMs = timeToMs(metadata.creationTimestamp) ?? nowMs;
  return {
    name: metadata.name,
    kind: isSimulated ? "simulated" : "real",
    status: spec?.unschedulable === true ? `${state},SchedulingDisabled` : state,
    address: status?.addresses?.find(({ type }) => type === "InternalIP")?.address ?? "",
    kubelet: status?.nodeInfo?.kubeletVersion ?? "",
    runtime: status?.nodeInfo?.containerRuntimeVersion ?? "",
    ageSeconds: Math.max(0, Math.round((nowMs - createdMs) / 1000)),
  };
}

function realFirst(a: ShownNode, b: ShownNode): number {
  if (a.kind !== b.kind) return a.kind === "real" ? -1 : 1;
  return a.name < b.name ? -1 : 1;
}
