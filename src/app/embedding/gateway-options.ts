import type { ConfigInput, ServerInput } from '../../../schema/config-input.d.ts';
import type { StatusView } from '../../control/server-view.ts';
import type { Tracker } from '../../model/operation.ts';
import type { TransportKind } from '../../model/server.ts';
import type { AuthChallenge } from '../../model/server-state.ts';
import type { Messenger } from '../cluster/cluster-connection.ts';
import type { InProcessServer } from './in-process.ts';
import type { LogSink } from './log-outlet.ts';

/** A configuration as an object, in the format of a file (docs/config.md). */
export type GatewayConfig = ConfigInput;

/** A server as it is written in a configuration file under its name. */
export type ConfiguredServer = ServerInput;

/** A server reached through its standard streams (S2.9, S2.22). */
export type StdioDefinition = ConfiguredServer & { readonly command: NonNullable<ConfiguredServer['command']> };
/** A server behind a URL: Streamable HTTP, HTTP+SSE or plain JSON (S2.7, S2.22, S4.4). */
export type RemoteDefinition = ConfiguredServer & { readonly url: string };

/**
 * How a server is reached: the union of S2.22, as it stands in a configuration file, or a server in this process. It
 * is validated when it is used, with everything that is wrong with it at once.
 */
export type ServerDefinition = ConfiguredServer | InProcessServer;

/** The transports of S2.21, and our own. */
export type TransportType = TransportKind;

export interface GatewayOptions {
  /** Files (relative to `cwd`), or the content of one. Nothing is looked for where it is left out. */
  readonly config?: string | readonly string[] | GatewayConfig;
  /** Further servers, by name. */
  readonly servers?: Readonly<Record<string, ServerDefinition>>;
  /**
   * Where sessions, known catalogues and era verdicts outlive the process; only one gateway may have it. By default
   * nothing is kept.
   */
  readonly dataDir?: string;
  /** Reads the configuration's files again when they change. Default false. */
  readonly follow?: boolean;
  /**
   * What is wrong with one server of the configuration rejects `createGateway`, as every other problem does. Default false: that
   * server is `misconfigured`, and the others start.
   */
  readonly strict?: boolean;
  /** Takes the log. By default nothing is written. */
  readonly logger?: LogSink;
  /** Least level that is logged. Default: the configuration's, which is `info` by default. */
  readonly logLevel?: 'debug' | 'info' | 'warn' | 'error';
  /**
   * Called with the status of a server that asks for credentials, and with what it says of how to get them, before its
   * state becomes `auth_required` and before `serverChanged` tells it. What the hook throws goes to the log.
   */
  readonly beforeAuthRequired?: (status: StatusView, challenge: AuthChallenge) => void;
  /** What relative paths mean. Default: the working directory. */
  readonly cwd?: string;
  /** What `${NAME}` means and what local servers inherit of. Default: the process's environment. */
  readonly env?: Readonly<Record<string, string | undefined>>;
}

export interface StoredServer {
  readonly name: string;
  readonly definition: ServerDefinition;
}

/** Where the definitions of servers are kept: a database, for example. */
export interface ServerStore {
  /** A page of definitions. `cursor`: null for the first page, then `next` of the page before, until that is null. */
  list(cursor: string | null): StorePage | Promise<StorePage>;
}

export interface StorePage {
  readonly servers: readonly StoredServer[];
  readonly next: string | null;
}

export interface NodeOptions extends Omit<GatewayOptions, 'servers' | 'strict'> {
  /** Read once, all pages, when the node opens. Add and remove servers later with `registerServer` and `unregisterServer`. */
  readonly store: ServerStore;
  /** Reaches the other nodes. The node closes it, also where `openNode` rejects. */
  readonly messenger: Messenger;
  /** Called after every operation. Default: none. */
  readonly tracker?: Tracker | null;
  /** Name of this node for people. Default: that of the machine. */
  readonly node?: string;
  /** The agent that programs on NATS are who show no key. Default: they are refused. */
  readonly publicPrincipal?: string;
}
