/** CEL expressions in specs, validated on write. */

import { compileDeviceExpression, deviceCostMax, deviceExpressionBytesMax } from "../../../cel/device.ts";
import { type FieldError, forbidden, invalid, required, tooLong } from "../../../model/objects/fieldError.ts";
import { utf8Bytes } from "./contentSize.ts";

/** Results by expression: claims of one template have the same expressions. */
const verdicts = new Map<string, FieldError | null>();
const verdictsMax = 1024;

/** A device selector: has the variable `device`, returns a boolean. */
export function checkDeviceExpression(expression: string | undefined, path: string, errors: FieldError[]): void {
  if (!checkLength(expression, path, errors)) return;
  let verdict = verdicts.get(expression);
  if (verdict === undefined) {
    verdict = deviceVerdict(expression);
    if (verdicts.size >= verdictsMax) verdicts.clear();
    verdicts.set(expression, verdict);
  }
  if (verdict !== null) errors.push({ ...verdict, field: path });
}

function deviceVerdict(expression: string): FieldError | null {
  const result = compileDeviceExpression(expression);
  if (!result.ok) return invalid("", expression, result.message);
  // Without a declared size the estimate is infinite, and the runtime limit applies.
  const { costMax } = result.program;
  const isTooComplex = costMax > deviceCostMax && Number.isFinite(costMax);
  return isTooComplex ? forbidden("", "too complex, exceeds cost limit") : null;
}

function checkLength(expression: string | undefined, path: string, errors: FieldError[]): expression is string {
  if (!expression) {
    errors.push(required(path));
    return false;
  }
  if (utf8Bytes(expression) > deviceExpressionBytesMax) {
    errors.push(tooLong(path, deviceExpressionBytesMax));
    return false;
  }
  return true;
}
