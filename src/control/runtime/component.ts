import type { NewObject } from "../../model/intent.ts";
import type { CustomResourceDefinition } from "../../model/kubernetes.generated.ts";
import type { AdmissionHook } from "../../model/objects/admissionHook.ts";
import type { Controllers } from "./controllers.ts";

/** A component of the control plane, which `muster up` and `muster run --controllers` start by its name. */
export interface Component {
  readonly name: string;
  /** One line for `--help`. */
  readonly about: string;
  /** Every real cluster brings its own: `muster run` starts it only when it is named, as two of them would fight. */
  readonly isProvidedByCluster?: boolean;
  /** The CustomResourceDefinitions that it works on. */
  readonly definitions?: readonly NewObject<CustomResourceDefinition>[];
  /**
   * Objects that a cluster with this component has from its first moment; created when they are missing, never changed.
   */
  readonly startObjects?: readonly NewObject[];
  /** Rules about writes. The embedded server calls them in process, a real one by webhook. */
  readonly hooks?: readonly AdmissionHook[];
  /** Adds caches and controllers. Nothing runs before `controllers.start()`. */
  add(controllers: Controllers): void;
}
