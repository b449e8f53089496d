/**
 * Constraints between the devices of one claim: an attribute that all must share, or that must differ between any two.
 */
import type { DeviceAttribute, DeviceConstraint } from "../../../model/kubernetes.generated.ts";
import type { PoolDevice } from "./poolDevice.ts";

/** The state of a constraint: devices are added and removed like on a stack. */
export interface Constraint {
  appliesTo(request: string, label: string): boolean;
  /** False: the device violates the constraint and was not added. */
  add(device: PoolDevice): boolean;
  /** Removes the last device that was added. */
  drop(): void;
  /** Whether the device could be added now. */
  admits(device: PoolDevice): boolean;
  /** The state as text: two equal texts behave equally from here on. */
  stateKey(): string;
  readonly attribute: string;
  readonly isDistinct: boolean;
  /** The value that all devices must have, once one was added. */
  readonly fixed: string | undefined;
}

export function constraintOf(spec: DeviceConstraint): Constraint | undefined {
  const requests = spec.requests === undefined || spec.requests.length === 0 ? undefined : new Set(spec.requests);
  if (spec.matchAttribute !== undefined) return new Matching(spec.matchAttribute, requests);
  if (spec.distinctAttribute !== undefined) return new Distinct(spec.distinctAttribute, requests);
  return undefined;
}

/** Type and value as one text, or undefined where there is none. Lists and unknown types compare equal to nothing. */
export function attributeText(attribute: DeviceAttribute | undefined): string | undefined {
  if (attribute === undefined) return undefined;
  if (attribute.string !== undefined) return `string:${attribute.string}`;
  if (attribute.int !== undefined) return `int:${attribute.int}`;
  if (attribute.bool !== undefined) return `bool:${attribute.bool}`;
  // Versions compare as they are written.
  if (attribute.version !== undefined) return `version:${attribute.version}`;
  return incomparable;
}

const incomparable = "?";

abstract class OnAttribute {
  readonly attribute: string;
  private readonly requests: ReadonlySet<string> | undefined;

  constructor(attribute: string, requests: ReadonlySet<string> | undefined) {
    this.attribute = attribute;
    this.requests = requests;
  }

  appliesTo(request: string, label: string): boolean {
    return this.requests === undefined || this.requests.has(request) || this.requests.has(label);
  }
}

class Matching extends OnAttribute implements Constraint {
  readonly isDistinct = false;
  private value: string | undefined;
  private count = 0;

  get fixed(): string | undefined {
    return this.count === 0 ? undefined : this.value;
  }

  admits(device: PoolDevice): boolean {
    const text = attributeText(device.attribute(this.attribute));
    if (text === undefined) return false;
    return this.count === 0 || (text === this.value && text !== incomparable);
  }

  add(device: PoolDevice): boolean {
    if (!this.admits(device)) return false;
    if (this.count === 0) this.value = attributeText(device.attribute(this.attribute));
    this.count++;
    return true;
  }

  drop(): void {
    this.count--;
  }

  stateKey(): string {
    return this.count === 0 ? "" : (this.value as string);
  }
}

class Distinct extends OnAttribute implements Constraint {
  readonly isDistinct = true;
  readonly fixed = undefined;
  private readonly values: string[] = [];

  admits(device: PoolDevice): boolean {
    const text = attributeText(device.attribute(this.attribute));
    if (text === undefined) return false;
    if (this.values.length === 0) return true;
    return text !== incomparable && !this.values.includes(text);
  }

  add(device: PoolDevice): boolean {
    if (!this.admits(device)) return false;
    this.values.push(attributeText(device.attribute(this.attribute)) as string);
    return true;
  }

  drop(): void {
    this.values.pop();
  }

  stateKey(): string {
    return [...this.values].sort().join("|");
  }
}
