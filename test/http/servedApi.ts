import { systemClock } from "../../src/adapters/systemClock.ts";
import { systemRandom } from "../../src/adapters/systemRandom.ts";
import { type ApiServer, type ApiServerOptions, startApiServer } from "../../src/apiserver/startApiServer.ts";
import { HttpCaller, tokenFile } from "../httpCaller.ts";

/** A server in memory on a free port, and a client with all rights. */
export interface ServedApi {
  readonly server: ApiServer;
  readonly api: HttpCaller;
  stop(): Promise<void>;
}

export async function serveApi(options: Partial<ApiServerOptions> = {}): Promise<ServedApi> {
  const server = await startApiServer({
    clock: systemClock(),
    random: systemRandom(),
    tls: false,
    tokenFile,
    ...options,
  });
  const api = new HttpCaller(server.url);
  return {
    server,
    api,
    stop: async () => {
      api.close();
      await server.stop();
    },
  };
}

export const namespaced = "/api/v1/namespaces/default";
export const apps = "/apis/apps/v1/namespaces/default";
export const batch = "/apis/batch/v1/namespaces/default";

/** The spec of a template that no validation refuses. */
export function podTemplate(labels: Record<string, string>): object {
  return { metadata: { labels }, spec: { containers: [{ name: "main", image: "registry/app:1" }] } };
}
