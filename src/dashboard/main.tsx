import { effect } from "@preact/signals";
import { render } from "preact";
import { followAddress } from "./past.ts";
import { Finder, openFinder } from "./pieces/finder.tsx";
import { Refused, Stripes, Tabs, TopBar } from "./pieces/frame.tsx";
import { Ribbon, stepBy } from "./pieces/ribbon.tsx";
import { isTyping } from "./pieces/waitingList.tsx";
import { followLinks, go, goWith, href, route, views } from "./route.ts";
import { freshness, link, shown, startClocks, theme, toggleTheme } from "./state.ts";
import { counters, follow } from "./stream.ts";
import { GangsView } from "./views/gangsView.tsx";
import { QueuesView } from "./views/queuesView.tsx";
import { WallView } from "./views/wallView.tsx";
import { WhyView } from "./views/whyView.tsx";
import { drawn } from "./wall/painter.ts";

const viewOf = { wall: WallView, why: WhyView, queues: QueuesView, gangs: GangsView } as const;

function App() {
  const View = viewOf[route.value.view];
  const isRefused = link.value.kind === "refused" && shown.value === undefined;
  return (
    <div class={freshness.value === "stale" ? "app stale-data" : "app"}>
      <TopBar />
      <Stripes />
      <main data-view={route.value.view} data-rev={shown.value?.rev ?? ""}>
        {isRefused ? <Refused /> : <View />}
      </main>
      <Ribbon />
      <Tabs />
      <Finder />
    </div>
  );
}

function press(event: KeyboardEvent): void {
  if (isTyping(event) || event.altKey || event.metaKey) return;
  if (event.key === "/" || (event.ctrlKey && event.key === "k")) openFinder();
  else if (event.ctrlKey) return;
  else if (/^[1-9]$/.test(event.key)) {
    const view = views[Number(event.key) - 1];
    if (view === undefined) return;
    go(href(view));
  } else if (event.key === "t") toggleTheme();
  else if (event.key === "[") stepBy(-1);
  else if (event.key === "]") stepBy(1);
  else if (event.key === "0") goWith({ rev: "" });
  else if (event.key === "w") go(href("why"));
  else if (event.key === "j" || event.key === "k") walk(event.key === "j" ? 1 : -1);
  else if (event.key === "Escape" && route.value.path.length > 0) go(href(route.value.view));
  else return;
  event.preventDefault();
}

/** From row to row of the list that has the focus, or of the first one. */
function walk(way: 1 | -1): void {
  const rows = [...document.querySelectorAll<HTMLElement>("main .item, main tbody a, main .plain a")];
  const at = rows.indexOf(document.activeElement as HTMLElement);
  rows[Math.max(0, Math.min(rows.length - 1, at + way))]?.focus();
}

if (location.pathname === "/") go(`/wall${location.search}`, { replace: true });
effect(() => {
  document.documentElement.dataset["theme"] = theme.value;
});
document.addEventListener("click", followLinks);
addEventListener("keydown", press);
startClocks();
followAddress();
void follow();
const root = document.getElementById("app");
if (root !== null) render(<App />, root);
// For tests and the benchmark: how much was drawn, and how the stream went.
Object.assign(globalThis, { musterWindow: { drawn, counters, revision: () => shown.peek()?.rev } });
