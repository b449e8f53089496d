import type { Secret } from "../../model/kubernetes.generated.ts";
import { type FieldError, forbidden, invalid, required, tooLong } from "../../model/objects/fieldError.ts";
import { equalJson } from "../../model/objects/json.ts";
import { base64Bytes } from "./checks/contentSize.ts";
import { checkImmutable } from "./checks/fieldChecks.ts";
import { checkConfigKey } from "./checks/nameChecks.ts";
import { contentBytesMax } from "./configMap.ts";
import { strategyOfKind } from "./kindStrategy.ts";

const serviceAccountName = "kubernetes.io/service-account.name";

export const secretStrategy = strategyOfKind<Secret>({
  generation: "none",
  setDefaults(secret) {
    secret.type ||= "Opaque";
    foldText(secret);
  },
  validate: (secret) => secretErrors(secret),
  validateUpdate(next, old) {
    const errors: FieldError[] = [];
    checkImmutable(next.type, old.type, "type", errors);
    if (old.immutable === true) {
      const detail = "field is immutable when `immutable` is set";
      if (next.immutable !== true) errors.push(forbidden("immutable", detail));
      if (!equalJson(next.data ?? {}, old.data ?? {})) errors.push(forbidden("data", detail));
    }
    return [...errors, ...secretErrors(next)];
  },
  selectFields: (secret) => [secret.type ?? ""],
});

/** `stringData` is write-only: it is merged into `data`. */
function foldText(secret: Secret): void {
  const text = secret.stringData;
  if (text === undefined) return;
  const data = { ...secret.data };
  for (const [key, value] of Object.entries(text)) data[key] = Buffer.from(value, "utf8").toString("base64");
  if (Object.keys(data).length > 0) secret.data = data;
  delete secret.stringData;
}

function secretErrors(secret: Secret): FieldError[] {
  const errors: FieldError[] = [];
  const data = secret.data ?? {};
  let bytes = 0;
  for (const [key, value] of Object.entries(data)) {
    checkConfigKey(key, `data[${key}]`, errors);
    bytes += base64Bytes(value);
  }
  if (bytes > contentBytesMax) errors.push(tooLong("data", contentBytesMax));
  const need = (key: string): void => {
    if (data[key] === undefined) errors.push(required(`data[${key}]`));
  };
  switch (secret.type) {
    case "kubernetes.io/service-account-token":
      if (!secret.metadata.annotations?.[serviceAccountName]) {
        errors.push(required(`metadata.annotations[${serviceAccountName}]`));
      }
      break;
    case "kubernetes.io/dockercfg":
      checkJson(data, ".dockercfg", errors);
      break;
    case "kubernetes.io/dockerconfigjson":
      checkJson(data, ".dockerconfigjson", errors);
      break;
    case "kubernetes.io/basic-auth":
      if (data["username"] === undefined && data["password"] === undefined) {
        errors.push(required("data[username]"), required("data[password]"));
      }
      break;
    case "kubernetes.io/ssh-auth":
      if (!data["ssh-privatekey"]) errors.push(required("data[ssh-privatekey]"));
      break;
    case "kubernetes.io/tls":
      need("tls.crt");
      need("tls.key");
      break;
    default:
      break;
  }
  return errors;
}

function checkJson(data: Record<string, string>, key: string, errors: FieldError[]): void {
  const value = data[key];
  if (value === undefined) {
    errors.push(required(`data[${key}]`));
    return;
  }
  try {
    const parsed: unknown = JSON.parse(Buffer.from(value, "base64").toString("utf8"));
    if (typeof parsed !== "object" || parsed === null || Array.isArray(parsed)) throw new SyntaxError("not an object");
  } catch (error) {
    // The value is secret, so it is not in the message.
    const detail = error instanceof SyntaxError ? error.message : String(error);
    errors.push(invalid(`data[${key}]`, "<secret contents redacted>", detail));
  }
}
