// Generated from scripts/schema/schema.ts by `npm run generate`. Do not edit.

interface ServerInputAuthExec {
  /** The program. Never run by a shell. */
  readonly command: string;
  /** Its arguments. */
  readonly args?: readonly (string | number | boolean)[] | undefined;
  /** Its environment variables, in addition to the few that local servers get. */
  readonly env?: Readonly<Record<string, string | number | boolean>> | undefined;
  /** How long it may take. */
  readonly timeoutMs?: number | undefined;
}

interface ServerInputAuth {
  /** `authorization_code`, the default, is a login of a user: `trunkline login`. The others need no user. */
  readonly grant?: 'authorization_code' | 'client_credentials' | 'token_exchange' | 'enterprise_managed' | 'workload_identity' | undefined;
  /** Whose the credentials are: one for all callers (`gateway`, the default), or each principal has its own (`principal`), and no answer, list or connection of one is ever used for another. */
  readonly per?: 'gateway' | 'principal' | undefined;
  /** Client registered with the authorization server beforehand. */
  readonly clientId?: string | undefined;
  /** Its secret. */
  readonly clientSecret?: string | undefined;
  /** Its key for `private_key_jwt`: PKCS 8 PEM, as in `${file:key.pem}`. */
  readonly privateKey?: string | undefined;
  /** The same as `clientId` (Cursor). */
  readonly CLIENT_ID?: string | undefined;
  /** The same as `clientSecret` (Cursor). */
  readonly CLIENT_SECRET?: string | undefined;
  /** Replaces the scopes that the server asks for. */
  readonly scopes?: readonly string[] | string | undefined;
  /** The only authorization server that is accepted. */
  readonly issuer?: string | undefined;
  /** Token that is exchanged, or assertion of the workload. */
  readonly subjectToken?: string | undefined;
  /** File with that token, read for each exchange. */
  readonly subjectTokenFile?: string | undefined;
  /** Of `enterprise_managed`: token endpoint of the identity provider. */
  readonly idpTokenEndpoint?: string | undefined;
  /** Client that the identity provider knows. */
  readonly idpClientId?: string | undefined;
  /** Its secret. */
  readonly idpClientSecret?: string | undefined;
  /** Program that prints the credential for the server: [credentials.md](credentials.md). */
  readonly exec?: ServerInputAuthExec | undefined;
  /** Bind tokens to a key of the gateway (RFC 9449). */
  readonly dpop?: boolean | undefined;
}

interface ServerInputTools {
  /** Deadline of this tool. */
  readonly timeoutMs?: number | undefined;
}

interface ServerInputDocker {
  /** Image to run; it must exist on the machine. */
  readonly image?: string | undefined;
  /** Running container to attach to, started with `-i`; all sessions share it. */
  readonly container?: string | undefined;
  /** Address of the engine's API, `unix:///path` or `tcp://host:port`; `DOCKER_HOST` or the usual sockets by default. */
  readonly engine?: string | undefined;
  /** Network of the container, such as `none` or `host`. */
  readonly network?: string | undefined;
  /** `source:/target[:ro]`; the source is a path, relative to the configuration file, or the name of a volume. */
  readonly volumes?: readonly string[] | undefined;
  /** User in the container. */
  readonly user?: string | undefined;
  /** Only volumes are writable. */
  readonly readOnly?: boolean | undefined;
  /** Memory limit, in bytes or as `512m`. */
  readonly memory?: number | string | undefined;
  /** CPU limit, such as 0.5. */
  readonly cpus?: number | undefined;
  /** Limit of processes. */
  readonly pids?: number | undefined;
  /** Labels in addition to those of Trunkline. */
  readonly labels?: Readonly<Record<string, string>> | undefined;
}

interface ServerInputSsh {
  /** Host name, alias of the ssh configuration, or address. */
  readonly host: string;
  /** Remote user; by default that of the ssh configuration. */
  readonly user?: string | undefined;
  /** Port of the ssh server. */
  readonly port?: number | undefined;
  /** File of the private key. */
  readonly identityFile?: string | undefined;
  /** File of known host keys instead of the user's own. */
  readonly knownHostsFile?: string | undefined;
  /** Keys of unknown hosts are accepted and stored, or (`yes`) refused. A changed key is always refused. */
  readonly hostKeys?: 'accept-new' | 'yes' | undefined;
  /** Sessions to one host share one ssh connection, which stays open for a minute after the last. */
  readonly controlMaster?: boolean | undefined;
}

interface ServerInputRunAs {
  /** Name or number. The gateway has to run as root. */
  readonly user: string | number;
  /** Limit of processes and threads of the user, over all servers, against a server that forks without end. Needs `prlimit` (Linux). */
  readonly processes?: number | undefined;
}

interface ServerInputLimits {
  /** Largest message of the server. */
  readonly maxMessageBytes?: number | undefined;
  /** Concurrent processes of this server. */
  readonly maxProcesses?: number | undefined;
  /** How often one caller may call one tool of this server in a minute; further calls end in `RATE_LIMITED` with a `Retry-After`. In a cluster each node counts the calls that come in at it, so that N nodes let through at most N times as many. Default: no limit. */
  readonly callsPerMinute?: number | undefined;
}

interface ServerInputTls {
  /** PEM file of the authorities to trust instead of the default ones. */
  readonly ca?: string | undefined;
  /** PEM file of the client certificate. */
  readonly cert?: string | undefined;
  /** PEM file of the client certificate's key. */
  readonly key?: string | undefined;
}

/** A server as a configuration file has it under its name. */
export interface ServerInput {
  /** How the server is reached: `stdio` (also `local`), `docker`, `http` (also `streamable-http`, `streamableHttp`, `streamable_http`, `remote`), `sse` or `json`. If missing: stdio for a command; http for a url, with a fallback to sse. */
  readonly type?: string | undefined;
  /** The program of a local server, or the program and its arguments. Never run by a shell. */
  readonly command?: string | readonly (string | number | boolean)[] | undefined;
  /** The same as `command` (Goose). */
  readonly cmd?: string | undefined;
  /** Arguments of the program. */
  readonly args?: readonly (string | number | boolean)[] | undefined;
  /** Environment variables of the program, in addition to the few that it inherits. */
  readonly env?: Readonly<Record<string, string | number | boolean>> | undefined;
  /** The same as `env` (opencode). */
  readonly environment?: Readonly<Record<string, string | number | boolean>> | undefined;
  /** The same as `env` (Goose). */
  readonly envs?: Readonly<Record<string, string | number | boolean>> | undefined;
  /** Names of variables to inherit (Codex); like a list in `inheritEnv`. */
  readonly env_vars?: readonly string[] | undefined;
  /** The same as `env_vars` (Goose). */
  readonly env_keys?: readonly string[] | undefined;
  /** A file of NAME=value lines; `env` takes precedence (VS Code). */
  readonly envFile?: string | undefined;
  /** Working directory; by default the folder of the configuration file, with `ssh` the remote home folder. */
  readonly cwd?: string | undefined;
  /** Address of a remote server, http or https. */
  readonly url?: string | undefined;
  /** The same as `url` with type http (Gemini). */
  readonly httpUrl?: string | undefined;
  /** The same as `url` (Windsurf). */
  readonly serverUrl?: string | undefined;
  /** The same as `url` (Goose). */
  readonly uri?: string | undefined;
  /** HTTP headers of every request. The values are treated as secrets. */
  readonly headers?: Readonly<Record<string, string | number | boolean>> | undefined;
  /** The same as `headers` (Codex). */
  readonly http_headers?: Readonly<Record<string, string | number | boolean>> | undefined;
  /** Header names, each with the environment variable that holds its value (Codex). */
  readonly env_http_headers?: Readonly<Record<string, string>> | undefined;
  /** Name of the variable that holds the bearer token (Codex). */
  readonly bearer_token_env_var?: string | undefined;
  /** How the gateway gets credentials for a server behind a `url`. Without it everything is discovered when the server asks for a login. Text and `false` of client files have no effect. */
  readonly auth?: ServerInputAuth | string | boolean | undefined;
  /** Of clients: `clientId`, `clientSecret` and `scopes` are taken as in `auth`. */
  readonly oauth?: Readonly<Record<string, unknown>> | boolean | undefined;
  /** Of Codex; has no effect: the server says for what its tokens are. */
  readonly oauth_resource?: string | undefined;
  /** Of LibreChat; has no effect: the server says whether it asks for a login. */
  readonly requiresOAuth?: boolean | undefined;
  /** Of Gemini; has no effect. */
  readonly authProviderType?: string | undefined;
  /** The same as `auth.scopes` (Codex). */
  readonly scopes?: readonly string[] | undefined;
  /** The type, or an object with `type`, `url`, `command` and so on (Continue). */
  readonly transport?: string | Readonly<Record<string, unknown>> | undefined;
  /** false: the server is neither started nor listed. */
  readonly enabled?: boolean | undefined;
  /** The opposite of `enabled`. */
  readonly disabled?: boolean | undefined;
  /** Only these tools are listed and can be called. */
  readonly includeTools?: readonly string[] | undefined;
  /** The same as `includeTools` (Codex). */
  readonly enabled_tools?: readonly string[] | undefined;
  /** The same as `includeTools` (Goose); an empty list means all. */
  readonly available_tools?: readonly string[] | undefined;
  /** These tools are not listed and cannot be called. */
  readonly excludeTools?: readonly string[] | undefined;
  /** The same as `excludeTools` (Cline, Windsurf). */
  readonly disabledTools?: readonly string[] | undefined;
  /** The same as `excludeTools` (Codex). */
  readonly disabled_tools?: readonly string[] | undefined;
  /** Deadline of a call in that client's unit: milliseconds for Claude Code, Gemini and opencode, seconds for Cline, Roo, Goose and muster. Not in our own files: write `timeoutMs`. */
  readonly timeout?: number | undefined;
  /** Deadline of a call in seconds (Codex). */
  readonly tool_timeout_sec?: number | undefined;
  /** Time limit of a start, from the process or connection to the end of the handshake. Default: 60000 for processes, 300000 for commands that download their program first (`npx`, `uvx`, `docker run`, …), 30000 for a `url`. */
  readonly startupTimeoutMs?: number | undefined;
  /** `startupTimeoutMs` in seconds (Codex). */
  readonly startup_timeout_sec?: number | undefined;
  /** The same as `startupTimeoutMs` (Codex). */
  readonly startup_timeout_ms?: number | undefined;
  /** The same as `startupTimeoutMs` (LibreChat). */
  readonly initTimeout?: number | undefined;
  /** The same as `startupTimeoutMs` (Continue). */
  readonly connectionTimeout?: number | undefined;
  /** Text for people. A change does not restart the server. */
  readonly description?: string | undefined;
  /** Which calls share a connection: all (`shared`), those of a client session, or those of a caller (`principal`). Default: `session` for servers of the stateful revisions, `shared` for 2026-07-28. */
  readonly isolation?: 'shared' | 'session' | 'principal' | undefined;
  /** Processes that share the calls of a shared server (`isolation: shared`). A session stays with the process that it used first. */
  readonly replicas?: number | undefined;
  /** The cluster runs this local server once, on one of the nodes that have it; if that node is gone, on another. */
  readonly singleton?: boolean | undefined;
  /** Headers of a caller's requests that a server behind a `url` gets with the caller's calls: name in the request, name at the server. Callers with different values share no connection and no cached answer. `Authorization`, `Cookie` and headers of the protocol are never forwarded. */
  readonly forwardHeaders?: Readonly<Record<string, string>> | undefined;
  /** Request header whose value separates clients without sessions. */
  readonly isolationHeader?: string | undefined;
  /** Deadline of a call. */
  readonly timeoutMs?: number | undefined;
  /** Per tool, under its own name: `timeoutMs`. (A list of names, as in Copilot, means `includeTools`.) */
  readonly tools?: readonly string[] | Readonly<Record<string, ServerInputTools>> | undefined;
  /** Whether a call that was sent and not answered is sent again: `never`, if the tool declares that it is read-only or idempotent (`hints`; needs `trusted`), or `always`. */
  readonly retry?: 'never' | 'hints' | 'always' | undefined;
  /** Trust what the server declares about its tools. */
  readonly trusted?: boolean | undefined;
  /** Cache lists and resources of a 2026-07-28 server for the time that it declares, at most a day, and send concurrent equal requests once. false: every request goes to the server. */
  readonly cache?: boolean | undefined;
  /** Start with the gateway, or when the server is first needed. */
  readonly start?: 'eager' | 'lazy' | undefined;
  /** Time without messages on a connection after which the gateway probes the server, with `ping` or `server/discover`. Answered calls postpone the probe; 0: no probes. */
  readonly probeMs?: number | undefined;
  /** What happens to tools, prompts, resource templates and instructions that are new or changed since first use: nothing (`off`), report (`warn`), withhold until approved and keep the approved ones (`hold`), or withhold altogether (`block`). See drift.md. */
  readonly drift?: 'off' | 'warn' | 'hold' | 'block' | undefined;
  /** A server in a Docker or Podman container, which runs with open input and an init process and is removed when it ends. `args` are the arguments after the image, `command` replaces the entry point, `env` and `cwd` apply in the container. */
  readonly docker?: ServerInputDocker | undefined;
  /** The host that `command` runs on, as `user@host:port` or as an object. The gateway uses the local ssh program, without prompts; `env` and `cwd` apply to the remote process, and `~/` in `command` and `cwd` is its home folder. */
  readonly ssh?: string | ServerInputSsh | undefined;
  /** Additional variables that a local server inherits: true for all except those with TOKEN, SECRET or PASSWORD in their name, or a list of names. */
  readonly inheritEnv?: boolean | readonly string[] | undefined;
  /** The local user that runs the server, instead of the gateway's user. */
  readonly runAs?: ServerInputRunAs | undefined;
  /** Limits of this server. */
  readonly limits?: ServerInputLimits | undefined;
  /** Certificate files for a remote server. */
  readonly tls?: ServerInputTls | undefined;
}

interface ConfigInputInputs {
  /** `promptString`; other types are ignored. */
  readonly type?: string | undefined;
  /** The name used in `${input:…}`. */
  readonly id: string;
  /** The prompt for the user. */
  readonly description?: string | undefined;
  /** The value for an empty answer. */
  readonly default?: string | undefined;
  /** Hide the answer. */
  readonly password?: boolean | undefined;
  readonly [key: string]: unknown;
}

interface ConfigInputAgents {
  /** Bearer token of the caller: at least 16 characters, `${…}` allowed. */
  readonly key: string;
  /** The servers that it may see and call; all if missing. */
  readonly servers?: readonly string[] | undefined;
}

interface ConfigInputListen {
  /** Address to listen on for MCP. */
  readonly host?: string | undefined;
  /** Port to listen on; 0 selects a free one. */
  readonly port?: number | undefined;
  /** Address under which browsers and other machines reach the MCP listener, such as `https://mcp.example.com`; for logins at servers. Its host is accepted. */
  readonly publicUrl?: string | undefined;
  /** Addresses or CIDR blocks whose X-Forwarded-* headers are trusted. */
  readonly trustedProxies?: readonly string[] | undefined;
  /** Host names accepted in addition to loopback and the bound address. */
  readonly allowedHosts?: readonly string[] | undefined;
  /** Browser origins accepted in addition to loopback; only these get CORS headers. */
  readonly allowedOrigins?: readonly string[] | undefined;
  /** Callers without a key may read the list of all servers at `/v0.1/servers`, if agents are configured; calls still need a key. */
  readonly anonymousRegistry?: boolean | undefined;
  /** Allow other addresses than loopback without agents and TLS, also for the control API. */
  readonly insecure?: boolean | undefined;
  /** Largest request body of a client. All bodies in receipt share an eighth of the heap limit, at least 32 MiB and twice this value; a further one gets 503. */
  readonly maxBodyBytes?: number | undefined;
  /** Concurrent client connections. */
  readonly maxConnections?: number | undefined;
}

interface ConfigInputTls {
  /** PEM file of the certificate chain. */
  readonly cert: string;
  /** PEM file of its key. */
  readonly key: string;
}

interface ConfigInputControlTls {
  /** PEM file of the certificate chain. */
  readonly cert: string;
  /** PEM file of its key. */
  readonly key: string;
  /** PEM file of authorities: clients need a certificate of theirs, and programs then no token. */
  readonly clientCa?: string | undefined;
}

interface ConfigInputControl {
  /** Address of the control listener. */
  readonly host?: string | undefined;
  /** Port of the control listener; 0 selects a free one. */
  readonly port?: number | undefined;
  /** Control token beside the one in the data folder, at least 16 characters; for other machines. */
  readonly token?: string | undefined;
  /** HTTPS for the control listener; commands on this machine use a listener of their own on loopback. */
  readonly tls?: ConfigInputControlTls | undefined;
  /** Host names that requests to the control listener may name, beside its address. */
  readonly allowedHosts?: readonly string[] | undefined;
  /** Address of the control listener behind a proxy, for the console. */
  readonly publicUrl?: string | undefined;
  /** Commands of servers that the control token alone may add, as written there (`npx`, or an absolute path). None by default: a command also needs the exec token. */
  readonly commands?: readonly string[] | undefined;
}

interface ConfigInputMetrics {
  /** Bearer token that reads `/metrics` and nothing else, at least 16 characters. The control token reads it too. */
  readonly token?: string | undefined;
  /** A listener for `/metrics` alone, as `0.0.0.0:9464`. Without `token` it is open to all who reach it. A change needs a restart. */
  readonly listen?: string | undefined;
}

interface ConfigInputTelemetryTraces {
  /** OTLP/HTTP address of the receiver, as `http://localhost:4318`; `/v1/traces` is added to a bare one. */
  readonly otlp: string;
  /** Share of the traces that begin here that are recorded. Others follow the decision of their caller. */
  readonly sample?: number | undefined;
  /** HTTP headers for the receiver. The values are treated as secrets. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

interface ConfigInputTelemetryMetrics {
  /** The same for metrics, with `/v1/metrics`. */
  readonly otlp: string;
  /** How often they are sent. */
  readonly intervalMs?: number | undefined;
  /** HTTP headers for the receiver. The values are treated as secrets. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

interface ConfigInputTelemetry {
  /** Send spans. */
  readonly traces?: ConfigInputTelemetryTraces | undefined;
  /** Send the metrics of `/metrics`. */
  readonly metrics?: ConfigInputTelemetryMetrics | undefined;
}

interface ConfigInputSessions {
  /** The gateway ends a client session after this time without requests and streams. */
  readonly idleMs?: number | undefined;
  /** Concurrent client sessions, and the same number of listen streams of clients without sessions. A cluster has room for as many on each of its nodes. */
  readonly max?: number | undefined;
  /** The same for one caller. */
  readonly maxPerPrincipal?: number | undefined;
}

interface ConfigInputPool {
  /** The gateway closes a connection of one session or caller after this time without requests. */
  readonly idleTimeoutMs?: number | undefined;
  /** At the process limit the gateway ends the process that was idle longest, and notifies its session. A process with a request within this time is kept, unless its client is gone; 0 keeps none. */
  readonly sleepAfterMs?: number | undefined;
  /** Interval of checks for idle and failed connections. */
  readonly sweepMs?: number | undefined;
  /** Consecutive failed requests after which the gateway replaces a connection. */
  readonly maxErrors?: number | undefined;
}

interface ConfigInputData {
  /** The data folder; by default one per file, in the XDG state folder (docs/gateways.md). */
  readonly dir?: string | undefined;
}

interface ConfigInputClusterTls {
  /** PEM file of the authorities to trust for the NATS certificate. */
  readonly ca?: string | undefined;
  /** PEM file of the client certificate for NATS. */
  readonly cert?: string | undefined;
  /** PEM file of its key. */
  readonly key?: string | undefined;
}

interface ConfigInputCluster {
  /** NATS servers: `nats://host:4222` or `tls://host:4222`, one or several of the same cluster. */
  readonly nats?: string | readonly string[] | undefined;
  /** The secret of the nodes, the same on all: at least 32 bytes, preferably as `${file:…}` or `${…}`. Default: `TRUNKLINE_CLUSTER_SECRET`, or the file named by `TRUNKLINE_CLUSTER_SECRET_FILE`. */
  readonly secret?: string | undefined;
  /** A second secret that is accepted while the nodes change to a new one: first the next secret, then the previous one. */
  readonly previousSecret?: string | undefined;
  /** The name of the cluster, if several share a NATS account: its subjects and buckets begin with `trunkline-NAME` instead of `trunkline`. Another name is another cluster. */
  readonly name?: string | undefined;
  /** Display name of this node; by default the host name. */
  readonly node?: string | undefined;
  /** NATS user. */
  readonly user?: string | undefined;
  /** The password of that user. */
  readonly password?: string | undefined;
  /** NATS token, if NATS uses one token for all. */
  readonly token?: string | undefined;
  /** Seed of an nkey (`SU…`) of a NATS user. */
  readonly nkey?: string | undefined;
  /** A `.creds` file: a JWT with the seed of its key. */
  readonly credentials?: string | undefined;
  /** TLS to NATS; `tls://` addresses use TLS without this, too. */
  readonly tls?: ConfigInputClusterTls | undefined;
  /** What a node without NATS does with what only one node may own: refuse calls to it (`fence`), or keep serving what it owns (`serve`), at the risk that another node serves it too. */
  readonly onBusLoss?: 'fence' | 'serve' | undefined;
  /** Which process of a local server with `isolation: shared` serves a session whose requests reach several nodes: the one of the node that each request reaches (`node`), or one for the whole session (`session`), to which calls cross NATS; the same value at all nodes. */
  readonly sharedProcesses?: 'node' | 'session' | undefined;
  /** Memory of NATS for copies of streams, with which clients of a dead node resume; the same value at all nodes. A session gets a sixteenth for its own streams and a sixteenth for its answers, and less while they are nearly full. */
  readonly streamCopiesBytes?: number | undefined;
  /** The run-time store of the cluster (added servers, suspensions, pins): `postgresql://user:password@host:5432/database`. Without it these are kept in JetStream; secrets and logins stay with each node. */
  readonly store?: string | undefined;
  /** Serve `mcp.{name}.execute` and `mcp.{name}.list-tools` to other programs on NATS. */
  readonly publicSubjects?: boolean | undefined;
  /** The agent of programs that send no key; without it they are refused. */
  readonly publicPrincipal?: string | undefined;
}

interface ConfigInputLog {
  /** The lowest level that is logged; `stdio` logs from `warn` on. */
  readonly level?: 'debug' | 'info' | 'warn' | 'error' | undefined;
}

/** A whole configuration, in the format of a file (docs/config.md). */
export interface ConfigInput {
  /** Address of the JSON Schema, for editors. */
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
  readonly inputs?: readonly ConfigInputInputs[] | undefined;
  /** Callers with their own keys. Without agents, every client that can connect may use everything. */
  readonly agents?: Readonly<Record<string, ConfigInputAgents>> | undefined;
  /** What a caller without a valid key gets if agents are configured: 401 (`refuse`), or everything (`allow`). */
  readonly unknownCallers?: 'refuse' | 'allow' | undefined;
  /** The MCP listener. */
  readonly listen?: ConfigInputListen | undefined;
  /** HTTPS for the MCP listener. The gateway reloads the files when they change. */
  readonly tls?: ConfigInputTls | undefined;
  /** The control listener: status, metrics, commands. */
  readonly control?: ConfigInputControl | undefined;
  /** Who may read the metrics: [watching.md](watching.md#metrics-and-traces). */
  readonly metrics?: ConfigInputMetrics | undefined;
  /** Export to OpenTelemetry: [watching.md](watching.md#metrics-and-traces). A change needs a restart. */
  readonly telemetry?: ConfigInputTelemetry | undefined;
  /** Client sessions of the stateful revisions. */
  readonly sessions?: ConfigInputSessions | undefined;
  /** How long a list request waits for servers that start and were never listed before; at most 500 ms for a server that cannot be reached; at `/servers/{name}/mcp` at least 30 s. */
  readonly firstListWaitMs?: number | undefined;
  /** Upper limit of any call, with or without progress. A longer `timeoutMs` of a server or tool raises it. */
  readonly maxTimeoutMs?: number | undefined;
  /** Concurrent processes of all local servers. */
  readonly maxProcesses?: number | undefined;
  /** The pool of open connections to servers. */
  readonly pool?: ConfigInputPool | undefined;
  /** Storage on disk. */
  readonly data?: ConfigInputData | undefined;
  /** Where `trunkline search` and `trunkline add` find servers by name: an address, or a file or folder of server.json documents (docs/registry.md); the registry of the MCP project by default. */
  readonly registry?: string | undefined;
  /** Several nodes as one gateway, over NATS (docs/cluster.md). */
  readonly cluster?: ConfigInputCluster | undefined;
  /** Logging. */
  readonly log?: ConfigInputLog | undefined;
}
