import { setTimeout as pause } from 'node:timers/promises';
import type { App } from '../../app/app.ts';
import { openApp } from '../../app/open-app.ts';
import { type CallLimits, controlPlane, type ShownClient, type ToolView } from '../../app/plane.ts';
import { processLogger } from '../../app/process-logger.ts';
import { hasStoredServers, type RunningGateway } from '../../app/running.ts';
import type { ConfigurationView } from '../../model/configuration.ts';
import type { DriftReport } from '../../model/drift.ts';
import { isSettled, type ServerStatus } from '../../model/server-state.ts';
import type { CommandInput } from '../command-input.ts';
import { cannotOpen } from '../exit-code.ts';
import type { ShownServer } from '../server-line.ts';
import { loadOptions } from '../sources.ts';
import { ControlClient } from './control-client.ts';
import { findRunning, gatewayName, notRunning } from './find-running.ts';

type GatewayFacts = ReturnType<App['facts']>;

export interface ShellCallOptions extends Omit<CallLimits, 'onProgress'> {
  readonly onProgress?: (progress: CallProgress) => void;
}

/** How far a call is, as its server says. */
export interface CallProgress {
  readonly progress?: number;
  readonly total?: number;
  readonly message?: string;
}

/** What the commands ask of a gateway, whether it runs elsewhere or was started for the command. */
export interface GatewayAccess {
  /** One line for people: which gateway this is. */
  readonly label: string;
  /** null: a gateway of the command's own. */
  readonly running: RunningGateway | null;
  statuses(): Promise<readonly ShownServer[]>;
  /** How many the reading of the files gave. */
  warnings(): Promise<number>;
  facts(): Promise<Pick<GatewayFacts, 'conditions' | 'configProblem' | 'desiredProblems' | 'processes'>>;
  tools(): Promise<readonly ToolView[]>;
  /** The tools as MCP clients show them whose files call the gateway so. */
  asClients(gatewayName: string): Promise<readonly ShownClient[]>;
  /** What of the server waits for a decision. */
  drift(server: string): Promise<Pick<DriftReport, 'waiting'>>;
  /** JSON text with `outcome`, and `result` or `error` as they came. */
  call(server: string, tool: string, argumentsJson: string, options: ShellCallOptions): Promise<string>;
  close(): Promise<void>;
}

const SETTLE_MS = 60_000;
const POLL_MS = 25;

/**
 * The running gateway's control API, or, where none runs (none for the file that was named, if one was), a gateway of
 * our own for as long as the command takes; `starts`: with its servers.
 */
export async function accessGateway(input: CommandInput, starts = true): Promise<GatewayAccess> {
  const { flags, terminal } = input;
  const running = await findRunning(input);
  // What is asked for goes to standard output, and which gateway was asked is always said.
  const told = <T extends GatewayAccess>(access: T): T => {
    if (starts && flags.json !== true) terminal.err(`(${access.label})\n`);
    return access;
  };
  if (running !== null) return told(remoteAccess(running));
  const logger = processLogger({ level: flags.logLevel ?? 'error', json: flags.json === true, write: terminal.err });
  const load = loadOptions(input, !starts || hasStoredServers(flags.dataDir, terminal));
  const opened = await openApp({ load, logger, state: 'look', follow: false });
  if (!opened.ok) throw cannotOpen(opened.problem, terminal.cwd);
  if (starts) opened.app.startServers();
  return told(ownAccess(opened.app, starts, notRunning(input)));
}

function remoteAccess(gateway: RunningGateway): GatewayAccess {
  const client = new ControlClient(gateway);
  const get = async <T>(path: string): Promise<T> => JSON.parse(await client.get(path)) as T;
  return {
    running: gateway,
    label: `running ${gatewayName(gateway)}`,
    statuses: async () => (await get<{ servers: ShownServer[] }>('/api/v1/servers')).servers,
    warnings: async () => (await get<ConfigurationView>('/api/v1/configuration')).warnings.length,
    facts: () => get('/api/v1/gateway'),
    async tools() {
      const { tools } = await get<{ tools: (Omit<ToolView, 'definition'> & { definition: object })[] }>(
        '/api/v1/tools',
      );
      return tools.map((tool) => ({ ...tool, definition: JSON.stringify(tool.definition) }));
    },
    async asClients(gatewayName) {
      const query = new URLSearchParams({ gateway: gatewayName });
      return (await get<{ clients: ShownClient[] }>(`/api/v1/tools/clients?${query}`)).clients;
    },
    drift: (server) => get(`/api/v1/servers/${encodeURIComponent(server)}/drift`),
    call(server, tool, argumentsJson, { signal, timeoutMs, onProgress }) {
      const query = new URLSearchParams({ tool, ...(timeoutMs === undefined ? {} : { timeoutMs: String(timeoutMs) }) });
      const path = `/api/v1/servers/${encodeURIComponent(server)}/call/stream?${query}`;
      return client.steps(path, argumentsJson, signal, (data) => {
        if (data.startsWith('{"progress":')) onProgress?.((JSON.parse(data) as { progress: CallProgress }).progress);
      });
    },
    close: async () => {},
  };
}

function ownAccess(app: App, starts: boolean, whichNot: string): GatewayAccess {
  const plane = controlPlane(app.rooms, app);
  /** Waits until every server that starts by itself has come up or failed. */
  const statuses = async (): Promise<readonly ShownServer[]> => {
    const end = performance.now() + SETTLE_MS;
    const isWaiting = (status: ServerStatus) =>
      app.state.servers.get(status.name)?.start !== 'lazy' && !isSettled(status);
    for (;;) {
      const all = app.rooms.upstreams.statuses().map((one) => ({ ...one, desired: plane.desired(one.name) }));
      if (!starts || !all.some(isWaiting) || performance.now() > end) return all;
      await pause(POLL_MS);
    }
  };
  return {
    running: null,
    label: starts ? `${whichNot}; servers were started for this command` : whichNot,
    statuses,
    warnings: async () => app.rooms.loaded.warnings.length,
    facts: async () => app.facts(),
    async tools() {
      await statuses();
      return (await plane.tools.list(null)).tools;
    },
    async asClients(gatewayName) {
      await statuses();
      return plane.tools.asClients(gatewayName, null);
    },
    drift: (server) => plane.drift.report(server),
    call: async (server, tool, argumentsJson, options) =>
      (await plane.callTool(server, tool, Buffer.from(argumentsJson), options as CallLimits)).toString(),
    close: () => app.close('shutdown'),
  };
}
