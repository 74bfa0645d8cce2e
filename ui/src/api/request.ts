import { signal } from '@preact/signals';

/** What a call may be given beside its input. */
export interface CallOptions {
  readonly signal?: AbortSignal;
}

/** What a stream is given: each event as it comes. It resolves when the stream ends. */
export interface StreamOptions<T> extends CallOptions {
  readonly onEvent: (event: T) => void;
  /** Called when the gateway has answered and the stream has begun. */
  readonly onOpen?: () => void;
}

interface ReportedProblem {
  readonly code: string;
  readonly line: number;
  readonly column: number;
  readonly message: string;
  readonly frame: string;
  readonly fix: string;
}

/** The gateway refused, or did not answer (`status` 0). */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly problems: readonly ReportedProblem[];

  constructor(status: number, code: string, message: string, problems: readonly ReportedProblem[] = []) {
    super(message);
    this.status = status;
    this.code = code;
    this.problems = problems;
  }
}

/** Gateways of one origin differ in their path. */
const KEPT_AT = `trunkline.csrf:${location.pathname}`;

/** What requests prove the session with, beside the cookie; null: the browser is not logged in. */
export const csrf = signal<string | null>(localStorage.getItem(KEPT_AT));
/** The right to add servers that run programs. Only in the memory of this page. */
export const execToken = signal<string | null>(null);
/** Whether another login has replaced the cookie of this page, and not its token: cookies know no ports. */
export const replaced = signal(false);

// They belong to one session.
csrf.subscribe(() => {
  execToken.value = null;
  replaced.value = false;
});

// A login or a logout in another tab of this browser is one of this tab too.
addEventListener('storage', ({ key, storageArea }) => {
  if (storageArea === localStorage && (key === null || key === KEPT_AT)) csrf.value = localStorage.getItem(KEPT_AT);
});

export function keepCsrf(token: string | null): void {
  csrf.value = token;
  if (token === null) localStorage.removeItem(KEPT_AT);
  else localStorage.setItem(KEPT_AT, token);
}

export async function request<T>(method: string, path: string, body: unknown, options: CallOptions): Promise<T> {
  const response = await send(method, path, body, options);
  return (await response.json()) as T;
}

export async function stream<T>(
  method: string,
  path: string,
  body: unknown,
  { onEvent, onOpen, ...options }: StreamOptions<T>,
): Promise<void> {
  const response = await send(method, path, body, options);
  onOpen?.();
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    let end = text.indexOf('\n\n');
    while (end >= 0) {
      const data = dataOf(text.slice(0, end));
      if (data !== '') onEvent(JSON.parse(data) as T);
      text = text.slice(end + 2);
      end = text.indexOf('\n\n');
    }
  }
}

/** `?a=1`, without what is undefined; empty for nothing. */
export function query(values: Readonly<Record<string, string | number | undefined>>): string {
  const given = Object.entries(values).filter(([, value]) => value !== undefined);
  return given.length === 0 ? '' : `?${new URLSearchParams(given.map(([name, value]) => [name, String(value)]))}`;
}

function dataOf(event: string): string {
  const lines = event.split(/\r?\n/).filter((line) => line.startsWith('data:'));
  return lines.map((line) => line.slice('data:'.length).trimStart()).join('\n');
}

async function send(method: string, path: string, body: unknown, options: CallOptions): Promise<Response> {
  const sent = csrf.value;
  let response: Response;
  try {
    response = await fetch(path, {
      method,
      credentials: 'same-origin',
      redirect: 'error',
      headers: {
        ...(sent === null ? {} : { 'Trunkline-Csrf': sent }),
        ...(execToken.value === null || method === 'GET' ? {} : { 'Trunkline-Exec': execToken.value }),
        ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      ...options,
    });
  } catch (error) {
    if (options.signal?.aborted === true) throw error;
    throw new ApiError(0, 'unreachable', 'The gateway does not answer. It may have stopped: trunkline status');
  }
  if (response.ok) return response;
  const refusal = await refusalOf(response);
  // An answer to an earlier session says nothing of the present one.
  if (csrf.value === sent) {
    if (refusal.code === 'token_required') keepCsrf(null);
    else if (refusal.code === 'csrf_token_wrong') {
      // The kept token stays: it may be that of a login in another tab, which this one does not know yet.
      csrf.value = null;
      replaced.value = true;
    }
  }
  throw refusal;
}

async function refusalOf(response: Response): Promise<ApiError> {
  try {
    const { error } = (await response.json()) as { error: { code: string; message: string; problems?: [] } };
    return new ApiError(response.status, error.code, error.message, error.problems);
  } catch {
    return new ApiError(
      response.status,
      'http',
      `The gateway, or a proxy in front of it, answered HTTP ${response.status}`,
    );
  }
}
