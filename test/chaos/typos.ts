import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createServer as createHttps } from 'node:https';
import type { AddressInfo, Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { Blackhole } from '../faults/blackhole.ts';
import { TestAuthority } from '../support/certificates.ts';
import { NodeProcess } from '../support/cluster-processes.ts';
import { freePort } from '../support/free-port.ts';
import { manySided } from '../support/many-sided.ts';
import { NatsServer } from '../support/nats-server.ts';
import { RunTimeClient } from '../support/run-time-client.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { WireClient } from '../support/wire-client.ts';
import { Seeded } from './seeded.ts';

const FIXTURES = resolve(import.meta.dirname, '../fixtures/typos');
const PYTHON = ['nan', 'items', 'noise', 'split', 'crlf', 'trace', 'ids', 'batch'];
const GO = ['capitals', 'both', 'panic', 'plain'];
const GOOD = ['base', 'mate'];
const CLIENTS = 8;
const EVERY_MS = 250;
/** The most wrong definitions at each node at the same time. */
const AT_ONCE = 12;

export interface TyposOptions {
  readonly seed: number;
  readonly durationMs: number;
  /** Two nodes over a real nats-server; else one gateway alone. */
  readonly cluster: boolean;
}

export interface Typos {
  readonly kinds: readonly string[];
  /** Toolchains that this machine lacks: their kinds were not tried. */
  readonly lacking: readonly string[];
  /** Numbers of changes, by kind and answer. */
  readonly changes: Readonly<Record<string, number>>;
  readonly calls: number;
  readonly lists: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly longestMs: number;
  /** Servers that a mistake of the gateway itself put out of service. */
  readonly defects: number;
  /** Everything that must not happen. */
  readonly wrong: readonly string[];
}

/** Calls good servers all the time, while wrong definitions of every kind are added, changed and removed beside them. */
export async function typosRun({ seed, durationMs, cluster }: TyposOptions): Promise<Typos> {
  const random = new Seeded(seed);
  await using wrongs = await WrongDefinitions.open();
  const good = Object.fromEntries(GOOD.map((name) => [name, manySided(name)]));
  const nats = cluster ? await NatsServer.start() : null;
  const gateways: RunningGateway[] = [];
  try {
    for (const name of cluster ? ['a', 'b'] : ['a']) {
      if (nats === null) gateways.push(await RunningGateway.start({ config: { mcpServers: good } }));
      else gateways.push((await NodeProcess.start(name, good, {}, { nats: nats.url })).gateway);
    }
    for (const gateway of gateways) await gateway.ready(...GOOD);
    return await new TyposRun(gateways, wrongs, good, random, cluster).run(durationMs);
  } finally {
    for (const gateway of gateways) await gateway.dispose();
    await nats?.[Symbol.asyncDispose]();
  }
}

class TyposRun {
  readonly #gateways: readonly RunningGateway[];
  readonly #wrongs: WrongDefinitions;
  readonly #good: object;
  readonly #random: Seeded;
  readonly #cluster: boolean;
  readonly #changes: Record<string, number> = {};
  readonly #wrong: string[] = [];
  readonly #times: number[] = [];
  #lists = 0;
  #over = false;

  constructor(
    gateways: readonly RunningGateway[],
    wrongs: WrongDefinitions,
    good: object,
    random: Seeded,
    cluster: boolean,
  ) {
    this.#gateways = gateways;
    this.#wrongs = wrongs;
    this.#good = good;
    this.#random = random;
    this.#cluster = cluster;
  }

  async run(durationMs: number): Promise<Typos> {
    const load = Array.from({ length: CLIENTS }, (_, i) => this.#client(i));
    const changing = this.#gateways.map((gateway) => this.#change(gateway));
    await new Promise((done) => setTimeout(done, durationMs));
    this.#over = true;
    await Promise.all([...load, ...changing]);
    let defects = 0;
    for (const { process, stderr } of this.#gateways) {
      if (process.exitCode !== null || process.signalCode !== null) this.#wrong.push('a gateway has ended');
      if (stderr.includes('"event":"crash"')) this.#wrong.push(`a crash: ${stderr.slice(-2_000)}`);
      defects += stderr.split('"event":"server_defect"').length - 1;
    }
    for (const gateway of this.#gateways) {
      const { servers } = await gateway.control<{ servers: { name: string; restarts: number; state: string }[] }>(
        '/api/v1/servers',
      );
      for (const name of GOOD) {
        const one = servers.find((server) => server.name === name);
        if (one?.state !== 'running' || one.restarts > 0) this.#wrong.push(`${name}: ${JSON.stringify(one)}`);
      }
    }
    const sorted = this.#times.sort((a, b) => a - b);
    const at = (share: number): number => sorted[Math.floor(share * (sorted.length - 1))] ?? Number.POSITIVE_INFINITY;
    return {
      kinds: this.#wrongs.kinds,
      lacking: this.#wrongs.lacking,
      changes: this.#changes,
      calls: sorted.length,
      lists: this.#lists,
      p50Ms: at(0.5),
      p99Ms: at(0.99),
      longestMs: at(1),
      defects,
      wrong: this.#wrong,
    };
  }

  async #client(number: number): Promise<void> {
    const gateway = this.#gateways[number % this.#gateways.length]!;
    const client = await WireClient.open(gateway.mcpUrl);
    for (let i = 0; !this.#over; i++) {
      const name = GOOD[i % GOOD.length]!;
      const begun = performance.now();
      try {
        const text = await client.callText(`${name}__echo`, { text: `${number} ${i}` });
        this.#times.push(performance.now() - begun);
        if (text !== `${number} ${i}`) this.#wrong.push(`a call of ${name} was answered ${text}`);
        if (i % 10 === 0) {
          const tools = await client.toolNames();
          this.#lists++;
          for (const one of GOOD)
            if (!tools.includes(`${one}__echo`)) this.#wrong.push(`a list lacks the tools of ${one}`);
        }
      } catch (error) {
        this.#wrong.push(`a call or list of ${name} failed: ${error}`);
        if (this.#wrong.length > 50) return;
      }
      await new Promise((done) => setTimeout(done, 20));
    }
  }

  /** Adds, changes and removes wrong definitions, half of them in the file and half by the control API. */
  async #change(gateway: RunningGateway): Promise<void> {
    const api = new RunTimeClient(gateway);
    const added = new Map<string, 'api' | 'file'>();
    const inFile = new Map<string, object>();
    // Nodes without a shared store accept run-time servers only with a time limit.
    const query = this.#cluster ? '?ttlMs=600000' : '';
    const config = JSON.parse(readFileSync(join(gateway.folder, 'trunkline.json'), 'utf8')) as object;
    const write = (): void => {
      gateway.rewrite({ ...config, mcpServers: { ...this.#good, ...Object.fromEntries(inFile) } });
    };
    const done = (what: string, status: number): void => {
      const key = status < 300 ? what : `${what}, answered ${status}`;
      this.#changes[key] = (this.#changes[key] ?? 0) + 1;
    };
    for (let i = 0; !this.#over; i++) {
      const [kind, definition] = this.#wrongs.any(this.#random);
      const names = [...added.keys()];
      const old = names[this.#random.below(Math.max(1, names.length))];
      const act = names.length >= AT_ONCE ? 2 : this.#random.below(3);
      const where = old === undefined ? undefined : added.get(old);
      if (old === undefined || act === 0) {
        const name = `w${i}-${gateway.process.pid}`;
        const here = this.#random.below(2) === 0 ? 'api' : 'file';
        added.set(name, here);
        if (here === 'api') done(`${kind} added`, (await api.add(name, definition, query)).status);
        else {
          inFile.set(name, definition);
          write();
          done(`${kind} added in the file`, 200);
        }
      } else if (act === 1) {
        if (where === 'api') done(`changed to ${kind}`, (await api.change(old, definition)).status);
        else {
          inFile.set(old, definition);
          write();
          done(`changed to ${kind} in the file`, 200);
        }
      } else {
        added.delete(old);
        if (where === 'api') done('removed', (await api.remove(old)).status);
        else {
          inFile.delete(old);
          write();
          done('removed from the file', 200);
        }
      }
      await new Promise((next) => setTimeout(next, EVERY_MS));
    }
  }
}

/** Every kind of mistake in a definition, with the files and servers that the mistake needs. */
class WrongDefinitions implements AsyncDisposable {
  readonly lacking: string[] = [];
  readonly #folder = mkdtempSync(join(tmpdir(), 'trunkline-typos-'));
  readonly #kinds = new Map<string, object>();
  readonly #servers: Server[] = [];
  #blackhole: Blackhole | null = null;

  static async open(): Promise<WrongDefinitions> {
    const made = new WrongDefinitions();
    await made.#make();
    return made;
  }

  get kinds(): readonly string[] {
    return [...this.#kinds.keys()];
  }

  any(random: Seeded): readonly [kind: string, definition: object] {
    const all = [...this.#kinds];
    return all[random.below(all.length)]!;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#blackhole?.close();
    for (const server of this.#servers) {
      if ('closeAllConnections' in server) (server.closeAllConnections as () => void)();
      await new Promise((done) => server.close(done));
    }
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async #make(): Promise<void> {
    const kinds = this.#kinds;
    const shell = (text: string): object => ({ command: 'sh', args: ['-c', text] });
    kinds.set('a name that does not resolve', { url: 'http://no-such-host.invalid/mcp' });
    kinds.set('a name that does not resolve, over TLS', { url: 'https://no-such-host.invalid/mcp' });
    kinds.set('a name too long', { url: `http://${'a'.repeat(70)}.invalid/mcp` });
    kinds.set('an address that refuses', { url: `http://127.0.0.1:${await freePort()}/mcp` });
    this.#blackhole = await Blackhole.open();
    kinds.set('an address that does not answer', { url: `http://127.0.0.1:${this.#blackhole.port}/mcp` });
    kinds.set('a program that does not exist', { command: 'no-such-program-anywhere' });
    const plain = join(this.#folder, 'plain.txt');
    writeFileSync(plain, 'not a program');
    kinds.set('a file that is not executable', { command: plain });
    const noFormat = join(this.#folder, 'no-format');
    writeFileSync(noFormat, Buffer.from([0x7f, 0x45, 0x4c, 0x46, 0, 1, 2]));
    chmodSync(noFormat, 0o755);
    kinds.set('a file of no known format', { command: noFormat });
    kinds.set('a folder that is not there', { command: 'sh', cwd: join(this.#folder, 'gone') });
    kinds.set('a zero byte in an argument', { command: 'sh', args: ['a\0b'] });
    kinds.set('a program that exits', shell('echo DATABASE_URL is required >&2; exit 1'));
    kinds.set('a program that kills itself', shell('kill -SEGV $$'));
    kinds.set('a program that closes its output', shell('exec >&-; sleep 60'));
    kinds.set('a program that prints garbage', shell('head -c 200000 /dev/urandom; sleep 1'));
    kinds.set('a program that prints without end', shell('yes "{}" | head -c 3000000; sleep 1'));
    kinds.set('a program that prints one endless line', shell('head -c 20000000 /dev/zero | tr "\\0" x; sleep 1'));
    kinds.set('a program that says nothing', shell('sleep 60'));
    kinds.set('an argument missing', { command: process.execPath, args: ['--no-such-flag'] });
    const certified = new TestAuthority().issue({ name: 'localhost' });
    const tls = createHttps(certified, (_, response) => response.end('{}'));
    kinds.set('a certificate of an unknown authority', { url: `https://localhost:${await this.#port(tls)}/mcp` });
    const web = createServer((request, response) => {
      const [, how = ''] = request.url!.split('/');
      if (how === 'html') response.setHeader('content-type', 'text/html').end('<html>Log in</html>');
      else if (how === 'reset') request.socket.resetAndDestroy();
      else if (how === 'json') response.setHeader('content-type', 'application/json').end('{"jsonrpc":"2.0","id":NaN');
      else if (how === 'sse') response.setHeader('content-type', 'text/event-stream').end('data: {"a":\n\nevent: \n\n');
      else if (how === 'odd') response.setHeader('content-type', '\u00e9;;=,').end('null');
      else if (how === 'round') response.writeHead(302, { location: '/round' }).end();
      else response.writeHead(Number(how)).end('no');
    });
    const port = await this.#port(web);
    for (const how of ['html', 'reset', 'json', 'sse', 'odd', 'round', '401', '404', '500', '204']) {
      kinds.set(`an HTTP answer: ${how}`, { url: `http://localhost:${port}/${how}` });
    }
    kinds.set('https where http is spoken', { url: `https://127.0.0.1:${port}/mcp` });
    kinds.set('a type that is another', { type: 'sse', url: `http://127.0.0.1:${port}/json` });
    if (spawnSync('python3', ['--version']).status !== 0) this.lacking.push('python3');
    else
      for (const how of PYTHON)
        kinds.set(`Python: ${how}`, { command: 'python3', args: [join(FIXTURES, 'odd.py'), how] });
    if (spawnSync('go', ['version']).status !== 0) this.lacking.push('go');
    else {
      const program = join(this.#folder, 'odd');
      execFileSync('go', ['build', '-o', program, join(FIXTURES, 'odd.go')], { stdio: 'inherit' });
      for (const how of GO) kinds.set(`Go: ${how}`, { command: program, args: [how] });
    }
  }

  async #port(server: Server): Promise<number> {
    this.#servers.push(server);
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    return (server.address() as AddressInfo).port;
  }
}
