/** What a machine needs to become a node: files, and the script that writes them and starts the kubelet. */
import { stringify } from "yaml";

export interface JoinSettings {
  /** `https://192.0.2.10:6443`, as the new machine reaches it. */
  readonly server: string;
  /** The CA certificate of the cluster, as PEM. */
  readonly authority: string;
  /** The bootstrap token, and when it expires. */
  readonly token: string;
  readonly expires: string;
  /** The name of the node; undefined: the host name of the machine. */
  readonly name: string | undefined;
  /** The network of the node's pods; undefined: a network plugin of the cluster writes its own files. */
  readonly podCidr: string | undefined;
  readonly clusterDns: string;
}

export interface JoinFile {
  readonly path: string;
  readonly mode: string;
  readonly content: string;
}

/** Node label with the pod network that `muster node join` chose, `/` as `-`. */
export const podNetworkLabel = "muster.dev/pod-network";

const authorityPath = "/etc/kubernetes/pki/ca.crt";
const bootstrapPath = "/etc/kubernetes/bootstrap-kubelet.conf";
const configPath = "/var/lib/kubelet/config.yaml";
const unitPath = "/etc/systemd/system/kubelet.service";

export function joinFiles(settings: JoinSettings): JoinFile[] {
  const { authority, podCidr } = settings;
  const files = [
    { path: authorityPath, mode: "0644", content: authority.trimEnd().concat("\n") },
    { path: bootstrapPath, mode: "0600", content: bootstrapKubeconfig(settings) },
    { path: configPath, mode: "0644", content: stringify(kubeletConfiguration(settings)) },
    { path: unitPath, mode: "0644", content: kubeletUnit(settings) },
  ];
  if (podCidr === undefined) return files;
  const content = `${JSON.stringify(podNetwork(podCidr), undefined, 2)}\n`;
  return [...files, { path: "/etc/cni/net.d/10-muster.conflist", mode: "0644", content }];
}

function bootstrapKubeconfig({ server, token }: JoinSettings): string {
  return stringify({
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name: "muster", cluster: { server, "certificate-authority": authorityPath } }],
    users: [{ name: "bootstrap", user: { token } }],
    contexts: [{ name: "bootstrap", context: { cluster: "muster", user: "bootstrap" } }],
    "current-context": "bootstrap",
  });
}

/** The kubelet trusts client certificates of the cluster and asks the API server what their users may do. */
export function kubeletConfiguration({ clusterDns }: Pick<JoinSettings, "clusterDns">): object {
  return {
    apiVersion: "kubelet.config.k8s.io/v1beta1",
    kind: "KubeletConfiguration",
    authentication: {
      anonymous: { enabled: false },
      webhook: { enabled: true },
      x509: { clientCAFile: authorityPath },
    },
    authorization: { mode: "Webhook" },
    cgroupDriver: "systemd",
    clusterDNS: [clusterDns],
    clusterDomain: "cluster.local",
    containerRuntimeEndpoint: "unix:///run/containerd/containerd.sock",
    rotateCertificates: true,
  };
}

/** The flags of the kubelet beside its configuration file. */
export function kubeletFlags({ name, podCidr }: Pick<JoinSettings, "name" | "podCidr">): string[] {
  return [
    `--config=${configPath}`,
    `--bootstrap-kubeconfig=${bootstrapPath}`,
    "--kubeconfig=/etc/kubernetes/kubelet.conf",
    "--cert-dir=/var/lib/kubelet/pki",
    ...(name === undefined ? [] : [`--hostname-override=${name}`]),
    ...(podCidr === undefined ? [] : [`--node-labels=${podNetworkLabel}=${podCidr.replace("/", "-")}`]),
  ];
}

function kubeletUnit(settings: JoinSettings): string {
  return `[Unit]
Description=Kubernetes node agent
Documentation=https://kubernetes.io/docs/
Wants=network-online.target containerd.service
After=network-online.target containerd.service

[Service]
ExecStart=/usr/bin/env kubelet ${kubeletFlags(settings).join(" ")}
Restart=always
RestartSec=5
StartLimitIntervalSec=0

[Install]
WantedBy=multi-user.target
`;
}

function podNetwork(subnet: string): object {
  return {
    cniVersion: "1.0.0",
    name: "pods",
    plugins: [
      {
        type: "bridge",
        bridge: "cni0",
        isGateway: true,
        ipMasq: true,
        hairpinMode: true,
        ipam: { type: "host-local", ranges: [[{ subnet }]], routes: [{ dst: "0.0.0.0/0" }] },
      },
      { type: "portmap", capabilities: { portMappings: true } },
    ],
  };
}

/** The script, for `sh` as root on the new machine. It may run again; what it replaces is kept beside it. */
export function joinScript(settings: JoinSettings): string {
  const { server, expires } = settings;
  const writes = joinFiles(settings).map(
    ({ path, mode, content }) => `put ${path} ${mode} <<'END-OF-FILE'\n${content}END-OF-FILE\n`,
  );
  return `#!/bin/sh
# Joins this machine to the cluster at ${server}. Run it as root; it holds a token that is valid until ${expires}.
set -eu

fail() { echo "cannot join: $1" >&2; echo "  try: $2" >&2; exit 1; }
put() {
  mkdir -p "$(dirname "$1")"
  if [ -e "$1" ] && [ ! -e "$1.before-muster" ]; then cp -p "$1" "$1.before-muster"; fi
  cat > "$1.new"; chmod "$2" "$1.new"; mv "$1.new" "$1"; echo "wrote $1"
}

[ "$(id -u)" = 0 ] || fail "this needs root" "sudo sh"
command -v systemctl >/dev/null || fail "this machine has no systemd" "write the files by hand: muster node join -o json"
command -v containerd >/dev/null || fail "containerd is not installed" "install containerd 1.7 or newer, and its CNI plugins"
command -v kubelet >/dev/null || fail "kubelet is not installed" "install kubelet 1.33 to 1.36 (package kubelet of pkgs.k8s.io)"
[ ! -e /etc/kubernetes/kubelet.conf ] || fail "this machine is a node already" "muster node remove, then rm /etc/kubernetes/kubelet.conf"
[ -z "$(swapon --show 2>/dev/null)" ] || fail "swap is on" "swapoff -a, and remove it from /etc/fstab"

modprobe -a overlay br_netfilter 2>/dev/null || true
sysctl -qw net.ipv4.ip_forward=1
echo 'net.ipv4.ip_forward = 1' > /etc/sysctl.d/90-muster.conf
# The kubelet and containerd must use the same cgroup driver; packages of Docker switch the CRI plugin off.
if [ ! -s /etc/containerd/config.toml ] || grep -q 'disabled_plugins.*cri' /etc/containerd/config.toml; then
  containerd config default | sed 's/SystemdCgroup = false/SystemdCgroup = true/' | put /etc/containerd/config.toml 0644
fi
if command -v nvidia-ctk >/dev/null; then nvidia-ctk runtime configure --runtime=containerd --set-as-default; fi

${writes.join("\n")}
systemctl daemon-reload
systemctl enable --now containerd
systemctl restart containerd
systemctl enable kubelet
systemctl restart kubelet
echo "the kubelet is started; \\\`muster node ls\\\` shows the node, \\\`journalctl -u kubelet\\\` what it does"
if command -v nvidia-smi >/dev/null; then echo "this machine has a GPU: the cluster needs NVIDIA's device plugin or DRA driver"; fi
`;
}
