import { resolve } from 'node:path';
import { ConfigWatch, FileSystemProbe, type WatchOptions } from '../config/files/watch-config.ts';
import { type ConfigResult, type LoadOptions, loadConfig } from '../config/load-config.ts';
import { type ConfigProblem, problemAt, Source } from '../config/problem/problem.ts';
import type { DesiredState } from '../model/desired-state.ts';
import type { Registry, RegistryChange } from './registry.ts';
import type { Reload } from './reload-report.ts';

export interface FollowerDeps {
  /** Holds the state of `initial`; from now on it is kept equal to the files. */
  readonly registry: Registry;
  /** The options of the first reading; `inputs` through `rememberInputs`, which asks once. */
  readonly options: LoadOptions;
  /** The valid result with which the process started. */
  readonly initial: Extract<ConfigResult, { ok: true }>;
  /** Called for each reading before the registry's listeners, and again if one of them failed. */
  readonly report: (reload: Reload) => void;
  readonly watching?: WatchOptions;
}

export interface FilesPlan {
  readonly problems: readonly ConfigProblem[];
  readonly warnings: readonly ConfigProblem[];
  readonly secrets: readonly string[];
  readonly change: Pick<RegistryChange, 'servers' | 'settings' | 'state'> | null;
}

/**
 * Keeps a registry equal to its files. An invalid configuration changes nothing (F37), and an invalid definition changes
 * nothing of its server; `problems` says why. Readings do not overlap. None rejects, because file changes have no caller.
 */
export class ConfigFollower {
  readonly #deps: FollowerDeps;
  readonly #watch: ConfigWatch;
  readonly #probe: FileSystemProbe;
  /** The files on which the last reading depended. */
  #watched: readonly string[];
  #problems: readonly ConfigProblem[] = [];
  #warnings: readonly ConfigProblem[];
  #refused: ReadonlyMap<string, string> = new Map();
  #running: Promise<Reload> | null = null;
  #next: Promise<Reload> | null = null;
  #closed = false;

  constructor(deps: FollowerDeps) {
    const { initial, watching } = deps;
    this.#deps = deps;
    this.#problems = initial.misconfigured;
    this.#warnings = initial.warnings;
    this.#watched = initial.watched;
    this.#probe = watching?.probe ?? new FileSystemProbe();
    this.#watch = new ConfigWatch(initial.watched, () => void this.reload(), { ...watching, probe: this.#probe });
  }

  /** Problems of the present files; empty while all of them is in force. */
  get problems(): readonly ConfigProblem[] {
    return this.#problems;
  }

  /** Why the present definition of a server was refused, so that an earlier one runs; null if the present one is in force. */
  refused(server: string): string | null {
    return this.#refused.get(server) ?? null;
  }

  /** Warnings of the last reading. */
  get warnings(): readonly ConfigProblem[] {
    return this.#warnings;
  }

  /** What a reading now would change; null if the files as a whole are invalid. Changes nothing. */
  async plan(): Promise<FilesPlan> {
    const { options, registry } = this.#deps;
    await this.#probe.waitUntilResponsive(this.#watched);
    const result = await loadConfig(options);
    const { warnings, secrets } = result;
    if (!result.ok) return { problems: result.problems, warnings, secrets, change: null };
    const { misconfigured } = result;
    const change = registry.plan(keepValidDefinitions(result.state, registry.files).files);
    return { problems: misconfigured, warnings, secrets, change };
  }

  /**
   * Reads the files, after waiting until all are accessible, possibly for ever: reading them would block the process. A call
   * during a reading resolves with the result of a later one.
   */
  reload(): Promise<Reload> {
    if (this.#running === null) {
      this.#running = this.#read().finally(() => {
        this.#running = null;
      });
      return this.#running;
    }
    this.#next ??= this.#running.then(() => {
      this.#next = null;
      return this.reload();
    });
    return this.#next;
  }

  /** From now on only `reload` reads the files. */
  unwatch(): void {
    this.#watch.close();
  }

  close(): void {
    this.#closed = true;
    this.#watch.close();
  }

  async #read(): Promise<Reload> {
    await this.#probe.waitUntilResponsive(this.#watched);
    try {
      return await this.#readFiles();
    } catch (error) {
      if (this.#closed) return NOTHING;
      // Nothing was replaced, and the files stay watched, so the next change causes another reading.
      this.#problems = [this.#defect('the configuration could not be read', error)];
      return this.#reported({ kind: 'refused', problems: this.#problems, secrets: [] });
    }
  }

  async #readFiles(): Promise<Reload> {
    const result = await loadConfig(this.#deps.options);
    if (this.#closed) return NOTHING;
    this.#watched = result.watched;
    this.#watch.follow(result.watched);
    const { secrets, warnings } = result;
    this.#warnings = warnings;
    if (!result.ok) {
      this.#problems = result.problems;
      const refused: Reload = { kind: 'refused', problems: result.problems, secrets };
      this.#deps.report(refused);
      return refused;
    }
    const { misconfigured } = result;
    const { registry } = this.#deps;
    const { files, refused } = keepValidDefinitions(result.state, registry.files);
    const kind = registry.differs(files) ? 'applied' : 'unchanged';
    const reload: Reload = { kind, misconfigured, warnings, secrets };
    this.#problems = misconfigured;
    this.#refused = refused;
    // Before `replace`: the scrubber must know the secrets before they can be logged.
    this.#deps.report(reload);
    try {
      registry.replace(files);
      return reload;
    } catch (error) {
      // The configuration is in force and all listeners were called, so the result is not `refused`.
      const problem = this.#defect('the configuration is in force, but not everything could follow it', error);
      return this.#reported({ kind, misconfigured, warnings: [...warnings, problem], secrets });
    }
  }

  /** Reports a defect. If the reporter throws, the result still has the defect. */
  #reported(reload: Reload): Reload {
    try {
      this.#deps.report(reload);
    } catch {}
    return reload;
  }

  /** Leaves out the message of the error, which may contain what was being read; keeps its place in the source code. */
  #defect(what: string, error: unknown): ConfigProblem {
    const { files = [], inline = [] } = this.#deps.options;
    const [file = inline[0]?.label ?? '<command line>'] = files.map((path) => resolve(this.#deps.options.cwd, path));
    const message = `${what}: Trunkline failed with ${placeOf(error)}`;
    return problemAt('TL1002', new Source(file, ''), null, message, 'report this, it is a defect of Trunkline');
  }
}

const NOTHING: Reload = { kind: 'unchanged', misconfigured: [], warnings: [], secrets: [] };

/**
 * Keeps the previous definition of a server whose present one is invalid, except if it lacks a secret: the operator removed the
 * secret so that nothing uses it. `refused`: the problems by server that keeps its previous definition.
 */
function keepValidDefinitions(state: DesiredState, before: DesiredState) {
  const servers = new Map(state.servers);
  const refused = new Map<string, string>();
  for (const [name, { misconfigured }] of servers) {
    if (misconfigured === undefined || misconfigured.includes('(TL1208, ')) continue;
    const good = before.servers.get(name);
    if (good === undefined || good.misconfigured !== undefined) continue;
    servers.set(name, good);
    refused.set(name, misconfigured);
  }
  return { files: { ...state, servers }, refused };
}

/** The class of an error, and the first line of its stack after the message. */
function placeOf(error: unknown): string {
  const of = error instanceof AggregateError ? error.errors[0] : error;
  if (!(of instanceof Error)) return 'something that is no error';
  const [, ...frames] = (of.stack ?? '').split(of.message);
  const at = /^ {4}(at .+)$/m.exec(frames.join(of.message))?.[1];
  return at === undefined ? of.constructor.name : `${of.constructor.name} ${at}`;
}
