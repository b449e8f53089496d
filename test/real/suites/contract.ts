/** Controllers are written against the facts of the KubeApi port: here they hold for a real kube-apiserver. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { kubeApiContract } from "../../contract/kubeApi.ts";
import { clientOf } from "../kit/cluster.ts";
import { ControlPlane } from "../kit/controlPlane.ts";

export function contractSuite(folder: string): void {
  kubeApiContract("of a real kube-apiserver", async () => {
    const plane = new ControlPlane(join(folder, "bare"), "bare");
    await plane.start();
    writeFileSync(plane.file("stranger"), plane.kubeconfigOf("stranger"));
    const api = await clientOf(plane.kubeconfig, "contract");
    const stranger = await clientOf(plane.file("stranger"), "contract");
    const not = (): never => {
      throw new Error("nothing can be done to this server from behind");
    };
    return {
      ...{ api, stranger, isForeign: true, compact: not, closeWatches: not, sendBookmarks: not },
      close: async () => {
        api.close();
        stranger.close();
        await plane.stop();
      },
    };
  });
}
