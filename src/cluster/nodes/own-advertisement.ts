import { isOwnProcess, type Server } from '../../model/server.ts';
import type { ServerStatus } from '../../model/server-state.ts';
import type { ClusterDeps } from '../cluster-deps.ts';
import { definitionDigest } from './definition-digest.ts';
import { type ServerText, serverText } from './foreign-server.ts';
import type { Nodes } from './nodes.ts';

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
  /** How often the server has announced other lists to its node; absent for never, and from earlier versions. */
  readonly changes?: number;
  /**
   * The digests of what its processes list that serve one client each, by session key, where that is not what a fresh one
   * lists.
   */
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

/** What this node advertises: the servers of its own files. Level, not events: who missed a change reads everything. */
export class OwnAdvertisement {
  readonly #deps: ClusterDeps;
  readonly #nodes: Pick<Nodes, 'tell'>;
  /** Of the cluster: the one in force, then those that are still believed. */
  readonly #keys: readonly Buffer[];
  readonly #digests = new WeakMap<Server, readonly string[]>();
  readonly #catalogs = new Map<string, number>();
  readonly #changes = new Map<string, number>();
  #servers: readonly Server[] = [];
  #version = 1;
  #disarm: (() => void) | null = null;

  constructor(deps: ClusterDeps, nodes: Pick<Nodes, 'tell'>) {
    this.#deps = deps;
    this.#nodes = nodes;
    this.#keys = [deps.key, ...(deps.previousKeys ?? [])];
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
      digests = this.#keys.map((key) => definitionDigest(server, key));
      this.#digests.set(server, digests);
    }
    return digests;
  }

  /** One of its lists has changed. */
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
    const lists = this.#deps.local.ownLists(server);
    return lists.size === 0 ? {} : { own: Object.fromEntries(Array.from(lists, ([key, { digest }]) => [key, digest])) };
  }

  /** What is of interest elsewhere, and does not change with every call. */
  #status(name: string): ServerStatus | null {
    const status = this.#deps.local.status(name);
    return status === null ? null : { ...status, connections: [], stderrTail: '', lastLaunchFailure: null };
  }

  #bump(): void {
    this.#disarm ??= this.#deps.clock.after(COALESCE_MS, () => {
      this.#disarm = null;
      this.#version++;
      this.#nodes.tell();
    });
  }
}
