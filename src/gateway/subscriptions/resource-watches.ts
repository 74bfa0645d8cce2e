import type { ClientProfile } from '../../model/client-profile.ts';
import type { Message } from '../../model/message.ts';
import type { Outcome } from '../../model/outcome.ts';
import type { ConnectionChange, SubscribedResource } from '../../model/ports.ts';
import { request } from '../../protocol/compose.ts';
import type { CommonParts } from '../common-parts.ts';
import { OwnExchange } from '../own-exchange.ts';
import { isResult, ownAnswer } from '../own-results.ts';
import { exposedPart, exposedUpdate, isWithin, updateOf } from '../resource-updates.ts';
import { Target } from '../target.ts';

/** The delay before subscriptions of an ended connection are renewed, if it does not come back by itself. */
const RENEW_MIN_MS = 500;
const RENEW_MAX_MS = 30_000;

/** A client's stream that wants resource updates. */
export interface Watcher {
  readonly client: ClientProfile;
  /** Delivers an update, under the URI that the watcher knows the resource by. */
  updated(server: string, message: Message): void;
}

interface Watch {
  readonly watchers: Map<Watcher, string>;
  /** The first watcher's request while in flight, for watchers that join meanwhile. */
  asking: Promise<Outcome> | null;
  /** Whether the server accepted the subscription on the current connection. */
  agreed: boolean;
}

/** The watches over one connection. */
interface Group {
  readonly server: string;
  readonly key: string;
  readonly watches: Map<string, Watch>;
  /** Counts the connections: an answer over an earlier one does not apply to the current one. */
  generation: number;
  renewing: boolean;
  pauseMs: number;
  disarm: (() => void) | null;
}

/**
 * Resource subscriptions at stateful servers for clients of either era: one `resources/subscribe` per connection and resource,
 * however many clients share the connection, and one `resources/unsubscribe` after the last of them (decision 015). A
 * connection that replaces another subscribes again; then the clients get an update, because they may have missed some.
 */
export class ResourceWatches {
  readonly #parts: CommonParts;
  readonly #groups = new Map<string, Group>();

  constructor(parts: CommonParts) {
    this.#parts = parts;
  }

  /** Resolves with the server's answer to `ask`, or with an empty result if the server has accepted before. */
  async watch(
    watcher: Watcher,
    { server, uri, exposed }: SubscribedResource,
    ask = () => this.#call('resources/subscribe', server, uri, watcher.client),
  ): Promise<Outcome> {
    const key = this.#keyOf(server, watcher.client);
    const group = this.#group(server, key);
    const watch = watchIn(group, uri);
    // Without a request in flight the others wait for the renewal, and may have missed updates.
    const waiting = watch.agreed || watch.asking !== null ? [] : [...watch.watchers].filter(([one]) => one !== watcher);
    watch.watchers.set(watcher, exposed);
    if (watch.agreed && !isOwn(key, watcher)) return ownAnswer('stateful', '');
    // A later watcher shares the first one's result, but never its failure or cancellation.
    const before = watch.asking === null ? null : await watch.asking;
    if (before !== null && isResult(before)) return ownAnswer('stateful', '');
    const outcome = await this.#ask(group, watch, ask);
    if (!isResult(outcome)) this.#take(group, uri, watcher);
    else
      notifyUpdated(
        server,
        waiting.filter(([one]) => watch.watchers.has(one)),
      );
    return outcome;
  }

  /** Resolves with the server's answer to `ask`, or with an empty result if others still watch the resource. */
  unwatch(watcher: Watcher, { server, uri }: SubscribedResource, ask: () => Promise<Outcome>): Promise<Outcome> {
    const group = this.#groupWith(watcher, server, uri);
    if (group !== null && this.#take(group, uri, watcher) !== null && group.watches.has(uri)) {
      return Promise.resolve(ownAnswer('stateful', ''));
    }
    return ask();
  }

  /** Removes a watcher, and unsubscribes if no other watches the resource. */
  leave(watcher: Watcher, { server, uri }: Omit<SubscribedResource, 'exposed'>): void {
    const group = this.#groupWith(watcher, server, uri);
    const watch = group === null ? null : this.#take(group, uri, watcher);
    if (group === null || watch === null || watch.watchers.size > 0 || !watch.agreed) return;
    // A session's own connection ends with it; a connection other than the client's current one is gone.
    if (isOwn(group.key, watcher) || group.key !== this.#keyOf(server, watcher.client)) return;
    void this.#call('resources/unsubscribe', server, uri, watcher.client);
  }

  /** Delivers an update that arrived over the connection with this key. */
  updated(server: string, key: string, uri: string, message: Message): void {
    for (const [subscribed, { watchers }] of this.#groups.get(nameOf(server, key))?.watches ?? []) {
      if (!isWithin(uri, subscribed)) continue;
      for (const [watcher, exposed] of watchers) {
        watcher.updated(
          server,
          exposedUpdate(message, (own) => exposedPart(own, { server, uri: subscribed, exposed })),
        );
      }
    }
  }

  /** Whether a client watches it over this client's connection, if that is not the client's own. */
  wanted(server: string, uri: string, client: ClientProfile): boolean {
    const key = this.#keyOf(server, client);
    return key !== client.sessionId && this.#groups.get(nameOf(server, key))?.watches.has(uri) === true;
  }

  /** The URI under which a client watches exactly this resource over the connection; null for none. */
  exposed(server: string, key: string, uri: string): string | null {
    return this.#groups.get(nameOf(server, key))?.watches.get(uri)?.watchers.values().next().value ?? null;
  }

  connectionChanged(server: string, key: string, change: ConnectionChange): void {
    const group = this.#groups.get(nameOf(server, key));
    if (group === undefined) return;
    if (change === 'opened') void this.#renew(group);
    else if (change === 'missed') this.#notifyMissed(group);
    else if (change === 'ended') this.#ended(group);
  }

  /** The connections that served some of the clients ended without notice. */
  nodeSilent(servedThere: (server: string, client: ClientProfile) => boolean): void {
    for (const group of this.#groups.values()) {
      const watchers = group.watches.values().flatMap((watch) => watch.watchers.keys());
      if (watchers.some(({ client }) => servedThere(group.server, client))) this.#ended(group);
    }
  }

  /** Renews waiting subscriptions at once, and resets the delay of those that are being renewed. */
  instancesGained(servers: ReadonlySet<string>): void {
    for (const group of this.#groups.values()) {
      if (!servers.has(group.server)) continue;
      group.pauseMs = RENEW_MIN_MS;
      if (group.disarm === null) continue;
      group.disarm();
      group.disarm = null;
      void this.#renew(group);
    }
  }

  close(): void {
    for (const { disarm } of this.#groups.values()) disarm?.();
    this.#groups.clear();
  }

  #ended(group: Group): void {
    group.generation++;
    for (const watch of group.watches.values()) watch.agreed = false;
    this.#renewLater(group);
  }

  async #ask(group: Group, watch: Watch, ask: () => Promise<Outcome>): Promise<Outcome> {
    const { generation } = group;
    const asking = ask();
    watch.asking = asking;
    const outcome = await asking;
    if (watch.asking === asking) watch.asking = null;
    if (isResult(outcome) && generation === group.generation) watch.agreed = true;
    return outcome;
  }

  /** Removes the watcher; returns null if it did not watch the resource. */
  #take(group: Group, uri: string, watcher: Watcher): Watch | null {
    const watch = group.watches.get(uri);
    if (watch === undefined || !watch.watchers.delete(watcher)) return null;
    if (watch.watchers.size > 0) return watch;
    group.watches.delete(uri);
    if (group.watches.size === 0) {
      group.disarm?.();
      this.#groups.delete(nameOf(group.server, group.key));
    }
    return watch;
  }

  #renewLater(group: Group): void {
    group.disarm ??= this.#parts.clock.after(group.pauseMs, () => {
      group.disarm = null;
      void this.#renew(group);
    });
    group.pauseMs = Math.min(group.pauseMs * 2, RENEW_MAX_MS);
  }

  /** Subscribes to what the current connection is not subscribed to, and notifies the watchers. */
  async #renew(group: Group): Promise<void> {
    if (group.renewing) return;
    this.#reassign(group);
    if (group.watches.size === 0) return;
    group.renewing = true;
    for (const [uri, watch] of group.watches) {
      const [watcher] = watch.watchers.keys();
      if (watch.agreed || watch.asking !== null || watcher === undefined) continue;
      const ask = () => this.#call('resources/subscribe', group.server, uri, watcher.client);
      const outcome = await this.#ask(group, watch, ask);
      if (watch.watchers.size === 0) this.#giveUp(group, uri, watch, watcher);
      else if (watch.agreed && !this.#agreedElsewhere(group, uri, watch, watcher))
        notifyUpdated(group.server, watch.watchers);
      else if (outcome.kind === 'failure') break;
    }
    group.renewing = false;
    if (this.#groups.get(nameOf(group.server, group.key)) !== group) return;
    const left = group.watches.values().some(({ agreed, asking }) => !agreed && asking === null);
    if (left) this.#renewLater(group);
    else group.pauseMs = RENEW_MIN_MS;
  }

  /** Whether another connection than that of the group was subscribed: then the watch is recorded there. */
  #agreedElsewhere(group: Group, uri: string, watch: Watch, watcher: Watcher): boolean {
    const key = this.#keyOf(group.server, watcher.client);
    if (key === group.key || key === '' || !watch.watchers.has(watcher)) return false;
    watch.agreed = false;
    watchIn(this.#group(group.server, key), uri).agreed = true;
    this.#reassign(group);
    return true;
  }

  /** Unsubscribes if the last watcher left while the server was asked. */
  #giveUp({ server, key }: Group, uri: string, { agreed }: Watch, watcher: Watcher): void {
    const wanted = this.#groups.get(nameOf(server, key))?.watches.has(uri) === true;
    if (agreed && !wanted && !isOwn(key, watcher)) {
      void this.#call('resources/unsubscribe', server, uri, watcher.client);
    }
  }

  /** Moves watchers to the connection that serves them now, as when one of several replicas ended. */
  #reassign(group: Group): void {
    const moved = new Set<Group>();
    for (const [uri, watch] of group.watches) {
      for (const [watcher, exposed] of watch.watchers) {
        const key = this.#keyOf(group.server, watcher.client);
        if (key === group.key || key === '' || watch.agreed || watch.asking !== null) continue;
        this.#take(group, uri, watcher);
        const target = this.#group(group.server, key);
        const there = watchIn(target, uri);
        there.watchers.set(watcher, exposed);
        if (there.agreed) notifyUpdated(group.server, [[watcher, exposed]]);
        else moved.add(target);
      }
    }
    for (const target of moved) void this.#renew(target);
  }

  #notifyMissed(group: Group): void {
    for (const watch of group.watches.values()) if (watch.agreed) notifyUpdated(group.server, watch.watchers);
  }

  #call(method: string, server: string, uri: string, client: ClientProfile): Promise<Outcome> {
    const message = request(method, '0', JSON.stringify({ uri }), 'stateful');
    const target = new Target(client.principal, server, 'resource', message, null, uri);
    return this.#parts.dispatch.call(target, message, new OwnExchange(`watch:${server}`, message, client));
  }

  #keyOf(server: string, client: ClientProfile): string {
    return this.#parts.upstreams.sessionKey(server, client) ?? '';
  }

  /** The group of the watcher; its current key may be another one, if the server's definition changed. */
  #groupWith(watcher: Watcher, server: string, uri: string): Group | null {
    const has = (group: Group | undefined) => group?.watches.get(uri)?.watchers.has(watcher) === true;
    const present = this.#groups.get(nameOf(server, this.#keyOf(server, watcher.client)));
    if (has(present)) return present!;
    return this.#groups.values().find((group) => group.server === server && has(group)) ?? null;
  }

  #group(server: string, key: string): Group {
    const name = nameOf(server, key);
    let group = this.#groups.get(name);
    if (group === undefined) {
      group = {
        server,
        key,
        watches: new Map(),
        generation: 0,
        renewing: false,
        pauseMs: RENEW_MIN_MS,
        disarm: null,
      };
      this.#groups.set(name, group);
    }
    return group;
  }
}

function watchIn({ watches }: Group, uri: string): Watch {
  let watch = watches.get(uri);
  if (watch === undefined) watches.set(uri, (watch = { watchers: new Map(), asking: null, agreed: false }));
  return watch;
}

function notifyUpdated(server: string, watchers: Iterable<readonly [Watcher, string]>): void {
  for (const [watcher, exposed] of watchers) watcher.updated(server, updateOf(exposed, 'stateful'));
}

/** Whether the connection is the watcher's own, so that its requests pass unchanged. */
function isOwn(key: string, { client }: Watcher): boolean {
  return key === client.sessionId;
}

function nameOf(server: string, key: string): string {
  return `${server}\0${key}`;
}
