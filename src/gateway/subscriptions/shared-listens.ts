import type { ClientProfile } from '../../model/client-profile.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import type { Message } from '../../model/message.ts';
import { failure, type Outcome } from '../../model/outcome.ts';
import { bodyString } from '../../protocol/body.ts';
import { request } from '../../protocol/compose.ts';
import { LISTEN } from '../../protocol/methods.ts';
import { withTasksExtension } from '../../protocol/tasks.ts';
import type { AnswerCache } from '../cache/answer-cache.ts';
import type { CommonParts } from '../common-parts.ts';
import { isUpdate, isWithin, updatedUri } from '../resource-updates.ts';
import { honouredBy, membersOf, resourceOf, taskOf, updatesOf, type Wanted } from './listen-filter.ts';
import { ListenOwner, openListen } from './server-listen.ts';

/** How long to wait for an acknowledgement before everything counts as honoured. */
const ACK_WAIT_MS = 2_000;
/** How long the old listen stays open beside its successor, for notifications in flight on it. */
const OVERLAP_MS = 250;
/** The delay before unwanted subscriptions are ended, all at once. */
const SHRINK_MS = 1_000;
/** The delay before a listen that the server ended is reopened; it doubles while the server holds none for long. */
const ASK_AGAIN_MS = 2_000;
const ASK_AGAIN_MAX_MS = 120_000;
const HELD_LONG_MS = 60_000;

/** A client's stream that gets notifications of a server through the shared listen stream. */
export interface Subscriber {
  readonly client: ClientProfile;
  readonly wanted: Wanted;
  /** Called once, with what the server honours of it; with a `refusal` nothing, and the subscriber is removed. */
  settled(honoured: Wanted, refusal: Outcome | null): void;
  /** A notification that concerns it, in the server's era and names. */
  received(message: Message): void;
}

interface SharedListenDeps extends CommonParts {
  readonly cache: AnswerCache;
}

/** The shared listen streams of all stateless servers: one for the clients that share a connection and a principal. */
export class SharedListens {
  readonly #deps: SharedListenDeps;
  readonly #sharedListens = new Map<string, SharedListen>();
  readonly #joined = new Map<Subscriber, SharedListen>();

  constructor(deps: SharedListenDeps) {
    this.#deps = deps;
  }

  /** Delivers notifications of the server to it until it leaves. */
  join(server: string, subscriber: Subscriber): void {
    const { client } = subscriber;
    const connection = this.#deps.upstreams.sessionKey(server, client) ?? '';
    const key = `${server}\0${client.principal.id}\0${connection}`;
    let shared = this.#sharedListens.get(key);
    if (shared === undefined) {
      shared = new SharedListen(this.#deps, server, () => this.#sharedListens.delete(key));
      this.#sharedListens.set(key, shared);
    }
    this.#joined.set(subscriber, shared);
    shared.join(subscriber);
  }

  /** Must be called once for every subscriber, also for one that was refused. */
  leave(subscriber: Subscriber): void {
    this.#joined.get(subscriber)?.leave(subscriber);
    this.#joined.delete(subscriber);
  }

  close(): void {
    for (const shared of [...this.#sharedListens.values()]) shared.close();
  }
}

/**
 * The gateway's one `subscriptions/listen` at a stateless server for all clients that share a connection to it and a principal
 * (decision 015). It asks for what any of them wants; each gets only what it wants. When the sum changes, the new listen is
 * acknowledged before the old one is closed, so that nothing is missed; an update may then come twice, which is harmless. After
 * a break every resource counts as updated.
 */
class SharedListen {
  readonly #deps: SharedListenDeps;
  readonly #server: string;
  readonly #emptied: () => void;
  readonly #subscribers = new Set<Subscriber>();
  /** Subscribers that wait for `settled`. */
  readonly #waiting = new Set<Subscriber>();
  #current: UpstreamListen | null = null;
  #next: UpstreamListen | null = null;
  #retiring: UpstreamListen | null = null;
  #oneByOne = false;
  /** Whether there was no listen for some time since the last acknowledgement. */
  #gap = false;
  #disarm: (() => void) | null = null;
  #opened = 0;
  #askAgainMs = ASK_AGAIN_MS;
  /** When a listen was last accepted after a time without one. */
  #heldSince = 0;

  constructor(deps: SharedListenDeps, server: string, emptied: () => void) {
    this.#deps = deps;
    this.#server = server;
    this.#emptied = emptied;
  }

  join(subscriber: Subscriber): void {
    this.#subscribers.add(subscriber);
    const { honoured, wanted } = this.#current ?? { honoured: null, wanted: NOTHING };
    if (honoured !== null && subscriber.wanted.isSubsetOf(wanted)) {
      subscriber.settled(commonOf(honoured, subscriber.wanted), null);
      return;
    }
    this.#waiting.add(subscriber);
    this.#refresh();
  }

  leave(subscriber: Subscriber): void {
    this.#waiting.delete(subscriber);
    if (!this.#subscribers.delete(subscriber)) return;
    if (this.#subscribers.size === 0) this.close();
    else this.#refreshLater(SHRINK_MS);
  }

  close(): void {
    this.#disarm?.();
    this.#disarm = null;
    for (const listen of [this.#retiring, this.#current, this.#next]) listen?.end();
    this.#retiring = this.#current = this.#next = null;
    this.#emptied();
  }

  #askAgain(): void {
    this.#refreshLater(this.#askAgainMs);
    this.#askAgainMs = Math.min(2 * this.#askAgainMs, ASK_AGAIN_MAX_MS);
  }

  #refreshLater(delayMs: number): void {
    this.#disarm ??= this.#deps.clock.after(delayMs, () => {
      this.#disarm = null;
      this.#refresh();
    });
  }

  /** Opens a listen for what is wanted now, if that differs from the current one. */
  #refresh(): void {
    if (this.#next !== null || this.#subscribers.size === 0) return;
    const wanted = this.#wanted();
    const differs = this.#current === null || this.#current.wanted.symmetricDifference(wanted).size > 0;
    if (differs) this.#open(wanted);
  }

  #wanted(): Wanted {
    const [first] = this.#waiting;
    const alone = this.#oneByOne && first !== undefined;
    const all = alone ? [...this.#subscribers.difference(this.#waiting), first] : [...this.#subscribers];
    return new Set(all.flatMap((subscriber) => [...subscriber.wanted]));
  }

  #open(wanted: Wanted): void {
    const { clock } = this.#deps;
    const [newest] = this.#waiting.size > 0 ? this.#waiting : this.#subscribers;
    // A client that wants task notifications must declare the extension (SEP-2663 §Task Status Notifications).
    const tasks = wanted.values().some((name) => name.startsWith(taskOf('')));
    const client = tasks ? takingTasks(newest!.client) : newest!.client;
    const listen = new UpstreamListen(`feed:${this.#server}:${++this.#opened}`, client, wanted);
    this.#next = listen;
    const params = JSON.stringify({ notifications: membersOf(wanted) });
    listen.onEnd(
      clock.after(ACK_WAIT_MS, () => {
        listen.honoured ??= wanted;
        this.#accepted(listen);
      }),
    );
    // Upstream translates it to the server's era, with this client's profile.
    openListen(this.#deps, listen, this.#server, request(LISTEN, '0', params, 'stateful'), {
      acknowledged: (message) => {
        const again = listen.honoured !== null;
        listen.honoured = honouredBy(message);
        if (again) this.#notifyMissed(listen.honoured);
        else this.#accepted(listen);
      },
      received: (message) => this.#deliver(message),
      answered: (outcome) => this.#ended(listen, outcome),
    });
  }

  /** It replaces the current one. */
  #accepted(listen: UpstreamListen): void {
    if (listen !== this.#next) return;
    this.#next = null;
    if (this.#current !== null) this.#retire(this.#current);
    else this.#heldSince = this.#deps.clock.now();
    this.#current = listen;
    const honoured = listen.honoured!;
    if (this.#gap) this.#notifyMissed(honoured);
    this.#gap = false;
    for (const subscriber of this.#waiting) {
      if (!subscriber.wanted.isSubsetOf(listen.wanted)) continue;
      this.#waiting.delete(subscriber);
      subscriber.settled(commonOf(honoured, subscriber.wanted), null);
    }
    if (this.#waiting.size === 0) this.#oneByOne = false;
    this.#refresh();
  }

  #retire(old: UpstreamListen): void {
    this.#retiring?.end();
    this.#retiring = old;
    old.onEnd(
      this.#deps.clock.after(OVERLAP_MS, () => {
        old.end();
        if (this.#retiring === old) this.#retiring = null;
      }),
    );
  }

  /** The server refused or ended the listen. */
  #ended(listen: UpstreamListen, outcome: Outcome): void {
    listen.end();
    if (listen === this.#current) {
      this.#current = null;
      this.#gap = true;
      if (this.#deps.clock.now() - this.#heldSince >= HELD_LONG_MS) this.#askAgainMs = ASK_AGAIN_MS;
      this.#askAgain();
    } else if (listen === this.#next) {
      this.#next = null;
      this.#refused(listen, outcome);
    }
  }

  #refused(listen: UpstreamListen, outcome: Outcome): void {
    if (this.#waiting.size > 1 && !this.#oneByOne) {
      // One of them asks for something that the server refuses: asks for one at a time, so that the others get theirs.
      this.#oneByOne = true;
      this.#refresh();
      return;
    }
    const refusal = outcome.kind === 'answer' && outcome.message.kind === 'error' ? outcome : failure(notTaken());
    for (const subscriber of this.#waiting) {
      if (!subscriber.wanted.isSubsetOf(listen.wanted)) continue;
      this.#waiting.delete(subscriber);
      this.#subscribers.delete(subscriber);
      subscriber.settled(NOTHING, refusal);
    }
    if (this.#subscribers.size === 0) this.close();
    else if (this.#waiting.size > 0) this.#refresh();
    else if (this.#current === null) this.#askAgain();
  }

  #notifyMissed(honoured: Wanted): void {
    this.#deps.cache.invalidate(this.#server, null);
    for (const update of updatesOf(honoured)) this.#deliver(update);
  }

  #deliver(message: Message): void {
    const update = isUpdate(message);
    const named = update ? updatedUri(message)?.uri : bodyString(message, 'taskId');
    if (named == null) return;
    const name = update ? resourceOf(named) : taskOf(named);
    for (const subscriber of this.#subscribers) {
      const { wanted } = subscriber;
      const part = () => update && wanted.values().some((subscribed) => isWithin(name, subscribed));
      if (wanted.has(name) || part()) subscriber.received(message);
    }
  }
}

const NOTHING: Wanted = new Set();

/** The honoured part of `wanted`, in the same order. */
function commonOf(honoured: Wanted, wanted: Wanted): Wanted {
  return new Set(wanted.values().filter((name) => honoured.has(name)));
}

function takingTasks(client: ClientProfile): ClientProfile {
  return { ...client, capabilities: withTasksExtension(client.capabilities) };
}

function notTaken(): GatewayError {
  return new GatewayError('INVALID_PARAMS', 'The server ended the subscription');
}

/** One `subscriptions/listen` at the server, until another one replaces it. */
class UpstreamListen extends ListenOwner {
  readonly id: string;
  readonly client: ClientProfile;
  readonly wanted: Wanted;
  /** null until the server has acknowledged, or the wait for that is over. */
  honoured: Wanted | null = null;

  constructor(id: string, client: ClientProfile, wanted: Wanted) {
    super();
    this.id = id;
    this.client = client;
    this.wanted = wanted;
  }
}
