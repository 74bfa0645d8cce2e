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
 * How to reach a server: the union of S2.22, as in a configuration file, or a server in this process. Validated on use; the
 * error lists all problems at once.
 */
export type ServerDefinition = ConfiguredServer | InProcessServer;

/** The transports of S2.21, and further ones. */
export type TransportType = TransportKind;

export interface GatewayOptions {
  /** Files (relative to `cwd`), or the content of one. By default no file is read. */
  readonly config?: string | readonly string[] | GatewayConfig;
  /** Further servers, by name. */
  readonly servers?: Readonly<Record<string, ServerDefinition>>;
  /** Folder for sessions, catalogues and other state that outlives the process; one gateway holds it. By default none. */
  readonly dataDir?: string;
  /** Reads the configuration's files again when they change. Default false. */
  readonly follow?: boolean;
  /**
   * Whether a problem with one server of the configuration rejects `createGateway`, as other problems do. Default false: that
   * server is `misconfigured`, and the others start.
   */
  readonly strict?: boolean;
  /** Receives the log. By default nothing is logged. */
  readonly logger?: LogSink;
  /** Least level that is logged. Default: the configuration's, which is `info` by default. */
  readonly logLevel?: 'debug' | 'info' | 'warn' | 'error';
  /**
   * Called with the status of a server that asks for credentials, and with its challenge, before its state becomes
   * `auth_required` and before `serverChanged`. Exceptions of the hook are logged.
   */
  readonly beforeAuthRequired?: (status: StatusView, challenge: AuthChallenge) => void;
  /** Base of relative paths. Default: the working directory. */
  readonly cwd?: string;
  /** Environment for `${NAME}` and for local servers. Default: that of the process. */
  readonly env?: Readonly<Record<string, string | undefined>>;
}

export interface StoredServer {
  readonly name: string;
  readonly definition: ServerDefinition;
}

/** A store of server definitions, such as a database. */
export interface ServerStore {
  /** Returns a page of definitions. `cursor`: null for the first page, then `next` of the previous one, until that is null. */
  list(cursor: string | null): StorePage | Promise<StorePage>;
}

export interface StorePage {
  readonly servers: readonly StoredServer[];
  readonly next: string | null;
}

export interface NodeOptions extends Omit<GatewayOptions, 'servers' | 'strict'> {
  /** Read once, all pages, when the node opens. Add and remove servers later with `registerServer` and `unregisterServer`. */
  readonly store: ServerStore;
  /** Reaches the other nodes. The node closes it, also if `openNode` rejects. */
  readonly messenger: Messenger;
  /** Called after every operation. Default: none. */
  readonly tracker?: Tracker | null;
  /** Name of this node for operators. Default: the name of the machine. */
  readonly node?: string;
  /** The agent of programs on NATS that send no key. By default they are refused. */
  readonly publicPrincipal?: string;
}
