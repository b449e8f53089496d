import { httpCluster, inProcessCluster } from "./contractClusters.ts";
import { kubeApiContract } from "./kubeApi.ts";

kubeApiContract("in process", inProcessCluster);
kubeApiContract("over HTTP", () => httpCluster({ tls: false }));
kubeApiContract("over TLS", () => httpCluster({ tls: true }));
