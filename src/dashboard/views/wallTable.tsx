import { href } from "../route.ts";
import { shown } from "../state.ts";
import { gpus, name, shortType } from "../words.ts";

const words = { f: "free", u: "in use", l: "leaving", c: "cordoned", "?": "unknown", x: "broken" } as const;

/** The wall as a table of the same data. */
export function WallTable() {
  const wall = shown.value?.wall;
  if (wall === undefined) return null;
  const occupants = new Map(wall.occupants.map((row) => [row[0], row]));
  let at = 0;
  const rows = wall.nodes.flatMap(([node, rack, type, health, many]) => {
    const cells = wall.gpus.slice(at, at + many);
    at += many;
    return cells.map((cell, place) => ({ node, rack, type, health, cell, place }));
  });
  return (
    <div class="canvas-scroll">
      <table>
        <thead>
          <tr>
            <th>Node</th>
            <th class="num">GPU</th>
            <th>Rack</th>
            <th>Type</th>
            <th>State</th>
            <th>Held by</th>
          </tr>
        </thead>
        <tbody>
          {rows.map(({ node, rack, type, health, cell: [state, holds = []], place }) => (
            <tr key={`${node} ${place}`}>
              <td class="mono">
                <a href={href("wall", [node, String(place)])}>{name(node)}</a>
              </td>
              <td class="num">{place}</td>
              <td>{name(wall.racks[rack] ?? "")}</td>
              <td>{shortType(wall.types[type] ?? "")}</td>
              <td>{health === "cordoned" && state !== "c" ? `${words[state]}, node cordoned` : words[state]}</td>
              <td>{holds.map(([id, , milli]) => `${name(occupants.get(id)?.[1] ?? "")} ${gpus(milli)}`).join(", ")}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
