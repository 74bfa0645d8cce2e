import { z } from 'zod';
import { DEFAULTS, MAX_TIME_MS } from '../../src/config/defaults.ts';
import { serverSchema } from './schema-server.ts';

const port = z.int().min(0).max(65_535);
const timeMs = z.int().min(1).max(MAX_TIME_MS);
const hosts = z.array(z.string().min(1).max(255));

const servers = z.record(z.string(), serverSchema);

const agentSchema = z.strictObject({
  key: z.string().min(1).describe('Bearer token of the caller: at least 16 characters, `${…}` allowed.'),
  servers: z.array(z.string()).optional().describe('The servers that it may see and call; all if missing.'),
});

/** Keys of our own at the top of a file, beside the servers. */
const settingsShape = {
  agents: z
    .record(z.string(), agentSchema)
    .optional()
    .describe('Callers with their own keys. Without agents, every client that can connect may use everything.'),
  unknownCallers: z
    .enum(['refuse', 'allow'])
    .default(DEFAULTS.unknownCallers)
    .optional()
    .describe(
      'What a caller without a valid key gets if agents are configured: 401 (`refuse`), or everything (`allow`).',
    ),
  listen: z
    .strictObject({
      host: z.string().min(1).default(DEFAULTS.host).optional().describe('Address to listen on for MCP.'),
      port: port.default(DEFAULTS.port).optional().describe('Port to listen on; 0 selects a free one.'),
      publicUrl: z
        .string()
        .min(1)
        .max(2_048)
        .optional()
        .describe(
          'Address under which browsers and other machines reach the MCP listener, such as `https://mcp.example.com`; for logins at servers. Its host is accepted.',
        ),
      trustedProxies: hosts.optional().describe('Addresses or CIDR blocks whose X-Forwarded-* headers are trusted.'),
      allowedHosts: hosts.optional().describe('Host names accepted in addition to loopback and the bound address.'),
      allowedOrigins: hosts
        .optional()
        .describe('Browser origins accepted in addition to loopback; only these get CORS headers.'),
      anonymousRegistry: z
        .boolean()
        .default(false)
        .optional()
        .describe(
          'Callers without a key may read the list of all servers at `/v0.1/servers`, if agents are configured; calls still need a key.',
        ),
      insecure: z
        .boolean()
        .default(false)
        .optional()
        .describe('Allow other addresses than loopback without agents and TLS, also for the control API.'),
      maxBodyBytes: z
        .int()
        .min(1024)
        .max(1024 * 1024 * 1024)
        .default(DEFAULTS.maxBodyBytes)
        .optional()
        .describe(
          'Largest request body of a client. All bodies in receipt share an eighth of the heap limit, at least 32 MiB and twice this value; a further one gets 503.',
        ),
      maxConnections: z
        .int()
        .min(1)
        .max(1_000_000)
        .default(DEFAULTS.maxConnections)
        .optional()
        .describe('Concurrent client connections.'),
    })
    .optional()
    .describe('The MCP listener.'),
  tls: z
    .strictObject({
      cert: z.string().min(1).describe('PEM file of the certificate chain.'),
      key: z.string().min(1).describe('PEM file of its key.'),
    })
    .optional()
    .describe('HTTPS for the MCP listener. The gateway reloads the files when they change.'),
  control: z
    .strictObject({
      host: z.string().min(1).default(DEFAULTS.host).optional().describe('Address of the control listener.'),
      port: port
        .default(DEFAULTS.controlPort)
        .optional()
        .describe('Port of the control listener; 0 selects a free one.'),
      token: z
        .string()
        .min(1)
        .optional()
        .describe('Control token beside the one in the data folder, at least 16 characters; for other machines.'),
      tls: z
        .strictObject({
          cert: z.string().min(1).describe('PEM file of the certificate chain.'),
          key: z.string().min(1).describe('PEM file of its key.'),
          clientCa: z
            .string()
            .min(1)
            .optional()
            .describe('PEM file of authorities: clients need a certificate of theirs, and programs then no token.'),
        })
        .optional()
        .describe('HTTPS for the control listener; commands on this machine use a listener of their own on loopback.'),
      allowedHosts: z
        .array(z.string().min(1))
        .optional()
        .describe('Host names that requests to the control listener may name, beside its address.'),
      publicUrl: z
        .string()
        .min(1)
        .optional()
        .describe('Address of the control listener behind a proxy, for the console.'),
      commands: z
        .array(z.string().min(1).max(4096))
        .max(1000)
        .optional()
        .describe(
          'Commands of servers that the control token alone may add, as written there (`npx`, or an absolute path). None by default: a command also needs the exec token.',
        ),
    })
    .optional()
    .describe('The control listener: status, metrics, commands.'),
  metrics: z
    .strictObject({
      token: z
        .string()
        .min(1)
        .optional()
        .describe(
          'Bearer token that reads `/metrics` and nothing else, at least 16 characters. The control token reads it too.',
        ),
      listen: z
        .string()
        .min(1)
        .optional()
        .describe(
          'A listener for `/metrics` alone, as `0.0.0.0:9464`. Without `token` it is open to all who reach it. A change needs a restart.',
        ),
    })
    .optional()
    .describe('Who may read the metrics: [watching.md](watching.md#metrics-and-traces).'),
  telemetry: z
    .strictObject({
      traces: z
        .strictObject({
          otlp: z
            .string()
            .min(1)
            .describe(
              'OTLP/HTTP address of the receiver, as `http://localhost:4318`; `/v1/traces` is added to a bare one.',
            ),
          sample: z
            .number()
            .min(0)
            .max(1)
            .default(DEFAULTS.traceSample)
            .optional()
            .describe(
              'Share of the traces that begin here that are recorded. Others follow the decision of their caller.',
            ),
          headers: z
            .record(z.string(), z.string())
            .optional()
            .describe('HTTP headers for the receiver. The values are treated as secrets.'),
        })
        .optional()
        .describe('Send spans.'),
      metrics: z
        .strictObject({
          otlp: z.string().min(1).describe('The same for metrics, with `/v1/metrics`.'),
          intervalMs: z
            .int()
            .min(1_000)
            .max(MAX_TIME_MS)
            .default(DEFAULTS.metricsIntervalMs)
            .optional()
            .describe('How often they are sent.'),
          headers: z
            .record(z.string(), z.string())
            .optional()
            .describe('HTTP headers for the receiver. The values are treated as secrets.'),
        })
        .optional()
        .describe('Send the metrics of `/metrics`.'),
    })
    .optional()
    .describe('Export to OpenTelemetry: [watching.md](watching.md#metrics-and-traces). A change needs a restart.'),
  sessions: z
    .strictObject({
      idleMs: timeMs
        .default(DEFAULTS.sessionIdleMs)
        .optional()
        .describe('The gateway ends a client session after this time without requests and streams.'),
      max: z
        .int()
        .min(1)
        .max(1_000_000)
        .default(DEFAULTS.maxSessions)
        .optional()
        .describe(
          'Concurrent client sessions, and the same number of listen streams of clients without sessions. A cluster has room for as many on each of its nodes.',
        ),
      maxPerPrincipal: z
        .int()
        .min(1)
        .max(1_000_000)
        .default(DEFAULTS.maxSessionsPerPrincipal)
        .optional()
        .describe('The same for one caller.'),
    })
    .optional()
    .describe('Client sessions of the stateful revisions.'),
  firstListWaitMs: z
    .int()
    .min(0)
    .max(60_000)
    .default(DEFAULTS.firstListWaitMs)
    .optional()
    .describe(
      'How long a list request waits for servers that start and were never listed before; at most 500 ms for a server that cannot be reached; at `/servers/{name}/mcp` at least 30 s.',
    ),
  maxTimeoutMs: timeMs
    .default(DEFAULTS.maxTimeoutMs)
    .optional()
    .describe('Upper limit of any call, with or without progress. A longer `timeoutMs` of a server or tool raises it.'),
  maxProcesses: z
    .int()
    .min(1)
    .max(100_000)
    .default(DEFAULTS.maxProcesses)
    .optional()
    .describe('Concurrent processes of all local servers.'),
  pool: z
    .strictObject({
      idleTimeoutMs: timeMs
        .default(DEFAULTS.pool.idleTimeoutMs)
        .optional()
        .describe('The gateway closes a connection of one session or caller after this time without requests.'),
      sleepAfterMs: z
        .int()
        .min(0)
        .max(MAX_TIME_MS)
        .default(DEFAULTS.pool.sleepAfterMs)
        .optional()
        .describe(
          'At the process limit the gateway ends the process that was idle longest, and notifies its session. A process with a request within this time is kept, unless its client is gone; 0 keeps none.',
        ),
      sweepMs: timeMs
        .min(1_000)
        .default(DEFAULTS.pool.sweepMs)
        .optional()
        .describe('Interval of checks for idle and failed connections.'),
      maxErrors: z
        .int()
        .min(1)
        .max(1_000_000)
        .default(DEFAULTS.pool.maxErrors)
        .optional()
        .describe('Consecutive failed requests after which the gateway replaces a connection.'),
    })
    .optional()
    .describe('The pool of open connections to servers.'),
  data: z
    .strictObject({
      dir: z
        .string()
        .min(1)
        .optional()
        .describe('The data folder; by default one per file, in the XDG state folder (docs/gateways.md).'),
    })
    .optional()
    .describe('Storage on disk.'),
  registry: z
    .string()
    .min(1)
    .optional()
    .describe(
      'Where `trunkline search` and `trunkline add` find servers by name: an address, or a file or folder of server.json documents (docs/registry.md); the registry of the MCP project by default.',
    ),
  cluster: z
    .strictObject({
      nats: z
        .union([z.string().min(1), z.array(z.string().min(1)).min(1)])
        .optional()
        .describe('NATS servers: `nats://host:4222` or `tls://host:4222`, one or several of the same cluster.'),
      secret: z
        .string()
        .min(1)
        .optional()
        .describe(
          'The secret of the nodes, the same on all: at least 32 bytes, preferably as `${file:…}` or `${…}`. Default: `TRUNKLINE_CLUSTER_SECRET`, or the file named by `TRUNKLINE_CLUSTER_SECRET_FILE`.',
        ),
      previousSecret: z
        .string()
        .min(1)
        .optional()
        .describe(
          'A second secret that is accepted while the nodes change to a new one: first the next secret, then the previous one.',
        ),
      name: z
        .string()
        .regex(/^[A-Za-z0-9_-]{1,32}$/)
        .optional()
        .describe(
          'The name of the cluster, if several share a NATS account: its subjects and buckets begin with `trunkline-NAME` instead of `trunkline`. Another name is another cluster.',
        ),
      node: z.string().min(1).max(63).optional().describe('Display name of this node; by default the host name.'),
      user: z.string().min(1).optional().describe('NATS user.'),
      password: z.string().min(1).optional().describe('The password of that user.'),
      token: z.string().min(1).optional().describe('NATS token, if NATS uses one token for all.'),
      nkey: z.string().min(1).optional().describe('Seed of an nkey (`SU…`) of a NATS user.'),
      credentials: z.string().min(1).optional().describe('A `.creds` file: a JWT with the seed of its key.'),
      tls: z
        .strictObject({
          ca: z.string().min(1).optional().describe('PEM file of the authorities to trust for the NATS certificate.'),
          cert: z.string().min(1).optional().describe('PEM file of the client certificate for NATS.'),
          key: z.string().min(1).optional().describe('PEM file of its key.'),
        })
        .optional()
        .describe('TLS to NATS; `tls://` addresses use TLS without this, too.'),
      onBusLoss: z
        .enum(['fence', 'serve'])
        .default('fence')
        .optional()
        .describe(
          'What a node without NATS does with what only one node may own: refuse calls to it (`fence`), or keep serving what it owns (`serve`), at the risk that another node serves it too.',
        ),
      sharedProcesses: z
        .enum(['node', 'session'])
        .default('node')
        .optional()
        .describe(
          'Which process of a local server with `isolation: shared` serves a session whose requests reach several nodes: the one of the node that each request reaches (`node`), or one for the whole session (`session`), to which calls cross NATS; the same value at all nodes.',
        ),
      streamCopiesBytes: z
        .int()
        .min(16 * 1024 * 1024)
        .max(64 * 1024 * 1024 * 1024)
        .default(DEFAULTS.streamCopiesBytes)
        .optional()
        .describe(
          'Memory of NATS for copies of streams, with which clients of a dead node resume; the same value at all nodes. A session gets a sixteenth for its own streams and a sixteenth for its answers, and less while they are nearly full.',
        ),
      store: z
        .string()
        .min(1)
        .optional()
        .describe(
          'The run-time store of the cluster (added servers, suspensions, pins): `postgresql://user:password@host:5432/database`. Without it these are kept in JetStream; secrets and logins stay with each node.',
        ),
      publicSubjects: z
        .boolean()
        .default(false)
        .optional()
        .describe('Serve `mcp.{name}.execute` and `mcp.{name}.list-tools` to other programs on NATS.'),
      publicPrincipal: z
        .string()
        .min(1)
        .optional()
        .describe('The agent of programs that send no key; without it they are refused.'),
    })
    .optional()
    .describe('Several nodes as one gateway, over NATS (docs/cluster.md).'),
  log: z
    .strictObject({
      level: z
        .enum(['debug', 'info', 'warn', 'error'])
        .default(DEFAULTS.logLevel)
        .optional()
        .describe('The lowest level that is logged; `stdio` logs from `warn` on.'),
    })
    .optional()
    .describe('Logging.'),
};

/** A value that a client asks its user for; here the terminal or `TRUNKLINE_INPUT_<ID>`. */
const inputSchema = z.looseObject({
  type: z.string().optional().describe('`promptString`; other types are ignored.'),
  id: z.string().min(1).describe('The name used in `${input:…}`.'),
  description: z.string().optional().describe('The prompt for the user.'),
  default: z.string().optional().describe('The value for an empty answer.'),
  password: z.boolean().optional().describe('Hide the answer.'),
});

/** A whole file as the published JSON Schema describes it: our own keys, and the containers of clients' files. */
export const configSchema = z.strictObject({
  $schema: z.string().optional().describe('Address of the JSON Schema, for editors.'),
  mcpServers: servers
    .optional()
    .describe('The servers by name, as in the files of Claude, Cursor, Windsurf, Gemini and others.'),
  servers: servers.optional().describe('The same as `mcpServers` (VS Code).'),
  mcp_servers: servers.optional().describe('The same as `mcpServers` (Codex).'),
  context_servers: servers.optional().describe('The same as `mcpServers` (Zed).'),
  inputs: z.array(inputSchema).optional().describe('Values for `${input:…}` (VS Code).'),
  ...settingsShape,
});
