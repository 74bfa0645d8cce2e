import { setTimeout as pause } from 'node:timers/promises';
import type { App } from '../../app/app.ts';
import { openApp } from '../../app/open-app.ts';
import { type CallLimits, controlPlane, type ShownClient, type ToolView } from '../../app/plane.ts';
import { hasStoredServers, type RunningGateway } from '../../app/running.ts';
import type { ConfigurationView } from '../../model/configuration.ts';
import type { DesiredState } from '../../model/desired-state.ts';
import type { DriftReport } from '../../model/drift.ts';
import { TOOL_NAME_DELIMITER } from '../../model/names.ts';
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
  /** Waits until the servers that were started for the command have come up or failed, until `endMs` (`performance.now`) at most. */
  tools(endMs?: number): Promise<readonly ToolView[]>;
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

/** Whether `wanted`, a server or a tool as users write its name, may mean this server. */
export function mayMean(wanted: string, server: string): boolean {
  return wanted === server || wanted.startsWith(`${server}.`) || wanted.startsWith(server + TOOL_NAME_DELIMITER);
}

/**
 * The control API of the running gateway (of the one for the named file, if a file was named). Without one, a gateway in this
 * process for the duration of the command. That one starts the servers that `wanted` may mean, or all if it means none; null:
 * it starts nothing.
 */
export async function accessGateway(input: CommandInput, wanted: string | null = ''): Promise<GatewayAccess> {
  const { flags, terminal } = input;
  const running = await findRunning(input);
  const starts = wanted !== null;
  // Standard output carries the result; the label of the gateway goes to standard error.
  const printLabel = <T extends GatewayAccess>(access: T): T => {
    if (starts && flags.json !== true) terminal.err(`(${access.label})\n`);
    return access;
  };
  if (running !== null) return printLabel(remoteAccess(running));
  const logger = commandLogger(input);
  const load = loadOptions(input, !starts || hasStoredServers(flags.dataDir, terminal));
  const opened = await openApp({ load, logger, state: 'look', follow: false, overlay: (state) => only(state, wanted) });
  if (!opened.ok) throw cannotOpen(opened.problem, terminal.cwd);
  if (starts) opened.app.startServers();
  return printLabel(localAccess(opened.app, wanted, notRunning(input)));
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

/** Only the servers that `wanted` may mean start at once; if it means none, those that do so anyway. */
function only(state: DesiredState, wanted: string | null): DesiredState {
  const { servers } = state;
  if (wanted === null || !servers.keys().some((name) => mayMean(wanted, name))) return state;
  const chosen = [...servers].map(
    ([name, server]) => [name, { ...server, start: mayMean(wanted, name) ? 'eager' : 'lazy' }] as const,
  );
  return { ...state, servers: new Map(chosen) };
}

function localAccess(app: App, wanted: string | null, notRunningText: string): GatewayAccess {
  const plane = controlPlane(app.components, app);
  const { upstreams } = app.components;
  const meant = [...app.state.servers.keys()].filter((name) => wanted !== null && mayMean(wanted, name));
  /** Waits until every server that is not lazy has come up or failed. */
  const settled = async (waitMs = SETTLE_MS): Promise<void> => {
    const end = performance.now() + waitMs;
    const isWaiting = (status: ServerStatus) =>
      app.state.servers.get(status.name)?.start !== 'lazy' && !isSettled(status);
    while (upstreams.statuses().some(isWaiting) && performance.now() < end) await pause(POLL_MS);
  };
  return {
    running: null,
    label: wanted !== null ? `${notRunningText}; servers were started for this command` : notRunningText,
    statuses: async () => upstreams.statuses().map((one) => ({ ...one, desired: plane.desired(one.name) })),
    warnings: async () => app.components.loaded.warnings.length,
    facts: async () => app.facts(),
    async tools(endMs = Number.POSITIVE_INFINITY) {
      const leftMs = (): number => Math.max(0, Math.min(SETTLE_MS, endMs - performance.now()));
      await settled(leftMs());
      const lists = (meant.length === 0 ? [null] : meant).map((name) => plane.tools.list(name, leftMs()));
      return (await Promise.all(lists)).flatMap(({ tools }) => tools);
    },
    async toolsForClients(gatewayName) {
      await settled();
      return plane.tools.listForClients(gatewayName, null);
    },
    drift: (server) => plane.drift.report(server),
    call: async (server, tool, argumentsJson, options) =>
      (await plane.callTool(server, tool, Buffer.from(argumentsJson), options as CallLimits)).toString(),
    close: () => app.close('shutdown'),
  };
}
