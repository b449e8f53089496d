// An image of one layer as an archive that `ctr images import` takes: no registry and no container builder is needed.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const type = (what) => `application/vnd.oci.image.${what}`;

/** Packs the folder `root` under the image's name into `file`. `user` runs the entry point. */
export function writeImage({ root, file, name, entrypoint, user, workingDir = "/", env = [] }) {
  const work = mkdtempSync(join(tmpdir(), "muster-image-"));
  try {
    const blobs = join(work, "blobs/sha256");
    mkdirSync(blobs, { recursive: true });
    const layerFile = join(work, "layer.tar");
    tar(["--owner=0", "--group=0", "--numeric-owner", "-cf", layerFile, "-C", root, "."]);
    const layer = { digest: digestOf(readFileSync(layerFile)), size: statSync(layerFile).size };
    renameSync(layerFile, join(blobs, layer.digest.slice(7)));
    const keep = (object) => {
      const bytes = Buffer.from(JSON.stringify(object));
      const digest = digestOf(bytes);
      writeFileSync(join(blobs, digest.slice(7)), bytes);
      return { digest, size: bytes.length };
    };
    const path = "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";
    const settings = {
      Env: [path, ...env],
      WorkingDir: workingDir,
      ...(entrypoint && { Entrypoint: entrypoint }),
      ...(user && { User: user }),
    };
    const rootfs = { type: "layers", diff_ids: [layer.digest] };
    const architecture = { x64: "amd64", arm64: "arm64" }[process.arch] ?? process.arch;
    const config = keep({ architecture, os: "linux", config: settings, rootfs });
    const manifest = keep({
      schemaVersion: 2,
      mediaType: type("manifest.v1+json"),
      config: { mediaType: type("config.v1+json"), ...config },
      layers: [{ mediaType: type("layer.v1.tar"), ...layer }],
    });
    const annotations = { "io.containerd.image.name": name };
    const index = { schemaVersion: 2, manifests: [{ mediaType: type("manifest.v1+json"), ...manifest, annotations }] };
    writeFileSync(join(work, "index.json"), JSON.stringify(index));
    writeFileSync(join(work, "oci-layout"), JSON.stringify({ imageLayoutVersion: "1.0.0" }));
    tar(["-cf", file, "-C", work, "oci-layout", "index.json", "blobs"]);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

function digestOf(bytes) {
  return `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
}

function tar(args) {
  const { status, stderr } = spawnSync("tar", args, { encoding: "utf8" });
  if (status !== 0) throw new Error(`tar ${args.join(" ")}: ${stderr}`);
}
