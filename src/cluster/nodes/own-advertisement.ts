import { isOwnProcess, type Server } from '../../model/server.ts';
import type { ServerStatus } from '../../model/server-state.ts';
import type { ClusterDeps } from '../cluster-deps.ts';
import { definitionDigest } from './definition-digest.ts';
import { type ServerText, serverText } from './foreign-server.ts';
import type { Nodes } from './nodes.ts';

export interface AdvertisedServer {
  readonly definition: ServerText;
  /** With the key in force. */
  readonly digest: string;
  /** With all accepted keys; absent from nodes of earlier versions. */
  readonly digests?: readonly string[];
  readonly status: ServerStatus | null;
  /** Counts changes of its lists. */
  readonly catalogs: number;
  /** Counts changes that the server announced; absent for none. */
  readonly changes?: number;
  /** Digests by session key: lists of single clients' processes that differ from a fresh process's. */
  readonly own?: Readonly<Record<string, string>>;
}

export interface Advertisement {
  readonly version: number;
  readonly servers: readonly AdvertisedServer[];
}

function isGood({ misconfigured }: Server): boolean {
  return misconfigured === undefined;
}

/** Coalesces bursts of changes. */
const COALESCE_MS = 50;

/** The servers of this node's own files. A node that missed a change reads everything. */
export class OwnAdvertisement {
  readonly #deps: ClusterDeps;
  readonly #nodes: Pick<Nodes, 'tell'>;
  /** The one in force first. */
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

  digests(server: Server): readonly string[] {
    let digests = this.#digests.get(server);
    if (digests === undefined) {
      digests = this.#keys.map((key) => definitionDigest(server, key));
      this.#digests.set(server, digests);
    }
    return digests;
  }

  catalogChanged(server: string): void {
    this.#catalogs.set(server, (this.#catalogs.get(server) ?? 0) + 1);
    this.#bump();
  }

  /** The server announced a change. */
  relisted(server: string): void {
    this.#changes.set(server, (this.#changes.get(server) ?? 0) + 1);
    this.#bump();
  }

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

  /** Without what changes at every call. */
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
