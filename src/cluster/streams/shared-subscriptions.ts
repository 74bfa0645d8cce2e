import { hash } from 'node:crypto';
import type { StateRecord } from '../../bus/shared-state.ts';
import { pause } from '../../model/clock.ts';
import type { ClusterDeps } from '../cluster-deps.ts';
import { LazyBucket } from '../lazy-bucket.ts';
import type { Nodes } from '../nodes/nodes.ts';

export interface SharedSubscription {
  readonly sessionId: string;
  readonly server: string;
  readonly uri: string;
  /** The client's name of it. */
  readonly exposed: string;
  /** `ownerOf` its principal; absent from nodes of an earlier version. */
  readonly of?: string;
}

/** `later`: the server could not be asked. */
export type SubscribedAgain = 'agreed' | 'refused' | 'later';

export interface SubscriptionOwner {
  listening(sessionId: string): boolean;
  /** Subscribes and reports the resource as changed. Never rejects. */
  again(subscription: SharedSubscription): Promise<SubscribedAgain>;
  hint(subscription: SharedSubscription): void;
  drop(subscription: SharedSubscription): void;
}

type Deps = Pick<ClusterDeps, 'bus' | 'state' | 'clock' | 'logger'>;

interface WrittenSubscription extends SharedSubscription {
  /** The node whose registry has it. */
  readonly peer: string;
}

interface KnownSubscription {
  readonly written: WrittenSubscription;
  readonly revision: number;
  readonly telling: number;
}

/** In the registry of this node. */
interface Mine {
  readonly written: WrittenSubscription;
  /** In this listing; 0: none yet. */
  revision: number;
  telling: number;
}

/** What is received during a write may be older or newer. */
interface Writing {
  readonly key: string;
  /** Revision in which another node had it, or it was deleted; 0: none. */
  superseded: number;
  telling: number;
}

const BUCKET = 'trunkline_subscriptions';
/** No session lives longer. */
const KEPT_MS = 30 * 24 * 3_600_000;
const MAX_OF_SESSION = 1_000;
const MAX_IN_ALL = 65_536;
/** Given up here before they were received. */
const MAX_UNHEARD = 1_000;
const MAX_BYTES = 32 * 1024;
const AGAIN_MS = 1_000;
const MAX_AGAIN_MS = 30_000;
const LOOK_MS = 50;
const OPENING_MS = 10_000;

/**
 * The subscriptions of all sessions. Each is in the registry of one node; when that node is gone, the node with the session's
 * stream, now or next, takes it over: it subscribes and reports the resource as changed, because updates may be lost. Of several
 * nodes one wins, by a write on the revision.
 */
export class SharedSubscriptions {
  readonly #deps: Deps;
  readonly #self: string;
  readonly #nodes: Pick<Nodes, 'get'>;
  readonly #owner: SubscriptionOwner;
  readonly #bucket: LazyBucket;
  readonly #known = new Map<string, Map<string, KnownSubscription>>();
  #count = 0;
  /** Per principal, in registries of other nodes. */
  readonly #countsElsewhere = new Map<string, number>();
  readonly #mine = new Map<string, Mine>();
  /** Null deletes. */
  readonly #unwritten = new Map<string, WrittenSubscription | null>();
  readonly #taking = new Set<string>();
  #running = false;
  #writing: Writing | null = null;
  #telling = 0;
  #watch: { close(): void } | null = null;
  #stop: () => void = () => {};
  #closed = false;

  constructor(deps: Deps, nodes: Pick<Nodes, 'get'>, owner: SubscriptionOwner) {
    this.#deps = deps;
    this.#self = deps.bus.peer;
    this.#nodes = nodes;
    this.#owner = owner;
    this.#bucket = new LazyBucket(deps.state, BUCKET, { ttlMs: KEPT_MS });
    void this.#follow();
  }

  made(subscription: SharedSubscription): void {
    const key = keyOf(subscription);
    const known = this.#known.get(subscription.sessionId);
    const further = known?.has(key) === true ? 0 : 1;
    const written = { ...subscription, peer: this.#self };
    const full = this.#count + further > MAX_IN_ALL || (known?.size ?? 0) + further > MAX_OF_SESSION;
    if (full || bytesOf(written).length > MAX_BYTES) {
      this.#deps.logger.warn('subscription_not_shared', { server: subscription.server, known: this.#count });
      return;
    }
    this.#mine.set(key, { written, revision: 0, telling: this.#telling });
    // Its session may end before it is received.
    this.#know(key, written, known?.get(key)?.revision ?? 0);
    this.#put(key, written);
  }

  /** Nodes that are gone included. */
  countElsewhere(owner: string): number {
    return this.#countsElsewhere.get(owner) ?? 0;
  }

  givenUp(subscription: Omit<SharedSubscription, 'exposed'>): void {
    const key = keyOf(subscription);
    const heard = this.#mine.delete(key) || this.#isKnown(key) || this.#unwritten.has(key);
    if (heard || this.#unwritten.size < MAX_UNHEARD) this.#put(key, null);
  }

  /** The node with the subscription deletes the record; any node deletes those of nodes that are gone. */
  ended(sessionId: string): void {
    for (const [key, { written }] of this.#known.get(sessionId) ?? []) {
      if (this.#mine.delete(key) || !this.#isThere(written.peer)) this.#put(key, null);
    }
  }

  /** `moved`: from a node that may have died with what was missed. */
  async opened(sessionId: string, moved: boolean): Promise<void> {
    const known = this.#known.get(sessionId);
    if (known === undefined || !(await this.#open(sessionId))) return;
    for (const [key, { written }] of [...known]) {
      if (!this.#isThere(written.peer)) void this.#takeOver(key, written);
      else if (moved) this.#owner.hint(written);
    }
  }

  gone(peer: string): void {
    for (const [sessionId, known] of this.#known) {
      if (!this.#owner.listening(sessionId)) continue;
      for (const [key, { written }] of known) if (written.peer === peer) void this.#takeOver(key, written);
    }
  }

  close(): void {
    this.#closed = true;
    this.#watch?.close();
    this.#stop();
  }

  #isThere(peer: string): boolean {
    return peer === this.#self || this.#nodes.get(peer) !== null;
  }

  async #open(sessionId: string): Promise<boolean> {
    const { clock } = this.#deps;
    const end = clock.now() + OPENING_MS;
    while (!this.#owner.listening(sessionId)) {
      if (this.#closed || clock.now() >= end) return false;
      await pause(this.#deps.clock, LOOK_MS);
    }
    return true;
  }

  async #takeOver(key: string, { sessionId }: WrittenSubscription): Promise<void> {
    if (this.#taking.has(key)) return;
    this.#taking.add(key);
    let pauseMs = AGAIN_MS;
    while (!this.#closed && this.#owner.listening(sessionId) && (await this.#tried(key, sessionId)) === 'later') {
      await pause(this.#deps.clock, pauseMs);
      pauseMs = Math.min(pauseMs * 2, MAX_AGAIN_MS);
    }
    this.#taking.delete(key);
  }

  async #tried(key: string, sessionId: string): Promise<'over' | 'later'> {
    const known = this.#known.get(sessionId)?.get(key);
    if (known === undefined) return 'over';
    const { peer } = known.written;
    // Ours already if the server could not be asked before.
    if (peer !== this.#self) {
      if (this.#nodes.get(peer) !== null) return 'over';
      const written: WrittenSubscription = { ...known.written, peer: this.#self };
      try {
        const revision = await this.#bucket.update(key, bytesOf(written), known.revision);
        if (revision === null) return 'over';
        this.#know(key, written, revision);
        this.#mine.set(key, { written, revision, telling: this.#telling });
      } catch {
        return 'later';
      }
    }
    const mine = this.#mine.get(key)?.written;
    if (mine === undefined) return 'over';
    const how = await this.#owner.again(mine);
    if (how === 'later') return 'later';
    // Given up or taken over while the server was asked.
    if (!this.#mine.has(key)) this.#owner.drop(mine);
    else if (how === 'refused') {
      this.givenUp(mine);
      this.#owner.hint(mine);
    }
    return 'over';
  }

  #put(key: string, written: WrittenSubscription | null): void {
    this.#unwritten.set(key, written);
    if (!this.#running) void this.#write();
  }

  async #write(): Promise<void> {
    this.#running = true;
    while (this.#unwritten.size > 0 && !this.#closed) {
      const [key, written] = this.#unwritten.entries().next().value!;
      this.#unwritten.delete(key);
      const writing: Writing = { key, superseded: 0, telling: this.#telling };
      this.#writing = writing;
      try {
        if (written === null) await this.#delete(key);
        else this.#wrote(key, written, await this.#bucket.put(key, bytesOf(written)));
      } catch (error) {
        this.#deps.logger.debug('subscription_not_written', { error: String(error) });
        if (!this.#unwritten.has(key)) this.#unwritten.set(key, written);
        await pause(this.#deps.clock, AGAIN_MS);
      }
      this.#writing = null;
      if (writing.superseded > 0 && writing.telling === this.#telling) this.#superseded(key, writing.superseded);
    }
    this.#running = false;
  }

  /** A deletion leaves a record for as long: none is made of what never existed. */
  async #delete(key: string): Promise<void> {
    if (this.#isKnown(key) || (await this.#bucket.get(key)) !== null) await this.#bucket.delete(key);
  }

  #wrote(key: string, written: WrittenSubscription, revision: number): void {
    const mine = this.#mine.get(key);
    if (mine?.written === written) Object.assign(mine, { revision, telling: this.#telling });
  }

  async #follow(): Promise<void> {
    try {
      const watch = await this.#bucket.watch('>', {
        put: (record) => this.#heard(record),
        gone: (key, revision) => this.#gone(key, revision),
        onBegin: () => this.#telling++,
        onReady: () => this.#allRead(),
      });
      if (this.#closed) watch.close();
      else this.#watch = watch;
    } catch (error) {
      if (this.#closed) return;
      this.#deps.logger.debug('subscriptions_not_followed', { error: String(error) });
      this.#stop = this.#deps.clock.after(AGAIN_MS, () => void this.#follow());
    }
  }

  #heard({ key, value, revision }: StateRecord): void {
    const written = writtenIn(value);
    if (written === null || keyOf(written) !== key) return;
    if (this.#know(key, written, revision) && written.peer !== this.#self) this.#superseded(key, revision);
  }

  #gone(key: string, revision: number): void {
    this.#superseded(key, revision);
    if (!this.#mine.has(key)) this.#forget(key);
  }

  /** What this node has written may be newer. */
  #superseded(key: string, revision: number): void {
    if (this.#unwritten.has(key)) return;
    if (this.#writing?.key === key) {
      Object.assign(this.#writing, { superseded: revision, telling: this.#telling });
      return;
    }
    const mine = this.#mine.get(key);
    if (mine === undefined || (mine.telling === this.#telling && revision < mine.revision)) return;
    this.#mine.delete(key);
    this.#owner.drop(mine.written);
  }

  /** False if it is older than what is known. */
  #know(key: string, written: WrittenSubscription, revision: number): boolean {
    const { sessionId } = written;
    let known = this.#known.get(sessionId);
    const before = known?.get(key);
    if (before !== undefined && before.telling === this.#telling && before.revision > revision) return false;
    if (before === undefined && this.#count >= MAX_IN_ALL) return false;
    if (known === undefined) this.#known.set(sessionId, (known = new Map()));
    if (before === undefined) this.#count++;
    else this.#countElsewhere(before.written, -1);
    this.#countElsewhere(written, 1);
    known.set(key, { written, revision, telling: this.#telling });
    return true;
  }

  #isKnown(key: string): boolean {
    return this.#known.get(sessionOf(key))?.has(key) === true;
  }

  #forget(key: string): void {
    const sessionId = sessionOf(key);
    const known = this.#known.get(sessionId);
    const gone = known?.get(key);
    if (known === undefined || gone === undefined) return;
    known.delete(key);
    this.#countElsewhere(gone.written, -1);
    this.#count--;
    if (known.size === 0) this.#known.delete(sessionId);
  }

  #countElsewhere({ peer, of }: WrittenSubscription, change: number): void {
    if (typeof of !== 'string' || peer === this.#self) return;
    const count = this.countElsewhere(of) + change;
    if (count > 0) this.#countsElsewhere.set(of, count);
    else this.#countsElsewhere.delete(of);
  }

  /** What was not listed is gone; what the store has lost of this node's is written again. */
  #allRead(): void {
    for (const known of [...this.#known.values()]) {
      for (const [key, { telling }] of [...known]) {
        if (telling >= this.#telling) continue;
        const mine = this.#mine.get(key);
        if (mine === undefined) this.#forget(key);
        else if (!this.#unwritten.has(key)) this.#put(key, mine.written);
      }
    }
  }
}

/** Short. */
export function ownerOf(principal: string): string {
  return hash('sha256', principal).slice(0, 16);
}

function keyOf({ sessionId, server, uri }: Omit<SharedSubscription, 'exposed'>): string {
  return `${sessionId}.${hash('sha256', `${server}\0${uri}`).slice(0, 32)}`;
}

function sessionOf(key: string): string {
  return key.slice(0, key.indexOf('.'));
}

function bytesOf(written: WrittenSubscription): Buffer {
  return Buffer.from(JSON.stringify(written));
}

function writtenIn(value: Buffer): WrittenSubscription | null {
  try {
    const written = JSON.parse(value.toString()) as WrittenSubscription;
    const { sessionId, server, uri, exposed, peer } = written;
    return [sessionId, server, uri, exposed, peer].every((word) => typeof word === 'string') ? written : null;
  } catch {
    return null;
  }
}
