import type { Need } from '../config/definition-needs.ts';
import type { DefinitionResult } from '../config/load-definition.ts';
import { type ConfigProblem, renderProblem } from '../config/problem.ts';
import type { Clock } from '../model/clock.ts';
import type { DesiredState } from '../model/desired-state.ts';
import type { Server } from '../model/server.ts';
import { type Applied, TRUTH_LIMITS, TruthError } from '../store/truth/truth.ts';
import type { Logger } from '../telemetry/logger.ts';
import { type Caller, refuseBeyondRights } from './may-add.ts';
import { fold, mergeDesired, type Shadowed } from './merge-desired.ts';
import { RunTimeProblem, storeProblem } from './run-time-problem.ts';
import { StoredDefinitions, type StoredEntry } from './stored-definitions.ts';
import type { StoredServers } from './stored-servers.ts';
import { asTemporary, type Lifetime, type TemporaryServer, TemporaryServers } from './temporary-servers.ts';

export interface RunTimeServersDeps {
  readonly stored: StoredServers;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Folder of definitions that name none. */
  readonly folder: string;
  /** Why nothing durable can be changed here; null or absent where it can. */
  readonly refusal?: string | null;
  /** Others write to the store too: what they wrote is read before every change. */
  readonly shared?: boolean;
  /** The desired state in force. */
  readonly current: () => DesiredState;
}

export interface Definition {
  readonly text: string;
  /** null where the text says it. */
  readonly name: string | null;
  /** null: the gateway's own. */
  readonly folder: string | null;
}

export interface Written {
  readonly server: Server;
  readonly warnings: readonly ConfigProblem[];
}

/** Where a desired server comes from, and what was decided about it at run time. */
export interface Provenance {
  readonly source: 'file' | 'store' | 'temporary' | 'program';
  readonly suspended: boolean;
  /** Of a stored server: what `change` and `remove` may demand. */
  readonly revision: number | null;
  readonly expiresAt: number | null;
  readonly sessionId: string | null;
}

const MAX_STORED = 2_000;
const MAX_TEMPORARY = 100;
const MAX_SUSPENDED = 2_000;
const MAX_TEXT_BYTES = 64 * 1024;

/**
 * The servers that are desired beside the files, and the ways to change them. Every change is durable before it is in
 * force, and done one after the other; one that cannot be done leaves everything as it was.
 */
export class RunTimeServers {
  readonly #deps: RunTimeServersDeps;
  readonly #definitions: StoredDefinitions;
  readonly #temporary: TemporaryServers;
  #suspended: ReadonlySet<string> = new Set();
  #revision = 0;
  #shadowed: readonly Shadowed[] = [];
  #files: DesiredState | null = null;
  #adding = 0;
  /** Sessions that ended while servers are being added. */
  readonly #ended = new Set<string>();
  #last: Promise<unknown> = Promise.resolve();
  #onChange: () => void = () => {};

  constructor(deps: RunTimeServersDeps) {
    this.#deps = deps;
    this.#definitions = new StoredDefinitions(deps.env, (result) => this.#tell(result));
    this.#temporary = new TemporaryServers(deps.clock, (name) => {
      deps.logger.info('temporary_server_ended', { server: name });
      this.#onChange();
    });
  }

  /** What stands in the store and does not run, with the reason; empty while all of it does. */
  get problems(): readonly string[] {
    const unread = [...this.#definitions.entries.values()].flatMap(({ stored, problems }) =>
      problems.map((problem) => `the stored server ${stored.name} cannot be read: ${renderProblem(problem)}`),
    );
    const hidden = this.#shadowed.map(({ name, by }) => `the stored server ${name} does not run: ${whose(name, by)}`);
    return [...unread, ...hidden];
  }

  /** Puts it over what the files say. */
  readonly over = (files: DesiredState): DesiredState => {
    this.#files = files;
    const { state, shadowed } = mergeDesired(files, this.#added(), (name) => this.#isSuspended(name));
    for (const { name, by } of shadowed) {
      if (this.#shadowed.some((known) => known.name === name && known.by === by)) continue;
      this.#deps.logger.warn('server_shadowed', { server: name, reason: whose(name, by) });
    }
    this.#shadowed = shadowed;
    return state;
  };

  /** Calls `listener` when what is desired beside the files has changed: `over` gives another result then. */
  onChange(listener: () => void): void {
    this.#onChange = listener;
  }

  provenance(name: string): Provenance | null {
    const temporary = this.#temporary.get(name);
    const suspended = this.#isSuspended(name);
    const none = { revision: null, expiresAt: null, sessionId: null };
    if (this.#isOfFile(name)) return { source: 'file', suspended, ...none };
    if (temporary !== undefined) {
      const { expiresAt, sessionId } = temporary;
      return { source: 'temporary', suspended, revision: null, expiresAt, sessionId };
    }
    const entry = this.#definitions.entries.get(name);
    if (entry !== undefined) return { source: 'store', suspended, ...none, revision: entry.stored.revision };
    return this.#deps.current().servers.has(name) ? { source: 'program', suspended, ...none } : null;
  }

  /** Reads the store anew. True when something else is desired. Rejects with TruthError, and changes nothing then. */
  refresh(): Promise<boolean> {
    return this.#exclusively(() => this.#follow());
  }

  /** Rejects with RunTimeProblem; so do all that follow. */
  add(definition: Definition, caller: Caller, lifetime: Lifetime | null = null): Promise<Written> {
    this.#adding++;
    const added = this.#changing(async () => {
      const { text, folder, result } = await this.#readGood(definition, caller);
      const { server, warnings } = result;
      this.#refuseTaken(server.name);
      if (lifetime !== null) {
        this.#refuseMore(this.#temporary.size, MAX_TEMPORARY, 'temporary servers');
        const { sessionId } = lifetime;
        // It may have ended while the definition was read, and nobody would end its server then.
        if (sessionId !== null && this.#ended.has(sessionId)) {
          throw new RunTimeProblem('no_such_session', 'the session has ended meanwhile');
        }
        this.#temporary.set(server.name, asTemporary(server, text, lifetime), lifetime);
      } else {
        this.#refuseMore(this.#definitions.entries.size, MAX_STORED, 'servers added at run time');
        const at = this.#deps.clock.wall();
        const stored = { name: server.name, text, folder, addedAt: at, changedAt: at };
        const revision = this.#done(await this.#store((store) => store.add(stored)), 'name_taken', server.name);
        this.#definitions.put({ ...stored, revision }, result);
      }
      this.#onChange();
      return { server, warnings };
    });
    return added.finally(() => {
      if (--this.#adding === 0) this.#ended.clear();
    });
  }

  /** `revision`: refused where it is another by now. */
  change(name: string, definition: Definition, caller: Caller, revision: number | null = null): Promise<Written> {
    return this.#changing(async () => {
      const temporary = this.#temporary.get(name);
      const entry = temporary === undefined ? this.#entry(name, revision) : null;
      const { text, folder, result } = await this.#readGood({ ...definition, name }, caller);
      const { server, warnings } = result;
      if (entry !== null) {
        const { addedAt, revision: found } = entry.stored;
        const stored = { name, text, folder, addedAt, changedAt: this.#deps.clock.wall() };
        const applied = await this.#store((store) => store.change(stored, found));
        this.#definitions.put({ ...stored, revision: this.#done(applied, 'revision_changed', name) }, result);
      } else if (this.#temporary.get(name) !== undefined) {
        this.#temporary.set(name, asTemporary(server, text, temporary!), temporary!, temporary!.suspended);
      } else throw noServer(name);
      this.#onChange();
      return { server, warnings };
    });
  }

  remove(name: string, revision: number | null = null): Promise<void> {
    return this.#changing(async () => {
      if (!this.#temporary.delete(name)) {
        const { stored } = this.#entry(name, revision);
        // The suspension is of the name: a file's server that hid this one goes on being suspended.
        const keeps = this.#isOfFile(name);
        const removed = await this.#store((store) => store.remove(name, stored.revision, keeps));
        this.#done(removed, 'revision_changed', name);
        this.#definitions.delete(name);
        if (!keeps) this.#suspended = new Set([...this.#suspended].filter((other) => other !== name));
      }
      this.#onChange();
    });
  }

  /** Until `resume`, over restarts; servers of files too. */
  suspend(name: string): Promise<void> {
    return this.#changing(async () => {
      const temporary = this.#temporaryInForce(name);
      if (!this.#known(name)) throw noServer(name);
      if (temporary !== undefined) this.#temporary.set(name, temporary.server, temporary, true);
      else if (!this.#suspended.has(name)) {
        this.#refuseMore(this.#suspended.size, MAX_SUSPENDED, 'suspended servers');
        this.#done(
          await this.#store((store) => store.suspend(name, this.#deps.clock.wall())),
          'revision_changed',
          name,
        );
        this.#suspended = new Set(this.#suspended).add(name);
      }
      this.#onChange();
    });
  }

  /** Also of a server that is no longer there: it begins anew when it comes back. */
  resume(name: string): Promise<void> {
    return this.#changing(async () => {
      const temporary = this.#temporaryInForce(name);
      if (!this.#known(name) && !this.#suspended.has(name)) throw noServer(name);
      if (temporary !== undefined) this.#temporary.set(name, temporary.server, temporary, false);
      else if (this.#suspended.has(name)) {
        this.#done(await this.#store((store) => store.resume(name)), 'revision_changed', name);
        this.#suspended = new Set([...this.#suspended].filter((other) => other !== name));
      }
      this.#onChange();
      const server = this.#deps.current().servers.get(name);
      if (server === undefined || server.enabled) return;
      const { file, line } = server.origin;
      const where = line > 0 ? `${file}:${line}` : file;
      throw new RunTimeProblem(
        'disabled_by_definition',
        `${name} is disabled by its definition (${where}); enable it there`,
      );
    });
  }

  /** The client's session has ended: so have the servers that were added for it. */
  sessionEnded(sessionId: string): void {
    if (this.#adding > 0) this.#ended.add(sessionId);
    this.#temporary.sessionEnded(sessionId);
  }

  close(): void {
    this.#temporary.close();
  }

  *#added(): Iterable<Server> {
    for (const { server } of this.#definitions.entries.values()) if (server !== null) yield server;
    for (const { server } of this.#temporary.values()) yield server;
  }

  #isSuspended(name: string): boolean {
    return this.#temporaryInForce(name)?.suspended ?? this.#suspended.has(name);
  }

  #isOfFile(name: string): boolean {
    return this.#files?.servers.has(name) === true;
  }

  /** Not one that a file's server of the same name hides: what is decided then is about that. */
  #temporaryInForce(name: string): TemporaryServer | undefined {
    return this.#isOfFile(name) ? undefined : this.#temporary.get(name);
  }

  #known(name: string): boolean {
    return this.#deps.current().servers.has(name) || this.#definitions.entries.has(name);
  }

  /** The stored server of that name, as the caller knows it. */
  #entry(name: string, revision: number | null): StoredEntry {
    const entry = this.#definitions.entries.get(name);
    if (entry === undefined) {
      const server = this.#deps.current().servers.get(name);
      if (server === undefined) throw noServer(name);
      const { file, line } = server.origin;
      const where = line > 0 ? `${file}:${line}` : file;
      throw new RunTimeProblem(
        'not_added_here',
        `${name} was not added at run time: it stands in ${where}; change it there`,
      );
    }
    if (revision !== null && revision !== entry.stored.revision) throw changed(name, entry.stored.revision);
    return entry;
  }

  async #readGood({ text, name, folder: given }: Definition, caller: Caller) {
    if (Buffer.byteLength(text) > Math.min(MAX_TEXT_BYTES, TRUTH_LIMITS.valueBytes)) {
      throw new RunTimeProblem('definition_too_large', `a definition has at most ${MAX_TEXT_BYTES / 1024} KiB`);
    }
    const folder = given ?? this.#deps.folder;
    const allowed = (needs: readonly Need[]) => refuseBeyondRights(needs, caller, this.#deps.current().allowedCommands);
    // Before that, what is wrong with the definition would tell what stands in files and variables.
    const result = await this.#definitions.read({ text, folder }, name, allowed);
    if (!result.ok) {
      const message = result.problems.map(({ message: told }) => told).join('; ');
      throw new RunTimeProblem('definition_invalid', message, { problems: result.problems });
    }
    allowed(result.needs);
    for (const warning of result.warnings) {
      this.#deps.logger.warn('config_warning', { code: warning.code, problem: renderProblem(warning) });
    }
    return { text, folder, result };
  }

  #refuseTaken(name: string): void {
    const names = [this.#deps.current().servers.keys(), this.#definitions.entries.keys(), this.#temporary.names()];
    for (const taken of names.flatMap((some) => [...some])) {
      if (fold(taken) !== fold(name)) continue;
      const how = taken === name ? 'exists already' : `would be confused with ${taken}`;
      throw new RunTimeProblem('name_taken', `the server ${name} ${how}`);
    }
  }

  #refuseMore(count: number, most: number, what: string): void {
    if (count >= most) throw new RunTimeProblem('too_many', `there are ${most} ${what}, which is the most`);
  }

  async #store(change: (store: StoredServers) => Promise<Applied>): Promise<Applied> {
    const { stored, refusal = null } = this.#deps;
    if (refusal !== null) throw new RunTimeProblem('no_shared_store', refusal);
    try {
      return await change(stored);
    } catch (error) {
      throw storeProblem(error);
    }
  }

  #done(applied: Applied, code: 'name_taken' | 'revision_changed', name: string): number {
    if (applied.ok) {
      this.#revision = Math.max(this.#revision, applied.revision);
      return applied.revision;
    }
    if (code === 'name_taken') throw new RunTimeProblem('name_taken', `the server ${name} exists already`);
    throw changed(name, applied.found);
  }

  #tell(result: DefinitionResult): void {
    for (const secret of result.secrets) this.#deps.logger.addSecret(secret);
  }

  #fingerprint(): string {
    const entries = [...this.#definitions.entries].map(([name, { server, problems }]) => [
      name,
      server?.connectionDigest,
      problems.length,
    ]);
    return JSON.stringify([this.#revision, entries, [...this.#suspended]]);
  }

  async #follow(): Promise<boolean> {
    const desire = await this.#deps.stored.read();
    // Revisions only grow: a lower one is another store, and an empty one is not "no servers".
    if (desire.revision < this.#revision) {
      throw new TruthError('damaged', `the store is at revision ${desire.revision}, and was at ${this.#revision}`);
    }
    const before = this.#fingerprint();
    await this.#definitions.follow(desire);
    this.#suspended = desire.suspended;
    this.#revision = desire.revision;
    return this.#fingerprint() !== before;
  }

  /** A change, to what the store has by now. */
  #changing<T>(task: () => Promise<T>): Promise<T> {
    return this.#exclusively(async () => {
      if (this.#deps.shared === true) {
        const changed = await this.#follow().catch((error: unknown) => {
          throw storeProblem(error);
        });
        if (changed) this.#onChange();
      }
      return task();
    });
  }

  #exclusively<T>(task: () => Promise<T>): Promise<T> {
    const result = this.#last.then(task);
    this.#last = result.catch(() => {});
    return result;
  }
}

function noServer(name: string): RunTimeProblem {
  return new RunTimeProblem('no_such_server', `there is no server ${JSON.stringify(name)}`);
}

function changed(name: string, found: number | null): RunTimeProblem {
  const now = found === null ? 'it is gone' : `it is at revision ${found} now`;
  return new RunTimeProblem('revision_changed', `somebody else has changed ${name} meanwhile: ${now}`);
}

function whose(name: string, by: string): string {
  return by === name
    ? 'a file has a server of this name, which wins'
    : `clients would confuse it with ${by}, which wins`;
}
