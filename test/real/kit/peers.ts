import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";

/** Where `npm run peers` puts the programs of a real Kubernetes. */
export const peers =
  process.env["MUSTER_PEERS"] || join(process.env["XDG_CACHE_HOME"] || join(homedir(), ".cache"), "muster/peers");

export const peer = (name: string): string => join(peers, "bin", name);

const programs = [
  ...["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl", "etcd"],
  ...["containerd", "containerd-shim-runc-v2", "ctr", "gpus"],
];
const tools = ["runc", "iptables", "ip", "nsenter", "unshare", "openssl", "tar", "mount", "umount", "setsid"];

/** Why a real cluster cannot be started here, or undefined. */
export function whyNot(): string | undefined {
  if (process.platform !== "linux") return "a real cluster needs Linux";
  if (process.getuid?.() !== 0) return "a real cluster needs root: nodes have namespaces and cgroups of their own";
  const missing = programs.filter((name) => !existsSync(peer(name)));
  if (missing.length > 0)
    return `${missing.join(", ")} missing in ${peers}: run \`npm run peers\`, or set MUSTER_PEERS`;
  const path = (process.env["PATH"] ?? "").split(":");
  const absent = tools.filter((name) => !path.some((folder) => existsSync(join(folder, name))));
  return absent.length > 0 ? `${absent.join(", ")} not installed` : undefined;
}
