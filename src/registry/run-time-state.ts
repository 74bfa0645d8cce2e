import { renderProblem } from '../config/problem/problem.ts';
import type { Clock } from '../model/clock.ts';
import type { DesiredState } from '../model/desired-state.ts';
import { foldedName } from '../model/names.ts';
import type { Server } from '../model/server.ts';
import { type Applied, StoreError } from '../store/run-time-store/run-time-store.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Registry } from './registry.ts';
import { noServer, RunTimeProblem, revisionChanged } from './run-time-problem.ts';
import { StoredDefinitions, type StoredEntry, type StoredServers } from './stored-definitions.ts';
import { type TemporaryServer, TemporaryServers } from './temporary-servers.ts';

interface RunTimeStateDeps {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The desired state in force. */
  readonly desired: Pick<Registry, 'state' | 'refresh'>;
  /** Null or absent: a lone gateway. */
  readonly others?: ServersElsewhere | null;
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

/** What was decided at run time, as it is now: what the store had when it was read last, and what is temporary. */
export class RunTimeState {
  readonly definitions: StoredDefinitions;
  readonly temporary: TemporaryServers;
  /** Names that are suspended in the store, whether or not there is a server of that name. */
  suspended = new Set<string>();
  readonly #deps: RunTimeStateDeps;
  #revision = 0;
  #shadowed: readonly Shadowed[] = [];
  #files: DesiredState | null = null;

  constructor(deps: RunTimeStateDeps) {
    this.#deps = deps;
    this.definitions = new StoredDefinitions(deps.env, deps.logger);
    this.temporary = new TemporaryServers(deps);
  }

  /** What is in the store and does not run, with the reason; empty while all of it does. */
  get problems(): readonly string[] {
    const unread = [...this.definitions.entries.values()].flatMap(({ stored, problems }) =>
      problems.map((problem) => `the stored server ${stored.name} cannot be read: ${renderProblem(problem)}`),
    );
    const hidden = this.#shadowed.map(({ name, by }) => `the stored server ${name} does not run: ${whose(name, by)}`);
    return [...unread, ...hidden];
  }

  /** Puts it over what the files say. */
  over(files: DesiredState): DesiredState {
    this.#files = files;
    const added = [...this.definitions.entries.values(), ...this.temporary.values()].map(({ server }) => server);
    const { state, shadowed } = mergeDesired(files, added, (name) => this.#isSuspended(name));
    for (const { name, by } of shadowed) {
      if (this.#shadowed.some((known) => known.name === name && known.by === by)) continue;
      this.#deps.logger.warn('server_shadowed', { server: name, reason: whose(name, by) });
    }
    this.#shadowed = shadowed;
    return state;
  }

  provenance(name: string): Provenance | null {
    const temporary = this.temporary.get(name);
    const none = { suspended: this.#isSuspended(name), revision: null, expiresAt: null, sessionId: null };
    if (this.isOfFile(name)) return { source: 'file', ...none };
    if (temporary !== undefined) {
      const { expiresAt, sessionId } = temporary;
      return { source: 'temporary', ...none, expiresAt, sessionId };
    }
    const entry = this.definitions.entries.get(name);
    if (entry !== undefined) return { source: 'store', ...none, revision: entry.stored.revision };
    return this.#deps.desired.state.servers.has(name) ? { source: 'program', ...none } : null;
  }

  isOfFile(name: string): boolean {
    return this.#files?.servers.has(name) === true;
  }

  /** Not one that a file's server of the same name hides: what is decided then is about that. */
  temporaryInForce(name: string): TemporaryServer | undefined {
    return this.isOfFile(name) ? undefined : this.temporary.get(name);
  }

  /** Also where only another node has it: what is suspended there is suspended in the store that they share. */
  isKnown(name: string): boolean {
    if (this.#deps.desired.state.servers.has(name) || this.definitions.entries.has(name)) return true;
    const there = this.#elsewhere(name);
    return there !== null && there.server.temporary !== true;
  }

  /** Why nothing can be changed here of a server that this node has not. */
  unknown(name: string): RunTimeProblem {
    const there = this.#elsewhere(name);
    if (there === null) return noServer(name);
    const text = `${name} is not one of this node's: change it at ${there.nodes.join(' or ')}, which has it`;
    return new RunTimeProblem('not_added_here', text);
  }

  /** The stored server of that name, as the caller knows it. Throws RunTimeProblem. */
  entry(name: string, revision: number | null): StoredEntry {
    const entry = this.definitions.entries.get(name);
    if (entry === undefined) {
      const server = this.#deps.desired.state.servers.get(name);
      if (server === undefined) throw this.unknown(name);
      const message = `${name} was not added at run time: it is in ${placeOf(server)}; change it there`;
      throw new RunTimeProblem('not_added_here', message);
    }
    if (revision !== null && revision !== entry.stored.revision) throw revisionChanged(name, entry.stored.revision);
    return entry;
  }

  /** Throws RunTimeProblem where clients could take the name for one that is there. */
  refuseTaken(name: string): void {
    const names = [this.#deps.desired.state.servers.keys(), this.definitions.entries.keys(), this.temporary.keys()];
    for (const taken of names.flatMap((some) => [...some])) {
      if (foldedName(taken) !== foldedName(name)) continue;
      const how = taken === name ? 'exists already' : `would be confused with ${taken}`;
      throw new RunTimeProblem('name_taken', `the server ${name} ${how}`);
    }
  }

  /** The revision of what was written; throws RunTimeProblem where nothing was. */
  written(applied: Applied, code: 'name_taken' | 'revision_changed', name: string): number {
    if (!applied.ok && code === 'name_taken') throw new RunTimeProblem(code, `the server ${name} exists already`);
    if (!applied.ok) throw revisionChanged(name, applied.found);
    this.#revision = Math.max(this.#revision, applied.revision);
    return applied.revision;
  }

  /** Takes over what the store has. True when something else is desired. Rejects with StoreError, and changes nothing then. */
  async follow(stored: StoredServers): Promise<boolean> {
    const desire = await stored.read();
    // Revisions only grow: a lower one is another store, and an empty one is not "no servers".
    if (desire.revision < this.#revision) {
      throw new StoreError('damaged', `the store is at revision ${desire.revision}, and was at ${this.#revision}`);
    }
    const before = this.#fingerprint();
    await this.definitions.follow(desire);
    this.suspended = desire.suspended;
    this.#revision = desire.revision;
    return this.#fingerprint() !== before;
  }

  #elsewhere(name: string): ReturnType<ServersElsewhere['server']> {
    return this.#deps.others?.server(name) ?? null;
  }

  #isSuspended(name: string): boolean {
    return this.temporaryInForce(name)?.suspended ?? this.suspended.has(name);
  }

  #fingerprint(): string {
    const entries = [...this.definitions.entries].map(([name, { server, problems }]) => [
      name,
      server.connectionDigest,
      problems.length,
    ]);
    return JSON.stringify([this.#revision, entries, [...this.suspended]]);
  }
}

export function placeOf({ origin: { file, line } }: Server): string {
  return line > 0 ? `${file}:${line}` : file;
}

function whose(name: string, by: string): string {
  return by === name
    ? 'a file has a server of this name, which wins'
    : `clients would confuse it with ${by}, which wins`;
}

/** What the other nodes of a cluster have, as this one knows it. */
export interface ServersElsewhere {
  /** The server of that name that this node has not, and the names of the nodes that have it; null where there is none. */
  server(name: string): { readonly server: Server; readonly nodes: readonly string[] } | null;
  /** The nodes that mean something else by its name, or by one that clients would take for it. */
  against(server: Server): readonly string[];
}

/** A server of the store that does not run, because a file has one that clients would take for it. */
interface Shadowed {
  readonly name: string;
  readonly by: string;
}

/**
 * Files, servers added at run time and suspensions merged. Of two that clients would confuse the file's runs, and the
 * other is reported. Pure.
 */
function mergeDesired(files: DesiredState, added: Iterable<Server>, suspended: (name: string) => boolean) {
  const servers = new Map(files.servers);
  const taken = new Map([...servers.keys()].map((name) => [foldedName(name), name]));
  const shadowed: Shadowed[] = [];
  let { maxTimeoutMs } = files;
  for (const server of added) {
    const by = taken.get(foldedName(server.name));
    if (by !== undefined) {
      shadowed.push({ name: server.name, by });
      continue;
    }
    taken.set(foldedName(server.name), server.name);
    servers.set(server.name, server);
    maxTimeoutMs = Math.max(maxTimeoutMs, server.timeoutMs, ...server.toolTimeoutMs.values());
  }
  for (const [name, server] of servers) {
    if (server.enabled && suspended(name)) servers.set(name, { ...server, enabled: false });
  }
  return { state: { ...files, servers, maxTimeoutMs }, shadowed };
}
