import { type FieldError, fieldNotFound } from "../objects/fieldError.ts";
import { type Queue, type QueueSpec, unlimited } from "./queue.ts";

/** Checks quotas: a queue must not have more than its parent, nor children together. */

export interface QuotaVerdict {
  readonly errors: FieldError[];
  readonly warnings: string[];
}

const resources = ["gpu", "cpu", "memory"] as const;
type Resource = (typeof resources)[number];
const unitOf: Readonly<Record<Resource, string>> = { gpu: "GPUs", cpu: "millicores", memory: "MB" };

/** Checks a new or changed queue against the existing ones. */
export function checkQuotas(name: string, spec: QueueSpec, others: readonly Queue[]): QuotaVerdict {
  const { parentQueue = "" } = spec;
  const childrenOf = (parent: string): Queue[] =>
    others.filter(({ metadata, spec: other }) => metadata.name !== name && other?.parentQueue === parent);
  const warnings: string[] = [];
  if (parentQueue !== "") {
    const parent = others.find(({ metadata }) => metadata.name === parentQueue);
    if (parent === undefined) return { errors: [fieldNotFound("spec.parentQueue", parentQueue)], warnings };
    const family = [{ name, spec }, ...childrenOf(parentQueue).map(named)];
    for (const resource of resources) {
      const has = quotaOf(parent.spec, resource);
      if (exceeds(quotaOf(spec, resource), has)) warnings.push(tooMuch(name, spec, parentQueue, resource, has));
      warnings.push(...tooMany(family, parentQueue, resource, has));
    }
  }
  // A queue whose name is still to be generated has no children.
  const children = name === "" ? [] : childrenOf(name).map(named);
  for (const resource of resources) {
    const has = quotaOf(spec, resource);
    for (const child of children) {
      if (exceeds(quotaOf(child.spec, resource), has))
        warnings.push(tooMuch(child.name, child.spec, name, resource, has));
    }
    warnings.push(...tooMany(children, name, resource, has));
  }
  return { errors: [], warnings };
}

interface Named {
  readonly name: string;
  readonly spec: QueueSpec | undefined;
}

function named({ metadata, spec }: Queue): Named {
  return { name: metadata.name, spec };
}

function tooMuch(name: string, spec: QueueSpec | undefined, parent: string, resource: Resource, has: number): string {
  const wants = textOf(quotaOf(spec, resource), resource);
  return `queue ${name} has a ${resource} quota of ${wants}, more than the ${textOf(has, resource)} of queue ${parent}`;
}

/** A single child that exceeds the parent is reported on its own. */
function tooMany(children: readonly Named[], parent: string, resource: Resource, has: number): string[] {
  const quotas = children.map(({ spec }) => quotaOf(spec, resource));
  const sum = quotas.includes(unlimited) ? unlimited : quotas.reduce((total, each) => total + each, 0);
  if (children.length < 2 || !exceeds(sum, has)) return [];
  const wants = textOf(sum, resource);
  return [
    `the children of queue ${parent} have ${resource} quotas of ${wants} together, more than its ${textOf(has, resource)}`,
  ];
}

function quotaOf(spec: QueueSpec | undefined, resource: Resource): number {
  return spec?.resources?.[resource]?.quota ?? 0;
}

function exceeds(quota: number, of: number): boolean {
  if (of === unlimited) return false;
  return quota === unlimited || quota > of;
}

function textOf(quota: number, resource: Resource): string {
  return quota === unlimited ? "unlimited" : `${quota} ${unitOf[resource]}`;
}
