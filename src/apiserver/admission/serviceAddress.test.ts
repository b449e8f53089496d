import { describe, expect, test } from "vitest";
import type { EndpointSlice, Service } from "../../model/kubernetes.generated.ts";
import { localAddressAnnotation, type ServiceState, serviceAddress } from "./serviceAddress.ts";

const service = (spec: object, annotations: Record<string, string> = {}): Service =>
  ({ apiVersion: "v1", kind: "Service", metadata: { name: "hook", namespace: "ns", annotations }, spec }) as Service;

const slice = (endpoints: object[], ports: object[] = [{ name: "web", port: 8443 }], addressType = "IPv4") =>
  ({ metadata: { name: "hook-1" }, addressType, endpoints, ports }) as EndpointSlice;

const web = service({ ports: [{ name: "web", port: 443, targetPort: 8443 }] });
const resolve = (state: ServiceState, port = 443, pick = 0): string => serviceAddress("hook", port, state, () => pick);

describe("the address of a Service", () => {
  test("is that of a ready endpoint, at the port of the slice with the name of the Service's port", () => {
    const slices = [
      slice(
        [{ addresses: ["10.0.0.1"], conditions: { ready: false } }, { addresses: ["10.0.0.2"] }],
        [
          { name: "metrics", port: 1 },
          { name: "web", port: 8443 },
        ],
      ),
      slice([{ addresses: ["fd00::1"], conditions: { ready: true } }], undefined, "IPv6"),
    ];
    expect(resolve({ service: web, slices })).toBe("10.0.0.2:8443");
    expect(resolve({ service: web, slices }, 443, 1)).toBe("[fd00::1]:8443");
  });

  test("is the host of an ExternalName", () => {
    const external = service({ type: "ExternalName", externalName: "hooks.example.com" });
    expect(resolve({ service: external, slices: [] }, 8443)).toBe("hooks.example.com:8443");
  });

  test("is that of the annotation for a process on this machine", () => {
    const annotated = service({ ports: [] }, { [localAddressAnnotation]: "127.0.0.1:9443" });
    expect(resolve({ service: annotated, slices: [] })).toBe("127.0.0.1:9443");
  });

  test.each([
    ["a missing Service", undefined, 443, 'service "hook" not found'],
    ["a port that the Service does not have", web, 80, 'no service port 80 found for service "hook"'],
    ["a Service without ready endpoints", web, 443, 'no endpoints available for service "hook"'],
  ])("is an error for %s", (_, found, port, message) => {
    const slices = [slice([{ addresses: ["10.0.0.1"], conditions: { ready: false } }])];
    expect(() => resolve({ service: found, slices }, port)).toThrow(message);
  });
});
