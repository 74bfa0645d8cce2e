import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { json } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { callEngine, IMAGE, type TestEngine } from './docker-engine.ts';

interface Create {
  readonly Image: string;
  readonly Cmd?: readonly string[];
  readonly Entrypoint?: readonly string[];
  readonly WorkingDir?: string;
  readonly Env?: readonly string[];
  readonly StdinOnce: boolean;
  readonly OpenStdin: boolean;
  readonly Tty: boolean;
  readonly Labels: Readonly<Record<string, string>>;
  readonly HostConfig: { readonly AutoRemove: boolean };
}

/** The answer of the engine to a request that it refuses. */
class Refusal extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/**
 * Speaks the part of the Docker Engine API that Trunkline uses, over a Unix socket, and runs each "container" as a local
 * process group. For machines without dockerd. The tests of the Docker transport run against this engine and, where
 * dockerd is installed, against the real one: both must pass, so this engine cannot be kinder than Docker.
 * It isolates nothing: limits and volumes are recorded, not applied.
 */
export class FakeDocker implements TestEngine {
  readonly #folder: string;
  readonly #server: Server;
  readonly #containers = new Map<string, FakeContainer>();
  /** Statuses of the requests that it refuses, by method and path, as in `DELETE /containers/ID`. */
  readonly refuses = new Map<string, number>();
  /** What it waits for before it handles the requests that have come, by method and path. */
  readonly holds = new Map<string, () => Promise<unknown>>();
  /** Open requests for the exit of a container. */
  waits = 0;

  private constructor(folder: string) {
    this.#folder = folder;
    this.#server = createServer((request, response) => void this.#answer(request, response));
    this.#server.on('upgrade', (request, socket) => this.#attach(request, socket as Socket));
  }

  static async start(): Promise<FakeDocker> {
    const engine = new FakeDocker(mkdtempSync(join(tmpdir(), 'trunkline-fake-docker-')));
    engine.#server.listen(engine.socket);
    await once(engine.#server, 'listening');
    return engine;
  }

  get socket(): string {
    return join(this.#folder, 'docker.sock');
  }

  call(method: string, path: string): Promise<unknown> {
    return callEngine(this.socket, method, path);
  }

  async containers(): Promise<string[]> {
    return [...this.#containers.keys()];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#containers.values()].map((container) => container.remove()));
    this.#server.closeAllConnections();
    this.#server.close();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (request.url!.includes('/wait?')) {
      this.waits++;
      response.once('close', () => this.waits--);
    }
    try {
      const { status, body } = await this.#handle(request);
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(body === undefined ? undefined : JSON.stringify(body));
    } catch (error) {
      response.writeHead(error instanceof Refusal ? error.status : 500, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ message: error instanceof Error ? error.message : String(error) }));
    }
  }

  async #handle(request: IncomingMessage): Promise<{ status: number; body?: unknown }> {
    const { pathname, searchParams } = new URL(request.url!, 'http://docker');
    const route = `${request.method} ${pathname.replace(/^(\/containers\/)(?!json|create)[^/]+/, '$1ID')}`;
    const id = decodeURIComponent(pathname.split('/')[2] ?? '');
    const config = route === 'POST /containers/create' ? ((await json(request)) as Create) : null;
    await this.holds.get(route)?.();
    const refused = this.refuses.get(route);
    if (refused !== undefined) throw new Refusal(refused, 'refused by the test');
    switch (route) {
      case 'GET /containers/json': {
        const { label = [] } = JSON.parse(searchParams.get('filters') ?? '{}') as { label?: readonly string[] };
        const found = [...this.#containers.values()].filter(({ config: { Labels } }) =>
          label.every((wanted) => Object.entries(Labels).some(([key, value]) => wanted === `${key}=${value}`)),
        );
        return { status: 200, body: found.map((c) => ({ Id: c.id, Names: [`/${c.name}`], Labels: c.config.Labels })) };
      }
      case 'POST /containers/create':
        return { status: 201, body: { Id: this.#create(config!, searchParams.get('name')!), Warnings: [] } };
      case 'GET /containers/ID/json': {
        const { id: Id, config, running } = this.#find(id);
        const State = { Running: running, Status: running ? 'running' : 'exited' };
        return { status: 200, body: { Id, State, Config: config, HostConfig: config.HostConfig } };
      }
      case 'POST /containers/ID/start':
        this.#find(id).start();
        return { status: 204 };
      case 'POST /containers/ID/stop':
        await this.#find(id).stop(Number(searchParams.get('t')) * 1000);
        return { status: 204 };
      case 'POST /containers/ID/wait': {
        const container = this.#find(id);
        const removed = searchParams.get('condition') === 'removed';
        return { status: 200, body: { StatusCode: await (removed ? container.removed : container.exited).promise } };
      }
      case 'DELETE /containers/ID':
        await this.#find(id).remove();
        return { status: 204 };
      default:
        throw new Refusal(404, 'page not found');
    }
  }

  #create(config: Create, name: string): string {
    if (!/^[a-zA-Z0-9][a-zA-Z0-9_.-]+$/.test(name)) throw new Refusal(400, `Invalid container name (${name})`);
    if (this.#containers.values().some((other) => other.name === name)) throw new Refusal(409, `${name} is in use`);
    if (config.Image !== IMAGE) throw new Refusal(404, `No such image: ${config.Image}`);
    if ([...(config.Entrypoint ?? []), ...(config.Cmd ?? [])].length === 0)
      throw new Refusal(400, 'No command specified');
    const id = randomBytes(32).toString('hex');
    this.#containers.set(id, new FakeContainer(id, name, config, () => this.#containers.delete(id)));
    return id;
  }

  #find(id: string): FakeContainer {
    const found = [...this.#containers.values()].find((container) => id.length >= 12 && container.id.startsWith(id));
    if (found === undefined) throw new Refusal(404, `No such container: ${id}`);
    return found;
  }

  #attach(request: IncomingMessage, socket: Socket): void {
    socket.on('error', () => {});
    try {
      const container = this.#find(decodeURIComponent(request.url!.split('/')[2]!));
      socket.write('HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n');
      container.attach(socket);
    } catch (error) {
      const body = JSON.stringify({ message: (error as Error).message });
      socket.end(`HTTP/1.1 404 Not Found\r\ncontent-length: ${body.length}\r\nconnection: close\r\n\r\n${body}`);
    }
  }
}

class FakeContainer {
  readonly id: string;
  readonly name: string;
  readonly config: Create;
  readonly exited = Promise.withResolvers<number>();
  readonly removed = Promise.withResolvers<number>();
  readonly #attached = new Set<Socket>();
  readonly #forget: () => void;
  #child: ChildProcess | null = null;

  constructor(id: string, name: string, config: Create, forget: () => void) {
    this.id = id;
    this.name = name;
    this.config = config;
    this.#forget = forget;
  }

  get running(): boolean {
    return this.#child !== null && this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** The streams of a client. As in Docker, the first client to end its input ends that of a `StdinOnce` container. */
  attach(socket: Socket): void {
    this.#attached.add(socket);
    socket.on('data', (chunk) => {
      if (this.#child?.stdin?.write(chunk) === false) {
        socket.pause();
        this.#child.stdin.once('drain', () => socket.resume());
      }
    });
    const ended = (): void => {
      if (this.config.StdinOnce) this.#child?.stdin?.end();
    };
    socket.on('end', ended);
    socket.on('drain', () => this.#child?.stdout?.resume());
    socket.on('close', () => {
      ended();
      this.#attached.delete(socket);
      this.#child?.stdout?.resume();
    });
    socket.pause();
    if (this.#child !== null) socket.resume();
  }

  /** The main process leads a process group of its own; the group ends with it, as a container does. */
  start(): void {
    const [command, ...args] = [...(this.config.Entrypoint ?? []), ...(this.config.Cmd ?? [])];
    const path = `${dirname(process.execPath)}:/usr/bin:/bin`;
    const env = { PATH: path, HOSTNAME: this.id.slice(0, 12), HOME: '/root', ...environment(this.config.Env ?? []) };
    const child = spawn(command!, args, { cwd: this.config.WorkingDir ?? '/', env, detached: true });
    this.#child = child;
    child.stdin.on('error', () => {});
    child.stdout.on('data', (chunk: Buffer) => this.#write(1, chunk, child));
    child.stderr.on('data', (chunk: Buffer) => this.#write(2, chunk, child));
    child.once('error', () => {
      // With `Init`, Docker starts its init program, which finds out that the command does not exist.
      this.#write(2, Buffer.from(`[FATAL tini (7)] exec ${command} failed: No such file or directory\n`), child);
      this.#end(127);
    });
    child.once('exit', (code, signal) => {
      this.#kill('SIGKILL', true);
      // What the group wrote before it ended is still in the pipes.
      const codeOf = code ?? (signal === 'SIGKILL' ? 137 : 143);
      child.once('close', () => this.#end(codeOf));
    });
    for (const socket of this.#attached) socket.resume();
  }

  async stop(patienceMs: number): Promise<void> {
    if (!this.running) return;
    this.#kill('SIGTERM', false);
    const gaveUp = new AbortController();
    const killed = sleep(patienceMs, null, { signal: gaveUp.signal }).then(
      () => this.#kill('SIGKILL', true),
      () => {},
    );
    await this.exited.promise;
    gaveUp.abort();
    await killed;
  }

  async remove(): Promise<void> {
    if (this.running) {
      this.#kill('SIGKILL', true);
      await this.exited.promise;
    }
    this.#gone();
  }

  #end(code: number): void {
    this.exited.resolve(code);
    for (const socket of this.#attached) socket.end();
    if (this.config.HostConfig.AutoRemove) this.#gone();
  }

  #gone(): void {
    this.#forget();
    this.removed.resolve(this.#child?.exitCode ?? 0);
  }

  #write(stream: number, chunk: Buffer, child: ChildProcess): void {
    const header = Buffer.from([stream, 0, 0, 0, 0, 0, 0, 0]);
    header.writeUInt32BE(chunk.length, 4);
    for (const socket of this.#attached) {
      socket.write(header);
      if (!socket.write(chunk)) child.stdout?.pause();
    }
  }

  #kill(signal: NodeJS.Signals, group: boolean): void {
    const pid = this.#child?.pid;
    try {
      if (pid !== undefined) process.kill(group ? -pid : pid, signal);
    } catch {
      // It has ended.
    }
  }
}

function environment(lines: readonly string[]): Record<string, string> {
  return Object.fromEntries(lines.map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]));
}
