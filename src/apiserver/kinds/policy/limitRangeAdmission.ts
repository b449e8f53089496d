/** LimitRange admission: default requests and limits of containers, and bounds. */
import type {
  Container,
  LimitRange,
  LimitRangeItem,
  PersistentVolumeClaim,
  Pod,
} from "../../../model/kubernetes.generated.ts";
import { forbiddenError } from "../../../model/objects/status.ts";
import type { WriteContext } from "../../strategy.ts";
import { amountRatio, compareAmounts, isZeroAmount } from "../checks/amounts.ts";
import { podLimits, podRequests, type ResourceList } from "../pods/podResources.ts";

const annotation = "kubernetes.io/limit-ranger";

export function applyLimitRangeDefaults(pod: Pod, context: WriteContext): void {
  const notes: string[] = [];
  for (const range of limitRangesOf(pod.metadata?.namespace, context)) {
    const limits: ResourceList = {};
    const requests: ResourceList = {};
    for (const item of range.spec?.limits ?? []) {
      if (item.type !== "Container") continue;
      Object.assign(limits, item.default);
      Object.assign(requests, item.defaultRequest);
    }
    for (const container of pod.spec?.containers ?? []) fill(container, { limits, requests }, "container", notes);
    for (const container of pod.spec?.initContainers ?? []) {
      fill(container, { limits, requests }, "init container", notes);
    }
  }
  if (notes.length === 0 || pod.metadata === undefined) return;
  pod.metadata.annotations ??= {};
  pod.metadata.annotations[annotation] = `LimitRanger plugin set: ${notes.join("; ")}`;
}

export function enforceLimitRangesOnPod(pod: Pod, context: WriteContext): void {
  const problems: string[] = [];
  const spec = pod.spec;
  if (spec === undefined) return;
  for (const range of limitRangesOf(pod.metadata?.namespace, context)) {
    for (const item of range.spec?.limits ?? []) {
      if (item.type === "Container") {
        for (const container of spec.containers) checkBounds(item, container.resources ?? {}, problems);
        for (const container of spec.initContainers ?? []) checkBounds(item, container.resources ?? {}, problems);
      } else if (item.type === "Pod") {
        checkBounds(item, { requests: podRequests(spec), limits: podLimits(spec) }, problems);
      }
    }
  }
  refuseIfAny({ group: "", resource: "pods" }, pod.metadata?.name ?? "", problems);
}

export function enforceLimitRangesOnClaim(claim: PersistentVolumeClaim, context: WriteContext): void {
  const problems: string[] = [];
  const requests = claim.spec?.resources?.requests;
  for (const range of limitRangesOf(claim.metadata?.namespace, context)) {
    for (const item of range.spec?.limits ?? []) {
      if (item.type !== "PersistentVolumeClaim") continue;
      for (const [name, bound] of Object.entries(item.min ?? {})) {
        checkMin(item.type, name, bound, { requests }, problems);
      }
      for (const [name, bound] of Object.entries(item.max ?? {})) {
        const request = requests?.[name];
        const head = `maximum ${name} usage per ${item.type} is ${bound}`;
        if (request === undefined) problems.push(`${head}.  No request is specified`);
        else if (compareAmounts(request, bound) > 0) problems.push(`${head}, but request is ${request}`);
      }
    }
  }
  refuseIfAny({ group: "", resource: "persistentvolumeclaims" }, claim.metadata?.name ?? "", problems);
}

type Requested = { requests?: ResourceList | undefined; limits?: ResourceList | undefined };

function limitRangesOf(namespace: string | undefined, context: WriteContext): Iterable<LimitRange> {
  return context.list("/limitranges", namespace ?? "") as Iterable<unknown> as Iterable<LimitRange>;
}

function fill(
  container: Container,
  defaults: { limits: ResourceList; requests: ResourceList },
  what: string,
  notes: string[],
): void {
  container.resources ??= {};
  const resources = container.resources;
  for (const [field, word] of [
    ["requests", "request"],
    ["limits", "limit"],
  ] as const) {
    const added: string[] = [];
    for (const [name, amount] of Object.entries(defaults[field])) {
      if (resources[field]?.[name] !== undefined) continue;
      resources[field] ??= {};
      resources[field][name] = amount;
      added.push(name);
    }
    if (added.length > 0) notes.push(`${added.sort().join(", ")} ${word} for ${what} ${container.name}`);
  }
}

function checkBounds(item: LimitRangeItem, requested: Requested, problems: string[]): void {
  const { requests, limits } = requested;
  for (const [name, bound] of Object.entries(item.min ?? {})) checkMin(item.type, name, bound, requested, problems);
  for (const [name, bound] of Object.entries(item.max ?? {})) {
    const head = `maximum ${name} usage per ${item.type} is ${bound}`;
    const limit = limits?.[name];
    const request = requests?.[name];
    if (limit === undefined) problems.push(`${head}.  No limit is specified`);
    else if (compareAmounts(limit, bound) > 0) problems.push(`${head}, but limit is ${limit}`);
    else if (request !== undefined && compareAmounts(request, bound) > 0) {
      problems.push(`${head}, but request is ${request}`);
    }
  }
  for (const [name, bound] of Object.entries(item.maxLimitRequestRatio ?? {})) {
    const head = `${name} max limit to request ratio per ${item.type} is ${bound}`;
    const limit = limits?.[name];
    const request = requests?.[name];
    if (request === undefined || isZeroAmount(request)) {
      problems.push(`${head}, but no request is specified or request is 0`);
    } else if (limit === undefined || isZeroAmount(limit)) {
      problems.push(`${head}, but no limit is specified or limit is 0`);
    } else {
      const ratio = amountRatio(limit, request);
      if (ratio > amountRatio(bound, "1")) problems.push(`${head}, but provided ratio is ${ratio.toFixed(6)}`);
    }
  }
}

function checkMin(
  type: string,
  name: string,
  bound: string,
  { requests, limits }: Requested,
  problems: string[],
): void {
  const head = `minimum ${name} usage per ${type} is ${bound}`;
  const limit = limits?.[name];
  const request = requests?.[name];
  if (request === undefined) problems.push(`${head}.  No request is specified`);
  else if (compareAmounts(request, bound) < 0) problems.push(`${head}, but request is ${request}`);
  else if (limit !== undefined && compareAmounts(limit, bound) < 0) problems.push(`${head}, but limit is ${limit}`);
}

function refuseIfAny(resource: { group: string; resource: string }, name: string, problems: string[]): void {
  if (problems.length === 0) return;
  throw forbiddenError(resource, name, problems.length === 1 ? (problems[0] ?? "") : `[${problems.join(", ")}]`);
}
