import { resolve } from 'node:path';
import { ConfigWatch, FilesAnswer, type WatchOptions } from '../config/files/watch-config.ts';
import { type ConfigResult, type LoadOptions, loadConfig } from '../config/load-config.ts';
import { type ConfigProblem, problemAt, Source } from '../config/problem/problem.ts';
import type { DesiredState } from '../model/desired-state.ts';
import type { Registry, RegistryChange } from './registry.ts';
import type { Reload } from './reload-report.ts';

export interface FollowerDeps {
  /** Holds the state of `initial`, and is kept equal to the files from now on. */
  readonly registry: Registry;
  /** Those of the first reading; `inputs` through `rememberInputs`, which asks once. */
  readonly options: LoadOptions;
  /** The good result that the process started with. */
  readonly initial: Extract<ConfigResult, { ok: true }>;
  /** Hears of each reading before the registry's listeners, and again if one of them failed. */
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
 * Keeps a registry equal to its files. A wrong configuration changes nothing (F37), a wrong definition nothing of its
 * server; `problems` says why. Readings do not overlap. None rejects: after a file change or signal it has no caller.
 */
export class ConfigFollower {
  readonly #deps: FollowerDeps;
  readonly #watch: ConfigWatch;
  readonly #answers = new FilesAnswer();
  /** What the last reading depended on. */
  #watched: readonly string[];
  #problems: readonly ConfigProblem[] = [];
  #warnings: readonly ConfigProblem[];
  #refused: ReadonlyMap<string, string> = new Map();
  #running: Promise<Reload> | null = null;
  #again: Promise<Reload> | null = null;
  #closed = false;

  constructor(deps: FollowerDeps) {
    const { initial, watching } = deps;
    this.#deps = deps;
    this.#problems = initial.misconfigured;
    this.#warnings = initial.warnings;
    this.#watched = initial.watched;
    this.#watch = new ConfigWatch(initial.watched, () => void this.reload(), watching);
  }

  /** What is wrong with the files as they are now; empty while all they say is in force. */
  get problems(): readonly ConfigProblem[] {
    return this.#problems;
  }

  /** What is wrong with the definition that the file has now of a server that runs an earlier one; null where it runs that. */
  refused(server: string): string | null {
    return this.#refused.get(server) ?? null;
  }

  /** Of the last reading. */
  get warnings(): readonly ConfigProblem[] {
    return this.#warnings;
  }

  /** What a reading now would change; null where the files as a whole are wrong. Changes nothing. */
  async plan(): Promise<FilesPlan> {
    const { options, registry } = this.#deps;
    const result = await loadConfig(options);
    const { warnings, secrets } = result;
    if (!result.ok) return { problems: result.problems, warnings, secrets, change: null };
    const { misconfigured } = result;
    const change = registry.plan(withGoodBefore(result.state, registry.files).files);
    return { problems: misconfigured, warnings, secrets, change };
  }

  /** Reads the files now. Asked for during a reading, it resolves with the result of a later one. */
  reload(): Promise<Reload> {
    if (this.#running === null) {
      this.#running = this.#read().finally(() => {
        this.#running = null;
      });
      return this.#running;
    }
    this.#again ??= this.#running.then(() => {
      this.#again = null;
      return this.reload();
    });
    return this.#again;
  }

  /** As `reload`, but waits until the files answer, for ever if need be: reading them would block the process. */
  async reread(): Promise<Reload> {
    await this.#answers.answered(this.#watched);
    return this.reload();
  }

  /** From now on the files are read when they are asked for only. */
  unwatch(): void {
    this.#watch.close();
  }

  close(): void {
    this.#closed = true;
    this.#watch.close();
  }

  async #read(): Promise<Reload> {
    try {
      return await this.#readFiles();
    } catch (error) {
      if (this.#closed) return NOTHING;
      // Nothing was replaced, and the files stay watched: the next change leads to another reading.
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
    const { files, refused } = withGoodBefore(result.state, registry.files);
    const kind = registry.differs(files) ? 'applied' : 'unchanged';
    const reload: Reload = { kind, misconfigured, warnings, secrets };
    this.#problems = misconfigured;
    this.#refused = refused;
    // First this: the scrubber must know secrets before they can be logged.
    this.#deps.report(reload);
    try {
      registry.replace(files);
      return reload;
    } catch (error) {
      // It is in force, and all listeners have heard of it: to call it refused would be a lie.
      const problem = this.#defect('the configuration is in force, but not everything could follow it', error);
      return this.#reported({ kind, misconfigured, warnings: [...warnings, problem], secrets });
    }
  }

  /** Reports a defect. A failure of the listener must not end the process either; the result has the defect. */
  #reported(reload: Reload): Reload {
    try {
      this.#deps.report(reload);
    } catch {}
    return reload;
  }

  /** Without the words of the error, which may hold what was being read; its place in our source is none of that. */
  #defect(what: string, error: unknown): ConfigProblem {
    const { files = [], inline = [] } = this.#deps.options;
    const [file = inline[0]?.label ?? '<command line>'] = files.map((path) => resolve(this.#deps.options.cwd, path));
    const message = `${what}: Trunkline failed with ${placeOf(error)}`;
    return problemAt('TL1002', new Source(file, ''), null, message, 'report this, it is a defect of Trunkline');
  }
}

const NOTHING: Reload = { kind: 'unchanged', misconfigured: [], warnings: [], secrets: [] };

/**
 * A server that was good goes on as it was where its definition is wrong now; not where it lacks a secret, which was taken away
 * so that nothing uses it. `refused`: what is wrong, by server that goes on.
 */
function withGoodBefore(state: DesiredState, before: DesiredState) {
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

/** The kind of an error, and the first line of its stack that is no part of its message. */
function placeOf(error: unknown): string {
  const of = error instanceof AggregateError ? error.errors[0] : error;
  if (!(of instanceof Error)) return 'something that is no error';
  const [, ...frames] = (of.stack ?? '').split(of.message);
  const at = /^ {4}(at .+)$/m.exec(frames.join(of.message))?.[1];
  return at === undefined ? of.constructor.name : `${of.constructor.name} ${at}`;
}
