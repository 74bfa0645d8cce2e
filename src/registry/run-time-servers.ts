import type { ConfigProblem } from '../config/problem/problem.ts';
import type { Need } from '../config/server/definition-needs.ts';
import { type Clock, pause } from '../model/clock.ts';
import type { Server } from '../model/server.ts';
import type { Applied } from '../store/run-time-store/run-time-store.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Registry } from './registry.ts';
import { logWarnings } from './reload-report.ts';
import { type Caller, noServer, RunTimeProblem, refuseBeyondRights, storeProblem } from './run-time-problem.ts';
import { type Provenance, placeOf, RunTimeState, type ServersElsewhere } from './run-time-state.ts';
import type { StoredServers } from './stored-definitions.ts';
import { asTemporary, type Lifetime } from './temporary-servers.ts';

interface RunTimeServersDeps {
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
  /** The desired state in force, of which these servers are a layer. */
  readonly desired: Pick<Registry, 'state' | 'addLayer' | 'refresh'>;
  /** What the other nodes of the cluster have; it is read with each change. Null or absent: a lone gateway. */
  readonly others?: ServersElsewhere | null;
}

interface DefinitionInput {
  readonly text: string;
  /** null where the text says it. */
  readonly name: string | null;
  /** null: the gateway's own. */
  readonly folder: string | null;
}

type WrittenServer = { readonly server: Server; readonly warnings: readonly ConfigProblem[] };

const MAX_STORED = 2_000;
const MAX_TEMPORARY = 100;
const MAX_SUSPENDED = 2_000;
/** Well below what a record of the store holds. */
const MAX_TEXT_BYTES = 64 * 1024;
/** By then other nodes have followed what was changed in the store that they share. */
const FOLLOWED_MS = 3_500;
const LOOK_MS = 100;

/**
 * Servers desired beside the files, and their changes: one after the other, durable before they hold, without effect on
 * failure.
 */
export class RunTimeServers {
  readonly #deps: RunTimeServersDeps;
  readonly #state: RunTimeState;
  #adding = 0;
  /** Sessions that ended while servers are being added. */
  readonly #ended = new Set<string>();
  #last: Promise<unknown> = Promise.resolve();

  constructor(deps: RunTimeServersDeps) {
    this.#deps = deps;
    this.#state = new RunTimeState(deps);
    deps.desired.addLayer((files) => this.#state.over(files));
  }

  /** What is in the store and does not run, with the reason; empty while all of it does. */
  get problems(): readonly string[] {
    return this.#state.problems;
  }

  provenance(name: string): Provenance | null {
    return this.#state.provenance(name);
  }

  /** Reads the store anew. True when something else is desired. Rejects with StoreError, and changes nothing then. */
  refresh(): Promise<boolean> {
    return this.#exclusively(() => this.#state.follow(this.#deps.stored));
  }

  /** Rejects with RunTimeProblem; so do all that follow. */
  add(definition: DefinitionInput, caller: Caller, lifetime: Lifetime | null = null): Promise<WrittenServer> {
    this.#adding++;
    const added = this.#changing(async () => {
      const { text, folder, rights, result } = await this.#readGood(definition, caller);
      const { server, warnings } = result;
      this.#state.refuseTaken(server.name);
      await this.#refuseMeantOtherwise(server);
      if (lifetime !== null) {
        this.#refuseMore(this.#state.temporary.size, MAX_TEMPORARY, 'temporary servers');
        const { sessionId } = lifetime;
        // It may have ended while the definition was read, and its server would never end then.
        if (sessionId !== null && this.#ended.has(sessionId)) {
          throw new RunTimeProblem('no_such_session', 'the session has ended meanwhile');
        }
        this.#state.temporary.put(server.name, asTemporary(server, text, lifetime), lifetime);
      } else {
        this.#refuseMore(this.#state.definitions.entries.size, MAX_STORED, 'servers added at run time');
        const at = this.#deps.clock.wall();
        const stored = { name: server.name, text, folder, ...rights, addedAt: at, changedAt: at };
        const revision = await this.#write(server.name, (store) => store.put(stored, null), 'name_taken');
        this.#state.definitions.put({ ...stored, revision }, result);
      }
      return { server, warnings };
    });
    return added.finally(() => {
      if (--this.#adding === 0) this.#ended.clear();
    });
  }

  /** `revision`: refused where it is another by now. */
  change(
    name: string,
    definition: DefinitionInput,
    caller: Caller,
    revision: number | null = null,
  ): Promise<WrittenServer> {
    return this.#changing(async () => {
      const temporary = this.#state.temporary.get(name);
      const entry = temporary === undefined ? this.#state.entry(name, revision) : null;
      const { text, folder, rights, result } = await this.#readGood({ ...definition, name }, caller);
      const { server, warnings } = result;
      if (entry !== null) {
        const { addedAt, revision: found } = entry.stored;
        const stored = { name, text, folder, ...rights, addedAt, changedAt: this.#deps.clock.wall() };
        const now = await this.#write(name, (store) => store.put(stored, found));
        this.#state.definitions.put({ ...stored, revision: now }, result);
      } else if (this.#state.temporary.get(name) !== undefined) {
        this.#state.temporary.put(name, asTemporary(server, text, temporary!), temporary!, temporary!.suspended);
      } else throw noServer(name);
      return { server, warnings };
    });
  }

  remove(name: string, revision: number | null = null): Promise<void> {
    return this.#changing(async () => {
      if (!this.#state.temporary.delete(name)) {
        const { stored } = this.#state.entry(name, revision);
        // The suspension is of the name: a file's server that hid this one goes on being suspended.
        const keeps = this.#state.isOfFile(name);
        await this.#write(name, (store) => store.remove(name, stored.revision, keeps));
        this.#state.definitions.entries.delete(name);
        if (!keeps) this.#state.suspended.delete(name);
      }
    });
  }

  /** Until `resume`, over restarts; servers of files too. */
  suspend(name: string): Promise<void> {
    return this.#changing(async () => {
      const temporary = this.#state.temporaryInForce(name);
      if (!this.#state.isKnown(name)) throw this.#state.unknown(name);
      if (temporary !== undefined) this.#state.temporary.put(name, temporary.server, temporary, true);
      else if (!this.#state.suspended.has(name)) {
        this.#refuseMore(this.#state.suspended.size, MAX_SUSPENDED, 'suspended servers');
        await this.#write(name, (store) => store.suspend(name, this.#deps.clock.wall()));
        this.#state.suspended.add(name);
      }
    });
  }

  /** Also of a server that is no longer there: it begins anew when it comes back. */
  resume(name: string): Promise<void> {
    return this.#changing(async () => {
      const temporary = this.#state.temporaryInForce(name);
      if (!this.#state.isKnown(name) && !this.#state.suspended.has(name)) throw this.#state.unknown(name);
      if (temporary !== undefined) this.#state.temporary.put(name, temporary.server, temporary, false);
      else if (this.#state.suspended.has(name)) {
        await this.#write(name, (store) => store.resume(name));
        this.#state.suspended.delete(name);
      }
      this.#deps.desired.refresh();
      const server = this.#deps.desired.state.servers.get(name);
      if (server === undefined || server.enabled) return;
      const message = `${name} is disabled by its definition (${placeOf(server)}); enable it there`;
      throw new RunTimeProblem('disabled_by_definition', message);
    });
  }

  /** The client's session has ended: so have the servers that were added for it. */
  sessionEnded(sessionId: string): void {
    if (this.#adding > 0) this.#ended.add(sessionId);
    this.#state.temporary.sessionEnded(sessionId);
  }

  close(): void {
    this.#state.temporary.close();
  }

  async #readGood({ text, name, folder: given }: DefinitionInput, caller: Caller) {
    if (Buffer.byteLength(text) > MAX_TEXT_BYTES) {
      throw new RunTimeProblem('definition_too_large', `a definition has at most ${MAX_TEXT_BYTES / 1024} KiB`);
    }
    const folder = given ?? this.#deps.folder;
    const allowed = (needs: readonly Need[]) =>
      refuseBeyondRights(needs, caller, this.#deps.desired.state.allowedCommands);
    // Before that, what is wrong with the definition would show the contents of files and variables.
    const rights = caller.exec ? {} : { publicOnly: true };
    const result = await this.#state.definitions.read({ text, folder, ...rights }, name, allowed);
    if (!result.ok) {
      const message = result.problems.map((problem) => problem.message).join('; ');
      throw new RunTimeProblem('definition_invalid', message, { problems: result.problems });
    }
    allowed(result.needs);
    logWarnings(result.warnings, this.#deps.logger);
    return { text, folder, rights, result };
  }

  /** What a file of another node says holds there. What was removed a moment ago is offered there for a moment more. */
  async #refuseMeantOtherwise(server: Server): Promise<void> {
    const { clock, others } = this.#deps;
    if (others == null) return;
    const end = clock.now() + FOLLOWED_MS;
    let nodes = others.against(server);
    for (; nodes.length > 0 && clock.now() < end; nodes = others.against(server)) await pause(clock, LOOK_MS);
    if (nodes.length === 0) return;
    const text = `${server.name}, or a name that clients would take for it, is another server at ${nodes.join(' and ')}`;
    throw new RunTimeProblem('name_taken', `${text}: take another name, or change it there`);
  }

  #refuseMore(count: number, most: number, what: string): void {
    if (count >= most) throw new RunTimeProblem('too_many', `there are ${most} ${what}, which is the most`);
  }

  /** Returns the revision of what was written. */
  async #write(
    name: string,
    change: (store: StoredServers) => Promise<Applied>,
    otherwise: 'name_taken' | 'revision_changed' = 'revision_changed',
  ): Promise<number> {
    const { stored, refusal = null } = this.#deps;
    if (refusal !== null) throw new RunTimeProblem('no_shared_store', refusal);
    try {
      return this.#state.written(await change(stored), otherwise, name);
    } catch (error) {
      throw storeProblem(error);
    }
  }

  /** A change, to what the store has by now; it is in force when this resolves. */
  #changing<T>(task: () => Promise<T>): Promise<T> {
    return this.#exclusively(async () => {
      if (this.#deps.shared === true) {
        const changed = await this.#state.follow(this.#deps.stored).catch((error: unknown) => {
          throw storeProblem(error);
        });
        if (changed) this.#deps.desired.refresh();
      }
      const done = await task();
      this.#deps.desired.refresh();
      return done;
    });
  }

  #exclusively<T>(task: () => Promise<T>): Promise<T> {
    const result = this.#last.then(task);
    this.#last = result.catch(() => {});
    return result;
  }
}
