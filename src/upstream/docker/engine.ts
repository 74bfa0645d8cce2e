import { existsSync, readFileSync } from 'node:fs';
import type { ClientRequest, IncomingMessage, OutgoingHttpHeaders } from 'node:http';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import { nodeHttp } from '../../http/node-http.ts';

/** How an Engine's API is reached. */
type EngineAddress =
  | { readonly kind: 'socket'; readonly path: string }
  | { readonly kind: 'tcp'; readonly host: string; readonly port: number; readonly tls: EngineTls | null };

interface EngineTls {
  readonly ca: string;
  readonly cert: string;
  readonly key: string;
}

type Environment = Readonly<Record<string, string | undefined>>;

const DOCKER_SOCKET = '/var/run/docker.sock';
const PODMAN_SOCKET = '/run/podman/podman.sock';

/**
 * The address a definition names, else that of `DOCKER_HOST`, else the first socket that is there: Docker's, rootless
 * Docker's, Podman's own. Throws an Error in words for people.
 */
export function engineAddress(written: string | null, environment: Environment): EngineAddress {
  const text = written ?? (environment['DOCKER_HOST'] || null);
  if (text === null) return { kind: 'socket', path: usualSocket(environment) };
  if (text.startsWith('unix://')) return { kind: 'socket', path: text.slice('unix://'.length) };
  if (text.startsWith('/')) return { kind: 'socket', path: text };
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || url.hostname === '' || !['tcp:', 'http:', 'https:'].includes(url.protocol)) {
    throw new Error(`the engine's address ${JSON.stringify(text)} is neither unix:///path nor tcp://host:port`);
  }
  const secure = url.protocol === 'https:' || Boolean(environment['DOCKER_TLS_VERIFY']);
  const port = url.port === '' ? (secure ? 2376 : 2375) : Number(url.port);
  return { kind: 'tcp', host: url.hostname, port, tls: secure ? certificates(environment) : null };
}

function usualSocket(environment: Environment): string {
  const own = environment['XDG_RUNTIME_DIR'];
  const rootless = own ? [join(own, 'docker.sock'), join(own, 'podman/podman.sock')] : [];
  return [DOCKER_SOCKET, ...rootless, PODMAN_SOCKET].find((path) => existsSync(path)) ?? DOCKER_SOCKET;
}

/** As the docker command has it: three files of one folder. */
function certificates(environment: Environment): EngineTls {
  const folder = environment['DOCKER_CERT_PATH'] ?? join(environment['HOME'] ?? '', '.docker');
  const read = (name: string): string => {
    try {
      return readFileSync(join(folder, name), 'utf8');
    } catch {
      throw new Error(`the engine's certificate ${join(folder, name)} cannot be read; set DOCKER_CERT_PATH`);
    }
  };
  return { ca: read('ca.pem'), cert: read('cert.pem'), key: read('key.pem') };
}

interface EngineAnswer {
  readonly status: number;
  /** Parsed, or null where there was none. */
  readonly body: unknown;
}

/** What the Engine said no to, in its own words. */
export class EngineError extends Error {
  /** 0: it could not be reached. */
  readonly status: number;

  constructor(status: number, message: string, cause?: unknown) {
    super(message, { cause });
    this.status = status;
  }
}

const MAX_ANSWER_BYTES = 4 * 1024 * 1024;
const MAX_WORDS = 500;

/**
 * The HTTP API of a container engine, Docker's or Podman's, as far as one container with open streams needs it. Paths
 * without a version: every engine takes them as its own. Nothing here is hot: messages go over the hijacked connection.
 */
export class Engine {
  readonly #address: EngineAddress;
  readonly #timeoutMs: number;

  constructor(address: EngineAddress, timeoutMs: number) {
    this.#address = address;
    this.#timeoutMs = timeoutMs;
  }

  /** Resolves with any answer below 300; rejects with EngineError otherwise. `patient`: the answer may take any time. */
  async call(method: string, path: string, body?: unknown, patient = false): Promise<EngineAnswer> {
    const answer = await this.#send(method, path, body, patient);
    if (answer.status < 300 || answer.status === 304) return answer;
    const { message } = (answer.body ?? {}) as { readonly message?: unknown };
    const words = typeof message === 'string' ? message.slice(0, MAX_WORDS) : `status ${answer.status}`;
    throw new EngineError(answer.status, words);
  }

  /** Takes over the connection of a request as a two-way stream of bytes (Engine API, "Hijacking"). */
  hijack(path: string): Promise<Duplex> {
    return new Promise((resolve, reject) => {
      const headers = { connection: 'Upgrade', upgrade: 'tcp', 'content-type': 'application/json' };
      const request = this.#open('POST', path, headers);
      request.setTimeout(this.#timeoutMs, () => request.destroy(new Error('no answer in time')));
      request.once('error', (cause) => reject(this.#unreachable(cause)));
      request.once('upgrade', (_response, socket, head) => {
        socket.setTimeout(0);
        if (head.length > 0) socket.unshift(head);
        resolve(socket);
      });
      request.once('response', (response) => {
        read(response).then(({ status, body }) => {
          const { message } = (body ?? {}) as { readonly message?: unknown };
          reject(
            new EngineError(status, typeof message === 'string' ? message.slice(0, MAX_WORDS) : `status ${status}`),
          );
        }, reject);
      });
      request.end();
    });
  }

  #send(method: string, path: string, body: unknown, patient: boolean): Promise<EngineAnswer> {
    const text = body === undefined ? null : JSON.stringify(body);
    return new Promise((resolve, reject) => {
      const headers =
        text === null ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) };
      const request = this.#open(method, path, headers);
      if (!patient) request.setTimeout(this.#timeoutMs, () => request.destroy(new Error('no answer in time')));
      request.once('error', (cause) => reject(this.#unreachable(cause)));
      request.once('response', (response) => {
        read(response).then(resolve, (cause) => reject(this.#unreachable(cause)));
      });
      request.end(text ?? undefined);
    });
  }

  #open(method: string, path: string, headers: OutgoingHttpHeaders): ClientRequest {
    const address = this.#address;
    if (address.kind === 'socket') {
      return nodeHttp.request({
        socketPath: address.path,
        method,
        path,
        headers: { ...headers, host: 'docker' },
        agent: false,
      });
    }
    const { host, port, tls } = address;
    const options = { host, port, method, path, headers, agent: false as const };
    return tls === null
      ? nodeHttp.request(options)
      : process.getBuiltinModule('node:https').request({ ...options, ...tls });
  }

  #unreachable(cause: unknown): EngineError {
    const address = this.#address;
    const where = address.kind === 'socket' ? address.path : `${address.host}:${address.port}`;
    const code = cause instanceof Error && 'code' in cause ? ` (${String(cause.code)})` : '';
    return new EngineError(0, `no container engine answers at ${where}${code}; start it, or set DOCKER_HOST`, cause);
  }
}

async function read(response: IncomingMessage): Promise<EngineAnswer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > MAX_ANSWER_BYTES) throw new Error('the answer is too long');
    chunks.push(chunk);
  }
  const text = Buffer.concat(chunks).toString();
  let body: unknown = null;
  try {
    body = text === '' ? null : JSON.parse(text);
  } catch {
    body = { message: text.slice(0, MAX_WORDS) };
  }
  return { status: response.statusCode ?? 0, body };
}
