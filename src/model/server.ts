import { type AuthSpec, PLAIN_AUTH } from './credentials.ts';
import type { DriftPolicy } from './drift.ts';
import { revealed, Secret } from './secret.ts';

/** The position of a definition, for errors and status: `file:line:column`, 1-based. */
export interface Origin {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/** Replaces the file name in problems and origins of servers that were added at run time. */
export const RUN_TIME = '<run time>';

/** The host on which a process runs, for the system's `ssh` (S2.22, S2.23). */
export interface SshSpec {
  readonly host: string;
  /** null: the user of ssh's own configuration. */
  readonly user: string | null;
  readonly port: number;
  /** Absolute path on this machine. */
  readonly identityFile: string | null;
  readonly knownHostsFile: string | null;
  /** Handling of unknown host keys: accept and store, or refuse. ssh always refuses a changed key. */
  readonly hostKeys: 'accept-new' | 'yes';
  /** Connections to one host share a master connection, which stays open for a minute after the last. */
  readonly controlMaster: boolean;
}

/** A process on this or another machine that speaks newline-framed JSON-RPC on its standard streams. */
export interface StdioSpec {
  readonly type: 'stdio';
  readonly command: string;
  readonly args: readonly string[];
  /** Command and arguments with the references to possible secrets unexpanded; absent if there are none. */
  readonly written?: { readonly command: string; readonly args: readonly string[] };
  /** Declared environment, expanded. Any value may be a secret, so all are kept as secrets. */
  readonly env: Readonly<Record<string, Secret>>;
  /** true: the gateway's whole environment; a list: these variables in addition to those that every process needs. */
  readonly inheritEnv: boolean | readonly string[];
  /** Absolute path; on another host as written, with `~/` for the home folder there, and empty for that folder. */
  readonly cwd: string;
  /** The host on which it runs; null or absent: this machine. */
  readonly ssh?: SshSpec | null;
  /** The user that runs it; null or absent: the gateway's user. */
  readonly runAs?: RunAs | null;
}

/** Another user of this machine, by name or number, and the limit of its processes. */
export interface RunAs {
  readonly user: string;
  /** Limit of processes and threads of the user together; null: the limit of the system. */
  readonly processes: number | null;
}

/** A container started from an image, as `docker run -i --rm --init` does (S2.8). */
export interface ImageSpec {
  readonly name: string;
  /** Arguments after the image name; empty for those of the image. */
  readonly command: readonly string[];
  readonly entrypoint: readonly string[] | null;
  readonly cwd: string | null;
  readonly user: string | null;
  /** null: the engine's default. */
  readonly network: string | null;
  /** `source:target[:ro]`; the source is an absolute path or the name of a volume. */
  readonly volumes: readonly string[];
  readonly readOnly: boolean;
  readonly labels: Readonly<Record<string, string>>;
  readonly limits: {
    readonly memoryBytes: number | null;
    readonly cpus: number | null;
    readonly pids: number | null;
  };
}

/** A process in a container that speaks newline-framed JSON-RPC on its standard streams, over the API of the engine. */
export interface DockerSpec {
  readonly type: 'docker';
  /** The user's running container to attach to, or an image to run. */
  readonly target: { readonly container: string } | { readonly image: ImageSpec };
  /** Expanded environment of a container started from an image. */
  readonly env: Readonly<Record<string, Secret>>;
  /** Address of the engine's API; null for `DOCKER_HOST` or the usual sockets. */
  readonly engine: string | null;
}

export interface TlsSpec {
  /** PEM texts, already read from their files. */
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: Secret;
}

/** Transports with a URL. `http`: Streamable HTTP, either era. `sse`: 2024-11-05 HTTP+SSE. `json`: plain JSON POST. */
export const URL_KINDS = ['http', 'sse', 'json'] as const;
/** All transports. */
export const TRANSPORT_KINDS = ['stdio', 'docker', ...URL_KINDS, 'memory'] as const;
export type TransportKind = (typeof TRANSPORT_KINDS)[number];
/** Servers with these transports start with `initialize`, whatever else they may support. */
export const WITHOUT_DISCOVERY: ReadonlySet<TransportKind> = new Set(['sse', 'json']);

/** A server behind a URL. */
export interface HttpSpec {
  readonly type: (typeof URL_KINDS)[number];
  readonly url: string;
  /** The URL with the references to possible secrets unexpanded; absent if there are none. */
  readonly writtenUrl?: string;
  /** With type `http`: the definition names no transport, so `sse` is tried if Streamable HTTP is refused. */
  readonly sseFallback?: boolean;
  readonly headers: Readonly<Record<string, Secret>>;
  readonly tls: TlsSpec;
  /** How to get credentials for it, if the definition says so. */
  readonly auth?: AuthSpec | undefined;
  /** Headers of callers' requests to forward: the lower-case name in the request, and the name at the server. */
  readonly forwardHeaders?: Readonly<Record<string, string>> | undefined;
  /** Added at run time without the right `servers:exec`: connects only to public addresses. */
  readonly publicOnly?: boolean;
}

/** A server in this process, for embedding and tests. The app gives the transport a factory under this key. */
interface MemorySpec {
  readonly type: 'memory';
  readonly key: string;
}

export type TransportSpec = StdioSpec | DockerSpec | HttpSpec | MemorySpec;

/** Whether every connection is a process of the gateway, with the cost of a process and with its state. */
export function isOwnProcess({ transport }: Pick<Server, 'transport'>): boolean {
  return transport.type === 'stdio' || (transport.type === 'docker' && 'image' in transport.target);
}

/** Who shares a connection. `session` is the default for stateful servers, `shared` for stateless ones. */
export type Isolation = 'shared' | 'session' | 'principal';

interface ServerLimits {
  /** Maximum size of a message from the server; a larger one ends the call with TOO_LARGE. Default 16 MiB. */
  readonly maxMessageBytes: number;
  /** Maximum number of processes of this server. Default 64. */
  readonly maxProcesses: number;
  /** How often one caller may call one tool per minute; absent: without limit. */
  readonly callsPerMinute?: number | undefined;
}

export interface ToolFilter {
  /** Only these tools are offered; null for all. */
  readonly include: ReadonlySet<string> | null;
  readonly exclude: ReadonlySet<string>;
}

/** How a server separates its callers: by credentials of their own, or by headers of their requests. */
export interface CallerSeparation {
  readonly credentials: boolean;
  /** Header names at the server, by the lower-case name in callers' requests. */
  readonly headers: Readonly<Record<string, string>>;
}

/** The callers that one part of such a server serves. */
export interface CallerPartition {
  /** Short, and reveals none of the values. */
  readonly digest: string;
  /** Id of the principal whose credentials are used; null: the gateway's credentials. */
  readonly owner: string | null;
  /** `connectionDigest` of the whole server. */
  readonly of: string;
}

/** A registered MCP server definition: desired state, without what runs. Immutable. */
export interface Server {
  readonly name: string;
  readonly transport: TransportSpec;
  readonly description: string | null;
  readonly isolation: Isolation | null;
  readonly replicas?: number;
  /** Only for a server that is a process: the whole cluster runs it once. Absent: every node that has it runs it. */
  readonly singleton?: boolean;
  /** Request header whose value isolates stateless clients from each other; null without one. */
  readonly isolationHeader: string | null;
  /** Absent if the server treats all callers alike. */
  readonly callerSeparation?: CallerSeparation | undefined;
  /** The callers that this definition serves; absent: all callers that are not separated. */
  readonly caller?: CallerPartition;
  /** Deadline of a call. Default 60 000. */
  readonly timeoutMs: number;
  readonly toolTimeoutMs: ReadonlyMap<string, number>;
  /** From the start of the process or connection to the end of the handshake. Absent: 60 000 or 30 000 (S1.14, S3.3). */
  readonly startupTimeoutMs?: number;
  /** When a call that was sent without an answer may be sent again. `hints` needs `trusted`. */
  readonly retry: 'never' | 'hints' | 'always';
  readonly trusted: boolean;
  /** Whether answers may be cached as long as the server says, and equal requests combined (C1 to C9). */
  readonly cache: boolean;
  readonly start: 'eager' | 'lazy';
  /** A connection that received nothing for this long is probed; 0 for never. Default 30 000. */
  readonly probeMs: number;
  readonly drift?: DriftPolicy;
  /** Id of the only client session that sees the server, if it was added for one; absent: all callers that may use it. */
  readonly onlyFor?: string;
  /** Exists for a limited time: nothing about it survives a restart. */
  readonly temporary?: boolean;
  readonly enabled: boolean;
  /** What is wrong with the definition, and the remedy; the server is known by name and never started. Absent if correct. */
  readonly misconfigured?: string;
  readonly tools: ToolFilter;
  readonly limits: ServerLimits;
  readonly origin: Origin;
  /** Changes exactly when a change needs a new connection (S3.12). */
  readonly connectionDigest: string;
}

/** `connectionDigest` of the whole server, for whichever callers the definition is. */
export function baseConnectionDigest({
  caller,
  connectionDigest,
}: Pick<Server, 'caller' | 'connectionDigest'>): string {
  return caller?.of ?? connectionDigest;
}

/** The OAuth settings of the definition, or their defaults. */
export function authOf({ transport }: Pick<Server, 'transport'>): AuthSpec {
  return ('auth' in transport ? transport.auth : undefined) ?? PLAIN_AUTH;
}

/** Whether the gateway gets credentials for it: it has a URL, and its definition has no `Authorization` header. */
export function takesTokens({ transport }: Pick<Server, 'transport'>): boolean {
  if (!('url' in transport)) return false;
  return !Object.keys(transport.headers).some((name) => name.toLowerCase() === 'authorization');
}

/** Whether a user's login gets these credentials. */
export function takesLogin(server: Pick<Server, 'transport'>): boolean {
  const { exec, grant } = authOf(server);
  return takesTokens(server) && exec === null && grant === 'authorization_code';
}

/** The parts of a transport; equal for equal transports. Contains secrets, so store only a digest of it. */
export function transportFacts(transport: TransportSpec): unknown {
  switch (transport.type) {
    case 'memory':
      return ['memory', transport.key];
    case 'stdio': {
      const { command, args, env, inheritEnv, cwd, ssh = null, runAs = null } = transport;
      const inherited = typeof inheritEnv === 'boolean' ? inheritEnv : [...inheritEnv].sort();
      const elsewhere = [...(ssh === null ? [] : [ssh]), ...(runAs === null ? [] : [{ runAs }])];
      return ['stdio', command, args, sortedEntries(revealed(env)), inherited, cwd, ...elsewhere];
    }
    case 'docker':
      return ['docker', transport.target, sortedEntries(revealed(transport.env)), transport.engine];
    default: {
      const { type, url, sseFallback = false, headers, tls } = transport;
      const lowered = Object.entries(revealed(headers)).map(([name, value]) => [name.toLowerCase(), value]);
      const named = sortedEntries(Object.fromEntries(lowered));
      const auth = transport.auth === undefined ? [] : [authFacts(transport.auth)];
      const forwarded =
        transport.forwardHeaders === undefined ? [] : [{ forwardHeaders: sortedEntries(transport.forwardHeaders) }];
      return [
        type,
        url,
        sseFallback,
        named,
        tls.ca ?? null,
        tls.cert ?? null,
        tls.key?.reveal() ?? null,
        ...auth,
        ...forwarded,
      ];
    }
  }
}

function authFacts(auth: AuthSpec): unknown {
  const { exec, ...others } = auth;
  const said = Object.entries(others).map(([key, value]) => [key, value instanceof Secret ? value.reveal() : value]);
  return exec === null ? said : [...said, { ...exec, env: sortedEntries(revealed(exec.env)) }];
}

/** The members of the object, by name. */
export function sortedEntries(map: Readonly<Record<string, string>>): readonly (readonly [string, string])[] {
  return Object.entries(map).sort(([a], [b]) => (a < b ? -1 : 1));
}
