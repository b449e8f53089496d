/** metrics.k8s.io for `kubectl top` and autoscalers, answered by the node agent and by kubelets. */

import type { Node, Pod } from "../../model/kubernetes.generated.ts";
import { matchesLabels, parseLabelSelector } from "../../model/objects/labelSelector.ts";
import { methodNotAllowed, notFound, unknownPath } from "../../model/objects/status.ts";
import { formatTime } from "../../model/values/time.ts";
import type { PodAgent, PodUsage, Usage } from "../../ports/podAgent.ts";
import type { ResourceType } from "../builtinResources.ts";
import { isSimulated } from "../connect/kubeletRequests.ts";
import type { KubeletUsage } from "../connect/kubeletUsage.ts";
import type { Core } from "../verbs/core.ts";
import type { Exchange } from "./exchange.ts";
import type { ResourceRoute } from "./route.ts";

export const metricsGroup = "metrics.k8s.io";
const version = "v1beta1";
const apiVersion = `${metricsGroup}/${version}`;
const window = "15s";

const row = (plural: string, kind: string, namespaced: boolean): ResourceType => ({
  group: metricsGroup,
  version,
  plural,
  singular: "",
  kind,
  listKind: `${kind}List`,
  shortNames: [],
  categories: [],
  namespaced,
  verbs: ["get", "list"],
  subresources: [],
  selectableFields: [],
  hasStatus: false,
  storageKey: `${metricsGroup}/${plural}`,
  storageVersion: apiVersion,
  definition: "",
  virtual: true,
});

/** Served when the node agent has metrics. */
export const metricsResources: readonly ResourceType[] = [
  row("nodes", "NodeMetrics", false),
  row("pods", "PodMetrics", true),
];

export interface UsageSources {
  readonly core: Core;
  readonly agent: PodAgent;
  readonly kubelets: KubeletUsage;
}

export async function answerMetrics(
  sources: UsageSources,
  exchange: Exchange,
  route: ResourceRoute,
  verb: string,
): Promise<void> {
  const type = metricsResources.find(({ plural }) => plural === route.plural);
  if (type === undefined || route.version !== version || route.subresource !== "") throw unknownPath();
  if (verb !== "get" && verb !== "list") throw methodNotAllowed();
  const representation = exchange.negotiate();
  const { clock, store } = sources.core;
  const timestamp = formatTime(clock.nowMs());
  const of = (object: Node | Pod): Promise<object | undefined> =>
    route.plural === "nodes"
      ? nodeMetrics(sources, object as Node, timestamp)
      : podMetrics(sources, object as Pod, timestamp);
  if (verb === "get") {
    const object = store.get(`/${route.plural}`, route.namespace, route.name)?.object();
    const metrics = object === undefined ? undefined : await of(object);
    if (metrics === undefined) throw notFound({ group: metricsGroup, resource: route.plural }, route.name);
    exchange.sendJson(200, metrics, representation);
    return;
  }
  const selector = parseLabelSelector(exchange.query.text("labelSelector") ?? "");
  const asked: Promise<object | undefined>[] = [];
  for (const stored of store.collection(`/${route.plural}`).all()) {
    if (route.namespace !== "" && stored.namespace !== route.namespace) continue;
    const object = stored.object();
    if (matchesLabels(selector, object.metadata.labels)) asked.push(of(object));
  }
  const items = (await Promise.all(asked)).filter((metrics) => metrics !== undefined);
  exchange.sendJson(200, { kind: type.listKind, apiVersion, metadata: {}, items }, representation);
}

async function nodeMetrics(
  { agent, kubelets }: UsageSources,
  node: Node,
  timestamp: string,
): Promise<object | undefined> {
  const usage: Usage | undefined = agent.plays(node.metadata.name)
    ? agent.nodeUsage(node)
    : isSimulated(node)
      ? undefined
      : (await kubelets.of(node)).node;
  if (usage === undefined) return undefined;
  return { kind: "NodeMetrics", apiVersion, metadata: metadataOf(node), timestamp, window, usage };
}

async function podMetrics(sources: UsageSources, pod: Pod, timestamp: string): Promise<object | undefined> {
  const usage = await podUsage(sources, pod);
  if (usage === undefined) return undefined;
  return { kind: "PodMetrics", apiVersion, metadata: metadataOf(pod), timestamp, window, containers: usage.containers };
}

async function podUsage({ core, agent, kubelets }: UsageSources, pod: Pod): Promise<PodUsage | undefined> {
  const nodeName = pod.spec?.nodeName ?? "";
  if (nodeName === "") return undefined;
  if (agent.plays(nodeName)) return agent.podUsage(pod);
  const node = core.store.get("/nodes", "", nodeName)?.object() as Node | undefined;
  if (node === undefined || isSimulated(node)) return undefined;
  return (await kubelets.of(node)).pods.get(pod.metadata.uid ?? "");
}

function metadataOf({ metadata }: Node | Pod): object {
  const { name, namespace, labels, creationTimestamp } = metadata;
  return {
    name,
    ...(namespace === undefined ? {} : { namespace }),
    ...(labels === undefined ? {} : { labels }),
    creationTimestamp,
  };
}
