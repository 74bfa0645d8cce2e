import { hash } from 'node:crypto';
import type { StateRecord } from '../../bus/shared-state.ts';
import { pause } from '../../model/clock.ts';
import { Counts } from '../../model/counts.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { SubscribedResource } from '../../model/ports.ts';
import type { ClusterParts } from '../cluster-deps.ts';
import type { Nodes } from '../nodes/nodes.ts';
import { SharedTable } from '../shared-table.ts';
import { jsonIn } from '../store-records.ts';
import type { TableOwner, TableSettings } from '../table-owner.ts';

export interface SharedSubscription extends SubscribedResource {
  readonly sessionId: string;
  /** `ownerOf` its principal's id; nodes of an earlier version omit it. */
  readonly of?: string;
}

type Deps = Pick<ClusterParts, 'bus' | 'state' | 'clock' | 'logger' | 'downstream' | 'gateway'>;

interface WrittenSubscription extends SharedSubscription {
  /** The node whose registry has the subscription. */
  readonly peer: string;
}

interface KnownSubscription {
  readonly written: WrittenSubscription;
  /** 0 until this node has received the record. */
  readonly revision: number;
}

const MAX_OF_SESSION = 1_000;
const MAX_IN_ALL = 65_536;
const SETTINGS: TableSettings = {
  bucket: 'trunkline_subscriptions',
  /** No session lives longer. */
  ttlMs: 30 * 24 * 3_600_000,
  maxWaiting: MAX_IN_ALL,
  reusesKeys: true,
};
/** Limit of pending writes, beyond which an unknown subscription that a client gives up is not deleted. */
const MAX_UNHEARD = 1_000;
const MAX_BYTES = 32 * 1024;
const RETRY_MS = 1_000;
const MAX_RETRY_MS = 30_000;
const LOOK_MS = 50;
const OPENING_MS = 10_000;

/**
 * The subscriptions of all sessions. Each is in the registry of one node. When that node is gone, the node that has the session's
 * stream, or gets it next, takes the subscription over: it subscribes and reports the resource as changed, because updates may be
 * lost. A compare-and-set on the revision decides between nodes.
 */
export class SharedSubscriptions implements TableOwner {
  readonly #deps: Deps;
  readonly #self: string;
  readonly #nodes: Pick<Nodes, 'get' | 'others'>;
  readonly #maxInAll: number;
  readonly #table: SharedTable;
  readonly #known = new Map<string, Map<string, KnownSubscription>>();
  #count = 0;
  /** Number of subscriptions in the registries of other nodes, by owner. */
  readonly #countsElsewhere = new Counts();
  /** Subscriptions in the registry of this node. */
  readonly #mine = new Map<string, WrittenSubscription>();
  readonly #taking = new Set<string>();
  #closed = false;

  constructor(deps: Deps, nodes: Pick<Nodes, 'get' | 'others'>, maxInAll = MAX_IN_ALL) {
    this.#deps = deps;
    this.#self = deps.bus.peer;
    this.#nodes = nodes;
    this.#maxInAll = maxInAll;
    const { bus, state, clock, logger } = deps;
    this.#table = new SharedTable({ bus, state, clock, logger, nodes }, SETTINGS, this);
  }

  /** Returns null if the session may have the subscription. Nodes that check at the same time may together exceed a limit. */
  refusal(subscription: Omit<SharedSubscription, 'exposed'>): GatewayError | null {
    const known = this.#known.get(subscription.sessionId);
    if (known?.has(keyOf(subscription)) === true) return null;
    const ofSession = (known?.size ?? 0) >= MAX_OF_SESSION;
    if (!ofSession && this.#count < this.#maxInAll) return null;
    const limit = ofSession ? MAX_OF_SESSION : this.#maxInAll;
    const whose = ofSession ? 'one session' : 'all sessions of the cluster';
    const text = `No more than ${limit} resources may be subscribed to at once in ${whose}: give up others first, or end sessions`;
    return new GatewayError('OVERLOADED', text);
  }

  made(subscription: SharedSubscription): void {
    const key = keyOf(subscription);
    const written = { ...subscription, peer: this.#self };
    const { length } = bytesOf(written);
    if (length > MAX_BYTES) {
      this.#deps.logger.warn('subscription_not_shared', { server: subscription.server, bytes: length });
      return;
    }
    this.#mine.set(key, written);
    // The session may end before this node receives the record.
    this.#know(key, written, this.#known.get(subscription.sessionId)?.get(key)?.revision ?? 0);
    this.#table.put(key, bytesOf(written));
  }

  /** Includes subscriptions of nodes that are gone. */
  countElsewhere(owner: string): number {
    return this.#countsElsewhere.of(owner);
  }

  givenUp(subscription: Omit<SharedSubscription, 'exposed'>): void {
    const key = keyOf(subscription);
    const known = this.#mine.delete(key) || this.#known.get(sessionOf(key))?.has(key) === true;
    if (known || this.#table.unwritten < MAX_UNHEARD) this.#table.put(key, null);
    this.#forget(key);
  }

  /** The node with the subscription deletes the record; any node deletes those of nodes that are gone. */
  ended(sessionId: string): void {
    for (const [key, { written }] of this.#known.get(sessionId) ?? []) {
      if (this.#mine.delete(key) || !this.#isThere(written.peer)) this.#table.put(key, null);
    }
  }

  /** `moved`: the stream was at another node, which may have died with updates, so that resources may have changed. */
  async opened(sessionId: string, moved: boolean): Promise<void> {
    const known = this.#known.get(sessionId);
    if (known === undefined || !(await this.#open(sessionId))) return;
    for (const [key, { written }] of [...known]) {
      if (!this.#isThere(written.peer)) void this.#takeOver(key, written);
      else if (moved) this.#hint(written);
    }
  }

  nodeGone(peer: string): void {
    for (const [sessionId, known] of this.#known) {
      if (!this.#deps.downstream.listening(sessionId)) continue;
      for (const [key, { written }] of known) if (written.peer === peer) void this.#takeOver(key, written);
    }
  }

  close(): Promise<void> {
    this.#closed = true;
    return this.#table.close();
  }

  received({ key, value, revision }: StateRecord): void {
    const written = writtenIn(value);
    if (this.#closed || written === null || keyOf(written) !== key) return;
    this.#know(key, written, revision);
    if (written.peer !== this.#self) this.#superseded(key);
  }

  gone(key: string): void {
    if (this.#closed) return;
    this.#superseded(key);
    this.#forget(key);
  }

  /** Restores only subscriptions of this node; other nodes restore their own. */
  recall(key: string): Buffer | null {
    const mine = this.#mine.get(key);
    if (mine === undefined) this.#forget(key);
    return mine === undefined ? null : bytesOf(mine);
  }

  owns({ value }: StateRecord): boolean {
    return writtenIn(value)?.peer === this.#self;
  }

  #isThere(peer: string): boolean {
    return peer === this.#self || this.#nodes.get(peer) !== null;
  }

  async #open(sessionId: string): Promise<boolean> {
    const { clock } = this.#deps;
    const end = clock.now() + OPENING_MS;
    while (!this.#deps.downstream.listening(sessionId)) {
      if (this.#closed || clock.now() >= end) return false;
      await pause(clock, LOOK_MS);
    }
    return true;
  }

  async #takeOver(key: string, { sessionId }: WrittenSubscription): Promise<void> {
    if (this.#taking.has(key)) return;
    this.#taking.add(key);
    let pauseMs = RETRY_MS;
    while (
      !this.#closed &&
      this.#deps.downstream.listening(sessionId) &&
      (await this.#tried(key, sessionId)) === 'later'
    ) {
      await pause(this.#deps.clock, pauseMs);
      pauseMs = Math.min(pauseMs * 2, MAX_RETRY_MS);
    }
    this.#taking.delete(key);
  }

  async #tried(key: string, sessionId: string): Promise<'over' | 'later'> {
    const known = this.#known.get(sessionId)?.get(key);
    if (known === undefined) return 'over';
    const { peer } = known.written;
    const mine: WrittenSubscription = { ...known.written, peer: this.#self };
    // The record names this node already if an earlier attempt could not ask the server, or got no answer of the store.
    if (peer !== this.#self) {
      if (this.#nodes.get(peer) !== null) return 'over';
      try {
        const revision = await this.#table.bucket.update(key, bytesOf(mine), known.revision);
        // Another node wrote it, or an earlier attempt of this one: the record, when it arrives, shows which.
        if (revision === null) return 'later';
        const now = this.#known.get(sessionId)?.get(key);
        if (now !== known && now?.written.peer !== this.#self) return 'over';
        this.#know(key, mine, revision);
      } catch {
        return 'later';
      }
    }
    this.#mine.set(key, mine);
    const { downstream, gateway } = this.#deps;
    const client = downstream.clientOf(sessionId);
    const how = client === null ? 'later' : await gateway.subscribeAgain(client, mine);
    if (how === 'later') return 'later';
    // The client gave it up, or another node took it over, while this node asked the server.
    if (!this.#mine.has(key)) this.#drop(mine);
    else if (how === 'refused') {
      this.givenUp(mine);
      this.#hint(mine);
    }
    return 'over';
  }

  #hint({ sessionId, exposed }: SharedSubscription): void {
    this.#deps.gateway.mayHaveChanged(sessionId, exposed);
  }

  #drop({ sessionId, server, uri }: SharedSubscription): void {
    this.#deps.gateway.givenUp(sessionId, server, uri);
  }

  #superseded(key: string): void {
    const mine = this.#mine.get(key);
    if (mine === undefined) return;
    this.#mine.delete(key);
    this.#drop(mine);
  }

  #know(key: string, written: WrittenSubscription, revision: number): void {
    const { sessionId } = written;
    let known = this.#known.get(sessionId);
    const before = known?.get(key);
    if (known === undefined) this.#known.set(sessionId, (known = new Map()));
    if (before === undefined) this.#count++;
    else this.#countElsewhere(before.written, -1);
    this.#countElsewhere(written, 1);
    known.set(key, { written, revision });
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
    if (typeof of === 'string' && peer !== this.#self) this.#countsElsewhere.add(of, change);
  }
}

/** A short digest of the principal's id. */
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
  const written = jsonIn<WrittenSubscription>(value);
  if (written === null) return null;
  const { sessionId, server, uri, exposed, peer } = written;
  return [sessionId, server, uri, exposed, peer].every((word) => typeof word === 'string') ? written : null;
}
