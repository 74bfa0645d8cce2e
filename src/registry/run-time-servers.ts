import { type ConfigProblem, renderProblem } from '../config/problem/problem.ts';
import type { Need } from '../config/server/definition-needs.ts';
import { pause } from '../model/clock.ts';
import type { DesiredState } from '../model/desired-state.ts';
import { foldedName } from '../model/names.ts';
import { OneAtATime } from '../model/one-at-a-time.ts';
import type { Server } from '../model/server.ts';
import { type Applied, StoreError } from '../store/run-time-store/run-time-store.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { PeerServers, Provenance, Shadowed } from './merged-desire.ts';
import { mergeDesired, placeOf, shadowReason } from './merged-desire.ts';
import type { Registry } from './registry.ts';
import { logWarnings } from './reload-report.ts';
import {
  type Caller,
  definitionInvalid,
  nameTaken,
  noServer,
  RunTimeProblem,
  refuseBeyondRights,
  revisionChanged,
  storeProblem,
} from './run-time-problem.ts';
import {
  type DefinitionSources,
  StoredDefinitions,
  type StoredEntry,
  type StoredServers,
} from './stored-definitions.ts';
import { asTemporary, type Lifetime, type TemporaryEntry, TemporaryServers } from './temporary-servers.ts';

interface RunTimeServersDeps extends DefinitionSources {
  readonly stored: StoredServers;
  readonly logger: Logger;
  /** Folder for definitions that name none. */
  readonly folder: string;
  /** Why no durable change is possible here; null or absent if it is. */
  readonly refusal?: string | null;
  /** Other nodes write to the store too: this node reads their changes before each of its own. */
  readonly shared?: boolean;
  /** The desired state in force, which has these servers as a layer. */
  readonly desired: Pick<Registry, 'state' | 'addLayer' | 'refresh'>;
  /** The servers of other nodes, read with each change. Null or absent for a lone gateway. */
  readonly others?: PeerServers | null;
}

interface DefinitionInput {
  readonly text: string;
  /** null if the text contains it. */
  readonly name: string | null;
  /** null: the gateway's own folder. */
  readonly folder: string | null;
}

type WrittenServer = { readonly server: Server; readonly warnings: readonly ConfigProblem[] };

const MAX_STORED = 2_000;
const MAX_TEMPORARY = 100;
const MAX_SUSPENDED = 2_000;
/** Well below the maximum size of a stored record. */
const MAX_TEXT_BYTES = 64 * 1024;
/** Within this time other nodes follow a change in the shared store. */
const APPLY_TIMEOUT_MS = 3_500;
const LOOK_MS = 100;

/**
 * Desired servers outside the files, and their changes. Changes run one at a time, are durable before they take effect, and
 * have no effect if they fail.
 */
export class RunTimeServers {
  readonly #deps: RunTimeServersDeps;
  readonly #definitions: StoredDefinitions;
  readonly #temporary: TemporaryServers;
  /** Names that are suspended in the store, whether or not a server of that name exists. */
  #suspended = new Set<string>();
  #revision = 0;
  #shadowed: readonly Shadowed[] = [];
  #files: DesiredState | null = null;
  #adding = 0;
  /** Sessions that ended while servers were being added. */
  readonly #ended = new Set<string>();
  readonly #queue = new OneAtATime();

  constructor(deps: RunTimeServersDeps) {
    this.#deps = deps;
    this.#definitions = new StoredDefinitions(deps);
    this.#temporary = new TemporaryServers(deps);
    deps.desired.addLayer((files, inForce) => this.#overlay(files, inForce));
  }

  /** Reads the store again; true if the desired servers have changed. Rejects with StoreError, without a change. */
  refresh(): Promise<boolean> {
    return this.#queue.run(() => this.#reloadStore());
  }

  /** Rejects with RunTimeProblem, as all following methods do. */
  add(definition: DefinitionInput, caller: Caller, lifetime: Lifetime | null = null): Promise<WrittenServer> {
    this.#adding++;
    const added = this.#changing(async () => {
      const { text, folder, rights, result } = await this.#readValid(definition, caller);
      const { server, warnings } = result;
      this.#refuseTaken(server.name);
      await this.#refuseConflicting(server);
      if (lifetime !== null) {
        this.#refuseMore(this.#temporary.size, MAX_TEMPORARY, 'temporary servers');
        const { sessionId } = lifetime;
        // The session may have ended while the definition was read; then nothing would ever remove the server.
        if (sessionId !== null && this.#ended.has(sessionId)) {
          throw new RunTimeProblem('no_such_session', 'the session has ended meanwhile');
        }
        this.#temporary.put(asTemporary(server, text, lifetime), { text, folder, ...rights }, lifetime);
      } else {
        this.#refuseMore(this.#definitions.entries.size, MAX_STORED, 'servers added at run time');
        const at = this.#deps.clock.wall();
        const stored = { name: server.name, text, folder, ...rights, addedAt: at, changedAt: at };
        const revision = await this.#write(server.name, (store) => store.put(stored, null), 'name_taken');
        this.#definitions.put({ ...stored, revision }, result);
      }
      return { server, warnings };
    });
    return added.finally(() => {
      if (--this.#adding === 0) this.#ended.clear();
    });
  }

  /** `revision`: refused if the server has another revision. */
  change(
    name: string,
    definition: DefinitionInput,
    caller: Caller,
    revision: number | null = null,
  ): Promise<WrittenServer> {
    return this.#changing(async () => {
      const temporary = this.#temporaryAt(name, revision);
      const entry = temporary === undefined ? this.#entry(name, revision) : null;
      const { text, folder, rights, result } = await this.#readValid({ ...definition, name }, caller);
      const { server, warnings } = result;
      if (entry !== null) {
        const { addedAt, revision: found } = entry.stored;
        const stored = { name, text, folder, ...rights, addedAt, changedAt: this.#deps.clock.wall() };
        const now = await this.#write(name, (store) => store.put(stored, found));
        this.#definitions.put({ ...stored, revision: now }, result);
      } else if (this.#temporary.get(name) !== undefined) {
        this.#temporary.put(asTemporary(server, text, temporary!), { text, folder, ...rights }, temporary!);
      } else throw noServer(name, this.#deps.desired.state.servers.keys());
      return { server, warnings };
    });
  }

  remove(name: string, revision: number | null = null): Promise<void> {
    return this.#changing(async () => {
      if (this.#temporaryAt(name, revision) !== undefined) this.#temporary.delete(name);
      else {
        const { stored } = this.#entry(name, revision);
        // The suspension belongs to the name: a file's server that hid this one stays suspended.
        const keeps = this.#isOfFile(name);
        await this.#write(name, (store) => store.remove(name, stored.revision, keeps));
        this.#definitions.entries.delete(name);
        if (!keeps) this.#suspended.delete(name);
      }
    });
  }

  /** Stops the server until `resume`, across restarts; also a server of a file. */
  suspend(name: string): Promise<void> {
    return this.#changing(async () => {
      const temporary = this.#temporaryInForce(name);
      if (!this.#isKnown(name)) throw this.#unknown(name);
      if (temporary !== undefined) this.#temporary.set(name, { ...temporary, suspended: true });
      else if (!this.#suspended.has(name)) {
        this.#refuseMore(this.#suspended.size, MAX_SUSPENDED, 'suspended servers');
        await this.#write(name, (store) => store.suspend(name, this.#deps.clock.wall()));
        this.#suspended.add(name);
      }
    });
  }

  /** Also for a server that no longer exists: it runs when it comes back. */
  resume(name: string): Promise<void> {
    return this.#changing(async () => {
      const temporary = this.#temporaryInForce(name);
      if (!this.#isKnown(name) && !this.#suspended.has(name)) throw this.#unknown(name);
      if (temporary !== undefined) this.#temporary.set(name, { ...temporary, suspended: false });
      else if (this.#suspended.has(name)) {
        await this.#write(name, (store) => store.resume(name));
        this.#suspended.delete(name);
      }
      this.#deps.desired.refresh();
      const server = this.#deps.desired.state.servers.get(name);
      if (server === undefined || server.enabled) return;
      const message = `${name} is disabled by its definition (${placeOf(server)}); enable it there`;
      throw new RunTimeProblem('disabled_by_definition', message);
    });
  }

  /** The client's session has ended: removes the servers that were added for it. */
  sessionEnded(sessionId: string): void {
    if (this.#adding > 0) this.#ended.add(sessionId);
    this.#temporary.sessionEnded(sessionId);
  }

  close(): void {
    this.#temporary.close();
  }

  async #readValid({ text, name, folder: given }: DefinitionInput, caller: Caller) {
    if (Buffer.byteLength(text) > MAX_TEXT_BYTES) {
      throw new RunTimeProblem('definition_too_large', `a definition has at most ${MAX_TEXT_BYTES / 1024} KiB`);
    }
    const folder = given ?? this.#deps.folder;
    const allowed = (needs: readonly Need[]) =>
      refuseBeyondRights(needs, caller, this.#deps.desired.state.allowedCommands);
    // Checked before reading: the problems of the definition would reveal the contents of files and variables.
    const rights = caller.exec ? {} : { publicOnly: true };
    const result = await this.#definitions.read({ text, folder, ...rights }, name, allowed);
    if (!result.ok) throw definitionInvalid(result.problems);
    allowed(result.needs);
    logWarnings(result.warnings, this.#deps.logger);
    return { text, folder, rights, result };
  }

  /** Refuses a server that another node defines differently. Waits, because a removed one may be announced for a moment. */
  async #refuseConflicting(server: Server): Promise<void> {
    const { clock, others } = this.#deps;
    if (others == null) return;
    const end = clock.now() + APPLY_TIMEOUT_MS;
    let nodes = others.against(server);
    for (; nodes.length > 0 && clock.now() < end; nodes = others.against(server)) await pause(clock, LOOK_MS);
    if (nodes.length === 0) return;
    const text = `${server.name}, or a name that clients would take for it, is another server at ${nodes.join(' and ')}`;
    throw new RunTimeProblem('name_taken', `${text}: take another name, or change it there`);
  }

  #refuseMore(count: number, most: number, what: string): void {
    if (count >= most) throw new RunTimeProblem('too_many', `there are ${most} ${what}, which is the most`);
  }

  /** Returns the revision that the change made. */
  async #write(
    name: string,
    change: (store: StoredServers) => Promise<Applied>,
    otherwise: 'name_taken' | 'revision_changed' = 'revision_changed',
  ): Promise<number> {
    const { stored, refusal = null } = this.#deps;
    if (refusal !== null) throw new RunTimeProblem('no_shared_store', refusal);
    try {
      const applied = await change(stored);
      if (!applied.ok && otherwise === 'name_taken') {
        throw new RunTimeProblem(otherwise, `the server ${name} exists already`);
      }
      if (!applied.ok) throw revisionChanged(name, applied.found);
      this.#revision = Math.max(this.#revision, applied.revision);
      return applied.revision;
    } catch (error) {
      throw storeProblem(error);
    }
  }

  /** Runs a change on the present content of the store; it is in force when this resolves. */
  #changing<T>(task: () => Promise<T>): Promise<T> {
    return this.#queue.run(async () => {
      if (this.#deps.shared === true) {
        const changed = await this.#reloadStore().catch((error: unknown) => {
          throw storeProblem(error);
        });
        if (changed) this.#deps.desired.refresh();
      }
      const done = await task();
      this.#deps.desired.refresh();
      return done;
    });
  }

  /** Stored servers that do not run, with the reason; empty if all run. */
  get problems(): readonly string[] {
    const unread = [...this.#definitions.entries.values()].flatMap(({ stored, problems }) =>
      problems.map((problem) => `the stored server ${stored.name} cannot be read: ${renderProblem(problem)}`),
    );
    return unread.concat(
      this.#shadowed.map(({ name, by }) => `the stored server ${name} does not run: ${shadowReason(name, by)}`),
    );
  }

  /** Adds these servers to the state of the files. `inForce`: as of a layer. */
  #overlay(files: DesiredState, inForce: boolean): DesiredState {
    const added = [...this.#definitions.entries.values(), ...this.#temporary.values()].map(({ server }) => server);
    const { state, shadowed } = mergeDesired(files, added, (name) => this.#isSuspended(name, files));
    if (!inForce) return state;
    this.#files = files;
    for (const { name, by } of shadowed) {
      if (this.#shadowed.some((known) => known.name === name && known.by === by)) continue;
      this.#deps.logger.warn('server_shadowed', { server: name, reason: shadowReason(name, by) });
    }
    this.#shadowed = shadowed;
    return state;
  }

  provenance(name: string): Provenance | null {
    const temporary = this.#temporary.get(name);
    const entry = this.#definitions.entries.get(name);
    const none = { suspended: this.#isSuspended(name), revision: null, expiresAt: null, sessionId: null };
    // A file's server may hide a stored one.
    const revision = entry?.stored.revision ?? null;
    if (this.#isOfFile(name)) return { source: 'file', ...none, revision };
    if (temporary !== undefined) {
      const { expiresAt, sessionId } = temporary;
      return { source: 'temporary', ...none, expiresAt, sessionId };
    }
    if (entry !== undefined) return { source: 'store', ...none, revision };
    return this.#deps.desired.state.servers.has(name) ? { source: 'program', ...none } : null;
  }

  #isOfFile(name: string, files = this.#files): boolean {
    return files?.servers.has(name) === true;
  }

  /** Undefined if a file's server of the same name hides it: decisions then concern that server. */
  #temporaryInForce(name: string, files = this.#files): TemporaryEntry | undefined {
    return this.#isOfFile(name, files) ? undefined : this.#temporary.get(name);
  }

  /** Also true if only another node has the server: suspending it there works through the shared store. */
  #isKnown(name: string): boolean {
    if (this.#deps.desired.state.servers.has(name) || this.#definitions.entries.has(name)) return true;
    const there = this.#peerServer(name);
    return there !== null && there.server.temporary !== true;
  }

  /** Why a server that this node lacks cannot be changed here. */
  #unknown(name: string): RunTimeProblem {
    const there = this.#peerServer(name);
    if (there === null) return noServer(name, this.#deps.desired.state.servers.keys());
    const text = `${name} is not one of this node's: change it at ${there.nodes.join(' or ')}, which has it`;
    return new RunTimeProblem('not_added_here', text);
  }

  /** Only stored servers have revisions. Throws RunTimeProblem. */
  #temporaryAt(name: string, revision: number | null): TemporaryEntry | undefined {
    const temporary = this.#temporary.get(name);
    if (temporary !== undefined && revision !== null) throw revisionChanged(name, 'temporary');
    return temporary;
  }

  /** The stored server of that name at the revision that the caller expects. Throws RunTimeProblem. */
  #entry(name: string, revision: number | null): StoredEntry {
    const entry = this.#definitions.entries.get(name);
    if (entry === undefined) {
      const server = this.#deps.desired.state.servers.get(name);
      if (server === undefined) throw this.#unknown(name);
      const message = `${name} was not added at run time: it is in ${placeOf(server)}; change it there`;
      throw new RunTimeProblem('not_added_here', message);
    }
    if (revision !== null && revision !== entry.stored.revision) throw revisionChanged(name, entry.stored.revision);
    return entry;
  }

  /** Throws RunTimeProblem if clients could confuse the name with an existing one. */
  #refuseTaken(name: string): void {
    const names = [this.#deps.desired.state.servers.keys(), this.#definitions.entries.keys(), this.#temporary.keys()];
    for (const taken of names.flatMap((some) => [...some])) {
      if (foldedName(taken) !== foldedName(name)) continue;
      const file = this.#definitions.entries.has(taken) ? undefined : this.#deps.desired.state.servers.get(taken);
      throw nameTaken(name, taken, file === undefined ? null : placeOf(file));
    }
  }

  /** Takes over the content of the store; true if the desired servers have changed. Rejects with StoreError, without a change. */
  async #reloadStore(): Promise<boolean> {
    const desire = await this.#deps.stored.read();
    // Revisions only increase: a lower one belongs to another store, and an empty store does not mean "no servers".
    if (desire.revision < this.#revision) {
      throw new StoreError('damaged', `the store is at revision ${desire.revision}, and was at ${this.#revision}`);
    }
    const before = this.#fingerprint();
    await this.#definitions.follow(desire);
    this.#suspended = desire.suspended;
    this.#revision = desire.revision;
    const others = await this.#temporary.follow(this.#definitions);
    return others || this.#fingerprint() !== before;
  }

  #peerServer(name: string): ReturnType<PeerServers['server']> {
    return this.#deps.others?.server(name) ?? null;
  }

  #isSuspended(name: string, files = this.#files): boolean {
    return this.#temporaryInForce(name, files)?.suspended ?? this.#suspended.has(name);
  }

  #fingerprint(): string {
    const entries = [...this.#definitions.entries].map(([name, { server, problems }]) => [
      name,
      server.connectionDigest,
      problems.length,
    ]);
    return JSON.stringify([this.#revision, entries, [...this.#suspended]]);
  }
}
