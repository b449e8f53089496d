import { fileURLToPath } from "node:url";

/** The YAML of `muster up --demo`. Three folders deep, as the bundled program is, so that one path fits both. */
export const demoFolder = fileURLToPath(new URL("../../../examples/demo/", import.meta.url));
