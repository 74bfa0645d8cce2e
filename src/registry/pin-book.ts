import type { Clock } from '../model/clock.ts';
import {
  type ApprovedDefinition,
  type Definition,
  type DefinitionName,
  type DriftEvent,
  type DriftEventKind,
  type DriftRecord,
  noPins,
  type Pin,
  type Pins,
  type PinsChange,
  pinKey,
  type ServerPins,
} from '../model/drift.ts';
import { OneAtATime } from '../model/one-at-a-time.ts';
import { messageOf } from '../model/thrown.ts';
import type { PinRecords } from '../store/run-time-store/stored-pins.ts';
import type { Logger } from '../telemetry/logger.ts';

/** Definitions that may be offered under one name; beyond this number the earliest approvals are forgotten. */
const MAX_APPROVED = 8;
/** Definitions pinned by one change; further ones stay unapproved. */
const MAX_PINS = 10_000;
/** Servers with pins; beyond this number the pins of undesired servers are forgotten, the longest known first. */
const MAX_SERVERS = 1_000;
/** Kinds of client remembered per server: clients can name any number. Further kinds do not count as new. */
const MAX_KINDS = 128;
/** Names beyond this length are never pinned, so their definitions are always new. */
const MAX_KEY = 1_024;
/** Attempts of a change while other nodes change the same pins. */
const MAX_ATTEMPTS = 3;

/** Remembers, apart from the pins, which servers were trusted, so that lost pins are not taken for a first use. */
export interface TrustMarks {
  has(server: string): boolean;
  add(server: string): void;
  delete(server: string): void;
}

/** Remembers for which kinds of client each server was listed. */
export interface ListedKinds {
  get(server: string): readonly string[] | null;
  set(server: string, kinds: readonly string[]): void;
  forget(server: string): void;
}

interface PinBookDeps {
  readonly records: PinRecords;
  /** Other nodes use the same records. */
  readonly shared: boolean;
  readonly marks: TrustMarks;
  readonly kinds: ListedKinds;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The desired servers of all nodes that share the records; null while they are unknown. */
  readonly desired: () => ReadonlySet<string> | null;
}

/** Other nodes keep changing the same pins. */
export class PinsContended extends Error {}

/**
 * Approved and blocked definitions. Changes run one at a time and are durable before they take effect. Only trust at first
 * use takes effect unsaved, and `problem` reports it until the next change saves it.
 */
export class PinBook implements Pins {
  readonly #deps: PinBookDeps;
  readonly #servers = new Map<string, ServerPins>();
  /** Servers whose trust is not on disk yet. */
  readonly #unsaved = new Set<string>();
  readonly #queue = new OneAtATime();
  #problem: string | null = null;

  /** Rejects if the pins cannot be read: then nothing may be trusted. */
  static async open(deps: PinBookDeps): Promise<PinBook> {
    const book = new PinBook(deps);
    await book.#load();
    return book;
  }

  private constructor(deps: PinBookDeps) {
    this.#deps = deps;
  }

  /** Reads what another node may have decided. Rejects if that fails; the previous pins stay in force. */
  reload(): Promise<void> {
    return this.#queue.run(() => this.#load());
  }

  get problem(): string | null {
    return this.#problem;
  }

  of(server: string): ServerPins {
    return this.#servers.get(server) ?? noPins(server);
  }

  isLost(server: string): boolean {
    return this.of(server).trustedAt === null && this.#deps.marks.has(server);
  }

  isFirstListing(server: string, kind: string): boolean {
    const { kinds } = this.#deps;
    const listed = kinds.get(server) ?? [];
    if (listed.includes(kind) || listed.length >= MAX_KINDS) return false;
    kinds.set(server, [...listed, kind]);
    return true;
  }

  async trust(server: string, definitions: readonly Definition[], text: string): Promise<void> {
    await this.#queue.run(async () => {
      const before = this.of(server);
      if (before.trustedAt !== null) return;
      if (this.isLost(server)) this.#deps.logger.error('pins_lost', { server });
      const marked = this.#deps.marks.has(server);
      this.#deps.marks.add(server);
      await this.#evictUndesired();
      const at = this.#deps.clock.wall();
      const pins = pinnable(definitions).map((one) => withOne(pinIn(before, one), one, 'first use', at));
      const event: DriftEvent = { ...NOTHING, at, kind: 'trusted', text };
      const change = { trustedAt: at, pins, removed: [], events: [event], inParts: true } as const;
      try {
        if (await this.#saved(server, change)) {
          this.#apply(server, change);
        } else {
          // Another node trusted the server first: only the mark of that node may report lost pins.
          if (!marked) this.#deps.marks.delete(server);
          await this.#load();
        }
      } catch (error) {
        this.#apply(server, change);
        this.#unsaved.add(server);
        this.#failed(error);
      }
    });
  }

  async note(server: string, events: readonly DriftEvent[]): Promise<void> {
    if (events.length === 0) return;
    await this.#queue.run(async () => {
      try {
        await this.#saveTrust(server);
        await this.#saved(server, { pins: [], removed: [], events });
      } catch (error) {
        this.#failed(error);
      }
    });
  }

  approve(server: string, approved: readonly Definition[], gone: readonly DefinitionName[], by: string): Promise<void> {
    const pinned = pinnable(approved);
    return this.#changed(server, (before, at) => ({
      ...(before.trustedAt === null ? { trustedAt: at } : {}),
      pins: [...groups(pinned)].map((some) =>
        some.reduce((pin, one) => withOne(pin, one, by, at), pinIn(before, some[0]!)),
      ),
      removed: distinct(gone).filter((name) => before.pins.has(pinKey(name))),
      events: [
        ...pinned.map((one) => ({ ...event(before, at, 'approved', one, by), digest: one.digest })),
        ...distinct(gone).map((name) => ({ ...event(before, at, 'approved', name, by), text: 'its removal' })),
      ],
    }));
  }

  block(server: string, names: readonly DefinitionName[], by: string): Promise<void> {
    return this.#changed(server, (before, at) => ({
      pins: distinct(names).map((name) => ({ ...pinIn(before, name), blocked: { at, by } })),
      removed: [],
      events: distinct(names).map((name) => event(before, at, 'blocked', name, by)),
    }));
  }

  history(
    server: string,
    options: { readonly limit: number; readonly after?: string },
  ): Promise<readonly DriftRecord[]> {
    return this.#deps.records.history(server, options);
  }

  #changed(server: string, change: (before: ServerPins, at: number) => PinsChange): Promise<void> {
    return this.#queue.run(async () => {
      for (let attempt = 1; ; attempt++) {
        await this.#saveTrust(server);
        const next = change(this.of(server), this.#deps.clock.wall());
        if (await this.#saved(server, next)) {
          this.#apply(server, next);
          return;
        }
        await this.#reload(server, attempt);
      }
    });
  }

  /** Saves trust of this server that is not saved yet. */
  async #saveTrust(server: string): Promise<void> {
    for (let attempt = 1; this.#unsaved.has(server); attempt++) {
      const { trustedAt, pins } = this.of(server);
      const change = {
        trustedAt: trustedAt!,
        pins: [...pins.values()],
        removed: [],
        events: [],
        inParts: true,
      } as const;
      if (await this.#deps.records.save(server, change)) this.#unsaved.delete(server);
      else await this.#reload(server, attempt);
    }
  }

  async #saved(server: string, change: PinsChange): Promise<boolean> {
    const saved = await this.#deps.records.save(server, change);
    if (saved && this.#unsaved.size === 0) this.#problem = null;
    return saved;
  }

  /** Reads what another node has changed, after an attempt that found it. */
  async #reload(server: string, attempt: number): Promise<void> {
    if (attempt === MAX_ATTEMPTS) throw new PinsContended(`the pins of ${server} are being changed elsewhere`);
    await this.#load();
  }

  #apply(server: string, change: PinsChange): void {
    const before = this.of(server);
    const pins = new Map(before.pins);
    for (const name of change.removed) pins.delete(pinKey(name));
    for (const pin of change.pins) pins.set(pinKey(pin), pin);
    this.#servers.set(server, { server, trustedAt: change.trustedAt ?? before.trustedAt, pins });
  }

  async #load(): Promise<void> {
    const loaded = await this.#deps.records.load();
    for (const name of [...this.#servers.keys()]) if (!this.#unsaved.has(name)) this.#servers.delete(name);
    for (const pins of loaded) this.#servers.set(pins.server, this.#merged(pins));
  }

  /** Unsaved trust ends where another node has trusted the server; until then the pins of other nodes, as blocks, precede. */
  #merged(stored: ServerPins): ServerPins {
    const { server, trustedAt } = stored;
    if (!this.#unsaved.has(server)) return stored;
    const own = this.of(server);
    if (trustedAt === null) return { ...own, pins: new Map([...own.pins, ...stored.pins]) };
    this.#unsaved.delete(server);
    if (this.#unsaved.size === 0) this.#problem = null;
    // Only the node that trusted the server may report its pins as lost.
    if (trustedAt !== own.trustedAt) this.#deps.marks.delete(server);
    return stored;
  }

  /**
   * Forgets the pins of servers that are gone; of shared pins only those that this node trusted, because other nodes may
   * still have the server. Never rejects.
   */
  async #evictUndesired(): Promise<void> {
    if (this.#servers.size < MAX_SERVERS) return;
    const desired = this.#deps.desired();
    if (desired === null) return;
    const gone = [...this.#servers.values()].filter(
      ({ server }) => !desired.has(server) && (!this.#deps.shared || this.#deps.marks.has(server)),
    );
    gone.sort((a, b) => (a.trustedAt ?? 0) - (b.trustedAt ?? 0));
    for (const { server } of gone.slice(0, this.#servers.size - MAX_SERVERS + 1)) {
      try {
        await this.#deps.records.forget(server);
        this.#servers.delete(server);
        this.#unsaved.delete(server);
        this.#deps.marks.delete(server);
        this.#deps.kinds.forget(server);
        this.#deps.logger.warn('pins_forgotten', { server });
      } catch (error) {
        this.#failed(error);
      }
    }
  }

  #failed(error: unknown): void {
    this.#problem = `pins are not saved: ${messageOf(error)}`;
    this.#deps.logger.error('pins_not_saved', { error });
  }
}

const NOTHING = { name: null, digest: null, before: null, severity: null, by: null } as const;

function event(before: ServerPins, at: number, kind: DriftEventKind, name: DefinitionName, by: string): DriftEvent {
  const { list, key } = name;
  const digest = before.pins.get(pinKey(name))?.approved.at(-1)?.digest ?? null;
  return { ...NOTHING, at, kind, name: { list, key }, before: digest, by, text: '' };
}

function withOne({ list, key, approved }: Pin, one: Definition, by: string, at: number): Pin {
  // A copy, because the bytes are a view of a larger buffer.
  const approval: ApprovedDefinition = { digest: one.digest, definition: Buffer.from(one.bytes), at, by };
  const others = approved.filter(({ digest }) => digest !== one.digest);
  return { list, key, approved: [...others, approval].slice(-MAX_APPROVED), blocked: null };
}

function pinIn({ pins }: ServerPins, { list, key }: DefinitionName): Pin {
  return pins.get(pinKey({ list, key })) ?? { list, key, approved: [], blocked: null };
}

function pinnable(definitions: readonly Definition[]): readonly Definition[] {
  return definitions.filter(({ key }) => key.length <= MAX_KEY).slice(0, MAX_PINS);
}

/** Each name once. */
function distinct(names: readonly DefinitionName[]): readonly DefinitionName[] {
  return [...new Map(names.map((name) => [pinKey(name), name])).values()];
}

/** By name: a server may offer a different definition to each kind of client. */
function groups(definitions: readonly Definition[]): Iterable<readonly Definition[]> {
  return Map.groupBy(definitions, (one) => pinKey(one)).values();
}
