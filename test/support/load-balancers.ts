import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { until } from './cluster-processes.ts';
import { freePort } from './free-port.ts';

/** The configurations that users read. */
export const CONFIGURATIONS = resolve(import.meta.dirname, '../../deploy/load-balancers');

export type ProxyName = 'nginx' | 'haproxy';

export interface ProxyOptions {
  /** The ports of the three nodes on loopback. */
  readonly nodes: readonly number[];
  /** PEM texts. Without them the proxy speaks plain HTTP. */
  readonly tls?: { readonly cert: string; readonly key: string };
}

/** The real nginx or HAProxy with the configuration of `deploy/load-balancers`; only addresses, ports and paths are changed. */
export class LoadBalancer implements AsyncDisposable {
  readonly port: number;
  readonly #folder: string;
  readonly #process: ChildProcess;
  #log = '';

  static async start(name: ProxyName, options: ProxyOptions): Promise<LoadBalancer> {
    const balancer = new LoadBalancer(name, options, await freePort());
    await until(() => balancer.#listens(), `${name} to listen`);
    return balancer;
  }

  private constructor(name: ProxyName, options: ProxyOptions, port: number) {
    this.port = port;
    this.#folder = mkdtempSync(join(tmpdir(), `trunkline-${name}-`));
    const file = join(this.#folder, 'proxy.conf');
    writeFileSync(file, (name === 'nginx' ? nginx : haproxy)(this.#folder, port, options));
    const args = name === 'nginx' ? ['-p', this.#folder, '-e', 'stderr', '-c', file] : ['-db', '-f', file];
    this.#process = spawn(name, args, {
      env: { ...process.env, PATH: `${process.env['PATH']}:/usr/sbin` },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    for (const stream of [this.#process.stdout!, this.#process.stderr!])
      stream.setEncoding('utf8').on('data', (text: string) => {
        this.#log = (this.#log + text).slice(-20_000);
      });
  }

  /** What the proxy has written to its log. */
  get log(): string {
    return this.#log;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#process.exitCode === null && this.#process.signalCode === null) {
      const exit = once(this.#process, 'exit');
      this.#process.kill('SIGTERM');
      await exit;
    }
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async #listens(): Promise<boolean> {
    if (this.#process.exitCode !== null) throw new Error(this.#log);
    const socket = connect(this.port, '127.0.0.1');
    const open = await once(socket, 'connect').then(
      () => true,
      () => false,
    );
    socket.destroy();
    return open;
  }
}

/** Replaces each text, which must be there. */
function replaced(text: string, changes: Readonly<Record<string, string>>): string {
  return Object.entries(changes).reduce((changed, [from, to]) => {
    if (!changed.includes(from)) throw new Error(`the configuration has no ${JSON.stringify(from)}`);
    return changed.replaceAll(from, to);
  }, text);
}

function places(nodes: readonly number[]): Record<string, string> {
  return Object.fromEntries(nodes.map((port, i) => [`10.0.0.1${i + 1}:4270`, `127.0.0.1:${port}`]));
}

function nginx(folder: string, port: number, { nodes, tls }: ProxyOptions): string {
  let server = replaced(readFileSync(join(CONFIGURATIONS, 'nginx.conf'), 'utf8'), places(nodes));
  if (tls === undefined)
    server = replaced(server, { 'listen 443 ssl;': `listen 127.0.0.1:${port};` }).replaceAll(/ssl_certificate.*;/g, '');
  else {
    writeFileSync(join(folder, 'mcp.pem'), tls.cert);
    writeFileSync(join(folder, 'mcp.key'), tls.key, { mode: 0o600 });
    server = replaced(server, { 'listen 443': `listen 127.0.0.1:${port}`, '/etc/ssl/': `${folder}/` });
  }
  const kinds = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'];
  const temporary = kinds.map((kind) => `${kind}_temp_path ${join(folder, kind)};`).join(' ');
  return `daemon off; pid ${folder}/nginx.pid; error_log stderr;\nevents {}\nhttp { access_log off; ${temporary}\n${server}}\n`;
}

function haproxy(folder: string, port: number, { nodes, tls }: ProxyOptions): string {
  const file = replaced(readFileSync(join(CONFIGURATIONS, 'haproxy.cfg'), 'utf8'), places(nodes));
  if (tls === undefined)
    return replaced(file, { 'bind :443 ssl crt /etc/haproxy/mcp.pem alpn h2,http/1.1': `bind 127.0.0.1:${port}` });
  writeFileSync(join(folder, 'mcp.pem'), `${tls.cert}${tls.key}`, { mode: 0o600 });
  return replaced(file, { 'bind :443': `bind 127.0.0.1:${port}`, '/etc/haproxy/': `${folder}/` });
}
