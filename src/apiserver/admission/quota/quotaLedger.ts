import type { ResourceQuota, ResourceQuotaSpec } from "../../../model/kubernetes.generated.ts";
import { addQuantities, type Quantity, quantityOf, subtractQuantities } from "../../../model/values/quantity.ts";
import type { ObjectStore } from "../../storage/objectStore.ts";
import type { StoreEvent } from "../../storage/storeEvent.ts";
import type { Version } from "../../storage/version.ts";
import type { Core } from "../../verbs/core.ts";
import { quotaCounts } from "./quotaScopes.ts";
import { type QuotaShare, quotaShare } from "./quotaShare.ts";

const quotasKey = "/resourcequotas";
const zero = quantityOf(0);

export interface QuotaAccount {
  readonly namespace: string;
  readonly name: string;
  readonly spec: ResourceQuotaSpec;
  /** Only the resources that the quota limits. */
  readonly used: Map<string, Quantity>;
}

interface NamespaceBook {
  readonly accounts: Map<string, QuotaAccount>;
  /** By `resource name`: the usage of each object. */
  readonly shares: Map<string, QuotaShare>;
}

/**
 * Usage of quotas, derived from the objects. The share of every object is known, and a new state of the object replaces
 * it, so the sums cannot drift from the objects. Only namespaces that have a quota are kept.
 *
 * A write is checked against committed writes, which can be ahead of delivered events (they may not be durable yet):
 * two pods that are written in one turn of the event loop must not both take the last of a quota. So the ledger reads
 * the collections' lists of changes at each check, and does not wait for events.
 */
export class QuotaLedger {
  private readonly store: ObjectStore;
  private readonly books = new Map<string, NamespaceBook>();
  /** The revision up to which each resource has been read. */
  private readonly readUpTo = new Map<string, number>();

  constructor(store: ObjectStore) {
    this.store = store;
    for (const version of store.collection(quotasKey).all()) this.putQuota(version);
    store.onEvent(({ current }) => {
      if (current.resource !== quotasKey) return;
      if (current.deleted) this.removeQuota(current);
      else this.putQuota(current);
    });
  }

  hasQuota(namespace: string): boolean {
    return this.books.has(namespace);
  }

  /** The accounts of a namespace, with every committed write of the resource counted. */
  accounts(namespace: string, resource: string): Iterable<QuotaAccount> {
    this.catchUp(resource);
    return this.books.get(namespace)?.accounts.values() ?? [];
  }

  account(namespace: string, name: string): QuotaAccount | undefined {
    return this.books.get(namespace)?.accounts.get(name);
  }

  /** The current usage of an object. */
  shareOf(namespace: string, resource: string, name: string): QuotaShare | undefined {
    return this.books.get(namespace)?.shares.get(shareKey(resource, name));
  }

  catchUp(resource: string): void {
    const { store } = this;
    if (this.books.size === 0) return;
    const from = this.readUpTo.get(resource);
    this.readUpTo.set(resource, store.revision);
    if (from === store.revision) return;
    if (from === undefined || from < store.compactedRevision) {
      for (const namespace of this.books.keys()) this.reread(namespace, resource);
      return;
    }
    const collection = store.collection(resource);
    for (let at = collection.firstAfter(from); at < collection.events.length; at++) {
      this.apply((collection.events[at] as StoreEvent).current);
    }
  }

  private apply(version: Version): void {
    const book = this.books.get(version.namespace);
    if (book === undefined) return;
    const share = version.deleted ? undefined : quotaShare(version.resource, version.object());
    replaceShare(book, shareKey(version.resource, version.name), share);
  }

  /** Counts all current objects of a resource. */
  private reread(namespace: string, resource: string): void {
    const book = this.books.get(namespace);
    if (book === undefined) return;
    const prefix = `${resource} `;
    for (const key of [...book.shares.keys()]) if (key.startsWith(prefix)) replaceShare(book, key, undefined);
    for (const version of this.store.collection(resource).at(this.store.revision, namespace)) this.apply(version);
  }

  private putQuota(version: Version): void {
    const { namespace, name } = version;
    const { spec = {} } = version.object() as ResourceQuota;
    let book = this.books.get(namespace);
    if (book === undefined) {
      book = { accounts: new Map(), shares: new Map() };
      this.books.set(namespace, book);
      for (const resource of this.store.resources()) this.reread(namespace, resource);
    }
    const known = book.accounts.get(name);
    if (known !== undefined && JSON.stringify(known.spec) === JSON.stringify(spec)) return;
    const used = new Map(Object.keys(spec.hard ?? {}).map((limited) => [limited, zero]));
    const account: QuotaAccount = { namespace, name, spec, used };
    for (const share of book.shares.values()) addShare(account, share);
    book.accounts.set(name, account);
  }

  private removeQuota({ namespace, name }: Version): void {
    const book = this.books.get(namespace);
    book?.accounts.delete(name);
    if (book?.accounts.size === 0) this.books.delete(namespace);
  }
}

function replaceShare(book: NamespaceBook, key: string, share: QuotaShare | undefined): void {
  const before = book.shares.get(key);
  if (share === undefined) book.shares.delete(key);
  else book.shares.set(key, share);
  for (const account of book.accounts.values()) {
    if (before !== undefined) takeShare(account, before);
    if (share !== undefined) addShare(account, share);
  }
}

function addShare(account: QuotaAccount, share: QuotaShare): void {
  if (!quotaCounts(account.spec, share.scopes)) return;
  for (const [name, amount] of share.amounts) {
    const used = account.used.get(name);
    if (used !== undefined) account.used.set(name, addQuantities(used, amount));
  }
}

function takeShare(account: QuotaAccount, share: QuotaShare): void {
  if (!quotaCounts(account.spec, share.scopes)) return;
  for (const [name, amount] of share.amounts) {
    const used = account.used.get(name);
    if (used !== undefined) account.used.set(name, subtractQuantities(used, amount));
  }
}

function shareKey(resource: string, name: string): string {
  return `${resource} ${name}`;
}

const ledgers = new WeakMap<ObjectStore, QuotaLedger>();

/** The one ledger of a store: admission checks against it, and the status of quotas is written from it. */
export function quotaLedgerOf({ store }: Pick<Core, "store">): QuotaLedger {
  let ledger = ledgers.get(store);
  if (ledger === undefined) {
    ledger = new QuotaLedger(store);
    ledgers.set(store, ledger);
  }
  return ledger;
}
