import type { NewObject } from "../../model/intent.ts";
import type { CustomResourceDefinition } from "../../model/kubernetes.generated.ts";
import type { AdmissionHook } from "../../model/objects/admissionHook.ts";
import type { Controllers } from "./controllers.ts";

/** A component of the control plane, which `muster up` and `muster run --controllers` start by its name. */
export interface Component {
  readonly name: string;
  /** One line for `--help`. */
  readonly about: string;
  /**
   * A real cluster has this component already: `muster run` starts it only when it is named, because two of them would
   * overwrite each other's writes.
   */
  readonly isProvidedByCluster?: boolean;
  /** The CustomResourceDefinitions of the kinds that it reads and writes. */
  readonly definitions?: readonly NewObject<CustomResourceDefinition>[];
  /** Objects that the component needs before it starts. They are created when they are missing, and never changed. */
  readonly startObjects?: readonly NewObject[];
  /** Admission hooks. The embedded server calls them in process, a real API server by webhook. */
  readonly hooks?: readonly AdmissionHook[];
  /** Adds caches and controllers. Nothing runs before `controllers.start()`. */
  add(controllers: Controllers): void;
}
