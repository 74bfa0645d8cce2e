import { createHash } from 'node:crypto';
import {
  type ApprovedDefinition,
  type DefinitionName,
  type DriftEvent,
  type DriftRecord,
  PINNED_LISTS,
  type Pin,
  type PinsChange,
  pinKey,
  type ServerPins,
} from '../../model/drift.ts';
import type { Random } from '../../model/random.ts';
import {
  checkBounds,
  type RunTimeStore,
  STORE_LIMITS,
  StoreError,
  type StoreRecord,
  type StoreWrite,
} from './run-time-store.ts';

/** The server that pins belong to, and when it was first trusted; one record per server. */
const SERVERS = 'pins.servers';
const PINS = 'pins';
/** One record per event; keys are ordered from the newest to the oldest. */
const EVENTS = 'pins.events';

const MAX_EVENTS = 500;
/** Later than any clock value; the difference to it grows as events get older. */
const END_OF_TIME = 10 ** 14;
/** Bounds of one part of a change that may be stored in parts, well below those of `RunTimeStore`. */
const WRITES_AT_ONCE = 250;
const BYTES_AT_ONCE = 4 * 1024 * 1024;
/** Only the digest of a larger definition is stored. */
export const MAX_DEFINITION_BYTES = 32 * 1024;

/** Pins and their history in the run-time store (docs/drift.md). Rejects if the store fails: pins never silently disappear. */
export class StoredPins {
  readonly #runTimeStore: RunTimeStore;
  /** Distinguishes the events of this process from those of others that use the store. */
  readonly #run: string;
  /** Revisions of the records as last read or written, by collection and key. */
  readonly #revisions = new Map<string, number>();
  /** The parsed pins of the last read: every node reads every change of the store, and most pins stay the same. */
  #read = new Map<string, { readonly value: string; readonly server: string; readonly pin: Pin }>();
  #loaded = new Map<string, ServerPins>();
  #lastEvent = '';
  #count = 0;

  constructor(runTimeStore: RunTimeStore, random: Random) {
    this.#runTimeStore = runTimeStore;
    this.#run = random.hex(4);
  }

  async load(): Promise<readonly ServerPins[]> {
    const { records } = await this.#runTimeStore.read([SERVERS, PINS]);
    const before = this.#read;
    this.#read = new Map();
    this.#revisions.clear();
    const servers = new Map<string, { trustedAt: number | null; pins: Map<string, Pin> }>();
    const of = (server: string) => {
      let known = servers.get(server);
      if (known === undefined) servers.set(server, (known = { trustedAt: null, pins: new Map() }));
      return known;
    };
    for (const record of records.get(SERVERS)?.values() ?? []) {
      const { server, trustedAt } = read(record) as { server: string; trustedAt: number };
      this.#revisions.set(`${SERVERS} ${record.key}`, record.revision);
      of(server).trustedAt = trustedAt;
    }
    for (const record of records.get(PINS)?.values() ?? []) {
      const known = before.get(record.key);
      const one = known?.value === record.value ? known : pinIn(record);
      this.#read.set(record.key, one);
      this.#revisions.set(`${PINS} ${record.key}`, record.revision);
      of(one.server).pins.set(pinKey(one.pin), one.pin);
    }
    const loaded = Array.from(servers, ([server, { trustedAt, pins }]) => {
      const last = this.#loaded.get(server);
      return last !== undefined && isSame(last, trustedAt, pins) ? last : { server, trustedAt, pins };
    });
    this.#loaded = new Map(loaded.map((one) => [one.server, one]));
    return loaded;
  }

  /** Durable when it resolves; false if the stored pins have changed since they were read. Rejects if it is too large. */
  async save(server: string, change: PinsChange): Promise<boolean> {
    const writes: StoreWrite[] = [];
    for (const pin of change.pins) writes.push(this.#put(PINS, keyOf(server, pin), stored(server, pin)));
    for (const name of change.removed) writes.push(this.#drop(PINS, keyOf(server, name)));
    if (change.trustedAt !== undefined) {
      writes.push(this.#put(SERVERS, part(server), { server, trustedAt: change.trustedAt }));
    }
    for (const event of change.events) {
      writes.push({
        kind: 'put',
        collection: EVENTS,
        key: this.#eventKey(server, event.at),
        value: JSON.stringify(event),
      });
    }
    // `trustedAt` follows all pins: a longer first listing counts as trusted only when all its pins are stored.
    for (const some of change.inParts === true ? portions(writes) : boundedChange(server, writes)) {
      const applied = await this.#runTimeStore.apply(some);
      if (!applied.ok) return false;
      for (const write of some) {
        if (write.kind === 'put') this.#revisions.set(`${write.collection} ${write.key}`, applied.revision);
        else this.#revisions.delete(`${write.collection} ${write.key}`);
      }
    }
    if (change.events.length > 0) await this.#prune(server);
    return true;
  }

  /** Newest first; bounded per server. */
  async history(server: string, { limit, after }: { readonly limit: number; readonly after?: string }) {
    const prefix = `${part(server)}/`;
    const page = await this.#runTimeStore.list(EVENTS, {
      prefix,
      limit,
      ...(after === undefined ? {} : { after: prefix + after }),
    });
    return page.map(
      (record): DriftRecord => ({ ...(read(record) as DriftEvent), id: record.key.slice(prefix.length) }),
    );
  }

  async forget(server: string): Promise<void> {
    const writes: StoreWrite[] = [{ kind: 'delete', collection: SERVERS, key: part(server) }];
    for (const collection of [PINS, EVENTS]) {
      for (let after: string | undefined; ; ) {
        const prefix = `${part(server)}/`;
        const page = await this.#runTimeStore.list(collection, { prefix, ...(after === undefined ? {} : { after }) });
        for (const { key } of page) writes.push({ kind: 'delete', collection, key });
        after = page.at(-1)?.key;
        if (after === undefined) break;
      }
    }
    for (const some of portions(writes)) {
      await this.#runTimeStore.apply(some);
      for (const { collection, key } of some) this.#revisions.delete(`${collection} ${key}`);
    }
  }

  async #prune(server: string): Promise<void> {
    const kept = await this.#runTimeStore.list(EVENTS, {
      prefix: `${part(server)}/`,
      limit: MAX_EVENTS + STORE_LIMITS.writes,
    });
    const old = kept.slice(MAX_EVENTS);
    if (old.length > 0)
      await this.#runTimeStore.apply(old.map(({ key }) => ({ kind: 'delete', collection: EVENTS, key })));
  }

  #put(collection: string, key: string, value: object): StoreWrite {
    const expected = this.#revisions.get(`${collection} ${key}`) ?? null;
    return { kind: 'put', collection, key, value: JSON.stringify(value), expected };
  }

  #drop(collection: string, key: string): StoreWrite {
    const expected = this.#revisions.get(`${collection} ${key}`) ?? null;
    return { kind: 'delete', collection, key, expected };
  }

  /** Unique in the store; events of this process in the same millisecond stay in order. */
  #eventKey(server: string, at: number): string {
    const time = String(END_OF_TIME - Math.floor(at)).padStart(15, '0');
    this.#count = this.#lastEvent === time ? this.#count + 1 : 0;
    this.#lastEvent = time;
    return `${part(server)}/${time}-${String(9_999_999 - this.#count)}-${this.#run}`;
  }
}

/** The part of StoredPins that PinBook uses. */
export type PinRecords = Pick<StoredPins, 'load' | 'save' | 'history' | 'forget'>;

type StoredPin = DefinitionName & {
  readonly server: string;
  readonly approved: readonly (Omit<ApprovedDefinition, 'definition'> & { readonly definition: string | null })[];
  readonly blocked: Pin['blocked'];
};

function stored(server: string, pin: Pin): StoredPin {
  const approved = pin.approved.map((one) => ({ ...one, definition: textOf(one.definition) }));
  return { server, list: pin.list, key: pin.key, approved, blocked: pin.blocked };
}

function pinIn(record: StoreRecord) {
  const { server, ...stored } = read(record) as StoredPin;
  return { value: record.value, server, pin: pinOf(stored) };
}

function isSame(last: ServerPins, trustedAt: number | null, pins: ReadonlyMap<string, Pin>): boolean {
  if (last.trustedAt !== trustedAt || last.pins.size !== pins.size) return false;
  return [...pins].every(([key, pin]) => last.pins.get(key) === pin);
}

function pinOf({ list, key, approved, blocked }: Omit<StoredPin, 'server'>): Pin {
  if (!PINNED_LISTS.includes(list)) throw new StoreError('damaged', `pins of an unknown list: ${list}`);
  const back = approved.map((one) => ({
    ...one,
    definition: one.definition === null ? null : Buffer.from(one.definition),
  }));
  return { list, key, approved: back, blocked };
}

/** null for a definition that is too large, or that does not survive decoding and encoding as UTF-8. */
function textOf(definition: Buffer | null): string | null {
  if (definition === null || definition.length > MAX_DEFINITION_BYTES) return null;
  const text = definition.toString();
  if (JSON.stringify(text).length > 3 * MAX_DEFINITION_BYTES) return null;
  return Buffer.from(text).equals(definition) ? text : null;
}

function boundedChange(server: string, writes: readonly StoreWrite[]): readonly (readonly StoreWrite[])[] {
  try {
    checkBounds(writes);
  } catch (error) {
    const words = `the change of the pins of ${server} is too large for the store (${(error as Error).message})`;
    throw new StoreError('unavailable', `${words}; decide about fewer definitions at a time`, error);
  }
  return [writes];
}

function* portions(writes: readonly StoreWrite[]): Generator<readonly StoreWrite[], void, undefined> {
  let some: StoreWrite[] = [];
  let bytes = 0;
  for (const write of writes) {
    const size = write.kind === 'put' ? Buffer.byteLength(write.value) : 0;
    if (some.length > 0 && (some.length === WRITES_AT_ONCE || bytes + size > BYTES_AT_ONCE)) {
      yield some;
      some = [];
      bytes = 0;
    }
    some.push(write);
    bytes += size;
  }
  if (some.length > 0) yield some;
}

function read(record: StoreRecord): unknown {
  try {
    return JSON.parse(record.value);
  } catch (cause) {
    throw new StoreError('damaged', `the record ${record.key} cannot be read`, cause);
  }
}

function keyOf(server: string, { list, key }: DefinitionName): string {
  return `${part(server)}/${list}/${part(key)}`;
}

/** One part of a key: short, and without slashes. */
function part(name: string): string {
  const encoded = encodeURIComponent(name.toWellFormed());
  return encoded.length <= 200 && name.isWellFormed() ? encoded : `~${createHash('sha256').update(name).digest('hex')}`;
}
