import { createServer } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";

/** An HTTP proxy that forwards for `user:password`, and records the targets. */
export interface ConnectProxy {
  readonly url: string;
  readonly targets: string[];
  close(): Promise<void>;
}

export async function startProxy(): Promise<ConnectProxy> {
  const targets: string[] = [];
  const sockets = new Set<Socket>();
  const server = createServer();
  server.on("connection", (socket) => sockets.add(socket));
  const wanted = `Basic ${Buffer.from("user:password").toString("base64")}`;
  server.on("connect", (request, socket: Socket, head: Buffer) => {
    if (request.headers["proxy-authorization"] !== wanted) {
      socket.end("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n");
      return;
    }
    const target = request.url ?? "";
    targets.push(target);
    const [host = "", port = ""] = target.split(":");
    const onward = connect(Number(port), host, () => {
      socket.write("HTTP/1.1 200 Connection Established\r\n\r\n");
      onward.write(head);
      onward.pipe(socket).pipe(onward);
    });
    onward.on("error", () => socket.destroy());
    onward.on("close", () => socket.destroy());
    socket.on("error", () => onward.destroy());
    socket.on("close", () => onward.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://user:password@127.0.0.1:${(server.address() as AddressInfo).port}`,
    targets,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const socket of sockets) socket.destroy();
      }),
  };
}
