import type { RunningGateway } from '../../app/running.ts';
import { CommandError, EXIT } from '../exit-code.ts';
import { fetchWith, notReached, type RemoteTls } from './remote-gateway.ts';

/** `tls` is set for a gateway on another machine. `note` writes a line for people while they wait; absent with `--json`. */
export type ControlTarget = Pick<RunningGateway, 'instance' | 'token' | 'execToken'> & {
  readonly tls?: RemoteTls;
  readonly note?: (text: string) => void;
};

/** A person gets a line after this time without an answer. */
const SILENT_MS = 2_000;
/** `fetch` waits 300 s for the head of an answer, and as long between two parts of its body. */
const LATE = /^UND_ERR_(?:HEADERS|BODY)_TIMEOUT$/;

/** The path of a server in the control API. */
export function serverPath(server: string): string {
  return `/api/v1/servers/${encodeURIComponent(server)}`;
}

/** Client of the control API of a running gateway. Answers are unparsed JSON text. */
export class ControlClient {
  readonly #gateway: ControlTarget;
  /** The `fetch` to use; with `tls` it has its own connection pool. */
  #ask: Promise<typeof fetch> | null = null;

  constructor(gateway: ControlTarget) {
    this.#gateway = gateway;
  }

  get(path: string, signal: AbortSignal | null = null): Promise<string> {
    return this.send('GET', path, null, signal);
  }

  post(path: string, body: string): Promise<string> {
    return this.send('POST', path, body);
  }

  /** Passes the data of each event to `onEvent`, one at a time, until the stream ends or is cancelled. */
  async stream(path: string, signal: AbortSignal, onEvent: (data: string) => void | Promise<void>): Promise<void> {
    try {
      const response = await this.#fetch('GET', path, null, signal);
      // A broken stream means that the gateway has gone.
      for await (const data of this.#events(response, () => {})) await onEvent(data);
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }

  /** Resolves with the last event of a request that streams its progress; `onEvent` gets every event. The signal cancels it. */
  async steps(path: string, body: string, signal: AbortSignal, onEvent: (data: string) => void): Promise<string> {
    const lost = (error: unknown): never => {
      throw this.#connectionError('POST', error);
    };
    let last: string | null = null;
    for await (const data of this.#events(await this.#fetch('POST', path, body, signal), lost)) {
      onEvent(data);
      last = data;
    }
    return last ?? lost(null);
  }

  /** `broken` gets the error of a stream that breaks. Errors of the loop that reads the events do not come here. */
  async *#events(response: Response, broken: (error: unknown) => void): AsyncGenerator<string> {
    await check(response);
    const decoder = new TextDecoder();
    let rest = '';
    let data: string[] = [];
    try {
      for await (const chunk of response.body ?? []) {
        const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n');
        rest = lines.pop()!;
        for (const line of lines) {
          if (line.startsWith('data: ')) data.push(line.slice('data: '.length));
          if (line !== '' || data.length === 0) continue;
          yield data.join('\n');
          data = [];
        }
      }
    } catch (error) {
      broken(error);
    }
  }

  async send(method: string, path: string, body: string | null, signal: AbortSignal | null = null): Promise<string> {
    const response = await this.#fetch(method, path, body, signal);
    await check(response);
    return response.text().catch((error) => {
      throw this.#connectionError(method, error);
    });
  }

  async #fetch(
    method: string,
    path: string,
    body: string | null,
    signal: AbortSignal | null = null,
  ): Promise<Response> {
    const { instance, token, execToken, tls } = this.#gateway;
    const headers = {
      ...(token === '' ? {} : { authorization: `Bearer ${token}` }),
      ...(execToken === null ? {} : { 'trunkline-exec': execToken }),
      ...(body === null ? {} : { 'content-type': 'application/json' }),
    };
    let answered = (): void => {};
    try {
      this.#ask ??= tls === undefined ? Promise.resolve(fetch) : fetchWith(tls);
      const ask = await this.#ask;
      answered = this.#noteSilence(ask);
      // Behind a proxy the control API may have a path prefix.
      const send = () => ask(new URL(path.replace(/^\//, ''), instance.controlUrl), { method, headers, body, signal });
      const response = await send();
      if (response.status !== 408) return response;
      // The request met the end of an idle connection, unread (RFC 9110 §15.5.9).
      await response.body?.cancel();
      return await send();
    } catch (error) {
      throw this.#connectionError(method, error);
    } finally {
      answered();
    }
  }

  /** Writes a line if `/livez` is not answered either: a call, for example, may take long. Returns what ends the wait. */
  #noteSilence(ask: typeof fetch): () => void {
    const { note, instance, tls } = this.#gateway;
    if (note === undefined) return () => {};
    const { pid, controlUrl } = instance;
    const here = `if it is suspended (Ctrl-Z), continue it with fg in its terminal, or: kill -CONT ${pid}`;
    const remedy = tls === undefined ? here : 'Ctrl-C ends the wait';
    const over = new AbortController();
    const line = setTimeout(() => note(`waiting for ${this.#name}, which does not answer; ${remedy}\n`), SILENT_MS);
    // A refused connection ends the request itself.
    const settled = (): void => clearTimeout(line);
    const probe = setTimeout(() => {
      const asked = ask(new URL('livez', controlUrl), { signal: over.signal });
      void asked.then((answer) => answer.text()).then(settled, settled);
    }, SILENT_MS / 2);
    return () => {
      clearTimeout(probe);
      clearTimeout(line);
      over.abort();
    };
  }

  get #name(): string {
    const { instance, tls } = this.#gateway;
    return `the gateway ${tls === undefined ? `(pid ${instance.pid})` : `at ${instance.controlUrl}`}`;
  }

  /** A gateway that ended may have carried out a request that it received; a refused connection carried out nothing. */
  #connectionError(method: string, error: unknown): CommandError {
    const { controlUrl } = this.#gateway.instance;
    const remote = this.#gateway.tls !== undefined;
    const { code } = ((error as Error | null)?.cause ?? {}) as NodeJS.ErrnoException;
    const unsent = code !== undefined && !/^(ECONNRESET|EPIPE|UND_ERR)/.test(code);
    const late = LATE.test(code ?? '') ? 'did not answer within 300 s' : null;
    if (remote && late === null && (method === 'GET' || unsent)) return notReached(controlUrl, error);
    if (method === 'GET' || code === 'ECONNREFUSED') {
      const message = `${this.#name} ${late ?? `does not answer at ${controlUrl}`}`;
      return new CommandError(EXIT.unreachable, message, { cause: error });
    }
    const done = `the call or change may have been carried out${late === null ? '' : ', or may be when it goes on'}`;
    const message = `UNKNOWN: ${this.#name} ${late ?? 'ended before it answered'}; ${done}`;
    return new CommandError(EXIT.toolError, message, { cause: error });
  }
}

/** Throws if the request was refused, or if something else than a control API has answered. */
async function check(response: Response): Promise<void> {
  const type = response.headers.get('content-type') ?? '';
  if (response.ok) {
    if (/^(?:application\/json|text\/event-stream|$)/.test(type)) return;
    await response.body?.cancel().catch(() => {});
    const message = `what answers at ${response.url} is no gateway: it sends ${type}; name the address of the control listener`;
    throw new CommandError(EXIT.unreachable, message);
  }
  const code = response.status === 401 ? EXIT.authRequired : EXIT.usage;
  const { message, cause } = refusalIn(await response.text().catch(() => ''));
  throw new CommandError(code, message ?? `HTTP ${response.status}`, { cause });
}

interface RefusalBody {
  readonly error: { readonly code: string; readonly message: string; readonly problems?: readonly ReportedProblem[] };
}

type ReportedProblem = Readonly<Record<'code' | 'message' | 'fix', string>>;

/** `cause` has the error code of the response. */
function refusalIn(text: string) {
  try {
    const { code, message, problems = [] } = (JSON.parse(text) as RefusalBody).error;
    // Omits the place: it refers to the text that was sent, not to the one that the user wrote.
    const texts = problems.map((one) => `${one.code}  ${one.message}\n   fix: ${one.fix}`);
    return { message: texts.length === 0 ? message : texts.join('\n'), cause: { code } };
  } catch {
    return { message: null, cause: { code: 'http' } };
  }
}
