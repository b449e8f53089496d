import type { Container, Pod } from "../../../model/kubernetes.generated.ts";
import { forbiddenError } from "../../../model/objects/status.ts";
import {
  addQuantities,
  compareQuantities,
  formatQuantity,
  parseQuantity,
  type Quantity,
  quantityOf,
  subtractQuantities,
} from "../../../model/values/quantity.ts";
import type { Core } from "../../verbs/core.ts";
import type { AdmissionAttributes } from "../admission.ts";
import type { QuotaAccount, QuotaLedger } from "./quotaLedger.ts";
import { quotaCounts } from "./quotaScopes.ts";
import { type QuotaShare, quotaShare } from "./quotaShare.ts";

const zero = quantityOf(0);
/** With a quota on one of these resources every container must specify it. */
const mustBeSpecified = ["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];

/**
 * Rejects a write that would exceed a quota of its namespace. Runs in the same turn of the event loop as the commit.
 */
export function checkQuota(core: Core, ledger: QuotaLedger, attributes: AdmissionAttributes): void {
  const { namespace, operation, type, object, subresource } = attributes;
  if (namespace === "" || object === undefined || !ledger.hasQuota(namespace)) return;
  if (operation !== "CREATE" && operation !== "UPDATE") return;
  if (subresource !== "" && subresource !== "resize") return;
  const resource = core.registry.find(type.group, type.version, type.plural);
  const share = quotaShare(type.storageKey, resource === undefined ? object : resource.toStorage(object));
  for (const account of ledger.accounts(namespace, type.storageKey)) {
    if (!quotaCounts(account.spec, share.scopes)) continue;
    const refuse = (why: string): never => {
      throw forbiddenError({ group: type.group, resource: type.plural }, attributes.name, why);
    };
    if (operation === "CREATE" && type.storageKey === "/pods") {
      const missing = unspecifiedResources(account, object);
      if (missing !== "") refuse(`failed quota: ${account.name}: must specify ${missing}`);
    }
    const before = operation === "UPDATE" ? ledger.shareOf(namespace, type.storageKey, attributes.name) : undefined;
    const why = excess(
      account,
      share,
      before !== undefined && quotaCounts(account.spec, before.scopes) ? before : undefined,
    );
    if (why !== undefined) refuse(why);
  }
}

/** Why the share exceeds the quota, or undefined. A write that lowers or keeps usage is never rejected. */
function excess(account: QuotaAccount, share: QuotaShare, before: QuotaShare | undefined): string | undefined {
  const over: { name: string; wanted: Quantity; used: Quantity; hard: string }[] = [];
  for (const [name, hard] of Object.entries(account.spec.hard ?? {})) {
    const wanted = subtractQuantities(share.amounts.get(name) ?? zero, before?.amounts.get(name) ?? zero);
    if (wanted.nano <= 0n) continue;
    const used = account.used.get(name) ?? zero;
    if (compareQuantities(addQuantities(used, wanted), parseQuantity(hard)) > 0)
      over.push({ name, wanted, used, hard });
  }
  if (over.length === 0) return undefined;
  over.sort((a, b) => (a.name < b.name ? -1 : 1));
  const list = (text: (item: (typeof over)[number]) => string): string =>
    over.map((item) => `${item.name}=${text(item)}`).join(",");
  const requested = list(({ wanted }) => formatQuantity(wanted));
  const used = list((item) => formatQuantity(item.used));
  return `exceeded quota: ${account.name}, requested: ${requested}, used: ${used}, limited: ${list(({ hard }) => hard)}`;
}

/** `limits.cpu for: a,b; requests.memory for: b`. */
function unspecifiedResources(account: QuotaAccount, { spec }: Pod): string {
  const missing: string[] = [];
  const containers: Container[] = [...(spec?.containers ?? []), ...(spec?.initContainers ?? [])];
  for (const name of Object.keys(account.spec.hard ?? {}).sort()) {
    if (!mustBeSpecified.includes(name)) continue;
    const side = name.startsWith("limits.") ? "limits" : "requests";
    const resource = name.slice(name.indexOf(".") + 1);
    if (spec?.resources?.[side]?.[resource] !== undefined) continue;
    const silent = containers.filter(({ resources }) => resources?.[side]?.[resource] === undefined);
    if (silent.length > 0) missing.push(`${name} for: ${silent.map((container) => container.name).join(",")}`);
  }
  return missing.join("; ");
}
