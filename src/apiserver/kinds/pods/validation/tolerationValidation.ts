import type { Toleration } from "../../../../model/kubernetes.generated.ts";
import { type FieldError, invalid, notSupported, required } from "../../../../model/objects/fieldError.ts";
import { checkQualifiedName, labelValueProblem } from "../../checks/nameChecks.ts";

export const taintEffects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

export function checkTolerations(tolerations: readonly Toleration[], path: string, errors: FieldError[]): void {
  for (let i = 0; i < tolerations.length; i++) {
    const toleration = tolerations[i];
    if (toleration === undefined) continue;
    const { key, operator, value, effect } = toleration;
    if (key) checkQualifiedName(key, `${path}[${i}].key`, errors);
    else if (operator !== "Exists") {
      errors.push(
        invalid(
          `${path}[${i}].operator`,
          operator ?? "",
          'operator must be Exists when `key` is empty, which means "match all values and all keys"',
        ),
      );
    }
    if (toleration.tolerationSeconds !== undefined && effect !== "NoExecute") {
      const detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
      errors.push(invalid(`${path}[${i}].effect`, effect ?? "", detail));
    }
    switch (operator ?? "") {
      case "":
      case "Equal": {
        const problem = labelValueProblem(value ?? "");
        if (problem !== undefined) errors.push(invalid(`${path}[${i}].operator`, value, problem));
        break;
      }
      case "Exists":
        if (value) {
          const detail = "value must be empty when `operator` is 'Exists'";
          errors.push(invalid(`${path}[${i}].operator`, value, detail));
        }
        break;
      case "Lt":
      case "Gt":
        if (!/^(0|-?[1-9][0-9]*)$/.test(value ?? "")) {
          errors.push(invalid(`${path}[${i}].value`, value ?? "", "must be a valid decimal integer in canonical form"));
        }
        break;
      default:
        errors.push(notSupported(`${path}[${i}].operator`, operator, ["Equal", "Exists"]));
    }
    if (effect) checkTaintEffect(effect, `${path}[${i}].effect`, errors);
  }
}

export function checkTaintEffect(effect: string | undefined, path: string, errors: FieldError[]): void {
  if (!effect) errors.push(required(path));
  else if (!taintEffects.includes(effect)) errors.push(notSupported(path, effect, taintEffects));
}
