import { existsSync, readFileSync } from 'node:fs';
import type { ClientRequest, IncomingMessage, OutgoingHttpHeaders, RequestOptions } from 'node:http';
import { join } from 'node:path';
import { addAbortSignal, type Duplex } from 'node:stream';
import { nodeHttp } from '../../http/node-http.ts';

/** How to reach a container engine's API. */
interface EngineAddress {
  /** Shown in error messages. */
  readonly where: string;
  readonly options: RequestOptions;
}

type Environment = Readonly<Record<string, string | undefined>>;

const DOCKER_SOCKET = '/var/run/docker.sock';
const PODMAN_SOCKET = '/run/podman/podman.sock';

/**
 * The address in the definition, else that of `DOCKER_HOST`, else the first existing socket: Docker's, then those of rootless
 * Docker and Podman, then Podman's. Throws an Error with a readable message.
 */
function engineAddress(written: string | null, environment: Environment): EngineAddress {
  const text = written ?? (environment['DOCKER_HOST'] || null);
  if (text === null) return atSocket(usualSocket(environment));
  if (text.startsWith('unix://')) return atSocket(text.slice('unix://'.length));
  if (text.startsWith('/')) return atSocket(text);
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || url.hostname === '' || !['tcp:', 'http:', 'https:'].includes(url.protocol)) {
    throw new Error(`the engine's address ${JSON.stringify(text)} is neither unix:///path nor tcp://host:port`);
  }
  const secure = url.protocol === 'https:' || Boolean(environment['DOCKER_TLS_VERIFY']);
  const { hostname: host } = url;
  const port = url.port === '' ? (secure ? 2376 : 2375) : Number(url.port);
  const tls = secure ? { protocol: 'https:', ...certificates(environment) } : {};
  return { where: `${host}:${port}`, options: { host, port, ...tls } };
}

function atSocket(path: string): EngineAddress {
  return { where: path, options: { socketPath: path } };
}

function usualSocket(environment: Environment): string {
  const own = environment['XDG_RUNTIME_DIR'];
  const rootless = own ? [join(own, 'docker.sock'), join(own, 'podman/podman.sock')] : [];
  return [DOCKER_SOCKET, ...rootless, PODMAN_SOCKET].find((path) => existsSync(path)) ?? DOCKER_SOCKET;
}

/** As for the docker command: three files in one folder. */
function certificates(environment: Environment): Readonly<Record<'ca' | 'cert' | 'key', string>> {
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

/** An error of the engine, with its own message. */
export class EngineError extends Error {
  /** HTTP status; 0 if the engine could not be reached. */
  readonly status: number;

  constructor(status: number, message: string, cause?: unknown) {
    super(message, { cause });
    this.status = status;
  }
}

const MAX_ANSWER_BYTES = 4 * 1024 * 1024;
const MAX_WORDS = 500;

export interface EngineLimits {
  /** How long the engine may be silent; 0 for no limit. Default: that of the engine. */
  readonly timeoutMs?: number;
  /** Ends the request. */
  readonly until?: AbortSignal;
}

/**
 * The HTTP API of a container engine, Docker or Podman, as far as one attached container needs it. Paths have no version, so
 * the engine uses its own. Not performance critical: messages use the hijacked connection.
 */
export class Engine {
  readonly #address: EngineAddress;
  readonly timeoutMs: number;

  /**
   * `written`: the address in the definition, null for the default. `timeoutMs`: how long the engine may be silent. Throws an
   * Error with a readable message.
   */
  constructor(written: string | null, environment: Environment, timeoutMs: number) {
    this.#address = engineAddress(written, environment);
    this.timeoutMs = timeoutMs;
  }

  /**
   * Resolves with the parsed body of an answer below 300 or with status 304, null without a body; rejects with EngineError
   * otherwise.
   */
  call(
    method: string,
    path: string,
    body?: unknown,
    { timeoutMs = this.timeoutMs, until }: EngineLimits = {},
  ): Promise<unknown> {
    const text = body === undefined ? '' : JSON.stringify(body);
    const headers =
      text === '' ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) };
    return new Promise((resolve, reject) => {
      const request = this.#open(method, path, headers, timeoutMs, reject);
      if (until !== undefined) addAbortSignal(until, request);
      request.once('response', (response) => {
        this.#read(response).then(resolve, reject);
      });
      request.end(text);
    });
  }

  /** Takes over a request's connection as a bidirectional byte stream (Engine API, "Hijacking"). */
  hijack(path: string): Promise<Duplex> {
    return new Promise((resolve, reject) => {
      const headers = { connection: 'Upgrade', upgrade: 'tcp', 'content-type': 'application/json' };
      const request = this.#open('POST', path, headers, this.timeoutMs, reject);
      request.once('upgrade', (_response, socket, head) => {
        socket.setTimeout(0);
        // The engine may reset the connection before its owner listens.
        socket.on('error', () => {});
        if (head.length > 0) socket.unshift(head);
        resolve(socket);
      });
      request.once('response', (response) => {
        const { statusCode: status = 0 } = response;
        this.#read(response).then(() => reject(new EngineError(status, `status ${status}`)), reject);
      });
      request.end();
    });
  }

  #open(
    method: string,
    path: string,
    headers: OutgoingHttpHeaders,
    timeoutMs: number,
    reject: (error: Error) => void,
  ): ClientRequest {
    const { options } = this.#address;
    const host = options.socketPath == null ? {} : { host: 'docker' };
    const { request: send } = options.protocol === 'https:' ? process.getBuiltinModule('node:https') : nodeHttp;
    // As an option the timeout also limits the connecting.
    const sent = { ...options, method, path, headers: { ...headers, ...host }, agent: false, timeout: timeoutMs };
    const request = send(sent);
    request.once('timeout', () => request.destroy(new Error('no answer in time')));
    request.on('error', (cause) => reject(this.#unreachable(cause)));
    return request;
  }

  async #read(response: IncomingMessage): Promise<unknown> {
    const { statusCode: status = 0 } = response;
    let text: string;
    try {
      text = await wholeText(response);
    } catch (cause) {
      throw this.#unreachable(cause);
    }
    let body: unknown = null;
    try {
      if (text !== '') body = JSON.parse(text);
    } catch {
      body = { message: text };
    }
    if (status < 300 || status === 304) return body;
    const { message } = (body ?? {}) as { readonly message?: unknown };
    throw new EngineError(status, typeof message === 'string' ? message.slice(0, MAX_WORDS) : `status ${status}`);
  }

  #unreachable(cause: unknown): EngineError {
    const { where } = this.#address;
    const code = cause instanceof Error && 'code' in cause ? ` (${String(cause.code)})` : '';
    return new EngineError(0, `no container engine answers at ${where}${code}; start it, or set DOCKER_HOST`, cause);
  }
}

async function wholeText(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > MAX_ANSWER_BYTES) throw new Error('the answer is too long');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}
