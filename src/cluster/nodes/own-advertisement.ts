import type { Clock } from '../../model/clock.ts';
import { isOwnProcess, type Server } from '../../model/server.ts';
import type { ServerCatalog } from '../../model/server-catalog.ts';
import type { ServerStatus } from '../../model/server-state.ts';
import { definitionDigest } from './definition-digest.ts';
import { type ServerText, serverText } from './foreign-server.ts';

/** One server of a node, as the node tells the others. */
export interface AdvertisedServer {
  readonly definition: ServerText;
  /** Under the key in force at its node. */
  readonly digest: string;
  /** Under all keys that it believes, that one first. Nodes of earlier versions do not tell. */
  readonly digests?: readonly string[];
  readonly status: ServerStatus | null;
  /** Changes whenever one of its lists does. */
  readonly catalogs: number;
  /** How often the server has told its node that its lists are others; absent for never, and from earlier versions. */
  readonly changes?: number;
  /** The digests of what its processes list that serve one client each, by session key, where that is not what a fresh one lists. */
  readonly own?: Readonly<Record<string, string>>;
}

export interface Advertisement {
  readonly version: number;
  readonly servers: readonly AdvertisedServer[];
}

/** What is misconfigured here is nothing that another node could send a call to. */
function isGood({ misconfigured }: Server): boolean {
  return misconfigured === undefined;
}

/** Changes come in bursts; the others hear of them once. */
const COALESCE_MS = 50;

export interface OwnAdvertisementDeps {
  readonly clock: Clock;
  /** Of the cluster: the one in force, and those that are still believed. */
  readonly keys: readonly Buffer[];
  readonly status: (server: string) => ServerStatus | null;
  /** What its processes list that serve one client each, by session key, where that is not what a fresh one lists. */
  readonly ownLists: (server: string) => ReadonlyMap<string, ServerCatalog>;
  /** There is a new version to be told of. */
  readonly changed: () => void;
}

/** What this node has to offer: the servers of its own files. Level, not events: whoever missed a change reads it all. */
export class OwnAdvertisement {
  readonly #deps: OwnAdvertisementDeps;
  readonly #digests = new WeakMap<Server, readonly string[]>();
  readonly #catalogs = new Map<string, number>();
  readonly #changes = new Map<string, number>();
  #servers: readonly Server[] = [];
  #version = 1;
  #disarm: (() => void) | null = null;

  constructor(deps: OwnAdvertisementDeps) {
    this.#deps = deps;
  }

  get version(): number {
    return this.#version;
  }

  get servers(): readonly Server[] {
    return this.#servers;
  }

  replace(servers: Iterable<Server>): void {
    this.#servers = [...servers].filter(({ enabled }) => enabled);
    this.#bump();
  }

  /** One under each key. */
  digests(server: Server): readonly string[] {
    let digests = this.#digests.get(server);
    if (digests === undefined) {
      digests = this.#deps.keys.map((key) => definitionDigest(server, key));
      this.#digests.set(server, digests);
    }
    return digests;
  }

  catalogChanged(server: string): void {
    this.#catalogs.set(server, (this.#catalogs.get(server) ?? 0) + 1);
    this.#bump();
  }

  /** It was listed anew at the server's own word. */
  relisted(server: string): void {
    this.#changes.set(server, (this.#changes.get(server) ?? 0) + 1);
    this.#bump();
  }

  /** Its state, or what the process of some client lists. */
  statusChanged(): void {
    this.#bump();
  }

  text(): Advertisement {
    return {
      version: this.#version,
      servers: this.#servers.filter(isGood).map((server) => ({
        definition: serverText(server, isOwnProcess(server)),
        digest: this.digests(server)[0]!,
        digests: this.digests(server),
        status: this.#status(server.name),
        catalogs: this.#catalogs.get(server.name) ?? 0,
        ...(this.#changes.has(server.name) ? { changes: this.#changes.get(server.name)! } : {}),
        ...this.#own(server.name),
      })),
    };
  }

  close(): void {
    this.#disarm?.();
    this.#disarm = null;
  }

  #own(server: string): Pick<AdvertisedServer, 'own'> {
    const lists = this.#deps.ownLists(server);
    return lists.size === 0 ? {} : { own: Object.fromEntries(Array.from(lists, ([key, { digest }]) => [key, digest])) };
  }

  /** What is of interest elsewhere, and does not change with every call. */
  #status(name: string): ServerStatus | null {
    const status = this.#deps.status(name);
    return status === null ? null : { ...status, connections: [], stderrTail: '', lastLaunchFailure: null };
  }

  #bump(): void {
    this.#disarm ??= this.#deps.clock.after(COALESCE_MS, () => {
      this.#disarm = null;
      this.#version++;
      this.#deps.changed();
    });
  }
}
