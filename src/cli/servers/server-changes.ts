import type { RunningGateway } from '../../app/running.ts';
import { openStopped, type StoppedGateway } from '../../app/stopped-gateway.ts';
import { ControlClient, serverPath } from '../access/control-client.ts';
import { findRunning, gatewayName, notRunning } from '../access/find-running.ts';
import type { CommandInput } from '../command-input.ts';
import { commandLogger } from '../command-logger.ts';
import { CommandError, cannotOpen, EXIT, usage } from '../exit-code.ts';
import { storedOptions } from '../sources.ts';

export interface ChangedServer {
  readonly name: string;
  /** Absent if no gateway runs. */
  readonly state?: string;
  readonly [key: string]: unknown;
}

export interface AddOptions {
  readonly ttlMs: number | null;
  readonly session: string | null;
  /** Replace an existing server of that name. */
  readonly replace: boolean;
}

export type Change = 'remove' | 'suspend' | 'resume' | 'restart';

/** Changes of servers by a command: in the running gateway, or in the data folder for its next start. */
export interface ServerChanges {
  /** Names the gateway for people. */
  readonly label: string;
  readonly running: boolean;
  add(name: string, definition: object, options: AddOptions): Promise<ChangedServer>;
  change(name: string, change: Change): Promise<ChangedServer>;
  /** null if the server does not exist. */
  server(name: string): Promise<ChangedServer | null>;
  /** JSON text that contains the command and arguments of each server. */
  definitions(): Promise<string>;
  close(): Promise<void>;
}

/**
 * Changes through the running gateway for this configuration; without one, in its data folder, opened for the duration of the
 * command. `nearest`: without a named file, the nearest one is the configuration.
 */
export async function serverChanges(input: CommandInput, nearest = true): Promise<ServerChanges> {
  const { terminal } = input;
  const running = await findRunning({ ...input, serverCommand: [] });
  if (running !== null) return ofRunning(running, terminal.cwd);
  const load = await storedOptions(input, nearest);
  const logger = commandLogger(input);
  const opened = await openStopped(load, logger);
  if (!opened.ok) throw cannotOpen(opened.problem, terminal.cwd);
  return ofStopped(opened.gateway, terminal.cwd, notRunning(input));
}

function ofRunning(gateway: RunningGateway, cwd: string): ServerChanges {
  const client = new ControlClient(gateway);
  const server = async (name: string): Promise<ChangedServer | null> => {
    const { servers } = JSON.parse(await client.get('/api/v1/servers')) as { servers: ChangedServer[] };
    return servers.find((one) => one.name === name) ?? null;
  };
  return {
    label: `the gateway ${gatewayName(gateway)}`,
    running: true,
    server,
    definitions: () => client.get('/api/v1/servers'),
    async add(name, definition, { ttlMs, session, replace }) {
      const query = new URLSearchParams({ folder: cwd });
      if (replace && (await server(name)) !== null) {
        // A replacement would silently drop them, and the server would stay longer than the user asked for.
        if (ttlMs !== null || session !== null) {
          const message =
            'what is replaced stays for as long as it was to: leave out --ttl and --session, or remove it first';
          throw usage(message);
        }
        return JSON.parse(await client.send('PUT', `${serverPath(name)}?${query}`, JSON.stringify(definition)));
      }
      if (ttlMs !== null) query.set('ttlMs', String(ttlMs));
      if (session !== null) query.set('session', session);
      return JSON.parse(await client.post(`/api/v1/servers?${query}`, JSON.stringify({ name, ...definition })));
    },
    async change(name, change) {
      if (change !== 'remove') return JSON.parse(await client.send('POST', `${serverPath(name)}/${change}`, null));
      await client.send('DELETE', serverPath(name), null);
      return { name };
    },
    close: async () => {},
  };
}

function ofStopped(
  { runTime, definitions, close }: StoppedGateway,
  cwd: string,
  notRunningText: string,
): ServerChanges {
  return {
    label: `${notRunningText}; the next one will find it so`,
    running: false,
    definitions: async () => definitions(),
    server: async (name) => (runTime.provenance(name) === null ? null : { name }),
    async add(name, definition, { ttlMs, session, replace }) {
      if (ttlMs !== null || session !== null) {
        const message = `${notRunningText}, and a temporary server lives in one only: start it first`;
        throw new CommandError(EXIT.unreachable, message);
      }
      // A process that may lock the data folder could also write the files.
      const caller = { exec: true };
      const text = JSON.stringify({ name, ...definition }, null, 2);
      if (replace && runTime.provenance(name) !== null) await runTime.change(name, { text, name, folder: cwd }, caller);
      else await runTime.add({ text, name: null, folder: cwd }, caller);
      return { name };
    },
    async change(name, change) {
      if (change === 'restart') {
        const message = `${notRunningText}, so there is nothing to restart; start it with: trunkline`;
        throw new CommandError(EXIT.unreachable, message);
      }
      await runTime[change](name);
      return { name };
    },
    close,
  };
}
