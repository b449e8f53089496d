/**
 * Admission that takes its time, as webhooks do: between reading an object and writing it others have their turn, so
 * every write must notice that it was overtaken.
 */
import { type Admission, type AdmissionAttributes, noAdmission } from "../../src/apiserver/admission/admission.ts";
import { kinds } from "./kinds.ts";

export function slowAdmission(below: (bound: number) => number): Admission {
  const concerns = ({ type }: AdmissionAttributes): boolean =>
    kinds.some(({ resource }) => resource === type.storageKey);
  const dawdle = async (): Promise<void> => {
    for (let turns = below(12); turns > 0; turns--) await new Promise<void>((resolve) => setImmediate(resolve));
  };
  return {
    ...noAdmission,
    mutate: (attributes) => {
      const { object } = attributes;
      if (object === undefined || !concerns(attributes) || below(3) === 0) return undefined;
      return dawdle().then(() => object);
    },
    validate: (attributes) => (concerns(attributes) && below(3) > 0 ? dawdle() : undefined),
  };
}
