import type { ClientProfile } from '../../model/client-profile.ts';
import type { Clock } from '../../model/clock.ts';
import { isolationOf } from '../../model/isolation.ts';
import { LIST_KINDS, type ListKind } from '../../model/server-catalog.ts';
import type { LocalUpstreams } from '../cluster-deps.ts';
import type { ForeignHome, Place } from './directory.ts';

/** A call that names what is not known waits no longer for other nodes. */
const CATCH_UP_MS = 2_000;

export interface ListsElsewhereDeps {
  readonly local: () => Pick<LocalUpstreams, 'relist' | 'listedFor' | 'knownCatalog'>;
  readonly clock: Clock;
  /** Reads what these nodes offer now, which `look` is shown. */
  readonly hear: (peers: readonly string[]) => Promise<void>;
  /** Reads what the home lists for this kind of client; whoever is concerned is told. */
  readonly read: (home: ForeignHome, client: ClientProfile) => Promise<unknown>;
  /** Clients of this kind are shown another list from now on. */
  readonly changed: (server: string, fingerprint: string, lists: readonly ListKind[]) => void;
  /** Another home has other lists of the server than before. */
  readonly listed: (server: string) => void;
}

/**
 * What other homes of a server have heard of its lists and this node has not. A session of an HTTP server is listened to by
 * one node: the others list the server anew when that one was told. A process per session tells the node that owns it, and
 * nobody else can list it: what was told last is what all nodes show to that kind of client, as a lone node does.
 */
export class ListsElsewhere {
  readonly #deps: ListsElsewhereDeps;
  /** How often a node's server has said that its lists are others, by node and server. */
  #heard: ReadonlyMap<string, number> = new Map();
  /** How often a node's lists of a server have become others, likewise. */
  #seen: ReadonlyMap<string, number> = new Map();
  /** What is being read or listed anew, by server. */
  readonly #under = new Map<string, Set<Promise<unknown>>>();
  /** The node whose process of a server told last, where that was not this one. */
  readonly #newest = new Map<string, string>();

  constructor(deps: ListsElsewhereDeps) {
    this.#deps = deps;
  }

  /** The home whose lists of the server are shown; null for this node's own. */
  shownOf(place: Place): ForeignHome | null {
    const peer = this.#newest.get(place.server.name);
    return peer === undefined ? null : (place.elsewhere.find(({ node }) => node.peer === peer) ?? null);
  }

  /** The homes' offers are others. */
  look(places: ReadonlyMap<string, Place>): void {
    const before = this.#heard;
    const seenBefore = this.#seen;
    const heard = new Map<string, number>();
    const seen = new Map<string, number>();
    this.#heard = heard;
    this.#seen = seen;
    for (const place of places.values()) {
      if (!place.here) continue;
      for (const home of place.elsewhere) {
        const { changes = 0, catalogs } = home.offered;
        const key = `${home.node.peer} ${place.server.name}`;
        if (changes > 0) heard.set(key, changes);
        if (changes !== (before.get(key) ?? 0)) this.#told(place, home);
        seen.set(key, catalogs);
        if (catalogs !== (seenBefore.get(key) ?? catalogs)) this.#deps.listed(place.server.name);
      }
    }
    for (const server of [...this.#newest.keys()]) {
      const place = places.get(server);
      if (place === undefined || this.shownOf(place) === null) this.own(server);
    }
  }

  /** Resolves when what the other homes have heard is known here, at the latest after a moment. */
  async caughtUp({ server, elsewhere }: Place): Promise<void> {
    let disarm = (): void => {};
    const late = new Promise<void>((resolve) => {
      disarm = this.#deps.clock.after(CATCH_UP_MS, resolve);
    });
    const heard = this.#deps.hear(elsewhere.map(({ node }) => node.peer));
    await Promise.race([heard.then(() => Promise.all(this.#under.get(server.name) ?? [])), late]);
    disarm();
  }

  /** A process of this node has told, or the one that did is gone: this node's own lists are shown. */
  own(server: string): void {
    if (!this.#newest.delete(server)) return;
    for (const { fingerprint } of this.#deps.local().listedFor(server)) {
      this.#deps.changed(server, fingerprint, LIST_KINDS);
    }
  }

  #told(place: Place, home: ForeignHome): void {
    const { local, read } = this.#deps;
    const { name } = place.server;
    if (!place.process) {
      this.#underWay(name, local().relist(name));
      return;
    }
    if (this.#isShared(place)) return;
    this.#newest.set(name, home.node.peer);
    for (const client of local().listedFor(name)) this.#underWay(name, read(home, client));
  }

  #underWay(server: string, work: Promise<unknown>): void {
    const under = this.#under.get(server) ?? new Set<Promise<unknown>>();
    this.#under.set(server, under.add(work));
    void work
      .catch(() => {})
      .then(() => {
        under.delete(work);
        if (under.size === 0 && this.#under.get(server) === under) this.#under.delete(server);
      });
  }

  /** Every node runs one for everybody: what it lists is what calls find there. */
  #isShared({ server }: Place): boolean {
    const { name } = server;
    const local = this.#deps.local();
    const stateless = (client: ClientProfile) => local.knownCatalog(name, client)?.hello.era === 'stateless';
    return isolationOf(server, local.listedFor(name).some(stateless) ? 'stateless' : null) === 'shared';
  }
}
