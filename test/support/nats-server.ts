import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { freePort } from './free-port.ts';
import { goRun, madeOnce } from './made-once.ts';

export interface NatsServerOptions {
  /** Path of the program; the one of the system otherwise. */
  readonly program?: string;
  readonly jetStream?: boolean;
  /** Lines of its configuration file beside those of the port and JetStream. `FOLDER` stands for its own folder. */
  readonly config?: string;
  /** Files for that folder. */
  readonly files?: Readonly<Record<string, string>>;
}

/** A real nats-server of the test's own, on a private port of loopback, with its data in a folder of its own. */
export class NatsServer implements AsyncDisposable {
  readonly port: number;
  readonly folder: string;
  readonly #program: string;
  #process: ChildProcess | null = null;

  private constructor(program: string, folder: string, port: number) {
    this.#program = program;
    this.folder = folder;
    this.port = port;
  }

  static async start(options: NatsServerOptions = {}): Promise<NatsServer> {
    for (let attempt = 0; ; attempt++) {
      const folder = mkdtempSync(join(tmpdir(), 'trunkline-nats-'));
      const server = new NatsServer(options.program ?? 'nats-server', folder, await freePort());
      for (const [name, text] of Object.entries(options.files ?? {})) writeFileSync(join(folder, name), text);
      const jetStream = options.jetStream === false ? '' : `jetstream { store_dir: "${join(folder, 'data')}" }`;
      const config = `listen: "127.0.0.1:${server.port}"\n${jetStream}\n${options.config ?? ''}\n`;
      writeFileSync(join(folder, 'nats.conf'), config.replaceAll('FOLDER', folder));
      try {
        await server.run();
        return server;
      } catch (error) {
        // Another process has taken the port meanwhile.
        rmSync(folder, { recursive: true, force: true });
        if (attempt === 4) throw error;
      }
    }
  }

  get url(): string {
    return `nats://127.0.0.1:${this.port}`;
  }

  /** Starts it, for the first time or again. Rejects when it ends instead. */
  async run(): Promise<void> {
    const process = spawn(this.#program, ['-c', join(this.folder, 'nats.conf')], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    this.#process = process;
    let said = '';
    for await (const line of createInterface(process.stderr!)) {
      said += `${line}\n`;
      if (line.includes('Server is ready')) {
        process.stderr!.resume();
        return;
      }
    }
    throw new Error(`nats-server did not start: ${said}`);
  }

  /** Stops it as an operator would. */
  stop(): Promise<void> {
    return this.#end('SIGTERM');
  }

  /** Ends it as a crash would. */
  kill(): Promise<void> {
    return this.#end('SIGKILL');
  }

  /** Deletes all its data; only while it does not run. */
  forget(): void {
    rmSync(join(this.folder, 'data'), { recursive: true, force: true });
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const process = this.#process;
    this.#process = null;
    if (process === null || process.exitCode !== null || process.signalCode !== null) return;
    const exit = once(process, 'exit');
    process.kill(signal);
    await exit;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

const CURRENT = 'v2.15.2';

/** The newest release, built once with Go; a text why there is none here. */
export async function currentNatsServer(): Promise<{ readonly program: string } | { readonly missing: string }> {
  try {
    const folder = await madeOnce(`nats-server-${CURRENT}`, (scratch) =>
      goRun(['install', `github.com/nats-io/nats-server/v2@${CURRENT}`], { env: { GOBIN: scratch } }),
    );
    return { program: join(folder, 'nats-server') };
  } catch (error) {
    return { missing: `nats-server ${CURRENT} could not be built here: ${String(error).split('\n')[0]}` };
  }
}
