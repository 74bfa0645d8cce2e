import { type AuthSpec, PLAIN_AUTH } from './credentials.ts';
import type { DriftPolicy } from './drift.ts';
import { revealed, Secret } from './secret.ts';

/** The place of a definition, for errors and status: `file:line:column`, 1-based. */
export interface Origin {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/** In place of a file in problems and origins of servers that were added at run time. */
export const RUN_TIME = '<run time>';

/** The host a process runs on, for the system's `ssh` (S2.22, S2.23). */
export interface SshSpec {
  readonly host: string;
  /** null: whatever ssh's own configuration says. */
  readonly user: string | null;
  readonly port: number;
  /** Absolute, on this machine. */
  readonly identityFile: string | null;
  readonly knownHostsFile: string | null;
  /** What becomes of a host whose key is not known: taken and kept, or refused. A changed key is always refused. */
  readonly hostKeys: 'accept-new' | 'yes';
  /** Connections to one host share a master connection, which lives a minute longer. */
  readonly controlMaster: boolean;
}

/** A process, of this machine or another, that speaks newline-framed JSON-RPC on its standard streams. */
export interface StdioSpec {
  readonly type: 'stdio';
  readonly command: string;
  readonly args: readonly string[];
  /** Both once more, where references put something in that may be secret: with those references in its place. */
  readonly written?: { readonly command: string; readonly args: readonly string[] };
  /** Declared environment, expanded. Any of it may be a secret, so all of it is kept as one. */
  readonly env: Readonly<Record<string, Secret>>;
  /** true: everything of ours; a list: these names beside those that every process needs. */
  readonly inheritEnv: boolean | readonly string[];
  /** Absolute; on another host as its shell takes it, and empty for the home folder. */
  readonly cwd: string;
  /** Where it runs; null or absent: here. */
  readonly ssh?: SshSpec | null;
  /** Whose process it is; null or absent: the gateway's own user's. */
  readonly runAs?: RunAs | null;
}

/** Another user of this machine, by name or number, and what that one may have of processes. */
export interface RunAs {
  readonly user: string;
  /** Processes and threads of the user, all together; null: as the system has it. */
  readonly processes: number | null;
}

/** What is run of an image, as `docker run -i --rm --init` would (S2.8). */
export interface ImageSpec {
  readonly name: string;
  /** Arguments after the image's name; empty for the image's own. */
  readonly command: readonly string[];
  readonly entrypoint: readonly string[] | null;
  readonly cwd: string | null;
  readonly user: string | null;
  /** null: the engine's default. */
  readonly network: string | null;
  /** `source:target[:ro]`, the source absolute or the name of a volume. */
  readonly volumes: readonly string[];
  readonly readOnly: boolean;
  readonly labels: Readonly<Record<string, string>>;
  readonly limits: {
    readonly memoryBytes: number | null;
    readonly cpus: number | null;
    readonly pids: number | null;
  };
}

/** A process in a container that speaks newline-framed JSON-RPC on its standard streams, which the engine's API carries. */
export interface DockerSpec {
  readonly type: 'docker';
  /** A running container of the user's to attach to, or an image to run. */
  readonly target: { readonly container: string } | { readonly image: ImageSpec };
  /** Of an image: its environment, expanded. */
  readonly env: Readonly<Record<string, Secret>>;
  /** Address of the engine's API; null for `DOCKER_HOST` or the usual sockets. */
  readonly engine: string | null;
}

export interface TlsSpec {
  /** PEM texts, already read. */
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: Secret;
}

/** Behind a URL. `http`: Streamable HTTP, either era. `sse`: 2024-11-05 HTTP+SSE. `json`: plain JSON POST. */
export const URL_KINDS = ['http', 'sse', 'json'] as const;
/** Every way to reach a server. */
export const TRANSPORT_KINDS = ['stdio', 'docker', ...URL_KINDS, 'memory'] as const;
export type TransportKind = (typeof TRANSPORT_KINDS)[number];
/** Servers of these begin with `initialize`, whatever else they may understand. */
export const WITHOUT_DISCOVERY: ReadonlySet<TransportKind> = new Set(['sse', 'json']);

/** A server behind a URL. */
export interface HttpSpec {
  readonly type: (typeof URL_KINDS)[number];
  readonly url: string;
  /** Where references put something in that may be secret: with those references in its place. */
  readonly writtenUrl?: string;
  /** With type `http`: the definition does not say which of the two it is, so `sse` may be tried when Streamable HTTP is refused. */
  readonly sseFallback?: boolean;
  readonly headers: Readonly<Record<string, Secret>>;
  readonly tls: TlsSpec;
  /** How to get credentials for it, where its definition says so. */
  readonly auth?: AuthSpec | undefined;
  /** Headers of callers' requests that it gets: by their lower-case name, what they are called there. */
  readonly forwardHeaders?: Readonly<Record<string, string>> | undefined;
  /** Added at run time without the right `servers:exec`: connects to public addresses only. */
  readonly publicOnly?: boolean;
}

/** A server inside this process, for embedding and tests. The app hands the transport a factory under this key. */
interface MemorySpec {
  readonly type: 'memory';
  readonly key: string;
}

export type TransportSpec = StdioSpec | DockerSpec | HttpSpec | MemorySpec;

/** Whether every connection is a process of ours: it costs what a process costs, and takes its state along. */
export function isOwnProcess({ transport }: Pick<Server, 'transport'>): boolean {
  return transport.type === 'stdio' || (transport.type === 'docker' && 'image' in transport.target);
}

/** Whose connection a call may use. `session` is the default for stateful-era servers, `shared` for stateless ones. */
export type Isolation = 'shared' | 'session' | 'principal';

interface ServerLimits {
  /** Longest message taken from the server; above it the call ends in TOO_LARGE. Default 16 MiB. */
  readonly maxMessageBytes: number;
  /** Processes of this server at once. Default 16. */
  readonly maxProcesses: number;
  /** How often one caller may call one tool in a minute; absent: any number of times. */
  readonly callsPerMinute?: number | undefined;
}

export interface ToolFilter {
  /** Only these tools are offered; null for all. */
  readonly include: ReadonlySet<string> | null;
  readonly exclude: ReadonlySet<string>;
}

/** How a server tells its callers apart: by credentials of their own, by headers of their requests. */
export interface CallersApart {
  readonly credentials: boolean;
  /** What the server calls them, by the lower-case name that they have in requests of callers. */
  readonly headers: Readonly<Record<string, string>>;
}

/** The callers that one running side of such a server serves. */
export interface CallerPart {
  /** Short, and says nothing of the values. */
  readonly digest: string;
  /** Id of the principal whose credentials are used; null: of the gateway's. */
  readonly owner: string | null;
  /** `connectionDigest` of the whole server. */
  readonly of: string;
}

/** A registered MCP server definition: desired state only, never what runs. Immutable. */
export interface Server {
  readonly name: string;
  readonly transport: TransportSpec;
  readonly description: string | null;
  readonly isolation: Isolation | null;
  readonly replicas?: number;
  /** Of a server that is a process: the whole cluster runs it once. Absent: on every node that has it. */
  readonly singleton?: boolean;
  /** Request header whose value isolates stateless clients from each other; null without one. */
  readonly isolationHeader: string | null;
  /** Absent: it is the same for all callers. */
  readonly apart?: CallersApart | undefined;
  /** Whose side of it this definition is; absent: of all callers that are not told apart. */
  readonly caller?: CallerPart;
  /** Deadline of a call. Default 60 000. */
  readonly timeoutMs: number;
  readonly toolTimeoutMs: ReadonlyMap<string, number>;
  /** From the start of its process, or of the connection, to the end of the handshake. Absent: 60 000 or 30 000 (S1.14, S3.3). */
  readonly startupTimeoutMs?: number;
  /** When a call that was sent and not answered may be re-run. `hints` needs `trusted`. */
  readonly retry: 'never' | 'hints' | 'always';
  readonly trusted: boolean;
  /** Whether its answers may be kept for as long as it says, and requests for the same be made once (C1 to C9). */
  readonly cache: boolean;
  readonly start: 'eager' | 'lazy';
  /** A connection of which nothing was heard for so long is asked whether it is there; 0 for never. Default 30 000. */
  readonly probeMs: number;
  readonly drift?: DriftPolicy;
  /** Id of the one client session that sees it, of a server that was added for it; absent: all callers that may use it. */
  readonly onlyFor?: string;
  /** There for a while: nothing of it is kept over a restart. */
  readonly temporary?: boolean;
  readonly enabled: boolean;
  /** What is wrong with its definition, and what to do: it is known by name and never started. Absent: nothing is wrong. */
  readonly misconfigured?: string;
  readonly tools: ToolFilter;
  readonly limits: ServerLimits;
  readonly origin: Origin;
  /** Changes when and only when something changes that needs a new connection (S3.12). */
  readonly connectionDigest: string;
}

/** `connectionDigest` of the whole server, whichever of its callers the definition is for. */
export function digestOfWhole({ caller, connectionDigest }: Pick<Server, 'caller' | 'connectionDigest'>): string {
  return caller?.of ?? connectionDigest;
}

/** What its definition says of credentials. */
export function authOf({ transport }: Pick<Server, 'transport'>): AuthSpec {
  return ('auth' in transport ? transport.auth : undefined) ?? PLAIN_AUTH;
}

/** Whether the gateway gets credentials for it: it is behind a URL, and its definition has none of its own. */
export function takesTokens({ transport }: Pick<Server, 'transport'>): boolean {
  if (!('url' in transport)) return false;
  return !Object.keys(transport.headers).some((name) => name.toLowerCase() === 'authorization');
}

/** Whether a user gets them, by a login. */
export function takesLogin(server: Pick<Server, 'transport'>): boolean {
  const { exec, grant } = authOf(server);
  return takesTokens(server) && exec === null && grant === 'authorization_code';
}

/** What a transport consists of, equal for equal ones. It holds the secrets, so keep only a digest of it. */
export function transportFacts(transport: TransportSpec): unknown {
  switch (transport.type) {
    case 'memory':
      return ['memory', transport.key];
    case 'stdio': {
      const { command, args, env, inheritEnv, cwd, ssh = null, runAs = null } = transport;
      const inherited = typeof inheritEnv === 'boolean' ? inheritEnv : [...inheritEnv].sort();
      const elsewhere = [...(ssh === null ? [] : [ssh]), ...(runAs === null ? [] : [{ runAs }])];
      return ['stdio', command, args, sorted(revealed(env)), inherited, cwd, ...elsewhere];
    }
    case 'docker':
      return ['docker', transport.target, sorted(revealed(transport.env)), transport.engine];
    default: {
      const { type, url, sseFallback = false, headers, tls } = transport;
      const lowered = Object.entries(revealed(headers)).map(([name, value]) => [name.toLowerCase(), value]);
      const named = sorted(Object.fromEntries(lowered));
      const auth = transport.auth === undefined ? [] : [authFacts(transport.auth)];
      const forwarded =
        transport.forwardHeaders === undefined ? [] : [{ forwardHeaders: sorted(transport.forwardHeaders) }];
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
  return exec === null ? said : [...said, { ...exec, env: sorted(revealed(exec.env)) }];
}

function sorted(map: Readonly<Record<string, string>>): readonly (readonly [string, string])[] {
  return Object.entries(map).sort(([a], [b]) => (a < b ? -1 : 1));
}
