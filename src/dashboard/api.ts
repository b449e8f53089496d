/** Calls to the server. The token came in the address's fragment, and stays in this tab. */

const key = "muster-token";

function takeToken(): string {
  const given = /^#token=([A-Za-z0-9_-]+)$/.exec(location.hash)?.[1];
  if (given !== undefined) {
    sessionStorage.setItem(key, given);
    history.replaceState(null, "", location.pathname + location.search);
  }
  return sessionStorage.getItem(key) ?? "";
}

export const token = takeToken();

export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly oldest: number | undefined;

  constructor(status: number, code: string, message: string, oldest?: number) {
    super(message);
    this.status = status;
    this.code = code;
    this.oldest = oldest;
  }
}

export function headers(more: Record<string, string> = {}): Record<string, string> {
  return { authorization: `Bearer ${token}`, ...more };
}

export async function get<T>(path: string): Promise<T> {
  return answer<T>(await fetch(`/api/v1/${path}`, { headers: headers() }));
}

export async function post<T>(path: string, body: unknown): Promise<T> {
  const sent = { method: "POST", headers: headers({ "content-type": "application/json" }), body: JSON.stringify(body) };
  return answer<T>(await fetch(`/api/v1/${path}`, sent));
}

export async function errorOf(response: Response): Promise<ApiError> {
  const text = await response.text();
  try {
    const { error, oldest } = JSON.parse(text) as { error: { code: string; message: string }; oldest?: number };
    return new ApiError(response.status, error.code, error.message, oldest);
  } catch {
    return new ApiError(response.status, "", text.slice(0, 200));
  }
}

async function answer<T>(response: Response): Promise<T> {
  if (!response.ok) throw await errorOf(response);
  return (await response.json()) as T;
}
