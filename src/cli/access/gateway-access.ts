import { setTimeout as pause } from 'node:timers/promises';
import type { App } from '../../app/app.ts';
import { openApp } from '../../app/open-app.ts';
import { type CallLimits, controlPlane, type ShownClient, type ToolView } from '../../app/plane.ts';
import { hasStoredServers, type RunningGateway } from '../../app/running.ts';
import type { ConfigurationView } from '../../model/configuration.ts';
import type { DriftReport } from '../../model/drift.ts';
import { isSettled, type ServerStatus } from '../../model/server-state.ts';
import type { CommandInput } from '../command-input.ts';
import { commandLogger } from '../command-logger.ts';
import { cannotOpen } from '../exit-code.ts';
import type { ShownServer } from '../server-line.ts';
import { loadOptions } from '../sources.ts';
import { ControlClient, serverPath } from './control-client.ts';
import { findRunning, gatewayName, notRunning } from './find-running.ts';

type GatewayFacts = ReturnType<App['facts']>;

export interface ShellCallOptions extends Omit<CallLimits, 'onProgress'> {
  readonly onProgress?: (progress: CallProgress) => void;
}

/** Progress of a call, as its server reports it. */
export interface CallProgress {
  readonly progress?: number;
  readonly total?: number;
  readonly message?: string;
}

/** What commands ask of a gateway: a running one, or one that was started for the command. */
export interface GatewayAccess {
  /** One line for people that names the gateway. */
  readonly label: string;
  /** null for a gateway that was started for the command. */
  readonly running: RunningGateway | null;
  statuses(): Promise<readonly ShownServer[]>;
  /** Number of warnings from the configuration. */
  warnings(): Promise<number>;
  facts(): Promise<Pick<GatewayFacts, 'conditions' | 'configProblem' | 'desiredProblems' | 'processes'>>;
  tools(): Promise<readonly ToolView[]>;
  /** The tools as each MCP client shows them if its file calls the gateway `gatewayName`. */
  toolsForClients(gatewayName: string): Promise<readonly ShownClient[]>;
  /** The definitions of the server that wait for a decision. */
  drift(server: string): Promise<Pick<DriftReport, 'waiting'>>;
  /** Resolves with JSON text: `outcome`, and `result` or `error` as the server sent them. */
  call(server: string, tool: string, argumentsJson: string, options: ShellCallOptions): Promise<string>;
  close(): Promise<void>;
}

const SETTLE_MS = 60_000;
const POLL_MS = 25;

/**
 * The control API of the running gateway (of the one for the named file, if a file was named). Without one, a gateway in this
 * process for the duration of the command; `starts` says whether it starts its servers.
 */
export async function accessGateway(input: CommandInput, starts = true): Promise<GatewayAccess> {
  const { flags, terminal } = input;
  const running = await findRunning(input);
  // Standard output carries the result; the label of the gateway goes to standard error.
  const printLabel = <T extends GatewayAccess>(access: T): T => {
    if (starts && flags.json !== true) terminal.err(`(${access.label})\n`);
    return access;
  };
  if (running !== null) return printLabel(remoteAccess(running));
  const logger = commandLogger(input);
  const load = loadOptions(input, !starts || hasStoredServers(flags.dataDir, terminal));
  const opened = await openApp({ load, logger, state: 'look', follow: false });
  if (!opened.ok) throw cannotOpen(opened.problem, terminal.cwd);
  if (starts) opened.app.startServers();
  return printLabel(localAccess(opened.app, starts, notRunning(input)));
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
    async toolsForClients(gatewayName) {
      const query = new URLSearchParams({ gateway: gatewayName });
      return (await get<{ clients: ShownClient[] }>(`/api/v1/tools/clients?${query}`)).clients;
    },
    drift: (server) => get(`${serverPath(server)}/drift`),
    call(server, tool, argumentsJson, { signal, timeoutMs, onProgress }) {
      const query = new URLSearchParams({ tool, ...(timeoutMs === undefined ? {} : { timeoutMs: String(timeoutMs) }) });
      const path = `${serverPath(server)}/call/stream?${query}`;
      return client.steps(path, argumentsJson, signal, (data) => {
        if (data.startsWith('{"progress":')) onProgress?.((JSON.parse(data) as { progress: CallProgress }).progress);
      });
    },
    close: async () => {},
  };
}

function localAccess(app: App, starts: boolean, notRunningText: string): GatewayAccess {
  const plane = controlPlane(app.components, app);
  /** Waits until every server that is not lazy has come up or failed. */
  const statuses = async (): Promise<readonly ShownServer[]> => {
    const end = performance.now() + SETTLE_MS;
    const isWaiting = (status: ServerStatus) =>
      app.state.servers.get(status.name)?.start !== 'lazy' && !isSettled(status);
    for (;;) {
      const all = app.components.upstreams.statuses().map((one) => ({ ...one, desired: plane.desired(one.name) }));
      if (!starts || !all.some(isWaiting) || performance.now() > end) return all;
      await pause(POLL_MS);
    }
  };
  return {
    running: null,
    label: starts ? `${notRunningText}; servers were started for this command` : notRunningText,
    statuses,
    warnings: async () => app.components.loaded.warnings.length,
    facts: async () => app.facts(),
    async tools() {
      await statuses();
      return (await plane.tools.list(null)).tools;
    },
    async toolsForClients(gatewayName) {
      await statuses();
      return plane.tools.listForClients(gatewayName, null);
    },
    drift: (server) => plane.drift.report(server),
    call: async (server, tool, argumentsJson, options) =>
      (await plane.callTool(server, tool, Buffer.from(argumentsJson), options as CallLimits)).toString(),
    close: () => app.close('shutdown'),
  };
}
