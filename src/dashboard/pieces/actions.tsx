import type { GpuState, NodeHealth } from "../../model/window/parts.ts";

/** What can be done to a simulated node, as the command that does it. */
export function Actions({
  node,
  gpu,
  state,
  health,
}: {
  readonly node: string;
  readonly gpu: number | undefined;
  readonly state: GpuState;
  readonly health: NodeHealth;
}) {
  const commands: string[] = [];
  if (gpu !== undefined && state !== "x")
    commands.push(`muster fault gpu-unhealthy --node ${node} --device ${gpu} --for 5m`);
  commands.push(health === "cordoned" ? `kubectl uncordon ${node}` : `muster fault drain --node ${node}`);
  if (health === "ready") commands.push(`muster fault heartbeat-stop --node ${node} --for 2m`);
  return (
    <div class="actions">
      <div class="small-head">Try on this embedded cluster</div>
      {commands.map((command) => (
        <code key={command}>{command}</code>
      ))}
    </div>
  );
}
