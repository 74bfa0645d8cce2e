// Generated from src/config/schema/schema.ts by `npm run generate`. Do not edit.

interface ServerTools {
  /** Deadline of this tool. */
  readonly timeoutMs?: number | undefined;
}

interface ServerDocker {
  /** Image to run; it must be on the machine already. */
  readonly image?: string | undefined;
  /** Running container to attach to instead, started with `-i`; all sessions share it. */
  readonly container?: string | undefined;
  /** Address of the engine's API, `unix:///path` or `tcp://host:port`; `DOCKER_HOST` or the usual sockets by default. */
  readonly engine?: string | undefined;
  /** Network of the container, such as `none` or `host`. */
  readonly network?: string | undefined;
  /** `source:/target[:ro]`; sources as paths of this configuration, or names of volumes. */
  readonly volumes?: readonly string[] | undefined;
  /** User in the container. */
  readonly user?: string | undefined;
  /** Nothing outside of volumes can be written. */
  readonly readOnly?: boolean | undefined;
  /** Most memory, in bytes or as `512m`. */
  readonly memory?: number | string | undefined;
  /** Most processors, such as 0.5. */
  readonly cpus?: number | undefined;
  /** Most processes. */
  readonly pids?: number | undefined;
  /** Labels beside our own. */
  readonly labels?: Readonly<Record<string, string>> | undefined;
}

interface ServerSsh {
  /** Name, alias of the ssh configuration, or address. */
  readonly host: string;
  /** User there; ssh's own configuration decides where it is missing. */
  readonly user?: string | undefined;
  /** Port of the ssh server. */
  readonly port?: number | undefined;
  /** File of the private key. */
  readonly identityFile?: string | undefined;
  /** File of known host keys instead of the user's own. */
  readonly knownHostsFile?: string | undefined;
  /** Keys of unknown hosts are taken and kept, or (`yes`) refused. A changed key is always refused. */
  readonly hostKeys?: 'accept-new' | 'yes' | undefined;
  /** Connections to one host share one, which stays for a minute after the last. */
  readonly controlMaster?: boolean | undefined;
}

interface ServerRunAs {
  /** Name or number. The gateway has to run as root. */
  readonly user: string | number;
  /** Processes and threads that the user may have, of all servers together, so that a server that forks without end harms nobody else. Needs `prlimit` (Linux). */
  readonly processes?: number | undefined;
}

interface ServerLimits {
  /** Longest message taken from the server. */
  readonly maxMessageBytes?: number | undefined;
  /** Processes of this server at once. */
  readonly maxProcesses?: number | undefined;
}

interface ServerTls {
  /** PEM file of the authorities to trust instead of the usual ones. */
  readonly ca?: string | undefined;
  /** PEM file of the client certificate. */
  readonly cert?: string | undefined;
  /** PEM file of the client certificate's key. */
  readonly key?: string | undefined;
}

/** A server as it stands in a configuration file under its name. */
export interface ServerInput {
  /** How the server is reached: `stdio` (also `local`), `docker`, `http` (also `streamable-http`, `streamableHttp`, `streamable_http`, `remote`), `sse` or `json`. Inferred where it is missing: a command means stdio, a url means http with a fall-back to sse. */
  readonly type?: string | undefined;
  /** The program of a local server, or the program and its arguments. Never run by a shell. */
  readonly command?: string | readonly (string | number | boolean)[] | undefined;
  /** The same as `command` (Goose). */
  readonly cmd?: string | undefined;
  /** Arguments of the program. */
  readonly args?: readonly (string | number | boolean)[] | undefined;
  /** Environment variables of the program, beside the few it inherits. */
  readonly env?: Readonly<Record<string, string | number | boolean>> | undefined;
  /** The same as `env` (opencode). */
  readonly environment?: Readonly<Record<string, string | number | boolean>> | undefined;
  /** The same as `env` (Goose). */
  readonly envs?: Readonly<Record<string, string | number | boolean>> | undefined;
  /** Names of variables to inherit (Codex); like a list in `inheritEnv`. */
  readonly env_vars?: readonly string[] | undefined;
  /** The same as `env_vars` (Goose). */
  readonly env_keys?: readonly string[] | undefined;
  /** A file of NAME=value lines; `env` wins over it (VS Code). */
  readonly envFile?: string | undefined;
  /** Working directory; the configuration file's folder by default, with `ssh` the home folder there. */
  readonly cwd?: string | undefined;
  /** Address of a remote server, http or https. */
  readonly url?: string | undefined;
  /** The same as `url` with type http (Gemini). */
  readonly httpUrl?: string | undefined;
  /** The same as `url` (Windsurf). */
  readonly serverUrl?: string | undefined;
  /** The same as `url` (Goose). */
  readonly uri?: string | undefined;
  /** HTTP headers sent with every request. Their values are treated as secrets. */
  readonly headers?: Readonly<Record<string, string | number | boolean>> | undefined;
  /** The same as `headers` (Codex). */
  readonly http_headers?: Readonly<Record<string, string | number | boolean>> | undefined;
  /** Headers whose values are those of the named environment variables (Codex). */
  readonly env_http_headers?: Readonly<Record<string, string>> | undefined;
  /** Name of the variable that holds the bearer token (Codex). */
  readonly bearer_token_env_var?: string | undefined;
  /** The type, or an object that holds `type`, `url`, `command` and so on (Continue). */
  readonly transport?: string | Readonly<Record<string, unknown>> | undefined;
  /** false: the server is known but not started and not offered. */
  readonly enabled?: boolean | undefined;
  /** The opposite of `enabled`. */
  readonly disabled?: boolean | undefined;
  /** Only these tools are offered. */
  readonly includeTools?: readonly string[] | undefined;
  /** The same as `includeTools` (Codex). */
  readonly enabled_tools?: readonly string[] | undefined;
  /** The same as `includeTools` (Goose); an empty list means all. */
  readonly available_tools?: readonly string[] | undefined;
  /** These tools are not offered. */
  readonly excludeTools?: readonly string[] | undefined;
  /** The same as `excludeTools` (Cline, Windsurf). */
  readonly disabledTools?: readonly string[] | undefined;
  /** The same as `excludeTools` (Codex). */
  readonly disabled_tools?: readonly string[] | undefined;
  /** Deadline of a call in that client's unit: milliseconds for Claude Code, Gemini and opencode, seconds for Cline, Roo, Goose and muster. Not in our own files: write `timeoutMs`. */
  readonly timeout?: number | undefined;
  /** Deadline of a call in seconds (Codex). */
  readonly tool_timeout_sec?: number | undefined;
  /** How long a start may take, from the process or the connection to the end of the handshake. By default 60000 for what is started here, 300000 for a command that fetches its program first (`npx`, `uvx`, `docker run`, …), and 30000 for a `url`. */
  readonly startupTimeoutMs?: number | undefined;
  /** `startupTimeoutMs` in seconds (Codex). */
  readonly startup_timeout_sec?: number | undefined;
  /** The same as `startupTimeoutMs` (Codex). */
  readonly startup_timeout_ms?: number | undefined;
  /** The same as `startupTimeoutMs` (LibreChat). */
  readonly initTimeout?: number | undefined;
  /** The same as `startupTimeoutMs` (Continue). */
  readonly connectionTimeout?: number | undefined;
  /** For people. Changing it disturbs nothing. */
  readonly description?: string | undefined;
  /** Whose connection a call may use: one for all, one per client session, one per caller. By default `session` for servers of the stateful revisions and `shared` for those of 2026-07-28. */
  readonly isolation?: 'shared' | 'session' | 'principal' | undefined;
  /** Processes of a shared server (`isolation: shared`) among which calls are divided. A session keeps to the one that it has talked to. */
  readonly replicas?: number | undefined;
  /** The whole cluster runs this local server once, on one of the nodes that have it; when that node is gone, on another. */
  readonly singleton?: boolean | undefined;
  /** Request header whose value isolates clients without sessions from each other. */
  readonly isolationHeader?: string | undefined;
  /** Deadline of a call. */
  readonly timeoutMs?: number | undefined;
  /** Per tool, under its own name: `timeoutMs`. (A list of names, as in Copilot, means `includeTools`.) */
  readonly tools?: readonly string[] | Readonly<Record<string, ServerTools>> | undefined;
  /** When a call that was sent and not answered may be sent again: never, when the tool says it is read-only or idempotent (needs `trusted`), or always. */
  readonly retry?: 'never' | 'hints' | 'always' | undefined;
  /** What the server says of its tools is believed. */
  readonly trusted?: boolean | undefined;
  /** Lists and resources of a server of 2026-07-28 are kept for as long as it says, a day at most, and asked for once where several clients want the same. false: every request goes to the server. */
  readonly cache?: boolean | undefined;
  /** Start with the gateway, or when the server is first needed. */
  readonly start?: 'eager' | 'lazy' | undefined;
  /** How long nothing may be heard of a connection before it is asked whether the server is still there, with `ping` or `server/discover`. Nothing is asked while calls are answered; 0: never. */
  readonly probeMs?: number | undefined;
  /** What is done about tools, prompts, resource templates and instructions that are new or others than at first use: nothing, told (`warn`), kept back until approved while the approved ones go on (`hold`), or refused altogether (`block`). See drift.md. */
  readonly drift?: 'off' | 'warn' | 'hold' | 'block' | undefined;
  /** A server in a container of Docker or Podman, run with its input open, an init process, and removed at its end. `args` are the arguments after the image, `command` replaces its entry point, `env` and `cwd` are those in the container. */
  readonly docker?: ServerDocker | undefined;
  /** The host that `command` runs on, as `user@host:port` or as an object. Reached by the ssh program of this machine, without prompts; `env` and `cwd` are those of the remote process. */
  readonly ssh?: string | ServerSsh | undefined;
  /** Variables a local server inherits beyond the usual few: true for all, or a list of names. */
  readonly inheritEnv?: boolean | readonly string[] | undefined;
  /** The user of this machine whose process a local server is, instead of the gateway's own. */
  readonly runAs?: ServerRunAs | undefined;
  /** Limits of this server. */
  readonly limits?: ServerLimits | undefined;
  /** Certificates for a remote server, as files. */
  readonly tls?: ServerTls | undefined;
}

interface ConfigInputs {
  /** `promptString`; others are not asked. */
  readonly type?: string | undefined;
  /** The name that `${input:…}` refers to. */
  readonly id: string;
  /** What the user is asked. */
  readonly description?: string | undefined;
  /** What an empty answer means. */
  readonly default?: string | undefined;
  /** The answer is not shown. */
  readonly password?: boolean | undefined;
  readonly [key: string]: unknown;
}

interface ConfigAgents {
  /** What the caller shows as bearer token: at least 16 characters, `${…}` allowed. */
  readonly key: string;
  /** The servers it may see and reach; all where this is missing. */
  readonly servers?: readonly string[] | undefined;
}

interface ConfigListen {
  /** Address to listen on for MCP. */
  readonly host?: string | undefined;
  /** Port to listen on; 0 for any free one. */
  readonly port?: number | undefined;
  /** Addresses or CIDR blocks whose X-Forwarded-* headers are believed. */
  readonly trustedProxies?: readonly string[] | undefined;
  /** Host names accepted beside loopback and the bound address. */
  readonly allowedHosts?: readonly string[] | undefined;
  /** Browser origins accepted beside loopback; only these get CORS headers. */
  readonly allowedOrigins?: readonly string[] | undefined;
  /** Accept listening beyond this machine without agents and without TLS. */
  readonly insecure?: boolean | undefined;
  /** Longest request body taken from a client. Bodies in receipt share an eighth of the heap limit, at least 32 MiB and twice this; one more gets 503. */
  readonly maxBodyBytes?: number | undefined;
  /** Connections of clients at once. */
  readonly maxConnections?: number | undefined;
}

interface ConfigTls {
  /** PEM file of the certificate chain. */
  readonly cert: string;
  /** PEM file of its key. */
  readonly key: string;
}

interface ConfigControl {
  /** Address of the control listener. */
  readonly host?: string | undefined;
  /** Port of the control listener; 0 for any free one. */
  readonly port?: number | undefined;
  /** Programs that servers added with the control token alone may run, as they write them (`npx`, or an absolute path). None by default: running programs takes the exec token too. */
  readonly commands?: readonly string[] | undefined;
}

interface ConfigSessions {
  /** A client session without requests and streams for this long is ended. */
  readonly idleMs?: number | undefined;
  /** Client sessions at once, and as many listening streams of clients without one. */
  readonly max?: number | undefined;
  /** The same of one caller. */
  readonly maxPerPrincipal?: number | undefined;
}

interface ConfigPool {
  /** A connection of one session or caller without requests for this long is closed. */
  readonly idleTimeoutMs?: number | undefined;
  /** At the limit of processes the longest idle one is ended to make room, and its session is told. One that had a request within this time is kept, unless its client is gone; 0: none is kept for that. */
  readonly sleepAfterMs?: number | undefined;
  /** How often such connections are looked for. */
  readonly sweepMs?: number | undefined;
  /** Failed requests in a row after which a connection is replaced. */
  readonly maxErrors?: number | undefined;
}

interface ConfigData {
  /** Folder of sessions and known catalogues; by default in the XDG state folder. */
  readonly dir?: string | undefined;
}

interface ConfigClusterTls {
  /** PEM file of the authorities that NATS’ certificate may be of. */
  readonly ca?: string | undefined;
  /** PEM file of a certificate to show to NATS. */
  readonly cert?: string | undefined;
  /** PEM file of its key. */
  readonly key?: string | undefined;
}

interface ConfigCluster {
  /** Servers of NATS: `nats://host:4222` or `tls://host:4222`, one or several of the same cluster. */
  readonly nats?: string | readonly string[] | undefined;
  /** What all nodes know and nobody else: at least 32 bytes, best as `${file:…}` or `${…}`. By default `TRUNKLINE_CLUSTER_SECRET`, or the file named by `TRUNKLINE_CLUSTER_SECRET_FILE`. */
  readonly secret?: string | undefined;
  /** Another secret that is believed while nodes change from one to the other: first the next one, then the one before. */
  readonly previousSecret?: string | undefined;
  /** Name of this node for people; by default that of the machine. */
  readonly node?: string | undefined;
  /** User at NATS. */
  readonly user?: string | undefined;
  /** The password of that user. */
  readonly password?: string | undefined;
  /** Token at NATS, where it uses one for all. */
  readonly token?: string | undefined;
  /** Seed of an nkey (`SU…`) that NATS knows. */
  readonly nkey?: string | undefined;
  /** A `.creds` file: a JWT with the seed of its key. */
  readonly credentials?: string | undefined;
  /** TLS towards NATS; with `tls://` also without this. */
  readonly tls?: ConfigClusterTls | undefined;
  /** What a node does with what only one may own, while it does not reach NATS: refuse calls to it, or go on with what it owns already, at the risk that another node does the same. */
  readonly onBusLoss?: 'fence' | 'serve' | undefined;
  /** Where the nodes keep what is decided at run time (servers added, suspensions, pins): `postgresql://user:password@host:5432/database`. Without it such changes of servers are refused. */
  readonly store?: string | undefined;
  /** Serve `mcp.{name}.execute` and `mcp.{name}.list-tools` to other programs on NATS. */
  readonly publicSubjects?: boolean | undefined;
  /** The agent that programs are there who show no key; without it they are refused. */
  readonly publicPrincipal?: string | undefined;
}

interface ConfigLog {
  /** Least severe level to log. */
  readonly level?: 'debug' | 'info' | 'warn' | 'error' | undefined;
}

/** A whole configuration, in the format of a file (docs/config.md). */
export interface ConfigInput {
  /** Address of this schema, for editors. */
  readonly $schema?: string | undefined;
  /** The servers by name, as in the files of Claude, Cursor, Windsurf, Gemini and others. */
  readonly mcpServers?: Readonly<Record<string, ServerInput>> | undefined;
  /** The same as `mcpServers` (VS Code). */
  readonly servers?: Readonly<Record<string, ServerInput>> | undefined;
  /** The same as `mcpServers` (Codex). */
  readonly mcp_servers?: Readonly<Record<string, ServerInput>> | undefined;
  /** The same as `mcpServers` (Zed). */
  readonly context_servers?: Readonly<Record<string, ServerInput>> | undefined;
  /** Values for `${input:…}` (VS Code). */
  readonly inputs?: readonly ConfigInputs[] | undefined;
  /** Callers with a key of their own. Without agents, everyone who can connect may use everything. */
  readonly agents?: Readonly<Record<string, ConfigAgents>> | undefined;
  /** What a caller without a known key gets when agents are configured: 401, or everything. */
  readonly unknownCallers?: 'refuse' | 'allow' | undefined;
  /** The MCP listener. */
  readonly listen?: ConfigListen | undefined;
  /** HTTPS for the MCP listener. The files are read again when they change. */
  readonly tls?: ConfigTls | undefined;
  /** The control listener: status, metrics, commands. */
  readonly control?: ConfigControl | undefined;
  /** Client sessions of the stateful revisions. */
  readonly sessions?: ConfigSessions | undefined;
  /** How long a list waits for servers that were never listed before and are starting; for one at whose address nobody is, half a second of it. */
  readonly firstListWaitMs?: number | undefined;
  /** Upper bound of any call, whatever its progress says. A longer `timeoutMs` of a server or tool raises it. */
  readonly maxTimeoutMs?: number | undefined;
  /** Processes of local servers at once, all together. */
  readonly maxProcesses?: number | undefined;
  /** Connections to servers that are kept open. */
  readonly pool?: ConfigPool | undefined;
  /** What is kept on disk. */
  readonly data?: ConfigData | undefined;
  /** Several nodes as one gateway, over NATS (docs/cluster.md). */
  readonly cluster?: ConfigCluster | undefined;
  /** Logging. */
  readonly log?: ConfigLog | undefined;
}
