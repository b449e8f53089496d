/** A server as other people's clients meet it: TLS, a kubeconfig, nothing switched off. */
import { type ApiException, KubeConfig } from "@kubernetes/client-node";
import { systemClock } from "../../src/adapters/systemClock.ts";
import { systemRandom } from "../../src/adapters/systemRandom.ts";
import { type ApiServer, type ApiServerOptions, startApiServer } from "../../src/apiserver/startApiServer.ts";

export interface ServerForClients {
  server: ApiServer;
  config: KubeConfig;
  /** Errors that the server took for its own. */
  mistakes: unknown[];
}

export async function serverForClients(options: Partial<ApiServerOptions> = {}): Promise<ServerForClients> {
  const mistakes: unknown[] = [];
  const server = await startApiServer({
    clock: systemClock(),
    random: systemRandom(),
    freeze: true,
    log: ({ error }) => mistakes.push(error),
    ...options,
  });
  const config = new KubeConfig();
  config.loadFromString(server.kubeconfig);
  return { server, config, mistakes };
}

export interface Refusal {
  code: number;
  reason: string;
  message: string;
}

/** How a call was refused; an error when it was not. */
export async function refusalOf(call: Promise<unknown>): Promise<Refusal> {
  try {
    await call;
  } catch (error) {
    const { code, body } = error as ApiException<unknown>;
    const status = (typeof body === "string" ? JSON.parse(body) : body) as { reason?: string; message?: string };
    return { code, reason: status?.reason ?? "", message: status?.message ?? "" };
  }
  throw new Error("the call was not refused");
}

/** Resolves when the condition holds; asked again whenever `changed` is called. */
export class Condition {
  private readonly waiting = new Set<() => void>();

  changed(): void {
    for (const look of [...this.waiting]) look();
  }

  until(holds: () => boolean): Promise<void> {
    return new Promise((resolve) => {
      const look = (): void => {
        if (!holds()) return;
        this.waiting.delete(look);
        resolve();
      };
      this.waiting.add(look);
      look();
    });
  }
}
