import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { FULL } from '../faults/measured.ts';
import { StatelessServer } from '../fixtures/http/stateless.ts';
import { type Talk, talk } from '../support/http-listener.ts';
import { EventReader, type Json, open, type Reply, send } from '../support/raw-http.ts';
import { RunningGateway } from '../support/running-gateway.ts';

const PROBE = resolve(import.meta.dirname, 'probe-server.mjs');
/** The time limit for the answer to an attack: 3 s in `npm run prove`, more in a test suite, where other tests run. */
const LIMIT_MS = FULL ? 3_000 : 15_000;

export const ADA_KEY = 'key-of-ada-0123456789';
export const BOB_KEY = 'key-of-bob-0123456789';
export const ADA = { authorization: `Bearer ${ADA_KEY}` };
export const BOB = { authorization: `Bearer ${BOB_KEY}` };
export const AGENTS = { ada: { key: ADA_KEY }, bob: { key: BOB_KEY, servers: ['remote'] } };

export type Headers = Readonly<Record<string, string>>;

export interface ArenaOptions {
  /** Two agents: ada may use everything, bob the server `remote` alone. */
  readonly agents?: boolean;
  /** Further keys at the top of the configuration. */
  readonly settings?: object;
  readonly env?: Headers;
  /** Further environment of the probe, and keys of the remote. */
  readonly probeEnv?: Headers;
  readonly remote?: object;
  /** Further servers, and the names of the servers to wait for; all by default. */
  readonly servers?: object;
  readonly readyOnly?: readonly string[];
}

/**
 * A gateway as a process, in front of two servers that record all messages that reach them: `probe` (stdio, sessions) and
 * `remote` (HTTP, 2026-07-28). A well-behaved client, `victim`, has a session from the beginning; `alive` asserts that it
 * and new clients are still served.
 */
export class Arena {
  readonly gateway: RunningGateway;
  readonly remote: StatelessServer;
  readonly #folder: string;
  readonly #key: Headers;
  victim: Headers = {};
  #calls = 0;

  private constructor(gateway: RunningGateway, remote: StatelessServer, folder: string, key: Headers) {
    this.gateway = gateway;
    this.remote = remote;
    this.#folder = folder;
    this.#key = key;
  }

  static async start(options: ArenaOptions = {}): Promise<Arena> {
    const folder = mkdtempSync(join(tmpdir(), 'trunkline-attack-'));
    writeFileSync(join(folder, 'ledger'), '');
    const remote = await StatelessServer.start();
    const config = {
      mcpServers: {
        probe: {
          command: process.execPath,
          args: [PROBE],
          env: { LEDGER: join(folder, 'ledger'), CANARY_ENV: 'nothing-secret', ...options.probeEnv },
        },
        remote: { url: remote.url, type: 'http', ...options.remote },
        ...options.servers,
      },
      ...(options.agents === true ? { agents: AGENTS } : {}),
      ...options.settings,
    };
    const gateway = await RunningGateway.start({
      config,
      args: ['--log-level', 'debug'],
      ...(options.env === undefined ? {} : { env: options.env }),
    });
    const arena = new Arena(gateway, remote, folder, options.agents === true ? ADA : {});
    await gateway.ready(...(options.readyOnly ?? []));
    arena.victim = await arena.session({ headers: arena.#key });
    return arena;
  }

  get mcpPort(): number {
    return Number(new URL(this.gateway.mcpUrl).port);
  }

  get controlPort(): number {
    return Number(new URL(this.gateway.controlUrl).port);
  }

  get controlToken(): string {
    return readFileSync(join(this.gateway.folder, 'data', 'control.token'), 'utf8').trim();
  }

  get dataFolder(): string {
    return join(this.gateway.folder, 'data');
  }

  url(path: string): string {
    return new URL(path, this.gateway.mcpUrl).href;
  }

  /** All that reached either server, as text. */
  reached(): string {
    const remote = this.remote.stage.requests.map(
      ({ path, rawHeaders, body }) => `${path} ${rawHeaders.join(' ')} ${body}`,
    );
    return `${readFileSync(join(this.#folder, 'ledger'), 'utf8')}${remote.join('\n')}`;
  }

  /** A POST of JSON, answered in time. */
  async post(body: string | Buffer, headers: Headers = {}, path = '/mcp'): Promise<Reply> {
    const began = performance.now();
    const reply = await send(this.url(path), 'POST', { ...JSON_HEADERS, ...headers }, body);
    assert.ok(performance.now() - began < LIMIT_MS, `took ${performance.now() - began} ms: ${body.slice(0, 80)}`);
    return reply;
  }

  /** A request without a body. If the answer is a stream, which its content type shows, the stream is closed at once. */
  async ask(method: 'GET' | 'DELETE', path: string, headers: Headers = {}): Promise<Reply> {
    const { response, request } = await open(this.url(path), method, headers);
    const chunks: Buffer[] = [];
    const streams = String(response.headers['content-type']).includes('event-stream');
    if (streams) request.destroy();
    else for await (const chunk of response) chunks.push(chunk as Buffer);
    const text = Buffer.concat(chunks).toString();
    return { status: response.statusCode!, headers: response.headers, text, json: null };
  }

  events(path: string, headers: Headers = {}): Promise<EventReader> {
    return EventReader.open(this.url(path), 'GET', { accept: 'text/event-stream', ...headers });
  }

  listen(request: ModernRequest, headers: Headers = {}, path = '/mcp'): Promise<EventReader> {
    return EventReader.open(this.url(path), 'POST', { ...JSON_HEADERS, ...request.headers, ...headers }, request.body);
  }

  raw(bytes: string | Buffer, listener: 'mcp' | 'control' = 'mcp'): Promise<Talk> {
    return talk(listener === 'mcp' ? this.mcpPort : this.controlPort, bytes, 60, 5_000);
  }

  /** A request to the control listener. */
  control(path: string, method = 'GET', headers: Headers = {}, body: string | null = null): Promise<Reply> {
    return send(new URL(path, this.gateway.controlUrl).href, method, headers, body);
  }

  /** Opens a session and returns the headers that belong to it. */
  async session(options: SessionOptions = {}): Promise<Headers> {
    const { headers = {}, path = '/mcp', revision = '2025-11-25' } = options;
    const { clientInfo = { name: 'attacker', version: '1' } } = options;
    const params = { protocolVersion: revision, capabilities: {}, clientInfo };
    const reply = await this.post(rpc('initialize', params), headers, path);
    const id = reply.headers['mcp-session-id'];
    assert.equal(typeof id, 'string', reply.text);
    return { ...headers, 'mcp-session-id': id as string, 'mcp-protocol-version': revision };
  }

  /** The process lives, the victim's session works, and so does a request of 2026-07-28. */
  async alive(what = ''): Promise<void> {
    assert.equal(this.gateway.process.exitCode, null, `${what}: the gateway is gone\n${this.gateway.stderr}`);
    const id = `alive-${++this.#calls}`;
    const call = { name: 'probe__echo', arguments: { id } };
    const reply = await this.post(rpc('tools/call', call, id), this.victim);
    const expected = { jsonrpc: '2.0', id, result: { content: [{ type: 'text', text: `{"id":"${id}"}` }] } };
    assert.deepEqual(reply.json, expected, what);
    const request = modern('tools/list', {}, id);
    const listed = await this.post(request.body, { ...request.headers, ...this.#key });
    assert.equal(listed.json.id, id, what);
    assert.ok(listed.json.result.tools.length >= 4, what);
  }

  async stop(): Promise<void> {
    await this.gateway.dispose();
    await this.remote.stop();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

export interface SessionOptions {
  readonly headers?: Headers;
  readonly path?: string;
  readonly revision?: string;
  readonly clientInfo?: object;
}

export const JSON_HEADERS = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };

/** A request of the stateful revisions. */
export function rpc(method: string, params: object = {}, id: string | number = 1): string {
  return JSON.stringify({ jsonrpc: '2.0', id, method, params });
}

export interface ModernRequest {
  readonly body: string;
  readonly headers: Headers;
}

export const META = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientInfo': { name: 'attacker', version: '1' },
  'io.modelcontextprotocol/clientCapabilities': {},
};

/** A complete, valid request of 2026-07-28 with its headers. */
export function modern(method: string, params: Json = {}, id: string | number = 1, meta: object = {}): ModernRequest {
  const name = params.name ?? params.uri ?? params.taskId;
  return {
    body: JSON.stringify({ jsonrpc: '2.0', id, method, params: { ...params, _meta: { ...META, ...meta } } }),
    headers: {
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': method,
      ...(typeof name === 'string' ? { 'mcp-name': headerText(name) } : {}),
    },
  };
}

function headerText(text: string): string {
  return /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/.test(text) && !text.startsWith('=?')
    ? text
    : `=?base64?${Buffer.from(text).toString('base64')}?=`;
}
