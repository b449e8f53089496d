import type { ConfigMap } from "../../model/kubernetes.generated.ts";
import { type FieldError, forbidden, invalid } from "../../model/objects/fieldError.ts";
import { equalJson } from "../../model/objects/json.ts";
import { base64Bytes, utf8Bytes } from "./checks/contentSize.ts";
import { checkConfigKey } from "./checks/nameChecks.ts";
import { strategyOfKind } from "./kindStrategy.ts";

/** 1 MiB over all values, as upstream. */
export const contentBytesMax = 1024 * 1024;

export const configMapStrategy = strategyOfKind<ConfigMap>({
  generation: "none",
  validate: (map) => configMapErrors(map),
  validateUpdate(next, old) {
    const errors: FieldError[] = [];
    if (old.immutable === true) {
      const detail = "field is immutable when `immutable` is set";
      if (next.immutable !== true) errors.push(forbidden("immutable", detail));
      if (!equalJson(next.data ?? {}, old.data ?? {})) errors.push(forbidden("data", detail));
      if (!equalJson(next.binaryData ?? {}, old.binaryData ?? {})) errors.push(forbidden("binaryData", detail));
    }
    return [...errors, ...configMapErrors(next)];
  },
});

function configMapErrors(map: ConfigMap): FieldError[] {
  const errors: FieldError[] = [];
  let bytes = 0;
  for (const [key, value] of Object.entries(map.data ?? {})) {
    checkConfigKey(key, `data[${key}]`, errors);
    if (map.binaryData?.[key] !== undefined) {
      errors.push(invalid(`data[${key}]`, key, "duplicate of key present in binaryData"));
    }
    bytes += utf8Bytes(value);
  }
  for (const [key, value] of Object.entries(map.binaryData ?? {})) {
    checkConfigKey(key, `binaryData[${key}]`, errors);
    bytes += base64Bytes(value);
  }
  if (bytes > contentBytesMax) {
    errors.push({ type: "TooLong", field: "", body: `Too long: may not be more than ${contentBytesMax} bytes` });
  }
  return errors;
}
