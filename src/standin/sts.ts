/** STS (2011-06-15): GetCallerIdentity; also as a presigned GET, of which an EKS token consists. */
import type { StandInCloud } from "./cloud.ts";
import { CloudError } from "./cloudError.ts";
import { element, xmlHead } from "./xml.ts";

const namespace = "https://sts.amazonaws.com/doc/2011-06-15/";

export function answerSts(cloud: StandInCloud, params: URLSearchParams): string {
  const action = params.get("Action") ?? "";
  const user = `arn:aws:sts::${cloud.account}:assumed-role/availability-updater/standin`;
  switch (action) {
    case "GetCallerIdentity":
      return wrap(
        action,
        [element("Arn", user), element("UserId", "AROASTANDIN:standin"), element("Account", cloud.account)].join(""),
      );
    case "AssumeRoleWithWebIdentity": {
      if ((params.get("WebIdentityToken") ?? "") === "") {
        throw new CloudError("InvalidIdentityToken", 400, "the token is missing");
      }
      const until = new Date(cloud.nowMs + 3_600_000).toISOString();
      const credentials = [
        element("AccessKeyId", "ASIASTANDIN"),
        element("SecretAccessKey", "standin-secret"),
        element("SessionToken", "standin-session"),
        element("Expiration", until),
      ].join("");
      const who = element("AssumedRoleId", "AROASTANDIN:standin") + element("Arn", user);
      return wrap(action, `<Credentials>${credentials}</Credentials><AssumedRoleUser>${who}</AssumedRoleUser>`);
    }
    default:
      throw new CloudError("InvalidAction", 400, `Could not find operation ${action}`);
  }
}

function wrap(action: string, result: string): string {
  return `${xmlHead}<${action}Response xmlns="${namespace}"><${action}Result>${result}</${action}Result><ResponseMetadata><RequestId>standin</RequestId></ResponseMetadata></${action}Response>`;
}
