/**
 * The cloud port on the simulated cloud's model, without a network: random delays, throttling and failed pages.
 */
import type {
  CloudIdentity,
  CloudSnapshot,
  CloudVolume,
  ScalingGroup,
  VolumeModification,
} from "../../model/inventory/cloud.ts";
import type { Cloud, CloudRead, CloudUsage, SnapshotFilter, VolumeFilter } from "../../ports/cloud.ts";
import type { ListQuery, Page, StandInCloud } from "../../standin/cloud.ts";
import type { Filter } from "../../standin/filters.ts";
import type { ActorPorts } from "../actor.ts";

/** Small pages: much can happen between two of them. */
const pageSize = 5;

export class SimCloud implements Cloud {
  private readonly cloud: StandInCloud;
  private readonly ports: ActorPorts;

  constructor(cloud: StandInCloud, ports: ActorPorts) {
    this.cloud = cloud;
    this.ports = ports;
  }

  usage(): CloudUsage {
    return { calls: {}, retries: 0, throttles: 0 };
  }

  async identity(): Promise<CloudRead<CloudIdentity>> {
    const why = await this.hop("identity");
    if (why !== undefined) return failed(why);
    return { ok: true, value: { account: this.cloud.account, region: this.cloud.region } };
  }

  scalingGroups(onPage: (groups: readonly ScalingGroup[]) => void): Promise<CloudRead<undefined>> {
    return this.pages("groups", [], (query) => this.cloud.describeGroups(query), onPage);
  }

  volumes(which: VolumeFilter, onPage: (volumes: readonly CloudVolume[]) => void): Promise<CloudRead<undefined>> {
    const filters: Filter[] =
      which.type === "tagged"
        ? [{ name: "tag-key", values: ["gpu-dev-user"] }]
        : which.type === "ids"
          ? [{ name: "volume-id", values: which.ids }]
          : [{ name: "tag:gpu-dev-user", values: which.users }];
    return this.pages(`volumes ${which.type}`, filters, (query) => this.cloud.describeVolumes(query), onPage);
  }

  snapshots(which: SnapshotFilter, onPage: (page: readonly CloudSnapshot[]) => void): Promise<CloudRead<undefined>> {
    const filters: Filter[] =
      which.type === "volumes"
        ? [{ name: "volume-id", values: which.ids }]
        : which.type === "users"
          ? [{ name: "tag:gpu-dev-user", values: which.users }]
          : which.type === "startedOn"
            ? [{ name: "start-time", values: which.prefixes }]
            : which.type === "pending"
              ? [{ name: "status", values: ["pending"] }]
              : [];
    return this.pages(`snapshots ${which.type}`, filters, (query) => this.cloud.describeSnapshots(query), onPage);
  }

  async modifications(): Promise<CloudRead<readonly VolumeModification[]>> {
    const why = await this.hop("modifications");
    return why === undefined ? { ok: true, value: [...this.cloud.modifications.values()] } : failed(why);
  }

  private async pages<T>(
    what: string,
    filters: readonly Filter[],
    read: (query: ListQuery) => Page<T>,
    onPage: (items: readonly T[]) => void,
  ): Promise<CloudRead<undefined>> {
    let token: string | undefined;
    do {
      const why = await this.hop(what);
      // The pages before are an incomplete list.
      if (why !== undefined) return failed(why);
      const page = read({ filters, pageSize, ...(token === undefined ? {} : { token }) });
      onPage(page.items);
      token = page.token;
    } while (token !== undefined);
    return { ok: true, value: undefined };
  }

  /** The latency of request and answer. Returns the fault, if any. */
  private async hop(what: string): Promise<string | undefined> {
    const trouble = this.ports.choose(`cloud ${what}`, (dice) => (dice.perMille(40) ? dice.between(1, 2_500) : 0));
    await this.ports.sleep(2 + (this.ports.random.uint32() % 40) + (trouble > 500 ? trouble - 500 : 0));
    const isThrottled = trouble > 0 && trouble <= 500;
    if (isThrottled) this.ports.note(`cloud: ${what}, throttled`);
    else if (what !== "identity") this.ports.note(`reads ${what}`);
    return isThrottled ? `${what}: throttled` : undefined;
  }
}

function failed(why: string): CloudRead<never> {
  return { ok: false, reason: "Throttled", why };
}
