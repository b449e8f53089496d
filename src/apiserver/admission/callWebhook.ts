import { Buffer } from "node:buffer";
import { Agent, request } from "node:https";
import type { Clock } from "../../ports/clock.ts";

/** More than any object and its patch need. A webhook that sends more is broken or hostile. */
export const answerBytesMax = 8 * 1024 * 1024;
const agentsMax = 64;

export interface WebhookAddress {
  readonly url: string;
  /**
   * PEM of the certificate authorities that may have signed the webhook's certificate; those of the system when left
   * out.
   */
  readonly authority: string | undefined;
  /** The name that the webhook's certificate must have, when that is not the host of the URL. */
  readonly serverName: string | undefined;
}

/** Called with the duration of each call. */
export type ObserveCall = (webhook: string, seconds: number) => void;

/** Posts JSON to webhooks over connections that stay open. */
export class WebhookCaller {
  private readonly clock: Clock;
  private readonly agents = new Map<string, Agent>();

  private readonly observe: ObserveCall;

  constructor(clock: Clock, observe: ObserveCall = () => {}) {
    this.clock = clock;
    this.observe = observe;
  }

  /** The body of the response. Rejects with an Error that describes the failure, at the latest after the timeout. */
  async post(address: WebhookAddress, body: string, timeoutMs: number, webhook = ""): Promise<string> {
    const startedMs = this.clock.nowMs();
    try {
      return await this.send(address, body, timeoutMs);
    } finally {
      this.observe(webhook, (this.clock.nowMs() - startedMs) / 1000);
    }
  }

  private send(address: WebhookAddress, body: string, timeoutMs: number): Promise<string> {
    const where = `Post ${JSON.stringify(address.url)}`;
    return new Promise((resolve, reject) => {
      let cancel = (): void => {};
      const fail = (why: string): void => {
        cancel();
        reject(new Error(`${where}: ${why}`));
      };
      let url: URL;
      try {
        url = new URL(address.url);
      } catch {
        return fail("not a URL");
      }
      if (url.protocol !== "https:") return fail("webhooks must be called over https");
      const payload = Buffer.from(body, "utf8");
      const outgoing = request(
        url,
        {
          method: "POST",
          agent: this.agentFor(address),
          headers: {
            "Content-Type": "application/json",
            Accept: "application/json",
            "Content-Length": payload.length,
            "User-Agent": "kube-apiserver-admission",
          },
        },
        (answer) => {
          const parts: Buffer[] = [];
          let length = 0;
          answer.on("data", (part: Buffer) => {
            length += part.length;
            if (length > answerBytesMax) {
              outgoing.destroy(new Error(`the answer is longer than ${answerBytesMax} bytes`));
              return;
            }
            parts.push(part);
          });
          answer.on("error", (error) => fail(error.message));
          answer.on("aborted", () => fail("the connection was closed before the answer was complete"));
          answer.on("end", () => {
            const text = Buffer.concat(parts).toString("utf8");
            if (answer.statusCode !== 200) return fail(`the webhook answered with HTTP ${answer.statusCode}`);
            cancel();
            resolve(text);
          });
        },
      );
      outgoing.on("error", (error: NodeJS.ErrnoException) => fail(error.message || (error.code ?? "failed")));
      cancel = this.clock.after(timeoutMs, () => {
        fail("context deadline exceeded");
        outgoing.destroy();
      });
      outgoing.end(payload);
    });
  }

  close(): void {
    for (const agent of this.agents.values()) agent.destroy();
    this.agents.clear();
  }

  private agentFor({ authority, serverName }: WebhookAddress): Agent {
    const key = `${serverName ?? ""} ${authority ?? ""}`;
    let agent = this.agents.get(key);
    if (agent !== undefined) return agent;
    const oldest = this.agents.size >= agentsMax ? this.agents.keys().next().value : undefined;
    if (oldest !== undefined) {
      this.agents.get(oldest)?.destroy();
      this.agents.delete(oldest);
    }
    agent = new Agent({
      keepAlive: true,
      // As Go: a caBundle with the webhook's own certificate or an intermediate one is enough.
      allowPartialTrustChain: true,
      ...(authority === undefined ? {} : { ca: authority }),
      ...(serverName === undefined ? {} : { servername: serverName }),
    });
    this.agents.set(key, agent);
    return agent;
  }
}
