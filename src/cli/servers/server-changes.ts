import { processLogger } from '../../app/process-logger.ts';
import { openStopped, type StoppedGateway } from '../../app/stopped-gateway.ts';
import { findConfig } from '../../config/files/find-config.ts';
import { ControlClient } from '../access/control-client.ts';
import { findRunning } from '../access/find-running.ts';
import type { CommandInput } from '../command-input.ts';
import { CommandError, cannotOpen, EXIT } from '../exit-code.ts';
import { loadOptions } from '../sources.ts';

export interface ChangedServer {
  readonly name: string;
  /** Absent where no gateway runs. */
  readonly state?: string;
  readonly [key: string]: unknown;
}

export interface AddOptions {
  readonly ttlMs: number | null;
  readonly session: string | null;
  /** Takes the place of the one of that name. */
  readonly replace: boolean;
}

export type Change = 'remove' | 'suspend' | 'resume' | 'restart';

/** Changes of servers by a command: of the gateway that runs, or of what it will find when it starts. */
export interface ServerChanges {
  /** For people: which gateway that is. */
  readonly label: string;
  readonly running: boolean;
  add(name: string, definition: object, options: AddOptions): Promise<ChangedServer>;
  change(name: string, change: Change): Promise<ChangedServer>;
  /** null once it is gone. */
  server(name: string): Promise<ChangedServer | null>;
  close(): Promise<void>;
}

/** The gateway that runs for the configuration in question; else its data folder, as long as the command takes. */
export async function serverChanges(input: CommandInput): Promise<ServerChanges> {
  const { flags, terminal } = input;
  const running = await findRunning({ ...input, serverCommand: [] });
  if (running !== null) return new OfRunning(new ControlClient(running), running.instance.mcpUrl, terminal.cwd);
  const file = input.file ?? findConfig(terminal.cwd) ?? null;
  const load = loadOptions({ ...input, serverCommand: [], file: file ?? undefined }, true);
  const logger = processLogger({ level: flags.logLevel ?? 'error', json: flags.json === true, write: terminal.err });
  const opened = await openStopped(load, logger);
  if (!opened.ok) throw cannotOpen(opened.problem, terminal.cwd);
  return new OfStopped(opened.gateway, terminal.cwd);
}

class OfRunning implements ServerChanges {
  readonly label: string;
  readonly running = true;
  readonly #client: ControlClient;
  readonly #cwd: string;

  constructor(client: ControlClient, mcpUrl: string, cwd: string) {
    this.label = `the gateway at ${mcpUrl}`;
    this.#client = client;
    this.#cwd = cwd;
  }

  async add(name: string, definition: object, { ttlMs, session, replace }: AddOptions): Promise<ChangedServer> {
    const query = new URLSearchParams({ folder: this.#cwd });
    if (replace && (await this.server(name)) !== null) {
      // They would be dropped in silence, and the server be there for longer than was said.
      if (ttlMs !== null || session !== null) {
        const message =
          'what is replaced stays for as long as it was to: leave out --ttl and --session, or remove it first';
        throw new CommandError(EXIT.usage, message);
      }
      return parsed(await this.#client.send('PUT', `${path(name)}?${query}`, JSON.stringify(definition)));
    }
    if (ttlMs !== null) query.set('ttlMs', String(ttlMs));
    if (session !== null) query.set('session', session);
    return parsed(await this.#client.send('POST', `/api/v1/servers?${query}`, JSON.stringify({ name, ...definition })));
  }

  async change(name: string, change: Change): Promise<ChangedServer> {
    const remove = change === 'remove';
    const answer = await this.#client.send(remove ? 'DELETE' : 'POST', path(name) + (remove ? '' : `/${change}`), null);
    return remove ? { name } : parsed(answer);
  }

  async server(name: string): Promise<ChangedServer | null> {
    const { servers } = JSON.parse(await this.#client.get('/api/v1/servers')) as { servers: ChangedServer[] };
    return servers.find((server) => server.name === name) ?? null;
  }

  async close(): Promise<void> {}
}

class OfStopped implements ServerChanges {
  readonly label = 'no gateway runs; the next one will find it so';
  readonly running = false;
  readonly #gateway: StoppedGateway;
  readonly #cwd: string;

  constructor(gateway: StoppedGateway, cwd: string) {
    this.#gateway = gateway;
    this.#cwd = cwd;
  }

  async add(name: string, definition: object, { ttlMs, session, replace }: AddOptions): Promise<ChangedServer> {
    if (ttlMs !== null || session !== null) {
      const message = 'no gateway runs, and a temporary server lives in one only: start it first';
      throw new CommandError(EXIT.unreachable, message);
    }
    const { runTime } = this.#gateway;
    // A process that may lock the data folder could write the files as well.
    const caller = { exec: true };
    const text = JSON.stringify({ name, ...definition }, null, 2);
    if (replace && runTime.provenance(name) !== null) {
      await runTime.change(name, { text, name, folder: this.#cwd }, caller);
    } else await runTime.add({ text, name: null, folder: this.#cwd }, caller);
    return { name };
  }

  async change(name: string, change: Change): Promise<ChangedServer> {
    if (change === 'restart') {
      const message = 'no gateway runs here, so there is nothing to restart; start it with: trunkline';
      throw new CommandError(EXIT.unreachable, message);
    }
    await this.#gateway.runTime[change](name);
    return { name };
  }

  async server(name: string): Promise<ChangedServer | null> {
    return this.#gateway.runTime.provenance(name) === null ? null : { name };
  }

  close(): Promise<void> {
    return this.#gateway.close();
  }
}

function path(name: string): string {
  return `/api/v1/servers/${encodeURIComponent(name)}`;
}

function parsed(text: string): ChangedServer {
  return JSON.parse(text) as ChangedServer;
}
