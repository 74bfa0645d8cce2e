import { setTimeout as pause } from 'node:timers/promises';
import type { LoadOptions } from '../../config/load-config.ts';
import type { ConfigProblem } from '../../config/problem/problem.ts';
import type { DesiredState } from '../../model/desired-state.ts';
import { isSettled, type ServerStatus, UP } from '../../model/server-state.ts';
import type { LogEntry } from '../../telemetry/log-format.ts';
import { Logger } from '../../telemetry/logger.ts';
import type { App } from '../app.ts';
import type { OpenProblem } from '../app-options.ts';
import { openApp } from '../open-app.ts';
import { type AskNode, clusterSteps } from './cluster-steps.ts';
import type { DoctorStep } from './doctor-step.ts';
import { finalOutput, serverSteps } from './server-steps.ts';

const POLL_MS = 25;
/** Time for the lists of a server, after its start. */
const LISTS_MS = 10_000;

export interface ExaminedServer {
  readonly name: string;
  readonly steps: readonly DoctorStep[];
  /** The last lines of its standard error; empty if it is up. */
  readonly stderr: readonly string[];
}

export type OpenDoctor =
  | { readonly ok: true; readonly doctor: Doctor }
  | { readonly ok: false; readonly problem: OpenProblem };

/**
 * Starts servers in a gateway of its own, without listeners and stored state, and reports how far each start gets. `close`
 * stops what it has started.
 */
export class Doctor {
  readonly #app: App;
  readonly #logEntries: Map<string, LogEntry[]>;
  /** Names of all servers, examined or not. */
  readonly known: readonly string[];

  private constructor(app: App, logEntries: Map<string, LogEntry[]>, known: readonly string[]) {
    this.#app = app;
    this.#logEntries = logEntries;
    this.known = known;
  }

  /** `wanted`: names of servers to start, also disabled ones; empty for all. */
  static async open(load: LoadOptions, wanted: readonly string[]): Promise<OpenDoctor> {
    const logger = Logger.silent();
    const logEntries = new Map<string, LogEntry[]>();
    logger.subscribe((entry) => {
      const server = String(entry.fields['server']);
      logEntries.set(server, [...(logEntries.get(server) ?? []), entry]);
    });
    let known: readonly string[] = [];
    const overlay = (state: DesiredState): DesiredState => {
      known = [...state.servers.keys()];
      return chosen(state, wanted);
    };
    const opened = await openApp({ load, logger, state: 'look', follow: false, overlay });
    return opened.ok ? { ok: true, doctor: new Doctor(opened.app, logEntries, known) } : opened;
  }

  get state(): DesiredState {
    return this.#app.state;
  }

  get misconfigured(): readonly ConfigProblem[] {
    return this.#app.components.loaded.misconfigured;
  }

  get warnings(): readonly ConfigProblem[] {
    return this.#app.components.loaded.warnings;
  }

  /** `own`: asks the gateway that runs here. Empty if the configuration has no cluster. */
  async examineCluster(own: AskNode | null): Promise<readonly DoctorStep[]> {
    const { cluster } = this.#app.state;
    return cluster === null ? [] : clusterSteps(cluster, this.#app.components.runTimeStore, own);
  }

  start(): void {
    this.#app.startServers();
  }

  /** Resolves when the server has come up or failed. */
  async examine(name: string): Promise<ExaminedServer> {
    const server = this.#app.state.servers.get(name)!;
    const status = server.enabled ? await this.#settled(name) : this.#status(name);
    const tried = { app: this.#app, server, status, logEntries: this.#logEntries.get(name) ?? [] };
    return { name, steps: await serverSteps(tried), stderr: UP.has(status.state) ? [] : finalOutput(status) };
  }

  close(): Promise<void> {
    return this.#app.close('shutdown');
  }

  #status(name: string): ServerStatus {
    return this.#app.components.upstreams.statuses().find((status) => status.name === name)!;
  }

  async #settled(name: string): Promise<ServerStatus> {
    const first = this.#status(name);
    const end = performance.now() + first.startupTimeoutMs + LISTS_MS;
    for (let status = first; ; status = this.#status(name)) {
      if (isSettled(status) || performance.now() > end) return status;
      await pause(POLL_MS);
    }
  }
}

/** Returns the state with only the wanted servers, which start at once. */
function chosen(state: DesiredState, wanted: readonly string[]): DesiredState {
  const all = [...state.servers].filter(([name]) => wanted.length === 0 || wanted.includes(name));
  const servers = all.map(([name, server]) => {
    const enabled = server.enabled || wanted.includes(name);
    return [name, { ...server, start: 'eager', enabled }] as const;
  });
  return { ...state, servers: new Map(servers) };
}
