import { kubeApiContract } from "./kubeApi.ts";
import { httpWorld, inProcessWorld } from "./worlds.ts";

kubeApiContract("in process", inProcessWorld);
kubeApiContract("over HTTP", () => httpWorld({ tls: false }));
kubeApiContract("over TLS", () => httpWorld({ tls: true }));
