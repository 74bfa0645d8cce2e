import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, cpSync, createReadStream, mkdirSync, mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { runProgram } from './run-program.ts';

/** The image of `DockerEngine`: this Node, a shell, and nothing else. */
export const IMAGE = 'trunkline-test:1';

/** Why there is no engine to test with; null where there is one. The engine of Docker needs root. */
export function noEngine(): string | null {
  if (process.getuid?.() !== 0) return 'a container engine of the test’s own needs root';
  try {
    execFileSync('dockerd', ['--version'], { stdio: 'ignore' });
    return null;
  } catch {
    return 'dockerd is not installed';
  }
}

/** What the tests of the Docker transport need of an engine, the real one or `FakeDocker`. */
export interface TestEngine extends AsyncDisposable {
  readonly socket: string;
  /** One request to its API; resolves with the parsed answer, or its text. */
  call(method: string, path: string): Promise<unknown>;
  /** Ids of all containers, stopped ones included. */
  containers(): Promise<string[]>;
}

/** A real Docker engine of the test's own: without network, with everything in one folder. */
export class DockerEngine implements TestEngine {
  readonly folder: string;
  readonly #daemon: ChildProcess;

  private constructor(folder: string, daemon: ChildProcess) {
    this.folder = folder;
    this.#daemon = daemon;
  }

  get socket(): string {
    return join(this.folder, 'docker.sock');
  }

  /** `auto`: the daemon chooses how it stores images; a build copies less data then. */
  static async start(driver: 'vfs' | 'auto' = 'vfs'): Promise<DockerEngine> {
    const folder = mkdtempSync(join(tmpdir(), 'trunkline-docker-'));
    const at = (name: string): string => join(folder, name);
    const places = [
      '--data-root',
      at('data'),
      '--exec-root',
      at('exec'),
      '-p',
      at('pid'),
      '-H',
      `unix://${at('docker.sock')}`,
    ];
    const storage = driver === 'auto' ? [] : [`--storage-driver=${driver}`];
    const daemon = spawn('dockerd', ['--iptables=false', '--bridge=none', ...storage, ...places], {
      stdio: 'ignore',
    });
    const engine = new DockerEngine(folder, daemon);
    while ((await engine.call('GET', '/_ping').catch(() => null)) === null) {
      if (daemon.exitCode !== null) throw new Error(`dockerd ended with code ${daemon.exitCode}`);
      await sleep(50);
    }
    try {
      await engine.importImage(IMAGE, {});
      return engine;
    } catch (error) {
      await engine[Symbol.asyncDispose]();
      throw error;
    }
  }

  call(method: string, path: string, body?: NodeJS.ReadableStream): Promise<unknown> {
    return callEngine(this.socket, method, path, body);
  }

  async containers(): Promise<string[]> {
    const found = (await this.call('GET', '/containers/json?all=true')) as { readonly Id: string }[];
    return found.map(({ Id }) => Id);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const id of await this.containers().catch(() => []))
      await this.call('DELETE', `/containers/${id}?force=true`).catch(() => {});
    this.#daemon.kill('SIGTERM');
    if (this.#daemon.exitCode === null && this.#daemon.signalCode === null) await once(this.#daemon, 'exit');
    // Containers in the network of this machine, such as those of a build, leave this mount.
    spawnSync('umount', [join(this.folder, 'exec/netns/default')], { stdio: 'ignore' });
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** Starts a container that does nothing, with these files and folders of this machine copied to their places in it. */
  async idle(name: string, files: Readonly<Record<string, string>>): Promise<TestContainer> {
    const image = `trunkline-test-${name}:1`;
    await this.importImage(image, files);
    const container = new TestContainer(this.socket, name);
    const forever = ['/bin/node', '-e', 'setInterval(() => {}, 1e9)'];
    await container.docker(
      'run',
      '-d',
      '--name',
      name,
      '--network',
      'none',
      '-w',
      '/tmp',
      '-e',
      'HOME=/tmp',
      image,
      ...forever,
    );
    return container;
  }

  /** Node, a shell and these programs, with their libraries; and files and folders of this machine at their places in it. */
  async importImage(
    image: string,
    files: Readonly<Record<string, string>>,
    programs: readonly string[] = [],
  ): Promise<void> {
    const root = join(this.folder, 'image');
    for (const folder of ['tmp', 'bin', 'proc', 'dev']) mkdirSync(join(root, folder), { recursive: true });
    for (const [program, name] of [
      [process.execPath, '/bin/node'],
      [realpathSync('/bin/sh'), '/bin/sh'],
      ...programs.map((path) => [path, path] as const),
    ] as const) {
      mkdirSync(join(root, dirname(name)), { recursive: true });
      copyFileSync(program, join(root, name));
      for (const library of librariesOf(program)) {
        mkdirSync(join(root, dirname(library)), { recursive: true });
        copyFileSync(library, join(root, library));
      }
    }
    for (const [place, from] of Object.entries(files)) cpSync(from, join(root, place), { recursive: true });
    const archive = join(this.folder, 'image.tar');
    execFileSync('tar', ['-cf', archive, '-C', root, '.']);
    const [repository, tag] = image.split(':');
    await this.call('POST', `/images/create?fromSrc=-&repo=${repository}&tag=${tag}`, createReadStream(archive));
    rmSync(archive);
    rmSync(root, { recursive: true });
  }
}

/** A container of the engine, used through the `docker` command. */
export class TestContainer {
  readonly #socket: string;
  readonly #name: string;

  constructor(socket: string, name: string) {
    this.#socket = socket;
    this.#name = name;
  }

  /** The output of the command; rejects with it if the command fails. */
  async docker(...args: readonly string[]): Promise<string> {
    const { code, out, err } = await runProgram(['docker', '-H', `unix://${this.#socket}`, ...args]);
    if (code !== 0) throw new Error(`docker ${args[0]}: ${err}${out}`);
    return out;
  }

  /** The first words of a command that runs in the container. */
  get exec(): readonly string[] {
    return ['docker', '-H', `unix://${this.#socket}`, 'exec', this.#name];
  }

  /** The first words of a command of this machine that runs in the network of the container. */
  async enterNetwork(): Promise<readonly string[]> {
    const pid = await this.docker('inspect', '-f', '{{.State.Pid}}', this.#name);
    return ['nsenter', '-t', pid.trim(), '-n'];
  }
}

/** One request to the engine at this socket; rejects with its message if it refuses. */
export function callEngine(
  socketPath: string,
  method: string,
  path: string,
  body?: NodeJS.ReadableStream,
): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const headers = { host: 'docker', ...(body === undefined ? {} : { 'content-type': 'application/x-tar' }) };
    const sent = request({ socketPath, method, path, headers }, (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (chunk: string) => {
        text += chunk;
      });
      response.on('end', () => {
        if ((response.statusCode ?? 500) >= 300) reject(new Error(text));
        else resolve(text.startsWith('{') || text.startsWith('[') ? JSON.parse(text.split('\n')[0]!) : text);
      });
    });
    sent.on('error', reject);
    if (body === undefined) sent.end();
    else body.pipe(sent);
  });
}

function librariesOf(program: string): string[] {
  const reported = execFileSync('ldd', [program], { encoding: 'utf8' });
  return [...reported.matchAll(/(?:=> |^\s*)(\/\S+)/gm)].map(([, path]) => path!);
}
