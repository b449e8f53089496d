import { fixedCredentials, type KubeConnection } from "../../src/adapters/kubeHttp/connection.ts";
import { kubeHttp } from "../../src/adapters/kubernetes/kubeHttp.ts";
import { systemClock } from "../../src/adapters/systemClock.ts";
import { systemRandom } from "../../src/adapters/systemRandom.ts";
import { createApi } from "../../src/apiserver/createApi.ts";
import { inProcessKube } from "../../src/apiserver/inProcessKube.ts";
import { type ApiServer, startApiServer } from "../../src/apiserver/startApiServer.ts";
import type { Log } from "../../src/ports/log.ts";
import { ManualClock } from "../../testing/apiserver/manualClock.ts";
import { seededRandom } from "../../testing/apiserver/seededRandom.ts";
import type { ContractCluster } from "./contractCluster.ts";

const fieldManager = "contract";
const strangerName = "stranger";

export async function inProcessCluster(): Promise<ContractCluster> {
  // Frozen objects: a reader that changes a shared object fails.
  const { core, rbac, controllers } = await createApi({
    clock: new ManualClock(),
    random: seededRandom(1),
    freeze: true,
    authority: "PEM",
  });
  const as = (username: string, groups: string[]) =>
    inProcessKube(core, { user: { username, groups }, fieldManager }, { authorizer: rbac });
  return {
    api: as("admin", ["system:masters"]),
    stranger: as(strangerName, ["system:authenticated"]),
    compact: () => core.store.compact(core.store.durableRevision),
    closeWatches: () => core.hub.closeWatches(),
    sendBookmarks: () => core.hub.sendBookmarks(),
    close: async () => {
      controllers.stop();
      await core.store.close();
    },
  };
}

export const silentLog: Log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

const tokenFile = `admin-token,admin,1,"system:masters"\nstranger-token,${strangerName},2,"people"\n`;

/** A server to connect to, as administrator and as a user without rights. */
export async function startServer({ tls }: { tls: boolean }): Promise<{
  server: ApiServer;
  admin: KubeConnection;
  stranger: KubeConnection;
}> {
  const clock = systemClock();
  const server = await startApiServer({ clock, random: systemRandom(), tls, tokenFile, freeze: true });
  const { url, pki } = server;
  const base = { server: url, namespace: "default" };
  if (!tls) {
    const withToken = (token: string): KubeConnection => ({
      ...base,
      credentials: fixedCredentials({ authorization: `Bearer ${token}` }),
    });
    return { server, admin: withToken("admin-token"), stranger: withToken("stranger-token") };
  }
  const withPair = (pair: { certificate: string; key: string }): KubeConnection => ({
    ...base,
    authority: pki.authority,
    credentials: fixedCredentials({ certificate: pair.certificate, key: pair.key }),
  });
  const other = pki.issueClient(strangerName, [], clock.nowMs());
  return { server, admin: withPair(pki.admin), stranger: withPair(other) };
}

export async function httpCluster(options: { tls: boolean }): Promise<ContractCluster & { server: ApiServer }> {
  const { server, admin, stranger } = await startServer(options);
  const ports = { clock: systemClock(), log: silentLog };
  const api = kubeHttp(admin, ports, { fieldManager });
  const other = kubeHttp(stranger, ports, { fieldManager });
  return {
    server,
    api,
    stranger: other,
    compact: () => server.compactNow(),
    closeWatches: () => server.closeWatches(),
    sendBookmarks: () => server.core.hub.sendBookmarks(),
    close: async () => {
      api.close();
      other.close();
      await server.stop();
    },
  };
}
