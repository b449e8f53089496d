import { Buffer } from "node:buffer";
import { request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import type { Socket } from "node:net";

/** Timeout of a proxy that does not respond. */
const tunnelMsMax = 30_000;

/**
 * A connection to a server through an HTTP proxy, opened by CONNECT. The proxy forwards bytes and cannot read them. No
 * request has been sent when this fails.
 */
export function openTunnel(proxy: URL, to: { host: string; port: number }): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const open = proxy.protocol === "https:" ? httpsRequest : httpRequest;
    const target = `${to.host.includes(":") ? `[${to.host}]` : to.host}:${to.port}`;
    const credentials = `${decodeURIComponent(proxy.username)}:${decodeURIComponent(proxy.password)}`;
    const asking = open({
      method: "CONNECT",
      host: proxy.hostname,
      port: proxy.port === "" ? (proxy.protocol === "https:" ? 443 : 80) : Number(proxy.port),
      path: target,
      headers: {
        host: target,
        ...(proxy.username === ""
          ? {}
          : { "proxy-authorization": `Basic ${Buffer.from(credentials).toString("base64")}` }),
      },
      agent: false,
      timeout: tunnelMsMax,
    });
    const fail = (problem: string, cause?: unknown): void => {
      reject(new Error(`the proxy ${proxy.host} ${problem}`, { cause }));
      asking.destroy();
    };
    asking.on("connect", (response, socket: Socket, head: Buffer) => {
      if (response.statusCode !== 200) {
        socket.destroy();
        fail(`refused the connection to ${target} with HTTP ${response.statusCode}`);
        return;
      }
      socket.setTimeout(0);
      if (head.length > 0) socket.unshift(head);
      resolve(socket);
    });
    asking.on("response", (response) => {
      response.resume();
      fail(`refused the connection to ${target} with HTTP ${response.statusCode}`);
    });
    asking.on("timeout", () => fail("does not answer"));
    asking.on("error", (error) => fail(`cannot be reached: ${error.message}`, error));
    asking.end();
  });
}
