/** metrics.k8s.io for `kubectl top` and autoscalers, answered by the node agent. */

import type { Node, Pod } from "../../model/kubernetes.generated.ts";
import { matchesLabels, parseLabelSelector } from "../../model/objects/labelSelector.ts";
import { methodNotAllowed, notFound, unknownPath } from "../../model/objects/status.ts";
import { formatTime } from "../../model/values/time.ts";
import type { PodAgent, Usage } from "../../ports/podAgent.ts";
import type { ResourceType } from "../resources.ts";
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

export function answerMetrics(
  core: Core,
  agent: PodAgent,
  exchange: Exchange,
  route: ResourceRoute,
  verb: string,
): void {
  const type = metricsResources.find(({ plural }) => plural === route.plural);
  if (type === undefined || route.version !== version || route.subresource !== "") throw unknownPath();
  if (verb !== "get" && verb !== "list") throw methodNotAllowed();
  const representation = exchange.negotiate();
  const timestamp = formatTime(core.clock.nowMs());
  const { store } = core;
  const of = (object: Node | Pod): object | undefined =>
    route.plural === "nodes"
      ? nodeMetrics(agent, object as Node, timestamp)
      : podMetrics(agent, object as Pod, timestamp);
  if (verb === "get") {
    const object = store.get(`/${route.plural}`, route.namespace, route.name)?.object();
    const metrics = object === undefined ? undefined : of(object);
    if (metrics === undefined) throw notFound({ group: metricsGroup, resource: route.plural }, route.name);
    exchange.sendJson(200, metrics, representation);
    return;
  }
  const selector = parseLabelSelector(exchange.query.text("labelSelector") ?? "");
  const items: object[] = [];
  for (const stored of store.collection(`/${route.plural}`).all()) {
    if (route.namespace !== "" && stored.namespace !== route.namespace) continue;
    const object = stored.object();
    if (!matchesLabels(selector, object.metadata.labels)) continue;
    const metrics = of(object);
    if (metrics !== undefined) items.push(metrics);
  }
  exchange.sendJson(200, { kind: type.listKind, apiVersion, metadata: {}, items }, representation);
}

function nodeMetrics(agent: PodAgent, node: Node, timestamp: string): object | undefined {
  const usage: Usage | undefined = agent.nodeUsage?.(node);
  if (usage === undefined) return undefined;
  return { kind: "NodeMetrics", apiVersion, metadata: metadataOf(node), timestamp, window, usage };
}

function podMetrics(agent: PodAgent, pod: Pod, timestamp: string): object | undefined {
  const usage = pod.spec?.nodeName === undefined ? undefined : agent.podUsage?.(pod);
  if (usage === undefined) return undefined;
  return { kind: "PodMetrics", apiVersion, metadata: metadataOf(pod), timestamp, window, containers: usage.containers };
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
